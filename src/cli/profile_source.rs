//! Loads the profile named on the command line: a preset or a file, then assignments. Every problem of a file is reported with
//! its position.

use std::path::Path;

use super::failure::Failure;
use crate::file;
use crate::profile::{Draft, Forward, Layered, Preset, ProfileProblem};

/// Merges the built-in defaults, a preset or a file, and assignments, in this order, and then validates the result.
pub(super) fn load_profile(named: Option<&Path>, assignments: &[String]) -> Result<Layered, Failure> {
    let mut draft = Draft::of(&Layered::default());
    let mut file = None;
    if let Some(named) = named {
        if let Some(name) = preset_name(named) {
            draft.preset(name);
        } else {
            let (shown, text) = (named.display().to_string(), read_profile(named)?);
            draft.text(&text, &shown);
            file = Some((shown, text));
        }
    }
    for assignment in assignments {
        draft.assignment(assignment, "--set");
    }
    draft.finish().map_err(|problems| refused(&problems, file.as_ref()))
}

/// Adds forwards, as `--forward` has them, to a profile.
pub(super) fn with_forwards(mut layered: Layered, rules: &[String]) -> Result<Layered, Failure> {
    for rule in rules {
        let rule = Forward::parse(rule).map_err(|problem| Failure::usage(format!("--forward: {problem}")))?;
        let added = layered.with(|draft| draft.forward(&rule, "--forward"));
        layered = added.map_err(|problems| Failure::usage(format!("--forward: {}", problems[0].message)))?;
    }
    Ok(layered)
}

/// The failure that reports every problem with its origin: a position in the file, an assignment, or the preset.
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
    Failure::invalid_file(format!("the profile is not valid\n{}", lines.join("\n")))
}

/// The text if it names a preset, or cannot be a path: it has no separator or dot, and no such file exists.
fn preset_name(named: &Path) -> Option<&str> {
    let text = named.to_str()?;
    let is_path = text.contains(['/', '\\', '.']) || named.exists();
    (Preset::named(text).is_some() || !is_path).then_some(text)
}

fn read_profile(path: &Path) -> Result<String, Failure> {
    const LARGEST: u64 = 1024 * 1024;
    let unreadable = |cause: String| Failure::io(format!("--profile: cannot read `{}`: {cause}", path.display()));
    let bytes = file::read(path, LARGEST).map_err(|problem| unreadable(problem.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}
