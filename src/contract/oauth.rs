//! OAuth 2.0 client credentials (RFC 6749 §4.4), announced by the contract, everything beyond the name assumed: what a token
//! request must look like, and its errors.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::{KeyRules, LONGEST_KEY, judge};
use crate::contract::rules::{ContentTypeRule, Validation};
use crate::duration::DurationText;

/// OAuth 2.0 client credentials (contract: announced, endpoints and lifetimes not shown).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Oauth {
    /// How long an access token is valid.
    pub token_lifetime: DurationText,
    /// The form of the token endpoint's errors.
    pub error_shape: OauthErrorShape,
}

/// The form of the token endpoint's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OauthErrorShape {
    /// `{error, error_description}`.
    Rfc6749,
    /// The envelope of every other error.
    Envelope,
}

/// Why no token was issued (RFC 6749 §5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthProblem {
    pub code: &'static str,
    pub text: &'static str,
}

impl OauthProblem {
    const fn client(text: &'static str) -> Self {
        Self { code: "invalid_client", text }
    }

    /// The problem as an error of the API: 401 for the client, 422 for the rest.
    pub fn error(&self) -> Error {
        let is_client = self.code == "invalid_client";
        Error::new(if is_client { ErrorKind::Unauthorized } else { ErrorKind::ValidationError }, self.text)
    }

    /// The status, and the body in the form of the RFC; `None` where the shape is the API's own envelope.
    pub fn body(&self, shape: OauthErrorShape) -> Option<(u16, Value)> {
        let status = if self.code == "invalid_client" { 401 } else { 400 };
        let body = json!({ "error": self.code, "error_description": self.text });
        (shape == OauthErrorShape::Rfc6749).then_some((status, body))
    }
}

/// The key that a token request authenticates with: `client_secret` in the body, or the password of HTTP Basic.
pub fn parse_token_request(
    headers: &HeaderMap,
    body: &[u8],
    validation: &Validation,
    keys: KeyRules<'_>,
) -> Result<String, OauthProblem> {
    let wrong = |text| Err(OauthProblem { code: "invalid_request", text });
    if validation.content_type == ContentTypeRule::Require && !is_form(headers) {
        return wrong("Content-Type: must be application/x-www-form-urlencoded");
    }
    let (mut grant, mut secret) = (None, None);
    for (name, value) in form_urlencoded::parse(body) {
        match &*name {
            "grant_type" if grant.is_some() => return wrong("grant_type: sent twice"),
            "client_secret" if secret.is_some() => return wrong("client_secret: sent twice"),
            "grant_type" => grant = Some(value),
            "client_secret" => secret = Some(value.into_owned()),
            _ => {}
        }
    }
    let key = match (secret, basic_secret(headers)?) {
        (Some(_), Some(_)) => return wrong("client_secret: sent in the body and by HTTP Basic"),
        (None, None) => return Err(OauthProblem::client("client_secret: missing; send an API key")),
        (key, basic) => key.or(basic).unwrap_or_default(),
    };
    match grant.as_deref() {
        None => return wrong("grant_type: is required"),
        Some("client_credentials") => {}
        Some(_) => {
            let text = "grant_type: only client_credentials is supported";
            return Err(OauthProblem { code: "unsupported_grant_type", text });
        }
    }
    let is_text = key.len() <= LONGEST_KEY && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_text || judge(&key, keys).is_err() {
        return Err(OauthProblem::client("client_secret: is not a valid API key"));
    }
    Ok(key)
}

fn is_form(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// The password of HTTP Basic, form-decoded as the RFC requires (§2.3.1).
fn basic_secret(headers: &HeaderMap) -> Result<Option<String>, OauthProblem> {
    fn decoded(value: &HeaderValue) -> Option<String> {
        let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
        let text = STANDARD.decode(text.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let secret = std::str::from_utf8(&text).ok()?.split_once(':')?.1.replace('+', " ");
        Some(percent_decode_str(&secret).decode_utf8().ok()?.into_owned())
    }
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let secret = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => decoded(value),
        _ => None,
    };
    secret.map(Some).ok_or(OauthProblem::client("Authorization: must be one HTTP Basic header"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::section;
    use crate::contract::types::Environment;

    fn read(authorization: Option<&str>, body: &str) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"));
        if let Some(text) = authorization {
            let value = format!("Basic {}", STANDARD.encode(text));
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&value).expect("a header value"));
        }
        let keys = KeyRules { environment: Environment::Sandbox, keys: &section("keys") };
        parse_token_request(&headers, body.as_bytes(), &section("validation"), keys).map_err(|problem| problem.code)
    }

    #[test]
    fn clients_show_a_key_once_and_ask_for_the_one_grant() {
        let key = Ok("sk_test_a".to_owned());
        assert_eq!(read(None, "grant_type=client_credentials&client_id=x&client_secret=sk_test_a"), key);
        assert_eq!(read(Some("x:sk%5Ftest_a"), "grant_type=client_credentials"), key);
        for (basic, body, code) in [
            (Some("x:sk_test_a"), "grant_type=client_credentials&client_secret=sk_test_a", "invalid_request"),
            (None, "client_secret=sk_test_a", "invalid_request"),
            (None, "grant_type=client_credentials&grant_type=x&client_secret=sk_test_a", "invalid_request"),
            (None, "grant_type=password&client_secret=sk_test_a", "unsupported_grant_type"),
            (None, "grant_type=client_credentials", "invalid_client"),
            (None, "grant_type=client_credentials&client_secret=sk_live_a", "invalid_client"),
            (Some("no colon"), "grant_type=client_credentials", "invalid_client"),
        ] {
            assert_eq!(read(basic, body), Err(code), "{basic:?} {body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(body in ".{0,80}", basic in ".{0,40}") {
            let _ = read(Some(&basic), &body);
        }
    }
}
