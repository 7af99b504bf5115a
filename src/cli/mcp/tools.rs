//! The tools, and how they are called. A tool is a call of the control API whose text is passed on, or a few of them.

use std::time::Duration;

use rand::Rng as _;
use serde_json::{Map, Value, json};

use crate::cli::arguments::Target;
use crate::cli::client::{ControlClient, SHORT, parsed};
use crate::cli::failure::Failure;
use crate::cli::profile::mask_as;
use crate::clock::{Random, Seed};
use crate::contract::nearest;
use crate::control::api::{
    Activate, AskHealth, Body, Call, ControlCall as _, Explain, Explained, Explanation, Fire, GetAssumptions,
    GetFindings, GetVerdict, ListDeliveries, ListRequests, ListScenarios, MoveClock, NoFields, PutQuery, PutScenario,
    Query, RemoveScenario, Reset, ScenarioPath, Sent, ShowClock, ShowDelivery, ShowRequest, Subscribe,
};
use crate::redact::{Redactor, visible_lines};
use crate::scenario::check_text;
use crate::util::duration::parse_duration;
use crate::util::wording::{any_of, counted, quoted};

/// Maximum bytes of a tool's text, so that it leaves room in the agent's context.
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
}

impl Session {
    pub(super) fn new(target: Target) -> Self {
        let mut random: Random = Seed::from_entropy().source("mcp");
        let name = format!("{:010x}", random.next_u64() >> 24);
        Self { target, key: format!("sk_test_agent_{name}"), scenario: format!("agent-{name}") }
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
            format!("unknown tool `{}`{near}", quoted(&name))
        })?;
        let (mut text, is_error) = match tool.call(self, arguments) {
            Ok(text) => (text, false),
            Err(failure) => {
                if !failure.is_unreachable() {
                    self.mask();
                }
                let message = failure.text();
                let hint = failure.hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                let text = format!("error: {message}{hint}");
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

    /// Names from an agent are masked with the emulator's prefixes, or with the default ones if the emulator does not answer.
    fn mask(&self) {
        let _ = mask_as(&self.target);
    }

    /// A call whose advice is worded for an agent.
    fn asking(&self) -> ControlClient<'_> {
        ControlClient::new(&self.target).for_agent().limit(MAX_WAIT + SHORT)
    }

    /// The text that a call answers.
    fn text(&self, sent: &Sent) -> Result<String, Failure> {
        Ok(visible_lines(&String::from_utf8_lossy(&self.asking().text().exchange(sent)?)).into_owned())
    }
}

pub(super) struct Tool {
    name: &'static str,
    title: &'static str,
    /// In plain English, for a model.
    description: &'static str,
    effect: Effect,
    /// The call whose fields are its arguments.
    call: Option<fn() -> Call>,
    /// Its own arguments, all texts: their names, their meaning and whether they are required.
    own: &'static [(&'static str, &'static str, bool)],
    /// The argument for the length of the wait: its name, its meaning and its default.
    waits: Option<(&'static str, &'static str, &'static str)>,
    /// An argument that its call requires and the tool does not, and its default.
    default: Option<(&'static str, &'static str)>,
    key: ToolScope,
    run: fn(&Session, &Tool, Arguments) -> Result<String, Failure>,
}

/// The permissions of a tool.
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
enum ToolScope {
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
    key: ToolScope::Any,
    run: called,
};

/// All tools, in the order in which they are listed.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "status",
        title: "Is the emulator running, and which scenarios are active?",
        description: "Start here. Reports whether the emulator is ready, its clock, your own API key for programs under test, \
                      and every scenario; active ones are marked `*`.",
        key: ToolScope::None,
        run: status,
        ..TOOL
    },
    Tool {
        name: "find_requests",
        title: "Which requests did the client make?",
        description: "Lists requests to the emulated API, newest first, each with status and reason of its answer. `explain` shows more.",
        call: Some(<Query<ListRequests>>::call),
        ..TOOL
    },
    Tool {
        name: "find_deliveries",
        title: "Which webhooks were delivered, and which were not?",
        description: "Lists deliveries of webhooks, newest first, each with its status. `explain` with the id of one shows each attempt.",
        call: Some(<Query<ListDeliveries>>::call),
        ..TOOL
    },
    Tool {
        name: "explain",
        title: "Why this answer, or this delivery?",
        description: "Explains why a request was answered as it was, where an event went and where not, or why a delivery failed \
                      and what to try; then shows the request or delivery whole.",
        call: Some(<Explain>::call),
        default: Some(("id", "latest")),
        run: explained,
        ..TOOL
    },
    Tool {
        name: "check_scenario",
        title: "Is this scenario valid?",
        description: "Checks the TOML text of a scenario without playing it: every problem with its place and a hint. Needs no \
                      running emulator. `wrs-emulator scenarios schema` prints the JSON Schema of the language.",
        own: &[("toml", "The text of the scenario, as in a scenario file", true)],
        key: ToolScope::None,
        run: checked,
        ..TOOL
    },
    Tool {
        name: "play_scenario",
        title: "Play scenarios for a key",
        description: "Makes scenarios the active ones of one key, in order, instead of its former list. An empty list turns \
                      scenarios off. `status` lists names; `toml` adds one of your own.",
        effect: Effect::Sets,
        call: Some(<Body<Activate>>::call),
        own: &[("toml", "The text of a scenario of your own, which is played after those in `active`", false)],
        key: ToolScope::One,
        run: played,
        ..TOOL
    },
    Tool {
        name: "subscribe",
        title: "Subscribe a URL for webhooks",
        description: "Subscribes a URL to events of one key, validated as if its client did. Returns the signing secret that was \
                      generated, only once. A URL that is subscribed already is updated.",
        effect: Effect::Adds,
        call: Some(<Body<Subscribe>>::call),
        key: ToolScope::One,
        ..TOOL
    },
    Tool {
        name: "fire_event",
        title: "Fire a webhook event",
        description: "Fires an event at the matching subscriptions of one key and waits for each receiver's answer. Events \
                      that no subscription matches are an error.",
        effect: Effect::Adds,
        call: Some(<Fire>::call),
        waits: Some(("wait", "How long to wait for the receivers' answers", "5s")),
        key: ToolScope::One,
        run: fired,
        ..TOOL
    },
    Tool {
        name: "advance_clock",
        title: "Let time pass for a key",
        description: "Moves the clock of one key: quota windows open, retries, delays and planned events happen in order before \
                      the call answers. Give exactly one of `advance`, `set` and `mode`.",
        effect: Effect::Destroys,
        call: Some(<Body<MoveClock>>::call),
        waits: Some(("timeout", "How long to wait until everything due is done", "50s")),
        key: ToolScope::One,
        ..TOOL
    },
    Tool {
        name: "verification",
        title: "Did the run go well?",
        description: "Lists the problems found so far: requests that matched no endpoint, webhooks that failed, forged \
                      webhooks that were accepted, unfinished scenarios, checks that had nothing to judge.",
        call: Some(<Query<GetVerdict>>::call),
        waits: Some(("wait", "First wait for everything due within this time", "0s")),
        ..TOOL
    },
    Tool {
        name: "review_findings",
        title: "What is wrong with this integration?",
        description: "Reviews the traffic so far for mistakes of the client and its receivers, such as ignored Retry-After or \
                      signatures that are not verified, each with evidence, reason and remedy.",
        call: Some(<Query<GetFindings>>::call),
        ..TOOL
    },
    Tool {
        name: "assumptions",
        title: "What is assumed where the contract is silent?",
        description: "Lists what the API's contract leaves open, what the emulator assumes there, and the setting that changes \
                      it. Code must not rely on an assumption.",
        call: Some(<Query<GetAssumptions>>::call),
        run: assumed,
        ..TOOL
    },
    Tool {
        name: "reset",
        title: "Forget what this session's key did",
        description: "Restores a key of this session to the state before its first request: subscriptions, quota, clock, \
                      scenarios, journal. Keys that the session did not make are refused.",
        effect: Effect::Destroys,
        key: ToolScope::One,
        call: Some(<Body<Reset>>::call),
        run: reset,
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
            ToolScope::None => return arguments,
            ToolScope::Any => text("Only what belongs to this API key; all keys if left out"),
            ToolScope::One => text("The API key to act on, never all; the session's own if left out"),
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
                let message = format!("{} has no argument `{}`", self.name, quoted(name));
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
            ToolScope::None => {}
            ToolScope::Any => drop(arguments.entry("key").or_insert_with(|| "*".into())),
            ToolScope::One if of_all => {
                let failure = Failure::usage("key: a tool changes one key at a time, never all of them");
                return Err(failure.with_hint(format!("leave it out for your own, `{}`", session.key)));
            }
            ToolScope::One => drop(arguments.entry("key").or_insert_with(|| session.key.clone().into())),
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
    session.text(&call().sent(arguments))
}

fn status(session: &Session, _: &Tool, _: Arguments) -> Result<String, Failure> {
    let health = session.text(&AskHealth {}.sent())?;
    let clock = session.text(&Query::<ShowClock>::default().sent())?;
    let scenarios = session.text(&Query::<ListScenarios>::default().sent())?;
    let url = Redactor::default().text(&session.target.url).into_owned();
    Ok(format!("wrs-emulator at {url}: {health}its clock: {clock}your key: {}\n{scenarios}", session.key))
}

fn explained(session: &Session, tool: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let found = session.asking().exchange(&<Explain>::call().sent(arguments.clone()))?;
    let Explanation { id, kind, .. } = parsed("explain", &found)?;
    // The newest may be another by now.
    arguments.insert("id".to_owned(), id.into());
    let explanation = called(session, tool, arguments.clone())?;
    let whole = match kind {
        Explained::Request => <ShowRequest>::call().sent(arguments),
        Explained::Delivery => <ShowDelivery>::call().sent(arguments),
        Explained::Event => return Ok(explanation),
    };
    Ok(format!("{explanation}\n{}", session.text(&whole)?))
}

#[expect(clippy::unnecessary_wraps, reason = "it is a tool like the others")]
fn checked(session: &Session, _: &Tool, mut arguments: Arguments) -> Result<String, Failure> {
    let (_, found) = check_text(&session.scenario, &take(&mut arguments, "toml").unwrap_or_default());
    let errors = found.iter().filter(|problem| problem.is_error()).count();
    let counts = format!("{}, {}\n", counted(errors, "error"), counted(found.len() - errors, "warning"));
    session.mask();
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
        let path = ScenarioPath { name: session.scenario.clone() };
        let add = PutScenario { path, query: PutQuery::default() };
        session.asking().toml(&toml).exchange(&add.sent()).map_err(|failure| {
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

fn assumed(session: &Session, tool: &Tool, arguments: Arguments) -> Result<String, Failure> {
    let about = arguments.get("about").and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = called(session, tool, arguments)?;
    if found.is_empty() {
        session.mask();
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
    let remove = RemoveScenario { path, body: NoFields::default() };
    let _ = ControlClient::new(&session.target).exchange(&remove.sent());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::advice::Advice;
    use crate::cli::{Cli, parse};

    fn every_advice() -> Vec<Advice> {
        let (id, key) = (String::new, || Some("sk_test_a".to_owned()));
        vec![
            Advice::AdvanceClock { advance: "5s".to_owned(), key: key() },
            Advice::ResumeClock {},
            Advice::AutomateClock { key: key() },
            Advice::use_scenario("always-429"),
            Advice::UseScenarios { active: Vec::new(), key: key() },
            Advice::FollowScenarios { key: key() },
            Advice::ListScenarios {},
            Advice::set("webhooks.allow_http", "true"),
            Advice::Subscribe { url: "https://a.example".to_owned(), key: key() },
            Advice::Listen { url: "http://localhost:3000".to_owned(), key: key() },
            Advice::EnableSubscription { id: id() },
            Advice::ShowSecret { id: id() },
            Advice::Redeliver { id: id() },
            Advice::Fire {
                event_type: "x".to_owned(),
                tamper: Some("signature".to_owned()),
                duplicate: Some(2),
                key: None,
            },
            Advice::explain("req_1"),
            Advice::ShowDelivery { id: id() },
            Advice::ListRequests { key: "sk_test_a".to_owned() },
            Advice::ReviewFindings {},
            Advice::Verify {
                body: None,
                headers: vec!["a: b".to_owned()],
                now: Some(1),
                scheme: Some("stripe".to_owned()),
                secret_key: Some("utf8".to_owned()),
            },
        ]
    }

    /// A renamed command, flag, tool or argument leaves no advice behind that cannot be followed.
    #[test]
    fn advice_is_a_command_and_a_call_that_exist() {
        let whole = parse::definition(Cli::command());
        for advice in every_advice() {
            let words = ["wrs-emulator".to_owned()].into_iter().chain(advice.words());
            assert!(whole.clone().try_get_matches_from(words).is_ok(), "{advice:?}");
            let Some((name, arguments)) = advice.tool() else { continue };
            let tool = TOOLS.iter().find(|tool| tool.name == name).expect("a tool of this name");
            let known = tool.arguments();
            let named = arguments.as_object().expect("an object").keys();
            assert!(named.into_iter().all(|name| known.contains_key(name)), "{advice:?}");
        }
    }
}
