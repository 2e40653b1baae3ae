//! Extended attributes: commits keep those that somebody asks for, and whatever writes a file restores them.

use crate::onto;
use crate::privacy::{cloned, export, merge, switch};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::limits::MAX_XATTRS_BYTES;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{
    CommitOptions, CommitReport, Repo, StatusOptions, StatusReport, Who, WorktreeSettings,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::properties::{Properties, XattrNames};
use dmv_core::worktree::select::Paths;
use dmv_random::{number, seed};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{fast_dir, request};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Names without `user.`, and values.
type Attributes = BTreeMap<String, String>;
/// The content of files and their attributes.
type Files = BTreeMap<String, (String, Attributes)>;

fn settings(names: &str) -> WorktreeSettings {
    WorktreeSettings {
        properties: Properties {
            times: false,
            xattrs: XattrNames::parse(names).expect("these are patterns"),
        },
        ..WorktreeSettings::default()
    }
}

/// Commits everything, with the attributes that `names` names.
fn commit(repo: &Repo, names: &str) -> Done<CommitReport> {
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
        settings: settings(names),
        request: request("commit"),
    };
    Ok(repo.commit(options, &Job::default())?)
}

fn new_commit(repo: &Repo, names: &str) -> Done<ObjectId> {
    Ok(commit(repo, names)?.commit.ok_or("nothing to commit")?)
}

fn status(repo: &Repo, names: &str) -> Done<StatusReport> {
    let select = Paths::default();
    let options = StatusOptions {
        select: &select,
        settings: settings(names),
    };
    Ok(repo.status(&options, &Job::default())?)
}

/// Returns whether files of tests have such attributes.
fn can_have_attributes() -> Done<bool> {
    let temp = fast_dir()?;
    let path = temp.path().join("probe");
    fs::write(&path, "")?;
    let can = lsetxattr(&path, "user.probe", b"", XattrFlags::empty()).is_ok();
    if !can {
        dmv_random::skip("the file system has no extended attributes");
    }
    Ok(can)
}

fn attributes(path: &Path) -> Done<Attributes> {
    let mut names = [0; 4096];
    let len = llistxattr(path, &mut names[..])?;
    let mut out = Attributes::new();
    for name in names[..len].split(|b| *b == 0) {
        let Some(short) = name.strip_prefix(b"user.") else {
            continue;
        };
        let mut value = [0; 4096];
        let len = lgetxattr(path, name, &mut value[..])?;
        let value = String::from_utf8(value[..len].to_vec())?;
        out.insert(String::from_utf8(short.to_vec())?, value);
    }
    Ok(out)
}

/// Writes a file, unless it has the content, and makes its attributes equal to `want`.
fn put(dir: &Path, path: &str, content: &str, want: &Attributes) -> Done {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().expect("it is in a directory"))?;
    if fs::read_to_string(&path).ok().as_deref() != Some(content) {
        fs::write(&path, content)?;
    }
    for name in attributes(&path)?.keys() {
        if !want.contains_key(name) {
            lremovexattr(&path, format!("user.{name}"))?;
        }
    }
    for (name, value) in want {
        let name = format!("user.{name}");
        lsetxattr(&path, name, value.as_bytes(), XattrFlags::empty())?;
    }
    Ok(())
}

fn put_all(dir: &Path, files: &Files) -> Done {
    let mut files = files.iter();
    files.try_for_each(|(path, (content, want))| put(dir, path, content, want))
}

fn on_disk(dir: &Path, of: &Files) -> Done<Files> {
    let mut files = Files::new();
    for path in of.keys() {
        let at = dir.join(path);
        files.insert(path.clone(), (fs::read_to_string(&at)?, attributes(&at)?));
    }
    Ok(files)
}

fn kept(repo: &Repo, commit: &ObjectId, path: &str) -> Done<Attributes> {
    let tree = repo.read_commit(commit)?.tree;
    let path = RepoPath::parse(path.as_bytes()).map_err(|e| e.why())?;
    let entry = lookup_path(repo.objects(), &tree, &path)?.ok_or("no entry")?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let all = entry.xattrs();
    Ok(all.iter().map(|(n, v)| (n.to_owned(), text(v))).collect())
}

fn some(all: &[(&str, &str)]) -> Attributes {
    let all = all.iter();
    all.map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect()
}

/// Sets or removes some attributes.
fn change(all: &mut Attributes, rng: &mut Rng) {
    for _ in 0..=rng.below(2) {
        let name = format!("n{}", rng.below(3));
        match rng.below(3) {
            0 => drop(all.remove(&name)),
            _ => drop(all.insert(name, rng.below(4).to_string())),
        }
    }
}

/// The value of each attribute after a merge, written down in another way than the program does.
fn merged(base: &Attributes, ours: &Attributes, theirs: &Attributes) -> Attributes {
    let mut out = Attributes::new();
    for name in ["n0", "n1", "n2"] {
        let [was, a, b] = [base, ours, theirs].map(|side| side.get(name).cloned());
        let mut changed: Vec<Option<String>> = [a, b].into_iter().filter(|x| *x != was).collect();
        changed.sort();
        let value = changed.pop().unwrap_or(was);
        out.extend(value.map(|value| (name.to_owned(), value)));
    }
    out
}

#[test]
fn every_checkout_merge_clone_and_export_has_the_attributes_that_were_committed() -> Done {
    if !can_have_attributes()? {
        return Ok(());
    }
    let seed = seed(1);
    for round in 0..number("DMV_ROUNDS", 6) {
        let mut rng = Rng::new(seed + round);
        let place = Place::new()?;
        let (dir, repo) = (place.dir.path(), &place.repo);
        let (mut base, mut ours, mut theirs, mut both) =
            (Files::new(), Files::new(), Files::new(), Files::new());
        for n in 0..10 {
            let path = format!("d{}/f{n}", n % 3);
            let mut was = (format!("{n}\n"), Attributes::new());
            change(&mut was.1, &mut rng);
            let (mut one, mut other, mut all) = (was.clone(), was.clone(), was.clone());
            for (side, dice) in [(&mut one, rng.below(4)), (&mut other, rng.below(4))] {
                if dice % 2 == 1 {
                    change(&mut side.1, &mut rng);
                }
            }
            if rng.one_in(2) {
                let side = if rng.one_in(2) { &mut one } else { &mut other };
                side.0 = format!("{}\n", rng.below(1 << 40));
                all.0 = side.0.clone();
            }
            all.1 = merged(&was.1, &one.1, &other.1);
            base.insert(path.clone(), was);
            ours.insert(path.clone(), one);
            theirs.insert(path.clone(), other);
            both.insert(path, all);
        }
        ours.insert("ours".into(), ("1".into(), some(&[("n0", "x")])));
        theirs.insert("theirs".into(), ("2".into(), some(&[("n1", "")])));
        both.extend([("ours".into(), ours["ours"].clone())]);
        both.extend([("theirs".into(), theirs["theirs"].clone())]);
        put_all(dir, &base)?;
        let first = new_commit(repo, "user.*")?;
        put_all(dir, &ours)?;
        let our_tip = new_commit(repo, "user.*")?;
        switch(repo, first)?;
        assert_eq!(on_disk(dir, &base)?, base, "round {round}");
        put_all(dir, &theirs)?;
        let their_tip = new_commit(repo, "user.*")?;
        switch(repo, our_tip)?;
        assert_eq!(on_disk(dir, &ours)?, ours, "round {round}");
        let done = merge(repo, their_tip)?;
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(on_disk(dir, &both)?, both, "round {round}");
        assert_eq!(status(repo, "user.*")?.changes, [], "round {round}");
        assert_eq!(commit(repo, "user.*")?.commit, None, "round {round}");
        let tree = repo.read_commit(&done.commit)?.tree;
        switch(repo, their_tip)?;
        let other_way = merge(repo, our_tip)?;
        assert_eq!(repo.read_commit(&other_way.commit)?.tree, tree);

        let temp = fast_dir()?;
        let (copy, out) = (temp.path().join("copy"), temp.path().join("out"));
        let copied = cloned(dir, &copy, done.commit)?;
        assert_eq!(on_disk(&copy, &both)?, both, "round {round}");
        export(&copied, their_tip, &out)?;
        assert_eq!(on_disk(&out, &theirs)?, theirs, "round {round}");
    }
    Ok(())
}

#[test]
fn an_attribute_is_a_change_only_where_somebody_asks_for_it() -> Done {
    if !can_have_attributes()? {
        return Ok(());
    }
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    put(
        dir,
        "a",
        "one",
        &some(&[("mood", "sad"), ("xdg.tags", "red")]),
    )?;
    let plain = new_commit(repo, "")?;
    assert_eq!(kept(repo, &plain, "a")?, some(&[]));
    put(
        dir,
        "a",
        "one",
        &some(&[("mood", "good"), ("xdg.tags", "red")]),
    )?;
    assert_eq!(status(repo, "")?.changes, []);
    put(
        dir,
        "a",
        "one",
        &some(&[("mood", "best"), ("xdg.tags", "red")]),
    )?;
    assert_eq!(status(repo, "user.mood")?.changes.len(), 1);
    let mood = new_commit(repo, "user.mood")?;
    assert_eq!(kept(repo, &mood, "a")?, some(&[("mood", "best")]));
    assert_eq!(status(repo, "user.mood")?.changes, []);
    // Whoever does not ask leaves them as they are, also with new content.
    put(dir, "a", "two", &some(&[]))?;
    let silent = new_commit(repo, "user.xdg.*")?;
    assert_eq!(kept(repo, &silent, "a")?, some(&[("mood", "best")]));
    // Taken away where they are asked for.
    put(dir, "a", "three", &some(&[("xdg.tags", "blue")]))?;
    let last = new_commit(repo, "user.*")?;
    assert_eq!(kept(repo, &last, "a")?, some(&[("xdg.tags", "blue")]));
    // What was committed comes back, whoever asks.
    switch(repo, mood)?;
    assert_eq!(attributes(&dir.join("a"))?, some(&[("mood", "best")]));
    Ok(())
}

#[test]
fn attributes_that_are_too_large_stay_as_they_were_and_are_told() -> Done {
    if !can_have_attributes()? {
        return Ok(());
    }
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    put(dir, "a", "one", &some(&[("note", "short")]))?;
    new_commit(repo, "user.*")?;
    let long = "x".repeat(MAX_XATTRS_BYTES);
    put(dir, "a", "two", &some(&[("note", &long)]))?;
    let report = commit(repo, "user.*")?;
    let told = &report.remarks.not_kept.large_attributes;
    assert_eq!(told, &(1, b"a".to_vec()));
    let after = report.commit.ok_or("a commit")?;
    assert_eq!(kept(repo, &after, "a")?, some(&[("note", "short")]));
    assert_eq!(status(repo, "user.*")?.changes, []);
    Ok(())
}

#[test]
fn attribute_files_say_which_are_kept_also_outside_of_the_subset() -> Done {
    if !can_have_attributes()? {
        return Ok(());
    }
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    let (none, all) = (some(&[]), some(&[("a", "1"), ("b", "2")]));
    put(
        dir,
        ".dmvattributes",
        "*.mov xattrs=user.a\nold -xattrs\n",
        &none,
    )?;
    put(dir, "shots/.dmvattributes", "*.txt xattrs=user.b\n", &none)?;
    let paths = ["a.mov", "a.txt", "old/a.mov", "shots/a.txt", "shots/b.mov"];
    for path in paths {
        put(dir, path, path, &all)?;
    }
    let first = new_commit(repo, "")?;
    let names =
        |path: &str| kept(repo, &first, path).map(|all| all.into_keys().collect::<String>());
    let found = paths.map(|path| names(path).unwrap_or_default());
    assert_eq!(found, ["a", "", "", "b", "a"]);
    let subset = Subset::new([&b"deep"[..]])?;
    repo.set_subset(subset, &settings(""), request("subset"), &Job::default())?;
    put(dir, "deep/b.mov", "new", &all)?;
    let part = new_commit(repo, "")?;
    assert_eq!(kept(repo, &part, "deep/b.mov")?, some(&[("a", "1")]));
    Ok(())
}

#[test]
fn a_commit_without_a_worktree_keeps_the_attributes_of_a_file() -> Done {
    if !can_have_attributes()? {
        return Ok(());
    }
    let place = Place::new()?;
    let all = some(&[("note", "kept")]);
    put(place.dir.path(), "a", "1", &all)?;
    new_commit(&place.repo, "user.*")?;
    let mut files = place.repo.files_for_branch(&request("commit"))?;
    onto::put(&mut files, "a", b"1")?;
    let same = files
        .commit(&onto::options("the same"), &Job::default())?
        .commit;
    assert_eq!(same, None, "attributes alone are no change of it");
    let mut files = place.repo.files_for_branch(&request("commit"))?;
    onto::put(&mut files, "a", b"2")?;
    let made = files.commit(&onto::options("new"), &Job::default())?;
    let made = made.commit.ok_or("a commit")?;
    assert_eq!(kept(&place.repo, &made, "a")?, all);
    Ok(())
}
