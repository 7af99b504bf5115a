//! The page under `/_emulator/`: its files hold no data and require no token, but the host and the site that asks are checked.

use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::{Access, ControlError, PREFIX};
use crate::http::outgoing::Outgoing;
use crate::ui;

/// The answer to a request for the page or one of its files; `None` for anything else.
pub(super) fn page(access: &Access, parts: &Parts, host: &str) -> Option<Result<Response<Outgoing>, ControlError>> {
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
