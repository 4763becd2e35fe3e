//! The addresses of this machine's net devices.
//!
//! Unsafe here: `List` owns the list returned by `getifaddrs` until it is dropped, and the C library guarantees that
//! each entry's pointers are null or point to a socket address of its family.
#![allow(unsafe_code, reason = "reads C's list of addresses")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{NonNull, null_mut};

use libc::{ifaddrs, sockaddr, sockaddr_in, sockaddr_in6};

/// The prefix length of this address, if a local net device has it.
pub(super) fn prefix_length(address: IpAddr) -> Option<u8> {
    let list = List::new()?;
    list.iter().find_map(|(own, mask)| (own == address).then(|| mask_length(mask?)).flatten())
}

fn mask_length(mask: IpAddr) -> Option<u8> {
    let length = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    u8::try_from(length).ok()
}

struct List(NonNull<ifaddrs>);

impl List {
    /// `None` also if there is no address at all.
    fn new() -> Option<Self> {
        let mut first = null_mut();
        // SAFETY: `first` is writable; the list is freed in `Drop` only.
        if unsafe { libc::getifaddrs(&mut first) } != 0 {
            return None;
        }
        NonNull::new(first).map(List)
    }

    /// Every IP address with its mask.
    fn iter(&self) -> impl Iterator<Item = (IpAddr, Option<IpAddr>)> {
        let mut next = Some(self.0);
        let entries = std::iter::from_fn(move || {
            // SAFETY: an entry of the list, which `self` owns.
            let entry = unsafe { next?.as_ref() };
            next = NonNull::new(entry.ifa_next);
            Some((ip(entry.ifa_addr), ip(entry.ifa_netmask)))
        });
        entries.filter_map(|(address, mask)| Some((address?, mask)))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; `iter` returned copies.
        unsafe { libc::freeifaddrs(self.0.as_ptr()) };
    }
}

/// The IP address behind a pointer of a list entry; the list must be alive.
fn ip(address: *const sockaddr) -> Option<IpAddr> {
    let address = NonNull::new(address.cast_mut())?;
    // SAFETY: not null, so it points to a socket address, which begins with its family.
    let family = unsafe { address.as_ref() }.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family determines the type.
            let address = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`.
            let address = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_addresses_have_a_prefix_length() {
        assert_eq!(prefix_length(IpAddr::V4(Ipv4Addr::LOCALHOST)), Some(8));
        assert_eq!(prefix_length("192.0.2.77".parse().unwrap()), None);
        assert_eq!(mask_length("255.255.255.254".parse().unwrap()), Some(31));
        assert_eq!(mask_length("ffff:ffff:ffff:ffff::".parse().unwrap()), Some(64));
        assert_eq!(mask_length("::".parse().unwrap()), Some(0));
    }
}
