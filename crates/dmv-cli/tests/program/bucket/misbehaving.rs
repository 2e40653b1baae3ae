//! A web server that answers whatever a test wants.

use crate::place::Outcome;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// An answer.
#[derive(Clone)]
pub struct Reply {
    /// `None`: the connection ends without one.
    status: Option<&'static str>,
    headers: Vec<&'static str>,
    body: String,
}

impl Reply {
    pub fn new(status: &'static str, body: &str) -> Reply {
        Reply {
            status: Some(status),
            headers: Vec::new(),
            body: body.to_owned(),
        }
    }

    /// No answer: the connection ends.
    pub fn cut() -> Reply {
        Reply {
            status: None,
            ..Reply::new("", "")
        }
    }

    /// The same with another header.
    pub fn with(mut self, header: &'static str) -> Reply {
        self.headers.push(header);
        self
    }
}

/// The server; it ends with the value.
pub struct Web {
    port: u16,
    requests: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
}

impl Web {
    /// Starts a server that answers a request by its first line.
    pub fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Outcome<Web> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let web = Web {
            port: listener.local_addr()?.port(),
            requests: Arc::default(),
            has_ended: Arc::default(),
        };
        let (requests, has_ended) = (Arc::clone(&web.requests), Arc::clone(&web.has_ended));
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                if let Ok(stream) = stream {
                    // A client that goes away ends its connection, and nothing else.
                    std::thread::spawn(move || drop(serve(&stream, &requests, &*answer)));
                }
            }
        });
        Ok(web)
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        // Wakes the listener, which then ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn serve(
    stream: &TcpStream,
    requests: &AtomicUsize,
    answer: &dyn Fn(&str) -> Reply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or_default();
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        requests.fetch_add(1, Ordering::SeqCst);
        let reply = answer(&first);
        let Some(status) = reply.status else {
            return stream.shutdown(std::net::Shutdown::Both);
        };
        let headers: String = reply.headers.iter().map(|h| format!("{h}\r\n")).collect();
        let body = if first.starts_with("HEAD") {
            ""
        } else {
            &reply.body
        };
        write!(
            writer,
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}",
            reply.body.len()
        )?;
    }
}
