//! The scenarios shipped with the binary, read only when one is asked for: the start of the process must stay short.

use std::sync::{Arc, OnceLock};

use super::{Scenario, ScenarioOrigin, parse};
use crate::settings::Layered;

struct Shipped {
    name: &'static str,
    text: &'static str,
    checked: OnceLock<Option<Arc<Scenario>>>,
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        [$(Shipped {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
            checked: OnceLock::new(),
        }),+]
    };
}

/// Sorted by name.
static SHIPPED: [Shipped; 18] = shipped![
    "always-401",
    "always-422",
    "always-429",
    "degraded-dependencies",
    "flaky-network",
    "invalid-subscription",
    "key-revoked-midway",
    "magic-keys",
    "preview-workflows",
    "quota-exhaustion",
    "rate-limit-burst",
    "slow-responses",
    "unsupported-event",
    "webhook-duplicates-out-of-order",
    "webhook-flood",
    "webhook-forged",
    "webhook-happy-path",
    "webhook-retries",
];

/// The file that `scenarios new` writes.
pub const STARTER_TEXT: &str = include_str!("starter.toml");

pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|shipped| shipped.name)
}

pub fn built_in(name: &str) -> Option<Arc<Scenario>> {
    let shipped = SHIPPED.iter().find(|shipped| shipped.name == name)?;
    let read = || {
        parse::parse_scenario(shipped.name, shipped.text, ScenarioOrigin::BuiltIn, &Layered::default()).0.map(Arc::new)
    };
    shipped.checked.get_or_init(read).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::render_all;

    #[test]
    fn the_starter_is_valid() {
        let (scenario, problems) = parse::check_text("starter", STARTER_TEXT);
        assert!(scenario.is_some() && problems.is_empty(), "{}", render_all(&problems, false));
    }

    #[test]
    fn every_shipped_scenario_is_valid_and_explains_itself() {
        let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
            .expect("the folder is there")
            .map(|entry| entry.expect("the entry can be read").file_name().into_string().expect("names are UTF-8"))
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        files.sort();
        assert_eq!(files, built_in_names().collect::<Vec<_>>(), "every file is built in, in the order of names");
        for shipped in &SHIPPED {
            let (scenario, problems) = parse::check_text(shipped.name, shipped.text);
            assert!(problems.is_empty(), "{}:\n{}", shipped.name, render_all(&problems, false));
            let scenario = scenario.expect("no problem was found");
            assert_ne!(scenario.title, shipped.name, "{} has a title", shipped.name);
            assert!(scenario.description.is_some(), "{} has a description", shipped.name);
            assert!(shipped.text.starts_with("#:schema "), "{} carries the editor directive", shipped.name);
            assert_eq!(built_in(shipped.name).expect("it is valid").name.as_ref(), shipped.name);
        }
    }
}
