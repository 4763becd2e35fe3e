//! MPI host files: one host per line, `node1 slots=4 max_slots=8` or `node1:4`, and comments.

use super::{Host, Inventory, InventoryError, list, number};

impl Inventory {
    /// Parses a host file of Open MPI, MPICH or Intel MPI. The slots of a host on several lines are added up.
    pub fn from_file(text: &str) -> Result<Self, InventoryError> {
        let mut hosts = Vec::new();
        for (at, line) in text.lines().enumerate() {
            hosts.extend(read_line(line).map_err(|error| error.on_line(at + 1))?);
            if hosts.len() > MAX_ENTRIES {
                return Err(InventoryError::new(format!("has more than {MAX_ENTRIES} entries")));
            }
        }
        Inventory::with_repeats(hosts)
    }
}

fn read_line(line: &str) -> Result<Vec<Host>, InventoryError> {
    let line = line.split('#').next().unwrap_or_default();
    // Some write `slots = 4`.
    let line = line.replace(" =", "=").replace("= ", "=");
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Ok(Vec::new()) };
    let mut hosts = list::named(first)?;
    hosts.iter().try_for_each(Host::check)?;
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let value = number(value);
        match (name.to_ascii_lowercase().as_str(), value) {
            ("slots" | "cpu" | "count", Some(slots)) => {
                hosts.iter_mut().for_each(|host| host.slots = Some(slots));
            }
            // `max_slots` matters only to programs that start more ranks than there are slots.
            ("max_slots" | "max-slots" | "slots_max", Some(_)) => {}
            _ => {
                let shown: String = word.chars().take(40).collect();
                return Err(InventoryError::new(format!("has {shown:?}; write `HOST slots=4`")));
            }
        }
    }
    Ok(hosts)
}

/// Schedulers write one line per process.
const MAX_ENTRIES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &str) -> Vec<(String, Option<u32>)> {
        let hosts = Inventory::from_file(text).expect("hosts").hosts;
        hosts.into_iter().map(|host| (host.name, host.slots)).collect()
    }

    #[test]
    fn common_host_files_are_parsed() {
        let text =
            "# two nodes\nnode1 slots=4 max_slots=8\r\n\n  node2:2  # the small one\nnode3\n";
        let expected = [("node1", Some(4)), ("node2", Some(2)), ("node3", None)];
        assert_eq!(slots(text), expected.map(|(name, slots)| (name.to_owned(), slots)));
        assert_eq!(slots("a slots = 4 max-slots=4"), [("a".to_owned(), Some(4))]);
        let operator = "pi-worker-0.pi.default.svc slots=8\npi-worker-1.pi.default.svc slots=8\n";
        assert_eq!(slots(operator)[1], ("pi-worker-1.pi.default.svc".to_owned(), Some(8)));
    }

    #[test]
    fn lines_of_one_host_add_up() {
        assert_eq!(slots("a\nb\na\na\n"), [("a".to_owned(), Some(3)), ("b".to_owned(), None)]);
        assert_eq!(slots("a slots=2\na\n"), [("a".to_owned(), Some(3))]);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| Inventory::from_file(text).unwrap_err().to_string();
        assert_eq!(error("a\nb slot=4"), "line 2 has \"slot=4\"; write `HOST slots=4`");
        assert!(error("a slots=x").starts_with("line 1 "));
        assert!(error("a b").starts_with("line 1 "));
        assert!(error("\n\n^a").starts_with("line 3 has \"^a\""));
        assert_eq!(error("# no hosts\n"), "names no host");
        assert!(error("a slots=0").contains("0 slots"));
        assert!(error(&"n[1-4096]\n".repeat(5000)).contains("more than"));
    }
}
