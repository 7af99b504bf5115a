//! One call of the control API: its query parameters, its body, its scope, durations in it, and the requested page of a listing.
//!
//! Every call accepts `key` as a query parameter, and as a field of a JSON body. It names a workspace by key, by group name or by its
//! id `ws_…`; the default is the sample key's, and `*` means all.

use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::ACCEPT;
use hyper::http::request::Parts;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::endpoint::{Content, DurationInput, Nothing, Page, Query, Wait};
use super::render::Text;
use super::reply::{Reply, json, masked, text};
use super::{Control, ControlError};
use crate::contract::keys::Keys;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::engine::{Engine, KeyProblem};
use crate::state::journal::{Entry, RequestRecord};
use crate::state::workspace::Workspace;
use crate::util::duration::parse_duration;

pub(crate) struct Call {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    /// The variable segment of the path, percent-decoded.
    pub(super) segment: String,
    /// True if the answer returns a secret, so that nothing is masked in it.
    pub(super) shows_secrets: bool,
    /// The profile that decides how keys are masked.
    pub(super) profile: Arc<Profile>,
    /// True if the caller has closed its sending side, as it has if it is gone.
    pub(super) is_disconnected: Arc<AtomicBool>,
}

/// A [`Call`] with its query and body as types.
pub(crate) struct Input<Q = Nothing, B = Nothing> {
    call: Call,
    pub(super) query: Q,
    pub(super) body: B,
}

impl<Q, B> Deref for Input<Q, B> {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl<Q: Query, B: Content> Input<Q, B> {
    /// Parses a call. The body of a GET is ignored.
    pub(super) fn read(call: Call) -> Result<Self, ControlError> {
        let query = call.query_as()?;
        let reads = call.parts.method == Method::GET || call.parts.method == Method::HEAD;
        let body = from_json(if reads { b"" } else { &call.body })?;
        Ok(Self { call, query, body })
    }
}

impl Call {
    pub(super) fn redactor(&self) -> Redactor<'_> {
        Redactor::new(&self.profile.keys)
    }

    /// The key that the call names: in its body, else in its query; `None` if it names none.
    pub(super) fn key(&self) -> Result<Option<String>, ControlError> {
        #[derive(Deserialize)]
        struct Named {
            key: Option<String>,
        }
        // A body that is not an object has no key. The handler that parses it reports the problem.
        let in_body = match serde_json::from_slice::<Named>(&self.body) {
            Ok(named) if self.is_object() => named.key,
            Err(error) if self.is_object() && error.is_data() => {
                return Err(ControlError::invalid("body: key: expected a string"));
            }
            _ => None,
        };
        Ok(in_body.or_else(|| self.query("key")))
    }

    /// The answer of a typed call: JSON, or text if the caller wants it.
    pub(super) fn reply<A: Text>(&self, answer: &A) -> Reply {
        match (self.wants_text(), self.shows_secrets) {
            (true, false) => text(&self.redactor().text(&answer.text())),
            (true, true) => text(&answer.text()),
            (false, false) => masked(answer, self.redactor()),
            (false, true) => json(answer),
        }
    }

    /// True if the answer is to be text: `Accept` names `text/plain` before JSON and before anything else that JSON satisfies.
    fn wants_text(&self) -> bool {
        let accepted = self.parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = accepted.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
        let known =
            types.find(|media| matches!(media.trim(), "text/plain" | "application/json" | "application/*" | "*/*"));
        known.is_some_and(|media| media.trim() == "text/plain")
    }

    fn is_object(&self) -> bool {
        self.body.trim_ascii_start().starts_with(b"{")
    }

    /// The last value of a query parameter.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let pairs = form_urlencoded::parse(self.parts.uri.query().unwrap_or_default().as_bytes());
        pairs.filter(|(key, _)| key == name).last().map(|(_, value)| value.into_owned())
    }

    /// The query parameters besides `key`, each a string or absent; refuses unknown ones.
    pub(super) fn query_as<Q: Query>(&self) -> Result<Q, ControlError> {
        let read =
            |fields: Map<String, Value>| Q::deserialize(Value::from(fields)).expect("each field is text or absent");
        let known = serde_json::to_value(read(Map::new())).unwrap_or_default();
        let mut fields = Map::new();
        for (name, value) in form_urlencoded::parse(self.parts.uri.query().unwrap_or_default().as_bytes()) {
            if known.get(name.as_ref()).is_some() {
                fields.insert(name.into_owned(), value.into_owned().into());
            } else if name != "key" {
                let known = known.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
                let known: Vec<&str> = ["key"].into_iter().chain(known).collect();
                let (found, known) = (name.escape_debug(), known.join(", "));
                return Err(ControlError::invalid(format!("unknown query parameter `{found}`; known: {known}")));
            }
        }
        Ok(read(fields))
    }
}

/// A query parameter that is `true` or `false`; false if absent.
pub(super) fn flag(name: &str, value: Option<&str>) -> Result<bool, ControlError> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(ControlError::unexpected(name, "true or false", other)),
    }
}

/// A query parameter that is a number in a range.
pub(super) fn number_in(
    name: &str,
    value: Option<&str>,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>, ControlError> {
    let Some(text) = value else { return Ok(None) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    let expected = || format!("{} to {}", range.start(), range.end());
    number.map(Some).ok_or_else(|| ControlError::unexpected(name, &expected(), text))
}

/// A body as a typed value; an empty one counts as `{}`.
fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ControlError> {
    let bytes = if body.trim_ascii().is_empty() { b"{}" } else { body };
    // A list would be read as the fields in their order.
    if bytes.trim_ascii_start().starts_with(b"[") && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Err(ControlError::invalid("body: expected an object, found a list"));
    }
    serde_json::from_slice(bytes).map_err(|error| ControlError::invalid(format!("body: {error}")))
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(5);

pub(super) fn duration(field: &str, DurationInput(text): &DurationInput) -> Result<Duration, ControlError> {
    parse_duration(text).map_err(|problem| ControlError::invalid(format!("{field}: {problem}")))
}

/// How long a call waits, by its field `timeout` or the usual time.
pub(super) fn timeout(given: Option<&DurationInput>, usual: Duration) -> Result<Duration, ControlError> {
    given.map_or(Ok(usual), |given| wait_limit("timeout", given))
}

/// How long a call waits, by its parameter `wait` if given.
pub(super) fn wait_of(Wait { wait }: &Wait) -> Result<Option<Duration>, ControlError> {
    wait.as_ref().map(|wait| wait_limit("wait", wait)).transpose()
}

fn wait_limit(field: &str, given: &DurationInput) -> Result<Duration, ControlError> {
    let limit = duration(field, given)?;
    if limit > MAX_WAIT { Err(ControlError::invalid(format!("{field}: at most 300s"))) } else { Ok(limit) }
}

pub(super) struct Paging {
    pub(super) limit: usize,
    /// Only entries with a number below this.
    pub(super) before: Option<u64>,
}

impl Paging {
    pub(super) fn read(limit: Option<&str>, cursor: Option<&str>) -> Result<Self, ControlError> {
        let before = cursor.map(|text| {
            let expected = "the `next_cursor` of another page";
            text.parse().map_err(|_| ControlError::unexpected("cursor", expected, text))
        });
        Ok(Self { limit: number_in("limit", limit, 1..=1000)?.unwrap_or(20), before: before.transpose()? })
    }

    /// Makes the page from numbered entries, of which there must be one more than `limit` if there is a next page.
    pub(super) fn wrap<T>(&self, mut entries: Vec<(u64, T)>) -> Page<T> {
        let has_more = entries.len() > self.limit;
        entries.truncate(self.limit);
        let next_cursor = entries.last().filter(|_| has_more).map(|(number, _)| number.to_string());
        Page { data: entries.into_iter().map(|(_, entry)| entry).collect(), has_more, next_cursor }
    }
}

/// One workspace, or with `None` all of them and what belongs to none.
pub(super) struct Scope(pub(super) Option<Arc<Workspace>>);

impl Scope {
    /// True if the scope includes what belongs to `workspace`.
    pub(super) fn covers(&self, workspace: Option<&Arc<str>>) -> bool {
        self.0.as_ref().is_none_or(|meant| workspace == Some(meant.name()))
    }

    /// True if a request carries a key of the scope, even if it was never checked.
    pub(super) fn covers_request(&self, request: &RequestRecord, keys: &Keys) -> bool {
        self.0.as_ref().is_none_or(|meant| request.owner(keys).is_some_and(|owner| *owner == **meant.name()))
    }

    pub(super) fn covers_entry(&self, entry: &Entry, keys: &Keys) -> bool {
        self.0.as_ref().is_none_or(|meant| entry.is_of(meant.name(), keys))
    }

    /// The end of a message about something not found: whose things were searched.
    pub(super) fn of_this_key(&self) -> &'static str {
        if self.0.is_some() { " of this key" } else { "" }
    }

    /// The name of the workspace; `None` for all.
    pub(super) fn key(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|workspace| Arc::clone(workspace.name()))
    }

    pub(super) fn workspaces(&self, engine: &Arc<Engine>) -> Vec<Arc<Workspace>> {
        self.0.as_ref().map_or_else(|| engine.registry.all(), |workspace| vec![Arc::clone(workspace)])
    }
}

/// The scope of a call; without a key that of the sample key.
pub(super) fn scope(engine: &Arc<Engine>, call: &Call) -> Result<Scope, ControlError> {
    read(engine, call.key()?.as_deref())
}

/// The scope of a call that means all keys by default. If the call names one thing by its id, a key restricts it to that key's things.
pub(super) fn scope_or_all(engine: &Arc<Engine>, call: &Call) -> Result<Scope, ControlError> {
    read(engine, key_or_all(call)?.as_deref())
}

/// The scope of a call that waits, by its key: on a blocking thread, because the scenarios of a workspace that is opened may fire many
/// events.
pub(super) async fn scope_soon(control: &Arc<Control>, key: Option<String>) -> Result<Scope, ControlError> {
    control.run_to_end(move |control| read(control, key.as_deref())).await
}

/// The key of a call that means all keys by default.
pub(super) fn key_or_all(call: &Call) -> Result<Option<String>, ControlError> {
    Ok(Some(call.key()?.unwrap_or_else(|| "*".to_owned())))
}

/// Refuses a call with an invalid key. Opens no workspace.
pub(super) fn check_key(engine: &Arc<Engine>, call: &Call) -> Result<(), ControlError> {
    let key = call.key()?.filter(|key| key != "*");
    key.map_or(Ok(()), |key| Ok(engine.workspace_name(Some(&key)).map(drop)?))
}

fn read(engine: &Arc<Engine>, key: Option<&str>) -> Result<Scope, ControlError> {
    let one = if key == Some("*") { None } else { Some(engine.workspace(key)?) };
    Ok(Scope(one))
}

impl From<KeyProblem> for ControlError {
    fn from(problem: KeyProblem) -> Self {
        let message = problem.to_string();
        match problem {
            KeyProblem::All => Self::invalid(message),
            KeyProblem::UnknownId(_) => Self::not_found(message),
            KeyProblem::Invalid(_) => Self::not_found(message).with(|error| error.parameter = Some("key".to_owned())),
        }
    }
}

/// The key of a call, masked for a log line.
pub(super) fn whose(call: &Call, workspace: Option<&str>) -> String {
    workspace.map_or_else(|| "all keys".to_owned(), |name| call.redactor().key(name).into_owned())
}
