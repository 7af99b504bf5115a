//! One call of the control API as its handler sees it: the emulator, who calls, the key that is meant, durations, and the requested
//! page of a listing.
//!
//! Every call accepts `key` as a query parameter, and as a field of a JSON body. It names a workspace by key or by its id
//! `ws_…`, and `*` means all; the meaning of its absence depends on the call.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::ACCEPT;
use hyper::http::request::Parts;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use super::fields::{ClockOwner, DurationInput, KeyFilter, KeyOrAll, KeyOrSample, Page};
use super::render::{AnyText, bytes_of};
use super::reply::{ControlReply, json, text};
use super::{Control, ControlError};
use crate::advice::{Audience, READER};
use crate::contract::keys::Keys;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::engine::{Engine, KeyProblem};
use crate::state::journal::{Entry, RequestRecord};
use crate::state::workspace::Workspace;
use crate::util::duration::parse_duration;

pub(crate) struct Context {
    pub(super) control: Arc<Control>,
    pub(super) engine: Arc<Engine>,
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

impl Context {
    pub(super) fn redactor(&self) -> Redactor<'_> {
        Redactor::new(&self.profile.keys)
    }

    /// The key that the call names: in its body, else in its query; `None` if it names none.
    pub(super) fn key(&self) -> Result<Option<String>, ControlError> {
        #[derive(Deserialize)]
        struct KeyField {
            key: Option<String>,
        }
        // A body that is not an object has no key. What reads the request reports the problem.
        let in_body = match serde_json::from_slice::<KeyField>(&self.body) {
            Ok(named) if self.is_object() => named.key,
            Err(error) if self.is_object() && error.is_data() => {
                return Err(ControlError::invalid("body: key: expected a string"));
            }
            _ => None,
        };
        let in_query = || self.query().filter(|(name, _)| name == "key").last().map(|(_, key)| key);
        Ok(in_body.or_else(in_query))
    }

    /// The parameters of the query, decoded.
    pub(super) fn query(&self) -> impl Iterator<Item = (String, String)> {
        form_urlencoded::parse(self.parts.uri.query().unwrap_or_default().as_bytes()).into_owned()
    }

    /// The answer of a typed call: JSON, or text if the caller wants it.
    pub(super) fn reply(&self, answer: &dyn AnyText) -> ControlReply {
        if self.wants_text() {
            let whole = answer.text(&self.reader());
            return text(&if self.shows_secrets { whole.into() } else { self.redactor().text(&whole) });
        }
        let mut record = answer.json();
        if !self.shows_secrets {
            self.redactor().value(&mut record);
        }
        json(&record)
    }

    /// Who reads the text: as the caller says, or else a person who calls the address where the emulator serves.
    fn reader(&self) -> Audience {
        let named = self.parts.headers.get(READER).and_then(|value| Audience::from_header(value.to_str().ok()?));
        named.unwrap_or_else(|| Audience::person(&self.control.control_url))
    }

    /// True if the answer is to be text: `Accept` names `text/plain` before JSON and before anything else that JSON satisfies.
    pub(super) fn wants_text(&self) -> bool {
        let accepted = self.parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = accepted.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
        let known =
            types.find(|media| matches!(media.trim(), "text/plain" | "application/json" | "application/*" | "*/*"));
        known.is_some_and(|media| media.trim() == "text/plain")
    }

    fn is_object(&self) -> bool {
        self.body.trim_ascii_start().starts_with(b"{")
    }

    /// Refuses an invalid key. Opens no workspace.
    pub(super) fn check_key(&self) -> Result<(), ControlError> {
        let key = self.key()?.filter(|key| key != "*");
        key.map_or(Ok(()), |key| Ok(self.engine.workspace_name(Some(&key)).map(drop)?))
    }

    /// The key of a call, masked for a log line.
    pub(super) fn whose(&self, workspace: Option<&str>) -> String {
        workspace.map_or_else(|| "all keys".to_owned(), |name| self.redactor().key(name).into_owned())
    }
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_mins(5);

pub(super) fn duration(field: &str, DurationInput(text): &DurationInput) -> Result<Duration, ControlError> {
    parse_duration(text).map_err(|problem| ControlError::invalid(format!("{field}: {problem}")))
}

/// How long a call waits, by its field `timeout` or the usual time.
pub(super) fn timeout(given: Option<&DurationInput>, usual: Duration) -> Result<Duration, ControlError> {
    given.map_or(Ok(usual), |given| wait_limit("timeout", given))
}

/// How long a call waits, by a field of it.
pub(super) fn wait_limit(field: &str, given: &DurationInput) -> Result<Duration, ControlError> {
    let limit = duration(field, given)?;
    check_wait(limit).map_err(|most| ControlError::invalid(format!("{field}: {most}")))
}

/// Refuses a longer wait than any call makes.
pub(crate) fn check_wait(limit: Duration) -> Result<Duration, String> {
    if limit > MAX_WAIT { Err(format!("at most {}s", MAX_WAIT.as_secs())) } else { Ok(limit) }
}

/// The part of a listing that one answer has: bounded by the number of records, and by their bytes.
pub(super) struct Paging {
    pub(super) limit: usize,
    /// The number of the last entry of the page before. Records of traffic are listed newest first, everything else oldest first.
    pub(super) after: Option<u64>,
}

/// How many records a page has, unless the call says so: of traffic, and of everything else.
pub(super) const RECENT: u16 = 20;
pub(super) const LISTED: u16 = 1000;
/// Once a page has so many bytes of JSON, it ends.
const PAGE_BYTES: usize = 1024 * 1024;

impl Paging {
    pub(super) fn read(limit: Option<u16>, usual: u16, cursor: Option<&str>) -> Result<Self, ControlError> {
        let after = cursor.map(|text| {
            let expected = "the `next_cursor` of another page";
            text.parse().map_err(|_| ControlError::unexpected("cursor", expected, text))
        });
        Ok(Self { limit: limit.unwrap_or(usual).into(), after: after.transpose()? })
    }

    /// The first so many.
    pub(super) fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }

    /// The page of these numbered entries, in their order, as they are shown. There must be one more than `limit` if there is a next page.
    pub(super) fn page<E, T: Serialize>(
        &self,
        entries: impl IntoIterator<Item = (u64, E)>,
        shown: impl Fn(E) -> T,
    ) -> Page<T> {
        let (mut data, mut size, mut last) = (Vec::new(), 0, None);
        for (number, entry) in entries {
            if data.len() == self.limit || size >= PAGE_BYTES {
                return Page { data, has_more: true, next_cursor: last };
            }
            let record = shown(entry);
            size += bytes_of(&record);
            data.push(record);
            last = Some(number.to_string());
        }
        Page { data, has_more: false, next_cursor: None }
    }
}

/// One workspace, or with `None` all of them and what belongs to none.
#[derive(Clone)]
pub(super) struct KeyScope(pub(super) Option<Arc<Workspace>>);

impl KeyScope {
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

/// The scope of a key, by what the type of the field means if it is absent. If the call names one thing by its id, a key restricts it to
/// that key's things.
macro_rules! scopes {
    ($($key:ident)*) => {$(
        impl $key {
            pub(super) fn scope(&self, engine: &Arc<Engine>) -> Result<KeyScope, ControlError> {
                scope(engine, self.meant())
            }

            /// For a call that waits: on a blocking thread, because the scenarios of a workspace that is opened may fire many events.
            #[allow(dead_code, reason = "not each kind of key is one of a call that waits")]
            pub(super) async fn scope_soon(&self, control: &Arc<Control>) -> Result<KeyScope, ControlError> {
                let key = self.meant().map(str::to_owned);
                control.run_to_end(move |control| scope(&control.engine, key.as_deref())).await
            }
        }
    )*};
}

scopes!(KeyFilter ClockOwner KeyOrAll KeyOrSample);

fn scope(engine: &Arc<Engine>, key: Option<&str>) -> Result<KeyScope, ControlError> {
    let one = if key == Some("*") { None } else { Some(engine.workspace(key)?) };
    Ok(KeyScope(one))
}

impl From<KeyProblem> for ControlError {
    fn from(problem: KeyProblem) -> Self {
        let message = problem.to_string();
        match problem {
            KeyProblem::All | KeyProblem::NoRoom(_) => Self::invalid(message),
            KeyProblem::UnknownId(_) => Self::not_found(message),
            KeyProblem::Invalid(_) => Self::not_found(message).with(|error| error.parameter = Some("key".to_owned())),
        }
    }
}
