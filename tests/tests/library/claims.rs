//! Claims between repositories: who holds a path, what travels, undo, recovery, and pushes that keep to claims.

use dmv_core::claims::{
    ClaimSignature, DEVICE_BYTES, MAX_BOOK_BYTES, MAX_CLAIMS, MAX_LISTS, SignedList,
};
use dmv_core::hash::encode_hex;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    ClaimInfo, ClaimOptions, ClaimOutcome, Claimant, EndOptions, Peer, Refusal, Repo, ResetFiles,
    UndoOptions, UndoWhat,
};
use dmv_net::identity::DeviceKey;
use dmv_net::ops::{self, FetchOptions, Network, PushOptions, RefTip, Remote};
use dmv_net::session::{Client, Link, ReceivedClaims, serve};
use dmv_net::transport::Url;
use dmv_net::wire::Access;
use dmv_tests::garbage::set_keys;
use dmv_tests::peers::{Done, Place};
use dmv_tests::scratch::request;
use std::sync::Barrier;

/// A user with a device.
#[derive(Clone)]
struct User {
    name: &'static str,
    key: DeviceKey,
}

impl User {
    fn new(name: &'static str) -> User {
        let key = DeviceKey::generate();
        User { name, key }
    }
}

impl Claimant for User {
    fn known_device(&self) -> Option<[u8; DEVICE_BYTES]> {
        Some(*self.key.public().as_bytes())
    }

    fn device(&self) -> Result<[u8; DEVICE_BYTES], String> {
        Ok(*self.key.public().as_bytes())
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn sign(&self, statement: &[u8]) -> Result<ClaimSignature, String> {
        Ok(self.key.sign_claims(statement))
    }
}

/// A clone of a repository, and its user.
struct Desk {
    place: Place,
    user: User,
}

impl Desk {
    fn at(name: &'static str, nas: &Place) -> Done<Desk> {
        let desk = Desk {
            place: Place::new()?,
            user: User::new(name),
        };
        desk.fetch(nas)?;
        Ok(desk)
    }

    fn repo(&self) -> Done<Repo> {
        let repo = self.place.again()?;
        repo.claim_as(Box::new(self.user.clone()));
        Ok(repo)
    }

    fn claims(&self) -> Done<Vec<(String, String, &'static str)>> {
        let table = self.repo()?.claims()?;
        let told = |info: &ClaimInfo| (info.claim.path.to_string(), info.by.clone(), info.word());
        Ok(table.claims().iter().map(told).collect())
    }

    fn fetch(&self, nas: &Place) -> Done {
        let options = FetchOptions::new(remote(nas), request("fetch"));
        ops::fetch(&self.repo()?, &options, &caller(nas), &Job::default())?;
        Ok(())
    }

    fn claim(&self, nas: &Place, path: &str, takes: bool) -> Done<bool> {
        let report = ops::claim(
            &self.repo()?,
            &remote(nas),
            &options(path, takes),
            &caller(nas),
            &Job::default(),
        )?;
        assert!(report.is_known);
        let claims = self.claims()?;
        let own = claims
            .iter()
            .find(|claim| claim.0 == path && claim.1 == self.user.name);
        let is_claimed = matches!(report.outcome, ClaimOutcome::Claimed);
        assert_eq!(
            is_claimed,
            own.is_some_and(|claim| claim.2 == "held"),
            "{claims:?}"
        );
        Ok(is_claimed)
    }

    /// Claims without a connection.
    fn note(&self, path: &str) -> Done<bool> {
        let outcome = self.repo()?.claim(&options(path, false))?;
        Ok(matches!(outcome, ClaimOutcome::Claimed))
    }

    fn undo(&self, what: UndoWhat) -> Done {
        let options = UndoOptions {
            what,
            settings: Default::default(),
            request: request("undo"),
        };
        self.repo()?.undo(&options, &Job::default())?;
        Ok(())
    }
}

fn options(path: &str, takes: bool) -> ClaimOptions {
    ClaimOptions {
        paths: vec![RepoPath::parse(path.as_bytes()).expect("a path")],
        reason: "why".to_owned(),
        takes,
        request: request("claim"),
    }
}

fn remote(nas: &Place) -> Remote {
    Remote::new("nas", Url::Path(nas.dir.path().to_owned()))
}

fn caller(nas: &Place) -> Network {
    Network::new(request("from a desk")).with(remote(nas))
}

fn told(claims: &[(&str, &str, &'static str)]) -> Vec<(String, String, &'static str)> {
    let told = claims.iter();
    told.map(|(path, by, word)| ((*path).to_owned(), (*by).to_owned(), *word))
        .collect()
}

#[test]
fn of_three_that_claim_at_once_one_holds_the_path() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let desks = ["ada", "bob", "eve"].map(|name| Desk::at(name, &nas));
    let desks = desks.into_iter().collect::<Result<Vec<_>, _>>()?;
    for round in 0..5 {
        let path = format!("d0/f{round}");
        let start = Barrier::new(3);
        let claimed: Vec<bool> = std::thread::scope(|scope| {
            let threads = desks.iter().map(|desk| {
                scope.spawn(|| {
                    start.wait();
                    desk.claim(&nas, &path, false).map_err(|e| e.to_string())
                })
            });
            let threads: Vec<_> = threads.collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended
                .map(|end| end.expect("no panic"))
                .collect::<Result<_, _>>()
        })?;
        assert_eq!(
            claimed.iter().filter(|held| **held).count(),
            1,
            "{claimed:?}"
        );
        for desk in &desks {
            desk.fetch(&nas)?;
            let claims = desk.claims()?;
            let here: Vec<_> = claims.iter().filter(|claim| claim.0 == path).collect();
            assert_eq!(here.len(), 1, "{here:?}");
            assert_eq!(here[0].2, "held");
        }
    }
    Ok(())
}

#[test]
fn of_commands_that_claim_at_once_in_one_clone_none_loses_its_path() -> Done {
    let nas = Place::new()?;
    let desk = Desk::at("Ada", &nas)?;
    let repos = [desk.repo()?, desk.repo()?, desk.repo()?];
    let claim = |repo: &Repo, path: &str| match repo.claim(&options(path, false)) {
        Ok(ClaimOutcome::Claimed) => Ok(()),
        other => Err(format!("{path}: {other:?}")),
    };
    for n in 0..8 {
        let (together, claim) = (Barrier::new(repos.len()), &claim);
        std::thread::scope(|scope| {
            let each = repos.iter().enumerate().map(|(who, repo)| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    claim(repo, &format!("{who}-{n}"))
                })
            });
            let all: Vec<_> = each.collect();
            let mut all = all.into_iter();
            all.try_for_each(|one| one.join().expect("it does not panic"))
        })?;
    }
    assert_eq!(desk.claims()?.len(), 8 * repos.len());
    Ok(())
}

#[test]
fn a_claim_is_noted_offline_and_held_after_the_next_contact() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (ada, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    assert!(ada.note("d0")?);
    assert!(bob.note("d0/f0")?);
    assert_eq!(ada.claims()?, told(&[("d0", "ada", "noted")]));
    bob.fetch(&nas)?;
    assert_eq!(bob.claims()?, told(&[("d0/f0", "bob", "held")]));
    ada.fetch(&nas)?;
    let both = told(&[("d0", "ada", "noted"), ("d0/f0", "bob", "held")]);
    assert_eq!(ada.claims()?, both);
    assert!(!ada.claim(&nas, "d0/f0", false)?);
    assert!(ada.claim(&nas, "d0/f0", true)?);
    bob.fetch(&nas)?;
    let words: Vec<_> = bob.claims()?.iter().map(|claim| claim.2).collect();
    assert_eq!(words, ["noted", "taken", "held"]);
    Ok(())
}

#[test]
fn undo_takes_a_claim_back_everywhere_and_redo_makes_it_again() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (ada, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    assert!(ada.claim(&nas, "d0", false)?);
    assert!(ada.note("d1")?);
    ada.fetch(&nas)?;
    ada.undo(UndoWhat::Last)?;
    assert_eq!(ada.claims()?, told(&[("d0", "ada", "held")]));
    ada.undo(UndoWhat::Last)?;
    assert_eq!(ada.claims()?, []);
    bob.fetch(&nas)?;
    assert_eq!(bob.claims()?.len(), 2, "nobody has told him yet");
    ada.fetch(&nas)?;
    bob.fetch(&nas)?;
    assert_eq!(bob.claims()?, []);
    ada.undo(UndoWhat::LastUndo)?;
    ada.fetch(&nas)?;
    bob.fetch(&nas)?;
    assert_eq!(bob.claims()?, told(&[("d0", "ada", "held")]));
    Ok(())
}

#[test]
fn claims_survive_the_loss_of_the_database() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (ada, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    assert!(ada.claim(&nas, "d0", false)?);
    assert!(bob.claim(&nas, "d1", false)?);
    let before = bob.claims()?;
    for dir in [bob.place.dir.path(), nas.dir.path()] {
        std::fs::remove_file(dir.join(".dmv/refs.db"))?;
        let place = dmv_core::repo::discover(dir)?;
        dmv_core::repo::recover(&place, &Job::default())?;
    }
    assert_eq!(bob.claims()?, before);
    assert!(!bob.claim(&nas, "d0/f0", false)?);
    Ok(())
}

#[test]
fn a_repository_that_keeps_to_claims_refuses_other_versions_by_others() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (ada, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    nas.again()?.enforce_claims(true, &request("enforce"))?;
    assert!(ada.claim(&nas, "d0", false)?);
    for desk in [&bob, &ada] {
        let repo = desk.repo()?;
        let tip = repo.resolve("nas/main")?;
        let (settings, job) = (Default::default(), Job::default());
        repo.reset(tip, ResetFiles::Match, &request("reset"), &settings, &job)?;
    }
    let push = |desk: &Desk| -> Done<Option<Refusal>> {
        let repo = desk.repo()?;
        let tip = RefTip::branch("main", repo.resolve("main")?);
        let options = PushOptions::new(remote(&nas), vec![tip], request("push"));
        let report = ops::push(&repo, &options, &caller(&nas), &Job::default())?;
        Ok(report.moved.first().and_then(|moved| moved.refused))
    };
    bob.place.write("d1/f1", b"bob's")?;
    bob.place.commit("what nobody claims")?;
    assert_eq!(push(&bob)?, None);
    bob.place.write("d0/f0", b"bob's")?;
    bob.place.commit("what ada holds")?;
    assert_eq!(push(&bob)?, Some(Refusal::Held));
    assert!(bob.claim(&nas, "d0", true)?);
    assert_eq!(push(&bob)?, None);
    Ok(())
}

#[test]
fn claims_of_a_device_that_is_gone_are_ended_and_it_hears_it_if_it_comes_back() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (ada, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    for path in ["d0", "d1"] {
        assert!(ada.claim(&nas, path, false)?);
    }
    bob.fetch(&nas)?;
    let end = |paths: &[&str]| EndOptions {
        device: *ada.user.key.public().as_bytes(),
        paths: paths
            .iter()
            .map(|path| RepoPath::parse(path.as_bytes()).expect("a path"))
            .collect(),
        reason: "stolen".to_owned(),
        request: request("release"),
    };
    assert!(
        bob.repo()?.end_claims(&end(&["d2"])).is_err(),
        "there is none"
    );
    assert_eq!(bob.repo()?.end_claims(&end(&["d0"]))?.len(), 1);
    assert_eq!(bob.claims()?, told(&[("d1", "ada", "held")]));
    bob.undo(UndoWhat::Last)?;
    assert_eq!(bob.claims()?.len(), 2, "undo brings them back");
    bob.undo(UndoWhat::LastUndo)?;
    assert_eq!(bob.repo()?.end_claims(&end(&[]))?.len(), 1);
    bob.fetch(&nas)?;
    assert_eq!(nas.again()?.claims_here()?.held.iter().count(), 0);
    assert!(bob.claim(&nas, "d0", false)?);
    // The device is there after all: it hears it, and claims again what nobody else has.
    ada.fetch(&nas)?;
    let now = [
        ("d0", "ada", "ended"),
        ("d0", "bob", "held"),
        ("d1", "ada", "ended"),
    ];
    let mut claims = ada.claims()?;
    claims.sort();
    assert_eq!(claims, told(&now));
    let holder = |claims: &[ClaimInfo]| claims.iter().find_map(|info| info.behind.clone());
    let table = ada.repo()?.claims()?;
    assert_eq!(
        holder(table.claims()).map(|holder| holder.reason),
        Some("stolen".to_owned())
    );
    assert!(!ada.claim(&nas, "d0", false)?);
    assert!(ada.claim(&nas, "d1", false)?);
    let now = [("d0", "bob", "held"), ("d1", "ada", "held")];
    for desk in [&ada, &bob] {
        desk.fetch(&nas)?;
        assert_eq!(desk.claims()?, told(&now));
    }
    Ok(())
}

#[test]
fn claims_of_an_own_clone_that_was_deleted_are_ended_from_another_one() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (old, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    assert!(old.claim(&nas, "d0", false)?);
    let new = Desk {
        place: Place::new()?,
        user: old.user.clone(),
    };
    drop(old);
    new.fetch(&nas)?;
    assert!(new.claim(&nas, "d1", false)?);
    let all = EndOptions {
        device: *new.user.key.public().as_bytes(),
        paths: Vec::new(),
        reason: String::new(),
        request: request("release"),
    };
    let ended = new.repo()?.end_claims(&all)?;
    assert_eq!(ended.len(), 1, "what is claimed here stays");
    new.fetch(&nas)?;
    bob.fetch(&nas)?;
    assert_eq!(bob.claims()?, told(&[("d1", "ada", "held")]));
    assert!(bob.claim(&nas, "d0", false)?);
    Ok(())
}

#[test]
fn an_undo_does_nothing_where_the_list_before_cannot_be_read() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let ada = Desk::at("ada", &nas)?;
    assert!(ada.note("d0")?);
    let repo = ada.repo()?;
    let (key, mut value) = repo.refs().with_prefix("claims/list/")?.remove(0);
    let good = value.clone();
    value.truncate(value.len() / 2);
    set_keys(&repo, &[(&key, Some(value))])?;
    // It takes the place of the damaged one.
    set_keys(&repo, &[(&key, Some(good))])?;
    let made = ada.repo()?.refs().operations(1)?.remove(0);
    let undone = ada.undo(UndoWhat::Operation(encode_hex(&made.id)));
    assert!(undone.is_err(), "it would release everything");
    assert_eq!(ada.claims()?, told(&[("d0", "ada", "noted")]));
    Ok(())
}

#[test]
fn a_reader_tells_only_claims_of_devices_that_the_server_knows() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let ada = Desk::at("ada", &nas)?;
    assert!(ada.note("d0")?);
    let tell = || -> Done {
        let (repo, server, job) = (ada.repo()?, nas.again()?, Job::default());
        let (ours, theirs) = Link::pair();
        let served = std::thread::spawn(move || {
            let request = request("reader");
            serve(&server, theirs, Access::Read, &request, &Job::default()).map(drop)
        });
        let mut client = Client::connect(&repo, ours, &job)?;
        client.exchange_claims(Some("nas"), true, &request("fetch"))?;
        client.finish(Vec::new());
        Ok(served.join().expect("no panic")?)
    };
    tell()?;
    assert!(nas.again()?.claim_book()?.is_empty());
    let peer = Peer {
        key: ada.user.key.public(),
        name: "ada".to_owned(),
        access: dmv_core::repo::Access::Read,
    };
    nas.again()?.trust(&peer, request("trust"))?;
    tell()?;
    assert_eq!(nas.again()?.claim_book()?.lists().len(), 1);
    assert_eq!(ada.claims()?, told(&[("d0", "ada", "held")]));
    Ok(())
}

#[test]
fn what_a_peer_tells_is_checked_before_it_is_taken() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let ada = Desk::at("ada", &nas)?;
    assert!(ada.note("d0")?);
    let book = ada.repo()?.claim_book()?;
    let good = book
        .lists()
        .next()
        .map(SignedList::as_bytes)
        .ok_or("a list")?;
    assert!(ReceivedClaims::default().add(&[good.to_vec()]).is_ok());
    let (mut bad, mut later) = (good.to_vec(), good.to_vec());
    *bad.last_mut().ok_or("bytes")? ^= 1;
    later[0] = 2;
    assert!(ReceivedClaims::default().add(&[bad]).is_err());
    // Each of many good lists is checked, so there may not be too many, and not too much of them.
    let most = vec![good.to_vec(); MAX_LISTS];
    let mut received = ReceivedClaims::default();
    received.add(&most)?;
    assert!(received.add(&most[..1]).is_err());
    for n in 0..100 {
        let name = format!("{n:0>100}");
        ada.note(&vec![name; 9].join("/"))?;
    }
    let book = ada.repo()?.claim_book()?;
    let long = book.lists().next().ok_or("a list")?.as_bytes().to_vec();
    let fit = MAX_BOOK_BYTES / long.len();
    let mut received = ReceivedClaims::default();
    received.add(&vec![long.clone(); fit])?;
    assert!(received.add(&[long]).is_err());
    let mut received = ReceivedClaims::default();
    received.add(&[later])?;
    assert_eq!(
        received.into_lists(),
        [],
        "only later programs know what it says"
    );
    Ok(())
}

#[test]
fn a_record_of_claims_that_cannot_be_read_stops_nobody_and_is_told_again() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let (ada, bob) = (Desk::at("ada", &nas)?, Desk::at("bob", &nas)?);
    assert!(ada.claim(&nas, "d0", false)?);
    bob.fetch(&nas)?;
    type Damage<'d> = &'d dyn Fn(&mut Vec<u8>);
    let damage = |place: &Place, prefix: &str, change: Damage<'_>| -> Done {
        let repo = place.again()?;
        let found = repo.refs().with_prefix(prefix)?;
        assert!(!found.is_empty(), "{prefix}");
        for (key, mut value) in found {
            change(&mut value);
            set_keys(&repo, &[(&key, Some(value))])?;
        }
        Ok(())
    };
    let ends_early = |value: &mut Vec<u8>| value.truncate(value.len() / 2);
    let is_later = |value: &mut Vec<u8>| value[0] = 9;
    let changes: [Damage<'_>; 2] = [&ends_early, &is_later];
    for change in changes {
        damage(&nas, "claims/list/", change)?;
        bob.fetch(&nas)?;
        assert!(!bob.claim(&nas, "d0", false)?, "bob has heard of it before");
        ada.fetch(&nas)?;
        assert_eq!(told(&[("d0", "ada", "held")]), ada.claims()?);
        assert_eq!(nas.again()?.claims()?.claims().len(), 1);
        for prefix in ["claims/held/", "claims/at/"] {
            let place = if prefix == "claims/at/" {
                &ada.place
            } else {
                &nas
            };
            damage(place, prefix, change)?;
            ada.fetch(&nas)?;
            assert_eq!(told(&[("d0", "ada", "held")]), ada.claims()?);
        }
    }
    // The own list is not begun anew: others would take it for an old one.
    damage(&ada.place, "claims/list/", &ends_early)?;
    assert!(ada.repo()?.claim(&options("d1", false)).is_err());
    ada.fetch(&nas)?;
    assert!(ada.claim(&nas, "d1", false)?);
    Ok(())
}

#[test]
fn as_many_claims_as_a_repository_takes_are_held_and_survive() -> Done {
    let nas = Place::with_files(1, 5, 10)?;
    let names = ["ada", "bob", "eve", "joe"];
    let desks = names.map(|name| Desk::at(name, &nas));
    let desks = desks.into_iter().collect::<Result<Vec<_>, _>>()?;
    for desk in &desks {
        let path = |n: usize| format!("shots/scene-{:03}/{}-{n:04}.psd", n % 40, desk.user.name);
        let paths = (0..MAX_CLAIMS / 4).map(|n| RepoPath::parse(path(n).as_bytes()));
        let all = ClaimOptions {
            paths: paths.collect::<Result<_, _>>()?,
            ..options("a", false)
        };
        assert!(matches!(desk.repo()?.claim(&all)?, ClaimOutcome::Claimed));
        desk.fetch(&nas)?;
    }
    let ada = &desks[0];
    ada.fetch(&nas)?;
    assert_eq!(ada.claims()?.len(), MAX_CLAIMS);
    assert!(ada.claims()?.iter().all(|claim| claim.2 == "held"));
    assert!(ada.note("one more").is_err(), "there is no room");
    let dir = nas.dir.path();
    std::fs::remove_file(dir.join(".dmv/refs.db"))?;
    dmv_core::repo::recover(&dmv_core::repo::discover(dir)?, &Job::default())?;
    assert_eq!(nas.again()?.claims()?.claims().len(), MAX_CLAIMS);
    Ok(())
}
