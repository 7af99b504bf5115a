//! Commands and flags in texts for people become calls and arguments of tools, which is what an agent can use. They are read by the
//! program's own command line, so that no list of flags is repeated. A command that no tool stands for stays as it is.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::cli::call_command;
use crate::cli::trigger;

const PROGRAM: &str = "wrs-emulator ";
/// Most words of a command without backticks.
const MAX_WORDS: usize = 16;

/// A tool as a substitute for commands.
pub(super) struct Substitute {
    pub(super) tool: &'static str,
    /// The commands, without the program's name.
    pub(super) commands: &'static [&'static str],
    /// The names of its arguments.
    pub(super) arguments: Vec<String>,
}

pub(super) struct Hints {
    definition: clap::Command,
    substitutes: Vec<Substitute>,
}

impl Hints {
    pub(super) fn new(definition: clap::Command, substitutes: Vec<Substitute>) -> Self {
        Self { definition, substitutes }
    }

    /// A text that `tool` returns. A command is a whole span between backticks, or begins with the program's name; a flag is one of the
    /// tool's arguments.
    pub(super) fn for_agent<'t>(&self, tool: &str, text: &'t str) -> Cow<'t, str> {
        if !text.contains(['`', '-']) {
            return text.into();
        }
        let (mut made, mut rest, mut before) = (String::with_capacity(text.len()), text, ' ');
        while let Some(next) = rest.chars().next() {
            let length = match before {
                '`' => self.span(rest, &mut made),
                ' ' | '\n' | '(' => self.bare(rest, &mut made),
                _ => 0,
            };
            let length = if length > 0 { length } else { self.flag(tool, before, rest, &mut made) };
            if length > 0 {
                // What follows is not a beginning.
                (rest, before) = (&rest[length..], 'x');
                continue;
            }
            made.push(next);
            (rest, before) = (&rest[next.len_utf8()..], next);
        }
        made.into()
    }

    /// Appends the call for the command between backticks that `rest` begins with. Returns how much was read.
    fn span(&self, rest: &str, made: &mut String) -> usize {
        let span = rest.split(['`', '\n']).next().unwrap_or_default();
        // A closing backtick is before a space.
        if span.starts_with(' ') || !rest[span.len()..].starts_with('`') {
            return 0;
        }
        let is_named = span.starts_with(PROGRAM);
        let words = words(span.strip_prefix(PROGRAM).unwrap_or(span));
        // One word may be anything else, such as a field or a setting.
        let call = if is_named || words.len() > 1 { self.call(&words) } else { None };
        match call {
            Some(call) => made.push_str(&call),
            // Its flags are those of the command.
            None if is_named => made.push_str(span),
            None => return 0,
        }
        span.len()
    }

    /// The same for a command without backticks, which ends at the last word with which it is one.
    fn bare(&self, rest: &str, made: &mut String) -> usize {
        let Some(after) = rest.strip_prefix(PROGRAM) else { return 0 };
        let line = after.split(['\n', ',', ';', '`']).next().unwrap_or_default();
        let ends = line.match_indices(' ').map(|(at, _)| at).chain([line.len()]).take(MAX_WORDS);
        let longest_first = ends.collect::<Vec<_>>().into_iter().rev();
        let found = longest_first.into_iter().find_map(|end| Some((end, self.call(&words(&line[..end]))?)));
        let Some((end, call)) = found else {
            made.push_str(&rest[..PROGRAM.len() + line.len()]);
            return PROGRAM.len() + line.len();
        };
        made.push_str(&call);
        PROGRAM.len() + end
    }

    fn flag(&self, tool: &str, before: char, rest: &str, made: &mut String) -> usize {
        let Some(name) = rest.strip_prefix("--").filter(|_| matches!(before, ' ' | '\n' | '(' | '`')) else { return 0 };
        let name = name.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default();
        let argument = name.replace('-', "_");
        let is_known = |substitute: &Substitute| substitute.tool == tool && substitute.arguments.contains(&argument);
        if !self.substitutes.iter().any(is_known) {
            return 0;
        }
        made.push_str(&argument);
        "--".len() + name.len()
    }

    /// The call of the tool that stands for a command: its name, and the arguments that were typed, as JSON.
    fn call(&self, words: &[String]) -> Option<String> {
        let (substitute, given) = self.substitutes.iter().find_map(|substitute| {
            let after = |command: &&str| {
                let mut name = command.split(' ');
                let (begin, rest) = words.split_at_checked(name.clone().count())?;
                begin.iter().all(|word| name.next() == Some(word)).then_some(rest)
            };
            Some((substitute, substitute.commands.iter().find_map(after)?))
        })?;
        let all = ["wrs-emulator"].into_iter().chain(words.iter().map(String::as_str));
        let typed =
            self.definition.clone().try_get_matches_from(all).ok().and_then(|matches| {
                match call_command::find(&matches) {
                    Some((command, matches)) => (command.sent)(matches).ok(),
                    None => trigger::sent(&matches),
                }
            });
        // The name alone is in order even where arguments are needed.
        let Some(sent) = typed else { return given.is_empty().then(|| substitute.tool.to_owned()) };
        let mut arguments = Map::new();
        let segment = sent.segment.map(|(name, text)| (name, text.into()));
        for (name, value) in segment.into_iter().chain(sent.query).chain(sent.body) {
            if is_typed(given, &name, &value) {
                if !substitute.arguments.contains(&name) {
                    return None;
                }
                arguments.insert(name, value);
            }
        }
        match (arguments.is_empty(), given.is_empty()) {
            (true, true) => Some(substitute.tool.to_owned()),
            // A flag that no argument stands for.
            (true, false) => None,
            (false, _) => Some(format!("{} {}", substitute.tool, Value::Object(arguments))),
        }
    }
}

/// False for a default value, or one from the environment.
fn is_typed(words: &[String], name: &str, value: &Value) -> bool {
    let flag = format!("--{}", name.replace('_', "-"));
    let has_flag = words.iter().any(|word| word.split('=').next() == Some(&flag));
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) if name != "key" => has_flag || words.contains(text),
        _ => has_flag,
    }
}

/// The words of a command as a shell reads them, without what only a shell does.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for character in command.chars() {
        match character {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::mcp::tools::{TOOLS, Tool};
    use crate::cli::{Cli, parse};

    fn check(text: &str, expected: &str) {
        let substitutes = TOOLS.iter().map(Tool::substitute).collect();
        let hints = Hints::new(parse::definition(Cli::command()), substitutes);
        assert_eq!(hints.for_agent("find_requests", text), expected, "{text}");
    }

    #[test]
    fn commands_become_calls_of_tools() {
        for (text, expected) in [
            ("see `wrs-emulator explain req_1`", "see `explain {\"id\":\"req_1\"}`"),
            ("`explain req_1` shows why", "`explain {\"id\":\"req_1\"}` shows why"),
            ("wrs-emulator explain req_1 shows why\n", "explain {\"id\":\"req_1\"} shows why\n"),
            (
                "see why: wrs-emulator explain DELIVERY, and wrs-emulator verify",
                "see why: explain {\"id\":\"DELIVERY\"}, and wrs-emulator verify",
            ),
            ("`wrs-emulator scenarios list` shows all", "`status` shows all"),
            (
                "`wrs-emulator clock advance 5s --key sk_test_a`",
                "`advance_clock {\"key\":\"sk_test_a\",\"advance\":\"5s\"}`",
            ),
            (
                "wrs-emulator trigger workflow.completed --duplicate 2 --data 'a=b c'",
                "fire_event {\"type\":\"workflow.completed\",\"set\":{\"a\":\"b c\"},\"duplicate\":2}",
            ),
            ("wrs-emulator trigger --emit late", "fire_event {\"emit\":\"late\"}"),
            (
                "`wrs-emulator scenarios off`, `scenarios use a b`",
                "`play_scenario {\"active\":[]}`, `play_scenario {\"active\":[\"a\",\"b\"]}`",
            ),
            ("`wrs-emulator subscriptions create URL`", "`subscribe {\"url\":\"URL\"}`"),
            ("… more: --cursor 6\n", "… more: cursor 6\n"),
        ] {
            check(text, expected);
        }
    }

    /// Each command exists, so that no name is left behind when one is renamed.
    #[test]
    fn tools_stand_for_commands_that_exist() {
        let whole = parse::definition(Cli::command());
        for name in TOOLS.iter().flat_map(|tool| tool.commands) {
            let found = name.split(' ').try_fold(&whole, |command, word| command.find_subcommand(word));
            assert!(found.is_some(), "{name}");
        }
    }

    /// Also commands that no tool stands for, with their flags.
    #[test]
    fn other_text_stays() {
        for text in [
            "`wrs-emulator profile set webhooks.allow_http=true`",
            "`wrs-emulator scenarios follow --key sk_test_a` ends that",
            "`wrs-emulator reset --all`",
            "wrs-emulator snapshot save a.json --key sk_test_a",
            "start it with `wrs-emulator --listen 127.0.0.1:1`",
            "the field `reset`, or `explain`, or ` explain x`",
            "`wrs-emulator explain",
            "GET /v1/hello?--cursor",
            "--forward at the start",
            "… a – é --",
        ] {
            check(text, text);
        }
    }
}
