//! Warnings of a text that is otherwise valid: conditions, rules and templates that never hold, apply or have a value.

use std::borrow::Cow;
use std::collections::BTreeSet;

use hyper::Method;

use super::kinds::nearest_hint;
use super::reader::{Parser, Span, Table};
use crate::contract::error::ErrorKind;
use crate::contract::keys::check_key;
use crate::contract::nearest;
use crate::contract::openapi::{query_parameters, statuses};
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::contract::routes::{Credential, Operation, ROUTES, Route, nearest_route};
use crate::scenario::action::{Action, ScriptedReply};
use crate::scenario::matcher::{Condition, Found, Subject, Test, When};
use crate::scenario::rule::{FIRST_STEP, Rule, Then};
use crate::util::wording::{any_of, quoted};

/// The parts of a request that templates see.
const PARTS: [&str; 8] = ["method", "path", "operation", "query", "headers", "body", "key", "params"];

/// Maximum number of pairs of rules compared, so that ten thousand rules are checked at once.
const MAX_COMPARED: usize = 1_000_000;

impl Parser<'_> {
    fn warn_never(&mut self, span: Span, why: &str, hint: &str) {
        self.warning("scenario/never-matches", span, why, hint);
    }

    pub(super) fn warn_of_contradictory_counts(&mut self, table: &Table<'_, '_>, rule: &Rule) {
        if rule.from.unwrap_or_default() >= rule.to.unwrap_or(std::time::Duration::MAX) {
            let why = "this never holds: `to` is not later than `from`";
            self.warn_never(table.span_of("to"), why, "both count from activation");
        }
        let (Some(times), true) = (rule.times, rule.sequence.spelled_out) else { return };
        let length = rule.sequence.length();
        let (message, hint) = if times < length {
            let message = format!("the rule applies {times} times, but its sequence needs {length} requests");
            (message, "the later steps are never played; drop `times`, or shorten the sequence")
        } else if times > length && rule.sequence.then == Then::End {
            let message = format!("the sequence ends after {length} requests, so the rule never applies {times} times");
            (message, "add then = \"stay\" or then = \"repeat\", or drop `times`")
        } else {
            return;
        };
        self.warning("scenario/clashing-times", table.span_of("times"), message, hint);
    }

    /// Warns of a story that waits for a status with which neither the operation nor the rule answers.
    pub(super) fn warn_of_status_never_answered(&mut self, table: &Table<'_, '_>, rule: &Rule) {
        let Some(expected) = rule.next.as_ref().and_then(|next| next.status) else { return };
        let entries = &rule.sequence.entries;
        let last = if rule.sequence.then == Then::End { entries.len().saturating_sub(1) } else { 0 };
        let can = |action: &Action| match action {
            Action::Reply(reply) => reply.status() == expected,
            Action::Fault(_) => false,
            Action::Pass | Action::Patch(_) => Self::can_answer(&rule.when.operations, expected),
        };
        if entries[last..].iter().any(|entry| can(&entry.action)) {
            return;
        }
        let place = table.get("next").and_then(|next| next.get_ref().as_table()?.get("status"));
        let why = format!("the story never moves on: the last answer of this rule never has the status {expected}");
        let span = place.map_or(0..0, toml::Spanned::span);
        self.warn_never(span, &why, "name a status that the rule, or the operation, answers");
    }

    /// Warns of an emission that waits for a status which no operation and no rule of the file answers.
    pub(super) fn warn_of_answer_never_given(&mut self, on: &Table<'_, '_>, when: &When, status: Option<u16>) {
        let never = |status: &u16| !self.scripted.contains(status) && !Self::can_answer(&when.operations, *status);
        let Some(status) = status.filter(never) else { return };
        let who = match when.operations.as_slice() {
            [] => "no operation ever answers".to_owned(),
            [only] => format!("`{}` never answers", only.name()),
            _ => "these operations never answer".to_owned(),
        };
        let why = format!("this never holds: {who} {status}, and no rule of this file does");
        self.warn_never(on.span_of("status"), &why, "`wrs-emulator openapi` lists the answers of each operation");
    }

    /// True if one of these operations, of all if none is named, can answer with this status by itself.
    fn can_answer(operations: &[Operation], status: u16) -> bool {
        let mut meant = ROUTES.iter().filter(|route| operations.is_empty() || operations.contains(&route.operation));
        meant.any(|route| statuses(route).any(|answered| answered == status))
    }

    /// Warns of an error with a status that the contract does not give it, which is most likely mistyped. Any server may fail with any status.
    pub(super) fn warn_of_other_status(&mut self, table: &Table<'_, '_>, reply: &ScriptedReply) {
        let (Some(error), Some(status)) = (reply.error, reply.status) else { return };
        if status == error.status() || status < 400 || error == ErrorKind::InternalError {
            return;
        }
        let message = format!("`{}` has the status {} in the contract, not {status}", error.name(), error.status());
        let hint = match ErrorKind::from_status(status) {
            Some(meant) => format!("drop `status`, or write error = \"{}\"", meant.name()),
            None => "drop `status`, or write error = \"internal_error\"".to_owned(),
        };
        self.warning("scenario/other-status", table.span_of("status"), message, hint);
    }

    /// Warns of values for quota headers that the answer will not have.
    pub(super) fn warn_of_quota_never_sent(&mut self, table: &Table<'_, '_>, reply: &ScriptedReply) {
        let Some(quota) = reply.quota else { return };
        if reply.error == Some(ErrorKind::Unauthorized) {
            let message = "`quota` has no effect: the error `unauthorized` has no quota headers";
            return self.warning("scenario/no-effect", table.span_of("quota"), message, "drop one of the two");
        }
        let rate_limit = &self.profile.rate_limit;
        let has_retry_after = reply.status() == 429 && rate_limit.retry_after != RetryAfterForm::Off;
        let is_sent = rate_limit.reset != ResetForm::Off || rate_limit.ietf || has_retry_after;
        if quota.reset.is_some() && !is_sent {
            let place = table.get("quota").and_then(|quota| quota.get_ref().as_table()?.get("reset"));
            let message = "`reset` has no effect: the settings send no reset header";
            let hint = "for example profile.rate_limit.reset = \"delta\"";
            self.warning("scenario/no-effect", place.map_or(0..0, toml::Spanned::span), message, hint);
        }
    }

    pub(super) fn warn_of_unreachable_steps(&mut self, rules: &[(&Table<'_, '_>, Rule, bool)]) {
        // Of steps that are equally near to a mistyped one, the same is named each time.
        let mut reached: BTreeSet<&str> =
            rules.iter().filter_map(|(_, rule, _)| Some(&*rule.next.as_ref()?.step)).collect();
        reached.insert(FIRST_STEP);
        for (table, rule, _) in rules.iter().filter(|(.., is_valid)| *is_valid) {
            let Some(step) = rule.when.step.as_deref().filter(|step| !reached.contains(step)) else { continue };
            let place = table.get("when").and_then(|when| when.get_ref().as_table()?.get("step"));
            let message = format!("no rule leads to the step \"{}\"", quoted(step));
            let hint = match nearest(step, reached.iter().copied()) {
                Some(near) => format!("did you mean \"{}\"?", quoted(near)),
                None => format!("add next = \"{}\" to a rule; the story begins at \"{FIRST_STEP}\"", quoted(step)),
            };
            let span = place.map_or(0..0, toml::Spanned::span);
            self.warning("scenario/unreachable-step", span, message, hint);
        }
    }

    /// Warns of rules after one that decides everything they match. A rule with an error, which is not right, neither covers others nor is
    /// covered: its requirements are not known.
    pub(super) fn warn_of_unreachable_rules(&mut self, rules: &[(&Table<'_, '_>, Rule, bool)]) {
        let mut lasting: Vec<(&Rule, BTreeSet<String>)> = Vec::new();
        let mut left = MAX_COMPARED;
        for (table, rule, _) in rules.iter().filter(|(.., is_valid)| *is_valid) {
            let step = rule.when.step.iter().map(|step| format!("step {step}"));
            let demands: BTreeSet<String> = rule.when.demands().into_iter().chain(step).collect();
            let covering = lasting.iter().take(left).find(|(earlier, needed)| {
                earlier.spans(rule)
                    && needed.is_subset(&demands)
                    && earlier.when.has_every_operation_of(&rule.when)
                    && !(rule.when.no_endpoint && earlier.leaves_an_answer())
            });
            left = left.saturating_sub(lasting.len());
            if let Some((earlier, _)) = covering {
                let label = quoted(&earlier.label);
                let message = format!("this rule never applies: \"{label}\" leaves it nothing to decide");
                let hint = "move it up, or give the earlier rule `times`";
                self.warning("scenario/unreachable-rule", table.span.clone(), message, hint);
            } else if rule.never_pauses() {
                lasting.push((rule, demands));
            }
        }
    }

    /// Conditions on one subject that no value can meet.
    pub(super) fn warn_of_contradiction(&mut self, subject: &Subject, tests: &[Test], span: Span) {
        let mut never =
            |why: &str, hint: &str| self.warn_never(span.clone(), &format!("this never holds: {why}"), hint);
        let equals = tests.iter().find_map(|test| if let Test::Equals(literal) = test { Some(literal) } else { None });
        if let Some(literal) = equals {
            let found = match subject {
                Subject::Body(_) => Found::Json(&literal.json),
                _ => Found::Text(Cow::Borrowed(&literal.text)),
            };
            if let Some(failed) = tests.iter().find(|test| !test.holds(&found)) {
                return never(&format!("{literal} is not {failed}"), "drop one of the two");
            }
        }
        let is_absent = tests.iter().any(|test| matches!(test, Test::Present(false)));
        if is_absent && tests.iter().any(|test| !test.holds(&Found::Absent)) {
            never("an absent field has no value", "drop `present = false`");
        }
        if tests.iter().any(|test| matches!(test, Test::OneOf(literals) if literals.is_empty())) {
            never("`one_of` lists nothing", "list at least one value");
        }
        let low = tests.iter().find_map(|test| if let Test::Gt(bound) = test { Some(*bound) } else { None });
        let high = tests.iter().find_map(|test| if let Test::Lt(bound) = test { Some(*bound) } else { None });
        if let Some((low, high)) = low.zip(high).filter(|(low, high)| low >= high) {
            never(&format!("no number is greater than {low} and less than {high}"), "swap `lt` and `gt`?");
        }
        if let (Subject::Key, Some(literal)) = (subject, equals)
            && let Err(refusal) = check_key(&literal.text, self.profile.key_rules())
        {
            let why = format!("this never holds: {refusal}");
            self.warn_never(span, &why, "a request with such a key is answered with 401 before any rule is asked");
        }
    }

    /// A method or path that no endpoint has, or none of the operations named.
    pub(super) fn warn_of_foreign_route(&mut self, when: &When, table: &Table<'_, '_>) {
        for condition in &when.conditions {
            let (key, matches): (_, fn(&Condition, &Route) -> bool) = match condition.subject {
                Subject::Path if when.no_endpoint => {
                    self.warn_of_unknown_path(condition, table);
                    continue;
                }
                Subject::Method if when.no_endpoint => continue,
                Subject::Path => ("path", |condition, route| holds(condition, route.path)),
                Subject::Method => ("method", |condition, route| {
                    let method = route.method.as_str();
                    holds(condition, method) || (method == "GET" && holds(condition, "HEAD"))
                }),
                _ => continue,
            };
            let named = &when.operations;
            let routes = || ROUTES.iter().filter(|route| named.is_empty() || named.contains(&route.operation));
            if routes().any(|route| matches(condition, route)) {
                continue;
            }
            let (why, hint) = if named.is_empty() {
                let hint = "such a request is answered before any rule is asked";
                (format!("this never holds: no endpoint has this {key}"), hint.to_owned())
            } else {
                let real: Vec<_> = routes().map(|route| format!("{} {}", route.method, route.path)).collect();
                let why = format!("this never holds: the operation is {}", any_of(&real));
                (why, format!("drop `{key}`: the operation says it already"))
            };
            self.warn_never(table.span_of(key), &why, &hint);
        }
    }

    /// Warns of a path without an endpoint that is much like that of one, or belongs to the control API.
    fn warn_of_unknown_path(&mut self, condition: &Condition, table: &Table<'_, '_>) {
        let Some(path) = condition.exact() else { return };
        if path == "/_emulator" || path.starts_with("/_emulator/") {
            let why = "this never holds: paths below /_emulator belong to the control API";
            self.warn_never(table.span_of("path"), why, "choose another path");
        } else if let Some(near) = nearest_route(&Method::GET, path) {
            let message = format!("no endpoint has this path, which is much like {}", near.path);
            let hint = format!("did you mean \"{}\"? if not, the rule answers this path itself", near.path);
            self.warning("scenario/unknown-path", table.span_of("path"), message, hint);
        }
    }

    /// Warns of a rule that changes or delays the answers of a path that has none.
    pub(super) fn warn_of_nothing_to_change(&mut self, table: &Table<'_, '_>, rule: &Rule) {
        if !rule.when.no_endpoint || rule.answers_any_path() {
            return;
        }
        let message = "the rule has no effect: no endpoint has this path, so there is no answer to change or delay";
        let hint = "add `reply` to answer the path";
        self.warning("scenario/no-effect", table.span_of("when"), message, hint);
    }

    /// Warns of each part named by a template that is always missing from requests like these; `None` is an event, which has none.
    pub(super) fn warn_of_missing_parts(&mut self, when: Option<&When>, paths: Vec<(Span, Vec<String>)>) {
        for (span, path) in paths {
            let found = match when {
                None => Some((
                    "an event's data has no request".to_owned(),
                    "write the value, or a call such as {{ ulid() }}".to_owned(),
                )),
                Some(when) => Self::missing_part(when, &path),
            };
            let Some((why, hint)) = found else { continue };
            let message = format!("`request.{}` is always empty: {why}", quoted(&path.join(".")));
            self.warning("scenario/missing-part", span, message, hint);
        }
    }

    fn missing_part(when: &When, path: &[String]) -> Option<(String, String)> {
        const OTHERWISE: &str = "`| default(\"…\")` gives a value in its place";
        let part = path.first()?.as_str();
        let inner = path.get(1).map(String::as_str);
        let named = &when.operations;
        let routes = || ROUTES.iter().filter(|route| named.contains(&route.operation));
        let none_has = |has: fn(&Route) -> bool| !named.is_empty() && !routes().any(has);
        let names = named.iter().map(|operation| operation.name()).collect::<Vec<_>>().join(", ");
        let (why, hint) = match (part, inner) {
            ("method" | "path" | "operation" | "key", Some(_)) => (format!("`{part}` is a string"), OTHERWISE),
            ("body", _) if none_has(Route::has_body) => (format!("`{names}` has no body"), OTHERWISE),
            ("key", _) if none_has(|route| route.credential == Credential::Bearer) => {
                (format!("`{names}` needs no key"), OTHERWISE)
            }
            ("params", Some(name)) if !when.has_parameter(name) => {
                return Some((
                    format!("the rule's `path` has no parameter `{name}`"),
                    format!("write {{{name}}} in `path`"),
                ));
            }
            ("headers", Some("authorization")) => {
                ("credentials are never shown".to_owned(), "`request.key` gives the key")
            }
            ("query", Some(name)) if !named.is_empty() => {
                let is_asked = when.conditions.iter().any(|known| known.subject == Subject::Query(name.into()));
                if is_asked || routes().any(|route| query_parameters(route).any(|own| own == name)) {
                    return None;
                }
                (format!("`{names}` has no such query parameter"), OTHERWISE)
            }
            (part, _) if !PARTS.contains(&part) => {
                return Some(("a request has no such part".to_owned(), nearest_hint(part, &PARTS)));
            }
            _ => return None,
        };
        Some((why, hint.to_owned()))
    }
}

fn holds(condition: &Condition, text: &str) -> bool {
    let found = Found::Text(Cow::Borrowed(text));
    condition.tests.iter().all(|test| test.holds(&found))
}
