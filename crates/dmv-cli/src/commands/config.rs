//! `dmv config`

use crate::config::{
    BUDGET, CLAIMS_ENFORCE, KEYS, Key, Kind, Origin, PUSH_SIGNED, REMOTES, Scope, check, edit,
    find, list_of, no_home, of_remote, size, user_file, variable,
};
#[cfg(feature = "store")]
use crate::on_demand::remote_failure;
use crate::ownership::find_own;
#[cfg(feature = "store")]
use crate::peers::{Call, remote};
use crate::prelude::*;
use dmv_core::claims::PushRule;
#[cfg(feature = "store")]
use dmv_core::claims::RuleChange;
use dmv_core::repo::CONFIG_FILE;
#[cfg(feature = "store")]
use dmv_net::ops;
use std::path::PathBuf;
use toml_edit::{DocumentMut, Item, Table, value};

/// Read and change settings
///
/// If a setting is given in several places, dmv uses the first of these: the command's options, the
/// DMV_* environment variable, the repository's file, your user file.
///
/// A repository may come from somebody else. Its file can change only the settings marked with * below.
/// dmv ignores all others in it, with a warning.
#[derive(clap::Args)]
#[command(
    after_help = settings_help()
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the value that dmv uses; exit with 1 if there is none
    #[command(after_help = "Example:\n  dmv config get user.name")]
    Get {
        /// The setting, such as user.name
        #[arg(add = candidates::setting())]
        key: String,
    },
    /// Change a setting of this repository, or with --user of all your repositories
    #[command(after_help = "Example:\n  dmv config set --user user.email ada@example.org")]
    Set {
        /// The setting, such as user.name
        #[arg(add = candidates::setting())]
        key: String,
        /// The new value
        #[arg(add = candidates::setting_value())]
        value: String,
        #[command(flatten)]
        file: WhichFile,
        /// Change claims.enforce or push.require-signed at the bucket of this remote
        #[cfg(feature = "store")]
        #[arg(long, value_name = "REMOTE", conflicts_with = "user", add = candidates::remote())]
        at: Option<String>,
    },
    /// Remove a setting from the repository's file, or with --user from your user file
    #[command(after_help = "Example:\n  dmv config unset --user color.ui")]
    Unset {
        /// The setting, such as user.name
        #[arg(add = candidates::setting())]
        key: String,
        #[command(flatten)]
        file: WhichFile,
    },
    /// List all settings with their values and their origin
    #[command(after_help = "Example:\n  dmv config list --json")]
    List,
}

#[derive(clap::Args)]
struct WhichFile {
    /// Change your user file, which applies to all your repositories
    #[arg(long)]
    user: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::Get { key } => get(context, &find(key)?),
        Command::List => list(context),
        Command::Set {
            key,
            value,
            file,
            #[cfg(feature = "store")]
            at,
        } => {
            let key = &find(key)?;
            check(key, value, "")?;
            #[cfg(feature = "store")]
            if let Some(remote) = at {
                return set_at(context, key, value == "true", remote);
            }
            if key.name == BUDGET {
                return set_budget(context, file, size(value));
            }
            if let Some(rule) = push_rule(key) {
                return set_rule(context, file, rule, value == "true");
            }
            if key.kind == Kind::Alias {
                check_alias(key, &context.program())?;
            }
            if let Some((remote, _)) = of_remote(&key.name)
                && !context
                    .config()?
                    .remotes()
                    .iter()
                    .any(|(name, _)| name == remote)
            {
                let message = format!("there is no remote '{remote}'");
                return Err(Failure::new("no-remote", EXIT_OTHER, message).hint("dmv remote"));
            }
            if key.scope == Scope::User && !file.user {
                let message = format!(
                    "a repository cannot set {}; set it in your user file",
                    key.name
                );
                let hint = for_user(key, Some(value));
                return Err(Failure::usage(message).hint(hint));
            }
            let for_all = for_user(key, Some(value));
            edit(&file.path(for_all)?, file.whose(), |document| {
                put(document, key, value);
            })?;
            Ok(EXIT_OK)
        }
        Command::Unset { key, file } => {
            let key = &find(key)?;
            if key.name == BUDGET {
                return set_budget(context, file, None);
            }
            if let Some(rule) = push_rule(key) {
                return set_rule(context, file, rule, false);
            }
            let for_all = for_user(key, None);
            edit(&file.path(for_all)?, file.whose(), |document| {
                take(document, key)
            })?;
            Ok(EXIT_OK)
        }
    }
}

fn get(context: &Context, key: &Key) -> Result<u8, Failure> {
    let found = value_of(context, key)?;
    context.ui.show(
        || value_in_json(key, found.as_ref()),
        |out| match &found {
            Some((value, _)) => Ok(writeln!(out, "{}", clean(value))?),
            None => Ok(()),
        },
    )?;
    Ok(if found.is_some() {
        EXIT_OK
    } else {
        EXIT_DIFFERS
    })
}

/// Returns the value of a setting and where it comes from.
fn value_of(context: &Context, key: &Key) -> Result<Option<(String, Origin)>, Failure> {
    let rule = push_rule(key);
    if key.name != BUDGET && rule.is_none() {
        return context.config()?.get(key);
    }
    // Outside of a repository, none of them is set.
    let Ok(repo) = context.repo_as_it_is() else {
        return Ok(None);
    };
    let is_set = |applies: bool| applies.then(|| "true".to_owned());
    let value = match rule {
        None => repo.budget()?.map(|bytes| bytes.to_string()),
        Some(PushRule::Claims) => is_set(repo.claims_here()?.rules.keeps_to_claims),
        Some(PushRule::Signatures) => is_set(repo.requires_signatures()?),
    };
    Ok(value.map(|value| (value, Origin::Repository)))
}

/// The rule for pushes that a setting is about. The repository keeps it, not its file of settings.
fn push_rule(key: &Key) -> Option<PushRule> {
    match &*key.name {
        CLAIMS_ENFORCE => Some(PushRule::Claims),
        PUSH_SIGNED => Some(PushRule::Signatures),
        _ => None,
    }
}

/// Changes a rule for pushes to this repository. It is an operation, which can be undone.
fn set_rule(
    context: &Context,
    file: &WhichFile,
    rule: PushRule,
    applies: bool,
) -> Result<u8, Failure> {
    let (repo, request) = (context.repo()?, context.request()?);
    match rule {
        PushRule::Claims => {
            refuse_for_all(file, CLAIMS_ENFORCE)?;
            repo.enforce_claims(applies, &request)?;
        }
        PushRule::Signatures => {
            refuse_for_all(file, PUSH_SIGNED)?;
            repo.require_signatures(applies, &request)?;
        }
    }
    Ok(EXIT_OK)
}

/// Changes a rule for pushes to a bucket.
#[cfg(feature = "store")]
fn set_at(context: &Context, key: &Key, applies: bool, name: &str) -> Result<u8, Failure> {
    let remote = remote(context, Some(name))?;
    let Some(rule) = push_rule(key).filter(|_| remote.url.is_bucket()) else {
        let message = format!("--at is for {CLAIMS_ENFORCE} and {PUSH_SIGNED} at buckets");
        return Err(Failure::usage(message).hint("dmv config set, in the repository itself"));
    };
    let change = RuleChange { rule, applies };
    let (repo, request) = (context.repo()?, context.request()?);
    let call = Call::new(context);
    let done = ops::change_push_rule(&repo, &remote, change, &request, &call, &context.job);
    drop(call);
    done.map_err(|e| remote_failure(context, &remote, e.into()))?;
    Ok(EXIT_OK)
}

/// Refuses to set for all repositories what each of them keeps itself.
fn refuse_for_all(file: &WhichFile, name: &str) -> Result<(), Failure> {
    if !file.user {
        return Ok(());
    }
    let message = format!("{name} is a setting of one repository, not of all");
    Err(Failure::usage(message).hint("the same command without --user"))
}

/// Sets or removes the limit on the size of this repository. It is an operation, which can be undone.
fn set_budget(context: &Context, file: &WhichFile, bytes: Option<u64>) -> Result<u8, Failure> {
    refuse_for_all(file, BUDGET)?;
    context.repo()?.set_budget(bytes, context.request()?)?;
    Ok(EXIT_OK)
}

fn list(context: &Context) -> Result<u8, Failure> {
    let aliases = context.config()?.aliases();
    for key in KEYS.iter().cloned().chain(aliases) {
        let key = &key;
        let found = value_of(context, key)?;
        context.ui.show(
            || value_in_json(key, found.as_ref()),
            |out| {
                match &found {
                    Some((value, origin)) => {
                        let place = match origin {
                            Origin::Environment => variable(key),
                            origin => origin.word().to_owned(),
                        };
                        writeln!(out, "{:<15} {}  ({place})", key.name, clean(value))?;
                    }
                    None => writeln!(out, "{:<15} (not set)", key.name)?,
                }
                if context.ui.verbose() {
                    writeln!(out, "{:<15} {}", "", key.about)?;
                }
                Ok(())
            },
        )?;
    }
    Ok(EXIT_OK)
}

/// A setting in JSON.
fn value_in_json(key: &Key, found: Option<&(String, Origin)>) -> Json {
    object! {
        key: key.name.as_ref(),
        value: found.map(|(value, _)| value),
        origin: found.map(|(_, origin)| origin.word()),
    }
}

/// An alias with the name of a command would have no effect.
fn check_alias(key: &Key, program: &clap::Command) -> Result<(), Failure> {
    let short = key.name.split_once('.').map_or("", |(_, short)| short);
    if short == "help" || program.find_subcommand(short).is_some() {
        let message = format!("'{short}' is a command of dmv, and an alias cannot replace it");
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// All settings, for the help.
fn settings_help() -> String {
    let mut text = "Settings (a repository can set only those with *):\n".to_owned();
    for key in KEYS.iter() {
        let mark = match key.scope {
            Scope::Repository => '*',
            Scope::User => ' ',
        };
        text += &format!("  {mark} {:<18} {}\n", key.name, key.about);
    }
    text += "    alias.NAME         a command with arguments that 'dmv NAME' stands for; only yours count\n";
    text += "    device.NAME        the key of a device, for addresses such as dmv://NAME; only yours count\n";
    text +=
        "  * remote.NAME.mirror whether the branches of this bare repository follow the remote's\n";
    text += "  * remote.NAME.endpoint, .region, .profile, .path-style   how to reach a bucket\n";
    text + "\nExample:\n  dmv config set --user user.name \"Ada Lovelace\"\n  \
            dmv config set --user alias.lg \"log --graph --oneline\"\n  dmv config list"
}

impl WhichFile {
    fn whose(&self) -> Scope {
        if self.user {
            Scope::User
        } else {
            Scope::Repository
        }
    }

    /// Returns the file to change. `for_all` is the same command for the user file, and the hint if there
    /// is no repository.
    fn path(&self, for_all: Hint) -> Result<PathBuf, Failure> {
        if self.user {
            return user_file().ok_or_else(|| no_home("cannot find your user file"));
        }
        match find_own() {
            Ok(place) => Ok(place.dmv.join(CONFIG_FILE)),
            Err(e) => {
                let failure = Failure::from(e);
                Err(match failure.exit {
                    EXIT_NO_REPOSITORY => failure.hint(for_all),
                    _ => failure,
                })
            }
        }
    }
}

/// The command that sets or unsets a key in the user's file.
fn for_user(key: &Key, value: Option<&str>) -> Hint {
    let key = Argument::value(&*key.name);
    match value {
        Some(value) => hint!("dmv config set --user {} {}", key, Argument::value(value)),
        None => hint!("dmv config unset --user {}", key),
    }
}

fn put(document: &mut DocumentMut, key: &Key, text: &str) {
    if let Some((remote, setting)) = of_remote(&key.name) {
        let remotes = document.entry(REMOTES).or_insert_with(implicit);
        if let Some(table) = remotes.as_table_like_mut()
            && let Some(table) = table
                .entry(remote)
                .or_insert_with(implicit)
                .as_table_like_mut()
        {
            table.insert(setting, item_of(key, text));
        }
        return;
    }
    let Some((section, name)) = key.name.split_once('.') else {
        return;
    };
    let item = item_of(key, text);
    let table = document
        .entry(section)
        .or_insert_with(|| Item::Table(Table::new()));
    // Anything but a table there is no setting of ours; the value wanted takes its place.
    if !table.is_table_like() {
        *table = Item::Table(Table::new());
    }
    table[name] = item;
}

fn item_of(key: &Key, text: &str) -> Item {
    match key.kind {
        Kind::Bool => value(text == "true"),
        Kind::Paths | Kind::Xattrs => value(list_of(key, text)),
        _ => value(text),
    }
}

/// A table that shows only through what is in it.
fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn take(document: &mut DocumentMut, key: &Key) {
    if let Some((remote, setting)) = of_remote(&key.name) {
        let remotes = document.get_mut(REMOTES).and_then(Item::as_table_like_mut);
        let found = remotes.and_then(|table| table.get_mut(remote));
        if let Some(table) = found.and_then(Item::as_table_like_mut) {
            table.remove(setting);
        }
        return;
    }
    let Some((section, name)) = key.name.split_once('.') else {
        return;
    };
    if let Some(table) = document.get_mut(section).and_then(Item::as_table_like_mut) {
        table.remove(name);
        if table.is_empty() {
            document.remove(section);
        }
    }
}
