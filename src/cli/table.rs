//! Every command that is one call of the control API: a row with its call, its arguments and its examples.

use std::ops::RangeInclusive;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use super::arguments::{duration, scenario, time};
use super::client::CallPath;
use super::row::{Row, Setting, assignment, field, positional};
use crate::contract::keys::SAMPLE_KEY;

/// Only what belongs to one key, by default everything.
fn any_key() -> Arg {
    key("Only of this key, or workspace `ws_…`; by default of all keys, or without one").default_value("*")
}

/// The key that is changed, by default the sample key.
fn own_key() -> Arg {
    key("Whose: a key, or a workspace `ws_…`").default_value(SAMPLE_KEY)
}

/// One key, by default what is in force for all.
fn one_key() -> Arg {
    key("Only for this key, or workspace `ws_…`; by default for all keys")
}

fn key(help: &'static str) -> Arg {
    field("key", help).env("WRS_API_KEY").hide_env_values(true)
}

fn id() -> Arg {
    positional("id", "Its id, as listings and answers show it").required(true)
}

fn secret() -> Arg {
    let secret = field("secret", "The signing secret; by default one is generated and printed");
    secret.env("WRS_WEBHOOK_SECRET").hide_env_values(true)
}

fn number(name: &'static str, help: &'static str, range: RangeInclusive<i64>) -> Arg {
    field(name, help).value_parser(value_parser!(i64).range(range))
}

fn settings(value: &'static str, help: &'static str) -> Arg {
    positional("settings", help).value_name(value).num_args(1..).required(true)
}

/// How many are listed, and from where on.
fn page() -> [Arg; 2] {
    let limit = number("limit", "At most this many", 1..=1000).default_value("20");
    [limit, field("cursor", "Continue after another page: its `next_cursor`")]
}

/// How many are awaited, and for how long.
fn wait() -> [Arg; 2] {
    let count = number("count", "How many must match", 1..=10_000).default_value("1");
    [count, timeout("How long to wait, at most 300s", "10s")]
}

fn timeout(help: &'static str, default: &'static str) -> Arg {
    field("timeout", help).default_value(default).value_name("DURATION").value_parser(duration)
}

/// The key whose clock is moved, and how long the call waits.
fn clock() -> [Arg; 2] {
    [clock_key(), timeout("How long to wait until everything due is done", "60s")]
}

fn clock_key() -> Arg {
    field("key", "Only the clock of this key, or workspace `ws_…`; by default the emulator's, which all keys follow")
}

/// Filters of requests, named alike by the calls that list and that wait.
fn requests(rest: [Arg; 2]) -> Vec<Arg> {
    let since_help = "Only from this time on: a timestamp, or `now`";
    let filters = [
        any_key(),
        field("operation", "Only this operation, such as system.status"),
        number("status", "Only answers with this status; 0 is a broken connection", 0..=599),
        field("method", "Only this method"),
        field("path", "Only this path"),
        field("since", since_help).value_name("TIME").value_parser(time),
    ];
    filters.into_iter().chain(rest).collect()
}

/// Filters of deliveries, as for requests.
fn deliveries(rest: [Arg; 2]) -> Vec<Arg> {
    let of_id = |name, help, prefix: &'static str, what: &'static str| {
        field(name, help).value_name("ID").value_parser(move |text: &str| {
            let is_one = text.starts_with(prefix).then(|| text.to_owned());
            is_one.ok_or_else(|| format!("expected the id of {what}, such as {prefix}01k..."))
        })
    };
    let filters = [
        any_key(),
        field("status", "Only these: pending, delivered, exhausted or cancelled"),
        of_id("event", "Only deliveries of the event with this id", "evt_", "an event"),
        field("type", "Only deliveries of this event type"),
        of_id("subscription", "Only deliveries to the subscription with this id", "sub_", "a subscription"),
    ];
    filters.into_iter().chain(rest).collect()
}

const CLOCK: CallPath = CallPath("POST", "clock");
const CHANGE_SUBSCRIPTION: CallPath = CallPath("PUT", "subscriptions/{id}");
const ACTIVATE: CallPath = CallPath("POST", "scenarios/active");

pub(super) const LIST_REQUESTS: Row =
    Row::new("requests list", "List requests, newest first", CallPath("GET", "requests"))
        .arguments(|| requests(page()))
        .follows("request")
        .examples(&[
            "requests list --operation events.subscribe --status 422",
            "requests list --key sk_test_mine --limit 100 --json",
            "requests list --follow",
        ]);

pub(super) const LIST_DELIVERIES: Row =
    Row::new("deliveries list", "List deliveries, newest first", CallPath("GET", "deliveries"))
        .arguments(|| deliveries(page()))
        .follows("attempt")
        .examples(&[
            "deliveries list --status pending",
            "deliveries list --event evt_01k... --json",
            "deliveries list --follow",
        ]);

pub(super) const EXPLAIN: Row = Row::new("explain", "Explain an answer, an event or a delivery", CallPath("GET", "explain/{id}"))
        .arguments(|| {
            let help = "The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery; by default the newest \
                        request or delivery";
            vec![positional("id", help).default_value("latest"), any_key()]
        })
        .examples(&[
            "explain  the newest request or delivery",
            "explain req_01k...  why this answer",
            "explain evt_01k...  where the event went, and where not",
            "explain dlv_01k...  what the receiver answered, and what to try",
        ]);

pub(super) static ROWS: &[Row] = &[
    LIST_REQUESTS,
    Row::new("requests show", "Show one request and its answer in full", CallPath("GET", "requests/{id}"))
        .arguments(|| vec![id()])
        .examples(&["requests show req_01k...", "requests show req_01k... --json"]),
    Row::new(
        "requests wait",
        "Wait until requests match; on timeout, show the nearest ones and what differs, and exit 1",
        CallPath("POST", "requests/wait"),
    )
    .arguments(|| requests(wait()))
    .examples(&[
        "requests wait --operation events.subscribe --timeout 30s",
        "requests wait --status 429 --count 3 --since now",
    ]),
    LIST_DELIVERIES,
    Row::new(
        "deliveries show",
        "Show one delivery with each attempt: what was signed and sent, what came back",
        CallPath("GET", "deliveries/{id}"),
    )
    .arguments(|| vec![id()])
    .examples(&["deliveries show dlv_01k...", "deliveries show dlv_01k... --json"]),
    Row::new(
        "deliveries wait",
        "Wait until deliveries match; on timeout, show the nearest ones and what differs, and exit 1",
        CallPath("POST", "deliveries/wait"),
    )
    .arguments(|| deliveries(wait()))
    .examples(&[
        "deliveries wait --status delivered --type workflow.completed --timeout 30s",
        "deliveries wait --count 3 --key sk_test_mine",
    ]),
    Row::new("subscriptions list", "List subscriptions, oldest first", CallPath("GET", "subscriptions"))
        .arguments(|| vec![any_key()])
        .examples(&["subscriptions list", "subscriptions list --key sk_test_a --json"]),
    Row::new(
        "subscriptions create",
        "Subscribe a URL, as a client of the key would, without counting a request",
        CallPath("POST", "subscriptions"),
    )
    .arguments(|| {
        vec![
            positional("url", "Where events go; the rules are those of a client's subscribe").required(true),
            field("events", "Event types, joined by commas; by default every type that can be subscribed to")
                .value_name("TYPES")
                .value_delimiter(','),
            secret(),
            field("description", "A short label"),
            own_key(),
        ]
    })
    .examples(&[
        "subscriptions create https://app.example.com/hooks",
        "subscriptions create https://app.example.com/hooks --events workflow.completed --key sk_test_a",
    ]),
    Row::new("subscriptions show", "Show one subscription", CallPath("GET", "subscriptions/{id}"))
        .arguments(|| vec![id(), field("secret", "Show its signing secret as well").action(ArgAction::SetTrue)])
        .examples(&["subscriptions show sub_01k...", "subscriptions show sub_01k... --secret"]),
    Row::new(
        "subscriptions rotate",
        "Give a subscription a new secret and print it; the old one keeps signing for a while",
        CallPath("POST", "subscriptions/{id}/rotate"),
    )
    .arguments(|| vec![id(), secret()])
    .examples(&["subscriptions rotate sub_01k...", "subscriptions rotate sub_01k... --secret whsec_..."]),
    Row::new("subscriptions delete", "Delete a subscription", CallPath("DELETE", "subscriptions/{id}"))
        .arguments(|| vec![id()])
        .examples(&["subscriptions delete sub_01k..."]),
    Row::new("subscriptions disable", "Stop deliveries to a subscription, as a 410 would", CHANGE_SUBSCRIPTION)
        .arguments(|| vec![id()])
        .fixed(&[("status", "\"disabled\"")])
        .examples(&["subscriptions disable sub_01k..."]),
    Row::new("subscriptions enable", "Resume deliveries to a subscription", CHANGE_SUBSCRIPTION)
        .arguments(|| vec![id()])
        .fixed(&[("status", "\"active\"")])
        .examples(&["subscriptions enable sub_01k..."]),
    EXPLAIN,
    Row::new("scenarios list", "List all scenarios and which are active", CallPath("GET", "scenarios"))
        .arguments(|| vec![key("Show which are active for this key, or workspace `ws_…`; by default for all keys")])
        .examples(&["scenarios list", "scenarios list --key sk_test_mine --json"]),
    Row::new("scenarios show", "Show one scenario's text", CallPath("GET", "scenarios/{name}"))
        .arguments(|| vec![positional("name", "The scenario's name").required(true).value_parser(scenario)])
        .examples(&["scenarios show rate-limit-burst > scenarios/mine.toml"]),
    Row::new("scenarios use", "Make these scenarios the active ones, in order", ACTIVATE)
        .arguments(|| {
            vec![
                positional(
                    "active",
                    "Names, in order; the first rule that applies decides. Several may be joined by commas",
                )
                .value_name("NAMES")
                .value_parser(scenario)
                .value_delimiter(',')
                .num_args(1..)
                .required(true),
                one_key(),
            ]
        })
        .examples(&[
            "scenarios use rate-limit-burst",
            "scenarios use key-revoked-midway slow-responses --key sk_test_mine",
        ]),
    Row::new("scenarios off", "Turn scenarios off", ACTIVATE)
        .arguments(|| vec![one_key()])
        .fixed(&[("active", "[]")])
        .examples(&["scenarios off", "scenarios off --key sk_test_mine"]),
    Row::new("scenarios follow", "Let a key follow the scenarios of all keys again", ACTIVATE)
        .arguments(|| vec![key("The key, or workspace `ws_…`, whose own list ends").required(true)])
        .examples(&["scenarios follow --key sk_test_mine"]),
    Row::new("scenarios reload", "Read the scenario folders again now", CallPath("POST", "scenarios/reload"))
        .examples(&["scenarios reload"]),
    Row::new("clock show", "Show the time of the emulator, or of one key", CallPath("GET", "clock"))
        .arguments(|| vec![clock_key()])
        .examples(&["clock show", "clock show --key sk_test_a --json"]),
    Row::new("clock freeze", "Stop the clock", CLOCK)
        .arguments(|| clock().into())
        .fixed(&[("mode", "\"frozen\"")])
        .examples(&["clock freeze"]),
    Row::new(
        "clock advance",
        "Move the clock forward: windows open, retries and emissions happen, in order. Returns when everything due \
             is done",
        CLOCK,
    )
    .arguments(|| {
        let step = positional("advance", "How far, such as 60s, 5m or 72h").value_name("DURATION");
        [step.value_parser(duration).required(true)].into_iter().chain(clock()).collect()
    })
    .examples(&["clock advance 60s", "clock advance 1h30m"]),
    Row::new("clock set", "Set the time: a step forward lets time pass, a step back only changes what is shown", CLOCK)
        .arguments(|| {
            let shown =
                positional("set", "The time to show, such as 2026-01-31T09:30:00Z; `now` goes back to real time")
                    .value_name("TIME");
            [shown.value_parser(time).required(true)].into_iter().chain(clock()).collect()
        })
        .examples(&[
            "clock set 2026-01-31T09:30:00Z",
            "clock set 2030-01-01T00:00:00Z --key sk_test_a",
            "clock set now",
        ]),
    Row::new("clock resume", "Let the clock run again from its current time", CLOCK)
        .arguments(|| clock().into())
        .fixed(&[("mode", "\"real\"")])
        .examples(&["clock resume"]),
    Row::new("clock follow", "Let a key's clock follow the emulator's again", CLOCK)
        .arguments(|| clock().into())
        .fixed(&[("mode", "\"follow\"")])
        .examples(&["clock follow --key sk_test_a"]),
    Row::new("profile show", "Show every setting with its value and where it comes from", CallPath("GET", "profile"))
        .arguments(|| {
            vec![
                positional("prefix", "Only settings whose names begin with this"),
                field("changed", "Only settings that differ from their default").action(ArgAction::SetTrue),
                one_key(),
            ]
        })
        .examples(&["profile show", "profile show --key sk_test_a --json"]),
    Row::new(
        "profile set",
        "Change settings: `rate_limit.requests=5`. A value that is not valid TOML is taken as a string",
        CallPath("PATCH", "profile"),
    )
    .arguments(|| vec![settings("PATH=VALUE", "The settings to change").value_parser(assignment), one_key()])
    .examples(&[
        "profile set rate_limit.requests=5 rate_limit.window=10s",
        "profile set webhooks.scheme=stripe --key sk_test_a",
    ]),
    Row::new(
        "profile unset",
        "Undo changes to a setting, or to a group of settings such as `rate_limit`",
        CallPath("PATCH", "profile"),
    )
    .arguments(|| {
        let restored = settings("PATH", "The settings, or groups of them, to restore");
        vec![restored.value_parser(|path: &str| Ok::<Setting, String>((path.to_owned(), Value::Null))), one_key()]
    })
    .examples(&["profile unset rate_limit.requests"]),
    Row::new("reset", "Forget what a key did, or everything", CallPath("POST", "reset"))
        .arguments(|| {
            let all = "Every workspace, the journal, the clock, and everything changed over the control API";
            vec![own_key(), field("all", all).action(ArgAction::SetTrue)]
        })
        .examples(&[
            "reset --key sk_test_a  # forget what one key did",
            "reset --all  # as after the start: every key, the journal, the clock, scenarios",
        ]),
    Row::new("health", "Exit with 0 when the emulator is ready", CallPath("GET", "health"))
        .arguments(|| {
            let wait = field("wait", "Wait this long for the emulator to be reachable").value_name("DURATION");
            vec![wait.default_value("0s").value_parser(duration)]
        })
        .examples(&["health", "health --wait 10s", "health --url http://emulator:9770"]),
];

/// Adds the commands of the table to the command line.
pub(super) fn with_rows(mut command: Command) -> Command {
    for (position, row) in ROWS.iter().enumerate() {
        command = match row.name.split_once(' ') {
            None => command.mut_subcommand(row.name, |command| {
                let order = command.get_display_order();
                row.define(command, order)
            }),
            Some((group, inner)) => command.mut_subcommand(group, |group| {
                group
                    .subcommand_required(true)
                    .arg_required_else_help(true)
                    .subcommand(row.define(Command::new(inner), position))
            }),
        };
    }
    command
}

/// The row that was named, with its arguments.
pub(super) fn find(matches: &ArgMatches) -> Option<(&'static Row, &ArgMatches)> {
    let (mut words, mut matches) = (Vec::new(), matches);
    while let Some((name, inner)) = matches.subcommand() {
        words.push(name);
        matches = inner;
    }
    let path = words.join(" ");
    ROWS.iter().find(|row| row.name == path).map(|row| (row, matches))
}
