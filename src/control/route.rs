//! One call of the control API: its method and path, its handler, and what the `OpenAPI` document says about it.

use std::pin::Pin;
use std::sync::Arc;

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::call::{Call, Input};
use super::endpoint::{Endpoint, Form};
use super::render::Text as _;
use super::reply::{json, text};
use super::{Control, ControlError, Reply};

pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Reply, ControlError>> + Send>>;
type AnswerAtOnce = dyn Fn(&Control, Call) -> Result<Reply, ControlError> + Send + Sync;

/// How a call is answered.
pub(super) enum Handler {
    /// At once, on a blocking thread.
    Blocking(Box<AnswerAtOnce>),
    /// By the async worker.
    Async(Box<dyn Fn(Arc<Control>, Call) -> Answering + Send + Sync>),
}

/// One call.
#[cfg_attr(not(test), allow(dead_code, reason = "some fields are for the `OpenAPI` document, which a test makes"))]
pub(super) struct Route {
    pub(super) method: Method,
    /// The path below `/_emulator/`.
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) form: Form,
    pub(super) handler: Handler,
    /// Adds the schemas of the call to the `OpenAPI` document.
    #[cfg(test)]
    pub(super) describe: fn(&mut super::openapi_tests::Schemas) -> super::openapi_tests::Described,
    /// Whether it requires no token: the health check of containers, and the certificate authority, which a client needs before it
    /// can connect.
    pub(super) is_open: bool,
    /// Most bytes of its body, if not the usual limit.
    pub(super) most_bytes: Option<usize>,
    /// Whether the body may be TOML instead of JSON.
    pub(super) takes_toml: bool,
    /// Whether the document of the API says that the answer may be text instead of JSON.
    pub(super) has_text: bool,
    /// Errors besides those that every call can return.
    pub(super) errors: &'static [(u16, &'static str)],
}

impl Route {
    pub(super) fn new<E: Endpoint>(handler: Handler) -> Self {
        Self {
            method: E::METHOD,
            path: E::PATH,
            summary: E::SUMMARY.trim().trim_end_matches('.'),
            form: E::FORM,
            handler,
            #[cfg(test)]
            describe: super::openapi_tests::describe::<E>,
            is_open: false,
            most_bytes: None,
            takes_toml: false,
            has_text: false,
            errors: &[],
        }
    }

    /// Whether it changes anything.
    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The parts of the path before and after its variable segment, and the segment's name; `None` if it has none.
    pub(super) fn segment(&self) -> Option<(&'static str, &'static str, &'static str)> {
        let (before, rest) = self.path.split_once('{')?;
        let (name, after) = rest.split_once('}')?;
        Some((before, name, after))
    }

    /// The variable segment if the path matches; empty if there is none.
    pub(super) fn matches(&self, path: &str) -> Option<String> {
        let Some((before, _, after)) = self.segment() else {
            return (self.path == path).then(String::new);
        };
        let segment = path.strip_prefix(before)?.strip_suffix(after)?;
        let decoded = percent_decode_str(segment).decode_utf8().ok()?;
        (!segment.is_empty() && !segment.contains('/')).then(|| decoded.into_owned())
    }
}

/// A call that answers at once, on a blocking thread.
pub(super) fn at_once<E: Endpoint>(handler: fn(&Control, &Input<E>) -> Result<E::Answer, ControlError>) -> Route {
    let answer = move |control: &Control, call: Call| {
        let input = Input::read(call)?;
        Ok(reply::<E>(&handler(control, &input)?, &input))
    };
    Route { has_text: E::PATH != "openapi.json", ..Route::new::<E>(Handler::Blocking(Box::new(answer))) }
}

/// A call that answers at once, and whose body or answer is not JSON of its type.
pub(super) fn raw<E: Endpoint>(handler: fn(&Control, &Call, E::Query) -> Result<Reply, ControlError>) -> Route {
    let answer = move |control: &Control, call: Call| {
        let query = call.query_as()?;
        handler(control, &call, query)
    };
    Route::new::<E>(Handler::Blocking(Box::new(answer)))
}

/// A call that waits for something.
pub(super) fn waits<E: Endpoint, F: Future<Output = Result<E::Answer, ControlError>> + Send + 'static>(
    handler: fn(Arc<Control>, Arc<Input<E>>) -> F,
) -> Route {
    let answer = move |control: Arc<Control>, call: Call| -> Answering {
        Box::pin(async move {
            let _writing = (E::METHOD != Method::GET).then(|| control.begin_write());
            let input = Arc::new(Input::read(call)?);
            let answer = handler(Arc::clone(&control), Arc::clone(&input)).await?;
            // Serializing a large answer takes a while.
            let serialize: Box<dyn FnOnce(&Control) -> Reply + Send> = Box::new(move |_| reply::<E>(&answer, &input));
            Ok(control.change(serialize).await)
        })
    };
    Route { has_text: true, ..Route::new::<E>(Handler::Async(Box::new(answer))) }
}

/// An answer of a typed call: JSON, or text if the caller wants it. What is masked in one is masked in the other.
pub(super) fn reply<E: Endpoint>(answer: &E::Answer, call: &Call) -> Reply {
    let mut shown = serde_json::to_value(answer).expect("texts and numbers always serialise");
    if E::FORM != Form::Plain {
        call.redactor().value(&mut shown);
    }
    if !call.wants_text() {
        return json(&shown);
    }
    // Read from text, as the command line reads it: each further deserializer would be another copy of the code for each type.
    let shown: E::Answer = serde_json::from_slice(shown.to_string().as_bytes()).expect("masking changes texts alone");
    text(&shown.text())
}
