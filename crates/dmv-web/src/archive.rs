//! Directories as zip archives: `/zip/COMMIT/DIR`, made while they are sent.

use crate::answer::{Answer, RAW_POLICY, answer, set};
use crate::body::{Writer, written};
use crate::pages::places::place;
use crate::program::Stop;
use crate::raw::disposition;
use crate::site::Ask;
use crate::words::shown;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::Kind;
use dmv_core::repo::{AbsentError, LackOf, ListingLine, Repo, RepoError, Selection, blob_of};
use dmv_core::subset::Subset;
use dmv_core::threads;
use dmv_core::worktree::select::is_under;
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

/// From this size on an entry needs the longer form.
const LARGE: u64 = u32::MAX as u64 - (64 << 10);

/// Sends the archive, with files that can be read in place of each conflict, as an export writes them. What is absent
/// is said before anything is sent.
pub fn send(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let mut place = place(ask, 2)?;
    let is_wanted = |path: &[u8]| is_under(path, place.path.as_bytes());
    place.commit.tree = ask.repo.readable_tree(&place.commit, is_wanted)?;
    place.located = ask
        .repo
        .locate(ask.revision()?, &place.commit, &place.path)?;
    let Some(tree) = place.located.tree() else {
        return Err(Stop::Bad("this is not a directory"));
    };
    let all = Subset::everything();
    let wanted = Selection {
        path: &place.path,
        located: &place.located,
        subset: &all,
    };
    let lacks = ask.repo.lacking(wanted, LackOf::Content)?;
    if !lacks.is_empty() {
        return Err(RepoError::Absent(AbsentError::Lacking(lacks)).into());
    }
    let archive_place = ask.site.archive_place()?;
    let (writer, body) = written();
    let (repo, path) = (ask.repo.clone(), place.path.clone());
    threads::start(move || {
        write(writer, &repo, &path, tree);
        drop(archive_place);
    })
    .map_err(RepoError::from)?;
    let mut sent = answer(StatusCode::OK, "application/zip", body);
    let stem = place.path.file_name().unwrap_or(b"files").to_vec();
    let name = [&stem[..], b"-", place.short().as_bytes(), b".zip"].concat();
    set(
        &mut sent,
        CONTENT_DISPOSITION,
        &disposition("attachment", Some(&name)),
    );
    set(&mut sent, CONTENT_SECURITY_POLICY, RAW_POLICY);
    Ok(sent)
}

type Zip = ZipWriter<StreamWriter<SharedWriter>>;

/// Writes all of a directory. A failure breaks the transfer, so that nobody takes a part for the
/// whole.
fn write(writer: Writer, repo: &Arc<Repo>, dir: &RepoPath, tree: dmv_core::ObjectId) {
    let shared = SharedWriter::new(writer);
    let mut zip = ZipWriter::new_stream(shared.clone());
    let written = fill(&mut zip, repo, dir, tree).and_then(|()| match zip.finish() {
        Ok(_) => shared.with(|writer| writer.flush()),
        Err(e) => Err(io::Error::other(e)),
    });
    if let Err(e) = written {
        shared.fail(e.to_string());
    }
}

fn fill(zip: &mut Zip, repo: &Repo, dir: &RepoPath, tree: dmv_core::ObjectId) -> io::Result<()> {
    let mut failed = None;
    let mut visit = |listed: ListingLine| -> Result<ControlFlow<()>, RepoError> {
        match add(zip, repo, dir, &listed) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(e) => {
                failed = Some(e);
                Ok(ControlFlow::Break(()))
            }
        }
    };
    let listed = repo.list(dir, tree, true, &mut visit);
    match (failed, listed) {
        (Some(e), _) => Err(e),
        (None, Err(e)) => Err(io::Error::other(e)),
        (None, Ok(())) => Ok(()),
    }
}

/// Adds one entry under its path from the directory. The path is one of safe names, so no program
/// that unpacks it writes elsewhere.
fn add(zip: &mut Zip, repo: &Repo, dir: &RepoPath, listed: &ListingLine) -> io::Result<()> {
    let entry = &listed.entry;
    let from_dir = listed.path.as_bytes().get(dir.as_bytes().len()..);
    let path = from_dir.unwrap_or_default();
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let name = &name_of(path);
    let mode = match (entry.kind, entry.is_private()) {
        (Kind::Executable, true) => 0o700,
        (Kind::Executable, false) => 0o755,
        (_, true) => 0o600,
        (_, false) => 0o644,
    };
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(entry.size >= LARGE)
        .unix_permissions(mode);
    match entry.kind {
        Kind::File | Kind::Executable => {
            zip.start_file(name, options).map_err(io::Error::other)?;
            repo.cat(blob_of(entry), None, zip)
                .map_err(io::Error::other)?;
        }
        Kind::Symlink => {
            let target = repo.link_target(entry).map_err(io::Error::other)?;
            let target = String::from_utf8_lossy(&target);
            zip.add_symlink(name, target, options)
                .map_err(io::Error::other)?;
        }
        Kind::Directory => {
            zip.add_directory(name, options).map_err(io::Error::other)?;
        }
        Kind::Conflict => return Err(io::Error::other("a conflict has no readable files")),
    }
    Ok(())
}

/// The name of an entry. Names in archives are text, and some programs take a backslash for a slash.
fn name_of(path: &[u8]) -> String {
    let text = match std::str::from_utf8(path) {
        Ok(text) => text.to_owned(),
        Err(_) => shown(path),
    };
    text.replace('\\', "%5C")
}

/// The writer, which outlives the archive in case that fails.
#[derive(Clone)]
struct SharedWriter(Arc<std::sync::Mutex<Option<Writer>>>);

impl SharedWriter {
    fn new(writer: Writer) -> SharedWriter {
        SharedWriter(Arc::new(std::sync::Mutex::new(Some(writer))))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Writer) -> io::Result<T>) -> io::Result<T> {
        let mut writer = self.0.lock().unwrap_or_else(|e| e.into_inner());
        match writer.as_mut() {
            Some(writer) => work(writer),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn fail(&self, why: String) {
        let writer = self.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(writer) = writer {
            writer.fail(why);
        }
    }
}

impl Write for SharedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        // The archive flushes after each entry; small entries share a piece.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_an_archive() {
        assert_eq!(name_of(b"a/b c.txt"), "a/b c.txt");
        assert_eq!(name_of(b"..\\..\\x.exe"), "..%5C..%5Cx.exe");
        assert_ne!(name_of(b"\xff.txt"), name_of(b"\xfe.txt"));
        assert!(!name_of(b"\xff\\..\\x").contains('\\'));
    }
}
