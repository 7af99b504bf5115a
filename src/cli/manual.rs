//! `completions` and `man`: completion scripts and manual pages, generated from the definition of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::failure::Failure;
use super::help::examples;
use super::output::print_as_is;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = examples([
    "completions bash > ~/.local/share/bash-completion/completions/wrs-emulator",
    "completions zsh > ~/.zfunc/_wrs-emulator",
    "completions fish > ~/.config/fish/completions/wrs-emulator.fish",
]))]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = examples(["man > wrs-emulator.1", "man --dir ~/.local/share/man/man1"]))]
pub(super) struct ManArgs {
    /// Write a page for each command to this folder instead; it is created if missing.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs, mut definition: Command) -> ExitCode {
    let mut script = Vec::new();
    let name = definition.get_name().to_owned();
    clap_complete::generate(args.shell, &mut definition, name, &mut script);
    print_as_is(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

pub(super) fn man(args: &ManArgs, definition: Command) -> Result<ExitCode, Failure> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            Man::new(definition).render(&mut page).expect("memory takes every byte");
            print_as_is(&String::from_utf8_lossy(&page));
        }
        Some(folder) => {
            let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(definition, folder));
            written.map_err(|error| Failure::io(format!("--dir: cannot write to `{}`: {error}", folder.display())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
