//! What a command that talked to other repositories has moved, as text and as JSON.

use crate::context::Context;
use crate::cost::{Cost, MoreRequests, print_cost, print_with_cost};
use crate::failure::Failure;
use crate::format::json::{Json, object};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use crate::peers::ClosedRemote;
use crate::print::claims::{told, value_of_path};
use crate::ui::Ui;
use dmv_core::escape::{Argument, Hint};
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::repo::{ClaimInfo, RefChange, Refusal};
use dmv_net::ops::{HeldRef, PushReport};
use dmv_net::session::Summary;
use std::io::Write;

/// Why a ref stays, as a word for programs.
fn word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Moved => "moved",
        Refusal::NotForward => "not-forward",
        Refusal::BadName => "refused",
        Refusal::InUse => "in-use",
        Refusal::Held => "held",
    }
}

/// What a command that talked to others has done.
#[derive(Default)]
pub struct Report {
    summary: Summary,
    pushed: Vec<RefChange>,
    /// The remotes that took them, if there are several: each with the number of refs so far.
    takers: Vec<(String, usize)>,
    /// Why the other side takes nothing at all, if so.
    pub closed: Option<ClosedRemote>,
    /// What is said in place of the sums where nothing was moved.
    pub idle: Option<String>,
    /// The command that restores a ref which was deleted at a bucket. At other remotes it is run there.
    pub way_back: Option<Hint>,
    /// The claims that keep refs as they are.
    pub held: Vec<HeldRef>,
}

impl Report {
    /// Adds what happened in one session: refs moved here and there.
    pub fn add(&mut self, summary: Summary, pushed: Vec<RefChange>) {
        let (sum, more) = (&mut self.summary.traffic, summary.traffic);
        sum.bytes_sent += more.bytes_sent;
        sum.bytes_received += more.bytes_received;
        sum.objects_sent += more.objects_sent;
        sum.objects_received += more.objects_received;
        sum.round_trips += more.round_trips;
        self.summary.expired += summary.expired;
        self.summary.purged += summary.purged;
        if !summary.unpurged.is_empty() {
            self.summary.place = summary.place;
        }
        self.summary.unpurged.extend(summary.unpurged);
        self.summary.refs.extend(summary.refs);
        self.pushed.extend(pushed);
    }

    /// Says which of several remotes the refs were for that were added last.
    pub fn name_taker(&mut self, remote: &str) {
        self.takers.push((remote.to_owned(), self.pushed.len()));
    }

    /// The remote that a ref was for, by its number; `None` if there is only one.
    fn taker(&self, n: usize) -> Option<&str> {
        let taker = self.takers.iter().find(|(_, end)| n < *end);
        taker.map(|(name, _)| name.as_str())
    }

    /// The refs that the other side did not move.
    pub fn refused(&self) -> Vec<&RefChange> {
        let all = self.pushed.iter();
        all.filter(|moved| moved.refused.is_some()).collect()
    }

    /// Why a ref stays, in words.
    pub fn why(&self, moved: &RefChange) -> String {
        match (&self.closed, moved.refused, self.claim_on(moved)) {
            (Some(closed), Some(Refusal::BadName), _) => closed.why.clone(),
            (_, _, Some(claim)) => format!("{}: {}", say(moved), told(&claim.claim.path, claim)),
            _ => say(moved).to_owned(),
        }
    }

    /// The claim that keeps a ref as it is.
    pub fn claim_on(&self, moved: &RefChange) -> Option<&ClaimInfo> {
        let held = self.held.iter().find(|held| held.moved == *moved);
        held.map(|held| &held.claim)
    }

    /// Prints the transfer summary; with the fields of `more` in JSON.
    pub fn print(&self, context: &Context, more: Json) -> Result<(), Failure> {
        if context.ui.is_json() {
            let mut document = self.document();
            document.extend(more);
            return print_with_cost(context, document);
        }
        self.tell_purges(context);
        context.ui.text(|out| {
            self.print_text(context)?;
            print_cost(context, out)
        })
    }

    /// Prints what a push would do, and what it would cost at a bucket.
    pub fn print_foreseen(&self, context: &Context, done: &PushReport) -> Result<(), Failure> {
        let Some(foreseen) = &done.foreseen else {
            return Ok(());
        };
        let more = MoreRequests {
            writes: done.writes,
            reads: done.reads,
            sent: foreseen.bytes(),
            received: 0,
        };
        let document = || -> Result<Json, Failure> {
            let mut document = object! {
                dry_run: true,
                objects: foreseen.objects(),
                foreseen.{chunks, content_bytes},
                bytes: foreseen.bytes(),
                refs: self.refs(),
            };
            if let Some(cost) = Cost::with(context, more)? {
                cost.add_to(&mut document);
            }
            Ok(document.sorted())
        };
        if context.ui.is_json() {
            return context.ui.json(&document()?);
        }
        context.ui.text(|out| {
            if self.moved().next().is_none()
                && let Some(idle) = &self.idle
            {
                writeln!(out, "{}", clean(idle))?;
                return Ok(());
            }
            for moved in self.moved() {
                self.print_ref(&context.ui, out, &moved)?;
            }
            let objects = count(foreseen.objects(), "object", "objects");
            let size = bytes(foreseen.bytes());
            writeln!(
                out,
                "nothing was sent: a push would send about {objects} ({size})"
            )?;
            match Cost::with(context, more)? {
                Some(cost) => Ok(writeln!(out, "it would take about {}", cost.line())?),
                None => Ok(()),
            }
        })
    }

    fn print_text(&self, context: &Context) -> Result<(), Failure> {
        let mut out = context.ui.out();
        for moved in self.moved() {
            self.print_ref(&context.ui, &mut out, &moved)?;
        }
        if let (true, Some(idle), false) = (self.is_idle(), &self.idle, context.ui.verbose()) {
            if self.moved().next().is_none() {
                writeln!(out, "{}", clean(idle))?;
            }
            return Ok(());
        }
        if let Some(sums) = self.sums(context.ui.verbose()) {
            writeln!(out, "{sums}")?;
        }
        if self.summary.expired > 0 {
            let versions = count(self.summary.expired, "old version has", "old versions have");
            context.ui.note(format_args!(
                "note: {versions} expired at the other side, and are absent here, too (dmv status)"
            ));
        }
        Ok(())
    }

    fn unpurged(&self) -> u64 {
        let files = self.summary.unpurged.iter().map(|purge| purge.files.len());
        files.sum::<usize>() as u64
    }

    /// Says what the other side has purged.
    fn tell_purges(&self, context: &Context) {
        if self.summary.purged > 0 {
            let files = count(self.summary.purged, "content was", "contents were");
            context.ui.note(format_args!(
                "note: {files} purged at the other side, and left out here (dmv ls -l)"
            ));
        }
        if let Some(first) = self.summary.unpurged.first() {
            let files = count(self.unpurged(), "content", "contents");
            let reason = clean(&first.why.reason);
            let id = first.files.first().map(ToString::to_string);
            let purge = hint!(
                "dmv purge {} --reason {}",
                Argument::value(id.unwrap_or_default()),
                Argument::value(&reason)
            );
            context.ui.warn(format_args!(
                "the other side has purged {files} that this repository still stores ({reason}); to \
                 purge it here: {purge}"
            ));
        }
    }

    /// The refs that moved here, and then those of the other side.
    fn moved(&self) -> impl Iterator<Item = RefMove<'_>> {
        let here = self.summary.refs.iter();
        let here = here.map(|moved| RefMove {
            moved,
            there: false,
            taker: None,
        });
        let there = self.pushed.iter().enumerate();
        here.chain(there.map(|(n, moved)| RefMove {
            moved,
            there: true,
            taker: self.taker(n),
        }))
    }

    /// Whether nothing was moved, here or there.
    fn is_idle(&self) -> bool {
        let traffic = &self.summary.traffic;
        self.moved().all(|at| at.moved.refused.is_some())
            && traffic.objects_sent + traffic.objects_received == 0
    }

    fn refs(&self) -> Json {
        let value = |RefMove { moved, there, .. }: RefMove<'_>| {
            object! {
                name: name(moved),
                moved.{old, new},
                pushed: there && moved.refused.is_none(),
                refused: moved.refused.map(word),
                held?: self.claim_on(moved).map(|claim| value_of_path(&claim.claim.path, claim)),
            }
        };
        Json::List(self.moved().map(value).collect())
    }

    fn document(&self) -> Json {
        let (traffic, summary) = (&self.summary.traffic, &self.summary);
        object! {
            traffic.{objects_sent, objects_received, bytes_sent, bytes_received, round_trips},
            summary.{expired, purged},
            unpurged: self.unpurged(),
            refs: self.refs(),
        }
    }

    fn print_ref(&self, ui: &Ui, out: &mut dyn Write, at: &RefMove<'_>) -> Result<(), Failure> {
        let moved = at.moved;
        let name = if moved.key.starts_with("tag/") {
            ui.tag(name(moved))
        } else {
            ui.branch(name(moved))
        };
        let place = match (at.there, at.taker) {
            (true, Some(remote)) => format!(" on {}", clean(remote)),
            (true, None) => " on the remote".to_owned(),
            (false, _) => String::new(),
        };
        let short = |id: Option<ObjectId>| id.map(|id| id.short(SHORT_ID));
        match (moved.refused, short(moved.old), short(moved.new)) {
            (Some(_), ..) if !at.there => {
                let why = "a revision of this name has another meaning here";
                writeln!(out, "{name}  not fetched: {why}")?;
            }
            (Some(_), ..) => {
                let ((done, _), why) = (done_to(moved), self.why(moved));
                let why = clean(&why);
                writeln!(out, "{name}  not {done}: {why}")?;
            }
            (None, Some(old), Some(new)) => writeln!(out, "{name}  {old} -> {new}{place}")?,
            (None, None, Some(new)) => writeln!(out, "{name}  new{place}, at {new}")?,
            (None, Some(old), None) => {
                let way_back = self.way_back.as_ref();
                let way_back = way_back.map_or("run there: dmv undo", Hint::as_str);
                writeln!(
                    out,
                    "{name}  deleted{place}, was at {old} (to restore it, {way_back})"
                )?;
            }
            (None, None, None) => {}
        }
        Ok(())
    }

    /// What was moved, in a line; `None`: no objects, without `--verbose`.
    fn sums(&self, is_verbose: bool) -> Option<String> {
        let traffic = &self.summary.traffic;
        if is_verbose {
            let objects = |n| count(n, "object", "objects");
            return Some(format!(
                "received {} ({}), sent {} ({}), {}",
                objects(traffic.objects_received),
                bytes(traffic.bytes_received),
                objects(traffic.objects_sent),
                bytes(traffic.bytes_sent),
                count(traffic.round_trips, "round trip", "round trips"),
            ));
        }
        // The few bytes of a question without objects are no news.
        let moved = [
            ("received", traffic.objects_received, traffic.bytes_received),
            ("sent", traffic.objects_sent, traffic.bytes_sent),
        ];
        let moved = moved.into_iter().filter(|(_, objects, _)| *objects > 0);
        let moved: Vec<String> = moved
            .map(|(word, _, n)| format!("{word} {}", bytes(n)))
            .collect();
        (!moved.is_empty()).then(|| moved.join(", "))
    }
}

/// A ref that moved or was to move, and whether at the other side.
struct RefMove<'a> {
    moved: &'a RefChange,
    there: bool,
    /// Which one of several remotes that is.
    taker: Option<&'a str>,
}

/// A ref's name as a user types it.
pub fn name(moved: &RefChange) -> &str {
    moved
        .key
        .split_once('/')
        .map_or(&moved.key, |(_, name)| name)
}

/// What was to be done to a ref, and the word between that and the name of the remote.
pub fn done_to(moved: &RefChange) -> (&'static str, &'static str) {
    match moved.new {
        Some(_) => ("pushed", "to"),
        None => ("deleted", "on"),
    }
}

/// Why a ref stays, in words.
fn say(moved: &RefChange) -> &'static str {
    match (moved.refused, moved.new) {
        (Some(Refusal::Moved), _) => "somebody else has moved it in the meantime",
        (Some(Refusal::NotForward), Some(_)) if moved.key.starts_with("tag/") => {
            "the tag is another one there"
        }
        (Some(Refusal::NotForward), Some(_)) => {
            "the remote branch has commits that yours does not have"
        }
        (Some(Refusal::NotForward), None) => "no other branch or tag there has its commits",
        (Some(Refusal::InUse), _) => {
            "the remote repository is on this branch, and clones start with it"
        }
        (Some(Refusal::Held), _) => "another device holds a path that it changes",
        (Some(Refusal::BadName) | None, _) => "the remote does not allow it",
    }
}
