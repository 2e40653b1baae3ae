//! The settings of remotes: adding one.

use crate::config::{REMOTES, Scope, edit};
use crate::error::way_to_rename;
use crate::failure::{EXIT_OTHER, Failure};
use dmv_core::refs::check_new_ref_name;
use dmv_core::repo::{CONFIG_FILE, Repo, RepoError};
use dmv_net::transport::Url;
use toml_edit::{Item, Table, value};

/// Writes a remote into the repository's settings and returns the address as it is kept. `notes`: what
/// stands beside the address.
pub fn set_remote(
    repo: &Repo,
    name: &str,
    url: &Url,
    notes: Vec<(&'static str, toml_edit::Value)>,
) -> Result<String, Failure> {
    check_new_ref_name(name).map_err(RepoError::from)?;
    if let Some((kind, like)) = repo.named_like_remote(name)? {
        let kind = kind.word();
        let message = format!(
            "'{name}' cannot be the name of a remote: the {kind} '{like}' would have the name of a remote branch"
        );
        return Err(Failure::new("bad-name", EXIT_OTHER, message).hint(way_to_rename(kind, &like)));
    }
    if name.contains('/') {
        let message = format!("'{name}' is not a valid name for a remote: it contains a '/'");
        return Err(Failure::new("bad-name", EXIT_OTHER, message));
    }
    let text = match url {
        Url::Path(path) => path.to_str().map(str::to_owned),
        url => Some(url.to_string()),
    };
    let text = text.ok_or_else(|| {
        let message = format!("cannot store {url} in the settings: it is not UTF-8");
        Failure::new("bad-path", EXIT_OTHER, message)
    })?;
    edit(
        &repo.dmv_dir().join(CONFIG_FILE),
        Scope::Repository,
        |document| {
            let table = document.entry(REMOTES).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            if !table.is_table_like() {
                *table = Item::Table(Table::new());
            }
            let known = table.get(name).and_then(|remote| remote.get("url"));
            if known.and_then(Item::as_str) != Some(&text) {
                let mut remote = Table::new();
                remote["url"] = value(&text);
                table[name] = Item::Table(remote);
            }
            for (key, note) in notes {
                table[name][key] = Item::Value(note);
            }
        },
    )?;
    Ok(text)
}
