//! Presets: named profiles that come with the program, each a text like a profile file (`friendly.toml`,
//! `hostile.toml`). A client that works under all of them relies only on what the contract promises.

use super::layers::ProfileProblem;
use crate::contract::nearest;

#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
}

/// Every preset, the default first: it sets nothing, as the built-in profile is the contract's.
pub const PRESETS: [Preset; 3] = [
    Preset { name: "contract", text: "" },
    Preset { name: "friendly", text: include_str!("friendly.toml") },
    Preset { name: "hostile", text: include_str!("hostile.toml") },
];

impl Preset {
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The preset of this name, or a problem that lists all of them.
    pub(super) fn find(name: &str) -> Result<&'static Self, ProfileProblem> {
        Self::named(name).ok_or_else(|| unknown(name))
    }
}

fn unknown(name: &str) -> ProfileProblem {
    let names = || PRESETS.iter().map(|preset| preset.name);
    let known = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let file = "a profile file is named by its path, such as `./profile.toml`";
    let hint = match nearest(name, names()) {
        Some(name) => format!("did you mean `{name}`? {file}"),
        None => file.to_owned(),
    };
    let message = format!("there is no preset `{}`; there are {known}", name.escape_debug());
    ProfileProblem::new("profile/unknown-preset", 0..0, message, hint)
}

#[cfg(test)]
mod tests {
    use crate::profile::{Layered, SETTINGS};

    fn set_by(name: &str) -> Vec<&'static str> {
        let layered = Layered::default().with(|draft| draft.preset(name)).expect("the preset is valid");
        let source = format!("preset {name}");
        SETTINGS.iter().map(|setting| setting.path).filter(|path| layered.source(path) == source).collect()
    }

    #[test]
    fn each_preset_is_valid_and_names_itself_as_the_source() {
        assert_eq!(set_by("contract"), [""; 0]);
        assert_eq!(
            set_by("friendly"),
            ["errors.details", "rate_limit.retry_after", "rate_limit.reset", "ids.request_header"]
        );
        let hostile = set_by("hostile");
        for setting in ["variation.unknown_fields", "variation.key_order", "webhooks.copies", "webhooks.scatter"] {
            assert!(hostile.contains(&setting), "{setting} is not among {hostile:?}");
        }
        // Whatever is promised has no place in a preset: which keys are valid, the statuses, the names of headers.
        for setting in ["environment", "keys.mode", "errors.malformed_json_status", "rate_limit.header_names"] {
            assert!(!hostile.contains(&setting), "{setting}");
        }
    }

    #[test]
    fn a_later_layer_wins_over_a_preset() {
        let layered = Layered::default().with(|draft| draft.preset("hostile")).expect("the preset is valid");
        let layered = layered.with_assignment("webhooks.copies=1", "--set").expect("the setting is valid");
        assert_eq!((layered.profile().webhooks.copies.get(), layered.source("webhooks.copies")), (1, "--set"));
        assert!(layered.profile().variation.is_on());
    }

    #[test]
    fn a_setting_that_stands_against_a_preset_is_told() {
        let taken = "rate_limit.header_names.limit=X-Request-Id";
        let layered = Layered::default().with_assignment(taken, "--set").expect("the setting is valid");
        let problems = layered.with(|draft| draft.preset("friendly")).expect_err("one header cannot carry both");
        let problem = &problems[0];
        assert!(problem.message.starts_with("`ids.request_header`:"), "{}", problem.message);
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_and_all_there_are() {
        for (name, hint) in [("hostil", "did you mean `hostile`?"), ("freindly", "`friendly`"), ("xyz", "./profile")] {
            let problem = Layered::default().with(|draft| draft.preset(name)).expect_err(name).remove(0);
            assert_eq!(problem.code, "profile/unknown-preset");
            assert!(problem.message.contains("`contract`, `friendly`, `hostile`"), "{}", problem.message);
            assert!(problem.hint.contains(hint), "{name}: {}", problem.hint);
        }
    }
}
