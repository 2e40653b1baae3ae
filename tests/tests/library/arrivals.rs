//! Clones that write files while their content arrives, and transfers that read no more than they
//! send.

use dmv_core::job::Job;
use dmv_core::repo::{
    AbsentError, CheckoutOptions, CheckoutReport, Head, OwnBranches, Repo, RepoError, discover,
};
use dmv_core::store::{PACK_HEADER_BYTES, PackKind};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_net::session::{Client, History, Link, NetError, serve};
use dmv_net::wire::Access;
use dmv_tests::countvfs::{CountVfs, OneRead};
use dmv_tests::peers::{Cut, Done, Place, connect, fetch, note, serving, tips};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{files_in, request};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn options() -> CheckoutOptions {
    CheckoutOptions {
        subset: None,
        force: false,
        settings: Default::default(),
        request: request("clone"),
    }
}

/// Clones from the repository of `client` into the worktree of `ours`.
fn clone(ours: &Repo, client: Client<'_>, job: &Job) -> Result<CheckoutReport, NetError> {
    clone_part(ours, client, job, None, History::New)
}

/// Does the same with a worktree of `subset` and with as much `history`.
fn clone_part(
    ours: &Repo,
    mut client: Client<'_>,
    job: &Job,
    subset: Option<Subset>,
    history: History,
) -> Result<CheckoutReport, NetError> {
    let offered = client.offered.clone();
    let (tip, head) = (offered.refs[0].1, Head::Branch("main".into()));
    let bring = || {
        client.fetch_history(&tips(&offered), history)?;
        let own = OwnBranches {
            make: vec![("main".into(), tip)],
            head: Some(head.clone()),
            ..OwnBranches::default()
        };
        ours.note_remote("origin", &offered, &own, &request("clone"))?;
        Ok::<_, NetError>(())
    };
    let options = CheckoutOptions {
        subset,
        ..options()
    };
    let done = ours.checkout_while(
        (head.clone(), tip),
        "dmv checkout main",
        &options,
        job,
        bring,
    )?;
    Ok(done.1)
}

fn is_clean(place: &Place) -> Done {
    let repo = place.again()?;
    let options = dmv_core::repo::StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    let status = repo.status(&options, &Job::default())?;
    assert!(status.changes.is_empty() && status.unfinished.is_none());
    Ok(())
}

fn large_place() -> Done<Place> {
    let theirs = Place::with_files(30, 300, 2000)?;
    theirs.write("large", &Rng::new(31).bytes(6 << 20))?;
    theirs.write("same/as/large", &Rng::new(31).bytes(6 << 20))?;
    theirs.commit("large")?;
    Ok(theirs)
}

#[test]
fn a_clone_has_its_files_when_all_has_come() -> Done {
    let (theirs, ours, job) = (large_place()?, Place::new()?, Job::default());
    let report = clone(&ours.repo, connect(&ours.repo, &theirs, &job)?, &job)?;
    assert_eq!(report.files, 302);
    assert!(report.refused.is_empty());
    assert_eq!(files_in(ours.dir.path())?, files_in(theirs.dir.path())?);
    assert_eq!(ours.repo.base_commit()?, Some(theirs.tip()?));
    is_clean(&ours)?;
    ours.is_sound()
}

#[test]
fn files_are_there_before_the_last_byte_has_come() -> Done {
    let (theirs, ours, job) = (large_place()?, Place::new()?, Job::default());
    // The connection ends shortly before the end of the transfer.
    let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
    serving(&theirs, Link::over(up, to_us)?, Access::Read)?;
    let (inner, passed) = (down, Arc::default());
    let left = (6 << 20) + 300 * 2000 - 400_000;
    let down = Cut {
        inner,
        left,
        passed,
    };
    let client = Client::connect(&ours.repo, Link::over(down, to_them)?, &job)?;
    let cut = clone(&ours.repo, client, &job);
    assert!(matches!(cut, Err(NetError::Closed)), "{cut:?}");
    // No ref names the received objects. The worktree's `switch` file shows that the checkout is
    // unfinished.
    assert_eq!(ours.repo.base_commit()?, None);
    assert!(ours.repo.offered()?.refs.is_empty());
    let noted = ours.dir.path().join(".dmv/worktrees/main/switch");
    assert!(noted.exists());

    // The same clone again continues, and reuses the files that are there.
    let again = ours.again()?;
    clone(&again, connect(&again, &theirs, &job)?, &job)?;
    assert_eq!(files_in(ours.dir.path())?, files_in(theirs.dir.path())?);
    assert!(!noted.exists());
    is_clean(&ours)?;
    ours.is_sound()
}

#[test]
fn what_was_just_checked_is_written_to_files_without_being_read_again() -> Done {
    let (theirs, job) = (large_place()?, Job::default());
    let content = (6 << 20) + 300 * 2000;
    let mut least = u64::MAX;
    // If the system lets the writing thread wait for long, some objects have left the memory by then.
    for _ in 0..5 {
        let ours = Place::new()?;
        let vfs = CountVfs::default();
        let place = discover(ours.dir.path())?;
        let counted = Repo::open_place_on(place, Arc::new(vfs.clone()))?;
        vfs.take();
        clone(&counted, connect(&counted, &theirs, &job)?, &job)?;
        least = least.min(vfs.take());
        assert_eq!(files_in(ours.dir.path())?, files_in(theirs.dir.path())?);
        ours.is_sound()?;
        if least < content / 20 {
            return Ok(());
        }
    }
    panic!("{least} bytes were read");
}

/// A line that is cut after `left` bytes, once the receiver has begun at least `files` files.
struct CutWhenThere {
    inner: io::PipeReader,
    left: usize,
    dir: PathBuf,
    files: usize,
    /// Whether the receiver had begun that many files.
    seen: Arc<AtomicBool>,
}

impl Read for CutWhenThere {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min(self.left);
        if n == 0 {
            let end = Instant::now() + Duration::from_secs(60);
            while Instant::now() < end && !self.seen.load(Ordering::Relaxed) {
                // Files may disappear while they are counted. Then they are counted again.
                let begun = files_in(&self.dir).map_or(0, |files| files.len());
                self.seen.store(begun >= self.files, Ordering::Relaxed);
                std::thread::yield_now();
            }
            return Ok(0);
        }
        let read = self.inner.read(&mut buf[..n])?;
        self.left -= read;
        Ok(read)
    }
}

#[test]
fn a_part_is_written_while_it_comes_and_goes_on_after_a_cut() -> Done {
    let (theirs, mut rng) = (Place::new()?, Rng::new(50));
    for n in 0..12 {
        theirs.write(&format!("part/f{n}"), &rng.bytes(1 << 20))?;
    }
    theirs.write("other", &rng.bytes(1 << 20))?;
    theirs.commit("first")?;
    theirs.write("other", b"once more")?;
    theirs.commit("second")?;
    let part = Subset::new([&b"part"[..]])?;
    for (subset, history) in [(Some(part), History::New), (None, History::Depth(1))] {
        let (ours, job) = (Place::new()?, Job::default());
        if let Some(subset) = &subset {
            ours.repo
                .change_slice(|slice| slice.subset = subset.clone())?;
        }
        let ((inner, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
        let seen = Arc::new(AtomicBool::new(false));
        serving(&theirs, Link::over(up, to_us)?, Access::Read)?;
        let down = CutWhenThere {
            inner,
            left: 11 << 20,
            dir: ours.dir.path().to_owned(),
            files: 4,
            seen: seen.clone(),
        };
        let client = Client::connect(&ours.repo, Link::over(down, to_them)?, &job)?;
        let cut = clone_part(&ours.repo, client, &job, subset.clone(), history);
        assert!(matches!(cut, Err(NetError::Closed)), "{cut:?}");
        assert!(seen.load(Ordering::Relaxed), "no file was begun");
        assert_eq!(ours.repo.base_commit()?, None);

        let again = ours.again()?;
        let client = connect(&again, &theirs, &job)?;
        clone_part(&again, client, &job, subset.clone(), history)?;
        let mut want = files_in(theirs.dir.path())?;
        want.retain(|path, _| subset.is_none() || path.starts_with(b"part"));
        assert_eq!(files_in(ours.dir.path())?, want);
        is_clean(&ours)?;
        ours.is_sound()?;
    }
    Ok(())
}

#[test]
fn what_was_never_to_come_is_lacking_and_not_waited_for() -> Done {
    let (theirs, ours, job) = (large_place()?, Place::new()?, Job::default());
    ours.repo.change_slice(|slice| slice.metadata_only = true)?;
    let client = connect(&ours.repo, &theirs, &job)?;
    // Without this subset the worktree would have no files, as the repository stores no content.
    let all = Some(Subset::everything());
    let refused = clone_part(&ours.repo, client, &job, all, History::New);
    let Err(NetError::Repo(RepoError::Absent(AbsentError::Lacking(lacks)))) = refused else {
        return Err(format!("{refused:?}").into());
    };
    assert_eq!(lacks.len(), 302);
    Ok(())
}

#[test]
fn a_file_of_the_users_is_not_overwritten_by_a_clone() -> Done {
    let (theirs, ours, job) = (large_place()?, Place::new()?, Job::default());
    ours.write("large", b"mine")?;
    let client = connect(&ours.repo, &theirs, &job)?;
    let refused = clone(&ours.repo, client, &job);
    assert!(refused.is_err());
    assert_eq!(std::fs::read(ours.dir.path().join("large"))?, b"mine");
    ours.is_sound()
}

/// The bytes that were read of packs and indexes, by what lies there.
#[derive(Debug, Default)]
struct Account {
    /// Indexes, of segments or in index files, and headers of packs.
    index: u64,
    /// Records of the segments that were there before.
    old: u64,
    /// Records of the last segment of each pack.
    new: u64,
}

impl Account {
    /// Sorts `reads` of packs that have two segments each.
    fn of(reads: &[OneRead]) -> Done<Account> {
        let (mut account, mut packs) = (Account::default(), HashMap::new());
        for (path, read) in reads {
            let shared = |with: Range<u64>| {
                let end = read.end.min(with.end);
                end.saturating_sub(read.start.max(with.start))
            };
            if path.extension().is_none_or(|ending| ending != "pack") {
                account.index += read.end - read.start;
                continue;
            }
            let pack = match packs.entry(path) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(std::fs::read(path)?),
            };
            let new = records_before(pack, pack.len());
            let old = records_before(pack, new.start as usize);
            assert_eq!(old.start, PACK_HEADER_BYTES, "a pack has two segments");
            account.new += shared(new.clone());
            account.old += shared(old.clone());
            account.index += shared(0..old.start)
                + shared(old.end..new.start)
                + shared(new.end..pack.len() as u64);
        }
        Ok(account)
    }
}

/// Returns the range of the records of the segment that ends at `end`, according to its trailer
/// (docs/format/pack.md).
fn records_before(pack: &[u8], end: usize) -> Range<u64> {
    let trailer = &pack[end - 32..end];
    assert_eq!(&trailer[..4], b"DMVt");
    let [index_at, start] = [8, 16].map(|at| {
        let word = trailer[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(word)
    });
    start..index_at
}

#[test]
fn a_pull_after_an_insert_reads_no_more_than_it_sends() -> Done {
    let (theirs, ours) = (Place::new()?, Place::new()?);
    let mut large = Rng::new(40).bytes(24 << 20);
    theirs.write("large", &large)?;
    theirs.commit("large")?;
    fetch(&ours, &theirs)?;
    let packs = theirs.again()?.store().packs();
    let metadata = packs.iter().filter(|pack| pack.kind == PackKind::Meta);
    let metadata: u64 = metadata.map(|pack| pack.len).sum();
    large.splice(7_000_000..7_000_000, Rng::new(41).bytes(1024));
    theirs.write("large", &large)?;
    theirs.commit("inserted")?;

    let vfs = CountVfs::default();
    let place = discover(theirs.dir.path())?;
    let counted = Repo::open_place_on(place, Arc::new(vfs.clone()))?;
    let opened = vfs.take();
    let (ours_end, theirs_end) = Link::pair();
    let serving = std::thread::spawn(move || {
        let request = request("push");
        serve(
            &counted,
            theirs_end,
            Access::Read,
            &request,
            &Job::default(),
        )
        .map(|_| ())
    });
    let job = Job::default();
    let mut client = Client::connect(&ours.repo, ours_end, &job)?;
    client.fetch(&tips(&client.offered))?;
    note(&ours.repo, &client.offered)?;
    let traffic = client.finish(Vec::new()).traffic;
    serving.join().map_err(|_| "the server panicked")??;
    assert!(traffic.bytes_received < 700 << 10, "{traffic:?}");
    assert!(traffic.round_trips <= 4, "{traffic:?}");
    let reads = Account::of(&vfs.take_reads())?;
    // Each sent object is read once. Reading the head of a record may go beyond its end.
    let (sent, beyond) = (traffic.bytes_received, 1 << 10);
    assert!(reads.new <= sent + beyond, "{reads:?}, {traffic:?}");
    // The index: each lookup reads one page in each of two tables.
    let looks = 4096 * 2 * (traffic.objects_sent + traffic.objects_received + 16);
    assert!(reads.index <= looks + opened, "{reads:?}, {traffic:?}");
    // Only the commit, the tree and the list with which the new ones are compared are read of the
    // objects that both sides have.
    assert!(reads.old <= metadata, "{reads:?} of {metadata}");
    Ok(())
}
