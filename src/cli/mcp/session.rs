//! One session of an agent: the emulator that it talks to, and the key that is its own. Must not know the protocol.

use std::time::Duration;

use rand::Rng as _;
use serde_json::{Map, Value};

use crate::cli::client::{Call, Refusal, Route, SHORT};
use crate::cli::failure::Failure;
use crate::cli::target::Target;
use crate::clock::{Random, Seed};
use crate::control::api;

/// Longest that a tool waits: clients of this protocol usually give up after a minute.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(50);

/// One session of an agent. A tool that changes something acts on one key, by default the session's own.
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
    pub(super) fn text(&self, route: Route, id: &str, mut arguments: Map<String, Value>) -> Result<String, Failure> {
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
    pub(super) fn add_scenario(&self, toml: &str) -> Result<(), Failure> {
        Call::<api::PutScenario>::to(&self.target).id(&self.scenario).toml(toml).send().map(drop)
    }

    /// Removes the session's own scenario, if it was added and nothing plays it.
    pub(super) fn remove_scenario(&self) {
        let _ = Call::<api::RemoveScenario>::to(&self.target).id(&self.scenario).outcome();
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
        let shown = Call::<api::ShowClock>::to(&self.target).key(key).send()?.key;
        match shown.filter(|shown| shown != key) {
            None => Ok(()),
            Some(group) => Err(Failure::usage(format!("`{key}` shares the workspace `{group}`, so it is not reset"))),
        }
    }
}
