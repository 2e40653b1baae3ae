//! Errors of content that is not stored here: `look::lack`, `base::whole`.

use super::more;
use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::object::name::{RepoPath, escape};
use crate::object::root::Lack;
use crate::repo::base::slice::Purge;

/// Something that is needed is not stored in this repository.
#[derive(Debug, thiserror::Error)]
pub enum AbsentError {
    /// An object is needed and is absent from this repository.
    #[error("{} {id} is needed, but absent from this repository", ty.word())]
    Object {
        /// The object's id.
        id: ObjectId,
        /// The object's type.
        ty: ObjectType,
    },
    /// A commit cannot get a name because objects that it needs are absent. A fetch was cut.
    #[error(
        "commit {} is not complete here: at least {missing} {} that it needs {} missing",
        id.short(12), if *missing == 1 { "object" } else { "objects" },
        if *missing == 1 { "is" } else { "are" }
    )]
    Incomplete {
        /// The commit.
        id: ObjectId,
        /// The number of absent objects that are known to be needed.
        missing: u64,
    },
    /// The command needs content that is absent from this repository. It failed before it changed
    /// anything.
    #[error("{}", lacking(.0))]
    Lacking(Vec<Lack>),
    /// The command needs content that was purged.
    #[error("{}", purged(path.as_ref(), .purge, place.as_deref()))]
    Purged {
        /// A path of it in a commit, if one is known.
        path: Option<RepoPath>,
        /// Who has purged it, when and why.
        purge: Box<Purge>,
        /// The remote that has purged it; `None`: this repository.
        place: Option<String>,
    },
}

/// Says what was purged, by whom and why.
fn purged(path: Option<&RepoPath>, purge: &Purge, place: Option<&str>) -> String {
    let what = match path {
        None => "this content".to_owned(),
        Some(path) => format!("the content of '{path}'"),
    };
    let (by, reason) = (escape(purge.by.as_bytes()), escape(purge.reason.as_bytes()));
    let at = place.map_or(String::new(), |place| {
        format!(" at {}", escape(place.as_bytes()))
    });
    format!("{what} was purged{at} by {by}: {reason}")
}

fn lacking(lacks: &[Lack]) -> String {
    let Some(first) = lacks.first() else {
        return "some content is absent from this repository".to_owned();
    };
    let path = if first.path.is_root() {
        ".".to_owned()
    } else {
        first.path.to_string()
    };
    let more = more(lacks.len());
    format!("the content of '{path}'{more} is absent from this repository")
}
