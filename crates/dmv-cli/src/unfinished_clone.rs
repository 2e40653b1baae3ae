//! Clones that are not finished: which command goes on with one.

#[cfg(feature = "store")]
use crate::config::Config;
use crate::failure::{EXIT_REFUSED, Failure};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::platform::whole_path;
#[cfg(feature = "store")]
use dmv_core::repo::CONFIG_FILE;
use dmv_core::repo::{DMV_DIR, HalfClone, Repo};
use dmv_core::subset::Subset;
use std::path::Path;

/// The command that goes on with a half-made clone, from any directory.
pub fn go_on(repo: &Repo, half: &HalfClone) -> Hint {
    let dir = repo.worktree_root().unwrap_or(repo.dmv_dir());
    let dir = whole_path(dir).unwrap_or_else(|_| dir.to_owned());
    command(half, &dir, store_options(repo, half))
}

/// The command that goes on with a clone in a directory or above it that was cut off before it had made a
/// repository.
pub fn begun_in(dir: &Path) -> Option<Hint> {
    let dir = whole_path(dir).ok()?;
    dir.ancestors().find_map(|dir| {
        let half = HalfClone::begun(&dir.join(DMV_DIR))?;
        let is_bucket = ["s3://", "gs://", "az://"];
        let is_bucket = is_bucket
            .iter()
            .any(|scheme| half.source.starts_with(scheme));
        let more = if is_bucket {
            hint!(", with its --endpoint, if it has one")
        } else {
            hint!("")
        };
        Some(hint!("{}{}", command(&half, dir, hint!("")), more))
    })
}

/// How the store of the source is reached, as options: the settings of the new remote say it.
#[cfg(feature = "store")]
fn store_options(repo: &Repo, half: &HalfClone) -> Hint {
    let config = Config::load(Some(&repo.dmv_dir().join(CONFIG_FILE)));
    let found = config.ok().and_then(|config| {
        let mut remotes = config.remotes().into_iter();
        let (name, _) = remotes.find(|(_, url)| *url == half.source)?;
        let of = |setting| config.of_remote(&name, setting).ok().flatten();
        let endpoint = of("endpoint").map(|url| hint!(" --endpoint {}", Argument::value(url)));
        let path_style = of("path-style").filter(|value| value == "true");
        let path_style = path_style.map(|_| hint!(" --path-style"));
        Some(Hint::join(endpoint.into_iter().chain(path_style), ""))
    });
    found.unwrap_or(hint!(""))
}

#[cfg(not(feature = "store"))]
fn store_options(_: &Repo, _: &HalfClone) -> Hint {
    hint!("")
}

/// The clone, with these options of its store.
fn command(half: &HalfClone, dir: &Path, store: Hint) -> Hint {
    let source = match &half.source[..] {
        "" => hint!("SRC"),
        source => hint!("{}", Argument::on_disk(source)),
    };
    let mut out = vec![hint!("dmv clone {} {}", source, Argument::on_disk(dir))];
    if half.bare {
        out.push(hint!(" --bare"));
    }
    if let Some(branch) = &half.branch {
        out.push(hint!(" --branch {}", Argument::value(branch)));
    }
    if let Some(depth) = half.depth {
        out.push(hint!(" --depth {}", u64::from(depth)));
    }
    let since = half
        .since
        .and_then(|s| jiff::Timestamp::from_second(s).ok());
    if let Some(since) = since {
        out.push(hint!(" --since {}", Argument::value(since.to_string())));
    }
    out.push(store);
    out.push(part_options(&half.subset, half.metadata_only));
    Hint::join(out, "")
}

/// The options of a clone that asks for a part of the content, as they are typed. What is behind the
/// patterns would be one more of them.
pub fn part_options(subset: &Subset, metadata_only: bool) -> Hint {
    let mut out = Vec::new();
    if metadata_only {
        out.push(hint!(" --meta-only"));
    }
    if !subset.is_everything() {
        out.push(hint!(" --subset"));
        let patterns = subset.patterns().map(Argument::given_pattern);
        out.extend(patterns.map(|pattern| hint!(" {}", pattern)));
    }
    Hint::join(out, "")
}

/// Refuses whatever would change a half-made clone, or bring more than it was asked for.
pub fn refuse(repo: &Repo, half: &HalfClone) -> Failure {
    let dir = repo.worktree_root().unwrap_or(repo.dmv_dir()).display();
    let message = format!(
        "the clone in {dir} is incomplete: it is still running, or it was interrupted; received data is kept"
    );
    Failure::new("half-clone", EXIT_REFUSED, message).hint(go_on(repo, half))
}
