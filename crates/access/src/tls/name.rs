//! The name of a certificate's holder: the subject's common name, else its first DNS name, else its
//! first URI. The certificate was verified before.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::der::{OBJECT, SEQUENCE, SET, element};

pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let common = common_name(certificate.subject());
    let common = common.or_else(|| certificate.valid_dns_names().next().map(str::to_owned));
    let name = common.or_else(|| certificate.valid_uri_names().next().map(str::to_owned))?;
    let usable = !name.is_empty() && name.len() <= MAX_BYTES && !name.contains(char::is_control);
    usable.then_some(name)
}

/// The common name of a subject (RFC 5280, 4.1.2.4): a sequence of sets of pairs, each an attribute type and its value.
fn common_name(mut subject: &[u8]) -> Option<String> {
    while let Some((SET, mut set)) = element(&mut subject) {
        while let Some((SEQUENCE, mut pair)) = element(&mut set) {
            let (kind, text) = (element(&mut pair)?, element(&mut pair)?);
            if kind == (OBJECT, COMMON_NAME) && TEXTS.contains(&text.0) {
                return String::from_utf8(text.1.to_vec()).ok();
            }
        }
    }
    None
}

/// UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The limit of names in token files.
const MAX_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn named(common: &str, names: &[SanType]) -> Option<String> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "night shift");
        if !common.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names = names.to_vec();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        of(certificate.der())
    }

    #[test]
    fn the_common_name_comes_before_others() {
        let dns = SanType::DnsName("node1.example".try_into().unwrap());
        let uri = SanType::URI("spiffe://site/node1".try_into().unwrap());
        assert_eq!(named("node1", std::slice::from_ref(&dns)).as_deref(), Some("node1"));
        let both = [uri.clone(), dns];
        assert_eq!(named("", &both).as_deref(), Some("node1.example"));
        assert_eq!(named("", &[uri]).as_deref(), Some("spiffe://site/node1"));
        assert_eq!(named("", &[]), None);
        assert_eq!(named("a\nb", &[]), None);
        let long = "n".repeat(200);
        assert_eq!(named(&long, &[]), None, "two bytes of length, and too long");
        assert_eq!(named(&long[..128], &[]).as_deref(), Some(&long[..128]));
    }

    #[test]
    fn invalid_bytes_have_no_name() {
        let subject = [SET, 12, SEQUENCE, 10, OBJECT, 3, 0x55, 4, 3, 0x0c, 3, b'a', b'b', b'c'];
        assert_eq!(common_name(&subject).as_deref(), Some("abc"));
        for cut in 0..subject.len() {
            assert_eq!(common_name(&subject[..cut]), None);
        }
        for at in 0..subject.len() {
            let mut changed = subject;
            changed[at] = 0xff;
            let _ = common_name(&changed);
        }
    }
}
