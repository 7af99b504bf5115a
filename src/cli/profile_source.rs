//! The profile that a command line asks for: a preset or a file, then single assignments. Every problem of a file is told
//! with its place.

use std::path::Path;

use super::failure::Failure;
use crate::contract::profile::{Layered, Preset};
use crate::file;

/// The profile: built-in defaults, then a preset or a file, then single assignments.
pub(super) fn load_profile(wanted: Option<&Path>, assignments: &[String]) -> Result<Layered, Failure> {
    let mut layered = Layered::default();
    if let Some(wanted) = wanted {
        layered = match name_of(wanted) {
            Some(name) => layered
                .with_preset(name)
                .map_err(|problem| Failure::usage(format!("--profile: {}", problem.message)).with_hint(problem.hint))?,
            None => with_file(&layered, wanted)?,
        };
    }
    for assignment in assignments {
        layered = layered.with_assignment(assignment, "--set").map_err(|problem| {
            Failure::usage(format!("--set {assignment}: {}", problem.message)).with_hint(problem.hint)
        })?;
    }
    Ok(layered)
}

/// The text if it is the name of a preset, or meant as one: it looks like no path, and no file is there.
fn name_of(wanted: &Path) -> Option<&str> {
    let text = wanted.to_str()?;
    let is_path = text.contains(['/', '\\', '.']) || wanted.exists();
    (Preset::named(text).is_some() || !is_path).then_some(text)
}

fn with_file(layered: &Layered, path: &Path) -> Result<Layered, Failure> {
    let text = read_profile(path)?;
    let shown = path.display().to_string();
    layered.with_text(&text, &shown).map_err(|problems| {
        let lines: Vec<String> = problems
            .iter()
            .map(|problem| {
                let before = &text[..problem.span.start.min(text.len())];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                format!("{shown}:{line}:{column}: {} [{}]\n  hint: {}", problem.message, problem.code, problem.hint)
            })
            .collect();
        Failure::usage(format!("the profile is not valid\n{}", lines.join("\n")))
    })
}

fn read_profile(path: &Path) -> Result<String, Failure> {
    const LARGEST: u64 = 1024 * 1024;
    let unreadable = |cause: String| Failure::usage(format!("--profile: cannot read `{}`: {cause}", path.display()));
    let bytes = file::read(path, LARGEST).map_err(|problem| unreadable(problem.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}
