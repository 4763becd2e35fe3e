//! A certificate authority for a test.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: String,
}

/// The validity period of a certificate.
pub(crate) enum Good {
    Now,
    LongAgo,
}

impl Authority {
    /// Its own certificate is in `NAME.pem` of the folder.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = called(name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = folder.to_str().expect("a plain path").to_owned();
        write(&format!("{folder}/{name}.pem"), "CERTIFICATE", certificate.der());
        Authority { issuer: Issuer::new(params, key), folder }
    }

    /// Signs a certificate for this name, 127.0.0.1 and localhost: the paths of it and its key.
    pub(crate) fn sign(&self, name: &str, good: &Good) -> [String; 2] {
        let mut params = CertificateParams::default();
        params.distinguished_name = called(name);
        params.subject_alt_names = vec![
            SanType::IpAddress([127, 0, 0, 1].into()),
            SanType::DnsName("localhost".try_into().expect("a name")),
        ];
        if let Good::LongAgo = good {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let paths = ["pem", "key"].map(|end| format!("{}/{name}.{end}", self.folder));
        write(&paths[0], "CERTIFICATE", certificate.der());
        write(&paths[1], "PRIVATE KEY", &key.serialize_der());
        paths
    }
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

fn write(path: &str, kind: &str, der: &[u8]) {
    let pem =
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64_STANDARD.encode(der));
    std::fs::write(path, pem).expect("a file");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("a mode");
}
