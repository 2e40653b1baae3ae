//! `dmv export --git` and `dmv export --stream`

use crate::config::size;
use crate::context::scratch;
use crate::prelude::*;
use dmv_git::export::lfs::LfsChoice;
use dmv_git::export::{ExportOptions, ExportReport, algorithm_for, export};
use dmv_git::source::GitSource;
use dmv_git::stream::write_stream;
use std::path::Path;
use std::process::Stdio;

/// Runs `--git` or `--stream`, if one of them is given.
pub fn run(context: &Context, args: &super::Args) -> Option<Result<u8, Failure>> {
    if args.git.is_none() && args.stream.is_none() {
        return None;
    }
    let done = options(&args.to_git).and_then(|options| match (&args.git, &args.stream) {
        (Some(dir), _) => to_repository(context, dir, &options),
        (None, Some(file)) => to_stream(context, file, &options),
        (None, None) => Ok(EXIT_OK),
    });
    Some(done)
}

fn options(args: &super::ToGit) -> Result<ExportOptions, Failure> {
    let lfs = match &args.lfs[..] {
        [] => None,
        given => Some(choice(given)?),
    };
    Ok(ExportOptions {
        branches: args.branches.clone(),
        force: args.force,
        lfs,
        lfs_dir: args.lfs_dir.clone(),
    })
}

/// Reads `PATTERN,>SIZE`. Each part may come several times.
fn choice(given: &[String]) -> Result<LfsChoice, Failure> {
    let (mut patterns, mut larger_than) = (Vec::new(), None::<u64>);
    let parts = given.iter().flat_map(|given| given.split(','));
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let Some(text) = part.strip_prefix('>') else {
            patterns.push(part.to_owned());
            continue;
        };
        let bytes = size(text.trim()).ok_or_else(|| {
            Failure::usage(format!("--lfs: '{}' is no size, as >10M is", clean(part)))
        })?;
        larger_than = Some(larger_than.map_or(bytes, |before| before.min(bytes)));
    }
    LfsChoice::new(patterns, larger_than)
        .map_err(|(pattern, why)| Failure::usage(format!("--lfs: '{}': {why}", clean(&pattern))))
}

/// Exports to the Git repository in `dir`, and makes a bare one if there is none.
fn to_repository(context: &Context, dir: &Path, options: &ExportOptions) -> Result<u8, Failure> {
    let repo = context.repo()?;
    super::refuse_inside(&repo, dir)?;
    let target = if dir.exists() {
        GitSource::open(dir)?
    } else {
        GitSource::create(dir, algorithm_for(&repo)?)?
    };
    let done = write(context, &repo, &target, options)?;
    report(context, dir, &done)
}

/// Exports to a temporary repository, and has Git write that as a stream to `file`.
fn to_stream(context: &Context, file: &Path, options: &ExportOptions) -> Result<u8, Failure> {
    if file == Path::new("-") && context.is_request() {
        return Err(Failure::usage(
            "a request writes a stream to a file, not to '-'",
        ));
    }
    if options.lfs.is_some() && options.lfs_dir.is_none() {
        return Err(Failure::usage(
            "--lfs with --stream needs a place for the content: --lfs-dir DIR",
        )
        .hint("dmv export --stream FILE --lfs --lfs-dir DIR/.git/lfs"));
    }
    let repo = context.repo()?;
    super::refuse_inside(&repo, file)?;
    if let Some(dir) = &options.lfs_dir {
        super::refuse_inside(&repo, dir)?;
    }
    let scratch = scratch()?;
    let target = GitSource::create(&scratch.path().join("export.git"), algorithm_for(&repo)?)?;
    let done = write(context, &repo, &target, options)?;
    if file == Path::new("-") {
        // Standard output has the stream, and nothing else.
        write_stream(&target, Stdio::inherit())?;
        tell(context, &done);
        return Ok(exit_of(&done));
    }
    super::write_file(file, |open| {
        let open = open.try_clone();
        let open = open.map_err(|e| Failure::file("write", file, &e))?;
        Ok(write_stream(&target, Stdio::from(open))?)
    })?;
    report(context, file, &done)
}

fn write(
    context: &Context,
    repo: &Repo,
    target: &GitSource,
    options: &ExportOptions,
) -> Result<ExportReport, Failure> {
    let _watch = context.watch("exporting");
    Ok(export(repo, target, options, &context.job)?)
}

/// Says what went to `place`.
fn report(context: &Context, place: &Path, done: &ExportReport) -> Result<u8, Failure> {
    context
        .ui
        .report(|| document(done), |out| print(out, place, done))?;
    if !context.ui.is_json() {
        tell(context, done);
    }
    Ok(exit_of(done))
}

fn exit_of(done: &ExportReport) -> u8 {
    if done.changed.is_empty() && done.refs.iter().all(|moved| moved.refused.is_none()) {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    }
}

fn print(out: &mut impl Write, dir: &Path, done: &ExportReport) -> Result<(), Failure> {
    let commits = count(done.commits, "commit", "commits");
    writeln!(
        out,
        "{commits} exported to {}",
        clean(&dir.to_string_lossy())
    )?;
    for moved in done.refs.iter().filter(|moved| moved.refused.is_none()) {
        let word = if moved.old.is_some() { "moved" } else { "new" };
        writeln!(out, "  {word:<5}  {}", clean(&moved.name))?;
    }
    if done.trees.pointers > 0 {
        let files = count(
            done.trees.pointers,
            "version of a file is a pointer",
            "versions of files are pointers",
        );
        writeln!(out, "{files} of Git LFS")?;
    }
    Ok(())
}

fn tell(context: &Context, done: &ExportReport) {
    for moved in &done.refs {
        if let Some(why) = &moved.refused {
            let name = clean(&moved.name);
            context.ui.warn(format_args!("not moved: {name}: {why}"));
        }
    }
    if let Some(first) = done.changed.first() {
        let commits = count(done.changed.len() as u64, "commit has", "commits have");
        let why = if done.trees.unwanted_pointers > 0 {
            "content went in place of pointers of Git LFS; with --lfs it becomes pointers again"
        } else if done.changed_after_own {
            "a commit of yours before it goes out in another form than it did first, with or without --lfs"
        } else {
            "the import had left something out"
        };
        context.ui.warn(format_args!(
            "{commits} another id than before the import, the first is {first}: {why}"
        ));
    }
    if done.trees.unwanted_pointers > 0 && done.changed.is_empty() {
        let files = count(
            done.trees.unwanted_pointers,
            "version of a file went as content that",
            "versions of files went as content that",
        );
        context.ui.warn(format_args!(
            "{files} came as a pointer of Git LFS; with --lfs such files become pointers again"
        ));
    }
    if done.trees.empty_directories > 0 {
        let directories = count(
            done.trees.empty_directories,
            "empty directory",
            "empty directories",
        );
        context
            .ui
            .warn(format_args!("{directories} left out: Git has none"));
    }
    if done.trees.private_files > 0 {
        let files = count(
            done.trees.private_files,
            "file that only its owner may read is",
            "files that only their owner may read are",
        );
        context.ui.warn(format_args!(
            "{files} like others in Git: it keeps no such permissions"
        ));
    }
    if done.conflicts > 0 {
        let commits = count(done.conflicts, "commit has", "commits have");
        context.ui.warn(format_args!(
            "{commits} open conflicts: these files have markers in Git"
        ));
    }
}

fn document(done: &ExportReport) -> Json {
    let refs = done.refs.iter().map(|moved| {
        object! {
            "ref": moved.name,
            old: moved.old.map(|id| id.to_string()),
            new: moved.new.to_string(),
            moved.{refused},
        }
    });
    let trees = &done.trees;
    object! {
        done.{commits},
        refs: Json::List(refs.collect()),
        changed: texts(done.changed.iter().map(ToString::to_string)),
        trees.{empty_directories, private_files},
        lfs_pointers: trees.pointers,
        done.{conflicts},
    }
}
