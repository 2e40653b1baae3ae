//! Holders of locks: Windows does not tell who has one.

use crate::platform::Holder;
use std::path::Path;

pub fn holder_of(_: &[&Path]) -> Option<Holder> {
    None
}
