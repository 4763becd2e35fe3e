//! A certificate's alternative names: DNS, e-mail, IP and URI, as texts (RFC 5280, 4.2.1.6).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::der::{OBJECT, OCTETS, SEQUENCE, element};

/// All names; none if the bytes are not a certificate.
pub fn names(certificate: &[u8]) -> Vec<String> {
    extension(certificate).map_or_else(Vec::new, |mut names| {
        let Some((SEQUENCE, mut names)) = element(&mut names) else { return Vec::new() };
        std::iter::from_fn(|| element(&mut names))
            .filter_map(|(tag, name)| text(tag, name))
            .collect()
    })
}

fn text(tag: u8, name: &[u8]) -> Option<String> {
    match tag {
        EMAIL | DNS | URI => String::from_utf8(name.to_vec()).ok(),
        IP => match name.len() {
            4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(name).ok()?).to_string()),
            _ => Some(Ipv6Addr::from(<[u8; 16]>::try_from(name).ok()?).to_string()),
        },
        _ => None,
    }
}

/// The content of the extension that has the names.
fn extension(mut certificate: &[u8]) -> Option<&[u8]> {
    let (_, mut signed) = element(&mut certificate)?;
    let (_, mut fields) = element(&mut signed)?;
    let (_, mut list) =
        std::iter::from_fn(|| element(&mut fields)).find(|(tag, _)| *tag == EXTENSIONS)?;
    let (_, mut list) = element(&mut list)?;
    while let Some((SEQUENCE, mut extension)) = element(&mut list) {
        if element(&mut extension) == Some((OBJECT, ALTERNATIVE_NAMES)) {
            // The flag `critical` may precede the content.
            return std::iter::from_fn(|| element(&mut extension))
                .find(|(tag, _)| *tag == OCTETS)
                .map(|(_, content)| content);
        }
    }
    None
}

const EXTENSIONS: u8 = 0xa3;
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;
/// 2.5.29.17
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    #[test]
    fn names_of_all_kinds_are_found_and_none_in_truncated_bytes() {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![
            SanType::DnsName("node1.example".try_into().unwrap()),
            SanType::Rfc822Name("ops@example".try_into().unwrap()),
            SanType::IpAddress([10, 0, 0, 7].into()),
            SanType::IpAddress("2001:db8::7".parse().unwrap()),
            SanType::URI("spiffe://site/node1".try_into().unwrap()),
        ];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let expected =
            ["node1.example", "ops@example", "10.0.0.7", "2001:db8::7", "spiffe://site/node1"];
        assert_eq!(names(certificate.der()), expected);
        for cut in 0..certificate.der().len() {
            assert!(names(&certificate.der()[..cut]).is_empty());
        }
    }
}
