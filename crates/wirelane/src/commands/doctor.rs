//! `wirelane doctor`: problems of a machine's fabric, with evidence and fix.

pub(crate) mod colours;
mod document;
mod libfabric;
mod peer;
mod store_disk;
mod text;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use doctor::checklist::{self, ItemState};
use doctor::{self, CHECKS, Check, CheckInput, Expectations, FindingsReport, since};
use node::{Node, Tree};

use crate::arguments::host::{HostArgs, check_devices};
use crate::arguments::peer::Peer;
use crate::output;
use crate::output::{Exit, Failure, wrap};
use crate::settings::Global;
use colours::Colours;
use document::Document;
pub(crate) use text::evidence;

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 no problem (having no RDMA device is not one), 1 a problem was found, 3 the machine could not be read.
`--all` shows all checks; `--quiet` prints one line, for scripts.")]
pub(crate) struct DoctorArgs {
    /// Run only these checks, and show all their findings (see `--list`)
    #[arg(value_name = "CHECK", value_parser = CheckNames, hide_possible_values = true)]
    checks: Vec<String>,

    #[command(flatten)]
    host: HostArgs,

    /// Print JSON: every finding with its evidence and fix
    #[arg(long)]
    json: bool,

    /// Show passed checks too
    #[arg(long)]
    all: bool,

    /// Print one line
    #[arg(long, short, conflicts_with_all = ["all", "json"])]
    quiet: bool,

    /// Treat warnings as problems
    #[arg(long)]
    strict: bool,

    /// Exit with 1 if this is missing
    #[arg(long, value_name = "WHAT")]
    require: Option<Required>,

    /// Expected rate of every active port: 100, 100G, 2.5Gb/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    expect_rate: Option<u64>,

    /// Show what changed since this snapshot (see `wirelane snapshot`)
    #[arg(long, value_name = "SNAPSHOT")]
    since: Option<PathBuf>,

    /// Compare with this host, over ssh, or with a snapshot of it
    #[arg(long, value_name = "HOST")]
    peer: Option<String>,

    /// Address of the metrics of a store on this machine, for the check `store-disk` [default: 127.0.0.1:8080 if one answers]
    #[arg(long, value_name = "HOST:PORT")]
    store: Option<Peer>,

    /// Show the checklist for machines in production
    #[arg(long, conflicts_with = "checks")]
    checklist: bool,

    /// List the checks
    #[arg(long)]
    list: bool,
}

/// What must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Required {
    /// An RDMA device
    Rdma,
}

pub(crate) fn run(global: &Global, args: &DoctorArgs) -> Result<Exit, Failure> {
    if args.list {
        return list(args.json);
    }
    let only = named(&args.checks)?;
    let tree = args.host.tree()?;
    check_sys(&tree)?;
    let node = Node::read(&tree);
    let libfabric = libfabric::query(global, &tree, &only)?;
    let store_disk = store_disk::query(args.store.as_ref(), &tree, &only)?;
    let input = CheckInput {
        expectations: args.expectations(),
        libfabric: libfabric.as_ref(),
        store_disk: store_disk.as_ref(),
        ..CheckInput::new(&node, &tree)
    };
    let mut report = doctor::run_checks(&input, &only);
    let since = args.since.as_deref().map(|path| changes_since(path, &input, &only)).transpose()?;
    let peer = args.peer.as_deref().map(|host| compare(host, &input, &mut report)).transpose()?;
    let checklist = args.checklist.then(|| checklist::evaluate(&input, &report));
    let document = Document { report: &report, peer, since, checklist };
    args.print(&document)?;
    Ok(args.verdict(&document))
}

impl DoctorArgs {
    fn expectations(&self) -> Expectations {
        Expectations::default().expect_rate_mbps(self.expect_rate)
    }

    fn print(&self, document: &Document<'_>) -> Result<(), Failure> {
        if self.json {
            return output::json(document);
        }
        if self.quiet {
            return output::answer(&format!("{}\n", document.report.line()));
        }
        output::coloured(&text::render(
            document,
            self.all || !self.checks.is_empty(),
            Colours::for_stdout(),
        ))
    }

    fn verdict(&self, document: &Document<'_>) -> Exit {
        let missing = self.require == Some(Required::Rdma) && document.report.devices.is_empty();
        let has_undone = |items: &Vec<checklist::Item>| {
            items.iter().any(|item| item.state == ItemState::NotDone)
        };
        let strict = self.strict && document.checklist.as_ref().is_some_and(has_undone);
        if missing || strict || document.report.is_bad(self.strict) { Exit::No } else { Exit::Done }
    }
}

fn named(names: &[String]) -> Result<Vec<&'static Check>, Failure> {
    let check = |name: &String| {
        doctor::check(name).ok_or_else(|| {
            let meant =
                similar(name).map(|near| format!(" did you mean `{near}`?")).unwrap_or_default();
            Failure::usage(format!(
                "no check `{name}`;{meant} `wirelane doctor --list` lists all checks"
            ))
        })
    };
    names.iter().map(check).collect()
}

/// The check whose name contains this one, or differs from it by a mistyped letter or two.
fn similar(name: &str) -> Option<&'static str> {
    let length = name.chars().count();
    if !(2..=64).contains(&length) {
        return None;
    }
    let names = || CHECKS.iter().map(|check| check.name);
    let distance = |check: &&str| strsim::damerau_levenshtein(name, check);
    let containing = names().find(|check| length > 2 && check.contains(name));
    containing.or_else(|| names().min_by_key(distance).filter(|near| distance(near) <= length / 3))
}

/// The names of all checks, for completions. An unknown name is refused later, with a suggestion.
#[derive(Debug, Clone)]
struct CheckNames;

impl TypedValueParser for CheckNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(CHECKS.iter().map(|check| PossibleValue::new(check.name).help(check.title))))
    }
}

/// Fails without /sys: no findings would look like a healthy machine.
fn check_sys(tree: &Tree) -> Result<(), Failure> {
    check_devices(tree)?;
    match tree.exists("/sys") {
        true => Ok(()),
        false => {
            Err(Failure::failed("no /sys: is this the root directory of a machine, or a snapshot?"))
        }
    }
}

fn compare(
    host: &str,
    ours: &CheckInput<'_>,
    report: &mut FindingsReport,
) -> Result<document::Peer, Failure> {
    let tree = peer::fetch(host)?;
    let node = Node::read(&tree);
    let theirs = CheckInput { expectations: ours.expectations, ..CheckInput::new(&node, &tree) };
    report.add(doctor::peer::compare(ours, &theirs));
    let own = doctor::run_checks(&theirs, &[]);
    Ok(document::Peer { name: host.to_owned(), summary: own.line(), counts: own.counts })
}

/// Compares without libfabric, which was not queried for the snapshot.
fn changes_since(
    path: &Path,
    now: &CheckInput<'_>,
    only: &[&Check],
) -> Result<since::Comparison, Failure> {
    let tree = Tree::at(path).map_err(|error| Failure::failed(format!("--since {error}")))?;
    let before = Node::read(&tree);
    let then = CheckInput { expectations: now.expectations, ..CheckInput::new(&before, &tree) };
    let earlier = doctor::run_checks(&then, only);
    let report =
        doctor::run_checks(&CheckInput { libfabric: None, store_disk: None, ..*now }, only);
    Ok(since::compare((&before, &earlier), (now.node, &report)))
}

fn list(json: bool) -> Result<Exit, Failure> {
    if json {
        let rows: Vec<_> = CHECKS.iter().map(document::CheckRow::of).collect();
        output::json(&rows)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> =
        CHECKS.iter().map(|check| vec![check.name.to_owned(), check.title.to_owned()]).collect();
    output::answer(&wrap::table(&rows, wrap::columns()))?;
    Ok(Exit::Done)
}

/// Parses Gb/s: `40`, `100G`, `2.5Gb/s`.
fn rate(text: &str) -> Result<u64, String> {
    let number = ["Gb/sec", "Gb/s", "Gbps", "Gbit/s", "G"]
        .iter()
        .find_map(|unit| text.strip_suffix(unit))
        .unwrap_or(text);
    let gbps = number.trim().parse::<f64>().ok().filter(|gbps| (0.001..=100_000.0).contains(gbps));
    gbps.map(|gbps| (gbps * 1000.0).round() as u64)
        .ok_or_else(|| "write a rate in Gb/s such as 100, 40G or 2.5Gb/s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_suggested() {
        assert_eq!(similar("memlok"), Some("memlock"));
        assert_eq!(similar("gids"), Some("gid"));
        assert_eq!(similar("flow"), Some("flow-control"));
        assert_eq!(similar("iomu"), Some("iommu"));
        for other in ["foo", "x", "", "help", "network", &"a".repeat(1000)] {
            assert_eq!(similar(other), None, "{other}");
        }
    }

    #[test]
    fn rates_are_parsed() {
        assert_eq!(rate("40"), Ok(40_000));
        assert_eq!(rate("100G"), Ok(100_000));
        assert_eq!(rate("2.5Gb/s"), Ok(2_500));
        assert_eq!(rate("400 Gb/sec"), Ok(400_000));
        for wrong in ["", "fast", "-1", "0", "1e99", "NaN", "40M"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
