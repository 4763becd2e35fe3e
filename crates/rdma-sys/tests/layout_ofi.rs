//! Compares the declarations of libfabric with its installed headers.
//!
//! Needs `cc` and libfabric-dev, which `cargo xtask test` installs.
#![allow(missing_docs, reason = "a test")]

mod header;

use header::Header;
use rdma_sys::layout::Layout;
use rdma_sys::ofi::{SIGNATURES, consts, info, objects, tables, work};

const OFI: Header = Header {
    includes: "#include <sys/uio.h>\n\
        #include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n\
        #include <rdma/fi_eq.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_rma.h>\n\
        #include <rdma/fi_atomic.h>\n#include <rdma/fi_errno.h>\n",
    link: "-lfabric",
    condition: |name| {
        let (_, (major, minor)) = LATER.iter().find(|(later, _)| *later == name)?;
        Some(format!(
            "((FI_MAJOR_VERSION << 16) | FI_MINOR_VERSION) >= (({major} << 16) | {minor})"
        ))
    },
};

/// Names that are newer than Debian's headers, and the version that added them.
const LATER: &[(&str, (u32, u32))] = &[
    ("FI_OPT_CUDA_API_PERMITTED", (1, 18)),
    ("fi_mr_attr.hmem_data", (1, 19)),
    ("fi_cq_err_entry.src_addr", (1, 20)),
    ("fi_mr_dmabuf", (1, 20)),
    ("FI_MR_DMABUF", (1, 20)),
    ("FI_ENOMR", (1, 20)),
    ("FI_OPT_SHARED_MEMORY_PERMITTED", (1, 21)),
    ("FI_PROGRESS_CONTROL_UNIFIED", (1, 21)),
    ("fi_mr_attr.page_size", (1, 22)),
    ("FI_OPT_MAX_MSG_SIZE", (1, 22)),
    ("FI_OPT_MAX_RMA_SIZE", (1, 22)),
    ("FI_OPT_INJECT_MSG_SIZE", (1, 22)),
    ("FI_OPT_INJECT_RMA_SIZE", (1, 22)),
    ("fi_mr_attr.base_mr", (2, 0)),
    ("fi_mr_attr.sub_mr_cnt", (2, 0)),
    ("FI_EFIREWALLADDR", (2, 2)),
    ("fi_cq_attr.xpu_ctx", (2, 7)),
];

fn layouts() -> Vec<&'static Layout> {
    [info::LAYOUTS, objects::LAYOUTS, tables::LAYOUTS, work::LAYOUTS]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn structs_have_the_layouts_of_the_headers() {
    OFI.compare_structs(&layouts());
}

#[test]
fn constants_have_the_values_of_the_headers() {
    OFI.compare_constants(consts::CONSTANTS);
}

#[test]
fn functions_have_the_types_of_the_headers() {
    OFI.compare_functions(SIGNATURES);
}

#[test]
fn slots_have_the_types_of_the_headers() {
    let slots = OFI.compare_slots(&layouts());
    assert!(slots >= 45, "only {slots} slots were compared");
}
