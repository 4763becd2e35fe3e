//! Who calls, as the connection and one call show it.

use std::sync::Arc;

use hyper::Request;
use hyper::header::AUTHORIZATION;
use tonic::Status;

use super::status;
use super::unauthenticated::UnauthenticatedConnection;
use crate::engine::quota::{Quota, Share};
use access::tls::{ClientCertificate, Tls};
use access::{Access, Pass, Refused};

/// What is known of who made a connection.
#[derive(Clone)]
pub(super) struct Caller {
    certificate: Option<Arc<ClientCertificate>>,
    secure: bool,
    /// It speaks without TLS, which this server has.
    pub(super) exposed: bool,
    /// What it may have on its way here.
    share: Arc<Share>,
    unauthenticated: Arc<UnauthenticatedConnection>,
}

impl Caller {
    pub(super) fn plain(
        quota: &Arc<Quota>,
        unauthenticated: Arc<UnauthenticatedConnection>,
    ) -> Self {
        let share = quota.share();
        Caller { certificate: None, secure: false, exposed: false, share, unauthenticated }
    }

    pub(super) fn exposed(self) -> Self {
        Caller { exposed: true, ..self }
    }

    pub(super) fn secure(self, certificate: Option<Arc<ClientCertificate>>) -> Self {
        Caller { certificate, secure: true, ..self }
    }

    /// Looks at what the request shows, and takes it away: nobody behind the gate needs the secret.
    pub(super) fn admit<B>(
        &self,
        request: &mut Request<B>,
        access: &Arc<Access>,
        tls: Option<&Tls>,
    ) -> Result<Pass, Refused> {
        let shown = request.headers_mut().remove(AUTHORIZATION);
        let shown = shown.as_ref().map(|shown| shown.as_bytes());
        let verified = match (shown, &self.certificate, tls) {
            (None, Some(certificate), Some(tls)) => tls.verify(certificate, access)?,
            _ => None,
        };
        access.authenticate(verified, shown)
    }

    /// A call of its was let in: whether it may stay.
    pub(super) fn may_stay(&self) -> bool {
        self.unauthenticated.may_stay()
    }
}

/// Who was let in where the call came in, passed on with its request.
#[derive(Clone)]
pub(super) struct Admission {
    pass: Pass,
    share: Arc<Share>,
    /// Whether nobody else hears what is said.
    secure: bool,
}

impl Admission {
    pub(super) fn new(pass: Pass, caller: &Caller) -> Self {
        Admission { pass, share: caller.share.clone(), secure: caller.secure }
    }

    /// Every request has one; without it nobody is known.
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Result<Admission, Status> {
        let admission = request.extensions().get::<Admission>().cloned();
        admission.ok_or_else(|| status::denied(Refused::NoCredentials))
    }

    /// What the caller may do.
    pub(super) fn pass(&self) -> &Pass {
        &self.pass
    }

    /// What the caller may have on its way here.
    pub(super) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Whether a secret may be told in the answer.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }
}
