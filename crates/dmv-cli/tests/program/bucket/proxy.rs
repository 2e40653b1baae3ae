//! A proxy before a store that loses, delays and refuses answers as a test says.

use crate::place::Outcome;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The store answers it.
    Ok,
    /// It does not get to the store, and there is no answer.
    Lost,
    /// The store carries it out, and the answer is lost.
    AnswerLost,
    /// There is no answer, and the store carries it out after it has answered the next request.
    Late,
    /// It is refused with this status, and does not get to the store.
    Refused(u16),
}

/// What is to come.
#[derive(Default)]
struct Plan {
    /// What becomes of the next requests that write the root.
    writes: Vec<Fate>,
    /// What becomes of all other requests once so many of those have come.
    others: Option<(usize, Fate)>,
    /// What becomes of the next requests of a test of the store.
    probes: Vec<Fate>,
    late: Vec<Vec<u8>>,
}

/// The proxy; it ends with the value.
pub struct Proxy {
    port: u16,
    store: String,
    plan: Arc<Mutex<Plan>>,
    has_ended: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy before the store at an endpoint.
    pub fn start(endpoint: &str) -> Outcome<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Proxy {
            port: listener.local_addr()?.port(),
            store: endpoint.trim_start_matches("http://").to_owned(),
            plan: Arc::default(),
            has_ended: Arc::default(),
        };
        let (store, plan) = (proxy.store.clone(), Arc::clone(&proxy.plan));
        let has_ended = Arc::clone(&proxy.has_ended);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let (store, plan) = (store.clone(), Arc::clone(&plan));
                std::thread::spawn(move || {
                    // Whoever has closed the connection hears of nothing.
                    let _ = serve(&stream, &store, &plan);
                });
            }
        });
        Ok(proxy)
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Says what becomes of the next requests that write the root, and of all others once so many of those
    /// have come.
    pub fn plan(&self, writes: &[Fate], others: Option<(usize, Fate)>) {
        let mut plan = locked(&self.plan);
        plan.writes = writes.iter().rev().copied().collect();
        plan.others = others;
    }

    /// Says what becomes of the next requests of a test of the store.
    pub fn plan_probes(&self, probes: &[Fate]) {
        locked(&self.plan).probes = probes.iter().rev().copied().collect();
    }

    /// Lets everything pass from now on, and what was late arrive.
    pub fn pass(&self) -> Outcome {
        let late = {
            let mut plan = locked(&self.plan);
            let late = std::mem::take(&mut plan.late);
            *plan = Plan::default();
            late
        };
        for request in late {
            forward(&self.store, &request)?;
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        // So that it looks.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn locked(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plan {
    fn fate(&mut self, first: &str) -> Fate {
        if first.contains("/probe/") {
            return self.probes.pop().unwrap_or(Fate::Ok);
        }
        if first.starts_with("PUT") && first.contains("/root ") {
            if let Some((left, _)) = &mut self.others {
                *left = left.saturating_sub(1);
            }
            return self.writes.pop().unwrap_or(Fate::Ok);
        }
        match self.others {
            Some((0, fate)) => fate,
            _ => Fate::Ok,
        }
    }
}

/// Answers the first request of a connection, and ends it.
fn serve(stream: &TcpStream, store: &str, plan: &Mutex<Plan>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    let mut head = Vec::new();
    let mut first = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        if line.trim().is_empty() {
            head.extend_from_slice(b"connection: close\r\n\r\n");
            break;
        }
        if !lower.starts_with("connection:") {
            head.extend_from_slice(line.as_bytes());
        }
    }
    let mut request = head;
    reader.by_ref().take(length).read_to_end(&mut request)?;
    let late = std::mem::take(&mut locked(plan).late);
    let fate = locked(plan).fate(&first);
    let answer = match fate {
        Fate::Ok => Some(forward(store, &request)?),
        Fate::AnswerLost => {
            forward(store, &request)?;
            None
        }
        Fate::Lost => None,
        Fate::Late => {
            locked(plan).late.push(request);
            None
        }
        Fate::Refused(status) => {
            let code = match status {
                403 => "AccessDenied",
                412 => "PreconditionFailed",
                503 => "SlowDown",
                _ => "InternalError",
            };
            let body = format!("<Error><Code>{code}</Code><Message>so it is</Message></Error>");
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            Some([head, body].concat().into_bytes())
        }
    };
    for request in late {
        forward(store, &request)?;
    }
    if let Some(answer) = answer {
        writer.write_all(&answer)?;
    }
    stream.shutdown(std::net::Shutdown::Both)
}

/// Sends a request to the store, and returns all of its answer.
fn forward(store: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(store)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
