//! Sets up the machine itself, and checks that reverting restores it: modules, limits, addresses, a VLAN, and packages
//! with a real apt-get in a separate root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::changes::walk;
use crate::{run, text};

const WIRELANE: &str = env!("CARGO_BIN_EXE_wirelane");

fn wirelane(arguments: &[&str]) -> Value {
    answer(&run(WIRELANE, arguments))
}

fn answer(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What setup changes: files of /etc with their mode, the output of `ip`, and a module.
fn state() -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    walk(Path::new("/etc"), &mut found);
    for what in ["address", "link"] {
        let told = run("ip", &["-brief", what, "show"]).stdout;
        found.insert(what.into(), (0, told));
    }
    for end in 0..4 {
        let path = format!("/sys/class/net/v{end}/mtu");
        found.insert(path.clone().into(), (0, fs::read(path).expect("a value")));
    }
    let loaded = Path::new("/sys/module/rdma_ucm").exists();
    found.insert("rdma_ucm".into(), (loaded.into(), Vec::new()));
    found
}

#[test]
fn setup_apply_then_revert_leaves_the_machine_as_it_was() {
    for end in 0..4 {
        assert!(run("ip", &["link", "set", &format!("v{end}"), "mtu", "1500"]).status.success());
    }
    assert!(run("modprobe", &["-r", "rdma_ucm"]).status.success());
    assert!(run("ip", &["link", "add", "spare", "type", "dummy"]).status.success());
    // So that a service sets addresses here.
    fs::create_dir_all("/etc/network/interfaces.d").expect("a folder");
    fs::write("/etc/network/interfaces", "source /etc/network/interfaces.d/*\n").expect("a file");
    fs::create_dir_all("/run/network").expect("a folder");
    fs::write("/run/network/ifstate", "").expect("a file");
    let before = state();

    let addresses = ["--address=spare=10.99.0.1/24", "--address=spare@7=fd99::1/64"];
    let skip = ["--skip", "packages", "--yes", "--json"];
    let apply = [&["setup", "rdma", "apply"][..], &addresses, &skip].concat();
    let applied = wirelane(&apply);
    let made = applied["applied"]["changes"].as_array().expect("numbers").len();
    assert!(made >= 14, "{applied}");
    assert!(Path::new("/sys/module/rdma_ucm").exists());
    for end in 0..4 {
        let mtu = fs::read_to_string(format!("/sys/class/net/v{end}/mtu")).expect("a value");
        assert_eq!(mtu, "9000\n");
    }
    let told = text(&run("ip", &["-brief", "address", "show"]).stdout);
    assert!(told.contains("10.99.0.1/24") && told.contains("fd99::1/64"), "{told}");
    assert!(told.contains("spare.7@spare"), "{told}");
    let kept = fs::read_to_string("/etc/network/interfaces.d/wirelane-spare-7").expect("a file");
    assert!(kept.contains("iface spare.7 inet6 static\n    address fd99::1/64\n"), "{kept}");
    let limits = fs::read_to_string("/etc/security/limits.d/90-wirelane-memlock.conf");
    assert!(limits.expect("a file").contains("* - memlock unlimited"));

    let changes = wirelane(&["changes", "--json"]);
    let changes = changes["changes"].as_array().expect("changes").iter();
    let mut applied = changes.filter(|change| change["status"] != "reverted");
    assert!(applied.all(|change| change["status"] == "active"));
    assert_eq!(wirelane(&apply)["applied"]["changes"], Value::Array(Vec::new()), "nothing is left");

    let outcomes = wirelane(&["revert", "--last", "--json"]);
    let outcomes = outcomes.as_array().expect("outcomes");
    assert_eq!(outcomes.len(), made);
    assert!(outcomes.iter().all(|outcome| outcome["outcome"] == "reverted"), "{outcomes:?}");
    let after = state();
    for (path, was) in &before {
        let (was, now) = (&was.1, after.get(path).map(|now| text(&now.1)));
        assert_eq!(now, Some(text(was)), "{}", path.display());
    }
    assert_eq!(after, before, "no file or folder is left, with other rights or without");

    assert!(run("ip", &["link", "delete", "spare"]).status.success());
    fs::remove_file("/run/network/ifstate").expect("a file");
    assert!(run("modprobe", &["rdma_ucm"]).status.success());
    for end in 0..4 {
        assert!(run("ip", &["link", "set", &format!("v{end}"), "mtu", "9000"]).status.success());
    }
}

/// Packages with the requested names, in a private repository and root: the first depends on `librdma-test1`.
const REPOSITORY: &str = r#"
set -e
root=$1; dpkg=$root/var/lib/dpkg
mkdir -p "$dpkg/info" "$dpkg/updates" "$dpkg/triggers" "$root/var/lib/apt/lists/partial" "$root/repository" \
    "$root/var/cache/apt/archives/partial" "$root/etc/apt/preferences.d" "$root/etc/apt/apt.conf.d" "$root/var/log/apt"
: >"$dpkg/status"
echo "deb [trusted=yes] file:$root/repository ./" >"$root/etc/apt/sources.list"
package() {
    mkdir -p "$root/build/$1/DEBIAN"
    control=$root/build/$1/DEBIAN/control
    printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: test <test@localhost>\n%sDescription: test\n' \
        "$1" "$2" >"$control"
    file=$root/repository/$1.deb
    dpkg-deb --build "$root/build/$1" "$file" >/dev/null
    {
        cat "$control"
        echo "Filename: ./$1.deb"
        echo "Size: $(stat -c %s "$file")"
        echo "SHA256: $(sha256sum "$file" | cut -d' ' -f1)"
        echo
    } >>"$root/repository/Packages"
}
package librdma-test1
package rdma-core 'Depends: librdma-test1
'
package somebodys 'Depends: librdma-test1
'
for name in ibverbs-providers ibverbs-utils rdmacm-utils perftest iproute2 ethtool; do
    package "$name"
done
cat >"$root/apt.conf" <<END
Dir "$root";
Dir::State::status "$dpkg/status";
Dir::Bin::dpkg "/usr/bin/dpkg";
DPkg::Options { "--root=$root"; "--force-script-chrootless"; };
APT::Sandbox::User "root";
END
APT_CONFIG=$root/apt.conf apt-get -q update
APT_CONFIG=$root/apt.conf apt-get -y install ethtool
"#;

#[test]
fn exactly_the_installed_packages_are_removed() {
    let root = tempfile::tempdir().expect("a folder");
    let there = |name: &str| root.path().join(name).into_os_string();
    let sandboxed = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("APT_CONFIG", there("apt.conf"));
        command.env("DPKG_ADMINDIR", there("var/lib/dpkg")).output().expect("it runs")
    };
    let path = root.path().to_str().expect("a plain path");
    let made = run("sh", &["-c", REPOSITORY, "sh", path]);
    assert!(made.status.success(), "{}{}", text(&made.stdout), text(&made.stderr));
    let installed = || {
        let told = sandboxed("dpkg-query", &["-W", "-f", "${Package} ${db:Status-Abbrev}\n"]);
        text(&told.stdout)
    };
    assert_eq!(installed(), "ethtool ii \n", "one is there already");

    let apply = ["setup", "rdma", "apply", "--only", "packages", "--yes", "--json"];
    let applied = answer(&sandboxed(WIRELANE, &apply));
    let name = applied["steps"][0]["name"].as_str().expect("a name");
    assert!(name.ends_with(" and 1 dependency"), "{name}");
    let told = installed();
    assert!(told.contains("librdma-test1 ii") && told.contains("rdma-core ii"), "{told}");
    assert_eq!(told.lines().count(), 8, "{told}");
    let again = answer(&sandboxed(WIRELANE, &apply));
    assert_eq!(again["applied"]["changes"], Value::Array(Vec::new()));

    // A package installed since, and its dependencies, stay.
    assert!(sandboxed("apt-get", &["-y", "install", "somebodys"]).status.success());
    let output = sandboxed(WIRELANE, &["revert", "--last"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    assert!(
        text(&output.stdout).contains("others need them: somebodys"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(installed().lines().count(), 9, "nothing was removed");
    assert!(sandboxed("apt-get", &["-y", "purge", "somebodys"]).status.success());
    let outcomes = answer(&sandboxed(WIRELANE, &["revert", "--last", "--json"]));
    assert_eq!(outcomes[0]["outcome"], "reverted", "{outcomes}");
    assert_eq!(installed(), "ethtool ii \n", "as it was");
}
