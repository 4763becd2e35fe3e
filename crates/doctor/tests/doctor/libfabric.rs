//! libfabric and EFA devices, as the program or a snapshot tells of them.

use doctor::libfabric::{Answer, Choice, Here, Libfabric};
use doctor::{Case, Finding, Report, Verdict, check, examine};
use node::{Node, Tree};
use serde_json::{Value, json};

use crate::{Fault, NOTE, PROBLEM, WARNING, changed, has, tree};

const OK: Verdict = Verdict::Ok;
const UNKNOWN: Verdict = Verdict::Unknown;

/// What the check finds when libfabric has answered so.
fn look(tree: &Tree, told: Option<&Libfabric>) -> Vec<Finding> {
    whole(tree, told, &[check("libfabric").expect("the check")]).findings
}

fn whole(tree: &Tree, told: Option<&Libfabric>, only: &[&doctor::Check]) -> Report {
    let node = Node::read(tree);
    examine(&Case { libfabric: told, ..Case::of(&node, tree) }, only)
}

fn answered(answer: Answer) -> Libfabric {
    Libfabric { provider: None, named: None, answer }
}

/// A libfabric with these providers, of which links take the first, or none for this reason.
fn here(providers: &[&str], links: Result<bool, &str>) -> Libfabric {
    let choice = |keeps_registrations| Choice {
        provider: providers[0].to_owned(),
        why: format!("{} is here, and best", providers[0]),
        keeps_registrations,
    };
    answered(Answer::Here(Here {
        version: "1.22".to_owned(),
        file: "/opt/amazon/efa/lib64/libfabric.so.1".to_owned(),
        providers: providers.iter().map(|name| (*name).to_owned()).collect(),
        links: links.map(choice).map_err(str::to_owned),
        alone: format!("{}: it is here", providers[0]),
    }))
}

fn off() -> Libfabric {
    let reason = "libfabric.so.1 cannot be loaded: No such file".to_owned();
    answered(Answer::Off { reason, fix: "install it".to_owned() })
}

/// The EFA host with these variables in its environment.
fn efa_with(variables: &[(&str, &str)]) -> Tree {
    let variables: Value = variables.iter().map(|(name, value)| (*name, *value)).collect();
    changed("efa", |json| json["environment"] = variables)
}

/// The one finding that is not ok.
#[track_caller]
fn fault(findings: &[Finding]) -> (Verdict, String) {
    let faults: Vec<_> = findings.iter().filter(|finding| finding.verdict != OK).collect();
    let [one] = &faults[..] else { panic!("{faults:?}") };
    assert!(!one.evidence.is_empty() && !one.fix.is_empty(), "{one:?}");
    (one.verdict, one.summary.clone())
}

#[test]
fn an_efa_host_whose_links_go_by_efa_is_well() {
    let tree = efa_with(&[("FI_MR_CACHE_MAX_COUNT", "1024")]);
    let told = here(&["efa", "tcp;ofi_rxm", "shm"], Ok(false));
    let findings = look(&tree, Some(&told));
    let [library, devices] = &findings[..] else { panic!("{findings:?}") };
    let words = "libfabric 1.22: links take efa: efa is here, and best";
    assert_eq!((library.verdict, &*library.summary), (OK, words));
    assert_eq!(library.evidence[0].value, "libfabric 1.22, providers efa, tcp;ofi_rxm, shm");
    assert_eq!(library.evidence[1].value, "efa: it is here", "by --transport ofi");
    let words = "EFA efa1, driver 2.10.0, firmware 0.0.0.0, port 1 ACTIVE; no RDMA read seen yet, \
                 no RDMA write seen yet";
    assert_eq!((devices.verdict, &*devices.summary), (OK, words));
    assert_eq!(devices.subjects.len(), 4, "what is the same is told once");
    has(&whole(&tree, Some(&told), &[]), &[]);
}

#[test]
fn reads_and_writes_are_told_when_they_were_done() {
    let ports = "/sys/class/infiniband/rdmap16s27/ports/1/hw_counters";
    let tree = changed("efa", |json| {
        json["files"][format!("{ports}/rdma_read_wrs")] = json!("17\n");
        let files = json["files"].as_object_mut().expect("files");
        files.retain(|path, _| !path.contains("hw_counters/rdma_write_"));
    });
    let findings = look(&tree, None);
    let device = |name: &str| {
        let mut found = findings.iter().filter(|finding| finding.subjects[0] == name);
        found.next().unwrap_or_else(|| panic!("no {name}")).summary.clone()
    };
    assert!(device("rdmap16s27").ends_with("RDMA reads seen, RDMA writes not counted"));
    assert!(device("rdmap32s27").ends_with("no RDMA read seen yet, RDMA writes not counted"));
}

#[test]
fn of_another_machine_only_its_files_are_told() {
    let findings = look(&tree("efa"), None);
    let library = findings.iter().find(|finding| finding.verdict == UNKNOWN).expect("a finding");
    assert!(library.summary.contains("told on the running machine alone"), "{library:?}");
    let file = "/opt/amazon/efa/lib64/libfabric.so.1.25.0";
    assert!(library.summary.contains(&format!("{file} (1.22.0amzn4.0) is installed")));
    assert_eq!(
        (&*library.evidence[0].source, &*library.evidence[0].value),
        (file, "version 1.22.0amzn4.0")
    );
}

#[test]
fn no_libfabric_is_a_problem_for_efa_and_for_nobody_else() {
    let (verdict, summary) = fault(&look(&tree("efa"), Some(&off())));
    assert_eq!(verdict, PROBLEM);
    assert!(summary.contains("libfabric.so.1 cannot be loaded: No such file"), "{summary}");
    for name in ["mlx5-roce", "empty"] {
        let findings = look(&tree(name), Some(&off()));
        assert_eq!(findings.iter().map(|finding| finding.verdict).collect::<Vec<_>>(), [OK]);
    }
    let asked = Libfabric { named: Some("/x/libfabric.so.1".to_owned()), ..off() };
    assert_eq!(fault(&look(&tree("mlx5-roce"), Some(&asked))).0, WARNING);
}

#[test]
fn where_nobody_needs_it_that_is_said_calmly() {
    let why = "there is no EFA device, and nobody asks for it";
    let told = answered(Answer::NotAsked(why.to_owned()));
    let findings = look(&tree("mlx5-roce"), Some(&told));
    let [one] = &findings[..] else { panic!("{findings:?}") };
    let words = format!(
        "libfabric is not needed: {why}; devices go by verbs; none is seen in the usual folders"
    );
    assert_eq!((one.verdict, &one.summary), (OK, &words));
    // One that is there and asked all the same, by the check's name.
    let findings = look(&tree("mlx5-roce"), Some(&here(&["verbs;ofi_rxm", "shm"], Err(why))));
    let words = format!("libfabric 1.22 is here, links do not use it: {why}");
    assert_eq!((findings[0].verdict, &findings[0].summary), (OK, &words));
}

#[test]
fn a_provider_that_is_named_and_not_there_is_a_warning() {
    let why = "libfabric has no provider cxi here; it has shm";
    let told = Libfabric { provider: Some("cxi".to_owned()), ..here(&["shm"], Err(why)) };
    let (verdict, summary) = fault(&look(&tree("mlx5-roce"), Some(&told)));
    assert!(verdict == WARNING && summary.ends_with(why), "{summary}");
}

#[test]
fn a_libfabric_without_efa_is_a_problem_whose_cause_may_be_a_variable() {
    let told = here(&["tcp;ofi_rxm", "shm"], Err("tcp;ofi_rxm is software"));
    let words = "libfabric 1.22 has no provider efa here; it has tcp;ofi_rxm, shm".to_owned();
    let plain = look(&tree("efa"), Some(&told));
    assert_eq!(fault(&plain), (PROBLEM, words.clone()));
    assert!(plain[0].fix[0].contains("EFA's own libfabric"), "{:?}", plain[0].fix);
    let hidden = look(&efa_with(&[("FI_PROVIDER", "tcp,shm")]), Some(&told));
    assert_eq!(fault(&hidden), (PROBLEM, words));
    assert!(hidden[0].fix[0].contains("unset FI_PROVIDER"), "{:?}", hidden[0].fix);
    assert!(hidden[0].evidence.iter().any(|read| read.source == "$FI_PROVIDER"));
}

#[test]
fn variables_that_keep_links_from_efa() {
    let of_file = |variables: &[(&str, &str)]| {
        let findings = look(&efa_with(variables), None);
        let faults = findings.into_iter().filter(|finding| finding.verdict != UNKNOWN);
        faults.collect::<Vec<_>>()
    };
    for hiding in ["tcp", "^efa", "^shm,efa", "tcp, shm"] {
        let (verdict, summary) = fault(&of_file(&[("FI_PROVIDER", hiding)]));
        assert!(verdict == WARNING && summary.contains(hiding), "{summary}");
    }
    for showing in ["efa", "tcp,efa", "^tcp", ""] {
        assert!(of_file(&[("FI_PROVIDER", showing)]).iter().all(|one| one.verdict == OK));
    }
    let (verdict, summary) = fault(&of_file(&[("FI_EFA_USE_DEVICE_RDMA", "0")]));
    assert!(verdict == NOTE && summary.contains("by messages"), "{summary}");
    let (verdict, summary) = fault(&of_file(&[("FI_EFA_IFACE", "rdmap0s6")]));
    assert!(verdict == WARNING && summary.contains("hides every EFA device"), "{summary}");
    let (verdict, summary) = fault(&of_file(&[("FI_EFA_IFACE", "rdmap16s27,rdmap32s27")]));
    assert!(verdict == NOTE && summary.ends_with("it hides rdmap144s27, rdmap160s27"), "{summary}");
    assert!(
        of_file(&[("FI_EFA_IFACE", "all"), ("FI_EFA_USE_DEVICE_RDMA", "1")])
            .iter()
            .all(|one| one.verdict == OK)
    );
}

#[test]
fn the_cache_of_registrations_is_told_where_it_keeps_links_from_a_provider() {
    let with = |value: &str| {
        changed("mlx5-roce", |json| json["environment"] = json!({ "FI_MR_CACHE_MAX_COUNT": value }))
    };
    let verbs =
        Libfabric { provider: Some("verbs".to_owned()), ..here(&["verbs;ofi_rxm"], Ok(true)) };
    let (verdict, summary) = fault(&look(&with("1024"), Some(&verbs)));
    let words =
        "FI_MR_CACHE_MAX_COUNT is 1024 and not 0: links do not use verbs;ofi_rxm by libfabric";
    assert_eq!((verdict, &*summary), (WARNING, words));
    let is_well = |tree: &Tree, told| look(tree, Some(told)).iter().all(|one| one.verdict == OK);
    assert!(is_well(&with("0"), &verbs) && is_well(&tree("mlx5-roce"), &verbs));
    let tcp = Libfabric { provider: Some("tcp".to_owned()), ..here(&["tcp;ofi_rxm"], Ok(false)) };
    assert!(is_well(&with("1024"), &tcp), "software has no registrations");
}

#[test]
fn two_copies_that_differ_are_told_where_it_matters() {
    let second = |name: &str, file: &str| {
        changed(name, |json| {
            json["links"]["/usr/lib64/libfabric.so.1"] = json!(format!("/usr/lib64/{file}"));
        })
    };
    let tree = second("efa", "libfabric.so.1.20.0");
    let told = here(&["efa"], Err("transport.enable_rdma is false"));
    let (verdict, summary) = fault(&look(&tree, Some(&told)));
    let words = "several libfabrics: /opt/amazon/efa/lib64/libfabric.so.1.25.0 (1.22.0amzn4.0) is taken, \
                 not /usr/lib64/libfabric.so.1.20.0";
    assert_eq!((verdict, &*summary), (NOTE, words));
    let same = look(&second("efa", "libfabric.so.1.25.0"), Some(&told));
    assert!(same.iter().all(|finding| finding.verdict == OK), "{same:?}");
    // Whichever was loaded is taken.
    let mut other = told.clone();
    if let Answer::Here(here) = &mut other.answer {
        here.file = "/usr/lib64/libfabric.so.1".to_owned();
    }
    let (_, summary) = fault(&look(&tree, Some(&other)));
    assert!(summary.contains("/usr/lib64/libfabric.so.1.20.0 is taken"), "{summary}");
    // Nobody needs either.
    let tree = second("mlx5-roce", "libfabric.so.1.20.0");
    assert!(look(&tree, None).iter().all(|finding| finding.verdict == OK));
}

#[test]
fn an_efa_device_without_its_driver_is_a_problem_even_where_there_is_no_other() {
    let function = "/sys/devices/pci0000:00/0000:00:1f.0";
    let plugged = |name: &str| {
        changed(name, |json| {
            json["files"][format!("{function}/vendor")] = json!("0x1d0f\n");
            json["files"][format!("{function}/device")] = json!("0xefa2\n");
            json["links"]["/sys/bus/pci/devices/0000:00:1f.0"] = json!(function);
        })
    };
    let expected: &[Fault<'_>] = &[("libfabric", PROBLEM, "0000:00:1f.0")];
    for (name, fix) in [("empty", "modprobe efa"), ("efa", "The module efa is loaded")] {
        let report = whole(&plugged(name), None, &[]);
        has(&report, expected);
        assert!(report.findings[0].fix[0].starts_with(fix), "{:?}", report.findings[0]);
        let words = "first: 0000:00:1f.0: an EFA device without its driver";
        assert!(report.line().ends_with(words), "{}", report.line());
    }
}
