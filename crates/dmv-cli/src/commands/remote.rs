//! `dmv remote`

#[cfg(feature = "store")]
mod bucket;

use crate::config::{REMOTES, Scope, edit};
use crate::error::like_ssh;
use crate::partial_repository::{slice_value, words};
use crate::peers::{Call, parse_url, remote, why_closed, word_of};
use crate::prelude::*;
use crate::remotes::set_remote;
use dmv_core::repo::CONFIG_FILE;
use dmv_net::ops::{Remote, dial};
use dmv_net::session::{Client, PeerSlice};
use dmv_net::transport::{Purpose, Url};
use toml_edit::Item;

/// List, add, inspect or remove remotes
///
/// A remote is another repository, with a name and an address. Without a command, lists all remotes.
///
/// Addresses: a path, for example on a USB disk; ssh://HOST/PATH or ssh://USER@HOST:PORT/PATH, where
/// /~/PATH means below the home directory; dmv://KEY or dmv://KEY@HOST:PORT for a device that runs
/// 'dmv serve', where KEY may be its name or 8 digits; s3://BUCKET/PATH, gs:// or az:// for a bucket, where several people write without a
/// server of theirs; https://HOST/PATH for a bucket's files on a web server, for reading.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv remote add disk /media/ada/disk/film.dmv\n  dmv remote add nas \
                  ssh://ada@nas/srv/film.dmv\n  dmv remote add studio s3://studio/film\n  dmv remote\n  dmv remote show\n  dmv remote remove disk"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add the repository at URL as the remote NAME
    ///
    /// For a bucket, dmv first tests whether its store keeps what several writers rely on, with at most 343
    /// small requests. If not, dmv refuses it and exits with 5. The first push to an empty place in a bucket
    /// makes the repository there.
    #[command(
        after_help = "Example:\n  dmv remote add nas ssh://ada@nas/srv/film.dmv\n  dmv remote add \
                      studio s3://studio/film\n  dmv remote add lab s3://films/a --endpoint \
                      https://s3.example.org"
    )]
    Add {
        /// The name for the remote, such as nas
        #[arg(value_name = "NAME")]
        name: String,
        /// The address: a path, ssh://USER@HOST/PATH, dmv://KEY@HOST:PORT or s3://BUCKET/PATH
        #[arg(value_name = "URL")]
        url: OsString,
        #[cfg(feature = "store")]
        #[command(flatten)]
        store: crate::store_options::Reach,
    },
    /// Test again whether the store of a bucket keeps what several writers rely on
    ///
    /// dmv tests a store when you add it, with at most 343 small requests. Before the first push from another
    /// device it makes a brief test, of 5. Test the store again after an upgrade of it.
    #[cfg(feature = "store")]
    #[command(
        after_help = "Example:\n  dmv remote check studio\n\nExit code 5: the store is not safe for \
                      several writers."
    )]
    Check {
        /// The remote to test
        #[arg(value_name = "NAME", add = candidates::remote())]
        name: String,
    },
    /// Connect to remotes, and show what they store and whether you may push
    ///
    /// For each remote, shows whether it is full or partial, the number of branches and tags, and
    /// whether you may push. Transfers no files and changes nothing. If a remote does not answer, dmv
    /// shows the reason and continues with the next one.
    #[command(
        after_help = "Example:\n  dmv remote show\n  dmv remote show nas\n\nExit code 3: some \
                      remotes did not answer."
    )]
    Show {
        /// The remote to show [default: all]
        #[arg(value_name = "NAME", add = candidates::remote())]
        name: Option<String>,
    },
    /// Remove a remote and its REMOTE/BRANCH names; the other repository stays
    #[command(after_help = "Example:\n  dmv remote remove disk")]
    Remove {
        /// The remote to remove
        #[arg(value_name = "NAME", add = candidates::remote())]
        name: String,
    },
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let remotes = context.config()?.remotes();
    match &args.command {
        None => {
            for (name, url) in &remotes {
                show(context, name, url)?;
            }
        }
        Some(Command::Add {
            name,
            url,
            #[cfg(feature = "store")]
            store,
        }) => {
            if remotes.iter().any(|(known, _)| known == name) {
                let message = format!("there is already a remote '{name}'");
                let hint = hint!("dmv remote remove {}", Argument::value(name));
                return Err(Failure::new("remote-exists", EXIT_OTHER, message).hint(hint));
            }
            let here =
                std::env::current_dir().map_err(|e| Failure::file("find", ".".as_ref(), &e))?;
            let url = parse_url(context, url)?.absolute(&here);
            #[cfg(feature = "store")]
            let notes = bucket::before_adding(context, &url, store)?;
            #[cfg(not(feature = "store"))]
            let notes = Vec::new();
            let text = set_remote(&repo, name, &url, notes)?;
            if let Url::Path(path) = &url
                && !path.exists()
                && let Some(ssh) = like_ssh(path)
            {
                context.ui.warn(format_args!(
                    "{text} does not exist; it looks like an ssh address: write {ssh}"
                ));
            }
            if context.ui.is_json() {
                show(context, name, &text)?;
            }
        }
        #[cfg(feature = "store")]
        Some(Command::Check { name }) => return bucket::check(context, &repo, name),
        Some(Command::Show { name }) => return ask(context, &repo, name.as_deref()),
        Some(Command::Remove { name }) => {
            let Some((_, url)) = remotes.iter().find(|(known, _)| known == name) else {
                let message = format!("there is no remote '{name}'");
                return Err(Failure::new("no-remote", EXIT_OTHER, message).hint("dmv remote"));
            };
            repo.forget_remote(name, &context.request()?)?;
            edit(
                &repo.dmv_dir().join(CONFIG_FILE),
                Scope::Repository,
                |document| {
                    if let Some(table) = document.get_mut(REMOTES).and_then(Item::as_table_like_mut)
                    {
                        table.remove(name);
                        if table.is_empty() {
                            document.remove(REMOTES);
                        }
                    }
                },
            )?;
            if context.ui.is_json() {
                show(context, name, url)?;
            }
        }
    }
    Ok(EXIT_OK)
}

/// Asks one remote, which has to answer, or all of them.
fn ask(context: &Context, repo: &Repo, name: Option<&str>) -> Result<u8, Failure> {
    let mut remotes = context.config()?.remotes();
    if let Some(name) = name {
        let named = remote(context, Some(name))?;
        remotes.retain(|(known, _)| *known == named.name);
        if named.once {
            remotes.push((named.name, named.url.to_string()));
        }
    }
    let mut exit = EXIT_OK;
    for (known, url) in &remotes {
        let remote = Remote::new(known, parse_url(context, OsStr::new(url))?);
        let watch = context.watch("asking remotes");
        let call = Call::new(context);
        let purpose = purpose_at(&remote.url);
        let answer = dial(repo, &remote.url, purpose, &call, &context.job);
        drop(watch);
        let (_connection, client) = match answer.map_err(Failure::from) {
            Ok(open) => open,
            Err(e) if name.is_some() || e.exit == EXIT_INTERRUPTED => return Err(e),
            Err(e) => {
                exit = EXIT_INCOMPLETE;
                tell_silent(context, known, url, e.message)?;
                continue;
            }
        };
        tell_answer(context, &remote, url, &client)?;
        client.finish(Vec::new());
    }
    Ok(exit)
}

/// For what a remote is asked. A bucket without a repository is one to push to.
#[cfg(feature = "store")]
fn purpose_at(url: &Url) -> Purpose {
    match url {
        Url::Bucket(address) if !address.scheme.is_web() => Purpose::Write,
        _ => Purpose::Read,
    }
}

#[cfg(not(feature = "store"))]
fn purpose_at(_: &Url) -> Purpose {
    Purpose::Read
}

fn tell_silent(context: &Context, name: &str, url: &str, why: String) -> Result<(), Failure> {
    let why = clean(&why);
    if context.ui.is_json() {
        let answer = Answer {
            message: Some(why),
            ..Answer::default()
        };
        return context.ui.json(&answer.document(name, url));
    }
    show(context, name, url)?;
    Ok(writeln!(context.ui.out(), "  no answer: {why}")?)
}

/// What a remote answers.
#[derive(Default)]
struct Answer {
    reachable: bool,
    /// Why it is not.
    message: Option<String>,
    access: Option<&'static str>,
    /// Why that is not `write`; `None`: it is, or the remote does not say.
    read_only: Option<&'static str>,
    branches: Option<usize>,
    tags: Option<usize>,
    /// Whether it holds everything; `None`: it does not say.
    full: Option<bool>,
    partial: Option<Json>,
}

impl Answer {
    fn document(&self, name: &str, url: &str) -> Json {
        object! {
            name: name,
            url: url,
            self.{reachable, message, access, read_only, branches, tags, full, partial},
        }
    }
}

/// `url`: the address as the settings have it.
fn tell_answer(
    context: &Context,
    remote: &Remote,
    url: &str,
    client: &Client<'_>,
) -> Result<(), Failure> {
    let name = &remote.name[..];
    let refs = &client.offered.refs;
    let branches = refs.iter().filter(|(key, _)| key.starts_with("branch/"));
    let branches = branches.count();
    let tags = refs.len() - branches;
    let held = client.held.as_ref();
    if context.ui.is_json() {
        let answer = Answer {
            reachable: true,
            message: None,
            access: Some(if client.may_push() { "write" } else { "read" }),
            read_only: client.read_only().map(word_of),
            branches: Some(branches),
            tags: Some(tags),
            full: held.map(PeerSlice::is_everything),
            partial: held.and_then(slice_value),
        };
        return context.ui.json(&answer.document(name, url));
    }
    show(context, name, url)?;
    let holds = match (held, held.and_then(words)) {
        (None, _) if refs.is_empty() && purpose_at(&remote.url) == Purpose::Write => {
            "empty: the first push makes a repository there".to_owned()
        }
        (None, _) => "does not say whether it is full or partial".to_owned(),
        (Some(_), None) => "a full repository".to_owned(),
        (Some(_), Some(words)) => format!("a partial repository: {words}"),
    };
    let branches = count(branches as u64, "branch", "branches");
    let tags = count(tags as u64, "tag", "tags");
    let access = if client.may_push() {
        "fetch and push".to_owned()
    } else {
        format!(
            "fetch only: {}",
            why_closed(&remote.url, client.read_only())
        )
    };
    let mut out = context.ui.out();
    let (holds, access) = (clean(&holds), clean(&access));
    writeln!(out, "  {holds}\n  {branches}, {tags}; {access}")?;
    Ok(())
}

fn show(context: &Context, name: &str, url: &str) -> Result<(), Failure> {
    context.ui.show(
        || object! { name: name, url: url },
        |out| Ok(writeln!(out, "{}  {}", clean(name), clean(url))?),
    )
}
