//! A control call as one type: its request, whose `path`, `query` and `body` are structs that serde reads by itself, its handler and its
//! answer. And the call without its types, so that the list, the document and the path to its handler are compiled once.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use hyper::Method;
use percent_encoding::percent_decode_str;
use schemars::generate::Contract;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ControlError;
use super::command::{CallCommand, Sent};
use super::context::Context;
use super::fields::DurationInput;
use super::render::{AnyText, Text};
use super::reply::ControlReply;
use crate::contract::rules::json_type;
use crate::util::schema::{inlined, present};
use crate::util::wording::{any_of, quoted};

/// The request of a call: [`Query`], [`Body`], or a struct with those of `path`, `query` and `body` that the call takes. The first
/// paragraph of its comment says what the call does, the others explain it.
pub(crate) trait ControlCall: DeserializeOwned + JsonSchema + Serialize + Send + Sync + 'static {
    type Answer: CallAnswer;

    /// How it is listed, and its handler.
    fn call() -> Call;

    /// The commands that make the call.
    fn commands() -> Vec<CallCommand> {
        Vec::new()
    }

    /// How long the emulator waits before it answers, if the request says so.
    fn timeout(&self) -> Option<&DurationInput> {
        None
    }

    /// The call as the command line sends it.
    fn sent(&self) -> Sent {
        let parts = serde_json::to_value(self).expect("texts and numbers always serialise");
        Sent { timeout: self.timeout().and_then(DurationInput::get), ..Sent::new(Self::call().line, parts) }
    }
}

// Ordinary comments, because a doc comment would replace the description of the struct inside in the OpenAPI document.

// The request of a call that has only a query.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct Query<Q> {
    pub(crate) query: Q,
}

// The request of a call that has only a body.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct Body<B> {
    pub(crate) body: B,
}

pub(super) type CallResult<A> = Result<A, ControlError>;

/// A group in which the document lists calls. These are used in several files; a file may declare one for its own calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: &'static str,
    /// The topic of its calls.
    pub(super) about: &'static str,
}

impl Tag {
    pub(super) const EMULATOR: Self = Self { name: "emulator", about: "The emulator itself and its documents." };
    pub(super) const PROFILE: Self = Self { name: "profile", about: "Settings and assumptions." };
    pub(super) const REQUESTS: Self = Self { name: "requests", about: "What clients sent and were answered." };
    pub(super) const RESULTS: Self = Self { name: "results", about: "What happened, why, and the problems found." };
    pub(super) const WEBHOOKS: Self =
        Self { name: "webhooks", about: "Subscriptions, events, deliveries and built-in receivers." };
    pub(super) const SCENARIOS: Self =
        Self { name: "scenarios", about: "Stories that decide how requests are answered." };
    pub(super) const STATE: Self = Self { name: "state", about: "The clock, and the state of keys." };
}

/// Options of a call.
#[derive(Clone, Copy)]
pub(super) struct Options {
    /// The schema of a body that the handler reads itself.
    pub(super) raw_body: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// True if the body may be TOML instead of JSON.
    pub(super) takes_toml: bool,
    /// Maximum bytes of the body, if not the usual limit.
    pub(super) max_bytes: Option<usize>,
    /// True if it requires no token and accepts any query: the health check of containers, and the certificate authority, which a
    /// client needs before it can connect.
    pub(super) is_open: bool,
    /// The media types of the answer, if not those of its type; the caller chooses.
    pub(super) media: Option<&'static [&'static str]>,
    /// True if the answer returns a secret, so that nothing is masked in it.
    pub(super) shows_secrets: bool,
    /// Errors besides those that every call can return.
    pub(super) errors: &'static [(u16, &'static str)],
}

/// The options of most calls.
pub(super) const USUAL: Options = Options {
    raw_body: None,
    takes_toml: false,
    max_bytes: None,
    is_open: false,
    media: None,
    shows_secrets: false,
    errors: &[],
};

/// A handler's result.
pub(crate) trait CallAnswer: Send + 'static {
    type Schema: JsonSchema;
    const MEDIA: &'static [&'static str];

    fn answered(self) -> Answered;
}

/// An answer without its type.
pub(crate) enum Answered {
    /// A record, to be written as JSON or as text.
    Record(Box<dyn AnyText>),
    Reply(ControlReply),
}

/// The media types of an answer that is data, or text for people.
pub(super) const JSON_OR_TEXT: &[&str] = &["application/json", "text/plain"];

impl<A: Text + JsonSchema + Send + 'static> CallAnswer for A {
    type Schema = A;
    const MEDIA: &'static [&'static str] = JSON_OR_TEXT;

    fn answered(self) -> Answered {
        Answered::Record(Box::new(self))
    }
}

/// A reply that the handler makes itself.
pub(crate) struct Made<S>(ControlReply, PhantomData<fn(S)>);

impl<S> From<ControlReply> for Made<S> {
    fn from(reply: ControlReply) -> Self {
        Self(reply, PhantomData)
    }
}

impl<S: JsonSchema + 'static> CallAnswer for Made<S> {
    type Schema = S;
    const MEDIA: &'static [&'static str] = &["application/json"];

    fn answered(self) -> Answered {
        Answered::Reply(self.0)
    }
}

/// A call without the types of its request and its answer.
pub(crate) struct Call {
    /// The method, and the path below `/_emulator/`.
    pub(super) line: &'static str,
    pub(super) tag: Tag,
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) handler: CallHandler,
    pub(super) options: Options,
    pub(super) media: &'static [&'static str],
    pub(super) commands: fn() -> Vec<CallCommand>,
    pub(super) answer: fn(&mut SchemaGenerator) -> Schema,
    request: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its request.
    schema: OnceLock<Value>,
}

/// Reads the request from an object with its parts and answers it.
pub(super) enum CallHandler {
    /// On a blocking thread: calls that only read have a separate lane.
    AtOnce(Box<AnswerFn>),
    /// On the async worker, because it waits for something.
    Waits(Box<WaitFn>),
}

type AnswerFn = dyn Fn(Value, &Context) -> CallResult<Answered> + Send + Sync;
type WaitFn = dyn Fn(Value, Arc<Context>) -> CallFuture + Send + Sync;
type CallFuture = BoxFuture<'static, CallResult<Answered>>;

fn request<C: ControlCall>(parts: Value) -> CallResult<C> {
    serde_path_to_error::deserialize(parts).map_err(|error| wrong(&error.path().to_string(), error.inner()))
}

/// The problem with a field of the path, the query or the body.
fn wrong(path: &str, problem: &serde_json::Error) -> ControlError {
    let (part, field) = path.split_once('.').unwrap_or((path, ""));
    let places = [if part == "body" { "body: " } else { "" }, field, if field.is_empty() { "" } else { ": " }];
    ControlError::invalid(format!("{}{problem}", places.concat()))
}

impl Call {
    pub(super) fn at_once<C: ControlCall>(
        tag: Tag,
        line: &'static str,
        handler: fn(C, &Context) -> CallResult<C::Answer>,
    ) -> Self {
        let answer = move |parts: Value, cx: &Context| handler(request(parts)?, cx).map(C::Answer::answered);
        Self::new::<C>(tag, line, CallHandler::AtOnce(Box::new(answer)))
    }

    pub(super) fn waits<C: ControlCall, F: Future<Output = CallResult<C::Answer>> + Send + 'static>(
        tag: Tag,
        line: &'static str,
        handler: fn(C, Arc<Context>) -> F,
    ) -> Self {
        let answer = move |parts: Value, cx: Arc<Context>| -> CallFuture {
            let answering = request(parts).map(|request| handler(request, cx));
            Box::pin(async move { answering?.await.map(C::Answer::answered) })
        };
        Self::new::<C>(tag, line, CallHandler::Waits(Box::new(answer)))
    }

    fn new<C: ControlCall>(tag: Tag, line: &'static str, handler: CallHandler) -> Self {
        let (method, path) = line.split_once(' ').expect("a call has a method and a path");
        Self {
            line,
            tag,
            method: method.parse().expect("calls have methods of HTTP"),
            path,
            handler,
            options: USUAL,
            media: C::Answer::MEDIA,
            commands: C::commands,
            answer: SchemaGenerator::subschema_for::<<C::Answer as CallAnswer>::Schema>,
            request: SchemaGenerator::subschema_for::<C>,
            schema: OnceLock::new(),
        }
    }

    pub(super) fn with(self, options: Options) -> Self {
        Self { options, media: options.media.unwrap_or(self.media), ..self }
    }

    /// True if it changes anything.
    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The media types of the body; none if it changes nothing.
    pub(super) fn accepted(&self) -> &'static [&'static str] {
        match (self.is_write(), self.options.takes_toml) {
            (false, _) => &[],
            (true, false) => &["application/json"],
            (true, true) => &["application/json", "application/toml"],
        }
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

    /// A one-sentence summary without its full stop, and the description.
    pub(super) fn about(&self) -> (String, String) {
        let schema = self.schema();
        let part = |part: &str| schema["properties"][part]["description"].as_str();
        let text = schema["description"].as_str().or_else(|| part("query")).or_else(|| part("body"));
        let text = text.unwrap_or_default();
        let (summary, about) = text.split_once("\n\n").unwrap_or((text, ""));
        let about: Vec<String> = about.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        (summary.trim_end_matches('.').replace('\n', " "), about.join("\n\n"))
    }

    /// The schema of a part of the request: `path`, `query` or `body`; `None` if the call has none.
    pub(super) fn part(&self, part: &str) -> Option<&Map<String, Value>> {
        self.schema()["properties"].get(part)?.as_object()
    }

    /// The fields of a part, and their schemas.
    pub(super) fn fields(&self, part: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.part(part).and_then(|part| part.get("properties")?.as_object()).into_iter().flatten()
    }

    /// The fields of all parts, and their schemas.
    pub(crate) fn all_fields(&self) -> impl Iterator<Item = (&String, &Value)> {
        ["path", "body", "query"].into_iter().flat_map(|part| self.fields(part))
    }

    /// The names of the fields that a request must have.
    pub(crate) fn required(&self) -> Vec<String> {
        let of_part = |part: &str| self.part(part)?.get("required")?.as_array();
        let names = ["path", "body", "query"].into_iter().filter_map(of_part).flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn schema(&self) -> &Value {
        self.schema.get_or_init(|| {
            let mut schema = inlined(self.request, Contract::Deserialize);
            for (part, schema) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
                let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
                for field in fields.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
                    // A flag of the query is `true` or `false` as text.
                    let is_query = part == "query";
                    let is_left_out = |default: &Value| default.is_null() || is_query && default.is_boolean();
                    if field.get("default").is_some_and(is_left_out) {
                        field.shift_remove("default");
                    }
                    if is_query {
                        present(field);
                    }
                }
            }
            schema
        })
    }

    /// The parts of a request, as its struct is read from them. The body of a call that reads is ignored, and a raw one is left to
    /// the handler.
    pub(super) fn parts(&self, cx: &Context) -> CallResult<Value> {
        let mut parts = Map::new();
        if let Some((_, name, _)) = self.segment() {
            parts.insert("path".to_owned(), Map::from_iter([(name.to_owned(), cx.segment.clone().into())]).into());
        }
        if self.options.is_open {
            return Ok(parts.into());
        }
        let mut query = self.query(cx)?;
        let key = cx.key()?.map(|key| ("key".to_owned(), key.into()));
        if self.part("body").is_some() {
            let mut body = self.body(cx)?;
            body.extend(key);
            parts.insert("body".to_owned(), body.into());
        } else {
            query.extend(key);
        }
        parts.insert("query".to_owned(), query.into());
        Ok(parts.into())
    }

    /// The parameters of the query besides `key`. Of several with one name, the last counts.
    fn query(&self, cx: &Context) -> CallResult<Map<String, Value>> {
        let known: Map<String, Value> = self
            .fields("query")
            .filter(|(name, _)| *name != "key")
            .map(|(name, field)| (name.clone(), field.clone()))
            .collect();
        let given = || cx.query().filter(|(name, _)| name != "key");
        if let Some((unknown, _)) = given().find(|(name, _)| !known.contains_key(name)) {
            let names: Vec<&str> = ["key"].into_iter().chain(known.keys().map(String::as_str)).collect();
            let (unknown, names) = (quoted(&unknown), names.join(", "));
            return Err(ControlError::invalid(format!("unknown query parameter `{unknown}`; known: {names}")));
        }
        given().map(|(name, text)| Ok((name.clone(), typed(&name, text, &known[&name])?))).collect()
    }

    /// The body as an object, which an empty one is as well.
    fn body(&self, cx: &Context) -> CallResult<Map<String, Value>> {
        let text = if cx.body.trim_ascii().is_empty() { b"{}" } else { &*cx.body };
        let body = match serde_json::from_slice(text) {
            Ok(Value::Object(body)) => body,
            Ok(other) => {
                let found = json_type(&other);
                return Err(ControlError::invalid(format!("body: expected an object, found {found}")));
            }
            Err(error) => return Err(ControlError::invalid(format!("body: {error}"))),
        };
        let is_closed =
            self.part("body").is_some_and(|part| part.get("additionalProperties") == Some(&Value::Bool(false)));
        let is_known = |name: &String| self.fields("body").any(|(known, _)| known == name);
        if let Some(unknown) = body.keys().find(|name| is_closed && !is_known(name)) {
            let known: Vec<String> = self.fields("body").map(|(name, _)| format!("`{name}`")).collect();
            let one_of = if known.len() > 2 { "one of " } else { "" };
            let list = if known.len() > 2 { known.join(", ") } else { any_of(&known) };
            return Err(ControlError::invalid(format!("body: unknown field `{unknown}`, expected {one_of}{list}")));
        }
        Ok(body)
    }

    /// The call with these fields, unchecked; the emulator checks them.
    pub(crate) fn sent(&self, fields: Map<String, Value>) -> Sent {
        let is_in = |part: &str, name: &str| self.fields(part).any(|(known, _)| known == name);
        let (mut path, mut query, mut body) = (Map::new(), Map::new(), Map::new());
        for (name, value) in fields {
            let part = if is_in("path", &name) {
                &mut path
            } else if is_in("body", &name) {
                &mut body
            } else {
                &mut query
            };
            part.insert(name, value);
        }
        Sent::new(self.line, json!({ "path": path, "query": query, "body": body }))
    }
}

/// The value of a query parameter, of the type that its schema names.
fn typed(name: &str, text: String, schema: &Value) -> CallResult<Value> {
    // A flag may be described as one of two texts.
    let is_flag = schema["type"] == "boolean" || schema["enum"] == json!(["true", "false"]);
    if is_flag {
        let flag = text.parse::<bool>().map_err(|_| ControlError::unexpected(name, "true or false", &text));
        return flag.map(Value::from);
    }
    if schema["type"] != "integer" {
        return Ok(text.into());
    }
    let number: u32 = text.parse().map_err(|_| ControlError::unexpected(name, "a number such as 200", &text))?;
    let (least, most) = (schema["minimum"].as_u64().unwrap_or(0), schema["maximum"].as_u64().unwrap_or(u64::MAX));
    if !(least..=most).contains(&number.into()) {
        return Err(ControlError::unexpected(name, &format!("{least} to {most}"), &text));
    }
    Ok(number.into())
}
