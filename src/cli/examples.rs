//! Examples in the help of every command: one table, so that none is forgotten and each can be tried by a test.
//!
//! A line may end in a comment, two spaces apart. What is said below them of exit codes stands with the commands.

use clap::Command;

/// Commands by their path below the program's name, with their examples.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "serve",
        &[
            "wrs-emulator serve --listen 127.0.0.1:0 --port-file url.txt",
            "wrs-emulator serve --scenario rate-limit-burst --set rate_limit.window=10s",
            "wrs-emulator serve --forward https://app.example.com=http://localhost:3000",
        ],
    ),
    (
        "exec",
        &[
            "wrs-emulator exec -- npm test",
            "wrs-emulator exec --fail-on unmatched,undelivered,forged -- pytest -q",
            "wrs-emulator exec --scenario rate-limit-burst --fail-on unfinished -- ./client-test",
            "wrs-emulator exec --verdict-format junit --verdict-file verdict.xml -- make check",
            "wrs-emulator exec -- sh -c 'curl -s $WRS_BASE_URL/v1/hello'",
        ],
    ),
    (
        "trigger",
        &[
            "wrs-emulator trigger workflow.completed --wait",
            "wrs-emulator trigger workflow.completed --data workflow_id=wf_42 --count 3",
            "wrs-emulator trigger reference.matched --data-json '{\"reference_id\":\"ref_1\"}' --key sk_test_other",
        ],
    ),
    (
        "listen",
        &[
            "wrs-emulator listen --secret whsec_...",
            "wrs-emulator listen --forward-to localhost:3000/hooks",
            "wrs-emulator listen --respond 500,500,200 --count 3 --json",
            "wrs-emulator serve --forward https://app.example.com=http://127.0.0.1:9780",
        ],
    ),
    (
        "sign",
        &[
            "wrs-emulator sign --secret whsec_... body.json",
            "wrs-emulator sign --scheme stripe --timestamp 1700000000 body.json",
            "wrs-emulator sign --scheme custom --set webhooks.custom.hash=sha512 - <body.json",
        ],
    ),
    (
        "verify",
        &[
            "wrs-emulator verify --secret whsec_... --headers headers.txt body.json",
            "wrs-emulator verify --scheme github --header 'x-hub-signature-256: sha256=...' - <body.json",
        ],
    ),
    ("requests", &["wrs-emulator requests --status 404", "wrs-emulator requests show req_01k..."]),
    (
        "requests list",
        &[
            "wrs-emulator requests list --operation events.subscribe --status 422",
            "wrs-emulator requests list --key sk_test_mine --limit 100 --json",
            "wrs-emulator requests list --follow",
        ],
    ),
    ("requests show", &["wrs-emulator requests show req_01k...", "wrs-emulator requests show req_01k... --json"]),
    ("deliveries", &["wrs-emulator deliveries --status exhausted", "wrs-emulator deliveries wait --count 2"]),
    (
        "deliveries list",
        &[
            "wrs-emulator deliveries list --status pending",
            "wrs-emulator deliveries list --event evt_01k... --json",
            "wrs-emulator deliveries list --follow",
        ],
    ),
    ("deliveries show", &["wrs-emulator deliveries show dlv_01k...", "wrs-emulator deliveries show dlv_01k... --json"]),
    (
        "deliveries wait",
        &[
            "wrs-emulator deliveries wait --status delivered --type workflow.completed --timeout 30s",
            "wrs-emulator deliveries wait --count 3 --key sk_test_mine",
        ],
    ),
    ("deliveries redeliver", &["wrs-emulator deliveries redeliver dlv_01k..."]),
    (
        "explain",
        &[
            "wrs-emulator explain  the newest request or delivery",
            "wrs-emulator explain req_01k...  why this answer",
            "wrs-emulator explain evt_01k...  where the event went, and where not",
            "wrs-emulator explain dlv_01k...  what the receiver answered, and what to try",
        ],
    ),
    (
        "verdict",
        &[
            "wrs-emulator verdict",
            "wrs-emulator verdict --fail-on unmatched,undelivered --wait 10s",
            "wrs-emulator verdict --fail-on unfinished --format junit > verdict.xml",
        ],
    ),
    ("scenarios", &["wrs-emulator scenarios", "wrs-emulator scenarios use rate-limit-burst"]),
    ("scenarios list", &["wrs-emulator scenarios list", "wrs-emulator scenarios list --json"]),
    ("scenarios show", &["wrs-emulator scenarios show rate-limit-burst > scenarios/mine.toml"]),
    (
        "scenarios use",
        &[
            "wrs-emulator scenarios use rate-limit-burst",
            "wrs-emulator scenarios use key-revoked-midway slow-responses --key sk_test_mine",
        ],
    ),
    ("scenarios off", &["wrs-emulator scenarios off", "wrs-emulator scenarios off --key sk_test_mine"]),
    (
        "scenarios new",
        &["wrs-emulator scenarios new quota-runs-out", "wrs-emulator scenarios new mine --folder tests/stories"],
    ),
    ("scenarios reload", &["wrs-emulator scenarios reload"]),
    ("scenarios schema", &["wrs-emulator scenarios schema > scenarios/scenario.schema.json"]),
    (
        "check",
        &[
            "wrs-emulator check",
            "wrs-emulator check scenarios/mine.toml",
            "wrs-emulator check --deny warnings scenarios",
            "wrs-emulator check --profile profile.toml",
        ],
    ),
    ("clock", &["wrs-emulator clock", "wrs-emulator clock freeze", "wrs-emulator clock advance 60s"]),
    ("clock show", &["wrs-emulator clock show", "wrs-emulator clock show --key sk_test_a --json"]),
    ("clock freeze", &["wrs-emulator clock freeze"]),
    (
        "clock set",
        &["wrs-emulator clock set 2026-01-31T09:30:00Z", "wrs-emulator clock set 2030-01-01T00:00:00Z --key sk_test_a"],
    ),
    ("clock follow", &["wrs-emulator clock follow --key sk_test_a"]),
    (
        "reset",
        &[
            "wrs-emulator reset --key sk_test_a  # forget what one key did",
            "wrs-emulator reset --all  # as after the start: every key, the journal, the clock, scenarios",
        ],
    ),
    ("snapshot", &["wrs-emulator snapshot save before.json", "wrs-emulator snapshot load before.json"]),
    (
        "snapshot save",
        &[
            "wrs-emulator snapshot save before.json  # everything",
            "wrs-emulator snapshot save a.json --key sk_test_a  # one key",
            "wrs-emulator snapshot save -  # on stdout",
        ],
    ),
    ("snapshot load", &["wrs-emulator snapshot load before.json", "wrs-emulator snapshot load - < before.json"]),
    ("profile", &["wrs-emulator profile set rate_limit.requests=5", "wrs-emulator profile unset rate_limit.requests"]),
    ("profile show", &["wrs-emulator profile show", "wrs-emulator profile show --key sk_test_a --json"]),
    (
        "profile set",
        &[
            "wrs-emulator profile set rate_limit.requests=5 rate_limit.window=10s",
            "wrs-emulator profile set webhooks.scheme=stripe --key sk_test_a",
        ],
    ),
    ("profile unset", &["wrs-emulator profile unset rate_limit.requests"]),
    (
        "subscriptions",
        &["wrs-emulator subscriptions", "wrs-emulator subscriptions create https://app.example.com/hooks"],
    ),
    (
        "subscriptions create",
        &[
            "wrs-emulator subscriptions create https://app.example.com/hooks",
            "wrs-emulator subscriptions create https://app.example.com/hooks --events workflow.completed --key sk_test_a",
        ],
    ),
    ("forwards", &["wrs-emulator forwards", "wrs-emulator forwards add https://app.example.com=http://localhost:3000"]),
    ("forwards list", &["wrs-emulator forwards list", "wrs-emulator forwards list --key sk_test_a --json"]),
    (
        "forwards add",
        &[
            "wrs-emulator forwards add https://app.example.com=http://localhost:3000",
            "wrs-emulator forwards add https://app.example.com/hooks=http://localhost:4000/in --key sk_test_a",
        ],
    ),
    ("forwards remove", &["wrs-emulator forwards remove https://app.example.com"]),
    (
        "subscriptions list",
        &["wrs-emulator subscriptions list", "wrs-emulator subscriptions list --key sk_test_a --json"],
    ),
    ("subscriptions show", &["wrs-emulator subscriptions show sub_01k..."]),
    (
        "subscriptions rotate",
        &[
            "wrs-emulator subscriptions rotate sub_01k...",
            "wrs-emulator subscriptions rotate sub_01k... --secret whsec_...",
        ],
    ),
    ("subscriptions delete", &["wrs-emulator subscriptions delete sub_01k..."]),
    ("subscriptions disable", &["wrs-emulator subscriptions disable sub_01k..."]),
    ("subscriptions enable", &["wrs-emulator subscriptions enable sub_01k..."]),
    (
        "requests wait",
        &[
            "wrs-emulator requests wait --operation events.subscribe --timeout 30s",
            "wrs-emulator requests wait --status 429 --count 3 --since now",
        ],
    ),
    ("clock advance", &["wrs-emulator clock advance 60s", "wrs-emulator clock advance 1h30m"]),
    ("clock resume", &["wrs-emulator clock resume"]),
    (
        "assumptions",
        &[
            "wrs-emulator assumptions",
            "wrs-emulator assumptions --set rate_limit.requests=5 --json",
            "wrs-emulator assumptions --profile hostile",
            "wrs-emulator assumptions --markdown",
        ],
    ),
    (
        "openapi",
        &[
            "wrs-emulator openapi > openapi.json",
            "wrs-emulator openapi --set preview.enabled=true",
            "wrs-emulator openapi --control > control.json",
        ],
    ),
    (
        "completions",
        &[
            "wrs-emulator completions bash > ~/.local/share/bash-completion/completions/wrs-emulator",
            "wrs-emulator completions zsh > ~/.zfunc/_wrs-emulator",
            "wrs-emulator completions fish > ~/.config/fish/completions/wrs-emulator.fish",
        ],
    ),
    ("man", &["wrs-emulator man > wrs-emulator.1", "wrs-emulator man --dir ~/.local/share/man/man1"]),
    ("health", &["wrs-emulator health", "wrs-emulator health --url http://emulator:9770"]),
];

/// Adds its examples to each command below this one.
pub(super) fn with_examples(definition: Command) -> Command {
    EXAMPLES.iter().fold(definition, |command, (path, lines)| {
        let names: Vec<&str> = path.split(' ').collect();
        add(command, &names, lines)
    })
}

fn add(command: Command, path: &[&'static str], lines: &[&str]) -> Command {
    let Some((name, below)) = path.split_first() else {
        let examples: String = lines.iter().map(|line| format!("\n  {line}")).collect();
        let more = command.get_after_help().map(|text| format!("\n\n{text}")).unwrap_or_default();
        return command.after_help(format!("Examples:{examples}{more}"));
    };
    command.mut_subcommand(name, |inner| add(inner, below, lines))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::shorthand::expanded;
    use super::*;

    /// The words of an example as a shell would pass them on, up to a comment, a pipe or a file.
    fn words(line: &str) -> Vec<String> {
        let line = line.split("  ").next().unwrap_or_default();
        let (mut words, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                '<' | '>' | '|' if !quoted => break,
                ' ' if !quoted => words.push(String::new()),
                c => words.last_mut().expect("there is always one").push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    fn paths(command: &Command, above: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{above} {}", inner.get_name()).trim().to_owned();
            paths(inner, &path, found);
            found.push(path);
        }
    }

    #[test]
    fn every_command_has_examples_once() {
        let mut commands = Vec::new();
        paths(&super::super::definition(), "", &mut commands);
        let mut listed: Vec<String> = EXAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
        commands.sort();
        listed.sort();
        assert_eq!(listed, commands, "each command has a row in the table, and each row its command");
        assert!(EXAMPLES.iter().all(|(_, lines)| !lines.is_empty()));
    }

    #[test]
    fn every_example_is_a_command_line_that_is_taken() {
        let definition = super::super::definition();
        for (path, lines) in EXAMPLES {
            for line in *lines {
                let words = words(line).into_iter().map(OsString::from).collect();
                let taken = definition.clone().try_get_matches_from(expanded(words));
                assert!(taken.is_ok(), "{path}: `{line}`: {}", taken.expect_err("it is refused"));
            }
            let first = path.split(' ').next().unwrap_or_default();
            assert!(lines.iter().any(|line| words(line).get(1).is_some_and(|word| word == first)), "{path}: {lines:?}");
        }
        assert_eq!(words("a 'b  c' - <d"), ["a", "b"], "a comment is cut off first");
        assert_eq!(words("a 'b c' - <d  why"), ["a", "b c", "-"]);
    }
}
