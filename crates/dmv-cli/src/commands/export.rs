//! `dmv export`

#[cfg(feature = "git")]
mod git;

use crate::path_arguments::place;
use crate::peers::refuse_address;
use crate::prelude::*;
use crate::subset_options::LimitArgs;
use dmv_core::fsutil::{os_str, temp_name};
use dmv_core::job::Job;
use dmv_core::object::list::Blob;
use dmv_core::object::tree::{Kind, ModifiedTime, TreeEntry, XATTR_PREFIX};
use dmv_core::platform::{bytes_of, name_of, usual_permissions};
use dmv_core::repo::{Selection, blob_of, is_inside};
use dmv_core::subset::Union;
use dmv_core::worktree::select::is_under;
use dmv_core::worktree::snapshot::Problem;
use std::fs::File;
use std::io;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tar::{EntryType, Header};

/// Write files of a commit to a directory or archive, or all to Git
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv export v1.0 --to /srv/release\n  \
                  dmv export @:media --tar - | ssh host tar -x\n  \
                  dmv export v1.0 --subset media/scene4 '*.edl' --to /scratch/job\n  \
                  dmv export --git /srv/film.git")]
pub struct Args {
    /// The commit, or a directory or file in it
    #[arg(value_name = "REV[:PATH]", add = candidates::place())]
    #[cfg_attr(feature = "git", arg(required_unless_present_any = ["git", "stream"]))]
    #[cfg_attr(not(feature = "git"), arg(required = true))]
    place: Option<OsString>,
    #[command(flatten)]
    limit: LimitArgs,
    /// Write into the directory DIR, which must be new or empty
    #[arg(long, value_name = "DIR")]
    #[cfg_attr(feature = "git", arg(required_unless_present_any = ["tar", "git", "stream"]))]
    #[cfg_attr(not(feature = "git"), arg(required_unless_present = "tar"))]
    to: Option<PathBuf>,
    /// Write a tar archive to FILE; - means standard output
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    tar: Option<PathBuf>,
    /// Write all branches and tags with their history to the Git repository DIR. dmv creates a bare one if
    /// DIR does not exist
    #[cfg(feature = "git")]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["place", "to", "tar", "subset"])]
    git: Option<PathBuf>,
    /// Write all branches and tags with their history to FILE, as a stream for 'git fast-import'; - means
    /// standard output
    #[cfg(feature = "git")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["place", "to", "tar", "subset", "git"])]
    stream: Option<PathBuf>,
    #[cfg(feature = "git")]
    #[command(flatten)]
    to_git: ToGit,
}

/// How to write to a Git repository, or a stream.
#[cfg(feature = "git")]
#[derive(clap::Args)]
struct ToGit {
    /// With --git or --stream: only branches that match GLOB, and no tags
    #[arg(long, value_name = "GLOB", conflicts_with = "place")]
    branches: Vec<String>,
    /// With --git or --stream: files that came as pointers of Git LFS become these pointers again. In commits
    /// that dmv made, files that .gitattributes gives to Git LFS become pointers, too, and those that match one
    /// of PATTERNS, such as '*.psd,>10M'
    #[arg(long, value_name = "PATTERNS", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with = "place")]
    lfs: Vec<String>,
    /// With --stream and --lfs: put the content for the pointers into DIR, as 'lfs' in a Git repository has it
    #[arg(long, value_name = "DIR", requires_all = ["stream", "lfs"])]
    lfs_dir: Option<PathBuf>,
    /// With --git: move branches there even if this loses commits
    #[arg(long, requires = "git")]
    force: bool,
}

#[derive(Default)]
struct ExportSummary {
    files: u64,
    bytes: u64,
    refused: Vec<Problem>,
}

impl Args {
    fn to_stdout(&self) -> bool {
        self.to.is_none() && self.tar.as_deref() == Some(Path::new("-"))
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "git")]
    if let Some(done) = git::run(context, args) {
        return done;
    }
    let Some(wanted_place) = &args.place else {
        return Err(Failure::usage("a commit is needed"));
    };
    args.to.as_deref().map_or(Ok(()), refuse_address)?;
    let repo = context.repo()?;
    if let Some(into) = args.to.as_deref().or(args.tar.as_deref()) {
        refuse_inside(&repo, into)?;
    }
    let mut place = place(context, &repo, wanted_place)?;
    // A conflict is written as files that can be read.
    let limit = args.limit.read(context, &repo)?.unwrap_or_default();
    let is_wanted =
        |path: &[u8]| limit.includes(path, false) && is_under(path, place.path.as_bytes());
    place.commit.tree = supplied(context, &repo, "reading", || {
        repo.readable_tree(&place.commit, is_wanted)
    })?;
    let revision = place.revision.clone();
    place.located = repo.locate(&revision, &place.commit, &place.path)?;
    let subset = args
        .limit
        .read_for(context, &repo, place.commit.tree, Union::default())?;
    let what = What {
        repo: &repo,
        wanted: place.wanted(&subset),
        time: u64::try_from(place.commit.committer.seconds).unwrap_or(0),
        job: &context.job,
    };
    // Before the first byte of an archive is out.
    let check = || repo.check_here(what.wanted);
    supplied(context, &repo, "reading", check).map_err(leave_out)?;
    if args.limit.is_given() {
        refuse_nothing(what, wanted_place)?;
    }
    let watch = context.watch("exporting");
    let done = write(context, what, args)?;
    drop(watch);
    tell(context, &done, args.to_stdout())
}

/// Says how to leave purged content out: no remote can bring it.
fn leave_out(failure: Failure) -> Failure {
    match (failure.code, &failure.paths[..]) {
        ("purged", [path]) => {
            let path = Argument::excluding_pattern(path);
            failure.hint(hint!(
                "the same command with --subset {}, to leave it out",
                path
            ))
        }
        _ => failure,
    }
}

/// Writes the files, or the archive.
fn write(context: &Context, what: What<'_>, args: &Args) -> Result<ExportSummary, Failure> {
    match (&args.to, &args.tar) {
        (Some(dir), _) => {
            let report = what.repo.export(what.wanted, dir, what.job);
            let report = report.map_err(in_the_way)?;
            Ok(ExportSummary {
                files: report.files,
                bytes: report.bytes,
                refused: report.refused,
            })
        }
        (None, Some(_)) if args.to_stdout() => {
            let mut out = context.ui.out();
            archive(what, &mut out).map_err(Failure::incomplete_output)
        }
        (None, Some(file)) => archive_file(what, file),
        (None, None) => Err(Failure::usage("--to or --tar is needed")),
    }
}

/// The failure of an export, which writes into an empty directory only.
fn in_the_way(e: RepoError) -> Failure {
    let is_taken = matches!(&e, RepoError::Io(e)
        if e.kind() == io::ErrorKind::DirectoryNotEmpty);
    let failure = Failure::from(e);
    if is_taken {
        failure.hint("dmv export REV --to DIR, with a new or an empty directory")
    } else {
        failure
    }
}

/// Says what was exported, and what was not. `to_stdout`: the output is the archive.
fn tell(context: &Context, done: &ExportSummary, to_stdout: bool) -> Result<u8, Failure> {
    context.ui.warn_of("not exported: ", &done.refused);
    if context.ui.is_json() && !to_stdout {
        let document = object! { done.{files, bytes}, problems: done.refused };
        context.ui.json(&document)?;
    }
    context.ui.text(|_| {
        let (files, size) = (count(done.files, "file", "files"), bytes(done.bytes));
        context.ui.note(format_args!("{files} exported, {size}"));
        Ok(())
    })?;
    Ok(exit_for(&done.refused))
}

/// Refuses a subset that names nothing of what is to be exported.
fn refuse_nothing(what: What<'_>, place: &OsStr) -> Result<(), Failure> {
    let mut found = false;
    what.repo.list_wanted(what.wanted, &mut |_| {
        found = true;
        Ok(ControlFlow::Break(()))
    })?;
    if found {
        return Ok(());
    }
    let hint = hint!("dmv ls -r {}", Argument::on_disk(place));
    let place = escape(bytes_of(place));
    let message = format!("no file in {place} matches the subset; nothing was exported");
    Err(Failure::new("no-such-path", EXIT_OTHER, message).hint(hint))
}

/// Refuses to write among the repository's own files.
fn refuse_inside(repo: &Repo, into: &Path) -> Result<(), Failure> {
    if into == Path::new("-") {
        return Ok(());
    }
    if !is_inside(into, repo.dmv_dir()) {
        // Nor among those of another one.
        return Ok(dmv_core::repo::refuse_inside(into)?);
    }
    let message = format!(
        "{} is inside the repository directory {}, where dmv writes only its own files",
        into.display(),
        repo.dmv_dir().display()
    );
    let failure = Failure::new("inside-repository", EXIT_REFUSED, message);
    // A path counts from the directory that -C names.
    Err(failure.hint("dmv export REV --to /PATH, with an absolute path"))
}

fn archive_file(what: What<'_>, file: &Path) -> Result<ExportSummary, Failure> {
    write_file(file, |open| {
        let mut out = io::BufWriter::with_capacity(1 << 20, open);
        archive(what, &mut out)
    })
}

/// A failed attempt leaves nothing under the final name. What is no regular file (a device, a pipe,
/// a link such as `/dev/stdout`) is written into: to put a file in its place would take it from
/// everybody who uses it.
fn write_file<T>(
    file: &Path,
    write: impl FnOnce(&File) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |e: &io::Error| Failure::file("write", file, e);
    if std::fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        let open = std::fs::OpenOptions::new().write(true).open(file);
        let open = open.map_err(|e| failed(&e))?;
        if open.metadata().is_ok_and(|there| there.is_file()) {
            open.set_len(0).map_err(|e| failed(&e))?;
        }
        return write(&open);
    }
    let dir = match file.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let name = temp_name();
    let mut how = tempfile::Builder::new();
    how.prefix(os_str(&name)).rand_bytes(0);
    if let Some(usual) = usual_permissions() {
        how.permissions(usual);
    }
    let temp = how.tempfile_in(dir).map_err(|e| failed(&e))?;
    let done = write(temp.as_file())?;
    temp.persist(file).map_err(|e| failed(&e.error))?;
    Ok(done)
}

fn archive(what: What<'_>, out: &mut dyn Write) -> Result<ExportSummary, Failure> {
    let progress = &what.job.progress;
    let (bytes, files) = what.wanted.totals();
    progress.total_bytes.store(bytes, Ordering::Relaxed);
    progress.total_files.store(files, Ordering::Relaxed);
    let mut archive = Archive {
        repo: what.repo,
        job: what.job,
        time: what.time,
        builder: tar::Builder::new(out),
        done: ExportSummary::default(),
    };
    let mut failed = None;
    what.repo.list_wanted(what.wanted, &mut |listed| {
        Ok(match archive.add(listed.path.as_bytes(), &listed.entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        })
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let Archive { builder, done, .. } = archive;
    builder.into_inner()?.flush()?;
    Ok(done)
}

/// What is exported.
#[derive(Clone, Copy)]
struct What<'a> {
    repo: &'a Repo,
    wanted: Selection<'a>,
    /// Seconds since 1970 that every entry of an archive gets: the commit's.
    time: u64,
    job: &'a Job,
}

struct Archive<'a> {
    repo: &'a Repo,
    job: &'a Job,
    time: u64,
    builder: tar::Builder<&'a mut dyn Write>,
    done: ExportSummary,
}

impl Archive<'_> {
    /// Gives the next entry the time that the commit keeps, with nanoseconds and before 1970, too, and the extended
    /// attributes.
    fn set_properties(&mut self, header: &mut Header, entry: &TreeEntry) -> io::Result<()> {
        let mut told: Vec<(String, Vec<u8>)> = Vec::new();
        match entry.modified() {
            Some(time) => {
                header.set_mtime(u64::try_from(time.seconds).unwrap_or(0));
                told.push(("mtime".to_owned(), pax_time(time).into_bytes()));
            }
            None => header.set_mtime(self.time),
        }
        for (name, value) in entry.xattrs().iter() {
            told.push((pax_xattr(name), value.to_vec()));
        }
        if told.is_empty() {
            return Ok(());
        }
        let told = told.iter().map(|(key, value)| (&key[..], &value[..]));
        self.builder.append_pax_extensions(told)
    }

    fn add(&mut self, path: &[u8], entry: &TreeEntry) -> Result<(), Failure> {
        self.job.check()?;
        let name = Path::new(name_of(path));
        let mut header = Header::new_gnu();
        self.set_properties(&mut header, entry)?;
        header.set_mode(match (entry.kind, entry.is_private()) {
            (Kind::File, true) => 0o600,
            (Kind::File, false) => 0o644,
            (Kind::Executable, true) => 0o700,
            (Kind::Symlink, _) => 0o777,
            (Kind::Executable | Kind::Directory | Kind::Conflict, _) => 0o755,
        });
        match entry.kind {
            Kind::Directory => {
                header.set_entry_type(EntryType::Directory);
                header.set_size(0);
                let name = name.join("");
                self.builder.append_data(&mut header, name, io::empty())?;
                return Ok(());
            }
            Kind::Symlink => {
                let target = self.repo.link_target(entry)?;
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                let target = Path::new(name_of(&target));
                self.builder.append_link(&mut header, name, target)?;
            }
            Kind::File | Kind::Executable => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(entry.size);
                let mut content = Content {
                    repo: self.repo,
                    job: self.job,
                    blob: blob_of(entry),
                    next: 0,
                    window: Vec::new(),
                    at: 0,
                    failed: None,
                };
                let added = self.builder.append_data(&mut header, name, &mut content);
                if let Some(e) = content.failed {
                    return Err(e.into());
                }
                added?;
            }
            Kind::Conflict => {
                let why = "it is an unresolved conflict";
                self.done.refused.push(Problem::new(path, why));
                return Ok(());
            }
        }
        self.done.files += 1;
        self.done.bytes += entry.size;
        Job::add(&self.job.progress.files, 1);
        Ok(())
    }
}

/// Bytes of a file that are fetched at a time.
const WINDOW_BYTES: u64 = 4 << 20;

/// A file's content as something to read from.
struct Content<'a> {
    repo: &'a Repo,
    job: &'a Job,
    blob: Blob,
    next: u64,
    window: Vec<u8>,
    at: usize,
    /// What the repository said, which an I/O error cannot carry.
    failed: Option<RepoError>,
}

impl Read for Content<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() && self.next < self.blob.size {
            self.window.clear();
            self.at = 0;
            let end = self.next.saturating_add(WINDOW_BYTES).min(self.blob.size);
            let range = Some(self.next..end);
            let read = if self.job.is_cancelled() {
                Err(RepoError::Cancelled)
            } else {
                self.repo.cat(self.blob, range, &mut self.window)
            };
            match read {
                Ok(read) => Job::add(&self.job.progress.bytes, read),
                Err(e) => {
                    self.failed = Some(e);
                    return Err(io::ErrorKind::Other.into());
                }
            }
            self.next = end;
        }
        let n = buf.len().min(self.window.len() - self.at);
        buf[..n].copy_from_slice(&self.window[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Returns the key of an extended attribute in an archive, as GNU tar writes it: a key has no `=`.
fn pax_xattr(name: &str) -> String {
    let name = name.replace('%', "%25").replace('=', "%3D");
    ["SCHILY.xattr.", XATTR_PREFIX, &name].concat()
}

/// Returns a time as archives tell it: seconds since 1970 as a decimal fraction.
fn pax_time(time: ModifiedTime) -> String {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, part) = (nanos.abs() / 1_000_000_000, nanos.abs() % 1_000_000_000);
    format!("{sign}{seconds}.{part:09}")
}
