//! Every key of the language, with what its value looks like and what it means: the reader, its hints, the JSON Schema and the
//! page about the language use these tables.

use serde_json::{Value, json};

use crate::contract::error::ErrorKind;
use crate::contract::signature::Tamper;
use crate::scenario::action::Fault;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) meaning: &'static str,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    /// A text that must not be empty.
    Name,
    /// An integer from the first to the second.
    Integer(u64, u64),
    /// One of these names.
    OneOf(Names),
    /// A duration, or two between which it lies.
    Delay,
    Table(&'static TableKeys),
    Tables(&'static TableKeys),
    /// The steps of a sequence, at least one.
    Steps,
    /// One of these names, or a table.
    NameOr(Names, &'static TableKeys),
    /// Any name, or a table.
    TextOr(&'static TableKeys),
    /// Any other form: as the page about the language shows it, and its schema.
    Form(&'static str, fn() -> Value),
}

const NUMBER: Kind = Kind::Form("number", || json!({"type": "number"}));
const CHANCE: Kind =
    Kind::Form("number, above 0, at most 1", || json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}));
const BOOLEAN: Kind = Kind::Form("boolean", || json!({"type": "boolean"}));
const TRUE: Kind = Kind::Form("`true`", || json!({"const": true}));
const DURATION: Kind = Kind::Form("duration", || reference("duration"));
const EVENTS: Kind =
    Kind::Form("array of event types", || json!({"type": "array", "minItems": 1, "items": reference("event")}));
const OPERATIONS: Kind = Kind::Form("operation, or array of them", || reference("operation"));
const POINTERS: Kind = Kind::Form("JSON pointer, or array of them", || {
    let pointer = json!({"type": "string", "pattern": "^/"});
    json!({"anyOf": [pointer, {"type": "array", "items": pointer}]})
});
const CONDITION: Kind = Kind::Form("value, or a matcher", || reference("condition"));
const CONDITIONS: Kind = Kind::Form(
    "table: name to value, or to a matcher",
    || json!({"type": "object", "additionalProperties": reference("condition")}),
);
const BODY_CONDITIONS: Kind = Kind::Form(
    "table: JSON pointer to value, or to a matcher",
    || json!({"type": "object", "additionalProperties": false, "patternProperties": {"^(/|$)": reference("condition")}}),
);
const HEADERS: Kind = Kind::Form(
    "table: name to string or integer",
    || json!({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
);
const ANYTHING: Kind = Kind::Form("any value", || json!({}));
const ARRAY: Kind = Kind::Form("array", || json!({"type": "array"}));
const ANY_TABLE: Kind = Kind::Form("table", free_form);
const ANY_TABLES: Kind = Kind::Form("array of tables", || json!({"type": "array", "items": free_form()}));
const SETTINGS: Kind = Kind::Form("table of settings", || reference("profile"));

impl Kind {
    /// As the page about the language shows it.
    pub(crate) fn text(self) -> String {
        let names = |names: Names| names().iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ");
        match self {
            Self::Text | Self::Name => "string".to_owned(),
            Self::Integer(least, ANY) => format!("integer, at least {least}"),
            Self::Integer(least, most) => format!("integer, {least} to {most}"),
            Self::OneOf(choices) => names(choices),
            Self::Delay => format!("duration, or table {}", DELAY.place),
            Self::Table(table) => format!("table {}", table.place),
            Self::Tables(table) => format!("array, each {}", table.place),
            Self::Steps => format!("array, each {}", STEP.place),
            Self::NameOr(choices, table) => format!("{}, or table {}", names(choices), table.place),
            Self::TextOr(table) => format!("string, or table {}", table.place),
            Self::Form(text, _) => text.to_owned(),
        }
    }

    /// Its JSON Schema.
    pub(crate) fn schema(self) -> Value {
        match self {
            Self::Text | Self::Name => json!({"type": "string"}),
            Self::Integer(least, ANY) => json!({"type": "integer", "minimum": least}),
            Self::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::OneOf(names) => json!({"enum": names()}),
            Self::Delay => json!({"anyOf": [reference("duration"), spread("min", "max"), spread("median", "p99")]}),
            Self::Table(table) => reference(table.definition),
            Self::Tables(table) => json!({"type": "array", "items": reference(table.definition)}),
            Self::Steps => json!({"type": "array", "minItems": 1, "items": reference(STEP.definition)}),
            Self::NameOr(names, table) => json!({"anyOf": [{"enum": names()}, reference(table.definition)]}),
            Self::TextOr(table) => json!({"anyOf": [{"type": "string"}, reference(table.definition)]}),
            Self::Form(_, schema) => schema(),
        }
    }
}

pub(crate) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// A table with any keys, which readers such as Tombi expect to be stated.
fn free_form() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

fn spread(low: &str, high: &str) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": [low, high],
        "properties": {low: reference("duration"), high: reference("duration")},
    })
}

/// The names that a value may be.
pub(crate) type Names = fn() -> Vec<&'static str>;

/// A kind of table: what it is called in messages, and its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableKeys {
    /// The name of its definition in the schema.
    pub(crate) definition: &'static str,
    /// As in "unknown key in …".
    pub(crate) place: &'static str,
    /// Keys that must be there.
    pub(crate) required: &'static [&'static str],
    /// Its keys; some lists are those of another kind of table as well.
    parts: &'static [&'static [Key]],
}

impl TableKeys {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.parts.iter().copied().flatten()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(crate) fn kind(&self, name: &str) -> Option<Kind> {
        self.find(name).map(|key| key.kind)
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys().map(|key| key.name).collect()
    }

    /// The keys of the table, or of the tables, at a key.
    pub(crate) fn inner(&self, name: &str) -> Option<&'static Self> {
        match self.kind(name)? {
            Kind::Table(keys) | Kind::Tables(keys) | Kind::NameOr(_, keys) | Kind::TextOr(keys) => Some(keys),
            Kind::Steps => Some(&STEP),
            Kind::Delay => Some(&DELAY),
            _ => None,
        }
    }
}

macro_rules! keys {
    ($($key:literal: $kind:expr, $meaning:literal;)+) => { &[$(Key { name: $key, kind: $kind, meaning: $meaning }),+] };
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
const ANY: u64 = u64::MAX;

/// What a request looks like.
const REQUEST: &[Key] = keys! {
    "operation": OPERATIONS, "the operation's name, or a list of names";
    "method": CONDITION, "the HTTP method";
    "path": CONDITION, "the path; in a string, * matches any text without a slash, ** any text, ? one character";
    "query": CONDITIONS, "query parameters by name";
    "header": CONDITIONS, "headers by name";
    "body": BODY_CONDITIONS, "places in the JSON body by JSON pointer";
    "key": CONDITION, "the API key";
};

/// A scripted answer.
const ANSWER: &[Key] = keys! {
    "error": Kind::OneOf(|| ErrorKind::ALL.map(ErrorKind::name).to_vec()), "a contract error by its name, with the status, code and headers that belong to it";
    "status": Kind::Integer(200, 599), "the HTTP status, 200 to 599";
    "code": Kind::Name, "`error.code` of the answer";
    "message": Kind::Text, "`error.message` of the answer; may use templates";
    "headers": HEADERS, "further headers, by name";
    "body": ANYTHING, "a body in place of the error envelope: a string, or a table or array sent as JSON; may use templates";
};

/// What happens to an answer that is not replaced.
const CHANGES: &[Key] = keys! {
    "patch": ANY_TABLE, "fields merged into the ordinary answer's JSON body (RFC 7396)";
    "remove": POINTERS, "JSON pointers of what is deleted from the ordinary answer's body";
    "delay": Kind::Delay, "how long the answer is held back";
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
    "chance": CHANCE, "apply with this probability, greater than 0 and at most 1; fixed by --seed";
    "from": DURATION, "apply from this long after activation";
    "to": DURATION, "apply until this long after activation";
    "next": Kind::TextOr(&NEXT), "the step that the story moves to once the rule is used up; with { step = …, status = … }, only after an answer with this status";
    "reply": Kind::Table(&REPLY), "a scripted answer in place of the ordinary one";
}, CHANGES, keys! {
    "pass": TRUE, "true: the ordinary answer, and no later rule applies";
    "sequence": Kind::Steps, "steps played one after the other, request by request";
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
    "present": BOOLEAN, "true: is there; false: is not there";
    "not": CONDITION, "the matcher given here does not match";
    "lt": NUMBER, "is a number less than this";
    "gt": NUMBER, "is a number greater than this";
}]);
table!(REPLY, "reply", "`reply`", [] => [ANSWER]);
table!(STEP, "step", "a sequence step", [] => [ANSWER, keys! {
    "reply": Kind::Table(&REPLY), "a scripted answer, where it is not written out in the step itself";
}, CHANGES, keys! {
    "pass": TRUE, "true: the ordinary answer";
    "times": Kind::Integer(1, ANY), "how many requests the step lasts; 1 if left out";
}]);
table!(DELAY, "delay", "`delay`", [] => [keys! {
    "min": DURATION, "the shortest delay";
    "max": DURATION, "the longest delay; evenly spread between the two";
    "median": DURATION, "half of the delays are shorter";
    "p99": DURATION, "99 in 100 of the delays are shorter";
}]);
table!(FAULT, "fault", "`fault`", ["kind"] => [keys! {
    "kind": Kind::OneOf(fault_names), "reset, empty, truncate, garbage, stall or drip";
    "bytes": Kind::Integer(0, MOST_BYTES), "truncate and stall: body bytes sent first; garbage: how many; drip: how many at a time";
    "duration": DURATION, "stall: how long the silence lasts; until the client leaves if left out";
    "interval": DURATION, "drip: time from one piece to the next";
}]);
table!(EMIT, "emit", "an `[[emit]]`", ["event", "on"] => [keys! {
    "name": Kind::Name, "what `trigger --emit NAME` and listings call it";
    "event": Kind::Text, "the event type";
    "on": Kind::NameOr(|| vec!["activation", "command"], &ON), "what sets it off: \"activation\", \"command\", { every = … }, { after = … }, or an answered request";
    "data": ANY_TABLE, "the event's data; may use templates; if left out, the profile's data for the type";
    "delay": Kind::Delay, "from the trigger to the first event";
    "times": Kind::Integer(1, MOST_EVENTS), "events for each trigger; with `every`, events in all";
    "interval": DURATION, "from one event to the next";
    "delivery": Kind::Table(&DELIVERY), "what happens to the deliveries";
}]);
table!(ON, "on", "`on`", [] => [REQUEST, keys! {
    "status": Kind::Integer(200, 599), "the status of the answer";
    "every": DURATION, "again and again, from activation on";
    "after": DURATION, "once, this long after activation";
}]);
table!(DELIVERY, "delivery", "`delivery`", [] => [keys! {
    "tamper": Kind::OneOf(|| Tamper::ALL.map(Tamper::name).to_vec()), "what is falsified: body, signature, secret, timestamp, future_timestamp or headers";
    "duplicate": Kind::Integer(1, 100), "copies of each delivery in all";
    "shuffle": BOOLEAN, "true: the events of one trigger go out in another order";
    "drop": BOOLEAN, "true: nothing is delivered, as if it were lost";
}]);

fn fault_names() -> Vec<&'static str> {
    Fault::NAMES.to_vec()
}

/// Every kind of table, in the order of the page about the language.
pub(crate) const TABLES: &[TableKeys] =
    &[FILE, GIVEN, SUBSCRIPTION, WORKFLOW, RULE, WHEN, NEXT, MATCHER, REPLY, STEP, DELAY, FAULT, EMIT, ON, DELIVERY];
