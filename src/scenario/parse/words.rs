//! Every key of the language with what it means: the parser, its hints and the JSON Schema read these tables.

/// One key and its meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

/// A kind of table: what it is called in messages, and its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    /// As in "unknown key in …".
    pub(crate) place: &'static str,
    /// Keys that another kind of table has as well, with the same meaning.
    shared: &'static [Key],
    own: &'static [Key],
}

impl Words {
    /// Every key, the shared ones first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.shared.iter().chain(self.own)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.keys().any(|key| key.name == name)
    }
}

macro_rules! keys {
    ($($key:literal: $meaning:literal),+ $(,)?) => { &[$(Key { name: $key, meaning: $meaning }),+] };
}

macro_rules! words {
    ($name:ident, $place:literal, { $($keys:tt)+ }) => { words!($name, $place, &[], { $($keys)+ }); };
    ($name:ident, $place:literal, $shared:expr, { $($keys:tt)+ }) => {
        pub(crate) const $name: Words = Words { place: $place, shared: $shared, own: keys!($($keys)+) };
    };
}

/// What a request looks like.
const REQUEST: &[Key] = keys! {
    "operation": "the operation's name, or a list of names",
    "method": "the HTTP method",
    "path": "the path; in a string, * matches any text without a slash, ** any text, ? one character",
    "query": "query parameters by name",
    "header": "headers by name",
    "body": "places in the JSON body by JSON pointer",
    "key": "the API key",
};

words!(FILE, "a scenario", {
    "title": "one line that says what the story is",
    "description": "what happens and what a good client does, for people",
    "profile": "knobs in force while the scenario is active; `wrs-emulator assumptions` lists them",
    "given": "state put in place at activation",
    "rule": "what happens to a request; the first rule that applies decides",
    "emit": "an event that is fired",
});
words!(GIVEN, "`given`", {
    "subscription": "a webhook subscription that is there from the start",
    "workflow": "a workflow that is there from the start (preview)",
    "user": "a user that is there from the start (preview); any fields",
});
words!(SUBSCRIPTION, "a `[[given.subscription]]`", {
    "url": "where events go: an https URL",
    "events": "the event types subscribed to",
    "secret": "the signing secret; generated if left out",
    "description": "a short label",
});
words!(WORKFLOW, "a `[[given.workflow]]`", {
    "id": "form wf_<id>; generated if left out",
    "name": "a label",
    "reference": "the reference it is about",
    "status": "running, completed or cancelled; running if left out",
});
words!(RULE, "a `[[rule]]`", {
    "name": "what listings and explanations call the rule",
    "when": "what a request must look like; every request if left out",
    "skip": "matching requests let through first",
    "times": "how often the rule applies; without end if left out",
    "every": "apply to each nth matching request",
    "chance": "apply with this probability, greater than 0 and at most 1; fixed by --seed",
    "from": "apply from this time after activation on",
    "to": "apply until this time after activation",
    "next": "the step that the story moves to once the rule is used up; with { step = …, status = … }, only after an answer with this status",
    "reply": "a scripted answer in place of the ordinary one",
    "patch": "fields merged into the ordinary answer's JSON body (RFC 7396)",
    "remove": "JSON pointers of what is deleted from the ordinary answer's body",
    "delay": "how long the answer is held back",
    "fault": "something that goes wrong on the connection",
    "pass": "true: the ordinary answer, and no later rule applies",
    "sequence": "steps played one after the other, request by request",
    "then": "what follows the sequence: end (as if left out), stay at its last step, or repeat it",
});
words!(WHEN, "`when`", REQUEST, {
    "step": "the step at which the story must be; it begins at \"start\"",
});
words!(NEXT, "`next`", {
    "step": "the step that the story moves to",
    "status": "the status that the answer must have; an ordinary answer with another one does not count towards `times`",
});
words!(MATCHER, "a matcher", {
    "equals": "is this value",
    "contains": "text: holds this part; list: has this entry; object: has this key",
    "starts_with": "begins with this text",
    "ends_with": "ends with this text",
    "matches": "matches this regular expression, anywhere unless ^ and $ are used",
    "one_of": "is one of these values",
    "present": "true: is there; false: is not there",
    "not": "the matcher given here does not hold",
    "lt": "is a number less than this",
    "gt": "is a number greater than this",
});
words!(REPLY, "`reply`", {
    "error": "a contract error by its name, with the status, code and headers that belong to it",
    "status": "the HTTP status, 200 to 599",
    "code": "`error.code` of the answer",
    "message": "`error.message` of the answer; may use templates",
    "headers": "further headers, by name",
    "body": "a body in place of the error envelope: a string, or a table or array sent as JSON; may use templates",
});
words!(STEP, "a sequence step", REPLY.own, {
    "reply": "a scripted answer, where it is not written out in the step itself",
    "patch": "fields merged into the ordinary answer's JSON body (RFC 7396)",
    "remove": "JSON pointers of what is deleted from the ordinary answer's body",
    "delay": "how long the answer is held back",
    "fault": "something that goes wrong on the connection",
    "pass": "true: the ordinary answer",
    "times": "how many requests the step lasts; 1 if left out",
});
words!(DELAY, "`delay`", {
    "min": "the shortest delay",
    "max": "the longest delay; evenly spread between the two",
    "median": "half of the delays are shorter",
    "p99": "99 in 100 of the delays are shorter",
});
words!(FAULT, "`fault`", {
    "kind": "reset, empty, truncate, garbage, stall or drip",
    "bytes": "truncate and stall: body bytes sent first; garbage: how many; drip: how many at a time",
    "duration": "stall: how long the silence lasts; until the client leaves if left out",
    "interval": "drip: time from one piece to the next",
});
words!(EMIT, "an `[[emit]]`", {
    "name": "what `trigger --emit NAME` and listings call it",
    "event": "the event type",
    "on": "what sets it off: \"activation\", \"command\", { every = … }, { after = … }, or an answered request",
    "data": "the event's data; may use templates; the profile's for the type if left out",
    "delay": "from the trigger to the first event",
    "times": "events for each trigger; with `every`, events in all",
    "interval": "from one event to the next",
    "delivery": "what happens to the deliveries",
});
words!(ON, "`on`", REQUEST, {
    "status": "the status of the answer",
    "every": "again and again, from activation on",
    "after": "once, so long after activation",
});
words!(DELIVERY, "`delivery`", {
    "tamper": "what is falsified: body, signature, secret, timestamp, future_timestamp or headers",
    "duplicate": "copies of each delivery in all",
    "shuffle": "true: the events of one trigger go out in another order",
    "drop": "true: nothing is delivered, as if it were lost",
});

/// Every kind of table, for hints about keys that stand in the wrong one.
pub(crate) const ALL: &[Words] =
    &[FILE, GIVEN, SUBSCRIPTION, WORKFLOW, RULE, WHEN, NEXT, MATCHER, REPLY, STEP, DELAY, FAULT, EMIT, ON, DELIVERY];
