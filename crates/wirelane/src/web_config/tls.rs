//! The section `tls_server_config`, and the TLS configuration that it describes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use access::tls::{TlsError, certificates, private_key, roots};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use super::client_certificates::{AllowedNames, AnyCertificate};
use super::config::Source;
use super::fields::{Fields, Located};
use super::names::{self, ClientAuth};
use crate::output::Failure;
use crate::settings::problem::Problem;
use access::files::tls_file;

/// The section; certificates and keys are read later.
#[derive(Debug)]
pub(crate) struct TlsSection {
    certificate: Source,
    key: Source,
    client_auth: ClientAuth,
    client_ca: Option<Source>,
    /// A client certificate must have one of these names.
    client_names: Option<Vec<String>>,
    versions: Vec<&'static SupportedProtocolVersion>,
    /// Of TLS 1.2.
    suites: Option<Vec<SupportedCipherSuite>>,
    curves: Option<Vec<&'static dyn SupportedKxGroup>>,
    prefer_server_suites: bool,
}

impl TlsSection {
    /// `None` if there are no certificates: no TLS.
    pub(super) fn of(file: &Path, fields: &Fields<'_>) -> Result<Option<Self>, Problem> {
        // Read all other fields too, to find their problems.
        let client_auth = named(fields, "client_auth_type", names::client_auth)?;
        let versions = versions(fields)?;
        let suites = each(fields, "cipher_suites", names::suite)?;
        let curves = each(fields, "curve_preferences", names::curve)?;
        let prefer_server_suites = fields.flag("prefer_server_cipher_suites", true)?;
        let names = fields.list("client_allowed_sans")?;
        let [certificate, key, client_ca] =
            [("cert_file", "cert"), ("key_file", "key"), ("client_ca_file", "client_ca")]
                .map(|(path, text)| source(file, fields, path, text));
        let (certificate, key, client_ca) = (certificate?, key?, client_ca?);
        let line = fields.text("client_auth_type")?.map_or(1, |at| at.line);
        let has_files = [&certificate, &key, &client_ca].iter().any(|source| source.is_some());
        if !has_files && client_auth.is_none() {
            return Ok(None);
        }
        let missing = |what: &str| fields.problem(line, format!("TLS needs {what}."));
        let section = TlsSection {
            certificate: certificate.ok_or_else(|| missing("cert_file or cert"))?,
            key: key.ok_or_else(|| missing("key_file or key"))?,
            client_auth: client_auth.unwrap_or(ClientAuth::No),
            client_ca,
            client_names: names.map(|names| names.iter().map(|at| at.value.to_owned()).collect()),
            versions,
            suites: suites.map(|suites| suites.into_iter().flatten().collect()),
            curves,
            prefer_server_suites,
        };
        section.check().map_err(|text| fields.problem(line, text))?;
        Ok(Some(section))
    }

    fn check(&self) -> Result<(), &'static str> {
        let verifies =
            matches!(self.client_auth, ClientAuth::VerifyIfGiven | ClientAuth::RequireAndVerify);
        let requires =
            matches!(self.client_auth, ClientAuth::RequireAny | ClientAuth::RequireAndVerify);
        if self.client_ca.is_some() && self.client_auth == ClientAuth::No {
            return Err(
                "client_ca is set, but clients are not asked for a certificate: set client_auth_type to \
                        RequireAndVerifyClientCert.",
            );
        }
        if verifies && self.client_ca.is_none() {
            return Err(
                "this client_auth_type needs client_ca_file: without it a certificate of any public CA would be \
                        accepted.",
            );
        }
        if self.client_names.is_some() && !requires {
            return Err(
                "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert or \
                        RequireAnyClientCert: otherwise clients without a certificate are accepted.",
            );
        }
        Ok(())
    }

    /// The files that it names, which are watched for changes.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let sources = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        let path = |source: &Source| match source {
            Source::File(path) => Some(path.clone()),
            Source::Inline(_) => None,
        };
        sources.into_iter().flatten().filter_map(path).collect()
    }

    /// Creates the TLS configuration.
    pub(crate) fn open(&self) -> Result<Arc<ServerConfig>, Failure> {
        let provider = Arc::new(self.provider());
        let certificate = self.certificate.certificates()?;
        let key = self.key.secret()?;
        let ca = self.client_ca.as_ref().map(Source::certificates).transpose()?;
        let failure = |error: TlsError| {
            let (certificate, key) = (self.certificate.name("cert"), self.key.name("key"));
            Failure::usage(format!("use the certificate {certificate} with the key {key}: {error}"))
        };
        let verifier = self.verifier(&provider, ca.as_deref()).map_err(failure)?;
        let configure = || {
            let builder = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&self.versions)
                .map_err(TlsError::of)?;
            let builder = match verifier {
                None => builder.with_no_client_auth(),
                Some(verifier) => builder.with_client_cert_verifier(verifier),
            };
            let (chain, key) = (certificates(&certificate)?, private_key(key.as_bytes())?);
            builder.with_single_cert(chain, key).map_err(TlsError::of)
        };
        let mut config = configure().map_err(failure)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ignore_client_order = self.prefer_server_suites;
        // A resumed session sends no certificate, and would outlive its expiry.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if let Some(suites) = self.suites.as_ref().filter(|suites| !suites.is_empty()) {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some());
            provider.cipher_suites.extend(suites);
        }
        if let Some(curves) = self.curves.as_ref().filter(|curves| !curves.is_empty()) {
            provider.kx_groups = curves.clone();
        }
        provider
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
        ca: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        let any = |mandatory| Arc::new(AnyCertificate { provider: provider.clone(), mandatory });
        let signed = |optional: bool| {
            let roots = roots(ca.unwrap_or_default())?;
            let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            let builder = if optional { builder.allow_unauthenticated() } else { builder };
            builder.build().map_err(TlsError::of)
        };
        let inner: Arc<dyn ClientCertVerifier> = match self.client_auth {
            ClientAuth::No => return Ok(None),
            ClientAuth::Request => any(false),
            ClientAuth::RequireAny => any(true),
            ClientAuth::VerifyIfGiven => signed(true)?,
            ClientAuth::RequireAndVerify => signed(false)?,
        };
        Ok(Some(match self.client_names.clone() {
            Some(names) => Arc::new(AllowedNames { inner, names }),
            None => inner,
        }))
    }
}

impl Source {
    fn certificates(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Source::Inline(text) => Ok(text.clone().into_bytes()),
            Source::File(path) => Ok(tls_file::certificate(path)?),
        }
    }

    fn secret(&self) -> Result<String, Failure> {
        match self {
            Source::Inline(text) => Ok(text.clone()),
            Source::File(path) => Ok(tls_file::key(path)?),
        }
    }

    fn name(&self, inline: &str) -> String {
        match self {
            Source::Inline(_) => format!("in the field `{inline}`"),
            Source::File(path) => path.display().to_string(),
        }
    }
}

/// The path or the text of a field; if both are given the path is used, as in exporter-toolkit.
fn source(
    file: &Path,
    fields: &Fields<'_>,
    path: &str,
    text: &str,
) -> Result<Option<Source>, Problem> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let (path, text) = (fields.text(path)?, fields.text(text)?);
    let path = path.map(|path| Source::File(folder.join(path.value)));
    Ok(path.or_else(|| text.map(|text| Source::Inline(text.value.to_owned()))))
}

/// The versions from the minimum to the maximum.
fn versions(fields: &Fields<'_>) -> Result<Vec<&'static SupportedProtocolVersion>, Problem> {
    let min = named(fields, "min_version", names::version)?;
    let max = named(fields, "max_version", names::version)?;
    let [tls12, tls13] = [&rustls::version::TLS12, &rustls::version::TLS13];
    match (min.unwrap_or(tls12), max.unwrap_or(tls13)) {
        (min, max) if min == max => Ok(vec![min]),
        (min, _) if min == tls12 => Ok(vec![tls13, tls12]),
        _ => {
            let line = fields.text("max_version")?.map_or(1, |at| at.line);
            Err(fields.problem(line, "max_version is below min_version."))
        }
    }
}

/// The meaning of the name in a field.
fn named<T>(
    fields: &Fields<'_>,
    field: &str,
    meaning: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Problem> {
    let Some(Located { line, value }) = fields.text(field)? else { return Ok(None) };
    meaning(value).map(Some).map_err(|text| fields.problem(line, text))
}

/// The meanings of a list of names.
fn each<T>(
    fields: &Fields<'_>,
    field: &str,
    meaning: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Vec<T>>, Problem> {
    let Some(names) = fields.list(field)? else { return Ok(None) };
    let meaning =
        |at: &Located<&str>| meaning(at.value).map_err(|text| fields.problem(at.line, text));
    names.iter().map(meaning).collect::<Result<_, _>>().map(Some)
}

pub(super) const FIELDS: &[&str] = &[
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "client_allowed_sans",
    "cipher_suites",
    "curve_preferences",
    "min_version",
    "max_version",
    "prefer_server_cipher_suites",
];
