//! Findings on libfabric and EFA devices.

use doctor::libfabric::{Answer, Choice, Libfabric, Library};
use doctor::{CheckInput, Finding, FindingsReport, Severity, check, run_checks};
use node::{Node, Tree};
use serde_json::{Value, json};

use crate::{Fault, NOTE, PROBLEM, WARNING, changed, has, tree};

const OK: Severity = Severity::Ok;
const UNKNOWN: Severity = Severity::Unknown;

/// The findings of the check with this state of libfabric.
fn findings(tree: &Tree, state: Option<&Libfabric>) -> Vec<Finding> {
    report(tree, state, &[check("libfabric").expect("the check")]).findings
}

fn report(tree: &Tree, state: Option<&Libfabric>, only: &[&doctor::Check]) -> FindingsReport {
    let node = Node::read(tree);
    run_checks(&CheckInput { libfabric: state, ..CheckInput::new(&node, tree) }, only)
}

fn with_answer(answer: Answer) -> Libfabric {
    Libfabric { provider: None, library_file: None, answer }
}

/// A libfabric with these providers, of which links use the first, or none for this reason.
fn loaded(providers: &[&str], links: Result<bool, &str>) -> Libfabric {
    let choice = |caches_registrations| Choice {
        provider: providers[0].to_owned(),
        why: format!("{} is here, and best", providers[0]),
        caches_registrations,
    };
    with_answer(Answer::Loaded(Library {
        version: "1.22".to_owned(),
        file: "/opt/amazon/efa/lib64/libfabric.so.1".to_owned(),
        providers: providers.iter().map(|name| (*name).to_owned()).collect(),
        links: links.map(choice).map_err(str::to_owned),
        transport_ofi: format!("{}: it is here", providers[0]),
    }))
}

fn unavailable() -> Libfabric {
    let why = "libfabric.so.1 cannot be loaded: No such file".to_owned();
    with_answer(Answer::Unavailable { why, fix: "install it".to_owned() })
}

/// The EFA host with these variables in its environment.
fn efa_with(variables: &[(&str, &str)]) -> Tree {
    let variables: Value = variables.iter().map(|(name, value)| (*name, *value)).collect();
    changed("efa", |json| json["environment"] = variables)
}

/// The one finding that is not ok.
#[track_caller]
fn fault(findings: &[Finding]) -> (Severity, String) {
    let faults: Vec<_> = findings.iter().filter(|finding| finding.severity != OK).collect();
    let [one] = &faults[..] else { panic!("{faults:?}") };
    assert!(!one.evidence.is_empty() && !one.fix.is_empty(), "{one:?}");
    (one.severity, one.summary.clone())
}

#[test]
fn an_efa_host_whose_links_use_efa_has_no_fault() {
    let tree = efa_with(&[("FI_MR_CACHE_MAX_COUNT", "1024")]);
    let state = loaded(&["efa", "tcp;ofi_rxm", "shm"], Ok(false));
    let findings = findings(&tree, Some(&state));
    let [library, devices] = &findings[..] else { panic!("{findings:?}") };
    let words = "libfabric 1.22: links use efa: efa is here, and best";
    assert_eq!((library.severity, &*library.summary), (OK, words));
    assert_eq!(library.evidence[0].value, "libfabric 1.22, providers efa, tcp;ofi_rxm, shm");
    assert_eq!(library.evidence[1].value, "efa: it is here", "by --transport ofi");
    let words = "EFA efa1, driver 2.10.0, firmware 0.0.0.0, port 1 ACTIVE; no RDMA read counted yet, \
                 no RDMA write counted yet";
    assert_eq!((devices.severity, &*devices.summary), (OK, words));
    assert_eq!(devices.subjects.len(), 4, "equal findings are merged");
    has(&report(&tree, Some(&state), &[]), &[]);
}

#[test]
fn counted_rdma_reads_and_writes_are_reported() {
    let ports = "/sys/class/infiniband/rdmap16s27/ports/1/hw_counters";
    let tree = changed("efa", |json| {
        json["files"][format!("{ports}/rdma_read_wrs")] = json!("17\n");
        let files = json["files"].as_object_mut().expect("files");
        files.retain(|path, _| !path.contains("hw_counters/rdma_write_"));
    });
    let findings = findings(&tree, None);
    let device = |name: &str| {
        let mut found = findings.iter().filter(|finding| finding.subjects[0] == name);
        found.next().unwrap_or_else(|| panic!("no {name}")).summary.clone()
    };
    assert!(device("rdmap16s27").ends_with("RDMA reads counted, RDMA writes not counted"));
    assert!(device("rdmap32s27").ends_with("no RDMA read counted yet, RDMA writes not counted"));
}

#[test]
fn in_a_snapshot_only_files_are_known() {
    let findings = findings(&tree("efa"), None);
    let library = findings.iter().find(|finding| finding.severity == UNKNOWN).expect("a finding");
    assert!(library.summary.contains("known only on the running machine"), "{library:?}");
    let file = "/opt/amazon/efa/lib64/libfabric.so.1.25.0";
    assert!(library.summary.contains(&format!("{file} (1.22.0amzn4.0) is installed")));
    assert_eq!(
        (&*library.evidence[0].source, &*library.evidence[0].value),
        (file, "version 1.22.0amzn4.0")
    );
}

#[test]
fn missing_libfabric_is_a_problem_only_for_efa() {
    let (severity, summary) = fault(&findings(&tree("efa"), Some(&unavailable())));
    assert_eq!(severity, PROBLEM);
    assert!(summary.contains("libfabric.so.1 cannot be loaded: No such file"), "{summary}");
    for name in ["mlx5-roce", "empty"] {
        let findings = findings(&tree(name), Some(&unavailable()));
        assert_eq!(findings.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [OK]);
    }
    let requested =
        Libfabric { library_file: Some("/x/libfabric.so.1".to_owned()), ..unavailable() };
    assert_eq!(fault(&findings(&tree("mlx5-roce"), Some(&requested))).0, WARNING);
}

#[test]
fn libfabric_that_is_not_needed_is_ok() {
    let why = "there is no EFA device, and nobody asks for it";
    let state = with_answer(Answer::NotQueried(why.to_owned()));
    let found = findings(&tree("mlx5-roce"), Some(&state));
    let [one] = &found[..] else { panic!("{found:?}") };
    let words = format!(
        "libfabric is not needed: {why}; devices use verbs; not found in the usual folders"
    );
    assert_eq!((one.severity, &one.summary), (OK, &words));
    // A loaded one, since the check was named.
    let found = findings(&tree("mlx5-roce"), Some(&loaded(&["verbs;ofi_rxm", "shm"], Err(why))));
    let words = format!("libfabric 1.22 is available, but links do not use it: {why}");
    assert_eq!((found[0].severity, &found[0].summary), (OK, &words));
}

#[test]
fn a_missing_requested_provider_is_a_warning() {
    let why = "libfabric has no provider cxi here; it has shm";
    let state = Libfabric { provider: Some("cxi".to_owned()), ..loaded(&["shm"], Err(why)) };
    let (severity, summary) = fault(&findings(&tree("mlx5-roce"), Some(&state)));
    assert!(severity == WARNING && summary.ends_with(why), "{summary}");
}

#[test]
fn a_libfabric_without_efa_is_a_problem_that_a_variable_may_cause() {
    let state = loaded(&["tcp;ofi_rxm", "shm"], Err("tcp;ofi_rxm is software"));
    let words = "libfabric 1.22 has no provider efa; it has tcp;ofi_rxm, shm".to_owned();
    let plain = findings(&tree("efa"), Some(&state));
    assert_eq!(fault(&plain), (PROBLEM, words.clone()));
    assert!(plain[0].fix[0].contains("EFA's own libfabric"), "{:?}", plain[0].fix);
    let hidden = findings(&efa_with(&[("FI_PROVIDER", "tcp,shm")]), Some(&state));
    assert_eq!(fault(&hidden), (PROBLEM, words));
    assert!(hidden[0].fix[0].contains("unset FI_PROVIDER"), "{:?}", hidden[0].fix);
    assert!(hidden[0].evidence.iter().any(|read| read.source == "$FI_PROVIDER"));
}

#[test]
fn variables_that_hide_efa() {
    let known_with = |variables: &[(&str, &str)]| {
        let findings = findings(&efa_with(variables), None);
        let faults = findings.into_iter().filter(|finding| finding.severity != UNKNOWN);
        faults.collect::<Vec<_>>()
    };
    for hiding in ["tcp", "^efa", "^shm,efa", "tcp, shm"] {
        let (severity, summary) = fault(&known_with(&[("FI_PROVIDER", hiding)]));
        assert!(severity == WARNING && summary.contains(hiding), "{summary}");
    }
    for showing in ["efa", "tcp,efa", "^tcp", ""] {
        assert!(known_with(&[("FI_PROVIDER", showing)]).iter().all(|one| one.severity == OK));
    }
    let (severity, summary) = fault(&known_with(&[("FI_EFA_USE_DEVICE_RDMA", "0")]));
    assert!(severity == NOTE && summary.contains("with messages"), "{summary}");
    let (severity, summary) = fault(&known_with(&[("FI_EFA_IFACE", "rdmap0s6")]));
    assert!(severity == WARNING && summary.contains("hides every EFA device"), "{summary}");
    let (severity, summary) = fault(&known_with(&[("FI_EFA_IFACE", "rdmap16s27,rdmap32s27")]));
    assert!(
        severity == NOTE && summary.ends_with("it hides rdmap144s27, rdmap160s27"),
        "{summary}"
    );
    assert!(
        known_with(&[("FI_EFA_IFACE", "all"), ("FI_EFA_USE_DEVICE_RDMA", "1")])
            .iter()
            .all(|one| one.severity == OK)
    );
}

#[test]
fn the_registration_cache_is_a_warning_if_it_prevents_a_provider() {
    let with = |value: &str| {
        changed("mlx5-roce", |json| json["environment"] = json!({ "FI_MR_CACHE_MAX_COUNT": value }))
    };
    let verbs =
        Libfabric { provider: Some("verbs".to_owned()), ..loaded(&["verbs;ofi_rxm"], Ok(true)) };
    let (severity, summary) = fault(&findings(&with("1024"), Some(&verbs)));
    let words = "FI_MR_CACHE_MAX_COUNT is 1024, not 0: links do not use libfabric's verbs;ofi_rxm";
    assert_eq!((severity, &*summary), (WARNING, words));
    let is_ok =
        |tree: &Tree, state| findings(tree, Some(state)).iter().all(|one| one.severity == OK);
    assert!(is_ok(&with("0"), &verbs) && is_ok(&tree("mlx5-roce"), &verbs));
    let tcp = Libfabric { provider: Some("tcp".to_owned()), ..loaded(&["tcp;ofi_rxm"], Ok(false)) };
    assert!(is_ok(&with("1024"), &tcp), "software has no registrations");
}

#[test]
fn different_versions_are_a_note_if_libfabric_is_needed() {
    let second = |name: &str, file: &str| {
        changed(name, |json| {
            json["links"]["/usr/lib64/libfabric.so.1"] = json!(format!("/usr/lib64/{file}"));
        })
    };
    let tree = second("efa", "libfabric.so.1.20.0");
    let state = loaded(&["efa"], Err("transport.enable_rdma is false"));
    let (severity, summary) = fault(&findings(&tree, Some(&state)));
    let words = "several libfabrics: uses /opt/amazon/efa/lib64/libfabric.so.1.25.0 (1.22.0amzn4.0), not \
                 /usr/lib64/libfabric.so.1.20.0";
    assert_eq!((severity, &*summary), (NOTE, words));
    let same = findings(&second("efa", "libfabric.so.1.25.0"), Some(&state));
    assert!(same.iter().all(|finding| finding.severity == OK), "{same:?}");
    // The loaded one is used.
    let mut other = state.clone();
    if let Answer::Loaded(library) = &mut other.answer {
        library.file = "/usr/lib64/libfabric.so.1".to_owned();
    }
    let (_, summary) = fault(&findings(&tree, Some(&other)));
    assert!(summary.contains("uses /usr/lib64/libfabric.so.1.20.0,"), "{summary}");
    // Neither is needed.
    let tree = second("mlx5-roce", "libfabric.so.1.20.0");
    assert!(findings(&tree, None).iter().all(|finding| finding.severity == OK));
}

#[test]
fn an_efa_device_without_a_driver_is_a_problem_also_as_the_only_device() {
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
        let report = report(&plugged(name), None, &[]);
        has(&report, expected);
        assert!(report.findings[0].fix[0].starts_with(fix), "{:?}", report.findings[0]);
        let words = "first: 0000:00:1f.0: EFA device without a driver";
        assert!(report.line().ends_with(words), "{}", report.line());
    }
}
