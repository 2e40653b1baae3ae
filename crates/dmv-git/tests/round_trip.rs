//! Random histories of Git go into a DMV repository and come back: every id must be the same.
//!
//! `DMV_SEED` begins with another history, and `DMV_HISTORIES` sets how many there are. `DMV_ARCHIVES` sets of how
//! many commits of each the files are compared with those of `git archive`, and `DMV_IMPORT_KILLS` how many imports
//! are killed.

// A harness prints what it has done.
#![allow(clippy::print_stdout)]

use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{GitIdQuery, Selection};
use dmv_core::subset::Subset;
use dmv_core::{OperationRequest, Repo};
use dmv_git::id::{Algorithm, GitType};
use dmv_git::import::{LfsPolicy, PORTION_BYTES};
use dmv_git::object::{GitEntry, order_key, put_entry};
use dmv_git::pack::PackWriter;
use dmv_git::revision::commits_of;
use dmv_git::{
    ExportOptions, GitError, GitId, GitSource, ImportOptions, ImportReport, export, import,
};
use dmv_random::Rng;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// What a path of the model has.
#[derive(Clone)]
struct File {
    mode: &'static str,
    id: GitId,
}

type Tree = BTreeMap<String, File>;

struct Made {
    id: GitId,
    tree: Tree,
}

/// A Git repository that grows at random.
struct History<'s> {
    rng: Rng,
    pack: PackWriter<'s>,
    source: &'s GitSource,
    commits: Vec<Made>,
    tags: u64,
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output();
    let output = output.expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl History<'_> {
    fn grow(&mut self, commits: usize) {
        for _ in 0..commits {
            self.commit();
        }
        self.pack.pass_on().expect("Git takes the objects");
        self.name();
    }

    fn file(&mut self) -> File {
        let rng = &mut self.rng;
        let length = match rng.below(40) {
            0 => 0,
            1 => 200_000 + rng.below(300_000) as usize,
            2 => 4_000 + rng.below(200) as usize,
            _ => 1 + rng.below(300) as usize,
        };
        let mode = match rng.below(20) {
            0 => "120000",
            1 => "100755",
            2 => "160000",
            3 => "100664",
            _ => "100644",
        };
        let mut bytes = if rng.one_in(4) {
            rng.bytes(length)
        } else {
            rng.text(length)
        };
        if mode == "120000" {
            bytes = b"../somewhere/else".to_vec();
        }
        let id = if mode == "160000" {
            let id = rng.bytes(self.source.algorithm().bytes());
            GitId::new(&id).expect("an id's length")
        } else {
            self.pack.add(GitType::Blob, &bytes).expect("a blob")
        };
        File { mode, id }
    }

    fn change(&mut self, tree: &mut Tree) {
        for _ in 0..1 + self.rng.below(4) {
            let n = self.rng.below(12);
            let depth = self.rng.below(3);
            let mut path: String = (0..depth)
                .map(|level| format!("d{}.x/", (n + level) % 3))
                .collect();
            path += ["a", "b-", "b", "c c", "é", "d0", "d0.", "#"][self.rng.below(8) as usize];
            let is_inside = |other: &str| {
                other.starts_with(&format!("{path}/")) || path.starts_with(&format!("{other}/"))
            };
            tree.retain(|other, _| !is_inside(other));
            if self.rng.one_in(5) {
                tree.remove(&path);
            } else {
                let file = self.file();
                tree.insert(path, file);
            }
        }
    }

    /// Writes the tree of the files below `dir`, which ends in a slash.
    fn write_tree(&mut self, tree: &Tree, dir: &str) -> GitId {
        let mut entries: BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>, GitId)> = BTreeMap::new();
        for (path, file) in tree {
            let Some(rest) = path.strip_prefix(dir) else {
                continue;
            };
            match rest.split_once('/') {
                None => {
                    let (name, mode) = (rest.as_bytes().to_vec(), file.mode.as_bytes().to_vec());
                    entries.insert(order_key(rest.as_bytes(), false), (mode, name, file.id));
                }
                Some((name, _)) => {
                    let key = order_key(name.as_bytes(), true);
                    if let Entry::Vacant(place) = entries.entry(key) {
                        let id = self.write_tree(tree, &format!("{dir}{name}/"));
                        place.insert((b"40000".to_vec(), name.as_bytes().to_vec(), id));
                    }
                }
            }
        }
        if self.rng.one_in(30) {
            let id = self.pack.add(GitType::Tree, b"").expect("a tree");
            let name = b"empty".to_vec();
            entries.insert(order_key(&name, true), (b"40000".to_vec(), name, id));
        }
        let mut bytes = Vec::new();
        for (mode, name, id) in entries.values() {
            let (mode, name, id) = (&mode[..], &name[..], *id);
            put_entry(&mut bytes, GitEntry { mode, name, id });
        }
        self.pack.add(GitType::Tree, &bytes).expect("a tree")
    }

    fn commit(&mut self) {
        let mut parents: Vec<usize> = Vec::new();
        if !self.commits.is_empty() && !self.rng.one_in(12) {
            let count = match self.rng.below(10) {
                0 => 2 + self.rng.below(4),
                1 | 2 => 2,
                _ => 1,
            };
            for _ in 0..count {
                let last = self.commits.len() as u64;
                let parent = last - 1 - self.rng.below(last.min(4));
                if !parents.contains(&(parent as usize)) {
                    parents.push(parent as usize);
                }
            }
        }
        let mut tree = parents
            .first()
            .map_or_else(Tree::new, |first| self.commits[*first].tree.clone());
        if !self.rng.one_in(9) {
            self.change(&mut tree);
        }
        let root = self.write_tree(&tree, "");
        let mut text = format!("tree {root}\n").into_bytes();
        for parent in &parents {
            text.extend(format!("parent {}\n", self.commits[*parent].id).into_bytes());
        }
        self.people_and_message(&mut text);
        let id = self.pack.add(GitType::Commit, &text).expect("a commit");
        self.commits.push(Made { id, tree });
    }

    fn people_and_message(&mut self, text: &mut Vec<u8>) {
        let rng = &mut self.rng;
        let name = ["Ada", "Bo Ö", "", "A. <B", "x  y"][rng.below(5) as usize].replace('<', "");
        let tz = ["+0000", "-0000", "+0530", "-1130", "+1400", "+9900"][rng.below(6) as usize];
        let seconds = rng.below(2_000_000_000);
        for who in ["author", "committer"] {
            text.extend(format!("{who} {name} <a@example.org> {seconds} {tz}\n").into_bytes());
        }
        let is_latin = rng.one_in(8);
        if is_latin {
            text.extend(b"encoding ISO-8859-1\n");
        }
        if rng.one_in(8) {
            text.extend(b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n aGVsbG8=\n -----END PGP SIGNATURE-----\n");
        }
        if rng.one_in(12) {
            text.extend(b"mergetag object 1\n type commit\n tag x\n");
        }
        text.push(b'\n');
        match rng.below(6) {
            0 => {}
            1 => text.extend(b"no end"),
            2 if is_latin => text.extend(b"caf\xe9\n"),
            3 => text.extend(b"two lines\n\nand a body\n\n"),
            _ => text.extend(b"usual\n"),
        }
    }

    /// Names some commits by branches and tags.
    fn name(&mut self) {
        let dir = self.source.path();
        let newest = self.commits.last().expect("there is one").id.to_string();
        git(dir, &["update-ref", "refs/heads/main", &newest]);
        for n in 0..2 + self.rng.below(3) {
            let at = self.rng.below(self.commits.len() as u64) as usize;
            let id = self.commits[at].id.to_string();
            git(dir, &["update-ref", &format!("refs/heads/side/{n}"), &id]);
        }
        for _ in 0..self.rng.below(4) {
            self.tags += 1;
            let at = self.rng.below(self.commits.len() as u64) as usize;
            let mut object = self.commits[at].id;
            let mut ty = "commit";
            for depth in 0..self.rng.below(3) {
                let name = format!("v{}.{depth}", self.tags);
                let text = format!(
                    "object {object}\ntype {ty}\ntag {name}\ntagger T <t> 1700000000 +0100\n\nof {depth}\n"
                );
                object = self.pack.add(GitType::Tag, text.as_bytes()).expect("a tag");
                ty = "tag";
            }
            self.pack.pass_on().expect("Git takes the tags");
            git(
                dir,
                &[
                    "update-ref",
                    &format!("refs/tags/v{}", self.tags),
                    &object.to_string(),
                ],
            );
        }
    }
}

fn new_git(dir: &Path, algorithm: Algorithm) -> GitSource {
    let format = format!("--object-format={}", algorithm.name());
    std::fs::create_dir_all(dir).expect("a directory");
    git(dir, &["init", "-q", "--bare", "-b", "main", &format]);
    GitSource::open(dir).expect("Git opens it")
}

fn request(command: &str) -> OperationRequest {
    OperationRequest::new("ada", command, SystemTime::UNIX_EPOCH)
}

fn new_dmv(dir: &Path) -> Repo {
    std::fs::create_dir_all(dir).expect("a directory");
    Repo::init(dir, "main", true, request("init")).expect("a repository")
}

fn options(portion_bytes: u64) -> ImportOptions {
    ImportOptions {
        remote: "git".to_owned(),
        branches: Vec::new(),
        lfs: LfsPolicy::Pointers,
        prune: false,
        portion_bytes,
        check_out: None,
    }
}

fn take(repo: &Repo, source: &GitSource, portion: u64) -> ImportReport {
    import(
        repo,
        source,
        &options(portion),
        &request("import"),
        &Job::default(),
    )
    .expect("an import")
}

/// Takes what can be taken before the import stops.
fn cut_short(repo: &Repo, source: &GitSource, portion: u64) {
    let job = Job::default();
    job.cancel();
    match import(repo, source, &options(portion), &request("import"), &job) {
        Ok(_) | Err(GitError::Cancelled) => {}
        Err(e) => panic!("{e}"),
    }
}

/// Returns all refs and all objects behind them.
fn everything(dir: &Path) -> (String, Vec<String>) {
    let refs = git(dir, &["for-each-ref", "--format=%(objectname) %(refname)"]);
    let objects = git(
        dir,
        &["rev-list", "--objects", "--all", "--no-object-names"],
    );
    let mut objects: Vec<String> = objects.lines().map(str::to_owned).collect();
    objects.sort_unstable();
    (refs, objects)
}

/// Returns what Git finds wrong: the histories have commits that it does not write itself.
fn fsck(dir: &Path) -> Vec<String> {
    let check = ["fsck", "--full", "--strict", "--no-dangling"];
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(check)
        .output()
        .expect("git runs");
    let said = [output.stdout, output.stderr].concat();
    let mut lines: Vec<String> = String::from_utf8_lossy(&said)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.retain(|line| !line.starts_with("Checking"));
    lines.sort_unstable();
    lines
}

fn round_trip(seed: u64) {
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path();
    let mut rng = Rng::new(seed);
    let algorithm = if rng.one_in(4) {
        Algorithm::Sha256
    } else {
        Algorithm::Sha1
    };
    let source = new_git(&dir.join("source.git"), algorithm);
    let target = new_git(&dir.join("target.git"), algorithm);
    let repo = new_dmv(&dir.join("one.dmv"));
    let mut history = History {
        pack: PackWriter::new(&source).expect("a pack"),
        source: &source,
        rng,
        commits: Vec::new(),
        tags: 0,
    };
    for part in 0..3 {
        let commits = 1 + history.rng.below(40) as usize;
        history.grow(commits);
        let portion = if history.rng.one_in(2) {
            PORTION_BYTES
        } else {
            2_000
        };
        // Some are cut short: each takes one portion and goes on after the one before.
        for _ in 0..history.rng.below(6) {
            cut_short(&repo, &source, portion);
        }
        let report = take(&repo, &source, portion);
        assert_eq!(report.problems, [], "seed {seed}");
        assert_eq!(report.left, [], "seed {seed}");
        // The branches here follow, as a user has them follow.
        follow(&repo);
        let again = take(&repo, &source, portion);
        assert_eq!(
            (again.commits, again.news.refs.len()),
            (0, 0),
            "seed {seed}, part {part}"
        );
        let options = ExportOptions {
            force: true,
            ..ExportOptions::default()
        };
        let exported = export(&repo, &target, &options, &Job::default()).expect("an export");
        assert_eq!(exported.changed, [], "seed {seed}, part {part}");
        let (want, have) = (everything(source.path()), everything(target.path()));
        assert_eq!(have.0, want.0, "seed {seed}, part {part}: the refs");
        assert!(have.1 == want.1, "seed {seed}, part {part}: the objects");
        let known = fsck(source.path());
        let mut said = fsck(target.path());
        said.retain(|line| !known.contains(line));
        assert!(said.is_empty(), "seed {seed}, part {part}: {said:?}");
    }
    let named = git(source.path(), &["rev-list", "--all"]);
    let named: Vec<&str> = named.lines().collect();
    for n in 0..dmv_random::number("DMV_ARCHIVES", 2) {
        let commit = named[history.rng.below(named.len() as u64) as usize];
        let (archived, exported) = (dir.join(format!("git{n}")), dir.join(format!("dmv{n}")));
        extract_archive(source.path(), commit, &archived);
        write_files(&repo, commit, &exported);
        // It compares content, modes and targets of symlinks; Git has no empty directories.
        let both = [&archived, &exported].map(|dir| dir.to_str().expect("a usual name"));
        git(
            dir,
            &["diff", "--no-index", "--exit-code", both[0], both[1]],
        );
    }
    // Another importer makes the same commits.
    let other = new_dmv(&dir.join("two.dmv"));
    take(&other, &source, PORTION_BYTES);
    assert_eq!(
        other.offered().expect("refs").refs,
        repo.offered().expect("refs").refs,
        "seed {seed}"
    );
}

/// Has Git write the files of a commit.
fn extract_archive(source: &Path, commit: &str, to: &Path) {
    let tar = to.with_extension("tar");
    let file = tar.to_str().expect("a usual name");
    git(source, &["archive", "--output", file, commit]);
    std::fs::create_dir(to).expect("a directory");
    let mut command = Command::new("tar");
    command.arg("-C").arg(to).arg("-xmf").arg(&tar);
    assert!(command.status().expect("tar runs").success());
}

/// Has DMV write them.
fn write_files(repo: &Repo, commit: &str, to: &Path) {
    let query = GitIdQuery {
        hex: commit,
        objects: repo.objects(),
        dmv_dir: repo.dmv_dir(),
        tips: repo.complete_commits().expect("the refs are read"),
    };
    let found = commits_of(&query).expect("commits are read");
    let [id] = found[..] else {
        panic!("{commit}: {found:?}");
    };
    let read = repo.read_commit(&id).expect("a commit");
    let root = RepoPath::root();
    let everything = Subset::everything();
    let wanted = Selection {
        path: &root,
        located: &repo.locate(commit, &read, &root).expect("a tree"),
        subset: &everything,
    };
    repo.export(wanted, to, &Job::default()).expect("files");
}

/// Moves the branches to where those of the source are.
fn follow(repo: &Repo) {
    let there = repo
        .refs()
        .with_prefix("remote/git/")
        .expect("the refs are read");
    for (key, value) in there {
        let name = key.strip_prefix("remote/git/").expect("it begins so");
        let new = dmv_core::ObjectId::from_bytes(value.as_slice().try_into().expect("an id"));
        let key = format!("branch/{name}");
        let old = repo.ref_at(&key).expect("the ref is read");
        let update = dmv_core::repo::RefUpdate {
            key,
            old,
            new: Some(new),
            force: true,
        };
        let done = repo
            .accept_push(&[update], None, &request("follow"))
            .expect("moved");
        assert_eq!(done[0].refused, None);
    }
}

#[test]
fn every_id_comes_back() {
    if Command::new("git").arg("--version").output().is_err() {
        return dmv_random::skip("git is not installed");
    }
    let first = dmv_random::seed(1);
    for seed in first..first + dmv_random::number("DMV_HISTORIES", 3) {
        round_trip(seed);
    }
}

/// The directories of the source and of the repository, for the process that is killed.
const KILLED: [&str; 2] = ["DMV_KILLED_SOURCE", "DMV_KILLED_REPOSITORY"];
/// Small portions, so that a killed import goes on from a later one.
const KILLED_PORTION_BYTES: u64 = 20_000;

#[test]
#[ignore = "the process that another test kills"]
fn an_import_to_be_killed() {
    let [Some(source), Some(repo)] = KILLED.map(std::env::var_os) else {
        return;
    };
    let source = GitSource::open(Path::new(&source)).expect("Git opens it");
    let repo = Repo::open(Path::new(&repo)).expect("a repository");
    take(&repo, &source, KILLED_PORTION_BYTES);
}

/// Starts an import in a process of its own, and kills it after a delay.
fn kill_import(source: &Path, repo: &Path, delay: Option<Duration>) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--exact", "an_import_to_be_killed", "--ignored"])
        .envs(KILLED.into_iter().zip([source, repo]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    if let Some(delay) = delay {
        std::thread::sleep(delay);
        child.kill().expect("it is killed or has ended");
    }
    let status = child.wait().expect("it ends");
    assert!(delay.is_some() || status.success());
}

/// Returns what a repository offers, which is everything that an import names.
fn offered(repo: &Repo) -> Vec<(String, String)> {
    let refs = repo.offered().expect("refs").refs.into_iter();
    refs.map(|(key, id)| (key, id.to_string())).collect()
}

fn kill_imports(count: u64, seed: u64) {
    if Command::new("git").arg("--version").output().is_err() {
        return dmv_random::skip("git is not installed");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path();
    let source = new_git(&dir.join("source.git"), Algorithm::Sha1);
    let mut history = History {
        rng: Rng::new(seed),
        pack: PackWriter::new(&source).expect("Git starts"),
        source: &source,
        commits: Vec::new(),
        tags: 0,
    };
    history.grow(150);
    let whole = new_dmv(&dir.join("whole"));
    let started = Instant::now();
    kill_import(source.path(), &dir.join("whole"), None);
    let duration = started.elapsed();
    let wanted = offered(&whole);
    assert!(wanted.len() > 2);
    let rng = &mut history.rng;
    let mut went_on = 0;
    for round in 0..count {
        let place = dir.join(format!("killed-{round}"));
        let repo = new_dmv(&place);
        for _ in 0..1 + rng.below(3) {
            let delay = duration.mul_f64(rng.below(1000) as f64 / 1000.0);
            kill_import(source.path(), &place, Some(delay));
        }
        // The next import finds what the killed ones have made durable, and ends equal.
        let report = take(&repo, &source, KILLED_PORTION_BYTES);
        went_on += u64::from(report.commits < 150);
        assert_eq!(offered(&repo), wanted, "seed {seed}, round {round}");
        let again = take(&repo, &source, KILLED_PORTION_BYTES);
        assert_eq!((again.commits, again.news.refs.len()), (0, 0));
        let sound = repo.verify(dmv_core::repo::VerifyDepth::Full, &Job::default());
        assert!(
            sound.expect("a report").is_ok(),
            "seed {seed}, round {round}"
        );
        std::fs::remove_dir_all(&place).expect("it goes");
    }
    println!(
        "harness import-kills: {count} imports, {went_on} went on where a killed one stopped; seed {seed}"
    );
}

#[test]
fn an_import_that_is_killed_ends_equal_the_next_time() {
    kill_imports(
        dmv_random::number("DMV_IMPORT_KILLS", 5),
        dmv_random::seed(1),
    );
}

/// So many blobs come in the order in which Git stores them, and those of the newest commit at the end.
#[test]
fn a_large_portion_comes_back() {
    const FILES: usize = 6_000;
    if Command::new("git").arg("--version").output().is_err() {
        return dmv_random::skip("git is not installed");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path();
    let source = new_git(&dir.join("source.git"), Algorithm::Sha1);
    let mut stream = Vec::new();
    for commit in 0..3 {
        let name = "committer A <a@x> 1000000000 +0000\ndata 0\n";
        writeln!(stream, "commit refs/heads/main\n{name}").expect("memory");
        for n in (0..FILES).filter(|n| commit == 0 || n % 20 > 0) {
            let text = format!("{commit} {n}");
            let len = text.len();
            let path = format!("d{}/f{n}", n % 100);
            writeln!(stream, "M 100644 inline {path}\ndata {len}\n{text}").expect("memory");
        }
    }
    std::fs::write(dir.join("stream"), stream).expect("written");
    let mut fast_import = Command::new("git");
    fast_import.arg("-C").arg(source.path());
    fast_import.args(["fast-import", "--quiet"]);
    fast_import.stdin(std::fs::File::open(dir.join("stream")).expect("a file"));
    assert!(fast_import.status().expect("git runs").success());
    let repo = new_dmv(&dir.join("film"));
    let report = take(&repo, &source, PORTION_BYTES);
    assert_eq!((report.commits, report.problems.len()), (3, 0));
    let again = take(&repo, &source, PORTION_BYTES);
    assert_eq!((again.commits, again.news.refs.len()), (0, 0));
    let back = new_git(&dir.join("back.git"), Algorithm::Sha1);
    export(&repo, &back, &ExportOptions::default(), &Job::default()).expect("an export");
    assert_eq!(everything(back.path()), everything(source.path()));
}
