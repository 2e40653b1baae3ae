//! The server: loopback only, with bounds on connections, headers, bodies and time. It runs the
//! checks of `guard` before anything else, and hands the rest to `site` on a thread of its own.

use crate::address::Target;
use crate::answer::{Answer, line, redirect, set};
use crate::dav::{self, DavLogin};
use crate::guard::{DAV_USER, Entry, Secrets};
use crate::guests::{Activity, Guests, REST_TIME, WatchedStream};
use crate::program::Program;
use crate::site::{Options, Post, Site};
use crate::{assets, pages, routes};
use dmv_preview::Maker;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time. The next one takes the place of one that only waits ([`Guests::make_room`]).
const MAX_CONNECTIONS: usize = 96;
/// How often it is tried again to make room.
const ROOM_PAUSE: Duration = Duration::from_millis(200);
/// Requests that are worked on at a time. Others wait.
const MAX_AT_WORK: usize = 8;
/// Previews that are waited for at a time. They take no turn from pages.
const MAX_PREVIEWS: usize = 6;
/// Threads that read for answers.
const MAX_THREADS: usize = 24;
/// Bytes of a request's line and headers.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Headers of a request.
const MAX_HEADERS: usize = 64;
/// Bytes of a form.
const MAX_FORM_BYTES: usize = 128 << 10;
/// How long a client may take to send its headers, or rest between requests.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a client may take to send a form.
const FORM_TIME: Duration = Duration::from_secs(10);

/// A server that listens already.
pub struct Server {
    listener: std::net::TcpListener,
    site: Arc<Site>,
}

impl Server {
    /// Begins to listen on this machine only. Without a maker, pages show no previews.
    pub fn bind(
        options: Options,
        program: impl Program,
        previews: Option<Maker>,
    ) -> io::Result<Server> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let secrets = Secrets::new(port).map_err(io::Error::other)?;
        let site = Arc::new(Site::new(secrets, options, Box::new(program), previews));
        // The pages are of the repository that is here now. What is wrong with it, each page says.
        let _ = site.repo();
        Ok(Server { listener, site })
    }

    /// The address to open first. It works once.
    pub fn address(&self) -> String {
        self.site.secrets.address()
    }

    /// How a program for WebDAV logs in, if any may.
    pub fn dav_login(&self) -> Option<DavLogin> {
        let (secrets, is_wanted) = (&self.site.secrets, self.site.dav);
        is_wanted.then(|| DavLogin {
            url: secrets.dav_address(),
            user: DAV_USER.to_owned(),
            password: secrets.password().to_owned(),
        })
    }

    /// The port.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Serves until `stopped` says so, which is asked several times a second.
    pub fn run(self, stopped: impl Fn() -> bool) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_THREADS)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener)?;
            let accepting = tokio::spawn(accept(listener, self.site.clone()));
            while !stopped() && !accepting.is_finished() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            accepting.abort();
            io::Result::Ok(())
        })?;
        self.site.stop();
        // A thread that makes an archive ends with its reader.
        runtime.shutdown_timeout(Duration::from_secs(5));
        Ok(())
    }
}

/// Who may work at a time.
struct Turns {
    pages: Semaphore,
    previews: Semaphore,
}

impl Turns {
    /// Returns the turns that a page's request waits for.
    fn of(&self, target: &Target) -> &Semaphore {
        match target.segments.first() {
            Some(page) if page == b"preview" => &self.previews,
            _ => &self.pages,
        }
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let work = Arc::new(Turns {
        pages: Semaphore::new(MAX_AT_WORK),
        previews: Semaphore::new(MAX_PREVIEWS),
    });
    let mut guests = Guests::default();
    loop {
        // Too many open files, for example: it may pass.
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let mut least_rest = REST_TIME;
        let place = loop {
            if room.available_permits() == 0 {
                guests.make_room(least_rest);
            }
            match tokio::time::timeout(ROOM_PAUSE, room.clone().acquire_owned()).await {
                Ok(Ok(place)) => break place,
                Ok(Err(_)) => return,
                // All of them are at work or read on. A page always gets a place after a while.
                Err(_) => least_rest = least_rest.saturating_sub(ROOM_PAUSE),
            }
        };
        let (site, work) = (site.clone(), work.clone());
        let activity = Arc::new(Activity::default());
        let of_task = activity.clone();
        let task = tokio::spawn(async move {
            serve(stream, from, site, work, of_task).await;
            drop(place);
        });
        guests.add(task, activity);
    }
}

async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    site: Arc<Site>,
    work: Arc<Turns>,
    activity: Arc<Activity>,
) {
    // It listens on the loopback address; this says so once more.
    if !from.ip().is_loopback() {
        return;
    }
    let _ = stream.set_nodelay(true);
    let watched = WatchedStream::new(stream, activity.clone());
    let service = service_fn(move |request| {
        let (site, work, activity) = (site.clone(), work.clone(), activity.clone());
        async move { Ok::<_, Infallible>(respond(request, site, work, &activity).await) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    // A client that goes away is no failure.
    let _ = server
        .serve_connection(TokioIo::new(watched), service)
        .await;
}

/// Answers one request: first who may ask, then what.
async fn respond(
    request: Request<Incoming>,
    site: Arc<Site>,
    work: Arc<Turns>,
    activity: &Activity,
) -> Answer {
    let (head, body) = request.into_parts();
    let secrets = &site.secrets;
    if let Some(refusal) = refused_host(&head, secrets) {
        return refusal;
    }
    let Some(target) = Target::parse(head.uri.path(), head.uri.query()) else {
        return line(StatusCode::BAD_REQUEST, "this is not the address of a page");
    };
    let is_dav = site.dav && dav::is_asked(&target);
    if let Some(refusal) = refused_method(&head).filter(|_| !is_dav) {
        return refusal;
    }
    if let Some(asset) = assets::find(&target, &head.headers) {
        return asset;
    }
    if !secrets.is_from_here(&head.headers) {
        return line(StatusCode::FORBIDDEN, "another site asked for this");
    }
    if is_dav {
        if !secrets.has_password(&head.headers) {
            return dav::log_in();
        }
        activity.has_shown_the_cookie();
        if let Some(answer) = dav::early(&head) {
            return answer;
        }
        if let Err(refusal) = dav::read_wish(body).await {
            return *refusal;
        }
        return worked_on(site, work, activity, head, target, None).await;
    }
    let is_known = secrets.is_known(&head.headers);
    if let [first, token] = &target.segments[..]
        && first == b"in"
        && head.method == Method::GET
    {
        return enter(secrets, token, is_known);
    }
    if !is_known {
        return pages::layout::locked(target.json());
    }
    activity.has_shown_the_cookie();
    let post = match head.method {
        Method::POST => match form(&head, body).await {
            Ok(form) => Some(form),
            Err(answer) => return *answer,
        },
        _ => None,
    };
    if let Some(form) = &post
        && !secrets.may_change(&head.headers, form.text("token"))
    {
        return line(
            StatusCode::FORBIDDEN,
            "a change needs a form of this server",
        );
    }
    // A form that does not arrive is no work.
    worked_on(site, work, activity, head, target, post).await
}

/// Answers a request of somebody who may ask, when it is its turn.
async fn worked_on(
    site: Arc<Site>,
    work: Arc<Turns>,
    activity: &Activity,
    head: Parts,
    target: Target,
    post: Option<Post>,
) -> Answer {
    let _at_work = activity.begin_work();
    let turns = work.of(&target);
    let Ok(_turn) = turns.acquire().await else {
        return line(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    };
    let done =
        tokio::task::spawn_blocking(move || routes::answer(&site, &head, &target, post.as_ref()));
    done.await.unwrap_or_else(|_| {
        let text = "the page failed; this is a fault of dmv";
        line(StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}

/// Refuses a request for another server.
fn refused_host(head: &Parts, secrets: &Secrets) -> Option<Answer> {
    let names_another =
        (head.uri.authority()).is_some_and(|name| !secrets.is_our_name(name.as_str()));
    (names_another || !secrets.is_for_us(&head.headers)).then(|| {
        line(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers to its own address only",
        )
    })
}

/// Refuses a request with another method than pages have.
fn refused_method(head: &Parts) -> Option<Answer> {
    if !matches!(head.method, Method::GET | Method::HEAD | Method::POST) {
        let mut answer = line(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and POST only");
        set(&mut answer, ALLOW, "GET, HEAD, POST");
        return Some(answer);
    }
    None
}

/// Gives the cookie to whoever has the printed address, once.
fn enter(secrets: &Secrets, token: &[u8], is_known: bool) -> Answer {
    let token = std::str::from_utf8(token).unwrap_or_default();
    match secrets.enter(token) {
        Entry::Welcome => {
            let mut answer = redirect("/");
            set(&mut answer, SET_COOKIE, &secrets.set_cookie());
            // The address has the token in it. Other pages need a referrer: without one Chromium
            // sends forms from the origin "null".
            set(&mut answer, REFERRER_POLICY, "no-referrer");
            answer
        }
        Entry::Used if is_known => redirect("/"),
        Entry::Used | Entry::Wrong => pages::layout::locked(false),
    }
}

/// Reads a form.
async fn form(head: &Parts, body: Incoming) -> Result<Post, Box<Answer>> {
    let refuse = |status, text| Err(Box::new(line(status, text)));
    let kind = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    if kind.trim() != "application/x-www-form-urlencoded" {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this is not a form");
    }
    let reading = Limited::new(body, MAX_FORM_BYTES).collect();
    let Ok(read) = tokio::time::timeout(FORM_TIME, reading).await else {
        return refuse(
            StatusCode::REQUEST_TIMEOUT,
            "the form did not arrive in time",
        );
    };
    let Ok(read) = read else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large");
    };
    match Post::parse(&read.to_bytes()) {
        Some(post) => Ok(post),
        None => refuse(StatusCode::BAD_REQUEST, "the form is not readable"),
    }
}
