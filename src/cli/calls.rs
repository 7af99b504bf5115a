//! Every command that is one call of the control API: a row with its call, its arguments and its examples.

use clap::{ArgMatches, Command};

use super::call::{Argument, Parser, Row, field, name, setting};
use super::client::Route;

/// Only what belongs to one key, by default everything.
const ANY_KEY: Argument = field("key", "Only of this key, or workspace `ws_…`; by default of all keys, or without one")
    .env("WRS_API_KEY")
    .default("*");
/// The key that is changed, by default the sample key.
const OWN_KEY: Argument =
    field("key", "Whose: a key, or a workspace `ws_…`").env("WRS_API_KEY").default(crate::contract::keys::SAMPLE_KEY);
/// One key, by default what is in force for all.
const ONE_KEY: Argument =
    field("key", "Only for this key, or workspace `ws_…`; by default for all keys").env("WRS_API_KEY");
const CLOCK_KEY: Argument =
    field("key", "Only the clock of this key, or workspace `ws_…`; by default the emulator's, which all keys follow");
const ID: Argument = name("id", "Its id, as listings and answers show it").required();
const LIMIT: Argument = field("limit", "At most this many").default("20").parsed(Parser::Number(1, 1000));
const CURSOR: Argument = field("cursor", "Continue after another page: its `next_cursor`");
const COUNT: Argument = field("count", "How many must match").default("1").parsed(Parser::Number(1, 10_000));
const WAIT: Argument = field("timeout", "How long to wait, at most 300s").default("10s").parsed(Parser::Duration);
const SETTLE: Argument =
    field("timeout", "How long to wait until everything due is done").default("60s").parsed(Parser::Duration);
const SECRET: Argument =
    field("secret", "The signing secret; by default one is generated and printed").env("WRS_WEBHOOK_SECRET");

// Filters of requests and of deliveries, named alike by the calls that list and that wait.
const OPERATION: Argument = field("operation", "Only this operation, such as system.status");
const STATUS: Argument =
    field("status", "Only answers with this status; 0 is a broken connection").parsed(Parser::Number(0, 599));
const METHOD: Argument = field("method", "Only this method");
const PATH: Argument = field("path", "Only this path");
const SINCE: Argument =
    field("since", "Only from this time on: a timestamp, or `now`").value("TIME").parsed(Parser::Since);
const DELIVERY_STATUS: Argument = field("status", "Only these: pending, delivered, exhausted or cancelled");
const EVENT: Argument =
    field("event", "Only deliveries of the event with this id").value("ID").parsed(Parser::Id("evt_", "an event"));
const TYPE: Argument = field("type", "Only deliveries of this event type");
const SUBSCRIPTION: Argument = field("subscription", "Only deliveries to the subscription with this id")
    .value("ID")
    .parsed(Parser::Id("sub_", "a subscription"));

const CLOCK: Route = Route("POST", "clock");
const CHANGE_SUBSCRIPTION: Route = Route("PUT", "subscriptions/{id}");
const ACTIVATE: Route = Route("POST", "scenarios/active");

pub(super) const LIST_REQUESTS: &[Argument] = &[ANY_KEY, OPERATION, STATUS, METHOD, PATH, SINCE, LIMIT, CURSOR];
pub(super) const LIST_DELIVERIES: &[Argument] = &[ANY_KEY, DELIVERY_STATUS, EVENT, TYPE, SUBSCRIPTION, LIMIT, CURSOR];
pub(super) const EXPLAIN: &[Argument] = &[
    name(
        "id",
        "The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery; by default the newest \
         request or delivery",
    )
    .default("latest"),
    ANY_KEY,
];

pub(super) static ROWS: &[Row] = &[
    Row {
        arguments: LIST_REQUESTS,
        follows: Some("request"),
        examples: &[
            "requests list --operation events.subscribe --status 422",
            "requests list --key sk_test_mine --limit 100 --json",
            "requests list --follow",
        ],
        ..Row::new("requests list", "List requests, newest first", Route("GET", "requests"))
    },
    Row {
        arguments: &[ID],
        examples: &["requests show req_01k...", "requests show req_01k... --json"],
        ..Row::new("requests show", "Show one request and its answer in full", Route("GET", "requests/{id}"))
    },
    Row {
        arguments: &[ANY_KEY, OPERATION, STATUS, METHOD, PATH, SINCE, COUNT, WAIT],
        examples: &[
            "requests wait --operation events.subscribe --timeout 30s",
            "requests wait --status 429 --count 3 --since now",
        ],
        ..Row::new(
            "requests wait",
            "Wait until requests match; on timeout, show the nearest ones and what differs, and exit 1",
            Route("POST", "requests/wait"),
        )
    },
    Row {
        arguments: LIST_DELIVERIES,
        follows: Some("attempt"),
        examples: &[
            "deliveries list --status pending",
            "deliveries list --event evt_01k... --json",
            "deliveries list --follow",
        ],
        ..Row::new("deliveries list", "List deliveries, newest first", Route("GET", "deliveries"))
    },
    Row {
        arguments: &[ID],
        examples: &["deliveries show dlv_01k...", "deliveries show dlv_01k... --json"],
        ..Row::new(
            "deliveries show",
            "Show one delivery with each attempt: what was signed and sent, what came back",
            Route("GET", "deliveries/{id}"),
        )
    },
    Row {
        arguments: &[ANY_KEY, DELIVERY_STATUS, EVENT, TYPE, SUBSCRIPTION, COUNT, WAIT],
        examples: &[
            "deliveries wait --status delivered --type workflow.completed --timeout 30s",
            "deliveries wait --count 3 --key sk_test_mine",
        ],
        ..Row::new(
            "deliveries wait",
            "Wait until deliveries match; on timeout, show the nearest ones and what differs, and exit 1",
            Route("POST", "deliveries/wait"),
        )
    },
    Row {
        arguments: &[ANY_KEY],
        examples: &["subscriptions list", "subscriptions list --key sk_test_a --json"],
        ..Row::new("subscriptions list", "List subscriptions, oldest first", Route("GET", "subscriptions"))
    },
    Row {
        arguments: &[
            field("url", "Where events go; the rules are those of a client's subscribe").value("URL").positional(),
            field("events", "Event types, joined by commas; by default every type that can be subscribed to")
                .value("TYPES")
                .parsed(Parser::List),
            SECRET,
            field("description", "A short label"),
            OWN_KEY,
        ],
        examples: &[
            "subscriptions create https://app.example.com/hooks",
            "subscriptions create https://app.example.com/hooks --events workflow.completed --key sk_test_a",
        ],
        ..Row::new(
            "subscriptions create",
            "Subscribe a URL, as a client of the key would, without a request of its own",
            Route("POST", "subscriptions"),
        )
    },
    Row {
        arguments: &[ID],
        examples: &["subscriptions show sub_01k..."],
        ..Row::new("subscriptions show", "Show one subscription", Route("GET", "subscriptions/{id}"))
    },
    Row {
        arguments: &[ID, SECRET],
        examples: &["subscriptions rotate sub_01k...", "subscriptions rotate sub_01k... --secret whsec_..."],
        ..Row::new(
            "subscriptions rotate",
            "Give a subscription a new secret and print it; the old one keeps signing for a while",
            Route("POST", "subscriptions/{id}/rotate"),
        )
    },
    Row {
        arguments: &[ID],
        examples: &["subscriptions delete sub_01k..."],
        ..Row::new("subscriptions delete", "Delete a subscription", Route("DELETE", "subscriptions/{id}"))
    },
    Row {
        arguments: &[ID],
        fixed: &[("status", "\"disabled\"")],
        examples: &["subscriptions disable sub_01k..."],
        ..Row::new("subscriptions disable", "Stop deliveries to a subscription, as a 410 would", CHANGE_SUBSCRIPTION)
    },
    Row {
        arguments: &[ID],
        fixed: &[("status", "\"active\"")],
        examples: &["subscriptions enable sub_01k..."],
        ..Row::new("subscriptions enable", "Resume deliveries to a subscription", CHANGE_SUBSCRIPTION)
    },
    Row {
        arguments: EXPLAIN,
        examples: &[
            "explain  the newest request or delivery",
            "explain req_01k...  why this answer",
            "explain evt_01k...  where the event went, and where not",
            "explain dlv_01k...  what the receiver answered, and what to try",
        ],
        ..Row::new("explain", "Explain an answer, an event or a delivery", Route("GET", "explain/{id}"))
    },
    Row {
        examples: &["scenarios list", "scenarios list --json"],
        ..Row::new("scenarios list", "List all scenarios and which are active", Route("GET", "scenarios"))
    },
    Row {
        arguments: &[name("name", "The scenario's name").required().parsed(Parser::Scenario)],
        examples: &["scenarios show rate-limit-burst > scenarios/mine.toml"],
        ..Row::new("scenarios show", "Show one scenario's text", Route("GET", "scenarios/{name}"))
    },
    Row {
        arguments: &[
            field("active", "Names, in order; the first rule that applies decides. Several may be joined by commas")
                .value("NAMES")
                .parsed(Parser::Scenarios)
                .positional(),
            ONE_KEY,
        ],
        examples: &[
            "scenarios use rate-limit-burst",
            "scenarios use key-revoked-midway slow-responses --key sk_test_mine",
        ],
        ..Row::new("scenarios use", "Make these scenarios the active ones, in order", ACTIVATE)
    },
    Row {
        arguments: &[ONE_KEY],
        fixed: &[("active", "[]")],
        examples: &["scenarios off", "scenarios off --key sk_test_mine"],
        ..Row::new("scenarios off", "Turn scenarios off", ACTIVATE)
    },
    Row {
        examples: &["scenarios reload"],
        ..Row::new("scenarios reload", "Read the scenario folders again now", Route("POST", "scenarios/reload"))
    },
    Row {
        arguments: &[CLOCK_KEY],
        examples: &["clock show", "clock show --key sk_test_a --json"],
        ..Row::new("clock show", "Show the time of the emulator, or of one key", Route("GET", "clock"))
    },
    Row {
        arguments: &[CLOCK_KEY, SETTLE],
        fixed: &[("mode", "\"frozen\"")],
        examples: &["clock freeze"],
        ..Row::new("clock freeze", "Stop the clock", CLOCK)
    },
    Row {
        arguments: &[
            field("advance", "How far, such as 60s, 5m or 72h").value("DURATION").parsed(Parser::Duration).positional(),
            CLOCK_KEY,
            SETTLE,
        ],
        examples: &["clock advance 60s", "clock advance 1h30m"],
        ..Row::new(
            "clock advance",
            "Move the clock forward: windows open, retries and emissions happen, in order. Returns when everything due is done",
            CLOCK,
        )
    },
    Row {
        arguments: &[
            field("set", "The time to show, such as 2026-01-31T09:30:00Z")
                .value("TIME")
                .parsed(Parser::Time)
                .positional(),
            CLOCK_KEY,
            SETTLE,
        ],
        examples: &["clock set 2026-01-31T09:30:00Z", "clock set 2030-01-01T00:00:00Z --key sk_test_a"],
        ..Row::new(
            "clock set",
            "Set the time: a step forward lets time pass, a step back only changes what is shown",
            CLOCK,
        )
    },
    Row {
        arguments: &[CLOCK_KEY, SETTLE],
        fixed: &[("mode", "\"real\"")],
        examples: &["clock resume"],
        ..Row::new("clock resume", "Let the clock run again from its current time", CLOCK)
    },
    Row {
        arguments: &[CLOCK_KEY, SETTLE],
        fixed: &[("mode", "\"follow\"")],
        examples: &["clock follow --key sk_test_a"],
        ..Row::new("clock follow", "Let a key's clock follow the emulator's again", CLOCK)
    },
    Row {
        arguments: &[
            field("prefix", "Only settings whose names begin with this").positional().optional(),
            field("changed", "Only settings that differ from their default").switch(),
            ONE_KEY,
        ],
        examples: &["profile show", "profile show --key sk_test_a --json"],
        ..Row::new("profile show", "Show every setting with its value and where it comes from", Route("GET", "profile"))
    },
    Row {
        arguments: &[setting("PATH=VALUE", "The settings to change").parsed(Parser::Assignment), ONE_KEY],
        examples: &[
            "profile set rate_limit.requests=5 rate_limit.window=10s",
            "profile set webhooks.scheme=stripe --key sk_test_a",
        ],
        ..Row::new(
            "profile set",
            "Change settings: `rate_limit.requests=5`. A value that is not valid TOML is taken as a string",
            Route("PATCH", "profile"),
        )
    },
    Row {
        arguments: &[setting("PATH", "The settings, or groups of them, to restore"), ONE_KEY],
        examples: &["profile unset rate_limit.requests"],
        ..Row::new(
            "profile unset",
            "Undo changes to a setting, or to a group of settings such as `rate_limit`",
            Route("PATCH", "profile"),
        )
    },
    Row {
        arguments: &[
            OWN_KEY,
            field("all", "Every workspace, the journal, the clock, and everything changed over the control API")
                .switch(),
        ],
        examples: &[
            "reset --key sk_test_a  # forget what one key did",
            "reset --all  # as after the start: every key, the journal, the clock, scenarios",
        ],
        ..Row::new("reset", "Forget what a key did, or everything", Route("POST", "reset"))
    },
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
