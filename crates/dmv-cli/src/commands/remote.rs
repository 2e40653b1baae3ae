//! `dmv remote`

use crate::config::{REMOTES, edit};
use crate::context::{Context, quoted};
use crate::error::{EXIT_OK, EXIT_OTHER, Failure};
use crate::format::text::clean;
use dmv_core::refs::check_ref_name;
use dmv_core::repo::{CONFIG_FILE, Repo, RepoError};
use dmv_net::transport::Url;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use toml_edit::{Item, Table, value};

/// List, add or remove remotes: other repositories by name
///
/// An address is a path (another directory, a USB disk); ssh://host/path or
/// ssh://user@host:port/path, where /~/path is below the home directory there; or dmv://KEY or
/// dmv://KEY@HOST:PORT, a device that serves one.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv remote add disk /media/ada/disk/film.dmv\n  dmv remote add nas \
                  ssh://ada@nas/srv/film.dmv\n  dmv remote\n  dmv remote remove disk"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Give a name to an address
    #[command(after_help = "Example:\n  dmv remote add nas ssh://ada@nas/srv/film.dmv")]
    Add {
        /// The name
        #[arg(value_name = "NAME")]
        name: String,
        /// The address
        #[arg(value_name = "URL")]
        url: OsString,
    },
    /// Forget a remote and what its branches named
    #[command(after_help = "Example:\n  dmv remote remove disk")]
    Remove {
        /// The name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    url: &'a str,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remotes = context.config()?.remotes();
    match &args.command {
        None => {
            for (name, url) in &remotes {
                show(context, name, url)?;
            }
        }
        Some(Command::Add { name, url }) => {
            if remotes.iter().any(|(known, _)| known == name) {
                let message = format!("there is already a remote '{name}'");
                let hint = format!("dmv remote remove {}", quoted(name));
                return Err(Failure::new("remote-exists", EXIT_OTHER, message).hint(hint));
            }
            let here =
                std::env::current_dir().map_err(|e| Failure::file("find", ".".as_ref(), &e))?;
            let url = Url::parse(url)?.absolute(&here);
            let text = set(&repo, name, &url)?;
            if context.globals.json {
                show(context, name, &text)?;
            }
        }
        Some(Command::Remove { name }) => {
            let Some((_, url)) = remotes.iter().find(|(known, _)| known == name) else {
                let message = format!("there is no remote '{name}'");
                return Err(Failure::new("no-remote", EXIT_OTHER, message).hint("dmv remote"));
            };
            repo.forget_remote(name, &context.asked()?)?;
            edit(&repo.dmv_dir().join(CONFIG_FILE), |document| {
                if let Some(table) = document.get_mut(REMOTES).and_then(Item::as_table_like_mut) {
                    table.remove(name);
                    if table.is_empty() {
                        document.remove(REMOTES);
                    }
                }
            })?;
            if context.globals.json {
                show(context, name, url)?;
            }
        }
    }
    Ok(EXIT_OK)
}

/// Writes a remote into the repository's settings and returns the address as it is kept.
pub fn set(repo: &Repo, name: &str, url: &Url) -> Result<String, Failure> {
    check_ref_name(name).map_err(RepoError::from)?;
    if name.contains('/') {
        let message = format!("'{name}' is not a valid name for a remote: it holds a '/'");
        return Err(Failure::new("bad-name", EXIT_OTHER, message));
    }
    let text = match url {
        Url::Path(path) => path.to_str().map(str::to_owned),
        url => Some(url.to_string()),
    };
    let text = text.ok_or_else(|| {
        let message = format!("{url} cannot be kept in the settings: it is not UTF-8");
        Failure::new("bad-path", EXIT_OTHER, message)
    })?;
    edit(&repo.dmv_dir().join(CONFIG_FILE), |document| {
        let table = document.entry(REMOTES).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        if !table.is_table_like() {
            *table = Item::Table(Table::new());
        }
        let mut remote = Table::new();
        remote["url"] = value(&text);
        table[name] = Item::Table(remote);
    })?;
    Ok(text)
}

fn show(context: &Context, name: &str, url: &str) -> Result<(), Failure> {
    if context.globals.json {
        return context.ui.json(&Record { name, url });
    }
    writeln!(context.ui.out(), "{}  {}", clean(name), clean(url))?;
    Ok(())
}
