//! Answers to requests.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Response, StatusCode};

use super::Head;

/// An answer with its whole body.
pub type Reply = Response<Full<Bytes>>;

/// The content type of messages to people.
pub const PLAIN: &str = "text/plain";

/// A text of this content type.
pub fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type.parse().expect("a header value"));
    reply
}

/// The answer 404 for a path other than these, or 405 for a method other than GET and HEAD.
pub fn routing_error(head: &Head, paths: &[&str]) -> Option<Reply> {
    if !paths.contains(&head.uri.path()) {
        let paths = paths.join(", ");
        return Some(text(StatusCode::NOT_FOUND, PLAIN, format!("404 not found; try {paths}\n")));
    }
    if matches!(head.method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD here\n");
    reply.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("a header value"));
    Some(reply)
}
