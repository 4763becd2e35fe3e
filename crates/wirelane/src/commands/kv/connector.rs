//! The connection to a store: its options, and connecting.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fabric::link;
use fabric::session::Credentials;
use kv_client::{Client, CredentialSource, ErrorKind, Settings as ClientSettings};

use super::key::Key;
use super::server::Server;
use crate::arguments::credentials::CredentialArgs;
use crate::arguments::size::{Size, seconds};
use crate::arguments::transport::TransportArg;
use crate::links::endpoint;
use crate::links::ticket::Tickets;
use crate::output::exit::{self, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::timeout::with_timeout;
use crate::{logging, output};

#[derive(Debug, Args)]
#[command(next_help_heading = "Store and connection")]
pub(super) struct StoreArgs {
    /// Address of the store; of several, the first that answers is used, and the next if it is lost
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    #[arg(value_delimiter = ',')]
    server: Vec<Server>,

    /// Old name of --server
    #[arg(long, global = true, value_name = "URL", hide = true)]
    server_addr: Option<Server>,

    /// Use the best transport that both ends have, or only this one
    #[arg(long, global = true, value_name = "KIND", default_value = "auto")]
    transport: TransportArg,

    /// Size of the client buffer (registered memory); larger values are transferred in chunks [default: 64MiB]
    #[arg(long, global = true, value_name = "SIZE")]
    buffer: Option<Size>,

    /// Old name of --buffer
    #[arg(long, global = true, value_name = "MIB", hide = true)]
    buffer_mb: Option<u16>,

    /// Timeout of a request, including connecting
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    deadline: Duration,

    #[command(flatten)]
    credentials: CredentialArgs,

    /// Keys are given in hexadecimal
    #[arg(long, global = true)]
    hex_key: bool,

    /// Print what was done, and over which transport
    #[arg(short, long, global = true)]
    verbose: bool,
}

impl StoreArgs {
    /// Parses a key.
    pub(super) fn key(&self, text: &OsStr) -> Result<Key, Failure> {
        Key::parse(text, self.hex_key)
    }

    /// Parses several keys.
    pub(super) fn keys<T: AsRef<OsStr>>(&self, texts: &[T]) -> Result<Vec<Key>, Failure> {
        texts.iter().map(|text| self.key(text.as_ref())).collect()
    }

    /// Reads the settings; does not connect yet.
    pub(super) fn prepare(&self, global: &Global) -> Result<Connector, Failure> {
        let settings = Settings::load(global)?.settings;
        logging::start(global, &settings);
        let mut links =
            endpoint::settings(global, &settings, self.credentials.auth_method(global)?)?;
        self.transport.restrict(None, &mut links)?;
        let servers = match &self.server_addr {
            Some(server) => vec![server.clone()],
            None => self.server.clone(),
        };
        let buffer = self.buffer.map(|size| size.0);
        let buffer = buffer.or(self.buffer_mb.map(|mib| usize::from(mib) << 20));
        let tickets = self.credentials.tickets()?;
        Ok(Connector {
            servers,
            links,
            tickets,
            buffer,
            timeout: self.deadline,
            verbose: self.verbose,
        })
    }

    /// Connects to a store.
    pub(super) fn connect(&self, global: &Global) -> Result<(Connector, Client), Failure> {
        let connector = self.prepare(global)?;
        let client = connector.connect()?;
        Ok((connector, client))
    }
}

/// Connects to stores.
#[derive(Clone)]
pub(super) struct Connector {
    servers: Vec<Server>,
    links: link::EndpointSettings,
    /// The source of tickets, if this client authenticates by certificate.
    tickets: Option<Tickets>,
    /// `None`: the default.
    pub(super) buffer: Option<usize>,
    timeout: Duration,
    verbose: bool,
}

impl Connector {
    /// Connects to the first store that answers.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        let (connector, limit) = (self.clone(), self.timeout);
        let names = self.names();
        let waiting = || format!("connecting to {names} (timeout {} s) …", limit.as_secs_f64());
        let client = with_timeout(limit, waiting, move || connector.connect_now())?;
        client.unwrap_or_else(|| {
            exit::immediately(Err(Failure::failed(format!(
                "connect to {names}: an RDMA device of this machine, or the resolver, does not answer — see \
                 the kernel log, or try --transport tcp"
            ))))
        })
    }

    /// The servers, as the user named them.
    pub(super) fn names(&self) -> String {
        self.servers.iter().map(Server::to_string).collect::<Vec<_>>().join(", ")
    }

    /// On this thread, which may hang in a resolver or a device.
    fn connect_now(&self) -> Result<Client, Failure> {
        let mut settings =
            ClientSettings::default().with_timeout(self.timeout).with_link(self.links.clone());
        settings.servers = self.servers.iter().map(|server| server.to_string().into()).collect();
        settings.client_buffer_bytes = self.buffer.unwrap_or(settings.client_buffer_bytes);
        settings.credentials = self.tickets.clone().map(ticket_source);
        Client::connect(settings).map_err(|error| match error.kind() {
            ErrorKind::Unavailable | ErrorKind::TimedOut => self.unreachable(&error),
            // Another kind of server answered.
            ErrorKind::Misuse => Failure::failed(exit::client_error(&error)),
            _ => Failure::from(error),
        })
    }

    fn unreachable(&self, error: &kv_client::Error) -> Failure {
        let server = &self.servers[0];
        Failure::failed(format!("{error:#} (to start a store: `wirelane serve --listen {server}`)"))
    }

    /// With --verbose, prints what was done and over which transport.
    pub(super) fn report(&self, client: &Client, what: &str) {
        if self.verbose {
            output::note(&format!("{what}, {}", transport(client)));
        }
    }

    /// The same, also without --verbose on a terminal.
    pub(super) fn report_interactive(&self, client: &Client, what: &str) {
        if self.verbose || std::io::stderr().is_terminal() {
            output::note(&format!("{what}, {}", transport(client)));
        }
    }
}

/// A ticket for each connection, from its server.
fn ticket_source(tickets: Tickets) -> CredentialSource {
    Arc::new(move |server, address, limit| {
        Ok(Credentials::Ticket(tickets.request(&server.host(), address, limit)?))
    })
}

/// The transport of the connection, and why it was chosen.
fn transport(client: &Client) -> String {
    match client.link_status() {
        Some(link) => format!("over {} ({})", link.transport.unwrap_or("no transport"), link.why),
        None => "over a connection that is now lost".to_owned(),
    }
}
