//! `[[emit]]` and `given`: text to checked emissions and state.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::advice::nearest_hint;
use super::reader::{Place, shown};
use super::words;
use super::{Parser, Prints};
use crate::contract::nearest;
use crate::contract::preview::{WorkflowFields, WorkflowStatus};
use crate::contract::routes::{ROUTES, Stage};
use crate::contract::signature::SigningKey;
use crate::contract::signature::Tamper;
use crate::contract::types::{EVENT_TYPES, SubscribeRequest};
use crate::contract::webhook_url::check_webhook_url;
use crate::scenario::emit::{Delivery, Emit, Trigger};
use crate::scenario::{Given, GivenWorkflow};

/// Shortest period of `every`: shorter ones would only keep the machine busy.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

impl Parser<'_> {
    /// The emissions of a file.
    pub(super) fn emits(&mut self, file: &DeTable<'_>, scenario: &Arc<str>) -> Vec<Arc<Emit>> {
        let Some(value) = file.get("emit") else { return Vec::new() };
        let tables = self.problems.tables("emit", value, &words::EMIT);
        let mut prints = Prints::new(scenario, "emit");
        let mut emits = Vec::new();
        for (at, (span, table)) in tables.iter().enumerate() {
            emits.extend(self.emit(table, span.clone(), at + 1, scenario, &mut prints).map(Arc::new));
        }
        self.check_names("emission", tables.iter().map(|(_, table)| *table));
        emits
    }

    fn emit(
        &mut self,
        table: &DeTable<'_>,
        span: Range<usize>,
        position: usize,
        scenario: &Arc<str>,
        prints: &mut Prints,
    ) -> Option<Emit> {
        let name: Option<Arc<str>> = self.problems.filled_text(table, "name").map(Arc::from);
        let event = self.event(table, &span);
        let trigger = self.trigger(table, span);
        let data = table.get("data").and_then(|data| {
            self.problems.check_body([data]);
            let fields = self.problems.any_table("data", "a table of fields", data)?;
            self.problems.json_map(fields)
        });
        self.warn_of_missing_parts(None);
        let delay = self.delay(table);
        let times = self.problems.number(table, &words::EMIT, "times");
        let interval = self.problems.duration(table, "interval");
        let delivery = table.get("delivery").map(|delivery| self.delivery(delivery)).unwrap_or_default();
        if let (Some(Trigger::Every(_)), Some((key, _))) = (&trigger, table.get_key_value("interval")) {
            let message = "`interval` excludes `every`: the period is the interval";
            self.problems.error("scenario/clash", key.span(), message, "keep one of the two");
        } else if let (Some((key, _)), true) = (table.get_key_value("interval"), times.unwrap_or(1) == 1) {
            let message = "`interval` has no effect without `times`: there is one event";
            self.problems.warning("scenario/no-effect", key.span(), message, "add `times`");
        }
        let one_moment = times.unwrap_or(1) == 1 || interval.unwrap_or_default().is_zero();
        if delivery.shuffle && (one_moment || matches!(trigger, Some(Trigger::Every(_)))) {
            let span = table.get("delivery").map_or(0..0, Spanned::span);
            let message = "`shuffle` has no effect: there are no two events of one trigger at different times";
            self.problems.warning("scenario/no-effect", span, message, "add `times` and `interval`");
        }
        Some(Emit {
            scenario: Arc::clone(scenario),
            label: name.clone().unwrap_or_else(|| format!("emit {position}").into()),
            name,
            fingerprint: prints.print(table),
            event: event?,
            trigger: trigger?,
            data,
            delay,
            times,
            interval: interval.unwrap_or_default(),
            delivery,
        })
    }

    fn event(&mut self, table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
        let Some(value) = table.get("event") else {
            let hint = "for example event = \"workflow.completed\"";
            return self.problems.refuse("scenario/missing-key", span.clone(), "an emission needs an `event`", hint);
        };
        let event = self.problems.text(table, "event")?;
        self.known_event(event, value.span()).then(|| event.to_owned())
    }

    fn known_event(&mut self, event: &str, span: Range<usize>) -> bool {
        let known: Vec<&str> = self.profile.events.types().collect();
        if known.contains(&event) {
            return true;
        }
        let hint = format!("{} the setting `events.extra` adds more", nearest_hint(event, &known));
        let message = format!("unknown event type `{}`", shown(event));
        self.problems.error("scenario/unknown-event", span, message, hint);
        false
    }

    fn trigger(&mut self, table: &DeTable<'_>, span: Range<usize>) -> Option<Trigger> {
        let Some(on) = table.get("on") else {
            let hint = "for example on = \"activation\", or on = { operation = \"events.subscribe\", status = 200 }";
            return self.problems.refuse("scenario/missing-key", span, "an emission needs an `on`", hint);
        };
        match on.get_ref() {
            DeValue::String(text) if EVENT_TYPES.contains(&text.as_ref()) => {
                let message = format!("unknown value \"{}\" for `on`", shown(text));
                let hint = "the type goes into `event`; `on` says what sets the event off: \"activation\", \"command\", { every = … }, { after = … }, or a request such as { operation = \"events.subscribe\" }";
                self.problems.refuse("scenario/bad-value", on.span(), message, hint)
            }
            DeValue::String(text) if ["start", "startup", "begin"].contains(&text.as_ref()) => {
                let message = format!("unknown value \"{}\" for `on`", shown(text));
                self.problems.refuse("scenario/bad-value", on.span(), message, "did you mean `activation`?")
            }
            DeValue::String(text) if let Some(operation) = operation_meant(text) => {
                let message = format!("unknown value \"{}\" for `on`", shown(text));
                let hint = format!(
                    "for an answer to a request, write on = {{ operation = \"{operation}\" }}; add status = 200 for answers with that status alone"
                );
                self.problems.refuse("scenario/bad-value", on.span(), message, hint)
            }
            DeValue::String(_) => match self.problems.choice(table, &words::EMIT, "on")? {
                "activation" => Some(Trigger::Activation),
                _ => Some(Trigger::Command),
            },
            DeValue::Table(_) => self.trigger_table(on),
            _ => {
                self.problems.wrong_type("on", "a name or a table", on);
                None
            }
        }
    }

    fn trigger_table(&mut self, on: Place<'_, '_>) -> Option<Trigger> {
        let table = self.problems.table("on", on, &words::ON)?;
        let timed = self.problems.only_one(table, &["every", "after"], "there is one trigger");
        if let Some(timed) = timed {
            for (key, _) in table.iter().filter(|(key, _)| !matches!(key.get_ref().as_ref(), "every" | "after")) {
                let message = format!("`{}` excludes `{timed}`: there is one trigger", shown(key.get_ref()));
                self.problems.error("scenario/clash", key.span(), message, "write a second `[[emit]]`");
            }
            let duration = self.problems.duration(table, timed)?;
            if timed == "after" {
                return Some(Trigger::After(duration));
            }
            if duration < SHORTEST_PERIOD {
                let span = table.get("every").map_or(0..0, Spanned::span);
                let message = "`every` must be at least 10ms";
                self.problems.error("scenario/bad-value", span, message, "for many events at once, use `times`");
            }
            return Some(Trigger::Every(duration));
        }
        if table.is_empty() {
            let hint = "for example { operation = \"events.subscribe\", status = 200 }";
            return self.problems.refuse("scenario/missing-key", on.span(), "`on` names no trigger", hint);
        }
        let when = self.conditions(table);
        let status = self.status(table, &words::ON);
        if let Some(never) =
            status.filter(|status| !self.scripted.contains(status) && !self.can_answer(&when.operations, *status))
        {
            let who = match when.operations.as_slice() {
                [] => "no operation ever answers".to_owned(),
                [only] => format!("`{}` never answers", only.name()),
                _ => "these operations never answer".to_owned(),
            };
            let span = table.get("status").map_or(0..0, Spanned::span);
            let message = format!("this never holds: {who} {never}, and no rule of this file does");
            let hint = "`wrs-emulator openapi` lists what each operation answers";
            self.problems.warning("scenario/never-matches", span, message, hint);
        }
        Some(Trigger::Answer { when, status })
    }

    fn delivery(&mut self, value: Place<'_, '_>) -> Delivery {
        let Some(table) = self.problems.table("delivery", value, &words::DELIVERY) else { return Delivery::default() };
        let tamper = self.problems.choice(table, &words::DELIVERY, "tamper");
        let copies = self.problems.number(table, &words::DELIVERY, "duplicate").unwrap_or(1);
        let delivery = Delivery {
            tamper: tamper.and_then(Tamper::from_name),
            duplicate: u32::try_from(copies).unwrap_or(1),
            shuffle: self.problems.flag(table, "shuffle").unwrap_or(false),
            drop: self.problems.flag(table, "drop").unwrap_or(false),
        };
        if delivery.drop {
            for key in ["tamper", "duplicate"] {
                if let Some((key, _)) = table.get_key_value(key) {
                    let message = format!("`{}` has no effect: `drop` delivers nothing", key.get_ref());
                    self.problems.warning("scenario/no-effect", key.span(), message, "drop one of the two");
                }
            }
        }
        delivery
    }

    /// The state that a file puts in place.
    pub(super) fn given(&mut self, file: &DeTable<'_>) -> Given {
        let mut given = Given::default();
        let Some(table) = file.get("given").and_then(|value| self.problems.table("given", value, &words::GIVEN)) else {
            return given;
        };
        if let Some(value) = table.get("subscription") {
            for (span, table) in self.problems.tables("given.subscription", value, &words::SUBSCRIPTION) {
                given.subscriptions.extend(self.given_subscription(table, span));
            }
        }
        if let Some(value) = table.get("workflow") {
            for (_, table) in self.problems.tables("given.workflow", value, &words::WORKFLOW) {
                let text = |parser: &mut Self, key| parser.problems.filled_text(table, key).map(str::to_owned);
                let (id, name, reference) = (text(self, "id"), text(self, "name"), text(self, "reference"));
                if let Some(value) = table.get("id").filter(|_| id.as_ref().is_some_and(|id| !id.starts_with("wf_"))) {
                    let message = "a workflow's id has the form wf_<id>";
                    self.problems.error("scenario/bad-value", value.span(), message, "for example \"wf_1\"");
                }
                let status = self.problems.choice(table, &words::WORKFLOW, "status");
                let status = status.and_then(WorkflowStatus::from_name).unwrap_or(WorkflowStatus::Running);
                let fields = WorkflowFields { name: Some(name), reference: Some(reference) };
                given.workflows.push(GivenWorkflow { id, fields, status });
            }
        }
        if let Some(value) = table.get("user") {
            let DeValue::Array(users) = value.get_ref() else {
                self.problems.wrong_type("given.user", "an array of tables", value);
                return given;
            };
            for user in users {
                match user.get_ref() {
                    DeValue::Table(fields) => given.users.extend(self.problems.json_map(fields)),
                    _ => self.problems.wrong_type("given.user", "a table", user),
                }
            }
        }
        given
    }

    fn given_subscription(&mut self, table: &DeTable<'_>, span: Range<usize>) -> Option<SubscribeRequest> {
        for key in ["url", "events"] {
            if !table.contains_key(key) {
                let message = format!("a given subscription needs `{key}`");
                let hint = "for example url = \"https://app.sink.localhost/hooks\", events = [\"workflow.completed\"]";
                self.problems.error("scenario/missing-key", span.clone(), message, hint);
            }
        }
        let url = self.problems.text(table, "url");
        if let (Some(url), Some(value)) = (url, table.get("url"))
            && let Err(reason) = check_webhook_url(url, self.profile.webhooks.allow_http)
        {
            self.problems.error("scenario/bad-value", value.span(), format!("`url` {reason}"), "");
        }
        let mut events = Vec::new();
        if let Some(value) = table.get("events") {
            match value.get_ref() {
                DeValue::Array(entries) if entries.is_empty() => {
                    self.problems.error("scenario/bad-value", value.span(), "`events` must not be empty", "");
                }
                DeValue::Array(entries) => {
                    for entry in entries {
                        match entry.get_ref().as_str() {
                            Some(event) if self.known_event(event, entry.span()) => events.push(event.to_owned()),
                            Some(_) => {}
                            None => self.problems.wrong_type("events", "an array of event types", entry),
                        }
                    }
                }
                _ => self.problems.wrong_type("events", "an array of event types", value),
            }
        }
        let secret = self.problems.filled_text(table, "secret").map(str::to_owned);
        if let (Some(secret), Some(value)) = (&secret, table.get("secret")) {
            let schemes = self.profile.schemes();
            let read = |scheme| SigningKey::read(secret, scheme, self.profile.webhooks.secret_key);
            if let Some(problem) = schemes.iter().find_map(|scheme| read(scheme).err()) {
                self.problems.error("scenario/bad-value", value.span(), format!("`secret`: {problem}"), "");
            }
        }
        let description = self.problems.text(table, "description").map(str::to_owned);
        Some(SubscribeRequest { url: url?.to_owned(), events, secret, description })
    }
}

/// The open operation that a text names by a part of its name, or nearly: `subscribe` is `events.subscribe`.
fn operation_meant(text: &str) -> Option<&'static str> {
    let open = ROUTES.iter().filter(|route| route.stage == Stage::Open).map(|route| route.operation.name());
    let is_part = |name: &&str| name.split('.').any(|part| part == text);
    open.clone().find(is_part).or_else(|| if text.contains('.') { nearest(text, open) } else { None })
}
