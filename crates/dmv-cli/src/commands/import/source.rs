//! What `dmv import` takes a Git history from.

use crate::prelude::*;
use std::path::Path;

/// What the user named as the source.
#[derive(Clone, Copy)]
pub enum ImportSource<'a> {
    /// A repository on this machine.
    Path(&'a OsStr),
    /// A repository elsewhere.
    Url(&'a OsStr),
    /// A stream.
    Stream(&'a OsStr),
}

impl<'a> ImportSource<'a> {
    /// What `dmv import git` is given.
    pub fn of(source: &'a OsStr) -> ImportSource<'a> {
        let is_url = !Path::new(source).exists() && source.to_string_lossy().contains(':');
        if is_url {
            ImportSource::Url(source)
        } else {
            ImportSource::Path(source)
        }
    }

    /// Returns it as the user wrote it.
    pub fn text(self) -> &'a OsStr {
        match self {
            ImportSource::Path(text) | ImportSource::Url(text) | ImportSource::Stream(text) => text,
        }
    }
}
