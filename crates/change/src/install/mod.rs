//! What belongs beside the program on a machine: units, alert rules, dashboards, and flags for the units.
//!
//! A [`Part`] is what one wants to have; its files are rows of `FILES`. [`plan`] makes changes of them, which go
//! through [`apply()`](crate::apply()) like any others. What somebody else wrote, or changed since we did, is kept.

mod files;
mod foreign;

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::{Change, Plan};
pub use foreign::{KeptFile, keep};

/// Something to install.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The unit of the exporter.
    Exporter,
    /// The unit of the store.
    Serve,
    /// Alert rules, and an example of what to scrape.
    Prometheus,
    /// Dashboards.
    Grafana,
}

/// Where the program is, as a unit has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(String);

/// Why a path cannot be a unit's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfitProgram(String);

impl Part {
    /// All there are.
    pub const ALL: [Part; 4] = [Part::Exporter, Part::Serve, Part::Prometheus, Part::Grafana];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Part::Exporter => "exporter",
            Part::Serve => "serve",
            Part::Prometheus => "prometheus",
            Part::Grafana => "grafana",
        }
    }

    /// The unit that it brings.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            Part::Exporter => Some("wirelane-exporter"),
            Part::Serve => Some("wirelane"),
            Part::Prometheus | Part::Grafana => None,
        }
    }

    /// What a person does when its files are there, word for word.
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
            Part::Exporter | Part::Serve => "the unit is there, and does not run yet",
            Part::Prometheus => {
                "nobody's prometheus.yml is changed: add `/etc/prometheus/rules/*.rules.yml` to its rule_files, and jobs \
                 as in /etc/prometheus/wirelane-example.yml"
            }
            Part::Grafana => "Grafana reads dashboards that are provisioned when it starts",
        }
    }
}

impl Program {
    /// A path that a unit can have without quoting, absolute.
    pub fn at(path: &str) -> Result<Program, UnfitProgram> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
        if path.starts_with('/') && path.chars().all(plain) {
            return Ok(Program(path.to_owned()));
        }
        Err(UnfitProgram(format!(
            "{path:?} cannot stand in a unit: give an absolute path of letters, digits and ._+-"
        )))
    }

    /// Where the running program is, if a service can see it: units here have no homes and a /tmp of their own.
    pub fn running(path: &str) -> Result<Program, UnfitProgram> {
        let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
        if let Some(folder) = hidden.iter().find(|folder| Path::new(path).starts_with(folder)) {
            return Err(UnfitProgram(format!(
                "this program is {path}, and the units see nothing of {folder}: copy it to /usr/local/bin and run it \
                 from there, or give the absolute path where it will be"
            )));
        }
        Program::at(path)
    }
}

impl fmt::Display for UnfitProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnfitProgram {}

/// The files of these parts, and what is to be done then.
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
    fn a_program_that_no_service_could_start_is_refused() {
        assert!(Program::running("/usr/local/bin/wirelane").is_ok());
        assert!(Program::at("/home/me/wirelane").is_ok(), "who says so may have opened it");
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
