//! The scenarios shipped with the binary, and the file that `scenarios new` writes.

use std::sync::{Arc, OnceLock};

use super::parse::parse_scenario;
use super::{Scenario, ScenarioOrigin};
use crate::settings::Layered;

/// A scenario shipped with the binary, read only when it is asked for: the start of the process must stay short.
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
static SHIPPED: [Shipped; 19] = shipped![
    "always-401",
    "always-422",
    "always-429",
    "announced-endpoints",
    "degraded-dependencies",
    "flaky-network",
    "invalid-subscription",
    "key-revoked-midway",
    "magic-keys",
    "quota-exhaustion",
    "rate-limit-burst",
    "secret-rotation",
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
    let read =
        || parse_scenario(shipped.name, shipped.text, ScenarioOrigin::BuiltIn, &Layered::default()).0.map(Arc::new);
    shipped.checked.get_or_init(read).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::render_all;
    use crate::scenario::check_text;

    #[test]
    fn shipped_scenarios_and_the_starter_are_valid_and_explain_themselves() {
        assert!(built_in_names().is_sorted());
        let starter = Shipped { name: "starter", text: STARTER_TEXT, checked: OnceLock::new() };
        for Shipped { name, text, .. } in SHIPPED.iter().chain([&starter]) {
            let (scenario, problems) = check_text(name, text);
            assert!(problems.is_empty(), "{name}:\n{}", render_all(&problems, false));
            let scenario = scenario.expect("no problem was found");
            assert!(*scenario.title != **name && scenario.description.is_some(), "{name} explains itself");
            assert!(text.starts_with("#:schema ") || *name == "starter", "{name} carries the editor directive");
        }
    }
}
