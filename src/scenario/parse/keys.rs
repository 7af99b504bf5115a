//! Every key of the language, with what its value looks like and what it means: the reader, its hints, the JSON Schema and the
//! page about the language use these tables.

use serde_json::{Value, json};

use super::kinds::{ANY, KeyRule, KeySpec, TableKeys, ValueKind as Kind, any_of, reference};
use crate::contract::error::ErrorKind;
use crate::contract::rules::url_schema;
use crate::contract::signature::Tamper;
use crate::scenario::action::Fault;

/// Headers that belong to the message's framing; a scripted value would break the connection, which is what faults are for.
pub(crate) const FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "connection", "upgrade", "trailer"];
/// Headers with which the emulator names its own answers; a script must not forge them.
pub(crate) const OWN_PREFIX: &str = "x-emulator-";
/// What a header's name looks like (RFC 9110).
const HEADER_NAME: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

const EVENTS: Kind = Kind::Array(
    "an array of event types",
    "array of event types",
    || json!({"type": "array", "minItems": 1, "items": reference("event")}),
);
const OPERATIONS: Kind = Kind::Form("operation, or array of them", || reference("operation"));
const POINTERS: Kind = Kind::Form("JSON pointer, or array of them", || {
    let pointer = json!({"type": "string", "pattern": "^/"});
    json!({"anyOf": [pointer, {"type": "array", "items": pointer}]})
});
const CONDITION: Kind = Kind::Form("value, or a matcher", || reference("condition"));
const CONDITIONS: Kind = Kind::Fields(
    "a table of names",
    "table: name to value, or to a matcher",
    || json!({"type": "object", "additionalProperties": reference("condition")}),
);
const HEADER_CONDITIONS: Kind = Kind::Fields(
    "a table of names",
    "table: name to value, or to a matcher",
    || json!({"type": "object", "propertyNames": {"pattern": HEADER_NAME}, "additionalProperties": reference("condition")}),
);
const BODY_CONDITIONS: Kind = Kind::Fields("a table of names", "table: JSON pointer to value, or to a matcher", || {
    let condition = json!({"anyOf": [{"type": ["string", "number", "boolean", "array"]}, reference("matcher")]});
    json!({"type": "object", "additionalProperties": false, "patternProperties": {"^(/|$)": condition}})
});
const HEADERS: Kind = Kind::Fields("a table of names and strings", "table: name to string or integer", || {
    let scripted = format!("^({}|{}.*)$", FRAMING.map(in_any_case).join("|"), in_any_case(OWN_PREFIX));
    let names = json!({"pattern": HEADER_NAME, "not": {"pattern": scripted}});
    // Visible ASCII, and no template.
    let text = json!({"type": "string", "pattern": r"^[\t -~]*$", "not": {"pattern": r"\{[{%]"}});
    json!({"type": "object", "propertyNames": names, "additionalProperties": {"anyOf": [text, {"type": "integer"}]}})
});
const PATTERN: Kind = Kind::TextOf(|| {
    // The format knows only the expressions of JavaScript, which has neither flags in the middle nor this form of named groups.
    json!({"type": "string", "anyOf": [{"format": "regex"}, {"pattern": r"\(\?(P<|[a-zA-Z-]+[:)])"}]})
});
const URL: Kind = Kind::TextOf(|| url_schema(true));
const WORKFLOW_ID: Kind = Kind::TextOf(|| json!({"type": "string", "pattern": "^wf_"}));
const ANYTHING: Kind = Kind::Form("any value", || json!({}));
const ARRAY: Kind = Kind::Array("an array of values", "array", || json!({"type": "array"}));
const ANY_TABLE: Kind = Kind::Fields("a table of fields", "table", free_form);
const ANY_TABLES: Kind =
    Kind::Array("an array of tables", "array of tables", || json!({"type": "array", "items": free_form()}));
const SETTINGS: Kind = Kind::Fields("a table of settings", "table of settings", || reference("profile"));

/// A table with any keys, which readers such as Tombi expect to be stated.
fn free_form() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

/// A pattern of a name in upper case, lower case or both: the patterns of JSON Schema have no flags.
fn in_any_case(name: &str) -> String {
    let both = |c: char| match c {
        'a'..='z' => format!("[{}{c}]", c.to_ascii_uppercase()),
        _ => c.to_string(),
    };
    name.chars().map(both).collect()
}

macro_rules! keys {
    ($($key:literal: $kind:expr, $meaning:literal;)+) => { &[$(KeySpec { name: $key, kind: $kind, meaning: $meaning }),+] };
}

macro_rules! table {
    ($name:ident, $definition:literal, $place:literal, $required:expr => $parts:expr) => {
        table!($name, $definition, $place, $required => $parts, []);
    };
    ($name:ident, $definition:literal, $place:literal, $required:expr => $parts:expr, $rules:expr) => {
        pub(crate) const $name: TableKeys = TableKeys {
            definition: $definition,
            place: $place,
            required: &$required,
            parts: &$parts,
            rules: &$rules,
        };
    };
}

/// Most events of one trigger, or of one `every`.
const MAX_EVENTS: u64 = 100_000;
/// Most body bytes that a fault names.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// What a request looks like.
const REQUEST: &[KeySpec] = keys! {
    "operation": OPERATIONS, "the operation's name, or a list of names";
    "method": CONDITION, "the HTTP method";
    "path": CONDITION, "the path; in a string, * matches any text without a slash, ** any text, ? one character";
    "query": CONDITIONS, "query parameters by name";
    "header": HEADER_CONDITIONS, "headers by name";
    "body": BODY_CONDITIONS, "places in the JSON body by JSON pointer";
    "key": CONDITION, "the API key";
};

/// A scripted answer.
const ANSWER: &[KeySpec] = keys! {
    "error": Kind::OneOf(|| ErrorKind::ALL.map(ErrorKind::name).to_vec()), "a contract error by its name, with the status, code and headers that belong to it";
    "status": Kind::Integer(200, 599), "the HTTP status, 200 to 599";
    "code": Kind::Name, "`error.code` of the answer";
    "message": Kind::Text, "`error.message` of the answer; may use templates";
    "headers": HEADERS, "further headers, by name";
    "body": ANYTHING, "a body instead of the error envelope: a string, or a table or array sent as JSON; may use templates";
    "templates": Kind::Boolean, "false: double braces in `message` and `body` are text; true if left out";
};

/// Keys of an answer that are sent as they are only with an `error` or a `status`.
const REPLY_RULES: &[KeyRule] = &[
    KeyRule::Excludes(
        &["body"],
        &["code", "message"],
        "the body takes the place of the error envelope",
        "write the whole answer in `body`, or drop it",
    ),
    // What must not be together with a status.
    KeyRule::Never(|| {
        let in_body = any_of(&["body", "code", "message", "error"]);
        json!({"required": ["status"], "properties": {"status": {"enum": [204, 304]}}, "allOf": [in_body]})
    }),
    KeyRule::Never(|| json!({"required": ["status", "error"], "properties": {"status": {"maximum": 299}}})),
    KeyRule::Never(|| {
        let success = json!({"status": {"maximum": 399}});
        let of_an_error = any_of(&["code", "message"]);
        json!({"required": ["status"], "not": any_of(&["error"]), "properties": success, "allOf": [of_an_error]})
    }),
    KeyRule::Never(|| {
        let parts = any_of(&["code", "message", "headers", "body"]);
        json!({"not": any_of(&["error", "status"]), "allOf": [parts]})
    }),
];

/// A request has one answer; `patch` and `remove` belong together.
const ONE_ANSWER: &[KeyRule] = &[
    KeyRule::Excludes(&["reply"], &["fault", "pass", "patch", "remove"], "a request has one answer", KEEP_ONE),
    KeyRule::Excludes(&["fault"], &["pass", "patch", "remove"], "a request has one answer", KEEP_ONE),
    KeyRule::Excludes(&["pass"], &["patch", "remove"], "a request has one answer", KEEP_ONE),
];
const KEEP_ONE: &str = "keep one of the two";

/// What happens to an answer that is not replaced.
const CHANGES: &[KeySpec] = keys! {
    "patch": ANY_TABLE, "fields merged into the ordinary answer's JSON body (RFC 7396)";
    "remove": POINTERS, "JSON pointers of what is deleted from the ordinary answer's body";
    "delay": Kind::Delay(&DELAY), "how long the answer is held back";
    "fault": Kind::NameOr(fault_names, &FAULT), "something that goes wrong on the connection";
};

table!(FILE, "file", "a scenario", [] => [keys! {
    "title": Kind::Name, "one line that says what the story is";
    "description": Kind::Text, "what happens and what a good client does, for people";
    "profile": SETTINGS, "settings in force while the scenario is active; `wrs-emulator assumptions` lists them";
    "given": Kind::Table(&GIVEN), "state put in place at activation";
    "rule": Kind::Tables(&RULE), "what happens to a request; the first rule that applies decides";
    "emit": Kind::Tables(&EMIT), "an event that is fired";
}], [&[KeyRule::NotEmpty]]);
table!(GIVEN, "given", "`given`", [] => [keys! {
    "subscription": Kind::Tables(&SUBSCRIPTION), "a webhook subscription that exists from the start";
    "workflow": Kind::Tables(&WORKFLOW), "a workflow that exists from the start (preview)";
    "user": ANY_TABLES, "a user that exists from the start (preview); any fields";
}]);
table!(SUBSCRIPTION, "subscription", "a `[[given.subscription]]`", ["url", "events"] => [keys! {
    "url": URL, "where events go: an https URL";
    "events": EVENTS, "the event types subscribed to";
    "secret": Kind::Name, "the signing secret; generated if left out";
    "description": Kind::Text, "a short label";
}]);
table!(WORKFLOW, "workflow", "a `[[given.workflow]]`", [] => [keys! {
    "id": WORKFLOW_ID, "form wf_<id>; generated if left out";
    "name": Kind::Name, "a label";
    "reference": Kind::Name, "the reference it is about";
    "status": Kind::OneOf(|| vec!["running", "completed", "cancelled"]), "running, completed or cancelled; running if left out";
}]);
table!(RULE, "rule", "a `[[rule]]`", [] => [keys! {
    "name": Kind::Name, "what listings and explanations call the rule";
    "when": Kind::Table(&WHEN), "what a request must look like; every request if left out";
    "skip": Kind::Integer(0, ANY), "matching requests let through first";
    "times": Kind::Integer(1, ANY), "how often the rule applies; without limit if left out";
    "every": Kind::Integer(1, ANY), "apply to each nth matching request";
    "chance": Kind::Chance, "apply with this probability, greater than 0 and at most 1; fixed by --seed";
    "from": Kind::Duration, "apply from this long after activation";
    "to": Kind::Duration, "apply until this long after activation";
    "next": Kind::TextOr(&NEXT), "the step that the story moves to once the rule is used up; with { step = …, status = … }, only after an answer with this status";
    "reply": Kind::Table(&REPLY), "a scripted answer instead of the ordinary one";
}, CHANGES, keys! {
    "pass": Kind::True, "true: the ordinary answer, and no later rule applies";
    "sequence": Kind::Steps(&STEP), "steps played one after the other, request by request";
    "then": Kind::OneOf(|| vec!["end", "stay", "repeat"]), "what follows the sequence: end (the default), stay at its last step, or repeat it";
}], [
    &[
        KeyRule::Excludes(
            &["sequence"],
            &["reply", "patch", "remove", "fault", "pass", "delay"],
            "each step of the sequence says what it does",
            KEEP_ONE,
        ),
        KeyRule::Needs("then", "sequence", "add `sequence`, or use `next` for a story's step"),
        KeyRule::AnyOf(&["reply", "patch", "remove", "delay", "fault", "sequence", "pass", "next"]),
    ],
    ONE_ANSWER,
]);
table!(WHEN, "when", "`when`", [] => [REQUEST, keys! {
    "step": Kind::Name, "the step at which the story must be; it begins at \"start\"";
}]);
table!(NEXT, "next", "`next`", ["step"] => [keys! {
    "step": Kind::Name, "the step that the story moves to";
    "status": Kind::Integer(200, 599), "the status that the answer must have; an ordinary answer with another one does not count towards `times`";
}]);
table!(MATCHER, "matcher", "a matcher", [] => [keys! {
    "equals": ANYTHING, "is this value";
    "contains": ANYTHING, "text: contains this part; list: has this entry; object: has this key";
    "starts_with": Kind::Text, "begins with this text";
    "ends_with": Kind::Text, "ends with this text";
    "matches": PATTERN, "matches this regular expression, anywhere unless ^ and $ are used";
    "one_of": ARRAY, "is one of these values";
    "present": Kind::Boolean, "true: exists; false: does not exist";
    "not": CONDITION, "the matcher given here does not match";
    "lt": Kind::Number, "is a number less than this";
    "gt": Kind::Number, "is a number greater than this";
}], [&[KeyRule::NotEmpty]]);
table!(REPLY, "reply", "`reply`", [] => [ANSWER], [&[KeyRule::AnyOf(&["error", "status"])], REPLY_RULES]);
table!(STEP, "step", "a sequence step", [] => [ANSWER, keys! {
    "reply": Kind::Table(&REPLY), "a scripted answer, where it is not written out in the step itself";
}, CHANGES, keys! {
    "pass": Kind::True, "true: the ordinary answer";
    "times": Kind::Integer(1, ANY), "how many requests the step lasts; 1 if left out";
}], [
    &[
        KeyRule::Excludes(
            &["error", "status", "code", "message", "headers", "body"],
            &["reply", "fault", "pass", "patch", "remove"],
            "the step's answer is written out already",
            KEEP_ONE,
        ),
        KeyRule::AnyOf(&["error", "status", "reply", "patch", "remove", "delay", "fault", "pass"]),
    ],
    REPLY_RULES,
    ONE_ANSWER,
]);
table!(DELAY, "delay", "`delay`", [] => [keys! {
    "min": Kind::Duration, "the shortest delay";
    "max": Kind::Duration, "the longest delay; evenly spread between the two";
    "median": Kind::Duration, "half of the delays are shorter";
    "p99": Kind::Duration, "99 in 100 of the delays are shorter";
}]);
table!(FAULT, "fault", "`fault`", ["kind"] => [keys! {
    "kind": Kind::OneOf(fault_names), "reset, empty, truncate, garbage, stall or drip";
    "bytes": Kind::Integer(0, MAX_BYTES), "truncate and stall: body bytes sent first; garbage: how many; drip: how many at a time";
    "duration": Kind::Duration, "stall: how long the silence lasts; until the client leaves if left out";
    "interval": Kind::Duration, "drip: time from one piece to the next";
}], [&[
    KeyRule::Takes("kind", &[
        ("reset", &[]),
        ("empty", &[]),
        ("truncate", &["bytes"]),
        ("garbage", &["bytes"]),
        ("stall", &["bytes", "duration"]),
        ("drip", &["bytes", "interval"]),
    ]),
    KeyRule::Never(|| {
        let nothing = json!({"kind": {"enum": ["garbage", "drip"]}, "bytes": {"maximum": 0}});
        json!({"required": ["kind", "bytes"], "properties": nothing})
    }),
]]);
table!(EMIT, "emit", "an `[[emit]]`", ["event", "on"] => [keys! {
    "name": Kind::Name, "what `trigger --emit NAME` and listings call it";
    "event": Kind::Text, "the event type";
    "on": Kind::NameOr(|| vec!["activation", "command"], &ON), "what sets it off: \"activation\", \"command\", { every = … }, { after = … }, or an answered request";
    "data": ANY_TABLE, "the event's data; may use templates; if left out, the profile's data for the type";
    "delay": Kind::Delay(&DELAY), "from the trigger to the first event";
    "times": Kind::Integer(1, MAX_EVENTS), "events for each trigger; with `every`, events in all";
    "interval": Kind::Duration, "from one event to the next";
    "delivery": Kind::Table(&DELIVERY), "what happens to the deliveries";
}], [&[KeyRule::Never(|| {
    let periodic = json!({"on": {"type": "object", "required": ["every"]}});
    json!({"required": ["on", "interval"], "properties": periodic})
})]]);
table!(ON, "on", "`on`", [] => [REQUEST, keys! {
    "status": Kind::Integer(200, 599), "the status of the answer";
    "every": Kind::Duration, "again and again, from activation on";
    "after": Kind::Duration, "once, this long after activation";
}], [&[
    KeyRule::Excludes(&["every"], &["after"], "there is one trigger", KEEP_ONE),
    KeyRule::Excludes(
        &["every", "after"],
        &["operation", "method", "path", "query", "header", "body", "key", "status"],
        "there is one trigger",
        "write a second `[[emit]]`",
    ),
    KeyRule::NotEmpty,
]]);
table!(DELIVERY, "delivery", "`delivery`", [] => [keys! {
    "tamper": Kind::OneOf(|| Tamper::ALL.map(Tamper::name).to_vec()), "what is falsified: body, signature, secret, timestamp, future_timestamp or headers";
    "duplicate": Kind::Integer(1, 100), "copies of each delivery in all";
    "shuffle": Kind::Boolean, "true: the events of one trigger go out in another order";
    "drop": Kind::Boolean, "true: nothing is delivered, as if it were lost";
}]);

fn fault_names() -> Vec<&'static str> {
    Fault::NAMES.to_vec()
}

/// Every kind of table, in the order of the page about the language.
pub(crate) const TABLES: &[TableKeys] =
    &[FILE, GIVEN, SUBSCRIPTION, WORKFLOW, RULE, WHEN, NEXT, MATCHER, REPLY, STEP, DELAY, FAULT, EMIT, ON, DELIVERY];
