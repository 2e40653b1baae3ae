//! Tests whether a store keeps the promises that a bucket needs: docs/format/bucket.md.
//!
//! Some stores accept a condition on a write and ignore it; others check it, and then write, so that
//! several writers at once all win. Others keep the name of a file's state apart from its bytes, so
//! that a read beside a write returns the old bytes under the new name: a write on that condition loses
//! the one before. (New bytes under the old name do no harm: that condition does not hold.) A test in
//! sequence does not find these kinds, so this one also races, and reads while it writes. It works below `probe/`, away from packs, and deletes what it has written.

use crate::files::{FileFailure, Files};
use crate::machines::Tag;
use dmv_core::threads;
use dmv_net::trouble::Trouble;
use std::cell::RefCell;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Writers in one race.
const WRITERS: usize = 8;
/// Races of each kind. Many small ones find a store that checks before it writes more surely than a
/// few large ones: versitygw 1.7.0 fails some race of ten almost always, and of three only sometimes.
const RACES: usize = 10;
/// Writes, one after the other, beside which others read.
const WRITES: usize = 24;
/// Readers beside them, and how often each one reads at most.
const READERS: usize = 4;
const READS: usize = 32;
/// How often a part of the test is made if requests have no answer, and the wait after the first time. It
/// doubles after each.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// The bytes of a file that is read beside writes: about as many as a root has.
const BODY_BYTES: usize = 16 << 10;

/// How many requests a test makes that read, at most, and how many that write or delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCost {
    /// Those that read.
    pub reads: u64,
    /// Those that write or delete.
    pub writes: u64,
}

/// What [`check`] costs.
pub const CHECK: TestCost = TestCost {
    reads: (4 + 2 * RACES + READERS * READS) as u64,
    writes: (6 + 2 * RACES * WRITERS + 1 + WRITES) as u64,
};
/// What [`check_briefly`] costs.
pub const BRIEF_CHECK: TestCost = TestCost {
    reads: 0,
    writes: 5,
};

/// A promise that a store does not keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenPromise {
    /// It overwrites a file that was to be created.
    #[error("it overwrites a file although it was told to create it only if there is none")]
    Create,
    /// It replaces a file that has changed.
    #[error("it replaces a file although it was told to do so only if nobody has changed it")]
    Replace,
    /// It makes a file that was to be replaced.
    #[error("it makes a file although it was told to replace an existing one")]
    Missing,
    /// It refuses a condition that holds.
    #[error("it refuses a conditional write although its condition holds")]
    Refuses,
    /// Several writers won a race.
    #[error("{0} of {WRITERS} writers at the same moment were told that they had won")]
    Race(usize),
    /// A writer's bytes are there though it was refused, or a winner's are not.
    #[error("after a race, the file is not that of the writer who won")]
    Winner,
    /// A file just written is not there, or not with these bytes.
    #[error("a file that was just written cannot be read back")]
    Read,
    /// The state of a file has another name when it is read than when it was written.
    #[error("it names the state of a file differently on writing and on reading")]
    Tag,
    /// A read beside a write has the bytes before it and the name of the state after it.
    #[error("a read at the moment of a write returns the old bytes as the new state of a file")]
    Mixed,
    /// A range has other bytes.
    #[error("it does not return the range of a file that was asked for")]
    Range,
    /// It has no conditional writes.
    #[error("it has no conditional writes: {0}")]
    Unsupported(String),
}

/// Why a test gave no verdict, or a bad one.
#[derive(Debug)]
pub enum Bad {
    /// The store does not keep a promise.
    Broken(BrokenPromise),
    /// The test could not be made.
    Trouble(Trouble),
}

impl From<BrokenPromise> for Bad {
    fn from(broken: BrokenPromise) -> Bad {
        Bad::Broken(broken)
    }
}

/// Tests the store of a bucket.
pub fn check(store: &dyn Files) -> Result<(), Bad> {
    test(store, random_digits()?)
}

/// Tests whether conditions get from this device to the store at all, without races: the device that made
/// the repository there has tested the rest.
pub fn check_briefly(store: &dyn Files) -> Result<(), Bad> {
    let probes = Probes::new(store, random_digits()?);
    let verdict = probes.part(&|name| conditions_hold(store, &name("one")));
    probes.clean_up(verdict)
}

fn random_digits() -> Result<String, Bad> {
    let mut id = [0; 8];
    let random = getrandom::fill(&mut id);
    random.map_err(|e| Bad::Trouble(Trouble::Settings(e.to_string())))?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Tests a store. `id` makes the names of the files.
fn test(store: &dyn Files, id: String) -> Result<(), Bad> {
    let probes = Probes::new(store, id);
    let all_parts = || {
        probes.part(&|name| in_sequence(store, &name("one"), &name("none")))?;
        for n in 0..RACES {
            probes.part(&|name| {
                let race = name(&format!("race-{n}"));
                let tag = run_race(store, &race, None)?;
                run_race(store, &race, Some(&tag)).map(|_| ())
            })?;
        }
        probes.part(&|name| read_beside_writes(store, &name("read")))
    };
    let verdict = all_parts();
    probes.clean_up(verdict)
}

/// The files of one test.
struct Probes<'s> {
    store: &'s dyn Files,
    id: String,
    names: RefCell<Vec<String>>,
}

/// Returns the name of a new file.
type NewName<'n> = &'n dyn Fn(&str) -> String;

impl Probes<'_> {
    fn new(store: &dyn Files, id: String) -> Probes<'_> {
        Probes {
            store,
            id,
            names: RefCell::default(),
        }
    }

    /// Does a part of the test. If a request has no answer, it is unknown what the files are, so the part
    /// begins again with others.
    fn part(&self, work: &dyn Fn(NewName<'_>) -> Result<(), Bad>) -> Result<(), Bad> {
        let run = |time: u32| {
            work(&|what| {
                let name = format!("probe/{}/{what}-{time}", self.id);
                self.names.borrow_mut().push(name.clone());
                name
            })
        };
        let mut pause = PAUSE;
        for time in 1..TRIES {
            match run(time) {
                Err(Bad::Trouble(Trouble::Cut(_) | Trouble::Busy | Trouble::Other(_))) => {}
                verdict => return verdict,
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
        run(TRIES)
    }

    /// Deletes the files, and returns the verdict.
    fn clean_up(&self, verdict: Result<(), Bad>) -> Result<(), Bad> {
        if let Err(Bad::Trouble(_)) = &verdict {
            // The store would refuse this, too.
            return verdict;
        }
        let deleted = self.store.delete_all(&self.names.borrow());
        verdict?;
        match deleted {
            // Who may not delete can still write: nothing but the probes stays.
            Ok(()) | Err(FileFailure::Trouble(Trouble::Denied(_))) => Ok(()),
            Err(e) => Err(trouble(e)),
        }
    }
}

/// Whether a file is created once, and replaced only in its state.
fn conditions_hold(store: &dyn Files, name: &str) -> Result<(), Bad> {
    let write = |text: &[u8], old: Option<&Tag>| won(store.write_if(name, text.to_vec(), old));
    let first = write(b"first", None)?.ok_or(BrokenPromise::Refuses)?;
    if write(b"again", None)?.is_some() {
        return Err(BrokenPromise::Create.into());
    }
    write(b"second", Some(&first))?.ok_or(BrokenPromise::Refuses)?;
    match write(b"stale", Some(&first))? {
        Some(_) => Err(BrokenPromise::Replace.into()),
        None => Ok(()),
    }
}

fn in_sequence(store: &dyn Files, one: &str, none: &str) -> Result<(), Bad> {
    let write =
        |name: &str, text: &[u8], old: Option<&Tag>| won(store.write_if(name, text.to_vec(), old));
    let first = write(one, b"first", None)?.ok_or(BrokenPromise::Refuses)?;
    if write(one, b"again", None)?.is_some() {
        return Err(BrokenPromise::Create.into());
    }
    if read(store, one, b"first")? != first {
        return Err(BrokenPromise::Tag.into());
    }
    let second = write(one, b"second", Some(&first))?.ok_or(BrokenPromise::Refuses)?;
    if write(one, b"stale", Some(&first))?.is_some() {
        return Err(BrokenPromise::Replace.into());
    }
    if read(store, one, b"second")? != second {
        return Err(BrokenPromise::Tag.into());
    }
    if write(none, b"none", Some(&second))?.is_some() {
        return Err(BrokenPromise::Missing.into());
    }
    match store.read_whole(none, None) {
        Err(FileFailure::Missing) => {}
        // Without the right to list, a store does not say that a file is missing.
        Err(FileFailure::Trouble(Trouble::Denied(_))) => {}
        Ok(_) => return Err(BrokenPromise::Missing.into()),
        Err(e) => return Err(trouble(e)),
    }
    match store.read_range(one, 2..5) {
        Ok(bytes) if bytes == b"con" => Ok(()),
        Ok(_) | Err(FileFailure::Length) => Err(BrokenPromise::Range.into()),
        Err(e) => Err(trouble(e)),
    }
}

/// Returns the new state of the file; `None` if the condition did not hold.
fn won(answer: Result<Tag, FileFailure>) -> Result<Option<Tag>, Bad> {
    match answer {
        Ok(tag) => Ok(Some(tag)),
        Err(FileFailure::Refused) => Ok(None),
        Err(FileFailure::Trouble(Trouble::Unsupported(why))) => {
            Err(BrokenPromise::Unsupported(why).into())
        }
        Err(e) => Err(trouble(e)),
    }
}

fn read(store: &dyn Files, name: &str, wanted: &[u8]) -> Result<Tag, Bad> {
    match store.read_whole(name, None) {
        Ok((bytes, tag)) if bytes == wanted => Ok(tag),
        Ok(_) | Err(FileFailure::Missing) => Err(BrokenPromise::Read.into()),
        Err(e) => Err(trouble(e)),
    }
}

/// Lets many writers write a file at the same moment, on the same condition. Returns the state that
/// the winner has left.
fn run_race(store: &dyn Files, name: &str, old: Option<&Tag>) -> Result<Tag, Bad> {
    let answers = race(store, name, old)?;
    let winners = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    if winners > 1 {
        return Err(BrokenPromise::Race(winners).into());
    }
    let (bytes, tag) = match store.read_whole(name, None) {
        Ok(found) => found,
        Err(FileFailure::Missing) => return Err(no_winner(answers, BrokenPromise::Read)),
        Err(e) => return Err(trouble(e)),
    };
    let is_of = |writer: usize| bytes == body(writer, old.is_some());
    for (writer, answer) in &answers {
        match answer {
            Ok(_) if is_of(*writer) => return Ok(tag),
            Ok(_) => return Err(BrokenPromise::Winner.into()),
            Err(FileFailure::Refused) if is_of(*writer) => return Err(BrokenPromise::Winner.into()),
            Err(FileFailure::Trouble(Trouble::Unsupported(why))) => {
                return Err(BrokenPromise::Unsupported(why.clone()).into());
            }
            Err(_) => {}
        }
    }
    // No writer was told that it has won. It may be one whose answer was lost.
    if old.is_some_and(|old| *old == tag) {
        return Err(no_winner(answers, BrokenPromise::Refuses));
    }
    Ok(tag)
}

/// Returns the verdict of a race without a winner: the promise is broken only if all were answered.
fn no_winner(answers: Answers, broken: BrokenPromise) -> Bad {
    let mut failed = answers.into_iter().filter_map(|(_, answer)| answer.err());
    match failed.find(|failed| !matches!(failed, FileFailure::Refused)) {
        Some(failed) => trouble(failed),
        None => broken.into(),
    }
}

type Answers = Vec<(usize, Result<Tag, FileFailure>)>;

/// Lets all writers write at once, and returns what each of them was told.
fn race(store: &dyn Files, name: &str, old: Option<&Tag>) -> Result<Answers, Bad> {
    let line = RwLock::new(());
    let write = &|writer: usize| {
        // All wait here until the last one has come.
        drop(line.read());
        store.write_if(name, body(writer, old.is_some()), old)
    };
    let mut answers = Vec::new();
    std::thread::scope(|scope| {
        let hold = line.write();
        let start = |writer| (writer, threads::start_in(scope, move || write(writer)));
        let started: Vec<_> = (0..WRITERS).map(start).collect();
        drop(hold);
        for (writer, started) in started {
            if let Some(answer) = started.ok().and_then(|thread| thread.join().ok()) {
                answers.push((writer, answer));
            }
        }
    });
    if answers.len() < WRITERS {
        let why = "the system starts no further thread".to_owned();
        return Err(Bad::Trouble(Trouble::Settings(why)));
    }
    Ok(answers)
}

/// A state of a file: its name, and a number that its bytes begin with.
type State = (Tag, usize);

/// Replaces a file again and again while others read it. What they find has to be as new as its name
/// says.
fn read_beside_writes(store: &dyn Files, name: &str) -> Result<(), Bad> {
    let is_over = AtomicBool::new(false);
    let read = &|| {
        let mut found: Vec<State> = Vec::new();
        for _ in 0..READS {
            // What fails here is found by the writer, too.
            if let Ok((bytes, tag)) = store.read_whole(name, None) {
                found.push((tag, number_of(&bytes)));
            }
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        found
    };
    let first = won(store.write_if(name, numbered(0), None))?.ok_or(BrokenPromise::Refuses)?;
    let (states, found) = std::thread::scope(|scope| {
        let started: Vec<_> = (0..READERS)
            .map(|_| threads::start_in(scope, read))
            .collect();
        let states = write_states(store, name, first);
        is_over.store(true, Ordering::Relaxed);
        let joined = started.into_iter().flatten().map(|reader| reader.join());
        (states, joined.flatten().flatten().collect::<Vec<State>>())
    });
    let states = states?;
    let is_sound = |(tag, n): &State| {
        let named = states.iter().find(|(known, _)| known == tag);
        named.is_some_and(|(_, named)| (*named..=WRITES).contains(n))
    };
    if found.iter().all(is_sound) {
        Ok(())
    } else {
        Err(BrokenPromise::Mixed.into())
    }
}

/// Replaces a file one time after the other, and returns all states that it had.
fn write_states(store: &dyn Files, name: &str, first: Tag) -> Result<Vec<State>, Bad> {
    let mut states = vec![(first, 0)];
    for n in 1..=WRITES {
        let old = &states[n - 1].0;
        let new = won(store.write_if(name, numbered(n), Some(old)))?;
        states.push((new.ok_or(BrokenPromise::Refuses)?, n));
    }
    Ok(states)
}

fn numbered(n: usize) -> Vec<u8> {
    let mut bytes = vec![0; BODY_BYTES];
    bytes[0] = n as u8;
    bytes
}

/// The number that bytes begin with; one that no state has if they are not whole.
fn number_of(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(n) if bytes.len() == BODY_BYTES => usize::from(*n),
        _ => usize::MAX,
    }
}

fn body(writer: usize, is_replacing: bool) -> Vec<u8> {
    format!("writer {writer}, {is_replacing}").into_bytes()
}

fn trouble(failed: FileFailure) -> Bad {
    Bad::Trouble(into_trouble(failed))
}

/// Returns a failure in words that need no context.
fn into_trouble(failed: FileFailure) -> Trouble {
    let other = |why: &str| Trouble::Other(why.to_owned());
    match failed {
        FileFailure::Missing => other("a file is missing"),
        FileFailure::Unchanged => other("a file has not changed"),
        FileFailure::Refused => other("the condition of a write does not hold"),
        FileFailure::Length => other("a file is shorter or longer than expected"),
        FileFailure::Trouble(trouble) => trouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::BucketFile;
    use std::collections::BTreeMap;
    use std::ops::Range;
    use std::sync::Mutex;

    /// What is wrong with a store.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        Nothing,
        IgnoresCreate,
        IgnoresReplace,
        ChecksThenWrites,
        MakesMissing,
        RefusesAll,
        OtherTags,
        WholeFiles,
        TellsLosersTheyWon,
        OldBytes,
        OldTag,
    }

    type Kept = BTreeMap<String, (Vec<u8>, u64)>;

    struct Fake {
        fault: Fault,
        files: Mutex<(Kept, u64)>,
        /// The answers of which writes are lost, of those that come, and whether they are carried out.
        lost: Mutex<Vec<Loss>>,
    }

    /// What becomes of a write.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Loss {
        None,
        Before,
        After,
    }

    fn tag(n: u64) -> Tag {
        Tag {
            etag: Some(n.to_string()),
            version: None,
        }
    }

    impl Fake {
        fn new(fault: Fault) -> Fake {
            Fake {
                fault,
                files: Mutex::default(),
                lost: Mutex::default(),
            }
        }

        fn loss(&self) -> Loss {
            let mut lost = self.lost.lock().expect("nobody panics");
            lost.pop().unwrap_or(Loss::None)
        }

        fn holds(&self, name: &str, old: Option<&Tag>) -> bool {
            let files = self.files.lock().expect("nobody panics");
            let found = files.0.get(name).map(|(_, n)| tag(*n));
            match (old, found) {
                _ if self.fault == Fault::RefusesAll => false,
                (None, found) => found.is_none() || self.fault == Fault::IgnoresCreate,
                (Some(_), None) => self.fault == Fault::MakesMissing,
                (Some(old), Some(found)) => *old == found || self.fault == Fault::IgnoresReplace,
            }
        }

        fn put(&self, name: &str, bytes: Vec<u8>) -> Tag {
            let mut files = self.files.lock().expect("nobody panics");
            files.1 += 1;
            let n = files.1;
            files.0.insert(name.to_owned(), (bytes, n));
            tag(n + 100 * u64::from(self.fault == Fault::OtherTags))
        }
    }

    static TURN: Mutex<()> = Mutex::new(());

    impl Files for Fake {
        fn write_if(
            &self,
            name: &str,
            bytes: Vec<u8>,
            old: Option<&Tag>,
        ) -> Result<Tag, FileFailure> {
            let loss = self.loss();
            let cut = FileFailure::Trouble(Trouble::Cut("by the test".to_owned()));
            if loss == Loss::Before {
                return Err(cut);
            }
            let turn = (self.fault != Fault::ChecksThenWrites).then(|| TURN.lock());
            let holds = self.holds(name, old);
            if self.fault == Fault::ChecksThenWrites {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            if matches!(self.fault, Fault::OldBytes | Fault::OldTag) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let is_race = name.contains("race");
            let answer = match holds {
                true => Ok(self.put(name, bytes)),
                false if self.fault == Fault::TellsLosersTheyWon && is_race => Ok(tag(7)),
                false => Err(FileFailure::Refused),
            };
            drop(turn);
            if loss == Loss::After {
                Err(cut)
            } else {
                answer
            }
        }

        fn read_whole(&self, name: &str, _: Option<&Tag>) -> Result<(Vec<u8>, Tag), FileFailure> {
            let found = || {
                let files = self.files.lock().expect("nobody panics");
                files.0.get(name).cloned().ok_or(FileFailure::Missing)
            };
            let (bytes, version) = found()?;
            if !matches!(self.fault, Fault::OldBytes | Fault::OldTag) {
                return Ok((bytes, tag(version)));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            let later = found()?;
            Ok(match self.fault {
                Fault::OldBytes => (bytes, tag(later.1)),
                _ => (later.0, tag(version)),
            })
        }

        fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, FileFailure> {
            let (bytes, _) = self.read_whole(name, None)?;
            Ok(match self.fault {
                Fault::WholeFiles => bytes,
                _ => bytes[range.start as usize..range.end as usize].to_vec(),
            })
        }

        fn delete_all(&self, names: &[String]) -> Result<(), FileFailure> {
            let mut files = self.files.lock().expect("nobody panics");
            files.0.retain(|name, _| !names.contains(name));
            Ok(())
        }

        fn length(&self, _: &str) -> Result<u64, FileFailure> {
            unreachable!("no test asks for a length")
        }

        fn write(&self, _: &str, _: Vec<u8>) -> Result<(), FileFailure> {
            unreachable!("each write of the test has a condition")
        }

        fn begin_upload(&self, _: &str) -> Result<String, FileFailure> {
            unreachable!("no file of the test is large")
        }

        fn upload_part(
            &self,
            _: &str,
            _: &str,
            _: usize,
            _: Vec<u8>,
        ) -> Result<String, FileFailure> {
            unreachable!("no file of the test is large")
        }

        fn end_upload(&self, _: &str, _: &str, _: &[String], _: u64) -> Result<(), FileFailure> {
            unreachable!("no file of the test is large")
        }

        fn drop_upload(&self, _: &str, _: &str) -> Result<(), FileFailure> {
            unreachable!("no file of the test is large")
        }

        fn list_folders(&self) -> Result<Vec<String>, FileFailure> {
            Ok(Vec::new())
        }

        fn list_all(&self, _: &str) -> Result<Vec<BucketFile>, FileFailure> {
            unreachable!("nothing lists")
        }
    }

    fn verdict(fault: Fault) -> (Option<BrokenPromise>, usize) {
        let fake = Fake::new(fault);
        let broken = match test(&fake, "1f".to_owned()) {
            Ok(()) => None,
            Err(Bad::Broken(broken)) => Some(broken),
            Err(Bad::Trouble(trouble)) => panic!("{fault:?}: {trouble}"),
        };
        (broken, fake.files.lock().expect("nobody panics").0.len())
    }

    #[test]
    fn a_good_store_passes_and_nothing_stays_behind() {
        assert_eq!(verdict(Fault::Nothing), (None, 0));
    }

    #[test]
    fn a_read_that_is_newer_than_its_tag_does_no_harm() {
        assert_eq!(verdict(Fault::OldTag), (None, 0));
    }

    #[test]
    fn a_brief_check_finds_a_store_without_conditions_in_five_requests() {
        for (fault, wanted) in [
            (Fault::Nothing, None),
            (Fault::IgnoresCreate, Some(BrokenPromise::Create)),
            (Fault::IgnoresReplace, Some(BrokenPromise::Replace)),
            (Fault::RefusesAll, Some(BrokenPromise::Refuses)),
            (Fault::ChecksThenWrites, None),
        ] {
            let fake = Fake::new(fault);
            let broken = match check_briefly(&fake) {
                Ok(()) => None,
                Err(Bad::Broken(broken)) => Some(broken),
                Err(Bad::Trouble(trouble)) => panic!("{fault:?}: {trouble}"),
            };
            assert_eq!(broken, wanted, "{fault:?}");
            assert!(fake.files.lock().expect("nobody panics").0.is_empty());
        }
        assert_eq!(BRIEF_CHECK.reads + BRIEF_CHECK.writes, 5);
        // The help of `remote add`, the guide and the format name this number.
        assert_eq!(CHECK.reads + CHECK.writes, 343);
    }

    #[test]
    fn a_test_survives_lost_answers_and_finds_the_same() {
        for fault in [Fault::Nothing, Fault::IgnoresCreate, Fault::IgnoresReplace] {
            for loss in [Loss::Before, Loss::After] {
                for at in 0..4 {
                    for again in 0..2 {
                        let fake = Fake::new(fault);
                        let mut losses = vec![Loss::None; at];
                        losses.push(loss);
                        losses.extend(vec![Loss::None; again * at]);
                        losses.extend(vec![loss; again]);
                        losses.reverse();
                        *fake.lost.lock().expect("nobody panics") = losses;
                        let found = check_briefly(&fake);
                        let is_good = found.is_ok();
                        assert!(
                            matches!(found, Ok(()) | Err(Bad::Broken(_))),
                            "{fault:?}: {found:?}"
                        );
                        assert_eq!(is_good, fault == Fault::Nothing, "{fault:?}: {found:?}");
                        assert!(fake.files.lock().expect("nobody panics").0.is_empty());
                    }
                }
            }
        }
        for at in [0, 3, 20, 60, 170, 185] {
            let fake = Fake::new(Fault::Nothing);
            let mut losses = vec![Loss::None; at];
            losses.extend([Loss::After, Loss::Before]);
            losses.reverse();
            *fake.lost.lock().expect("nobody panics") = losses;
            assert!(check(&fake).is_ok(), "at {at}");
        }
    }

    #[test]
    fn every_fault_is_found() {
        for (fault, wanted) in [
            (Fault::IgnoresCreate, BrokenPromise::Create),
            (Fault::IgnoresReplace, BrokenPromise::Replace),
            (Fault::MakesMissing, BrokenPromise::Missing),
            (Fault::RefusesAll, BrokenPromise::Refuses),
            (Fault::OtherTags, BrokenPromise::Tag),
            (Fault::WholeFiles, BrokenPromise::Range),
            (Fault::OldBytes, BrokenPromise::Mixed),
        ] {
            assert_eq!(verdict(fault), (Some(wanted), 0), "{fault:?}");
        }
        for fault in [Fault::ChecksThenWrites, Fault::TellsLosersTheyWon] {
            let (broken, _) = verdict(fault);
            assert!(
                matches!(broken, Some(BrokenPromise::Race(n)) if n > 1),
                "{fault:?}: {broken:?}"
            );
        }
    }
}
