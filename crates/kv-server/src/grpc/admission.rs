//! Who calls, as one call shows it.

use std::sync::Arc;

use hyper::Request;
use hyper::header::AUTHORIZATION;
use tonic::Status;

use super::status;
use crate::access::{Access, Pass, Refused};

/// Found out where the call comes in, and carried by its request to where it is done.
#[derive(Clone)]
pub(super) struct Admission(Result<Pass, Refused>);

impl Admission {
    /// Looks at what the request shows, and takes it away: nobody behind the gate needs the secret.
    pub(super) fn of<B>(request: &mut Request<B>, access: &Arc<Access>) -> Self {
        let shown = request.headers_mut().remove(AUTHORIZATION);
        Admission(access.greet(None, shown.as_ref().map(|shown| shown.as_bytes())))
    }

    /// The pass that came with a request.
    pub(super) fn pass<T>(request: &tonic::Request<T>) -> Result<Pass, Status> {
        let admission = request.extensions().get::<Admission>();
        // Every request has one; without it nobody is known.
        let admission = admission.map_or(Err(Refused::NoCredentials), |known| known.0.clone());
        admission.map_err(status::denied)
    }
}
