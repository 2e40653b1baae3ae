//! The stat cache only saves time. Without it, with a damaged one, or with one of other
//! directories, every answer is the same.

use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    ChangeKind, FileState, PathChange, Repo, SharedRepo, StatusOptions, Whose, discover,
};
use dmv_core::worktree::select::Paths;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, fast_dir, files_in, files_of, request};
use std::fs;
use std::path::Path;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const STAT: &str = ".dmv/worktrees/main/stat";

fn changes(root: &Path) -> Outcome<Vec<PathChange>> {
    let select = Paths::default();
    let options = StatusOptions {
        select: &select,
        settings: Default::default(),
    };
    Ok(Repo::open(root)?.status(&options, &Job::default())?.changes)
}

/// Returns the changes without a stat cache. The stat cache is restored afterwards.
fn changes_without(root: &Path) -> Outcome<Vec<PathChange>> {
    let stat = root.join(STAT);
    let cache = fs::read(&stat)?;
    fs::remove_file(&stat)?;
    let told = changes(root)?;
    fs::write(&stat, cache)?;
    Ok(told)
}

#[test]
fn a_directory_that_goes_and_comes_back_is_unchanged() -> Outcome {
    let temp = fast_dir()?;
    let (root, away) = (temp.path().join("w"), temp.path().join("away"));
    fs::create_dir_all(root.join("b/deep"))?;
    Repo::init(&root, "main", false, request("init"))?;
    for path in ["a", "b/f", "b/deep/g"] {
        fs::write(root.join(path), path)?;
    }
    commit(&Repo::open(&root)?, "all")?;
    assert_eq!(changes(&root)?, []);
    fs::rename(root.join("b"), &away)?;
    assert_eq!(changes(&root)?.len(), 2);
    fs::rename(&away, root.join("b"))?;
    assert_eq!(changes(&root)?, []);
    Ok(())
}

#[test]
fn directories_that_leave_return_and_change_their_kind_do_not_confuse_the_cache() -> Outcome {
    let temp = fast_dir()?;
    let (root, away) = (temp.path().join("w"), temp.path().join("away"));
    fs::create_dir_all(&root)?;
    fs::create_dir_all(&away)?;
    Repo::init(&root, "main", false, request("init"))?;
    let mut rng = Rng::new(5);
    let paths = ["a", "b", "a/c", "b/d", "a/c/e"];
    for step in 0..150 {
        let path = paths[rng.below(paths.len() as u64) as usize];
        let (at, aside) = (root.join(path), away.join(path.replace('/', "-")));
        // An action that does not fit the current entry fails and changes nothing.
        let _ = match rng.below(6) {
            0 => fs::rename(&at, &aside),
            1 => fs::rename(&aside, &at),
            2 => fs::create_dir_all(&at),
            3 => fs::remove_file(&at),
            _ => fs::write(at.join("f"), format!("{step}")).or_else(|_| fs::write(&at, "file")),
        };
        if rng.one_in(8) {
            let repo = Repo::open(&root)?;
            let made = commit(&repo, "now")?.commit.ok_or("a commit")?;
            assert_eq!(files_of(&repo, &made)?, files_in(&root)?, "step {step}");
        }
        if root.join(STAT).exists() {
            let without = changes_without(&root)?;
            assert_eq!(changes(&root)?, without, "step {step}");
        }
    }
    Ok(())
}

/// What `status` says of a path, with what the test knows of the ignore rules.
fn told_of(root: &Path, path: &str, changes: &[PathChange], tracked: &[String]) -> FileState {
    let is_tracked = tracked
        .iter()
        .any(|one| one == path || one.starts_with(&format!("{path}/")));
    let of_path = |change: &&PathChange| change.path.as_bytes() == path.as_bytes();
    match Vec::from_iter(changes.iter().filter(of_path))[..] {
        [change] => FileState::Changed(change.kind),
        [_, _] => FileState::Changed(ChangeKind::Type),
        _ if is_tracked => FileState::Unchanged,
        _ if path.ends_with(".tmp") || path.starts_with("out/") => FileState::Ignored,
        _ if root.join(path).symlink_metadata().is_ok() => FileState::Unchanged,
        _ => FileState::Unknown,
    }
}

#[test]
fn the_state_of_each_path_is_what_status_says() -> Outcome {
    let temp = fast_dir()?;
    let (root, away) = (temp.path().join("w"), temp.path().join("away"));
    fs::create_dir_all(root.join("out"))?;
    fs::create_dir_all(&away)?;
    Repo::init(&root, "main", false, request("init"))?;
    fs::write(root.join(".dmvignore"), "*.tmp\n/out/\n")?;
    // A session keeps its repository open and asks again and again.
    let (session, place) = (SharedRepo::default(), discover(&root)?);
    let mut rng = Rng::new(11);
    let paths = [
        "a", "b", "a/c", "a/d.tmp", "a/c/e", "b/f", "out/g", "h.tmp", "a/c/f", "f",
    ];
    for step in 0..250 {
        let path = paths[rng.below(paths.len() as u64) as usize];
        let (at, aside) = (root.join(path), away.join(path.replace('/', "-")));
        // An action that does not fit the current entry fails and changes nothing.
        let _ = match rng.below(7) {
            0 => fs::rename(&at, &aside),
            1 => fs::rename(&aside, &at),
            2 => fs::create_dir_all(&at),
            3 => fs::remove_file(&at),
            4 => std::os::unix::fs::symlink("f", &at),
            _ => fs::write(at.join("f"), format!("{step}")).or_else(|_| fs::write(&at, "file")),
        };
        let repo = Repo::open(&root)?;
        let kept = session.get(place.clone(), Whose::Own)?;
        if rng.one_in(6) {
            commit(if step % 2 == 0 { &repo } else { &kept }, "now")?;
        }
        let kept = session.get(place.clone(), Whose::Own)?;
        let base = repo.base_commit()?;
        let tracked = match &base {
            Some(id) => files_of(&repo, id)?
                .into_keys()
                .map(String::from_utf8)
                .collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        let asked: Result<Vec<_>, _> = paths
            .iter()
            .map(|path| Repo::parse_path(path.as_bytes()))
            .collect();
        let asked = asked?;
        let states = |some: &[_]| repo.states(some, &Default::default(), &Job::default());
        let of_session = || kept.states(&asked, &Default::default(), &Job::default());
        // Before a status has brought the stat cache up to date, and after it.
        let first = of_session()?;
        let (before, told) = (states(&asked)?, changes(&root)?);
        let after = states(&asked)?;
        let second = of_session()?;
        for (at, path) in paths.iter().enumerate() {
            let expected = told_of(&root, path, &told, &tracked);
            assert_eq!(before[at], expected, "step {step}: {path}");
            assert_eq!(after[at], expected, "step {step}: {path}");
            assert_eq!(first[at], expected, "step {step}: {path}");
            assert_eq!(second[at], expected, "step {step}: {path}");
            assert_eq!(states(&asked[at..=at])?, [expected], "step {step}: {path}");
        }
    }
    Ok(())
}

#[test]
fn files_behind_a_new_symlink_are_not_unchanged() -> Outcome {
    let temp = fast_dir()?;
    let (root, away) = (temp.path().join("w"), temp.path().join("away"));
    fs::create_dir_all(root.join("d"))?;
    Repo::init(&root, "main", false, request("init"))?;
    fs::write(root.join("d/f"), "file")?;
    commit(&Repo::open(&root)?, "all")?;
    changes(&root)?;
    let (session, place) = (SharedRepo::default(), discover(&root)?);
    let path = [Repo::parse_path(b"d/f")?];
    let state = || -> Outcome<FileState> {
        let repo = session.get(place.clone(), Whose::Own)?;
        Ok(repo.states(&path, &Default::default(), &Job::default())?[0])
    };
    assert_eq!(state()?, FileState::Unchanged);
    assert_eq!(state()?, FileState::Unchanged);
    // The file itself is untouched.
    fs::rename(root.join("d"), &away)?;
    std::os::unix::fs::symlink(&away, root.join("d"))?;
    assert_ne!(state()?, FileState::Unchanged);
    Ok(())
}

#[test]
fn a_cache_with_any_byte_changed_gives_the_same_answer() -> Outcome {
    let temp = fast_dir()?;
    let root = temp.path();
    fs::create_dir_all(root.join("d/e"))?;
    Repo::init(root, "main", false, request("init"))?;
    for path in ["a", "d/f", "d/e/g"] {
        fs::write(root.join(path), path)?;
    }
    commit(&Repo::open(root)?, "all")?;
    fs::write(root.join("d/f"), "changed")?;
    let told = changes(root)?;
    let cache = fs::read(root.join(STAT))?;
    for at in 0..cache.len() {
        let mut damaged = cache.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(root.join(STAT), damaged)?;
        assert_eq!(changes(root)?, told, "byte {at}");
    }
    for len in (0..cache.len()).step_by(7) {
        fs::write(root.join(STAT), &cache[..len])?;
        assert_eq!(changes(root)?, told, "{len} bytes");
    }
    Ok(())
}

#[test]
fn a_status_counts_what_it_reads() -> Outcome {
    let temp = fast_dir()?;
    let root = temp.path().join("w");
    fs::create_dir_all(&root)?;
    Repo::init(&root, "main", false, request("init"))?;
    let content = vec![7; 3 << 20];
    fs::write(root.join("f"), &content)?;
    commit(&Repo::open(&root)?, "all")?;
    // It is the same again, which only its content tells.
    fs::write(root.join("f"), &content)?;
    assert_eq!(bytes_read(&root)?, content.len() as u64);
    Ok(())
}

/// Returns how many bytes of files a status reads that finds nothing changed.
fn bytes_read(root: &Path) -> Outcome<u64> {
    let (job, select) = (Job::default(), Paths::default());
    let options = StatusOptions {
        select: &select,
        settings: Default::default(),
    };
    let told = Repo::open(root)?.status(&options, &job)?;
    assert_eq!(told.changes, []);
    let read = &job.progress.bytes;
    Ok(read.load(std::sync::atomic::Ordering::Relaxed))
}

#[test]
fn a_large_file_that_was_written_just_now_is_not_read_again() -> Outcome {
    let temp = fast_dir()?;
    let root = temp.path().join("w");
    fs::create_dir_all(&root)?;
    let repo = Repo::init(&root, "main", false, request("init"))?;
    fs::write(root.join("f"), vec![7; 40 << 20])?;
    commit(&repo, "all")?;
    fs::remove_file(root.join("f"))?;
    let path = RepoPath::parse(b"f")?;
    let settings = Default::default();
    repo.restore(
        None,
        &[path],
        &settings,
        request("restore"),
        &Job::default(),
    )?;
    assert_eq!(bytes_read(&root)?, 0);
    Ok(())
}
