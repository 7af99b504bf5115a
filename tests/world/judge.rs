//! Judges a world that was played: compares what clients and receivers saw with the journal, and the journal with a small model of
//! what was promised. It shares no rule with the emulator.

mod deliveries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::clients::{Ask, Exchange};
use crate::facts::{Event, Fact, Row, number};
use crate::plan::{Count, Plan};
use crate::quota::{Charges, Check};
use crate::run::World;

use deliveries::Delivery;

/// Everything that the model knows.
#[derive(Clone, Debug, Default)]
struct Model {
    keys: BTreeMap<String, Space>,
}

/// What belongs to one key.
#[derive(Clone, Debug, Default)]
struct Space {
    charges: Charges,
    /// Counted, but not yet in the order of their counting.
    rows: Vec<Row>,
    /// The number of the last of those before.
    last: u64,
    /// Numbers that were drawn for other things than requests.
    drawn: Vec<u64>,
    subscriptions: BTreeMap<String, Subscription>,
    deliveries: BTreeMap<String, Delivery>,
    events: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Subscription {
    url: String,
    events: Vec<String>,
    state: State,
    /// All secrets so far, the newest last.
    secrets: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Active,
    /// A call that deletes it is under way.
    Unsure,
    Ended,
}

struct Judge<'w> {
    world: &'w World,
    plan: &'w Plan,
    model: Model,
    saved: (Model, BTreeMap<String, u64>),
    problems: Vec<String>,
    /// The attempts so far, which are compared with what receivers got.
    sent: Vec<deliveries::Sent>,
    /// How many resets there were.
    generation: u64,
    requests: usize,
    /// The generation in which each marked event was fired, by its marker.
    markers: BTreeMap<String, u64>,
    /// The last reset of each key.
    resets: BTreeMap<String, u64>,
}

pub(crate) fn judge(world: &Arc<World>) -> Vec<String> {
    let facts = std::mem::take(&mut *world.facts.lock());
    let mut judge = Judge {
        world,
        plan: &world.plan,
        model: Model::default(),
        saved: Default::default(),
        problems: world.problems.lock().clone(),
        sent: Vec::new(),
        generation: 0,
        requests: 0,
        markers: BTreeMap::new(),
        resets: BTreeMap::new(),
    };
    for fact in &facts {
        judge.take(fact);
    }
    judge.flush_all(false);
    judge.compare_listings();
    judge.compare_posts();
    judge.compare_answers(&facts);
    judge.check_stream();
    judge.problems
}

impl Judge<'_> {
    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    fn space(&mut self, key: &str) -> &mut Space {
        self.model.keys.entry(key.to_owned()).or_default()
    }

    fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::Request(row) => self.take_request(row),
            Fact::Event(event) => self.take_event(event),
            Fact::Attempt(attempt) => self.take_attempt(attempt),
            Fact::Reset(Some(key)) => {
                self.flush(key, true);
                self.model.keys.remove(key);
                self.begin_generation(Some(key));
            }
            Fact::Reset(None) => {
                self.flush_all(true);
                self.model = Model::default();
                self.begin_generation(None);
            }
            Fact::Saved => {
                self.flush_all(false);
                self.saved = (self.model.clone(), self.resets.clone());
            }
            Fact::Loaded => {
                self.flush_all(false);
                (self.model, self.resets) = self.saved.clone();
                self.forget_settled();
            }
            Fact::Restarted => self.forget_settled(),
            Fact::Missed => {}
            Fact::Deleting { key, id, is_done } => {
                if let Some(known) = self.space(key).subscriptions.get_mut(id) {
                    known.state = if *is_done || known.state == State::Ended { State::Ended } else { State::Unsure };
                }
            }
            Fact::Rotated { key, id, secret } => {
                if let Some(known) = self.space(key).subscriptions.get_mut(id) {
                    known.secrets.push(secret.clone());
                }
            }
        }
    }

    fn begin_generation(&mut self, key: Option<&str>) {
        self.generation += 1;
        let generation = self.generation;
        match key {
            Some(key) => drop(self.resets.insert(key.to_owned(), generation)),
            None => {
                for number in 0..self.plan.keys {
                    self.resets.insert(crate::plan::key(number), generation);
                }
            }
        }
    }

    fn take_request(&mut self, row: &Row) {
        let Some(key) = &row.key else { return };
        if row.target.starts_with("/v1/events/subscribe") && row.status == 200 {
            let answer = row.json();
            let asked: Value = serde_json::from_slice(&row.request).unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let id = text(&answer["id"]);
            let events = answer["events"].as_array().into_iter().flatten().map(text).collect();
            let secret = [&answer["secret"], &asked["secret"]].into_iter().find_map(Value::as_str).map(str::to_owned);
            let space = self.space(key);
            let same = space
                .subscriptions
                .iter()
                .filter(|(_, known)| known.url == text(&asked["url"]) && known.state == State::Active);
            let other = same.map(|(id, _)| id.clone()).find(|known| *known != id);
            if !space.subscriptions.contains_key(&id) {
                space.drawn.push(number(&id));
            }
            let known = space.subscriptions.entry(id.clone()).or_default();
            (known.url, known.events, known.state) = (text(&asked["url"]), events, State::Active);
            known.secrets.extend(secret);
            if let Some(other) = other {
                self.problem(format!("{key}: {id} was made although {other} has the same URL"));
            }
        }
        self.requests += 1;
        let row = Row { place: self.requests, ..row.clone() };
        self.space(key).rows.push(row);
    }

    fn flush_all(&mut self, is_reset: bool) {
        for key in self.model.keys.keys().cloned().collect::<Vec<_>>() {
            self.flush(&key, is_reset);
        }
    }

    /// Checks the quota of the requests so far, in the order in which they were counted.
    fn flush(&mut self, key: &str, is_reset: bool) {
        let plan = self.plan;
        let has_left = key == plan.left_key();
        let mut problems = Vec::new();
        let Some(space) = self.model.keys.get_mut(key) else { return };
        let mut rows = std::mem::take(&mut space.rows);
        rows.sort_by_key(Row::number);
        for row in rows {
            let number = row.number();
            let mut missing = space.last + 1..number;
            if number <= space.last {
                problems.push(format!("{key}: {} is recorded twice", row.id));
            }
            space.last = number;
            if let Some(missing) = missing.find(|number| !space.drawn.contains(number)) {
                // Those that were under way at a reset are not recorded, and what they cost is not known; nor are those whose client
                // had left, if the emulator stopped before it gave them up.
                if !is_reset && !has_left {
                    problems.push(format!("{key}: request {missing} was counted and not recorded"));
                }
                if !has_left {
                    break;
                }
            }
            let Some(quota) = row.quota.filter(|_| !has_left) else { continue };
            let is_free = plan.count == Count::Successful && row.status != 200 && !row.is_broken;
            let expected = space.charges.count(plan, quota.limit, row.at, row.place, is_free);
            let wait_ms = expected.wait_ms.map(|_| i64::try_from(quota.wait_ms).unwrap_or(i64::MAX));
            let found = Check { allowed: quota.allowed, remaining: quota.remaining, wait_ms };
            // A body comes later than its request was counted; what was found to be free in between was not yet.
            let is_late = plan.count == Count::Successful && !row.request.is_empty();
            if !found.agrees(&expected, is_late) {
                problems.push(format!(
                    "{key}: quota of {} ({}): expected {expected:?}, found {found:?}",
                    row.id, row.marker
                ));
                break;
            }
            if (row.status == 429) == quota.allowed {
                problems
                    .push(format!("{key}: {} was answered with {}, and its quota is {found:?}", row.id, row.status));
            }
        }
        self.problems.extend(problems);
    }

    /// Which subscriptions an event goes to.
    fn take_event(&mut self, event: &Event) {
        let copies = self.plan.copies;
        let mut problems = Vec::new();
        let space = self.space(&event.key);
        if !space.events.insert(event.id.clone()) {
            return self.take_again(event);
        }
        let mut targets: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, subscription) in &event.deliveries {
            *targets.entry(subscription).or_default() += 1;
        }
        for (id, subscription) in &space.subscriptions {
            let wants = subscription.events.contains(&event.kind);
            let found = targets.remove(id.as_str()).unwrap_or_default();
            let is_right = match subscription.state {
                State::Active => found == if wants { copies } else { 0 },
                State::Unsure => found == 0 || wants && found == copies,
                State::Ended => found == 0,
            };
            if !is_right {
                problems.push(format!("{}: {} goes to {id} {found} times: {subscription:?}", event.key, event.id));
            }
        }
        if !targets.is_empty() {
            problems.push(format!("{}: {} goes to unknown subscriptions: {targets:?}", event.key, event.id));
        }
        self.problems.extend(problems);
        let body = String::from_utf8_lossy(&event.body).into_owned();
        if let Some(marker) = marker_of(&body) {
            let (generation, latest) = (self.generation, self.resets.get(&event.key).copied().unwrap_or_default());
            let first = *self.markers.entry(marker.clone()).or_insert(generation);
            if first < latest {
                self.problem(format!("{}: the event {marker} is recorded after a reset", event.key));
            }
        }
        self.enter(event);
    }

    /// Each answer that a client got is in the journal, once, with the same bytes; each entry is of a request that was sent.
    fn compare_answers(&mut self, facts: &[Fact]) {
        let mut rows: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for fact in facts {
            if let Fact::Request(row) = fact {
                rows.entry(&row.marker).or_default().push(row);
            }
        }
        let exchanges = self.world.exchanges.lock().clone();
        let mut problems = Vec::new();
        for exchange in &exchanges {
            let found = rows.remove(exchange.marker.as_str()).unwrap_or_default();
            if found.len() > 1 {
                problems.push(format!("{} is recorded {} times", exchange.marker, found.len()));
            }
            problems.extend(self.compare_answer(exchange, found.first().copied()));
        }
        // Bytes that are no request have no marker.
        problems
            .extend(rows.keys().filter(|marker| !marker.is_empty()).map(|marker| format!("{marker} was never sent")));
        self.problems.extend(problems);
    }

    fn compare_answer(&self, exchange: &Exchange, row: Option<&Row>) -> Option<String> {
        let Exchange { marker, key, ask, answer, opened, sent, ended, has_left } = exchange;
        let Some(answer) = answer else {
            let is_fault = matches!(ask, Ask::Faulty("reset" | "empty" | "garbage"));
            // Without a fault, only a client that left, or a restart since it connected, breaks an exchange off.
            let cuts = self.world.cuts.lock();
            let is_cut = cuts.iter().any(|cut| !cut.is_reset && cut.began <= *ended && cut.ended >= *opened);
            let is_known = is_fault || *has_left || is_cut;
            return (!is_known).then(|| format!("{marker} was not answered: {ask:?}"));
        };
        let Some(row) = row else {
            let is_cleared = |cut: &crate::run::Cut| (cut.key.is_none() || cut.key == *key) && cut.ended >= *sent;
            let is_cleared = self.world.cuts.lock().iter().any(is_cleared);
            return (!is_cleared).then(|| format!("{marker} was answered with {} and not recorded", answer.status));
        };
        if answer.id().as_deref() != Some(&row.id) || row.key != *key {
            return Some(format!(
                "{marker} of {key:?} got the answer {:?}, and is recorded as {} of {:?}",
                answer.id(),
                row.id,
                row.key
            ));
        }
        if answer.status != row.status || answer.body != row.answer {
            return Some(format!("{marker} was answered with {}, and recorded with {}", answer.status, row.status));
        }
        if let Some(quota) = row.quota {
            let (limit, remaining) = (quota.limit.to_string(), quota.remaining.to_string());
            if answer.header("x-ratelimit-limit") != Some(&limit)
                || answer.header("x-ratelimit-remaining") != Some(&remaining)
            {
                return Some(format!("{marker} has other quota headers than its record: {quota:?}"));
            }
        }
        let is_right = match (ask, answer.status) {
            (Ask::Status | Ask::Faulty("slow") | Ask::Subscribe, 200)
            | (Ask::BadQuery | Ask::BadSubscribe, 422)
            | (Ask::Nowhere, 404)
            | (Ask::WrongKey, 401)
            | (Ask::Hello, 200 | 500) => true,
            (Ask::Nowhere | Ask::WrongKey | Ask::Hello, _) => false,
            (_, status) => status == 429,
        };
        (!is_right).then(|| format!("{marker}: {ask:?} was answered with {}", answer.status))
    }

    /// The stream shows every entry, in order; only a reset or a load takes some away.
    fn check_stream(&mut self) {
        let viewed = std::mem::take(&mut *self.world.viewed.lock());
        for (life, viewed) in viewed.iter().enumerate() {
            let wrong =
                viewed.numbers.windows(2).find(|two| two[1] <= two[0] || two[1] > two[0] + 1 && !viewed.cleared);
            if let Some([before, after]) = wrong {
                self.problem(format!("life {life}: the stream shows entry {after} after {before}"));
            }
        }
    }
}

/// The marker in an event that a call fired.
fn marker_of(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("\"marker\":\"")?;
    Some(rest.split('"').next()?.to_owned())
}
