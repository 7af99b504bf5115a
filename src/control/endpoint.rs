//! A control call as one type: its request, which its handler reads and the command line sends. The router, the `OpenAPI` document, the
//! commands and the tools for agents are made from it.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use clap::{ArgMatches, Args};
use hyper::Method;
use percent_encoding::percent_decode_str;
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::ControlError;
use super::call::Context;
use super::input::{Merged, fields};
use super::render::Text;
use super::reply::{Error, Reply};
use crate::util::schema::{plain, schema_of};

/// The request of a call. One field has the name of the path's variable segment; the others are the query of a call that reads, or
/// the body of one that writes. The first paragraph of its comment says what the call does, the others explain it.
pub(crate) trait Endpoint: DeserializeOwned + JsonSchema + Serialize + Send + Sync + 'static {
    type Answer: Answer;
    const CALL: Call<Self>;

    /// The commands that make the call.
    fn commands() -> Vec<Command> {
        Vec::new()
    }
}

pub(super) type CallResult<A> = Result<A, ControlError>;
type CallFuture<A> = Pin<Box<dyn Future<Output = CallResult<A>> + Send>>;

/// How a call is answered.
enum Handler<E: Endpoint> {
    /// At once, on a blocking thread: calls that only read have a separate lane.
    AtOnce(fn(E, &Context) -> CallResult<E::Answer>),
    /// By the async worker, because it waits for something.
    Waits(fn(E, Arc<Context>) -> CallFuture<E::Answer>),
}

/// What is special about a call, besides its request and its answer.
pub(crate) struct Call<E: Endpoint> {
    /// The method, and the path below `/_emulator/`.
    line: &'static str,
    handler: Handler<E>,
    /// Fields of a call that writes which are in its query.
    query: &'static [&'static str],
    /// The schema of a body that is not fields of the request.
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// True if the body may be TOML instead of JSON.
    takes_toml: bool,
    /// Most bytes of the body, if not the usual limit.
    max_bytes: Option<usize>,
    /// True if it requires no token and accepts any query: the health check of containers, and the certificate authority, which a
    /// client needs before it can connect.
    is_open: bool,
    /// The media types of the answer, if not those of its type; the caller chooses.
    media: Option<&'static [&'static str]>,
    /// True if the answer returns a secret, so that nothing is masked in it.
    shows_secrets: bool,
    /// Errors besides those that every call can return.
    errors: &'static [(u16, &'static str)],
}

impl<E: Endpoint> Call<E> {
    /// A call that answers at once.
    pub(super) const fn at_once(line: &'static str, handler: fn(E, &Context) -> CallResult<E::Answer>) -> Self {
        Self::new(line, Handler::AtOnce(handler))
    }

    /// A call that waits for something.
    pub(super) const fn waits(line: &'static str, handler: fn(E, Arc<Context>) -> CallFuture<E::Answer>) -> Self {
        Self::new(line, Handler::Waits(handler))
    }

    const fn new(line: &'static str, handler: Handler<E>) -> Self {
        Self {
            line,
            handler,
            query: &[],
            body: None,
            takes_toml: false,
            max_bytes: None,
            is_open: false,
            media: None,
            shows_secrets: false,
            errors: &[],
        }
    }

    pub(super) const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    pub(super) const fn body<B: JsonSchema>(self) -> Self {
        Self { body: Some(SchemaGenerator::subschema_for::<B>), ..self }
    }

    pub(super) const fn toml(self) -> Self {
        Self { takes_toml: true, ..self }
    }

    pub(super) const fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: Some(bytes), ..self }
    }

    pub(super) const fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    pub(super) const fn media(self, media: &'static [&'static str]) -> Self {
        Self { media: Some(media), ..self }
    }

    pub(super) const fn shows_secrets(self) -> Self {
        Self { shows_secrets: true, ..self }
    }

    pub(super) const fn errors(self, errors: &'static [(u16, &'static str)]) -> Self {
        Self { errors, ..self }
    }

    fn line(&self) -> (&'static str, &'static str) {
        self.line.split_once(' ').expect("a call has a method and a path")
    }

    fn reads(&self) -> bool {
        self.line.starts_with("GET ")
    }
}

/// What a handler returns.
pub(crate) trait Answer: Send + 'static {
    type Schema: JsonSchema;
    const MEDIA: &'static [&'static str];
    /// True if it is a reply already.
    const IS_MADE: bool = false;

    fn reply(self, cx: &Context) -> Reply;
}

impl<A: Text + JsonSchema + Send + 'static> Answer for A {
    type Schema = A;
    const MEDIA: &'static [&'static str] = &["application/json", "text/plain"];

    fn reply(self, cx: &Context) -> Reply {
        cx.reply(&self)
    }
}

/// A reply that the handler makes itself.
pub(crate) struct Made<S>(Reply, PhantomData<fn(S)>);

impl<S> From<Reply> for Made<S> {
    fn from(reply: Reply) -> Self {
        Self(reply, PhantomData)
    }
}

impl<S: JsonSchema + 'static> Answer for Made<S> {
    type Schema = S;
    const MEDIA: &'static [&'static str] = &["application/json"];
    const IS_MADE: bool = true;

    fn reply(self, _: &Context) -> Reply {
        self.0
    }
}

/// A call whose types end here, so that the path to its handler is compiled once.
pub(super) struct Route {
    pub(super) method: Method,
    /// The path below `/_emulator/`.
    pub(super) path: &'static str,
    pub(super) handler: RouteHandler,
    /// Describes it for the `OpenAPI` document.
    pub(super) describe: fn(&mut Schemas) -> Described,
    pub(super) commands: fn() -> Vec<Command>,
    pub(super) is_open: bool,
    pub(super) max_bytes: Option<usize>,
    pub(super) takes_toml: bool,
    pub(super) media: &'static [&'static str],
    pub(super) shows_secrets: bool,
    pub(super) errors: &'static [(u16, &'static str)],
}

pub(super) enum RouteHandler {
    AtOnce(fn(&Context) -> CallResult<Reply>),
    Waits(fn(Arc<Context>) -> CallFuture<Reply>),
}

impl Route {
    pub(super) fn of<E: Endpoint>() -> Self {
        let Call { is_open, max_bytes, takes_toml, media, shows_secrets, errors, .. } = E::CALL;
        let (method, path) = E::CALL.line();
        Self {
            method: method.parse().expect("calls have methods of HTTP"),
            path,
            handler: match E::CALL.handler {
                Handler::AtOnce(_) => RouteHandler::AtOnce(at_once::<E>),
                Handler::Waits(_) => RouteHandler::Waits(|cx| Box::pin(waits::<E>(cx))),
            },
            describe: describe::<E>,
            commands: E::commands,
            is_open,
            max_bytes,
            takes_toml,
            media: media.unwrap_or(E::Answer::MEDIA),
            shows_secrets,
            errors,
        }
    }

    /// True if it changes anything.
    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The media types of the body; none if it changes nothing.
    pub(super) fn accepted(&self) -> &'static [&'static str] {
        match (self.is_write(), self.takes_toml) {
            (false, _) => &[],
            (true, false) => &["application/json"],
            (true, true) => &["application/json", "application/toml"],
        }
    }

    /// The parts of the path before and after its variable segment, and the segment's name; `None` if it has none.
    pub(super) fn segment(&self) -> Option<(&'static str, &'static str, &'static str)> {
        segment(self.path)
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

fn segment(path: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let (before, rest) = path.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

fn at_once<E: Endpoint>(cx: &Context) -> CallResult<Reply> {
    let Handler::AtOnce(handler) = E::CALL.handler else { unreachable!("its route says so") };
    Ok(handler(read::<E>(cx)?, cx)?.reply(cx))
}

async fn waits<E: Endpoint>(cx: Arc<Context>) -> CallResult<Reply> {
    let Handler::Waits(handler) = E::CALL.handler else { unreachable!("its route says so") };
    let answer = handler(read::<E>(&cx)?, Arc::clone(&cx)).await?;
    if E::Answer::IS_MADE {
        return Ok(answer.reply(&cx));
    }
    // Serializing a large answer is slow.
    let control = Arc::clone(&cx.control);
    Ok(control.run_to_end(move |_| answer.reply(&cx)).await)
}

/// True if a field of the request is in the query.
fn is_in_query<E: Endpoint>(name: &str) -> bool {
    let is_segment = segment(E::CALL.line().1).is_some_and(|(_, segment, _)| segment == name);
    !is_segment && (E::CALL.reads() || E::CALL.query.contains(&name))
}

/// True if a field of the request is in the body, besides `key`, which may be in either.
fn is_in_body<E: Endpoint>(name: &str) -> bool {
    let is_segment = segment(E::CALL.line().1).is_some_and(|(_, segment, _)| segment == name);
    !is_segment && !is_in_query::<E>(name)
}

/// The request of a call. The body of a call that reads is ignored, and that of one whose body is not fields is left to its handler.
fn read<E: Endpoint>(cx: &Context) -> Result<E, ControlError> {
    let (call, known) = (E::CALL, fields::<E>().unwrap_or_default());
    let in_query = || known.iter().filter(|name| is_in_query::<E>(name) && **name != "key");
    let mut texts = Vec::new();
    if !call.is_open {
        for (name, value) in cx.query().filter(|(name, _)| name != "key") {
            if !in_query().any(|known| *known == name) {
                let known: Vec<&str> = ["key"].into_iter().chain(in_query().copied()).collect();
                let (found, known) = (name.escape_debug(), known.join(", "));
                return Err(ControlError::invalid(format!("unknown query parameter `{found}`; known: {known}")));
            }
            // The last value counts.
            texts.retain(|(given, _)| *given != name);
            texts.push((name, value));
        }
        texts.extend(cx.key()?.map(|key| ("key".to_owned(), key)));
    }
    if let Some((_, name, _)) = segment(call.line().1) {
        texts.push((name.to_owned(), cx.segment.clone()));
    }
    let body = if call.reads() || call.body.is_some() { b"" } else { &*cx.body };
    Merged { body, is_in_body: &is_in_body::<E>, texts }.read()
}

/// Generates the schemas of the `OpenAPI` document.
pub(super) struct Schemas {
    pub(super) answers: SchemaGenerator,
    /// Requests: what may be absent in them is always there in an answer.
    requests: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = |contract| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings.inline_subschemas = contract == Contract::Deserialize;
                settings.contract = contract;
            })
        };
        Self {
            answers: settings(Contract::Serialize).into_generator(),
            requests: settings(Contract::Deserialize).into_generator(),
        }
    }
}

/// The request and the answer of a call.
pub(super) struct Described {
    /// What it does, without a full stop.
    pub(super) summary: String,
    pub(super) about: String,
    /// The parameters of the query, besides `key`.
    pub(super) query: Map<String, Value>,
    pub(super) body: Value,
    pub(super) answer: Value,
    pub(super) error: Schema,
}

fn describe<E: Endpoint>(schemas: &mut Schemas) -> Described {
    let plain_value = |schema: Schema| {
        let mut made = schema.to_value();
        plain(&mut made);
        made
    };
    let mut request = plain_value(schemas.requests.subschema_for::<E>());
    let text = request["description"].as_str().unwrap_or_default().to_owned();
    let (summary, about) = text.split_once("\n\n").unwrap_or((&text, ""));
    let about: Vec<String> = about.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    let (mut query, mut body) = (Map::new(), Map::new());
    for (name, mut field) in take_properties(&mut request) {
        let default = field.get("default");
        // A flag of the query is `true` or `false` as text.
        if default.is_some_and(|default| default.is_null() || default.is_boolean() && is_in_query::<E>(&name)) {
            field.as_object_mut().expect("it has keywords").shift_remove("default");
        }
        match name.as_str() {
            name if is_in_body::<E>(name) => drop(body.insert(name.to_owned(), field)),
            name if is_in_query::<E>(name) && name != "key" => drop(query.insert(name.to_owned(), field)),
            _ => {}
        }
    }
    if let Some(required) = request.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_some_and(is_in_body::<E>));
    }
    let fields = request.as_object_mut().expect("a request is an object");
    fields.retain(|keyword, value| keyword != "description" && !value.as_array().is_some_and(Vec::is_empty));
    fields.insert("properties".to_owned(), body.into());
    Described {
        summary: summary.trim_end_matches('.').replace('\n', " "),
        about: about.join("\n\n"),
        query,
        body: E::CALL.body.map_or(request, |body| plain_value(body(&mut schemas.requests))),
        answer: plain_value(schemas.answers.subschema_for::<<E::Answer as Answer>::Schema>()),
        error: schemas.answers.subschema_for::<Error>(),
    }
}

fn take_properties(schema: &mut Value) -> Map<String, Value> {
    schema.get_mut("properties").and_then(Value::as_object_mut).map(std::mem::take).unwrap_or_default()
}

/// What each field of a request is, for the tools: its type and its description.
pub(crate) fn properties<E: Endpoint>() -> Map<String, Value> {
    let mut schema = schema_of::<E>(Contract::Deserialize);
    let property = |(name, field): (String, Value)| {
        let kinds = field["type"].as_array().into_iter().flatten().chain(field.get("type"));
        // A choice is one between texts.
        let kind = kinds.filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("string").to_owned();
        let description = field["description"].as_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let mut property =
            Map::from_iter([("type".to_owned(), kind.into()), ("description".to_owned(), description.into())]);
        property.extend(field.get("items").map(|items| ("items".to_owned(), items.clone())));
        (name, property.into())
    };
    take_properties(&mut schema).into_iter().map(property).collect()
}

/// The fields that a request must have, for the tools.
pub(crate) fn required<E: Endpoint>() -> Vec<String> {
    let schema = schema_of::<E>(Contract::Deserialize);
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A call as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The name and value of the variable segment.
    pub(crate) segment: Option<(&'static str, String)>,
    pub(crate) query: Map<String, Value>,
    pub(crate) body: Map<String, Value>,
}

impl Sent {
    pub(crate) fn of<E: Endpoint>(request: &E) -> Self {
        let fields = serde_json::to_value(request).ok().and_then(|request| request.as_object().cloned());
        Self::of_fields::<E>(fields.unwrap_or_default())
    }

    /// A call with these fields of its request, unchecked; the emulator checks them.
    pub(crate) fn of_fields<E: Endpoint>(fields: Map<String, Value>) -> Self {
        let (method, path) = E::CALL.line();
        let mut segment = segment(path).map(|(_, name, _)| (name, String::new()));
        let (mut query, mut body) = (Map::new(), Map::new());
        // Null means something only in fields that the request does not name.
        let takes_any = super::input::fields::<E>().is_none();
        for (name, value) in fields {
            match &mut segment {
                Some((segment, text)) if *segment == name => value.as_str().unwrap_or_default().clone_into(text),
                _ if value.is_null() && !(takes_any && name != "key") => {}
                _ if name == "key" || is_in_query::<E>(&name) => drop(query.insert(name, value)),
                _ => drop(body.insert(name, value)),
            }
        }
        Self { method, path, segment, query, body }
    }
}

type Define = dyn Fn(clap::Command) -> clap::Command;
type MakeCall = dyn Fn(&ArgMatches) -> Result<Sent, clap::Error>;

/// A command that makes one call.
pub(crate) struct Command {
    /// Its words without the program's name.
    pub(crate) name: &'static str,
    /// Its arguments and its work.
    pub(crate) define: Box<Define>,
    /// The call that was typed.
    pub(crate) sent: Box<MakeCall>,
    /// The events of the stream that `--follow` prints.
    pub(crate) follows: Option<&'static str>,
    pub(crate) examples: &'static [&'static str],
}

impl Command {
    /// The command of a request, with its fields as arguments.
    pub(super) fn of<E: Endpoint + Args>(name: &'static str, examples: &'static [&'static str]) -> Self {
        Self {
            name,
            define: Box::new(|command| E::augment_args(command).long_about(None)),
            sent: Box::new(|matches| Ok(Sent::of(&E::from_arg_matches(matches)?))),
            follows: None,
            examples,
        }
    }

    /// A command with its own arguments.
    pub(super) fn with<A: Args, E: Endpoint>(
        name: &'static str,
        about: &'static str,
        examples: &'static [&'static str],
        request: impl Fn(A) -> E + 'static,
    ) -> Self {
        Self {
            name,
            define: Box::new(move |command| A::augment_args(command).about(about).long_about(None)),
            sent: Box::new(move |matches| Ok(Sent::of(&request(A::from_arg_matches(matches)?)))),
            follows: None,
            examples,
        }
    }

    /// Its own words, where those about the call are not for people who type.
    pub(super) fn about(self, about: &'static str) -> Self {
        let define = self.define;
        Self { define: Box::new(move |command| define(command).about(about)), ..self }
    }

    pub(super) fn follows(self, event: &'static str) -> Self {
        Self { follows: Some(event), ..self }
    }
}
