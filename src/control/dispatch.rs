//! The path of one call through the control API: find its route, check who calls, read the body, run the handler.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hyper::body::{Body as _, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Request, Response};

use super::call::Call;
use super::guard::{Content, WRONG_TOKEN_PAUSE};
use super::page::page;
use super::route::{Handler, Route};
use super::routes::{self, Match};
use super::{Control, ControlError, PREFIX, Reply, scope};
use crate::contract::error::ErrorKind;
use crate::http::connection::Progress;
use crate::http::outgoing::Outgoing;
use crate::redact::Redactor;
use crate::util::tasks::{Busy, Lane, MOST_READS, stopped};

impl Control {
    /// Answers one call. `host` is the host that the request names, already validated.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        host: &str,
        progress: &Progress,
    ) -> Response<Outgoing> {
        let (parts, body) = request.into_parts();
        if let Some(answered) = page(&self.access, &parts, host) {
            return answered.unwrap_or_else(|error| error.into_response(Redactor::new(&self.profile().keys)));
        }
        let has_token = parts.headers.contains_key(AUTHORIZATION);
        let answered = self.dispatch(parts, body, host, progress).await;
        if has_token && answered.as_ref().is_err_and(ControlError::is_unauthorized) {
            if let Some(line) = self.wrong_tokens.line(progress.peer()) {
                self.note(None, line, true);
            }
            tokio::time::sleep(WRONG_TOKEN_PAUSE).await;
        }
        let profile = self.profile();
        let redactor = Redactor::new(&profile.keys);
        match answered {
            Ok(reply) => reply.into_response(redactor),
            Err(error) => error.into_response(redactor),
        }
    }

    async fn dispatch(
        self: &Arc<Self>,
        parts: Parts,
        body: Incoming,
        host: &str,
        progress: &Progress,
    ) -> Result<Reply, ControlError> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let found = match routes::find(&parts.method, &path) {
            Match::Found(route, segment) => Ok((route, segment)),
            Match::OtherMethods(allow) => Err(ControlError::method(allow)),
            Match::Nothing => Err(routes::unknown_path(&path)),
        };
        let (route, segment) = match found {
            Ok(found) => found,
            // Which paths exist is only shown to those who may call.
            Err(refusal) => {
                self.access.check_origin(&parts, host, Content::Any)?;
                self.access.check_token(&parts)?;
                return Err(refusal);
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
        let has_left = Arc::clone(progress.half_closed());
        let call = Call { parts, body, segment, profile: self.profile(), has_left };
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            reply = self.answer(route, call) => reply,
            // A stop does not wait for calls that are waiting for something.
            () = stopped(&mut stopping) => {
                Err(ControlError::new(ErrorKind::RequestTimeout, "the emulator is stopping").coded("stopping"))
            }
        }
    }

    async fn answer(self: &Arc<Self>, route: &'static Route, call: Call) -> Result<Reply, ControlError> {
        // Every call refuses an invalid key. The one with a large body checks it itself, as parsing that body takes a while.
        if !route.is_open && route.most_bytes.is_none() {
            scope::check_key(self, &call)?;
        }
        let writing = route.is_write().then(|| self.begin_write());
        let control = Arc::clone(self);
        match &route.handler {
            Handler::Here(answer) => answer(self, call),
            Handler::Waits(answer) => answer(control, call).await,
            Handler::Beside(answer) if route.is_write() => {
                let done = self.blocking.run(Lane::Change, move || {
                    // Released after the change, even if the caller has hung up.
                    let _writing = writing;
                    answer(&control, call)
                });
                done.await
            }
            Handler::Beside(answer) => {
                let has_left = Arc::clone(&call.has_left);
                self.read(&has_left, move || answer(&control, call)).await?
            }
        }
    }

    /// Does work that changes nothing, unless the caller leaves before it has begun.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        has_left: &Arc<AtomicBool>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        self.blocking.read(has_left, work).await.map_err(|Busy| {
            let message = format!("{MOST_READS} reads of the control API are waiting already; try again");
            ControlError::new(ErrorKind::RateLimitExceeded, message).coded("busy")
        })
    }
}
