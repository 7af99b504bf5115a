//! Clashes between scenarios that are active together: rules of two that decide the same request, settings that two set
//! differently. One warning for each two scenarios, which says which of them wins; nothing is refused.
//!
//! Rules clash if the conditions of one are among those of the other, so that some requests certainly match both. Those with
//! different conditions may have requests in common as well; they are not reported, as most of them never do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::Scenario;
use super::rule::Rule;
use crate::contract::routes::Operation;
use crate::diagnostic::{Diagnostic, Level};
use crate::util::wording::{any_of, counted};

/// Most clashes reported of one list.
const MAX_REPORTED: usize = 5;
/// Most pairs of rules compared, so that no scenarios can keep a call waiting for long.
const MAX_COMPARED: usize = 1_000_000;

/// Two scenarios that clash, in the order in which they are active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    pub scenarios: [Arc<str>; 2],
    pub warning: Diagnostic,
}

/// What a clash does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClashEffect {
    /// A rule never applies.
    NeverApplies,
    /// A setting is not in force.
    NotInForce,
    /// A rule gets only the requests that the other does not match.
    Narrower,
    /// The other rule lets requests through, or ends at some time.
    HandedOn,
}

/// A rule and its conditions as texts.
type Demanding<'s> = (&'s Rule, &'s BTreeSet<String>);

/// The worst two rules of two scenarios.
#[derive(Clone, Copy)]
struct RuleClash<'s> {
    effect: ClashEffect,
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
    let more = found.len().saturating_sub(MAX_REPORTED);
    let mut reported: Vec<Clash> = found.into_iter().take(MAX_REPORTED).map(|(_, clash)| clash).collect();
    if let Some(last) = reported.last_mut().filter(|_| more > 0) {
        last.warning.hint.push_str(&format!("; {} not shown", counted(more, "more warning")));
    }
    reported
}

fn of_rules(active: &[Arc<Scenario>]) -> Vec<(ClashEffect, Clash)> {
    let demands_of = |scenario: &Arc<Scenario>| scenario.rules.iter().map(|rule| rule.when.demands()).collect();
    let demands: Vec<Vec<BTreeSet<String>>> = active.iter().map(demands_of).collect();
    let rules = |at: usize| active[at].rules.iter().map(Arc::as_ref).zip(&demands[at]);
    let mut left = MAX_COMPARED;
    let mut found = Vec::new();
    for earlier in 0..active.len() {
        for later in earlier + 1..active.len() {
            let pairs = rules(earlier).flat_map(|first| rules(later).map(move |second| (first, second)));
            let of_two = pairs.take(left).filter_map(|(first, second)| RuleClash::of(first, second));
            let worst = of_two.reduce(|known, clash| {
                let worse = if clash.effect < known.effect { clash } else { known };
                RuleClash { has_more: true, ..worse }
            });
            left = left.saturating_sub(active[earlier].rules.len() * active[later].rules.len());
            found.extend(worst.map(|clash| (clash.effect, clash.report(&active[earlier], &active[later]))));
        }
    }
    found
}

/// True if a rule decides everything that it matches for as long as its scenario is active. Another scenario does not know its
/// steps, so a rule of one step does not.
fn decides_for_good(rule: &Rule) -> bool {
    rule.when.step.is_none() && rule.always_applies()
}

impl<'s> RuleClash<'s> {
    /// The clash of two rules; `None` if they may have no requests in common.
    fn of((earlier, demands): Demanding<'s>, (later, other_demands): Demanding<'s>) -> Option<Self> {
        let is_wider = demands.is_subset(other_demands);
        let shares_requests =
            earlier.when.shares_an_operation_with(&later.when) && (is_wider || other_demands.is_subset(demands));
        if !shares_requests {
            return None;
        }
        let covers = is_wider && earlier.when.has_every_operation_of(&later.when);
        let effect = match (decides_for_good(earlier), covers) {
            (true, true) => ClashEffect::NeverApplies,
            (true, false) => ClashEffect::Narrower,
            (false, _) => ClashEffect::HandedOn,
        };
        Some(Self { effect, earlier, later, has_more: false })
    }

    fn report(&self, earlier: &Scenario, later: &Scenario) -> Clash {
        let place = format!("{}:{}", earlier.file_name(), self.earlier.line);
        let first = format!("\"{}\" of `{}` ({place})", self.earlier.label.escape_debug(), earlier.name);
        let second = format!("\"{}\" of `{}`", self.later.label.escape_debug(), later.name);
        let both = operations(self.earlier, self.later);
        let mut message = if self.effect == ClashEffect::NeverApplies {
            format!("{second} never applies: {first} decides all that it matches ({both})")
        } else {
            let until = if self.effect == ClashEffect::HandedOn { " while it applies" } else { "" };
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

fn of_settings(active: &[Arc<Scenario>]) -> Vec<(ClashEffect, Clash)> {
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
        (ClashEffect::NotInForce, clash)
    };
    found.into_iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{built_in, check_text};

    /// The warnings about two scenarios, each with where it is.
    fn check(first: &str, second: &str, expected: &[String]) {
        let scenario = |name: &str, text: &str| Arc::new(check_text(name, text).0.expect(text));
        let line = |Clash { warning, .. }: &Clash| {
            format!("{}:{}: {}", warning.file.as_deref().unwrap_or_default(), warning.line, warning.message)
        };
        let found: Vec<String> = clashes(&[scenario("a", first), scenario("b", second)]).iter().map(line).collect();
        assert_eq!(found, expected, "{first} / {second}");
    }

    #[test]
    fn rules_of_two_scenarios_clash_where_one_has_the_conditions_of_the_other() {
        let rule = |keys: &str| format!("[[rule]]\n{keys}\nreply = {{ status = 500 }}\n");
        let never = |requests: &str| {
            format!(
                "b:1: \"rule 1\" of `b` never applies: \"rule 1\" of `a` (a:1) decides all that it matches ({requests})"
            )
        };
        let leaves = |requests: &str, end: &str| {
            let first = "\"rule 1\" of `a` (a:1)";
            format!(
                "b:1: \"rule 1\" of `b` gets only what {first} leaves: both match requests to {requests}, and the first decides{end}"
            )
        };
        let status = "when.operation = 'system.status'";
        let query = "when = { operation = 'system.status', query.x = '1' }";
        let step = "when = { step = 'start' }";
        let (on_status, until) = ("`system.status`", " while it applies");
        for (first, second, expected) in [
            (status, status, Some(never(on_status))),
            ("", query, Some(never(on_status))),
            ("", "", Some(never("any operation"))),
            (status, &format!("{status}\ntimes = 3"), Some(never(on_status))),
            (query, status, Some(leaves(on_status, ""))),
            (status, "when.operation = ['hello', 'system.status']", Some(leaves(on_status, ""))),
            (&format!("{status}\nchance = 0.5"), query, Some(leaves(on_status, until))),
            // Each scenario has its own steps.
            (step, step, Some(leaves("any operation", until))),
            // Different conditions seldom meet, and different operations never do.
            (query, "when = { operation = 'system.status', query.x = '2' }", None),
            (status, "when.operation = 'hello'", None),
        ] {
            check(&rule(first), &rule(second), expected.as_slice());
        }
        let two = rule(&format!("{status}\ntimes = 1")) + &rule(&format!("name = 'all'\n{status}"));
        let worst = never(on_status).replace("\"rule 1\" of `a` (a:1)", "\"all\" of `a` (a:5)");
        check(&two, &rule(status), &[worst + "; other rules of the two clash as well"]);
    }

    #[test]
    fn settings_clash_if_their_values_differ() {
        let first = "[profile]\nrate_limit = { requests = 3, window = '30s' }\nerrors.codes = { not_found = 'x' }\n";
        check(first, "[profile]\nrate_limit.requests = 3\nerrors.codes = { unauthorized = 'y' }\n", &[]);
        let lost = "a:2: `rate_limit.requests` of `a` is not in force: `b` (b:2) sets it to another value; so it is with 1 other setting";
        check(first, "[profile]\nrate_limit.requests = 4\nrate_limit.window = '1m'\n", &[lost.to_owned()]);
    }

    #[test]
    fn few_clashes_are_shown_and_the_worst_first() {
        let names = ["flaky-network", "slow-responses", "magic-keys", "always-401", "always-422", "always-429"];
        let active: Vec<_> = names.iter().map(|name| built_in(name).expect("it is shipped")).collect();
        let found = clashes(&active);
        assert_eq!(found.len(), MAX_REPORTED);
        assert!(found.iter().all(|clash| clash.warning.message.contains("never applies")), "{found:?}");
        let hint = &found[MAX_REPORTED - 1].warning.hint;
        assert!(hint.ends_with("; 10 more warnings not shown"), "{hint}");
    }
}
