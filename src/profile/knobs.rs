//! Every setting by its path: what the contract says about it, what is assumed, and what else may be set. One table.

/// One thing the contract leaves open and the value the emulator gives it.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Path in the profile, such as `rate_limit.window`.
    pub path: &'static str,
    /// What the contract says; "not shown" where it says nothing.
    pub contract: &'static str,
    /// What the emulator assumes, in words.
    pub assumed: &'static str,
    /// What may be set, as it is typed in TOML; empty where the type shows it (`schema`).
    pub(super) values: &'static str,
    /// Whether a table given for this knob is merged entry by entry (otherwise it replaces the value whole).
    pub merges: bool,
}

const fn knob(path: &'static str, contract: &'static str, assumed: &'static str, values: &'static str) -> Knob {
    Knob { path, contract, assumed, values, merges: false }
}

/// A knob whose type shows what may be set.
const fn typed(path: &'static str, contract: &'static str, assumed: &'static str) -> Knob {
    knob(path, contract, assumed, "")
}

const fn map(path: &'static str, contract: &'static str, assumed: &'static str, values: &'static str) -> Knob {
    Knob { path, contract, assumed, values, merges: true }
}

/// Every knob, in the order of the profile.
pub const KNOBS: &[Knob] = &[
    typed(
        "environment",
        "sandbox and production exist; sandbox is used during integration",
        "the sandbox: test keys are valid, live keys are a 401",
    ),
    typed(
        "keys.mode",
        "keys are issued on request; what makes one valid is not shown",
        "any key with the environment's prefix and at least one of A-Z a-z 0-9 _ - after it is valid",
    ),
    knob(
        "keys.test_prefix",
        "test keys have a fixed prefix; the string is not given",
        "sk_test_",
        "a string such as \"sk_test_\"",
    ),
    knob(
        "keys.live_prefix",
        "live keys have a fixed prefix; the string is not given",
        "sk_live_",
        "a string such as \"sk_live_\"",
    ),
    knob(
        "keys.list",
        "not shown",
        "no list: the prefix decides",
        "a list of keys such as [\"sk_test_a\", \"sk_test_b\"], read when keys.mode = \"list\"",
    ),
    map(
        "keys.workspaces",
        "which keys see the same resources is not shown",
        "each key has a workspace of its own",
        "workspace name = list of keys, such as team = [\"sk_test_a\", \"sk_test_b\"]",
    ),
    typed(
        "errors.details",
        "the shape may gain fields before public launch",
        "reasons are in `message` only, each naming its field",
    ),
    typed("errors.malformed_json_status", "422 for validation; a body that is not JSON is not shown", "422"),
    map(
        "errors.codes",
        "unauthorized accompanies 401; other codes are not shown",
        "validation_error, rate_limit_exceeded, not_found, method_not_allowed and others named after their status",
        "kind of error = code, such as not_found = \"missing\"",
    ),
    map(
        "errors.messages",
        "message is text for people; its wording is not shown",
        "what is wrong with the request, in words",
        "kind of error = text, such as not_found = \"no such thing\"",
    ),
    map(
        "errors.extra",
        "the shape may gain fields before public launch",
        "exactly code, message and request_id",
        "field = any value, such as docs = \"https://docs.example.com\"",
    ),
    typed("validation.unknown", "not shown", "unknown body fields and query parameters are ignored"),
    typed("validation.lenient_booleans", "include_checks is a boolean", "exactly true or false"),
    typed(
        "validation.content_type",
        "Content-Type of the request is application/json",
        "anything else is a 422; a body with a Content-Encoding such as gzip is a 415",
    ),
    knob(
        "status.checks",
        "include_checks=true adds dependency health details; their shape is not shown",
        "`checks`: name to {status, latency_ms}",
        "name = any object, such as database = { status = \"ok\" }",
    ),
    typed("rate_limit.enabled", "sandbox traffic is throttled per key", "it is"),
    knob(
        "rate_limit.requests",
        "exact quotas are not shown",
        "100 requests",
        "an integer from 0 to 4294967295, such as 100",
    ),
    typed("rate_limit.window", "windows are not shown", "60 seconds"),
    typed("rate_limit.algorithm", "not shown", "a fixed window opened by the first request"),
    typed("rate_limit.count", "not shown", "a 422 counts, a 429 does not"),
    map(
        "rate_limit.header_names",
        "X-RateLimit-Limit and X-RateLimit-Remaining; units are not shown",
        "those two, as whole requests",
        "limit and remaining = a field name, such as limit = \"RateLimit-Limit\"",
    ),
    typed("rate_limit.retry_after", "a 429 is retryable; no Retry-After is mentioned", "not sent"),
    typed("rate_limit.reset", "not mentioned", "not sent"),
    typed("rate_limit.ietf", "not mentioned", "not sent"),
    typed(
        "ids.style",
        "forms sub_<id>, evt_<id>, req_<id>, wf_<id>; the part after the prefix is not shown",
        "a lower-case ULID",
    ),
    knob(
        "ids.request_header",
        "request_id is in errors; no header for it is mentioned",
        "not sent",
        "a field name such as \"X-Request-Id\", or \"\"",
    ),
    typed("time.precision", "ISO 8601 UTC; the fraction is not shown", "milliseconds and Z"),
    typed(
        "variation.unknown_fields",
        "the error shape may gain fields; compatibility guarantees are not shown",
        "objects have only the fields that the contract or another setting names",
    ),
    typed("variation.key_order", "not shown", "as in the contract's tables"),
    typed("variation.bodies", "not shown", "where variation.unknown_fields and variation.key_order apply: everywhere"),
    typed(
        "subscriptions.upsert",
        "200: subscription created or updated; which applies when is not shown",
        "the same URL in the same workspace updates: id and created_at stay",
    ),
    knob(
        "subscriptions.secret_field",
        "a generated secret is returned once; the field's name is not shown",
        "secret",
        "a field name such as \"signing_secret\"",
    ),
    typed("subscriptions.echo_secret", "not shown", "a supplied secret is never sent back"),
    knob(
        "events.extra",
        "values shown: workflow.completed, reference.matched; the full list is not shown",
        "those two",
        "a list of event types such as [\"workflow.failed\"]",
    ),
    map(
        "events.data",
        "workflow.completed: workflow_id, status; reference.matched: payload not shown",
        "reference.matched carries reference_id and workflow_id",
        "event type = an object, such as \"workflow.failed\" = { workflow_id = \"{{ ulid() }}\" }; strings may use {{ ulid() }}, {{ uuid() }}, {{ now }}",
    ),
    typed("webhooks.allow_http", "the URL must be HTTPS", "http is a 422"),
    knob(
        "webhooks.scheme",
        "the body is signed; header and algorithm are not shown",
        "Standard Webhooks v1: webhook-id, webhook-timestamp, webhook-signature",
        "one of standard, svix, stripe, github, slack, shopify and custom, such as \"github\", or a list of them: [\"standard\", \"github\"]",
    ),
    typed(
        "webhooks.secret_key",
        "signed with the subscription secret; how its text becomes key bytes is not shown",
        "as the scheme's own libraries read it",
    ),
    typed("webhooks.timestamp", "not shown", "the emulator's clock while it is frozen, real time otherwise"),
    typed("webhooks.timeout", "delivery timeouts are not shown", "15 seconds for a whole attempt"),
    typed("webhooks.connect_timeout", "delivery timeouts are not shown", "5 seconds"),
    typed("webhooks.order", "not shown", "first attempts in the order of events; retries delay no other event"),
    knob("webhooks.copies", "not shown", "each event is delivered once", "an integer from 1 to 100, such as 2"),
    typed("webhooks.scatter", "not shown", "first attempts do not wait, so events arrive in their order"),
    typed("webhooks.swap", "not shown", "no event waits for the one after it"),
    typed("webhooks.disable_on_gone", "not shown", "410 disables the subscription"),
    typed("webhooks.honor_retry_after", "not shown", "honoured, but clamped to between one and two retry steps"),
    typed(
        "webhooks.rotation_grace",
        "the operation for rotating a secret is not shown",
        "the old secret signs beside the new one for 24 hours",
    ),
    typed("webhooks.retry.preset", "the retry policy is not shown", "attempts at 0, 1, 5 and 30 seconds"),
    knob(
        "webhooks.retry.schedule",
        "the retry policy is not shown",
        "unused until the preset is custom",
        "a list of durations such as [\"1s\", \"30s\"], each after the failed attempt before it",
    ),
    knob("webhooks.retry.jitter", "not shown", "none", "a fraction from 0 to 1, such as 0.2"),
    map(
        "webhooks.forwards",
        "events are posted to the registered URL",
        "to that URL, unless --forward or this setting leads elsewhere",
        "URL subscribed = URL dialled, such as \"https://app.example.com\" = \"http://localhost:3000\"",
    ),
    map(
        "webhooks.custom",
        "not shown",
        "unused until the scheme is custom",
        "id_header, timestamp_header, signature_header, content, hash, encoding, prefix, key; such as hash = \"sha512\"",
    ),
    knob(
        "hello.body",
        "label 1.3.2; the body is not shown",
        "a message and the version label",
        "any object such as { message = \"hello\" }",
    ),
    typed(
        "preview.enabled",
        "workflows, users and OAuth are announced; methods and payloads are not shown",
        "not served: 404; with --preview in assumed shapes",
    ),
    knob(
        "preview.page_size",
        "a resource list is announced; paging is not shown",
        "20 entries",
        "an integer from 1 to 4294967295, such as 20",
    ),
    knob(
        "preview.page_limit",
        "a resource list is announced; paging is not shown",
        "at most 100",
        "an integer from 1 to 4294967295, such as 20",
    ),
    typed(
        "preview.run_time",
        "workflow.completed exists; when a workflow completes is not shown",
        "5 seconds after it was created",
    ),
    typed(
        "oauth.token_lifetime",
        "OAuth 2.0 client credentials are announced; token lifetimes are not shown",
        "1 hour",
    ),
    typed(
        "oauth.error_shape",
        "OAuth 2.0 client credentials are announced; their endpoints are not shown",
        "errors of the token endpoint follow RFC 6749",
    ),
];
