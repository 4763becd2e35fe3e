//! The SR-IOV device plugin: `PCIDEVICE_<PREFIX>_<RESOURCE>` is a list of IDs, and with the suffix `_INFO` a JSON
//! object with details of each.
//!
//! A resource may itself be called `…_INFO`, and its name may contain a dash, which no shell can read: so all
//! variables are checked, and the value decides what it is. `rdma_dev` is in the object only since v3.10.0.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{AssignedDevice, AssignedDevices, DeviceId, quoted};

pub(super) fn gather(
    environment: &BTreeMap<String, String>,
    assigned_devices: &mut AssignedDevices,
) {
    let variables: BTreeMap<&str, PluginVariable> = environment
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX))
        .map(|(name, value)| (name.as_str(), PluginVariable::read(name, value)))
        .collect();
    for (name, variable) in &variables {
        match variable {
            PluginVariable::List(ids) => take_list(name, ids, &variables, assigned_devices),
            PluginVariable::Info(info) => take_info(name, info, &variables, assigned_devices),
            PluginVariable::Broken(reason) => {
                take_broken(name, reason, &variables, assigned_devices)
            }
        }
    }
}

/// The content of a variable.
enum PluginVariable {
    List(Vec<DeviceId>),
    Info(Vec<AssignedDevice>),
    Broken(String),
}

impl PluginVariable {
    fn read(name: &str, value: &str) -> Self {
        if value.len() > MAX_VALUE_BYTES {
            return PluginVariable::Broken(format!("is longer than {MAX_VALUE_BYTES} bytes"));
        }
        if let Ok(object) = serde_json::from_str::<Map<String, Value>>(value) {
            return read_info(name, object)
                .map_or_else(PluginVariable::Broken, PluginVariable::Info);
        }
        let ids = value.split(',').map(str::trim).filter(|id| !id.is_empty());
        let ids: Result<Vec<DeviceId>, &str> =
            ids.map(|id| DeviceId::parse(id).ok_or(id)).collect();
        match ids {
            Ok(ids) => PluginVariable::List(ids),
            Err(_) if name.ends_with(INFO) => PluginVariable::Broken(format!(
                "is neither a JSON object nor a list of devices: {}",
                quoted(value)
            )),
            Err(id) => PluginVariable::Broken(format!(
                "names {}, which is neither a PCI address nor an auxiliary device",
                quoted(id)
            )),
        }
    }
}

/// The plugin's information on one device; providers other than these are ignored.
#[derive(Deserialize)]
struct Providers {
    rdma: Option<Rdma>,
    /// Has `mount` and `dev-mount`, or `vfio-mount` and `vfio-dev-mount` as in the plugin's README.
    vfio: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Rdma {
    rdma_dev: Option<String>,
    uverbs: Option<String>,
}

fn read_info(name: &str, object: Map<String, Value>) -> Result<Vec<AssignedDevice>, String> {
    let one = |(id, value): (String, Value)| {
        let known = DeviceId::parse(&id).ok_or_else(|| {
            format!("names {}, which is neither a PCI address nor an auxiliary device", quoted(&id))
        })?;
        let providers: Providers = serde_json::from_value(value).map_err(|error| {
            format!("has an entry {id} that is not in the plugin's format: {error}")
        })?;
        let mut assigned_device = AssignedDevice::new(known, name);
        assigned_device.is_vfio = providers.vfio.is_some();
        let Some(rdma) = providers.rdma else { return Ok(assigned_device) };
        assigned_device.expects_rdma = true;
        assigned_device.with_rdma(rdma.rdma_dev, rdma.uverbs)
    };
    object.into_iter().map(one).collect()
}

/// A list without an object is resolved with the host's files; with an object it must name the same devices.
fn take_list(
    name: &str,
    ids: &[DeviceId],
    all: &BTreeMap<&str, PluginVariable>,
    assigned_devices: &mut AssignedDevices,
) {
    if let Some(PluginVariable::Info(info)) = all.get(format!("{name}{INFO}").as_str()) {
        let only_here =
            ids.iter().find(|id| !info.iter().any(|assigned_device| assigned_device.id == **id));
        let only_there = info.iter().find(|assigned_device| !ids.contains(&assigned_device.id));
        if let Some(id) = only_here.or(only_there.map(|assigned_device| &assigned_device.id)) {
            assigned_devices.errors.push(format!(
                "{name} and {name}{INFO} contradict each other: {id} is only in one of them"
            ));
        }
        return;
    }
    for id in ids {
        assigned_devices.add(AssignedDevice::new(id.clone(), name));
    }
}

fn take_info(
    name: &str,
    info: &[AssignedDevice],
    all: &BTreeMap<&str, PluginVariable>,
    assigned_devices: &mut AssignedDevices,
) {
    for assigned_device in info {
        assigned_devices.add(assigned_device.clone());
    }
    let list = name.strip_suffix(INFO).and_then(|list| all.get(list));
    if let Some(PluginVariable::Broken(reason)) = list {
        assigned_devices
            .warnings
            .push(format!("{} {reason}; only {name} is used", name.trim_end_matches(INFO)));
    }
}

/// With a broken object, the functions are taken from the list, and the rest from the host's files.
fn take_broken(
    name: &str,
    reason: &str,
    all: &BTreeMap<&str, PluginVariable>,
    assigned_devices: &mut AssignedDevices,
) {
    let list = name.strip_suffix(INFO).and_then(|list| Some((list, all.get(list)?)));
    if let Some((list, PluginVariable::List(ids))) = list
        && !ids.is_empty()
    {
        assigned_devices
            .warnings
            .push(format!("{name} {reason}; the devices of {list} are looked up instead"));
        return;
    }
    if matches!(all.get(format!("{name}{INFO}").as_str()), Some(PluginVariable::Info(_))) {
        // The warning is added with the object.
        return;
    }
    assigned_devices.errors.push(format!("{name} {reason}"));
}

const PREFIX: &str = "PCIDEVICE_";
const INFO: &str = "_INFO";
/// Linux's limit for one variable.
const MAX_VALUE_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned_devices(variables: &[(&str, &str)]) -> AssignedDevices {
        let environment =
            variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let mut assigned_devices = AssignedDevices::default();
        gather(&environment, &mut assigned_devices);
        assigned_devices
    }

    fn only(assigned_devices: &AssignedDevices) -> (&str, Option<&str>, Option<&str>) {
        assert!(assigned_devices.errors.is_empty(), "{:?}", assigned_devices.errors);
        let [assigned_device] = assigned_devices.devices.as_slice() else {
            panic!("{:?}", assigned_devices.devices)
        };
        (
            &assigned_device.source,
            assigned_device.rdma_device.as_deref(),
            assigned_device.uverbs.as_deref(),
        )
    }

    const NEW: &str = r#"{"0000:3b:02.6":{"generic":{"deviceID":"0000:3b:02.6"},"rdma":{"rdma_cm":
        "/dev/infiniband/rdma_cm","rdma_dev":"mlx5_4","uverbs":"/dev/infiniband/uverbs4"}}}"#;

    #[test]
    fn a_plugin_that_names_the_rdma_device() {
        let given = [
            ("PCIDEVICE_OPENSHIFT_IO_RDMA", "0000:3b:02.6"),
            ("PCIDEVICE_OPENSHIFT_IO_RDMA_INFO", NEW),
        ];
        let assigned_devices = assigned_devices(&given);
        assert_eq!(only(&assigned_devices), (given[1].0, Some("mlx5_4"), Some("uverbs4")));
    }

    #[test]
    fn an_old_plugin_names_only_the_node_and_an_older_one_nothing() {
        let old = r#"{"0000:3b:02.6":{"rdma":{"uverbs":"/dev/infiniband/uverbs4"},"extraInfo":{"a":"b"}}}"#;
        let with_node = assigned_devices(&[("PCIDEVICE_INTEL_COM_A_INFO", old)]);
        assert_eq!(only(&with_node), ("PCIDEVICE_INTEL_COM_A_INFO", None, Some("uverbs4")));
        let bare = assigned_devices(&[("PCIDEVICE_INTEL_COM_A", "0000:3b:02.6")]);
        assert_eq!(only(&bare), ("PCIDEVICE_INTEL_COM_A", None, None));
        assert!(!bare.devices[0].expects_rdma);
    }

    #[test]
    fn a_dash_in_a_resource_and_a_subfunction() {
        let assigned_devices =
            assigned_devices(&[("PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "mlx5_core.sf.4")]);
        assert_eq!(
            assigned_devices.devices[0].id,
            DeviceId::Auxiliary("mlx5_core.sf.4".to_owned())
        );
    }

    #[test]
    fn a_resource_that_is_called_info_is_recognized_as_a_list() {
        let assigned_devices = assigned_devices(&[
            ("PCIDEVICE_A_FOO_INFO", "0000:3b:02.6"),
            ("PCIDEVICE_A_FOO_INFO_INFO", NEW),
        ]);
        assert_eq!(only(&assigned_devices).0, "PCIDEVICE_A_FOO_INFO_INFO");
    }

    #[test]
    fn vfio_is_recognized_by_old_and_new_keys() {
        for keys in [r#""mount":"/dev/vfio/9""#, r#""vfio-mount":"/dev/vfio/9""#] {
            let info = format!(r#"{{"0000:3b:02.6":{{"vfio":{{{keys}}}}}}}"#);
            let assigned_devices = assigned_devices(&[("PCIDEVICE_A_B_INFO", &info)]);
            assert!(
                assigned_devices.devices[0].is_vfio && !assigned_devices.devices[0].expects_rdma,
                "{keys}"
            );
        }
    }

    #[test]
    fn broken_json_is_a_warning_with_a_list_and_an_error_without() {
        let beside = assigned_devices(&[
            ("PCIDEVICE_A_B", "0000:3b:02.6"),
            ("PCIDEVICE_A_B_INFO", r#"{"0000"#),
        ]);
        assert_eq!(only(&beside).0, "PCIDEVICE_A_B");
        assert_eq!(beside.warnings.len(), 1);
        for value in [r#"{"0000"#, "[]", "null", r#"{"0000:3b:02.6":7}"#, r#"{"../../etc":{}}"#] {
            let alone = assigned_devices(&[("PCIDEVICE_A_B_INFO", value)]);
            assert_eq!(alone.errors.len(), 1, "{value}");
            assert!(alone.devices.is_empty(), "{value}");
        }
    }

    #[test]
    fn an_empty_name_is_no_claim() {
        let empty = NEW.replace("mlx5_4", "");
        let assigned_devices = assigned_devices(&[("PCIDEVICE_A_B_INFO", &empty)]);
        assert_eq!(only(&assigned_devices), ("PCIDEVICE_A_B_INFO", None, Some("uverbs4")));
    }

    #[test]
    fn invalid_names_are_refused() {
        for (device, node) in [("mlx5_0,mlx5_1", "uverbs0"), ("../x", "uverbs0"), ("a", "../sda")] {
            let info = format!(
                r#"{{"0000:3b:02.6":{{"rdma":{{"rdma_dev":"{device}","uverbs":"/dev/infiniband/{node}"}}}}}}"#
            );
            let errors = assigned_devices(&[("PCIDEVICE_A_B_INFO", &info)]).errors;
            let [reason] = errors.as_slice() else { panic!("{device} {node}: {errors:?}") };
            assert_eq!(reason.matches("PCIDEVICE_A_B_INFO").count(), 1, "{reason}");
        }
        assert_eq!(assigned_devices(&[("PCIDEVICE_A_B", "0000:3b:02.6,/etc")]).errors.len(), 1);
    }

    #[test]
    fn two_variables_that_differ_are_refused() {
        let assigned_devices =
            assigned_devices(&[("PCIDEVICE_A_B", "0000:3b:02.7"), ("PCIDEVICE_A_B_INFO", NEW)]);
        assert!(assigned_devices.errors[0].contains("contradict"), "{:?}", assigned_devices.errors);
    }
}
