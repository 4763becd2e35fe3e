//! The identity of a caller, from its connection and from each call.

use std::sync::Arc;

use hyper::Request;
use hyper::header::AUTHORIZATION;
use tonic::Status;

use super::status;
use crate::engine::quota::{Quota, Share};
use access::tls::{ClientCertificate, Tls};
use access::{Access, Connection, NotAdmitted, Permissions, Refused};

/// The credentials of a connection.
#[derive(Clone)]
pub(super) struct ConnectionCredentials {
    certificate: Option<Arc<ClientCertificate>>,
    secure: bool,
    /// The connection is not encrypted, although the server requires TLS.
    pub(super) lacks_tls: bool,
    /// Its part of the quota of bytes in flight.
    share: Arc<Share>,
    connection: Arc<Connection>,
}

impl ConnectionCredentials {
    pub(super) fn plain(quota: &Arc<Quota>, connection: Arc<Connection>) -> Self {
        let share = quota.share();
        ConnectionCredentials {
            certificate: None,
            secure: false,
            lacks_tls: false,
            share,
            connection,
        }
    }

    pub(super) fn without_tls(self) -> Self {
        ConnectionCredentials { lacks_tls: true, ..self }
    }

    pub(super) fn secure(self, certificate: Option<Arc<ClientCertificate>>) -> Self {
        ConnectionCredentials { certificate, secure: true, ..self }
    }

    /// Checks the credentials of a request, and removes them from it: handlers do not need the secret.
    pub(super) fn admit<B>(
        &self,
        request: &mut Request<B>,
        access: &Arc<Access>,
        tls: Option<&Tls>,
    ) -> Result<Permissions, Refused> {
        let token = request.headers_mut().remove(AUTHORIZATION);
        let token = token.as_ref().map(|token| token.as_bytes());
        let verified = match (token, &self.certificate, tls) {
            (None, Some(certificate), Some(tls)) => tls.verify(certificate, access)?,
            _ => None,
        };
        access.authenticate(verified, token)
    }

    /// Marks the connection as authenticated. On an error the call must not be started.
    pub(super) fn authenticated(&self, permissions: &Permissions) -> Result<(), NotAdmitted> {
        self.connection.authenticate(permissions.identity_name())
    }
}

/// The authenticated caller, attached to the request.
#[derive(Clone)]
pub(super) struct AuthenticatedCaller {
    permissions: Permissions,
    share: Arc<Share>,
    /// Whether the connection is encrypted.
    secure: bool,
}

impl AuthenticatedCaller {
    pub(super) fn new(permissions: Permissions, connection: &ConnectionCredentials) -> Self {
        AuthenticatedCaller {
            permissions,
            share: connection.share.clone(),
            secure: connection.secure,
        }
    }

    /// The caller of a request; every request that passes the dispatcher has one.
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Result<AuthenticatedCaller, Status> {
        let caller = request.extensions().get::<AuthenticatedCaller>().cloned();
        caller.ok_or_else(|| status::denied(Refused::NoCredentials))
    }

    /// The caller's permissions.
    pub(super) fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// The caller's part of the quota of bytes in flight.
    pub(super) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Whether a secret may be sent in the answer.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }
}
