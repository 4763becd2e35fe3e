//! Why a call failed: text for people, a kind and a resource for code, and the cause.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Why a call failed: which call, on what, why, and what to try.
///
/// `{}` prints this error alone, `{:#}` also its causes, which [`source`](StdError::source) returns one by one.
#[derive(Clone)]
pub struct Error(Box<ErrorInner>);

/// Behind a pointer: results are moved in every call, and errors are rare.
#[derive(Debug, Clone)]
struct ErrorInner {
    kind: ErrorKind,
    resource: Option<Resource>,
    text: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kind of an error, for callers to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The condition of a write is not met, and nothing was changed. The key's current version; `None` if the key does
    /// not exist.
    Condition(Option<u64>),
    /// The store's memory or its disk is full.
    Full,
    /// The value is longer than the store accepts, or than the client buffer holds: use [`Client::open`] and
    /// [`Client::create`] for the latter.
    ///
    /// [`Client::open`]: crate::Client::open
    /// [`Client::create`]: crate::Client::create
    TooLong,
    /// The store refused these credentials, or they do not permit this request.
    Denied,
    /// This host, the store's host or the network does not support it, such as RDMA that is required and not available.
    Unsupported,
    /// An argument or a setting is not valid, or values were used with the wrong client.
    Misuse,
    /// The connection was lost during a write, which may or may not have happened: read before you write again.
    Unknown,
    /// No answer within [`Settings::timeout`](crate::Settings::timeout). The request may still be executed.
    TimedOut,
    /// A limit of the store is reached (bytes in flight, requests or clients), and nothing was done: try again later.
    Overloaded,
    /// No store can be reached, the connection was lost, or the store closed the value that the call reads or writes.
    Unavailable,
    /// The client buffer or another limit of this client is exhausted: drop values and pending calls, or use a larger client buffer.
    ClientLimit,
    /// The rate limit of this client is exceeded: try again later.
    RateLimited,
    /// The bytes received or stored do not match their checksum.
    Damaged,
    /// The store violated the protocol.
    ProtocolError,
    /// Anything else; the text explains it.
    Other,
}

/// A resource that is exhausted or failed. Programs use it to name their option for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// The client buffer: [`Settings::client_buffer_bytes`](crate::Settings::client_buffer_bytes).
    ClientBuffer,
    /// The store's memory.
    StoreMemory,
    /// The store's limit of bytes in flight.
    StoreInFlight,
    /// The store's limit of requests a second.
    StoreRate,
    /// The store's disk.
    StoreDisk,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error(Box::new(ErrorInner { kind, resource: None, text: text.into(), source: None }))
    }

    /// An error of the fabric during this call.
    pub(crate) fn of_fabric(call: impl Into<String>, error: fabric::Error) -> Self {
        let kind = match error.kind() {
            fabric::ErrorKind::Denied => ErrorKind::Denied,
            fabric::ErrorKind::Unsupported => ErrorKind::Unsupported,
            fabric::ErrorKind::Misuse => ErrorKind::Misuse,
            fabric::ErrorKind::Gone => ErrorKind::Unavailable,
            fabric::ErrorKind::Full => ErrorKind::Overloaded,
            _ => ErrorKind::Other,
        };
        Error::new(kind, call).because(error)
    }

    /// With its cause.
    pub(crate) fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// With the resource that is exhausted or failed.
    pub(crate) fn of(mut self, resource: Resource) -> Self {
        self.0.resource = Some(resource);
        self
    }

    /// This error, then another one of the same call. The kind is that of the first.
    pub(crate) fn and(self, mut other: Error) -> Self {
        other.0.text = format!("{self:#}; {}", other.0.text);
        other.0.kind = self.0.kind;
        other
    }

    /// Whether another attempt to connect may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Overloaded)
    }

    /// The kind, for callers to act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The resource that is exhausted or failed, if any.
    pub fn resource(&self) -> Option<Resource> {
        self.0.resource
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorInner { kind, resource, text, source } = &*self.0;
        let mut error = f.debug_struct("Error");
        error.field("kind", kind).field("resource", resource).field("text", text);
        error.field("source", source).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)?;
        let mut next = self.source().filter(|_| f.alternate());
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(server: &str) -> Error {
        let cause = fabric::Error::new(fabric::ErrorKind::Gone, "connect", "refused", "start it");
        Error::of_fabric(format!("reach the store at {server}"), cause)
    }

    #[test]
    fn the_cause_is_kept_and_printed_on_request() {
        let error = refused("a:1");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), "reach the store at a:1");
        assert_eq!(format!("{error:#}"), "reach the store at a:1: connect: refused — start it");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<fabric::Error>());
        assert_eq!(cause.map(fabric::Error::kind), Some(fabric::ErrorKind::Gone));
    }

    #[test]
    fn the_cause_of_every_server_is_printed_once() {
        let both = refused("a:1").and(refused("b:2"));
        let text = format!("{both:#}");
        for part in ["a:1: connect", "b:2: connect"] {
            assert_eq!(text.matches(part).count(), 1, "{text}");
        }
    }

    #[test]
    fn errors_can_be_sent_to_other_threads_and_boxed() {
        fn boxed(error: Error) -> Box<dyn StdError + Send + Sync> {
            error.into()
        }
        assert!(boxed(refused("a:1")).source().is_some());
    }
}
