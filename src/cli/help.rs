//! The examples of each command's help, and where its last flags are listed.

/// The display order of `--json`, after all other options.
pub(super) const LAST: usize = 900;

/// The template of the program's own help, with examples and notes about all commands before the usage.
pub(super) const TEMPLATE: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";

/// The examples below a command's help, each without the program's name; one may end in a comment, two spaces apart.
pub(super) fn examples<const N: usize>(lines: [&str; N]) -> String {
    listed(&lines)
}

/// Like [`examples`], of a list whose length is not known.
pub(super) fn listed(lines: &[&str]) -> String {
    let line = |line: &&str| format!("\n  {}", format!("wrs-emulator {line}").trim_end());
    format!("Examples:{}", lines.iter().map(line).collect::<String>())
}
