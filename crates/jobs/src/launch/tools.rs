//! Which programs a host has, and in which versions: one question by a shell, and its answer.

use crate::job::{Version, shell_word};

/// What was found on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// The user on that host: 0 is root.
    pub uid: Option<u32>,
    /// MPI's launcher.
    pub mpi: Option<Mpi>,
    /// PyTorch and its launcher.
    pub torch: Option<Torch>,
    /// TensorFlow's version.
    pub tensorflow: Option<String>,
    /// Where horovodrun is.
    pub horovodrun: Option<String>,
    /// Where python3 is.
    pub python: Option<String>,
    /// Where the job's program is.
    pub program: Option<String>,
}

/// MPI's launcher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mpi {
    /// Where mpirun is.
    pub mpirun: String,
    /// What it says it is, in its first line.
    pub says: String,
    /// Its version, where it is Open MPI.
    pub version: Option<Version>,
    /// Its components, as `pml:ucx`; none: ompi_info is not there.
    pub components: Vec<String>,
}

/// PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch {
    /// Its version, where it tells.
    pub version: Option<String>,
    /// Where torchrun is; `None`: `python3 -m torch.distributed.run` is the same.
    pub torchrun: Option<String>,
}

impl Tools {
    /// A script for sh that looks for everything, in the folders of `path` before the host's own; `program` is looked
    /// for as a rank in `directory` would.
    pub fn probe(path: &str, directory: &str, program: &str) -> String {
        format!(
            "PATH={}:$PATH; export PATH\ncd {} 2>/dev/null || cd\n{PROBE}place=$(command -v {program}) || {{ test -f {program} && place={program}; }} && echo \"program $place\"\n:\n",
            shell_word(path),
            shell_word(directory),
            program = shell_word(program)
        )
    }

    /// Reads what the script printed; what a login shell said before is passed over. `None`: it did not run.
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
                "mpi" => mpi.says = value,
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
        mpi.version = open_mpi(&mpi.says);
        tools.mpi = (!mpi.mpirun.is_empty()).then_some(mpi);
        let told = |version: String| Some(version).filter(|version| version != UNKNOWN);
        tools.torch = torch.map(|version| Torch { version: told(version), torchrun });
        Some(tools)
    }
}

impl Mpi {
    /// Whether it has a component, such as `pml:ucx`; where ompi_info is not there, it may have any.
    pub fn has(&self, component: &str) -> bool {
        self.components.is_empty() || self.components.iter().any(|one| one == component)
    }
}

/// `mpirun (Open MPI) 4.1.4`, `mpirun (Open MPI) 5.0.11`.
fn open_mpi(says: &str) -> Option<Version> {
    let (_, rest) = says.split_once("(Open MPI) ")?;
    let plain = rest.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
    plain.parse().ok()
}

/// Where the answer begins.
const FIRST_LINE: &str = "wirelane tools 1";
const UNKNOWN: &str = "unknown";
const MAX_LINES: usize = 4096;

/// A version is read from a package's own notes: to import torch takes seconds.
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
    fn an_answer_is_read_past_what_a_login_shell_says() {
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
    fn other_mpis_have_no_version_of_open_mpi() {
        assert_eq!(open_mpi("mpirun (Open MPI) 5.0.11rc1"), Some(Version(5, 0, 11)));
        assert_eq!(open_mpi("HYDRA build details:"), None);
        assert_eq!(open_mpi("Intel(R) MPI Library for Linux* OS, Version 2021.14"), None);
    }

    #[test]
    fn a_shell_answers_the_probe() {
        let script = Tools::probe("/nowhere/it's", "/no/such folder", "sh");
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
        let tools = Tools::parse(&String::from_utf8_lossy(&output.stdout)).expect("an answer");
        assert!(tools.program.is_some_and(|place| place.ends_with("/sh")));
        assert!(tools.uid.is_some() && output.stderr.is_empty());
    }
}
