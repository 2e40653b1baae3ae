//! What the commands that talk to other repositories share.

use crate::context::{Context, quoted};
use crate::error::{EXIT_BUSY, EXIT_OTHER, EXIT_PERMISSION, EXIT_REFUSED, Failure, verify_there};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use crate::progress::Hush;
use dmv_core::hash::ObjectId;
use dmv_core::history::is_ancestor;
use dmv_core::object::ObjectType;
use dmv_core::repo::{Offered, RefMoved, RefUpdate, Refusal, Repo, RepoError};
use dmv_net::session::{Client, NetError, Summary};
use dmv_net::transport::{Connection, Purpose, Reach, Url, connect};
use dmv_net::wire::{Code, ReadOnly};
use serde::Serialize;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// A remote of the repository.
pub struct Remote {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: Url,
}

/// The remote `name`; without it `origin`, or the only one.
pub fn remote(context: &Context, name: Option<&str>) -> Result<Remote, Failure> {
    let config = context.config()?;
    let fail =
        |message: String, hint: &str| Failure::new("no-remote", EXIT_OTHER, message).hint(hint);
    let name = match name {
        Some(name) => name.to_owned(),
        None => config.default_remote().ok_or_else(|| {
            let names: Vec<String> = config.remotes().into_iter().map(|(name, _)| name).collect();
            if names.is_empty() {
                return fail(
                    "no remote is configured".to_owned(),
                    "dmv remote add origin URL",
                );
            }
            let one = |name: &String| format!("dmv {} {}", context.command, quoted(name));
            let hint = names.iter().map(one).collect::<Vec<_>>().join(", or ");
            fail(
                "this repository has several remotes: name one of them".to_owned(),
                &hint,
            )
        })?,
    };
    let remotes = config.remotes();
    let found = remotes.iter().find(|(known, _)| *known == name);
    let found = found.ok_or_else(|| fail(format!("there is no remote '{name}'"), "dmv remote"))?;
    Ok(Remote {
        name: found.0.clone(),
        url: Url::parse(OsStr::new(&found.1))?,
    })
}

/// Runs `session` with a connection to `url`.
pub fn with_client<T>(
    context: &Context,
    repo: &Repo,
    url: &Url,
    session: impl FnOnce(Client<'_>) -> Result<T, NetError>,
) -> Result<T, Failure> {
    with_client_for(Purpose::Read, context, repo, url, session)
}

/// The same, to write there, too.
pub fn with_client_to_push<T>(
    context: &Context,
    repo: &Repo,
    url: &Url,
    session: impl FnOnce(Client<'_>) -> Result<T, NetError>,
) -> Result<T, Failure> {
    with_client_for(Purpose::Write, context, repo, url, session)
}

fn with_client_for<T>(
    purpose: Purpose,
    context: &Context,
    repo: &Repo,
    url: &Url,
    session: impl FnOnce(Client<'_>) -> Result<T, NetError>,
) -> Result<T, Failure> {
    let watch = context.watch("transferring");
    let (connection, client) = dial_for(purpose, context, repo, url)?;
    let done = session(client);
    drop(watch);
    done.map_err(|e| {
        let e = connection.explain(e);
        let is_there = matches!(e, NetError::Peer(Code::Damaged, _));
        let failure = Failure::from(e);
        match is_there {
            true => failure.hint(verify_there(url)),
            false => failure,
        }
    })
}

/// Connects to `url`, to read there, and greets who answers.
pub fn dial<'r>(
    context: &'r Context,
    repo: &'r Repo,
    url: &Url,
) -> Result<(Connection, Client<'r>), Failure> {
    dial_for(Purpose::Read, context, repo, url)
}

/// The same to do `purpose`. Where that one is busy with others, waits for a turn.
fn dial_for<'r>(
    purpose: Purpose,
    context: &'r Context,
    repo: &'r Repo,
    url: &Url,
) -> Result<(Connection, Client<'r>), Failure> {
    let end = Instant::now() + BUSY_TIME;
    let mut has_told = false;
    loop {
        match dial_once(purpose, context, repo, url) {
            Err(e) if is_crowded(url, &e) && Instant::now() < end => {
                if !has_told {
                    let minutes = BUSY_TIME.as_secs() / 60;
                    let text =
                        format_args!("{}; waiting for a turn, up to {minutes} minutes", e.message);
                    context.ui.note(text);
                    has_told = true;
                }
            }
            done => return done,
        }
        // It has let us wait for a turn. What is left is to come again, not all at one moment.
        let pause = u64::from(std::process::id() % 8);
        let until = Instant::now() + BUSY_PAUSE * (2 + pause as u32);
        while Instant::now() < until {
            if context.job.is_cancelled() {
                return Err(NetError::Cancelled.into());
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }
}

/// How long to come again to somebody who is busy with others, and how often to look whether the user
/// has had enough.
const BUSY_TIME: Duration = Duration::from_secs(600);
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Whether somebody at another device has too many visitors just now.
fn is_crowded(url: &Url, e: &Failure) -> bool {
    match url {
        #[cfg(feature = "quic")]
        Url::Quic(_) => e.exit == EXIT_BUSY,
        _ => false,
    }
}

fn dial_once<'r>(
    purpose: Purpose,
    context: &'r Context,
    repo: &'r Repo,
    url: &Url,
) -> Result<(Connection, Client<'r>), Failure> {
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let config = context.config()?;
    let reach = Reach {
        asked: context.asked()?,
        purpose,
        ssh: config.value("ssh.command")?.map(words).unwrap_or_default(),
        remote_program: config.value("ssh.remote")?.unwrap_or_default(),
        #[cfg(feature = "quic")]
        device: match url {
            Url::Quic(_) => Some(dmv_net::transport::quic::Device {
                key: crate::commands::id::device_key()?,
                relays: relays(context)?,
            }),
            _ => None,
        },
    };
    let patience = config.seconds("net.patience")?;
    // ssh may ask whether a host is the right one, or for a password.
    let _hush = matches!(url, Url::Ssh(_)).then(Hush::start);
    let mut connection = connect(url, &reach)?;
    let greeted = connection.take_link().and_then(|mut link| {
        link.be_patient(patience);
        Client::connect(repo, link, &context.job)
    });
    match greeted {
        Ok(client) => Ok((connection, client)),
        Err(e) => Err(connection.explain(e).into()),
    }
}

/// All remotes, those that cost least to ask first.
pub fn cheapest_first(context: &Context) -> Result<Vec<Remote>, Failure> {
    let mut remotes = Vec::new();
    for (name, url) in context.config()?.remotes() {
        let url = Url::parse(OsStr::new(&url))?;
        remotes.push(Remote { name, url });
    }
    remotes.sort_by_key(|remote| match &remote.url {
        Url::Path(_) => 0,
        #[cfg(feature = "quic")]
        Url::Quic(_) => 1,
        Url::Ssh(_) => 2,
    });
    Ok(remotes)
}

/// The relay of the user's choice, if there is one.
#[cfg(feature = "quic")]
pub fn relays(context: &Context) -> Result<Vec<String>, Failure> {
    let relay = context.config()?.value("net.relay")?;
    Ok(relay.into_iter().filter(|url| !url.is_empty()).collect())
}

/// Says which branches a remote has no more.
pub fn tell_gone(context: &Context, remote: &str, gone: &[String], forgotten: bool) {
    for name in gone {
        let known = format!("{remote}/{name}");
        context.ui.note(match forgotten {
            true => format!("{remote} has deleted {name}; {known} is forgotten"),
            false => {
                format!(
                    "{remote} has deleted {name}; to forget {known}: dmv fetch --prune {remote}"
                )
            }
        });
    }
}

/// Everything that the other side offers.
pub fn tips(offered: &Offered) -> Vec<ObjectId> {
    offered.refs.iter().map(|(_, id)| *id).collect()
}

/// How a branch here stands to the same branch there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are the same.
    Same,
    /// It is not there, or ours descends from theirs.
    Ahead,
    /// Theirs descends from ours.
    Behind,
    /// Each has what the other has not, or theirs is not known here.
    Parted,
}

/// Compares a branch here with the same one there.
pub fn standing(
    repo: &Repo,
    ours: ObjectId,
    theirs: Option<ObjectId>,
) -> Result<Standing, RepoError> {
    let Some(theirs) = theirs else {
        return Ok(Standing::Ahead);
    };
    let objects = repo.objects();
    Ok(if ours == theirs {
        Standing::Same
    } else if is_ancestor(objects, &theirs, &ours)? {
        Standing::Ahead
    } else if objects.holds(ObjectType::Commit, &theirs)? && is_ancestor(objects, &ours, &theirs)? {
        Standing::Behind
    } else {
        Standing::Parted
    })
}

/// What the other side has under `key`.
pub fn offered(offered: &Offered, key: &str) -> Option<ObjectId> {
    let found = offered.refs.iter().find(|(known, _)| known == key);
    found.map(|(_, id)| *id)
}

/// What the other side has after a push, to be noted here.
pub fn now_there(moved: &[RefMoved]) -> Offered {
    let done = moved.iter().filter(|m| m.refused.is_none());
    Offered {
        head: None,
        refs: done.filter_map(|m| Some((m.key.clone(), m.new?))).collect(),
    }
}

/// A push of `key` to `new`.
pub fn update(key: &str, old: Option<ObjectId>, new: ObjectId, force: bool) -> RefUpdate {
    RefUpdate {
        key: key.to_owned(),
        old,
        new: Some(new),
        force,
    }
}

/// Why a ref stays, as a word for programs.
fn word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Moved => "moved",
        Refusal::NotForward => "not-forward",
        Refusal::BadName => "refused",
        Refusal::InUse => "in-use",
    }
}

#[derive(Serialize)]
struct RefValue {
    name: String,
    old: Option<String>,
    new: Option<String>,
    pushed: bool,
    refused: Option<&'static str>,
}

#[derive(Serialize)]
struct Document {
    objects_sent: u64,
    objects_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    round_trips: u64,
    refs: Vec<RefValue>,
}

/// Why nothing can be pushed to a remote that lets us fetch only, as far as it has told.
pub fn why_closed(url: &Url, told: Option<ReadOnly>) -> String {
    let path = match (url, told) {
        (Url::Path(path), _) => path,
        (_, Some(ReadOnly::Client)) => {
            return format!("it allows this device only to fetch{}", way_to_write(url));
        }
        (_, Some(ReadOnly::Server)) => return "it was started with --read-only".to_owned(),
        (_, Some(ReadOnly::Repository)) => {
            return "the repository there is read-only".to_owned();
        }
        (_, None) => return "it allows only fetch, and gives no reason".to_owned(),
    };
    match is_on_read_only_disk(path) {
        true => format!("{} is on a disk that is mounted read-only", path.display()),
        false => format!("{} is not writable", path.display()),
    }
}

fn is_on_read_only_disk(path: &Path) -> bool {
    let disk = rustix::fs::statvfs(path);
    disk.is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// A remote that lets us fetch only: no key or permission is enough, or its disk does not take it.
pub fn closed(url: &Url, told: Option<ReadOnly>) -> Closed {
    let exit = match url {
        Url::Path(path) if is_on_read_only_disk(path) => EXIT_REFUSED,
        _ => EXIT_PERMISSION,
    };
    let why = why_closed(url, told);
    Closed { why, exit }
}

/// What whoever serves `url` can do about it, in parentheses.
fn way_to_write(url: &Url) -> String {
    match url {
        #[cfg(feature = "quic")]
        Url::Quic(_) => match crate::commands::id::device_key() {
            Ok(key) => format!(
                " (to allow it, run there: dmv trust {} --write)",
                key.public()
            ),
            Err(_) => String::new(),
        },
        _ => String::new(),
    }
}

/// Why a server takes nothing, as a word for programs.
pub fn word_of(why: ReadOnly) -> &'static str {
    match why {
        ReadOnly::Client => "key",
        ReadOnly::Server => "server",
        ReadOnly::Repository => "repository",
    }
}

/// What a command that talked to others has done.
#[derive(Default)]
pub struct Report {
    summary: Summary,
    pushed: Vec<RefMoved>,
    /// Why the other side takes nothing at all, if so.
    pub closed: Option<Closed>,
    /// What is said in place of the sums where nothing was moved.
    pub idle: Option<String>,
}

/// Why a remote takes nothing, and the exit code for that.
pub struct Closed {
    /// In words.
    pub why: String,
    /// The exit code of a push.
    pub exit: u8,
}

impl Report {
    /// Adds what happened in one session: refs moved here and there.
    pub fn add(&mut self, summary: Summary, pushed: Vec<RefMoved>) {
        let (sum, more) = (&mut self.summary.traffic, summary.traffic);
        sum.bytes_sent += more.bytes_sent;
        sum.bytes_received += more.bytes_received;
        sum.objects_sent += more.objects_sent;
        sum.objects_received += more.objects_received;
        sum.round_trips += more.round_trips;
        self.summary.refs.extend(summary.refs);
        self.pushed.extend(pushed);
    }

    /// The refs that the other side did not move.
    pub fn refused(&self) -> Vec<&RefMoved> {
        let all = self.pushed.iter();
        all.filter(|moved| moved.refused.is_some()).collect()
    }

    /// Why a ref stays, in words.
    pub fn why(&self, moved: &RefMoved) -> &str {
        match (&self.closed, moved.refused) {
            (Some(closed), Some(Refusal::BadName)) => &closed.why,
            _ => say(moved),
        }
    }

    /// Prints the transfer summary; with `extra` fields in JSON.
    pub fn print(
        &self,
        context: &Context,
        extra: &[(&str, serde_json::Value)],
    ) -> Result<(), Failure> {
        let traffic = &self.summary.traffic;
        let here = self.summary.refs.iter().map(|moved| (moved, false));
        let there = self.pushed.iter().map(|moved| (moved, true));
        let refs: Vec<(&RefMoved, bool)> = here.chain(there).collect();
        if context.globals.json {
            let value = |(moved, pushed): &(&RefMoved, bool)| RefValue {
                name: name(moved).to_owned(),
                old: moved.old.map(|id| id.to_string()),
                new: moved.new.map(|id| id.to_string()),
                pushed: *pushed,
                refused: moved.refused.map(word),
            };
            let document = serde_json::to_value(Document {
                objects_sent: traffic.objects_sent,
                objects_received: traffic.objects_received,
                bytes_sent: traffic.bytes_sent,
                bytes_received: traffic.bytes_received,
                round_trips: traffic.round_trips,
                refs: refs.iter().map(value).collect(),
            });
            let mut document = document.map_err(std::io::Error::from)?;
            for (key, value) in extra {
                document[*key] = value.clone();
            }
            return context.ui.json(&document);
        }
        if context.ui.quiet() {
            return Ok(());
        }
        let mut out = context.ui.out();
        for (moved, pushed) in &refs {
            let name = clean(name(moved));
            let place = if *pushed { " on the remote" } else { "" };
            let short = |id: Option<ObjectId>| id.map(|id| id.short(SHORT_ID));
            match (moved.refused, short(moved.old), short(moved.new)) {
                (Some(_), ..) => {
                    let ((done, _), why) = (done_to(moved), clean(self.why(moved)));
                    writeln!(out, "{name}  not {done}: {why}")?;
                }
                (None, Some(old), Some(new)) => writeln!(out, "{name}  {old} → {new}{place}")?,
                (None, None, Some(new)) => writeln!(out, "{name}  new{place}, at {new}")?,
                (None, Some(old), None) => writeln!(
                    out,
                    "{name}  deleted{place}, was at {old} (to restore it, run there: dmv undo)"
                )?,
                (None, None, None) => {}
            }
        }
        let is_idle = refs.iter().all(|(moved, _)| moved.refused.is_some())
            && traffic.objects_sent + traffic.objects_received == 0;
        if let (true, Some(idle), false) = (is_idle, &self.idle, context.ui.verbose()) {
            if refs.is_empty() {
                writeln!(out, "{}", clean(idle))?;
            }
            return Ok(());
        }
        let objects = |n| count(n, "object", "objects");
        writeln!(
            out,
            "received {} ({}), sent {} ({}), {}",
            objects(traffic.objects_received),
            bytes(traffic.bytes_received),
            objects(traffic.objects_sent),
            bytes(traffic.bytes_sent),
            count(traffic.round_trips, "round trip", "round trips"),
        )?;
        Ok(())
    }
}

/// A ref's name as a user types it.
pub fn name(moved: &RefMoved) -> &str {
    moved
        .key
        .split_once('/')
        .map_or(&moved.key, |(_, name)| name)
}

/// What was to be done to a ref, and the word between that and the name of the remote.
pub fn done_to(moved: &RefMoved) -> (&'static str, &'static str) {
    match moved.new {
        Some(_) => ("pushed", "to"),
        None => ("deleted", "on"),
    }
}

/// Why a ref stays, in words.
fn say(moved: &RefMoved) -> &'static str {
    match (moved.refused, moved.new) {
        (Some(Refusal::Moved), _) => "somebody else has moved it in the meantime",
        (Some(Refusal::NotForward), Some(_)) => {
            "the remote branch has commits that yours does not have"
        }
        (Some(Refusal::NotForward), None) => "no other branch or tag there has its commits",
        (Some(Refusal::InUse), _) => "the remote repository is on this branch",
        (Some(Refusal::BadName) | None, _) => "the remote does not allow it",
    }
}
