//! Bare repositories that follow a remote, and the word where one does not and is behind.

use crate::config::MIRROR;
use crate::context::Context;
use crate::failure::Failure;
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::history::is_ancestor;
use dmv_core::repo::{HEAD, Mirror, RefChange, Repo};
use dmv_net::ops::Remote;

/// How the branches of this repository follow a remote, by its settings.
pub fn wanted(context: &Context, repo: &Repo, remote: &Remote) -> Result<Option<Mirror>, Failure> {
    if remote.once || repo.worktree_root().is_some() {
        return Ok(None);
    }
    let set = context.config()?.of_remote(&remote.name, MIRROR)?;
    Ok((set.as_deref() == Some("true")).then_some(Mirror::Move))
}

/// Fails unless this is a bare repository: the branches of others are a user's work.
pub fn require_bare(repo: &Repo) -> Result<(), Failure> {
    let Some(root) = repo.worktree_root() else {
        return Ok(());
    };
    let message = format!(
        "{} has a worktree: only a bare repository can be a mirror",
        root.display()
    );
    Err(Failure::usage(message)
        .hint("dmv clone --mirror SRC DIR, for a mirror; dmv sync, to exchange commits"))
}

/// Says which branches no longer have commits that they had, and how these come back.
pub fn tell_overwritten(context: &Context, repo: &Repo, moved: &[RefChange]) {
    let is_lost = |change: &&RefChange| {
        let is_own = ["branch/", "tag/"]
            .iter()
            .any(|own| change.key.starts_with(own));
        let forward = |old, new| is_ancestor(repo.objects(), &old, &new).unwrap_or(false);
        let is_forward = match (change.old, change.new) {
            (Some(old), Some(new)) => forward(old, new),
            (Some(_), None) => false,
            (None, _) => true,
        };
        is_own && change.refused.is_none() && !is_forward
    };
    let names = moved
        .iter()
        .filter(is_lost)
        .filter_map(|change| change.key.split_once('/'));
    let names: Vec<&str> = names.map(|(_, name)| name).collect();
    if !names.is_empty() {
        context.ui.note(format_args!(
            "overwritten or deleted here: {}; to bring back what they were: dmv undo",
            names.join(", ")
        ));
    }
}

/// Says it if a revision begins with a branch of a bare repository, and a remote that it was fetched from
/// has newer commits of it.
pub fn tell_behind(context: &Context, repo: &Repo, revision: &str) {
    if repo.worktree_root().is_some() || context.told_behind.get() {
        return;
    }
    let end = revision.find(['~', '^', ':']).unwrap_or(revision.len());
    let name = match &revision[..end] {
        "" | "@" | HEAD => repo
            .head()
            .ok()
            .and_then(|head| head.branch().map(str::to_owned)),
        name => Some(name.to_owned()),
    };
    let Some(name) = name else { return };
    let Ok(Some(ours)) = repo.ref_at(&format!("branch/{name}")) else {
        return;
    };
    let remotes = context
        .config()
        .map(|config| config.remotes())
        .unwrap_or_default();
    let newer = remotes.into_iter().find(|(remote, _)| {
        let theirs = repo.ref_at(&format!("remote/{remote}/{name}"));
        let theirs = theirs.ok().flatten().filter(|theirs| *theirs != ours);
        theirs.is_some_and(|theirs| is_ancestor(repo.objects(), &ours, &theirs).unwrap_or(false))
    });
    if let Some((remote, _)) = newer {
        context.told_behind.set(true);
        let newer = Argument::value(format!("{remote}/{name}"));
        context.ui.note(hint!(
            "note: {} has newer commits than {} here; to let this repository follow: dmv sync --mirror {}",
            newer,
            Argument::value(&name),
            Argument::value(&remote)
        ));
    }
}
