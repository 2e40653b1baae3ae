//! `dmv tag`

use crate::message;
use crate::prelude::*;
use crate::print::refs;
use crate::print::tags::{self, checked};
use crate::signers::known_signers;
use crate::signing;
use dmv_core::repo::{RefKind, SignatureState, TagOptions};

/// List, create or delete tags
///
/// A tag with a message or a signature is annotated: it says who tagged the commit, when and why. With --sign,
/// others can check who has given the name to this commit.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv tag\n  dmv tag v1.0\n  dmv tag v1.0 --sign -m 'as delivered'\n  \
                  dmv tag --verify v1.0\n  dmv tag -d v1.0"
)]
pub struct Args {
    /// Create the tag NAME
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The commit to tag (default: @)
    #[arg(value_name = "REV", requires = "name", add = candidates::revision())]
    revision: Option<String>,
    /// Create an annotated tag with this message
    #[arg(short, long, value_name = "MESSAGE", requires = "name")]
    message: Option<String>,
    /// Create an annotated tag that is signed with the key of this device, or that of the setting sign.key
    #[arg(short, long, requires = "name")]
    sign: bool,
    /// Check who has signed the tags NAME; exit with 1 if not all are signed by keys that you know
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["name", "delete"], add = candidates::tag())]
    verify: Vec<String>,
    /// Delete the tag NAME
    #[arg(short, long, value_name = "NAME", conflicts_with = "name", add = candidates::tag())]
    delete: Option<String>,
    /// List only tags whose names match PATTERN
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "**", hide = true, conflicts_with_all = ["name", "delete"])]
    list: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let kind = RefKind::Tag;
    if !args.verify.is_empty() {
        return verify(context, &repo, &args.verify);
    }
    match (&args.delete, &args.name) {
        (Some(name), _) => refs::delete(context, &repo, kind, name)?,
        (None, Some(name)) if args.sign || args.message.is_some() => {
            annotate(context, &repo, name, args)?
        }
        (None, Some(name)) => refs::create(context, &repo, kind, name, args.revision.as_deref())?,
        (None, None) => {
            let tags = repo.list_refs(kind)?;
            refs::list(
                context,
                &repo,
                tags,
                args.list.as_deref(),
                AnsiColor::Yellow,
            )?
        }
    }
    Ok(EXIT_OK)
}

fn annotate(context: &Context, repo: &Repo, name: &str, args: &Args) -> Result<(), Failure> {
    if args.sign {
        repo.sign_commits_by(signing::signer(context.config()?)?);
    }
    let options = TagOptions {
        name: name.to_owned(),
        target: repo.resolve(args.revision.as_deref().unwrap_or("@"))?,
        message: match &args.message {
            Some(text) => message::given(text)?,
            None => String::new(),
        },
        tagger: context.who()?,
        request: context.request()?,
    };
    repo.annotate_tag(&options)?;
    refs::print_created(context, RefKind::Tag, name, options.target)
}

fn verify(context: &Context, repo: &Repo, names: &[String]) -> Result<u8, Failure> {
    let known_signers = known_signers(context)?;
    let checker = repo.signature_checker(&known_signers)?;
    let mut all_good = true;
    for name in names {
        let checked = checked(repo, &checker, name)?;
        all_good &= checked.check.state == SignatureState::Good;
        tags::print(context, &checked)?;
    }
    Ok(if all_good { EXIT_OK } else { EXIT_DIFFERS })
}
