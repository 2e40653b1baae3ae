//! Claims: what peers agree on, and what is refused.

use super::*;
use crate::object::codec::{put_bytes, put_varint};
use dmv_random::{Rng, number, seed};
use ed25519_dalek::{Signer, SigningKey};
use std::collections::BTreeSet;

fn key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

fn writer(n: u8) -> Writer {
    Writer {
        device: key(n).verifying_key().to_bytes(),
        place: [n; PLACE_BYTES],
    }
}

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text.as_bytes()).expect("a path")
}

fn claim(at: &str, time: u64) -> Claim {
    Claim {
        path: path(at),
        branch: "main".to_owned(),
        base: None,
        version: None,
        takes: false,
        time,
        since: 0,
        reason: String::new(),
    }
}

fn signed(list: ClaimList, n: u8) -> SignedList {
    let statement = list.statement().expect("it keeps to the limits");
    SignedList::new(list, &key(n).sign(&statement).to_bytes()).expect("it is signed")
}

fn list(n: u8, number: u64, claims: Vec<Claim>) -> SignedList {
    let (writer, by) = (writer(n), format!("user {n}"));
    let list = ClaimList {
        writer,
        number,
        by,
        claims,
        endings: Vec::new(),
    };
    signed(list, n)
}

fn book(lists: &[SignedList]) -> ClaimBook {
    let mut book = ClaimBook::default();
    for list in lists {
        book.join(list.clone()).expect("there is room");
    }
    book
}

fn holders(book: &ClaimBook, before: &HeldClaims) -> Vec<(u8, String)> {
    let of = |claim: &ClaimRef| (claim.writer.place[0], claim.path.to_string());
    let mut all: Vec<_> = settle(book, before).iter().map(of).collect();
    all.sort();
    all
}

#[test]
fn the_greater_number_replaces_a_list_as_a_whole() {
    let (old, new) = (
        list(1, 1, vec![claim("a", 1)]),
        list(1, 2, vec![claim("b", 2)]),
    );
    for lists in [[old.clone(), new.clone()], [new.clone(), old.clone()]] {
        assert_eq!(book(&lists), book(std::slice::from_ref(&new)));
    }
    let mut known = book(&[new]);
    assert_eq!(known.join(old), Ok(false), "an old list comes again");
}

#[test]
fn of_two_lists_with_one_number_all_take_the_same() {
    let (a, b) = (
        list(1, 1, vec![claim("a", 1)]),
        list(1, 1, vec![claim("b", 1)]),
    );
    assert_eq!(book(&[a.clone(), b.clone()]), book(&[b, a]));
}

#[test]
fn the_first_of_two_devices_holds_a_common_path() {
    for (one, two) in [("a/b", "a/b"), ("a", "a/b"), ("a/b", "a")] {
        let known = book(&[
            list(1, 1, vec![claim(one, 5)]),
            list(2, 1, vec![claim(two, 4)]),
        ]);
        let first = holders(&known, &HeldClaims::default());
        assert_eq!(first, [(2, two.to_owned())], "{one} {two}");
        let before = settle(
            &book(&[list(1, 1, vec![claim(one, 5)])]),
            &HeldClaims::default(),
        );
        let first = holders(&known, &before);
        assert_eq!(first, [(1, one.to_owned())], "what holds goes on to hold");
    }
    let known = book(&[
        list(1, 1, vec![claim("a", 1), claim("ab", 1)]),
        list(2, 1, vec![claim("a.b", 1), claim("aa", 1)]),
    ]);
    assert_eq!(
        holders(&known, &HeldClaims::default()).len(),
        4,
        "no path is common"
    );
}

#[test]
fn a_device_never_excludes_itself() {
    let mut second = list(1, 1, vec![claim("a/b", 2)]).list().clone();
    second.writer.place = [9; PLACE_BYTES];
    let known = book(&[list(1, 1, vec![claim("a", 1)]), signed(second, 1)]);
    assert_eq!(holders(&known, &HeldClaims::default()).len(), 2);
}

#[test]
fn whoever_takes_over_has_a_later_time() {
    let take = |time| Claim {
        takes: true,
        ..claim("a", time)
    };
    let ada = list(1, 1, vec![claim("a", 5)]);
    let before = settle(&book(std::slice::from_ref(&ada)), &HeldClaims::default());
    for (time, holder) in [(4, 1), (5, 1), (6, 2)] {
        let known = book(&[ada.clone(), list(2, 1, vec![take(time)])]);
        assert_eq!(holders(&known, &before)[0].0, holder, "{time}");
    }
    // Once taken over, the first one does not come back by itself, but after a release.
    let known = book(&[ada.clone(), list(2, 1, vec![take(6)])]);
    let held = settle(&known, &before);
    assert_eq!(holders(&known, &held), [(2, "a".to_owned())]);
    let known = book(&[ada, list(2, 2, Vec::new())]);
    assert_eq!(holders(&known, &held), [(1, "a".to_owned())]);
}

#[test]
fn every_changed_bit_and_every_cut_of_a_list_is_noticed() {
    let good = list(1, 3, vec![claim("a", 1), claim("b/c", 2)]);
    for bit in 0..good.as_bytes().len() * 8 {
        let mut bad = good.as_bytes().to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(SignedList::decode(&bad).is_err(), "bit {bit}");
    }
    for len in 0..good.as_bytes().len() {
        assert!(SignedList::decode(&good.as_bytes()[..len]).is_err());
    }
    let longer = [good.as_bytes(), &[0]].concat();
    assert!(SignedList::decode(&longer).is_err());
}

/// A list in bytes that its device has signed, with one claim whose fields are given.
fn raw(fields: &[&[u8]]) -> Vec<u8> {
    let w = writer(1);
    let mut body = vec![1];
    body.extend(w.device);
    body.extend(w.place);
    put_varint(&mut body, 1);
    put_bytes(&mut body, b"user");
    put_varint(&mut body, 1);
    fields
        .iter()
        .for_each(|field| body.extend_from_slice(field));
    let statement = [DOMAIN.as_bytes(), b"\n", &body].concat();
    body.extend(key(1).sign(&statement).to_bytes());
    body
}

fn raw_claim(path: &[u8], flags: u8, branch: &[u8], time: u64, reason: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, path);
    out.push(flags);
    put_bytes(&mut out, branch);
    put_varint(&mut out, time);
    out.extend([0; 8]);
    put_bytes(&mut out, reason);
    out
}

#[test]
fn signed_lists_that_break_a_rule_are_refused() {
    let good = raw_claim(b"a/b", 4, b"main", 1, b"why");
    assert!(SignedList::decode(&raw(&[&good])).is_ok());
    let bad = [
        raw_claim(b"", 0, b"", 1, b""),
        raw_claim(b"..", 0, b"", 1, b""),
        raw_claim(b"a/../b", 0, b"", 1, b""),
        raw_claim(b"/a", 0, b"", 1, b""),
        raw_claim(b"a/", 0, b"", 1, b""),
        raw_claim(b"a//b", 0, b"", 1, b""),
        raw_claim(b"a\0b", 0, b"", 1, b""),
        raw_claim(b".dmv/x", 0, b"", 1, b""),
        raw_claim(&[b'a'; 300], 0, b"", 1, b""),
        raw_claim(b"a", 8, b"", 1, b""),
        raw_claim(b"a", 1, b"", 1, b""),
        raw_claim(b"a", 0, b"\x1b[2J", 1, b""),
        raw_claim(b"a", 0, &[b'b'; 256], 1, b""),
        raw_claim(b"a", 0, b"", 0, b""),
        raw_claim(b"a", 0, b"", MAX_TIME + 1, b""),
        raw_claim(b"a", 0, b"", 1, b"two\nlines"),
        raw_claim(b"a", 0, b"", 1, b"\xff"),
        raw_claim(b"a", 0, b"", 1, &[b'r'; MAX_REASON_BYTES + 1]),
        [good.clone(), good].concat(),
    ];
    for (n, bad) in bad.iter().enumerate() {
        assert!(SignedList::decode(&raw(&[bad])).is_err(), "{n}");
    }
    let longest = raw_claim(b"a", 0, &[b'b'; 255], MAX_TIME, &[b'r'; MAX_REASON_BYTES]);
    assert!(SignedList::decode(&raw(&[&longest])).is_ok());
}

#[test]
fn a_list_of_a_foreign_key_is_refused() {
    let mut foreign = list(1, 1, vec![claim("a", 1)]).list().clone();
    foreign.writer.device = writer(2).device;
    let statement = foreign.statement().expect("it keeps to the limits");
    let signature = key(1).sign(&statement).to_bytes();
    assert!(SignedList::new(foreign, &signature).is_err());
}

#[test]
fn a_signature_of_claims_is_none_of_a_commit() {
    let list = list(1, 1, vec![claim("a", 1)]).list().clone();
    let statement = list.statement().expect("it keeps to the limits");
    let commit = [b"dmv-commit-1".as_slice(), &statement[DOMAIN.len()..]].concat();
    let signature = key(1).sign(&commit).to_bytes();
    assert!(SignedList::new(list, &signature).is_err());
}

#[test]
fn a_book_keeps_to_its_limits() {
    let many = |n: u8, number, claims: usize| {
        let claims = (0..claims).map(|at| claim(&format!("{at:04}"), 1));
        list(n, number, claims.collect())
    };
    let mut full = book(&[many(1, 1, MAX_CLAIMS)]);
    assert_eq!(full.join(many(2, 1, 1)), Err(BookError::Claims));
    assert_eq!(full.join(many(2, 1, 0)), Ok(true));
    assert_eq!(full.join(many(1, 2, MAX_CLAIMS - 1)), Ok(true));
    assert_eq!(full.join(many(2, 2, 1)), Ok(true));
    let before = full.clone();
    assert_eq!(full.join(many(1, 3, MAX_CLAIMS)), Err(BookError::Claims));
    assert_eq!(full, before, "what was refused changes nothing");
    // One device has so many lists and no more, and others have room beside it.
    let mut of_one = ClaimBook::default();
    for place in 0..=MAX_LISTS_OF_DEVICE {
        let place = [place as u8; PLACE_BYTES];
        let writer = Writer { place, ..writer(1) };
        let list = ClaimList {
            writer,
            number: 1,
            by: String::new(),
            claims: vec![claim(&format!("{}", place[0]), 1)],
            endings: Vec::new(),
        };
        let has_room = usize::from(writer.place[0]) < MAX_LISTS_OF_DEVICE;
        let taken = of_one.join(signed(list, 1));
        assert_eq!(taken, has_room.then_some(true).ok_or(BookError::Clones));
    }
    assert_eq!(of_one.join(many(2, 1, 1)), Ok(true));
}

/// A list of the first device in a clone.
fn in_clone(place: usize, number: u64, claims: &[&str]) -> SignedList {
    let mut bytes = [0; PLACE_BYTES];
    bytes[..2].copy_from_slice(&[(place >> 8) as u8, place as u8]);
    let claims = claims.iter().map(|at| claim(at, 1)).collect();
    let list = ClaimList {
        writer: Writer {
            place: bytes,
            ..writer(1)
        },
        number,
        by: String::new(),
        claims,
        endings: Vec::new(),
    };
    signed(list, 1)
}

#[test]
fn lists_that_claim_nothing_make_room_for_others() {
    let mut of_one = ClaimBook::default();
    let used = 1000;
    for place in 0..used {
        // A clone claims, releases and is deleted.
        for claims in [&["a"][..], &[]] {
            let writer = in_clone(place, 1, claims).list().writer;
            let number = of_one.next_list(writer).number;
            assert_eq!(of_one.join(in_clone(place, number, claims)), Ok(true));
        }
    }
    let all: Vec<u64> = of_one.lists().map(|list| list.list().number).collect();
    let newest = (2 * used as u64 - 126..=2 * used as u64).step_by(2);
    assert_eq!(all, newest.collect::<Vec<_>>());
    // Somebody who still has the forgotten lists tells them in vain, and both books stay as they are.
    let before = of_one.clone();
    for place in 0..used - MAX_LISTS_OF_DEVICE {
        assert_eq!(
            of_one.join(in_clone(place, 2 * place as u64 + 2, &[])),
            Ok(false)
        );
    }
    assert_eq!(of_one, before);
    // A list with a claim stays, and so does one that has ended something. Where all claim, there is no room.
    for place in 0..MAX_LISTS_OF_DEVICE {
        let list = in_clone(2000 + place, 5000 + place as u64, &["b"]);
        assert_eq!(of_one.join(list), Ok(true));
    }
    let one_more = in_clone(3000, 9000, &["b"]);
    assert_eq!(of_one.join(one_more.clone()), Err(BookError::Clones));
    // Claims that somebody has ended make room, too.
    let mut ends = list(2, 1, Vec::new()).list().clone();
    ends.end(ClaimEnding {
        device: writer(1).device,
        ..ending("b", 1, 2)
    });
    assert_eq!(of_one.join(signed(ends, 2)), Ok(true));
    assert_eq!(of_one.join(one_more), Ok(true));
    assert_eq!(
        of_one
            .lists()
            .filter(|list| list.list().writer.device == writer(1).device)
            .count(),
        MAX_LISTS_OF_DEVICE
    );

    // Many devices with empty lists use nothing up.
    let mut of_all = ClaimBook::default();
    let other = |n: usize| {
        let mut key = [9; 32];
        key[..2].copy_from_slice(&[(n >> 8) as u8, n as u8]);
        let key = SigningKey::from_bytes(&key);
        let writer = Writer {
            device: key.verifying_key().to_bytes(),
            place: [1; PLACE_BYTES],
        };
        let mut list = ClaimList::before_the_first(writer);
        list.number = 7;
        let statement = list.statement().expect("it keeps to the limits");
        SignedList::new(list, &key.sign(&statement).to_bytes()).expect("it is signed")
    };
    for n in 0..MAX_LISTS {
        assert_eq!(of_all.join(other(n)), Ok(true));
    }
    assert_eq!(of_all.join(list(1, 1, vec![claim("a", 1)])), Ok(true));
    assert_eq!(of_all.lists().len(), MAX_LISTS);
}

#[test]
fn a_time_that_nobody_could_come_after_is_left_out() {
    let before = book(&[list(1, 1, vec![claim("a", 7)])]);
    let latest = 7 + MAX_TIME_AHEAD;
    let too_late = list(2, 1, vec![claim("b", 8), claim("c", latest + 1)]);
    assert_eq!(before.with_room_for([too_late]), before);
    let last = list(2, 1, vec![claim("b", latest)]);
    assert_eq!(before.with_room_for([last]).last_time(), latest);
}

#[test]
fn held_claims_have_one_encoding() {
    let known = book(&[
        list(1, 1, vec![claim("a", 1), claim("a/b", 1)]),
        list(2, 1, vec![claim("c", 1)]),
    ]);
    let held = settle(&known, &HeldClaims::default());
    let bytes = held.encode();
    assert_eq!(HeldClaims::decode(&bytes), Ok(held));
    for len in 0..bytes.len() {
        assert!(HeldClaims::decode(&bytes[..len]).is_err(), "{len}");
    }
    assert!(HeldClaims::decode(&[&bytes[..], &[0]].concat()).is_err());
    assert!(HeldClaims::decode(&[2, 0]).is_err(), "a later version");
}

fn ending(at: &str, of: u8, time: u64) -> ClaimEnding {
    ClaimEnding {
        path: path(at),
        device: writer(of).device,
        time,
        since: 0,
        reason: String::new(),
    }
}

fn with_endings(n: u8, number: u64, endings: Vec<ClaimEnding>) -> SignedList {
    let list = list(n, number, Vec::new()).list().clone();
    signed(ClaimList { endings, ..list }, n)
}

#[test]
fn what_was_ended_holds_no_longer_until_it_is_claimed_again() {
    let ada = list(1, 1, vec![claim("a", 5), claim("b", 5)]);
    let before = settle(&book(std::slice::from_ref(&ada)), &HeldClaims::default());
    for (time, rest) in [(5, vec!["a", "b"]), (6, vec!["b"])] {
        let known = book(&[ada.clone(), with_endings(2, 1, vec![ending("a", 1, time)])]);
        let held = holders(&known, &before);
        let rest: Vec<_> = rest.into_iter().map(|at| (1, at.to_owned())).collect();
        assert_eq!(held, rest, "{time}");
    }
    // Nobody ends a claim above or below, or one of another device, and nobody his own.
    for other in [ending("a/x", 1, 6), ending("a", 3, 6), ending("ab", 1, 6)] {
        let known = book(&[ada.clone(), with_endings(2, 1, vec![other])]);
        assert_eq!(holders(&known, &before).len(), 2);
    }
    let mut own = ada.list().clone();
    own.endings = vec![ending("a", 1, 6)];
    own.number = 2;
    assert_eq!(holders(&book(&[signed(own, 1)]), &before).len(), 2);
    // The device is alive and claims again.
    let ended = with_endings(2, 1, vec![ending("a", 1, 6)]);
    let known = book(&[list(1, 2, vec![claim("a", 7)]), ended.clone()]);
    assert_eq!(holders(&known, &before), [(1, "a".to_owned())]);
    // Somebody else has the path now, and his claim is later than the end.
    let known = book(&[ada, ended, list(3, 1, vec![claim("a", 7)])]);
    let held = settle(&known, &before);
    assert_eq!(
        holders(&known, &held),
        [(1, "b".to_owned()), (3, "a".to_owned())]
    );
    assert_eq!(known.last_time(), 7);
}

#[test]
fn ended_claims_have_one_encoding() {
    let good = with_endings(
        1,
        4,
        vec![ending("a", 2, 9), ending("a", 3, 9), ending("b", 2, 8)],
    );
    assert_eq!(SignedList::decode(good.as_bytes()), Ok(good.clone()));
    assert_eq!(book(std::slice::from_ref(&good)).last_time(), 9);
    for bit in (0..good.as_bytes().len() * 8).step_by(7) {
        let mut bad = good.as_bytes().to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(SignedList::decode(&bad).is_err(), "bit {bit}");
    }
    let refused = |endings: Vec<ClaimEnding>| {
        let list = good.list().clone();
        ClaimList { endings, ..list }.statement().is_err()
    };
    assert!(refused(vec![ending("b", 2, 1), ending("a", 2, 1)]));
    assert!(refused(vec![ending("a", 2, 1), ending("a", 2, 1)]));
    assert!(refused(vec![ending("a", 2, 0)]));
    // A list without any has the first version.
    assert_eq!(good.as_bytes()[0], 3);
    let mut bad = list(1, 4, Vec::new()).as_bytes().to_vec();
    bad[0] = 3;
    bad.insert(bad.len() - 64, 0);
    assert!(SignedList::decode_checked(&bad).is_err());
    bad[0] = 2;
    assert!(SignedList::decode_checked(&bad).is_err_and(|e| e.is_too_new()));
}

/// A peer of the random histories: its own list and what it has heard.
struct Peer {
    n: u8,
    book: ClaimBook,
    held: HeldClaims,
}

impl Peer {
    /// Changes one claim. Nobody checks signatures of lists that were taken before.
    fn change(&mut self, rng: &mut Rng) {
        const PATHS: [&str; 5] = ["a", "a/b", "a/b/c", "d", "d/e"];
        let at = PATHS[rng.below(5) as usize];
        let mut next = self.book.next_list(writer(self.n));
        match rng.below(4) {
            3 => next.end(ending(
                at,
                1 + rng.below(3) as u8,
                self.book.last_time() + 1,
            )),
            0 => next.claims.retain(|known| known.path != path(at)),
            n => next.put(Claim {
                takes: n == 1,
                ..claim(at, self.book.last_time() + 1)
            }),
        }
        let statement = next.statement().expect("it keeps to the limits");
        let bytes = [&statement[DOMAIN.len() + 1..], &[0; 64]].concat();
        self.take(&[SignedList::decode_checked(&bytes).expect("a list")]);
    }

    fn take(&mut self, lists: &[SignedList]) {
        for list in lists {
            self.book.join(list.clone()).expect("there is room");
        }
        self.held = settle(&self.book, &self.held);
    }
}

/// Returns pairs of different devices whose claims hold on a common path.
fn clashes(book: &ClaimBook, held: &HeldClaims) -> usize {
    let all: Vec<_> = held.iter().collect();
    let clash = |a: &ClaimRef, b: &ClaimRef| {
        a.writer.device != b.writer.device
            && (a.path.starts_with(&b.path) || b.path.starts_with(&a.path))
    };
    let is_live = |claim: &ClaimRef| {
        let list = book.get(&claim.writer).expect("a list");
        list.list().at(&claim.path).is_some()
    };
    assert!(
        all.iter().all(|claim| is_live(claim)),
        "what holds is claimed"
    );
    let pairs = all.iter().flat_map(|a| all.iter().filter(|b| clash(a, b)));
    pairs.count()
}

/// Three peers claim, take over, release and meet in pairs, in any order.
#[test]
fn peers_that_have_met_agree_after_any_history() {
    let first = seed(1);
    for seed in first..first + number("DMV_CLAIM_HISTORIES", 4_000) {
        let mut rng = Rng::new(seed);
        let mut peers = [1, 2, 3].map(|n| Peer {
            n,
            book: ClaimBook::default(),
            held: HeldClaims::default(),
        });
        for _ in 0..4 + rng.below(8) {
            let (a, b) = (rng.below(3) as usize, rng.below(3) as usize);
            if rng.one_in(3) {
                // A message may be old: it was made before, and arrives now.
                let lists: Vec<_> = peers[a].book.lists().cloned().collect();
                peers[a].change(&mut rng);
                peers[b].take(&lists);
            } else {
                peers[a].change(&mut rng);
            }
            for peer in &peers {
                assert_eq!(clashes(&peer.book, &peer.held), 0, "seed {seed}");
            }
        }
        for (a, b) in [(0, 1), (1, 2), (0, 1)] {
            let lists: Vec<_> = peers[a].book.lists().cloned().collect();
            peers[b].take(&lists);
            let lists: Vec<_> = peers[b].book.lists().cloned().collect();
            peers[a].take(&lists);
        }
        let answers = peers
            .each_ref()
            .map(|peer| holders(&peer.book, &HeldClaims::default()));
        assert_eq!(answers[0], answers[1], "seed {seed}");
        assert_eq!(answers[1], answers[2], "seed {seed}");
        let paths: BTreeSet<_> = peers[0]
            .book
            .live_claims()
            .map(|(_, claim)| &claim.path)
            .collect();
        assert_eq!(paths.is_empty(), answers[0].is_empty(), "somebody is first");
    }
}
