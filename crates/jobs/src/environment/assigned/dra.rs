//! The DRA driver for SR-IOV: `SRIOVNETWORK_*`, one set of variables for each device.
//!
//! A device's name is in the middle of its variables with `_` for `-`, so it is taken from the variable that
//! has a fixed prefix and contains its address.

use std::collections::BTreeMap;

use super::{AssignedDevice, AssignedDevices, DeviceId, quoted};

pub(super) fn gather(
    environment: &BTreeMap<String, String>,
    assigned_devices: &mut AssignedDevices,
) {
    for (variable, value) in environment {
        if let Some(device) = variable.strip_prefix(DEVICE) {
            match assigned_device(environment, variable, device, value) {
                Ok(assigned_device) => assigned_devices.add(assigned_device),
                Err(reason) => assigned_devices.errors.push(reason),
            }
        }
    }
    let Some(list) = environment.get(ADDRESSES) else { return };
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        match DeviceId::parse(id) {
            Some(id) => assigned_devices.add(AssignedDevice::new(id, ADDRESSES)),
            None => assigned_devices.errors.push(not_an_address(ADDRESSES, id)),
        }
    }
}

fn assigned_device(
    environment: &BTreeMap<String, String>,
    variable: &str,
    device: &str,
    address: &str,
) -> Result<AssignedDevice, String> {
    let id = DeviceId::parse(address.trim()).ok_or_else(|| not_an_address(variable, address))?;
    let value = |suffix: &str| environment.get(&format!("{PREFIX}{device}_{suffix}")).cloned();
    let mut assigned_device = AssignedDevice::new(id, variable);
    assigned_device.is_vfio = value("VFIO_DEVICE").is_some();
    let assigned_device = assigned_device.with_rdma(value("RDMA_DEVICE"), value("RDMA_UVERB"));
    assigned_device.map_err(|reason| format!("{PREFIX}{device}_* {reason}"))
}

fn not_an_address(variable: &str, value: &str) -> String {
    format!("{variable} names {}, which is not a PCI address", quoted(value))
}

const PREFIX: &str = "SRIOVNETWORK_";
const DEVICE: &str = "SRIOVNETWORK_VF_DEVICE_";
const ADDRESSES: &str = "SRIOVNETWORK_PCI_ADDRESSES";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_variables() {
        let environment = [
            ("SRIOVNETWORK_PCI_ADDRESSES", "0000:3b:02.6,0000:3b:02.7"),
            ("SRIOVNETWORK_VF_DEVICE_0000_3b_02_6", "0000:3b:02.6"),
            ("SRIOVNETWORK_0000_3b_02_6_RDMA_DEVICE", "mlx5_4"),
            ("SRIOVNETWORK_0000_3b_02_6_RDMA_UVERB", "/dev/infiniband/uverbs4"),
            ("SRIOVNETWORK_VF_DEVICE_0000_3b_02_7", "0000:3b:02.7"),
            ("SRIOVNETWORK_0000_3b_02_7_VFIO_DEVICE", "/dev/vfio/12"),
            ("SRIOVNETWORK_NET_ATTACH_DEF_NAME", "roce"),
        ];
        let environment = environment.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        let mut assigned_devices = AssignedDevices::default();
        gather(&environment, &mut assigned_devices);
        assert!(assigned_devices.errors.is_empty(), "{:?}", assigned_devices.errors);
        let [rdma, vfio] = assigned_devices.devices.as_slice() else {
            panic!("{assigned_devices:?}")
        };
        assert_eq!(rdma.rdma_device.as_deref(), Some("mlx5_4"));
        assert_eq!(rdma.uverbs.as_deref(), Some("uverbs4"));
        assert!(rdma.expects_rdma && !rdma.is_vfio);
        assert!(vfio.is_vfio && !vfio.expects_rdma);
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let environment =
            [("SRIOVNETWORK_PCI_ADDRESSES".to_owned(), "0000:3b:02.6,eth0".to_owned())];
        let mut assigned_devices = AssignedDevices::default();
        gather(&environment.into(), &mut assigned_devices);
        assert_eq!(assigned_devices.errors.len(), 1, "{assigned_devices:?}");
    }
}
