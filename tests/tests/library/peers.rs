//! Complete sessions between repositories through the library, and sessions that are cut.

use dmv_core::job::Job;
use dmv_core::repo::{OfferedRefs, RefUpdate, Refusal};
use dmv_core::store::PackKind;
use dmv_net::session::{Client, Link, NetError, serve};
use dmv_net::wire::Access;
use dmv_tests::peers::{Cut, Done, Place, connect, fetch, serving, tips, update};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{files_of, request};
use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_fetch_brings_all_and_the_next_only_what_is_new() -> Done {
    let (theirs, ours) = (Place::with_files(1, 40, 3000)?, Place::new()?);
    theirs.write("large", &Rng::new(2).bytes(3 << 20))?;
    let first = theirs.commit("large")?;
    assert!(fetch(&ours, &theirs)? <= 3);
    assert_eq!(ours.repo.resolve("origin/main")?, first);
    assert_eq!(
        files_of(&ours.repo, &first)?,
        files_of(&theirs.repo, &first)?
    );
    ours.is_sound()?;

    let mut large = Rng::new(2).bytes(3 << 20);
    large.splice(1_000_000..1_000_000, Rng::new(3).bytes(1000));
    theirs.write("large", &large)?;
    let second = theirs.commit("inserted")?;
    let job = Job::default();
    let mut session = connect(&ours.repo, &theirs, &job)?;
    session.fetch(&[second])?;
    let traffic = session.finish(Vec::new()).traffic;
    assert!(traffic.bytes_received < 600_000, "{traffic:?}");
    let shown = job.progress.objects.load(Ordering::Relaxed);
    assert_eq!(
        shown, traffic.objects_received,
        "what is shown is what came"
    );
    assert!(traffic.round_trips <= 4, "{traffic:?}");
    ours.repo.note_remote(
        "origin",
        &OfferedRefs {
            head: None,
            refs: vec![("branch/main".into(), second)],
        },
        &Default::default(),
        &request("fetch"),
    )?;
    assert_eq!(
        files_of(&ours.repo, &second)?,
        files_of(&theirs.repo, &second)?
    );
    ours.is_sound()?;
    assert_eq!(fetch(&ours, &theirs)?, 1, "nothing new is one question");
    Ok(())
}

#[test]
fn a_push_moves_a_branch_forward_and_no_other_way() -> Done {
    let (server, one, two) = (Place::new()?, Place::with_files(4, 20, 900)?, Place::new()?);
    let job = Job::default();
    let base = one.tip()?;
    let mut session = connect(&one.repo, &server, &job)?;
    let moved = session.push(&[update(None, base, false)])?;
    assert_eq!(moved[0].refused, None);
    let traffic = session.finish(moved).traffic;
    assert!(
        traffic.round_trips <= 4 && traffic.objects_sent > 20,
        "{traffic:?}"
    );
    assert_eq!(server.tip()?, base);
    server.is_sound()?;

    // Both clients commit on top of it. The second push is refused.
    fetch(&two, &server)?;
    two.repo.create_ref(
        dmv_core::repo::RefKind::Branch,
        "work",
        base,
        request("branch"),
    )?;
    one.write("one", b"1")?;
    let first = one.commit("one")?;
    two.write("two", b"2")?;
    let second = two.commit("two")?;
    let push = |place: &Place, update| -> Result<Option<Refusal>, Box<dyn Error>> {
        let mut session = connect(&place.repo, &server, &job)?;
        Ok(session.push(&[update])?[0].refused)
    };
    assert_eq!(push(&one, update(Some(base), first, false))?, None);
    assert_eq!(
        push(&two, update(Some(base), second, false))?,
        Some(Refusal::Moved)
    );
    assert_eq!(
        push(&two, update(Some(first), second, false))?,
        Some(Refusal::NotForward)
    );
    assert_eq!(server.tip()?, first);
    assert_eq!(push(&two, update(Some(first), second, true))?, None);
    assert_eq!(server.tip()?, second);
    let bad = RefUpdate {
        key: "remote/../x".into(),
        ..update(None, first, true)
    };
    assert_eq!(push(&one, bad)?, Some(Refusal::BadName));
    server.is_sound()
}

#[test]
fn many_push_at_once_and_each_is_told_the_truth() -> Done {
    let server = Place::with_files(20, 5, 500)?;
    let base = server.tip()?;
    let mut pushing = Vec::new();
    for n in 0..4 {
        let (place, again) = (Place::new()?, server.again()?);
        pushing.push(std::thread::spawn(move || -> Result<usize, String> {
            let run = || -> Result<usize, Box<dyn Error>> {
                let job = Job::default();
                let (ours, theirs) = Link::pair();
                let asked_there = request("push from a peer");
                let serving = std::thread::spawn(move || {
                    serve(&again, theirs, Access::Write, &asked_there, &Job::default())
                });
                let mut session = Client::connect(&place.repo, ours, &job)?;
                // Another client may have moved the branch before.
                session.fetch(&tips(&session.offered))?;
                place.repo.note_remote(
                    "o",
                    &session.offered,
                    &Default::default(),
                    &request("x"),
                )?;
                place.write(&format!("f{n}"), &Rng::new(n).bytes(100_000))?;
                let tip = place.commit("mine")?;
                let own = RefUpdate {
                    key: format!("branch/own{n}"),
                    ..update(None, tip, false)
                };
                let moved = session.push(&[own, update(Some(base), tip, true)])?;
                session.finish(Vec::new());
                drop(serving.join());
                assert_eq!(moved[0].refused, None);
                Ok(usize::from(moved[1].refused.is_none()))
            };
            run().map_err(|e| e.to_string())
        }));
    }
    let mut won = 0;
    for thread in pushing {
        won += thread.join().map_err(|_| "a pusher panicked")??;
    }
    assert_eq!(
        won, 1,
        "one of them moved the branch, the others were told that they did not"
    );
    let refs = server.again()?.offered()?.refs;
    assert_eq!(refs.len(), 5, "{refs:?}");
    server.is_sound()
}

#[test]
fn who_may_only_read_moves_nothing() -> Done {
    let (server, client) = (Place::new()?, Place::with_files(5, 3, 100)?);
    let job = Job::default();
    let (ours, theirs) = Link::pair();
    serving(&server, theirs, Access::Read)?;
    let mut session = Client::connect(&client.repo, ours, &job)?;
    assert!(!session.may_push());
    let moved = session.push(&[update(None, client.tip()?, true)])?;
    assert_eq!(moved[0].refused, Some(Refusal::BadName));
    assert_eq!(server.objects()?, 0);
    assert!(server.repo.offered()?.refs.is_empty());
    Ok(())
}

#[test]
fn a_transfer_that_is_cut_again_and_again_ends_and_repeats_little() -> Done {
    cut_again_and_again(10 << 20, 600_000..3_000_000, 4)
}

#[test]
fn a_line_that_is_cut_within_every_frame_gets_on() -> Done {
    cut_again_and_again(6 << 20, 100_000..500_000, 15)
}

/// Takes a minute or two.
#[test]
#[ignore]
fn a_thousand_cuts() -> Done {
    cut_again_and_again(200 << 20, 50_000..350_000, 1000)
}

/// Transfers a large file and cuts the connection after a random number of bytes, until the
/// transfer is complete.
fn cut_again_and_again(large: usize, after: std::ops::Range<u64>, at_least: u64) -> Done {
    let theirs = Place::with_files(6, 60, 20_000)?;
    theirs.write("large", &Rng::new(7).bytes(large))?;
    let tip = theirs.commit("large")?;
    let whole = {
        let fresh = Place::new()?;
        let job = Job::default();
        let mut session = connect(&fresh.repo, &theirs, &job)?;
        session.fetch(&[tip])?;
        session.finish(Vec::new()).traffic.bytes_received
    };
    let ours = Place::new()?;
    let mut rng = Rng::new(8);
    let (passed, mut cuts) = (Arc::new(AtomicU64::new(0)), 0);
    loop {
        let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
        serving(&theirs, Link::over(up, to_us)?, Access::Read)?;
        let down = Cut {
            inner: down,
            left: after.start + rng.below(after.end - after.start),
            passed: passed.clone(),
        };
        let job = Job::default();
        let done = Client::connect(&ours.repo, Link::over(down, to_them)?, &job)
            .and_then(|mut session| session.fetch(&[tip]));
        match done {
            Ok(()) => break,
            Err(NetError::Closed) => cuts += 1,
            Err(e) => return Err(e.into()),
        }
        assert!(cuts < 5000);
    }
    assert!(cuts >= at_least, "{cuts}");
    let offered = OfferedRefs {
        head: None,
        refs: vec![("branch/main".into(), tip)],
    };
    ours.repo
        .note_remote("origin", &offered, &Default::default(), &request("fetch"))?;
    assert_eq!(files_of(&ours.repo, &tip)?, files_of(&theirs.repo, &tip)?);
    ours.is_sound()?;
    // After a cut, one frame, the Hello messages and the commits come again.
    let frame = if after.end < 1_000_000 {
        300_000
    } else {
        1_200_000
    };
    let allowed = whole + whole / 100 + cuts * frame;
    let came = passed.load(Ordering::Relaxed);
    let figures = format!("{came} bytes came for {whole}, with {cuts} cuts");
    writeln!(io::stdout(), "{figures}")?;
    assert!(came <= allowed, "{figures}");
    Ok(())
}

/// Objects that arrived before a cut were damaged on this side since then. The other side is not to
/// blame.
#[test]
fn damage_of_what_came_before_a_cut_is_this_sides() -> Done {
    let (theirs, ours, job) = (
        Place::with_files(1, 300, 100)?,
        Place::new()?,
        Job::default(),
    );
    let mut session = connect(&ours.repo, &theirs, &job)?;
    session.fetch(&[theirs.tip()?])?;
    session.finish(Vec::new());
    let packs = ours.again()?.store().packs();
    for pack in packs.iter().filter(|pack| pack.kind == PackKind::Meta) {
        let path = ours.repo.store().pack_path(pack.id);
        let mut bytes = std::fs::read(&path)?;
        // Trees lie between the first record and the index.
        let (from, to) = (bytes.len() / 4, bytes.len() / 2);
        bytes[from..to].iter_mut().for_each(|byte| *byte ^= 1);
        std::fs::write(&path, bytes)?;
    }
    let again = ours.again()?;
    let mut session = connect(&again, &theirs, &job)?;
    let refused = session.fetch(&[theirs.tip()?]);
    assert!(matches!(refused, Err(NetError::Repo(_))), "{refused:?}");
    Ok(())
}
