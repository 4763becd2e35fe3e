//! Our declarations against the installed header: `cc` compiles a program that prints what the
//! header says, and every line must be what Rust says.
//!
//! Needs `cc` and libibverbs-dev, which `cargo xtask test` installs.
#![allow(missing_docs, reason = "a test")]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use rdma_sys::layout::{Field, Layout, Match, Signature};
use rdma_sys::verbs::{SIGNATURES, SONAME};
use rdma_sys::{Verbs, consts, device, objects, work};

fn layouts() -> impl Iterator<Item = &'static Layout> {
    [device::LAYOUTS, objects::LAYOUTS, work::LAYOUTS, work::NESTED].into_iter().flatten()
}

#[test]
fn structs_lie_as_in_the_header() {
    let mut body = String::new();
    let mut expected = Vec::new();
    for layout in layouts() {
        let Layout { name, kind, matches, size, fields } = layout;
        let base = match matches {
            Match::Before(last) => format!("(long)offsetof({kind} {name}, {last})"),
            _ => "0L".to_owned(),
        };
        let end = match matches {
            Match::Before(last) => {
                fields.iter().find(|field| field.name == *last).expect("names a field").offset
            }
            _ => 0,
        };
        for Field { name: field, offset, size: field_size, .. } in *fields {
            let field = field.trim_start_matches("r#");
            writeln!(
                body,
                r#"    printf("{name}.{field} %ld %zu\n", (long)offsetof({kind} {name}, {field}) - {base}, sizeof((({kind} {name} *)0)->{field}));"#
            )
            .unwrap();
            let offset = *offset as i64 - end as i64;
            expected.push((format!("{name}.{field} {offset} {field_size}"), *matches));
        }
        if matches!(matches, Match::Exact | Match::Grows) {
            let relation = if *matches == Match::Exact { "==" } else { ">=" };
            writeln!(
                body,
                r#"    printf("sizeof({name}) %s {size}\n", sizeof({kind} {name}) {relation} {size} ? "fits" : "does not fit");"#
            )
            .unwrap();
            expected.push((format!("sizeof({name}) fits {size}"), *matches));
        }
    }
    let printed = run_c(&body);
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(printed.len(), expected.len());
    for (line, (want, matches)) in printed.iter().zip(&expected) {
        // A field that holds a struct which may grow is itself allowed to have grown.
        let same_place = |a: &str, b: &str| {
            a.rsplit_once(' ').map(|(a, _)| a) == b.rsplit_once(' ').map(|(b, _)| b)
        };
        let fits = line == want
            || (matches!(matches, Match::Before(_))
                && same_place(line, want)
                && want.contains(".context "));
        assert!(fits, "the header says `{line}`, rdma-sys says `{want}`");
    }
}

#[test]
fn the_gid_union_is_sixteen_bytes_aligned_to_eight() {
    let printed = run_c(
        r#"    printf("%zu %zu %zu\n", sizeof(union ibv_gid), _Alignof(union ibv_gid), offsetof(union ibv_gid, raw));"#,
    );
    assert_eq!(printed.trim(), "16 8 0");
    assert_eq!(size_of::<device::ibv_gid>(), 16);
    assert_eq!(align_of::<device::ibv_gid>(), 8);
}

#[test]
fn constants_have_the_values_of_the_header() {
    let mut body = String::new();
    for (name, _) in consts::CONSTANTS {
        writeln!(body, r#"    printf("{name} %lld\n", (long long){name});"#).unwrap();
    }
    let printed = run_c(&body);
    let expected: Vec<String> =
        consts::CONSTANTS.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

/// The compiler refuses the program if a row's type is not the header's.
#[test]
fn functions_have_the_types_of_the_header() {
    let mut body = String::new();
    for Signature { name, arguments, returns, .. } in SIGNATURES {
        let arguments: Vec<String> = arguments.iter().map(|a| c_type(a)).collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        let returns = c_type(returns);
        writeln!(
            body,
            "    {{ {returns} (*row)({arguments}) = {name}; printf(\"%d\\n\", row != 0); }}"
        )
        .unwrap();
    }
    assert_eq!(run_c(&body).lines().filter(|l| *l == "1").count(), SIGNATURES.len());
}

/// The same for the functions that are called through the tables of an open device.
#[test]
fn slots_have_the_types_of_the_header() {
    let mut body = String::new();
    let mut slots = 0;
    for Layout { name, fields, .. } in layouts() {
        for Field { name: slot, type_text, .. } in *fields {
            let Some((returns, arguments)) = c_function(type_text) else { continue };
            writeln!(
                body,
                "    {{ {returns} (*slot)({arguments}) = ((struct {name} *)object)->{slot}; \
                 printf(\"%d\\n\", slot == 0); }}"
            )
            .unwrap();
            slots += 1;
        }
    }
    let body = format!("    static char object[8192];\n{body}");
    assert_eq!(run_c(&body).lines().filter(|line| *line == "1").count(), slots);
    assert!(slots >= 35, "only {slots} slots were compared");
}

/// The return type and arguments in C of `Option<unsafe extern "C" fn(A, B) -> C>`.
fn c_function(rust: &str) -> Option<(String, String)> {
    // Long types are printed over several lines.
    let rust = rust.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, signature) = rust.split_once("fn(")?;
    let (arguments, rest) = signature.split_once(')')?;
    let returns = rest.split_once("->").map_or("()", |(_, returns)| returns);
    let returns = c_type(returns.trim().trim_end_matches('>'));
    let arguments: Vec<String> =
        arguments.split(',').map(str::trim).filter(|a| !a.is_empty()).map(c_type).collect();
    Some((returns, arguments.join(", ")))
}

#[test]
fn the_installed_library_has_every_symbol_under_its_version() {
    if let Err(error) = Verbs::load(Path::new(SONAME)) {
        panic!("{error}");
    }
}

/// `* mut ibv_qp` as C writes it.
fn c_type(rust: &str) -> String {
    let rust = rust.replace("* ", "*");
    let rust = rust.trim();
    if let Some(pointee) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(pointee));
    }
    if let Some(pointee) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(pointee));
    }
    let name = match rust {
        "()" | "c_void" => "void",
        "c_char" => "char",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "isize" => "ssize_t",
        "__be16" | "__be64" => rust,
        "ibv_gid" => "union ibv_gid",
        other => return format!("struct {other}"),
    };
    name.to_owned()
}

/// Compiles `body` against the header, runs it, returns what it printed.
fn run_c(body: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Tests run side by side; each has its own file.
    let stem = format!("layout-{}-{:?}", std::process::id(), std::thread::current().id());
    let stem: String = stem.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
    let (source, program) = (folder.join(format!("{stem}.c")), folder.join(&stem));
    // The header hides two exported functions behind macros of the same name.
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
         #undef ibv_reg_mr\n#undef ibv_query_port\n#undef ibv_get_device_list\n\
         int main(void) {{\n{body}    return 0;\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wno-unused", "-Wno-address", "-Werror", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-libverbs")
        .output()
        .expect("cc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("the compiled program runs");
    assert!(output.status.success());
    let _ = std::fs::remove_file(source);
    let _ = std::fs::remove_file(program);
    String::from_utf8(output.stdout).unwrap()
}
