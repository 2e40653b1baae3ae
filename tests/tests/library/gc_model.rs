//! Random histories of a repository and a peer with gc in between, also between the messages of a
//! transfer: nothing that is needed ever goes, and in the end nothing else is left. What the repository
//! gives up because the peer has it (drop, expire) stays with the peer.
//!
//! `DMV_GC_STORIES=10000 cargo test -p dmv-tests --test library -- gc_model::` runs many: `DMV_GC_STORIES` is
//! the number of stories, `DMV_SEED` the seed of the first one.

use crate::deltas::repack;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::refs::testing;
use dmv_core::repo::{
    ExpireOptions, GcOptions, GcReport, RefKind, RefUpdate, Repo, ResetFiles, UndoOptions, UndoWhat,
};
use dmv_core::store::{CheckedObject, IncomingObjects};
use dmv_core::subset::Subset;
use dmv_net::session::{Client, Link};
use dmv_net::wire::Access;
use dmv_tests::drops::drop_all;
use dmv_tests::garbage::{bases, forget_operations, named, raw_objects, set_keys, walk};
use dmv_tests::packs::merge_some;
use dmv_tests::peers::{Cut, Done, Place, fetch, serving, tips};
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::{commit, request};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The names of branches.
const BRANCHES: [&str; 3] = ["one", "two", "three"];

struct Story {
    rng: Rng,
    ours: Place,
    theirs: Place,
    /// Commits that existed at some time.
    commits: Vec<ObjectId>,
    /// A file that changes here and there.
    engine: Vec<u8>,
    /// How many branches were made at the peer.
    pushed: u64,
    told: Vec<String>,
}

fn options(thorough: bool) -> GcOptions {
    GcOptions {
        grace: Duration::ZERO,
        now: request("gc").time,
        until: None,
        thorough,
        dry_run: false,
    }
}

impl Story {
    fn new(seed: u64) -> Done<Story> {
        let story = Story {
            rng: Rng::new(seed),
            ours: Place::new()?,
            theirs: Place::new()?,
            commits: Vec::new(),
            engine: Rng::new(seed).bytes(300_000),
            pushed: 0,
            told: Vec::new(),
        };
        for place in [&story.ours, &story.theirs] {
            place.write("begin", b"begin")?;
            commit(&place.again()?, "begin")?;
        }
        let rule = "last:1".parse()?;
        story
            .ours
            .again()?
            .set_keep_rule("/d0/f0", rule, request("keep"))?;
        Ok(story)
    }

    fn edit(&mut self, is_ours: bool) -> Done {
        for _ in 0..1 + self.rng.below(4) {
            let name = format!("d{}/f{}", self.rng.below(3), self.rng.below(6));
            let content = match self.rng.below(8) {
                // The same in both repositories, and again and again.
                0 | 1 => format!("{}", self.rng.below(5)).repeat(2_000).into_bytes(),
                2 => self.rng.bytes(200_000),
                // A version of the same file, of which repack stores the difference.
                3 => {
                    for n in (0..self.engine.len()).step_by(3_000) {
                        self.engine[n] = self.rng.below(256) as u8;
                    }
                    self.engine.clone()
                }
                _ => {
                    let len = self.rng.below(3_000) as usize;
                    self.rng.bytes(len)
                }
            };
            let place = if is_ours { &self.ours } else { &self.theirs };
            place.write(&name, &content)?;
        }
        Ok(())
    }

    /// Does something. Commands that are refused are fine.
    fn step(&mut self) -> Done {
        let repo = self.ours.again()?;
        let job = Job::default();
        let of = if self.commits.is_empty() {
            self.ours.tip().unwrap_or(ObjectId::from_bytes([1; 32]))
        } else {
            self.commits[self.rng.below(self.commits.len() as u64) as usize]
        };
        let branch = BRANCHES[self.rng.below(3) as usize];
        let told = match self.rng.below(23) {
            0..=3 => {
                self.edit(true)?;
                // While another command runs, new packs are begun.
                let held = self.rng.one_in(3).then(|| testing::writer(repo.store()));
                let made = commit(&self.ours.again()?, "c")?;
                drop(held);
                self.commits.extend(made.commit);
                format!("commit {:?}", made.commit)
            }
            4 => {
                let made = repo.create_ref(RefKind::Branch, branch, of, request("branch"));
                format!("branch {branch} {of}: {made:?}")
            }
            5 => {
                let gone = repo.delete_ref(RefKind::Branch, branch, request("branch"));
                format!("branch -d {branch}: {gone:?}")
            }
            6 => {
                let what = if self.rng.one_in(3) {
                    UndoWhat::LastUndo
                } else {
                    UndoWhat::Last
                };
                let settings = Default::default();
                let options = UndoOptions {
                    what,
                    settings,
                    request: request("undo"),
                };
                format!("undo: {:?}", repo.undo(&options, &job).is_ok())
            }
            7 => {
                let settings = Default::default();
                let done = repo.reset(of, ResetFiles::Match, &request("reset"), &settings, &job);
                format!("reset --hard {of}: {:?}", done.is_ok())
            }
            8 => {
                self.edit(false)?;
                commit(&self.theirs.again()?, "theirs")?;
                "commit of theirs".into()
            }
            9 => {
                // This process has had the repository open since the beginning.
                format!("fetch: {:?}", fetch(&self.ours, &self.theirs).is_ok())
            }
            10 => self.cut_fetch()?,
            11 => self.killed_job()?,
            12 => {
                let value = self.rng.one_in(3).then(|| of.as_bytes().to_vec());
                let is_here = repo.store().has(&of)?;
                if is_here {
                    set_keys(&repo, &[("later/key", value)])?;
                }
                format!("unknown key names {of}: {is_here}")
            }
            13 if self.rng.one_in(2) => {
                forget_operations(&repo)?;
                "op expire".into()
            }
            14 => {
                format!("merged: {}", merge_some(&repo, &mut self.rng)?)
            }
            15 => {
                format!("repack: {:?}", repack(&repo)?)
            }
            16 => self.push_all()?,
            17 => self.pushed_to()?,
            18 => self.serve()?,
            19 => self.give_up()?,
            20 => {
                let thorough = self.rng.one_in(2);
                if self.rng.one_in(2) {
                    repack(&self.theirs.again()?)?;
                }
                let report = self.theirs.again()?.gc(&options(thorough), &job)?;
                format!("gc of theirs: {report:?}")
            }
            _ => {
                let thorough = self.rng.one_in(2);
                format!("gc: {:?}", repo.gc(&options(thorough), &job)?)
            }
        };
        self.told.push(told);
        Ok(())
    }

    /// Fetches through a connection that breaks.
    fn cut_fetch(&mut self) -> Done<String> {
        let ((down, to_us), (up, to_them)) = (std::io::pipe()?, std::io::pipe()?);
        let (ours, job) = (self.ours.again()?, Job::default());
        serving(&self.theirs, Link::over(up, to_us)?, Access::Read)?;
        let down = Cut {
            inner: down,
            left: self.rng.below(300_000),
            passed: Arc::new(AtomicU64::new(0)),
        };
        let done = Client::connect(&ours, Link::over(down, to_them)?, &job)
            .and_then(|mut session| session.fetch(&tips(&session.offered)).map(drop));
        Ok(format!("cut fetch: {:?}", done.is_ok()))
    }

    /// Frees space in a repository while a session with it is open.
    fn gc_meanwhile(&mut self, place: bool) -> Done {
        for _ in 0..self.rng.below(3) {
            let repo = if place {
                self.ours.again()?
            } else {
                self.theirs.again()?
            };
            if self.rng.one_in(2) {
                forget_operations(&repo)?;
            }
            repo.gc(&options(self.rng.one_in(2)), &Job::default())?;
        }
        Ok(())
    }

    /// Pushes all branches, under names that nobody moves.
    fn push_all(&mut self) -> Done<String> {
        let (repo, job) = (self.ours.again()?, Job::default());
        let (ours, theirs) = Link::pair();
        serving(&self.theirs, theirs, Access::Write)?;
        let mut session = Client::connect(&repo, ours, &job)?;
        self.gc_meanwhile(false)?;
        let mut updates = Vec::new();
        for (_, value) in repo.refs().with_prefix("branch/")? {
            self.pushed += 1;
            updates.push(RefUpdate {
                key: format!("branch/pushed-{}", self.pushed),
                old: None,
                new: Some(ObjectId::from_bytes(value[..].try_into()?)),
                force: false,
            });
        }
        let moved = session.push(&updates)?;
        if let Some(refused) = moved.iter().find_map(|moved| moved.refused.as_ref()) {
            return Err(format!("a push was refused: {refused:?}").into());
        }
        session.finish(moved);
        Ok(format!("push of {} branches", updates.len()))
    }

    /// The peer pushes to us.
    fn pushed_to(&mut self) -> Done<String> {
        let (repo, job) = (self.theirs.again()?, Job::default());
        let (theirs, ours) = Link::pair();
        serving(&self.ours, ours, Access::Write)?;
        let mut session = Client::connect(&repo, theirs, &job)?;
        self.gc_meanwhile(true)?;
        let old = session
            .offered
            .refs
            .iter()
            .find(|(key, _)| key == "branch/theirs")
            .map(|(_, id)| *id);
        let new = self.theirs.tip()?;
        let update = RefUpdate {
            key: "branch/theirs".into(),
            old,
            new: Some(new),
            force: true,
        };
        let moved = session.push(&[update])?;
        self.commits.push(new);
        session.finish(moved);
        Ok(format!("push to us: {new}"))
    }

    /// The peer fetches from us.
    fn serve(&mut self) -> Done<String> {
        let (repo, job) = (self.theirs.again()?, Job::default());
        let (theirs, ours) = Link::pair();
        serving(&self.ours, ours, Access::Read)?;
        let mut session = Client::connect(&repo, theirs, &job)?;
        self.gc_meanwhile(true)?;
        // What we have given up is no failure of a fetch, as the peer has it.
        let done = session.fetch(&tips(&session.offered));
        self.gc_meanwhile(false)?;
        let offered = session.offered.clone();
        let note = || repo.note_remote("ours", &offered, &Default::default(), &request("fetch"));
        let named = done.and_then(|()| session.name(note));
        Ok(format!("serve: {:?}", named.is_ok()))
    }

    /// Gives up content that the peer has: some files of the newest commit, or old versions.
    fn give_up(&mut self) -> Done<String> {
        let pushed = self.push_all()?;
        let (repo, job) = (self.ours.again()?, Job::default());
        if repo.refs().get("branch/main")?.is_none() {
            return Ok(pushed);
        }
        if self.rng.one_in(2) {
            let pattern = format!("d{}/*", self.rng.below(3));
            let freed = drop_all(&repo, &pattern)?;
            return Ok(format!("{pushed}, drop {pattern}: {freed:?}"));
        }
        let (rules, freeing) = (repo.keep_rules()?, repo.begin_to_free()?);
        let options = ExpireOptions {
            paths: Subset::everything(),
            max_bytes: None,
            now: 1_900_000_000,
        };
        let found = repo.expirable(&rules, &options, &job)?;
        let earlier = found.earlier.clone();
        let rules = (&rules, &options);
        let request = request("expire");
        let done = freeing.expire(&found, &earlier, rules, request, &mut || true, &job)?;
        Ok(format!("{pushed}, expire: {done:?}"))
    }

    /// Stores objects and ends without publishing them.
    fn killed_job(&mut self) -> Done<String> {
        let repo = self.ours.again()?;
        let held = self.rng.one_in(2).then(|| testing::writer(repo.store()));
        let mut incoming = IncomingObjects::new(testing::writer(repo.store())?);
        for _ in 0..1 + self.rng.below(4) {
            let bytes = self.rng.bytes(5_000);
            incoming.add_object(&CheckedObject::new(ObjectType::Chunk, bytes)?)?;
        }
        match self.rng.below(3) {
            0 => drop(incoming.finish()?),
            1 => {
                let sealed = incoming.finish()?;
                testing::add_segments(repo.refs(), &sealed.segments, &sealed.relied)?;
            }
            _ => drop(incoming),
        }
        drop(held);
        Ok("a job was killed".into())
    }

    /// Checks that everything is here that has to be, or at the peer if it was given up here.
    fn check(&self) -> Done<Needed> {
        let (repo, peer) = (self.ours.again()?, self.theirs.again()?);
        let (live, gone) = (walk(&repo, &named(&repo)?)?, given_up(&repo)?);
        for id in &live {
            let is_there = gone.contains(id) && peer.store().has(id)?;
            if !is_there && !repo.store().has(id)? {
                return Err(format!("{id} is lost").into());
            }
        }
        for id in walk(&peer, &named(&peer)?)? {
            if !peer.store().has(&id)? {
                return Err(format!("{id} is lost at the peer").into());
            }
        }
        Ok(Needed { live, gone })
    }

    fn run(&mut self) -> Done {
        for _ in 0..12 + self.rng.below(25) {
            self.step()?;
            self.check()?;
        }
        let first = self.gc()?;
        let second = self.gc()?;
        let Needed { live, gone } = self.check()?;
        let raw = raw_objects(&self.ours.again()?)?;
        let bases = bases(&self.ours.again()?)?;
        let lost = live.difference(&raw).filter(|id| !gone.contains(id));
        let left = raw.difference(&live).filter(|id| !bases.contains(id));
        let (more, less) = (left.count(), lost.count());
        if (more, less) != (0, 0) {
            let story = format!("{first:?} {second:?}");
            return Err(format!("{more} objects are left, {less} are lost: {story}").into());
        }
        self.ours.is_sound()
    }

    fn gc(&self) -> Done<GcReport> {
        let report = self.ours.again()?.gc(&options(true), &Job::default())?;
        if !report.why_not.is_empty() || !report.finished {
            return Err(format!("{report:?}").into());
        }
        Ok(report)
    }
}

/// Objects that a repository needs.
struct Needed {
    live: BTreeSet<ObjectId>,
    /// Those that it may have given up.
    gone: BTreeSet<ObjectId>,
}

/// The content that a repository has given up, and all of its chunks.
fn given_up(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let slice = repo.slice()?;
    let ids: Vec<_> = slice.dropped.iter().chain(slice.expired.keys()).collect();
    let roots: Vec<_> = ids.iter().map(|id| (None, **id)).collect();
    let mut gone = walk(repo, &roots)?;
    // What is not stored is a chunk.
    gone.extend(ids);
    Ok(gone)
}

#[test]
fn gc_frees_everything_that_nothing_needs_and_nothing_else() -> Done {
    let seed = seed(1);
    for seed in seed..seed + number("DMV_GC_STORIES", 5) {
        let mut story = Story::new(seed)?;
        if let Err(e) = story.run() {
            let told = story.told.join("\n");
            return Err(format!("seed {seed}: {e}\n{told}").into());
        }
    }
    Ok(())
}
