//! `dmv blame`

use crate::format::json::{base64_unless_text, when};
use crate::format::text::{lines, raw_person};
use crate::path_arguments::{PlaceIn, path_at, place_or_path};
use crate::prelude::*;
use dmv_core::diff::lines::Lines;
use dmv_core::object::commit::Commit;
use dmv_core::object::tree::Kind;
use dmv_core::repo::{BlamedLines, Location};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Most characters of an author's name in the text.
const MAX_NAME: usize = 24;

/// Show which commit each line of a file comes from
///
/// Follows the file through renames and merges. Lines of a file that only changed its place keep their
/// commit. Uncommitted changes are not part of it: it shows the file as the commit has it.
///
/// A ^ before an id means: the line may be older, but older commits are absent from this repository, or the
/// content of an earlier version was purged.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv blame notes.txt\n  dmv blame v1.0:edit/cut.edl\n  \
                  dmv blame -L 10,20 notes.txt\n  dmv blame v1.0 -- notes.txt"
)]
pub struct Args {
    /// The file: a path in @, or a commit and a path
    #[arg(value_name = "[REV:]PATH", num_args = 1..=2, required = true, add = candidates::place_or_path())]
    place: Vec<OsString>,
    /// Show only the lines from A to B; A,+N shows N lines
    #[arg(short = 'L', value_name = "A,B", value_parser = range)]
    lines: Option<Range<usize>>,
}

/// Lines as people count them, from 1 to the last one, as a range from 0.
fn range(text: &str) -> Result<Range<usize>, String> {
    let wrong = || "write the lines as 10,20 or 10,+5; the first line is 1".to_owned();
    let number = |text: &str| {
        text.parse::<usize>()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(wrong)
    };
    let (from, to) = text.split_once(',').unwrap_or((text, ""));
    let from = match from {
        "" => 0,
        from => number(from)? - 1,
    };
    let to = match to.strip_prefix('+') {
        Some(len) => from.saturating_add(number(len)?),
        None if to.is_empty() => usize::MAX,
        None => number(to)?,
    };
    if to <= from {
        return Err(wrong());
    }
    Ok(from..to)
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let place = match &args.place[..] {
        [revision, path] => path_at(context, &repo, revision, path)?,
        place => place_or_path(context, &repo, place.first().map(OsString::as_os_str), true)?,
    };
    if let Location::Entry(entry) = &place.located
        && entry.kind == Kind::Conflict
    {
        let message = format!("'{}' is an unresolved conflict", place.path);
        let failure = Failure::new("wrong-kind", EXIT_OTHER, message);
        return Err(failure.hint("dmv conflicts, to see it; dmv blame REV:PATH for one side"));
    }
    let commit = repo.resolve(&place.revision)?;
    let watch = context.watch("reading history");
    let blame = supplied(context, &repo, "reading history", || {
        repo.blame(commit, &place.path, args.lines.clone(), &context.job)
    })?;
    drop(watch);
    let [text] = Lines::of([&blame.text]);
    if let Some(range) = args
        .lines
        .as_ref()
        .filter(|range| range.start >= text.len().max(1))
    {
        let message = format!(
            "'{}' has {} lines; line {} does not exist",
            place.path,
            text.len(),
            range.start + 1
        );
        return Err(Failure::usage(message));
    }
    let printer = Printer::new(context, &repo, &place, &blame.lines)?;
    for part in &blame.lines {
        for n in 0..part.len {
            printer.print(part, n, text.get(part.line + n))?;
        }
    }
    Ok(EXIT_OK)
}

/// Prints lines with their commits.
struct Printer<'a> {
    context: &'a Context,
    commits: HashMap<ObjectId, Commit>,
    /// Whether the path of each line is shown.
    with_path: bool,
    name_width: usize,
    line_width: usize,
}

impl<'a> Printer<'a> {
    fn new(
        context: &'a Context,
        repo: &Repo,
        place: &PlaceIn,
        parts: &[BlamedLines],
    ) -> Result<Printer<'a>, Failure> {
        let mut commits = HashMap::new();
        for part in parts {
            if let Entry::Vacant(free) = commits.entry(part.commit) {
                free.insert(repo.read_commit(&part.commit)?);
            }
        }
        let width = |commit: &Commit| name(commit).chars().count();
        let last = parts.last().map_or(0, |part| part.line + part.len);
        Ok(Printer {
            context,
            with_path: parts.iter().any(|part| part.path != place.path),
            name_width: commits.values().map(width).max().unwrap_or(0),
            line_width: last.to_string().len(),
            commits,
        })
    }

    /// Prints line `n` of a part.
    fn print(&self, part: &BlamedLines, n: usize, text: &[u8]) -> Result<(), Failure> {
        let commit = &self.commits[&part.commit];
        let (author, ui) = (&commit.author, &self.context.ui);
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let line = part.line + n + 1;
        if ui.is_json() {
            return ui.json(&object! {
                line: line,
                part.{commit},
                author: raw_person(author),
                time: when(author),
                summary: subject(&commit.message),
                ..path(&part.path),
                original_line: part.at + n + 1,
                boundary: part.is_boundary,
                text: text_of(text),
                text_b64?: base64_unless_text(text),
            });
        }
        let mark = if part.is_boundary { "^" } else { "" };
        let digits = SHORT_ID - mark.len();
        let id = ui.paint(
            color(AnsiColor::Yellow),
            format_args!("{mark}{}", part.commit.short(digits)),
        );
        let path = if self.with_path {
            format!(" {}", escape(part.path.as_bytes()))
        } else {
            String::new()
        };
        let (name, when) = (name(commit), time(author.seconds, author.tz_minutes));
        let (name_width, line_width) = (self.name_width, self.line_width);
        let mut out = ui.out();
        write!(
            out,
            "{id}{path} ({name:<name_width$} {when} {line:>line_width$}) "
        )?;
        // Nothing in a file may command a terminal.
        if ui.is_terminal() {
            out.write_all(lines(&String::from_utf8_lossy(text)).as_bytes())?;
        } else {
            out.write_all(text)?;
        }
        Ok(out.write_all(b"\n")?)
    }
}

/// The author's name, shortened.
fn name(commit: &Commit) -> String {
    clean(&commit.author.name).chars().take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one_and_both_ends_belong_to_them() {
        assert_eq!(range("10,20"), Ok(9..20));
        assert_eq!(range("10,+5"), Ok(9..14));
        assert_eq!(range("10"), Ok(9..usize::MAX));
        assert_eq!(range(",3"), Ok(0..3));
        for wrong in ["0,3", "5,4", "a", "3,+0", "-1,2"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
