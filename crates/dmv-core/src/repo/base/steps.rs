//! The steps of a command: what it does to paths of a worktree, so that an undo takes it back and a
//! redo does it again (docs/format/notes.md).

use crate::object::codec::{DecodeError, Decoder};
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::repo::base::record::{
    Item, Record, put_entry, put_path, take_entry, take_path, take_path_or_root,
};

/// What a command does to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It overwrites, removes or makes what is there.
    Overwrote {
        /// The entry before.
        before: Option<TreeEntry>,
        /// The entry that the command leaves there.
        after: Option<TreeEntry>,
    },
    /// It moves what is there to another path.
    Moved(RepoPath),
    /// It leaves the user's file or directory alone, although the base and the target differ there.
    LeftAlone,
    /// The same where the user has removed the path. The directory above it that was emptied by that,
    /// if there is one: the command may remove it.
    LeftGone(Option<RepoPath>),
}

/// The steps of a command.
pub type Steps = Record<Step>;

impl Steps {
    /// Returns the paths that the command overwrites, with the entries before and after.
    pub(crate) fn overwritten(
        &self,
    ) -> impl Iterator<Item = (&RepoPath, Option<&TreeEntry>, Option<&TreeEntry>)> {
        self.iter().filter_map(|(path, step)| match step {
            Step::Overwrote { before, after } => Some((path, before.as_ref(), after.as_ref())),
            _ => None,
        })
    }

    /// Returns the entries whose content has to stay stored.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&RepoPath, &TreeEntry)> {
        let sides = self.overwritten();
        sides.flat_map(|(path, before, after)| {
            let both = before.into_iter().chain(after);
            both.map(move |entry| (path, entry))
        })
    }
}

impl Item for Step {
    fn kind(&self) -> u8 {
        match self {
            Step::Overwrote { .. } => 1,
            Step::Moved(_) => 2,
            Step::LeftAlone => 3,
            Step::LeftGone(_) => 4,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Step::Overwrote { before, after } => {
                put_entry(out, before.as_ref());
                put_entry(out, after.as_ref());
            }
            Step::Moved(to) => put_path(out, to),
            Step::LeftAlone => {}
            Step::LeftGone(emptied) => put_path(out, emptied.as_ref().unwrap_or(&RepoPath::root())),
        }
    }

    fn take(kind: u8, path: &RepoPath, input: &mut Decoder<'_>) -> Result<Step, DecodeError> {
        Ok(match kind {
            1 => Step::Overwrote {
                before: take_entry(path, input)?,
                after: take_entry(path, input)?,
            },
            2 => Step::Moved(take_path(input)?),
            3 => Step::LeftAlone,
            4 => Step::LeftGone(Some(take_path_or_root(input)?).filter(|dir| !dir.is_root())),
            _ => return Err(input.error("unknown kind of step")),
        })
    }
}
