//! libfabric on this machine: its providers, and whether to load it without a request.

use std::fmt::Write;

use fabric::ofi::{self, ProviderList};
use node::Tree;
use serde::Serialize;

use crate::links::rdma::Off;
use crate::settings::Global;
use crate::settings::Settings;

/// The providers of libfabric for lanes, in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Libfabric {
    usable: bool,
    #[serde(flatten)]
    off: Option<Off>,
    #[serde(flatten)]
    found: Option<Found>,
}

#[derive(Debug, Serialize)]
struct Found {
    version: String,
    abi: &'static str,
    file: String,
    providers: Vec<Provider>,
    /// The provider that `--transport ofi` chooses and why, or why none.
    choice: String,
}

#[derive(Debug, Serialize)]
struct Provider {
    name: String,
    version: String,
    network: String,
    interface: String,
}

impl Libfabric {
    /// Loads and queries it.
    pub(crate) fn query(global: &Global, settings: &Settings) -> Self {
        match ofi::list_providers(global.libfabric.as_deref()) {
            Ok(listed) => {
                let found = Found::new(&listed, &settings.ofi_provider);
                Libfabric { usable: true, off: None, found: Some(found) }
            }
            Err(off) => {
                let (why, fix) = (off.to_string(), off.fix().to_owned());
                let off = Off { code: off.kind(), why, fix };
                Libfabric { usable: false, off: Some(off), found: None }
            }
        }
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(Off { why, fix, .. }) = &self.off {
            let _ = writeln!(text, "libfabric is off: {why} — {fix}");
        }
        if let Some(Found { version, abi, file, providers, choice }) = &self.found {
            let _ = writeln!(text, "libfabric {version}  {abi}  {file}");
            for Provider { name, network, interface, .. } in providers {
                let _ = writeln!(text, "  {name}  {interface}  {network}");
            }
            let _ = writeln!(text, "  with --transport ofi: {choice}");
        }
        text
    }
}

impl Found {
    fn new(listed: &ProviderList, requested: &str) -> Self {
        let dotted = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let provider = |provider: &ofi::Provider| Provider {
            name: provider.name.clone(),
            version: dotted(provider.version),
            network: provider.fabric.clone(),
            interface: provider.domain.clone(),
        };
        Found {
            version: dotted(listed.version),
            abi: listed.abi,
            file: listed.file.display().to_string(),
            providers: listed.providers.iter().map(provider).collect(),
            choice: choice(listed, Some(requested).filter(|requested| !requested.is_empty())),
        }
    }
}

/// The provider that `--transport ofi` chooses and why, or why none.
pub(crate) fn choice(listed: &ProviderList, requested: Option<&str>) -> String {
    match ofi::choose(listed, requested) {
        Ok(choice) => format!("{}: {}", choice.provider.name, choice.why),
        Err(refusal) => format!("none: {refusal}"),
    }
}

/// Why libfabric is not loaded on most hosts.
pub(crate) const NOT_REQUESTED: &str =
    "there is no EFA device, and neither ofi_provider nor --transport requests it";

/// Whether this host has an EFA device, which verbs lanes cannot use.
pub(crate) fn has_efa_device(tree: &Tree) -> bool {
    let driver = |device: &String| {
        tree.link_name(&format!("/sys/class/infiniband/{device}/device/driver")).into_value()
    };
    tree.list("/sys/class/infiniband").iter().filter_map(driver).any(|driver| driver == "efa")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_efa_device_is_recognized_by_its_driver() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("sys/class/infiniband/rdmap0s6/device");
        std::fs::create_dir_all(&device).unwrap();
        assert!(!has_efa_device(&Tree::at(root.path()).unwrap()));
        let drivers = root.path().join("sys/bus/pci/drivers/efa");
        std::fs::create_dir_all(&drivers).unwrap();
        symlink("../../../../bus/pci/drivers/efa", device.join("driver")).unwrap();
        assert!(has_efa_device(&Tree::at(root.path()).unwrap()));
    }
}
