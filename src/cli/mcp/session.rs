//! One session of an agent: the emulator that it talks to, the key that is its own, and the arguments of a call.
//!
//! A tool that changes something acts on one key, by default the session's own. Only keys of the session may be reset.

use std::time::Duration;

use rand::Rng as _;
use serde_json::{Map, Value};

use crate::cli::call::Call;
use crate::cli::client::{self, SHORT, Unsent, fields};
use crate::cli::failure::Failure;
use crate::cli::target::Target;
use crate::clock::{Random, Seed};
use crate::control::api;
use crate::duration::parse_duration;

/// Longest that a tool waits: clients of this protocol usually give up after a minute.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(50);

/// Whose things a tool is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// It takes no key.
    None,
    /// Those of all keys, or of one.
    Any,
    /// Those of the session's key, or of one.
    One,
}

/// One session.
pub(super) struct Session {
    pub(super) target: Target,
    /// The session's own key; so are those that begin with it and `_`.
    pub(super) key: String,
    /// The scenario that `play_scenario` adds.
    pub(super) scenario: String,
}

impl Session {
    pub(super) fn new(target: Target) -> Self {
        let mut random: Random = Seed::from_entropy().source("mcp");
        let name = format!("{:010x}", random.next_u64() >> 24);
        Self { target, key: format!("sk_test_agent_{name}"), scenario: format!("agent-{name}") }
    }

    /// The text that a call answers. The arguments are its query if it reads, else its body; `wait` is always in the query.
    pub(super) fn text(&self, call: Call, id: &str, mut arguments: Arguments) -> Result<String, Failure> {
        let mut unsent = Unsent::to(&self.target, call.method(), call.1);
        id.clone_into(&mut unsent.segment);
        if call.reads() {
            unsent.query = fields(&arguments.0);
        } else {
            unsent.query.extend(arguments.take("wait").map(|wait| ("wait".to_owned(), wait)));
            unsent.body = Value::Object(arguments.0).to_string().into_bytes();
        }
        (unsent.limit, unsent.wants_text) = (LONGEST_WAIT + SHORT, true);
        let bytes = unsent.exchanged()?.map_err(client::Refusal::into_failure)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds the session's own scenario, or replaces it.
    pub(super) fn add_scenario(&self, toml: &str) -> Result<(), Failure> {
        client::Call::<api::PutScenario>::to(&self.target).id(&self.scenario).toml(toml).send().map(drop)
    }

    /// Removes the session's own scenario, if it was added and nothing plays it.
    pub(super) fn remove_scenario(&self) {
        let _ = client::Call::<api::RemoveScenario>::to(&self.target).id(&self.scenario).outcome();
    }

    /// The key of a call: all keys or the session's own if none is named.
    pub(super) fn key(&self, given: Option<String>, key: Key) -> Result<Option<String>, Failure> {
        match (key, given) {
            (Key::None, _) => Ok(None),
            (Key::Any, given) => Ok(Some(given.unwrap_or_else(|| "*".to_owned()))),
            (Key::One, Some(key)) if key == "*" => {
                let failure = Failure::usage("key: a tool changes one key at a time, never all of them");
                Err(failure.with_hint(format!("leave it out for your own, `{}`", self.key)))
            }
            (Key::One, given) => Ok(Some(given.unwrap_or_else(|| self.key.clone()))),
        }
    }

    /// Refuses a key that is not the session's, or that the emulator serves together with others.
    pub(super) fn check_own(&self, key: &str) -> Result<(), Failure> {
        let rest = key.strip_prefix(&self.key);
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_')) {
            let message = format!("`{key}` was not made by this session, so it is not reset");
            let hint = format!(
                "your own keys are `{0}` and those that begin with `{0}_`; people reset others with `wrs-emulator reset --key KEY`",
                self.key
            );
            return Err(Failure::usage(message).with_hint(hint));
        }
        let shown = client::Call::<api::ShowClock>::to(&self.target).key(key).send()?.body.key;
        match shown.filter(|shown| shown != key) {
            None => Ok(()),
            Some(group) => Err(Failure::usage(format!("`{key}` shares the workspace `{group}`, so it is not reset"))),
        }
    }
}

/// The arguments of a call, of the types in the tool's schema; each tool takes out what is its own and passes the rest on.
#[derive(Clone, Default)]
pub(super) struct Arguments(pub(super) Map<String, Value>);

impl Arguments {
    /// Takes a text.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.shift_remove(name)?.as_str().map(str::to_owned)
    }

    /// Adds a text to a list, unless it is there.
    pub(super) fn push(&mut self, name: &str, text: &str) {
        let list = self.0.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(texts) = list.as_array_mut().filter(|texts| !texts.iter().any(|known| known == text)) {
            texts.push(text.into());
        }
    }

    /// Takes how long to wait.
    pub(super) fn wait(&mut self, name: &str, default: &str) -> Result<String, Failure> {
        let text = self.take(name).unwrap_or_else(|| default.to_owned());
        match parse_duration(&text) {
            Ok(wait) if wait <= LONGEST_WAIT => Ok(text),
            Ok(_) => {
                Err(Failure::usage(format!("{name}: expected at most {} s, found {text}", LONGEST_WAIT.as_secs()))
                    .with_hint("call again to wait longer"))
            }
            Err(problem) => Err(Failure::usage(format!("{name}: {problem}"))),
        }
    }
}
