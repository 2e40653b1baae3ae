//! What is new of the branches and tags of a Git repository, as an import and its dry run print it.

use super::source::ImportSource;
use crate::prelude::*;
use dmv_core::history::is_ancestor;
use dmv_git::import::{RefNews, RewrittenBranch};
use std::collections::HashSet;

/// Branches and tags that are listed without -v.
const NAMED: usize = 20;

/// The news as parts of a document.
pub fn document(news: &RefNews) -> Json {
    let refs = news.refs.iter().map(|change| {
        let is_rewritten = news.rewritten.iter().any(|branch| branch.key == change.key);
        object! {
            "ref": change.key,
            old: change.old.map(|id| id.to_string()),
            // A dry run does not know the id of a commit that is still to come.
            new: change.new.map(|id| id.to_string()),
            refused: change.refused.is_some(),
            rewritten: is_rewritten,
        }
    });
    object! {
        refs: Json::List(refs.collect()),
        moved_tags: texts(&news.moved_tags),
        gone: texts(&news.gone),
    }
}

/// Lists the branches and tags.
pub fn print(context: &Context, out: &mut impl Write, news: &RefNews) -> Result<(), Failure> {
    let here: HashSet<&str> = news
        .refs
        .iter()
        .filter(|change| change.refused.is_none())
        .filter_map(|change| change.key.strip_prefix("branch/"))
        .collect();
    let mut lines = Vec::new();
    for change in news.refs.iter().filter(|change| change.refused.is_none()) {
        let (kind, name) = change.key.split_once('/').unwrap_or_default();
        // It stands behind the recorded branch.
        if kind == "branch" {
            continue;
        }
        let word = if change.old.is_some() { "moved" } else { "new" };
        let branch = name.split_once('/').map(|(_, branch)| branch);
        let branch = branch.filter(|branch| kind == "remote" && here.contains(branch));
        let rewritten = news
            .rewritten
            .iter()
            .find(|branch| branch.key == change.key);
        let more = match (branch, rewritten) {
            (Some(branch), _) => format!(", also as branch {}", clean(branch)),
            (None, Some(rewritten)) => whereabouts(rewritten),
            (None, None) => String::new(),
        };
        lines.push(format!("  {word:<5}  {}{more}", clean(name)));
    }
    for key in &news.gone {
        let after = if news.pruned {
            "; with --prune it is forgotten"
        } else {
            ""
        };
        let branch = clean(key.strip_prefix("remote/").unwrap_or(key));
        lines.push(format!(
            "  gone   {branch}: the source no longer has it{after}"
        ));
    }
    if lines.len() > NAMED && !context.ui.verbose() {
        let names = count(lines.len() as u64, "branch or tag", "branches and tags");
        let is_new = lines.iter().all(|line| line.starts_with("  new "));
        let what = if is_new { "new" } else { "new, moved or gone" };
        writeln!(out, "  {names} are {what}; with -v all are listed")?;
        return Ok(());
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Says where the old commits of a rewritten branch are.
fn whereabouts(branch: &RewrittenBranch) -> String {
    let old = branch.old.short(SHORT_ID);
    match branch
        .kept_by
        .as_deref()
        .and_then(|key| key.split_once('/'))
    {
        Some((kind, name)) => format!(", rewritten; {kind} {} has its old tip {old}", clean(name)),
        None => format!(", rewritten; only the operation log has its old tip {old}"),
    }
}

/// Says what stays as it is, and how to change that.
pub fn tell(context: &Context, news: &RefNews, from: ImportSource<'_>) {
    for change in news.refs.iter().filter(|change| change.refused.is_some()) {
        let (kind, name) = change.key.split_once('/').unwrap_or_default();
        let name = clean(name);
        context.ui.warn(format_args!(
            "no {kind} '{name}' is created: the name can mean something else"
        ));
    }
    for tag in &news.moved_tags {
        let way = hint!(
            "dmv tag -d {}, then the same import again",
            Argument::value(tag)
        );
        let tag = clean(tag);
        context.ui.warn(format_args!(
            "not moved: tag '{tag}', which names something else in the source; to move it: {way}"
        ));
    }
    for branch in news
        .rewritten
        .iter()
        .filter(|branch| branch.kept_by.is_none())
    {
        let old = branch.old.short(SHORT_ID);
        let way = hint!("dmv branch NAME {}", Argument::value(&old));
        context.ui.note(format_args!("to name the old tip: {way}"));
    }
    if !news.gone.is_empty() && !news.pruned {
        let way = match from {
            ImportSource::Stream(_) => return,
            ImportSource::Path(path) | ImportSource::Url(path) => {
                hint!("dmv import git {} --prune", Argument::on_disk(path))
            }
        };
        context
            .ui
            .note(format_args!("to forget branches that are gone: {way}"));
    }
}

/// Says how the present branch gets what is new of its namesake.
pub fn tell_merge(context: &Context, repo: &Repo, news: &RefNews) -> Result<(), Failure> {
    let Head::Branch(branch) = repo.head()? else {
        return Ok(());
    };
    let is_behind = news.refs.iter().find(|change| {
        let name = change.key.strip_prefix("remote/");
        let name = name.and_then(|name| name.split_once('/'));
        change.old.is_some() && name.is_some_and(|(_, name)| name == branch)
    });
    let Some(change) = is_behind else {
        return Ok(());
    };
    let Some(recorded) = change.key.split_once('/') else {
        return Ok(());
    };
    if let (Some(new), Some(own)) = (change.new, repo.head_commit()?)
        && is_ancestor(repo.objects(), &new, &own)?
    {
        return Ok(());
    }
    let merge = hint!("dmv merge {}", Argument::value(recorded.1));
    let branch = clean(&branch);
    context
        .ui
        .note(format_args!("to have this on {branch}: {merge}"));
    Ok(())
}
