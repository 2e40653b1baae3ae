//! Three devices claim paths and push changes at a store that loses and delays requests, and keeps to claims. With
//! any one rule switched off, the simulation finds a hole. `DMV_BUCKET_SCHEDULES` sets how many schedules it runs.

// A harness says aloud what it has done.
#![allow(clippy::print_stdout)]

use super::*;
use dmv_core::claims::{
    Claim, ClaimBook, ClaimList, ClaimRef, MAX_LISTS_OF_DEVICE, PLACE_BYTES, PushRule, Writer,
};
use dmv_core::object::name::RepoPath;
use dmv_random::{Rng, number, seed};

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

/// The rules of a push. The machine does not know them: the command that pushes keeps to them.
#[derive(Clone, Copy)]
struct PushRules {
    /// Each push reads the claims, whatever was known of them.
    asks: bool,
    /// Where they cannot be read, what was known of them counts.
    keeps_known: bool,
    /// A push that changes what others hold is refused.
    refuses: bool,
}

const GOOD_PUSHES: PushRules = PushRules {
    asks: true,
    keeps_known: true,
    refuses: true,
};

/// All rules of a history.
#[derive(Clone, Copy)]
struct Rules {
    claims: ClaimRules,
    pushes: PushRules,
}

impl Rules {
    fn good() -> Rules {
        Rules {
            claims: ClaimRules::default(),
            pushes: GOOD_PUSHES,
        }
    }
}

/// A push that changes a path. The commit goes to the root, which knows nothing of claims.
struct RunningPush {
    path: RepoPath,
    /// The claims of others that have held there without a break since the push began.
    passed: Vec<ClaimRef>,
    /// Whether the claims were read or could not be: then the root comes next.
    is_checked: bool,
    /// Whether they could not be read.
    is_blind: bool,
}

/// A device with its own list, and what it believes.
struct Device {
    writer: Writer,
    book: ClaimBook,
    own: ClaimList,
    /// The claims of which the store has said that they hold here.
    told_held: Vec<String>,
    /// What it was last told that holds.
    known: HeldClaims,
    push: Option<RunningPush>,
    /// The pushes that have changed the root.
    landed: usize,
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
            known: HeldClaims::default(),
            push: None,
            landed: 0,
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

    /// Begins a push that changes a path.
    fn begin_push(&mut self, rng: &mut Rng, store: &Store, rules: Rules) {
        let at = PATHS[rng.below(3) as usize];
        let path = RepoPath::parse(at.as_bytes()).expect("a path");
        let held = store.file.as_ref().map(|file| &file.held);
        let passed = held.map_or(Vec::new(), |held| self.against(&path, held));
        self.push = Some(RunningPush {
            path,
            passed,
            is_checked: false,
            is_blind: false,
        });
        if rules.pushes.asks {
            self.tell(rules.claims);
        } else {
            self.check_push(rules.pushes, true);
        }
    }

    /// The claims of other devices that overlap a path.
    fn against(&self, path: &RepoPath, held: &HeldClaims) -> Vec<ClaimRef> {
        let overlaps =
            |claim: &&ClaimRef| path.starts_with(&claim.path) || claim.path.starts_with(path);
        let others = held
            .iter()
            .filter(|c| c.writer.device != self.writer.device);
        others.filter(overlaps).cloned().collect()
    }

    /// Looks whether the push passes what others hold, as far as the device knows.
    fn check_push(&mut self, rules: PushRules, could_read: bool) {
        let nothing = HeldClaims::default();
        let known = if could_read || rules.keeps_known {
            &self.known
        } else {
            &nothing
        };
        let Some(mut push) = self.push.take() else {
            return;
        };
        if self.against(&push.path, known).is_empty() || !rules.refuses {
            push.is_checked = true;
            push.is_blind = !could_read;
            self.push = Some(push);
        }
    }

    /// The push changes the root.
    fn land(&mut self) {
        let push = self.push.take().expect("it was begun");
        let known = self.against(&push.path, &self.known);
        let passed = push.passed.iter();
        let unknown = passed.filter(|claim| push.is_blind && !known.contains(claim));
        assert_eq!(
            unknown.count(),
            push.passed.len(),
            "a push has passed a claim that held before it began"
        );
        self.landed += 1;
    }

    fn tell(&mut self, rules: ClaimRules) {
        let lists = self.book.lists().cloned().collect();
        let machine = ClaimsMachine::new(lists, None).by(rules);
        let request = machine.begin();
        self.running = Some((machine, request));
    }

    fn end(&mut self, end: ClaimsEnd, store: &Store, rules: PushRules) {
        match &end {
            ClaimsEnd::Told(file) | ClaimsEnd::NotTold(file) | ClaimsEnd::NoRoom(file) => {
                self.known = file.held.clone();
                self.check_push(rules, true);
            }
            ClaimsEnd::Unknown => self.check_push(rules, false),
        }
        let file = match end {
            ClaimsEnd::Told(file) => *file,
            ClaimsEnd::NoRoom(_) => unreachable!("the lists are short"),
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
fn run(seed: u64, rules: Rules) -> usize {
    let mut rng = Rng::new(seed);
    let mut store = Store::default();
    let mut devices = [1, 2, 3].map(Device::new);
    for _ in 0..60 {
        let n = rng.below(3) as usize;
        if !store.late.is_empty() && rng.one_in(4) {
            let at = rng.below(store.late.len() as u64) as usize;
            let (file, over) = store.late.swap_remove(at);
            drop(store.put(file, over.as_ref(), rules.claims));
        } else if devices[n].push.as_ref().is_some_and(|push| push.is_checked) {
            devices[n].land();
        } else if devices[n].running.is_some() {
            step(&mut devices[n], &mut store, &mut rng, rules, true);
        } else if rng.one_in(3) {
            devices[n].begin_push(&mut rng, &store, rules);
        } else {
            devices[n].begin(&mut rng, rules.claims);
        }
        check(&store, &mut devices);
    }
    // Then no request fails any more, and everybody meets the store twice.
    for (file, over) in std::mem::take(&mut store.late) {
        drop(store.put(file, over.as_ref(), rules.claims));
        check(&store, &mut devices);
    }
    let mut finish = |n: usize, devices: &mut [Device; 3]| {
        while devices[n].running.is_some() {
            step(&mut devices[n], &mut store, &mut rng, rules, false);
            // After each step: a claim that takes over may be gone again after the next one.
            check(&store, devices);
        }
    };
    for n in [0, 1, 2, 0, 1, 2] {
        finish(n, &mut devices);
        devices[n].push = None;
        devices[n].tell(rules.claims);
        finish(n, &mut devices);
    }
    let file = store.file.expect("something was told");
    for device in &devices {
        let there = file.book.get(&device.writer).map(SignedList::list);
        let is_there = there.is_some_and(|list| *list == device.own) || device.own.number == 0;
        assert!(is_there, "seed {seed}: a list is lost");
        assert_eq!(device.book, file.book, "seed {seed}: not all know the same");
    }
    devices.iter().map(|device| device.landed).sum()
}

fn step(device: &mut Device, store: &mut Store, rng: &mut Rng, rules: Rules, fails: bool) {
    let (mut machine, request) = device.running.take().expect("it runs");
    let answer = match request {
        // It cannot be read, and the machine goes on asking for a while.
        ClaimsRequest::Get { .. } if fails && rng.one_in(4) => {
            if rng.one_in(2) {
                ClaimsAnswer::Refused
            } else {
                ClaimsAnswer::Unclear
            }
        }
        ClaimsRequest::Get { .. } => match &store.file {
            Some(file) => ClaimsAnswer::File(Box::new(file.clone()), store.tag()),
            None => ClaimsAnswer::Nothing,
        },
        ClaimsRequest::Put { file, over } => match rng.below(5) {
            // It arrives, and the answer is lost; or it arrives later, or never.
            0 if fails => {
                drop(store.put(*file, over.as_ref(), rules.claims));
                ClaimsAnswer::Unclear
            }
            1 if fails => {
                store.late.push((*file, over));
                ClaimsAnswer::Unclear
            }
            2 if fails => ClaimsAnswer::Unclear,
            _ => store.put(*file, over.as_ref(), rules.claims),
        },
    };
    match machine.answer(answer) {
        ClaimsStep::Ask(request) => device.running = Some((machine, request)),
        ClaimsStep::End(end) => device.end(end, store, rules.pushes),
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
        if let Some(push) = &mut device.push {
            push.passed.retain(|claim| file.held.has(claim));
        }
    }
}

#[test]
fn of_devices_that_claim_at_a_bucket_one_holds_whatever_is_lost() {
    let (first, count) = (seed(1), number("DMV_BUCKET_SCHEDULES", 3_000));
    let landed = (first..first + count).map(|seed| run(seed, Rules::good()));
    let landed: usize = landed.sum();
    println!("harness claims: {count} schedules, {landed} pushes landed, no hole");
    assert!(
        landed as u64 > count,
        "pushes that change no claimed path land"
    );
}

/// Whether some history shows a hole.
fn has_hole(rules: Rules) -> bool {
    (1..3_000).any(|seed| std::panic::catch_unwind(|| run(seed, rules)).is_err())
}

#[test]
fn without_any_one_rule_there_is_a_hole() {
    type SwitchOff = fn(&mut Rules);
    let switches: [(&str, SwitchOff); 7] = [
        ("condition", |rules| rules.claims.is_conditional = false),
        ("second look", |rules| rules.claims.looks_again = false),
        ("held", |rules| rules.claims.keeps_held = false),
        ("others", |rules| rules.claims.keeps_others = false),
        ("each push asks", |rules| rules.pushes.asks = false),
        ("what was known", |rules| rules.pushes.keeps_known = false),
        ("refusal", |rules| rules.pushes.refuses = false),
    ];
    for (name, switch_off) in switches {
        let mut rules = Rules::good();
        switch_off(&mut rules);
        assert!(has_hole(rules), "{name}");
    }
}

#[test]
fn lists_for_which_a_file_has_no_room_are_not_told_and_spoil_nothing() {
    let full = ClaimsFile {
        generation: 1,
        later: vec![vec![9; 700 << 10], vec![9; 700 << 10], vec![9; 640 << 10]],
        ..ClaimsFile::default()
    };
    let mut ada = Device::new(1);
    for n in 0..300 {
        ada.own.put(Claim {
            path: RepoPath::parse(format!("{n:0>200}").as_bytes()).expect("a path"),
            branch: String::new(),
            base: None,
            version: None,
            takes: false,
            time: 1,
            since: 0,
            reason: String::new(),
        });
    }
    ada.own.number = 1;
    let tag = Store::default().tag();
    let mut machine = ClaimsMachine::new(vec![list(&ada.own)], None);
    let end = machine.begin_from(full.clone(), Some(tag.clone()));
    let ClaimsStep::End(ClaimsEnd::NoRoom(file)) = end else {
        panic!("there is no room");
    };
    assert_eq!(*file, full);
    let change = RuleChange {
        rule: PushRule::Claims,
        applies: true,
    };
    // A setting needs no room, and a short list has enough.
    let mut machine = ClaimsMachine::new(vec![list(&ada.own)], Some(change));
    let step = machine.begin_from(full.clone(), Some(tag.clone()));
    let ClaimsStep::Ask(ClaimsRequest::Put { file, .. }) = step else {
        panic!("it sets it");
    };
    assert!(file.rules.keeps_to_claims && file.book.is_empty() && file.fits());
    ada.own.claims.truncate(1);
    let mut machine = ClaimsMachine::new(vec![list(&ada.own)], None);
    let step = machine.begin_from(full, Some(tag));
    assert!(matches!(step, ClaimsStep::Ask(ClaimsRequest::Put { .. })));
}

#[test]
fn a_list_for_which_a_book_has_no_room_is_not_told() {
    let mut file = ClaimsFile {
        generation: 1,
        ..ClaimsFile::default()
    };
    let of_place = |place: u8| {
        let mut device = Device::new(1);
        device.own.writer.place = [place; PLACE_BYTES];
        device.own.number = 1;
        device.own.put(Claim {
            path: RepoPath::parse(format!("p{place}").as_bytes()).expect("a path"),
            branch: String::new(),
            base: None,
            version: None,
            takes: false,
            time: 1,
            since: 0,
            reason: String::new(),
        });
        list(&device.own)
    };
    let full: Vec<SignedList> = (0..MAX_LISTS_OF_DEVICE as u8).map(of_place).collect();
    file = file.with(&full, &HeldClaims::default());
    let tag = Store::default().tag();
    // The list of another device has room beside those of the first one.
    let mut other = Device::new(2);
    other.own.number = 1;
    let lists = vec![of_place(200), list(&other.own)];
    let mut machine = ClaimsMachine::new(lists, None);
    let step = machine.begin_from(file.clone(), Some(tag.clone()));
    assert!(matches!(step, ClaimsStep::Ask(ClaimsRequest::Put { .. })));
    let end = machine.answer(ClaimsAnswer::Replaced(tag.clone()));
    let ClaimsStep::End(ClaimsEnd::NoRoom(now)) = end else {
        panic!("one list has no room");
    };
    assert_eq!(now.book.lists().len(), MAX_LISTS_OF_DEVICE + 1);
    let mut machine = ClaimsMachine::new(vec![of_place(200)], None);
    let end = machine.begin_from(file, Some(tag));
    assert!(matches!(end, ClaimsStep::End(ClaimsEnd::NoRoom(_))));
}
