//! libfabric: with its tcp provider, which every libfabric has, and without any libfabric.

use super::*;

#[track_caller]
fn good(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// The program without libfabric, whatever this machine has.
fn without_libfabric(arguments: &[&str]) -> Command {
    let mut command = wirelane(arguments);
    command.env("WIRELANE_LIBFABRIC", "/nowhere/libfabric.so.1");
    command
}

#[cfg(feature = "external-tests")]
#[test]
fn a_store_is_used_over_libfabric_and_the_status_names_the_provider() {
    let server = Server::start(&["--memory", "64MiB", "--transport", "ofi"]);
    let kv = |arguments: &[&str]| {
        let way = ["kv", "--server", &server.links, "--transport", "ofi"];
        run(&[&way, arguments].concat())
    };
    good(&kv(&["put", "k", "a value"]));
    assert_eq!(good(&kv(&["get", "k"])), "a value");
    let said = stderr(&kv(&["--verbose", "get", "k"]));
    assert!(said.contains("over ofi ("), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("value");
    let value: Vec<u8> = (0..5_000_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&file, &value).expect("a file");
    good(&kv(&["put", "large", "--file", file.to_str().expect("a plain path")]));
    assert!(kv(&["get", "large"]).stdout == value, "a value that uses writes and reads");
    let ask = ["bench", "--ops", "2000", "--value-size", "65536", "--keys", "20", "--json"];
    let report = json(&good(&kv(&[&ask[..], &["--read-ratio", "0.5", "--depth", "4"]].concat())));
    assert_eq!((&report["transport"], &report["errors"]), (&"ofi".into(), &0.into()));
    let transports = server.status()["transports"].clone();
    let offer = offer(&transports);
    assert_eq!(offer["offered"], true, "{offer}");
    assert!(offer["why"].as_str().is_some_and(|why| why.contains("tcp")), "{offer}");
}

/// A dependency of libfabric installs its own signal handlers.
#[cfg(feature = "external-tests")]
#[test]
fn a_server_with_libfabric_exits_with_0_on_sigterm() {
    let server = Server::start(&["--transport", "ofi"]);
    let put = ["kv", "--server", &server.links, "--transport", "ofi", "put", "k", "v"];
    good(&run(&put));
    server.signal("-TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[cfg(feature = "external-tests")]
#[test]
fn a_link_names_its_provider() {
    let server = Server::start(&["--transport", "ofi"]);
    let output = run(&["connect", &server.links, "--transport", "ofi", "--seconds", "0.1"]);
    let text = good(&output);
    for words in
        ["transport  ofi: both ends have libfabric provider tcp", "1 MiB writes ", "1 MiB reads "]
    {
        assert!(text.contains(words), "`{words}` is missing in: {text}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("tcp.yaml");
    std::fs::write(&settings, "transport:\n  ofi_provider: tcp\n").expect("a file");
    let settings = settings.to_str().expect("a plain path");
    let named = Server::start(&["--config", settings]);
    let connect = ["connect", &named.links, "--config", settings, "--no-measure", "--json"];
    let link = &json(&good(&run(&connect)))["link"];
    let rails: Vec<_> = link["rails"].as_array().expect("rails").iter().collect();
    assert!(rails.iter().any(|rail| rail["transport"] == "ofi"), "named, so it is planned: {link}");
    assert_eq!(link["transport"], "shm", "on one host there is something better: {link}");
}

#[cfg(feature = "external-tests")]
#[test]
fn lanes_are_measured_over_libfabric() {
    let line = ["bench", "bw", "--local", "--transport", "ofi", "--time", "0.2", "--json"];
    let output = run(&line);
    let point = &json(&good(&output))["points"][0];
    assert_eq!(point["transport"], "ofi", "{point}");
}

#[test]
fn a_server_without_libfabric_is_named_with_the_option_that_enables_it() {
    let server = Server::start(&["--memory", "16MiB"]);
    for command in [
        &["kv", "--server", &server.links, "--transport", "ofi", "get", "k"][..],
        &["connect", &server.links, "--transport", "ofi", "--no-measure"],
    ] {
        let output = run(command);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("ofi: not enabled at the peer"), "{text}");
        assert!(text.contains("`wirelane serve --transport ofi`"), "{text}");
    }
}

/// A missing libfabric is one line, and everything else works.
#[test]
fn without_libfabric_the_rest_works_and_the_reason_is_one_line() {
    let mut command = without_libfabric(&["serve", "--http", "127.0.0.1:0"]);
    command.args(["--listen", "127.0.0.1:0", "--memory", "16MiB"]);
    let server = Server::of(command);
    let kv = ["kv", "--server", &server.links];
    let put = [&kv[..], &["put", "k", "v"]].concat();
    good(&without_libfabric(&put).output().expect("it runs"));
    let refused = |arguments: &[&str]| {
        let output = without_libfabric(arguments).output().expect("it runs");
        let text = stderr(&output);
        assert_ne!(output.status.code(), Some(0), "{text}");
        assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
        assert!(text.contains("/nowhere/libfabric.so.1"), "{text}");
    };
    refused(&["bench", "bw", "--local", "--transport", "ofi", "--time", "0.1"]);
    let transports = server.status()["transports"].clone();
    assert_eq!(offer(&transports)["offered"], false, "{transports}");

    // If only libfabric is allowed there is no transport, and both ends report why.
    let mut command = without_libfabric(&["serve", "--http", "127.0.0.1:0"]);
    command.args(["--listen", "127.0.0.1:0", "--memory", "16MiB", "--transport", "ofi"]);
    let server = Server::of(command);
    let said = server.greeting.iter().find(|line| line.starts_with("ofi   off: "));
    assert!(said.is_some_and(|line| line.contains("/nowhere/libfabric.so.1")), "{said:?}");
    let example = server.greeting.iter().find(|line| line.starts_with("try "));
    assert!(example.is_some_and(|line| line.contains(" --transport ofi put ")), "{example:?}");
    refused(&["connect", &server.links, "--transport", "ofi"]);
    let transports = server.status()["transports"].clone();
    let why = offer(&transports)["why"].as_str().expect("a reason");
    assert!(why.contains("/nowhere/libfabric.so.1"), "{why}");
}

/// libfabric in a server's status.
fn offer(transports: &Value) -> &Value {
    let all = transports.as_array().expect("a list");
    all.iter().find(|offer| offer["name"] == "ofi").expect("libfabric")
}

#[cfg(feature = "external-tests")]
#[test]
fn devices_wide_shows_libfabric() {
    let text = good(&run(&["devices", "--wide"]));
    assert!(text.contains("libfabric 1.") && text.contains("with --transport ofi: tcp"), "{text}");
    let libfabric = &json(&good(&run(&["devices", "--json"])))["libfabric"];
    assert_eq!(libfabric["usable"], true, "{libfabric}");
    let output = without_libfabric(&["devices", "--json"]).output().expect("it runs");
    let libfabric = &json(&good(&output))["libfabric"];
    assert_eq!((&libfabric["usable"], &libfabric["code"]), (&false.into(), &"no_library".into()));
}

/// The doctor's findings on libfabric on this machine.
fn doctor(mut command: Command) -> Value {
    let output = command.args(["doctor", "libfabric", "--json"]).output().expect("it runs");
    let answer = json(&good(&output));
    let findings = answer["findings"].as_array().expect("a list").iter();
    let mut library = findings.filter(|one| one["subjects"][0] == "host");
    library.next().unwrap_or_else(|| panic!("{answer}")).clone()
}

#[cfg(feature = "external-tests")]
#[test]
fn the_doctor_reports_libfabric_and_why_links_do_not_use_it() {
    let finding = doctor(wirelane(&[]));
    assert_eq!((&finding["check"], &finding["severity"]), (&"libfabric".into(), &"ok".into()));
    let summary = finding["summary"].as_str().expect("a line");
    let words =
        " is available, but links do not use it: there is no EFA device, and neither ofi_provider";
    assert!(summary.starts_with("libfabric 1.") && summary.contains(words), "{summary}");
    let read = &finding["evidence"][0];
    assert!(read["source"].as_str().is_some_and(|file| file.contains("libfabric")), "{read}");
    assert!(read["value"].as_str().is_some_and(|value| value.contains("tcp")), "{read}");
    let alone = &finding["evidence"][1];
    assert_eq!(alone["source"], "transport ofi", "{alone}");
    let why = "the first available of efa, verbs;ofi_rxm, tcp";
    assert!(alone["value"].as_str().is_some_and(|value| value.ends_with(why)), "{alone}");
}

#[cfg(feature = "external-tests")]
#[test]
fn the_doctor_checks_the_configured_provider() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wirelane.yaml");
    let named = |provider: &str| {
        let text = format!("transport:\n  ofi_provider: {provider}\n");
        std::fs::write(&file, text).expect("a file");
        doctor(wirelane(&["--config", file.to_str().expect("a plain path")]))
    };
    let tcp = named("tcp");
    let summary = tcp["summary"].as_str().expect("a line");
    assert!(tcp["severity"] == "ok" && summary.contains("links use tcp"), "{tcp}");
    assert!(summary.ends_with("as requested"), "{tcp}");
    let efa = named("efa");
    let summary = efa["summary"].as_str().expect("a line");
    let words = "no libfabric provider efa; available: ";
    assert!(efa["severity"] == "warning" && summary.contains(words), "{efa}");
}

/// If libfabric is not needed, it is not loaded, and it is no fault that it is missing.
#[test]
fn the_doctor_does_not_load_libfabric_by_default() {
    let output = run(&["doctor", "--json"]);
    let answer = json(&stdout(&output));
    let findings = answer["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|one| one["check"] == "libfabric").expect("the check");
    let summary = finding["summary"].as_str().expect("a line");
    assert!(summary.starts_with("libfabric is not needed: there is no EFA device"), "{finding}");
    assert_eq!(finding["severity"], "ok");
    assert!(!finding["evidence"].to_string().contains("providers"), "{finding}");
    let missing = doctor(without_libfabric(&[]));
    let summary = missing["summary"].as_str().expect("a line");
    assert!(summary.starts_with("libfabric is requested, but unavailable: /nowhere/"), "{missing}");
    assert_eq!(
        (&missing["severity"], &missing["evidence"][0]["source"]),
        (&"warning".into(), &"libfabric by name".into())
    );
    assert!(missing["fix"][0].as_str().is_some_and(|line| line.contains("apt install")));
}

/// Opening the file blocks forever: a FIFO without a writer.
#[test]
fn a_libfabric_that_hangs_does_not_block_the_doctor() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("libfabric.so.1");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let finding = doctor(wirelane(&["--libfabric", fifo.to_str().expect("a plain path")]));
    let summary = finding["summary"].as_str().expect("a line");
    assert!(summary.ends_with("no answer within 10 s"), "{finding}");
}

/// A `/sys` with an EFA device, as in a pod with the host's.
fn sys_with_efa() -> tempfile::TempDir {
    let sys = tempfile::tempdir().expect("a folder");
    let at = |path: &str| sys.path().join(path);
    let device = "devices/pci0000:00/0000:00:06.0";
    let port = format!("{device}/infiniband/rdmap0s6/ports/1");
    for folder in [&port, "bus/pci/devices", "bus/pci/drivers/efa", "class/infiniband"] {
        std::fs::create_dir_all(at(folder)).expect("a folder");
    }
    let files = [("vendor", "0x1d0f\n"), ("device", "0xefa2\n")]
        .map(|(name, text)| (format!("{device}/{name}"), text));
    for (file, text) in files.into_iter().chain([(format!("{port}/state"), "4: ACTIVE\n")]) {
        std::fs::write(at(&file), text).expect("a file");
    }
    let links = [
        (format!("{device}/driver"), "../../../bus/pci/drivers/efa"),
        (format!("{device}/infiniband/rdmap0s6/device"), "../.."),
        ("bus/pci/devices/0000:00:06.0".to_owned(), "../../../devices/pci0000:00/0000:00:06.0"),
        (
            "class/infiniband/rdmap0s6".to_owned(),
            "../../devices/pci0000:00/0000:00:06.0/infiniband/rdmap0s6",
        ),
    ];
    for (link, target) in links {
        std::os::unix::fs::symlink(target, at(&link)).expect("a link");
    }
    sys
}

/// Loaded by default, because there is a device that only libfabric drives; the answer is that of this machine's
/// libfabric.
#[test]
fn with_an_efa_device_the_doctor_loads_libfabric_and_a_missing_provider_is_a_problem() {
    let sys = sys_with_efa();
    let doctor = ["doctor", "--json", "--host-sys", sys.path().to_str().expect("a plain path")];
    let told = |output: &Output| -> Vec<Value> {
        assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
        let answer = json(&stdout(output));
        let findings = answer["findings"].as_array().expect("a list").iter();
        findings.filter(|one| one["check"] == "libfabric").cloned().collect()
    };
    let findings = told(&without_libfabric(&doctor).output().expect("it runs"));
    let words = "EFA devices need libfabric, which is unavailable: /nowhere/libfabric.so.1 cannot be loaded";
    assert!(
        findings[0]["summary"].as_str().is_some_and(|line| line.starts_with(words)),
        "{findings:?}"
    );
    assert_eq!(findings[0]["severity"], "problem");
    assert_eq!(findings[1]["subjects"][0], "rdmap0s6", "{findings:?}");
    if cfg!(feature = "external-tests") {
        let findings = told(&run(&doctor));
        let words = "has no provider efa; it has ";
        assert!(
            findings[0]["summary"].as_str().is_some_and(|line| line.contains(words)),
            "{findings:?}"
        );
        assert_eq!(findings[0]["severity"], "problem");
    }
}
