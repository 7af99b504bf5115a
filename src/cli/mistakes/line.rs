//! The command line as typed: the command that it names, and the line with one mistake corrected.

use clap::{Arg, Command};

use super::super::shorthand::DEFAULTS;

/// The words after the program's name, and the command that they name.
pub(super) struct Line<'c> {
    pub(super) words: &'c [String],
    pub(super) command: &'c Command,
    /// The command's path below the program.
    pub(super) path: Vec<&'c str>,
}

impl<'c> Line<'c> {
    pub(super) fn new(definition: &'c Command, words: &'c [String]) -> Self {
        let (mut command, mut path) = (definition, Vec::new());
        for word in words {
            let Some(inner) = command.find_subcommand(word) else { break };
            command = inner;
            path.push(inner.get_name());
        }
        Self { words, command, path }
    }

    /// The command, or the default command of its group.
    pub(super) fn meant(&self) -> &'c Command {
        let inner = DEFAULTS.iter().find(|(group, _)| self.path == [*group]);
        inner.and_then(|(_, name)| self.command.find_subcommand(name)).unwrap_or(self.command)
    }

    /// The index of the first word that is neither a command, a flag, nor a flag's value.
    pub(super) fn first_value(&self) -> Option<usize> {
        let mut at = self.path.len();
        loop {
            let word = self.words.get(at)?;
            if !word.starts_with('-') {
                return Some(at);
            }
            let takes_value = flag(self.command, word).is_some_and(|flag| flag.get_action().takes_values());
            at += if takes_value && !word.contains('=') { 2 } else { 1 };
        }
    }

    /// The value given to a flag, with `=` or as the next word.
    pub(super) fn value_of(&self, flag: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word.split('=').next() == Some(flag))?;
        self.words[at].split_once('=').map(|(_, value)| value).or_else(|| self.words.get(at + 1).map(String::as_str))
    }

    /// The line with `value`, as a word or after a `=`, replaced.
    pub(super) fn with_value(&self, value: &str, replacement: &str) -> Option<String> {
        let after_equals = format!("={value}");
        let at = self
            .words
            .iter()
            .rposition(|word| word == value || (word.starts_with("--") && word.ends_with(&after_equals)))?;
        let word = &self.words[at];
        let corrected = format!("{}{replacement}", &word[..word.len() - value.len()]);
        Some(self.shown(&[&self.words[..at], &[corrected], &self.words[at + 1..]].concat()))
    }

    /// The line with the values at `first..` joined by commas to the list of the flag before them, if they are values of that flag.
    pub(super) fn with_joined_values(&self, first: usize) -> Option<String> {
        let at = self.words[..first].iter().rposition(|word| word.starts_with("--"))?;
        let list = flag(self.command, &self.words[at]).filter(|flag| flag.get_value_delimiter().is_some())?;
        let known = list.get_possible_values();
        let is_value = |word: &&String| word.split(',').all(|part| known.iter().any(|value| value.matches(part, true)));
        let values: Vec<String> = self.words[at + 1..].iter().take_while(is_value).cloned().collect();
        let end = at + 1 + values.len();
        if end <= first {
            return None;
        }
        let mut words = self.words[..at].to_vec();
        match self.words[at].split_once('=') {
            Some(_) => words.push(format!("{},{}", self.words[at], values.join(","))),
            None => words.extend([self.words[at].clone(), values.join(",")]),
        }
        let rest = &self.words[end..];
        // A command that follows needs its `--` as well.
        if self.path == ["exec"] && rest.first().is_some_and(|word| !word.starts_with('-')) {
            words.push("--".to_owned());
        }
        words.extend_from_slice(rest);
        Some(self.shown(&words))
    }

    /// The line with `--` before the word at `at`.
    pub(super) fn with_dashes(&self, at: usize) -> String {
        self.shown(&[&self.words[..at], &["--".to_owned()], &self.words[at..]].concat())
    }

    /// The line with the flags before the command at `at` moved behind it, and the first flag that the command does not have.
    pub(super) fn with_command_first(&self, definition: &Command, at: usize) -> (String, Option<&str>) {
        let (flags, rest) = self.words.split_at(at);
        let moved = Line::new(definition, rest);
        let foreign = flags.iter().find(|word| word.starts_with('-') && flag(moved.meant(), word).is_none());
        let (command, rest) = rest.split_at(moved.path.len());
        let foreign = foreign.map(|word| word.split('=').next().unwrap_or_default());
        (moved.shown(&[command, flags, rest].concat()), foreign)
    }

    /// These words as a line to paste into a shell.
    fn shown(&self, words: &[String]) -> String {
        let mut line = "wrs-emulator".to_owned();
        let mut hides_next = false;
        for word in words {
            let secret = flag(self.command, word).is_some_and(is_secret);
            let shown = match word.split_once('=').filter(|_| secret) {
                Some((name, _)) => format!("{name}=SECRET"),
                None if hides_next => "SECRET".to_owned(),
                None => quoted(word),
            };
            hides_next = secret && !word.contains('=');
            line.push(' ');
            line.push_str(&shown);
        }
        line
    }
}

/// The flag of a command that a word such as `--listen` or `--listen=:0` names.
pub(super) fn flag<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next()?;
    command.get_arguments().find(|known| {
        name.strip_prefix("--").is_some_and(|long| known.get_long() == Some(long))
            || name.strip_prefix('-').is_some_and(|short| known.get_short().map(String::from).as_deref() == Some(short))
    })
}

/// Whether a flag's value must not be printed, as logs would keep it. Keys are masked when they are printed.
fn is_secret(flag: &Arg) -> bool {
    flag.is_hide_env_values_set() && flag.get_id() != "key"
}

fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_can_be_pasted_and_hold_no_secret() {
        let definition = crate::cli::definition();
        for (words, expected) in [
            (&["exec", "sh", "-c", "echo 'a b'", ""][..], r"wrs-emulator exec -- sh -c 'echo '\''a b'\''' ''"),
            (&["exec", "--control-token=x", "sh"], "wrs-emulator exec --control-token=SECRET -- sh"),
            (&["exec", "--control-token", "x", "sh"], "wrs-emulator exec --control-token SECRET -- sh"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let line = Line::new(&definition, &words);
            assert_eq!(line.with_dashes(line.first_value().expect("a command")), expected);
        }
    }
}
