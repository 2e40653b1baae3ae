//! `dmv completions`

use crate::candidates::{PROGRAM, VARIABLE};
use crate::prelude::*;
use clap::ValueEnum;
use clap_complete::Shell;
use clap_complete::env::Shells;

/// Print the completion script for a shell
///
/// The script completes commands and options, and asks dmv for the branches, tags, remotes, paths and
/// settings of the repository that you are in.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv completions bash > ~/.local/share/bash-completion/completions/dmv\n  \
                  dmv completions zsh > ~/.zfunc/_dmv\n  \
                  dmv completions fish > ~/.config/fish/completions/dmv.fish"
)]
pub struct Args {
    /// The shell that you use
    shell: Shell,
}

/// What the scripts of the library do to a word that was typed with quotes, and what they should do: zsh and
/// fish hand it over as it was typed.
const UNQUOTED: [(Shell, &str, &str); 2] = [
    (Shell::Zsh, r#""${words[@]}""#, r#""${(@Q)words}""#),
    (
        Shell::Fish,
        "(commandline --current-token)",
        "(string unescape -- (commandline --current-token); or commandline --current-token)",
    ),
];

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    context.ui.out().write_all(script(args.shell)?.as_bytes())?;
    Ok(EXIT_OK)
}

fn script(shell: Shell) -> std::io::Result<String> {
    let mut script = Vec::new();
    let name = shell.to_possible_value();
    let shells = Shells::builtins();
    if let Some(found) = name.and_then(|name| shells.completer(name.get_name())) {
        found.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    }
    let mut script = String::from_utf8_lossy(&script).into_owned();
    for (_, old, new) in UNQUOTED.iter().filter(|(of, ..)| *of == shell) {
        script = script.replace(old, new);
    }
    script += match shell {
        Shell::Bash => include_str!("completions/wrapper.bash"),
        Shell::Zsh => include_str!("completions/autoload.zsh"),
        _ => "",
    };
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_calls_the_program_by_its_name() -> std::io::Result<()> {
        for shell in Shell::value_variants() {
            let script = script(*shell)?;
            assert!(
                script.contains("DMV_COMPLETE") && script.contains("dmv"),
                "{shell}"
            );
            assert!(!script.contains("target/"), "{shell}");
        }
        Ok(())
    }

    #[test]
    fn words_lose_their_quotes() -> std::io::Result<()> {
        for (shell, _, new) in UNQUOTED {
            assert!(script(shell)?.contains(new), "{shell}");
        }
        Ok(())
    }

    #[test]
    fn the_wrapper_of_bash_calls_the_function_of_the_library() -> std::io::Result<()> {
        assert!(script(Shell::Bash)?.contains("_clap_complete_dmv() {"));
        assert!(script(Shell::Zsh)?.contains("function _clap_dynamic_completer_dmv() {"));
        Ok(())
    }
}
