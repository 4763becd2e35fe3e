//! Go's names of TLS parameters, as types of rustls.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Whether clients must have certificates, and whether they are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// Not requested.
    No,
    /// Optional, not verified.
    Request,
    /// Required, not verified.
    RequireAny,
    /// Optional, verified.
    VerifyIfGiven,
    /// Required, verified.
    RequireAndVerify,
}

pub(super) fn client_auth(name: &str) -> Result<ClientAuth, String> {
    Ok(match name {
        "NoClientCert" => ClientAuth::No,
        "RequestClientCert" => ClientAuth::Request,
        // The second is the old name.
        "RequireAnyClientCert" | "RequireClientCert" => ClientAuth::RequireAny,
        "VerifyClientCertIfGiven" => ClientAuth::VerifyIfGiven,
        "RequireAndVerifyClientCert" => ClientAuth::RequireAndVerify,
        _ => {
            return Err("client_auth_type must be one of: NoClientCert, RequestClientCert, RequireAnyClientCert, \
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
            "{name} is not supported, since it is insecure (RFC 8996): use TLS12 or TLS13."
        )),
        _ => Err("a version must be TLS12 or TLS13.".to_owned()),
    }
}

/// A suite of TLS 1.2. Those of TLS 1.3 are accepted and ignored: all are always enabled, as in Go.
pub(super) fn suite(name: &str) -> Result<Option<SupportedCipherSuite>, String> {
    if let Some((_, suite)) = SUITES.iter().find(|(known, _)| *known == name) {
        return Ok(Some(*suite));
    }
    if SUITES_OF_TLS13.contains(&name) {
        return Ok(None);
    }
    let known: Vec<&str> = SUITES.iter().map(|(known, _)| *known).collect();
    let why = if name.ends_with("_CBC_SHA") || name.ends_with("_CBC_SHA256") {
        "is not supported, since CBC has a history of attacks"
    } else {
        "is unknown"
    };
    Err(format!("the cipher suite {name} {why}. Supported: {}.", known.join(", ")))
}

pub(super) fn curve(name: &str) -> Result<&'static dyn SupportedKxGroup, String> {
    match name {
        "X25519" => Ok(kx_group::X25519),
        "CurveP256" => Ok(kx_group::SECP256R1),
        "CurveP384" => Ok(kx_group::SECP384R1),
        "CurveP521" => Err("CurveP521 is not supported: use CurveP384 or X25519.".to_owned()),
        _ => Err("a curve must be one of: X25519, CurveP256, CurveP384.".to_owned()),
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
