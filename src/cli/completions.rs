//! Completion in shells: `completions` prints the code that a shell loads, which then runs the program for each word to complete.
//!
//! Names of scenarios, settings and presets are also completed; scenario files are looked for where `serve` would look.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::ValueHint;
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, complete};
use clap_complete::env::Shells;

use super::arguments::examples;
use super::output::print_as_is;
use super::parse::defaults;
use super::started::Background;
use crate::contract::types::EVENT_TYPES;
use crate::scenario::{Folders, built_in_names};
use crate::settings::{Layered, PRESETS, UNPROMISED, ledger};
use crate::util::wording::shell_word;

const NAME: &str = "wrs-emulator";
/// Set by the code in the shell to the shell's name: the words after `--` are to be completed.
const VARIABLE: &str = "_WRS_EMULATOR_COMPLETE";
/// Set by the code of some shells to the position of the word to complete; without it, that is the last one.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";

/// For bash. It splits words at each `=`, and replaces only what follows it; `joined` puts the words together again.
const BASH: &str = r#"_wrs_emulator() {
    local IFS=$'\n' word=$2
    if [[ ${COMP_WORDS[COMP_CWORD]} == "=" ]]; then word="="; fi
    COMPREPLY=($(VARIABLE=bash PROGRAM -- "${COMP_WORDS[@]:0:COMP_CWORD}" "$word" 2> /dev/null))
    if [[ ${COMPREPLY-} == *= ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o default -F _wrs_emulator wrs-emulator
"#;

/// For zsh, to be evaluated, or a file in `fpath`: then the first completion loads it and expects an answer at once. After a name that
/// ends in `=` or `/` no space follows.
const ZSH: &str = r#"#compdef wrs-emulator
_wrs-emulator() {
    local -a open whole
    local line
    for line in "${(@f)$(VARIABLE=zsh PROGRAM -- "${(@)words[1,CURRENT]}" 2> /dev/null)}"; do
        if [[ ${line%%:*} == *[=/] ]]; then open+=("$line"); elif [[ -n $line ]]; then whole+=("$line"); fi
    done
    (( $#open )) && _describe -V values open -S ''
    (( $#whole )) && _describe -V values whole
}
if [[ ${funcstack[1]} == _wrs-emulator ]]; then _wrs-emulator "$@"; else compdef _wrs-emulator wrs-emulator; fi
"#;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "completions bash  # in ~/.bashrc: eval \"$(wrs-emulator completions bash)\"",
    "completions zsh  # in ~/.zshrc, after compinit: eval \"$(wrs-emulator completions zsh)\"",
    "completions fish  # in config.fish: wrs-emulator completions fish | source",
]))]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the code for a shell. It runs the program as it was run now.
pub(super) fn completions(args: &CompletionsArgs) -> ExitCode {
    let program = PathBuf::from(std::env::args_os().next().unwrap_or_else(|| NAME.into()));
    let is_path = program.components().count() > 1;
    let program = if is_path { std::path::absolute(&program).unwrap_or(program) } else { program };
    let program = program.to_string_lossy();
    let filled = |code: &str| code.replace("VARIABLE", VARIABLE).replace("PROGRAM", &shell_word(&program));
    print_as_is(&match args.shell {
        Shell::Bash => filled(BASH),
        Shell::Zsh => filled(ZSH),
        shell => {
            let (shells, mut code) = (Shells::builtins(), Vec::new());
            let known = shells.completer(&shell.to_string());
            let written = known.map(|shell| shell.write_registration(VARIABLE, NAME, NAME, &program, &mut code));
            debug_assert!(matches!(written, Some(Ok(()))), "each shell is known, and memory holds any text");
            String::from_utf8_lossy(&code).into_owned()
        }
    });
    ExitCode::SUCCESS
}

/// Answers a shell that asks for completions; false if none does.
pub(super) fn answered(definition: impl FnOnce() -> Command) -> bool {
    let Some(shell) = std::env::var(VARIABLE).ok().filter(|shell| !shell.is_empty()) else { return false };
    let index = std::env::var(INDEX).ok().and_then(|index| index.parse().ok());
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    print_as_is(&answer(definition(), &shell, words, index));
    true
}

/// The candidates, one a line, as the code in this shell reads them.
fn answer(definition: Command, shell: &str, words: Vec<OsString>, index: Option<usize>) -> String {
    let (mut words, replaced) = if shell == "bash" { joined(words) } else { (words, 0) };
    let index = index.unwrap_or(words.len().saturating_sub(1));
    words.truncate(index + 1);
    words.resize(index + 1, OsString::new());
    let is_empty = words[index].is_empty();
    let mut definition = completed(definition, folders(&words), shell == "bash");
    let here = std::env::current_dir().ok();
    // Words after `--` that belong to no argument have no candidates.
    let mut found = complete(&mut definition, words, index, here.as_deref()).unwrap_or_default();
    let is_flag = |candidate: &CompletionCandidate| candidate.get_value().as_encoded_bytes().starts_with(b"-");
    if is_empty && !found.iter().all(is_flag) {
        found.retain(|candidate| !is_flag(candidate));
    }
    let lines = found.iter().filter_map(|candidate| {
        let value = candidate.get_value().to_str()?.get(replaced..)?;
        let help = candidate.get_help().map(ToString::to_string);
        let help = help.as_deref().and_then(|help| help.lines().next());
        let line = match (shell, help) {
            ("zsh", Some(help)) => format!("{}:{}", zsh_value(value), help.replace('\\', "\\\\")),
            ("zsh", None) => zsh_value(value),
            ("fish" | "powershell", Some(help)) => format!("{value}\t{help}"),
            _ => value.to_owned(),
        };
        // The name of a file may have anything in it.
        (!value.contains(char::is_control)).then(|| line + "\n")
    });
    lines.collect()
}

fn zsh_value(value: &str) -> String {
    value.replace('\\', "\\\\").replace(':', "\\:")
}

/// The words as they were typed, from what bash makes of them, and how much of the last one it does not replace.
fn joined(words: Vec<OsString>) -> (Vec<OsString>, usize) {
    let (mut whole, mut joins, mut replaced) = (Vec::<OsString>::new(), false, 0);
    for word in words {
        let is_sign = word == "=";
        replaced = 0;
        match whole.last_mut() {
            Some(last) if is_sign || joins => {
                replaced = last.len() + usize::from(is_sign);
                last.push(&word);
            }
            _ => whole.push(word),
        }
        joins = is_sign;
    }
    (whole, replaced)
}

/// The folders of scenarios of the command line so far: those of `--scenarios`, or the usual one.
fn folders(words: &[OsString]) -> Folders {
    let pairs = words.windows(2).filter(|pair| pair[0] == "--scenarios").map(|pair| PathBuf::from(&pair[1]));
    let assigned = words.iter().filter_map(|word| word.to_str()?.strip_prefix("--scenarios=")).map(PathBuf::from);
    let mut given: Vec<PathBuf> = pairs.chain(assigned).collect();
    if let (Ok(variable), true) = (std::env::var("WRS_EMULATOR_SCENARIOS"), given.is_empty()) {
        given.extend(variable.split(';').filter(|folder| !folder.is_empty()).map(PathBuf::from));
    }
    let usual = given.is_empty().then(|| PathBuf::from("scenarios"));
    Folders { given, usual }
}

/// The definition with what can be completed. If `is_without_paths`, the shell completes paths itself.
fn completed(command: Command, folders: Folders, is_without_paths: bool) -> Command {
    // The flags of a group's default command may follow the group.
    let command = defaults().fold(command, |command, (group, default)| {
        command.mut_subcommand(group, |group| {
            let own: Vec<_> = group.get_arguments().map(|flag| flag.get_id().clone()).collect();
            let default = group.find_subcommand(default);
            let flags: Vec<Arg> = default.iter().flat_map(|default| default.get_opts().cloned()).collect();
            group.args(flags.into_iter().filter(|flag| !own.contains(flag.get_id())))
        })
    });
    with_values(command, &folders, is_without_paths)
}

fn with_values(command: Command, folders: &Folders, is_without_paths: bool) -> Command {
    // A new scenario has a name that there is not.
    let is_new = command.get_name() == "new";
    let command = command.mut_args(|argument| {
        let argument = match argument.get_id().as_str() {
            "scenario" | "name" | "active" if !is_new => {
                let folders = folders.clone();
                argument.add(ArgValueCandidates::new(move || scenarios(&folders)))
            }
            "set" | "settings" if is_assignment(&argument) => {
                argument.add(ArgValueCompleter::new(|typed: &OsStr| assignments(&typed.to_string_lossy())))
            }
            "settings" | "prefix" => argument.add(ArgValueCandidates::new(|| {
                ledger(&Layered::default()).iter().map(|row| described(&row.setting, &row.assumed)).collect()
            })),
            "profile" if shown_value(&argument).starts_with("NAME") => {
                let presets = || PRESETS.iter().map(|preset| CompletionCandidate::new(preset.name)).collect();
                argument.add(ArgValueCandidates::new(presets))
            }
            "under" => argument.add(ArgValueCandidates::new(|| {
                let profiles = PRESETS.iter().map(|preset| preset.name).chain(["each"]).map(CompletionCandidate::new);
                profiles.chain(UNPROMISED.iter().map(|change| described(change.name, change.unless))).collect()
            })),
            "started" => argument.add(ArgValueCandidates::new(|| {
                Background::all().into_iter().map(|started| CompletionCandidate::new(started.name)).collect()
            })),
            "event" => argument.add(ArgValueCandidates::new(|| EVENT_TYPES.map(CompletionCandidate::new).into())),
            "clock" => argument
                .add(ArgValueCandidates::new(|| ["real", "frozen", "auto"].map(CompletionCandidate::new).into())),
            "command" => argument.value_hint(ValueHint::AnyPath),
            _ => argument,
        };
        if is_without_paths && argument.get_action().takes_values() {
            argument.value_hint(ValueHint::Other)
        } else {
            argument
        }
    });
    command.mut_subcommands(|inner| with_values(inner, folders, is_without_paths))
}

fn shown_value(argument: &Arg) -> &str {
    argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

fn is_assignment(argument: &Arg) -> bool {
    shown_value(argument) == "PATH=VALUE"
}

fn described(value: &str, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(help.to_owned().into()))
}

/// The scenarios that come with the program, and those of the files in the folders.
fn scenarios(folders: &Folders) -> Vec<CompletionCandidate> {
    let files = folders.read();
    let of_files = files.iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "toml"));
    let of_files = of_files.filter_map(|(path, _)| path.file_stem()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = built_in_names().map(str::to_owned).chain(of_files).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Assignments to settings: the names, and after a `=` the values, where they are few.
fn assignments(typed: &str) -> Vec<CompletionCandidate> {
    let rows = ledger(&Layered::default());
    let assignments = rows.iter().flat_map(|row| match typed.split_once('=') {
        None => vec![described(&format!("{}=", row.setting), &row.assumed)],
        Some((path, _)) if path == row.setting => {
            let values = row.values.split(" | ").map(serde_json::from_str::<serde_json::Value>);
            let values: Vec<_> = values.collect::<Result<_, _>>().unwrap_or_default();
            let texts = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            texts.map(|text| CompletionCandidate::new(format!("{path}={text}"))).collect()
        }
        Some(_) => Vec::new(),
    });
    assignments.filter(|candidate| candidate.get_value().to_string_lossy().starts_with(typed)).collect()
}
