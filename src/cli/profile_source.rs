//! The profile that a command line asks for: a preset or a file, then single assignments. Every problem of a file is told
//! with its place.

use std::path::Path;

use super::failure::Failure;
use crate::file;
use crate::profile::{Draft, Layered, Preset, ProfileProblem};

/// The profile: built-in defaults, then a preset or a file, then single assignments. All are merged before anything is judged.
pub(super) fn load_profile(wanted: Option<&Path>, assignments: &[String]) -> Result<Layered, Failure> {
    let mut draft = Draft::of(&Layered::default());
    let mut file = None;
    if let Some(wanted) = wanted {
        if let Some(name) = name_of(wanted) {
            draft.preset(name);
        } else {
            let (shown, text) = (wanted.display().to_string(), read_profile(wanted)?);
            draft.text(&text, &shown);
            file = Some((shown, text));
        }
    }
    for assignment in assignments {
        draft.assignment(assignment, "--set");
    }
    draft.finish().map_err(|problems| refused(&problems, file.as_ref()))
}

/// Every problem with its setting: a place in the file, an assignment, or the preset.
fn refused(problems: &[ProfileProblem], file: Option<&(String, String)>) -> Failure {
    let place = |problem: &ProfileProblem| match file {
        _ if *problem.source == *"--set" => Err(format!("--set {}", problem.written)),
        Some((shown, text)) if **shown == *problem.source => {
            let before = &text[..problem.span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Ok(format!("{shown}:{line}:{column}"))
        }
        _ => Err("--profile".to_owned()),
    };
    if let [problem] = problems
        && let Err(flag) = place(problem)
    {
        return Failure::usage(format!("{flag}: {}", problem.message)).with_hint(problem.hint.clone());
    }
    let line = |problem: &ProfileProblem| {
        let (place, code) = match place(problem) {
            Ok(place) => (place, format!(" [{}]", problem.code)),
            Err(flag) => (flag, String::new()),
        };
        format!("{place}: {}{code}\n  hint: {}", problem.message, problem.hint)
    };
    let lines: Vec<String> = problems.iter().map(line).collect();
    Failure::usage(format!("the profile is not valid\n{}", lines.join("\n")))
}

/// The text if it is the name of a preset, or meant as one: it looks like no path, and no file is there.
fn name_of(wanted: &Path) -> Option<&str> {
    let text = wanted.to_str()?;
    let is_path = text.contains(['/', '\\', '.']) || wanted.exists();
    (Preset::named(text).is_some() || !is_path).then_some(text)
}

fn read_profile(path: &Path) -> Result<String, Failure> {
    const LARGEST: u64 = 1024 * 1024;
    let unreadable = |cause: String| Failure::usage(format!("--profile: cannot read `{}`: {cause}", path.display()));
    let bytes = file::read(path, LARGEST).map_err(|problem| unreadable(problem.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}
