//! Names of vendors and products: NICs, GPUs, and PCIe switches.
//!
//! The whole list of PCI IDs would be larger than the rest of this program, and a node may not have it as a
//! file. Unlisted ones are printed as numbers.

/// The names, as far as they are known.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) vendor: Option<&'static str>,
    pub(crate) product: Option<&'static str>,
}

/// The names of a PCI function.
pub(crate) fn names(vendor: Option<u16>, device: Option<u16>) -> Names {
    let Some(vendor) = vendor else { return Names::default() };
    let product = device.and_then(|device| {
        PRODUCTS.iter().find(|(made_by, number, _)| (*made_by, *number) == (vendor, device))
    });
    Names {
        vendor: VENDORS.iter().find(|(number, _)| *number == vendor).map(|(_, name)| *name),
        product: product.map(|(_, _, name)| *name),
    }
}

const VENDORS: &[(u16, &str)] = &[
    (0x1000, "Broadcom"),
    (0x1002, "AMD"),
    (0x1022, "AMD"),
    (0x10b5, "PLX"),
    (0x10de, "NVIDIA"),
    (0x11f8, "Microchip"),
    (0x1414, "Microsoft"),
    (0x1425, "Chelsio"),
    (0x14e4, "Broadcom"),
    (0x15b3, "Mellanox"),
    (0x19e5, "Huawei"),
    (0x1af4, "Red Hat"),
    (0x1b36, "Red Hat"),
    (0x1d0f, "Amazon"),
    (0x1da3, "Habana Labs"),
    (0x1dd8, "Pensando"),
    (0x1ded, "Alibaba"),
    (0x8086, "Intel"),
];

#[rustfmt::skip]
const PRODUCTS: &[(u16, u16, &str)] = &[
    (0x1000, 0xc010, "PEX880xx PCIe switch"),
    (0x1000, 0xc012, "PEX880xx PCIe switch"),
    (0x1000, 0xc030, "PEX890xx PCIe switch"),
    (0x1000, 0xc034, "PEX890xx PCIe switch"),
    (0x1002, 0x738c, "Instinct MI100"),
    (0x1002, 0x738e, "Instinct MI100"),
    (0x1002, 0x7408, "Instinct MI250X"),
    (0x1002, 0x740c, "Instinct MI250"),
    (0x1002, 0x740f, "Instinct MI210"),
    (0x1002, 0x74a0, "Instinct MI300A"),
    (0x1002, 0x74a1, "Instinct MI300X"),
    (0x1002, 0x74a2, "Instinct MI308X"),
    (0x1002, 0x74a5, "Instinct MI325X"),
    (0x1002, 0x74b5, "Instinct MI300X virtual function"),
    (0x1002, 0x74b9, "Instinct MI325X virtual function"),
    (0x10b5, 0x8747, "PEX 8747 PCIe switch"),
    (0x10b5, 0x8796, "PEX 8796 PCIe switch"),
    (0x10b5, 0x9797, "PEX 9797 PCIe switch"),
    (0x10de, 0x15f8, "Tesla P100 PCIe 16GB"),
    (0x10de, 0x15f9, "Tesla P100 SXM2 16GB"),
    (0x10de, 0x1b38, "Tesla P40"),
    (0x10de, 0x1db1, "Tesla V100 SXM2 16GB"),
    (0x10de, 0x1db4, "Tesla V100 PCIe 16GB"),
    (0x10de, 0x1db5, "Tesla V100 SXM2 32GB"),
    (0x10de, 0x1db6, "Tesla V100 PCIe 32GB"),
    (0x10de, 0x1db8, "Tesla V100 SXM3 32GB"),
    (0x10de, 0x1eb8, "Tesla T4"),
    (0x10de, 0x20b0, "A100 SXM4 40GB"),
    (0x10de, 0x20b2, "A100 SXM4 80GB"),
    (0x10de, 0x20b5, "A100 PCIe 80GB"),
    (0x10de, 0x20b7, "A30"),
    (0x10de, 0x20bd, "A800 SXM4 40GB"),
    (0x10de, 0x20f1, "A100 PCIe 40GB"),
    (0x10de, 0x20f3, "A800 SXM4 80GB"),
    (0x10de, 0x2235, "A40"),
    (0x10de, 0x2236, "A10"),
    (0x10de, 0x2237, "A10G"),
    (0x10de, 0x2321, "H100 NVL 94GB"),
    (0x10de, 0x2322, "H800 PCIe"),
    (0x10de, 0x2324, "H800 SXM5"),
    (0x10de, 0x2329, "H20"),
    (0x10de, 0x232c, "H20 141GB"),
    (0x10de, 0x2330, "H100 SXM5 80GB"),
    (0x10de, 0x2331, "H100 PCIe 80GB"),
    (0x10de, 0x2335, "H200 SXM 141GB"),
    (0x10de, 0x2339, "H100 SXM5 94GB"),
    (0x10de, 0x233b, "H200 NVL"),
    (0x10de, 0x2342, "GH200"),
    (0x10de, 0x2348, "GH200 144GB"),
    (0x10de, 0x26b1, "RTX 6000 Ada"),
    (0x10de, 0x26b5, "L40"),
    (0x10de, 0x26b9, "L40S"),
    (0x10de, 0x27b8, "L4"),
    (0x10de, 0x2901, "B200"),
    (0x10de, 0x29bc, "B100"),
    (0x10de, 0x2bb5, "RTX PRO 6000 Blackwell Server"),
    (0x11f8, 0x4052, "Switchtec PFX PCIe switch"),
    (0x11f8, 0x4084, "Switchtec PFX PCIe switch"),
    (0x11f8, 0x5000, "Switchtec PFX PCIe switch"),
    (0x1425, 0x6401, "T6225-CR"),
    (0x14e4, 0x1605, "BCM5745X RDMA function"),
    (0x14e4, 0x1606, "BCM5745X RDMA virtual function"),
    (0x14e4, 0x1614, "BCM57454"),
    (0x14e4, 0x165f, "BCM5720"),
    (0x14e4, 0x16d7, "BCM57414"),
    (0x14e4, 0x16d8, "BCM57416"),
    (0x14e4, 0x1750, "BCM57508"),
    (0x14e4, 0x1751, "BCM57504"),
    (0x14e4, 0x1752, "BCM57502"),
    (0x14e4, 0x1760, "BCM57608"),
    (0x14e4, 0x1807, "BCM5750X RDMA virtual function"),
    (0x15b3, 0x1002, "ConnectX-2 virtual function"),
    (0x15b3, 0x1003, "ConnectX-3"),
    (0x15b3, 0x1004, "ConnectX-3 virtual function"),
    (0x15b3, 0x1007, "ConnectX-3 Pro"),
    (0x15b3, 0x1013, "ConnectX-4"),
    (0x15b3, 0x1014, "ConnectX-4 virtual function"),
    (0x15b3, 0x1015, "ConnectX-4 Lx"),
    (0x15b3, 0x1016, "ConnectX-4 Lx virtual function"),
    (0x15b3, 0x1017, "ConnectX-5"),
    (0x15b3, 0x1018, "ConnectX-5 virtual function"),
    (0x15b3, 0x1019, "ConnectX-5 Ex"),
    (0x15b3, 0x101a, "ConnectX-5 Ex virtual function"),
    (0x15b3, 0x101b, "ConnectX-6"),
    (0x15b3, 0x101c, "ConnectX-6 virtual function"),
    (0x15b3, 0x101d, "ConnectX-6 Dx"),
    (0x15b3, 0x101e, "ConnectX virtual function"),
    (0x15b3, 0x101f, "ConnectX-6 Lx"),
    (0x15b3, 0x1021, "ConnectX-7"),
    (0x15b3, 0x1023, "ConnectX-8"),
    (0x15b3, 0x1024, "ConnectX-8 PCIe switch"),
    (0x15b3, 0x1025, "ConnectX-9"),
    (0x15b3, 0x1979, "ConnectX-7 PCIe bridge"),
    (0x15b3, 0x197b, "BlueField-3 PCIe bridge"),
    (0x15b3, 0xa2d2, "BlueField"),
    (0x15b3, 0xa2d6, "BlueField-2"),
    (0x15b3, 0xa2dc, "BlueField-3"),
    (0x19e5, 0xa222, "HNS RDMA 25GE"),
    (0x19e5, 0xa224, "HNS RDMA 50GE"),
    (0x19e5, 0xa226, "HNS RDMA 100GE"),
    (0x19e5, 0xa22f, "HNS RDMA virtual function"),
    (0x1af4, 0x1000, "virtio net device"),
    (0x1af4, 0x1041, "virtio net device"),
    (0x1b36, 0x000c, "QEMU root port"),
    (0x1d0f, 0xec20, "Elastic Network Adapter"),
    (0x1d0f, 0xefa0, "Elastic Fabric Adapter"),
    (0x1d0f, 0xefa1, "Elastic Fabric Adapter"),
    (0x1d0f, 0xefa2, "Elastic Fabric Adapter"),
    (0x1d0f, 0xefa3, "Elastic Fabric Adapter"),
    (0x1da3, 0x1000, "Gaudi"),
    (0x1da3, 0x1020, "Gaudi2"),
    (0x1da3, 0x1060, "Gaudi3"),
    (0x1dd8, 0x1002, "DSC Ethernet controller"),
    (0x1dd8, 0x1003, "DSC Ethernet virtual function"),
    (0x1ded, 0x107f, "Elastic RDMA Adapter"),
    (0x1ded, 0x5007, "Elastic RDMA Adapter"),
    (0x8086, 0x0bd5, "Data Center GPU Max 1550"),
    (0x8086, 0x0bda, "Data Center GPU Max 1100"),
    (0x8086, 0x1572, "X710"),
    (0x8086, 0x1591, "E810-C"),
    (0x8086, 0x1592, "E810-C"),
    (0x8086, 0x1593, "E810-C"),
    (0x8086, 0x1889, "E800 virtual function"),
    (0x8086, 0x24f0, "Omni-Path 100"),
    (0x8086, 0x24f1, "Omni-Path 100 in the CPU"),
    (0x8086, 0x37d2, "X722"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_nics_have_names() {
        let named = |vendor, device| names(Some(vendor), Some(device)).product;
        assert_eq!(named(0x15b3, 0x1021), Some("ConnectX-7"));
        assert_eq!(named(0x10de, 0x2335), Some("H200 SXM 141GB"));
        assert_eq!(names(Some(0x15b3), None).vendor, Some("Mellanox"));
    }

    #[test]
    fn unlisted_ids_have_no_names() {
        assert!(names(None, Some(1)).product.is_none());
        assert!(names(Some(0x0002), Some(1)).vendor.is_none());
    }

    #[test]
    fn products_are_unique_and_have_a_known_vendor() {
        let keys: Vec<_> = PRODUCTS.iter().map(|(vendor, device, _)| (*vendor, *device)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "in numeric order");
        assert!(keys.iter().all(|(vendor, _)| VENDORS.iter().any(|(known, _)| known == vendor)));
    }
}
