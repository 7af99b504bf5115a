//! One session of an agent: the emulator that it talks to, the key that is its own, and the arguments of a call.
//!
//! A tool that changes something acts on one key, by default the session's own. Only keys of the session may be reset.

use std::time::Duration;

use rand::Rng as _;
use serde_json::{Map, Value};

use crate::cli::client::{Call, SHORT};
use crate::cli::failure::Failure;
use crate::cli::target::Target;
use crate::clock::{Random, Seed};
use crate::control::api::{self, Endpoint};
use crate::duration::parse_duration;

/// Longest that a tool waits: clients of this protocol usually give up after a minute.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(50);

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

    /// A call that takes no longer than a tool may wait.
    pub(super) fn call<E: Endpoint>(&self) -> Call<'_, E> {
        Call::to(&self.target).limit(LONGEST_WAIT + SHORT)
    }

    /// The key that a tool is to change; the session's own if none is named.
    pub(super) fn one_key(&self, arguments: &mut Arguments) -> Result<String, Failure> {
        match arguments.text("key") {
            None => Ok(self.key.clone()),
            Some(key) if key == "*" => Err(Failure::usage("key: a tool changes one key at a time, never all of them")
                .with_hint(format!("leave it out for your own, `{}`", self.key))),
            Some(key) => Ok(key),
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
        let shown = self.call::<api::ShowClock>().key(key).send()?.body.key;
        match shown.filter(|shown| shown != key) {
            None => Ok(()),
            Some(group) => Err(Failure::usage(format!("`{key}` shares the workspace `{group}`, so it is not reset"))),
        }
    }
}

/// The arguments of a call, of the types in the tool's schema; each tool takes out what is its own and passes the rest on.
pub(super) struct Arguments(pub(super) Map<String, Value>);

impl Arguments {
    /// Takes a text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)?.as_str().map(str::to_owned)
    }

    /// Takes how long to wait, as the control API reads it.
    pub(super) fn wait(&mut self, name: &str, default: &str) -> Result<api::DurationInput, Failure> {
        let text = self.text(name).unwrap_or_else(|| default.to_owned());
        match parse_duration(&text) {
            Ok(wait) if wait <= LONGEST_WAIT => Ok(api::DurationInput(text)),
            Ok(_) => {
                Err(Failure::usage(format!("{name}: expected at most {} s, found {text}", LONGEST_WAIT.as_secs()))
                    .with_hint("call again to wait longer"))
            }
            Err(problem) => Err(Failure::usage(format!("{name}: {problem}"))),
        }
    }
}
