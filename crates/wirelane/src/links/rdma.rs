//! Whether RDMA is usable on this machine, for all commands.

use fabric::verbs::{self, Choice, Device, DeviceFacts, Guid, Unavailable};
use serde::Serialize;

use crate::links::endpoint::{device_request, library};
use crate::settings::Global;
use crate::settings::Settings;

/// The RDMA devices of this machine.
#[derive(Debug)]
pub(crate) struct Rdma {
    pub(crate) devices: Vec<Device>,
    /// Why RDMA is off; `None` if a device is usable.
    pub(crate) off: Option<Off>,
}

/// Why RDMA is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Off {
    /// The reason as one word, for scripts.
    pub(crate) code: &'static str,
    pub(crate) why: String,
    pub(crate) fix: String,
}

impl Rdma {
    /// Queries libibverbs: that of the command line, else the system's.
    pub(crate) fn query(global: &Global) -> Self {
        match verbs::list_devices(library(global)) {
            Ok(listed) => {
                let off = listed.unavailable().map(Off::from);
                Rdma { devices: listed.devices, off }
            }
            Err(unavailable) => Rdma { devices: Vec::new(), off: Some(unavailable.into()) },
        }
    }

    /// The same with these settings: off if they disable RDMA, with the devices still listed.
    pub(crate) fn query_with(global: &Global, settings: &Settings) -> Self {
        let rdma = Rdma::query(global);
        if settings.enable_rdma {
            return rdma;
        }
        let off = Off {
            code: DISABLED,
            why: "transport.enable_rdma is false".to_owned(),
            fix: "set it to true".to_owned(),
        };
        Rdma { off: Some(off), ..rdma }
    }

    /// "on: rxe0, rxe1" or "off: REASON — FIX".
    pub(crate) fn sentence(&self) -> String {
        match &self.off {
            Some(off) => format!("off: {} — {}", off.why, off.fix),
            None => {
                let names: Vec<&str> = self.usable().map(|device| device.name.as_str()).collect();
                format!("on: {}", names.join(", "))
            }
        }
    }

    /// Whether RDMA is on, for JSON.
    pub(crate) fn report(&self) -> RdmaReport<'_> {
        let usable = match self.off {
            Some(_) => Vec::new(),
            None => self.usable().map(|device| device.name.as_str()).collect(),
        };
        RdmaReport { usable: self.off.is_none(), off: self.off.as_ref(), usable_devices: usable }
    }

    /// The device that these settings choose, or why none.
    pub(crate) fn choice(&self, settings: &Settings) -> Result<Choice, String> {
        match &self.off {
            Some(off) if self.devices.is_empty() => Err(off.why.clone()),
            Some(off) if off.code == DISABLED => Err(off.why.clone()),
            _ => verbs::choose(&self.devices, &device_request(settings))
                .map_err(|error| error.to_string()),
        }
    }

    /// Every device with its properties, for JSON.
    pub(crate) fn device_reports(&self) -> Vec<DeviceReport<'_>> {
        self.devices.iter().map(DeviceReport::new).collect()
    }

    /// The device with a name.
    pub(crate) fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }

    fn usable(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.usable().is_ok())
    }
}

const DISABLED: &str = "disabled";

/// A choice as text: the device and why, or why none.
pub(crate) fn chosen(choice: &Result<Choice, String>) -> String {
    match choice {
        Ok(choice) => {
            let gid = choice.gid.as_ref().map(|gid| format!(" GID {}", gid.index));
            let gid = gid.unwrap_or_default();
            format!("{} port {}{gid} ({})", choice.device, choice.port, choice.why)
        }
        Err(why) => format!("none: {why}"),
    }
}

/// A choice in JSON: the device, or why none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ChoiceReport {
    Chosen(Choice),
    Refused { refused: String },
}

impl From<Result<Choice, String>> for ChoiceReport {
    fn from(choice: Result<Choice, String>) -> Self {
        match choice {
            Ok(choice) => ChoiceReport::Chosen(choice),
            Err(refused) => ChoiceReport::Refused { refused },
        }
    }
}

impl From<Unavailable> for Off {
    fn from(unavailable: Unavailable) -> Self {
        Off {
            code: unavailable.kind(),
            why: unavailable.to_string(),
            fix: unavailable.fix().to_owned(),
        }
    }
}

/// Whether RDMA is on, in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct RdmaReport<'r> {
    usable: bool,
    #[serde(flatten)]
    off: Option<&'r Off>,
    usable_devices: Vec<&'r str>,
}

/// A device in JSON: its properties, or the error of reading them.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceReport<'r> {
    name: &'r str,
    transport: &'r str,
    node_guid: Guid,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    facts: Option<&'r DeviceFacts>,
}

impl<'r> DeviceReport<'r> {
    pub(crate) fn new(device: &'r Device) -> Self {
        DeviceReport {
            name: &device.name,
            transport: device.transport,
            node_guid: device.node_guid,
            error: device.facts.as_ref().err().map(ToString::to_string),
            facts: device.facts.as_ref().ok(),
        }
    }
}
