//! Validation for each operation, as pure functions: query parameters and bodies in, a checked request or every problem out.

use std::borrow::Cow;

use hyper::header::{CONTENT_TYPE, HeaderMap};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::{Host, Url, form_urlencoded};

use crate::advice::Advice;
use crate::contract::error::{Error, FieldProblem};
use crate::contract::nearest;
use crate::contract::setting::settings;
use crate::contract::signature::{KeyReading, Scheme, SigningKey};
use crate::contract::types::{Events, SubscribeRequest};
use crate::util::wording::shorten;

settings! {
    /// How strictly requests are read.
    pub struct Validation {
        /// Unknown body fields and query parameters.
        pub unknown: Unknown = "ignore" {
            contract: "not shown",
            assumed: "unknown body fields and query parameters are ignored",
            observed_by: "an unknown query parameter; and an unknown field, if the 422 of no events names each reason",
        },
        /// True if `include_checks` also accepts 1, 0, yes, no, on and off, in any letter case.
        pub lenient_booleans: bool = false {
            contract: "include_checks is a boolean",
            assumed: "exactly true or false",
            observed_by: "include_checks=1",
        },
        /// True if a POST must declare JSON.
        pub content_type: ContentTypeRule = "require" {
            contract: "Content-Type of the request is application/json",
            assumed: "anything else is a 422; a body with a Content-Encoding such as gzip is a 415",
            observed_by: "the subscription as text/plain, then as JSON",
        },
    }
}

/// The handling of unknown body fields and query parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// They are ignored.
    Ignore,
    /// They lead to a 422.
    Reject,
}

/// True if a POST's `Content-Type` matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentTypeRule {
    /// It must be `application/json`.
    Require,
    /// It is ignored.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    /// When true, the response includes dependency health details.
    pub include_checks: bool,
}

/// The problems of a request, collected while its parts are read.
#[derive(Default)]
pub(super) struct Problems(Vec<FieldProblem>);

impl Problems {
    fn push(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.0.push(FieldProblem::new(field, reason));
    }

    /// The value, or none; then the reason becomes a problem of the field.
    pub(super) fn take<T>(&mut self, field: &str, value: Result<T, impl Into<String>>) -> Option<T> {
        value.map_err(|reason| self.push(field, reason)).ok()
    }

    /// Refuses names that are not known, if the settings say so.
    pub(super) fn check_names<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
        known: &[&str],
        validation: &Validation,
        reason: &str,
    ) {
        if validation.unknown == Unknown::Reject {
            for name in names.filter(|name| !known.contains(name)) {
                self.push(shortened(name), reason);
            }
        }
    }

    pub(super) fn finish<T>(self, checked: Option<T>) -> Result<T, Error> {
        match checked {
            Some(checked) if self.0.is_empty() => Ok(checked),
            _ => Err(Error::validation(self.0)),
        }
    }
}

/// The parameters of a query; names and values are percent-decoded.
pub(super) struct QueryParameters<'q> {
    values: Vec<(Cow<'q, str>, Cow<'q, str>)>,
    problems: Problems,
}

impl<'q> QueryParameters<'q> {
    pub(super) fn read(query: Option<&'q str>) -> Self {
        let values = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
        Self { values, problems: Problems::default() }
    }

    /// The last of several values wins.
    pub(super) fn take<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let (_, text) = self.values.iter().rev().find(|(known, _)| known == name)?;
        self.problems.take(name, read(text))
    }

    pub(super) fn finish<T>(mut self, known: &[&str], validation: &Validation, checked: T) -> Result<T, Error> {
        let names = self.values.iter().map(|(name, _)| &**name);
        self.problems.check_names(names, known, validation, "is not a known query parameter");
        self.problems.finish(Some(checked))
    }
}

pub fn parse_status_query(query: Option<&str>, validation: &Validation) -> Result<StatusQuery, Error> {
    let mut query = QueryParameters::read(query);
    let include_checks = query.take("include_checks", |text| {
        parse_boolean(text, validation.lenient_booleans)
            .ok_or_else(|| format!("must be true or false, found {}", quoted(text)))
    });
    let checked = StatusQuery { include_checks: include_checks.unwrap_or(false) };
    query.finish(&["include_checks"], validation, checked)
}

fn parse_boolean(text: &str, lenient: bool) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ if !lenient => None,
        _ => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        },
    }
}

pub fn check_content_type(headers: &HeaderMap, validation: &Validation) -> Result<(), Error> {
    if validation.content_type == ContentTypeRule::Ignore {
        return Ok(());
    }
    let reason = match headers.get_all(CONTENT_TYPE).iter().count() {
        0 => "must be application/json; the header is missing",
        1 if is_media_type(headers, "application/json") => return Ok(()),
        1 => "must be application/json",
        _ => "must be sent once",
    };
    Err(Error::validation(vec![FieldProblem::new("Content-Type", reason)]))
}

/// True if the one `Content-Type` header names this type, with any parameters.
pub(super) fn is_media_type(headers: &HeaderMap, media_type: &str) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes())
}

#[derive(Clone, Debug)]
pub struct SubscribeRules<'p> {
    pub validation: &'p Validation,
    pub malformed_json_status: u16,
    pub events: &'p Events,
    pub allow_http: bool,
    pub schemes: Vec<Scheme>,
    pub secret_key: KeyReading,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSubscribe {
    pub request: SubscribeRequest,
    /// The URL in the form used for comparison and dialling.
    pub url: Url,
}

const SUBSCRIBE_FIELDS: [&str; 4] = ["url", "events", "secret", "description"];

pub fn parse_subscribe(body: &[u8], rules: &SubscribeRules<'_>) -> Result<CheckedSubscribe, Error> {
    check_subscribe(&parse_object(body, rules.malformed_json_status)?, rules)
}

pub fn check_subscribe(fields: &Map<String, Value>, rules: &SubscribeRules<'_>) -> Result<CheckedSubscribe, Error> {
    let mut problems = Problems::default();
    let url = url_field(fields, rules.allow_http).map_err(|problem| problems.0.push(problem)).ok();
    let events = events_field(fields, rules.events, &mut problems);
    let secret = problems.take("secret", secret_field(fields, rules)).flatten();
    let description = problems.take("description", text_field(fields, "description")).flatten();
    let names = fields.keys().map(String::as_str);
    problems.check_names(names, &SUBSCRIBE_FIELDS, rules.validation, "is not a known field");
    problems.finish(url.map(|(text, url)| {
        let request = SubscribeRequest { url: text, events, secret, description };
        CheckedSubscribe { request, url }
    }))
}

/// The problem that the field `name` is missing; an unknown field with a similar name is most likely meant to be it.
fn required(name: &str, fields: &Map<String, Value>) -> String {
    let unknown = fields.keys().map(String::as_str).filter(|field| !SUBSCRIBE_FIELDS.contains(field));
    // A body may hold tens of thousands of fields, and some as long as the body.
    let near = nearest(name, unknown.take(100).filter(|field| field.len() <= 64));
    near.map_or_else(
        || "is required".to_owned(),
        |field| format!("is required; there is a field `{}`, did you mean `{name}`?", shortened(field)),
    )
}

/// The JSON object that a body holds. The last of duplicate keys wins.
pub(super) fn parse_object(body: &[u8], malformed_status: u16) -> Result<Map<String, Value>, Error> {
    let malformed = |reason: String| Error {
        status: malformed_status,
        ..Error::validation(vec![FieldProblem::new("body", reason)])
    };
    if body.trim_ascii().is_empty() {
        return Err(malformed("is empty; expected a JSON object".to_owned()));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => {
            let reason = format!("must be a JSON object, found {}", json_type(&other));
            Err(Error::validation(vec![FieldProblem::new("body", reason)]))
        }
        Err(error) => Err(malformed(format!("is not valid JSON: {error}"))),
    }
}

fn url_field(fields: &Map<String, Value>, allow_http: bool) -> Result<(String, Url), FieldProblem> {
    let text = match fields.get("url") {
        None => Err(required("url", fields)),
        Some(Value::Null) => Err("is required".to_owned()),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("must be a string, found {}", json_type(other))),
    };
    let text = text.map_err(|reason| FieldProblem::new("url", reason))?;
    let url = check_webhook_url(text, allow_http).map_err(|reason| {
        let is_allowed_by_setting = check_webhook_url(text, true).is_ok();
        let advice = is_allowed_by_setting.then(|| Box::new(Advice::set("webhooks.allow_http", "true")));
        FieldProblem { advice, ..FieldProblem::new("url", reason) }
    })?;
    Ok((text.clone(), url))
}

fn events_field(fields: &Map<String, Value>, known: &Events, problems: &mut Problems) -> Vec<String> {
    let entries = match fields.get("events") {
        None => Err(required("events", fields)),
        Some(Value::Null) => Err("is required".to_owned()),
        Some(Value::Array(entries)) if entries.is_empty() => Err("must not be empty".to_owned()),
        Some(Value::Array(entries)) => Ok(entries),
        Some(other) => Err(format!("must be a list of strings, found {}", json_type(other))),
    };
    let (mut events, mut wrong) = (Vec::<String>::new(), 0);
    for (at, entry) in problems.take("events", entries).into_iter().flatten().enumerate() {
        // A body may hold tens of thousands of wrong entries; ten show the point.
        if wrong == 10 {
            problems.push("events", "further entries were not checked");
            break;
        }
        let reason = match entry.as_str() {
            Some(event) if events.iter().any(|known| known == event) => continue,
            Some(event) if known.types().any(|known| known == event) => {
                events.push(event.to_owned());
                continue;
            }
            Some(event) => unsupported(event, known),
            None => format!("must be a string, found {}", json_type(entry)),
        };
        problems.push(format!("events[{at}]"), reason);
        wrong += 1;
    }
    events
}

/// Why an event type is refused, with the one that was most likely meant and all that are supported.
pub fn unsupported(event_type: &str, events: &Events) -> String {
    let supported: Vec<&str> = events.types().collect();
    let near = nearest(event_type, events.types());
    let meant = near.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    format!("unsupported event type {}; {meant}supported: {}", quoted(event_type), supported.join(", "))
}

fn secret_field(fields: &Map<String, Value>, rules: &SubscribeRules<'_>) -> Result<Option<String>, String> {
    let Some(secret) = text_field(fields, "secret")? else { return Ok(None) };
    if secret.is_empty() {
        return Err("must not be empty; leave it out to have one generated".to_owned());
    }
    for scheme in &rules.schemes {
        SigningKey::read(&secret, scheme, rules.secret_key).map_err(|problem| problem.to_string())?;
    }
    Ok(Some(secret))
}

/// Longest URL accepted, in characters.
pub const MAX_URL: usize = 2048;

/// Checks a subscription's URL; the reasons are written for the message of a 422. `allow_http` is the setting of that name.
///
/// The answer is the WHATWG-normalised form: host in lower case and IDNA, default port dropped. It is used for
/// comparison and dialling; a client gets its own spelling back.
pub fn check_webhook_url(text: &str, allow_http: bool) -> Result<Url, &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.chars().count() > MAX_URL {
        return Err("must be at most 2048 characters long");
    }
    // The WHATWG parser drops or rewrites these; a receiver would never see what the client wrote.
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '\\' | '\u{feff}')) {
        return Err("must not contain spaces, control characters or backslashes");
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("https") => {}
        Some("http") if allow_http => {}
        Some("http") => {
            return Err(
                "must use https (the emulator accepts plain http if `webhooks.allow_http` is true, and `webhooks.forwards` leads an https URL to any address)",
            );
        }
        _ => return Err("must be an absolute https URL"),
    }
    let authority =
        text.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if authority.is_empty() {
        return Err("must name a host");
    }
    if authority.contains('@') {
        return Err("must not contain user information");
    }
    if text.contains('#') {
        return Err("must not contain a fragment");
    }
    let url = Url::parse(text).map_err(|_| "is not a valid URL")?;
    match url.host() {
        Some(Host::Domain(domain)) if domain.trim_matches('.').is_empty() => return Err("must name a host"),
        // The WHATWG parser accepts a few characters that no resolver does.
        Some(Host::Domain(domain)) if !domain.bytes().all(is_host_byte) => {
            return Err("must name a host of letters, digits, hyphens and dots");
        }
        Some(_) => {}
        None => return Err("must name a host"),
    }
    if url.port() == Some(0) {
        return Err("must not use port 0");
    }
    Ok(url)
}

/// The URLs that [`check_webhook_url`] accepts, as JSON Schema. A pattern cannot tell which international names are hosts, and this one knows no
/// percent-encoded addresses. It looks nowhere ahead, as some languages cannot.
pub fn url_schema(allow_http: bool) -> Value {
    let scheme = if allow_http { "[Hh][Tt][Tt][Pp][Ss]?" } else { "[Hh][Tt][Tt][Pp][Ss]" };
    let host = format!(r"({}|{}\.?|\[({})\])", name_pattern(), ipv4_pattern(), ipv6_pattern());
    let port = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    let rest = r"[^\x00-\x20#\\\x7f-\x9f\s]*";
    json!({
        "description": "HTTPS endpoint that receives signed webhook POSTs.",
        "type": "string",
        "pattern": format!(r"^{scheme}://{host}(:({port})?)?([/?]{rest})?$"),
        "maxLength": MAX_URL,
        "examples": ["https://app.example.com/hooks"],
    })
}

/// Host names of letters, digits, `-`, `_` and characters beyond ASCII, plain or percent-encoded. The last label must not be a number,
/// decimal or hexadecimal.
fn name_pattern() -> String {
    // ASCII but for digits, letters, `-` and `_`; and spaces. The letters of numbers are left out where a label would be one.
    let letter = |left_out: &str, escapes: &str| {
        format!(r"[^\x00-,./0-9:-@\[-^`{{-\x9f\s{left_out}]|%(2[Dd]|{escapes}|[89A-Fa-f][0-9A-Fa-f])")
    };
    let any = letter("", "4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa]");
    let not_x = letter("Xx", "4[1-9A-Fa-f]|5[0-79AaFf]|6[1-9A-Fa-f]|7[0-79Aa]");
    let not_hex = letter("A-Fa-f", "4[7-9A-Fa-f]|5[0-9AaFf]|6[7-9A-Fa-f]|7[0-9Aa]");
    let (zero, digit, x, hex) = ("(0|%30)", "([0-9]|%3[0-9])", "([Xx]|%[57]8)", "([0-9A-Fa-f]|%3[0-9]|%[46][1-6])");
    let dot = r"(\.|%2[Ee])";
    let begin =
        format!("({any})|([1-9]|%3[1-9]){digit}*({any})|{zero}({digit}+({any})|({not_x})|{x}{hex}*({not_hex}))");
    format!("(({any}|{digit}|{dot})*{dot})?({begin})({any}|{digit})*{dot}?")
}

/// An IPv4 address as a URL may write it, in decimal, octal or hexadecimal numbers: the last of fewer than four stands for the rest.
fn ipv4_pattern() -> String {
    let number = |octal: &str, hex: u32, most: u32| {
        format!("(0+{octal}|0[Xx]0*[0-9A-Fa-f]{{0,{hex}}}|{})", decimals_up_to(most))
    };
    let one = number("([0-3]?[0-7]{1,2})?", 2, 0xff);
    let two = number("(1?[0-7]{1,5})?", 4, 0xffff);
    let three = number("[0-7]{0,8}", 6, 0xff_ffff);
    let four = number("([0-3]?[0-7]{1,10})?", 8, u32::MAX);
    format!(r"(({one}\.){{3}}{one}|({one}\.){{2}}{two}|{one}\.{three}|{four})")
}

/// The numbers from one to this one, without leading zeros.
fn decimals_up_to(most: u32) -> String {
    let most = most.to_string();
    let mut forms = vec![most.clone()];
    for (at, digit) in most.bytes().enumerate() {
        let (least, rest) = (if at == 0 { b'1' } else { b'0' }, most.len() - at - 1);
        if digit > least {
            let (least, below) = (char::from(least), char::from(digit - 1));
            forms.push(format!("{}[{least}-{below}][0-9]{{{rest}}}", &most[..at]));
        }
    }
    forms.push(format!("[1-9][0-9]{{0,{}}}", most.len() - 2));
    format!("({})", forms.join("|"))
}

fn ipv6_pattern() -> String {
    let (group, octet) = ("[0-9A-Fa-f]{1,4}", "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])");
    let ipv4 = format!(r"{octet}(\.{octet}){{3}}");
    let mut forms = vec![format!("({group}:){{7}}{group}"), format!("({group}:){{6}}{ipv4}")];
    // With `::` after so many groups.
    for before in 0..=7 {
        let first = if before == 0 { ":".to_owned() } else { format!("({group}:){{{before}}}") };
        forms.push(match 7 - before {
            0 => format!("{first}:"),
            after => format!("{first}(:|(:{group}){{1,{after}}})"),
        });
        if before <= 5 {
            forms.push(format!("{first}:({group}:){{0,{}}}{ipv4}", 5 - before));
        }
    }
    forms.join("|")
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// An optional text field; null means absent.
fn text_field(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("must be a string, found {}", json_type(other))),
    }
}

/// The JSON type of a value with its article, as error messages use it.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A client's text in quotes, control bytes escaped, cut where it is long.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", shortened(text))
}

pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 64;
    shorten(text, SHOWN).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_and_validation_agree_about_hosts() {
        let labels = [
            "0", "1", "9", "08", "0377", "0400", "00377", "255", "256", "65535", "65536", "0x", "0xff", "0X1fF",
            "0x00ff", "0xffff", "0x10000", "a", "x", "1x", "0x1g", "00x1", "0a", "a0x1", "-0x1",
        ];
        let long = [
            "16777215",
            "16777216",
            "0xffffff",
            "0x1000000",
            "077777777",
            "0100000000",
            "4294967295",
            "4294967296",
            "0xffffffff",
            "0x100000000",
            "037777777777",
            "040000000000",
            "4199999999",
            "0%78f",
            "0%78g",
            "%610x1",
            "1.0x",
            "1.2.3.4.5",
            "a.1.2.3.4",
        ];
        let mut hosts: Vec<String> = labels.iter().chain(&long).map(|host| (*host).to_owned()).collect();
        for first in labels {
            hosts.extend(labels.iter().chain(&long).map(|last| format!("{first}.{last}")));
            for second in labels {
                hosts.extend(labels.iter().map(|last| format!("{first}.{second}.{last}")));
                hosts.push(format!("1.0xff.{first}.{second}"));
            }
        }
        let schema = jsonschema::validator_for(&url_schema(false)).expect("it is one");
        let (mut accepted, mut wrong) = (0, Vec::new());
        for host in &hosts {
            for url in [format!("https://{host}/hooks"), format!("https://{host}.")] {
                let is_host = check_webhook_url(&url, false).is_ok();
                accepted += usize::from(is_host);
                // Percent-encoded addresses are the documented difference.
                if schema.is_valid(&json!(url)) != is_host && !url.contains("0%78f") {
                    wrong.push(url);
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), hosts.len(), &wrong[..wrong.len().min(20)]);
        assert!(accepted > hosts.len() / 2 && accepted < 2 * hosts.len(), "{accepted} of {}", 2 * hosts.len());
    }

    #[test]
    fn urls_are_normalised_or_refused_with_a_reason() {
        let longest = format!("https://a.example/{}", "x".repeat(MAX_URL - 18));
        let schema = jsonschema::options().should_validate_formats(true).build(&url_schema(false)).expect("it is one");
        for (text, expected) in [
            ("https://example.com", Ok("https://example.com/")),
            ("HTTPS://EXAMPLE.com:443/Hooks?a=1", Ok("https://example.com/Hooks?a=1")),
            ("https://bücher.example/ü", Ok("https://xn--bcher-kva.example/%C3%BC")),
            ("https://[::1]:8443/x", Ok("https://[::1]:8443/x")),
            ("https://127.1/", Ok("https://127.0.0.1/")),
            ("https://a.b/%20", Ok("https://a.b/%20")),
            ("https://my-app.eu_1.example.com:00443", Ok("https://my-app.eu_1.example.com/")),
            ("https://192.0.2.7:65535?q={a}|[b]&%zz", Ok("https://192.0.2.7:65535/?q={a}|[b]&%zz")),
            ("https://a.example:/x", Ok("https://a.example/x")),
            ("https://exa%6Dple.com/", Ok("https://example.com/")),
            ("https://a.example/\u{feff}", Err("spaces")),
            (&longest, Ok(&*longest)),
            (&format!("{longest}x"), Err("2048")),
            ("", Err("empty")),
            ("ftp://example.com", Err("https")),
            ("example.com/x", Err("https")),
            ("https:example.com", Err("https")),
            ("https:///example.com", Err("host")),
            ("https://", Err("host")),
            ("https://.", Err("host")),
            ("https://..", Err("host")),
            ("https://%2e/", Err("host")),
            ("https://a.example./", Ok("https://a.example./")),
            ("https://256.1.1.1/", Err("valid")),
            ("https://1.2.3.4.5/", Err("valid")),
            ("https://a.1/", Err("valid")),
            ("https://1.example/", Ok("https://1.example/")),
            ("https://[:::]/", Err("valid")),
            ("https://[1]/", Err("valid")),
            ("https://[1:2:3:4:5:6:7]/", Err("valid")),
            ("https://[1:2:3:4:5:6:7:8]/", Ok("https://[1:2:3:4:5:6:7:8]/")),
            ("https://[1::8]/", Ok("https://[1::8]/")),
            ("https://[::]/", Ok("https://[::]/")),
            ("https://[::ffff:127.0.0.1]/", Ok("https://[::ffff:7f00:1]/")),
            ("https://[::ffff:256.0.0.1]/", Err("valid")),
            ("https://?x", Err("host")),
            ("https://user@example.com", Err("user information")),
            ("https://@example.com", Err("user information")),
            ("https://example.com/#", Err("fragment")),
            (" https://example.com/", Err("spaces")),
            ("https://exa\tmple.com/", Err("spaces")),
            ("https://example.com\\x", Err("backslashes")),
            ("https://example.com:0/", Err("port 0")),
            ("https://example.com:65536/", Err("valid")),
            ("https://example.com:x/", Err("valid")),
            ("https://[::1/", Err("valid")),
            ("https://exa%00mple.com/", Err("valid")),
            ("https://a.a*", Err("letters")),
            ("https://a!b.example/", Err("letters")),
        ] {
            assert_eq!(schema.is_valid(&text.into()), expected.is_ok(), "the schema and {text}");
            match (check_webhook_url(text, false), expected) {
                (Ok(url), Ok(normal)) => assert_eq!(url.as_str(), normal, "{text}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{text}: {reason}"),
                (found, _) => panic!("{text}: expected {expected:?}, found {found:?}"),
            }
        }
    }
}
