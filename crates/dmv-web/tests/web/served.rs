//! A repository, its server, and a client that sends exactly what a test says.

use dmv_core::Job;
use dmv_core::hash::ObjectId;
use dmv_core::object::name::RepoPath;
use dmv_core::refs::Timestamp;
use dmv_core::repo::{
    AbsentError, ClaimInfo, ClaimOptions, ClaimOutcome, ClaimTable, CommitOptions, KnownSigners,
    OperationRequest, PlaceError, Repo, RepoError, RepositoryLocation, SignatureState, UndoError,
    Who, Whose, WorktreeSettings, discover,
};
use dmv_net::ops::{
    Caller, CloneOptions, Integrate, Network, OpsError, PullOptions, PullOutcome, PullReport,
    PushReport, Remote, clone,
};
use dmv_net::session::NetError;
use dmv_net::transport::Url;
use dmv_preview::{Cache, Limits, Maker, WorkerCommand};
use dmv_web::{
    ClaimReport, ClaimWish, DavLogin, Options, Program, Server, ShownFailure, SignatureWords,
};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A program with fixed settings.
#[derive(Clone)]
pub struct Desk {
    /// Where the repository is looked for.
    pub dir: PathBuf,
    /// Remotes by name.
    pub remotes: Vec<(String, String)>,
}

pub fn ada() -> Who {
    Who::new("Ada", "ada@example.org")
}

pub fn request(command: &str) -> OperationRequest {
    let time = Timestamp {
        seconds: 1_790_000_000,
        nanos: 0,
        tz_minutes: 60,
    };
    let mut request = OperationRequest::new(
        "Ada <ada@example.org>",
        command,
        std::time::SystemTime::now(),
    );
    request.time = time;
    request
}

impl Program for Desk {
    fn find(&self) -> Result<(RepositoryLocation, Whose), ShownFailure> {
        let found = discover(&self.dir);
        found
            .map(|place| (place, Whose::Own))
            .map_err(|e| self.explain(e))
    }

    fn check(&self, _repo: &Repo) -> Result<(), ShownFailure> {
        Ok(())
    }

    fn settings(&self) -> Result<WorktreeSettings, ShownFailure> {
        Ok(WorktreeSettings::default())
    }

    fn who(&self) -> Result<Who, ShownFailure> {
        Ok(ada())
    }

    fn request(&self, command: &str) -> Result<OperationRequest, ShownFailure> {
        Ok(request(&format!("dmv web: {command}")))
    }

    fn before_commit(&self, _: &Repo, _: &str) -> Result<(), ShownFailure> {
        Ok(())
    }

    fn after_commit(&self, _: &Repo, _: Option<&str>, _: ObjectId) {}

    fn signature(&self, repo: &Repo, id: &ObjectId) -> Result<SignatureWords, ShownFailure> {
        let known = KnownSigners::default();
        let checker = repo
            .signature_checker(&known)
            .map_err(|e| self.explain(e))?;
        let commit = repo.read_commit(id).map_err(|e| self.explain(e))?;
        let state = checker
            .check(id, &commit)
            .map_err(|e| self.explain(e))?
            .state;
        let told = format!("signature: {}", state.word());
        Ok(SignatureWords { state, told })
    }

    fn tag_signature(&self, repo: &Repo, name: &str) -> Result<SignatureWords, ShownFailure> {
        let tag = repo.annotated_tag(name).map_err(|e| self.explain(e))?;
        match tag {
            Some(tag) => self.signature(repo, &tag.id),
            None => Ok(SignatureWords {
                state: SignatureState::None,
                told: String::new(),
            }),
        }
    }

    fn claims(&self, repo: &Repo) -> Result<ClaimTable, ShownFailure> {
        repo.claims().map_err(|e| self.explain(e))
    }

    fn claim_words(&self, info: &ClaimInfo) -> String {
        format!("claimed by {}: {}", info.by, info.claim.reason)
    }

    fn claim(&self, repo: &Repo, wish: &ClaimWish) -> Result<ClaimReport, ShownFailure> {
        let options = ClaimOptions {
            paths: vec![wish.path.clone()],
            reason: wish.reason.clone(),
            takes: wish.takes,
            request: request("claim"),
        };
        match repo.claim(&options).map_err(|e| self.explain(e))? {
            ClaimOutcome::Claimed => Ok(ClaimReport {
                text: format!("noted: {}", wish.path),
                more: Vec::new(),
            }),
            ClaimOutcome::Refused(_) => Err(ShownFailure {
                code: "claimed".to_owned(),
                exit: 5,
                message: "somebody has it".to_owned(),
                hint: None,
            }),
        }
    }

    fn release(&self, repo: &Repo, path: &RepoPath) -> Result<ClaimReport, ShownFailure> {
        let done = repo.release(std::slice::from_ref(path), &request("release"));
        done.map_err(|e| self.explain(e))?;
        Ok(ClaimReport {
            text: format!("released: {path}"),
            more: Vec::new(),
        })
    }

    fn caller(&self) -> Box<dyn Caller> {
        let mut network = Network::new(request("get"));
        for (name, url) in &self.remotes {
            let url = Url::parse(OsStr::new(url)).expect("an address");
            network = network.with(Remote::new(name.clone(), url));
        }
        Box::new(network)
    }

    fn remotes(&self) -> Result<Vec<(String, String)>, ShownFailure> {
        Ok(self.remotes.clone())
    }

    fn partial(&self, repo: &Repo) -> Option<String> {
        repo.is_partial().then(|| "no file content".to_owned())
    }

    fn explain(&self, e: RepoError) -> ShownFailure {
        let exit = match &e {
            RepoError::Place(PlaceError::NotFound(_)) => 10,
            RepoError::Absent(AbsentError::Object { .. })
            | RepoError::Absent(AbsentError::Lacking(_)) => 6,
            RepoError::Undo(UndoError::NothingToUndo) => 5,
            RepoError::Cancelled => 130,
            _ => 20,
        };
        ShownFailure {
            code: "test".to_owned(),
            exit,
            message: e.to_string(),
            hint: None,
        }
    }

    fn explain_ops(&self, e: OpsError) -> ShownFailure {
        let is_stopped = match &e {
            OpsError::Session(e) => matches!(e.source, NetError::Cancelled),
            _ => false,
        };
        ShownFailure {
            code: "ops".to_owned(),
            exit: if is_stopped { 130 } else { 13 },
            message: e.to_string(),
            hint: None,
        }
    }

    fn explain_remote(&self, remote: &Remote, e: OpsError) -> ShownFailure {
        let told = self.explain_ops(e);
        ShownFailure {
            message: format!("remote {}: {}", remote.name, told.message),
            hint: Some("see whether it is connected".to_owned()),
            ..told
        }
    }

    fn integrate(&self) -> Result<Integrate, ShownFailure> {
        Ok(Integrate::Merge)
    }

    fn refused_push(
        &self,
        _repo: &Repo,
        remote: &Remote,
        report: &PushReport,
    ) -> Option<ShownFailure> {
        let refused = report.moved.iter().find(|moved| moved.refused.is_some())?;
        Some(refusal(format!("{} refuses {}", remote.name, refused.key)))
    }

    fn refused_pull(
        &self,
        _repo: &Repo,
        options: &PullOptions,
        report: &PullReport,
    ) -> Option<ShownFailure> {
        match report.outcome {
            Ok(PullOutcome::NoBranch | PullOutcome::Refused) => Some(refusal(format!(
                "{} gives no {}",
                options.remote.name, options.branch
            ))),
            _ => None,
        }
    }
}

fn refusal(message: String) -> ShownFailure {
    ShownFailure {
        code: "refused".to_owned(),
        exit: 5,
        message,
        hint: Some("get its commits first".to_owned()),
    }
}

/// A repository in a directory of its own.
pub struct Film {
    pub dir: tempfile::TempDir,
    pub repo: Repo,
}

impl Film {
    pub fn new() -> Film {
        let dir = tempfile::tempdir().expect("a directory");
        let repo = Repo::init(&dir.path().join("film"), "main", false, request("init"));
        Film {
            dir,
            repo: repo.expect("a repository"),
        }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("film")
    }

    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.root().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    pub fn commit(&self, message: &str) -> ObjectId {
        let options = CommitOptions::new(message, ada(), request("commit"));
        let report = self
            .repo
            .commit(options, &Job::default())
            .expect("a commit");
        report.commit.expect("something changed")
    }

    /// The commit that the worktree is on.
    pub fn commit_id(&self) -> ObjectId {
        let head = self.repo.head_commit().expect("a head");
        head.expect("a commit")
    }

    pub fn serve(&self) -> Served {
        Served::start(self.root(), Options::default(), Vec::new())
    }
}

/// Clones without any content.
pub fn clone_metadata(from: &Path, to: &Path) {
    clone_as(from, to, true);
}

/// Clones, with content or without.
pub fn clone_as(from: &Path, to: &Path, metadata_only: bool) {
    let source = Url::parse(from.as_os_str()).expect("an address");
    let options = CloneOptions {
        metadata_only,
        ..CloneOptions::new(source, to, request("clone"))
    };
    let network = Network::new(request("clone"));
    clone(&options, &network, &Job::default()).expect("a clone");
}

/// A running server.
pub struct Served {
    pub port: u16,
    pub address: String,
    pub dav: Option<DavLogin>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Served {
    pub fn start(dir: PathBuf, options: Options, remotes: Vec<(String, String)>) -> Served {
        Served::with(Desk { dir, remotes }, options, None)
    }

    /// A server that makes previews, with a cache in a directory of its own.
    pub fn with_previews(dir: PathBuf, cache: &Path) -> Served {
        let command = WorkerCommand {
            program: env!("CARGO_BIN_EXE_dmv-web-preview-worker").into(),
            args: Vec::new(),
        };
        let maker = Maker::new(command, Limits::default(), Some(Cache::new(cache, 8 << 20)));
        let desk = Desk {
            dir,
            remotes: Vec::new(),
        };
        Served::with(desk, Options::default(), Some(maker))
    }

    fn with(desk: Desk, options: Options, previews: Option<Maker>) -> Served {
        let server = Server::bind(options, desk, previews).expect("a port");
        let (port, address) = (server.port().expect("a port"), server.address());
        let dav = server.dav_login();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || server.run(move || stopped.load(Ordering::Relaxed));
        Served {
            port,
            address,
            dav,
            stop,
            thread: Some(std::thread::spawn(run)),
        }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The path of the address that is opened first.
    pub fn entry(&self) -> String {
        let at = self.address.find("/in/").expect("an entry");
        self.address[at..].to_owned()
    }

    /// A client that has opened the address.
    pub fn enter(&self) -> Client<'_> {
        let reply = self.send(&format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\n",
            self.entry(),
            self.host()
        ));
        assert_eq!(reply.status, 303, "{reply:?}");
        let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        Client {
            served: self,
            cookie,
        }
    }

    /// Sends a head, adds what ends the connection, and reads the reply.
    pub fn send(&self, head: &str) -> Reply {
        self.send_bytes(format!("{head}Connection: close\r\n\r\n").as_bytes())
    }

    pub fn send_bytes(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("it is sent");
        let mut reply = Vec::new();
        // A server that refuses a request may close before it has read all of it.
        let _ = stream.read_to_end(&mut reply);
        Reply::parse(&reply)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        stream
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().expect("the server does not panic");
            ended.expect("the server ends well");
        }
    }
}

/// A browser with the cookie.
pub struct Client<'a> {
    pub served: &'a Served,
    pub cookie: String,
}

impl Client<'_> {
    pub fn head(&self, method: &str, target: &str) -> String {
        let (host, cookie) = (self.served.host(), &self.cookie);
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n")
    }

    pub fn get(&self, target: &str) -> Reply {
        self.served.send(&self.head("GET", target))
    }

    pub fn get_with(&self, target: &str, headers: &str) -> Reply {
        self.served
            .send(&format!("{}{headers}", self.head("GET", target)))
    }

    /// A page that is there.
    pub fn page(&self, target: &str) -> String {
        let reply = self.get(target);
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        reply.text()
    }

    /// The values of a page.
    pub fn json(&self, target: &str) -> serde_json::Value {
        let mark = if target.contains('?') { '&' } else { '?' };
        let reply = self.get(&format!("{target}{mark}json"));
        serde_json::from_str(&reply.text()).expect("JSON")
    }

    /// The token that stands in forms.
    pub fn token(&self) -> String {
        let page = ["/conflicts", "/worktree", "/tree/@"].map(|page| self.get(page).text());
        let page = page.concat();
        let mark = "name=\"token\" value=\"";
        let at = page.find(mark).expect("a form") + mark.len();
        page[at..].split('"').next().expect("a token").to_owned()
    }

    /// Sends a form as a browser does.
    pub fn post(&self, target: &str, fields: &[(&str, &str)]) -> Reply {
        let origin = format!("http://{}", self.served.host());
        self.post_as(target, fields, &format!("Origin: {origin}\r\n"))
    }

    pub fn post_as(&self, target: &str, fields: &[(&str, &str)], headers: &str) -> Reply {
        let encoded = |text: &str| -> String {
            let one = |b: u8| {
                if b.is_ascii_alphanumeric() {
                    (b as char).to_string()
                } else {
                    format!("%{b:02X}")
                }
            };
            text.bytes().map(one).collect()
        };
        let pairs = fields
            .iter()
            .map(|(k, v)| format!("{}={}", encoded(k), encoded(v)));
        let body = pairs.collect::<Vec<_>>().join("&");
        let head = self.head("POST", target);
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let len = body.len();
        let whole = format!(
            "{head}{headers}{kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
        );
        self.served.send_bytes(whole.as_bytes())
    }

    /// Presses the button Undo, which names an operation.
    pub fn undo(&self) -> String {
        let shown = self.json("/worktree")["undo"]["operation"].clone();
        let id = shown.as_str().expect("something to undo");
        self.change("/undo", &[("operation", id)])
    }

    /// Sends a form, and reads the page that it leads to.
    pub fn change(&self, target: &str, fields: &[(&str, &str)]) -> String {
        let token = self.token();
        let mut all = vec![("token", token.as_str())];
        all.extend(fields);
        let reply = self.post(target, &all);
        assert_eq!(reply.status, 303, "{}", reply.text());
        self.page(reply.header("location").expect("a page"))
    }
}

/// What a server answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no reply: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .and_then(|s| s.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = lines.filter_map(header).collect();
        let is_chunked = headers
            .iter()
            .any(|(n, v)| n == "transfer-encoding" && v == "chunked");
        let body = if is_chunked {
            unchunked(&bytes[end + 4..])
        } else {
            bytes[end + 4..].to_vec()
        };
        Reply {
            status: status.expect("a status"),
            headers,
            body,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let end = bytes
            .windows(2)
            .position(|w| w == b"\r\n")
            .expect("a length");
        let len = std::str::from_utf8(&bytes[..end]).expect("a length");
        let len = usize::from_str_radix(len, 16).expect("a length");
        if len == 0 {
            return out;
        }
        out.extend(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 4 + len..];
    }
}
