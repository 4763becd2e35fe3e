//! The tonic service: counts each call and passes it on.

use std::future::Future;
use std::sync::Arc;

use kv_proto::v1::{self, kv_server::Kv};
use tonic::{Request, Response, Status, Streaming};

use super::ServerInfo;
use super::authenticated_caller::AuthenticatedCaller;
use super::counts::{GrpcCounts, Method};
use super::read::{self, ReadStream};
use super::{query, write};
use crate::engine::Engine;
use crate::engine::quota::Quota;
use crate::engine::session::Sessions;
use access::Access;

pub(super) struct Service {
    engine: Arc<Engine>,
    info: ServerInfo,
    counts: Arc<GrpcCounts>,
    /// Separate from those of links: too many here do not evict any there.
    sessions: Arc<Sessions>,
}

impl Service {
    pub(super) fn new(engine: Arc<Engine>, info: ServerInfo, counts: Arc<GrpcCounts>) -> Self {
        let sessions = Sessions::for_store(engine.pool().len(), MAX_SESSIONS);
        Service { engine, info, counts, sessions: Arc::new(sessions) }
    }

    pub(super) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    pub(super) fn access(&self) -> &Arc<Access> {
        self.engine.access()
    }

    pub(super) fn quota(&self) -> &Arc<Quota> {
        self.engine.quota()
    }

    /// Counts a call, and returns its caller.
    fn admit<T>(
        &self,
        method: Method,
        request: Request<T>,
    ) -> Result<(AuthenticatedCaller, T), Status> {
        self.counts.called(method);
        let caller = AuthenticatedCaller::of(&request);
        let caller = caller.inspect_err(|status| self.counts.failed(status.code()))?;
        Ok((caller, request.into_inner()))
    }

    /// Runs a call, and counts its failure.
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
    type ReadStream = ReadStream;

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetReply>, Status> {
        let (caller, request) = self.admit(Method::Get, request)?;
        self.answer(read::get(&self.engine, caller.permissions(), request)).await
    }

    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<ReadStream>, Status> {
        let (caller, request) = self.admit(Method::Read, request)?;
        self.answer(ReadStream::begin(&self.engine, caller.permissions(), &request)).await
    }

    async fn put(
        &self,
        request: Request<v1::PutRequest>,
    ) -> Result<Response<v1::PutReply>, Status> {
        let (caller, request) = self.admit(Method::Put, request)?;
        self.answer(write::put(&self.engine, &self.sessions, &caller, request)).await
    }

    async fn write(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<v1::PutReply>, Status> {
        let (caller, chunks) = self.admit(Method::Write, request)?;
        self.answer(write::write(&self.engine, &self.sessions, &caller, chunks)).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteReply>, Status> {
        let (caller, request) = self.admit(Method::Delete, request)?;
        self.answer(write::delete(&self.engine, &self.sessions, caller.permissions(), request))
            .await
    }

    async fn stat(
        &self,
        request: Request<v1::StatRequest>,
    ) -> Result<Response<v1::StatReply>, Status> {
        let (caller, request) = self.admit(Method::Stat, request)?;
        self.answer(query::stat(&self.engine, caller.permissions(), &request)).await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListReply>, Status> {
        let (caller, request) = self.admit(Method::List, request)?;
        self.answer(query::list(&self.engine, caller.permissions(), &request)).await
    }

    async fn multi_get(
        &self,
        request: Request<v1::MultiGetRequest>,
    ) -> Result<Response<v1::MultiGetReply>, Status> {
        let (caller, request) = self.admit(Method::MultiGet, request)?;
        self.answer(read::multi_get(&self.engine, caller.permissions(), request)).await
    }

    async fn multi_put(
        &self,
        request: Request<v1::MultiPutRequest>,
    ) -> Result<Response<v1::MultiPutReply>, Status> {
        let (caller, request) = self.admit(Method::MultiPut, request)?;
        self.answer(write::multi_put(&self.engine, &self.sessions, &caller, request)).await
    }

    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> Result<Response<v1::Session>, Status> {
        let (caller, _) = self.admit(Method::OpenSession, request)?;
        self.answer(async {
            query::open_session(&self.engine, caller.permissions(), &self.sessions)
        })
        .await
    }

    async fn ticket(
        &self,
        request: Request<v1::TicketRequest>,
    ) -> Result<Response<v1::TicketReply>, Status> {
        let (caller, _) = self.admit(Method::Ticket, request)?;
        self.answer(async { query::ticket(&self.engine, &caller) }).await
    }

    async fn info(
        &self,
        request: Request<v1::InfoRequest>,
    ) -> Result<Response<v1::InfoReply>, Status> {
        let (caller, _) = self.admit(Method::Info, request)?;
        self.answer(async { query::info(&self.engine, caller.permissions(), &self.info) }).await
    }
}

/// Any caller can open some.
const MAX_SESSIONS: usize = 4096;
