//! Go's names for what TLS has, and what rustls has for them.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Whether callers show certificates, and who judges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// Nobody is asked.
    No,
    /// Who wants may show one; nobody judges it.
    Request,
    /// All must show one; nobody judges it.
    RequireAny,
    /// Who shows one must be signed.
    VerifyIfGiven,
    /// All must show one that is signed.
    RequireAndVerify,
}

pub(super) fn client_auth(name: &str) -> Result<ClientAuth, String> {
    Ok(match name {
        "NoClientCert" => ClientAuth::No,
        "RequestClientCert" => ClientAuth::Request,
        // The second is what files of old have.
        "RequireAnyClientCert" | "RequireClientCert" => ClientAuth::RequireAny,
        "VerifyClientCertIfGiven" => ClientAuth::VerifyIfGiven,
        "RequireAndVerifyClientCert" => ClientAuth::RequireAndVerify,
        _ => {
            return Err("client_auth_type is one of: NoClientCert, RequestClientCert, RequireAnyClientCert, \
                        VerifyClientCertIfGiven, RequireAndVerifyClientCert."
                .to_owned());
        }
    })
}

pub(super) fn version(name: &str) -> Result<&'static SupportedProtocolVersion, String> {
    match name {
        "TLS12" => Ok(&TLS12),
        "TLS13" => Ok(&TLS13),
        "TLS10" | "TLS11" => Err(format!(
            "{name} is not spoken here, as it is broken (RFC 8996): write TLS12 or TLS13."
        )),
        _ => Err("a version is TLS12 or TLS13.".to_owned()),
    }
}

/// A suite of TLS 1.2; those of TLS 1.3 may be named, and are all there anyway, as in Go.
pub(super) fn suite(name: &str) -> Result<Option<SupportedCipherSuite>, String> {
    if let Some((_, suite)) = SUITES.iter().find(|(known, _)| *known == name) {
        return Ok(Some(*suite));
    }
    if SUITES_OF_TLS13.contains(&name) {
        return Ok(None);
    }
    let known: Vec<&str> = SUITES.iter().map(|(known, _)| *known).collect();
    let why = if name.ends_with("_CBC_SHA") || name.ends_with("_CBC_SHA256") {
        "is not spoken here, as CBC has a history of attacks"
    } else {
        "is not known here"
    };
    Err(format!("the cipher suite {name} {why}: there are {}.", known.join(", ")))
}

pub(super) fn curve(name: &str) -> Result<&'static dyn SupportedKxGroup, String> {
    match name {
        "X25519" => Ok(kx_group::X25519),
        "CurveP256" => Ok(kx_group::SECP256R1),
        "CurveP384" => Ok(kx_group::SECP384R1),
        "CurveP521" => Err("CurveP521 is not spoken here: take CurveP384 or X25519.".to_owned()),
        _ => Err("a curve is one of: X25519, CurveP256, CurveP384.".to_owned()),
    }
}

const SUITES: &[(&str, SupportedCipherSuite)] = &[
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];
const SUITES_OF_TLS13: &[&str] =
    &["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
