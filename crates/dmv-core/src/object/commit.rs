//! Commits: a state of the complete tree with its history.

use super::ObjectType;
use super::codec::{DecodeError, Decoder, EncodeError, put_bytes, put_header, put_varint};
use crate::hash::ObjectId;
use crate::limits::{
    MAX_EXTRA_VALUE_BYTES, MAX_EXTRAS, MAX_EXTRAS_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES,
    MAX_OBJECT_BYTES, MAX_PARENTS, MAX_PERSON_BYTES, MAX_SIGNATURE_BYTES,
};

/// Bytes of an extra's key: as many as in a name.
const MAX_KEY_BYTES: usize = MAX_NAME_BYTES;
const MAX_TZ_MINUTES: i16 = 1439;

/// Who did something, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Name; may be empty.
    pub name: String,
    /// E-mail address; may be empty.
    pub email: String,
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanos: u32,
    /// Offset of the local time from UTC, in minutes to the east.
    pub tz_minutes: i16,
}

/// The key of the extra that says what Git knows of a commit: docs/format/git.md, "Commits".
pub const GIT_KEY: &[u8] = b"git";
/// The key of the extra that makes a commit an annotated tag: docs/format/git.md, "Tags".
pub const TAG_KEY: &[u8] = b"tag";
/// The version of the extra of a tag that was made here. The tag's name follows.
const OWN_TAG: u8 = 2;

/// A state of the complete tree with its history: docs/format/objects.md, "Commit".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Id of the tree's root node.
    pub tree: ObjectId,
    /// Bytes of all files below the tree.
    pub tree_bytes: u64,
    /// Number of files below the tree.
    pub tree_files: u64,
    /// The parent commits, all different.
    pub parents: Vec<ObjectId>,
    /// 1 without parents, otherwise 1 + the greatest generation of the parents.
    pub generation: u64,
    /// Who made the change.
    pub author: Person,
    /// Who made the commit.
    pub committer: Person,
    /// The description of the change.
    pub message: String,
    /// Further keys and values, with strictly rising keys.
    pub extras: Vec<(Vec<u8>, Vec<u8>)>,
    /// A signature over `signed_bytes`.
    pub signature: Option<Vec<u8>>,
}

impl Commit {
    /// Returns the encoding. Fails if a rule or limit of the format is broken.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = self.signed_bytes()?;
        match &self.signature {
            None => out.push(0),
            Some(signature) => {
                check_signature(signature).map_err(|what| EncodeError { what })?;
                out.push(1);
                put_bytes(&mut out, signature);
            }
        }
        if out.len() > MAX_OBJECT_BYTES {
            return Err(EncodeError {
                what: "object is too large",
            });
        }
        Ok(out)
    }

    /// Returns the bytes that a signature signs: the encoding without the signature.
    pub(crate) fn signed_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        self.check().map_err(|what| EncodeError { what })?;
        let mut out = Vec::with_capacity(256 + self.message.len());
        put_header(&mut out, ObjectType::Commit);
        out.extend_from_slice(self.tree.as_bytes());
        put_varint(&mut out, self.tree_bytes);
        put_varint(&mut out, self.tree_files);
        put_varint(&mut out, self.parents.len() as u64);
        for parent in &self.parents {
            out.extend_from_slice(parent.as_bytes());
        }
        put_varint(&mut out, self.generation);
        self.author.put(&mut out);
        self.committer.put(&mut out);
        put_bytes(&mut out, self.message.as_bytes());
        put_varint(&mut out, self.extras.len() as u64);
        for (key, value) in &self.extras {
            put_bytes(&mut out, key);
            put_bytes(&mut out, value);
        }
        Ok(out)
    }

    /// Decodes a commit.
    pub fn decode(bytes: &[u8]) -> Result<Commit, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.header(ObjectType::Commit)?;
        let tree = input.id()?;
        let tree_bytes = input.varint()?;
        let tree_files = input.varint()?;
        let count = input.varint_up_to(MAX_PARENTS as u64, TOO_MANY_PARENTS)?;
        let parents = (0..count).map(|_| input.id()).collect::<Result<_, _>>()?;
        let generation = input.varint()?;
        let author = Person::take(&mut input)?;
        let committer = Person::take(&mut input)?;
        let message = text(&mut input, MAX_MESSAGE_BYTES, MESSAGE_TOO_LONG)?;
        let count = input.varint_up_to(MAX_EXTRAS as u64, TOO_MANY_EXTRAS)?;
        let mut extras = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let key = input.bytes(MAX_KEY_BYTES, EXTRA_KEY_LENGTH)?;
            let value = input.bytes(MAX_EXTRA_VALUE_BYTES, EXTRA_TOO_LONG)?;
            extras.push((key.to_vec(), value.to_vec()));
        }
        let signature = match input.u8()? {
            0 => None,
            1 => Some(input.bytes(MAX_SIGNATURE_BYTES, SIGNATURE_LENGTH)?.to_vec()),
            _ => return Err(input.error("signature mark is neither 0 nor 1")),
        };
        input.finish()?;
        let commit = Commit {
            tree,
            tree_bytes,
            tree_files,
            parents,
            generation,
            author,
            committer,
            message,
            extras,
            signature,
        };
        let checked = commit.check().and_then(|()| match &commit.signature {
            Some(signature) => check_signature(signature),
            None => Ok(()),
        });
        checked.map_err(|what| input.error(what))?;
        Ok(commit)
    }

    /// Returns the commit that this one tags, if it is an annotated tag.
    pub fn tagged(&self) -> Option<ObjectId> {
        let is_tag = self.extras.iter().any(|(key, _)| key == TAG_KEY);
        match self.parents[..] {
            [tagged] if is_tag => Some(tagged),
            _ => None,
        }
    }

    /// Returns the extra that makes a commit the annotated tag with this name.
    pub fn tag_extra(name: &str) -> (Vec<u8>, Vec<u8>) {
        let value = [&[OWN_TAG], name.as_bytes()].concat();
        (TAG_KEY.to_vec(), value)
    }

    /// Returns the name of this annotated tag. A tag that comes from Git has it in its bytes, which only an export
    /// reads.
    pub fn tag_name(&self) -> Option<&str> {
        self.tagged()?;
        let (_, value) = self.extras.iter().find(|(key, _)| key == TAG_KEY)?;
        let (version, name) = value.split_first()?;
        let name = std::str::from_utf8(name).ok()?;
        (*version == OWN_TAG).then_some(name)
    }

    /// Returns the extras that another form of this commit has, too: not those that are about this one alone.
    pub fn lasting_extras(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let lasts = |key: &[u8]| key != GIT_KEY && key != TAG_KEY;
        let extras = self.extras.iter().filter(|(key, _)| lasts(key));
        extras.cloned().collect()
    }

    /// Checks the rules that the types do not enforce, except those on the signature.
    fn check(&self) -> Result<(), &'static str> {
        if self.parents.len() > MAX_PARENTS {
            return Err(TOO_MANY_PARENTS);
        }
        let mut sorted = self.parents.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a parent is named twice");
        }
        // Only code that reads the parents can check the exact generation.
        let least = if self.parents.is_empty() { 1 } else { 2 };
        if self.generation < least || (self.parents.is_empty() && self.generation != 1) {
            return Err("generation does not fit the parents");
        }
        self.author.check()?;
        self.committer.check()?;
        if self.message.len() > MAX_MESSAGE_BYTES {
            return Err(MESSAGE_TOO_LONG);
        }
        check_extras(&self.extras)
    }
}

/// Returns a message as a new commit has it; `None` if nothing is left.
///
/// Leaves out byte order marks, blanks and carriage returns at the ends of lines, empty lines at the
/// start and at the end, and all but one of several empty lines in between.
pub fn tidy_message(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut gap = false;
    for line in text.split('\n') {
        // Several texts may have been joined, each with its mark.
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let line = line.trim_end_matches([' ', '\t', '\r', '\x0b', '\x0c']);
        if line.is_empty() {
            gap = true;
            continue;
        }
        if !out.is_empty() {
            out += if gap { "\n\n" } else { "\n" };
        }
        gap = false;
        out += line;
    }
    (!out.is_empty()).then_some(out)
}

const TOO_MANY_PARENTS: &str = "too many parents";
const MESSAGE_TOO_LONG: &str = "message is too long";
const TOO_MANY_EXTRAS: &str = "too many extras";
const EXTRA_KEY_LENGTH: &str = "extra key is empty or too long";
const EXTRA_TOO_LONG: &str = "extra value is too long";
const SIGNATURE_LENGTH: &str = "signature is empty or too long";
const PERSON_TEXT: &str = "name or address is too long or has a NUL or newline";

fn check_extras(extras: &[(Vec<u8>, Vec<u8>)]) -> Result<(), &'static str> {
    if extras.len() > MAX_EXTRAS {
        return Err(TOO_MANY_EXTRAS);
    }
    let mut total = 0;
    for (key, value) in extras {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(EXTRA_KEY_LENGTH);
        }
        if value.len() > MAX_EXTRA_VALUE_BYTES {
            return Err(EXTRA_TOO_LONG);
        }
        total += key.len() + value.len();
    }
    if total > MAX_EXTRAS_BYTES {
        return Err("extras are too long together");
    }
    if extras.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err("extra keys do not rise");
    }
    Ok(())
}

fn check_signature(signature: &[u8]) -> Result<(), &'static str> {
    if (1..=MAX_SIGNATURE_BYTES).contains(&signature.len()) {
        Ok(())
    } else {
        Err(SIGNATURE_LENGTH)
    }
}

fn text(input: &mut Decoder<'_>, max: usize, what: &'static str) -> Result<String, DecodeError> {
    let bytes = input.bytes(max, what)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(input.error("text is not UTF-8")),
    }
}

impl Person {
    fn check(&self) -> Result<(), &'static str> {
        for text in [&self.name, &self.email] {
            if text.len() > MAX_PERSON_BYTES || text.contains(['\0', '\n']) {
                return Err(PERSON_TEXT);
            }
        }
        if self.nanos >= 1_000_000_000 {
            return Err("nanoseconds exceed a second");
        }
        if !(-MAX_TZ_MINUTES..=MAX_TZ_MINUTES).contains(&self.tz_minutes) {
            return Err("offset from UTC exceeds a day");
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.email.as_bytes());
        out.extend_from_slice(&self.seconds.to_le_bytes());
        out.extend_from_slice(&self.nanos.to_le_bytes());
        out.extend_from_slice(&self.tz_minutes.to_le_bytes());
    }

    fn take(input: &mut Decoder<'_>) -> Result<Person, DecodeError> {
        Ok(Person {
            name: text(input, MAX_PERSON_BYTES, PERSON_TEXT)?,
            email: text(input, MAX_PERSON_BYTES, PERSON_TEXT)?,
            seconds: input.i64()?,
            nanos: input.u32()?,
            tz_minutes: input.i16()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    fn person() -> Person {
        Person {
            name: "Ada".into(),
            email: "ada@example.org".into(),
            seconds: -1,
            nanos: 999_999_999,
            tz_minutes: 60,
        }
    }

    fn commit() -> Commit {
        Commit {
            tree: crate::object::tree::empty_tree_id(),
            tree_bytes: 0,
            tree_files: 0,
            parents: Vec::new(),
            generation: 1,
            author: person(),
            committer: person(),
            message: "first\n".into(),
            extras: Vec::new(),
            signature: None,
        }
    }

    prop_compose! {
        fn arb_person()(
            name in "[^\\n\\x00]{0,8}",
            email in "[a-z@]{0,8}",
            seconds in any::<i64>(),
            nanos in 0u32..1_000_000_000,
            tz_minutes in -1439i16..=1439,
        ) -> Person {
            Person { name, email, seconds, nanos, tz_minutes }
        }
    }

    prop_compose! {
        fn arb_commit()(
            tree in any::<[u8; 32]>(),
            tree_bytes in any::<u64>(),
            tree_files in any::<u64>(),
            parents in btree_set(any::<[u8; 32]>(), 0..4),
            generation in 2u64..,
            people in (arb_person(), arb_person()),
            message in ".{0,40}",
            extras in btree_map(vec(any::<u8>(), 1..6), vec(any::<u8>(), 0..6), 0..4),
            signature in prop::option::of(vec(any::<u8>(), 1..40)),
        ) -> Commit {
            Commit {
                tree: ObjectId::from_bytes(tree),
                tree_bytes,
                tree_files,
                generation: if parents.is_empty() { 1 } else { generation },
                parents: parents.into_iter().map(ObjectId::from_bytes).collect(),
                author: people.0,
                committer: people.1,
                message,
                extras: extras.into_iter().collect(),
                signature,
            }
        }
    }

    #[test]
    fn a_message_loses_what_nobody_wrote_on_purpose() {
        for (text, want) in [
            ("", None),
            (" \r\n\t\n\u{feff}", None),
            ("\u{feff} \r\n", None),
            ("one", Some("one")),
            ("\u{feff}one\r\n\r\n\r\ntwo \r\n", Some("one\n\ntwo")),
            ("\n\n  in\t\n\n\n\n# out\n", Some("  in\n\n# out")),
            ("a\rb\n", Some("a\rb")),
        ] {
            assert_eq!(tidy_message(text).as_deref(), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn commits_round_trip(commit in arb_commit()) {
            let bytes = commit.encode().expect("the strategy makes valid commits");
            prop_assert_eq!(Commit::decode(&bytes), Ok(commit));
        }

        #[test]
        fn changed_bytes_fail_or_are_another_commits_encoding(
            commit in arb_commit(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<bool>(),
        ) {
            let mut bytes = commit.encode().expect("the strategy makes valid commits");
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = byte;
            }
            if let Ok(commit) = Commit::decode(&bytes) {
                prop_assert_eq!(commit.encode(), Ok(bytes));
            }
        }
    }

    #[test]
    fn commits_beyond_a_limit_are_refused() {
        let id = |n: u8| ObjectId::from_bytes([n; 32]);
        let ada = person();
        let extra = |key: &[u8], bytes: usize| (key.to_vec(), vec![0; bytes]);
        let ok = commit();
        assert!(ok.encode().is_ok());
        for wrong in [
            Commit {
                generation: 0,
                ..ok.clone()
            },
            Commit {
                generation: 2,
                ..ok.clone()
            },
            Commit {
                parents: vec![id(1)],
                ..ok.clone()
            },
            Commit {
                parents: vec![id(1), id(2), id(1)],
                generation: 2,
                ..ok.clone()
            },
            Commit {
                parents: (0..65).map(id).collect(),
                generation: 2,
                ..ok.clone()
            },
            Commit {
                message: "x".repeat(MAX_MESSAGE_BYTES + 1),
                ..ok.clone()
            },
            Commit {
                author: Person {
                    nanos: 1_000_000_000,
                    ..ada.clone()
                },
                ..ok.clone()
            },
            Commit {
                author: Person {
                    tz_minutes: 1440,
                    ..ada.clone()
                },
                ..ok.clone()
            },
            Commit {
                author: Person {
                    tz_minutes: i16::MIN,
                    ..ada.clone()
                },
                ..ok.clone()
            },
            Commit {
                committer: Person {
                    name: "a\nb".into(),
                    ..ada.clone()
                },
                ..ok.clone()
            },
            Commit {
                committer: Person {
                    email: "a\0".into(),
                    ..ada.clone()
                },
                ..ok.clone()
            },
            Commit {
                committer: Person {
                    name: "a".repeat(1025),
                    ..ada
                },
                ..ok.clone()
            },
            Commit {
                extras: vec![extra(b"", 0)],
                ..ok.clone()
            },
            Commit {
                extras: vec![extra(&[1; 256], 0)],
                ..ok.clone()
            },
            Commit {
                extras: vec![extra(b"a", MAX_EXTRA_VALUE_BYTES + 1)],
                ..ok.clone()
            },
            Commit {
                extras: vec![extra(b"b", 0), extra(b"a", 0)],
                ..ok.clone()
            },
            Commit {
                extras: vec![extra(b"a", 0), extra(b"a", 0)],
                ..ok.clone()
            },
            Commit {
                extras: (0..65).map(|n| extra(&[n], 0)).collect(),
                ..ok.clone()
            },
            Commit {
                extras: (0..4).map(|n| extra(&[n], 65_536)).collect(),
                ..ok.clone()
            },
            Commit {
                signature: Some(vec![]),
                ..ok.clone()
            },
            Commit {
                signature: Some(vec![0; MAX_SIGNATURE_BYTES + 1]),
                ..ok.clone()
            },
        ] {
            assert!(wrong.encode().is_err());
        }
    }

    #[test]
    fn the_largest_commit_fits_an_object() -> Result<(), EncodeError> {
        let long = |n: usize| "x".repeat(n);
        let ada = Person {
            name: long(1024),
            email: long(1024),
            ..person()
        };
        let extras = (0..4)
            .map(|n| (vec![n], vec![0; MAX_EXTRA_VALUE_BYTES - 1]))
            .collect();
        let big = Commit {
            parents: (0..64).map(|n| ObjectId::from_bytes([n; 32])).collect(),
            generation: u64::MAX,
            author: ada.clone(),
            committer: ada,
            message: long(MAX_MESSAGE_BYTES),
            extras,
            signature: Some(vec![0; MAX_SIGNATURE_BYTES]),
            ..commit()
        };
        let bytes = big.encode()?;
        assert_eq!(Commit::decode(&bytes), Ok(big));
        Ok(())
    }

    #[test]
    fn the_signature_is_over_everything_before_its_mark() -> Result<(), EncodeError> {
        let signed = Commit {
            signature: Some(vec![7; 3]),
            ..commit()
        };
        let bytes = signed.encode()?;
        assert_eq!(
            bytes,
            [&signed.signed_bytes()?[..], &[1, 3, 7, 7, 7]].concat()
        );
        assert_eq!(signed.signed_bytes()?, commit().signed_bytes()?);
        Ok(())
    }
}
