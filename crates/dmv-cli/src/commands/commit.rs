//! `dmv commit`

mod archive;
mod draft;
mod large;
mod onto;

use self::onto::OntoArgs;
use crate::config::hook::Event;
use crate::hooks;
use crate::message::given;
use crate::on_demand::bring_rules;
use crate::prelude::*;
use crate::print::checkout::hint_restore;
use crate::print::merge::{merge_value, tell_merge};
use crate::print::{claims, newer, signatures};
use crate::room::DISK_FULL;
use crate::{author_notice, editor, signing};
use dmv_core::job::Job;
use dmv_core::platform::free_bytes;
use dmv_core::refs::Timestamp;
use dmv_core::repo::{
    CommitOptions, CommitReport, CommitSize, FilesError, MarkersLeft, MergeReport, OntoOptions,
    OntoReport, PathChange, StatusOptions, UnsettledConflict, UnsettledReason, Who,
};
use dmv_core::worktree::not_kept::NotKept;
use dmv_core::worktree::select::Paths;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Record changes in a new commit
///
/// Commits all changes, or only those under PATH. There is no staging area. If somebody has pushed to
/// this branch in the meantime, dmv merges your commit with the pushed commits.
///
/// Without -m and -F, dmv opens an editor for the message if you are at a terminal: DMV_EDITOR, your
/// setting core.editor, VISUAL or EDITOR. If you have named none, dmv asks for one line.
///
/// At a terminal, dmv asks before it stores a new file of more than 2 GiB (commit.large) that is also larger
/// than a tenth of all files. -y answers yes. The first commit does not ask.
///
/// With --onto, dmv commits other files and needs no worktree, only the directories of BRANCH that they are in. If
/// BRANCH moves meanwhile, they go onto its new commit, unless that has changed the same paths.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv commit -m \"colour pass on scene 4\"\n  \
                  dmv commit -m \"new titles\" titles/ notes.txt\n  dmv commit --amend\n  \
                  tar -c report | dmv commit -m \"report\" --onto main --from-tar -"
)]
pub struct Args {
    /// The commit message; each further -m adds a paragraph
    #[arg(short, long, value_name = "MSG")]
    message: Vec<String>,
    /// Read the commit message from FILE; - means standard input
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with = "message")]
    file: Option<PathBuf>,
    /// Replace the last commit
    #[arg(long)]
    amend: bool,
    /// With --amend, keep the message without an editor
    #[arg(long, requires = "amend", conflicts_with_all = ["message", "file"])]
    no_edit: bool,
    /// With --amend, make yourself the author, now
    #[arg(long, requires = "amend", conflicts_with = "author")]
    reset_author: bool,
    /// Commit even if nothing has changed
    #[arg(long)]
    allow_empty: bool,
    /// Commit files as they are, even with the markers of a conflict in them
    #[arg(long)]
    allow_markers: bool,
    /// Sign the commit with the key of this device, or that of the setting sign.key
    #[arg(long)]
    sign: bool,
    /// Record another author than yourself
    #[arg(long, value_name = "NAME <EMAIL>", value_parser = author)]
    author: Option<Who>,
    /// Record another date: 2026-11-21, '2026-11-21 15:04' or '2 weeks ago'
    #[arg(long, value_name = "DATE", value_parser = crate::date::moment)]
    date: Option<Timestamp>,
    #[command(flatten)]
    onto: OntoArgs,
    /// Commit only these files and directories
    #[arg(value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let mut message = message(args)?;
    if let Some(branch) = &args.onto.onto {
        return commit_onto(context, args, branch, message);
    }
    let wants_editor = message.is_none() && !args.no_edit && editor::is_possible(context);
    if message.is_none() && !args.amend && !wants_editor {
        return Err(Failure::usage("a commit needs a message").hint("dmv commit -m MESSAGE"));
    }
    let repo = repo(context, args)?;
    let paths = context.paths(&repo, &args.paths)?;
    context.check_paths(&repo, &paths)?;
    bring_rules(context, &repo)?;
    let select = Paths::new(&paths);
    let mut written = None;
    if wants_editor {
        match draft::write(context, &repo, args, &select)? {
            Some(done) => message = Some(written.insert(done).message.clone()),
            None => {
                writeln!(context.ui.out(), "nothing to commit")?;
                return Ok(EXIT_OK);
            }
        }
    }
    let amended = if args.amend {
        repo.base_commit()?
    } else {
        None
    };
    let options = options(context, args, message, &select)?;
    ask_hooks(context, &repo, &options).inspect_err(|_| {
        if let Some(written) = written.take() {
            draft::keep(context, written);
        }
    })?;
    let report = commit(context, &repo, options, &select).map_err(|failure| {
        if let Some(written) = written.take() {
            draft::keep(context, written);
        }
        needs_room(context, &repo, &select, failure)
    })?;
    let merged = match report.moved {
        Some(_) => merge_moved(context, &repo, &report),
        None => Ok(None),
    };
    let value = merged.as_ref().ok().and_then(Option::as_ref);
    let document = || document(&report, value.map(|merged| merge_value(merged).sorted()));
    context
        .ui
        .report(document, |out| print(out, &repo, &report))?;
    tell(context, &report);
    if let Some(id) = report.commit {
        if let Some(amended) = amended
            && repo.loses_signature(&amended, &id)?
        {
            signatures::tell_lost(context, &[amended]);
        }
        author_notice::tell_unset(context, &repo)?;
        let changed = newer::changed_by(&repo, id);
        let newer = newer::of_commit(context, &repo, id, &changed);
        newer::warn(context, &repo, &newer.versions)?;
        claims::warn(context, &claims::of_others(context, &repo, changed.iter())?);
        hooks::after_commit(context, &repo, report.head.branch(), id);
    }
    hint_repack(context, &repo);
    if let Some(merged) = merged? {
        let code = tell_merge(
            context,
            &merged,
            "merged with the new commits on the branch",
        )?;
        if code != EXIT_OK {
            return Ok(code);
        }
    }
    Ok(exit_code(&report))
}

/// Lets the user's hooks refuse the commit.
fn ask_hooks(context: &Context, repo: &Repo, options: &CommitOptions<'_>) -> Result<(), Failure> {
    hooks::ask(context, repo, Event::PreCommit, || {
        let looked_for = StatusOptions {
            select: options.select,
            settings: options.settings.clone(),
        };
        let changes = repo.status(&looked_for, &context.job)?.changes;
        Ok(object! {
            branch: repo.head()?.branch(),
            message: options.message,
            amend: options.amend,
            changes: hooks::changes_value(&changes),
        })
    })
}

fn repo(context: &Context, args: &Args) -> Result<Arc<Repo>, Failure> {
    let repo = context.repo()?;
    if args.sign {
        repo.sign_commits_by(signing::signer(context.config()?)?);
    }
    Ok(repo)
}

/// Commits files that are not those of the worktree.
fn commit_onto(
    context: &Context,
    args: &Args,
    branch: &str,
    message: Option<String>,
) -> Result<u8, Failure> {
    let usage = |message| Failure::usage(message).hint("dmv commit --help");
    let message = message.ok_or_else(|| usage("a commit with --onto needs a message"))?;
    if !args.onto.names_files() && !args.allow_empty {
        return Err(usage("--onto needs files: --from-tar, --put or --remove"));
    }
    let repo = repo(context, args)?;
    let base = args.onto.base.as_ref();
    let settings = context.settings()?;
    let options = OntoOptions {
        branch: branch.to_owned(),
        base: base.map(|rev| repo.resolve(rev)).transpose()?,
        message,
        author: args.author.clone(),
        date: args.date,
        committer: context.who()?,
        allow_empty: args.allow_empty,
        portable_names: settings.portable_names,
        properties: settings.properties,
        request: context.request()?,
    };
    hooks::ask(context, &repo, Event::PreCommit, || {
        Ok(object! { branch: branch, message: options.message, amend: false })
    })?;
    let OntoReport {
        commit,
        files,
        size,
    } = onto::commit(context, &repo, &args.onto, &options)?;
    context.ui.report(
        || object! { commit: commit, branch: branch, files: files, size.{bytes, new_bytes, stored_bytes, tree_files} },
        |out| print_made(out, &repo, commit.as_ref(), branch, files, &size),
    )?;
    if let Some(id) = commit {
        author_notice::tell_unset(context, &repo)?;
        let changed = newer::changed_by(&repo, id);
        claims::warn(context, &claims::of_others(context, &repo, changed.iter())?);
        hooks::after_commit(context, &repo, Some(branch), id);
    }
    Ok(EXIT_OK)
}

fn options<'a>(
    context: &Context,
    args: &Args,
    message: Option<String>,
    select: &'a Paths,
) -> Result<CommitOptions<'a>, Failure> {
    let (request, committer) = (context.request()?, context.who()?);
    let reset = args.reset_author.then(|| committer.clone());
    Ok(CommitOptions {
        message,
        author: args.author.clone().or(reset),
        date: args.date.or(args.reset_author.then_some(request.time)),
        committer,
        select,
        amend: args.amend,
        allow_empty: args.allow_empty,
        allow_markers: args.allow_markers,
        refuse_large: large::limit(context)?,
        settings: context.settings()?,
        request,
    })
}

/// Commits. Asks first if there are large new files, and somebody can answer.
fn commit(
    context: &Context,
    repo: &Repo,
    mut options: CommitOptions<'_>,
    select: &Paths,
) -> Result<CommitReport, Failure> {
    let commit = |options: &CommitOptions<'_>| {
        let _watch = context.watch("committing");
        repo.commit(options.clone(), &context.job)
    };
    let done = match commit(&options) {
        Err(RepoError::Files(FilesError::Large(_))) => {
            large::confirm(context, repo, select)?;
            options.refuse_large = None;
            context.job.begin_part();
            commit(&options)
        }
        done => done,
    };
    done.map_err(nothing_done)
}

fn exit_code(report: &CommitReport) -> u8 {
    if !report.problems.is_empty() || !report.outside.is_empty() {
        EXIT_INCOMPLETE
    } else if !report.edited.is_empty() || !report.marked.is_empty() {
        EXIT_CONFLICTS
    } else {
        EXIT_OK
    }
}

/// Merges a commit with the branch that was moved from elsewhere. `None`: nothing is to be merged.
fn merge_moved(
    context: &Context,
    repo: &Repo,
    report: &CommitReport,
) -> Result<Option<MergeReport>, Failure> {
    let name = report.head.branch().unwrap_or_default();
    let options = context.merge_options(format!("Merge new commits on {name}"))?;
    let merged = supplied(context, repo, "merging", || {
        repo.merge_moved(&options, &context.job)
    });
    match (&merged, report.commit) {
        (Ok(None), None) => {
            let update = hint!("dmv checkout {}", Argument::value(name));
            let name = clean(name);
            context.ui.note(format_args!(
                "another command moved branch {name}; to update your files: {update}"
            ));
        }
        (Err(_), Some(id)) => context.ui.warn(format_args!(
            "your commit {} is stored, but not yet merged with branch {}, which another command \
             moved; to merge: dmv commit",
            id.short(SHORT_ID),
            clean(name)
        )),
        _ => {}
    }
    merged
}

const NOTHING_COMMITTED: &str =
    "interrupted; nothing was committed: run the same command again to continue";

/// Says how much a commit may need and how much is free, if the disk was too full for it.
fn needs_room(context: &Context, repo: &Repo, select: &Paths, mut failure: Failure) -> Failure {
    if failure.code == DISK_FULL
        && let Some(needed) = changed_bytes(context, repo, select)
        && let Ok(free) = free_bytes(repo.dmv_dir())
    {
        let (needed, free) = (bytes(needed), bytes(free));
        let text = format!(
            "the changed files have {needed}, and {free} are free; nothing was committed, and what was \
             written is removed"
        );
        failure.details = [text].into();
    }
    failure
}

/// The bytes of the files that a commit would store.
fn changed_bytes(context: &Context, repo: &Repo, select: &Paths) -> Option<u64> {
    let options = StatusOptions {
        select,
        settings: context.settings().ok()?,
    };
    let changes = repo.status(&options, &Job::default()).ok()?.changes;
    let len = |change: &PathChange| {
        let stat = repo.stat_worktree(&change.path);
        stat.map_or(0, |stat| stat.size)
    };
    Some(changes.iter().map(len).sum())
}

/// That nothing was committed is known only here.
fn nothing_done(e: RepoError) -> Failure {
    let mut failure = Failure::from(e);
    if failure.exit == EXIT_INTERRUPTED {
        failure.message = NOTHING_COMMITTED.into();
    }
    failure
}

fn author(text: &str) -> Result<Who, String> {
    let parts = text
        .strip_suffix('>')
        .and_then(|text| text.split_once('<'))
        .filter(|(name, _)| !name.trim().is_empty())
        .filter(|(name, email)| !name.contains('>') && !email.contains(['<', '>']));
    match parts {
        Some((name, email)) => Ok(Who {
            name: name.trim().to_owned(),
            email: email.trim().to_owned(),
        }),
        None => Err("write the author as 'NAME <EMAIL>'".to_owned()),
    }
}

fn message(args: &Args) -> Result<Option<String>, Failure> {
    let Some(file) = &args.file else {
        return if args.message.is_empty() {
            Ok(None)
        } else {
            given(&args.message.join("\n\n")).map(Some)
        };
    };
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.map_err(|e| Failure::file("read", file, &e))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = format!("the message in {} is not UTF-8", file.display());
        Failure::new("bad-text", EXIT_OTHER, message)
    })?;
    given(&text).map(Some)
}

fn document(report: &CommitReport, merge: Option<Json>) -> Json {
    let markers = report.marked.iter().map(|left| {
        let line = match left.what {
            UnsettledReason::Marker(line) => line,
            UnsettledReason::Versions => None,
        };
        object! { ..path(&left.path), line: line }
    });
    let size = &report.size;
    object! {
        report.{commit},
        branch: report.head.branch(),
        detached: report.head.branch().is_none(),
        report.{files},
        size.{bytes, new_bytes, stored_bytes, tree_files},
        conflicts: paths(&report.conflicts),
        markers: Json::List(markers.collect()),
        resolved: paths(&report.settled),
        report.{problems, warnings},
        outside: paths(&report.outside),
        untracked: paths(&report.untracked),
        tracked_ignored: report.remarks.tracked_ignored.0,
        merge?: merge,
    }
}

fn print(out: &mut impl Write, repo: &Repo, report: &CommitReport) -> Result<(), Failure> {
    let on = match &report.head {
        Head::Branch(name) => name.as_str(),
        Head::Commit(_) => "no branch",
    };
    print_made(
        out,
        repo,
        report.commit.as_ref(),
        on,
        report.files,
        &report.size,
    )
}

fn print_made(
    out: &mut impl Write,
    repo: &Repo,
    made: Option<&ObjectId>,
    on: &str,
    files: u64,
    size: &CommitSize,
) -> Result<(), Failure> {
    let Some(id) = made else {
        return Ok(writeln!(out, "nothing to commit")?);
    };
    let message = repo.read_commit(id)?.message;
    let (id, subject) = (id.short(SHORT_ID), clean(subject(&message)));
    writeln!(out, "[{} {id}] {subject}", clean(on))?;
    writeln!(
        out,
        "{} changed; {} in {}; {} new, stored as {}",
        count(files, "file", "files"),
        bytes(size.bytes),
        count(size.tree_files, "file", "files"),
        bytes(size.new_bytes),
        bytes(size.stored_bytes),
    )?;
    Ok(())
}

/// Says now and then that many small commits have their metadata apart.
fn hint_repack(context: &Context, repo: &Repo) {
    // It is only advice, so a failure is no news.
    if repo.repack_pays_now().unwrap_or(false) {
        context
            .ui
            .note("note: many small commits take more space and time than they need; to join them: dmv repack");
    }
}

/// Says in one line what the files had that a commit does not keep.
fn tell_not_kept(context: &Context, report: &CommitReport) {
    let NotKept {
        special_bits,
        hard_links,
        holes,
        attributes,
        large_attributes,
    } = &report.remarks.not_kept;
    let parts: Vec<String> = [
        (special_bits, "setuid, setgid or sticky bits"),
        (hard_links, "hard links"),
        (holes, "holes"),
        (attributes, "extended attributes"),
        (large_attributes, "large extended attributes"),
    ]
    .into_iter()
    .filter(|((number, _), _)| *number > 0)
    .map(|((number, first), what)| {
        let files = count(*number, "file", "files");
        format!("{what} of {files} ({})", escape(first))
    })
    .collect();
    if !parts.is_empty() {
        let parts = parts.join("; ");
        context
            .ui
            .warn(format_args!("a commit does not keep the {parts}"));
    }
}

/// Says that a file is saved in a way that makes its versions share little.
fn tell_compressed(context: &Context, report: &CommitReport) {
    if let Some(found) = &report.remarks.compressed {
        context.ui.note(format_args!(
            "note: {} is saved compressed ({}), so it shares only {} % with its previous version; see: dmv du --advise",
            escape(found.path.as_bytes()),
            found.compressed,
            found.shared_percent,
        ));
    }
}

/// Says once that files were committed although ignore rules cover them.
fn tell_covered(context: &Context, report: &CommitReport) {
    let (number, first) = &report.remarks.tracked_ignored;
    if *number == 0 {
        return;
    }
    let more = match number - 1 {
        0 => " is".to_owned(),
        n => format!(" and {n} more are"),
    };
    context.ui.note(format_args!(
        "note: {}{more} committed although ignore rules cover it, because it is tracked; \
         to stop tracking it: {}",
        escape(first),
        hint!("dmv rm --cached {}", path_argument(first))
    ));
}

/// Names the files that a commit left out because of a conflict that is in no commit.
fn tell_marked(context: &Context, report: &CommitReport) {
    let ui = &context.ui;
    for UnsettledConflict { path, what } in &report.marked {
        match what {
            UnsettledReason::Marker(line) => {
                let at = line.map_or(String::new(), |line| format!(":{line}"));
                ui.warn(format_args!(
                    "not committed: {path}{at} still has a conflict marker (<<<<<<< or >>>>>>>)"
                ));
            }
            UnsettledReason::Versions => ui.warn(format_args!(
                "not committed: {path} is in conflict, and nobody has chosen one of its versions"
            )),
        }
    }
    if !report.marked.is_empty() {
        ui.note(
            "hint: dmv resolve PATH --ours (or --theirs, --both, --base), or edit the files, then \
             commit; to commit all as they are: dmv commit --allow-markers",
        );
    }
}

fn tell(context: &Context, report: &CommitReport) {
    let ui = &context.ui;
    for path in report.untracked.iter().filter(|_| report.commit.is_some()) {
        ui.note(format_args!("no longer tracked: {}", escape(path)));
    }
    tell_covered(context, report);
    tell_compressed(context, report);
    if let (Some(id), Head::Commit(_)) = (&report.commit, &report.head) {
        let id = id.short(SHORT_ID);
        ui.note(hint!(
            "this commit is on no branch; to put it on one: dmv checkout -b NAME {}",
            Argument::value(id)
        ));
    }
    ui.warn_of("not committed: ", &report.problems);
    ui.warn_of("not committed: ", &report.warnings);
    hint_restore(
        context,
        None,
        report.unwritten.iter().map(RepoPath::as_bytes),
    );
    for path in &report.settled {
        ui.note(format_args!("resolved: {path}"));
    }
    for MarkersLeft { path, line } in &report.edited {
        let at = line.map_or(String::new(), |line| format!(":{line}"));
        ui.warn(format_args!(
            "not resolved: {path}{at} still has a conflict marker (<<<<<<< or >>>>>>>); your edit stays in the worktree"
        ));
    }
    tell_marked(context, report);
    let rest = report.conflicts.len() - report.edited.len();
    if rest > 0 {
        let conflicts = count(rest as u64, "conflict is", "conflicts are");
        ui.warn(format_args!("{conflicts} unresolved; see: dmv conflicts"));
    }
    for path in &report.outside {
        let why = "it is outside of the worktree's subset";
        ui.warn(format_args!("not committed: {}: {why}", escape(path)));
    }
    if let Some(first) = report.outside.first() {
        ui.note(hint!("hint: dmv subset add {}", Argument::pattern(first)));
    }
    tell_not_kept(context, report);
    let mut control: Vec<&[u8]> = report.control.iter().map(Vec::as_slice).collect();
    // The worktree's own repository goes without saying.
    control.retain(|path| *path != b".dmv");
    if let Some(first) = control.first() {
        let more = match control.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        ui.note(format_args!(
            "note: dmv never commits {}{more}",
            escape(first)
        ));
    }
}
