//! What the program prints of itself, whole: a change of any of it shows as a change of a file.

use wrs_emulator::settings::{Layered, SETTINGS, default_text, file_schema};

use crate::control_openapi::spread;
use crate::support::assert_in_step;

fn in_step(name: &str, made: &str) {
    assert_in_step(format!("tests/it/frozen/{name}"), made);
}

#[test]
fn the_built_in_profile_and_its_schema() {
    in_step("profile.toml", &default_text());
    // Editors show and check what it says of each setting.
    in_step("profile.schema.json", &spread(&file_schema(), 4));
}

/// What each setting says of values that it does not take: what it takes, then each message once, with the values that it is about.
#[test]
fn the_problems_of_settings() {
    const WRONG: [&str; 10] =
        ["-1", "1.5", "true", "[]", "[[1]]", "{}", "{ a = 1 }", "{ not_found = 1 }", "\"§ §\"", ""];
    let mut text = String::new();
    for setting in SETTINGS.iter() {
        // The value itself is a part of many messages.
        let mut problems: Vec<(String, String, Vec<&str>)> = Vec::new();
        for value in WRONG {
            let assignment = format!("{}={value}", setting.path);
            let Err(problem) = Layered::default().with_assignment(&assignment, "--set") else { continue };
            let message = match value {
                "" => problem.message,
                value => problem.message.replace(&format!("found {value}"), "found VALUE"),
            };
            match problems.iter_mut().find(|(other, hint, _)| *other == message && *hint == problem.hint) {
                Some((.., values)) => values.push(value),
                None => problems.push((message, problem.hint, vec![value])),
            }
        }
        let mut hint = "";
        for (message, other, values) in &problems {
            if hint != other {
                text += &format!("{}: {other}\n", setting.path);
                hint = other;
            }
            text += &format!("  {message}: {}\n", values.join("   "));
        }
    }
    in_step("problems.txt", &text);
}
