//! Compares the declarations of libibverbs with its installed header.
//!
//! Needs `cc` and libibverbs-dev, which `cargo xtask test` installs.
#![allow(missing_docs, reason = "a test")]

mod header;

use std::path::Path;

use header::Header;
use rdma_sys::layout::Layout;
use rdma_sys::verbs::{SIGNATURES, SONAME};
use rdma_sys::{Verbs, consts, device, objects, work};

/// The header hides exported functions behind macros of the same name.
const VERBS: Header = Header {
    includes: "#include <infiniband/verbs.h>\n\
        #undef ibv_reg_mr\n#undef ibv_query_port\n#undef ibv_get_device_list\n",
    link: "-libverbs",
    condition: |_| None,
};

fn layouts() -> Vec<&'static Layout> {
    [device::LAYOUTS, objects::LAYOUTS, work::LAYOUTS, work::NESTED].into_iter().flatten().collect()
}

#[test]
fn structs_have_the_layouts_of_the_header() {
    VERBS.compare_structs(&layouts());
}

#[test]
fn the_gid_union_is_sixteen_bytes_aligned_to_eight() {
    let printed = VERBS.run(
        r#"    printf("%zu %zu %zu\n", sizeof(union ibv_gid), _Alignof(union ibv_gid), offsetof(union ibv_gid, raw));"#,
    );
    assert_eq!(printed.trim(), "16 8 0");
    assert_eq!(size_of::<device::ibv_gid>(), 16);
    assert_eq!(align_of::<device::ibv_gid>(), 8);
}

#[test]
fn constants_have_the_values_of_the_header() {
    VERBS.compare_constants(consts::CONSTANTS);
}

#[test]
fn functions_have_the_types_of_the_header() {
    VERBS.compare_functions(SIGNATURES);
}

#[test]
fn slots_have_the_types_of_the_header() {
    let slots = VERBS.compare_slots(&layouts());
    assert!(slots >= 35, "only {slots} slots were compared");
}

#[test]
fn the_installed_library_has_every_symbol_under_its_version() {
    if let Err(error) = Verbs::load(Path::new(SONAME)) {
        panic!("{error}");
    }
}
