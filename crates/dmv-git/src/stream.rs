//! Streams of `git fast-import`, which tools for other systems write and read.
//!
//! Git reads a stream into a scratch repository, which is imported like any other, and writes one from a
//! scratch repository. So no form of the stream is known here.

use crate::id::Algorithm;
use crate::source::{GitSource, SourceError};
use dmv_core::job::Job;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::Stdio;

/// Bytes that are passed on at a time.
const BUFFER_BYTES: usize = 1 << 18;
/// What Git says is read up to here.
const MAX_SAID_BYTES: u64 = 64 << 10;
/// Blobs of more bytes are stored as they come: Git has smaller ones in memory. The repository is read once,
/// so differences and good compression would cost twice the time for a tenth of the space.
const OPTIONS: [&str; 7] = [
    "-c",
    "core.bigFileThreshold=16m",
    "-c",
    "pack.compression=1",
    "fast-import",
    "--quiet",
    "--depth=0",
];
/// Comes before the stream: dates with impossible time zones, as many repositories have, are kept. The
/// stream can choose another form of dates.
const BEGINNING: &[u8] = b"feature date-format=raw-permissive\n";
/// The branches that a repository is probably on, if the stream does not say.
const USUAL_BRANCHES: [&str; 4] = ["main", "master", "trunk", "default"];

/// Reads a stream into a repository in the new directory `dir`.
///
/// # Errors
///
/// Fails with [`SourceError::Stream`] if Git does not understand the stream, or if it ends too early.
pub fn read_stream(stream: &mut dyn Read, dir: &Path, job: &Job) -> Result<GitSource, SourceError> {
    let source = GitSource::create(dir, Algorithm::Sha1)?;
    let mut said = tempfile::tempfile()?;
    let mut git = source.git();
    git.args(OPTIONS);
    // What `ls`, `cat-blob` and `get-mark` ask for goes nowhere: who wrote the stream cannot read it.
    git.stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(said.try_clone()?);
    let mut child = git.spawn().map_err(SourceError::NoGit)?;
    let mut input = child.stdin.take().expect("it has a pipe");
    let passed = pass_on(stream, &mut input, job);
    // Git sees the end of the stream, and says more than a broken pipe does.
    drop(input);
    if job.is_cancelled() {
        child.kill()?;
        child.wait()?;
        return Err(SourceError::Pipe(io::ErrorKind::Interrupted.into()));
    }
    if !child.wait()?.success() {
        let said = fault(&mut said)?;
        return Err(SourceError::Stream { said });
    }
    if passed? == 0 {
        let said = "it is empty".to_owned();
        return Err(SourceError::Stream { said });
    }
    go_to_branch(&source)?;
    Ok(source)
}

/// Passes the stream on until it ends or the job is cancelled. Returns its bytes.
fn pass_on(stream: &mut dyn Read, out: &mut impl Write, job: &Job) -> io::Result<u64> {
    let mut bytes = 0;
    out.write_all(BEGINNING)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while !job.is_cancelled() {
        let read = match stream.read(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        out.write_all(&buffer[..read])?;
        bytes += read as u64;
    }
    Ok(bytes)
}

/// Returns why Git gave up. A note about its report follows the reason.
fn fault(said: &mut File) -> io::Result<String> {
    let mut text = Vec::new();
    said.rewind()?;
    said.take(MAX_SAID_BYTES).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let fatal = text.lines().find_map(|line| line.strip_prefix("fatal: "));
    let last = || crate::source::last_line(text.as_bytes());
    Ok(fatal.map_or_else(last, str::to_owned))
}

/// Makes the repository be on a branch that the stream has: streams do not say which one.
fn go_to_branch(source: &GitSource) -> Result<(), SourceError> {
    let refs = source.refs()?;
    let branches = refs
        .iter()
        .filter_map(|found| found.name.strip_prefix("refs/heads/"));
    let branches: Vec<&str> = branches.collect();
    let usual = USUAL_BRANCHES.iter().find(|name| branches.contains(name));
    if let Some(branch) = usual.or(branches.first()) {
        let target = format!("refs/heads/{branch}");
        source.answer(&["symbolic-ref", "HEAD", &target])?;
    }
    Ok(())
}

/// Writes all branches and tags of a repository with their history as a stream.
pub fn write_stream(source: &GitSource, out: Stdio) -> Result<(), SourceError> {
    let mut said = tempfile::tempfile()?;
    let mut git = source.git();
    git.args([
        "fast-export",
        "--all",
        "--signed-tags=verbatim",
        "--mark-tags",
    ]);
    git.args(["--reencode=no", "--use-done-feature"]);
    git.stdout(out).stderr(said.try_clone()?);
    let status = git.status().map_err(SourceError::NoGit)?;
    if !status.success() {
        let (command, said) = ("fast-export".to_owned(), fault(&mut said)?);
        return Err(SourceError::Failed { command, said });
    }
    Ok(())
}
