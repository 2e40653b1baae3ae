//! Commands that change a bucket behind a proxy that loses, delays and refuses answers: they say that they
//! have happened, that they have not, or that nobody knows; and run again, they do nothing twice.
//!
//! `DMV_BUCKET_ANSWERS=1 cargo test -p dmv-cli --test program -- bucket::answers` tries all pairs, several at once:
//! most of the time a command waits before it tries again. `DMV_FROM` starts at a case.

// A test prints what it has done.
#![allow(clippy::print_stdout)]

use super::gateway::Gateway;
use super::proxy::{Fate, Proxy};
use super::{KEY, SECRET, note_remote, place};
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

const BUCKET: &str = "s3://film/x";

/// How many cases run at once if all are tried.
const AT_ONCE: usize = 8;

/// After so many cases a bucket is made anew.
const CASES_AT_A_BUCKET: usize = 25;

/// All fates of a request that writes the root.
const FATES: [Fate; 8] = [
    Fate::Ok,
    Fate::Lost,
    Fate::AnswerLost,
    Fate::Late,
    Fate::Refused(403),
    Fate::Refused(412),
    Fate::Refused(500),
    Fate::Refused(503),
];

/// A command, and how a place gets to where it has something to do.
struct Case {
    command: &'static [&'static str],
    prepare: fn(&Place, u32) -> Outcome,
    /// Whether each run adds one operation: it does not do more if it is run again.
    adds_one: bool,
}

fn commit(place: &Place, n: u32) -> Outcome {
    place.write("file", format!("text {n}"))?;
    place.commit(&n.to_string())?;
    Ok(())
}

fn pushed(place: &Place, n: u32) -> Outcome {
    commit(place, n)?;
    place.ok(&["push", "studio"])?;
    Ok(())
}

const CASES: [Case; 10] = [
    Case {
        command: &["push", "studio"],
        prepare: commit,
        adds_one: true,
    },
    Case {
        command: &["push", "studio", "v"],
        prepare: |place, n| {
            pushed(place, n)?;
            // There is none yet at first.
            place.run(&["push", "studio", "--force", "--delete", "v"])?;
            place.run(&["tag", "-d", "v"])?;
            place.ok(&["tag", "v"])?;
            Ok(())
        },
        adds_one: true,
    },
    Case {
        command: &["push", "studio", "--delete", "side", "--force"],
        prepare: |place, n| {
            pushed(place, n)?;
            place.run(&["branch", "-d", "side"])?;
            place.ok(&["branch", "side"])?;
            place.ok(&["push", "studio", "side"])?;
            Ok(())
        },
        adds_one: true,
    },
    Case {
        command: &["push", "studio", "--force"],
        prepare: |place, n| {
            pushed(place, n)?;
            place.ok(&["reset", "--hard", "@~1"])?;
            commit(place, 1000 + n)
        },
        adds_one: true,
    },
    Case {
        command: &["undo", "--at", "studio"],
        prepare: |place, n| {
            pushed(place, 2 * n)?;
            pushed(place, 2 * n + 1)
        },
        adds_one: true,
    },
    Case {
        command: &["redo", "--at", "studio"],
        prepare: |place, n| {
            pushed(place, 2 * n)?;
            pushed(place, 2 * n + 1)?;
            place.ok(&["undo", "--at", "studio"])?;
            place.ok(&["undo", "--at", "studio"])?;
            Ok(())
        },
        adds_one: true,
    },
    Case {
        command: &["gc", "--at", "studio", "--grace", "0"],
        prepare: |place, n| {
            pushed(place, n)?;
            stray(place)
        },
        // The next one lets go again what could not be deleted.
        adds_one: false,
    },
    Case {
        command: &["repack", "--at", "studio"],
        prepare: |place, n| {
            for n in 10 * n..10 * n + 9 {
                pushed(place, n)?;
            }
            Ok(())
        },
        // Both attempts may have made a pack: what one of them has made goes.
        adds_one: false,
    },
    Case {
        command: &[
            "purge", "secret", "--reason", "leaked", "--at", "studio", "-y",
        ],
        prepare: |place, n| {
            place.write("secret", format!("key {n}"))?;
            pushed(place, n)?;
            fs::remove_file(place.work().join("secret"))?;
            pushed(place, n)
        },
        adds_one: false,
    },
    Case {
        command: &["recover", "--at", "studio", "--use", "STATE"],
        prepare: |place, n| {
            pushed(place, n)?;
            fs::remove_file(files(place)?.join("root"))?;
            Ok(())
        },
        adds_one: false,
    },
];

/// The directory of the repository in the bucket, which the test has noted.
fn files(place: &Place) -> Outcome<std::path::PathBuf> {
    Ok(fs::read_to_string(place.home().join("bucket"))?.into())
}

/// Puts a file into the bucket that no root names.
fn stray(place: &Place) -> Outcome {
    for entry in fs::read_dir(files(place)?)? {
        let path = entry?.path();
        if path.is_dir() {
            let file = path.join("0123456789abcdef0123456789abcdef");
            fs::write(&file, "stray")?;
            // A file of this second is too young.
            let old = SystemTime::now() - Duration::from_secs(3600);
            fs::File::options()
                .write(true)
                .open(&file)?
                .set_modified(old)?;
        }
    }
    Ok(())
}

/// A store, the proxy before it, and a repository with a bucket there.
struct Site {
    place: Place,
    proxy: Proxy,
    _gateway: Gateway,
    cases: usize,
}

impl Site {
    /// `None`: there is no server.
    fn start() -> Outcome<Option<Site>> {
        let Some(gateway) = Gateway::start(KEY, SECRET)? else {
            return Ok(None);
        };
        let proxy = Proxy::start(&gateway.endpoint)?;
        let place = behind(&gateway, &proxy)?;
        Ok(Some(Site {
            place,
            proxy,
            _gateway: gateway,
            cases: 0,
        }))
    }
}

/// A repository whose bucket is behind the proxy.
fn behind(gateway: &Gateway, proxy: &Proxy) -> Outcome<Place> {
    let place = place()?;
    let bucket = gateway.path("film").join("x");
    fs::write(
        place.home().join("bucket"),
        bucket.to_string_lossy().as_bytes(),
    )?;
    commit(&place, 0)?;
    note_remote(&place, "studio", BUCKET, &proxy.endpoint())?;
    place.ok(&["push", "studio"])?;
    Ok(place)
}

/// The ids of the operations at the bucket; none if its root is lost.
fn operations(place: &Place) -> Outcome<Vec<String>> {
    let done = place.run(&["op", "log", "--at", "studio", "--json"])?;
    let text = String::from_utf8(done.stdout)?;
    let records = text.lines().map(serde_json::from_str::<Value>);
    let ids = records.map(|record| Ok(record?["id"].as_str().unwrap_or_default().to_owned()));
    ids.collect()
}

/// The command, with the state that `recover` shows.
fn words(place: &Place, case: &Case) -> Outcome<Vec<String>> {
    let mut words: Vec<String> = case.command.iter().map(|word| (*word).to_owned()).collect();
    if case.command[0] == "recover" {
        let found = place.run(&["recover", "--at", "studio", "--json"])?;
        let found: Value = serde_json::from_slice(&found.stdout)?;
        let id = found["states"][0]["id"].as_str().ok_or("a state")?;
        *words.last_mut().ok_or("a word")? = id.to_owned();
    }
    Ok(words)
}

/// Runs a command with these fates of its writes of the root, and of all other requests after so many.
fn run_case(site: &Site, case: &Case, n: u32, plan: &Plan) -> Outcome {
    let Site { place, proxy, .. } = site;
    let Plan { writes, others } = plan;
    (case.prepare)(place, n)?;
    let words = words(place, case)?;
    let before = operations(place)?;
    proxy.plan(writes, *others);
    let done = place.run(&words)?;
    let said = String::from_utf8(done.stderr)?;
    let exit = done.status.code();
    let at = |what: &str| format!("{words:?} {writes:?} {others:?}: {what}: {exit:?} {said}");
    let named = operation_in(&said);
    proxy.pass()?;
    let after = operations(place)?;
    let added = after.len() as i64 - before.len() as i64;
    match (exit, &named) {
        (Some(0), _) => assert!(added >= 1, "{}", at("it claims that it has happened")),
        (Some(13), Some(_)) => {
            assert!(said.contains("hint: dmv op log --at "), "{}", at("no hint"));
            let may_be = |fate: &Fate| !matches!(fate, Fate::Ok | Fate::Refused(403));
            assert!(writes.iter().any(may_be), "{}", at("all is known"));
        }
        // A purge has several roots, and its own report of what is left.
        _ if case.command[0] == "purge" => {}
        // It has happened, and says that files are left to delete.
        (Some(3), _) => assert!(added >= 1, "{}", at("it claims that it has happened")),
        _ => assert_eq!(added, 0, "{}", at("it claims that it has not happened")),
    }
    if exit != Some(0) {
        // The same command again does it, or says that it has happened.
        let again = place.run(&words)?;
        let told = String::from_utf8(again.stderr)?;
        assert_eq!(again.status.code(), Some(0), "{}, then {told}", at("again"));
        let done = operations(place)?.len() as i64 - before.len() as i64;
        assert!(
            done <= 1 || !case.adds_one,
            "{}",
            at(&format!("{done} times, then {told}"))
        );
    }
    place.ok(&["verify", "--at", "studio"])?;
    place.ok(&["fetch", "studio"])?;
    place.run(&["push", "studio", "--force"])?;
    Ok(())
}

/// The operation that a message names whose end is not known.
fn operation_in(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("it is not known whether operation ")?;
    let id: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    (id.len() == 12).then_some(id)
}

/// What becomes of the writes of a command, and from which write on of everything else.
#[derive(Debug)]
struct Plan {
    writes: Vec<Fate>,
    others: Option<(usize, Fate)>,
}

/// Pairs that tell most; with the variable, all.
fn pairs() -> Vec<Plan> {
    let plan = |writes: &[Fate], others| Plan {
        writes: writes.to_vec(),
        others,
    };
    let no_more = |n| Some((n, Fate::Refused(403)));
    if tries_all() {
        let mut all = Vec::new();
        for first in FATES {
            all.push(plan(&[first], no_more(1)));
            for second in FATES {
                all.push(plan(&[first, second], None));
                all.push(plan(&[first, second], no_more(2)));
            }
        }
        return all;
    }
    vec![
        plan(&[Fate::AnswerLost], no_more(1)),
        plan(&[Fate::Late], no_more(1)),
        plan(&[Fate::Late, Fate::Refused(403)], None),
        plan(&[Fate::Refused(403)], None),
        plan(&[Fate::Refused(412), Fate::Lost], None),
    ]
}

/// A command, and what becomes of its requests.
struct Work {
    case: &'static Case,
    plan: Plan,
}

/// All that is tried. By default each command meets one of the plans, and each plan some of the commands.
fn all_work() -> Vec<Work> {
    let mut work = Vec::new();
    for (turn, case) in CASES.iter().enumerate() {
        for (number, plan) in pairs().into_iter().enumerate() {
            if tries_all() || number == 2 * turn % 5 {
                work.push(Work { case, plan });
            }
        }
    }
    work
}

fn tries_all() -> bool {
    std::env::var("DMV_BUCKET_ANSWERS").is_ok()
}

/// Does one case after another until none is left. Notes what is wrong, and goes on with a new bucket.
fn work_off(work: &[Work], next: &AtomicUsize, wrong: &Mutex<Vec<String>>) -> Result<(), String> {
    let told = |e: Box<dyn std::error::Error>| e.to_string();
    let mut site = None;
    loop {
        let n = next.fetch_add(1, Ordering::SeqCst);
        let Some(Work { case, plan }) = work.get(n) else {
            return Ok(());
        };
        let mut at = match site.take() {
            Some(site) => site,
            None => Site::start().map_err(told)?.ok_or("no server")?,
        };
        let number = u32::try_from(n).expect("there are few cases") + 1;
        let run = || run_case(&at, case, number, plan).map_err(told);
        let ended = catch_unwind(AssertUnwindSafe(run));
        let failure = match ended {
            Ok(Ok(())) => {
                at.cases += 1;
                site = (at.cases < CASES_AT_A_BUCKET).then_some(at);
                continue;
            }
            Ok(Err(e)) => e,
            Err(panic) => match panic.downcast::<String>() {
                Ok(said) => *said,
                Err(_) => "it panicked".to_owned(),
            },
        };
        let failure = format!("DMV_FROM={n}: {:?} {plan:?}: {failure}", case.command);
        wrong
            .lock()
            .expect("no thread panics with it")
            .push(failure);
    }
}

#[test]
fn commands_tell_the_truth_whatever_becomes_of_their_answers() -> Outcome {
    if Site::start()?.is_none() {
        return Ok(());
    }
    let work = all_work();
    let from = std::env::var("DMV_FROM").ok().and_then(|n| n.parse().ok());
    let from: usize = from.unwrap_or_default();
    let (next, wrong) = (AtomicUsize::new(from), Mutex::new(Vec::new()));
    let at_once = if tries_all() { AT_ONCE } else { 2 };
    std::thread::scope(|threads| {
        let run = || threads.spawn(|| work_off(&work, &next, &wrong));
        let all: Vec<_> = (0..at_once).map(|_| run()).collect();
        let mut ended = all.into_iter().map(|one| one.join());
        ended.try_for_each(|one| one.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })?;
    let wrong = wrong.into_inner()?;
    let count = work.len() - from;
    println!("harness answers: {count} cases, {} wrong", wrong.len());
    for failure in &wrong {
        println!("FAILED {failure}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn an_undo_without_an_answer_takes_back_one_push_and_names_both_operations() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let proxy = Proxy::start(&gateway.endpoint)?;
    let place = behind(&gateway, &proxy)?;
    pushed(&place, 1)?;
    let first = operations(&place)?;
    pushed(&place, 2)?;
    let pushed_last = operations(&place)?[0].clone();
    proxy.plan(&[Fate::AnswerLost], Some((1, Fate::Refused(403))));
    let said = place.fails(13, &["undo", "--at", "studio"])?;
    let id = operation_in(&said).ok_or_else(|| said.clone())?;
    assert!(
        said.contains(&format!("undoes operation {}", &pushed_last[..12])),
        "{said}"
    );
    let still = place.fails(12, &["undo", "--at", "studio"])?;
    assert!(still.contains("denies access"), "{still}");
    proxy.pass()?;
    let done = place.json(&["undo", "--at", "studio", "--json"])?;
    assert!(
        done["id"]
            .as_str()
            .is_some_and(|full| full.starts_with(&id)),
        "{done}"
    );
    assert_eq!(done["undone"].as_str(), Some(&pushed_last[..]));
    assert_eq!(operations(&place)?.len(), first.len() + 2);
    // The next one is another one.
    let done = place.json(&["undo", "--at", "studio", "--json"])?;
    assert_eq!(done["undone"].as_str(), Some(&first[0][..]));
    Ok(())
}

#[test]
fn a_push_by_force_without_an_answer_does_not_take_back_what_others_have_pushed_since() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let proxy = Proxy::start(&gateway.endpoint)?;
    let place = behind(&gateway, &proxy)?;
    pushed(&place, 1)?;
    place.ok(&["reset", "--hard", "@~1"])?;
    commit(&place, 2)?;
    proxy.plan(&[Fate::AnswerLost], Some((1, Fate::Refused(403))));
    place.fails(13, &["push", "studio", "--force"])?;
    proxy.pass()?;
    let bob = super::push::clone(&gateway, BUCKET)?;
    bob.write("of-bob", "text")?;
    let tip = bob.commit("of bob")?;
    bob.ok(&["push"])?;
    place.ok(&["push", "studio", "--force"])?;
    let eve = super::push::clone(&gateway, BUCKET)?;
    assert_eq!(crate::place::several::tip(&eve, ".", "@")?, tip);
    Ok(())
}

#[test]
fn the_test_before_a_first_push_survives_lost_answers() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let proxy = Proxy::start(&gateway.endpoint)?;
    let ada = behind(&gateway, &proxy)?;
    let endpoint = proxy.endpoint();
    // The tests of `dmv_bucket::store::probe` lose the answers to every request.
    for (fate, at) in [(Fate::Lost, 0), (Fate::AnswerLost, 3), (Fate::Late, 0)] {
        let copy = format!("copy-{fate:?}");
        ada.ok(&["clone", BUCKET, &copy, "--endpoint", &endpoint])?;
        ada.write(format!("{copy}/file-{fate:?}"), copy.as_bytes())?;
        ada.ok(&["-C", &copy, "commit", "-m", "next"])?;
        let mut probes = vec![Fate::Ok; at];
        probes.extend([fate, fate]);
        proxy.plan_probes(&probes);
        ada.ok(&["-C", &copy, "push"])?;
        proxy.pass()?;
    }
    Ok(())
}
