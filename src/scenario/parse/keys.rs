//! Every key of the language, with what its value looks like and what it means: the reader, its hints, the JSON Schema and the
//! page about the language use these tables.

use serde_json::{Value, json};

use super::kinds::{ANY, KeySpec, TableKeys, ValueKind as Kind, reference};
use crate::contract::error::ErrorKind;
use crate::contract::signature::Tamper;
use crate::scenario::action::Fault;

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
const BODY_CONDITIONS: Kind = Kind::Fields(
    "a table of names",
    "table: JSON pointer to value, or to a matcher",
    || json!({"type": "object", "additionalProperties": false, "patternProperties": {"^(/|$)": reference("condition")}}),
);
const HEADERS: Kind = Kind::Fields(
    "a table of names and strings",
    "table: name to string or integer",
    || json!({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
);
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

macro_rules! keys {
    ($($key:literal: $kind:expr, $meaning:literal;)+) => { &[$(KeySpec { name: $key, kind: $kind, meaning: $meaning }),+] };
}

macro_rules! table {
    ($name:ident, $definition:literal, $place:literal, $required:expr => $parts:expr) => {
        pub(crate) const $name: TableKeys =
            TableKeys { definition: $definition, place: $place, required: &$required, parts: &$parts };
    };
}

/// Most events of one trigger, or of one `every`.
const MOST_EVENTS: u64 = 100_000;
/// Most body bytes that a fault names.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// What a request looks like.
const REQUEST: &[KeySpec] = keys! {
    "operation": OPERATIONS, "the operation's name, or a list of names";
    "method": CONDITION, "the HTTP method";
    "path": CONDITION, "the path; in a string, * matches any text without a slash, ** any text, ? one character";
    "query": CONDITIONS, "query parameters by name";
    "header": CONDITIONS, "headers by name";
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
    "body": ANYTHING, "a body in place of the error envelope: a string, or a table or array sent as JSON; may use templates";
    "templates": Kind::Boolean, "false: double braces in `message` and `body` are text; true if left out";
};

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
}]);
table!(GIVEN, "given", "`given`", [] => [keys! {
    "subscription": Kind::Tables(&SUBSCRIPTION), "a webhook subscription that is there from the start";
    "workflow": Kind::Tables(&WORKFLOW), "a workflow that is there from the start (preview)";
    "user": ANY_TABLES, "a user that is there from the start (preview); any fields";
}]);
table!(SUBSCRIPTION, "subscription", "a `[[given.subscription]]`", ["url", "events"] => [keys! {
    "url": Kind::Text, "where events go: an https URL";
    "events": EVENTS, "the event types subscribed to";
    "secret": Kind::Name, "the signing secret; generated if left out";
    "description": Kind::Text, "a short label";
}]);
table!(WORKFLOW, "workflow", "a `[[given.workflow]]`", [] => [keys! {
    "id": Kind::Name, "form wf_<id>; generated if left out";
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
    "reply": Kind::Table(&REPLY), "a scripted answer in place of the ordinary one";
}, CHANGES, keys! {
    "pass": Kind::True, "true: the ordinary answer, and no later rule applies";
    "sequence": Kind::Steps(&STEP), "steps played one after the other, request by request";
    "then": Kind::OneOf(|| vec!["end", "stay", "repeat"]), "what follows the sequence: end (the default), stay at its last step, or repeat it";
}]);
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
    "matches": Kind::Text, "matches this regular expression, anywhere unless ^ and $ are used";
    "one_of": ARRAY, "is one of these values";
    "present": Kind::Boolean, "true: is there; false: is not there";
    "not": CONDITION, "the matcher given here does not match";
    "lt": Kind::Number, "is a number less than this";
    "gt": Kind::Number, "is a number greater than this";
}]);
table!(REPLY, "reply", "`reply`", [] => [ANSWER]);
table!(STEP, "step", "a sequence step", [] => [ANSWER, keys! {
    "reply": Kind::Table(&REPLY), "a scripted answer, where it is not written out in the step itself";
}, CHANGES, keys! {
    "pass": Kind::True, "true: the ordinary answer";
    "times": Kind::Integer(1, ANY), "how many requests the step lasts; 1 if left out";
}]);
table!(DELAY, "delay", "`delay`", [] => [keys! {
    "min": Kind::Duration, "the shortest delay";
    "max": Kind::Duration, "the longest delay; evenly spread between the two";
    "median": Kind::Duration, "half of the delays are shorter";
    "p99": Kind::Duration, "99 in 100 of the delays are shorter";
}]);
table!(FAULT, "fault", "`fault`", ["kind"] => [keys! {
    "kind": Kind::OneOf(fault_names), "reset, empty, truncate, garbage, stall or drip";
    "bytes": Kind::Integer(0, MOST_BYTES), "truncate and stall: body bytes sent first; garbage: how many; drip: how many at a time";
    "duration": Kind::Duration, "stall: how long the silence lasts; until the client leaves if left out";
    "interval": Kind::Duration, "drip: time from one piece to the next";
}]);
table!(EMIT, "emit", "an `[[emit]]`", ["event", "on"] => [keys! {
    "name": Kind::Name, "what `trigger --emit NAME` and listings call it";
    "event": Kind::Text, "the event type";
    "on": Kind::NameOr(|| vec!["activation", "command"], &ON), "what sets it off: \"activation\", \"command\", { every = … }, { after = … }, or an answered request";
    "data": ANY_TABLE, "the event's data; may use templates; if left out, the profile's data for the type";
    "delay": Kind::Delay(&DELAY), "from the trigger to the first event";
    "times": Kind::Integer(1, MOST_EVENTS), "events for each trigger; with `every`, events in all";
    "interval": Kind::Duration, "from one event to the next";
    "delivery": Kind::Table(&DELIVERY), "what happens to the deliveries";
}]);
table!(ON, "on", "`on`", [] => [REQUEST, keys! {
    "status": Kind::Integer(200, 599), "the status of the answer";
    "every": Kind::Duration, "again and again, from activation on";
    "after": Kind::Duration, "once, this long after activation";
}]);
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
