//! Whose packs a repository uses: those that it has written, and those that it shares.

use super::random_id::RepositoryId;

/// The greatest number of other repositories whose packs one repository shares.
pub(crate) const MAX_SHARED_OWNERS: usize = 64;

/// The repositories whose packs one repository uses, as the headers of the packs name them.
///
/// A repository never writes to a pack of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners {
    own: RepositoryId,
    shared: Vec<RepositoryId>,
}

impl Owners {
    /// Returns a repository that uses its own packs only.
    pub fn alone(own: RepositoryId) -> Owners {
        let shared = Vec::new();
        Owners { own, shared }
    }

    /// Returns a repository that also uses packs of the repositories `shared`, in any order; `None`
    /// if there are more than `MAX_SHARED_OWNERS`.
    pub fn sharing(
        own: RepositoryId,
        shared: impl IntoIterator<Item = RepositoryId>,
    ) -> Option<Owners> {
        let mut shared: Vec<RepositoryId> = shared.into_iter().filter(|id| *id != own).collect();
        shared.sort_unstable();
        shared.dedup();
        (shared.len() <= MAX_SHARED_OWNERS).then_some(Owners { own, shared })
    }

    /// Returns the repository itself.
    pub fn own(&self) -> RepositoryId {
        self.own
    }

    /// Returns the other repositories, in order.
    pub fn shared(&self) -> &[RepositoryId] {
        &self.shared
    }

    /// Returns all of them.
    pub fn all(&self) -> impl Iterator<Item = RepositoryId> + '_ {
        std::iter::once(self.own).chain(self.shared.iter().copied())
    }

    /// Returns whether this repository may use a pack whose header names `id`.
    pub fn has(&self, id: RepositoryId) -> bool {
        id == self.own || self.shared.binary_search(&id).is_ok()
    }
}
