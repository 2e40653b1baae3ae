//! The requests below the library that makes them: each one is counted, and the answer that refuses
//! it is remembered.
//!
//! Only here are the library's own repetitions seen, and only here statuses and error codes.

use super::answer::Answer;
use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes of an error's text that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Bytes a second that the slowest line is taken to send.
const SLOW_LINE: u64 = 8 << 10;

/// The numbers of requests by class, and of bytes. All clients of a command share one.
#[derive(Debug, Default)]
pub struct Counters {
    get: AtomicU64,
    put: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    retried: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// What [`Counters`] have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that read a file, or ask for its length.
    pub get: u64,
    /// Requests that write: files, and parts, beginnings and ends of uploads.
    pub put: u64,
    /// Requests that list names.
    pub list: u64,
    /// Requests that delete.
    pub delete: u64,
    /// How many of all these repeat one that has failed.
    pub retried: u64,
    /// Bytes of files sent.
    pub sent: u64,
    /// Bytes of files received.
    pub received: u64,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub fn requests(&self) -> u64 {
        self.get + self.put + self.list + self.delete
    }
}

impl Counters {
    /// Returns the numbers so far.
    pub fn now(&self) -> RequestCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestCounts {
            get: value(&self.get),
            put: value(&self.put),
            list: value(&self.list),
            delete: value(&self.delete),
            retried: value(&self.retried),
            sent: value(&self.sent),
            received: value(&self.received),
        }
    }

    /// Counts bytes of a file that have arrived.
    pub(super) fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    fn add(&self, class: Class, is_again: bool, bytes: u64) {
        let counter = match class {
            Class::Get => &self.get,
            Class::Put => &self.put,
            Class::List => &self.list,
            Class::Delete => &self.delete,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        if is_again {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Get,
    Put,
    List,
    Delete,
}

/// Returns what the store bills a request as.
fn class(method: &str, query: &str) -> Class {
    let has = |wanted: &str| {
        let name = |pair: &str| pair.split('=').next().map(str::to_owned);
        query
            .split('&')
            .any(|pair| pair == wanted || name(pair).as_deref() == Some(wanted))
    };
    match method {
        "GET" if has("list-type") || has("comp=list") => Class::List,
        "GET" | "HEAD" => Class::Get,
        "POST" if has("delete") => Class::Delete,
        "DELETE" => Class::Delete,
        "PROPFIND" => Class::List,
        _ => Class::Put,
    }
}

/// What is known of the requests of one operation.
#[derive(Debug, Default)]
pub struct Trace {
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    request: Option<(String, String)>,
    answer: Option<Answer>,
}

impl Trace {
    /// Returns the last answer that refused a request.
    pub fn answer(&self) -> Option<Answer> {
        self.lock().answer.clone()
    }

    /// Returns whether a request was made at all. If not, there were no keys to sign it with.
    pub fn has_begun(&self) -> bool {
        self.lock().request.is_some()
    }

    /// Returns the method of the last request.
    pub fn method(&self) -> String {
        let request = self.lock().request.clone();
        request.map(|(method, _)| method).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request, and returns whether it repeats the one before.
    fn begin(&self, method: &str, place: &str) -> bool {
        let request = Some((method.to_owned(), place.to_owned()));
        let mut last = self.lock();
        last.answer = None;
        let is_again = last.request == request;
        last.request = request;
        is_again
    }

    fn end(&self, answer: Answer) {
        self.lock().answer = Some(answer);
    }
}

tokio::task_local! {
    /// The operation that the current task works on.
    pub static TRACE: Arc<Trace>;
}

/// Makes clients that count.
#[derive(Clone, Debug)]
pub struct CountingConnector {
    /// The numbers.
    pub counters: Arc<Counters>,
    /// The bucket. Requests to others are for credentials, and are not counted.
    pub bucket: String,
    /// The path of the endpoint, before the bucket; empty if it has none.
    pub base: String,
    /// Whether everything is for the bucket: it is a web server.
    pub is_web: bool,
    /// Whether the store has ever answered. If not, a connection that fails is not tried again.
    pub has_answered: Arc<AtomicBool>,
    /// How long to wait for an answer once a request is sent.
    pub patience: Duration,
    /// The connections of all clients, if all are for the store and have the same options: the second
    /// client then uses what the first one has opened. A new connection costs two to four trips.
    pub shared: Option<Arc<OnceLock<HttpClient>>>,
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let known = self.shared.as_ref().and_then(|shared| shared.get());
        let inner = match known {
            Some(known) => known.clone(),
            None => ReqwestConnector::default().connect(options)?,
        };
        if let Some(shared) = &self.shared {
            shared.get_or_init(|| inner.clone());
        }
        Ok(HttpClient::new(Service {
            inner,
            to: self.clone(),
        }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    to: CountingConnector,
}

impl HttpService for Service {
    // What the macro async_trait makes of an asynchronous function.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.send(request))
    }
}

impl Service {
    fn is_for_bucket(&self, request: &HttpRequest) -> bool {
        let (uri, bucket) = (request.uri(), &self.to.bucket);
        let in_path = uri
            .path()
            .strip_prefix(&self.to.base[..])
            .and_then(|path| path.strip_prefix('/'))
            .and_then(|path| path.strip_prefix(&bucket[..]));
        let in_host = uri.host().and_then(|host| host.strip_prefix(&bucket[..]));
        self.to.is_web
            || in_path.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            || in_host.is_some_and(|rest| rest.starts_with('.'))
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.is_for_bucket(&request) {
            return self.inner.execute(request).await;
        }
        let method = request.method().as_str().to_owned();
        let query = request.uri().query().unwrap_or_default();
        let class = class(&method, query);
        let trace = TRACE.try_with(Arc::clone).unwrap_or_default();
        let is_again = trace.begin(&method, &request.uri().to_string());
        let bytes = request.body().content_length() as u64;
        // The library's own limit would count the time of sending, too: slow lines would never get a
        // large part through.
        let limit = self.to.patience + Duration::from_secs(bytes / SLOW_LINE);
        let done = match tokio::time::timeout(limit, self.inner.execute(request)).await {
            Ok(done) => done,
            Err(e) => Err(HttpError::new(HttpErrorKind::Timeout, e)),
        };
        let response = match done {
            Ok(response) => response,
            Err(e) => {
                let is_sent = e.kind() != HttpErrorKind::Connect;
                if is_sent {
                    self.to.counters.add(class, is_again, bytes);
                }
                trace.end(Answer::of_failure(&e, is_sent));
                return Err(if is_sent || self.to.has_answered.load(Ordering::Relaxed) {
                    e
                } else {
                    HttpError::new(HttpErrorKind::Unknown, e)
                });
            }
        };
        self.to.has_answered.store(true, Ordering::Relaxed);
        self.to.counters.add(class, is_again, bytes);
        if is_page(&method, &response) {
            trace.end(Answer::page(&response));
            let why = "a web page came in place of a file";
            return Err(HttpError::new(
                HttpErrorKind::Unknown,
                std::io::Error::other(why),
            ));
        }
        let status = response.status();
        if status.is_success() || status.as_u16() == 304 {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let mut text = Vec::new();
        let mut stream = body.bytes_stream();
        while let Some(Ok(piece)) = stream.next().await {
            let room = MAX_ERROR_BYTES - text.len();
            text.extend_from_slice(&piece[..piece.len().min(room)]);
            if text.len() == MAX_ERROR_BYTES {
                break;
            }
        }
        let mut response = HttpResponse::from_parts(parts, Vec::new().into());
        trace.end(Answer::of_status(&response, &text));
        *response.body_mut() = text.into();
        Ok(response)
    }
}

/// Returns whether a success is a web page: some proxy or portal answers in the store's place. A
/// store names the state of what it has read or written.
fn is_page(method: &str, response: &HttpResponse) -> bool {
    let kind = response.headers().get("content-type");
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    matches!(method, "GET" | "HEAD" | "PUT")
        && response.status().is_success()
        && kind.starts_with("text/html")
        && !response.headers().contains_key("etag")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_classed_as_the_store_bills_them() {
        for (method, query, wanted) in [
            ("GET", "", Class::Get),
            ("HEAD", "", Class::Get),
            ("GET", "list-type=2&prefix=a%2F", Class::List),
            ("GET", "restype=container&comp=list", Class::List),
            ("GET", "x-id=GetObject", Class::Get),
            ("PUT", "", Class::Put),
            ("PUT", "partNumber=1&uploadId=x", Class::Put),
            ("POST", "uploads=", Class::Put),
            ("POST", "uploadId=delete", Class::Put),
            ("POST", "delete", Class::Delete),
            ("POST", "delete=", Class::Delete),
            ("DELETE", "uploadId=x", Class::Delete),
        ] {
            assert_eq!(class(method, query), wanted, "{method} {query}");
        }
    }
}
