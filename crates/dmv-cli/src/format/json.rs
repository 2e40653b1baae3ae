//! Values as programs read them.
//!
//! A command names the fields of a document with `object!`, in the order in which they are printed. How a value
//! of the library looks stands here, once.

use crate::format::text::{raw_person, rfc3339, text_of};
use data_encoding::BASE64;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::tree::ModifiedTime;
use dmv_core::refs::Timestamp;
use dmv_core::repo::{ConflictAt, EntryMove, Rename};
use dmv_core::worktree::snapshot::Problem;
use serde::{Serialize, Serializer};
use serde_json::Number;
use std::path::Path;

/// A JSON value. The fields of an object keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// Adds a field to an object.
    pub fn add(&mut self, name: &'static str, value: impl ToJson) {
        if let Json::Object(fields) = self {
            fields.push((name, value.to_json()));
        }
    }

    /// Adds the fields of another object to an object.
    pub fn extend(&mut self, other: Json) {
        match (self, other) {
            (Json::Object(fields), Json::Object(more)) if fields.is_empty() => *fields = more,
            (Json::Object(fields), Json::Object(more)) => fields.extend(more),
            _ => {}
        }
    }

    /// Returns whether an object has a field.
    #[cfg(feature = "store")]
    pub fn has(&self, name: &str) -> bool {
        matches!(self, Json::Object(fields) if fields.iter().any(|(known, _)| *known == name))
    }

    /// Returns the value with the fields of its objects in alphabetical order.
    pub fn sorted(self) -> Json {
        match self {
            Json::List(items) => Json::List(items.into_iter().map(Json::sorted).collect()),
            Json::Object(mut fields) => {
                fields.sort_by_key(|(name, _)| *name);
                let fields = fields.into_iter();
                Json::Object(fields.map(|(name, value)| (name, value.sorted())).collect())
            }
            value => value,
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(number) => number.serialize(serializer),
            Json::Text(text) => serializer.serialize_str(text),
            Json::List(items) => serializer.collect_seq(items),
            Json::Object(fields) => serializer.collect_map(fields.iter().map(|(k, v)| (k, v))),
        }
    }
}

/// Makes an object. A field is `name: value`, or `name?: value` if it stands there only with `Some` value.
/// `report.{a, b}` adds fields of a report under their own names, and `..object` all fields of another object.
macro_rules! object {
    (@add $object:ident) => {};
    (@add $object:ident .. $more:expr $(, $($rest:tt)*)?) => {
        $object.extend($more);
        $($crate::format::json::object!(@add $object $($rest)*);)?
    };
    (@add $object:ident $of:ident . { $($field:ident),* $(,)? } $(, $($rest:tt)*)?) => {
        $($object.add(stringify!($field), &$of.$field);)*
        $($crate::format::json::object!(@add $object $($rest)*);)?
    };
    (@add $object:ident $name:tt ? : $value:expr $(, $($rest:tt)*)?) => {
        if let Some(value) = &$value {
            $object.add($crate::format::json::object!(@name $name), value);
        }
        $($crate::format::json::object!(@add $object $($rest)*);)?
    };
    (@add $object:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $object.add($crate::format::json::object!(@name $name), &$value);
        $($crate::format::json::object!(@add $object $($rest)*);)?
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:literal) => { $name };
    ($($body:tt)*) => {{
        #[allow(unused_mut)]
        let mut object = $crate::format::json::Json::Object(Vec::new());
        $crate::format::json::object!(@add object $($body)*);
        object
    }};
}
pub(crate) use object;

/// A value that has a form in JSON.
pub trait ToJson {
    /// Returns it as JSON.
    fn to_json(&self) -> Json;
}

/// Numbers. A byte is none, so that a path is never taken for a list of numbers.
macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl ToJson for $number {
            fn to_json(&self) -> Json {
                Json::Number((*self).into())
            }
        })*
    };
}
numbers!(u16, u32, u64, usize, i64);

impl ToJson for f64 {
    fn to_json(&self) -> Json {
        Number::from_f64(*self).map_or(Json::Null, Json::Number)
    }
}

impl ToJson for bool {
    fn to_json(&self) -> Json {
        Json::Bool(*self)
    }
}

impl ToJson for Json {
    fn to_json(&self) -> Json {
        self.clone()
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self) -> Json {
        (**self).to_json()
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, ToJson::to_json)
    }
}

impl<T: ToJson> ToJson for [T] {
    fn to_json(&self) -> Json {
        Json::List(self.iter().map(ToJson::to_json).collect())
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Json {
        self[..].to_json()
    }
}

/// Values that programs read as the text that people read.
macro_rules! texts {
    ($($text:ty),*) => {
        $(impl ToJson for $text {
            fn to_json(&self) -> Json {
                Json::Text(self.to_string())
            }
        })*
    };
}
texts!(str, String, Hint, ObjectId);

impl ToJson for Path {
    fn to_json(&self) -> Json {
        Json::Text(self.to_string_lossy().into_owned())
    }
}

impl ToJson for Timestamp {
    fn to_json(&self) -> Json {
        Json::Text(rfc3339(self.seconds, self.nanos, self.tz_minutes))
    }
}

impl ToJson for ModifiedTime {
    fn to_json(&self) -> Json {
        Json::Text(rfc3339(self.seconds, self.nanos, 0))
    }
}

impl ToJson for Problem {
    fn to_json(&self) -> Json {
        object! { ..path(&self.path), why: self.why }
    }
}

impl ToJson for EntryMove {
    fn to_json(&self) -> Json {
        object! {
            from: text_of(&self.from),
            from_b64?: base64_unless_text(self.from.as_bytes()),
            to: text_of(&self.to),
            to_b64?: base64_unless_text(self.to.as_bytes()),
        }
    }
}

impl ToJson for ConflictAt {
    fn to_json(&self) -> Json {
        object! {
            ..path(&self.path),
            kind: self.kind().word(),
            base: self.base().map(|term| term.id),
            ours: self.ours().map(|term| term.id),
            theirs: self.theirs().map(|term| term.id),
            id: self.id,
        }
    }
}

/// A path, as an object: its text, and its bytes where they are not text.
pub fn path<T: AsRef<[u8]> + ?Sized>(path: &T) -> Json {
    object! {
        path: text_of(path),
        path_b64?: base64_unless_text(path.as_ref()),
    }
}

/// Paths, each as an object.
pub fn paths<'p, T: AsRef<[u8]> + 'p>(all: impl IntoIterator<Item = &'p T>) -> Json {
    Json::List(all.into_iter().map(path).collect())
}

/// Texts of ids and the like.
pub fn texts<T: ToString>(all: impl IntoIterator<Item = T>) -> Json {
    let text = |value: T| Json::Text(value.to_string());
    Json::List(all.into_iter().map(text).collect())
}

/// The bytes in base 64, if they are not UTF-8.
pub fn base64_unless_text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes)
        .is_err()
        .then(|| BASE64.encode(bytes))
}

/// A path that differs. `change` is the word for how.
pub fn change(at: &[u8], change: &str, renamed: Option<&Rename>) -> Json {
    object! { ..path(at), change: change, ..origin(renamed) }
}

/// What a file was renamed from, and how much of it is the same.
pub fn origin(renamed: Option<&Rename>) -> Json {
    let from = renamed.map(|renamed| renamed.from.as_bytes());
    object! {
        from?: from.map(text_of),
        from_b64?: from.and_then(base64_unless_text),
        similarity?: renamed.map(|renamed| u32::from(renamed.percent)),
    }
}

/// A commit, as `log` prints it.
pub fn commit(id: &ObjectId, commit: &Commit) -> Json {
    object! {
        id: id,
        commit.{parents, tree},
        author: raw_person(&commit.author),
        time: when(&commit.author),
        committer: raw_person(&commit.committer),
        commit_time: when(&commit.committer),
        commit.{message},
        bytes: commit.tree_bytes,
        files: commit.tree_files,
    }
}

/// The time of a person's act.
pub fn when(person: &Person) -> String {
    rfc3339(person.seconds, person.nanos, person.tz_minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_fields_in_their_order() -> Result<(), serde_json::Error> {
        let more = object! { inner: [1_u64, 2].as_slice() };
        let absent: Option<u64> = None;
        let made =
            object! { z: true, "type": "note", a: absent, b?: absent, ..more, c?: Some("x") };
        let text = r#"{"z":true,"type":"note","a":null,"inner":[1,2],"c":"x"}"#;
        assert_eq!(serde_json::to_string(&made)?, text);
        let text = r#"{"a":null,"c":"x","inner":[1,2],"type":"note","z":true}"#;
        assert_eq!(serde_json::to_string(&made.sorted())?, text);
        Ok(())
    }

    #[test]
    fn a_path_that_is_no_text_has_its_bytes() {
        assert_eq!(path("a b"), object! { path: "a b" });
        assert_eq!(
            path(b"\xff"),
            object! { path: "\u{fffd}", path_b64: "/w==" }
        );
    }
}
