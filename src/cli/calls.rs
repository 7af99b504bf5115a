//! Every command that is one call of the control API: a row with its call, its arguments and its examples.

use clap::{ArgMatches, Command};

use super::call::{Argument, Call, Parser, Row, field, name, query, setting};

/// Only what belongs to one key, by default everything.
const ANY_KEY: Argument = query("key", "Only of this key, or workspace `ws_…`; by default of all keys, or without one")
    .env("WRS_API_KEY")
    .default("*");
/// The key that is changed, by default the sample key.
const OWN_KEY: Argument =
    query("key", "Whose: a key, or a workspace `ws_…`").env("WRS_API_KEY").default(crate::contract::keys::SAMPLE_KEY);
/// One key, by default what is in force for all.
const ONE_KEY: Argument =
    query("key", "Only for this key, or workspace `ws_…`; by default for all keys").env("WRS_API_KEY");
const CLOCK_KEY: Argument =
    query("key", "Only the clock of this key, or workspace `ws_…`; by default the emulator's, which all keys follow");
const ID: Argument = name("id", "Its id, as listings and answers show it").required();
const LIMIT: Argument = query("limit", "At most this many").default("20").parsed(Parser::Number(1, 1000));
const CURSOR: Argument = query("cursor", "Continue after another page: its `next_cursor`");
const COUNT: Argument = field("count", "How many must match").default("1").parsed(Parser::Number(1, 10_000));
const WAIT: Argument = field("timeout", "How long to wait, at most 300s").default("10s").parsed(Parser::Duration);
const SETTLE: Argument =
    field("timeout", "How long to wait until everything due is done").default("60s").parsed(Parser::Duration);
const SECRET: Argument =
    field("secret", "The signing secret; by default one is generated and printed").env("WRS_WEBHOOK_SECRET");

// Filters of requests and of deliveries, named alike by the calls that list and that wait.
const OPERATION: Argument = query("operation", "Only this operation, such as system.status");
const STATUS: Argument =
    query("status", "Only answers with this status; 0 is a broken connection").parsed(Parser::Number(0, 599));
const METHOD: Argument = query("method", "Only this method");
const PATH: Argument = query("path", "Only this path");
const SINCE: Argument =
    query("since", "Only from this time on: a timestamp, or `now`").value("TIME").parsed(Parser::Since);
const DELIVERY_STATUS: Argument = query("status", "Only these: pending, delivered, exhausted or cancelled");
const EVENT: Argument =
    query("event", "Only deliveries of the event with this id").value("ID").parsed(Parser::Id("evt_", "an event"));
const TYPE: Argument = query("type", "Only deliveries of this event type");
const SUBSCRIPTION: Argument = query("subscription", "Only deliveries to the subscription with this id")
    .value("ID")
    .parsed(Parser::Id("sub_", "a subscription"));

const CLOCK: Call = Call("POST", "clock");
const SUBSCRIPTION_CALL: Call = Call("PUT", "subscriptions/{id}");
const ACTIVATE: Call = Call("POST", "scenarios/active");

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
        ..Row::new(
            "requests list",
            "List requests, newest first",
            Call("GET", "requests"),
            &[
                "requests list --operation events.subscribe --status 422",
                "requests list --key sk_test_mine --limit 100 --json",
                "requests list --follow",
            ],
        )
    },
    Row {
        arguments: &[ID],
        ..Row::new(
            "requests show",
            "Show one request and its answer in full",
            Call("GET", "requests/{id}"),
            &["requests show req_01k...", "requests show req_01k... --json"],
        )
    },
    Row {
        arguments: &[
            ANY_KEY,
            OPERATION.in_body(),
            STATUS.in_body(),
            METHOD.in_body(),
            PATH.in_body(),
            SINCE.in_body(),
            COUNT,
            WAIT,
        ],
        ..Row::new(
            "requests wait",
            "Wait until requests match; on timeout, show the nearest ones and what differs, and exit 1",
            Call("POST", "requests/wait"),
            &[
                "requests wait --operation events.subscribe --timeout 30s",
                "requests wait --status 429 --count 3 --since now",
            ],
        )
    },
    Row {
        arguments: LIST_DELIVERIES,
        follows: Some("attempt"),
        ..Row::new(
            "deliveries list",
            "List deliveries, newest first",
            Call("GET", "deliveries"),
            &[
                "deliveries list --status pending",
                "deliveries list --event evt_01k... --json",
                "deliveries list --follow",
            ],
        )
    },
    Row {
        arguments: &[ID],
        ..Row::new(
            "deliveries show",
            "Show one delivery with each attempt: what was signed and sent, what came back",
            Call("GET", "deliveries/{id}"),
            &["deliveries show dlv_01k...", "deliveries show dlv_01k... --json"],
        )
    },
    Row {
        arguments: &[
            ANY_KEY,
            DELIVERY_STATUS.in_body(),
            EVENT.in_body(),
            TYPE.in_body(),
            SUBSCRIPTION.in_body(),
            COUNT,
            WAIT,
        ],
        ..Row::new(
            "deliveries wait",
            "Wait until deliveries match; on timeout, show the nearest ones and what differs, and exit 1",
            Call("POST", "deliveries/wait"),
            &[
                "deliveries wait --status delivered --type workflow.completed --timeout 30s",
                "deliveries wait --count 3 --key sk_test_mine",
            ],
        )
    },
    Row {
        arguments: &[ANY_KEY],
        ..Row::new(
            "subscriptions list",
            "List subscriptions, oldest first",
            Call("GET", "subscriptions"),
            &["subscriptions list", "subscriptions list --key sk_test_a --json"],
        )
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
        ..Row::new(
            "subscriptions create",
            "Subscribe a URL, as a client of the key would, without a request of its own",
            Call("POST", "subscriptions"),
            &[
                "subscriptions create https://app.example.com/hooks",
                "subscriptions create https://app.example.com/hooks --events workflow.completed --key sk_test_a",
            ],
        )
    },
    Row {
        arguments: &[ID],
        ..Row::new(
            "subscriptions show",
            "Show one subscription",
            Call("GET", "subscriptions/{id}"),
            &["subscriptions show sub_01k..."],
        )
    },
    Row {
        arguments: &[ID, SECRET],
        ..Row::new(
            "subscriptions rotate",
            "Give a subscription a new secret and print it; the old one keeps signing for a while",
            Call("POST", "subscriptions/{id}/rotate"),
            &["subscriptions rotate sub_01k...", "subscriptions rotate sub_01k... --secret whsec_..."],
        )
    },
    Row {
        arguments: &[ID],
        ..Row::new(
            "subscriptions delete",
            "Delete a subscription",
            Call("DELETE", "subscriptions/{id}"),
            &["subscriptions delete sub_01k..."],
        )
    },
    Row {
        arguments: &[ID],
        fixed: &[("status", "\"disabled\"")],
        ..Row::new(
            "subscriptions disable",
            "Stop deliveries to a subscription, as a 410 would",
            SUBSCRIPTION_CALL,
            &["subscriptions disable sub_01k..."],
        )
    },
    Row {
        arguments: &[ID],
        fixed: &[("status", "\"active\"")],
        ..Row::new(
            "subscriptions enable",
            "Resume deliveries to a subscription",
            SUBSCRIPTION_CALL,
            &["subscriptions enable sub_01k..."],
        )
    },
    Row {
        arguments: EXPLAIN,
        ..Row::new(
            "explain",
            "Explain an answer, an event or a delivery",
            Call("GET", "explain/{id}"),
            &[
                "explain  the newest request or delivery",
                "explain req_01k...  why this answer",
                "explain evt_01k...  where the event went, and where not",
                "explain dlv_01k...  what the receiver answered, and what to try",
            ],
        )
    },
    Row {
        ..Row::new(
            "scenarios list",
            "List all scenarios and which are active",
            Call("GET", "scenarios"),
            &["scenarios list", "scenarios list --json"],
        )
    },
    Row {
        arguments: &[name("name", "The scenario's name").required().parsed(Parser::Scenario)],
        ..Row::new(
            "scenarios show",
            "Show one scenario's text",
            Call("GET", "scenarios/{name}"),
            &["scenarios show rate-limit-burst > scenarios/mine.toml"],
        )
    },
    Row {
        arguments: &[
            field("active", "Names, in order; the first rule that applies decides. Several may be joined by commas")
                .value("NAMES")
                .parsed(Parser::Scenarios)
                .positional(),
            ONE_KEY,
        ],
        ..Row::new(
            "scenarios use",
            "Make these scenarios the active ones, in order",
            ACTIVATE,
            &["scenarios use rate-limit-burst", "scenarios use key-revoked-midway slow-responses --key sk_test_mine"],
        )
    },
    Row {
        arguments: &[ONE_KEY],
        fixed: &[("active", "[]")],
        ..Row::new(
            "scenarios off",
            "Turn scenarios off",
            ACTIVATE,
            &["scenarios off", "scenarios off --key sk_test_mine"],
        )
    },
    Row::new(
        "scenarios reload",
        "Read the scenario folders again now",
        Call("POST", "scenarios/reload"),
        &["scenarios reload"],
    ),
    Row {
        arguments: &[CLOCK_KEY],
        ..Row::new(
            "clock show",
            "Show the time of the emulator, or of one key",
            Call("GET", "clock"),
            &["clock show", "clock show --key sk_test_a --json"],
        )
    },
    Row {
        arguments: &[CLOCK_KEY, SETTLE],
        fixed: &[("mode", "\"frozen\"")],
        ..Row::new("clock freeze", "Stop the clock", CLOCK, &["clock freeze"])
    },
    Row {
        arguments: &[
            field("advance", "How far, such as 60s, 5m or 72h").value("DURATION").parsed(Parser::Duration).positional(),
            CLOCK_KEY,
            SETTLE,
        ],
        ..Row::new(
            "clock advance",
            "Move the clock forward: windows open, retries and emissions happen, in order. Returns when everything due is done",
            CLOCK,
            &["clock advance 60s", "clock advance 1h30m"],
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
        ..Row::new(
            "clock set",
            "Set the time: a step forward lets time pass, a step back only changes what is shown",
            CLOCK,
            &["clock set 2026-01-31T09:30:00Z", "clock set 2030-01-01T00:00:00Z --key sk_test_a"],
        )
    },
    Row {
        arguments: &[CLOCK_KEY, SETTLE],
        fixed: &[("mode", "\"real\"")],
        ..Row::new("clock resume", "Let the clock run again from its current time", CLOCK, &["clock resume"])
    },
    Row {
        arguments: &[CLOCK_KEY, SETTLE],
        fixed: &[("mode", "\"follow\"")],
        ..Row::new(
            "clock follow",
            "Let a key's clock follow the emulator's again",
            CLOCK,
            &["clock follow --key sk_test_a"],
        )
    },
    Row {
        arguments: &[
            query("prefix", "Only settings whose names begin with this").positional().optional(),
            query("changed", "Only settings that differ from their default").switch(),
            ONE_KEY,
        ],
        ..Row::new(
            "profile show",
            "Show every setting with its value and where it comes from",
            Call("GET", "profile"),
            &["profile show", "profile show --key sk_test_a --json"],
        )
    },
    Row {
        arguments: &[setting("PATH=VALUE", "The settings to change").parsed(Parser::Assignment), ONE_KEY],
        ..Row::new(
            "profile set",
            "Change settings: `rate_limit.requests=5`. A value that is not valid TOML is taken as a string",
            Call("PATCH", "profile"),
            &[
                "profile set rate_limit.requests=5 rate_limit.window=10s",
                "profile set webhooks.scheme=stripe --key sk_test_a",
            ],
        )
    },
    Row {
        arguments: &[setting("PATH", "The settings, or groups of them, to restore"), ONE_KEY],
        ..Row::new(
            "profile unset",
            "Undo changes to a setting, or to a group of settings such as `rate_limit`",
            Call("PATCH", "profile"),
            &["profile unset rate_limit.requests"],
        )
    },
    Row {
        arguments: &[
            OWN_KEY,
            query("all", "Every workspace, the journal, the clock, and everything changed over the control API")
                .switch(),
        ],
        ..Row::new(
            "reset",
            "Forget what a key did, or everything",
            Call("POST", "reset"),
            &[
                "reset --key sk_test_a  # forget what one key did",
                "reset --all  # as after the start: every key, the journal, the clock, scenarios",
            ],
        )
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
