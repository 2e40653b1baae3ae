//! Times of files: commits keep them where a setting or an attribute file says so, and whatever writes a file
//! restores its time.

use crate::privacy::{cloned, export, merge, status, switch};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{ModifiedTime, lookup_path};
use dmv_core::repo::{CommitOptions, Repo, Who, WorktreeSettings};
use dmv_core::subset::Subset;
use dmv_core::worktree::properties::Properties;
use dmv_core::worktree::select::Paths;
use dmv_random::{number, seed};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{fast_dir, request};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The content of files and their times.
type Files = BTreeMap<String, (String, SystemTime)>;

/// Commits everything, with times or without.
fn commit(repo: &Repo, times: bool) -> Done<Option<ObjectId>> {
    let options = CommitOptions {
        message: Some("files".to_owned()),
        author: None,
        date: None,
        committer: Who::new("Test", ""),
        select: &Paths::default(),
        amend: false,
        allow_empty: false,
        allow_markers: false,
        refuse_large: None,
        settings: WorktreeSettings {
            properties: Properties {
                times,
                ..Properties::default()
            },
            ..WorktreeSettings::default()
        },
        request: request("commit"),
    };
    Ok(repo.commit(options, &Job::default())?.commit)
}

fn new_commit(repo: &Repo, times: bool) -> Done<ObjectId> {
    Ok(commit(repo, times)?.ok_or("nothing to commit")?)
}

fn put(dir: &Path, path: &str, content: &str, time: SystemTime) -> Done {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().expect("it is in a directory"))?;
    fs::write(&path, content)?;
    Ok(File::options()
        .write(true)
        .open(&path)?
        .set_modified(time)?)
}

fn put_all(dir: &Path, files: &Files, but: &Files) -> Done {
    for (path, file) in files
        .iter()
        .filter(|(path, file)| but.get(*path) != Some(file))
    {
        put(dir, path, &file.0, file.1)?;
    }
    Ok(())
}

fn on_disk(dir: &Path, of: &Files) -> Done<Files> {
    let mut files = Files::new();
    for path in of.keys() {
        let at = dir.join(path);
        let file = (fs::read_to_string(&at)?, fs::metadata(&at)?.modified()?);
        files.insert(path.clone(), file);
    }
    Ok(files)
}

/// A time of the last hundred years or so.
fn past(rng: &mut Rng) -> SystemTime {
    let after = Duration::new(rng.below(3_000_000_000), rng.below(1_000_000_000) as u32);
    UNIX_EPOCH - Duration::from_secs(1_400_000_000) + after
}

fn time_in(repo: &Repo, commit: &ObjectId, path: &str) -> Done<Option<ModifiedTime>> {
    let tree = repo.read_commit(commit)?.tree;
    let path = RepoPath::parse(path.as_bytes()).map_err(|e| e.why())?;
    let entry = lookup_path(repo.objects(), &tree, &path)?;
    Ok(entry.ok_or("no entry")?.modified())
}

#[test]
fn every_checkout_merge_clone_and_export_has_the_times_that_were_committed() -> Done {
    let seed = seed(1);
    for round in 0..number("DMV_ROUNDS", 4) {
        let mut rng = Rng::new(seed + round);
        let place = Place::new()?;
        let (dir, repo) = (place.dir.path(), &place.repo);
        let mut base = Files::new();
        for n in 0..12 {
            let content = format!("{n} of {round}\n");
            base.insert(format!("d{}/f{n}", n % 3), (content, past(&mut rng)));
        }
        put_all(dir, &base, &Files::new())?;
        let first = new_commit(repo, true)?;
        let (mut ours, mut theirs, mut merged) = (base.clone(), base.clone(), base.clone());
        for (path, (was, _)) in &base {
            let mut new = || (format!("{was}{}\n", rng.below(1 << 40)), past(&mut rng));
            let (one, other) = (new(), new());
            match rng.below(4) {
                0 => drop((
                    ours.insert(path.clone(), one.clone()),
                    merged.insert(path.clone(), one),
                )),
                1 => drop((
                    theirs.insert(path.clone(), one.clone()),
                    merged.insert(path.clone(), one),
                )),
                // The same change on both sides, at different times: the later one counts.
                2 => {
                    let later = one.1.max(other.1);
                    ours.insert(path.clone(), one.clone());
                    theirs.insert(path.clone(), (one.0.clone(), other.1));
                    merged.insert(path.clone(), (one.0, later));
                }
                _ => {}
            }
        }
        ours.insert("ours".into(), ("ours".into(), past(&mut rng)));
        theirs.insert("theirs".into(), ("theirs".into(), past(&mut rng)));
        merged.extend([("ours".into(), ours["ours"].clone())]);
        merged.extend([("theirs".into(), theirs["theirs"].clone())]);
        put_all(dir, &ours, &base)?;
        let our_tip = new_commit(repo, true)?;
        switch(repo, first)?;
        assert_eq!(on_disk(dir, &base)?, base, "round {round}");
        put_all(dir, &theirs, &base)?;
        let their_tip = new_commit(repo, true)?;
        switch(repo, our_tip)?;
        assert_eq!(on_disk(dir, &ours)?, ours, "round {round}");
        let done = merge(repo, their_tip)?;
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(on_disk(dir, &merged)?, merged, "round {round}");
        assert_eq!(status(repo)?.changes, []);
        assert_eq!(commit(repo, true)?, None);

        let temp = fast_dir()?;
        let (copy, out) = (temp.path().join("copy"), temp.path().join("out"));
        let copied = cloned(dir, &copy, done.commit)?;
        assert_eq!(on_disk(&copy, &merged)?, merged, "round {round}");
        export(&copied, their_tip, &out)?;
        assert_eq!(on_disk(&out, &theirs)?, theirs, "round {round}");
    }
    Ok(())
}

#[test]
fn a_time_alone_is_no_change_and_without_the_setting_no_commit_has_times() -> Done {
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    let day = |n: u64| UNIX_EPOCH + Duration::from_secs(n * 86_400);
    put(dir, "a", "one", day(1))?;
    let plain = new_commit(repo, false)?;
    assert_eq!(time_in(repo, &plain, "a")?, None);
    put(dir, "a", "one", day(2))?;
    assert_eq!(status(repo)?.changes, []);
    assert_eq!(commit(repo, true)?, None);
    put(dir, "a", "two", day(3))?;
    let with = new_commit(repo, true)?;
    let seconds = |time: Option<ModifiedTime>| time.map(|time| time.seconds / 86_400);
    assert_eq!(seconds(time_in(repo, &with, "a")?), Some(3));
    put(dir, "a", "two", day(4))?;
    put(dir, "b", "one", day(5))?;
    let more = new_commit(repo, true)?;
    assert_eq!(seconds(time_in(repo, &more, "a")?), Some(3));
    assert_eq!(seconds(time_in(repo, &more, "b")?), Some(5));
    // Whoever does not keep times drops those of the files that change.
    put(dir, "b", "two", day(6))?;
    let dropped = new_commit(repo, false)?;
    assert_eq!(time_in(repo, &dropped, "b")?, None);
    assert_eq!(seconds(time_in(repo, &dropped, "a")?), Some(3));
    Ok(())
}

#[test]
fn attribute_files_say_which_times_are_kept() -> Done {
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    let time = UNIX_EPOCH + Duration::from_secs(1);
    let keeps = "*.mov times\nold -times\n";
    put(dir, ".dmvattributes", keeps, time)?;
    put(
        dir,
        "shots/.dmvattributes",
        "*.txt times\nb.mov -times\n",
        time,
    )?;
    let paths = ["a.mov", "a.txt", "old/a.mov", "shots/a.txt", "shots/b.mov"];
    for path in paths {
        put(dir, path, path, time)?;
    }
    let all = new_commit(repo, false)?;
    let kept = paths.map(|path| time_in(repo, &all, path).is_ok_and(|time| time.is_some()));
    assert_eq!(kept, [true, false, false, true, false]);
    // Where the file is outside of the subset, the commit's counts.
    let subset = Subset::new([&b"old"[..], b"deep"])?;
    let settings = WorktreeSettings::default();
    repo.set_subset(subset, &settings, request("subset"), &Job::default())?;
    assert!(!dir.join(".dmvattributes").exists());
    for path in ["old/b.mov", "deep/b.mov"] {
        put(dir, path, path, time)?;
    }
    let part = new_commit(repo, false)?;
    assert_eq!(time_in(repo, &part, "old/b.mov")?, None);
    assert!(time_in(repo, &part, "deep/b.mov")?.is_some());
    Ok(())
}

#[test]
fn a_time_of_the_future_is_kept_and_not_applied() -> Done {
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    place.write("other", b"1")?;
    let before = place.commit("before")?;
    let future = SystemTime::now() + Duration::from_secs(1 << 30);
    put(dir, "a", "one", future)?;
    let after = new_commit(repo, true)?;
    assert!(time_in(repo, &after, "a")?.is_some());
    switch(repo, before)?;
    switch(repo, after)?;
    assert!(fs::metadata(dir.join("a"))?.modified()? <= SystemTime::now());
    assert_eq!(status(repo)?.changes, []);
    Ok(())
}
