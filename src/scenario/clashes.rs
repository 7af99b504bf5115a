//! Clashes between scenarios that are active together: rules of two that decide the same request, settings that two set
//! differently. One warning for each two scenarios, which says which of them wins; nothing is refused.
//!
//! Rules clash if the conditions of one are among those of the other, so that some requests certainly match both. Those with
//! different conditions may have requests in common as well; they are not reported, as most of them never do.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::Scenario;
use super::rule::Rule;
use crate::contract::routes::Operation;
use crate::diagnostic::{Diagnostic, Level};
use crate::util::wording::{any_of, counted};

/// Most clashes reported of one list.
const MOST_REPORTED: usize = 5;
/// Most pairs of rules compared, so that no scenarios can keep a call waiting for long.
const MOST_COMPARED: usize = 1_000_000;

/// Two scenarios that clash, in the order in which they are active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    pub scenarios: [Arc<str>; 2],
    pub warning: Diagnostic,
}

/// What a clash does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// A rule never applies.
    NeverApplies,
    /// A setting is not in force.
    NotInForce,
    /// A rule gets only the requests that the other does not match.
    Narrower,
    /// The other rule lets requests through, or ends at some time.
    HandedOn,
}

/// A rule, the position of its scenario in the list, and its conditions as texts.
struct Placed<'s> {
    at: usize,
    rule: &'s Rule,
    demands: BTreeSet<String>,
}

/// The worst two rules of two scenarios.
struct RuleClash<'s> {
    effect: Effect,
    earlier: &'s Rule,
    later: &'s Rule,
    has_more: bool,
}

/// The clashes of scenarios that are active together, in this order.
pub(crate) fn clashes(active: &[Arc<Scenario>]) -> Vec<Clash> {
    if active.len() < 2 {
        return Vec::new();
    }
    let mut found = of_rules(active);
    found.extend(of_settings(active));
    found.sort_by_key(|(effect, _)| *effect);
    let more = found.len().saturating_sub(MOST_REPORTED);
    let mut reported: Vec<Clash> = found.into_iter().take(MOST_REPORTED).map(|(_, clash)| clash).collect();
    if let Some(last) = reported.last_mut().filter(|_| more > 0) {
        last.warning.hint.push_str(&format!("; {} not shown", counted(more, "more warning")));
    }
    reported
}

/// Rules are looked up by their least common condition, as ten thousand cannot be compared with ten thousand.
fn of_rules(active: &[Arc<Scenario>]) -> Vec<(Effect, Clash)> {
    let placed: Vec<Placed<'_>> = active
        .iter()
        .enumerate()
        .flat_map(|(at, scenario)| {
            scenario.rules.iter().map(move |rule| Placed { at, rule, demands: rule.when.demands() })
        })
        .collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for demand in placed.iter().flat_map(|placed| &placed.demands) {
        *uses.entry(demand).or_default() += 1;
    }
    let mut wide: HashMap<&str, Vec<&Placed<'_>>> = HashMap::new();
    let mut seen = HashSet::new();
    for rule in &placed {
        // Of rules that differ in nothing that is compared here, one is enough.
        if seen.insert((rule.at, &rule.rule.when.operations, &rule.demands, decides_for_good(rule.rule))) {
            let rarest = rule.demands.iter().min_by_key(|demand| uses[demand.as_str()]);
            wide.entry(rarest.map_or("", String::as_str)).or_default().push(rule);
        }
    }
    let mut found: BTreeMap<(usize, usize), RuleClash<'_>> = BTreeMap::new();
    let pairs = placed.iter().flat_map(|narrow| {
        let keys = narrow.demands.iter().map(String::as_str).chain([""]);
        keys.filter_map(|key| wide.get(key)).flatten().map(move |wide| (*wide, narrow))
    });
    for (wide, narrow) in pairs.take(MOST_COMPARED) {
        let meet = wide.at != narrow.at
            && wide.rule.when.shares_an_operation_with(&narrow.rule.when)
            && wide.demands.is_subset(&narrow.demands);
        if meet {
            let (earlier, later) = if wide.at < narrow.at { (wide, narrow) } else { (narrow, wide) };
            let clash = RuleClash::of(earlier, later);
            match found.entry((earlier.at, later.at)) {
                Entry::Vacant(entry) => drop(entry.insert(clash)),
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    known.has_more |= (known.earlier.line, known.later.line) != (clash.earlier.line, clash.later.line);
                    if clash.effect < known.effect {
                        *known = RuleClash { has_more: true, ..clash };
                    }
                }
            }
        }
    }
    found
        .into_iter()
        .map(|((earlier, later), clash)| (clash.effect, clash.report(&active[earlier], &active[later])))
        .collect()
}

/// Whether a rule decides everything that it matches for as long as its scenario is active. Another scenario does not know its
/// steps, so a rule of one step does not.
fn decides_for_good(rule: &Rule) -> bool {
    rule.step.is_none() && rule.always_applies()
}

impl<'s> RuleClash<'s> {
    fn of(earlier: &Placed<'s>, later: &Placed<'s>) -> Self {
        let covers =
            earlier.demands.is_subset(&later.demands) && earlier.rule.when.has_every_operation_of(&later.rule.when);
        let effect = match (decides_for_good(earlier.rule), covers) {
            (true, true) => Effect::NeverApplies,
            (true, false) => Effect::Narrower,
            (false, _) => Effect::HandedOn,
        };
        Self { effect, earlier: earlier.rule, later: later.rule, has_more: false }
    }

    fn report(&self, earlier: &Scenario, later: &Scenario) -> Clash {
        let place = format!("{}:{}", earlier.file_name(), self.earlier.line);
        let first = format!("\"{}\" of `{}` ({place})", self.earlier.label.escape_debug(), earlier.name);
        let second = format!("\"{}\" of `{}`", self.later.label.escape_debug(), later.name);
        let both = operations(self.earlier, self.later);
        let mut message = if self.effect == Effect::NeverApplies {
            format!("{second} never applies: {first} decides all that it matches ({both})")
        } else {
            let until = if self.effect == Effect::HandedOn { " while it applies" } else { "" };
            format!(
                "{second} gets only what {first} leaves: both match requests to {both}, and the first decides{until}"
            )
        };
        if self.has_more {
            message.push_str("; other rules of the two clash as well");
        }
        let hint = format!(
            "{}: the first rule that applies decides; name `{}` first to turn that around",
            order(earlier, later),
            later.name
        );
        let start = later.text.split_inclusive('\n').take(self.later.line - 1).map(str::len).sum::<usize>();
        let end = start + later.text[start..].find('\n').unwrap_or(later.text.len() - start);
        let warning = Diagnostic::at(Level::Warning, "scenario/clash-rule", &later.text, start..end, message, hint);
        Clash { scenarios: names(earlier, later), warning: warning.in_file(later.file_name()) }
    }
}

/// The operations that both rules are about.
fn operations(one: &Rule, other: &Rule) -> String {
    let (one, other) = (&one.when.operations, &other.when.operations);
    let (some, all) = if one.is_empty() { (other, one) } else { (one, other) };
    let shared = some.iter().filter(|operation| all.is_empty() || all.contains(operation));
    let named: Vec<String> = shared.map(|operation: &Operation| format!("`{}`", operation.name())).collect();
    if named.is_empty() { "any operation".to_owned() } else { any_of(&named) }
}

fn names(earlier: &Scenario, later: &Scenario) -> [Arc<str>; 2] {
    [Arc::clone(&earlier.name), Arc::clone(&later.name)]
}

fn order(earlier: &Scenario, later: &Scenario) -> String {
    format!("the order in force is `{}`, then `{}`", earlier.name, later.name)
}

/// The settings that two scenarios set, each with its place in the text of each.
type Places<'s> = Vec<(&'s str, Range<usize>, Range<usize>)>;

fn of_settings(active: &[Arc<Scenario>]) -> Vec<(Effect, Clash)> {
    let mut set: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (at, scenario) in active.iter().enumerate() {
        for (path, value, place) in scenario.overlay.iter().flat_map(|overlay| overlay.settings.entries()) {
            set.entry(path).or_default().push((at, value, place));
        }
    }
    let mut found: BTreeMap<(usize, usize), Places<'_>> = BTreeMap::new();
    for (path, given) in &set {
        let Some(((last, in_force, place), earlier)) = given.split_last() else { continue };
        for (at, _, own) in earlier.iter().filter(|(at, value, _)| at != last && value != in_force) {
            found.entry((*at, *last)).or_default().push((path, own.clone(), place.clone()));
        }
    }
    let warning = |((earlier, later), paths): ((usize, usize), Places<'_>)| {
        let (earlier, later) = (&active[earlier], &active[later]);
        let (path, own, other) = &paths[0];
        let line = later.text[..other.start].matches('\n').count() + 1;
        let more = match paths.len() - 1 {
            0 => String::new(),
            more => format!("; so it is with {}", counted(more, "other setting")),
        };
        let message = format!(
            "`{path}` of `{}` is not in force: `{}` ({}:{line}) sets it to another value{more}",
            earlier.name,
            later.name,
            later.file_name()
        );
        let hint = format!(
            "{}: of settings the last one wins; name `{}` last to turn that around",
            order(earlier, later),
            earlier.name
        );
        let warning =
            Diagnostic::at(Level::Warning, "scenario/clash-setting", &earlier.text, own.clone(), message, hint);
        let clash = Clash { scenarios: names(earlier, later), warning: warning.in_file(earlier.file_name()) };
        (Effect::NotInForce, clash)
    };
    found.into_iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::scenario::{built_in, check_text};

    fn scenario(name: &str, text: &str) -> Arc<Scenario> {
        let (scenario, problems) = check_text(name, text);
        Arc::new(scenario.unwrap_or_else(|| panic!("{text}\n{problems:?}")))
    }

    fn rule(keys: &str) -> String {
        format!("[[rule]]\n{keys}\nreply = {{ status = 500 }}\n")
    }

    /// The warnings about two scenarios, each with where it is.
    fn warned(first: &str, second: &str) -> Vec<String> {
        let found = clashes(&[scenario("a", first), scenario("b", second)]);
        let line = |Clash { scenarios, warning }: &Clash| {
            assert_eq!(scenarios.each_ref().map(AsRef::as_ref), ["a", "b"]);
            assert!(!warning.is_error() && warning.hint.starts_with("the order in force is `a`, then `b`: "));
            format!("{}:{}: {}", warning.file.as_deref().unwrap_or_default(), warning.line, warning.message)
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn rules_of_two_scenarios_clash_where_one_has_the_conditions_of_the_other() {
        let never = "b:1: \"rule 1\" of `b` never applies: \"rule 1\" of `a` (a:1) decides all that it matches";
        let leaves = "b:1: \"rule 1\" of `b` gets only what \"rule 1\" of `a` (a:1) leaves: both match requests to `system.status`";
        let status = "when.operation = 'system.status'";
        let query = "when = { operation = 'system.status', query.x = '1' }";
        for (first, second, expected) in [
            (status, status, format!("{never} (`system.status`)")),
            (status, query, format!("{never} (`system.status`)")),
            ("", query, format!("{never} (`system.status`)")),
            ("", "", format!("{never} (any operation)")),
            (status, &format!("{status}\ntimes = 3"), format!("{never} (`system.status`)")),
            (query, status, format!("{leaves}, and the first decides")),
            (status, "", format!("{leaves}, and the first decides")),
            (status, "when.operation = ['hello', 'system.status']", format!("{leaves}, and the first decides")),
            (&format!("{status}\ntimes = 3"), status, format!("{leaves}, and the first decides while it applies")),
            (&format!("{status}\nchance = 0.5"), query, format!("{leaves}, and the first decides while it applies")),
            // Each scenario has steps of its own.
            (
                "when = { operation = 'system.status', step = 'start' }",
                query,
                format!("{leaves}, and the first decides while it applies"),
            ),
            (
                "when = { step = 'start' }",
                "when = { step = 'start' }",
                format!(
                    "{} any operation, and the first decides while it applies",
                    leaves.trim_end_matches(" `system.status`")
                ),
            ),
            // Different conditions seldom meet, and different operations never do.
            (query, "when = { operation = 'system.status', query.y = '1' }", String::new()),
            (query, "when = { operation = 'system.status', query.x = '2' }", String::new()),
            (status, "when.operation = 'hello'", String::new()),
        ] {
            let expected: Vec<String> = Some(expected).into_iter().filter(|line| !line.is_empty()).collect();
            assert_eq!(warned(&rule(first), &rule(second)), expected, "{first} / {second}");
        }
    }

    #[test]
    fn two_scenarios_have_one_warning_about_the_worst_of_their_rules() {
        let status = "when.operation = 'system.status'";
        let limited = rule(&format!("name = 'few'\n{status}\ntimes = 1"));
        let first = limited + &rule(&format!("name = 'all'\n{status}"));
        assert_eq!(
            warned(&first, &("title = 'x'\n".to_owned() + &rule(&format!("name = 'mine'\n{status}")))),
            [
                "b:2: \"mine\" of `b` never applies: \"all\" of `a` (a:6) decides all that it matches (`system.status`); \
              other rules of the two clash as well"
            ]
        );
    }

    #[test]
    fn settings_clash_if_their_values_differ() {
        let first = "[profile]\nrate_limit = { requests = 3, window = '30s' }\nerrors.codes = { not_found = 'x' }\n";
        for (second, expected) in [
            ("[profile]\nrate_limit.requests = 3\n", None),
            ("[profile]\nrate_limit.algorithm = 'token_bucket'\n", None),
            ("[profile]\nerrors.codes = { unauthorized = 'y' }\n", None),
            (
                "[profile]\nerrors.codes = { not_found = 'y' }\n",
                Some("a:3: `errors.codes.not_found` of `a` is not in force: `b` (b:2) sets it to another value"),
            ),
            (
                "[profile]\nrate_limit.requests = 4\nrate_limit.window = '1m'\n",
                Some(
                    "a:2: `rate_limit.requests` of `a` is not in force: `b` (b:2) sets it to another value; so it is with 1 other setting",
                ),
            ),
        ] {
            assert_eq!(warned(first, second), expected.into_iter().collect::<Vec<_>>(), "{second}");
        }
    }

    #[test]
    fn few_clashes_are_shown_and_the_worst_first() {
        let names = ["flaky-network", "slow-responses", "magic-keys", "always-401", "always-422", "always-429"];
        let active: Vec<_> = names.iter().map(|name| built_in(name).expect("it is shipped")).collect();
        let found = clashes(&active);
        assert_eq!(found.len(), MOST_REPORTED);
        assert!(found.iter().all(|clash| clash.warning.message.contains("never applies")), "{found:?}");
        let hint = &found[MOST_REPORTED - 1].warning.hint;
        assert!(hint.ends_with("; 10 more warnings not shown"), "{hint}");
        assert!(clashes(&active[..1]).is_empty() && clashes(&[]).is_empty());
    }

    #[test]
    fn ten_thousand_rules_each_are_not_compared_with_each_other() {
        let story = |name: &str, condition: fn(usize) -> String| {
            let mut text = String::new();
            for number in 0..10_000 {
                // Writing to a String cannot fail.
                let _ = write!(text, "[[rule]]\nwhen = {{ {} }}\ntimes = 1\npass = true\n", condition(number));
            }
            scenario(name, &text)
        };
        let mut active = vec![
            story("hello", |_| "operation = 'hello'".to_owned()),
            story("status", |_| "operation = 'system.status'".to_owned()),
            story("query", |number| format!("operation = 'events.subscribe', query.a = '{number}'")),
        ];
        assert_eq!(clashes(&active), []);
        active.push(story("again", |number| format!("operation = 'events.subscribe', query.a = '{number}'")));
        // Comparing all with all would end before these are reached.
        assert_eq!(clashes(&active).len(), 1);
    }
}
