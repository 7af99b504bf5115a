//! What the program prints of itself, whole: a change of any of it shows as a change of a file.

use serde_json::Value;
use wrs_emulator::settings::{Layered, SETTINGS, default_text, file_schema};

use crate::support::assert_in_step;

fn in_step(name: &str, made: &str) {
    assert_in_step(format!("tests/it/frozen/{name}"), made);
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).expect("it serialises") + "\n"
}

#[test]
fn the_built_in_profile_and_its_schema() {
    in_step("profile.toml", &default_text());
    in_step("profile.schema.json", &pretty(&file_schema()));
}

/// What each setting says of values that it does not take.
#[test]
fn the_problems_of_settings() {
    let mut problems = String::new();
    for setting in SETTINGS.iter() {
        for value in ["-1", "1.5", "true", "[]", "[[1]]", "{}", "{ a = 1 }", "{ not_found = 1 }", "\"§ §\"", ""] {
            let assignment = format!("{}={value}", setting.path);
            if let Err(problem) = Layered::default().with_assignment(&assignment, "--set") {
                problems.push_str(&format!("{assignment}\n  {}\n  {}\n", problem.message, problem.hint));
            }
        }
    }
    in_step("problems.txt", &problems);
}
