//! Clones that are not finished: which command goes on with one.

use crate::failure::{EXIT_REFUSED, Failure};
use crate::format::text::{patterns, quoted};
use dmv_core::repo::{HalfClone, Repo};
use std::path::Path;

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
    if half.source.is_empty() {
        add("SRC")
    } else {
        add(&quoted(&half.source))
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
