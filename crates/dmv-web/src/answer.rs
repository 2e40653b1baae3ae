//! Answers: their headers, which bound what a page may do, and their bodies.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use maud::Markup;
use serde_json::Value;
use std::io;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;
/// An answer.
pub type Answer = Response<Body>;

/// What a page of ours may do: show what this server sends, and nothing inline.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";
/// What content of a repository may do: nothing.
pub const RAW_POLICY: &str =
    "sandbox; default-src 'none'; style-src 'none'; frame-ancestors 'none'";

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// A body that is here already.
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    let body = Full::new(bytes.into());
    UnsyncBoxBody::new(body.map_err(|never| match never {}))
}

/// An answer with the headers that all have. Those of a page may be replaced.
pub fn answer(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
        (OPENER_POLICY, "same-origin"),
    ] {
        set(&mut answer, name, value);
    }
    answer
}

/// Sets a header to a text without control characters; others are left out.
pub fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// A page.
pub fn page(status: StatusCode, markup: Markup) -> Answer {
    answer(
        status,
        "text/html; charset=utf-8",
        whole(markup.into_string()),
    )
}

/// JSON.
pub fn json(status: StatusCode, value: &Value) -> Answer {
    let text = format!("{value}\n");
    answer(status, "application/json", whole(text))
}

/// A line of text.
pub fn line(status: StatusCode, text: &str) -> Answer {
    answer(
        status,
        "text/plain; charset=utf-8",
        whole(format!("{text}\n")),
    )
}

/// Leads to another page after a change.
pub fn redirect(to: &str) -> Answer {
    let mut answer = line(StatusCode::SEE_OTHER, "see the other page");
    set(&mut answer, LOCATION, to);
    answer
}
