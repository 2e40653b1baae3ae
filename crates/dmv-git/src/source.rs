//! A Git repository that is read by Git itself, in child processes.
//!
//! Nothing that the repository names is run: no hook, no filter, no fetch of missing objects. The module
//! knows nothing of DMV's objects.

use crate::id::{Algorithm, GitId, GitType};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// Bytes that are read from Git at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest line that says what comes: an id, a type and a size.
const MAX_HEADER_BYTES: u64 = 200;
/// The longest line with an id and a path.
const MAX_PATH_LINE_BYTES: u64 = 8192;

/// What is no file.
const NO_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };
/// Settings of the environment that say where a repository is.
const PLACES: [&str; 6] = [
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_CEILING_DIRECTORIES",
];

/// Reading a Git repository failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Git is not installed, or cannot be started.
    #[error("git cannot be run: {0}")]
    NoGit(#[source] io::Error),
    /// Git LFS is not installed.
    #[error("git lfs is not installed")]
    NoLfs,
    /// The directory is no Git repository, or one that Git does not read.
    #[error("{} is no Git repository that git can read: {said}", path.display())]
    NoRepository {
        /// The directory.
        path: PathBuf,
        /// What Git says.
        said: String,
    },
    /// The history ends at commits whose parents are missing.
    #[error("{} has only a part of its history (a shallow clone)", path.display())]
    Shallow {
        /// The repository.
        path: PathBuf,
    },
    /// An object is missing, as in a partial clone.
    #[error("{} lacks the object {id}", path.display())]
    Missing {
        /// The repository.
        path: PathBuf,
        /// The object.
        id: String,
    },
    /// Git ended with an error.
    #[error("git {command} failed: {said}")]
    Failed {
        /// Git's command.
        command: String,
        /// What Git says.
        said: String,
    },
    /// Git does not understand a stream, or it ends too early.
    #[error("git cannot read the stream: {said}")]
    Stream {
        /// What Git says.
        said: String,
    },
    /// What Git wrote is not what its documentation says.
    #[error("git answered what cannot be understood: {0}")]
    Answer(String),
    /// A pipe to Git or from it broke.
    #[error("reading from git: {0}")]
    Pipe(#[from] io::Error),
}

/// A branch or tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRef {
    /// The full name: `refs/heads/main`.
    pub name: String,
    /// The object that it names.
    pub id: GitId,
    /// The type of this object.
    pub ty: GitType,
}

/// Refs that are neither branches nor tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRefs {
    /// The first two parts of their names: `refs/notes`.
    pub place: String,
    /// How many there are.
    pub count: u64,
}

/// A Git repository on this machine.
pub struct GitSource {
    path: PathBuf,
    algorithm: Algorithm,
}

impl GitSource {
    /// Opens the repository in the directory `path`, with or without a worktree.
    ///
    /// # Errors
    ///
    /// Refuses shallow clones, whose commits name parents that are not there.
    pub fn open(path: &Path) -> Result<GitSource, SourceError> {
        let mut source = GitSource {
            path: path.to_owned(),
            algorithm: Algorithm::Sha1,
        };
        let args = [
            "rev-parse",
            "--show-object-format",
            "--is-shallow-repository",
        ];
        let answer = source.answer(&args).map_err(|e| match e {
            SourceError::Failed { said, .. } => SourceError::NoRepository {
                path: path.to_owned(),
                said,
            },
            e => e,
        })?;
        let mut lines = answer.lines();
        let format = lines.next().unwrap_or_default();
        source.algorithm = Algorithm::from_name(format)
            .ok_or_else(|| SourceError::Answer(format!("the object format {format:?}")))?;
        if lines.next() != Some("false") {
            return Err(SourceError::Shallow { path: source.path });
        }
        Ok(source)
    }

    /// Copies the repository at a URL that Git knows into the new directory `dir`, and opens the copy. Git
    /// reads the user's own settings for it, and shows its progress.
    pub fn mirror(url: &OsStr, dir: &Path) -> Result<GitSource, SourceError> {
        let mut git = bare_git();
        git.args(["clone", "--mirror", "--"]).arg(url).arg(dir);
        let status = git
            .stdin(Stdio::null())
            .status()
            .map_err(SourceError::NoGit)?;
        if !status.success() {
            return Err(SourceError::NoRepository {
                path: PathBuf::from(url),
                said: "git clone failed".to_owned(),
            });
        }
        GitSource::open(dir)
    }

    /// Makes a bare repository in the new directory `dir`, and opens it.
    pub fn create(dir: &Path, algorithm: Algorithm) -> Result<GitSource, SourceError> {
        let mut git = bare_git();
        // A template of the user could bring hooks.
        git.args(["init", "-q", "--bare", "--template="]);
        git.arg(format!("--object-format={}", algorithm.name()));
        output_of(git.arg("--").arg(dir), "init")?;
        GitSource::open(dir)
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the algorithm of its ids.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns a command of Git that reads this repository as it is stored.
    pub(crate) fn git(&self) -> Command {
        let mut git = bare_git();
        git.arg("-C").arg(&self.path);
        // No object is fetched from elsewhere, none is replaced, and no hook runs.
        git.args(["--no-pager", "--no-replace-objects"]);
        git.args(["-c", "protocol.allow=never"]);
        git.args(["-c", &format!("core.hooksPath={NO_FILE}")]);
        git.args(["-c", "advice.graftFileDeprecated=false"]);
        git.env("GIT_NO_LAZY_FETCH", "1");
        git.env("GIT_GRAFT_FILE", NO_FILE);
        git.env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
        // A directory in another repository is not that repository.
        let whole = self.path.canonicalize().ok();
        if let Some(parent) = whole.as_deref().and_then(Path::parent) {
            git.env("GIT_CEILING_DIRECTORIES", parent);
        }
        git.stdin(Stdio::null());
        git
    }

    /// Runs a command of Git and returns what it writes.
    pub(crate) fn answer(&self, args: &[impl AsRef<OsStr>]) -> Result<String, SourceError> {
        String::from_utf8(self.answer_bytes(args)?).map_err(|e| {
            let text = String::from_utf8_lossy(e.as_bytes());
            SourceError::Answer(text.chars().take(MAX_HEADER_BYTES as usize).collect())
        })
    }

    /// The same for names of refs. What is not UTF-8 in them becomes U+FFFD.
    fn names(&self, args: &[impl AsRef<OsStr>]) -> Result<String, SourceError> {
        Ok(String::from_utf8_lossy(&self.answer_bytes(args)?).into_owned())
    }

    fn answer_bytes(&self, args: &[impl AsRef<OsStr>]) -> Result<Vec<u8>, SourceError> {
        let command = args.first().map(|arg| arg.as_ref().to_string_lossy());
        output_of(self.git().args(args), &command.unwrap_or_default())
    }

    /// Returns the branches and tags, in order of their names. What is not UTF-8 in these becomes U+FFFD.
    pub fn refs(&self) -> Result<Vec<GitRef>, SourceError> {
        let format = "--format=%(objecttype) %(objectname) %(refname)";
        let answer = self.names(&["for-each-ref", format, "refs/heads", "refs/tags"])?;
        let parse = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let ty = GitType::from_word(words.next()?.as_bytes())?;
            let id = GitId::from_hex(words.next()?.as_bytes())?;
            let name = words.next()?.to_owned();
            Some(GitRef { name, id, ty })
        };
        let lines = answer.lines();
        lines
            .map(|line| parse(line).ok_or_else(|| SourceError::Answer(line.to_owned())))
            .collect()
    }

    /// Returns the branch that the repository is on, without `refs/heads/`.
    pub fn head(&self) -> Option<String> {
        let answer = self.answer(&["symbolic-ref", "-q", "HEAD"]).ok()?;
        answer
            .trim_end()
            .strip_prefix("refs/heads/")
            .map(str::to_owned)
    }

    /// Returns the directory of Git's own files: `.git`, or the bare repository. All worktrees of a repository have
    /// the same one.
    pub fn git_dir(&self) -> Result<PathBuf, SourceError> {
        let answer = self.answer(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        Ok(PathBuf::from(answer.trim_end_matches('\n')))
    }

    /// Returns the commits that any refs name, also through tags.
    pub fn commits_of_refs(&self) -> Result<Vec<GitId>, SourceError> {
        let answer = self.answer(&["for-each-ref", "--format=%(objectname) %(*objectname)"])?;
        let words = answer.split_ascii_whitespace();
        Ok(words
            .filter_map(|hex| GitId::from_hex(hex.as_bytes()))
            .collect())
    }

    /// Returns the full names of the branches that worktrees are on; none of a bare repository.
    pub fn checked_out_branches(&self) -> Result<HashSet<String>, SourceError> {
        let answer = self.names(&["worktree", "list", "--porcelain"])?;
        let mut branches = HashSet::new();
        for worktree in answer.split("\n\n").filter(|text| !text.contains("\nbare")) {
            let lines = worktree.lines();
            branches.extend(
                lines
                    .filter_map(|line| line.strip_prefix("branch "))
                    .map(str::to_owned),
            );
        }
        Ok(branches)
    }

    /// Returns the refs that an import does not take. Replacements are no refs of their own.
    pub fn other_refs(&self) -> Result<Vec<OtherRefs>, SourceError> {
        let answer = self.names(&["for-each-ref", "--format=%(refname)%(symref)"])?;
        let mut counts = BTreeMap::new();
        for name in answer.lines() {
            let place = name.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
            let is_known = ["refs/heads", "refs/tags", "refs/replace"].contains(&&place[..]);
            // The one that says which branch the remote is on names another ref.
            let is_symbolic = name.matches("refs/").count() > 1;
            if !is_known && !is_symbolic {
                *counts.entry(place).or_insert(0) += 1;
            }
        }
        let others = counts.into_iter();
        Ok(others
            .map(|(place, count)| OtherRefs { place, count })
            .collect())
    }

    /// Returns whether the repository replaces objects by others, which an import does not follow.
    pub fn has_replacements(&self) -> Result<bool, SourceError> {
        let answer = self.answer(&["for-each-ref", "--count=1", "refs/replace"])?;
        Ok(!answer.is_empty())
    }

    /// Returns those of `ids` that are commits of this repository.
    pub fn commits_among(&self, ids: &[GitId]) -> Result<Vec<GitId>, SourceError> {
        let mut found = self.objects_among(ids)?;
        found.retain(|(ty, _)| *ty == GitType::Commit);
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    /// Returns those of `ids` that this repository has, with their types.
    pub fn objects_among(&self, ids: &[GitId]) -> Result<Vec<(GitType, GitId)>, SourceError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let file = file_of(ids)?;
        let mut git = self.git();
        git.args(["cat-file", "--buffer"]);
        git.arg("--batch-check=%(objecttype) %(objectname)");
        let mut child = GitChild::start("cat-file", git, Stdio::from(file))?;
        let mut answer = String::new();
        child.output.read_to_string(&mut answer)?;
        child.end()?;
        let found = answer.lines().filter_map(|line| {
            let (ty, id) = line.split_once(' ')?;
            let ty = GitType::from_word(ty.as_bytes())?;
            Some((ty, GitId::from_hex(id.as_bytes())?))
        });
        Ok(found.collect())
    }

    /// Counts the commits that lead to `tips` and not to `known`.
    pub fn count_commits(&self, tips: &[GitId], known: &[GitId]) -> Result<u64, SourceError> {
        let mut child = self.rev_list(&["--count"], tips, known)?;
        let mut count = String::new();
        child.output.read_to_string(&mut count)?;
        child.end()?;
        count.trim().parse().map_err(|_| SourceError::Answer(count))
    }

    fn rev_list(
        &self,
        more: &[&str],
        tips: &[GitId],
        known: &[GitId],
    ) -> Result<GitChild, SourceError> {
        let mut git = self.git();
        git.args(["rev-list", "--topo-order", "--reverse", "--stdin"]);
        git.args(more);
        let mut child = GitChild::start("rev-list", git, Stdio::piped())?;
        let mut input = child.child.stdin.take().expect("it has a pipe");
        let mut text = Vec::new();
        tips.iter().try_for_each(|tip| writeln!(text, "{tip}"))?;
        known.iter().try_for_each(|id| writeln!(text, "^{id}"))?;
        // Git says more than a broken pipe does.
        let _ = input.write_all(&text);
        drop(input);
        Ok(child)
    }

    /// Lists the objects that `tips` need and `known` have not: each commit after its parents and followed
    /// by its new trees, and each tree followed by what is new in it.
    pub fn list(&self, tips: &[GitId], known: &[GitId]) -> Result<ObjectList, SourceError> {
        let args = [
            "--objects",
            "--in-commit-order",
            "--no-object-names",
            "--missing=print",
        ];
        let GitChild {
            child,
            output,
            said,
            ..
        } = self.rev_list(&args, tips, known)?;
        let mut git = self.git();
        git.args(["cat-file", "--buffer"]);
        git.arg("--batch-check=%(objectname) %(objecttype) %(objectsize)");
        // Nothing has been read into the buffer.
        let ids = Stdio::from(output.into_inner());
        Ok(ObjectList {
            path: self.path.clone(),
            lookup: GitChild::start("cat-file", git, ids)?,
            list: ListChild { child, said },
        })
    }

    /// Returns what the trees of some commits have, in the order of the ids.
    pub fn content_of(&self, commits: &[GitId]) -> Result<Vec<GitId>, SourceError> {
        let args = [
            "--objects",
            "--no-object-names",
            "--no-walk",
            "--missing=print",
        ];
        let mut child = self.rev_list(&args, commits, &[])?;
        let (mut ids, mut line) = (Vec::new(), Vec::new());
        while read_line(&mut child.output, &mut line)? {
            ids.extend(GitId::from_hex(line.trim_ascii_end()));
        }
        child.end()?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// Returns a path of each of `blobs` in the commits that lead to `tips` and not to `known`. Of a name with a line
    /// feed, Git says what comes before that.
    pub fn paths_of(
        &self,
        blobs: &HashSet<GitId>,
        tips: &[GitId],
        known: &[GitId],
    ) -> Result<HashMap<GitId, Vec<u8>>, SourceError> {
        let mut child = self.rev_list(&["--objects", "--missing=print"], tips, known)?;
        let (mut paths, mut line) = (HashMap::new(), Vec::new());
        while read_limited(&mut child.output, &mut line, MAX_PATH_LINE_BYTES)? {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let at = text.iter().position(|b| *b == b' ').unwrap_or(text.len());
            let (id, path) = text.split_at(at);
            if let Some(id) = GitId::from_hex(id).filter(|id| blobs.contains(id)) {
                paths.insert(id, path.get(1..).unwrap_or_default().to_vec());
            }
        }
        child.end()?;
        Ok(paths)
    }

    /// Sorts objects in the order in which the repository stores them, those of `last` at the end. Git stores most
    /// as differences, and unpacks a base again that it has not needed for long. `last` is in the order of the ids.
    pub fn sort_as_stored(&self, ids: &mut [GitId], last: &[GitId]) -> Result<(), SourceError> {
        ids.sort_unstable();
        let mut git = self.git();
        git.args(["cat-file", "--batch-all-objects", "--unordered"]);
        git.args(["--buffer", "--batch-check=%(objectname)"]);
        let mut child = GitChild::start("cat-file", git, Stdio::null())?;
        let mut places = vec![u32::MAX; ids.len()];
        let (mut line, mut place) = (Vec::new(), 0u32);
        while read_line(&mut child.output, &mut line)? {
            let found = GitId::from_hex(line.trim_ascii_end());
            if let Some(at) = found.and_then(|id| ids.binary_search(&id).ok()) {
                places[at] = place;
            }
            place = place.saturating_add(1);
        }
        child.end()?;
        let is_last = |id: &GitId| last.binary_search(id).is_ok();
        let placed = ids.iter().zip(places);
        let mut sorted: Vec<(bool, u32, GitId)> = placed
            .map(|(id, place)| (is_last(id), place, *id))
            .collect();
        sorted.sort_unstable();
        for (id, (.., next)) in ids.iter_mut().zip(sorted) {
            *id = next;
        }
        Ok(())
    }

    /// Reads some objects by their ids.
    pub fn read(&self, ids: &[GitId]) -> Result<ObjectStream, SourceError> {
        let file = file_of(ids)?;
        let mut git = self.git();
        git.args(["cat-file", "--batch", "--buffer"]);
        Ok(ObjectStream {
            path: self.path.clone(),
            child: GitChild::start("cat-file", git, Stdio::from(file))?,
            left: 0,
        })
    }
}

/// Returns a command of Git that knows of no repository yet.
pub(crate) fn bare_git() -> Command {
    let mut git = Command::new("git");
    for inherited in PLACES {
        git.env_remove(inherited);
    }
    git
}

/// Runs a program to its end, without input. Returns what it writes.
pub(crate) fn output_of(program: &mut Command, command: &str) -> Result<Vec<u8>, SourceError> {
    let output = program.stdin(Stdio::null()).output();
    whole_output(output.map_err(SourceError::NoGit)?, command)
}

/// Runs a program that reads what `write` passes on.
pub(crate) fn feed(
    program: &mut Command,
    command: &str,
    write: impl FnOnce(&mut ChildStdin) -> io::Result<()>,
) -> Result<(), SourceError> {
    program.stdin(Stdio::piped());
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = program.spawn().map_err(SourceError::NoGit)?;
    let mut input = child.stdin.take().expect("it has a pipe");
    let written = write(&mut input);
    drop(input);
    // The program says more than a broken pipe does.
    whole_output(child.wait_with_output()?, command)?;
    Ok(written?)
}

fn whole_output(output: Output, command: &str) -> Result<Vec<u8>, SourceError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let (command, said) = (command.to_owned(), last_line(&output.stderr));
    Err(SourceError::Failed { command, said })
}

/// Returns a file with the ids, one in a line.
fn file_of(ids: &[GitId]) -> io::Result<File> {
    let mut out = BufWriter::new(tempfile::tempfile()?);
    ids.iter().try_for_each(|id| writeln!(out, "{id}"))?;
    let mut file = out.into_inner()?;
    file.rewind()?;
    Ok(file)
}

/// A child process of Git, and what it says on its standard error.
struct GitChild {
    command: &'static str,
    child: Child,
    output: BufReader<ChildStdout>,
    said: File,
}

impl GitChild {
    fn start(
        command: &'static str,
        mut git: Command,
        input: Stdio,
    ) -> Result<GitChild, SourceError> {
        let said = tempfile::tempfile()?;
        git.stdin(input)
            .stdout(Stdio::piped())
            .stderr(said.try_clone()?);
        let mut child = git.spawn().map_err(SourceError::NoGit)?;
        let output = child.stdout.take().expect("it has a pipe");
        let output = BufReader::with_capacity(BUFFER_BYTES, output);
        Ok(GitChild {
            command,
            child,
            output,
            said,
        })
    }

    fn end(self) -> Result<(), SourceError> {
        drop(self.output);
        check_end(self.command, self.child, self.said)
    }
}

/// The process whose output another one reads.
struct ListChild {
    child: Child,
    said: File,
}

fn check_end(command: &'static str, mut child: Child, mut said: File) -> Result<(), SourceError> {
    if child.wait()?.success() {
        return Ok(());
    }
    let mut text = Vec::new();
    said.rewind()?;
    said.take(64 << 10).read_to_end(&mut text)?;
    let said = last_line(&text);
    let command = command.to_owned();
    Err(SourceError::Failed { command, said })
}

/// Returns why Git gave up: what it calls fatal, or what it says last. Advice can follow the reason.
pub(crate) fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let last = |is_reason: fn(&str) -> bool| text.lines().rev().find(|line| is_reason(line));
    let line = last(|line| line.starts_with("fatal: "));
    let line = line.or_else(|| last(|line| !line.trim().is_empty()));
    line.unwrap_or("it did not say why").trim().to_owned()
}

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    /// The object.
    pub id: GitId,
    /// Its type.
    pub ty: GitType,
    /// Bytes of its content.
    pub size: u64,
}

/// Reads the next line of at most [`MAX_HEADER_BYTES`]. Returns false at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    read_limited(input, line, MAX_HEADER_BYTES)
}

/// Reads a line, or as much of it as `most` bytes.
fn read_limited(input: &mut impl BufRead, line: &mut Vec<u8>, most: u64) -> io::Result<bool> {
    line.clear();
    Ok(input.take(most).read_until(b'\n', line)? > 0)
}

/// Reads the next object's header; `None` at the end.
fn read_header(input: &mut impl BufRead, path: &Path) -> Result<Option<ObjectHeader>, SourceError> {
    let mut line = Vec::new();
    if !read_line(input, &mut line)? {
        return Ok(None);
    }
    let mut words = line.trim_ascii_end().split(|b| *b == b' ');
    let mut word = || words.next().unwrap_or_default();
    let (id, ty, size) = (word(), word(), word());
    if ty == b"missing" {
        // The list of the objects marks those that it lacks.
        let id = id.strip_prefix(b"?").unwrap_or(id);
        return Err(SourceError::Missing {
            path: path.to_owned(),
            id: String::from_utf8_lossy(id).into_owned(),
        });
    }
    let size = std::str::from_utf8(size)
        .ok()
        .and_then(|size| size.parse().ok());
    let (Some(id), Some(ty), Some(size)) = (GitId::from_hex(id), GitType::from_word(ty), size)
    else {
        return Err(SourceError::Answer(line.escape_ascii().to_string()));
    };
    Ok(Some(ObjectHeader { id, ty, size }))
}

/// A list of objects, as Git writes it.
pub struct ObjectList {
    path: PathBuf,
    /// Adds types and sizes to the ids of `list`.
    lookup: GitChild,
    list: ListChild,
}

impl ObjectList {
    /// Returns the next object; `None` at the end.
    pub fn next_object(&mut self) -> Result<Option<ObjectHeader>, SourceError> {
        read_header(&mut self.lookup.output, &self.path)
    }

    /// Waits until Git has ended, and returns the error that it ended with.
    pub fn end(self) -> Result<(), SourceError> {
        check_end("rev-list", self.list.child, self.list.said)?;
        self.lookup.end()
    }
}

/// Objects as Git writes them, one after the other.
///
/// The content that follows a header is read through `Read`, which ends with it.
pub struct ObjectStream {
    path: PathBuf,
    child: GitChild,
    /// Bytes of the content that are still to come, and the line feed after it.
    left: u64,
}

impl ObjectStream {
    /// Returns the next object's header; `None` at the end. What is left of the former content is skipped.
    pub fn next_object(&mut self) -> Result<Option<ObjectHeader>, SourceError> {
        while self.left > 0 {
            let buffered = self.child.output.fill_buf()?.len() as u64;
            if buffered == 0 {
                return Err(self.broken());
            }
            let skipped = buffered.min(self.left);
            self.child.output.consume(skipped as usize);
            self.left -= skipped;
        }
        let header = read_header(&mut self.child.output, &self.path)?;
        self.left = header.map_or(0, |header| header.size + 1);
        Ok(header)
    }

    /// Appends the whole content to `out`, at most `most` bytes.
    pub fn content(&mut self, out: &mut Vec<u8>, most: u64) -> Result<(), SourceError> {
        let size = self.left.saturating_sub(1);
        if size > most {
            return Err(SourceError::Answer(format!(
                "an object of {size} bytes, which is too large"
            )));
        }
        out.reserve(size as usize);
        let read = Read::by_ref(self).take(size).read_to_end(out)?;
        if read as u64 == size {
            Ok(())
        } else {
            Err(self.broken())
        }
    }

    fn broken(&self) -> SourceError {
        SourceError::Answer("an object that ends too early".to_owned())
    }

    /// Waits until Git has ended, and returns the error that it ended with.
    pub fn end(self) -> Result<(), SourceError> {
        self.child.end()
    }
}

impl Read for ObjectStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // The line feed belongs to the header of the next object.
        let room = self.left.saturating_sub(1).min(buf.len() as u64) as usize;
        let read = self.child.output.read(&mut buf[..room])?;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a blob, and returns its id.
    fn blob(source: &GitSource, text: &str) -> GitId {
        let mut input = tempfile::tempfile().expect("a file");
        input.write_all(text.as_bytes()).expect("written");
        input.rewind().expect("a file");
        let mut git = source.git();
        git.args(["hash-object", "-w", "--stdin"]).stdin(input);
        let output = git.output().expect("git runs");
        GitId::from_hex(output.stdout.trim_ascii_end()).expect("an id")
    }

    #[test]
    fn objects_are_sorted_as_they_are_stored_and_some_come_last() {
        if Command::new("git").arg("--version").output().is_err() {
            return dmv_random::skip("git is not installed");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let source = GitSource::create(&dir.path().join("g"), Algorithm::Sha1).expect("git");
        let ids: Vec<GitId> = (0..20).map(|n| blob(&source, &n.to_string())).collect();
        let listed = ["cat-file", "--batch-all-objects", "--unordered"];
        let listed = [&listed[..], &["--batch-check=%(objectname)"]].concat();
        let stored = source.answer(&listed).expect("git answers");
        let stored = stored
            .lines()
            .filter_map(|line| GitId::from_hex(line.as_bytes()));
        let mut last = ids[3..6].to_vec();
        last.sort_unstable();
        let (mut expected, end): (Vec<GitId>, Vec<GitId>) =
            stored.partition(|id| !last.contains(id));
        expected.extend(end);
        let mut sorted = ids.clone();
        source.sort_as_stored(&mut sorted, &last).expect("sorted");
        assert_eq!(sorted, expected);
        // An object that is not there has no place, and is not lost.
        let absent = GitId::new(&[7; 20]).expect("an id");
        let mut some = [absent, sorted[1], sorted[0]];
        source.sort_as_stored(&mut some, &[]).expect("sorted");
        assert_eq!(some, [sorted[0], sorted[1], absent]);
    }
}
