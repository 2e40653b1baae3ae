//! What to run next. A name or a path gets into a hint as an [`Argument`] alone, so that every command
//! line in it can be pasted.

use super::{Argument, escape};
use std::fmt;

/// A sentence with command lines in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint(String);

/// What may stand in a hint beside its own words.
pub trait HintValue: fmt::Display {}

impl HintValue for Argument {}
impl HintValue for Hint {}
impl HintValue for u64 {}
impl HintValue for usize {}
/// Words of this program.
impl HintValue for &'static str {}

impl Hint {
    /// Returns the template with its `{}` replaced in order. Use [`hint!`](crate::hint!), which compares
    /// their numbers.
    pub fn compose(template: &'static str, values: &[&dyn HintValue]) -> Hint {
        let mut values = values.iter();
        let mut out = String::new();
        for (number, words) in template.split("{}").enumerate() {
            if number > 0
                && let Some(value) = values.next()
            {
                out.push_str(&value.to_string());
            }
            out.push_str(words);
        }
        Hint(out)
    }

    /// Returns several in one.
    pub fn join(hints: impl IntoIterator<Item = Hint>, between: &'static str) -> Hint {
        let hints: Vec<String> = hints.into_iter().map(|hint| hint.0).collect();
        Hint(hints.join(between))
    }

    /// Returns names as arguments, such as `a or b`.
    pub fn names<T: AsRef<str>>(names: &[T], between: &'static str) -> Hint {
        let name = |name: &T| Hint(Argument::value(name.as_ref()).to_string());
        Hint::join(names.iter().map(name), between)
    }

    /// Returns a command line as an operation log has it.
    pub fn recorded(command: &str) -> Hint {
        let printable = |c: char| match c {
            ' '..='~' => c.to_string(),
            c => escape(c.encode_utf8(&mut [0; 4])).to_string(),
        };
        Hint(command.chars().map(printable).collect())
    }

    /// Returns a sentence of a page that is part of the program.
    pub fn of_page(text: String) -> Hint {
        Hint(text)
    }

    /// Returns the hint with the remote's name where it says NAME for one.
    pub fn for_remote(&self, name: &str) -> Hint {
        let (name, key) = (
            Argument::value(name),
            Argument::value(format!("remote.{name}.")),
        );
        let text = self.0.replace(" remote.NAME.", &format!(" {key}"));
        Hint(text.replace("check NAME", &format!("check {name}")))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Hint {
    fn from(words: &'static str) -> Hint {
        Hint(words.to_owned())
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns how many values a template needs.
pub const fn places(template: &str) -> usize {
    let text = template.as_bytes();
    let (mut at, mut number) = (1, 0);
    while at < text.len() {
        if text[at - 1] == b'{' && text[at] == b'}' {
            number += 1;
        }
        at += 1;
    }
    number
}

/// Makes a [`Hint`]: a template and a [`HintValue`] for each `{}` in it.
#[macro_export]
macro_rules! hint {
    ($template:literal $(, $value:expr)* $(,)?) => {{
        const VALUES: &[&str] = &[$(stringify!($value)),*];
        const { assert!($crate::escape::places($template) == VALUES.len()) };
        $crate::escape::Hint::compose($template, &[$(&$value),*])
    }};
}
pub(crate) use hint;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_place() {
        let (one, two) = (Argument::pattern("s*"), Argument::on_disk("-x"));
        let hint = hint!("dmv drop {}, then rm {}{}", one, two, "!");
        assert_eq!(hint.as_str(), "dmv drop 's\\*', then rm ./-x!");
        assert_eq!(hint!("dmv log").as_str(), "dmv log");
    }
}
