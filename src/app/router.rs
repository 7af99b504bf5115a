//! Routes each request of a listener to the control API, the page or the emulated API.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use jiff::Timestamp;

use crate::clock::Now;
use crate::contract::error::ErrorKind;
use crate::control::{Control, ControlError, PREFIX};
use crate::http::body::Outgoing;
use crate::http::handler::Progress;
use crate::http::handler::{Answering, Handler, Unreadable, caught};
use crate::http::host::check_host;
use crate::http::service::Api;
use crate::redact::Redactor;
use crate::ui::{asks_for_page, to_page};
pub(super) struct Router {
    /// The emulated API. On every listener it also answers bytes that are not an HTTP request.
    pub(super) api: Arc<Api>,
    /// Whether this listener serves the emulated API.
    pub(super) serves_api: bool,
    /// The control API, if this listener serves it.
    pub(super) control: Option<Arc<Control>>,
}

impl Handler for Router {
    fn handle(&self, request: Request<Incoming>, progress: &Arc<Progress>) -> Answering {
        let path = request.uri().path();
        let for_control = path.starts_with(PREFIX) || path == PREFIX.trim_end_matches('/');
        match &self.control {
            Some(control) if for_control => {
                let (control, progress) = (Arc::clone(control), Arc::clone(progress));
                Answering::Later(Box::pin(async move { call(&control, request, &progress).await }))
            }
            Some(_) if path == "/" && asks_for_page(request.method(), request.headers()) => Answering::Ready(to_page()),
            _ if self.serves_api => self.api.handle(request, progress),
            _ => {
                let nothing = ControlError::new(ErrorKind::NotFound, "this port serves the control API only");
                Answering::Ready(nothing.into_response(Redactor::default()))
            }
        }
    }

    fn now(&self) -> Now {
        self.api.engine.registry.clock().now()
    }

    fn wall(&self) -> Timestamp {
        self.api.engine.registry.clock().wall()
    }

    fn refuse(&self, status: StatusCode, sent: Unreadable) -> Bytes {
        self.api.refuse(status, sent)
    }
}

async fn call(control: &Arc<Control>, request: Request<Incoming>, progress: &Progress) -> Response<Outgoing> {
    let host = check_host(request.method(), request.uri(), request.version(), request.headers());
    match host.map(|host| String::from_utf8_lossy(host).into_owned()) {
        Ok(host) => caught(control.handle(request, &host, progress)).await.unwrap_or_else(|_| {
            let kind = ErrorKind::InternalError;
            ControlError::new(kind, kind.message()).into_response(Redactor::default())
        }),
        Err(problem) => {
            ControlError::new(ErrorKind::BadRequest, problem.to_string()).into_response(Redactor::default())
        }
    }
}
