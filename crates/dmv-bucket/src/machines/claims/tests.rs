//! Three devices claim paths at a store that loses and delays requests. With any one rule switched off, the
//! simulation finds a hole.

use super::*;
use dmv_core::claims::{Claim, ClaimBook, ClaimList, ClaimRef, PLACE_BYTES, Writer};
use dmv_core::object::name::RepoPath;
use dmv_random::{Rng, seed};

const PATHS: [&str; 3] = ["a", "a/b", "c"];

/// A list without a signature: whether lists are signed is checked where they are decoded.
fn list(list: &ClaimList) -> SignedList {
    let statement = list.statement().expect("it keeps to the limits");
    let begin = dmv_core::claims::DOMAIN.len() + 1;
    let bytes = [&statement[begin..], &[0; 64]].concat();
    SignedList::decode_checked(&bytes).expect("a list")
}

/// The one file of the store.
#[derive(Default)]
struct Store {
    file: Option<ClaimsFile>,
    version: u64,
    /// Replacements that are still on their way.
    late: Vec<(ClaimsFile, Option<Tag>)>,
}

impl Store {
    fn tag(&self) -> Tag {
        Tag {
            etag: Some(self.version.to_string()),
            version: None,
        }
    }

    fn put(&mut self, file: ClaimsFile, over: Option<&Tag>, rules: ClaimRules) -> ClaimsAnswer {
        let holds = match over {
            Some(tag) => self.file.is_some() && *tag == self.tag(),
            None => self.file.is_none() || !rules.is_conditional,
        };
        if !holds {
            return ClaimsAnswer::Lost;
        }
        self.file = Some(file);
        self.version += 1;
        ClaimsAnswer::Replaced(self.tag())
    }
}

/// A device with its own list, and what it believes.
struct Device {
    writer: Writer,
    book: ClaimBook,
    own: ClaimList,
    /// The claims of which the store has said that they hold here.
    told_held: Vec<String>,
    running: Option<(ClaimsMachine, ClaimsRequest)>,
}

impl Device {
    fn new(n: u8) -> Device {
        let writer = Writer {
            device: [n; 32],
            place: [n; PLACE_BYTES],
        };
        Device {
            writer,
            book: ClaimBook::default(),
            own: ClaimList::before_the_first(writer),
            told_held: Vec::new(),
            running: None,
        }
    }

    /// Claims, takes over or releases a path, and begins to tell it.
    fn begin(&mut self, rng: &mut Rng, rules: ClaimRules) {
        let at = PATHS[rng.below(3) as usize];
        let path = RepoPath::parse(at.as_bytes()).expect("a path");
        self.own.number += 1;
        if rng.one_in(3) {
            self.own.claims.retain(|claim| claim.path != path);
            self.told_held.retain(|held| held != at);
        } else {
            self.own.put(Claim {
                path,
                branch: String::new(),
                base: None,
                version: None,
                takes: rng.one_in(4),
                time: self.book.last_time() + 1,
                since: 0,
                reason: String::new(),
            });
        }
        let own = list(&self.own);
        self.book.join(own).expect("there is room");
        self.tell(rules);
    }

    fn tell(&mut self, rules: ClaimRules) {
        let lists = self.book.lists().cloned().collect();
        let machine = ClaimsMachine::new(lists, None).by(rules);
        let request = machine.begin();
        self.running = Some((machine, request));
    }

    fn end(&mut self, end: ClaimsEnd, store: &Store) {
        let file = match end {
            ClaimsEnd::Told(file) => *file,
            ClaimsEnd::NotTold(_) => {
                let landed = store
                    .file
                    .as_ref()
                    .and_then(|file| file.book.get(&self.writer));
                let own = landed.is_some_and(|list| *list.list() == self.own);
                assert!(
                    !own && store.late.is_empty(),
                    "it was told, and says it was not"
                );
                return;
            }
            ClaimsEnd::Unknown => return,
        };
        for list in file.book.lists() {
            self.book.join(list.clone()).expect("there is room");
        }
        let held = file.held.iter().filter(|claim| claim.writer == self.writer);
        self.told_held = held.map(|claim| claim.path.to_string()).collect();
    }
}

/// Runs one history.
fn run(seed: u64, rules: ClaimRules) {
    let mut rng = Rng::new(seed);
    let mut store = Store::default();
    let mut devices = [1, 2, 3].map(Device::new);
    for _ in 0..60 {
        let n = rng.below(3) as usize;
        if !store.late.is_empty() && rng.one_in(4) {
            let at = rng.below(store.late.len() as u64) as usize;
            let (file, over) = store.late.swap_remove(at);
            drop(store.put(file, over.as_ref(), rules));
        } else if devices[n].running.is_none() {
            devices[n].begin(&mut rng, rules);
        } else {
            step(&mut devices[n], &mut store, &mut rng, rules, true);
        }
        check(&store, &mut devices);
    }
    // Then no request fails any more, and everybody meets the store twice.
    for (file, over) in std::mem::take(&mut store.late) {
        drop(store.put(file, over.as_ref(), rules));
    }
    for n in [0, 1, 2, 0, 1, 2] {
        while devices[n].running.is_some() {
            step(&mut devices[n], &mut store, &mut rng, rules, false);
        }
        devices[n].tell(rules);
        while devices[n].running.is_some() {
            step(&mut devices[n], &mut store, &mut rng, rules, false);
        }
        check(&store, &mut devices);
    }
    let file = store.file.expect("something was told");
    for device in &devices {
        let there = file.book.get(&device.writer).map(SignedList::list);
        let is_there = there.is_some_and(|list| *list == device.own) || device.own.number == 0;
        assert!(is_there, "seed {seed}: a list is lost");
        assert_eq!(device.book, file.book, "seed {seed}: not all know the same");
    }
}

fn step(device: &mut Device, store: &mut Store, rng: &mut Rng, rules: ClaimRules, fails: bool) {
    let (mut machine, request) = device.running.take().expect("it runs");
    let answer = match request {
        ClaimsRequest::Get { .. } => match &store.file {
            Some(file) => ClaimsAnswer::File(Box::new(file.clone()), store.tag()),
            None => ClaimsAnswer::Nothing,
        },
        ClaimsRequest::Put { file, over } => match rng.below(5) {
            // It arrives, and the answer is lost; or it arrives later, or never.
            0 if fails => {
                drop(store.put(*file, over.as_ref(), rules));
                ClaimsAnswer::Unclear
            }
            1 if fails => {
                store.late.push((*file, over));
                ClaimsAnswer::Unclear
            }
            2 if fails => ClaimsAnswer::Unclear,
            _ => store.put(*file, over.as_ref(), rules),
        },
    };
    match machine.answer(answer) {
        ClaimsStep::Ask(request) => device.running = Some((machine, request)),
        ClaimsStep::End(end) => device.end(end, store),
    }
}

/// What always holds: no two devices hold a common path, what holds is claimed, and whoever was told that a
/// claim holds has it until it is released or taken over.
fn check(store: &Store, devices: &mut [Device]) {
    let Some(file) = &store.file else {
        return;
    };
    let all: Vec<&ClaimRef> = file.held.iter().collect();
    for a in &all {
        for b in all.iter().filter(|b| b.writer.device != a.writer.device) {
            let clash = a.path.starts_with(&b.path) || b.path.starts_with(&a.path);
            assert!(!clash, "two hold {} and {}", a.path, b.path);
        }
    }
    for device in devices {
        let writer = device.writer;
        device.told_held.retain(|path| {
            let path = RepoPath::parse(path.as_bytes()).expect("a path");
            let known = ClaimRef { writer, path };
            let is_taken = file.book.claims().any(|(other, claim)| {
                let overlaps =
                    claim.path.starts_with(&known.path) || known.path.starts_with(&claim.path);
                other.device != writer.device && claim.takes && overlaps
            });
            assert!(
                file.held.has(&known) || is_taken,
                "it was told that it holds"
            );
            file.held.has(&known)
        });
    }
}

#[test]
fn of_devices_that_claim_at_a_bucket_one_holds_whatever_is_lost() {
    let first = seed(1);
    for seed in first..first + 3_000 {
        run(seed, ClaimRules::default());
    }
}

/// Whether some history shows a hole.
fn has_hole(rules: ClaimRules) -> bool {
    (1..3_000).any(|seed| std::panic::catch_unwind(|| run(seed, rules)).is_err())
}

#[test]
fn without_any_one_rule_there_is_a_hole() {
    let good = ClaimRules::default();
    let without = [
        (
            "condition",
            ClaimRules {
                is_conditional: false,
                ..good
            },
        ),
        (
            "second look",
            ClaimRules {
                looks_again: false,
                ..good
            },
        ),
        (
            "held",
            ClaimRules {
                keeps_held: false,
                ..good
            },
        ),
        (
            "others",
            ClaimRules {
                keeps_others: false,
                ..good
            },
        ),
    ];
    for (name, rules) in without {
        assert!(has_hole(rules), "{name}");
    }
}
