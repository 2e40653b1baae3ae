//! Many values of an argument in one word: the parser of command lines takes long for each word, and much memory.

use clap::builder::{OsStringValueParser, TypedValueParser};
use dmv_core::platform::{bytes_of, string_of};
use std::any::TypeId;
use std::ffi::{OsStr, OsString};

/// The values of a word. A word that was typed is one value: it has no zero byte.
#[derive(Clone)]
pub struct JoinedTexts(pub Vec<OsString>);

/// The parser of an argument that may have joined values.
pub fn joined_texts() -> impl TypedValueParser<Value = JoinedTexts> {
    OsStringValueParser::new().map(|word| {
        let texts = bytes_of(&word).split(|b| *b == 0);
        JoinedTexts(texts.map(|text| string_of(text.to_vec())).collect())
    })
}

/// Returns whether an argument may have joined values.
pub fn takes_joined(arg: &clap::Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<JoinedTexts>()
}

/// Joins values that have no zero byte.
pub fn join(texts: &[OsString]) -> OsString {
    texts.join(OsStr::new("\0"))
}
