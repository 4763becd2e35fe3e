//! The DRA driver for SR-IOV: `SRIOVNETWORK_*`, one set of variables for each device.
//!
//! A device's name is in the middle of its variables with `_` for `-`, so it is taken from the variable that
//! has a fixed prefix and contains its address.

use std::collections::BTreeMap;

use super::{Claim, Claims, DeviceId, quoted};

pub(super) fn gather(environment: &BTreeMap<String, String>, claims: &mut Claims) {
    for (variable, value) in environment {
        if let Some(device) = variable.strip_prefix(DEVICE) {
            match claim(environment, variable, device, value) {
                Ok(claim) => claims.add(claim),
                Err(reason) => claims.errors.push(reason),
            }
        }
    }
    let Some(list) = environment.get(ADDRESSES) else { return };
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        match DeviceId::parse(id) {
            Some(id) => claims.add(Claim::new(id, ADDRESSES)),
            None => claims.errors.push(not_an_address(ADDRESSES, id)),
        }
    }
}

fn claim(
    environment: &BTreeMap<String, String>,
    variable: &str,
    device: &str,
    address: &str,
) -> Result<Claim, String> {
    let id = DeviceId::parse(address.trim()).ok_or_else(|| not_an_address(variable, address))?;
    let value = |suffix: &str| environment.get(&format!("{PREFIX}{device}_{suffix}")).cloned();
    let mut claim = Claim::new(id, variable);
    claim.is_vfio = value("VFIO_DEVICE").is_some();
    let claim = claim.with_rdma(value("RDMA_DEVICE"), value("RDMA_UVERB"));
    claim.map_err(|reason| format!("{PREFIX}{device}_* {reason}"))
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
        let mut claims = Claims::default();
        gather(&environment, &mut claims);
        assert!(claims.errors.is_empty(), "{:?}", claims.errors);
        let [rdma, vfio] = claims.claims.as_slice() else { panic!("{claims:?}") };
        assert_eq!(rdma.rdma_device.as_deref(), Some("mlx5_4"));
        assert_eq!(rdma.uverbs.as_deref(), Some("uverbs4"));
        assert!(rdma.expects_rdma && !rdma.is_vfio);
        assert!(vfio.is_vfio && !vfio.expects_rdma);
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let environment =
            [("SRIOVNETWORK_PCI_ADDRESSES".to_owned(), "0000:3b:02.6,eth0".to_owned())];
        let mut claims = Claims::default();
        gather(&environment.into(), &mut claims);
        assert_eq!(claims.errors.len(), 1, "{claims:?}");
    }
}
