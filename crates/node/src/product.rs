//! Names of vendors and products, from the list of PCI ids.

use pci_ids::{Device, FromId, Vendor};

/// In words, as far as the list knows them.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) vendor: Option<String>,
    pub(crate) product: Option<String>,
}

/// The names of a PCI function. The list is compiled in: a node need not have one.
pub(crate) fn names(vendor: Option<u16>, device: Option<u16>) -> Names {
    let Some(vendor) = vendor else { return Names::default() };
    Names {
        vendor: Vendor::from_id(vendor).map(|vendor| vendor.name().to_owned()),
        product: device
            .and_then(|device| Device::from_vid_pid(vendor, device))
            .map(|device| device.name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_the_field_have_names() {
        let names = names(Some(0x15b3), Some(0x1021));
        assert_eq!(names.vendor.as_deref(), Some("Mellanox Technologies"));
        assert!(names.product.is_some_and(|name| name.contains("ConnectX-7")));
    }

    #[test]
    fn what_is_not_listed_has_none() {
        assert!(names(None, Some(1)).product.is_none());
        assert!(names(Some(0x0002), Some(1)).vendor.is_none());
    }
}
