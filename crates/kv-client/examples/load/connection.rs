//! A connection to the store: a link of one transport, or gRPC.

use std::time::Duration;

use fabric::link::Transport;
use fabric::session::{Credentials, Key};
use kv_client::{Client, Condition, ErrorKind, PutOptions, Settings};
use kv_proto::v1::kv_client::KvClient;
use kv_proto::v1::{self, DeleteRequest, GetRequest, PutRequest};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::options::Options;

pub(crate) enum StoreConnection {
    Link(Box<Client>),
    Grpc(Runtime, Box<KvClient<Channel>>),
}

/// Why a request failed.
pub(crate) enum Fault {
    /// It is unknown whether it was executed.
    Unknown,
    Failed(String),
}

impl StoreConnection {
    pub(crate) fn open(options: &Options) -> Result<Self, String> {
        let transport = match &*options.transport {
            "shm" => Transport::Shm,
            "tcp" => Transport::Tcp,
            "grpc" => return StoreConnection::open_grpc(&options.server),
            transport => return Err(format!("unknown transport {transport}")),
        };
        let mut settings = Settings::new(&options.server);
        settings.link.transports = vec![transport];
        settings.client_buffer_bytes = if options.idlers > 0 { 1 << 20 } else { 16 << 20 };
        if let Some((name, token)) = &options.token {
            let key = Key::from_token(name, token).map_err(|error| error.to_string())?;
            settings.link.credentials = Credentials::Key(key);
        }
        let client = Client::connect(settings).map_err(|error| error.to_string())?;
        Ok(StoreConnection::Link(Box::new(client)))
    }

    fn open_grpc(server: &str) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let address = Endpoint::from_shared(format!("http://{server}"));
        let address = address.map_err(|error| error.to_string())?;
        let channel = runtime.block_on(address.connect()).map_err(|error| error.to_string())?;
        Ok(StoreConnection::Grpc(runtime, Box::new(KvClient::new(channel))))
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        match self {
            StoreConnection::Link(client) => Ok(client.get(key)?.map(|value| value.to_vec())),
            StoreConnection::Grpc(runtime, client) => {
                let get = GetRequest { key: key.to_vec().into(), ..GetRequest::default() };
                let got = runtime.block_on(client.get(get))?.into_inner();
                Ok(got.found.then(|| got.value.to_vec()))
            }
        }
    }

    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<(), Fault> {
        match self {
            StoreConnection::Link(client) => {
                let options = PutOptions::default().with_ttl(ttl);
                client.put(key, value, &options)?;
            }
            StoreConnection::Grpc(runtime, client) => {
                let ttl_ms = ttl.map(|ttl| ttl.as_millis() as u64);
                let options = Some(v1::PutOptions { ttl_ms, condition: None });
                let (key, value) = (key.to_vec().into(), value.to_vec().into());
                runtime.block_on(client.put(PutRequest { key, value, options, write_id: None }))?;
            }
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), Fault> {
        match self {
            StoreConnection::Link(client) => _ = client.delete(key, Condition::Always)?,
            StoreConnection::Grpc(runtime, client) => {
                let delete = DeleteRequest { key: key.to_vec().into(), ..DeleteRequest::default() };
                runtime.block_on(client.delete(delete))?;
            }
        }
        Ok(())
    }
}

impl From<kv_client::Error> for Fault {
    fn from(error: kv_client::Error) -> Self {
        match error.kind() {
            ErrorKind::Unknown => Fault::Unknown,
            _ => Fault::Failed(error.to_string()),
        }
    }
}

/// Calls have no write id here, so a call that failed in transit may have been executed.
impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => Fault::Unknown,
            code => Fault::Failed(format!("{code:?}: {}", status.message())),
        }
    }
}
