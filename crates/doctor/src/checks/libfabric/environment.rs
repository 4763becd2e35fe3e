//! Variables of the environment that keep links, and others, from libfabric's devices.

use super::Look;
use crate::{Case, Evidence, Finding};

/// What prevents its use here. `FI_PROVIDER` is reported with the library, where that was loaded.
pub(super) fn look(look: &Look<'_, '_>) -> Vec<Finding> {
    let findings = [cache(look), hidden_provider(look), hidden_devices(look), emulated(look)];
    findings.into_iter().flatten().collect()
}

/// The variable as evidence, if it hides the provider.
pub(super) fn hiding(provider: &str, case: &Case<'_>) -> Option<Evidence> {
    let told = variable(case, PROVIDER)?;
    let (negated, names) = told.strip_prefix('^').map_or((false, told), |names| (true, names));
    let listed = names.split(',').any(|name| name.trim() == provider);
    (listed == negated && !names.is_empty()).then(|| evidence(PROVIDER, told))
}

/// libfabric keeps registrations of some providers in a cache that does not see our memory come and go: links leave
/// these alone unless it is off. Our own program turns it off, where nobody has said anything else.
fn cache(look: &Look<'_, '_>) -> Option<Finding> {
    let choice = look.here()?.links.as_ref().ok().filter(|choice| choice.keeps_registrations)?;
    let told = variable(look.case, CACHE).filter(|told| *told != "0")?;
    let summary =
        format!("{CACHE} is {told} and not 0: links do not use {} by libfabric", choice.provider);
    let finding = Finding::warning("host", summary).read(evidence(CACHE, told));
    Some(finding.fix(format!("`unset {CACHE}`, at servers and clients.")))
}

fn hidden_provider(look: &Look<'_, '_>) -> Option<Finding> {
    let hiding = hiding("efa", look.case).filter(|_| look.has_efa() && look.here().is_none())?;
    let summary = format!("FI_PROVIDER is {}: libfabric does not show efa", hiding.value);
    let finding = Finding::warning("host", summary).read(hiding);
    Some(finding.fix("`unset FI_PROVIDER`, or add efa to it."))
}

/// `FI_EFA_IFACE` names the devices that the provider shows; `all`, or nothing, is all of them.
fn hidden_devices(look: &Look<'_, '_>) -> Option<Finding> {
    let told = variable(look.case, DEVICES).filter(|told| *told != "all")?;
    let names: Vec<&str> = told.split(',').map(str::trim).collect();
    let devices = look.devices.iter().map(|device| device.name.as_str());
    let hidden: Vec<&str> = devices.filter(|name| !names.contains(name)).collect();
    let finding = match hidden.len() {
        0 => return None,
        all if all == look.devices.len() => {
            Finding::warning("host", format!("{DEVICES} is {told}: it hides every EFA device"))
        }
        _ => Finding::note("host", format!("{DEVICES} is {told}: it hides {}", hidden.join(", "))),
    };
    Some(
        finding
            .read(evidence(DEVICES, told))
            .fix(format!("`unset {DEVICES}`, or name all that should be used.")),
    )
}

fn emulated(look: &Look<'_, '_>) -> Option<Finding> {
    let off = |told: &&str| ["0", "false", "no", "off"].contains(&told.to_lowercase().as_str());
    let told = variable(look.case, DEVICE_RDMA).filter(off).filter(|_| look.has_efa())?;
    let summary = format!(
        "{DEVICE_RDMA} is {told}: libfabric writes and reads by messages, not by the device"
    );
    let finding = Finding::note("host", summary).read(evidence(DEVICE_RDMA, told));
    Some(
        finding.fix(format!(
            "`unset {DEVICE_RDMA}`: where the device can do it, libfabric then lets it."
        )),
    )
}

/// A variable that is set, and not to nothing.
fn variable<'n>(case: &Case<'n>, name: &str) -> Option<&'n str> {
    case.tree.environment().get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

fn evidence(name: &str, value: &str) -> Evidence {
    Evidence::new(format!("${name}"), value)
}

const PROVIDER: &str = "FI_PROVIDER";
const CACHE: &str = "FI_MR_CACHE_MAX_COUNT";
const DEVICES: &str = "FI_EFA_IFACE";
const DEVICE_RDMA: &str = "FI_EFA_USE_DEVICE_RDMA";
