//! Who may call, while the server runs: everybody with a token, a certificate, a key or nothing; and files that are
//! read again.

use std::net::SocketAddr;
use std::sync::Arc;

use access::tls::{ClientCertificate, Tls};
use access::{Access, Holder, Refused, Scope};
use fabric::link;
use fabric::session::{Credentials, Key};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use super::security::{Security, SecurityArgs};
use crate::output::Failure;
use access::files::tls_file::Paths;
use access::files::token;

pub(super) struct Guard {
    access: Arc<Access>,
    security: Security,
    tls: Option<Listeners<Arc<Tls>>>,
    /// The settings' own, which opens links.
    key: Option<Key>,
}

/// TLS, at either listener.
struct Listeners<T> {
    grpc: T,
    http: T,
}

impl Guard {
    /// Reads the tokens and certificates, and puts their keys on the ring of the links.
    pub(super) fn new(
        args: &SecurityArgs,
        security: Security,
        links: &link::Settings,
    ) -> Result<Self, Failure> {
        let key = match &links.credentials {
            Credentials::Key(key) => Some(key.clone()),
            Credentials::None | Credentials::Ticket(_) => None,
        };
        let holders = holders(&security, key.as_ref())?;
        let access =
            Access::new(links.keyring.clone(), holders, security.any_certificate(), args.max_rate);
        let access = access.map_err(|error| Failure::usage(error.to_string()))?;
        let tls = security.tls.as_ref().map(open).transpose()?;
        if let Some(listeners) = &tls {
            access.trust(listeners.grpc.authority());
        }
        let tls =
            tls.map(|Listeners { grpc, http }| Listeners { grpc: grpc.into(), http: http.into() });
        Ok(Guard { access, security, tls, key })
    }

    pub(super) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// What the first lines say of callers, and what those must add to `wirelane kv`.
    pub(super) fn greeting(&self) -> (&'static str, &'static str) {
        let certificate = " --tls-ca FILE --tls-cert FILE --tls-key FILE";
        match (self.security.tokens.is_some(), self.security.anonymous) {
            (true, _) if self.security.takes_certificates() => {
                let callers = "gRPC on the same port; callers need a token or a certificate";
                (callers, " --token-file FILE")
            }
            (true, _) => ("gRPC on the same port; callers need a token", " --token-file FILE"),
            (false, false) if self.security.takes_certificates() => {
                ("gRPC on the same port; callers need a certificate", certificate)
            }
            (false, true) => ("gRPC on the same port; callers need no key", ""),
            (false, false) => ("callers need the key, so that gRPC is closed", ""),
        }
    }

    /// Says what is legal and may not be meant.
    pub(super) fn warn(&self, listen: SocketAddr, http: SocketAddr, tcp_encrypt: bool) {
        if !listen.ip().is_loopback() && self.security.asks() && !tcp_encrypt {
            tracing::warn!(
                "links prove who calls, but what they carry by TCP can be read and changed by who is between: set \
                 transport.tcp_encrypt where the network is not trusted (it costs throughput)"
            );
        }
        let far = [listen, http].iter().any(|address| !address.ip().is_loopback());
        if far && self.security.asks() && self.tls.is_none() {
            tracing::warn!(
                "tokens that come by gRPC and HTTP are not encrypted on their way: give --tls-cert and --tls-key, \
                 or use links alone"
            );
        }
    }

    /// TLS for gRPC, if it is spoken.
    pub(super) fn grpc_tls(&self) -> Option<Arc<Tls>> {
        self.tls.as_ref().map(|tls| tls.grpc.clone())
    }

    /// TLS for HTTP, if it is spoken.
    pub(super) fn http_tls(&self) -> Option<Arc<Tls>> {
        self.tls.as_ref().map(|tls| tls.http.clone())
    }

    /// Whether there is something to read again.
    pub(super) fn can_reload(&self) -> bool {
        self.security.tokens.is_some() || self.security.tls.is_some()
    }

    /// Reads all again; how many identities there are now. What is wrong leaves all as it was.
    pub(super) fn reload(&self) -> Result<usize, Failure> {
        let fresh = self.security.tls.as_ref().map(open).transpose()?;
        let holders = holders(&self.security, self.key.as_ref())?;
        let count = holders.len();
        self.access.replace(holders).map_err(|error| Failure::usage(error.to_string()))?;
        if let (Some(listeners), Some(fresh)) = (&self.tls, fresh) {
            self.access.trust(fresh.grpc.authority());
            listeners.grpc.replace(fresh.grpc);
            listeners.http.replace(fresh.http);
        }
        Ok(count)
    }

    /// Whether a caller by HTTP may look. What it would see is of all keys, so it must be able to read all.
    pub(super) fn admit(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
    ) -> Result<(), Refused> {
        if !self.security.asks() {
            return Ok(());
        }
        let shown = headers.get(AUTHORIZATION);
        let verified = match (shown, certificate, &self.tls) {
            (None, Some(certificate), Some(listeners)) => {
                listeners.http.verify(certificate, &self.access)?
            }
            _ => None,
        };
        self.access.authenticate(verified, shown.map(|shown| shown.as_bytes()))?.check_read_all()
    }
}

fn open(paths: &Paths) -> Result<Listeners<Tls>, Failure> {
    let contents = paths.read()?;
    let failure = |wrong| {
        let Paths { certificate, key, .. } = paths;
        Failure::usage(format!(
            "use the certificate {} with the key {}: {wrong} — see --tls-cert, --tls-key and --tls-client-ca",
            certificate.display(),
            key.display()
        ))
    };
    let grpc = Tls::http2(contents.files()).map_err(failure)?;
    Ok(Listeners { grpc, http: Tls::http1(contents.files()).map_err(failure)? })
}

/// Everybody who may call.
fn holders(security: &Security, key: Option<&Key>) -> Result<Vec<Holder>, Failure> {
    let mut holders = match &security.tokens {
        Some(file) => token::holders(file)?,
        None => Vec::new(),
    };
    holders.extend(key.map(|key| Holder::keyed(key.clone(), Scope::everything())));
    holders.extend(security.anonymous.then(Holder::anonymous));
    Ok(holders)
}
