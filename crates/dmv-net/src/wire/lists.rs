//! Decoding of lists with a limit. A list that is too long fails before memory is allocated for the
//! rest. Used by [`wire`](super) alone.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Reads a list of at most `MAX` items, for `#[serde(deserialize_with)]`. Fails at the first item
/// beyond `MAX`.
pub fn at_most<'de, D, T, const MAX: usize>(input: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    input.deserialize_seq(AtMost::<T, MAX>(PhantomData))
}

struct AtMost<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for AtMost<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} items")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Vec<T>, S::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            if out.len() == MAX {
                return Err(S::Error::custom("too many items"));
            }
            out.push(item);
        }
        Ok(out)
    }
}
