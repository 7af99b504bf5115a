//! A control call as the command line makes it: the call as it is sent, and the command whose arguments are its fields.

use std::time::Duration;

use clap::{ArgMatches, Args};
use serde_json::{Map, Value};

/// A call as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The name and value of the variable segment.
    pub(crate) segment: Option<(String, String)>,
    pub(crate) query: Map<String, Value>,
    pub(crate) body: Map<String, Value>,
    /// How long the emulator waits before it answers, if the request says so.
    pub(crate) timeout: Option<Duration>,
    /// How long an emulator that cannot be reached yet is called again.
    pub(crate) patience: Duration,
}

impl Sent {
    /// The call of a method and path, with the `path`, `query` and `body` of its request.
    pub(super) fn new(line: &'static str, mut parts: Value) -> Self {
        let (method, path) = line.split_once(' ').expect("a call has a method and a path");
        let mut part = |part: &str| match parts.get_mut(part).map(Value::take) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let segment = part("path").into_iter().next().map(|(name, value)| (name, text(value)));
        let (mut query, mut body) = (part("query"), part("body"));
        query.extend(body.shift_remove_entry("key"));
        query.retain(|_, value| !value.is_null());
        Self { method, path, segment, query, body, timeout: None, patience: Duration::ZERO }
    }
}

type Define = dyn Fn(clap::Command) -> clap::Command;
type MakeCall = dyn Fn(&ArgMatches) -> Result<Sent, clap::Error>;

/// A command that makes one call.
pub(crate) struct CallCommand {
    /// Its words without the program's name.
    pub(crate) name: &'static str,
    /// Its arguments and its work.
    pub(crate) define: Box<Define>,
    /// The call that was typed.
    pub(crate) sent: Box<MakeCall>,
    /// The events of the stream that `--follow` prints.
    pub(crate) follows: Option<&'static str>,
    /// True if `--from RUN` asks a saved run instead of an emulator.
    pub(crate) reads_runs: bool,
    /// Two options that exclude each other if both are typed, and a hint.
    // Not by clap, for which a key in the environment conflicts like a typed one.
    pub(crate) excludes: Option<([&'static str; 2], &'static str)>,
    pub(crate) examples: &'static [&'static str],
    /// Its group, if it is the command that runs when the group is named alone.
    pub(crate) group: Option<CommandGroup>,
    /// The command of the program after which help lists it, or its group.
    pub(crate) after: Option<&'static str>,
}

/// A group of commands, as help describes it.
#[derive(Clone, Copy)]
pub(crate) struct CommandGroup {
    pub(crate) about: &'static str,
    pub(crate) examples: &'static [&'static str],
}

impl CallCommand {
    /// A command with these arguments; the doc comment of their struct is its description.
    pub(super) fn new<A: Args>(
        name: &'static str,
        examples: &'static [&'static str],
        sent: impl Fn(A) -> Sent + 'static,
    ) -> Self {
        Self {
            name,
            define: Box::new(|command| A::augment_args(command).long_about(None)),
            sent: Box::new(move |matches| A::from_arg_matches(matches).map(&sent)),
            follows: None,
            reads_runs: false,
            excludes: None,
            examples,
            group: None,
            after: None,
        }
    }

    /// The description, if the doc comment of the arguments is missing or written for the API.
    pub(super) fn about(self, about: &'static str) -> Self {
        let define = self.define;
        Self { define: Box::new(move |command| define(command).about(about)), ..self }
    }

    /// The command that runs when its group is named alone; it also describes the group.
    pub(super) fn leads(self, about: &'static str, examples: &'static [&'static str]) -> Self {
        Self { group: Some(CommandGroup { about, examples }), ..self }
    }

    /// Help lists it, or its group, after this command of the program instead of at the end.
    pub(super) fn after(self, command: &'static str) -> Self {
        Self { after: Some(command), ..self }
    }

    pub(super) fn follows(self, event: &'static str) -> Self {
        Self { follows: Some(event), ..self }
    }
}
