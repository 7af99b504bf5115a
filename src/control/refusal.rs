//! Advice about a refused request: the part of `explain` for an answer of the quota or of a scenario, and for what the emulator can
//! allow beyond the contract. One function for all, because a client meets the same 429 whichever of them it came from.

use super::Control;
use super::diagnosis::{advance_clock, key_to_name};
use super::story::{self, AFTER_429};
use crate::advice::{Advice, Hint};
use crate::clock::ClockMode;
use crate::contract::keys::bearer_token;
use crate::contract::quota::RetryAfterForm;
use crate::http::request::SCENARIO;
use crate::redact::Redactor;
use crate::scenario::ScenarioOrigin;
use crate::state::journal::record::time;
use crate::state::journal::{DecidingRule, Reason, RequestRecord};
use crate::state::workspace::Workspace;
use crate::util::duration::duration_text;
use crate::util::wording::counted;

/// When the advice is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdviceTime {
    /// Now, with the emulator running.
    Now,
    /// From a file, when the emulator may have ended.
    Later,
}

/// Advice about a request that was refused by the quota, a scenario, or a rule that a setting lifts: where the refusal came from, how to lift
/// it, and what a client should do; nothing for any other request.
pub(super) fn advice(
    control: &Control,
    request: &RequestRecord,
    read_at: AdviceTime,
    redactor: Redactor<'_>,
) -> Option<Vec<Hint>> {
    let mut advice = Vec::new();
    let is_refused = request.status >= 400 || request.broken.is_some();
    if let Some(by) = request.scripted.as_ref().filter(|_| is_refused) {
        advice.push(scenario_hint(control, request, by, read_at, redactor));
    }
    if read_at == AdviceTime::Now
        && matches!(request.reason, Reason::RateLimited)
        && let Some(workspace) = request.workspace.as_ref().filter(|workspace| !workspace.is_gone())
    {
        advice.push(quota_hint(control, workspace, redactor));
    }
    if request.status == 429 {
        advice.push(client_hint(control, request, read_at));
    }
    advice.extend(api_hint(request));
    (!advice.is_empty()).then_some(advice)
}

/// How to change the answer where the API refused a request by its own rules.
pub(super) fn api_hint(request: &RequestRecord) -> Option<Hint> {
    let (text, advice) = match &request.reason {
        Reason::Announced(_, advice) => ("to have it answered in an assumed shape:", advice.as_ref()),
        Reason::Invalid(problems) => {
            ("to have the emulator accept it:", problems.iter().find_map(|problem| problem.advice.as_deref()))
        }
        _ => return None,
    };
    advice.map(|advice| Hint::new(text, advice.clone()))
}

/// When the quota allows the next request, and how to make that sooner.
fn quota_hint(control: &Control, workspace: &Workspace, redactor: Redactor<'_>) -> Hint {
    let (profile, clock) = (control.engine.profile_for(Some(workspace.name())), workspace.clock());
    let now = clock.now();
    let quota = workspace.lock().quota(&profile, now);
    let key = redactor.key(workspace.name());
    match quota.filter(|quota| !quota.allowed) {
        None => Hint::from(format!("the quota of {key} is free again")),
        Some(quota) if quota.limit == 0 => Hint {
            text: format!("the quota of {key} allows no request; to allow some:"),
            advice: Some(Advice::set("rate_limit.requests", "100")),
        },
        Some(quota) => {
            let moves = match clock.mode() {
                ClockMode::Real => "",
                ClockMode::Frozen => ", which is frozen",
                ClockMode::Auto => ", which moves only while a call of the control API waits",
            };
            let (wait, at) = (duration_text(quota.wait), time(now.wall.saturating_add(quota.wait).unwrap_or(now.wall)));
            Hint {
                text: format!(
                    "the quota of {key} is free again in {wait}, at {at} by the key's clock{moves}; to move the clock there:"
                ),
                advice: Some(advance_clock(quota.wait, workspace, redactor)),
            }
        }
    }
}

/// The effect of the rule. If it gave the answer, also how often it will do so again, and how to turn its scenario off.
fn scenario_hint(
    control: &Control,
    request: &RequestRecord,
    by: &DecidingRule,
    read_at: AdviceTime,
    redactor: Redactor<'_>,
) -> Hint {
    let snapshot = control.engine.library.load();
    // As when it was answered: the scenarios of the key that it carries, also where none is needed.
    let headers = request.transcript.header_map();
    let key = request.checked_key().or_else(|| bearer_token(&headers).ok());
    let config = snapshot.config_for(key);
    let scenario = snapshot.find(&by.scenario);
    let place = match scenario.as_ref().map(|scenario| &scenario.origin) {
        Some(ScenarioOrigin::File(path)) => redactor.text(&path.display().to_string()).into_owned(),
        Some(ScenarioOrigin::BuiltIn) => "built in".to_owned(),
        Some(ScenarioOrigin::Inline) => "given as text".to_owned(),
        None => "removed since".to_owned(),
    };
    let did = match request.reason {
        Reason::Scripted if request.broken.is_some() => "broke the connection".to_owned(),
        Reason::Scripted => "gave this answer".to_owned(),
        Reason::ClientLeft => format!("had not answered yet when the client left ({})", by.action),
        _ => format!("did not give this answer, which is the API's own ({})", by.action),
    };
    let text = format!("scenario `{}` ({place}, line {}), {}, {did}", by.scenario, by.line, by.name());
    if read_at == AdviceTime::Later || story::rule_beside_api(request).is_some() {
        return text.into();
    }
    if request.transcript.headers().any(|(name, _)| name.eq_ignore_ascii_case(SCENARIO.as_str())) {
        return format!("{text}; the request names it in `X-Emulator-Scenario`").into();
    }
    if !config.active.iter().any(|active| active.name == by.scenario) {
        return format!("{text}; the scenario is no longer active").into();
    }
    let rule = scenario.and_then(|scenario| scenario.rules.iter().find(|rule| rule.label == by.rule).cloned());
    let applied = |fingerprint| {
        let workspace = request.checked_key().and_then(|key| control.engine.registry.find(key));
        let mut counters = workspace.unwrap_or_else(|| control.engine.registry.anonymous()).lock().counters.clone();
        counters.switch_to(config.activation);
        counters.get(fingerprint).applied
    };
    let left = rule.and_then(|rule| Some(rule.turns_in_all()?.saturating_sub(applied(rule.fingerprint))));
    let left = match left {
        Some(0) => return format!("{text}; it has no turns left").into(),
        Some(left) if matches!(request.reason, Reason::ClientLeft) => {
            format!("; it applies {}", counted(left, "more time"))
        }
        Some(left) => format!(" and will do so {}", counted(left, "more time")),
        None => String::new(),
    };
    let others = config.active.iter().filter(|active| active.name != by.scenario);
    let own = key.filter(|key| snapshot.active_by_key().contains_key(*key));
    let key = match own.map(|own| (own, control.engine.registry.find(own))) {
        Some((_, Some(workspace))) => Some(key_to_name(&workspace, redactor)),
        // A key that sent nothing itself, or was evicted, has no workspace; a masked one names nothing.
        Some((own, None)) if redactor.masks(own) => {
            let masked = redactor.key(own);
            return format!("{text}{left}; to turn it off, activate other scenarios for {masked}").into();
        }
        Some((own, None)) => Some(own.to_owned()),
        None => None,
    };
    let active = others.map(|active| active.name.to_string()).collect();
    Hint { text: format!("{text}{left}; to turn it off:"), advice: Some(Advice::UseScenarios { active, key }) }
}

/// Advice for a client after a 429, and how to make the answer say when.
fn client_hint(control: &Control, request: &RequestRecord, read_at: AdviceTime) -> Hint {
    let mut headers = request.transcript.answer_headers();
    if let Some((_, value)) = headers.find(|(name, _)| name.eq_ignore_ascii_case("retry-after")) {
        return format!("{AFTER_429}; this one has `Retry-After: {value}`").into();
    }
    let name = request.workspace.as_ref().map(|workspace| &**workspace.name());
    let is_off = control.engine.profile_for(name).rate_limit.retry_after == RetryAfterForm::Off;
    // A scenario's own body or code has no header of the contract's 429.
    let is_of_contract = request.scripted.is_none() || request.quota.as_ref().is_some_and(|quota| !quota.allowed);
    match (is_of_contract, is_off && read_at == AdviceTime::Now) {
        (true, true) => Hint {
            text: format!(
                "{AFTER_429}; this one has none, because `rate_limit.retry_after` is off; to send it from now on:"
            ),
            advice: Some(Advice::set("rate_limit.retry_after", "seconds")),
        },
        (true, false) => format!("{AFTER_429}; this one has none").into(),
        (false, _) => format!(
            "{AFTER_429}; this one has none: add `headers = {{ Retry-After = \"5\" }}` to the reply of the rule"
        )
        .into(),
    }
}
