//! Error lines, with causes checked on a machine.

use doctor::CheckInput;
use doctor::explain::{Explanation, State, explain, parse};
use node::Node;

use crate::tree;

fn on(name: &str, line: &str) -> Explanation {
    let tree = tree(name);
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    explain(parse(line), &input).into_iter().next().unwrap_or_else(|| panic!("{line} is not known"))
}

#[test]
fn for_a_protection_error_iommu_and_acs_are_always_first() {
    let lines = [
        "IBV_WC_LOC_PROT_ERR(4) vendor_err=81",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=4 opcode=0 len=0 \
         vendor err 81 (Send)",
        "ib_mlx5_log.c:177 Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/0)",
        " Failed status 4: wr_id 0 syndrom 0x51",
    ];
    for line in lines {
        for name in ["iommu", "ndr8", "mlx5-roce", "empty"] {
            let explained = on(name, line);
            let first: Vec<Option<&str>> =
                explained.causes.iter().take(2).map(|cause| cause.check).collect();
            assert!(
                first.contains(&Some("iommu")) && first.contains(&Some("acs")),
                "{name}: {first:?}"
            );
        }
    }
}

#[test]
fn the_state_of_the_iommu_has_its_file_as_evidence() {
    let seen = on("iommu", "IBV_WC_LOC_PROT_ERR(4) vendor_err=81");
    let iommu = &seen.causes[0];
    assert_eq!((iommu.check, iommu.state), (Some("iommu"), State::Found));
    let evidence = &iommu.findings[0].evidence[0];
    assert!(
        evidence.source.starts_with("/sys/kernel/iommu_groups/") && evidence.value == "DMA-FQ",
        "{evidence:?}"
    );
    let well = on("ndr8", "IBV_WC_LOC_PROT_ERR(4) vendor_err=81");
    let iommu = well.causes.iter().find(|cause| cause.check == Some("iommu")).expect("a cause");
    assert_eq!(iommu.state, State::NotFound);
    assert_eq!(iommu.findings[0].evidence[0].value, "identity");
}

#[test]
fn causes_found_on_the_machine_come_first() {
    let explained = on("mtu", "Failed status 12: wr_id 0 syndrom 0x81");
    assert_eq!((explained.causes[0].check, explained.causes[0].state), (Some("mtu"), State::Found));
    let explained = on("roce-no-ip", "Failed status 12: wr_id 0 syndrom 0x81");
    assert_eq!((explained.causes[0].check, explained.causes[0].state), (Some("gid"), State::Found));
    let explained = on("memlock", "NCCL WARN Call to ibv_reg_mr failed");
    assert_eq!(
        (explained.causes[0].check, explained.causes[0].state),
        (Some("memlock"), State::Found)
    );
}

#[test]
fn a_note_is_not_a_cause() {
    let explained = on("cx3-port2", "Failed status 12: wr_id 0 syndrom 0x81");
    let ports = explained.causes.iter().find(|cause| cause.check == Some("ports"));
    assert_eq!(ports.map(|cause| cause.state), Some(State::NotFound));
}
