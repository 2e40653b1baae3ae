//! Asking remotes whether they keep the content of files, before a command gives it up here.

use crate::context::Context;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::format::text::{clean, count};
use crate::on_demand::some_of;
use crate::peers::why_silent;
use dmv_core::escape::{Argument, Hint};
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::ObjectType;
use dmv_core::object::list::Blob;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::Repo;
use dmv_net::ops::Peer;
use dmv_net::transport::{Purpose, Url, open_at};
use std::collections::{BTreeMap, BTreeSet};

/// How many files a refusal names with their copies.
const MAX_FILES_TOLD: usize = 3;

/// Ends all connections. That a remote did not answer has been said already.
pub fn end(peers: Vec<Peer<'_>>) {
    peers.into_iter().for_each(|peer| drop(peer.finish()));
}

/// What peers said.
pub struct PeerAnswers {
    /// Those that keep something; what enough of them keep is not asked of others.
    pub keepers: Vec<String>,
    /// How many of them have to keep a file.
    copies: usize,
    /// What they were asked about.
    asked: BTreeMap<ObjectId, AskedContent>,
    /// What each of the others said.
    said: Vec<String>,
    /// Those that answered and do not keep everything.
    lacking: Vec<String>,
    /// Those that did not answer.
    silent: Vec<String>,
}

/// Content that peers were asked about.
struct AskedContent {
    ty: ObjectType,
    /// The keepers of it, by their places in the list.
    keepers: Vec<usize>,
}

/// Asks the remotes, one after the other, whether they keep the content of `files`, and what was given
/// up `earlier`, until `copies` of them keep everything.
pub fn ask<'f>(
    context: &Context,
    repo: &Repo,
    peers: &mut [Peer<'_>],
    copies: usize,
    files: impl Iterator<Item = (&'f RepoPath, Blob)>,
    earlier: &[(ObjectType, ObjectId)],
) -> Result<PeerAnswers, Failure> {
    let files = files.map(|(_, blob)| (blob.id, blob.ty()));
    let earlier = earlier.iter().map(|(ty, id)| (*id, *ty));
    let content = |ty| AskedContent {
        ty,
        keepers: Vec::new(),
    };
    let mut answers = PeerAnswers {
        keepers: Vec::new(),
        copies,
        asked: files
            .chain(earlier)
            .map(|(id, ty)| (id, content(ty)))
            .collect(),
        said: Vec::new(),
        lacking: Vec::new(),
        silent: Vec::new(),
    };
    let mut repositories: Vec<([u8; 16], String)> = Vec::new();
    for peer in peers {
        let question = answers.open_question();
        if question.is_empty() {
            break;
        }
        let name = peer.remote.name.clone();
        if is_itself(repo, &peer.remote.url) {
            answers
                .said
                .push(format!("{name} is this repository itself"));
            continue;
        }
        let answer = peer.ask(|client| Ok((client.repository(), client.unkept(&question)?)));
        context.job.check()?;
        let Some((repository, unkept)) = answer else {
            let why = peer.no_answer().map(why_silent).unwrap_or_default();
            answers.said.push(format!("{name} did not answer ({why})"));
            answers.silent.push(name);
            continue;
        };
        // Two copies in one place are lost together.
        let mut known = repositories.iter().filter(|_| copies > 1);
        if let Some((_, other)) = known.find(|(known, _)| *known == repository) {
            answers
                .said
                .push(format!("{name} is the same repository as {other}"));
            continue;
        }
        repositories.push((repository, name.clone()));
        answers.add_answer(name, &question, unkept);
    }
    Ok(answers)
}

/// Whether an address leads to the very files of this repository.
pub fn is_itself(repo: &Repo, url: &Url) -> bool {
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

    /// What too few remotes keep so far.
    fn open_question(&self) -> Vec<(ObjectType, ObjectId)> {
        let open = self
            .asked
            .iter()
            .filter(|(_, content)| self.is_open(content));
        open.map(|(id, content)| (content.ty, *id)).collect()
    }

    fn is_open(&self, content: &AskedContent) -> bool {
        content.keepers.len() < self.copies
    }

    fn add_answer(
        &mut self,
        name: String,
        question: &[(ObjectType, ObjectId)],
        unkept: Vec<(ObjectType, ObjectId)>,
    ) {
        let unkept: BTreeSet<ObjectId> = unkept.into_iter().map(|(_, id)| id).collect();
        if !unkept.is_empty() {
            self.said.push(format!("{name} does not keep a copy"));
            self.lacking.push(name.clone());
        }
        if unkept.len() == question.len() {
            return;
        }
        for (_, id) in question {
            if !unkept.contains(id)
                && let Some(content) = self.asked.get_mut(id)
            {
                content.keepers.push(self.keepers.len());
            }
        }
        self.keepers.push(name);
    }

    /// Whether enough remotes keep a content that was asked about.
    fn is_kept(&self, id: &ObjectId) -> bool {
        let found = self.asked.get(id);
        found.is_none_or(|content| !self.is_open(content))
    }

    /// Of what was given up earlier, what enough remotes keep.
    pub fn kept_of(&self, earlier: &[(ObjectType, ObjectId)]) -> Vec<(ObjectType, ObjectId)> {
        let kept = earlier.iter().filter(|(_, id)| self.is_kept(id));
        kept.copied().collect()
    }

    /// Of some files, the contents that enough remotes keep.
    pub fn kept_files(&self, files: &[(RepoPath, Blob)]) -> Vec<Blob> {
        let kept = files.iter().filter(|(_, blob)| self.is_kept(&blob.id));
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

    /// Why nothing may be `given_up`, if too few remotes keep one of the files.
    pub fn refusal<'f>(
        &self,
        given_up: &str,
        files: impl Iterator<Item = (&'f RepoPath, Blob)>,
    ) -> Option<Failure> {
        let mut unkept: Vec<(Vec<u8>, Blob)> = files
            .filter(|(_, blob)| !self.is_kept(&blob.id))
            .map(|(path, blob)| (path.as_bytes().to_vec(), blob))
            .collect();
        // Several versions of a path.
        unkept.dedup_by(|(path, _), (before, _)| path == before);
        if unkept.is_empty() {
            return None;
        }
        let said = if self.said.is_empty() && self.keepers.is_empty() {
            "no remote is configured".to_owned()
        } else {
            self.said.join("; ")
        };
        let paths: Vec<Vec<u8>> = unkept.iter().map(|(path, _)| path.clone()).collect();
        let (code, what) = if self.copies == 1 {
            let what = some_of(&paths);
            ("last-copy", format!("this may be the last copy of {what}"))
        } else {
            ("too-few-copies", self.too_few(&unkept))
        };
        let said = if said.is_empty() {
            said
        } else {
            format!("; {said}")
        };
        let message = format!("nothing was {given_up}: {what}{said}");
        let mut failure = Failure::new(code, EXIT_REFUSED, message).hint(self.way_to_more());
        failure.paths = paths.into();
        Some(failure)
    }

    /// Which copies of the first of these files there are.
    fn too_few(&self, unkept: &[(Vec<u8>, Blob)]) -> String {
        let told = unkept.iter().take(MAX_FILES_TOLD).map(|(path, blob)| {
            let keepers = self.asked.get(&blob.id);
            let keepers = keepers.map_or(&[][..], |content| &content.keepers);
            let names: Vec<&str> = keepers.iter().map(|n| &self.keepers[*n][..]).collect();
            let path = escape(path);
            match &names[..] {
                [] => format!("no remote keeps '{path}'"),
                names => format!("only {} keeps '{path}'", clean(&names.join(", "))),
            }
        });
        let told: Vec<String> = told.collect();
        let more = match unkept.len().saturating_sub(MAX_FILES_TOLD) {
            0 => String::new(),
            more => format!(", and {} more", count(more as u64, "file", "files")),
        };
        let copies = self.copies;
        format!(
            "drop.copies wants {copies} remotes with a copy; {}{more}",
            told.join(", ")
        )
    }

    /// What to run for more copies.
    fn way_to_more(&self) -> Hint {
        let is_more_wanted = self.copies > 1 && self.silent.is_empty();
        if self.said.is_empty() || is_more_wanted && self.lacking.is_empty() {
            "dmv remote add NAME URL".into()
        } else if is_more_wanted {
            let push = |name: &String| hint!("dmv push {}", Argument::value(name));
            Hint::join(self.lacking.iter().map(push), ", or ")
        } else if self.silent.is_empty() {
            "dmv push".into()
        } else {
            hint!(
                "dmv push, when {} is reachable",
                Hint::names(&self.silent, " or ")
            )
        }
    }
}
