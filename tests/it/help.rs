//! What the program says of itself: help and completions.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use crate::support::{self, text, wrs_emulator};

/// The help of a command, whole, as wide as it is without a terminal.
fn help(path: &[String]) -> String {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help-all"]).collect();
    let output = wrs_emulator(&arguments).env_remove("COLUMNS").env_remove("LINES").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    text(&output.stdout)
}

/// Every command with its help, as they name each other; the first is the program itself.
pub(crate) fn all_help() -> Vec<(Vec<String>, String)> {
    let mut found: Vec<(Vec<String>, String)> = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let said = help(&path);
        let below = said.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
        let names = below.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "help").collect();
        // The last one pushed is the next one looked at.
        open.extend(names.iter().rev().map(|name| [&path[..], &[(*name).to_owned()]].concat()));
        found.push((path, said));
    }
    assert!(found.len() > 30, "the commands were found: {}", found.len());
    found
}

fn run(arguments: &[&str]) -> Output {
    let output = support::run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    output
}

/// Examples first, options in groups, no more than two screens; what is rare is there when everything is asked for.
#[test]
fn the_help_of_the_program_fits_two_screens() {
    for columns in ["80", "100"] {
        let said = wrs_emulator(&["--help"]).env("COLUMNS", columns).output().expect("the binary runs");
        let said = text(&said.stdout);
        assert!(said.lines().count() <= 100, "{} lines of {columns} columns\n{said}", said.lines().count());
        let heads = ["\nExamples:\n", "\nUsage: ", "\nCommands:\n", "\nOptions:\n", "\nWebhooks:\n", "\nScenarios:\n"];
        for head in heads.into_iter().chain(["\nControl API:\n", "\nLimits:\n"]) {
            assert_eq!(said.matches(head).count(), 1, "{head:?} in\n{said}");
        }
        assert!(said.find("Examples:") < said.find("Usage:"), "{said}");
        assert!(said.contains("--max-connections") && !said.contains("--header-timeout"), "{said}");
        assert!(said.lines().take_while(|line| !line.starts_with("Usage")).all(|line| line.len() < 80), "{said}");
        let option =
            |flag: &str| said.find(&format!("\n      --{flag} ")).unwrap_or_else(|| panic!("no --{flag}\n{said}"));
        let head = |name: &str| said.find(&format!("\n{name}:\n")).expect("a heading");
        for (flag, from, to) in [
            ("forward", "Webhooks", "Scenarios"),
            ("scenario", "Scenarios", "Control API"),
            ("control-token", "Control API", "Limits"),
        ] {
            assert!((head(from)..head(to)).contains(&option(flag)), "--{flag} is not below {from}\n{said}");
        }
    }
    for command in [&[][..], &["serve"], &["exec"]] {
        let all = text(&run(&[command, &["--help-all"]].concat()).stdout);
        assert!(all.contains("--header-timeout") && all.contains("[env: WRS_EMULATOR_HEADER_TIMEOUT"), "{all}");
        let short = text(&run(&[command, &["-h"]].concat()).stdout);
        assert!(!short.contains("--header-timeout") && short.contains("--help-all"), "{short}");
    }
}

#[test]
fn completions_know_every_command() {
    let commands = all_help();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text(&run(&["completions", shell]).stdout);
        for name in commands.iter().filter_map(|(path, _)| path.last()) {
            assert!(script.contains(name.as_str()), "{shell} does not complete `{name}`");
        }
        assert!(script.contains("fail-on"), "{shell} does not complete flags");
    }
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash runs");
    std::io::copy(&mut run(&["completions", "bash"]).stdout.as_slice(), &mut bash.stdin.take().expect("a pipe"))
        .expect("bash reads");
    assert!(bash.wait().expect("it ends").success(), "bash can read its script");
    assert_eq!(support::run(&["completions", "tcsh"]).status.code(), Some(2));
}

/// Rewrites the page instead of comparing it.
const REWRITE: &str = "WRS_REWRITE_HELP";

const REFERENCE_HEAD: &str = "\
# Command line

What `--help-all` prints for every command; `--help` is shorter. `wrs-emulator` without a command is `wrs-emulator serve`. Data goes to stdout, messages go to stderr.
Every flag of `serve` and `exec` has an environment variable: `--listen` is `WRS_EMULATOR_LISTEN`; the flag wins. Exit status: 0 done,
1 a check found problems or what is named does not exist, 2 wrong usage or an invalid file, 3 the emulator cannot be reached.

This page is made from the definition of the command line; a test keeps it in step, and rewrites it with `WRS_REWRITE_HELP=1`.

## For scripts

Every command has `--json`. With it, stdout has JSON and nothing else, and stderr has JSON objects, one a line. `completions` still
prints a script, and `exec` leaves both streams to its command. The exit status is the same with and without it.

**A document**, as printed by `requests show`, `verdict` or `clock`, is one JSON value on stdout. `check`, `verify`, `verdict`, `review` and
`deliveries redeliver` print it even if they exit with 1: the document says what they found, so stderr has no error.

**A listing**, as printed by `requests`, `deliveries wait`, `subscriptions`, `scenarios`, `forwards`, `profile show` or `assumptions`, is NDJSON: one record
a line, then always a last line that states whether records are missing. Fields that belong to no record are in the last line.

```text
$ wrs-emulator requests --limit 2 --json
{\"id\":\"req_…\",\"method\":\"GET\",\"path\":\"/v1/hello\",\"status\":200,…}
{\"id\":\"req_…\",\"method\":\"GET\",\"path\":\"/v1/nowhere\",\"status\":404,…}
{\"truncated\":true,\"shown\":2,\"next_cursor\":\"…\"}
```

With `next_cursor`, `--cursor` continues. `--follow` prints records as they happen; its last line comes when the emulator ends, and states
`\"truncated\":true` if records were missed. A pipe that is closed early, as by `head -1`, ends a command quietly.

**A stream**, of `serve`, `listen` or `run view`, begins with `{\"event\":\"ready\",\"url\":\"…\"}`. `serve --json` is `serve --log json`.

**An error** is one line on stderr, and stdout is empty; only `trigger --wait` prints first what it fired, and `listen` what it received. `hint` is
null if there is none. If the emulator refused a call, `answer` has its whole answer, such as the nearest requests of `requests wait`.

```json
{\"error\":{\"code\":\"usage\",\"message\":\"unexpected argument '--urll' found\",\"hint\":\"a similar argument exists: '--url'\"}}
```

| code | exit status | meaning |
| --- | --- | --- |
| `failed` | 1; 2 for an answer of an unexpected form | a check found problems |
| `not_found` | 1; 2 for an unknown key | what is named does not exist |
| `timed_out` | 1; 2 for a change of the clock | what was waited for did not happen in time |
| `usage` | 2 | a flag, an argument or a variable is wrong |
| `invalid_file` | 2; 1 for `check` | a file has the wrong content |
| `io` | 2 | a file cannot be read or written, an address is taken, or the system refuses |
| `refused` | 2 | the emulator refused the call: a wrong value, a missing token |
| `unreachable` | 3; 2 for `review probe` | no emulator, or no receiver, answers at the address |
| `not_run` | 126, 127 | `exec` cannot start its command |

Warnings are `{\"warning\":{\"message\":\"…\"}}`, notes `{\"note\":{\"message\":\"…\"}}`. What is wrong with the arguments is reported in this form as well,
if `--json` is among them, or `--format json` or `--log json`.
";

/// The page of the command line. Flags shared with `serve` are described there alone. Parts of a help text are separated by empty lines.
fn reference(commands: &[(Vec<String>, String)]) -> String {
    let serve = commands.iter().find(|(path, _)| *path == ["serve"]).expect("`serve` is a command");
    let reported: BTreeSet<&str> = serve.1.split("\n\n").collect();
    let links = commands.iter().filter(|(path, _)| path.len() == 1);
    let links: Vec<String> = links.map(|(path, _)| format!("[`{0}`](#wrs-emulator-{0})", path[0])).collect();
    let mut page = format!("{REFERENCE_HEAD}\n{}\n", links.join(" ·\n"));
    for (path, said) in commands {
        let shared = path.is_empty() || *path == ["exec"];
        let parts = said.split("\n\n").filter(|part| !shared || !reported.contains(part));
        let parts: Vec<&str> = parts.collect();
        let lines = parts.join("\n\n").lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>();
        let name = [&["wrs-emulator".to_owned()], &path[..]].concat().join(" ");
        page += &format!("\n## {name}\n\n```text\n{lines}```\n");
        if shared {
            assert!(parts.len() + 20 < said.split("\n\n").count(), "`{name}` takes what `serve` takes");
            page += "\nIt takes the options of [`serve`](#wrs-emulator-serve) as well.\n";
        }
    }
    page
}

#[test]
fn the_page_of_the_command_line_is_what_the_help_says() {
    let commands = all_help();
    for (path, said) in &commands {
        assert!(said.contains("\nExamples:\n  wrs-emulator"), "{path:?} has no examples");
        // What documentation wants marked, nobody is to copy.
        for mark in ["<http", "`OpenAPI`", "[`"] {
            assert!(!said.contains(mark), "{path:?} has `{mark}`:\n{said}");
        }
    }
    let made = reference(&commands);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md");
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(file, &made).expect("the page is written");
    }
    let agreed = std::fs::read_to_string(file).unwrap_or_default();
    let differs = made.lines().zip(agreed.lines()).find(|(made, agreed)| made != agreed);
    assert!(
        made == agreed,
        "docs/cli.md is not what `--help` says, first here: {differs:?}; if that is meant, run the tests with {REWRITE}=1"
    );
}
