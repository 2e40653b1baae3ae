//! A file that only its owner may read stays so: in commits, switches, merges, clones and exports.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::merge::ConflictKind;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    CheckoutOptions, CheckoutTarget, FastForward, MergeOptions, MergeReport, Repo, Selection,
    StatusOptions, StatusReport, Who,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_net::ops::{CloneOptions, Network, clone};
use dmv_net::transport::Url;
use dmv_random::{number, seed};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{fast_dir, request};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A file: its content, whether it is executable, and whether only its owner may read it.
type Item = (String, bool, bool);
type Files = BTreeMap<String, Item>;

const FILES: u64 = 8;

/// Returns whether others may read what this process makes. Where they may not, privacy says nothing.
fn others_may_read() -> Done<bool> {
    let temp = fast_dir()?;
    fs::write(temp.path().join("probe"), "")?;
    let may = fs::metadata(temp.path().join("probe"))?
        .permissions()
        .mode()
        & 0o077
        != 0;
    if !may {
        dmv_random::skip("the umask makes every file private");
    }
    Ok(may)
}

fn mode_of((_, exec, private): &Item) -> u32 {
    match (exec, private) {
        (false, false) => 0o644,
        (false, true) => 0o600,
        (true, false) => 0o755,
        (true, true) => 0o700,
    }
}

fn write(dir: &Path, files: &Files) -> Done {
    for (path, item) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("it is in a directory"))?;
        if fs::read_to_string(&path).ok().as_ref() != Some(&item.0) {
            fs::write(&path, &item.0)?;
        }
        fs::set_permissions(&path, Permissions::from_mode(mode_of(item)))?;
    }
    Ok(())
}

fn chmod(place: &Place, path: &str, mode: u32) -> Done {
    let path = place.dir.path().join(path);
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

fn mode(dir: &Path, path: &str) -> Done<u32> {
    Ok(fs::metadata(dir.join(path))?.permissions().mode() & 0o777)
}

/// Reads the files in a directory and the directories in it.
fn on_disk(dir: &Path) -> Done<Files> {
    let mut files = Files::new();
    let mut dirs = vec![String::new()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(dir.join(&at))? {
            let entry = entry?;
            let path = format!("{at}{}", entry.file_name().to_string_lossy());
            let mode = entry.metadata()?.permissions().mode();
            if path == ".dmv" {
                continue;
            } else if entry.file_type()?.is_dir() {
                dirs.push(path + "/");
            } else {
                let content = fs::read_to_string(entry.path())?;
                files.insert(path, (content, mode & 0o100 != 0, mode & 0o077 == 0));
            }
        }
    }
    Ok(files)
}

/// Returns which files a commit has, and which of them are private.
fn private_in(repo: &Repo, id: &ObjectId) -> Done<BTreeMap<String, bool>> {
    let tree = repo.read_commit(id)?.tree;
    let mut out = BTreeMap::new();
    repo.list(&RepoPath::root(), tree, true, &mut |listed| {
        out.insert(listed.path.to_string(), listed.entry.is_private());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(out)
}

pub fn status(repo: &Repo) -> Done<StatusReport> {
    let select = Paths::default();
    let settings = Default::default();
    let options = StatusOptions {
        select: &select,
        settings,
    };
    Ok(repo.status(&options, &Job::default())?)
}

pub fn switch(repo: &Repo, to: ObjectId) -> Done {
    let target = CheckoutTarget::Commit(to);
    let options = CheckoutOptions::new(request("checkout"));
    let report = repo.checkout(target, &options, &Job::default())?;
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    Ok(())
}

pub fn merge(repo: &Repo, theirs: ObjectId) -> Done<MergeReport> {
    let options = MergeOptions::new("merged", Who::new("Test", ""), request("merge"));
    Ok(repo.merge(theirs, FastForward::Never, &options, &Job::default())?)
}

/// Clones the repository in `from`, with `commit` in the worktree.
pub fn cloned(from: &Path, to: &Path, commit: ObjectId) -> Done<Repo> {
    let options = CloneOptions::new(Url::Path(from.to_owned()), to, request("clone"));
    let cloned = clone(&options, &Network::new(request("clone")), &Job::default())?.repo;
    switch(&cloned, commit)?;
    Ok(cloned)
}

/// Exports all of `commit`.
pub fn export(repo: &Repo, commit: ObjectId, to: &Path) -> Done {
    let root = RepoPath::root();
    let at = repo.locate("it", &repo.read_commit(&commit)?, &root)?;
    let wanted = Selection {
        path: &root,
        located: &at,
        subset: &Subset::everything(),
    };
    repo.export(wanted, to, &Job::default())?;
    Ok(())
}

/// Changes one property of a file.
fn change(item: &mut Item, property: u64, rng: &mut Rng) {
    match property {
        0 => item.0 = format!("{}\n", rng.below(1 << 40)),
        1 => item.1 = !item.1,
        2 => item.2 = !item.2,
        _ => {}
    }
}

#[test]
fn every_checkout_merge_clone_and_export_has_the_permissions_that_were_committed() -> Done {
    if !others_may_read()? {
        return Ok(());
    }
    let seed = seed(1);
    for round in 0..number("DMV_ROUNDS", 6) {
        let mut rng = Rng::new(seed + round);
        let place = Place::new()?;
        let (dir, repo) = (place.dir.path(), &place.repo);
        let mut base = Files::new();
        for n in 0..FILES {
            let (content, exec) = (format!("{n}\n"), rng.one_in(3));
            base.insert(format!("d{}/f{n}", n % 3), (content, exec, rng.one_in(2)));
        }
        write(dir, &base)?;
        let first = place.commit("base")?;
        let (mut ours, mut theirs, mut merged) = (base.clone(), base.clone(), base.clone());
        for path in base.keys() {
            let (a, b) = (rng.below(4), rng.below(4));
            let item = |side: &mut Files| side.remove(path).expect("every side has it");
            let (mut one, mut other, mut both) =
                (item(&mut ours), item(&mut theirs), item(&mut merged));
            change(&mut one, a, &mut rng);
            if b != a {
                change(&mut other, b, &mut rng);
            }
            for side in [&one, &other] {
                let was = &base[path];
                both.0 = if side.0 == was.0 {
                    both.0
                } else {
                    side.0.clone()
                };
                both.1 ^= side.1 != was.1;
                both.2 ^= side.2 != was.2;
            }
            ours.insert(path.clone(), one);
            theirs.insert(path.clone(), other);
            merged.insert(path.clone(), both);
        }
        write(dir, &ours)?;
        let our_tip = place.commit("ours")?;
        switch(repo, first)?;
        assert_eq!(on_disk(dir)?, base, "round {round}");
        write(dir, &theirs)?;
        let their_tip = place.commit("theirs")?;
        switch(repo, our_tip)?;
        assert_eq!(on_disk(dir)?, ours, "round {round}");
        let done = merge(repo, their_tip)?;
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(on_disk(dir)?, merged, "round {round}");
        assert_eq!(status(repo)?.changes, []);
        let private: BTreeMap<String, bool> =
            merged.iter().map(|(p, item)| (p.clone(), item.2)).collect();
        assert_eq!(private_in(repo, &done.commit)?, private, "round {round}");

        let temp = fast_dir()?;
        let (copy, out) = (temp.path().join("copy"), temp.path().join("out"));
        let copied = cloned(dir, &copy, our_tip)?;
        assert_eq!(on_disk(&copy)?, ours, "round {round}");
        export(&copied, their_tip, &out)?;
        assert_eq!(on_disk(&out)?, theirs, "round {round}");
    }
    Ok(())
}

#[test]
fn permissions_alone_are_a_change_and_no_others_change_an_id() -> Done {
    if !others_may_read()? {
        return Ok(());
    }
    let place = Place::new()?;
    place.write("key", b"secret")?;
    let (first, repo) = (place.commit("one")?, &place.repo);
    let tree = |id: &ObjectId| repo.read_commit(id).map(|commit| commit.tree);
    for mode in [0o640, 0o604, 0o664] {
        chmod(&place, "key", mode)?;
        assert_eq!(status(repo)?.changes, [], "{mode:o}");
        assert_eq!(tree(&place.commit("same")?)?, tree(&first)?, "{mode:o}");
    }
    chmod(&place, "key", 0o400)?;
    assert_eq!(status(repo)?.changes.len(), 1);
    let private = place.commit("private")?;
    assert_ne!(tree(&private)?, tree(&first)?);
    assert_eq!(status(repo)?.changes, []);
    // A moved and changed file, too.
    fs::rename(place.dir.path().join("key"), place.dir.path().join("lock"))?;
    chmod(&place, "lock", 0o600)?;
    place.commit("moved")?;
    switch(repo, private)?;
    assert_eq!(mode(place.dir.path(), "key")? & 0o077, 0);
    switch(repo, first)?;
    assert_ne!(mode(place.dir.path(), "key")? & 0o077, 0);
    chmod(&place, "key", 0o600)?;
    chmod(&place, "key", 0o644)?;
    assert_eq!(status(repo)?.changes, []);
    Ok(())
}

#[test]
fn a_conflict_shows_nothing_private_to_others() -> Done {
    if !others_may_read()? {
        return Ok(());
    }
    let place = Place::new()?;
    let (dir, repo) = (place.dir.path(), &place.repo);
    for path in ["text", "data"] {
        place.write(path, b"one\n")?;
    }
    let first = place.commit("base")?;
    place.write("text", b"ours\n")?;
    place.write("data", b"ours\0")?;
    place.write("both", b"same")?;
    let ours = place.commit("ours")?;
    switch(repo, first)?;
    for (path, content) in [("text", "theirs\n"), ("data", "theirs\0"), ("both", "same")] {
        place.write(path, content.as_bytes())?;
        chmod(&place, path, 0o600)?;
    }
    let theirs = place.commit("theirs")?;
    switch(repo, ours)?;
    let done = merge(repo, theirs)?;
    let kind = |path: &str| {
        let mut all = done.conflicts.iter();
        all.find(|at| at.path.as_bytes() == path.as_bytes())
            .map(|at| at.kind())
    };
    assert_eq!(kind("both"), Some(ConflictKind::Mode));
    assert_eq!(kind("text"), Some(ConflictKind::Content));
    // The text has lines of both; of the other files, one version is private.
    for path in ["text", "text.theirs", "data.theirs", "both.theirs"] {
        assert_eq!(mode(dir, path)? & 0o077, 0, "{path}");
    }
    for path in ["data", "both", "text.ours"] {
        assert_ne!(mode(dir, path)? & 0o077, 0, "{path}");
    }
    assert_eq!(status(repo)?.changes, []);
    switch(repo, first)?;
    switch(repo, done.commit)?;
    assert_eq!(mode(dir, "text")? & 0o077, 0);
    assert_eq!(status(repo)?.changes, []);
    Ok(())
}
