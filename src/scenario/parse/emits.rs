//! `[[emit]]` and `given`: text to checked emissions and state.

use std::sync::Arc;
use std::time::Duration;

use super::Fingerprints;
use super::kinds::{escaped, nearest_hint};
use super::reader::{Parser, Span, Table};
use crate::contract::preview::{WorkflowFields, WorkflowStatus};
use crate::contract::rules::check_webhook_url;
use crate::contract::signature::{SigningKey, Tamper};
use crate::contract::types::SubscribeRequest;
use crate::scenario::emit::{DeliveryFaults, Emit, Trigger};
use crate::scenario::{Given, GivenWorkflow};

/// Shortest period of `every`: shorter ones would only keep the machine busy.
const MIN_PERIOD: Duration = Duration::from_millis(10);

impl Parser<'_> {
    pub(super) fn emits(&mut self, file: &Table<'_, '_>, scenario: &Arc<str>) -> Vec<Arc<Emit>> {
        let tables = self.tables(file, "emit");
        let mut fingerprints = Fingerprints::new(scenario, "emit");
        let mut emits = Vec::new();
        for (position, table) in (1..).zip(&tables) {
            emits.extend(self.emit(table, position, scenario, &mut fingerprints).map(Arc::new));
        }
        self.check_names("emission", &tables);
        emits
    }

    fn emit(
        &mut self,
        table: &Table<'_, '_>,
        position: usize,
        scenario: &Arc<str>,
        fingerprints: &mut Fingerprints,
    ) -> Option<Emit> {
        let name: Option<Arc<str>> = table.text("name").map(Arc::from);
        let event = table.text("event").filter(|event| self.is_event(event, table.span_of("event")));
        let trigger = self.trigger(table);
        let data = self.json_fields(table, "data");
        self.warn_of_missing_parts(None);
        let delay = self.delay(table);
        let times = table.integer("times");
        let interval = table.duration("interval");
        let delivery = self.delivery(table);
        let is_periodic = matches!(trigger, Some(Trigger::Every(_)));
        let is_single = times.unwrap_or(1) == 1;
        if let Some(span) = table.key_span("interval") {
            if is_periodic {
                let message = "`interval` excludes `every`: the period is the interval";
                self.error("scenario/clash", span, message, "keep one of the two");
            } else if is_single {
                let message = "`interval` has no effect without `times`: there is one event";
                self.warning("scenario/no-effect", span, message, "add `times`");
            }
        }
        if delivery.shuffle && (is_periodic || is_single || interval.unwrap_or_default().is_zero()) {
            let message = "`shuffle` has no effect: there are no two events of one trigger at different times";
            let hint = "add `times` and `interval`";
            self.warning("scenario/no-effect", table.span_of("delivery"), message, hint);
        }
        Some(Emit {
            scenario: Arc::clone(scenario),
            label: name.clone().unwrap_or_else(|| format!("emit {position}").into()),
            name,
            fingerprint: fingerprints.of(table.fields),
            event: event?.to_owned(),
            trigger: trigger?,
            data,
            delay,
            times,
            interval: interval.unwrap_or_default(),
            delivery,
        })
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

    fn trigger(&mut self, table: &Table<'_, '_>) -> Option<Trigger> {
        match table.text("on") {
            Some("activation") => return Some(Trigger::Activation),
            Some(_) => return Some(Trigger::Command),
            None => {}
        }
        let on = self.table(table, "on")?;
        if let Some(timed) = on.first_of(&["every", "after"]) {
            let duration = on.duration(timed)?;
            if timed == "after" {
                return Some(Trigger::After(duration));
            }
            if duration < MIN_PERIOD {
                let (message, hint) = ("`every` must be at least 10ms", "for many events at once, use `times`");
                self.error("scenario/bad-value", on.span_of("every"), message, hint);
            }
            return Some(Trigger::Every(duration));
        }
        if on.fields.is_empty() {
            let hint = "for example { operation = \"events.subscribe\", status = 200 }";
            return self.refuse("scenario/missing-key", on.span, "`on` names no trigger", hint);
        }
        let when = self.conditions(&on);
        let status = on.status();
        self.warn_of_answer_never_given(&on, &when, status);
        Some(Trigger::Answer { when, status })
    }

    fn delivery(&mut self, table: &Table<'_, '_>) -> DeliveryFaults {
        let Some(table) = self.table(table, "delivery") else { return DeliveryFaults::default() };
        let copies = table.integer("duplicate").unwrap_or(1);
        let delivery = DeliveryFaults {
            tamper: table.text("tamper").and_then(Tamper::from_name),
            duplicate: u32::try_from(copies).unwrap_or(1),
            shuffle: table.flag("shuffle").unwrap_or(false),
            drop: table.flag("drop").unwrap_or(false),
        };
        for key in ["tamper", "duplicate"].into_iter().filter(|_| delivery.drop) {
            if let Some(span) = table.key_span(key) {
                let message = format!("`{key}` has no effect: `drop` delivers nothing");
                self.warning("scenario/no-effect", span, message, "drop one of the two");
            }
        }
        delivery
    }

    /// The state that a file puts in place.
    pub(super) fn given(&mut self, file: &Table<'_, '_>) -> Given {
        let mut given = Given::default();
        let Some(table) = self.table(file, "given") else { return given };
        for subscription in self.tables(&table, "subscription") {
            given.subscriptions.extend(self.subscription(&subscription));
        }
        for workflow in self.tables(&table, "workflow") {
            given.workflows.push(self.workflow(&workflow));
        }
        for user in table.entries("user") {
            match user.get_ref().as_table() {
                Some(fields) => given.users.extend(self.json_map(fields)),
                None => self.wrong_type("given.user", "a table", user, ""),
            }
        }
        given
    }

    fn workflow(&mut self, table: &Table<'_, '_>) -> GivenWorkflow {
        let [id, name, reference] = ["id", "name", "reference"].map(|key| table.text(key).map(str::to_owned));
        if id.as_ref().is_some_and(|id| !id.starts_with("wf_")) {
            let message = "a workflow's id has the form wf_<id>";
            self.error("scenario/bad-value", table.span_of("id"), message, "for example \"wf_1\"");
        }
        let status = table.text("status").and_then(WorkflowStatus::from_name);
        let fields = WorkflowFields { name: Some(name), reference: Some(reference) };
        GivenWorkflow { id, fields, status: status.unwrap_or(WorkflowStatus::Running) }
    }

    fn subscription(&mut self, table: &Table<'_, '_>) -> Option<SubscribeRequest> {
        let url = table.text("url");
        if let Some(Err(reason)) = url.map(|url| check_webhook_url(url, self.profile.webhooks.allow_http)) {
            self.error("scenario/bad-value", table.span_of("url"), format!("`url` {reason}"), "");
        }
        if table.is_empty_array("events") {
            self.error("scenario/bad-value", table.span_of("events"), "`events` must not be empty", "");
        }
        let mut events = Vec::new();
        for (span, event) in self.texts(table, "events", "an array of event types") {
            if self.is_event(event, span) {
                events.push(event.to_owned());
            }
        }
        let secret = table.text("secret").map(str::to_owned);
        if let Some(secret) = &secret {
            let schemes = self.profile.schemes();
            let read = |scheme| SigningKey::read(secret, scheme, self.profile.webhooks.secret_key);
            if let Some(problem) = schemes.iter().find_map(|scheme| read(scheme).err()) {
                self.error("scenario/bad-value", table.span_of("secret"), format!("`secret`: {problem}"), "");
            }
        }
        let description = table.text("description").map(str::to_owned);
        Some(SubscribeRequest { url: url?.to_owned(), events, secret, description })
    }
}
