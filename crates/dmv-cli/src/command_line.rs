//! From the arguments as typed to a command and its options, and what is said if there is no such
//! command.

use crate::alias;
use crate::args::Cli;
use crate::candidates::PROGRAM;
use crate::commands::{self, Command};
use crate::config::Config;
use crate::failure::{EXIT_OK, EXIT_USAGE, Failure, FailureForm};
use crate::format::text::clean;
use crate::globals::{Color, Globals};
use crate::help::ListExtent;
use crate::pager::{self, PagedOutput};
use crate::progress::while_lent;
use crate::ui::{Tone, Ui};
use crate::{help, other_tools, topics, ui};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, FromArgMatches, ValueEnum};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

/// What the user has typed.
pub struct TypedText {
    /// The name of the command.
    pub name: String,
    /// All that follows the name of the program, with aliases replaced.
    pub args: Vec<OsString>,
    /// The options of every command.
    pub globals: Globals,
    /// The command with its own options.
    pub command: Command,
}

/// Parses the arguments of this process. What is wrong with them is printed, as is help; the error is
/// then the exit code.
pub fn parse() -> Result<TypedText, u8> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let mut used = Vec::new();
    loop {
        let e = match read(&args) {
            Ok(typed) => return Ok(typed),
            Err(e) => e,
        };
        match without_alias(&e, &args, &mut used) {
            Ok(Some(replaced)) => args = replaced,
            Ok(None) => return Err(not_parsed(&e, &args)),
            Err(failure) => return Err(ui::report(&failure, FailureForm::json_if(is_json(&args)))),
        }
    }
}

/// The arguments with an alias replaced by what it stands for; `None`: the error is about no alias.
/// Commands of this program come first: an alias is only looked for where there is no command.
fn without_alias(
    e: &clap::Error,
    args: &[OsString],
    used: &mut Vec<String>,
) -> Result<Option<Vec<OsString>>, Failure> {
    let (Some(name), Some(mut at)) = (unknown(e), command_at(args)) else {
        return Ok(None);
    };
    // `help NAME` is about the command that an alias stands for.
    let is_help = args[at] == "help";
    at += usize::from(is_help);
    if args.get(at).is_none_or(|typed| typed != name) {
        return Ok(None);
    }
    let Some(text) = Config::load(None)?.alias(name)? else {
        return Ok(None);
    };
    if used.iter().any(|before| before == name) {
        let message = format!("the alias '{name}' leads back to itself");
        return Err(
            Failure::usage(message).hint(hint!("dmv config get alias.{}", Argument::value(name)))
        );
    }
    used.push(name.to_owned());
    let words = alias::words(&text).unwrap_or_default();
    let kept = if is_help { 1 } else { words.len() };
    if is_help {
        let text = clean(&text);
        ui::say(&format!("'{name}' is your alias for '{text}'"));
    }
    let words = words.into_iter().take(kept).map(OsString::from);
    let mut replaced = args.to_vec();
    replaced.splice(at..=at, words);
    Ok(Some(replaced))
}

/// The command that there is not, if the error is about one.
fn unknown(e: &clap::Error) -> Option<&str> {
    match (e.kind(), e.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) => Some(name),
        _ => None,
    }
}

/// Where the name of the command is: behind the options of every command.
fn command_at(args: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        match args.get(at)?.to_str() {
            // Their values follow.
            Some("-C" | "--color") => at += 2,
            Some(option) if option.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
}

fn is_json(args: &[OsString]) -> bool {
    let mut options = args.iter().take_while(|arg| *arg != "--");
    options.any(|arg| arg == "--json")
}

/// What `--color` says in arguments that cannot be parsed.
fn color_of(args: &[OsString]) -> Color {
    let mut options = args.iter().take_while(|arg| *arg != "--");
    let mut wanted = None;
    while let Some(arg) = options.next().and_then(|arg| arg.to_str()) {
        wanted = match arg.strip_prefix("--color=") {
            Some(when) => Some(when),
            None if arg == "--color" => options.next().and_then(|when| when.to_str()),
            None => wanted,
        };
    }
    wanted
        .and_then(|when| Color::from_str(when, true).ok())
        .unwrap_or_default()
}

/// The description of the command line with no other command than the typed one. What it accepts, the whole one
/// reads in the same way. It knows neither help nor version.
fn with_typed_command(args: &[OsString]) -> Option<clap::Command> {
    let name = args[command_at(args)?].to_str()?;
    let program = Globals::augment_args(clap::Command::new(PROGRAM));
    Some(program.subcommand(commands::description(name)?))
}

fn read(args: &[OsString]) -> Result<TypedText, clap::Error> {
    // Describing all commands takes longer than most of them, so it is done only for help and for what is wrong.
    let typed = with_typed_command(args).and_then(|one| one.try_get_matches_from(args).ok());
    let matches = match typed {
        Some(matches) => matches,
        None => help::command().try_get_matches_from(args)?,
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut help::command()))?;
    Ok(TypedText {
        name: matches.subcommand_name().unwrap_or_default().to_owned(),
        args: args[1..].to_vec(),
        globals: cli.globals,
        command: cli.command,
    })
}

/// Prints help, the version, or what is wrong with the arguments.
fn not_parsed(e: &clap::Error, args: &[OsString]) -> u8 {
    ui::want_color(color_of(args));
    let asked_for = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = is_json(args);
    let page = match help_topic(args) {
        Some("--all" | "-a") => Some(help::listing(ListExtent::All).render_help()),
        Some(topic) => topics::page(topic).map(StyledStr::from),
        None if asked_for => Some(e.render()),
        None => None,
    };
    if let Some(page) = page {
        return match print_help(&page, args) {
            Ok(()) => EXIT_OK,
            Err(failure) => ui::report(&failure, FailureForm::json_if(json)),
        };
    }
    // Its text is the whole help.
    let has_help = e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if has_help && !json {
        let _ = e.print();
        return EXIT_USAGE;
    }
    let failure = no_command(e, args)
        .or_else(|| no_argument(e, args))
        .or_else(|| no_source(e, args));
    let failure = failure.unwrap_or_else(|| {
        let message = if has_help {
            "no command given".to_owned()
        } else {
            what_is_wrong(e)
        };
        Failure::usage(message).hint(help_of(&typed_command(args)))
    });
    ui::report(&failure, FailureForm::json_if(json))
}

/// What `help` is asked about, if that is one thing and no command.
fn help_topic(args: &[OsString]) -> Option<&str> {
    let at = command_at(args)?;
    let [topic] = &args[at + 1..] else {
        return None;
    };
    let topic = topic.to_str()?;
    let is_command = help::command().find_subcommand(topic).is_some();
    (args[at] == "help" && !is_command).then_some(topic)
}

/// Returns what the parser says is wrong with the arguments, without its advice.
pub fn what_is_wrong(e: &clap::Error) -> String {
    let text = e.render().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let first = lines.split(|line| line.is_empty()).next();
    let message = first.unwrap_or_default().join(" ");
    message
        .strip_prefix("error: ")
        .unwrap_or(&message)
        .to_owned()
}

/// The words of the command that the arguments begin with, such as `stash push`.
fn typed_command(args: &[OsString]) -> Vec<String> {
    let known = help::command();
    let (mut command, mut words) = (&known, Vec::new());
    for arg in command_at(args).map_or(&[][..], |at| &args[at..]) {
        let Some(found) = arg.to_str().and_then(|arg| command.find_subcommand(arg)) else {
            break;
        };
        words.push(found.get_name().to_owned());
        command = found;
    }
    words
}

/// The command that explains another one.
fn help_of(words: &[String]) -> Hint {
    let words = words.iter().map(|word| hint!(" {}", Argument::value(word)));
    hint!("dmv{} --help", Hint::join(words, ""))
}

/// Prints help, in a pager if it is long, and below the list of all commands the user's aliases.
fn print_help(text: &StyledStr, args: &[OsString]) -> Result<(), Failure> {
    let ui = Ui::new(Tone::default(), Color::Auto);
    let config = Config::load(None).unwrap_or_default();
    if ui.is_terminal()
        && !args.iter().any(|arg| arg == "--no-pager")
        && let Some(pager) = pager::wanted(&config)?
    {
        ui.page(PagedOutput::new(
            pager,
            Box::new(|| while_lent(Arc::default())),
        ));
    }
    let mut out = ui.out();
    if ui.colored() {
        write!(out, "{}", text.ansi())?;
    } else {
        write!(out, "{text}")?;
    }
    let is_all = matches!(help_topic(args), Some("--all" | "-a"));
    let is_list = match command_at(args) {
        None => args.iter().any(|arg| arg == "--help" || arg == "-h"),
        Some(at) => args[at] == "help" && (args.len() == at + 1 || is_all),
    };
    let aliases = config.aliases();
    if is_list && !aliases.is_empty() {
        writeln!(out, "\nYour aliases:")?;
        for key in &aliases {
            let short = key.name.split_once('.').map_or("", |(_, short)| short);
            let is_hidden = help::command().find_subcommand(short).is_some();
            let text = match config.alias(short) {
                _ if is_hidden => format!("(has no effect: dmv has a command '{short}')"),
                Ok(Some(text)) => clean(&text),
                Ok(None) => continue,
                // The failure has the whole reason when the alias is used.
                Err(_) => "(is not valid)".to_owned(),
            };
            writeln!(out, "  {short:<11}  {text}")?;
        }
    }
    ui.finish()
}

/// The failure for an argument that a command does not have. One of another tool has an answer.
fn no_argument(e: &clap::Error, args: &[OsString]) -> Option<Failure> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(argument))) =
        (e.kind(), e.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let words = typed_command(args);
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    // Of several letters in one word, only the first unknown one is named.
    let typed = args.iter().filter_map(|arg| arg.to_str());
    let typed = typed.filter(|arg| !arg.starts_with("--") && arg.starts_with('-'));
    let joined = typed.filter(|arg| argument.len() == 2 && arg.contains(&argument[1..]));
    let mut spellings = std::iter::once(&argument[..]).chain(joined);
    let hint = restored(&names, args)
        .or_else(|| configured(&names, args))
        .or_else(|| spellings.find_map(|one| other_tools::in_place_of(&names, one)))
        .or_else(|| match e.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(near)) => {
                Some(hint!("did you mean {}?", Argument::value(near)))
            }
            _ => None,
        })
        .unwrap_or_else(|| help_of(&words));
    let command: Vec<&str> = std::iter::once("dmv").chain(names).collect();
    let message = format!(
        "'{}' has no argument '{}'",
        command.join(" "),
        clean(argument)
    );
    Some(Failure::usage(message).hint(hint))
}

/// The failure for `clone --subset PATTERN SRC DIR`: the option takes all that follows it.
fn no_source(e: &clap::Error, args: &[OsString]) -> Option<Failure> {
    let is_missing = e.kind() == ErrorKind::MissingRequiredArgument;
    if !is_missing || typed_command(args) != ["clone"] {
        return None;
    }
    let at = args.iter().position(|arg| arg == "--subset")?;
    let (before, values) = (&args[1..at], &args[at + 1..]);
    let is_option = |arg: &OsString| arg.as_encoded_bytes().starts_with(b"-");
    let end = values.iter().position(is_option).unwrap_or(values.len());
    let (values, after) = values.split_at(end);
    // A user who has written several patterns has written SRC and DIR behind them.
    let patterns = values.len().saturating_sub(2).max(1);
    let (patterns, places) = values.split_at_checked(patterns)?;
    if places.is_empty() {
        return None;
    }
    let words = [before, places, after].into_iter().flatten();
    let words = words.map(|word| hint!(" {}", Argument::value(word.as_encoded_bytes())));
    let patterns = patterns.iter().map(|pattern| pattern.as_encoded_bytes());
    let patterns = patterns.map(|pattern| hint!(" {}", Argument::given_pattern(pattern)));
    let hint = hint!(
        "dmv{} --subset{}",
        Hint::join(words, ""),
        Hint::join(patterns, "")
    );
    let message = "--subset takes everything that follows it as a pattern, so there is no SRC";
    Some(Failure::usage(message).hint(hint))
}

/// `checkout -- PATH…` as Git has it.
fn restored(command: &[&str], args: &[OsString]) -> Option<Hint> {
    let at = args.iter().position(|arg| arg == "--")?;
    let paths = args[at + 1..]
        .iter()
        .map(|arg| hint!(" {}", Argument::on_disk(arg)));
    (command == ["checkout"]).then(|| hint!("dmv restore{}", Hint::join(paths, "")))
}

/// `config KEY` and `config KEY VALUE` as Git has them.
fn configured(command: &[&str], args: &[OsString]) -> Option<Hint> {
    let at = args.iter().position(|arg| arg == "config")?;
    if command != ["config"] {
        return None;
    }
    let words = args[at + 1..].iter().filter_map(|arg| arg.to_str());
    let mut words = words.filter(|word| !word.starts_with('-'));
    let key = words.next().filter(|key| key.contains('.'))?;
    let key = Argument::value(key);
    Some(match words.next() {
        Some(value) => hint!("dmv config set --user {} {}", key, Argument::value(value)),
        None => hint!("dmv config get {}", key),
    })
}

/// The failure for a command that there is not, with what to run instead.
fn no_command(e: &clap::Error, args: &[OsString]) -> Option<Failure> {
    let name = unknown(e)?;
    if let Some(hint) = configured(&["config"], args).filter(|_| typed_command(args) == ["config"])
    {
        let message = "config has commands of its own: get, set, unset and list";
        return Some(Failure::usage(message).hint(hint));
    }
    let args: Vec<&str> = args[1..].iter().filter_map(|arg| arg.to_str()).collect();
    let at = args.iter().position(|arg| *arg == name).unwrap_or(0);
    let known = help::command();
    // The command whose command it was to be, such as `remote`.
    let above = args[..at].iter().find_map(|arg| {
        let found = known.find_subcommand(arg)?;
        Some((*arg, found))
    });
    let after = args.get(at + 1..).unwrap_or_default();
    let (wanted, among) = match above {
        Some((above, command)) => (vec![above, name], command),
        None => (vec![name], &known),
    };
    let shown = among
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let mut names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    let aliases = Config::load(None).unwrap_or_default().aliases();
    if above.is_none() {
        names.extend(
            aliases
                .iter()
                .filter_map(|key| key.name.split_once('.'))
                .map(|(_, a)| a),
        );
    }
    let of = above.map_or(hint!(""), |(above, _)| hint!("{} ", Argument::value(above)));
    if args[..at].contains(&"help") {
        let message = format!(
            "there is no command and no page of the guide '{}'",
            clean(name)
        );
        let hint = topics::near(name).unwrap_or_else(|| "dmv help topics".into());
        return Some(Failure::usage(message).hint(hint));
    }
    if above.is_some_and(|(above, _)| above == "import") && name.contains(['/', ':']) {
        let source = Argument::value(name);
        let message = format!("'dmv import' needs a word for what '{}' is", clean(name));
        return Some(Failure::usage(message).hint(hint!("dmv import git {}", source)));
    }
    let hint = match (
        other_tools::instead_of(&wanted, after),
        &other_tools::near(name, &names)[..],
    ) {
        (Some(instead), _) => instead,
        (None, []) if above.is_none() => "dmv help".into(),
        (None, []) => hint!("dmv {}--help", of),
        (None, close) => {
            let one = |name: &&str| hint!("dmv {}{}", of, Argument::value(name));
            Hint::join(close.iter().map(one), ", or ")
        }
    };
    let message = format!("there is no command '{}'", wanted.join(" "));
    Some(Failure::usage(message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::LIST;
    use clap::CommandFactory;

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_the_typed_command_is_described() {
        let whole = Cli::command();
        for name in LIST.iter().map(|one| one.name) {
            let alone = with_typed_command(&line(&["dmv", "-C", "log", "--json", name]));
            let alone = alone.expect("it is a command");
            let described: Vec<_> = alone.get_subcommands().collect();
            let [one] = described[..] else {
                panic!("more than {name}: {}", described.len());
            };
            let among = whole.find_subcommand(name).expect("it is listed");
            // All but their places among others.
            let parts = |of: &clap::Command| {
                let arguments: Vec<_> = of.get_arguments().cloned().collect();
                let groups: Vec<_> = of.get_groups().cloned().collect();
                let commands: Vec<_> = of.get_subcommands().cloned().collect();
                format!("{arguments:?} {groups:?} {commands:?}")
            };
            assert_eq!(parts(one), parts(among), "{name}");
        }
        for other in [
            &["dmv"][..],
            &["dmv", "-q"],
            &["dmv", "stat"],
            &["dmv", "help", "log"],
        ] {
            assert!(with_typed_command(&line(other)).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_command_described_alone_reads_what_the_whole_program_reads() {
        for words in [
            &["dmv", "-C", "log", "status", "-s", "--json"][..],
            &["dmv", "log", "-C", "status", "-n", "3", "--color=never"],
            &["dmv", "remote", "add", "origin", "/x", "-q"],
            &[
                "dmv", "-q", "--color", "always", "commit", "-m", "x", "a b", "--", "-x",
            ],
        ] {
            let args = line(words);
            let alone = with_typed_command(&args).expect("it is a command");
            let read = |program: clap::Command| {
                let matches = program.try_get_matches_from(&args).expect("it is right");
                let globals = Globals::from_arg_matches(&matches).expect("it is right");
                format!("{globals:?} {:?}", matches.subcommand())
            };
            assert_eq!(read(alone), read(Cli::command()));
        }
    }
}
