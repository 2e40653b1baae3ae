//! `dmv ls`

use crate::format::json;
use crate::partial_repository::{expiry_words, held_paths, lacks, purge_words};
use crate::path_arguments::{PlaceIn, place_or_path};
use crate::prelude::*;
use crate::print::claims;
use crate::print::newer::{self, NewerLine};
use crate::subset_options::LimitArgs;
use dmv_core::object::tree::{Kind, TreeEntry, XATTR_PREFIX};
use dmv_core::repo::{ClaimTable, LackOf, ListingLine, Location, NewerVersion, RepoSlice};
use dmv_core::subset::Union;
use dmv_core::worktree::scan::Select;
use dmv_core::worktree::select::{ChildrenOf, Paths};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// List the files of a commit
///
/// Prints paths from the root of the repository. With -l, it marks files whose content is absent here, and
/// those of your own commit that have a newer version on another branch ('dmv newer'), and those that others
/// have claimed ('dmv claims').
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv ls -l media\n  dmv ls -l @~1:media\n  \
                  dmv ls -r v1.0\n  dmv ls -r --subset '*.edl'")]
pub struct Args {
    /// The commit, a directory or file in it, or a path in @ (default: where you are)
    #[arg(value_name = "REV[:PATH]|PATH", add = candidates::place_or_path())]
    place: Option<OsString>,
    /// Show kind, id and size of each entry
    #[arg(short)]
    long: bool,
    /// List all files in subdirectories
    #[arg(short)]
    recursive: bool,
    #[command(flatten)]
    limit: LimitArgs,
}

/// What a listing needs besides the entries.
struct Listing<'a> {
    context: &'a Context,
    /// The repository, if it may lack content and this is to be shown.
    partial: Option<&'a Repo>,
    long: bool,
    slice: RepoSlice,
    /// Newer versions of listed files.
    newer: HashMap<RepoPath, NewerLine<'a>>,
    /// Who has claimed what, if that is shown.
    claims: ClaimTable,
    /// How many entries have expired.
    expired: Cell<u64>,
    /// How many entries were purged.
    purged: Cell<u64>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let place = place_or_path(context, &repo, args.place.as_deref(), false)?;
    let versions = newer_versions(context, &repo, args, &place)?;
    let mut lines = HashMap::new();
    for line in newer::lines(&repo, &versions)? {
        lines.entry(line.version.path.clone()).or_insert(line);
    }
    let claims = if args.long || context.ui.is_json() {
        let mut table = repo.claims()?;
        let others = table.claims_mut().filter(|info| !info.is_own);
        claims::follow(context, &repo, others)?;
        table
    } else {
        ClaimTable::default()
    };
    let listing = Listing {
        newer: lines,
        claims,
        context,
        partial: (repo.is_partial() && (args.long || context.ui.is_json())).then_some(&repo),
        long: args.long,
        slice: repo.slice().unwrap_or_default(),
        expired: Cell::new(0),
        purged: Cell::new(0),
    };
    list(&listing, &repo, args, &place)?;
    let expired = listing.expired.get();
    if expired > 0 && !args.long && !context.ui.is_json() {
        let expired = count(expired, "file has expired", "files have expired");
        context.ui.note(format_args!(
            "note: the content of {expired} (details: dmv ls -l)"
        ));
    }
    let purged = listing.purged.get();
    if purged > 0 && !args.long && !context.ui.is_json() {
        let purged = count(purged, "file was purged", "files was purged");
        context.ui.note(format_args!(
            "note: the content of {purged} (details: dmv ls -l)"
        ));
    }
    Ok(EXIT_OK)
}

/// The newer versions of what is listed, if they are shown: for the user's own commit alone, since everything
/// is newer than an old one.
fn newer_versions(
    context: &Context,
    repo: &Repo,
    args: &Args,
    place: &PlaceIn,
) -> Result<Vec<NewerVersion>, Failure> {
    let own = repo.own_commit()?;
    let Some(own) = own.filter(|_| args.long || context.ui.is_json()) else {
        return Ok(Vec::new());
    };
    // Each listing of files begins with a commit, of which the place has the content alone.
    if repo.read_commit(&own)? != place.commit {
        return Ok(Vec::new());
    }
    let path = place.path.as_bytes();
    let select: &dyn Select = if args.recursive || place.located.tree().is_none() {
        &Paths::new([path])
    } else {
        &ChildrenOf(path)
    };
    Ok(newer::of_selected(context, repo, own, select).versions)
}

fn list(listing: &Listing<'_>, repo: &Repo, args: &Args, place: &PlaceIn) -> Result<(), Failure> {
    let context = listing.context;
    let Some(tree) = place.located.tree() else {
        if let Location::Entry(entry) = &place.located {
            listing.show(&place.path, entry)?;
        }
        return Ok(());
    };
    if args.limit.is_given() && !args.recursive {
        return Err(Failure::usage("--subset needs -r").hint("dmv ls -r --subset PATTERN"));
    }
    // A listing of everything fetches nothing that is missing.
    let is_all = place.path.is_root() && args.recursive && !args.limit.is_given();
    let held = if is_all {
        held_paths(context, repo, &place.commit, LackOf::Names)?
    } else {
        Union::default()
    };
    let subset = args
        .limit
        .read_for(context, repo, place.commit.tree, held)?;
    supplied(context, repo, "reading", || {
        repo.check_names_here(place.wanted(&subset), args.recursive)
    })?;
    let mut failed = None;
    let mut visit = |listed: ListingLine| {
        Ok(match listing.show(&listed.path, &listed.entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        })
    };
    if subset.is_everything() {
        repo.list(&place.path, tree, args.recursive, &mut visit)?
    } else {
        repo.list_subset(&place.path, tree, &subset, &mut visit)?
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

impl Listing<'_> {
    fn lacks(&self, entry: &TreeEntry) -> bool {
        self.partial.is_some_and(|repo| lacks(repo, entry))
    }

    fn show(&self, path: &RepoPath, entry: &TreeEntry) -> Result<(), Failure> {
        let ui = &self.context.ui;
        let expiry = self.slice.expired.get(&entry.id).map(Arc::as_ref);
        let purge = self.slice.purge_of(&entry.id);
        if ui.is_json() {
            return ui.json(&object! {
                ..json::path(path),
                kind: entry.kind.word(),
                entry.{size, id},
                private?: entry.is_private().then_some(true),
                mtime?: entry.modified(),
                xattrs?: xattrs(entry),
                absent?: self.lacks(entry).then_some(true),
                expired?: expiry,
                purged?: purge,
                newer?: self.newer.get(path).map(ToJson::to_json),
                claimed?: self.claims.of_another(path).map(claims::value),
            });
        }
        let name = match entry.kind {
            Kind::Directory => {
                let blue = color(AnsiColor::Blue);
                ui.paint(blue, format_args!("{}/", escape(path.as_bytes())))
            }
            _ => escape(path.as_bytes()).to_string(),
        };
        let mut out = ui.out();
        if !self.long {
            self.expired.update(|n| n + u64::from(expiry.is_some()));
            self.purged.update(|n| n + u64::from(purge.is_some()));
            writeln!(out, "{name}")?;
            return Ok(());
        }
        let (kind, id) = (kind_word(entry), entry.id.short(SHORT_ID));
        let why = expiry.map(expiry_words).or(purge.map(purge_words));
        let why = why.or_else(|| self.lacks(entry).then(|| "absent".to_owned()));
        let newer = self.newer.get(path).map(NewerLine::mark);
        let claimed = self.claims.of_another(path).map(claims::mark);
        let why: Vec<String> = why.into_iter().chain(newer).chain(claimed).collect();
        let why = match &why[..] {
            [] => String::new(),
            words => format!("  ({})", words.join("; ")),
        };
        writeln!(
            out,
            "{kind:<10} {id} {:>10}  {name}{why}",
            bytes(entry.size)
        )?;
        Ok(())
    }
}

/// The extended attributes that a commit keeps of a file; `None` for none.
fn xattrs(entry: &TreeEntry) -> Option<Json> {
    let all = entry.xattrs();
    let one = |(name, value): (&str, &[u8])| {
        object! {
            name: [XATTR_PREFIX, name].concat(),
            value: text_of(value),
            value_b64?: json::base64_unless_text(value),
        }
    };
    let all: Vec<Json> = all.iter().map(one).collect();
    (!all.is_empty()).then_some(Json::List(all))
}

/// The word for an entry in a table.
fn kind_word(entry: &TreeEntry) -> &'static str {
    match (entry.kind, entry.is_private()) {
        (Kind::File, true) => "private",
        (Kind::Executable, true) => "private executable",
        (kind, _) => kind.word(),
    }
}
