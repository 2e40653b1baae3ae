//! Checks of what objects claim about the objects below them, and the errors for claims that are
//! wrong.

use super::Said;
use crate::hash::ObjectId;
use crate::object::list::ListNode;
use crate::object::tree::Node;
use crate::object::{ObjectError, ObjectType};

pub(super) fn check_tree(id: &ObjectId, node: &Node, said: Said) -> Result<(), ObjectError> {
    let totals = node.totals().unwrap_or_default();
    let fits = match said {
        Said::Root(bytes, files) => {
            (totals.bytes, totals.files) == (bytes, files)
                && (node.level() == 0 || node.count() >= 2)
        }
        Said::Node(level, said) => node.level() == level && totals == said,
    };
    if fits {
        Ok(())
    } else {
        Err(damaged(
            ObjectType::Tree,
            id,
            "it is not what the object above says",
        ))
    }
}

pub(super) fn check_list(id: &ObjectId, node: &ListNode, said: Said) -> Result<(), ObjectError> {
    let fits = match said {
        Said::Root(bytes, _) => node.size() == bytes && node.entries.len() >= 2,
        Said::Node(level, said) => node.level == level && node.size() == said.bytes,
    };
    if fits {
        Ok(())
    } else {
        Err(damaged(
            ObjectType::List,
            id,
            "it is not what the object above says",
        ))
    }
}

pub(super) fn wrong_generation(id: &ObjectId) -> ObjectError {
    damaged(
        ObjectType::Commit,
        id,
        "generation is not one more than the greatest parent's",
    )
}

pub(super) fn damaged(ty: ObjectType, id: &ObjectId, why: &str) -> ObjectError {
    ObjectError::Damaged {
        id: *id,
        ty,
        why: why.to_owned(),
    }
}
