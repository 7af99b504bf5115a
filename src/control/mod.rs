//! Layer 6, the control API under `/_emulator/`: everything that the command line can do. Overview.
//!
//! One file a resource; `guard` says who may call and `guesses` slows who may not, `route` which call is meant, `view` how things are shown. What a
//! call does is the engine's business.

#[allow(clippy::struct_field_names, reason = "fields are as on the wire")]
pub(crate) mod api;
mod call;
mod clock;
mod deliveries;
mod diagnosis;
mod events;
mod explain;
mod filter;
mod guard;
mod guesses;
mod health;
mod metrics;
mod openapi;
mod profile;
mod reply;
mod requests;
mod reset;
mod route;
mod scenarios;
mod scope;
mod snapshot;
mod stream;
mod subscriptions;
mod verification;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use hyper::body::{Body as _, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use tokio::sync::{Semaphore, watch};

use call::Call;
pub use guard::Access;
use guard::Content;
pub use guesses::Guesses;
pub use openapi::openapi_document;
pub use reply::{ControlError, Reply};
pub use stream::{MOST_VIEWERS, Texts};

use crate::contract::error::ErrorKind;
use crate::engine::Engine;
use crate::http::answer::AnswerBody;
use crate::http::body::BodyReader;
use crate::profile::Profile;
use crate::redact::Redactor;
use crate::tasks::stopped;
use route::{Handler, Match, Route};

/// How much there may be, for the page that lists it.
pub(crate) mod limits {
    pub(crate) use super::MOST_VIEWERS as VIEWERS;
    pub(crate) use super::call::LONGEST_WAIT;
    pub(crate) use super::events::{
        MOST_EVENTS as EVENTS, MOST_SHOWN as EVENTS_SHOWN, MOST_SHOWN_BYTES as EVENTS_SHOWN_BYTES,
    };
    pub(crate) use super::guesses::{MOST_A_SECOND as GUESSES_A_SECOND, MOST_ADDRESSES as GUESSING_ADDRESSES};
    pub(crate) use super::snapshot::{MOST_BYTES as SNAPSHOT_BYTES, MOST_MEMORY as SNAPSHOT_MEMORY};
    pub(crate) use super::stream::{
        PIECE as PIECE_ENTRIES, PIECE_BYTES, TEXT_BYTES as SHARED_TEXT_BYTES, TEXTS as SHARED_TEXTS,
    };
    pub(crate) use super::verification::MOST_SHOWN as VERDICT_ENTRIES;
}

/// Every control path begins so.
pub const PREFIX: &str = "/_emulator/";

/// The control API over an engine, whose parts and methods it has.
#[derive(Debug)]
pub struct Control {
    /// What it controls.
    pub engine: Arc<Engine>,
    /// Reads bodies within the limits.
    pub bodies: Arc<BodyReader>,
    /// The authority made for `--tls self-signed`.
    pub ca_pem: Option<String>,
    /// Viewers of the event stream, at most so many at a time.
    pub viewers: Arc<Semaphore>,
    /// What they were sent a moment ago.
    pub texts: Arc<Texts>,
    /// Who may call.
    pub access: Access,
    /// Becomes true when the emulator stops.
    pub stopping: watch::Receiver<bool>,
    /// Who tried to, with a wrong token.
    pub guesses: Arc<Guesses>,
}

impl Deref for Control {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.engine
    }
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
        self.profile_for(None)
    }

    async fn dispatch(self: &Arc<Self>, parts: Parts, body: Incoming, host: &str) -> Result<Reply, ControlError> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let (route, segment) = match route::find(&parts.method, &path) {
            Match::Found(route, segment) => (route, segment),
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
        let content = match (route.is_write(), route.takes_toml) {
            (false, _) => Content::Any,
            (true, _) if body.is_end_stream() => Content::Nothing,
            (true, false) => Content::Json,
            (true, true) => Content::JsonOrToml,
        };
        self.access.check_origin(&parts, host, content)?;
        if !route.is_open {
            self.access.check_token(&parts)?;
        }
        let read = self.bodies.read_content(route.most_bytes, &parts.headers, body).await;
        let body = read.map_err(|problem| ControlError::new(problem.kind(), problem.to_string()))?;
        let call = Call { parts, body, segment, profile: self.profile() };
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            reply = self.answer(route, call) => reply,
            // Whoever waits is not waited for.
            () = stopped(&mut stopping) => {
                Err(ControlError::new(ErrorKind::RequestTimeout, "the emulator is stopping").coded("stopping"))
            }
        }
    }

    async fn answer(self: &Arc<Self>, route: &'static Route, call: Call) -> Result<Reply, ControlError> {
        // Also where it changes nothing, a key must be one; the call of a large body looks for itself.
        if !route.is_open && route.most_bytes.is_none() {
            scope::check_key(self, &call)?;
        }
        let writing = route.is_write().then(|| self.begin_write());
        let control = Arc::clone(self);
        match &route.handler {
            Handler::Here(answer) => answer(self, call),
            Handler::Waits(answer) => answer(control, call).await,
            Handler::Beside(answer) => {
                let done = self.blocking.run(move || {
                    // With the change and not with whoever waits for it, who may have gone.
                    let _writing = writing;
                    answer(&control, call)
                });
                done.await
            }
        }
    }
}
