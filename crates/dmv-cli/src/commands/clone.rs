//! `dmv clone`

use crate::commands::checkout::tell_refused;
use crate::commands::remote::set;
use crate::commands::status::go_back;
use crate::commands::subset::tell_idle;
use crate::config::{Config, ORIGIN};
use crate::context::{Context, quoted};
use crate::error::{EXIT_ABSENT, EXIT_INCOMPLETE, EXIT_OK, EXIT_REFUSED, Failure};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use crate::half::asked_for;
use crate::partial::{SliceArgs, SliceValue, options_for, words, worktree_subset};
use crate::peers::{Report, offered, tips, with_client};
use crate::places;
use dmv_core::hash::ObjectId;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    CONFIG_FILE, CheckoutOptions, DMV_DIR, HalfClone, Head, Offered, OwnBranches, Repo, RepoError,
    RepoSlice, discover,
};
use dmv_net::session::{Client, NetError, Summary};
use dmv_net::transport::{Purpose, Url, open_at};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Copy a repository, or a part of it
///
/// The source becomes the remote "origin" of the new repository.
///
/// A partial clone has fewer paths (--subset), less history (--depth, --since) or no file content
/// (--meta-only). You can commit, branch and merge in it: each commit keeps the absent files unchanged.
///
/// If a clone is interrupted, run the same command again to continue it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv clone ssh://ada@nas/srv/film.dmv\n  dmv clone --bare film \
                  /media/ada/disk/film.dmv\n  dmv clone ssh://nas/srv/film.dmv film --subset \
                  media/scene4 'titles/*.png' --depth 1"
)]
pub struct Args {
    /// The repository to copy: a path, ssh://USER@HOST:PORT/PATH or dmv://KEY@HOST:PORT
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The new directory [default: the last part of SRC]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Check out this branch or tag [default: the branch that SRC is on]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Create no worktree: DIR itself becomes the repository, with all branches of SRC
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    slice: SliceArgs,
}

/// Runs the command.
pub fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let here = std::env::current_dir().map_err(|e| Failure::file("find", ".".as_ref(), &e))?;
    let url = Url::parse(&args.source)?.absolute(&here);
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => url.last_part().map(PathBuf::from).ok_or_else(|| {
            let message = format!("cannot derive a directory name from {url}");
            Failure::usage(message).hint("dmv clone SRC DIR")
        })?,
    };
    if let Url::Path(path) = &url {
        // Before anything is made: DIR may be named like a source that is not there.
        open_at(path, Purpose::Read).map_err(NetError::from)?;
    }
    let (slice, history) = args.slice.read()?;
    refuse_inside(&url, &dir)?;
    let half = asked_for(&url, args.branch.as_deref(), args.bare, (&slice, history));
    let made = Made::new(context, &dir, &url, &half, &slice)?;
    let repo = &made.repo;
    let asked = context.asked()?;
    let options = CheckoutOptions {
        subset: worktree_subset(&slice),
        force: false,
        settings: context.settings()?,
        asked: context.asked()?,
    };
    let mut held = None;
    let cloned = with_client(context, repo, &url, |mut client| {
        held.clone_from(&client.held);
        let start = start(&client.offered, args.branch.as_deref())?;
        let first = start.as_ref().and_then(|start| commit_of(&client, start));
        let bring = || -> Result<Summary, NetError> {
            client.fetch_history(&tips(&client.offered), history)?;
            if let Some((name, id)) = start.as_ref().zip(first) {
                refuse_nothing(repo, &slice, name, id)?;
            }
            let ours = own(&client.offered, &start, args.bare);
            let refs = repo.note_remote(ORIGIN, &client.offered, &ours, &asked)?;
            // From here on the view and the slice say what the clone holds.
            repo.end_clone();
            Ok(client.finish(refs))
        };
        let (summary, written) = match start.clone().zip(first) {
            Some(first) if !args.bare => {
                let done = {
                    let go_on = go_back(&first.0);
                    repo.checkout_while(first, &go_on, &options, &context.job, bring)?
                };
                (done.0, Some(done.1))
            }
            _ => (bring()?, None),
        };
        Ok((summary, start, written))
    });
    let (summary, start, checkout) = match cloned {
        Ok(cloned) => cloned,
        Err(mut e) => {
            if e.exit == EXIT_ABSENT {
                let options = held.as_ref().map(options_for);
                e.hint = Some(match options.filter(|options| !options.is_empty()) {
                    Some(options) => {
                        let source = quoted(&args.source.to_string_lossy());
                        let dir = args.dir.as_ref().map(|dir| dir.to_string_lossy());
                        let dir = dir.map(|dir| format!(" {}", quoted(&dir)));
                        format!("dmv clone {source}{}{options}", dir.unwrap_or_default())
                    }
                    None => "the source is a partial repository; to clone a part of it, see: dmv clone --help".to_owned(),
                });
            }
            if e.code == NO_SUCH_PATH {
                e.hint = Some(
                    "run it again with paths that exist in the source; see: dmv clone --help"
                        .to_owned(),
                );
            }
            return Err(made.give_up(e));
        }
    };
    let mut report = Report::default();
    report.add(summary, Vec::new());
    if start.is_none() {
        context.ui.warn("the source has no commits yet");
    }
    let (files, written) = checkout.as_ref().map_or((0, 0), |c| (c.files, c.bytes));
    if let Some(checkout) = &checkout {
        tell_idle(context, &checkout.idle_patterns);
    }
    let mut exit = EXIT_OK;
    if let Some(done) = checkout.as_ref().filter(|done| !done.refused.is_empty()) {
        exit = EXIT_INCOMPLETE;
        tell_refused(context, repo.worktree_root(), &done.refused);
    }
    let branch = start.as_ref().and_then(Head::branch);
    let slice = repo.slice()?;
    report.print(
        context,
        &[
            ("path", json!(dir.to_string_lossy())),
            ("branch", json!(branch)),
            ("files", json!(files)),
            ("bytes", json!(written)),
            ("partial", json!(SliceValue::new(&slice))),
        ],
    )?;
    if !context.globals.json && !context.ui.quiet() {
        let (files, written) = (count(files, "file", "files"), bytes(written));
        let dir = clean(&dir.to_string_lossy());
        writeln!(
            context.ui.out(),
            "cloned into {dir}: {files} written ({written})"
        )?;
        tell_left_out(context, repo, &slice)?;
    }
    Ok(exit)
}

/// Says what a partial clone holds, and what of it all that is.
fn tell_left_out(context: &Context, repo: &Repo, slice: &RepoSlice) -> Result<(), Failure> {
    let Some(words) = words(slice) else {
        return Ok(());
    };
    let mut out = context.ui.out();
    writeln!(out, "a partial repository: {words}")?;
    if let Some(id) = repo.head_commit()? {
        let commit = repo.read_commit(&id)?;
        let all = count(commit.tree_files, "file", "files");
        let size = bytes(commit.tree_bytes);
        writeln!(out, "the complete commit has {all} ({size})")?;
    }
    Ok(())
}

/// The repository that a clone fills, and what to remove if it does not come to that.
struct Made {
    repo: Repo,
    dmv: PathBuf,
    /// Whether this run made the repository, and whether it made the directory.
    new: Option<bool>,
    dir: PathBuf,
}

impl Made {
    /// Makes the repository, or takes up one that an earlier clone of the same source left.
    /// It is to hold `slice`.
    fn new(
        context: &Context,
        dir: &Path,
        url: &Url,
        half: &HalfClone,
        slice: &RepoSlice,
    ) -> Result<Made, Failure> {
        let bare = half.bare;
        let dmv = if bare {
            dir.to_owned()
        } else {
            dir.join(DMV_DIR)
        };
        let exists = |why: &str| {
            let message = format!("{} {why}", dir.display());
            let failure = Failure::new("exists", EXIT_REFUSED, message);
            Err(failure.hint("dmv clone SRC DIR, with another directory"))
        };
        if dmv.join("format").exists() {
            let repo = open_at(dir, Purpose::Read)?;
            let config = Config::load(Some(&dmv.join(CONFIG_FILE)))?;
            let remotes = config.remotes();
            let same = remotes.contains(&(ORIGIN.to_owned(), url.to_string()));
            let is_half = bare || repo.base_commit()?.is_none();
            // One that was cut off before it could note its source has nothing at all.
            let is_new = remotes.is_empty() && repo.store().table_stats().1 == 0;
            if !(same || is_new) || !is_half {
                return exists("is already a repository");
            }
            let now = repo.slice()?;
            let (now, asked) = (
                (&now.subset, now.metadata_only),
                (&slice.subset, slice.metadata_only),
            );
            let is_empty = repo.complete_commits()?.is_empty();
            if now != asked && !is_empty {
                return exists("is already a clone, with other options (--subset, --meta-only)");
            }
            if is_empty {
                half.begin(&dmv)?;
            }
            hold(&repo, slice)?;
            set(&repo, ORIGIN, url)?;
            return Ok(Made {
                repo,
                dmv,
                new: None,
                dir: dir.to_owned(),
            });
        }
        let made_dir = !dir.exists();
        if !made_dir && !holds_only_what_init_makes(dir, bare) {
            return exists("is not empty");
        }
        half.begin(&dmv)?;
        let repo = Repo::init(dir, "main", bare, context.asked()?)?;
        hold(&repo, slice)?;
        set(&repo, ORIGIN, url)?;
        Ok(Made {
            repo,
            dmv,
            new: Some(made_dir),
            dir: dir.to_owned(),
        })
    }

    /// Removes what was made for nothing. What has been received stays, for the next try.
    fn give_up(self, e: Failure) -> Failure {
        // What came for a subset that names nothing is of no use for another one.
        let nothing = self.repo.store().table_stats().1 == 0 || e.code == NO_SUCH_PATH;
        if let (Some(made_dir), true) = (self.new, nothing) {
            drop(self.repo);
            // What cannot be removed is a repository without commits, which harms nobody.
            let _ = match made_dir {
                true => std::fs::remove_dir_all(&self.dir),
                false => std::fs::remove_dir_all(&self.dmv),
            };
        }
        e
    }
}

/// Refuses a subset that names nothing at all in the commit that the clone begins with.
fn refuse_nothing(
    repo: &Repo,
    slice: &RepoSlice,
    start: &Head,
    commit: ObjectId,
) -> Result<(), RepoError> {
    if slice.subset.is_everything() {
        return Ok(());
    }
    let tree = repo.read_commit(&commit)?.tree;
    let mut found = false;
    repo.list_subset(&RepoPath::root(), tree, &slice.subset, &mut |_| {
        found = true;
        Ok(ControlFlow::Break(()))
    })?;
    let patterns: Vec<&[u8]> = slice.subset.patterns().collect();
    match found {
        true => Ok(()),
        false => Err(RepoError::NoSuchPath {
            revision: match start {
                Head::Branch(name) => name.clone(),
                Head::Commit(id) => id.short(SHORT_ID),
            },
            path: patterns.join(&b' '),
        }),
    }
}

/// The code of the failure for a path that is not in a commit.
const NO_SUCH_PATH: &str = "no-such-path";

/// Refuses a clone into the repository that it is a clone of.
fn refuse_inside(url: &Url, dir: &Path) -> Result<(), Failure> {
    let above = dir.parent().filter(|above| *above != Path::new(""));
    if let Ok(place) = discover(above.unwrap_or(Path::new(".")))
        && places::is_inside(dir, &place.dmv)
    {
        let (dir, dmv) = (dir.display(), place.dmv.display());
        let message = format!(
            "{dir} is inside the repository directory {dmv}, where dmv writes only its own files"
        );
        return Err(Failure::new("inside-repository", EXIT_REFUSED, message));
    }
    let Url::Path(source) = url else {
        return Ok(());
    };
    match places::is_inside(dir, source) {
        true => {
            let message = format!(
                "{} is inside {}, the repository that you clone",
                dir.display(),
                source.display()
            );
            let failure = Failure::new("inside-repository", EXIT_REFUSED, message);
            Err(failure.hint("dmv clone SRC DIR, with another directory"))
        }
        false => Ok(()),
    }
}

/// Notes what a new repository is to hold, before anything is brought.
fn hold(repo: &Repo, slice: &RepoSlice) -> Result<(), Failure> {
    let slice = slice.clone();
    repo.change_slice(|now| {
        (now.subset, now.metadata_only) = (slice.subset, slice.metadata_only);
    })?;
    Ok(())
}

/// Whether a directory is empty, but for what making a repository leaves when it is cut off.
fn holds_only_what_init_makes(dir: &Path, bare: bool) -> bool {
    let parts: &[&str] = match bare {
        true => &[
            "packs",
            "index",
            "worktrees",
            "refs.db",
            "refs.db-wal",
            "refs.db-shm",
            "refs.db-journal",
            "refs.lock",
            "refs.fits",
            "slice",
            "slice.lock",
            "clone",
        ],
        false => &[DMV_DIR],
    };
    let is_part = |name: &OsStr| {
        // `format` is written last, under another name first.
        let is_format = bare && name.as_encoded_bytes().starts_with(b"format.tmp");
        is_format || parts.iter().any(|part| name == *part)
    };
    std::fs::read_dir(dir)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|e| is_part(&e.file_name()))))
}

/// What the clone begins with; `None`: there is nothing.
fn start(there: &Offered, name: Option<&str>) -> Result<Option<Head>, NetError> {
    let branch = |name: &str| offered(there, &format!("branch/{name}")).map(|_| name.to_owned());
    if let Some(name) = name {
        let tag = offered(there, &format!("tag/{name}"));
        let head = branch(name).map(Head::Branch).or(tag.map(Head::Commit));
        let missing = || RepoError::NoRef {
            kind: "branch or tag",
            name: name.to_owned(),
        };
        return Ok(Some(head.ok_or_else(missing)?));
    }
    let first = || {
        there
            .refs
            .iter()
            .find_map(|(key, _)| key.strip_prefix("branch/"))
    };
    let name = there.head.as_deref().and_then(branch);
    Ok(name
        .or_else(|| first().map(str::to_owned))
        .map(Head::Branch))
}

/// The commit that the clone begins with.
fn commit_of(client: &Client<'_>, start: &Head) -> Option<ObjectId> {
    match start {
        Head::Branch(name) => offered(&client.offered, &format!("branch/{name}")),
        Head::Commit(id) => Some(*id),
    }
}

/// The branches that the clone has as its own.
fn own(there: &Offered, start: &Option<Head>, bare: bool) -> OwnBranches {
    let branches = there.refs.iter().filter_map(|(key, id)| {
        let name = key.strip_prefix("branch/")?;
        Some((name.to_owned(), *id))
    });
    let first = start.as_ref().and_then(Head::branch);
    OwnBranches {
        make: branches
            .filter(|(name, _)| bare || Some(name.as_str()) == first)
            .collect(),
        head: start.clone(),
        forget: Vec::new(),
    }
}
