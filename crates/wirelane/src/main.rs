//! The one program. Everything is in the library beside it, so that tests can reach it.

fn main() {
    wirelane::main()
}
