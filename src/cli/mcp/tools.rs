//! The tools, and how they are called. A tool is a call of the control API whose text is passed on, or a few of them.

use std::time::Duration;

use rand::Rng as _;
use serde_json::{Map, Value, json};

use super::hints::{Hints, Substitute};
use crate::cli::arguments::Target;
use crate::cli::client::{Call, SHORT};
use crate::cli::failure::Failure;
use crate::clock::{Random, Seed};
use crate::contract::nearest;
use crate::control::api::{
    Activate, AnyCall, AskHealth, Body, ControlCall as _, Explain, Fire, GetAssumptions, GetFindings, GetVerdict,
    ListDeliveries, ListRequests, ListScenarios, MoveClock, OnlyKey, PutQuery, PutScenario, Query, RemoveScenario,
    Reset, ScenarioPath, Sent, ShowClock, ShowDelivery, ShowRequest, Subscribe,
};
use crate::redact::{Redactor, visible_lines};
use crate::scenario::check_text;
use crate::util::duration::parse_duration;
use crate::util::wording::{any_of, counted, shorten};

/// Most bytes of a tool's text, so that it leaves room in the agent's context.
const MAX_TEXT: usize = 32 * 1024;

/// Longest that a tool waits: clients of this protocol usually give up after a minute.
const MAX_WAIT: Duration = Duration::from_secs(50);

/// One session of an agent. A tool that changes something acts on one key, by default the session's own.
pub(super) struct Session {
    pub(super) target: Target,
    /// The session's own key; so are those that begin with it and `_`.
    pub(super) key: String,
    /// The scenario that `play_scenario` adds.
    scenario: String,
    hints: Hints,
}

impl Session {
    pub(super) fn new(target: Target, definition: clap::Command) -> Self {
        let mut random: Random = Seed::from_entropy().source("mcp");
        let name = format!("{:010x}", random.next_u64() >> 24);
        let hints = Hints::new(definition, TOOLS.iter().map(Tool::substitute).collect());
        Self { target, key: format!("sk_test_agent_{name}"), scenario: format!("agent-{name}"), hints }
    }

    /// The result of calling a tool: its text, or the failure's. The error is a call of no tool.
    pub(super) fn call(&self, mut params: Map<String, Value>) -> Result<Value, String> {
        let Some(Value::String(name)) = params.remove("name") else { return Err("name: expected a string".to_owned()) };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err("arguments: expected an object".to_owned()),
        };
        let tool = TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
            let near = nearest(&name, TOOLS.iter().map(|tool| tool.name));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            format!("unknown tool `{}`{near}", shown(&name))
        })?;
        let (mut text, is_error) = match tool.call(self, arguments) {
            Ok(text) => (text, false),
            Err(failure) => {
                let message = failure.text();
                let hint = failure.hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                let text = format!("error: {message}{hint}");
                let text = self.hints.for_agent(tool.name, &text);
                (visible_lines(&Redactor::default().text(&text)).into_owned(), true)
            }
        };
        if text.len() > MAX_TEXT {
            let more = text.len() - MAX_TEXT;
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            text.push_str(&format!("\n… {more} bytes more; ask for less: one key, one id, a limit"));
        }
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
    }

    /// The text that a call answers, with hints for an agent.
    fn text(&self, tool: &Tool, sent: &Sent) -> Result<String, Failure> {
        Ok(self.hints.for_agent(tool.name, &self.record(sent)?).into_owned())
    }

    /// The text that a call answers, unchanged: requests and bodies are shown exactly as they were sent.
    fn record(&self, sent: &Sent) -> Result<String, Failure> {
        let call = Call::new(&self.target).limit(MAX_WAIT + SHORT).text();
        Ok(visible_lines(&String::from_utf8_lossy(&call.exchange(sent)?)).into_owned())
    }
}

pub(super) struct Tool {
    name: &'static str,
    title: &'static str,
    /// In plain English, for a model.
    description: &'static str,
    effect: Effect,
    /// The call whose fields are its arguments.
    call: Option<fn() -> AnyCall>,
    /// Its own arguments, all texts: their names, their meaning and whether they are required.
    own: &'static [(&'static str, &'static str, bool)],
    /// The argument for the length of the wait: its name, its meaning and its default.
    waits: Option<(&'static str, &'static str, &'static str)>,
    /// An argument that its call requires and the tool does not, and its default.
    default: Option<(&'static str, &'static str)>,
    /// The commands that it stands for in the texts of the emulator.
    pub(super) commands: &'static [&'static str],
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
    /// It has no key.
    None,
    /// All keys, or one.
    Any,
    /// The session's key, or one that is named.
    One,
}

/// The arguments of a call, of the types in the tool's schema.
type Arguments = Map<String, Value>;

/// A tool that passes on the text of a call about all keys or one.
const TOOL: Tool = Tool {
    name: "",
    title: "",
    description: "",
    effect: Effect::Reads,
    call: None,
    own: &[],
    waits: None,
    default: None,
    commands: &[],
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
        commands: &["scenarios list", "clock show", "health"],
        ..TOOL
    },
    Tool {
        name: "find_requests",
        title: "Which requests did the client make?",
        description: "Lists requests to the emulated API, newest first, each with status and reason of its answer. `explain` shows more.",
        call: Some(AnyCall::of::<Query<ListRequests>>),
        commands: &["requests list"],
        ..TOOL
    },
    Tool {
        name: "find_deliveries",
        title: "Which webhooks were delivered, and which were not?",
        description: "Lists deliveries of webhooks, newest first, each with its status. `explain` with the id of one shows each attempt.",
        call: Some(AnyCall::of::<Query<ListDeliveries>>),
        commands: &["deliveries list"],
        ..TOOL
    },
    Tool {
        name: "explain",
        title: "Why this answer, or this delivery?",
        description: "Explains why a request was answered as it was, where an event went and where not, or why a delivery failed \
                      and what to try; then shows the request or delivery whole.",
        call: Some(AnyCall::of::<Explain>),
        default: Some(("id", "latest")),
        run: explained,
        commands: &["explain", "requests show", "deliveries show"],
        ..TOOL
    },
    Tool {
        name: "check_scenario",
        title: "Is this scenario valid?",
        description: "Checks the TOML text of a scenario without playing it: every problem with its place and a hint. Needs no \
                      running emulator. `wrs-emulator scenarios schema` prints the JSON Schema of the language.",
        own: &[("toml", "The text of the scenario, as in a scenario file", true)],
        key: Key::None,
        run: checked,
        ..TOOL
    },
    Tool {
        name: "play_scenario",
        title: "Play scenarios for a key",
        description: "Makes scenarios the active ones of one key, in order, instead of its former list. An empty list turns \
                      scenarios off. `status` lists names; `toml` adds one of your own.",
        effect: Effect::Sets,
        call: Some(AnyCall::of::<Body<Activate>>),
        own: &[("toml", "The text of a scenario of your own, which is played after those in `active`", false)],
        key: Key::One,
        run: played,
        commands: &["scenarios use", "scenarios off"],
        ..TOOL
    },
    Tool {
        name: "subscribe",
        title: "Subscribe a URL for webhooks",
        description: "Subscribes a URL to events of one key, validated as if its client did. Returns the signing secret that was \
                      generated, only once. A URL that is subscribed already is updated.",
        effect: Effect::Adds,
        call: Some(AnyCall::of::<Body<Subscribe>>),
        commands: &["subscriptions create"],
        key: Key::One,
        ..TOOL
    },
    Tool {
        name: "fire_event",
        title: "Fire a webhook event",
        description: "Fires an event at the matching subscriptions of one key and waits for what each receiver answered. Events \
                      that no subscription matches are an error.",
        effect: Effect::Adds,
        call: Some(AnyCall::of::<Fire>),
        waits: Some(("wait", "How long to wait for the receivers' answers", "5s")),
        key: Key::One,
        run: fired,
        commands: &["trigger"],
        ..TOOL
    },
    Tool {
        name: "advance_clock",
        title: "Let time pass for a key",
        description: "Moves the clock of one key: quota windows open, retries, delays and planned events happen in order before \
                      the call answers. Give exactly one of `advance`, `set` and `mode`.",
        effect: Effect::Destroys,
        call: Some(AnyCall::of::<Body<MoveClock>>),
        waits: Some(("timeout", "How long to wait until everything due is done", "50s")),
        key: Key::One,
        commands: &["clock advance", "clock set", "clock freeze", "clock auto", "clock resume", "clock follow"],
        ..TOOL
    },
    Tool {
        name: "verification",
        title: "Did the run go well?",
        description: "Lists the problems found so far: requests that matched no endpoint, webhooks that failed, forged \
                      webhooks that were accepted, unfinished scenarios, checks that had nothing to judge.",
        call: Some(AnyCall::of::<Query<GetVerdict>>),
        waits: Some(("wait", "First wait for everything due within this time", "0s")),
        commands: &["verdict"],
        ..TOOL
    },
    Tool {
        name: "review_findings",
        title: "What is wrong with this integration?",
        description: "Reviews the traffic so far for mistakes of the client and its receivers, such as ignored Retry-After or \
                      signatures that are not verified, each with evidence, reason and remedy.",
        call: Some(AnyCall::of::<Query<GetFindings>>),
        commands: &["review findings"],
        ..TOOL
    },
    Tool {
        name: "assumptions",
        title: "What is assumed where the contract is silent?",
        description: "Lists what the API's contract leaves open, what the emulator assumes there, and the setting that changes \
                      it. Code must not rely on an assumption.",
        call: Some(AnyCall::of::<Query<GetAssumptions>>),
        own: &[("about", "Only settings whose name contains this, such as rate_limit or webhooks.retry", false)],
        run: assumed,
        commands: &["assumptions"],
        ..TOOL
    },
    Tool {
        name: "reset",
        title: "Forget what this session's key did",
        description: "Restores a key of this session to the state before its first request: subscriptions, quota, clock, \
                      scenarios, journal. Keys that the session did not make are refused.",
        effect: Effect::Destroys,
        key: Key::One,
        call: Some(AnyCall::of::<Body<Reset>>),
        run: reset,
        commands: &["reset"],
        ..TOOL
    },
];

impl Tool {
    /// The tool as the protocol lists it.
    pub(super) fn definition(&self) -> Value {
        let effect = self.effect;
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": self.arguments(),
                "required": self.required(),
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

    fn required(&self) -> Vec<String> {
        let own = self.own.iter().filter(|(.., is_required)| *is_required).map(|(name, ..)| (*name).to_owned());
        let mut required = self.call.map(|call| call().required()).unwrap_or_default();
        required.retain(|name| self.default.is_none_or(|(has_default, _)| name != has_default));
        required.into_iter().chain(own).collect()
    }

    pub(super) fn substitute(&self) -> Substitute {
        let arguments = self.arguments().keys().cloned().collect();
        Substitute { tool: self.name, commands: self.commands, arguments }
    }

    /// The schema of each argument: the fields of its call as the call has them, but for the key and how long it waits.
    fn arguments(&self) -> Map<String, Value> {
        let mut arguments = Map::new();
        if let Some(call) = self.call.map(|call| call()) {
            arguments.extend(call.all_fields().map(|(name, field)| (name.clone(), argument(field))));
        }
        arguments.shift_remove("key");
        let text = |description: &str| json!({ "type": "string", "description": description });
        arguments.extend(self.own.iter().map(|(name, description, _)| ((*name).to_owned(), text(description))));
        if let Some((name, what, default)) = self.waits {
            let (name, most) = (name.to_owned(), MAX_WAIT.as_secs());
            arguments.insert(name, text(&format!("{what}: {default} if left out, at most {most}s")));
        }
        let key = match self.key {
            Key::None => return arguments,
            Key::Any => text("Only what belongs to this API key; all keys if left out"),
            Key::One => text("The API key to act on, never all; the session's own if left out"),
        };
        arguments.insert("key".to_owned(), key);
        arguments
    }

    /// Checks the names and types of the arguments, and how long to wait. All else is checked by the emulator.
    fn call(&self, session: &Session, mut arguments: Arguments) -> Result<String, Failure> {
        arguments.retain(|_, value| !value.is_null());
        let known = self.arguments();
        for (name, value) in &arguments {
            let Some(schema) = known.get(name) else {
                let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
                let message = format!("{} has no argument `{}`", self.name, shown(name));
                return Err(Failure::usage(message).with_hint(match names.as_slice() {
                    [] => "call it without arguments".to_owned(),
                    names => format!("it has {}", any_of(names)),
                }));
            };
            let kind = schema["type"].as_str().unwrap_or_default();
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
        if let Some((name, _, default)) = self.waits {
            let wait = arguments.entry(name).or_insert_with(|| default.into()).as_str().unwrap_or_default();
            let parsed = parse_duration(wait).map_err(|problem| Failure::usage(format!("{name}: {problem}")))?;
            if parsed > MAX_WAIT {
                let message = format!("{name}: expected at most {} s, found {wait}", MAX_WAIT.as_secs());
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
        if let Some((name, default)) = self.default {
            arguments.entry(name).or_insert_with(|| default.into());
        }
        match self.required().iter().find(|name| !arguments.contains_key(*name)) {
            Some(missing) => Err(Failure::usage(format!("{} needs the argument `{missing}`", self.name))),
            None => (self.run)(session, self, arguments),
        }
    }
}

/// The schema of an argument: the type and the description of the field that it becomes.
fn argument(field: &Value) -> Value {
    let kinds = field["type"].as_array().into_iter().flatten().chain(field.get("type"));
    // A choice is one between texts.
    let kind = kinds.filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("string");
    let description = field["description"].as_str().unwrap_or_default().trim_end_matches('.');
    let mut argument = json!({ "type": kind, "description": description });
    if let Some(items) = field.get("items") {
        argument["items"] = items.clone();
    }
    argument
}

fn take(arguments: &mut Arguments, name: &str) -> Option<String> {
    arguments.shift_remove(name)?.as_str().map(str::to_owned)
}

fn called(session: &Session, tool: &Tool, arguments: Arguments) -> Result<String, Failure> {
    let call = tool.call.expect("a tool that passes on a text has a call");
    session.text(tool, &call().sent(arguments))
}

fn status(session: &Session, tool: &Tool, _: Arguments) -> Result<String, Failure> {
    let health = session.text(tool, &AskHealth {}.sent())?;
    let clock = session.text(tool, &Query::<ShowClock>::default().sent())?;
    let scenarios = session.text(tool, &Query::<ListScenarios>::default().sent())?;
    let url = Redactor::default().text(&session.target.url).into_owned();
    Ok(format!("wrs-emulator at {url}: {health}its clock: {clock}your key: {}\n{scenarios}", session.key))
}

fn explained(session: &Session, tool: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let explanation = called(session, tool, arguments.clone())?;
    let id = explanation.split(':').next().unwrap_or_default();
    arguments.insert("id".to_owned(), id.into());
    let whole = match id.split_once('_') {
        Some(("req", _)) => AnyCall::of::<ShowRequest>().sent(arguments),
        Some(("dlv", _)) => AnyCall::of::<ShowDelivery>().sent(arguments),
        _ => return Ok(explanation),
    };
    let whole = session.record(&whole)?;
    // That is above.
    let whole = whole.strip_suffix(&format!("wrs-emulator explain {id} shows why\n")).unwrap_or(&whole);
    Ok(format!("{explanation}\n{whole}"))
}

#[expect(clippy::unnecessary_wraps, reason = "it is a tool like the others")]
fn checked(session: &Session, tool: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let (_, found) = check_text(&session.scenario, &take(&mut arguments, "toml").unwrap_or_default());
    let errors = found.iter().filter(|problem| problem.is_error()).count();
    let counts = format!("{}, {}\n", counted(errors, "error"), counted(found.len() - errors, "warning"));
    let text: String = found.iter().map(|problem| format!("{}\n", problem.render(false))).chain([counts]).collect();
    Ok(session.hints.for_agent(tool.name, &Redactor::default().text(&text)).into_owned())
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
        let path = ScenarioPath { name: session.scenario.clone() };
        let add = PutScenario { path, query: PutQuery::default() };
        Call::new(&session.target).toml(&toml).exchange(&add.sent()).map_err(|failure| {
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

/// Refuses a key that is not the session's.
fn reset(session: &Session, tool: &Tool, arguments: Arguments) -> Result<String, Failure> {
    let (key, own) = (arguments.get("key").and_then(Value::as_str).unwrap_or_default(), &session.key);
    if !key.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')) {
        let hint = format!("your own keys are `{own}` and those that begin with `{own}_`; only people reset others");
        let message = format!("`{key}` was not made by this session, so it is not reset");
        return Err(Failure::usage(message).with_hint(hint));
    }
    let text = called(session, tool, arguments)?;
    // So that nothing is left of the session; refused while another of its keys still plays the scenario.
    let path = ScenarioPath { name: session.scenario.clone() };
    let remove = RemoveScenario { path, body: OnlyKey::default() };
    let _ = Call::new(&session.target).exchange(&remove.sent());
    Ok(text)
}

/// The beginning of a name that a client sent.
pub(super) fn shown(name: &str) -> String {
    shorten(name, 80).escape_debug().to_string()
}
