//! The page under `/_emulator/`: its files hold no data and require no token, but the host and the site that asks are checked.
//! [`Viewer`] serves them over a saved run, with the document instead of `GET run`, and nothing else.

use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use super::{Access, ControlError, PREFIX};
use crate::clock::{Instant, Now, machine};
use crate::http::answer::{JSON, answer};
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::connection_state::ConnectionState;
use crate::http::handler::{Handler, HandlerResponse, Unreadable};
use crate::http::host::check_head;
use crate::redact::Redactor;
use crate::ui;
use crate::ui::{asks_for_page, to_page};

/// The answer to a request for the page or one of its files; `None` for anything else.
pub(super) fn page(access: &Access, parts: &Parts, host: &str) -> Option<Result<Response<ResponseBody>, ControlError>> {
    let path = parts.uri.path();
    let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
    if path == PREFIX.trim_end_matches('/') {
        return is_read.then(|| access.check_page(parts, host, true).map(|()| ui::to_page()));
    }
    let name = path.strip_prefix(PREFIX)?;
    let asset = ui::find(name)?;
    let checked = access.check_page(parts, host, name.is_empty());
    Some(checked.and_then(|()| {
        if is_read { Ok(ui::answer(asset, &parts.headers)) } else { Err(ControlError::method("GET, HEAD".to_owned())) }
    }))
}

/// Serves the page over one document.
#[derive(Debug)]
pub struct Viewer {
    access: Access,
    document: Bytes,
}

impl Viewer {
    /// Shows this document, which is JSON, to those who may call.
    pub fn new(access: Access, document: impl Into<Bytes>) -> Self {
        Self { access, document: document.into() }
    }

    fn answer(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, ControlError> {
        let host = check_head(request.method(), request.uri(), request.version(), request.headers());
        let host = host.map_err(|problem| ControlError::new(problem.kind(), problem.to_string()))?;
        let host = String::from_utf8_lossy(host).into_owned();
        let (parts, _) = request.into_parts();
        if let Some(answered) = page(&self.access, &parts, &host) {
            return answered;
        }
        let path = parts.uri.path();
        if path == "/" && asks_for_page(&parts.method, &parts.headers) {
            return Ok(to_page());
        }
        self.access.check_origin(&parts, &host, &[], false)?;
        self.access.check_token(&parts)?;
        if path.strip_prefix(PREFIX) != Some("run") {
            return Err(ControlError::not_found("this address only shows a saved run; no emulator is running here"));
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(ControlError::method("GET, HEAD".to_owned()));
        }
        let mut response = answer(StatusCode::OK, JSON, self.document.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

impl Handler for Viewer {
    fn handle(&self, request: Request<RequestBody>, _: &Arc<ConnectionState>) -> HandlerResponse {
        HandlerResponse::Ready(self.answer(request).unwrap_or_else(|error| error.into_response(Redactor::default())))
    }

    fn now(&self) -> Now {
        Now { instant: Instant::default(), wall: machine::wall_time() }
    }

    fn warn(&self, _: &str) {}

    fn refuse(&self, status: StatusCode, _: Unreadable) -> Bytes {
        let reason = status.canonical_reason().unwrap_or_default();
        format!("HTTP/1.1 {} {reason}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", status.as_u16()).into()
    }
}
