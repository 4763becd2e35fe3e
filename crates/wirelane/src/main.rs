//! The program. Everything is in the library, so that tests can use it.

fn main() {
    wirelane::main()
}
