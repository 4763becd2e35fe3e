//! Environment variables that hide libfabric's providers and devices.

use super::LibfabricCheck;
use crate::{CheckInput, Evidence, Finding};

/// Findings on variables. `FI_PROVIDER` is reported with the library, if that was loaded.
pub(super) fn findings(check: &LibfabricCheck<'_, '_>) -> Vec<Finding> {
    let findings = [cache(check), hidden_provider(check), hidden_devices(check), emulated(check)];
    findings.into_iter().flatten().collect()
}

/// The variable `FI_PROVIDER` as evidence, if it hides the provider.
pub(super) fn hiding(provider: &str, input: &CheckInput<'_>) -> Option<Evidence> {
    let value = variable(input, PROVIDER)?;
    let (negated, names) = value.strip_prefix('^').map_or((false, value), |names| (true, names));
    let listed = names.split(',').any(|name| name.trim() == provider);
    (listed == negated && !names.is_empty()).then(|| evidence(PROVIDER, value))
}

/// libfabric caches registrations of some providers, and the cache does not notice when memory is freed: links use
/// these providers only if the cache is off. The program turns it off unless the variable is set.
fn cache(check: &LibfabricCheck<'_, '_>) -> Option<Finding> {
    let choice = check.library()?.links.as_ref().ok().filter(|one| one.caches_registrations)?;
    let value = variable(check.input, CACHE).filter(|value| *value != "0")?;
    let summary =
        format!("{CACHE} is {value}, not 0: links do not use libfabric's {}", choice.provider);
    let finding = Finding::warning("host", summary).evidence(evidence(CACHE, value));
    Some(finding.fix(format!("`unset {CACHE}`, on servers and clients.")))
}

fn hidden_provider(check: &LibfabricCheck<'_, '_>) -> Option<Finding> {
    let is_relevant = check.has_efa() && check.library().is_none();
    let hiding = hiding("efa", check.input).filter(|_| is_relevant)?;
    let summary = format!("FI_PROVIDER is {}: it hides the provider efa", hiding.value);
    let finding = Finding::warning("host", summary).evidence(hiding);
    Some(finding.fix("`unset FI_PROVIDER`, or add efa to it."))
}

/// `FI_EFA_IFACE` names the devices that the provider offers; `all` or empty: all of them.
fn hidden_devices(check: &LibfabricCheck<'_, '_>) -> Option<Finding> {
    let value = variable(check.input, DEVICES).filter(|value| *value != "all")?;
    let names: Vec<&str> = value.split(',').map(str::trim).collect();
    let devices = check.devices.iter().map(|device| device.name.as_str());
    let hidden: Vec<&str> = devices.filter(|name| !names.contains(name)).collect();
    let finding = match hidden.len() {
        0 => return None,
        all if all == check.devices.len() => {
            Finding::warning("host", format!("{DEVICES} is {value}: it hides every EFA device"))
        }
        _ => Finding::note("host", format!("{DEVICES} is {value}: it hides {}", hidden.join(", "))),
    };
    Some(
        finding
            .evidence(evidence(DEVICES, value))
            .fix(format!("`unset {DEVICES}`, or name all devices to use.")),
    )
}

fn emulated(check: &LibfabricCheck<'_, '_>) -> Option<Finding> {
    let off = |value: &&str| ["0", "false", "no", "off"].contains(&value.to_lowercase().as_str());
    let value = variable(check.input, DEVICE_RDMA).filter(off).filter(|_| check.has_efa())?;
    let summary =
        format!("{DEVICE_RDMA} is {value}: libfabric emulates RDMA reads and writes with messages");
    let finding = Finding::note("host", summary).evidence(evidence(DEVICE_RDMA, value));
    Some(finding.fix(format!(
        "`unset {DEVICE_RDMA}`: libfabric then uses RDMA of the device, if it supports it."
    )))
}

/// The value of a variable that is set and not empty.
fn variable<'n>(input: &CheckInput<'n>, name: &str) -> Option<&'n str> {
    input.tree.environment().get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

fn evidence(name: &str, value: &str) -> Evidence {
    Evidence::new(format!("${name}"), value)
}

const PROVIDER: &str = "FI_PROVIDER";
const CACHE: &str = "FI_MR_CACHE_MAX_COUNT";
const DEVICES: &str = "FI_EFA_IFACE";
const DEVICE_RDMA: &str = "FI_EFA_USE_DEVICE_RDMA";
