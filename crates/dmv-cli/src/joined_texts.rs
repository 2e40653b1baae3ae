//! Many values of an argument in one word: the parser of command lines takes long for each word, and much memory.

use clap::builder::{OsStringValueParser, TypedValueParser};
use dmv_core::platform::{bytes_of, name_of};
use std::any::TypeId;
use std::ffi::{OsStr, OsString};

/// The values of a word. A word that was typed is one value: it has no zero byte.
#[derive(Clone)]
pub struct JoinedTexts(OsString);

impl JoinedTexts {
    /// Returns the values.
    pub fn iter(&self) -> impl Iterator<Item = &OsStr> {
        bytes_of(&self.0).split(|b| *b == 0).map(name_of)
    }
}

/// The parser of an argument that may have joined values.
pub fn joined_texts() -> impl TypedValueParser<Value = JoinedTexts> {
    OsStringValueParser::new().map(JoinedTexts)
}

/// Returns whether an argument may have joined values.
pub fn takes_joined(arg: &clap::Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<JoinedTexts>()
}

/// Returns whether a word has several joined values: nobody can type it.
pub fn is_joined(word: &OsStr) -> bool {
    bytes_of(word).contains(&0)
}

/// Joins values that have no zero byte.
pub fn join(texts: &[OsString]) -> OsString {
    texts.join(OsStr::new("\0"))
}
