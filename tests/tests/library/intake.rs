//! Versions that somebody kept by hand become commits: directories and numbered copies.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::commit::Commit;
use dmv_core::repo::{
    CheckoutOptions, FilesError, IntakeOptions, IntakeReport, OfferedRefs, OwnBranches, Repo,
    RepoError, SeriesOptions, SeriesPattern, UndoOptions, UndoWhat, Who, WorktreeSettings,
};
use dmv_tests::peers::{Done, Place};
use dmv_tests::scratch::{Files, Item, files_in, files_of, request};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Writes a file that was changed some seconds after 2021-01-01.
fn write(path: &Path, content: &str, seconds: u64) -> Done {
    fs::create_dir_all(path.parent().expect("files are in directories"))?;
    fs::write(path, content)?;
    let time = UNIX_EPOCH + Duration::new(1_609_459_200 + seconds, 500);
    fs::File::options()
        .write(true)
        .open(path)?
        .set_modified(time)?;
    Ok(())
}

fn options(after: Option<ObjectId>) -> IntakeOptions {
    IntakeOptions {
        after,
        who: Who::new("Ada", "ada@example.org"),
        tz_minutes: 60,
        settings: WorktreeSettings::default(),
        dry_run: false,
    }
}

fn series(root: &Path, patterns: &[&str]) -> Done<SeriesOptions> {
    let parse = |text: &&str| SeriesPattern::parse(b"", text.as_bytes());
    let patterns = patterns.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(SeriesOptions {
        root: root.to_owned(),
        target: patterns[0].without_number()?,
        patterns,
        keep_names: false,
    })
}

/// Returns the commits of a line, the first one first.
fn line(repo: &Repo, tip: Option<ObjectId>) -> Done<Vec<Commit>> {
    let (mut next, mut commits) = (tip, Vec::new());
    while let Some(id) = next {
        let commit = repo.read_commit(&id)?;
        next = commit.parents.first().copied();
        commits.push(commit);
    }
    commits.reverse();
    Ok(commits)
}

/// Returns the files of a commit as text: `path=content`.
fn files(repo: &Repo, commit: &Commit) -> Done<Vec<String>> {
    let id = ObjectType::Commit.id_of(&commit.encode()?);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let files = files_of(repo, &id)?
        .into_iter()
        .map(|(path, item)| match item {
            Item::File(content, _) => format!("{}={}", text(&path), text(&content)),
            _ => text(&path),
        });
    Ok(files.collect())
}

fn new_sources(report: &IntakeReport) -> Vec<String> {
    let new = report.versions.iter().filter(|version| version.is_new);
    new.map(|version| String::from_utf8_lossy(version.source.as_bytes()).into_owned())
        .collect()
}

#[test]
fn one_undo_takes_a_first_history_back_and_one_redo_brings_it_again() -> Done {
    let place = Place::new()?;
    let outside = tempfile::tempdir()?;
    let dir = outside.path().join("old");
    write(&dir.join("a.txt"), "one", 10)?;
    write(&dir.join("d/b.txt"), "two", 5)?;
    let (repo, job) = (&place.repo, Job::default());
    let tip = repo.take_directories(&[dir], &options(None), &job)?.tip;
    let tip = tip.ok_or("a commit")?;
    let offered = OfferedRefs {
        head: None,
        refs: vec![("branch/main".to_owned(), tip), ("tag/v1".to_owned(), tip)],
    };
    let ours = OwnBranches {
        make: vec![("main".to_owned(), tip)],
        ..OwnBranches::default()
    };
    let take = || {
        let options = CheckoutOptions::new(request("import"));
        repo.note_remote_and_check_out("old", &offered, &ours, "main", &options, &job)
    };
    let undo = |what: UndoWhat| {
        let (settings, request) = (WorktreeSettings::default(), request("undo"));
        let options = UndoOptions {
            what,
            settings,
            request,
        };
        repo.undo(&options, &job)
    };
    let state = || -> Done<(bool, bool, Files)> {
        let (branch, tag) = (repo.ref_at("branch/main")?, repo.ref_at("tag/v1")?);
        Ok((branch.is_some(), tag.is_some(), files_in(place.dir.path())?))
    };
    let empty = state()?;
    take()?;
    let taken = state()?;
    assert_eq!((taken.0, taken.1, taken.2.len()), (true, true, 2));
    undo(UndoWhat::Last)?;
    assert_eq!(state()?, empty);
    undo(UndoWhat::LastUndo)?;
    assert_eq!(state()?, taken);
    undo(UndoWhat::Last)?;
    // Files that are in the way stay. The history comes without them.
    place.write("a.txt", b"mine")?;
    let written = take()?.written;
    assert!(
        matches!(
            written,
            Some(Err(RepoError::Files(FilesError::WouldLose { .. })))
        ),
        "{written:?}"
    );
    let beside = state()?;
    assert_eq!((beside.0, beside.1, beside.2.len()), (true, true, 1));
    Ok(())
}

#[test]
fn directories_become_successive_commits_with_their_dates() -> Done {
    let place = Place::new()?;
    let outside = tempfile::tempdir()?;
    let at = |path: &str| outside.path().join(path);
    write(&at("old/a.txt"), "one", 10)?;
    write(&at("old/d/b.txt"), "same", 5)?;
    write(&at("old/.git/config"), "x", 99)?;
    write(&at("new/a.txt"), "two", 30)?;
    write(&at("new/d/b.txt"), "same", 5)?;
    write(&at("new/junk.o"), "x", 40)?;
    write(&at("new/.dmvignore"), "*.o\n", 20)?;
    let dirs = [at("old"), at("new")];
    let done = place
        .repo
        .take_directories(&dirs, &options(None), &Job::default())?;
    assert_eq!(done.commits, 2);
    let commits = line(&place.repo, done.tip)?;
    let told: Vec<_> = commits
        .iter()
        .map(|c| {
            (
                &c.message[..],
                c.author.seconds - 1_609_459_200,
                c.author.nanos,
            )
        })
        .collect();
    assert_eq!(told, [("old", 10, 500), ("new", 30, 500)]);
    assert_eq!(commits[1].author, commits[1].committer);
    assert_eq!(
        files(&place.repo, &commits[0])?,
        ["a.txt=one", "d/b.txt=same"]
    );
    assert_eq!(
        files(&place.repo, &commits[1])?,
        [".dmvignore=*.o\n", "a.txt=two", "d/b.txt=same"]
    );
    // Again, with one more: only that one is new. An equal directory is a commit, too.
    write(&at("newest/a.txt"), "two", 30)?;
    write(&at("newest/d/b.txt"), "same", 5)?;
    write(&at("newest/.dmvignore"), "*.o\n", 20)?;
    let dirs = [at("old"), at("new"), at("newest")];
    let mut planning = options(done.tip);
    planning.dry_run = true;
    let plan = place
        .repo
        .take_directories(&dirs, &planning, &Job::default())?;
    assert_eq!((plan.commits, plan.tip), (1, done.tip));
    let again = place
        .repo
        .take_directories(&dirs, &options(done.tip), &Job::default())?;
    assert_eq!(new_sources(&again), [at("newest").display().to_string()]);
    let commits = line(&place.repo, again.tip)?;
    assert_eq!(commits.len(), 3);
    assert_eq!(commits[1].tree, commits[2].tree);
    let known = place
        .repo
        .take_directories(&dirs, &options(again.tip), &Job::default())?;
    assert_eq!((known.commits, known.tip), (0, again.tip));
    // A wrong name stops everything before it begins.
    let wrong = [at("newest"), at("absent")];
    assert!(
        place
            .repo
            .take_directories(&wrong, &options(None), &Job::default())
            .is_err()
    );
    Ok(())
}

#[test]
fn directories_without_files_become_commits() -> Done {
    let place = Place::new()?;
    let outside = tempfile::tempdir()?;
    let dirs: Vec<PathBuf> = ["a", "b", "c"].map(|name| outside.path().join(name)).into();
    for dir in &dirs {
        fs::create_dir(dir)?;
    }
    write(&dirs[1].join("f"), "x", 1)?;
    let done = place
        .repo
        .take_directories(&dirs, &options(None), &Job::default())?;
    let commits = line(&place.repo, done.tip)?;
    let files: Vec<u64> = commits.iter().map(|commit| commit.tree_files).collect();
    assert_eq!(files, [0, 1, 0]);
    place.is_sound()
}

#[test]
fn copies_become_versions_in_the_order_of_their_numbers() -> Done {
    let place = Place::new()?;
    let outside = tempfile::tempdir()?;
    let at = |path: &str| outside.path().join(path);
    // The second copy is older than the first: numbers count.
    write(&at("shots/rock_v1.psd"), "r1", 20)?;
    write(&at("shots/rock_v2.psd"), "r2", 10)?;
    write(&at("shots/rock_v10.psd"), "r1", 40)?;
    write(&at("shots/rock_final.psd"), "rf", 1)?;
    write(&at("shots/tree_v1.psd"), "t1", 30)?;
    write(&at("shots/notes.txt"), "n", 5)?;
    std::os::unix::fs::symlink("rock_v1.psd", at("shots/link_v1.psd"))?;
    let patterns = ["shots/*_v{N}.psd", "shots/*_final.psd"];
    let wanted = series(outside.path(), &patterns)?;
    let take = |after, wanted: &SeriesOptions| {
        place
            .repo
            .take_series(wanted, &options(after), &Job::default())
    };
    let done = take(None, &wanted)?;
    let problems: Vec<String> = done.problems.iter().map(|p| p.path.to_string()).collect();
    assert_eq!(problems, ["shots/link_v1.psd"]);
    let commits = line(&place.repo, done.tip)?;
    let told: Vec<(&str, i64)> = commits
        .iter()
        .map(|c| (&c.message[..], c.author.seconds - 1_609_459_200))
        .collect();
    let expected = [
        ("shots/rock_v1.psd", 20),
        ("shots/rock_v2.psd", 10),
        ("shots/tree_v1.psd", 30),
        ("shots/rock_v10.psd", 40),
        ("shots/rock_final.psd", 1),
    ];
    assert_eq!(told, expected);
    assert_eq!(files(&place.repo, &commits[1])?, ["shots/rock.psd=r2"]);
    let last = &commits[4];
    assert_eq!(
        files(&place.repo, last)?,
        ["shots/rock.psd=rf", "shots/tree.psd=t1"]
    );
    assert_eq!((last.tree_files, last.tree_bytes), (2, 4));
    assert_eq!(last.generation, 5);
    // Known copies are not read again: this one has other content and the old date.
    write(&at("shots/rock_v1.psd"), "xx", 20)?;
    write(&at("shots/tree_v2.psd"), "t2", 50)?;
    let again = take(done.tip, &wanted)?;
    assert_eq!(new_sources(&again), ["shots/tree_v2.psd"]);
    let commits = line(&place.repo, again.tip)?;
    assert_eq!(commits.len(), 6);
    assert_eq!(
        files(&place.repo, &commits[5])?,
        ["shots/rock.psd=rf", "shots/tree.psd=t2"]
    );
    // Nothing on disk has changed, and the objects are complete.
    assert_eq!(fs::read_dir(at("shots"))?.count(), 8);
    place.is_sound()
}

#[test]
fn a_version_can_keep_the_name_of_its_copy() -> Done {
    let place = Place::new()?;
    let outside = tempfile::tempdir()?;
    for (name, seconds) in [
        ("a/hero_01.ma", 1),
        ("a/hero_02.ma", 2),
        ("b/c/hero_01.ma", 3),
    ] {
        write(&outside.path().join(name), name, seconds)?;
    }
    let mut wanted = series(outside.path(), &["**/*_{N}.ma"])?;
    wanted.keep_names = true;
    let done = place
        .repo
        .take_series(&wanted, &options(None), &Job::default())?;
    let commits = line(&place.repo, done.tip)?;
    let last = ["a/hero_02.ma=a/hero_02.ma", "b/c/hero_01.ma=b/c/hero_01.ma"];
    assert_eq!(files(&place.repo, &commits[2])?, last);
    // The next one replaces the last that an earlier import took.
    write(&outside.path().join("a/hero_03.ma"), "three", 9)?;
    let again = place
        .repo
        .take_series(&wanted, &options(done.tip), &Job::default())?;
    let commits = line(&place.repo, again.tip)?;
    let last = ["a/hero_03.ma=three", "b/c/hero_01.ma=b/c/hero_01.ma"];
    assert_eq!(
        (again.commits, files(&place.repo, &commits[3])?),
        (1, last.map(String::from).to_vec())
    );
    Ok(())
}

#[test]
fn a_series_that_would_be_a_file_and_a_directory_is_refused() -> Done {
    let place = Place::new()?;
    let outside = tempfile::tempdir()?;
    write(&outside.path().join("rock_v1"), "x", 1)?;
    write(&outside.path().join("rock/a_v1"), "x", 1)?;
    let wanted = series(outside.path(), &["**/*_v{N}"])?;
    let e = place
        .repo
        .take_series(&wanted, &options(None), &Job::default());
    assert!(e.is_err_and(|e| e.to_string().contains("'rock'")));
    Ok(())
}
