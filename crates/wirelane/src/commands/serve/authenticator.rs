//! Authentication of the running server, by token, certificate or key, and rereading the files.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use access::tls::{ClientCertificate, Tls};
use access::{Access, Credential, Identity, Permissions, Refused, Scope};
use fabric::link;
use fabric::session::{Credentials, Key};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use jobs::environment::shell_word;

use super::security::{Security, SecurityArgs};
use crate::output::Failure;
use access::files::tls_file::Paths;
use access::files::token;

pub(super) struct Authenticator {
    access: Arc<Access>,
    security: Security,
    tls: Option<Listeners<Arc<Tls>>>,
    /// The key of the settings' key_file, for links.
    key: Option<Key>,
    /// What the token in the first line of the token file may do: that of a client with the same file.
    first_token: Option<Scope>,
}

/// TLS of each listener.
struct Listeners<T> {
    grpc: T,
    http: T,
}

impl Authenticator {
    /// Reads the tokens and certificates, and adds their keys to the keyring of links.
    pub(super) fn new(
        args: &SecurityArgs,
        security: Security,
        links: &link::EndpointSettings,
    ) -> Result<Self, Failure> {
        let key = match &links.credentials {
            Credentials::Key(key) => Some(key.clone()),
            Credentials::None | Credentials::Ticket(_) => None,
        };
        let identities = identities(&security, key.as_ref())?;
        let is_token = |first: &&Identity| {
            security.tokens.is_some() && matches!(first.credential, Credential::Key(_))
        };
        let first_token = identities.first().filter(is_token).map(|first| first.scope.clone());
        let access = Access::new(
            links.keyring.clone(),
            identities,
            security.any_certificate(),
            args.max_rate,
        );
        let access = access.map_err(|error| Failure::usage(error.to_string()))?;
        let tls = security.tls.as_ref().map(open).transpose()?;
        if let Some(listeners) = &tls {
            access.trust(listeners.grpc.authority());
        }
        let tls =
            tls.map(|Listeners { grpc, http }| Listeners { grpc: grpc.into(), http: http.into() });
        Ok(Authenticator { access, security, tls, key, first_token })
    }

    pub(super) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// For the banner: what clients need.
    pub(super) fn requirement(&self) -> &'static str {
        match (self.security.tokens.is_some(), self.security.anonymous) {
            (true, _) if self.security.accepts_certificates() => {
                "gRPC on the same port; clients need a token or a certificate"
            }
            (true, _) => "gRPC on the same port; clients need a token",
            (false, false) if self.security.accepts_certificates() => {
                "gRPC on the same port; clients need a certificate"
            }
            (false, true) => "gRPC on the same port; no authentication",
            (false, false) => "clients need the key of key_file; no gRPC",
        }
    }

    /// For the banner: the rest of a command of `wirelane kv` that works on this machine. Only files that clients alone have are
    /// names in capitals.
    pub(super) fn example(&self, config: Option<&Path>) -> String {
        let put = "put hello world";
        let word = |file: &Path| {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            shell_word(&file.to_string_lossy())
        };
        if self.security.anonymous {
            return put.to_owned();
        }
        if let (Some(file), Some(first)) = (&self.security.tokens, &self.first_token) {
            let command = if first.is_everything() { put } else { "ls" };
            return format!("--token-file {} {command}", word(file));
        }
        match config {
            _ if self.security.accepts_certificates() => {
                format!("--tls-ca CA --tls-cert CERTIFICATE --tls-key KEY {put}")
            }
            _ if self.security.tokens.is_some() => format!("--token-file FILE {put}"),
            Some(file) => format!("--config {} {put}", word(file)),
            None => put.to_owned(),
        }
    }

    /// Warns of valid but insecure combinations.
    pub(super) fn warn(&self, listen: SocketAddr, http: SocketAddr, tcp_encrypt: bool) {
        if !listen.ip().is_loopback() && self.security.authenticates() && !tcp_encrypt {
            tracing::warn!(
                "links are authenticated, but their data over TCP is not encrypted and can be modified: set \
                 transport.tcp_encrypt on untrusted networks (it costs throughput)"
            );
        }
        let reachable = [listen, http].iter().any(|address| !address.ip().is_loopback());
        if reachable && self.security.authenticates() && self.tls.is_none() {
            tracing::warn!(
                "tokens are sent unencrypted over gRPC and HTTP: pass --tls-cert and --tls-key, \
                 or use only links"
            );
        }
    }

    /// TLS for gRPC, if enabled.
    pub(super) fn grpc_tls(&self) -> Option<Arc<Tls>> {
        self.tls.as_ref().map(|tls| tls.grpc.clone())
    }

    /// TLS for HTTP, if enabled.
    pub(super) fn http_tls(&self) -> Option<Arc<Tls>> {
        self.tls.as_ref().map(|tls| tls.http.clone())
    }

    /// Whether there are files to reread.
    pub(super) fn can_reload(&self) -> bool {
        self.security.tokens.is_some() || self.security.tls.is_some()
    }

    /// Rereads all files, and returns the number of identities. On errors nothing changes.
    pub(super) fn reload(&self) -> Result<usize, Failure> {
        let fresh = self.security.tls.as_ref().map(open).transpose()?;
        let identities = identities(&self.security, self.key.as_ref())?;
        let count = identities.len();
        self.access.replace(identities).map_err(|error| Failure::usage(error.to_string()))?;
        if let (Some(listeners), Some(fresh)) = (&self.tls, fresh) {
            self.access.trust(fresh.grpc.authority());
            listeners.grpc.replace(fresh.grpc);
            listeners.http.replace(fresh.http);
        }
        Ok(count)
    }

    /// Whether an HTTP client may read the pages: its permissions, if the server authenticates. They are about all keys, so
    /// it must have permission to read all.
    pub(super) fn admit(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Option<Permissions>, Refused> {
        if !self.security.authenticates() {
            return Ok(None);
        }
        let header = headers.get(AUTHORIZATION);
        let verified = match (header, certificate, &self.tls) {
            (None, Some(certificate), Some(listeners)) => {
                listeners.http.verify(certificate, &self.access)?
            }
            _ => None,
        };
        let permissions =
            self.access.authenticate(verified, header.map(|header| header.as_bytes()))?;
        permissions.check_read_all()?;
        Ok(Some(permissions))
    }
}

fn open(paths: &Paths) -> Result<Listeners<Tls>, Failure> {
    let contents = paths.read()?;
    let failure = |error| {
        let Paths { certificate, key, .. } = paths;
        Failure::usage(format!(
            "use the certificate {} with the key {}: {error} — see --tls-cert, --tls-key and --tls-client-ca",
            certificate.display(),
            key.display()
        ))
    };
    let grpc = Tls::http2(contents.files()).map_err(failure)?;
    Ok(Listeners { grpc, http: Tls::http1(contents.files()).map_err(failure)? })
}

/// All identities that may connect.
fn identities(security: &Security, key: Option<&Key>) -> Result<Vec<Identity>, Failure> {
    let mut identities = match &security.tokens {
        Some(file) => token::identities(file)?,
        None => Vec::new(),
    };
    identities.extend(key.map(|key| Identity::keyed(key.clone(), Scope::everything())));
    identities.extend(security.anonymous.then(Identity::anonymous));
    Ok(identities)
}
