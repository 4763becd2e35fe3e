//! The service as tonic wants it: each call is counted, and done elsewhere.

use std::future::Future;
use std::sync::Arc;

use kv_proto::v1::{self, kv_server::Kv};
use tonic::{Request, Response, Status, Streaming};

use super::About;
use super::counts::{Counts, Method};
use super::read::{self, Reading};
use super::{look, status, write};
use crate::engine::Engine;
use crate::session::Sessions;

pub(super) struct Service {
    engine: Arc<Engine>,
    about: About,
    counts: Arc<Counts>,
    /// Apart from those of links: whoever opens too many here takes none away there.
    sessions: Arc<Sessions>,
}

impl Service {
    pub(super) fn new(engine: Arc<Engine>, about: About, counts: Arc<Counts>) -> Self {
        Service { engine, about, counts, sessions: Arc::new(Sessions::new(MOST_SESSIONS)) }
    }

    pub(super) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Counts a call, and does it if anybody may call.
    async fn answer<T>(
        &self,
        method: Method,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        self.counts.called(method);
        let done = match &self.about.closed {
            Some(why) => Err(status::closed(why)),
            None => work.await,
        };
        if let Err(status) = &done {
            self.counts.failed(status.code());
        }
        done.map(Response::new)
    }
}

#[tonic::async_trait]
impl Kv for Service {
    type ReadStream = Reading;

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetReply>, Status> {
        self.answer(Method::Get, read::get(&self.engine, request.into_inner())).await
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Result<Response<Reading>, Status> {
        let work = Reading::begin(&self.engine, request.get_ref());
        self.answer(Method::Read, work).await
    }

    async fn put(
        &self,
        request: Request<v1::PutRequest>,
    ) -> Result<Response<v1::PutReply>, Status> {
        let work = write::put(&self.engine, &self.sessions, request.into_inner());
        self.answer(Method::Put, work).await
    }

    async fn write(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<v1::PutReply>, Status> {
        let work = write::write(&self.engine, &self.sessions, request.into_inner());
        self.answer(Method::Write, work).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteReply>, Status> {
        let work = write::delete(&self.engine, &self.sessions, request.into_inner());
        self.answer(Method::Delete, work).await
    }

    async fn stat(
        &self,
        request: Request<v1::StatRequest>,
    ) -> Result<Response<v1::StatReply>, Status> {
        self.answer(Method::Stat, look::stat(&self.engine, request.get_ref())).await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListReply>, Status> {
        self.answer(Method::List, look::list(&self.engine, request.get_ref())).await
    }

    async fn multi_get(
        &self,
        request: Request<v1::MultiGetRequest>,
    ) -> Result<Response<v1::MultiGetReply>, Status> {
        self.answer(Method::MultiGet, read::multi_get(&self.engine, request.into_inner())).await
    }

    async fn multi_put(
        &self,
        request: Request<v1::MultiPutRequest>,
    ) -> Result<Response<v1::MultiPutReply>, Status> {
        let work = write::multi_put(&self.engine, &self.sessions, request.into_inner());
        self.answer(Method::MultiPut, work).await
    }

    async fn open_session(
        &self,
        _: Request<v1::OpenSessionRequest>,
    ) -> Result<Response<v1::Session>, Status> {
        let work = async { look::open_session(&self.engine, &self.sessions) };
        self.answer(Method::OpenSession, work).await
    }

    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoReply>, Status> {
        self.answer(Method::Info, async { Ok(look::info(&self.engine, &self.about)) }).await
    }
}

/// Each may remember thousands of writes, and costs nobody anything to open.
const MOST_SESSIONS: usize = 4096;
