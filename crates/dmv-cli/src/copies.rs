//! Asking remotes whether they keep the content of files, before a command gives it up here.

use crate::context::Context;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::on_demand::some_of;
use crate::peers::why_silent;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::ObjectType;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::Repo;
use dmv_net::ops::Peer;
use dmv_net::transport::{Purpose, Url, open_at};
use std::collections::{BTreeMap, BTreeSet};

/// Ends all connections. That a remote did not answer has been said already.
pub fn end(peers: Vec<Peer<'_>>) {
    peers.into_iter().for_each(|peer| drop(peer.finish()));
}

/// What peers said.
pub struct PeerAnswers {
    /// Those that keep something; what they keep is not asked of others.
    pub keepers: Vec<String>,
    /// What no remote keeps.
    unkept: Vec<(ObjectType, ObjectId)>,
    /// What each of the others said.
    said: Vec<String>,
    /// Those that did not answer.
    silent: Vec<String>,
}

/// Asks the remotes, one after the other, whether they keep the content of `files`, and what was given
/// up `earlier`.
pub fn ask<'f>(
    context: &Context,
    repo: &Repo,
    peers: &mut [Peer<'_>],
    files: impl Iterator<Item = (&'f RepoPath, Blob)>,
    earlier: &[(ObjectType, ObjectId)],
) -> Result<PeerAnswers, Failure> {
    let files = files.map(|(_, blob)| (blob.id, blob.ty()));
    let earlier = earlier.iter().map(|(ty, id)| (*id, *ty));
    let all: BTreeMap<ObjectId, ObjectType> = files.chain(earlier).collect();
    let mut answers = PeerAnswers {
        keepers: Vec::new(),
        unkept: all.into_iter().map(|(id, ty)| (ty, id)).collect(),
        said: Vec::new(),
        silent: Vec::new(),
    };
    for peer in peers {
        if answers.unkept.is_empty() {
            break;
        }
        let name = peer.remote.name.clone();
        if is_itself(repo, &peer.remote.url) {
            answers
                .said
                .push(format!("{name} is this repository itself"));
            continue;
        }
        let answer = peer.ask(|client| client.unkept(&answers.unkept));
        context.job.check()?;
        match answer {
            None => {
                let why = peer.no_answer().map(why_silent).unwrap_or_default();
                answers.said.push(format!("{name} did not answer ({why})"));
                answers.silent.push(name);
            }
            Some(unkept) => {
                if !unkept.is_empty() {
                    answers.said.push(format!("{name} does not keep a copy"));
                }
                if unkept.len() < answers.unkept.len() {
                    answers.keepers.push(name);
                }
                answers.unkept = unkept;
            }
        }
    }
    Ok(answers)
}

/// Whether an address leads to the very files of this repository.
fn is_itself(repo: &Repo, url: &Url) -> bool {
    let Url::Path(path) = url else {
        // Over any other way it finds its own lock taken.
        return false;
    };
    let real = |repo: &Repo| std::fs::canonicalize(repo.dmv_dir()).ok();
    open_at(path, Purpose::Read)
        .is_ok_and(|other| real(&other).is_some() && real(&other) == real(repo))
}

impl PeerAnswers {
    /// Adds what the command itself knows.
    #[cfg(feature = "store")]
    pub fn add(&mut self, said: String) {
        self.said.insert(0, said);
    }

    /// Of what was given up earlier, what a remote keeps.
    pub fn kept_of(&self, earlier: &[(ObjectType, ObjectId)]) -> Vec<(ObjectType, ObjectId)> {
        let unkept: BTreeSet<&ObjectId> = self.unkept.iter().map(|(_, id)| id).collect();
        let kept = earlier.iter().filter(|(_, id)| !unkept.contains(id));
        kept.copied().collect()
    }

    /// Of some files, the contents that a remote keeps.
    pub fn kept_files(&self, files: &[(RepoPath, Blob)]) -> Vec<Blob> {
        let unkept: BTreeSet<&ObjectId> = self.unkept.iter().map(|(_, id)| id).collect();
        let kept = files.iter().filter(|(_, blob)| !unkept.contains(&blob.id));
        kept.map(|(_, blob)| *blob).collect()
    }

    /// Whether those that keep something still answer.
    pub fn still(&self, peers: &mut [Peer<'_>]) -> bool {
        let mut keepers = peers
            .iter_mut()
            .filter(|peer| self.keepers.contains(&peer.remote.name));
        keepers.all(|peer| peer.ask(|client| client.unkept(&[])).is_some())
    }

    /// The failure of a command that gives up files. It names the remotes if one of them no longer
    /// answers.
    pub fn failure(&self, mut failure: Failure) -> Failure {
        if failure.code == "unconfirmed" {
            let asked = self.keepers.join(", ");
            failure.message.push_str(&format!(" (asked: {asked})"));
        }
        failure
    }

    /// Why nothing may be `given_up`, if no remote keeps one of the files.
    pub fn refusal<'f>(
        &self,
        given_up: &str,
        files: impl Iterator<Item = (&'f RepoPath, Blob)>,
    ) -> Option<Failure> {
        let unkept: BTreeSet<&ObjectId> = self.unkept.iter().map(|(_, id)| id).collect();
        let last = files.filter(|(_, blob)| unkept.contains(&blob.id));
        let mut paths: Vec<Vec<u8>> = last.map(|(path, _)| path.as_bytes().to_vec()).collect();
        // Several versions of a path.
        paths.dedup();
        if paths.is_empty() {
            return None;
        }
        let said = if self.said.is_empty() {
            "no remote is configured".to_owned()
        } else {
            self.said.join("; ")
        };
        let what = some_of(&paths);
        let message =
            format!("nothing was {given_up}: this may be the last copy of {what}; {said}");
        let hint = if self.said.is_empty() {
            "dmv remote add NAME URL".into()
        } else if self.silent.is_empty() {
            "dmv push".into()
        } else {
            hint!(
                "dmv push, when {} is reachable",
                Hint::names(&self.silent, " or ")
            )
        };
        let mut failure = Failure::new("last-copy", EXIT_REFUSED, message).hint(hint);
        failure.paths = paths.into();
        Some(failure)
    }
}
