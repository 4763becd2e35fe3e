//! Settings of a client.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabric::session::Credentials;

use crate::address::Address;
use crate::error::{Error, ErrorKind, Resource};

/// Returns credentials for the store at an address: the address, the socket address it was resolved to, and the time limit. It
/// may block.
pub type CredentialSource =
    Arc<dyn Fn(&Address, SocketAddr, Duration) -> Result<Credentials, fabric::Error> + Send + Sync>;

/// Settings of a client.
///
/// ```
/// use std::time::Duration;
///
/// let settings = kv_client::Settings::new("node7:50051")
///     .with_server("node8:50051")
///     .with_timeout(Duration::from_secs(5));
/// assert_eq!(settings.servers.len(), 2);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Addresses of stores: the first that answers is used, and the next one when the connection is lost.
    ///
    /// Default: `127.0.0.1:50051`. Name several only if they are alternatives, such as a store and its successor: a
    /// client reads and writes at one store, and nothing is copied between them. Connecting fails with
    /// [`ErrorKind::Misuse`] if there is none, or one is not `HOST:PORT`.
    pub servers: Vec<Address>,

    /// Length of the client buffer: registered memory for requests, answers and the [`Value`](crate::Value)s that the
    /// caller holds.
    ///
    /// Default: 64 MiB; the minimum is 1 MiB. Choose four times the longest value that is stored or read as a whole, or
    /// more if values are held for long. It counts against the limit of locked memory where RDMA is used. If it is too
    /// small, calls fail with [`ErrorKind::ClientLimit`] while values are held, and with [`ErrorKind::TooLong`] for values longer than
    /// half of it.
    pub client_buffer_bytes: usize,

    /// How long a call waits for the store's next answer, connecting and trying again included.
    ///
    /// Default: 30 s. Calls that move a value in chunks have this time for each answer. Choose more than the time in
    /// which a store is restarted if calls are to survive that. If it is too short, calls fail with
    /// [`ErrorKind::TimedOut`] although the store executes them. It must not be zero.
    pub timeout: Duration,

    /// Which transports connections may use, and the credentials for them.
    ///
    /// Default: the best transport that both ends have, and no credentials. Connecting fails with
    /// [`ErrorKind::Unsupported`] if a required transport is not available, and with [`ErrorKind::Denied`] if the store
    /// requires credentials.
    pub link: fabric::link::EndpointSettings,

    /// Called for credentials before each connection, for stores whose credentials are valid once.
    ///
    /// Default: `None`, which uses the credentials of `link`.
    pub credentials: Option<CredentialSource>,
}

impl Settings {
    /// Settings for one store, with the defaults for everything else.
    pub fn new(server: impl Into<Address>) -> Self {
        Settings {
            servers: vec![server.into()],
            client_buffer_bytes: 64 << 20,
            timeout: Duration::from_secs(30),
            link: fabric::link::EndpointSettings::default(),
            credentials: None,
        }
    }

    /// With one more server, see [`Settings::servers`].
    #[must_use]
    pub fn with_server(mut self, server: impl Into<Address>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// With another [`Settings::client_buffer_bytes`].
    #[must_use]
    pub fn with_client_buffer_bytes(self, client_buffer_bytes: usize) -> Self {
        Settings { client_buffer_bytes, ..self }
    }

    /// With another [`Settings::timeout`].
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Settings { timeout, ..self }
    }

    /// With another [`Settings::link`].
    #[must_use]
    pub fn with_link(self, link: fabric::link::EndpointSettings) -> Self {
        Settings { link, ..self }
    }

    /// With [`Settings::credentials`].
    #[must_use]
    pub fn with_credentials(self, credentials: CredentialSource) -> Self {
        Settings { credentials: Some(credentials), ..self }
    }

    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let misuse = |text: String| Err(Error::new(ErrorKind::Misuse, text));
        if self.servers.is_empty() {
            return misuse("connect to a store: servers is empty — name at least one".to_owned());
        }
        if self.client_buffer_bytes < MIN_CLIENT_BUFFER_BYTES {
            return misuse(format!(
                "connect to a store: client_buffer_bytes is {} — use {MIN_CLIENT_BUFFER_BYTES} or more",
                self.client_buffer_bytes
            ))
            .map_err(|error| error.of(Resource::ClientBuffer));
        }
        if self.timeout.is_zero() {
            return misuse("connect to a store: timeout is zero — allow some time".to_owned());
        }
        self.servers.iter().try_for_each(Address::check)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new(SocketAddr::from(([127, 0, 0, 1], 50051)))
    }
}

impl fmt::Debug for Settings {
    /// Credentials are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("servers", &self.servers)
            .field("client_buffer_bytes", &self.client_buffer_bytes)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Holds the answers of a few batches.
const MIN_CLIENT_BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &Settings) -> String {
        let error = settings.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        error.to_string()
    }

    #[test]
    fn the_default_is_a_store_on_this_host() {
        let settings = Settings::default();
        settings.check().unwrap();
        assert_eq!(settings.servers, [Address::from("127.0.0.1:50051")]);
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let mut none = Settings::default();
        none.servers.clear();
        assert!(refused(&none).contains("servers"));
        let small = Settings::default().with_client_buffer_bytes((1 << 20) - 1);
        assert!(refused(&small).contains("client_buffer_bytes is 1048575"));
        assert!(refused(&Settings::default().with_timeout(Duration::ZERO)).contains("timeout"));
        assert!(refused(&Settings::default().with_server("node8")).contains("\"node8\""));
    }

    #[test]
    fn debug_does_not_show_credentials() {
        let text = format!("{:?}", Settings::new("node7:1"));
        assert!(text.contains("node7:1") && !text.contains("credentials"), "{text}");
    }
}
