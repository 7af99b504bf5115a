//! The tools: each a call of the control API whose text is passed on, or a few of them; and the session in which they are called,
//! with a key of its own. Must not know the protocol.

use std::any::TypeId;
use std::time::Duration;

use clap::{Arg, ArgAction, value_parser};
use rand::Rng as _;
use serde_json::{Map, Value, json};

use crate::cli::call::{field, field_name, takes_list};
use crate::cli::calls::{explain, list_deliveries, list_requests};
use crate::cli::client::{Call, CallPath, Refusal, SHORT};
use crate::cli::failure::Failure;
use crate::cli::target::Target;
use crate::clock::{Random, Seed};
use crate::control::api;
use crate::redact::Redactor;
use crate::scenario::check_text;
use crate::util::duration::parse_duration;
use crate::util::wording::{any_of, counted};

/// Longest that a tool waits: clients of this protocol usually give up after a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(50);

/// One session of an agent. A tool that changes something acts on one key, by default the session's own.
pub(super) struct Session {
    pub(super) target: Target,
    /// The session's own key; so are those that begin with it and `_`.
    pub(super) key: String,
    /// The scenario that `play_scenario` adds.
    scenario: String,
}

impl Session {
    pub(super) fn new(target: Target) -> Self {
        let mut random: Random = Seed::from_entropy().source("mcp");
        let name = format!("{:010x}", random.next_u64() >> 24);
        Self { target, key: format!("sk_test_agent_{name}"), scenario: format!("agent-{name}") }
    }

    /// The text that a call answers. The arguments are its query if it reads, else its body; `wait` is always in the query.
    fn text(&self, route: CallPath, id: &str, mut arguments: Map<String, Value>) -> Result<String, Failure> {
        let call = Call::at(&self.target, route).id(id).limit(LONGEST_WAIT + SHORT).text();
        let call = if route.reads() {
            call.query(&arguments)
        } else {
            match arguments.shift_remove("wait") {
                Some(wait) => call.parameter("wait", wait.as_str().unwrap_or_default()).body(&arguments),
                None => call.body(&arguments),
            }
        };
        let bytes = call.exchanged()?.map_err(Refusal::into_failure)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds the session's own scenario, or replaces it.
    fn add_scenario(&self, toml: &str) -> Result<(), Failure> {
        Call::<api::PutScenario>::to(&self.target).id(&self.scenario).toml(toml).send().map(drop)
    }

    /// Removes the session's own scenario, if it was added and nothing plays it.
    fn remove_scenario(&self) {
        let _ = Call::<api::RemoveScenario>::to(&self.target).id(&self.scenario).outcome();
    }

    /// Refuses a key that is not the session's, or that the emulator serves together with others.
    fn check_own(&self, key: &str) -> Result<(), Failure> {
        let rest = key.strip_prefix(&self.key);
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_')) {
            let message = format!("`{key}` was not made by this session, so it is not reset");
            let hint = format!(
                "your own keys are `{0}` and those that begin with `{0}_`; people reset others with `wrs-emulator reset --key KEY`",
                self.key
            );
            return Err(Failure::usage(message).with_hint(hint));
        }
        let shown = Call::<api::ShowClock>::to(&self.target).key(key).send()?.key;
        match shown.filter(|shown| shown != key) {
            None => Ok(()),
            Some(group) => Err(Failure::usage(format!("`{key}` shares the workspace `{group}`, so it is not reset"))),
        }
    }
}

pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    /// In plain English, for a model.
    description: &'static str,
    effect: Effect,
    route: CallPath,
    arguments: fn() -> Vec<Arg>,
    key: Key,
    run: fn(&Session, &Tool, Arguments) -> Result<String, Failure>,
}

/// What a tool may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    /// It adds something, or changes what can be changed back; a second call may change more.
    Adds,
    /// It changes what can be changed back; a second call changes nothing more.
    Sets,
    /// It cannot be undone.
    Destroys,
}

/// Whose records or state a tool is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    /// It takes no key.
    None,
    /// All keys, or one.
    Any,
    /// The session's key, or one that is named.
    One,
}

/// The arguments of a call, of the types in the tool's schema.
type Arguments = Map<String, Value>;

fn event() -> Vec<Arg> {
    let object = |name, help| field(name, help).value_parser(|text: &str| serde_json::from_str::<Arguments>(text));
    let number = |name, help| field(name, help).value_parser(value_parser!(i64));
    let switch = |name, help| field(name, help).action(ArgAction::SetTrue);
    vec![
        field("type", "The event type, such as workflow.completed. Either this or `emit` is needed"),
        field("emit", "The name of an emission of the active scenarios, in place of a type"),
        object("data", "The whole data"),
        object("set", "Single fields of the data, by dotted path"),
        field("subscription", "Only this subscription, sub_…"),
        number("count", "How many events"),
        field("delay", "Delay of the first attempts by the emulator's clock, such as 5s"),
        field("tamper", "Forge each delivery, which a receiver must refuse: body, signature, secret, timestamp, …"),
        number("duplicate", "Copies of each delivery in all"),
        switch("shuffle", "Send the events in another order"),
        switch("drop", "Deliver nothing, as if it were lost on the way"),
        field("wait", "How long to wait for the receivers' answers: 5s if left out, at most 50s").default_value("5s"),
    ]
}

fn step() -> Vec<Arg> {
    vec![
        field("advance", "How far, such as 60s, 1h30m or 72h"),
        field("set", "The time to set, such as 2026-01-31T09:30:00Z"),
        field("mode", "frozen stops the clock, real lets it run, follow ties it to the emulator's again"),
        field("timeout", "How long to wait until everything due is done: 50s if left out, at most 50s")
            .default_value("50s"),
    ]
}

/// A tool that passes on the text of a call about all keys or one.
const TOOL: Tool = Tool {
    name: "",
    title: "",
    description: "",
    effect: Effect::Reads,
    route: CallPath("GET", "health"),
    arguments: Vec::new,
    key: Key::Any,
    run: called,
};

/// All tools, in the order in which they are listed.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "status",
        title: "Is the emulator running, and what does it play?",
        description: "Start here. Reports whether the emulator is ready, its clock, your own API key for programs under test, \
                      and every scenario; active ones are marked `*`.",
        key: Key::None,
        run: status,
        ..TOOL
    },
    Tool {
        name: "find_requests",
        title: "Which requests did the client make?",
        description: "Lists requests to the emulated API, newest first, each with status and reason of its answer. `explain` shows more.",
        route: CallPath("GET", "requests"),
        arguments: list_requests,
        ..TOOL
    },
    Tool {
        name: "find_deliveries",
        title: "Which webhooks were delivered, and which were not?",
        description: "Lists deliveries of webhooks, newest first, each with its status. `explain` with the id of one shows each attempt.",
        route: CallPath("GET", "deliveries"),
        arguments: list_deliveries,
        ..TOOL
    },
    Tool {
        name: "explain",
        title: "Why this answer, or this delivery?",
        description: "Explains why a request was answered as it was, where an event went and where not, or why a delivery failed \
                      and what to try; then shows the request or delivery whole.",
        arguments: explain,
        run: explained,
        ..TOOL
    },
    Tool {
        name: "check_scenario",
        title: "Is this scenario valid?",
        description: "Checks the TOML text of a scenario without playing it: every problem with its place and a hint. Needs no \
                      running emulator. `wrs-emulator scenarios schema` prints the JSON Schema of the language.",
        arguments: || vec![field("toml", "The text of the scenario, as in a scenario file").required(true)],
        key: Key::None,
        run: checked,
        ..TOOL
    },
    Tool {
        name: "play_scenario",
        title: "Play scenarios for a key",
        description: "Makes scenarios the active ones of one key, in order, in place of its former list. An empty list turns \
                      scenarios off. `status` lists names; `toml` adds one of your own.",
        effect: Effect::Sets,
        arguments: || {
            let active = field("active", "Names of scenarios, in order; the first rule that applies decides");
            let toml = field("toml", "The text of a scenario of your own, which is played after those in `active`");
            vec![active.value_delimiter(','), toml]
        },
        key: Key::One,
        route: CallPath("POST", "scenarios/active"),
        run: played,
    },
    Tool {
        name: "fire_event",
        title: "Fire a webhook event",
        description: "Fires an event at the matching subscriptions of one key and waits for what each receiver answered. Events \
                      that no subscription matches are an error.",
        effect: Effect::Adds,
        arguments: event,
        key: Key::One,
        route: CallPath("POST", "events"),
        run: fired,
    },
    Tool {
        name: "advance_clock",
        title: "Let time pass for a key",
        description: "Moves the clock of one key: quota windows open, retries, delays and planned events happen in order before \
                      the call answers. Give exactly one of `advance`, `set` and `mode`.",
        effect: Effect::Destroys,
        arguments: step,
        key: Key::One,
        route: CallPath("POST", "clock"),
        ..TOOL
    },
    Tool {
        name: "verification",
        title: "Did the run go well?",
        description: "Lists the problems found so far: requests that matched no endpoint, webhooks that did not arrive, forged \
                      webhooks that were accepted, unfinished scenarios, checks that had nothing to judge.",
        arguments: || {
            let wait = field("wait", "First wait for what is due within this time: 0s if left out, at most 50s");
            vec![wait.default_value("0s")]
        },
        route: CallPath("GET", "verdict"),
        ..TOOL
    },
    Tool {
        name: "review_findings",
        title: "What is wrong with this integration?",
        description: "Reviews the traffic so far for mistakes of the client and its receivers, such as ignored Retry-After or \
                      signatures that are not verified, each with evidence, reason and remedy.",
        route: CallPath("GET", "findings"),
        ..TOOL
    },
    Tool {
        name: "assumptions",
        title: "What is assumed where the contract is silent?",
        description: "Lists what the API's contract leaves open, what the emulator assumes there, and the setting that changes \
                      it. Code must not rely on an assumption.",
        arguments: || {
            vec![field("about", "Only settings whose name contains this, such as rate_limit or webhooks.retry")]
        },
        route: CallPath("GET", "assumptions"),
        run: assumed,
        ..TOOL
    },
    Tool {
        name: "reset",
        title: "Forget what this session's key did",
        description: "Restores a key of this session to the state before its first request: subscriptions, quota, clock, \
                      scenarios, journal. Keys that the session did not make are refused.",
        effect: Effect::Destroys,
        key: Key::One,
        route: CallPath("POST", "reset"),
        run: reset,
        ..TOOL
    },
];

impl Tool {
    /// The tool as the protocol lists it.
    pub(super) fn definition(&self) -> Value {
        let effect = self.effect;
        let arguments = self.arguments();
        let property = |argument: &Arg| {
            let help = argument.get_help().map(ToString::to_string);
            let schema = match kind(argument) {
                "array" => json!({ "type": "array", "description": help, "items": { "type": "string" } }),
                kind => json!({ "type": kind, "description": help }),
            };
            (field_name(argument), schema)
        };
        let required = arguments.iter().filter(|argument| argument.is_required_set()).map(field_name);
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": arguments.iter().map(property).collect::<Map<_, _>>(),
                "required": required.collect::<Vec<_>>(),
                "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": effect == Effect::Reads,
                "destructiveHint": effect == Effect::Destroys,
                "idempotentHint": matches!(effect, Effect::Reads | Effect::Sets),
                "openWorldHint": false,
            },
        })
    }

    fn arguments(&self) -> Vec<Arg> {
        let key = match self.key {
            Key::None => None,
            Key::Any => Some(field("key", "Only what belongs to this API key; all keys if left out")),
            Key::One => Some(field("key", "The API key to act on, never all; the session's own if left out")),
        };
        (self.arguments)().into_iter().filter(|argument| argument.get_id() != "key").chain(key).collect()
    }

    /// Checks the names and types of the arguments, and how long to wait. All else is checked by the emulator.
    pub(super) fn call(&self, session: &Session, mut arguments: Arguments) -> Result<String, Failure> {
        arguments.retain(|_, value| !value.is_null());
        let known = self.arguments();
        for (name, value) in &arguments {
            let Some(argument) = known.iter().find(|argument| field_name(argument) == *name) else {
                let names: Vec<String> = known.iter().map(|argument| format!("`{}`", field_name(argument))).collect();
                let message = format!("{} takes no argument `{}`", self.name, shown(name));
                return Err(Failure::usage(message).with_hint(match names.as_slice() {
                    [] => "call it without arguments".to_owned(),
                    names => format!("it takes {}", any_of(names)),
                }));
            };
            let kind = kind(argument);
            let matches = match kind {
                "integer" => value.is_number(),
                "boolean" => value.is_boolean(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                _ => value.is_string(),
            };
            if !matches {
                return Err(Failure::usage(format!("{name}: expected a value of type {kind}, found {value}")));
            }
        }
        for argument in known.iter().filter(|argument| matches!(argument.get_id().as_str(), "wait" | "timeout")) {
            let name = field_name(argument);
            let default =
                argument.get_default_values().first().and_then(|default| default.to_str()).unwrap_or_default();
            let wait = arguments.entry(&*name).or_insert_with(|| default.into()).as_str().unwrap_or_default();
            let parsed = parse_duration(wait).map_err(|problem| Failure::usage(format!("{name}: {problem}")))?;
            if parsed > LONGEST_WAIT {
                let message = format!("{name}: expected at most {} s, found {wait}", LONGEST_WAIT.as_secs());
                return Err(Failure::usage(message).with_hint("call again to wait longer"));
            }
        }
        let of_all = arguments.get("key").is_some_and(|key| key == "*");
        match self.key {
            Key::None => {}
            Key::Any => drop(arguments.entry("key").or_insert_with(|| "*".into())),
            Key::One if of_all => {
                let failure = Failure::usage("key: a tool changes one key at a time, never all of them");
                return Err(failure.with_hint(format!("leave it out for your own, `{}`", session.key)));
            }
            Key::One => drop(arguments.entry("key").or_insert_with(|| session.key.clone().into())),
        }
        let is_missing = |argument: &&Arg| argument.is_required_set() && !arguments.contains_key(&field_name(argument));
        match known.iter().find(is_missing) {
            Some(missing) => Err(Failure::usage(format!("{} needs the argument `{}`", self.name, field_name(missing)))),
            None => (self.run)(session, self, arguments),
        }
    }
}

/// The type of an argument in JSON.
fn kind(argument: &Arg) -> &'static str {
    let parsed = argument.get_value_parser().type_id();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        "boolean"
    } else if takes_list(argument) {
        "array"
    } else if parsed == TypeId::of::<i64>() {
        "integer"
    } else if parsed == TypeId::of::<Arguments>() {
        "object"
    } else {
        "string"
    }
}

fn take(arguments: &mut Arguments, name: &str) -> Option<String> {
    arguments.shift_remove(name)?.as_str().map(str::to_owned)
}

fn called(session: &Session, tool: &Tool, arguments: Arguments) -> Result<String, Failure> {
    session.text(tool.route, "", arguments)
}

fn status(session: &Session, _: &Tool, _: Arguments) -> Result<String, Failure> {
    let show = |path| session.text(CallPath("GET", path), "", Map::new());
    let (health, clock, scenarios) = (show("health")?, show("clock")?, show("scenarios")?);
    let url = Redactor::default().text(&session.target.url).into_owned();
    Ok(format!("wrs-emulator at {url}: {health}its clock: {clock}your key: {}\n{scenarios}", session.key))
}

fn explained(session: &Session, _: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let id = take(&mut arguments, "id").unwrap_or_else(|| "latest".to_owned());
    let explanation = session.text(CallPath("GET", "explain/{id}"), &id, arguments.clone())?;
    let id = explanation.split(':').next().unwrap_or_default();
    let path = match id.split_once('_') {
        Some(("req", _)) => "requests/{id}",
        Some(("dlv", _)) => "deliveries/{id}",
        _ => return Ok(explanation),
    };
    let whole = session.text(CallPath("GET", path), id, arguments)?;
    Ok(format!("{explanation}\n{whole}"))
}

#[expect(clippy::unnecessary_wraps, reason = "it is a tool like the others")]
fn checked(session: &Session, _: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let (_, found) = check_text(&session.scenario, &take(&mut arguments, "toml").unwrap_or_default());
    let errors = found.iter().filter(|problem| problem.is_error()).count();
    let counts = format!("{}, {}\n", counted(errors, "error"), counted(found.len() - errors, "warning"));
    let text: String = found.iter().map(|problem| format!("{}\n", problem.render(false))).chain([counts]).collect();
    Ok(Redactor::default().text(&text).into_owned())
}

fn played(session: &Session, tool: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    if let Some(toml) = take(&mut arguments, "toml") {
        let own = Value::from(session.scenario.as_str());
        let active = arguments.entry("active").or_insert_with(|| Value::Array(Vec::new()));
        active
            .as_array_mut()
            .into_iter()
            .filter(|names| !names.contains(&own))
            .for_each(|names| names.push(own.clone()));
        session.add_scenario(&toml).map_err(|failure| {
            if failure.is_unreachable() { failure } else { failure.with_hint("check_scenario lists every problem") }
        })?;
    } else if !arguments.contains_key("active") {
        // Without a list the key would follow that of all keys again.
        return Err(Failure::usage("expected `active`, a list of scenarios, or `toml`").with_hint("status lists them"));
    }
    called(session, tool, arguments)
}

fn fired(session: &Session, tool: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    // Planned emissions have nothing to wait for yet.
    if arguments.contains_key("emit") {
        arguments.shift_remove("wait");
    }
    called(session, tool, arguments)
}

fn assumed(session: &Session, tool: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let about = take(&mut arguments, "about").unwrap_or_default();
    let all = called(session, tool, arguments)?;
    // A row is a line `name = value` and indented lines.
    let mut is_about = false;
    let lines = all.lines().filter(|line| {
        if !line.starts_with(' ') {
            is_about = line.split(' ').next().is_some_and(|name| name.contains(&about));
        }
        is_about
    });
    let found: String = lines.map(|line| format!("{line}\n")).collect();
    if found.is_empty() {
        return Ok(format!("no setting's name contains `{}`\n", Redactor::default().text(&about)));
    }
    Ok(found)
}

fn reset(session: &Session, tool: &Tool, arguments: Arguments) -> Result<String, Failure> {
    session.check_own(arguments.get("key").and_then(Value::as_str).unwrap_or_default())?;
    let text = called(session, tool, arguments)?;
    // So that nothing is left of the session; refused while another of its keys still plays the scenario.
    session.remove_scenario();
    Ok(text)
}

/// The beginning of a name that a client sent.
pub(super) fn shown(name: &str) -> String {
    let start: String = name.chars().take(80).collect();
    start.escape_debug().to_string()
}
