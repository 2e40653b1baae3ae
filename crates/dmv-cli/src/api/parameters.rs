//! From a method and its parameters to the words of a command line. The options of the commands are the only list of
//! parameters: it knows no command by name, except those that are no methods.

use crate::api::message::NO_METHOD;
use crate::api::request::BAD_PARAMETERS;
use crate::joined_texts::{join, takes_joined};
use clap::{Arg, ArgAction, Command};
use data_encoding::BASE64;
use dmv_core::platform::string_of;
use serde_json::{Map, Value};
use std::ffi::OsString;

/// Commands that are no methods: they need a terminal, serve until they are stopped, or print what no program reads.
const NO_METHODS: [&str; 8] = [
    "add",
    "api",
    "completions",
    "demo",
    "man",
    "pair",
    "serve",
    "web",
];

/// Runs a program that the client names, and a request could not stop it.
const BISECT_RUN: &str = "bisect.run";

/// Options of every command that a request may have.
const GENERAL: [&str; 4] = ["no_hooks", "offline", "verbose", "yes"];

/// Why a method cannot be called with some parameters.
#[derive(Debug, PartialEq)]
pub struct WrongCall {
    /// The number for JSON-RPC.
    pub code: i32,
    /// What is wrong.
    pub message: String,
}

/// Arguments that have no option before them.
struct Values<'c> {
    arg: &'c Arg,
    /// Whether they stand behind others of the same name: `b` behind `a`.
    is_second: bool,
    texts: Vec<OsString>,
}

fn wrong(message: impl Into<String>) -> WrongCall {
    WrongCall {
        code: BAD_PARAMETERS,
        message: message.into(),
    }
}

/// Returns the words of a command line, without the name of the program. `program` is its description.
///
/// # Errors
///
/// If there is no such method, or it has no such parameter, or a value does not fit.
pub fn command_words(
    program: &Command,
    method: &str,
    params: Map<String, Value>,
) -> Result<Vec<OsString>, WrongCall> {
    let command = find(program, method)?;
    let mut words: Vec<OsString> = method.split('.').map(OsString::from).collect();
    let mut values = Vec::new();
    for (name, value) in params {
        if GENERAL.contains(&&name[..]) {
            add_option(
                &mut words,
                &format!("--{}", name.replace('_', "-")),
                value,
                true,
            )?;
            continue;
        }
        let mut own = command.get_arguments().filter(|arg| is_own(arg));
        let found = own.find(|arg| names_of(command, arg).contains(&name));
        let Some(arg) = found else {
            return Err(wrong(format!("{method} has no parameter '{name}'")));
        };
        match option_of(arg) {
            Some(option) if takes_several(arg) => add_pair(&mut words, &option, value)?,
            Some(option) => add_option(&mut words, &option, value, is_flag(arg))?,
            None => {
                let texts = texts(&name, value)?;
                values.push(Values {
                    arg,
                    is_second: name == "b",
                    texts: if takes_joined(arg) {
                        vec![join(&texts)]
                    } else {
                        texts
                    },
                });
            }
        }
    }
    add_values(&mut words, command, values)?;
    Ok(words)
}

fn find<'c>(program: &'c Command, method: &str) -> Result<&'c Command, WrongCall> {
    let unknown = || WrongCall {
        code: NO_METHOD,
        message: format!("there is no method '{method}'"),
    };
    if method == BISECT_RUN {
        return Err(unknown());
    }
    let mut found = program;
    for (depth, word) in method.split('.').enumerate() {
        let is_method = word != "help" && (depth > 0 || !NO_METHODS.contains(&word));
        // An alias of a command is no name of a method.
        let next = found
            .get_subcommands()
            .find(|one| one.get_name() == word && is_method);
        found = next.ok_or_else(unknown)?;
    }
    Ok(found)
}

/// Whether an option is one of the command itself: the parser adds those of every command, and its help.
fn is_own(arg: &Arg) -> bool {
    !arg.is_global_set()
        && matches!(
            arg.get_action(),
            ArgAction::Set | ArgAction::Append | ArgAction::SetTrue | ArgAction::Count
        )
}

/// The names of a parameter: that of the option with `_` for `-`, and for an argument the word of its kind.
fn names_of(command: &Command, arg: &Arg) -> Vec<String> {
    let id = arg.get_id().as_str();
    let names: &[&str] = match (arg.get_long(), id) {
        (Some(long), _) => return vec![long.replace('-', "_")],
        (None, "words") if command.get_name() == "diff" => &["a", "b"],
        (None, "words" | "revision" | "revisions" | "onto") => &["rev"],
        (None, id) => &[id],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// An option as it is typed, in its long form if it has one.
fn option_of(arg: &Arg) -> Option<String> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    long.or_else(|| arg.get_short().map(|short| format!("-{short}")))
}

fn is_flag(arg: &Arg) -> bool {
    let takes = |range: clap::builder::ValueRange| range.takes_values();
    !arg.get_num_args().is_some_and(takes)
        && matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count)
}

/// Whether an option is followed by more than one value.
fn takes_several(arg: &Arg) -> bool {
    arg.get_num_args()
        .is_some_and(|range| range.min_values() > 1)
}

/// Adds an option whose values follow it as words of their own.
fn add_pair(words: &mut Vec<OsString>, option: &str, value: Value) -> Result<(), WrongCall> {
    let texts = texts(option, value)?;
    if texts
        .iter()
        .any(|text| text.as_encoded_bytes().starts_with(b"-"))
    {
        return Err(wrong(format!("no value of '{option}' begins with '-'")));
    }
    if !texts.is_empty() {
        words.push(option.into());
        words.extend(texts);
    }
    Ok(())
}

fn add_option(
    words: &mut Vec<OsString>,
    option: &str,
    value: Value,
    is_flag: bool,
) -> Result<(), WrongCall> {
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => words.push(option.into()),
        _ if is_flag => return Err(wrong(format!("'{option}' is true or false"))),
        value => {
            for text in texts(option, value)? {
                let mut word = OsString::from(option);
                word.push("=");
                word.push(text);
                words.push(word);
            }
        }
    }
    Ok(())
}

/// The values of a parameter.
fn texts(name: &str, value: Value) -> Result<Vec<OsString>, WrongCall> {
    Ok(match value {
        Value::Null => Vec::new(),
        Value::Array(values) if values.is_empty() => {
            // A program has found no path: that does not mean all of them.
            return Err(wrong(format!("'{name}' is an empty list")));
        }
        Value::Array(values) => {
            let texts = values.into_iter().map(|value| text(name, value));
            texts.collect::<Result<_, _>>()?
        }
        value => vec![text(name, value)?],
    })
}

/// A value: a text, a number, or bytes that are no text as `{"b64": ...}`.
fn text(name: &str, value: Value) -> Result<OsString, WrongCall> {
    let bytes = match value {
        Value::String(text) => text.into_bytes(),
        Value::Number(number) => number.to_string().into_bytes(),
        Value::Object(fields) if fields.len() == 1 => {
            let encoded = fields.get("b64").and_then(Value::as_str);
            let decoded = encoded.and_then(|text| BASE64.decode(text.as_bytes()).ok());
            decoded.ok_or_else(|| wrong(format!("'{name}' has a value that is no text")))?
        }
        _ => return Err(wrong(format!("'{name}' has a value that is no text"))),
    };
    if bytes.contains(&0) {
        return Err(wrong(format!("'{name}' has a zero byte")));
    }
    Ok(string_of(bytes))
}

/// Adds the arguments behind the options, so that none is taken for an option.
fn add_values(
    words: &mut Vec<OsString>,
    command: &Command,
    mut values: Vec<Values<'_>>,
) -> Result<(), WrongCall> {
    let names: Vec<&str> = command
        .get_positionals()
        .map(|arg| arg.get_id().as_str())
        .collect();
    let place = |one: &Values<'_>| {
        let id = one.arg.get_id().as_str();
        names.iter().position(|name| *name == id)
    };
    values.retain(|one| !one.texts.is_empty());
    values.sort_by_key(|one| (place(one), one.is_second));
    let (last, first): (Vec<_>, Vec<_>) = values.into_iter().partition(|one| one.arg.is_last_set());
    // An argument would take the place of one that is missing before it.
    let mut expected = 0;
    for one in &first {
        let at = place(one).unwrap_or_default();
        if at > expected {
            return Err(wrong(format!("'{}' is missing", names[expected])));
        }
        expected = at + 1;
    }
    let has_last = command.get_positionals().any(Arg::is_last_set);
    if !has_last {
        words.push("--".into());
    }
    for text in first.into_iter().flat_map(|one| one.texts) {
        if has_last && text.as_encoded_bytes().starts_with(b"-") {
            return Err(wrong("a revision does not begin with '-'"));
        }
        words.push(text);
    }
    if has_last {
        words.push("--".into());
        words.extend(last.into_iter().flat_map(|one| one.texts));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;
    use serde_json::json;

    fn words(method: &str, params: Value) -> Result<String, String> {
        let Value::Object(params) = params else {
            return Err("no object".to_owned());
        };
        // As after the first request, when the parser has added its own options.
        let mut program = Cli::command();
        program.build();
        let words = command_words(&program, method, params).map_err(|e| e.message)?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn parameters_become_options_and_arguments() {
        for (method, params, expected) in [
            ("status", json!({}), "status --"),
            (
                "status",
                json!({ "paths": ["a", "-b"], "all": true }),
                "status --all -- a -b",
            ),
            (
                "log",
                json!({ "rev": "@", "paths": "a", "max_count": 3 }),
                "log --max-count=3 @ -- a",
            ),
            ("diff", json!({ "b": "y", "a": "x" }), "diff x y --"),
            (
                "commit",
                json!({ "message": "--force", "yes": true }),
                "commit --message=--force --yes --",
            ),
            (
                "remote.add",
                json!({ "url": "u", "name": "n" }),
                "remote add -- n u",
            ),
            (
                "cat",
                json!({ "place": "@:a", "range": null }),
                "cat -- @:a",
            ),
            ("states", json!({ "paths": ["a", "-b"] }), "states -- a\0-b"),
            ("branch", json!({ "name": null }), "branch --"),
            (
                "branch",
                json!({ "move": ["a", "b"] }),
                "branch --move a b --",
            ),
        ] {
            assert_eq!(words(method, params), Ok(expected.to_owned()), "{method}");
        }
    }

    #[test]
    fn what_no_method_takes_is_refused() {
        for (method, params) in [
            ("web", json!({})),
            ("remote.web", json!({})),
            ("remote.help", json!({})),
            ("bisect.run", json!({ "command": "true" })),
            ("branch", json!({ "move": ["a", "--x"] })),
            ("commit", json!({ "paths": [] })),
            ("log", json!({ "help": true })),
            ("", json!({})),
            ("log", json!({ "json": true })),
            ("log", json!({ "directory": "/" })),
            ("log", json!({ "rev": "--to=x" })),
            ("log", json!({ "graph": 1 })),
            ("log", json!({ "rev": { "b64": "*" } })),
            ("log", json!({ "rev": "a\0" })),
            ("remote.add", json!({ "url": "u" })),
            ("status", json!({ "paths": [["a"]] })),
        ] {
            assert!(words(method, params.clone()).is_err(), "{method} {params}");
        }
    }

    /// The parameters of the methods at and below a command, as rows of the table in docs/api.md.
    fn rows(command: &Command, method: &str, out: &mut String) {
        let below: Vec<_> = command
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
            .collect();
        if below.is_empty() || !command.is_subcommand_required_set() {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let names: Vec<String> = shown
                .flat_map(|arg| names(command, arg))
                .map(|name| format!("`{name}`"))
                .collect();
            out.push_str(&format!("| `{method}` | {} |\n", names.join(", ")));
        }
        for one in below {
            let method = format!("{method}.{}", one.get_name());
            if method != BISECT_RUN {
                rows(one, &method, out);
            }
        }
    }

    fn names(command: &Command, arg: &Arg) -> Vec<String> {
        let many = match arg.get_action() {
            ArgAction::Append => "…",
            _ if is_flag(arg) => "?",
            _ => "",
        };
        let names = names_of(command, arg).into_iter();
        names.map(|name| name + many).collect()
    }

    #[test]
    fn the_page_lists_every_method() -> std::io::Result<()> {
        let mut table = String::new();
        let program = Cli::command();
        for command in program.get_subcommands() {
            let name = command.get_name();
            if !NO_METHODS.contains(&name) {
                rows(command, name, &mut table);
            }
        }
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
        let page = std::fs::read_to_string(page)?;
        assert!(
            page.contains(&table),
            "docs/api.md must have this table:\n{table}"
        );
        Ok(())
    }

    #[test]
    fn bytes_that_are_no_text_pass() {
        let params = json!({ "paths": [{ "b64": "/w==" }] });
        let Value::Object(params) = params else {
            return;
        };
        let words = command_words(&Cli::command(), "status", params);
        let last = words.ok().and_then(|words| words.last().cloned());
        assert_eq!(last, Some(string_of(b"\xff".to_vec())));
    }
}
