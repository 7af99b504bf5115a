//! One run of the binary with its expected results: exit status, stdout and stderr, each compared whole.
//!
//! Ids and present times differ from run to run; they are compared as `req_…` and `TIME`.

use std::path::Path;
use std::process::Command;

use crate::process::Served;
use crate::support::{Outcome, START, assert_in_step, piped, text, wrs_emulator};

/// The command and its expected results; by default it succeeds and writes nothing.
#[must_use]
pub(crate) struct Program {
    command: Command,
    line: String,
    stdin: String,
    status: i32,
    stdout: String,
    stderr: String,
}

impl Program {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let (stdin, stdout, stderr) = (String::new(), String::new(), String::new());
        Self { command: wrs_emulator(arguments), line: arguments.join(" "), stdin, status: 0, stdout, stderr }
    }

    /// Runs against this emulator.
    pub(crate) fn at(self, served: &Served) -> Self {
        self.env("WRS_EMULATOR_URL", &served.url)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        text.clone_into(&mut self.stdin);
        self
    }

    pub(crate) fn status(mut self, code: i32) -> Self {
        self.status = code;
        self
    }

    pub(crate) fn stdout(mut self, text: &str) -> Self {
        text.clone_into(&mut self.stdout);
        self
    }

    pub(crate) fn stderr(mut self, text: &str) -> Self {
        text.clone_into(&mut self.stderr);
        self
    }

    /// Runs and compares.
    #[track_caller]
    pub(crate) fn run(mut self) {
        let output = self.output();
        let found = (output.status.code(), masked(&text(&output.stdout)), masked(&text(&output.stderr)));
        assert_eq!(found, (Some(self.status), self.stdout, self.stderr), "{}", self.line);
    }

    fn output(&mut self) -> Outcome {
        piped(&mut self.command, self.stdin.as_bytes())
    }
}

/// Runs each line of a transcript that begins with `$ wrs-emulator`, in this folder, and compares the lines below it: what the
/// program wrote to stderr, which exits with 2 and prints nothing. `UPDATE_EXPECTED=1` writes the transcript anew.
pub(crate) fn refusals(name: &str, folder: &Path) -> String {
    let path = format!("{}/tests/it/{name}", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(&path).expect("the transcript");
    let mut found = String::new();
    for line in expected.lines().filter_map(|line| line.strip_prefix("$ wrs-emulator")) {
        let words = words(line);
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = Program::new(&arguments).within(folder).output();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{line}: {output:?}");
        found += &format!("$ wrs-emulator{line}\n{}\n", masked(&text(&output.stderr)));
    }
    assert_in_step(path, &found);
    found
}

/// The words of a command line; those with spaces are in single quotes.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate().flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    quoted.collect()
}

/// The text without ids and times.
fn masked(text: &str) -> String {
    let (mut masked, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = first.len_utf8();
        if let Some(prefix) = ["req_", "evt_", "dlv_", "sub_"].into_iter().find(|prefix| rest.starts_with(prefix)) {
            let id = rest[4..].bytes().take_while(u8::is_ascii_alphanumeric).count();
            masked += if id >= 20 { prefix } else { &rest[..4 + id] };
            masked += if id >= 20 { "…" } else { "" };
            rest = &rest[4 + id..];
        } else if let Some(time) = rest.get(..20).filter(|time| is_of_today(time)) {
            masked += "TIME";
            rest = &rest[time.len()..];
        } else {
            masked += &rest[..length];
            rest = &rest[length..];
        }
    }
    masked
}

/// True if this is a timestamp that no test has set.
fn is_of_today(text: &str) -> bool {
    text.ends_with('Z')
        && text.parse().is_ok_and(|time: jiff::Timestamp| time > START + jiff::SignedDuration::from_hours(48))
}
