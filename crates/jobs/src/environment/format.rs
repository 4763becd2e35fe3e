//! A plan as text for another program.

use std::fmt::Write;

use super::plan::EnvironmentPlan;
use super::variable::Variable;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A shell, by `eval`.
    Sh,
    /// NCCL: `/etc/nccl.conf`.
    NcclConf,
    /// Open MPI: `openmpi-mca-params.conf`.
    Mca,
}

impl EnvironmentPlan {
    /// The variables that the reader of this format knows, and the hints as comments.
    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        for variable in &self.variables {
            let Some((name, value)) = format.assignment(variable) else { continue };
            // The user's variable is in the environment, and stays there.
            let _ = match variable.is_users {
                true => writeln!(text, "# {name} is set already"),
                false => writeln!(text, "{}{name}{}{value}", format.prefix(), format.separator()),
            };
        }
        for hint in &self.hints {
            let _ = writeln!(text, "# {hint}");
        }
        text
    }
}

impl Format {
    fn prefix(self) -> &'static str {
        if self == Format::Sh { "export " } else { "" }
    }

    fn separator(self) -> &'static str {
        if self == Format::Mca { " = " } else { "=" }
    }

    fn assignment(self, variable: &Variable) -> Option<(String, String)> {
        let name = &variable.name;
        match self {
            Format::Sh => is_shell_name(name).then(|| (name.clone(), shell_word(&variable.value))),
            Format::NcclConf => {
                name.starts_with("NCCL_").then(|| (name.clone(), variable.value.clone()))
            }
            Format::Mca => {
                Some((name.strip_prefix("OMPI_MCA_")?.to_owned(), variable.value.clone()))
            }
        }
    }
}

/// Whether a shell can export it: a name cannot have a dash.
fn is_shell_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(letter) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Quotes a value as one word for every POSIX shell. zsh expands `=name` to the path of the program `name`.
pub fn shell_word(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,:/=@%+".contains(&byte);
    if !value.is_empty() && !value.starts_with('=') && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_each_value_as_one_word() {
        for (value, quoted) in [
            ("mlx5_4:1", "mlx5_4:1"),
            ("=mlx5_4:1", "'=mlx5_4:1'"),
            ("^openib", "'^openib'"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(rm -rf /)'`", r"'$(rm -rf /)'\''`'"),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(shell_word(value), quoted);
        }
    }

    #[test]
    fn names_that_a_shell_cannot_export_are_left_out() {
        assert!(is_shell_name("NCCL_IB_HCA") && is_shell_name("_x1"));
        for name in ["PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "1A", "", "A B", "a=b"] {
            assert!(!is_shell_name(name), "{name}");
        }
    }
}
