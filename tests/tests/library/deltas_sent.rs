//! Frames with bases on their way to peers: to those that have the bases, to those that lack them, and to
//! those that do not know such frames.

use crate::deltas::{
    LEN, bases_come_first, data_len, gc, is_readable, live, next_version, repack, repacked,
};
use dmv_core::job::Job;
use dmv_core::object::ObjectType::{self, Chunk};
use dmv_core::repo::{RefKind, Repo, ResetFiles, VerifyDepth};
use dmv_net::session::{Client, History, Link, NetError, Traffic};
use dmv_net::wire::{Access, Extension, Frame, Message, objects};
use dmv_tests::drops::{contents, keeps_all_but};
use dmv_tests::evil::{client_hello, frames, server_hello, want, with};
use dmv_tests::garbage::walk;
use dmv_tests::lab::Lab;
use dmv_tests::peers::{Done, Place, connect, fetch, note, serving, tips, update};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, request};
use dmv_tests::simfs::Survival;
use std::collections::BTreeSet;

#[test]
fn peers_with_and_without_bases_exchange_everything() -> Done {
    let (theirs, mut all) = repacked(3, 9)?;
    let kept = contents(&theirs.again()?)?;
    // A peer that has nothing.
    let ours = Place::new()?;
    fetch(&ours, &theirs)?;
    assert!(bases_come_first(&ours.again()?)? > 0);
    let has_all = |place: &Place| -> Done {
        let repo = place.again()?;
        for id in live(&theirs.again()?)? {
            assert!(repo.store().has(&id)? && is_readable(&repo, &id), "{id}");
        }
        place.is_sound()
    };
    has_all(&ours)?;
    // A peer that has the first versions without bases, and one that has them with bases.
    let mut rng = Rng::new(90);
    let next = next_version(&all[2], &mut rng);
    theirs.write("lib/next", &next)?;
    all.push(next);
    commit(&theirs.again()?, "next")?;
    repack(&theirs.again()?)?;
    fetch(&ours, &theirs)?;
    has_all(&ours)?;
    repack(&ours.again()?)?;
    assert!(bases_come_first(&ours.again()?)? > 0);
    has_all(&ours)?;
    theirs.write("lib/last", &next_version(&all[3], &mut rng))?;
    commit(&theirs.again()?, "last")?;
    fetch(&ours, &theirs)?;
    has_all(&ours)?;
    // A push from a repository with bases to an empty one.
    let third = Place::new()?;
    let job = Job::default();
    let repo = theirs.again()?;
    let mut session = connect(&repo, &third, &job)?;
    session.push(&[update(None, theirs.tip()?, false)])?;
    session.finish(Vec::new());
    has_all(&third)?;
    keeps_all_but(&theirs.again()?, &kept, &BTreeSet::new())
}

/// Runs a session between `client` and `server` over byte streams, as two machines do. Returns what
/// went over the line.
fn over_a_line(
    client: &Repo,
    server: &Place,
    work: impl FnOnce(&mut Client<'_>) -> Result<(), NetError>,
) -> Done<Traffic> {
    let ((down, to_us), (up, to_them)) = (std::io::pipe()?, std::io::pipe()?);
    serving(server, Link::over(up, to_us)?, Access::Write)?;
    let job = Job::default();
    let mut session = Client::connect(client, Link::over(down, to_them)?, &job)?;
    work(&mut session)?;
    Ok(session.finish(Vec::new()).traffic)
}

fn fetch_all(session: &mut Client<'_>) -> Result<(), NetError> {
    session.fetch(&tips(&session.offered))
}

#[test]
fn a_clone_gets_the_differences_as_they_are_stored() -> Done {
    let (theirs, _) = repacked(4, 40)?;
    let stored = data_len(&theirs.again()?)?;
    let ours = Place::new()?;
    let received = over_a_line(&ours.again()?, &theirs, fetch_all)?.bytes_received;
    assert!(received < stored + stored / 4, "{received} of {stored}");
    let repo = ours.again()?;
    assert!(bases_come_first(&repo)? > 0);
    let len = data_len(&repo)?;
    assert!(len < stored + stored / 4, "{len} of {stored}");
    for id in live(&theirs.again()?)? {
        assert!(is_readable(&repo, &id), "{id}");
    }
    ours.is_sound()
}

#[test]
fn a_new_version_comes_as_its_difference_from_what_is_here() -> Done {
    let theirs = Place::new()?;
    let mut rng = Rng::new(41);
    let mut bytes = rng.bytes(LEN);
    let ours = Place::new()?;
    let mut last = 0;
    for n in 0..4 {
        theirs.write("engine.so", &bytes)?;
        commit(&theirs.again()?, "a version")?;
        repack(&theirs.again()?)?;
        last = over_a_line(&ours.again()?, &theirs, fetch_all)?.bytes_received;
        note(&ours.again()?, &theirs.again()?.offered()?)?;
        bases_come_first(&ours.again()?)?;
        for id in live(&theirs.again()?)? {
            assert!(is_readable(&ours.again()?, &id), "version {n}: {id}");
        }
        bytes = next_version(&bytes, &mut rng);
    }
    assert!(last < LEN as u64 / 8, "the last version took {last} bytes");
    ours.is_sound()
}

/// A repository in which a branch has the base of what `main` gets in versions.
struct Versions {
    place: Place,
    rng: Rng,
    bytes: Vec<u8>,
}

impl Versions {
    fn new() -> Done<Versions> {
        let place = Place::new()?;
        place.write("notes", b"begin")?;
        let first = place.commit("first")?;
        let mut rng = Rng::new(42);
        let bytes = rng.bytes(LEN);
        let versions = Versions { place, rng, bytes };
        versions.store()?;
        let repo = versions.place.again()?;
        for (name, commit) in [("side", versions.place.tip()?), ("start", first)] {
            repo.create_ref(RefKind::Branch, name, commit, request("branch"))?;
        }
        let settings = Default::default();
        let job = Job::default();
        repo.reset(first, ResetFiles::Match, &request("reset"), &settings, &job)?;
        Ok(versions)
    }

    /// Commits a version, and looks for differences.
    fn store(&self) -> Done {
        self.place.write("engine.so", &self.bytes)?;
        commit(&self.place.again()?, "a version")?;
        repack(&self.place.again()?).map(drop)
    }

    fn next(&mut self) -> Done {
        self.bytes = next_version(&self.bytes, &mut self.rng);
        self.store()
    }

    /// Fetches one branch, and checks that it can be read.
    fn fetch(&self, ours: &Place, branch: &str, how: History) -> Done<Traffic> {
        let tip = self.place.again()?.resolve(branch)?;
        let traffic = over_a_line(&ours.again()?, &self.place, |session| {
            session.fetch_history(&[tip], how)
        })?;
        let mut offered = self.place.again()?.offered()?;
        offered
            .refs
            .retain(|(key, _)| *key == format!("branch/{branch}"));
        note(&ours.again()?, &offered)?;
        let repo = ours.again()?;
        let tree = repo.read_commit(&tip)?.tree;
        for id in walk(&repo, &[(Some(ObjectType::Tree), tree)])? {
            assert!(is_readable(&repo, &id), "{id}");
        }
        Ok(traffic)
    }
}

#[test]
fn who_lacks_a_base_gets_the_chunks_without_it() -> Done {
    let mut theirs = Versions::new()?;
    let mut most = 0;
    for _ in 0..5 {
        theirs.next()?;
        let ours = Place::new()?;
        theirs.fetch(&ours, "start", History::New)?;
        most = most.max(theirs.fetch(&ours, "main", History::New)?.round_trips);
        ours.is_sound()?;
    }
    // The requested chunks came in frames that could not be decoded, and were requested once more.
    assert!(most >= 4, "{most}");
    Ok(())
}

#[test]
fn who_wants_the_last_commit_alone_gets_nothing_in_vain() -> Done {
    let mut theirs = Versions::new()?;
    for _ in 0..3 {
        theirs.next()?;
    }
    let ours = Place::new()?;
    let traffic = theirs.fetch(&ours, "main", History::Depth(1))?;
    assert_eq!(traffic.round_trips, 2);
    theirs.next()?;
    let traffic = theirs.fetch(&ours, "main", History::New)?;
    assert_eq!(traffic.round_trips, 3);
    assert!(traffic.bytes_received < LEN as u64 * 11 / 10);
    ours.is_sound()
}

#[test]
fn who_does_not_know_frames_with_bases_gets_none() -> Done {
    let (theirs, _) = repacked(3, 43)?;
    let tip = theirs.tip()?;
    let needed = live(&theirs.again()?)?;
    for knows in [false, true] {
        let ((down, to_us), (up, to_them)) = (std::io::pipe()?, std::io::pipe()?);
        serving(&theirs, Link::over(up, to_us)?, Access::Read)?;
        let mut link = Link::over(down, to_them)?;
        let mut hello = client_hello();
        if knows {
            let mut said = server_hello();
            if let Some(Message::Hello(hello)) = said.first_mut() {
                hello.extensions.push(Extension::bases(false));
            }
            hello = frames(&said);
        }
        for frame in with(hello, [want(tip).frame()]) {
            link.send(frame)?;
        }
        let (mut chunks, mut based) = (0, 0);
        loop {
            match link.receive(&Job::default())? {
                Frame::Message(bytes) if Message::decode(&bytes)? == Message::End => break,
                Frame::Message(_) => {}
                Frame::Record(record) => based += usize::from(record[5] == 2),
                Frame::Objects(body) => {
                    for object in objects(&body) {
                        chunks += usize::from(object?.0 == Chunk);
                    }
                }
                Frame::Checked(_) => return Err("it came over a line".into()),
            }
        }
        assert_eq!(based > 0, knows);
        assert_eq!(chunks > 0, !knows, "of {} objects", needed.len());
    }
    Ok(())
}

/// A crash in any file operation while the differences of a newer version arrive.
#[test]
fn a_crash_while_differences_arrive_loses_nothing() -> Done {
    let theirs = Place::new()?;
    let (mut rng, mut bytes) = (Rng::new(44), Vec::new());
    let mut fresh = Place::new()?;
    for n in 0..4 {
        bytes = match n {
            0 => rng.bytes(LEN),
            _ => next_version(&bytes, &mut rng),
        };
        theirs.write("engine.so", &bytes)?;
        commit(&theirs.again()?, "a version")?;
        repack(&theirs.again()?)?;
    }
    let wanted = live(&theirs.again()?)?;
    let (mut crashes, mut with_bases) = (0, 0);
    for at in 1.. {
        let ours = std::mem::replace(&mut fresh, Place::new()?);
        std::fs::create_dir_all(ours.dir.path().join(".dmv/index"))?;
        let mut lab = Lab::over(ours)?;
        lab.sim.crash_at(at);
        let receive = |lab: &Lab| -> Done {
            let (repo, job) = (lab.open()?, Job::default());
            let mut session = connect(&repo, &theirs, &job)?;
            session.fetch(&tips(&session.offered))?;
            let offered = session.offered.clone();
            session.name(|| {
                repo.note_remote("origin", &offered, &Default::default(), &request("fetch"))
            })?;
            Ok(())
        };
        let done = receive(&lab);
        let has_crashed = lab.sim.has_crashed();
        if !has_crashed {
            done?;
        }
        for (n, survival) in [Survival::Nothing, Survival::Everything, Survival::Some]
            .into_iter()
            .enumerate()
        {
            lab.crash(survival, n as u64 + at);
            let report = lab.open()?.verify(VerifyDepth::Full, &Job::default())?;
            assert!(report.is_ok(), "operation {at}, {survival:?}: {report:?}");
        }
        receive(&lab).map_err(|e| format!("after operation {at}: {e}"))?;
        let repo = lab.open()?;
        for id in &wanted {
            assert!(
                repo.store().has(id)? && is_readable(&repo, id),
                "operation {at}: {id}"
            );
        }
        with_bases += usize::from(repo.store().may_have_bases());
        gc(&lab.open()?).map_err(|e| format!("after operation {at}: {e}"))?;
        let report = lab.open()?.verify(VerifyDepth::Full, &Job::default())?;
        assert!(report.is_ok(), "operation {at}: {report:?}");
        if !has_crashed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 8 && with_bases > 0, "{crashes}, {with_bases}");
    Ok(())
}
