//! Hooks in the user's file: `[[hook]]` with `on`, `run` or `shell`, `repositories` and `timeout`.

use crate::failure::{EXIT_OTHER, Failure};
use dmv_core::store::RepositoryId;
use std::time::Duration;
use toml::{Table, Value};

/// The list of hooks in the user's file.
pub const SECTION: &str = "hook";
/// How long a hook may run, if it does not say it.
const USUAL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a hook may run at most, in seconds.
const MOST_SECONDS: u64 = 24 * 3600;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Event {
    /// Before a commit; it may refuse.
    PreCommit,
    /// After a commit.
    PostCommit,
    /// Before branches and tags are sent; it may refuse.
    PrePush,
    /// After a fetch that has moved branches or tags here.
    PostFetch,
    /// After paths were claimed.
    Claim,
}

impl Event {
    /// All events.
    pub const ALL: [Event; 5] = [
        Event::PreCommit,
        Event::PostCommit,
        Event::PrePush,
        Event::PostFetch,
        Event::Claim,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Event::PreCommit => "pre-commit",
            Event::PostCommit => "post-commit",
            Event::PrePush => "pre-push",
            Event::PostFetch => "post-fetch",
            Event::Claim => "claim",
        }
    }
}

/// What a hook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// A program and its arguments.
    Program(String, Vec<String>),
    /// A command line that the user wants a shell to read.
    Shell(String),
}

impl Run {
    /// What it runs, for people.
    pub fn text(&self) -> String {
        match self {
            Run::Program(program, arguments) => {
                let words = std::iter::once(program).chain(arguments);
                words.cloned().collect::<Vec<_>>().join(" ")
            }
            Run::Shell(line) => line.clone(),
        }
    }
}

/// A hook of the user.
#[derive(Clone, Debug)]
pub struct Hook {
    /// When it runs.
    pub event: Event,
    /// What it runs.
    pub run: Run,
    /// The repositories that it is for. `None`: all.
    pub repositories: Option<Vec<String>>,
    /// How long it may run.
    pub timeout: Duration,
}

impl Hook {
    /// Whether it is for this repository.
    pub fn is_for(&self, id: RepositoryId) -> bool {
        let id = id.to_string();
        let listed = self.repositories.as_ref();
        listed.is_none_or(|ids| ids.contains(&id))
    }
}

/// Returns the hooks of the user's file, in their order. No other file has any.
pub fn of_user_file(user: &Table) -> Result<Vec<Hook>, Failure> {
    let list = match user.get(SECTION) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(bad(None, "write each hook as [[hook]]")),
    };
    let parsed = list.iter().enumerate().map(|(at, hook)| {
        let table = hook.as_table().ok_or("write each hook as [[hook]]");
        let parsed = table.map_err(str::to_owned).and_then(parse);
        parsed.map_err(|why| bad(Some(at + 1), &why))
    });
    parsed.collect()
}

fn bad(number: Option<usize>, why: &str) -> Failure {
    let which = number.map_or_else(|| "the hooks".to_owned(), |n| format!("hook {n}"));
    let message = format!("{which} in the user file cannot be used: {why}");
    Failure::new("bad-hook", EXIT_OTHER, message).hint("dmv help guide/hooks")
}

fn parse(table: &Table) -> Result<Hook, String> {
    let known = ["on", "run", "shell", "repositories", "timeout"];
    if let Some(name) = table.keys().find(|name| !known.contains(&&name[..])) {
        return Err(format!("it has '{name}', which means nothing"));
    }
    let event = table.get("on").and_then(Value::as_str).unwrap_or_default();
    let event = Event::ALL.into_iter().find(|known| known.word() == event);
    let event = event.ok_or_else(|| {
        let words = Event::ALL.map(Event::word).join(", ");
        format!("'on' is one of {words}")
    })?;
    Ok(Hook {
        event,
        run: run_of(table)?,
        repositories: repositories(table.get("repositories"))?,
        timeout: timeout(table.get("timeout"))?,
    })
}

fn run_of(table: &Table) -> Result<Run, String> {
    let has_zero = |text: &String| text.contains('\0');
    match (table.get("run"), table.get("shell")) {
        (Some(run), None) => {
            let words = texts(run).filter(|words| !words.iter().any(has_zero));
            let words = words.ok_or("'run' is a list of texts: a program and its arguments")?;
            let (program, arguments) = words.split_first().ok_or("'run' names no program")?;
            if program.is_empty()
                || program.contains('/') && !program.starts_with('/') && !program.starts_with("~/")
            {
                // What a relative path leads to depends on the directory, and a commit may have put it there.
                return Err(
                    "name the program by its whole path, or by a name that PATH has".into(),
                );
            }
            Ok(Run::Program(program.clone(), arguments.to_vec()))
        }
        (None, Some(Value::String(line))) if !line.trim().is_empty() && !has_zero(line) => {
            Ok(Run::Shell(line.clone()))
        }
        (None, Some(_)) => Err("'shell' is a command line".to_owned()),
        _ => Err("it needs either 'run' or 'shell'".to_owned()),
    }
}

fn repositories(value: Option<&Value>) -> Result<Option<Vec<String>>, String> {
    let wrong =
        || "'repositories' is \"all\", or a list of ids; dmv id --repository prints one".to_owned();
    match value {
        Some(Value::String(all)) if all == "all" => Ok(None),
        Some(value) => {
            let ids = texts(value).ok_or_else(wrong)?;
            let is_id = |id: &String| {
                let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
                id.len() == 32 && id.bytes().all(is_hex)
            };
            if ids.iter().all(is_id) {
                Ok(Some(ids))
            } else {
                Err(wrong())
            }
        }
        None => Err(wrong()),
    }
}

fn timeout(value: Option<&Value>) -> Result<Duration, String> {
    let seconds = match value {
        None => return Ok(USUAL_TIMEOUT),
        Some(Value::Integer(seconds)) => u64::try_from(*seconds).ok(),
        Some(Value::String(text)) => {
            let (number, unit) = match text.strip_suffix('m') {
                Some(minutes) => (minutes, 60),
                None => (text.strip_suffix('s').unwrap_or(text), 1),
            };
            let number = number.parse::<u64>().ok();
            number.and_then(|number| number.checked_mul(unit))
        }
        Some(_) => None,
    };
    let seconds = seconds.filter(|seconds| (1..=MOST_SECONDS).contains(seconds));
    let seconds = seconds.ok_or("'timeout' is a time such as 60s or 5m, at most a day")?;
    Ok(Duration::from_secs(seconds))
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array()?;
    let texts = list.iter().map(|one| one.as_str().map(str::to_owned));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(text: &str) -> Result<Vec<Hook>, String> {
        let table = text.parse::<Table>().map_err(|e| e.to_string())?;
        of_user_file(&table).map_err(|failure| failure.message)
    }

    #[test]
    fn hooks_are_read_in_their_order() -> Result<(), String> {
        let id = "0123456789abcdef0123456789abcdef";
        let read = hooks(&format!(
            "[user]\nname = 'a'\n\
             [[hook]]\non = 'pre-commit'\nrun = ['/bin/check', '-x']\nrepositories = ['{id}']\ntimeout = '5m'\n\
             [[hook]]\non = 'claim'\nshell = 'echo | cat'\nrepositories = 'all'\n"
        ))?;
        let told: Vec<_> = read
            .iter()
            .map(|hook| (hook.event.word(), hook.run.text(), hook.timeout.as_secs()))
            .collect();
        let first = ("pre-commit", "/bin/check -x".to_owned(), 300);
        assert_eq!(told, [first, ("claim", "echo | cat".to_owned(), 60)]);
        assert_eq!(read[0].repositories, Some(vec![id.to_owned()]));
        assert_eq!(read[1].repositories, None);
        assert!(hooks("")?.is_empty());
        Ok(())
    }

    #[test]
    fn what_is_no_hook_is_refused() {
        let good = "on = 'claim'\nrun = ['/bin/true']\nrepositories = 'all'\n";
        assert!(hooks(&format!("[[hook]]\n{good}")).is_ok());
        for wrong in [
            "hook = 'x'",
            "hook = ['x']",
            "[hook]\non = 'claim'",
            "[[hook]]\non = 'commit'\nrun = ['/bin/true']\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = []\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = 'x'\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = ['./x']\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = ['tools/x']\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = ['']\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = ['x', 1]\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nshell = ' '\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nshell = 'x'\nrun = ['x']\nrepositories = 'all'",
            "[[hook]]\non = 'claim'\nrun = ['x']",
            "[[hook]]\non = 'claim'\nrun = ['x']\nrepositories = 'some'",
            "[[hook]]\non = 'claim'\nrun = ['x']\nrepositories = ['../film']",
            "[[hook]]\non = 'claim'\nrun = ['x']\nrepositories = 'all'\ntimeout = 0",
            "[[hook]]\non = 'claim'\nrun = ['x']\nrepositories = 'all'\ntimeout = '3d'",
            "[[hook]]\non = 'claim'\nrun = ['x']\nrepositories = 'all'\ncwd = '/'",
        ] {
            assert!(hooks(wrong).is_err(), "{wrong}");
        }
    }
}
