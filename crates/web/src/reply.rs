//! Answers: short texts, whole.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Response, StatusCode};

use super::Head;

/// What a caller gets.
pub type Reply = Response<Full<Bytes>>;

/// The type of what is meant for people.
pub const PLAIN: &str = "text/plain";

/// A text of this kind.
pub fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, kind.parse().expect("a header value"));
    reply
}

/// The answer to a request for what is not at these paths, or for something to be done with what is.
pub fn misdirected(head: &Head, paths: &[&str]) -> Option<Reply> {
    if !paths.contains(&head.uri.path()) {
        let there = paths.join(", ");
        return Some(text(StatusCode::NOT_FOUND, PLAIN, format!("404 not found; try {there}\n")));
    }
    if matches!(head.method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD here\n");
    reply.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("a header value"));
    Some(reply)
}
