//! A private Prometheus, queried over its HTTP interface.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) struct Prometheus {
    child: Child,
    address: String,
}

/// A target to scrape.
pub(crate) struct Target {
    pub(crate) job: &'static str,
    pub(crate) instance: String,
    pub(crate) address: String,
}

/// A rule, as Prometheus has it.
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) query: String,
    pub(crate) is_alert: bool,
    pub(crate) error: Option<String>,
}

impl Prometheus {
    /// Starts it in a folder, with this scrape interval in seconds, and waits until all targets have answered.
    pub(crate) fn start(folder: &Path, rules: &Path, targets: &[Target], every: u32) -> Prometheus {
        let config = folder.join("prometheus.yml");
        std::fs::write(&config, configuration(rules, targets, every)).expect("a file");
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
            .args(["--web.listen-address=127.0.0.1:0", "--log.level=info"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("prometheus starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = log.by_ref().map_while(Result::ok).find_map(|line| {
            let rest = line.split_once("msg=\"Listening on\" address=")?.1;
            Some(rest.split_whitespace().next()?.to_owned())
        });
        let address = address.expect("prometheus says where it listens");
        // It keeps logging to a pipe that must be read.
        std::thread::spawn(move || log.for_each(drop));
        let prometheus = Prometheus { child, address };
        prometheus.wait_until_ready();
        let limit = Instant::now() + Duration::from_secs(60);
        let all = format!("count(up == 1) == {}", targets.len());
        assert_eq!(
            prometheus.finds(&all, limit),
            Ok(true),
            "all targets answer: {}",
            prometheus.targets()
        );
        prometheus
    }

    /// It listens before it is ready.
    fn wait_until_ready(&self) {
        let limit = Instant::now() + Duration::from_secs(60);
        let url = format!("http://{}/-/ready", self.address);
        let is_ready = || {
            let curl = Command::new("curl").args(["-sSf", "--max-time", "20", &url]).output();
            curl.expect("curl runs").status.success()
        };
        while !is_ready() {
            assert!(Instant::now() < limit, "prometheus does not become ready");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// All rules, each evaluated at least once.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.get("rules", &[]).expect("rules");
            let groups = answer["data"]["groups"].as_array().expect("groups").iter();
            let rules: Vec<&Value> =
                groups.flat_map(|group| group["rules"].as_array().expect("rules")).collect();
            if rules.iter().all(|rule| rule["health"] != "unknown") {
                return rules.into_iter().map(rule).collect();
            }
            assert!(Instant::now() < limit, "rules are not evaluated: {answer}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Whether a query has a result before the deadline; or its error.
    pub(crate) fn finds(&self, query: &str, limit: Instant) -> Result<bool, String> {
        loop {
            let answer = self.get("query", &[&format!("query={query}")])?;
            if answer["status"] != "success" {
                return Err(answer["error"].to_string());
            }
            let result = answer["data"]["result"].as_array().ok_or("no result")?;
            if !result.is_empty() {
                return Ok(true);
            }
            if Instant::now() >= limit {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// Annotations of alerts whose templates failed.
    pub(crate) fn broken_words(&self) -> Vec<String> {
        let answer = self.get("alerts", &[]).expect("alerts");
        let alerts = answer["data"]["alerts"].as_array().expect("a list").iter();
        let words = alerts.map(|alert| alert["annotations"].to_string());
        words.filter(|words| words.contains("<error") || words.contains("<no value>")).collect()
    }

    fn targets(&self) -> String {
        self.get("targets", &[]).map_or_else(|error| error, |answer| answer.to_string())
    }

    fn get(&self, what: &str, fields: &[&str]) -> Result<Value, String> {
        let url = format!("http://{}/api/v1/{what}", self.address);
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-G", "--max-time", "20", &url]);
        for field in fields {
            curl.args(["--data-urlencode", field]);
        }
        let output = curl.output().map_err(|error| format!("curl: {error}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rule(rule: &Value) -> Rule {
    let text = |field: &str| rule[field].as_str().unwrap_or_default().to_owned();
    let error = Some(text("lastError")).filter(|error| !error.is_empty());
    Rule { name: text("name"), query: text("query"), is_alert: rule["type"] == "alerting", error }
}

/// The configuration as JSON, which is valid YAML.
fn configuration(rules: &Path, targets: &[Target], every: u32) -> String {
    let every = format!("{every}s");
    let jobs: std::collections::BTreeSet<&str> = targets.iter().map(|target| target.job).collect();
    let job = |job: &str| {
        let all = targets.iter().filter(|target| target.job == job).map(|target| {
            serde_json::json!({"targets": [target.address], "labels": {"instance": target.instance}})
        });
        serde_json::json!({"job_name": job, "static_configs": all.collect::<Vec<_>>()})
    };
    serde_json::json!({
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [rules],
        "scrape_configs": jobs.into_iter().map(job).collect::<Vec<_>>(),
    })
    .to_string()
}
