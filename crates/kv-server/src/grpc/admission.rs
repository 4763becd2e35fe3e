//! Who calls, as the connection and one call show it.

use std::sync::Arc;

use hyper::Request;
use hyper::header::AUTHORIZATION;
use tonic::Status;

use super::status;
use crate::access::{Access, Pass, Refused};

/// What is known of who made a connection.
#[derive(Clone)]
pub(super) struct Caller {
    certificate: Option<Arc<str>>,
    secure: bool,
    /// It speaks without TLS, which this server has.
    pub(super) exposed: bool,
}

impl Caller {
    pub(super) fn plain() -> Self {
        Caller { certificate: None, secure: false, exposed: false }
    }

    pub(super) fn exposed() -> Self {
        Caller { exposed: true, ..Caller::plain() }
    }

    pub(super) fn secure(certificate: Option<Arc<str>>) -> Self {
        Caller { certificate, secure: true, exposed: false }
    }
}

/// Found out where the call comes in, and carried by its request to where it is done.
#[derive(Clone)]
pub(super) struct Admission {
    pass: Result<Pass, Refused>,
    /// Whether nobody else hears what is said.
    secure: bool,
}

impl Admission {
    /// Looks at what the request shows, and takes it away: nobody behind the gate needs the secret.
    pub(super) fn of<B>(request: &mut Request<B>, caller: &Caller, access: &Arc<Access>) -> Self {
        let shown = request.headers_mut().remove(AUTHORIZATION);
        let shown = shown.as_ref().map(|shown| shown.as_bytes());
        Admission {
            pass: access.greet(caller.certificate.as_deref(), shown),
            secure: caller.secure,
        }
    }

    /// The pass that came with a request.
    pub(super) fn pass<T>(request: &tonic::Request<T>) -> Result<Pass, Status> {
        let admission = request.extensions().get::<Admission>();
        // Every request has one; without it nobody is known.
        let pass = admission.map_or(Err(Refused::NoCredentials), |known| known.pass.clone());
        pass.map_err(status::denied)
    }

    /// Whether a secret may be told in the answer.
    pub(super) fn is_secure<T>(request: &tonic::Request<T>) -> bool {
        request.extensions().get::<Admission>().is_some_and(|known| known.secure)
    }
}
