//! Layer 5, the control API under `/_emulator/`: everything that the command line can do. Front page.
//!
//! One file a resource; `guard` says who may call and `guesses` slows who may not, `route` which call is meant, `view` how things are shown. Knows the
//! emulated API's parts, none of its handlers.

mod advance;
mod call;
mod clock;
mod deliveries;
mod diagnosis;
mod duration;
mod events;
mod explain;
mod filter;
mod guard;
mod guesses;
mod health;
mod metrics;
mod notice;
mod openapi;
mod paging;
mod profile;
mod reload;
mod reply;
mod requests;
mod reset;
mod route;
mod scenarios;
mod scope;
mod sinks;
mod snapshot;
mod stream;
mod subscriptions;
mod trace;
mod verdict;
mod view;
mod whole;

use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::{Body as _, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

pub use advance::{Mover, settle};
use call::Call;
pub use call::{Writes, Writing};
pub use guard::Access;
use guard::Content;
pub use guesses::Guesses;
pub use openapi::document as openapi_document;
pub use reload::{log_held_back, take_seen};
pub use reply::{ControlError, Reply};
pub use reset::{forget, forget_all};
pub use scope::{activate, workspace, workspace_name};
pub use snapshot::{SnapshotProblem, load_snapshot, settle_for_a_moment, take_snapshot};
pub use stream::{MOST_VIEWERS, Texts};

use crate::contract::error::ErrorKind;
use crate::contract::profile::Profile;
use crate::http::answer::{AnswerBody, JSON, answer_in_pieces};
use crate::http::blocking::Blocking;
use crate::http::body::BodyReader;
use crate::http::emissions::Emissions;
use crate::http::stopped;
use crate::journal::Journal;
use crate::memory::Pieces;
use crate::redact::Redactor;
use crate::scenario::{Folders, Library};
use crate::webhook::book::Book;
use crate::webhook::emitter::Emitter;
use crate::webhook::sink::Sinks;
use crate::workspace::Registry;
use route::{Action, Match};

/// How much there may be, for the page that lists it.
pub(crate) mod limits {
    pub(crate) use super::MOST_VIEWERS as VIEWERS;
    pub(crate) use super::duration::LONGEST_WAIT;
    pub(crate) use super::events::{
        MOST_EVENTS as EVENTS, MOST_SHOWN as EVENTS_SHOWN, MOST_SHOWN_BYTES as EVENTS_SHOWN_BYTES,
    };
    pub(crate) use super::guesses::{MOST_A_SECOND as GUESSES_A_SECOND, MOST_ADDRESSES as GUESSING_ADDRESSES};
    pub(crate) use super::snapshot::{MOST_BYTES as SNAPSHOT_BYTES, MOST_MEMORY as SNAPSHOT_MEMORY};
    pub(crate) use super::stream::{
        PIECE as PIECE_ENTRIES, PIECE_BYTES, TEXT_BYTES as SHARED_TEXT_BYTES, TEXTS as SHARED_TEXTS,
    };
    pub(crate) use super::verdict::MOST_SHOWN as VERDICT_ENTRIES;
}

/// Every control path begins so.
pub const PREFIX: &str = "/_emulator/";

/// The control API over the emulator's parts.
#[derive(Debug)]
pub struct Control {
    /// Scenarios and profile.
    pub library: Arc<Library>,
    /// Workspaces.
    pub registry: Arc<Registry>,
    /// What happened.
    pub journal: Arc<Journal>,
    /// Deliveries.
    pub book: Arc<Book>,
    /// The built-in receivers.
    pub sinks: Arc<Sinks>,
    /// Reads bodies within the limits.
    pub bodies: Arc<BodyReader>,
    /// The way to the driver of emissions.
    pub emissions: Emissions,
    /// The driver of emissions, for what it has planned.
    pub emitter: Arc<Emitter>,
    /// Folders of scenario files, for reloading.
    pub scenario_folders: Folders,
    /// The authority made for `--tls self-signed`.
    pub ca_pem: Option<String>,
    /// Viewers of the event stream, at most so many at a time.
    pub viewers: Arc<Semaphore>,
    /// What they were sent a moment ago.
    pub texts: Arc<Texts>,
    /// Who may call.
    pub access: Access,
    /// Threads for calls that take a while.
    pub blocking: Blocking,
    /// Becomes true when the emulator stops.
    pub stopping: watch::Receiver<bool>,
    /// How often a call has written.
    pub writes: Writes,
    /// Who tried to, with a wrong token.
    pub guesses: Arc<Guesses>,
}

impl Control {
    /// Answers one call of this peer; `host` is what the request names, already well-formed.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        host: &str,
        peer: IpAddr,
    ) -> Response<AnswerBody> {
        let (parts, body) = request.into_parts();
        let has_token = parts.headers.contains_key(AUTHORIZATION);
        let answered = self.dispatch(parts, body, host).await;
        if has_token && answered.as_ref().is_err_and(ControlError::is_unauthorized) {
            self.guesses.wrong(peer).await;
        }
        let profile = self.profile();
        let redactor = Redactor::new(&profile.keys);
        match answered {
            Ok(reply) => reply.into_response(redactor),
            Err(error) => error.into_response(redactor),
        }
    }

    /// The profile by which things are shown: the one in force for every key without one of its own.
    pub fn profile(&self) -> Arc<Profile> {
        Arc::clone(&self.library.load().setup_for(None).profile)
    }

    async fn dispatch(self: &Arc<Self>, parts: Parts, body: Incoming, host: &str) -> Result<Reply, ControlError> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let (action, segment) = match route::find(&parts.method, &path) {
            Match::Found(action, segment) => (action, segment),
            // Even what is not there is told only to those who may ask.
            other => {
                self.access.check_origin(&parts, host, Content::Any)?;
                self.access.check_token(&parts)?;
                return Err(match other {
                    Match::OtherMethods(allow) => ControlError::method(allow),
                    _ => ControlError::unknown_path(&path),
                });
            }
        };
        let content = match (action.is_write(), action.takes_toml()) {
            (false, _) => Content::Any,
            (true, _) if body.is_end_stream() => Content::Nothing,
            (true, false) => Content::Json,
            (true, true) => Content::JsonOrToml,
        };
        self.access.check_origin(&parts, host, content)?;
        if !action.is_open() {
            self.access.check_token(&parts)?;
        }
        let read = self.bodies.read_content(action.most_bytes(), &parts.headers, body).await;
        let body = read.map_err(|problem| ControlError::new(problem.kind(), problem.to_string()))?;
        let call = Call { parts, body, segment, profile: self.profile() };
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            reply = self.answer(action, call) => reply,
            // Whoever waits is not waited for.
            () = stopped(&mut stopping) => {
                Err(ControlError::new(ErrorKind::RequestTimeout, "the emulator is stopping").coded("stopping"))
            }
        }
    }

    /// Calls that wait are answered here, all others on a thread beside the async workers.
    async fn answer(self: &Arc<Self>, action: Action, call: Call) -> Result<Reply, ControlError> {
        // Also where it changes nothing, a key must be one; the call of a large body looks for itself.
        if !action.is_open() && action.most_bytes().is_none() {
            scope::check_key(self, &call)?;
        }
        let writing = action.is_write().then(|| self.writes.begin());
        let at_once: fn(&Self, &Call) -> Result<Reply, ControlError> = match action {
            Action::Health => return Ok(health::health(self)),
            Action::WaitRequests => return requests::wait(self, &call).await,
            Action::Verdict => return verdict::verdict(self, call).await,
            Action::FireEvents => return events::fire(self, call).await,
            Action::Redeliver => return deliveries::redeliver(self, &call).await,
            Action::WaitDeliveries => return deliveries::wait(self, &call).await,
            Action::SaveSnapshot => return snapshot::save(self, &call).await,
            Action::MoveClock => return clock::change(self, &call).await,
            Action::CaPem => |control, _| health::ca_pem(control),
            Action::Assumptions => profile::assumptions,
            Action::Profile => profile::profile,
            Action::PatchProfile => profile::patch,
            Action::OpenApi => |_, call| call.allow_queries(&[]).map(|()| Reply::plain(&openapi::document())),
            Action::EmulatedOpenApi => profile::openapi,
            Action::ListRequests => requests::list,
            Action::ShowRequest => requests::show,
            Action::ClearRequests => requests::clear,
            Action::Explain => explain::explain,
            Action::ListSubscriptions => subscriptions::list,
            Action::CreateSubscription => subscriptions::create,
            Action::ShowSubscription => subscriptions::show,
            Action::ChangeSubscription => subscriptions::change,
            Action::DeleteSubscription => subscriptions::delete,
            Action::RotateSecret => subscriptions::rotate,
            Action::ListDeliveries => deliveries::list,
            Action::ShowDelivery => deliveries::show,
            Action::Stream => stream::stream,
            Action::Metrics => metrics::metrics,
            Action::ListScenarios => scenarios::list,
            Action::ShowScenario => scenarios::show,
            Action::PutScenario => scenarios::put,
            Action::RemoveScenario => scenarios::remove,
            Action::ReloadScenarios => scenarios::reload,
            Action::ActivateScenarios => scenarios::activate,
            Action::Reset => reset::reset,
            Action::LoadSnapshot => snapshot::load,
            Action::ShowClock => clock::show,
            Action::ShowSink => sinks::show,
            Action::ScriptSink => sinks::script,
        };
        let control = Arc::clone(self);
        let done = self.blocking.run(move || {
            // With the change and not with whoever waits for it, who may have gone.
            let _writing = writing;
            at_once(&control, &call).map(|reply| reply.written(call.redactor()))
        });
        done.await
    }
}

/// A JSON answer with status 200, in which credentials are masked.
pub(crate) fn ok(body: Value) -> Reply {
    Reply::new(StatusCode::OK, body)
}

/// Puts a value on the wire.
fn response(status: StatusCode, body: &Value) -> Response<AnswerBody> {
    let mut text = Pieces::default();
    serde_json::to_writer(&mut text, body).expect("JSON values always serialise");
    text.write_all(b"\n").expect("memory takes what is written");
    answer_in_pieces(status, JSON, text.finish())
}
