//! Clones that are not finished: which command goes on with one.

#[cfg(feature = "store")]
use crate::config::Config;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::format::text::{patterns, quoted};
#[cfg(feature = "store")]
use dmv_core::repo::CONFIG_FILE;
use dmv_core::repo::{DMV_DIR, HalfClone, Repo};
use std::path::Path;

/// The command that goes on with a half-made clone, from any directory.
pub fn go_on(repo: &Repo, half: &HalfClone) -> String {
    let dir = repo.worktree_root().unwrap_or(repo.dmv_dir());
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    command(half, &dir) + &store_options(repo, half)
}

/// The command that goes on with a clone in a directory or above it that was cut off before it had made a
/// repository.
pub fn begun_in(dir: &Path) -> Option<String> {
    let dir = std::fs::canonicalize(dir).ok()?;
    dir.ancestors().find_map(|dir| {
        let half = HalfClone::begun(&dir.join(DMV_DIR))?;
        let is_bucket = ["s3://", "gs://", "az://"];
        let is_bucket = is_bucket
            .iter()
            .any(|scheme| half.source.starts_with(scheme));
        let more = if is_bucket {
            ", with its --endpoint, if it has one"
        } else {
            ""
        };
        Some(command(&half, dir) + more)
    })
}

/// How the store of the source is reached, as options: the settings of the new remote say it.
#[cfg(feature = "store")]
fn store_options(repo: &Repo, half: &HalfClone) -> String {
    let config = Config::load(Some(&repo.dmv_dir().join(CONFIG_FILE)));
    let found = config.ok().and_then(|config| {
        let mut remotes = config.remotes().into_iter();
        let (name, _) = remotes.find(|(_, url)| *url == half.source)?;
        let of = |setting| config.of_remote(&name, setting).ok().flatten();
        let endpoint = of("endpoint").map(|url| format!(" --endpoint {}", quoted(&url)));
        let path_style = of("path-style").filter(|value| value == "true");
        let path_style = path_style.map_or("", |_| " --path-style");
        Some(endpoint.unwrap_or_default() + path_style)
    });
    found.unwrap_or_default()
}

#[cfg(not(feature = "store"))]
fn store_options(_: &Repo, _: &HalfClone) -> String {
    String::new()
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
