//! `dmv cat`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use dmv_core::object::tree::Kind;
use dmv_core::repo::{Located, RepoError, blob_of};
use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

/// Print a file's bytes as a commit has them
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv cat @~1:notes.txt\n  \
                  dmv cat v1.0:media/clip.mov --range 0-4096 > head")]
pub struct Args {
    /// The file
    #[arg(value_name = "REV:PATH")]
    place: OsString,
    /// Only the bytes from A up to, not including, B; without B up to the end
    #[arg(long, value_name = "A-B", value_parser = range)]
    range: Option<Range<u64>>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "a range is written as A-B, in bytes, A not above B".to_owned();
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str, absent| match text {
        "" => Ok(absent),
        text => text.parse::<u64>().map_err(|_| wrong()),
    };
    let range = number(from, 0)?..number(to, u64::MAX)?;
    if range.start > range.end {
        return Err(wrong());
    }
    Ok(range)
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if !args.place.as_bytes().contains(&b':') {
        let failure = Failure::usage("a file is named as REV:PATH");
        return Err(failure.hint("dmv cat @:PATH"));
    }
    let repo = context.repo()?;
    let place = context.place(&repo, &args.place)?;
    let wrong = |what| RepoError::WrongKind {
        path: place.path.as_bytes().to_vec(),
        what,
    };
    let entry = match &place.located {
        Located::Root { .. } => return Err(wrong("a directory").into()),
        Located::Entry(entry) => entry,
    };
    let mut out = context.ui.out();
    match entry.kind {
        Kind::Directory => return Err(wrong("a directory").into()),
        Kind::Conflict => return Err(wrong("an unresolved conflict").into()),
        Kind::Symlink => {
            let target = repo.link_target(entry)?;
            let len = target.len() as u64;
            let range = args.range.clone().unwrap_or(0..len);
            let (from, to) = (range.start.min(len), range.end.min(len));
            out.write_all(&target[from as usize..to as usize])?;
        }
        Kind::File | Kind::Executable => {
            repo.cat(blob_of(entry), args.range.clone(), &mut *out)?;
        }
    }
    Ok(EXIT_OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open_and_may_lack_an_end() {
        assert_eq!(range("3-10"), Ok(3..10));
        assert_eq!(range("3-"), Ok(3..u64::MAX));
        assert_eq!(range("-10"), Ok(0..10));
        assert_eq!(range("5-5"), Ok(5..5));
        for wrong in ["", "5", "6-5", "a-b", "1-2-3", "-1-2"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
