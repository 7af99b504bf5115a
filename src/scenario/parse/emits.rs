//! `[[emit]]` and `given`: text to checked emissions and state.

use std::sync::Arc;
use std::time::Duration;

use super::Fingerprints;
use super::declare::{KeyTable as _, Read, ReadKeys as _};
use super::kinds::{ValueKind as Kind, escaped, nearest_hint};
use super::reader::{Parser, Span, Table};
use crate::contract::rules::check_webhook_url;
use crate::contract::signature::SigningKey;
use crate::contract::types::SubscribeRequest;
use crate::scenario::emit::{DeliveryFaults, Emit, On, Trigger};

/// Shortest period of `every`: shorter ones would only keep the machine busy.
const MIN_PERIOD: Duration = Duration::from_millis(10);

impl Read for Vec<Arc<Emit>> {
    const KIND: Kind = Kind::Tables(&Emit::TABLE);

    fn read(parser: &mut Parser<'_>, file: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let tables = parser.tables(file, key);
        let mut fingerprints = Fingerprints::new(&parser.scenario, "emit");
        let mut emits = Vec::new();
        for (position, table) in (1..).zip(&tables) {
            emits.extend(parser.emit(table, position, &mut fingerprints).map(Arc::new));
        }
        parser.check_names("emission", &tables);
        Some(emits)
    }
}

impl Read for Trigger {
    const KIND: Kind = Kind::NameOr(|| vec!["activation", "command"], &On::TABLE);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        match table.text(key) {
            Some("activation") => return Some(Self::Activation),
            Some(_) => return Some(Self::Command),
            None => {}
        }
        let before = parser.errors;
        let table = parser.table(table, key)?;
        let on = On::read_keys(parser, &table)?;
        parser.trigger(&table, on, before)
    }
}

impl Read for DeliveryFaults {
    const KIND: Kind = Kind::Table(&Self::TABLE);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let table = parser.table(table, key)?;
        let faults = Self::read_keys(parser, &table)?;
        for key in ["tamper", "duplicate"].into_iter().filter(|_| faults.drop) {
            if let Some(span) = table.key_span(key) {
                let message = format!("`{key}` has no effect: `drop` delivers nothing");
                parser.warning("scenario/no-effect", span, message, "drop one of the two");
            }
        }
        Some(faults)
    }
}

impl Read for Vec<SubscribeRequest> {
    const KIND: Kind = Kind::Tables(&SubscribeRequest::TABLE);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let tables = parser.tables(table, key);
        Some(tables.iter().filter_map(|table| SubscribeRequest::read_keys(parser, table)).collect())
    }
}

impl Parser<'_> {
    fn emit(&mut self, table: &Table<'_, '_>, position: usize, fingerprints: &mut Fingerprints) -> Option<Emit> {
        let emit = Emit::read_keys(self, table);
        let missing = self.missing_parts(None);
        self.warn_of_missing_parts(missing);
        let emit = emit?;
        let is_periodic = matches!(emit.trigger, Trigger::Every(_));
        let is_single = emit.times.unwrap_or(1) == 1;
        if let Some(span) = table.key_span("interval") {
            if is_periodic {
                let message = "`interval` excludes `every`: the period is the interval";
                self.error("scenario/clash", span, message, "keep one of the two");
            } else if is_single {
                let message = "`interval` has no effect without `times`: there is one event";
                self.warning("scenario/no-effect", span, message, "add `times`");
            }
        }
        if emit.delivery.shuffle && (is_periodic || is_single || emit.interval.is_zero()) {
            let message = "`shuffle` has no effect: there are no two events of one trigger at different times";
            let hint = "add `times` and `interval`";
            self.warning("scenario/no-effect", table.span_of("delivery"), message, hint);
        }
        Some(Emit {
            scenario: Arc::clone(&self.scenario),
            label: emit.name.clone().unwrap_or_else(|| format!("emit {position}").into()),
            fingerprint: fingerprints.of(table.fields),
            ..emit
        })
    }

    /// A type of event that the profile knows.
    pub(crate) fn event(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<String> {
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
        let message = format!("unknown event type `{}`", escaped(event));
        self.error("scenario/unknown-event", span, message, hint);
        false
    }

    /// The trigger of an `on`, before whose reading there were so many errors.
    fn trigger(&mut self, table: &Table<'_, '_>, on: On, errors: usize) -> Option<Trigger> {
        match table.first_of(&["every", "after"]) {
            Some("every") => {
                let period = on.every?;
                if period < MIN_PERIOD {
                    let (message, hint) = ("`every` must be at least 10ms", "for many events at once, use `times`");
                    self.error("scenario/bad-value", table.span_of("every"), message, hint);
                }
                return Some(Trigger::Every(period));
            }
            Some(_) => return on.after.map(Trigger::After),
            None => {}
        }
        if table.fields.is_empty() {
            let hint = "for example { operation = \"events.subscribe\", status = 200 }";
            return self.refuse("scenario/missing-key", table.span.clone(), "`on` names no trigger", hint);
        }
        if self.errors == errors {
            self.warn_of_answer_never_given(table, &on.when, on.status);
        }
        Some(Trigger::Answer { when: on.when, status: on.status })
    }

    /// A URL that a client may subscribe.
    pub(crate) fn url(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<String> {
        let url = table.text(key)?;
        if let Err(reason) = check_webhook_url(url, self.profile.webhooks.allow_http) {
            self.error("scenario/bad-value", table.span_of(key), format!("`url` {reason}"), "");
        }
        Some(url.to_owned())
    }

    pub(crate) fn event_types(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<Vec<String>> {
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
    pub(crate) fn secret(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<String> {
        let secret = table.text(key)?;
        let schemes = self.profile.schemes();
        let read = |scheme| SigningKey::read(secret, scheme, self.profile.webhooks.secret_key);
        if let Some(problem) = schemes.iter().find_map(|scheme| read(scheme).err()) {
            self.error("scenario/bad-value", table.span_of(key), format!("`secret`: {problem}"), "");
        }
        Some(secret.to_owned())
    }
}
