//! Which call a method and path mean: the control API's route table.

use hyper::Method;
use percent_encoding::percent_decode_str;

use crate::contract::routes::allow;

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Health,
    CaPem,
    Assumptions,
    Profile,
    PatchProfile,
    OpenApi,
    EmulatedOpenApi,
    ListRequests,
    WaitRequests,
    ShowRequest,
    ClearRequests,
    Verdict,
    Explain,
    ListSubscriptions,
    CreateSubscription,
    ShowSubscription,
    ChangeSubscription,
    DeleteSubscription,
    RotateSecret,
    FireEvents,
    ListDeliveries,
    ShowDelivery,
    Redeliver,
    WaitDeliveries,
    Stream,
    Metrics,
    ListScenarios,
    ShowScenario,
    PutScenario,
    RemoveScenario,
    ReloadScenarios,
    ActivateScenarios,
    ShowClock,
    MoveClock,
    Reset,
    SaveSnapshot,
    LoadSnapshot,
    ShowSink,
    ScriptSink,
}

impl Action {
    /// Whether anybody may call it without a token: what a container's health check uses, and the
    /// authority without which nobody could speak to a TLS port.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Health | Self::CaPem)
    }

    /// The most bytes of its body, where that is more than elsewhere.
    pub(super) fn most_bytes(self) -> Option<usize> {
        (self == Self::LoadSnapshot).then_some(super::snapshot::MOST_BYTES)
    }

    /// Whether a TOML body is taken beside JSON.
    pub(super) fn takes_toml(self) -> bool {
        self == Self::PutScenario
    }

    /// Whether it changes anything.
    pub(super) fn is_write(self) -> bool {
        ROUTES.iter().any(|(method, _, action)| *action == self && *method != Method::GET)
    }
}

/// Method, path below `/_emulator/` with `{}` for its one variable segment, call. `openapi` describes each.
pub(super) const ROUTES: &[(Method, &str, Action)] = &[
    (Method::GET, "health", Action::Health),
    (Method::GET, "ca.pem", Action::CaPem),
    (Method::GET, "assumptions", Action::Assumptions),
    (Method::GET, "profile", Action::Profile),
    (Method::PATCH, "profile", Action::PatchProfile),
    (Method::GET, "openapi.json", Action::OpenApi),
    (Method::GET, "v1/openapi.json", Action::EmulatedOpenApi),
    (Method::GET, "requests", Action::ListRequests),
    (Method::DELETE, "requests", Action::ClearRequests),
    (Method::POST, "requests/wait", Action::WaitRequests),
    (Method::GET, "requests/{}", Action::ShowRequest),
    (Method::GET, "verdict", Action::Verdict),
    (Method::GET, "explain/{}", Action::Explain),
    (Method::GET, "subscriptions", Action::ListSubscriptions),
    (Method::POST, "subscriptions", Action::CreateSubscription),
    (Method::GET, "subscriptions/{}", Action::ShowSubscription),
    (Method::PUT, "subscriptions/{}", Action::ChangeSubscription),
    (Method::DELETE, "subscriptions/{}", Action::DeleteSubscription),
    (Method::POST, "subscriptions/{}/rotate", Action::RotateSecret),
    (Method::POST, "events", Action::FireEvents),
    (Method::GET, "deliveries", Action::ListDeliveries),
    (Method::GET, "deliveries/{}", Action::ShowDelivery),
    (Method::POST, "deliveries/wait", Action::WaitDeliveries),
    (Method::GET, "stream", Action::Stream),
    (Method::GET, "metrics", Action::Metrics),
    (Method::POST, "deliveries/{}/redeliver", Action::Redeliver),
    (Method::GET, "scenarios", Action::ListScenarios),
    (Method::GET, "scenarios/{}", Action::ShowScenario),
    (Method::PUT, "scenarios/{}", Action::PutScenario),
    (Method::DELETE, "scenarios/{}", Action::RemoveScenario),
    (Method::POST, "scenarios/reload", Action::ReloadScenarios),
    (Method::POST, "scenarios/active", Action::ActivateScenarios),
    (Method::GET, "clock", Action::ShowClock),
    (Method::POST, "clock", Action::MoveClock),
    (Method::POST, "reset", Action::Reset),
    (Method::GET, "snapshot", Action::SaveSnapshot),
    (Method::PUT, "snapshot", Action::LoadSnapshot),
    (Method::GET, "sink/{}", Action::ShowSink),
    (Method::POST, "sink/{}", Action::ScriptSink),
];

/// What a method and path mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// A call, with the variable segment decoded.
    Found(Action, String),
    /// The path takes these methods instead.
    OtherMethods(String),
    /// Nothing.
    Nothing,
}

/// Looks a call up. A path that is written out in the table is that one only, and no name for a variable segment; HEAD is
/// taken for GET.
pub(super) fn find(method: &Method, path: &str) -> Match {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let is_literal = ROUTES.iter().any(|(_, pattern, _)| *pattern == path);
    let mut allowed: Vec<&Method> = Vec::new();
    for (known, pattern, action) in ROUTES.iter().filter(|(_, pattern, _)| !is_literal || *pattern == path) {
        let Some(segment) = fits(pattern, path) else { continue };
        if known == method {
            return Match::Found(*action, segment);
        }
        allowed.push(known);
    }
    if allowed.is_empty() {
        return Match::Nothing;
    }
    Match::OtherMethods(allow(allowed.into_iter()))
}

/// The variable segment if the path fits the pattern; empty if the pattern has none.
fn fits(pattern: &str, path: &str) -> Option<String> {
    let Some((before, after)) = pattern.split_once("{}") else {
        return (pattern == path).then(String::new);
    };
    let segment = path.strip_prefix(before)?.strip_suffix(after)?;
    let decoded = percent_decode_str(segment).decode_utf8().ok()?;
    (!segment.is_empty() && !segment.contains('/')).then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_method_and_path() {
        for (method, path, expected) in [
            (Method::GET, "health", Match::Found(Action::Health, String::new())),
            (Method::HEAD, "health", Match::Found(Action::Health, String::new())),
            (Method::POST, "health", Match::OtherMethods("GET, HEAD".to_owned())),
            (Method::GET, "requests/req_1", Match::Found(Action::ShowRequest, "req_1".to_owned())),
            (Method::GET, "requests/a%20b", Match::Found(Action::ShowRequest, "a b".to_owned())),
            (Method::POST, "deliveries/dlv_1/redeliver", Match::Found(Action::Redeliver, "dlv_1".to_owned())),
            (Method::POST, "scenarios/reload", Match::Found(Action::ReloadScenarios, String::new())),
            (Method::GET, "scenarios/reload", Match::OtherMethods("POST".to_owned())),
            (Method::DELETE, "deliveries/wait", Match::OtherMethods("POST".to_owned())),
            (Method::GET, "requests/", Match::Nothing),
            (Method::GET, "requests/a/b", Match::Nothing),
            (Method::GET, "requests/%ff", Match::Nothing),
            (Method::GET, "", Match::Nothing),
        ] {
            assert_eq!(find(&method, path), expected, "{method} {path}");
        }
    }
}
