//! What `/metrics` answers. Asks no device, and takes no longer than counting does.

mod process;
mod rows;
mod store;
mod transport;

use metric::Exposition;

use super::status::Status;

/// One scrape.
pub(super) fn render(status: &Status) -> String {
    let mut answer = Exposition::new(&status.parts.prefix);
    store::add(&mut answer, status);
    transport::add(&mut answer, status);
    process::add(&mut answer);
    answer.to_string()
}
