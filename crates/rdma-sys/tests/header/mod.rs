//! Compares declarations with an installed header: `cc` compiles a program that prints the values of the
//! header, and every line must match those of Rust.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use rdma_sys::layout::{Field, Layout, Match, Signature};

/// The headers of one library.
pub(crate) struct Header {
    /// The lines before `main`.
    pub(crate) includes: &'static str,
    /// The linker's option for the library.
    pub(crate) link: &'static str,
    /// The preprocessor's condition under which the header has a name; `None` if it always
    /// has. Names are those of structs, of fields as `struct.field`, and of constants.
    pub(crate) condition: fn(&str) -> Option<String>,
}

impl Header {
    pub(crate) fn compare_structs(&self, layouts: &[&Layout]) {
        let mut lines = Vec::new();
        for layout in layouts {
            self.add_fields(layout, &mut lines);
            self.add_size(layout, &mut lines);
        }
        self.compare(&lines);
    }

    pub(crate) fn compare_constants(&self, constants: &[(&str, i64)]) {
        let line = |(name, value): &(&str, i64)| Line {
            prints: format!(r#"printf("{name} %lld\n", (long long){name});"#),
            expected: format!("{name} {value}"),
            condition: (self.condition)(name),
            may_grow: false,
        };
        self.compare(&constants.iter().map(line).collect::<Vec<_>>());
    }

    /// The program does not compile if a function's type differs from the header's.
    pub(crate) fn compare_functions(&self, signatures: &[Signature]) {
        let mut body = String::new();
        for Signature { name, arguments, returns } in signatures {
            let arguments: Vec<String> = arguments.iter().map(|a| c_type(a)).collect();
            let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
            let returns = c_type(returns);
            writeln!(
                body,
                "    {{ {returns} (*row)({arguments}) = {name}; printf(\"%d\\n\", row != 0); }}"
            )
            .unwrap();
        }
        assert_eq!(self.run(&body).lines().filter(|l| *l == "1").count(), signatures.len());
    }

    /// The same for functions in tables; returns their number.
    pub(crate) fn compare_slots(&self, layouts: &[&Layout]) -> usize {
        let mut body = "    static char object[8192];\n".to_owned();
        let mut slots = 0;
        for Layout { name, fields, .. } in layouts {
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
        assert_eq!(self.run(&body).lines().filter(|line| *line == "1").count(), slots);
        slots
    }

    fn add_fields(&self, layout: &Layout, lines: &mut Vec<Line>) {
        let Layout { name, kind, matches, fields, .. } = layout;
        let (base, end) = match matches {
            Match::Before(last) => {
                let end = fields.iter().find(|field| field.name == *last).expect("names a field");
                (format!("(long)offsetof({kind} {name}, {last})"), end.offset)
            }
            _ => ("0L".to_owned(), 0),
        };
        for Field { name: field, offset, size, .. } in *fields {
            let field = field.trim_start_matches("r#");
            let offset = *offset as i64 - end as i64;
            let condition = (self.condition)(&format!("{name}.{field}"));
            lines.push(Line {
                prints: format!(
                    r#"printf("{name}.{field} %ld %zu\n", (long)offsetof({kind} {name}, {field}) - {base}, sizeof((({kind} {name} *)0)->{field}));"#
                ),
                expected: format!("{name}.{field} {offset} {size}"),
                condition: condition.or_else(|| (self.condition)(name)),
                // A field whose struct may grow may be larger too.
                may_grow: matches!(matches, Match::Before(_)) && field == "context",
            });
        }
    }

    fn add_size(&self, layout: &Layout, lines: &mut Vec<Line>) {
        let Layout { name, kind, matches, size, .. } = layout;
        let relation = match matches {
            Match::Exact => "==",
            Match::Grows => ">=",
            Match::Ahead => "<=",
            Match::Prefix | Match::Before(_) => return,
        };
        lines.push(Line {
            prints: format!(
                r#"printf("sizeof({name}) %s {size}\n", sizeof({kind} {name}) {relation} {size} ? "fits" : "does not fit");"#
            ),
            expected: format!("sizeof({name}) fits {size}"),
            condition: (self.condition)(name),
            may_grow: false,
        });
    }

    fn compare(&self, lines: &[Line]) {
        let body: String = lines.iter().map(Line::in_c).collect();
        let printed = self.run(&body);
        assert_eq!(printed.lines().count(), lines.len());
        for (printed, line) in printed.lines().zip(lines) {
            let want = &line.expected;
            assert!(line.fits(printed), "the header has `{printed}`, rdma-sys `{want}`");
        }
    }

    /// Compiles `body` against the header, runs it, and returns its output.
    pub(crate) fn run(&self, body: &str) -> String {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Tests run in parallel; each has its own file.
        let stem = format!("layout-{}-{:?}", std::process::id(), std::thread::current().id());
        let stem: String = stem.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
        let (source, program) = (folder.join(format!("{stem}.c")), folder.join(&stem));
        let text = format!(
            "#include <stddef.h>\n#include <stdio.h>\n{}\n\
             int main(void) {{\n{body}    return 0;\n}}\n",
            self.includes
        );
        std::fs::write(&source, text).unwrap();
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wno-unused", "-Wno-address", "-Werror", "-o"])
            .arg(&program)
            .arg(&source)
            .arg(self.link)
            .output()
            .expect("cc runs");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let output = Command::new(&program).output().expect("the compiled program runs");
        assert!(output.status.success());
        let _ = std::fs::remove_file(source);
        let _ = std::fs::remove_file(program);
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A line of the program, and its expected output.
struct Line {
    prints: String,
    expected: String,
    condition: Option<String>,
    may_grow: bool,
}

impl Line {
    fn in_c(&self) -> String {
        match &self.condition {
            Some(condition) => {
                format!("#if {condition}\n    {}\n#else\n    puts(\"-\");\n#endif\n", self.prints)
            }
            None => format!("    {}\n", self.prints),
        }
    }

    fn fits(&self, printed: &str) -> bool {
        let place = |line: &str| line.rsplit_once(' ').map(|(place, _)| place.to_owned());
        printed == self.expected
            || (printed == "-" && self.condition.is_some())
            || (self.may_grow && place(printed) == place(&self.expected))
    }
}

/// The return type and arguments in C of `Option<unsafe extern "C" fn(A, B) -> C>`.
fn c_function(rust: &str) -> Option<(String, String)> {
    // Long types are formatted over several lines.
    let rust = rust.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, signature) = rust.split_once("fn(")?;
    let (arguments, rest) = signature.split_once(')')?;
    let returns = rest.split_once("->").map_or("()", |(_, returns)| returns);
    let returns = c_type(returns.trim().trim_end_matches('>'));
    let arguments: Vec<String> =
        arguments.split(',').map(str::trim).filter(|a| !a.is_empty()).map(c_type).collect();
    Some((returns, arguments.join(", ")))
}

/// A type such as `* mut ibv_qp` in C syntax.
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
        "__be16" | "__be64" | "fi_addr_t" => rust,
        "ibv_gid" => "union ibv_gid",
        other => return format!("struct {other}"),
    };
    name.to_owned()
}
