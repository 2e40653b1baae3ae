//! The question before a commit stores large new files: once stored, they take space until they are
//! given up.

use crate::context::Context;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::format::text::{bytes, count};
use crate::ui::{ask, can_ask};
use dmv_core::object::name::escape;
use dmv_core::repo::{LargeFile, Repo, StatusOptions};
use dmv_core::worktree::select::Paths;

/// The most files that the question names.
const MAX_NAMED: usize = 5;

/// Returns the size from which a new file is large, if somebody can answer whether it is meant.
pub fn limit(context: &Context) -> Result<Option<u64>, Failure> {
    let least = context.config()?.size("commit.large")?;
    Ok((least > 0 && !context.globals.yes && can_ask()).then_some(least))
}

/// Asks whether large new files are meant. Fails if they are not.
pub fn confirm(context: &Context, repo: &Repo, select: &Paths) -> Result<(), Failure> {
    let Some(least) = limit(context)? else {
        return Ok(());
    };
    let options = StatusOptions {
        select,
        settings: context.settings()?,
    };
    let files = repo.large_new_files(&options, least, &context.job)?;
    if files.is_empty() || ask(&question(&files)) {
        return Ok(());
    }
    let failure = Failure::new("not-confirmed", EXIT_REFUSED, "nothing was committed");
    Err(failure.hint(
        "add the file to .dmvignore, or name what to commit: dmv commit PATH; \
         to be asked only for larger files: dmv config set commit.large SIZE",
    ))
}

fn question(files: &[LargeFile]) -> String {
    let name =
        |file: &LargeFile| format!("{} ({})", escape(file.path.as_bytes()), bytes(file.bytes));
    let named: Vec<String> = files.iter().take(MAX_NAMED).map(name).collect();
    let more = match files.len() - named.len() {
        0 => String::new(),
        n => format!(" and {}", count(n as u64, "more file", "more files")),
    };
    let (are, them) = match files.len() {
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    format!(
        "{}{more} {are} new, and large beside the rest. Commit {them}?",
        named.join(", ")
    )
}
