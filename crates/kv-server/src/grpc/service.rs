//! The service as tonic wants it: each call is counted, and done elsewhere.

use std::future::Future;
use std::sync::Arc;

use kv_proto::v1::{self, kv_server::Kv};
use tonic::{Request, Response, Status, Streaming};

use super::About;
use super::admission::Admission;
use super::counts::{Counts, Method};
use super::read::{self, Reading};
use super::{look, write};
use crate::access::{Access, Pass};
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

    pub(super) fn access(&self) -> &Arc<Access> {
        self.engine.access()
    }

    /// Counts a call, and lets in who may call.
    fn admit<T>(&self, method: Method, request: Request<T>) -> Result<(Pass, T), Status> {
        self.counts.called(method);
        let pass =
            Admission::pass(&request).inspect_err(|status| self.counts.failed(status.code()));
        Ok((pass?, request.into_inner()))
    }

    /// Does it.
    async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        let done = work.await;
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
        let (pass, request) = self.admit(Method::Get, request)?;
        self.answer(read::get(&self.engine, &pass, request)).await
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Result<Response<Reading>, Status> {
        let (pass, request) = self.admit(Method::Read, request)?;
        self.answer(Reading::begin(&self.engine, &pass, &request)).await
    }

    async fn put(
        &self,
        request: Request<v1::PutRequest>,
    ) -> Result<Response<v1::PutReply>, Status> {
        let (pass, request) = self.admit(Method::Put, request)?;
        self.answer(write::put(&self.engine, &self.sessions, &pass, request)).await
    }

    async fn write(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<v1::PutReply>, Status> {
        let (pass, pieces) = self.admit(Method::Write, request)?;
        self.answer(write::write(&self.engine, &self.sessions, &pass, pieces)).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteReply>, Status> {
        let (pass, request) = self.admit(Method::Delete, request)?;
        self.answer(write::delete(&self.engine, &self.sessions, &pass, request)).await
    }

    async fn stat(
        &self,
        request: Request<v1::StatRequest>,
    ) -> Result<Response<v1::StatReply>, Status> {
        let (pass, request) = self.admit(Method::Stat, request)?;
        self.answer(look::stat(&self.engine, &pass, &request)).await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListReply>, Status> {
        let (pass, request) = self.admit(Method::List, request)?;
        self.answer(look::list(&self.engine, &pass, &request)).await
    }

    async fn multi_get(
        &self,
        request: Request<v1::MultiGetRequest>,
    ) -> Result<Response<v1::MultiGetReply>, Status> {
        let (pass, request) = self.admit(Method::MultiGet, request)?;
        self.answer(read::multi_get(&self.engine, &pass, request)).await
    }

    async fn multi_put(
        &self,
        request: Request<v1::MultiPutRequest>,
    ) -> Result<Response<v1::MultiPutReply>, Status> {
        let (pass, request) = self.admit(Method::MultiPut, request)?;
        self.answer(write::multi_put(&self.engine, &self.sessions, &pass, request)).await
    }

    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> Result<Response<v1::Session>, Status> {
        let (pass, _) = self.admit(Method::OpenSession, request)?;
        self.answer(async { look::open_session(&self.engine, &pass, &self.sessions) }).await
    }

    async fn ticket(
        &self,
        request: Request<v1::TicketRequest>,
    ) -> Result<Response<v1::TicketReply>, Status> {
        let secure = Admission::is_secure(&request);
        let (pass, _) = self.admit(Method::Ticket, request)?;
        self.answer(async { look::ticket(&self.engine, &pass, secure) }).await
    }

    async fn info(
        &self,
        request: Request<v1::InfoRequest>,
    ) -> Result<Response<v1::InfoReply>, Status> {
        let (pass, _) = self.admit(Method::Info, request)?;
        self.answer(async { look::info(&self.engine, &pass, &self.about) }).await
    }
}

/// Each may remember thousands of writes, and costs nobody anything to open.
const MOST_SESSIONS: usize = 4096;
