//! `cargo xtask dist`: a tarball, a .deb and a Containerfile, for systems older than this one.
//!
//! The program is linked against glibc 2.28, so that it runs on RHEL 8 and Ubuntu 20.04; zig includes
//! that glibc. Static linking is not possible: verbs libraries are loaded at run time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::{Failure, packages, pypi, shell};

#[derive(Args)]
pub(crate) struct DistArgs {
    /// Package the last `cargo build`, which is not optimised: to test the packages, not to publish them
    #[arg(long)]
    unoptimised: bool,
}

pub(crate) fn run(args: &DistArgs) -> Result<(), Failure> {
    packages::ensure(&[packages::DIST], false)?;
    let program = if args.unoptimised { last_built()? } else { build()? };
    if !args.unoptimised {
        check_glibc(&program)?;
    }
    check_libraries(&program, args.unoptimised)?;
    let out = shell::target().join("dist");
    let _ = fs::remove_dir_all(&out);
    let name = format!("wirelane-{VERSION}-{}-linux", std::env::consts::ARCH);
    let tree = stage(&program, &out.join(&name))?;
    let tarball = tarball(&out, &name)?;
    let deb = deb(&out, &tree)?;
    copy(&shell::repository().join("deploy/Containerfile"), &out.join("Containerfile"))?;
    check_runs(&tarball, &deb)?;
    fs::remove_dir_all(&tree).map_err(|error| failed("remove", &tree, &error))?;
    for file in [tarball, deb, out.join("Containerfile")] {
        let size = fs::metadata(&file).map_err(|error| failed("read", &file, &error))?.len();
        println!("{}  {size} bytes", file.display());
    }
    Ok(())
}

/// The unoptimised program, against this system's glibc, without debug information, which would take a minute to compress.
fn last_built() -> Result<PathBuf, Failure> {
    let program = shell::target().join("debug/wirelane");
    if !program.exists() {
        return Err(format!("{} does not exist: run `cargo build`", program.display()));
    }
    let stripped = shell::target().join("xtask/wirelane-stripped");
    create_folder(&shell::target().join("xtask"))?;
    shell::output(Command::new("strip").arg("-o").arg(&stripped).arg(&program))?;
    Ok(stripped)
}

/// Builds the program against the oldest supported glibc.
fn build() -> Result<PathBuf, Failure> {
    let tools = pypi::environment("dist", TOOLS)?;
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut zigbuild = Command::new(tools.join("bin/cargo-zigbuild"));
    zigbuild
        .args(["zigbuild", "--quiet", "--locked", "--profile", "final", "--package", "wirelane"])
        .args(["--target", &format!("{triple}.{GLIBC}")])
        .env("PATH", format!("{}:{path}", tools.join("bin").display()))
        .current_dir(shell::repository());
    shell::run(&mut zigbuild)?;
    Ok(shell::target().join(triple).join("final/wirelane"))
}

/// Downloads of the first build, with their size.
pub(crate) fn to_fetch() -> Result<Option<(String, &'static str)>, Failure> {
    let there = pypi::is_installed("dist", TOOLS)?;
    Ok((!there).then(|| (format!("{} from PyPI", TOOLS.join(" and ")), "about 90 MB")))
}

/// Checks that the program needs no newer glibc symbol version than supported.
fn check_glibc(program: &Path) -> Result<(), Failure> {
    let versions = shell::output(Command::new("readelf").args(["-W", "-V"]).arg(program))?;
    let newest = versions
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
        .filter_map(|word| version_numbers(word.strip_prefix("GLIBC_")?))
        .max()
        .ok_or("the program has no glibc symbol versions")?;
    if Some(&newest) > version_numbers(GLIBC).as_ref() {
        return Err(format!("the program needs glibc {newest:?}, newer than {GLIBC}"));
    }
    println!("good: needs glibc {}.{}, at most {GLIBC}", newest[0], newest.get(1).unwrap_or(&0));
    Ok(())
}

fn version_numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

/// Checks that only libc's libraries are linked, and no verbs. This system's linker adds the compiler's unwinder, which the
/// published program includes statically.
fn check_libraries(program: &Path, unoptimised: bool) -> Result<(), Failure> {
    let dynamic = shell::output(Command::new("readelf").args(["-W", "-d"]).arg(program))?;
    let libraries: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    let expected = |library: &&str| {
        LIBC.iter().any(|part| library.starts_with(part))
            || unoptimised && library.starts_with("libgcc_s")
    };
    match libraries.iter().find(|library| !expected(library)) {
        Some(library) => Err(format!("the program is linked with {library}")),
        None => {
            println!("good: linked with {}", libraries.join(", "));
            Ok(())
        }
    }
}

/// Creates the tarball's tree, with the manual pages and completions that the program generates.
fn stage(program: &Path, tree: &Path) -> Result<PathBuf, Failure> {
    create_folder(tree)?;
    copy(program, &tree.join("wirelane"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&shell::repository().join(file), &tree.join(file))?;
    }
    copy(&shell::repository().join("docs/wirelane.yaml"), &tree.join("wirelane.yaml"))?;
    create_folder(&tree.join("deploy"))?;
    for folder in ["systemd", "prometheus", "grafana"] {
        let from = shell::repository().join("deploy").join(folder);
        shell::output(Command::new("cp").arg("-r").arg(from).arg(tree.join("deploy")))?;
    }
    shell::output(Command::new(program).arg("man").arg(tree.join("man")))?;
    create_folder(&tree.join("completions"))?;
    for (shell, file) in COMPLETIONS {
        let script = shell::output(Command::new(program).args(["completions", shell]))?;
        write(&tree.join("completions").join(file), script.as_bytes())?;
    }
    Ok(tree.to_owned())
}

fn tarball(out: &Path, name: &str) -> Result<PathBuf, Failure> {
    let file = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    // Reproducible: no users, permissions or times of this machine.
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", MODE]);
    tar.arg(format!("--mtime=@{}", commit_time())).arg("-C").arg(out);
    tar.arg("--use-compress-program=gzip -n").arg("-cf").arg(&file).arg(name);
    shell::output(&mut tar)?;
    Ok(file)
}

fn deb(out: &Path, tree: &Path) -> Result<PathBuf, Failure> {
    let root = out.join("deb");
    for (from, to) in DEB_FILES {
        let to = root.join(to);
        create_folder(to.parent().unwrap_or(&root))?;
        copy(&tree.join(from), &to)?;
    }
    for folder in ["prometheus", "grafana"] {
        let to = root.join("usr/share/wirelane");
        create_folder(&to)?;
        shell::output(Command::new("cp").arg("-r").arg(tree.join("deploy").join(folder)).arg(to))?;
    }
    let pages = root.join("usr/share/man/man1");
    create_folder(&pages)?;
    for page in entries(&tree.join("man"))? {
        let to = pages.join(page.file_name().unwrap_or_default());
        copy(&page, &to)?;
        shell::output(Command::new("gzip").args(["-9", "-n"]).arg(&to))?;
    }
    create_folder(&root.join("DEBIAN"))?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("no Debian name for the architecture {other}")),
    };
    let control = format!(
        "Package: wirelane\nVersion: {VERSION}\nArchitecture: {architecture}\n\
         Maintainer: The Wirelane project <wirelane@example.invalid>\n\
         Depends: libc6 (>= {GLIBC})\nRecommends: ibverbs-providers\nSection: net\n\
         Priority: optional\nDescription: {DESCRIPTION}\n"
    );
    write(&root.join("DEBIAN/control"), control.as_bytes())?;
    // Files for users to edit: dpkg asks before it overwrites them.
    let flags = DEB_FILES.iter().filter(|(_, to)| to.starts_with("etc/"));
    let flags: String = flags.map(|(_, to)| format!("/{to}\n")).collect();
    write(&root.join("DEBIAN/conffiles"), flags.as_bytes())?;
    let file = out.join(format!("wirelane_{VERSION}_{architecture}.deb"));
    shell::output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "--build"]).arg(&root).arg(&file);
    shell::output(dpkg.env("SOURCE_DATE_EPOCH", commit_time()))?;
    fs::remove_dir_all(&root).map_err(|error| failed("remove", &root, &error))?;
    Ok(file)
}

/// Runs the program of each package with `--version`.
fn check_runs(tarball: &Path, deb: &Path) -> Result<(), Failure> {
    let scratch = tarball.with_extension("unpacked");
    create_folder(&scratch)?;
    shell::output(Command::new("tar").arg("-xf").arg(tarball).arg("-C").arg(&scratch))?;
    let unpacked = entries(&scratch)?.first().cloned().unwrap_or_default();
    shell::output(Command::new("dpkg-deb").arg("-x").arg(deb).arg(scratch.join("deb")))?;
    for program in [unpacked.join("wirelane"), scratch.join("deb/usr/bin/wirelane")] {
        let output = shell::output(Command::new(&program).arg("--version"))?;
        if !output.starts_with(&format!("wirelane {VERSION}\n")) {
            return Err(format!("{} --version printed {output}", program.display()));
        }
        println!("good: the program runs, unpacked at {}", program.display());
    }
    fs::remove_dir_all(&scratch).map_err(|error| failed("remove", &scratch, &error))
}

fn commit_time() -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(shell::repository());
    shell::output(&mut git).map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| failed("read", folder, &error))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn create_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(drop).map_err(|error| failed("copy", from, &error))
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(file, bytes).map_err(|error| failed("write", file, &error))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    format!("{what} {}: {error}", path.display())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const DESCRIPTION: &str = "finds, checks and uses a machine's RDMA fabric";
/// RHEL 8's; Ubuntu 20.04 has 2.31.
const GLIBC: &str = "2.28";
const MODE: &str = "--mode=u=rwX,go=rX";
const LIBC: &[&str] = &["libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux"];
/// zig, and the cargo command that links with it.
const TOOLS: &[&str] = &["cargo-zigbuild==0.24.0", "ziglang==0.13.0"];
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "wirelane.bash"), ("zsh", "_wirelane"), ("fish", "wirelane.fish")];
const DEB_FILES: &[(&str, &str)] = &[
    ("wirelane", "usr/bin/wirelane"),
    ("completions/wirelane.bash", "usr/share/bash-completion/completions/wirelane"),
    ("completions/_wirelane", "usr/share/zsh/vendor-completions/_wirelane"),
    ("completions/wirelane.fish", "usr/share/fish/vendor_completions.d/wirelane.fish"),
    ("wirelane.yaml", "usr/share/doc/wirelane/examples/wirelane.yaml"),
    (
        "deploy/systemd/wirelane-exporter.service",
        "usr/lib/systemd/system/wirelane-exporter.service",
    ),
    ("deploy/systemd/wirelane.service", "usr/lib/systemd/system/wirelane.service"),
    ("deploy/systemd/wirelane-exporter.default", "etc/default/wirelane-exporter"),
    ("deploy/systemd/wirelane.default", "etc/default/wirelane"),
    ("LICENSE-MIT", "usr/share/doc/wirelane/copyright"),
    ("LICENSE-APACHE", "usr/share/doc/wirelane/LICENSE-APACHE"),
    ("CHANGELOG.md", "usr/share/doc/wirelane/changelog"),
];
