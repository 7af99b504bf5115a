//! One row and more for every setting.

use super::Probe;

/// Setting, its value, the call that shows it, and a text that is present only when it is set.
pub(super) const ROWS: &[(&str, &[&str], Probe, &str)] = &[
    ("environment", &["environment=production"], Probe::Keys(&["sk_live_a"]), "\"environment\":\"production\""),
    ("keys.mode", &["keys.mode=any"], Probe::Keys(&["whatever"]), "200"),
    ("keys.test_prefix", &["keys.test_prefix=tk_"], Probe::Keys(&["tk_a"]), "200"),
    ("keys.live_prefix", &["keys.live_prefix=lk_"], Probe::Keys(&["lk_a"]), "is a live key"),
    ("keys.list", &["keys.mode=list", "keys.list=[\"the one\", \"only\"]"], Probe::Keys(&["only"]), "200"),
    (
        "errors.details",
        &["errors.details=list"],
        Probe::Status("include_checks=x"),
        "\"details\":[{\"field\":\"include_checks\"",
    ),
    ("errors.malformed_json_status", &["errors.malformed_json_status=400"], Probe::Malformed, "400"),
    ("errors.codes", &["errors.codes.not_found=missing"], Probe::Nowhere, "\"code\":\"missing\""),
    ("errors.extra", &["errors.extra.docs=\"see the docs\""], Probe::Nowhere, "\"docs\":\"see the docs\""),
    (
        "validation.unknown",
        &["validation.unknown=reject"],
        Probe::Status("nonsense=1"),
        "nonsense: is not a known query parameter",
    ),
    (
        "validation.lenient_booleans",
        &["validation.lenient_booleans=true"],
        Probe::Status("include_checks=Yes"),
        "\"checks\"",
    ),
    ("validation.content_type", &["validation.content_type=ignore"], Probe::PlainText, "200"),
    (
        "status.checks",
        &["status.checks.database.status=fail"],
        Probe::Status("include_checks=true"),
        "\"status\":\"fail\"",
    ),
    ("rate_limit.enabled", &["rate_limit.requests=1", "rate_limit.enabled=false"], Probe::Last(3), "200"),
    ("rate_limit.requests", &["rate_limit.requests=2"], Probe::Last(3), "429"),
    (
        "rate_limit.burst",
        &["rate_limit.requests=60", "rate_limit.algorithm=token_bucket", "rate_limit.burst=2"],
        Probe::Times(&[0, 0, 0, 1]),
        "200 200 429 200",
    ),
    ("rate_limit.window", &["rate_limit.requests=1", "rate_limit.window=5s"], Probe::Times(&[0, 4, 5]), "200 429 200"),
    (
        "rate_limit.algorithm",
        &["rate_limit.requests=2", "rate_limit.window=10s", "rate_limit.algorithm=token_bucket"],
        Probe::Times(&[0, 0, 5, 5]),
        "200 200 200 429",
    ),
    (
        "rate_limit.count",
        &["rate_limit.requests=1", "rate_limit.count=successful"],
        Probe::WrongThenRight,
        "422 200 429",
    ),
    ("rate_limit.header_names", &["rate_limit.header_names.limit=X-Quota"], Probe::Status(""), "x-quota: 100"),
    (
        "rate_limit.retry_after",
        &["rate_limit.requests=1", "rate_limit.retry_after=seconds"],
        Probe::Last(2),
        "retry-after: 60",
    ),
    ("rate_limit.reset", &["rate_limit.reset=delta"], Probe::Status(""), "x-ratelimit-reset: 60"),
    (
        "rate_limit.reset_header",
        &["rate_limit.reset=delta", "rate_limit.reset_header=X-Rate-Limit-Reset-After"],
        Probe::Status(""),
        "x-rate-limit-reset-after: 60",
    ),
    ("rate_limit.ietf", &["rate_limit.ietf=true"], Probe::Status(""), "ratelimit: \"default\";r=99;t=60"),
    ("ids.style", &["ids.style=counter"], Probe::Status(""), "req_00000001"),
    ("ids.request_header", &["ids.request_header=X-Request-Id"], Probe::Status(""), "\nx-request-id: req_"),
    ("time.precision", &["time.precision=seconds"], Probe::Status(""), "\"checked_at\":\"2026-01-31T09:30:00Z\""),
    (
        "variation.unknown_fields",
        &["variation.unknown_fields=true"],
        Probe::Shapes,
        "error has more than code, message, request_id",
    ),
    ("errors.messages", &["errors.messages.not_found=gone astray"], Probe::Nowhere, "\"message\":\"gone astray\""),
    ("variation.bodies", &["variation.key_order=reversed", "variation.bodies=errors"], Probe::Hello, "{\"message\""),
    ("variation.key_order", &["variation.key_order=shuffled"], Probe::Shapes, "error in another order"),
    ("subscriptions.upsert", &["subscriptions.upsert=never"], Probe::SubscribeTwice(HOOK), "two subscriptions"),
    (
        "subscriptions.secret_field",
        &["subscriptions.secret_field=signing_secret"],
        Probe::Subscribe(HOOK),
        "\"signing_secret\":\"whsec_",
    ),
    (
        "subscriptions.echo_secret",
        &["subscriptions.echo_secret=true"],
        Probe::Subscribe(HOOK_WITH_SECRET),
        "\"secret\":\"a secret of sixteen\"",
    ),
    ("events.extra", &["events.extra=[\"order.paid\"]"], Probe::Subscribe(HOOK_FOR_EXTRA), "200"),
    (
        "events.data",
        &["events.data.\"workflow.completed\".status=finished"],
        Probe::Delivery("workflow.completed", PLAIN),
        "\"status\":\"finished\"",
    ),
    ("webhooks.allow_http", &["webhooks.allow_http=true"], Probe::Subscribe(HOOK_OVER_HTTP), "200"),
    (
        "webhooks.scheme",
        &["webhooks.scheme=[\"standard\", \"stripe\"]"],
        Probe::Delivery("workflow.completed", PLAIN),
        "stripe-signature: t=1769851800,v1=",
    ),
    (
        "webhooks.secret_key",
        &["webhooks.secret_key=utf8_with_prefix"],
        Probe::Delivery("workflow.completed", PREFIXED),
        "webhook-signature: v1,",
    ),
    (
        "webhooks.timestamp",
        &["webhooks.timestamp=real"],
        Probe::Delivery("workflow.completed", PLAIN),
        "signed by the machine's time",
    ),
    (
        "webhooks.user_agent",
        &["webhooks.user_agent=Other/2"],
        Probe::Delivery("workflow.completed", PLAIN),
        "user-agent: Other/2\n",
    ),
    (
        "webhooks.headers",
        &["webhooks.headers={X-Environment=\"sandbox\"}"],
        Probe::Delivery("workflow.completed", PLAIN),
        "x-environment: sandbox\n",
    ),
    ("webhooks.framing", &["webhooks.framing=chunked"], Probe::Wire, "transfer-encoding: chunked\r\n"),
    ("webhooks.forward_host", &["webhooks.forward_host=original"], Probe::Wire, "\r\nhost: app.example.com\r\n"),
    ("variation.header_names", &["variation.header_names=title"], Probe::Wire, "\r\nWebhook-Signature: v1,"),
    ("webhooks.timeout", &["webhooks.timeout=200ms"], Probe::Silent, "no answer within 0.2 s"),
    (
        "webhooks.connect_timeout",
        &["webhooks.connect_timeout=150ms", "webhooks.timeout=2s"],
        Probe::SilentTls,
        "0.15 s",
    ),
    ("webhooks.order", &["webhooks.order=strict"], Probe::Order, "1 1 2"),
    (
        "webhooks.copies",
        &["webhooks.copies=3"],
        Probe::Delivery("workflow.completed", PLAIN),
        "received 3 times, told apart by nothing",
    ),
    ("webhooks.swap", &["webhooks.swap=10s"], Probe::Scatter, "overtaken"),
    ("webhooks.scatter", &["webhooks.scatter=10s"], Probe::Scatter, "overtaken"),
    (
        "webhooks.disable_on_gone",
        &["webhooks.disable_on_gone=false"],
        Probe::Attempts(&[410, 200], &[1]),
        "delivered after 2",
    ),
    (
        "webhooks.honor_retry_after",
        &["webhooks.honor_retry_after=false"],
        Probe::Attempts(&[503, 200], &[1]),
        "delivered after 2",
    ),
    ("webhooks.rotation_grace", &["webhooks.rotation_grace=30m"], Probe::Rotation, "1 signatures"),
    ("webhooks.retry.preset", &["webhooks.retry.preset=none"], Probe::Attempts(&[500], &[]), "exhausted after 1"),
    (
        "webhooks.retry.schedule",
        &["webhooks.retry.preset=custom", "webhooks.retry.schedule=[\"7s\"]"],
        Probe::Attempts(&[500, 500], &[7]),
        "exhausted after 2",
    ),
    ("webhooks.retry.jitter", &["webhooks.retry.jitter=0.5"], Probe::Attempts(&[500], &[]), "another delay than 1 s"),
    (
        "webhooks.custom",
        &["webhooks.scheme=custom", "webhooks.custom.signature_header=x-my-signature"],
        Probe::Delivery("workflow.completed", PLAIN),
        "x-my-signature: sha256=",
    ),
    (
        "webhooks.forwards",
        &["webhooks.forwards={\"https://a.sink.localhost\" = \"https://b.sink.localhost\"}"],
        Probe::Forwarded,
        "a 0 b 1",
    ),
    ("hello.body", &["hello.body={ hi = true }"], Probe::Hello, "{\"hi\":true}"),
];

const PLAIN: &str = "a secret of sixteen";
const PREFIXED: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(super) const HOOK: &str = r#"{"url":"https://x.example/","events":["workflow.completed"]}"#;
const HOOK_WITH_SECRET: &str =
    r#"{"url":"https://x.example/","events":["workflow.completed"],"secret":"a secret of sixteen"}"#;
const HOOK_FOR_EXTRA: &str = r#"{"url":"https://x.example/","events":["order.paid"]}"#;
const HOOK_OVER_HTTP: &str = r#"{"url":"http://x.example/","events":["workflow.completed"]}"#;
