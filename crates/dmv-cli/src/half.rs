//! Clones that are not finished: which command goes on with one.

use crate::commands::subset::patterns;
use crate::context::quoted;
use crate::error::{EXIT_REFUSED, Failure};
use dmv_core::repo::{HalfClone, Repo, RepoSlice};
use dmv_net::session::History;
use dmv_net::transport::Url;
use std::path::Path;

/// What a clone is asked for, to be noted.
pub fn asked_for(
    url: &Url,
    branch: Option<&str>,
    bare: bool,
    what: (&RepoSlice, History),
) -> HalfClone {
    let (slice, history) = what;
    HalfClone {
        source: url.to_string(),
        branch: branch.map(str::to_owned),
        bare,
        metadata_only: slice.metadata_only,
        depth: match history {
            History::Depth(depth) => Some(depth),
            _ => None,
        },
        since: match history {
            History::Since(time) => Some(time),
            _ => None,
        },
        subset: slice.subset.clone(),
    }
}

/// The command that goes on with a half-made clone, from any directory.
pub fn go_on(repo: &Repo, half: &HalfClone) -> String {
    let dir = repo.worktree_root().unwrap_or(repo.dmv_dir());
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    command(half, &dir)
}

fn command(half: &HalfClone, dir: &Path) -> String {
    let mut out = "dmv clone".to_owned();
    let mut add = |text: &str| {
        out.push(' ');
        out.push_str(text);
    };
    match half.source.is_empty() {
        true => add("SRC"),
        false => add(&quoted(&half.source)),
    }
    add(&quoted(&dir.to_string_lossy()));
    if half.bare {
        add("--bare");
    }
    if let Some(branch) = &half.branch {
        add(&format!("--branch {}", quoted(branch)));
    }
    if half.metadata_only {
        add("--meta-only");
    }
    if let Some(depth) = half.depth {
        add(&format!("--depth {depth}"));
    }
    if let Some(since) = half
        .since
        .and_then(|s| jiff::Timestamp::from_second(s).ok())
    {
        add(&format!("--since {since}"));
    }
    if !half.subset.is_everything() {
        add("--subset");
        patterns(&half.subset)
            .iter()
            .for_each(|pattern| add(&quoted(pattern)));
    }
    out
}

/// Refuses whatever would change a half-made clone, or bring more than it was asked for.
pub fn refuse(repo: &Repo, half: &HalfClone) -> Failure {
    let dir = repo.worktree_root().unwrap_or(repo.dmv_dir()).display();
    let message = format!(
        "the clone in {dir} is incomplete: it is still running, or it was interrupted; received data is kept"
    );
    Failure::new("half-clone", EXIT_REFUSED, message).hint(go_on(repo, half))
}
