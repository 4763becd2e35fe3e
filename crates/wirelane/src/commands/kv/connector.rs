//! The way to the store: what the user said of it, and the call.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fabric::link;
use fabric::session::Credentials;
use kv_client::{Client, CredentialSource, Kind, Settings as ClientSettings};

use super::key::Key;
use super::server::{Server, ServerUrl};
use crate::arguments::credentials::CallerArgs;
use crate::arguments::size::{Size, seconds};
use crate::arguments::transport::Transport;
use crate::links::endpoint;
use crate::links::ticket::Tickets;
use crate::output::exit::{self, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::timeout::within;
use crate::{logging, output};

#[derive(Debug, Args)]
#[command(next_help_heading = "Store and connection")]
pub(super) struct StoreArgs {
    /// Address of the store; of several, the first that answers is used, and the next if it is lost
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    #[arg(value_delimiter = ',')]
    server: Vec<Server>,

    /// The older spelling of --server
    #[arg(long, global = true, value_name = "URL", hide = true)]
    server_addr: Option<ServerUrl>,

    /// Use the best transport that both ends have, or only this one
    #[arg(long, global = true, value_name = "KIND", default_value = "auto")]
    transport: Transport,

    /// Size of the receive buffer (registered memory); larger values are transferred in pieces [default: 64MiB]
    #[arg(long, global = true, value_name = "SIZE")]
    buffer: Option<Size>,

    /// The older spelling of --buffer
    #[arg(long, global = true, value_name = "MIB", hide = true)]
    buffer_mb: Option<u16>,

    /// Timeout of a request, including connecting
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    deadline: Duration,

    #[command(flatten)]
    caller: CallerArgs,

    /// Keys are given in hexadecimal
    #[arg(long, global = true)]
    hex_key: bool,

    /// Print what was done, and over which transport
    #[arg(short, long, global = true)]
    verbose: bool,
}

impl StoreArgs {
    /// A key, as the user wrote it.
    pub(super) fn key(&self, text: &OsStr) -> Result<Key, Failure> {
        Key::parse(text, self.hex_key)
    }

    /// Several keys.
    pub(super) fn keys<T: AsRef<OsStr>>(&self, texts: &[T]) -> Result<Vec<Key>, Failure> {
        texts.iter().map(|text| self.key(text.as_ref())).collect()
    }

    /// Reads the settings; nobody is called yet.
    pub(super) fn prepare(&self, global: &Global) -> Result<StoreReach, Failure> {
        let settings = Settings::load(global)?.settings;
        logging::start(global, &settings);
        let mut links = endpoint::settings(global, &settings, self.caller.known(global)?)?;
        self.transport.narrow(None, &mut links)?;
        let servers = match &self.server_addr {
            Some(url) => vec![url.0.clone()],
            None => self.server.clone(),
        };
        let buffer = self.buffer.map(|size| size.0);
        let buffer = buffer.or(self.buffer_mb.map(|mib| usize::from(mib) << 20));
        let tickets = self.caller.tickets()?;
        Ok(StoreReach {
            servers,
            links,
            tickets,
            buffer,
            deadline: self.deadline,
            verbose: self.verbose,
        })
    }

    /// Reaches a store.
    pub(super) fn reach(&self, global: &Global) -> Result<(StoreReach, Client), Failure> {
        let way = self.prepare(global)?;
        let client = way.connect()?;
        Ok((way, client))
    }
}

/// How stores are reached.
#[derive(Clone)]
pub(super) struct StoreReach {
    servers: Vec<Server>,
    links: link::Settings,
    /// Who gives us tickets, if we are known by a certificate.
    tickets: Option<Tickets>,
    /// None: as much as is usual.
    pub(super) buffer: Option<usize>,
    deadline: Duration,
    verbose: bool,
}

impl StoreReach {
    /// Calls the first store that answers.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        let (way, limit) = (self.clone(), self.deadline);
        let names = self.names();
        let waiting = || format!("connecting to {names}, for {} s at most …", limit.as_secs_f64());
        let client = within(limit, waiting, move || way.call())?;
        client.unwrap_or_else(|| {
            exit::at_once(Err(Failure::failed(format!(
                "connect to {names}: an RDMA device of this machine, or the resolver, does not answer — look \
                 at the kernel's log, or try --transport tcp"
            ))))
        })
    }

    /// The servers, by the names that the user gave them.
    pub(super) fn names(&self) -> String {
        self.servers.iter().map(Server::to_string).collect::<Vec<_>>().join(", ")
    }

    fn call(&self) -> Result<Client, Failure> {
        let mut settings =
            ClientSettings::default().with_deadline(self.deadline).with_link(self.links.clone());
        settings.servers = self.servers.iter().map(|server| server.to_string().into()).collect();
        settings.receive_buffer_bytes = self.buffer.unwrap_or(settings.receive_buffer_bytes);
        settings.credentials = self.tickets.clone().map(by_ticket);
        Client::connect(settings).map_err(|error| match error.kind() {
            Kind::Unavailable | Kind::Deadline => self.nobody(&error),
            // Something else answers there.
            Kind::Misuse => Failure::failed(exit::client_error(&error)),
            _ => Failure::from(error),
        })
    }

    fn nobody(&self, error: &kv_client::Error) -> Failure {
        let server = &self.servers[0];
        Failure::failed(format!("{error:#} (to start a store: `wirelane serve --listen {server}`)"))
    }

    /// One line on what was done and how, for who asked for it.
    pub(super) fn tell(&self, client: &Client, what: &str) {
        if self.verbose {
            output::note(&format!("{what}, {}", by(client)));
        }
    }

    /// The same, also for who sits at a terminal.
    pub(super) fn tell_people(&self, client: &Client, what: &str) {
        if self.verbose || std::io::stderr().is_terminal() {
            output::note(&format!("{what}, {}", by(client)));
        }
    }
}

/// A ticket for every connection, of the server that it leads to.
fn by_ticket(tickets: Tickets) -> CredentialSource {
    Arc::new(move |server, address, limit| {
        Ok(Credentials::Ticket(tickets.ask(&server.host(), address, limit)?))
    })
}

/// Which way it went.
fn by(client: &Client) -> String {
    match client.explain() {
        Some(link) => format!("by {} ({})", link.lane.unwrap_or("no lane"), link.why),
        None => "over a connection that is now lost".to_owned(),
    }
}
