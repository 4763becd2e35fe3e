//! The list of transports.

use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::setup::Fabric;
use crate::{ofi, shm, tcp, verbs};

/// Opens a transport by name, with default settings: `shm`, `tcp`, `verbs` with the device, port and
/// GID that [`verbs::choose()`] chooses, or `ofi` with the provider that [`ofi::choose()`] chooses.
pub fn open(name: &str) -> Result<Box<dyn Fabric>, Error> {
    match name {
        "shm" => Ok(Box::new(shm::Shm::default())),
        "tcp" => Ok(Box::new(tcp::Tcp::default())),
        "verbs" => open_verbs(),
        "ofi" => open_ofi(),
        _ => {
            let why = "unknown transport";
            Err(Error::new(
                ErrorKind::Misuse,
                format!("open {name}"),
                why,
                "use shm, tcp, verbs or ofi",
            ))
        }
    }
}

fn open_verbs() -> Result<Box<dyn Fabric>, Error> {
    let unsupported = |why: &dyn std::fmt::Display, fix: &str| {
        Error::new(ErrorKind::Unsupported, "open verbs", why, fix)
    };
    let library = Path::new(verbs::LIBRARY);
    let listed = verbs::list_devices(library).map_err(|off| unsupported(&off, off.fix()))?;
    let request = verbs::DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 };
    let choice = verbs::choose(&listed.devices, &request)
        .map_err(|why| unsupported(&why, "see `wirelane devices`"))?;
    Ok(Box::new(verbs::Domain::open(library, &choice)?))
}

fn open_ofi() -> Result<Box<dyn Fabric>, Error> {
    let unsupported = |why: &dyn std::fmt::Display, fix: &str| {
        Error::new(ErrorKind::Unsupported, "open ofi", why, fix)
    };
    let listed = ofi::list_providers(None).map_err(|off| unsupported(&off, off.fix()))?;
    let choice = ofi::choose(&listed, None)
        .map_err(|why| unsupported(&why, "see `fi_info -t FI_EP_RDM`"))?;
    Ok(Box::new(ofi::Domain::open(&choice, ofi::Config::default())?))
}
