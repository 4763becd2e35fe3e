//! Files to install besides the program: units, their flags, alert rules and dashboards.
//!
//! A [`Part`] is what to install; its files are rows of `FILES`. [`plan`] returns changes for
//! [`apply()`](crate::apply()). Files that we did not write, or that were changed since, are left unchanged.

mod files;
mod foreign;

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::{Change, Plan};
pub use foreign::{KeptFile, skip_foreign_files};

/// Something to install.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The unit of the exporter.
    Exporter,
    /// The unit of the store.
    Serve,
    /// Alert rules, and an example of scrape jobs.
    Prometheus,
    /// Dashboards.
    Grafana,
}

/// The path of the program in a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(String);

/// Why a path cannot be a unit's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidProgram(String);

impl Part {
    /// All parts.
    pub const ALL: [Part; 4] = [Part::Exporter, Part::Serve, Part::Prometheus, Part::Grafana];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Exporter => "exporter",
            Part::Serve => "serve",
            Part::Prometheus => "prometheus",
            Part::Grafana => "grafana",
        }
    }

    /// Its unit.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            Part::Exporter => Some("wirelane-exporter"),
            Part::Serve => Some("wirelane"),
            Part::Prometheus | Part::Grafana => None,
        }
    }

    /// The commands to run after its files are installed.
    fn commands(self) -> Vec<String> {
        match self {
            Part::Exporter | Part::Serve => {
                let unit = self.unit().unwrap_or_default();
                vec!["systemctl daemon-reload".to_owned(), format!("systemctl enable --now {unit}")]
            }
            Part::Prometheus => vec![
                "promtool check config /etc/prometheus/prometheus.yml".to_owned(),
                "systemctl reload prometheus".to_owned(),
            ],
            Part::Grafana => vec!["systemctl restart grafana-server".to_owned()],
        }
    }

    fn why(self) -> &'static str {
        match self {
            Part::Exporter | Part::Serve => "the unit is installed, but not started",
            Part::Prometheus => {
                "prometheus.yml is not changed: add `/etc/prometheus/rules/*.rules.yml` to its rule_files, and jobs \
                 as in /etc/prometheus/wirelane-example.yml"
            }
            Part::Grafana => "Grafana reads provisioned dashboards at its start",
        }
    }
}

impl Program {
    /// An absolute path that needs no quoting in a unit.
    pub fn at(path: &str) -> Result<Program, InvalidProgram> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
        if path.starts_with('/') && path.chars().all(plain) {
            return Ok(Program(path.to_owned()));
        }
        Err(InvalidProgram(format!(
            "{path:?} is not valid in a unit: pass an absolute path of letters, digits and ._+-"
        )))
    }

    /// The path of the running program, if a service can access it: the units have no access to homes and a private /tmp.
    pub fn running(path: &str) -> Result<Program, InvalidProgram> {
        let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
        if let Some(folder) = hidden.iter().find(|folder| Path::new(path).starts_with(folder)) {
            return Err(InvalidProgram(format!(
                "this program is {path}, but the units have no access to {folder}: copy it to /usr/local/bin and run it \
                 from there, or pass the absolute path where it will be"
            )));
        }
        Program::at(path)
    }
}

impl fmt::Display for InvalidProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidProgram {}

/// The files of these parts, and the commands to run then as advice.
pub fn plan(parts: &[Part], program: &Program) -> Plan {
    let mut plan = Plan::default();
    for part in Part::ALL.into_iter().filter(|part| parts.contains(part)) {
        for file in files::of(part) {
            let text = file.text.replace(files::PROGRAM, &program.0);
            plan.step(part.name(), file.what, Change::file(file.path, text), true);
        }
        plan.advise(part.name(), part.why(), part.commands());
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_services_cannot_access_is_refused() {
        assert!(Program::running("/usr/local/bin/wirelane").is_ok());
        assert!(
            Program::at("/home/me/wirelane").is_ok(),
            "an explicit path is not checked for access"
        );
        for wrong in
            ["/home/me/wirelane", "/tmp/x/wirelane", "/opt/a b/wirelane", "wirelane", "/o%n"]
        {
            let why = Program::running(wrong).unwrap_err().to_string();
            assert!(why.contains("absolute path"), "{why}");
        }
    }

    #[test]
    fn units_start_the_program_that_was_named() {
        let program = Program::at("/opt/wirelane/bin/wirelane").unwrap();
        let plan = plan(&[Part::Serve, Part::Exporter], &program);
        let texts: Vec<String> =
            plan.steps.iter().map(|step| format!("{:?}", step.change)).collect();
        assert_eq!(
            texts
                .iter()
                .filter(|text| text.contains("ExecStart=/opt/wirelane/bin/wirelane "))
                .count(),
            2
        );
        assert!(texts.iter().all(|text| !text.contains(files::PROGRAM)));
        assert_eq!(plan.steps[0].item, "exporter", "in the order of the list");
        assert_eq!(plan.advice.len(), 2);
    }
}
