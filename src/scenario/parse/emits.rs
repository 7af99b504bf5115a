//! `[[emit]]`, `[[rotate]]` and `given`: text to checked emissions and state.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::conditions::request;
use super::keys::{KeyReader, TableKind};
use super::kinds::{EVENT, EVENTS, KEEP_ONE, KeyRule, STATUS, TableKeys, URL, ValueKind as Kind, nearest_hint};
use super::reader::{Parser, Span, Table};
use crate::contract::rules::check_webhook_url;
use crate::contract::signature::{SigningKey, Tamper};
use crate::contract::types::SubscribeRequest;
use crate::scenario::Given;
use crate::scenario::emit::{DeliveryFaults, Emit, EmitEffect, Rotation, Trigger};
use crate::scenario::matcher::glob_pattern;
use crate::util::wording::quoted;

/// Maximum number of events of one trigger, or of one `every`.
const MAX_EVENTS: u64 = 100_000;
/// Shortest period of `every`: shorter ones would only keep the machine busy.
const MIN_PERIOD: Duration = Duration::from_millis(10);

impl TableKind for Emit {
    const DEFINITION: &'static str = "emit";
    const PLACE: &'static str = "an `[[emit]]`";

    fn rules() -> Vec<KeyRule> {
        // Reported below, where the trigger is known; here for the schema.
        vec![KeyRule::Never(|| {
            let periodic = json!({"on": {"type": "object", "required": ["every"]}});
            json!({"required": ["on", "interval"], "properties": periodic})
        })]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let name: Option<Arc<str>> =
            keys.name("name", "its name for `trigger --emit NAME` and in listings").map(Arc::from);
        let event = keys.required("event", EVENT, "the event type", Parser::event);
        let trigger = keys.required(
            "on",
            TRIGGER,
            "what sets it off: \"activation\", \"command\", { every = … }, { after = … }, or an answered request",
            Parser::trigger,
        );
        let data =
            keys.fields("data", "the event's data; may use templates; if left out, the profile's data for the type");
        let delay = keys.delay("delay", "from the trigger to the first event");
        let times = keys.integer("times", 1..=MAX_EVENTS, "events for each trigger; with `every`, events in all");
        let interval = keys.duration("interval", "from one event to the next").unwrap_or_default();
        let delivery: DeliveryFaults = keys.table("delivery", "faults of the deliveries").unwrap_or_default();

        let (parser, table) = keys.input()?;
        let paths = parser.take_request_paths();
        parser.warn_of_missing_parts(None, paths);
        let (event, trigger) = (event?, trigger?);
        let is_periodic = matches!(trigger, Trigger::Every(_));
        let is_single = times.unwrap_or(1) == 1;
        if let Some(span) = table.key_span("interval") {
            if is_periodic {
                let message = "`interval` excludes `every`: the period is the interval";
                parser.error("scenario/clash", span, message, "keep one of the two");
            } else if is_single {
                let message = "`interval` has no effect without `times`: there is one event";
                parser.warning("scenario/no-effect", span, message, "add `times`");
            }
        }
        if delivery.shuffle && (is_periodic || is_single || interval.is_zero()) {
            let message = "`shuffle` has no effect: there are no two events of one trigger at different times";
            let hint = "add `times` and `interval`";
            parser.warning("scenario/no-effect", table.span_of("delivery"), message, hint);
        }
        Some(Self {
            scenario: Arc::clone(&parser.scenario),
            label: name.clone().unwrap_or_else(|| format!("emit {}", table.position).into()),
            fingerprint: parser.emit_prints.of(table.fields),
            name,
            effect: EmitEffect::Event(event),
            trigger,
            data,
            delay,
            times,
            interval,
            delivery,
        })
    }
}

/// An emission that is written as `[[rotate]]`.
pub(super) struct Rotate(Emit);

impl TableKind for Rotate {
    const DEFINITION: &'static str = "rotate";
    const PLACE: &'static str = "a `[[rotate]]`";

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let name: Option<Arc<str>> =
            keys.name("name", "its name for `trigger --emit NAME` and in listings").map(Arc::from);
        let trigger = keys.required("at", TRIGGER, "what sets it off, as `on` of an `[[emit]]`", Parser::trigger);
        let delay = keys.delay("delay", "from the trigger to the rotation");
        let subscription = keys.optional(
            "subscription",
            Kind::Name,
            "which subscriptions: a URL, in which `*` is any text without a slash and `**` any text; all if left out",
            |parser, table, key| {
                let glob = table.text(key)?;
                Some((glob.into(), parser.pattern(table.span_of(key), &glob_pattern(glob))?))
            },
        );
        let grace =
            keys.duration("grace", "how long the old secret keeps signing; if left out, `webhooks.rotation_grace`");
        let secret = keys.optional("secret", Kind::Name, "the new secret; generated if left out", Parser::secret);

        let (parser, table) = keys.input()?;
        Some(Self(Emit {
            scenario: Arc::clone(&parser.scenario),
            label: name.clone().unwrap_or_else(|| format!("rotate {}", table.position).into()),
            fingerprint: parser.rotate_prints.of(table.fields),
            name,
            effect: EmitEffect::Rotation(Rotation { subscription, grace, secret }),
            trigger: trigger?,
            data: None,
            delay,
            times: None,
            interval: Duration::ZERO,
            delivery: DeliveryFaults::default(),
        }))
    }
}

const TRIGGER: Kind = Kind::NameOr(|| vec!["activation", "command"], TableKeys::of::<Trigger>);

/// An emission's `on`.
impl TableKind for Trigger {
    const DEFINITION: &'static str = "on";
    const PLACE: &'static str = "`on`";

    fn rules() -> Vec<KeyRule> {
        vec![
            KeyRule::Excludes(&["every"], &["after"], "there is one trigger", KEEP_ONE),
            KeyRule::Excludes(
                &["every", "after"],
                &["operation", "method", "path", "query", "header", "body", "key", "status"],
                "there is one trigger",
                "write a second table",
            ),
            KeyRule::NotEmpty,
        ]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let when = request(keys);
        let status = keys.integer("status", STATUS, "the status of the answer");
        let every = keys.duration("every", "again and again, from activation on");
        let after = keys.duration("after", "once, this long after activation");

        let (parser, table) = keys.input()?;
        if table.has("every") {
            let period = every?;
            if period < MIN_PERIOD {
                let (message, hint) = ("`every` must be at least 10ms", "for many events at once, use `times`");
                parser.error("scenario/bad-value", table.span_of("every"), message, hint);
            }
            return Some(Self::Every(period));
        }
        if table.has("after") {
            return after.map(Self::After);
        }
        if table.fields.is_empty() {
            let hint = "for example { operation = \"events.subscribe\", status = 200 }";
            return parser.refuse("scenario/missing-key", table.span.clone(), "`on` names no trigger", hint);
        }
        if parser.errors == table.errors_before {
            parser.warn_of_answer_never_given(table, &when, status);
        }
        Some(Self::Answer { when, status })
    }
}

impl TableKind for DeliveryFaults {
    const DEFINITION: &'static str = "delivery";
    const PLACE: &'static str = "`delivery`";

    fn rules() -> Vec<KeyRule> {
        vec![KeyRule::Elsewhere(
            &["fail", "respond", "status"],
            "the receiver decides: `POST /_emulator/sink/NAME {\"respond\":[500,500,200]}` for a built-in one, or `listen --respond 500,500,200`",
        )]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let faults = Self {
            tamper: keys.one_of(
                "tamper",
                || Tamper::ALL.map(Tamper::name).to_vec(),
                "the part to falsify: body, signature, secret, `old_secret`, timestamp, `future_timestamp` or headers",
                Tamper::from_name,
            ),
            duplicate: keys.integer("duplicate", 1..=100, "copies of each delivery in all"),
            shuffle: keys.flag("shuffle", "true: shuffles the events of one trigger").unwrap_or(false),
            drop: keys.flag("drop", "true: nothing is delivered, as if the delivery were lost").unwrap_or(false),
        };

        let (parser, table) = keys.input()?;
        for key in ["tamper", "duplicate"].into_iter().filter(|_| faults.drop) {
            if let Some(span) = table.key_span(key) {
                let message = format!("`{key}` has no effect: `drop` delivers nothing");
                parser.warning("scenario/no-effect", span, message, "drop one of the two");
            }
        }
        Some(faults)
    }
}

impl TableKind for Given {
    const DEFINITION: &'static str = "given";
    const PLACE: &'static str = "`given`";

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let subscriptions = keys.optional(
            "subscription",
            Kind::Tables(TableKeys::of::<SubscribeRequest>),
            "a webhook subscription that exists from the start",
            |parser, table, key| {
                let tables = parser.open_tables::<SubscribeRequest>(table, key);
                Some(tables.iter().filter_map(|table| parser.read_table(table)).collect())
            },
        );
        Some(Self { subscriptions: subscriptions.unwrap_or_default() })
    }
}

impl TableKind for SubscribeRequest {
    const DEFINITION: &'static str = "subscription";
    const PLACE: &'static str = "a `[[given.subscription]]`";

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let url = keys.required("url", URL, "where events go: an https URL", Parser::url);
        let events = keys.required("events", EVENTS, "the event types subscribed to", Parser::event_types);
        let secret = keys.optional("secret", Kind::Name, "the signing secret; generated if left out", Parser::secret);
        let description = keys.text("description", "a short label");
        Some(Self { url: url?, events: events?, secret, description })
    }
}

impl Parser<'_> {
    pub(super) fn emits(&mut self, file: &Table<'_, '_>, key: &'static str) -> Vec<Arc<Emit>> {
        let tables = self.open_tables::<Emit>(file, key);
        let emits = tables.iter().filter_map(|table| self.read_table(table)).map(Arc::new).collect();
        self.check_names("emission", &tables);
        emits
    }

    pub(super) fn rotations(&mut self, file: &Table<'_, '_>, key: &'static str) -> Vec<Arc<Emit>> {
        let tables = self.open_tables::<Rotate>(file, key);
        let read = tables.iter().filter_map(|table| self.read_table(table));
        let rotations = read.map(|Rotate(emit)| Arc::new(emit)).collect();
        self.check_names("rotation", &tables);
        rotations
    }

    /// A type of event that the profile knows.
    fn event(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<String> {
        table.text(key).filter(|event| self.is_event(event, table.span_of(key))).map(str::to_owned)
    }

    fn is_event(&mut self, event: &str, span: Span) -> bool {
        let known: Vec<&str> = self.profile.events.types().collect();
        if known.contains(&event) {
            return true;
        }
        let nearest = nearest_hint(event, &known);
        let joint = if nearest.ends_with('?') { " " } else { "; " };
        let hint = format!("{nearest}{joint}the setting `events.extra` adds more");
        let message = format!("unknown event type `{}`", quoted(event));
        self.error("scenario/unknown-event", span, message, hint);
        false
    }

    /// The trigger at `on` or `at`: its name, or a table.
    fn trigger(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<Trigger> {
        match table.text(key) {
            Some("activation") => Some(Trigger::Activation),
            Some(_) => Some(Trigger::Command),
            None => self.table_at(table, key),
        }
    }

    /// A URL that a client may subscribe.
    fn url(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<String> {
        let url = table.text(key)?;
        if let Err(reason) = check_webhook_url(url, self.profile.webhooks.allow_http) {
            self.error("scenario/bad-value", table.span_of(key), format!("`url` {reason}"), "");
        }
        Some(url.to_owned())
    }

    fn event_types(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<Vec<String>> {
        if table.is_empty_array(key) {
            return self.refuse("scenario/bad-value", table.span_of(key), "`events` must not be empty", "");
        }
        let texts = self.texts(table, key, "an array of event types");
        Some(
            texts
                .into_iter()
                .filter(|(span, event)| self.is_event(event, span.clone()))
                .map(|(_, event)| event.to_owned())
                .collect(),
        )
    }

    /// A secret that every scheme in force can sign with.
    fn secret(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<String> {
        let secret = table.text(key)?;
        let schemes = self.profile.schemes();
        let read = |scheme| SigningKey::read(secret, scheme, self.profile.webhooks.secret_key);
        if let Some(problem) = schemes.iter().find_map(|scheme| read(scheme).err()) {
            self.error("scenario/bad-value", table.span_of(key), format!("`secret`: {problem}"), "");
        }
        Some(secret.to_owned())
    }
}
