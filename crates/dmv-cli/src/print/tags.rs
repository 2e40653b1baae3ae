//! Who has signed tags, as `tag --verify`, `verify-commit` and `log` show it.

use crate::prelude::*;
use crate::signers::told;
use dmv_core::repo::{SignatureCheck, SignatureChecker, SignatureState};

/// A tag whose signature was checked.
pub struct CheckedTag {
    /// Its name.
    pub name: String,
    /// The tagged commit.
    pub commit: ObjectId,
    /// What was found out about the signature.
    pub check: SignatureCheck,
    /// The name that was signed, if it is another one.
    pub signed_as: Option<String>,
}

impl CheckedTag {
    /// What was found out, in words.
    pub fn words(&self) -> String {
        match &self.signed_as {
            Some(name) => format!("bad signature: it is of a tag '{}'", clean(name)),
            None => told(&self.check),
        }
    }
}

/// Checks a tag. One that names its commit itself has no signature.
pub fn checked(
    repo: &Repo,
    checker: &SignatureChecker<'_>,
    name: &str,
) -> Result<CheckedTag, Failure> {
    let Some(tag) = repo.annotated_tag(name)? else {
        let commit = repo.ref_at(&format!("tag/{name}"))?;
        let none = || {
            let message = format!("there is no tag '{}'", clean(name));
            Failure::new("no-tag", EXIT_OTHER, message).hint("dmv tag")
        };
        return Ok(CheckedTag {
            name: name.to_owned(),
            commit: commit.ok_or_else(none)?,
            check: SignatureCheck::nameless(SignatureState::None),
            signed_as: None,
        });
    };
    let mut check = checker.check(&tag.id, &tag.commit)?;
    // Whoever can push can give a signed tag another name.
    let other = tag.commit.tag_name().filter(|signed| *signed != name);
    let is_moved = other.is_some() && check.state != SignatureState::None;
    if is_moved {
        check = SignatureCheck::nameless(SignatureState::Bad);
    }
    Ok(CheckedTag {
        name: name.to_owned(),
        commit: tag.tagged,
        check,
        signed_as: other.filter(|_| is_moved).map(str::to_owned),
    })
}

/// Prints a checked tag.
pub fn print(context: &Context, tag: &CheckedTag) -> Result<(), Failure> {
    let check = &tag.check;
    context.ui.show(
        || {
            object! {
                tag: tag.name, commit: tag.commit, signature: check.state.word(),
                check.{key, name},
            }
        },
        |out| Ok(writeln!(out, "{}  {}", clean(&tag.name), tag.words())?),
    )
}
