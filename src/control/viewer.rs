//! Serves the page over a saved run: the page's files, the document in place of `GET run`, and nothing else. The guards of the
//! control API apply.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use jiff::Timestamp;

use super::guard::Content;
use super::page::page;
use super::reply::ControlError;
use super::{Access, PREFIX};
use crate::clock::{Instant, Now, machine};
use crate::contract::error::ErrorKind;
use crate::http::answer::{JSON, answer};
use crate::http::connection::Progress;
use crate::http::handler::{Answering, Handler, Unreadable};
use crate::http::host::check_host;
use crate::http::outgoing::Outgoing;
use crate::redact::Redactor;
use crate::ui::{asks_for_page, to_page};

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

    fn answer(&self, request: Request<Incoming>) -> Result<Response<Outgoing>, ControlError> {
        let host = check_host(request.method(), request.uri(), request.version(), request.headers());
        let host = host.map_err(|problem| ControlError::new(ErrorKind::BadRequest, problem.to_string()))?;
        let host = String::from_utf8_lossy(host).into_owned();
        let (parts, _) = request.into_parts();
        if let Some(answered) = page(&self.access, &parts, &host) {
            return answered;
        }
        let path = parts.uri.path();
        if path == "/" && asks_for_page(&parts.method, &parts.headers) {
            return Ok(to_page());
        }
        self.access.check_origin(&parts, &host, Content::Any)?;
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
    fn handle(&self, request: Request<Incoming>, _: &Arc<Progress>) -> Answering {
        Answering::Ready(self.answer(request).unwrap_or_else(|error| error.into_response(Redactor::default())))
    }

    fn now(&self) -> Now {
        Now { instant: Instant::default(), wall: self.wall() }
    }

    fn wall(&self) -> Timestamp {
        machine::wall_time()
    }

    fn refuse(&self, status: StatusCode, _: Unreadable) -> Bytes {
        let reason = status.canonical_reason().unwrap_or_default();
        format!("HTTP/1.1 {} {reason}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", status.as_u16()).into()
    }
}
