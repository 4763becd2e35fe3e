//! The programs of a host and their versions: a shell script that prints them, and its parser.

use crate::environment::{Version, shell_word};

/// The programs of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// The user ID on that host: 0 is root.
    pub uid: Option<u32>,
    /// MPI's launcher.
    pub mpi: Option<Mpi>,
    /// PyTorch and its launcher.
    pub torch: Option<Torch>,
    /// TensorFlow's version.
    pub tensorflow: Option<String>,
    /// The path of horovodrun.
    pub horovodrun: Option<String>,
    /// The path of python3.
    pub python: Option<String>,
    /// The path of the job's program.
    pub program: Option<String>,
}

/// MPI's launcher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mpi {
    /// The path of mpirun.
    pub mpirun: String,
    /// The first line of `mpirun --version`.
    pub version_line: String,
    /// Its version, where it is Open MPI.
    pub version: Option<Version>,
    /// Its components, such as `pml:ucx`; empty: there is no ompi_info.
    pub components: Vec<String>,
}

/// PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch {
    /// Its version, if known.
    pub version: Option<String>,
    /// The path of torchrun; `None`: `python3 -m torch.distributed.run` is used instead.
    pub torchrun: Option<String>,
}

impl Tools {
    /// A script for sh that searches for all programs, in the folders of `path` before the host's own; `program` is searched
    /// as by a rank in `directory`.
    pub fn probe(path: &str, directory: &str, program: &str) -> String {
        format!(
            "PATH={}:$PATH; export PATH\ncd {} 2>/dev/null || cd\n{PROBE}place=$(command -v {program}) || {{ test -f {program} && place={program}; }} && echo \"program $place\"\n:\n",
            shell_word(path),
            shell_word(directory),
            program = shell_word(program)
        )
    }

    /// Parses the output of the script; output of a login shell before it is skipped. `None`: it did not run.
    pub fn parse(text: &str) -> Option<Tools> {
        let mut lines = text.lines().skip_while(|line| *line != FIRST_LINE);
        lines.next()?;
        let (mut tools, mut mpi) = (Tools::default(), Mpi::default());
        let (mut torch, mut torchrun) = (None, None);
        for line in lines.take(MAX_LINES) {
            let Some((name, value)) = line.split_once(' ') else { continue };
            let value = value.trim().to_owned();
            match name {
                "uid" => tools.uid = value.parse().ok(),
                "mpirun" => mpi.mpirun = value,
                "mpi" => mpi.version_line = value,
                "component" => mpi.components.push(value),
                "torchrun" => torchrun = Some(value),
                "torch" => torch = Some(value),
                "tensorflow" => tools.tensorflow = Some(value),
                "horovodrun" => tools.horovodrun = Some(value),
                "python3" => tools.python = Some(value),
                "program" => tools.program = Some(value),
                _ => {}
            }
        }
        mpi.version = open_mpi(&mpi.version_line);
        tools.mpi = (!mpi.mpirun.is_empty()).then_some(mpi);
        let known = |version: String| Some(version).filter(|version| version != UNKNOWN);
        tools.torch = torch.map(|version| Torch { version: known(version), torchrun });
        Some(tools)
    }
}

impl Mpi {
    /// Whether it has a component, such as `pml:ucx`; true for all if there is no ompi_info.
    pub fn has(&self, component: &str) -> bool {
        self.components.is_empty() || self.components.iter().any(|one| one == component)
    }
}

/// `mpirun (Open MPI) 4.1.4`, `mpirun (Open MPI) 5.0.11`.
fn open_mpi(version_line: &str) -> Option<Version> {
    let (_, rest) = version_line.split_once("(Open MPI) ")?;
    let plain = rest.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
    plain.parse().ok()
}

/// The first line of the output.
const FIRST_LINE: &str = "wirelane tools 1";
const UNKNOWN: &str = "unknown";
const MAX_LINES: usize = 4096;

/// Versions are read from the package metadata, since importing torch takes seconds.
const PROBE: &str = r#"echo 'wirelane tools 1'
echo "uid $(id -u)"
for tool in mpirun torchrun horovodrun python3; do
    place=$(command -v $tool) && echo "$tool $place"
done
if command -v mpirun >/dev/null; then
    echo "mpi $(mpirun --version 2>/dev/null </dev/null | head -n 1)"
    ompi_info --parsable 2>/dev/null </dev/null | sed -n 's/^mca:\([a-z]*:[a-z0-9_]*\):version:.*/component \1/p' | sort -u
fi
python3 - 2>/dev/null <<'END'
from importlib import metadata, util
for name in ("torch", "tensorflow"):
    if util.find_spec(name):
        try:
            print(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            print(name, "unknown")
END
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn output_of_a_login_shell_is_skipped() {
        let tools = Tools::parse(
            "Welcome!\nwirelane tools 1\nuid 0\nmpirun /usr/bin/mpirun\nmpi mpirun (Open MPI) 4.1.4\n\
             component pml:ucx\ncomponent btl:vader\ntorch unknown\npython3 /usr/bin/python3\nodd\n",
        )
        .expect("an answer");
        let mpi = tools.mpi.expect("MPI");
        assert_eq!((tools.uid, mpi.version), (Some(0), Some(Version(4, 1, 4))));
        assert!(mpi.has("pml:ucx") && !mpi.has("mtl:ofi") && Mpi::default().has("mtl:ofi"));
        assert_eq!(tools.torch, Some(Torch { version: None, torchrun: None }));
        assert_eq!(tools.program, None);
        assert_eq!(Tools::parse("sh: not found\n"), None);
    }

    #[test]
    fn only_open_mpi_has_a_version() {
        assert_eq!(open_mpi("mpirun (Open MPI) 5.0.11rc1"), Some(Version(5, 0, 11)));
        assert_eq!(open_mpi("HYDRA build details:"), None);
        assert_eq!(open_mpi("Intel(R) MPI Library for Linux* OS, Version 2021.14"), None);
    }

    #[test]
    fn a_shell_runs_the_probe() {
        let script = Tools::probe("/nowhere/it's", "/no/such folder", "sh");
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
        let tools = Tools::parse(&String::from_utf8_lossy(&output.stdout)).expect("an answer");
        assert!(tools.program.is_some_and(|place| place.ends_with("/sh")));
        assert!(tools.uid.is_some() && output.stderr.is_empty());
    }
}
