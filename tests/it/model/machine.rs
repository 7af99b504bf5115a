//! The emulator under test and its reference: carries out one command on both and compares everything that can be seen.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use wrs_emulator::Emulator;

use super::commands::{Command, KEYS, OUTSIDE, Rules};
use super::reference::{ROTATION_GRACE, Saved, World};
use super::requests::{Expected, LISTS, Operation, SCENARIOS};
use crate::support::{Answer, Client, Received, Receiver, START, builder};

pub(super) const KINDS: [&str; 2] = ["workflow.completed", "reference.matched"];
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What is compared either agrees or is told.
type Seen = Result<(), String>;

pub(super) struct Machine {
    emulator: Emulator,
    client: Client,
    /// The receivers behind sockets, one for each key, and what they got.
    outside: Vec<Receiver>,
    came: [Vec<Received>; KEYS],
    world: World,
    /// The ids behind the reference's numbers.
    ids: HashMap<u64, String>,
    saved: Option<(Value, Saved)>,
    /// Deliveries whose attempts were looked at one by one, by how many there were.
    looked_at: HashSet<(String, usize)>,
}

pub(super) fn name(key: usize) -> String {
    format!("sk_test_model_{key}")
}

fn shown(millis: i64) -> String {
    let at = Timestamp::from_millisecond(millis).expect("a time within the range");
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Seen {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}

fn hook_url(key: usize, hook: usize) -> String {
    if hook == OUTSIDE {
        return format!("https://outside-{key}.example.com/");
    }
    format!("https://{}.sink.localhost/hooks", sink_name(key, hook))
}

fn sink_name(key: usize, hook: usize) -> String {
    format!("model-{key}-{hook}")
}

fn events_of(bits: u8) -> Vec<&'static str> {
    (0..2).filter(|kind| bits & (1 << kind) != 0).map(|kind| KINDS[kind]).collect()
}

impl Machine {
    pub(super) async fn start(rules: &Rules) -> Self {
        let custom = rules.schedule.iter().filter(|_| rules.preset == "custom");
        let schedule: Vec<String> = custom.map(|millis| format!("\"{millis}ms\"")).collect();
        let mut settings = vec![
            format!("rate_limit.requests={}", rules.requests),
            "rate_limit.window=10s".to_owned(),
            format!("rate_limit.algorithm={}", snake(&format!("{:?}", rules.algorithm))),
            format!("rate_limit.count={}", snake(&format!("{:?}", rules.count))),
            format!("webhooks.retry.preset={}", rules.preset),
            "webhooks.retry.jitter=0".to_owned(),
            format!("webhooks.order={}", if rules.strict { "strict" } else { "first_attempts" }),
            "webhooks.timestamp=clock".to_owned(),
            format!("webhooks.rotation_grace={ROTATION_GRACE}ms"),
        ];
        if !schedule.is_empty() {
            settings.insert(0, format!("webhooks.retry.schedule=[{}]", schedule.join(",")));
        }
        let mut builder = settings.iter().fold(builder(), |builder, setting| builder.set(setting));
        let mut outside = Vec::new();
        for key in 0..KEYS {
            let receiver = Receiver::plain(&[]).await;
            builder = builder.forward(&format!("https://outside-{key}.example.com=http://{}", receiver.address));
            outside.push(receiver);
        }
        let emulator = builder.start().await.expect("it starts");
        let client = Client::new(&emulator);
        let world = World::new(rules.clone(), START.as_millisecond());
        let (ids, looked_at) = (HashMap::new(), HashSet::new());
        let came = Default::default();
        let mut machine = Self { emulator, client, outside, came, world, ids, saved: None, looked_at };
        machine.put_scenarios().await;
        machine
    }

    async fn put_scenarios(&mut self) {
        for (name, text) in SCENARIOS {
            let toml = [("content-type", "application/toml")];
            let put = self.client.send("PUT", &format!("/_emulator/scenarios/{name}"), &toml, text).await;
            assert_eq!(put.status, 200, "{put:?}");
        }
    }

    /// Carries out one command on both sides, lets everything settle that is due, and compares.
    pub(super) async fn act(&mut self, command: &Command) -> Seen {
        let touched = self.perform(command).await?;
        self.emulator.control().settle().await;
        (0..KEYS).for_each(|key| self.world.run_due(key));
        for key in touched.map_or(0..KEYS, |key| key..key + 1) {
            self.compare(key).await?;
        }
        Ok(())
    }

    /// Says which key was touched; `None` for all.
    async fn perform(&mut self, command: &Command) -> Result<Option<usize>, String> {
        match *command {
            Command::Status { key } => self.status(key, "", false).await?,
            Command::BadQuery { key } => self.status(key, "?include_checks=perhaps", false).await?,
            Command::Named { key } => self.status(key, "", true).await?,
            Command::Nowhere { key } => self.nowhere(key).await?,
            Command::Subscribe { key, hook, events, secret } => self.subscribe(key, hook, events, secret).await?,
            Command::BadSubscribe { key } => {
                let body = json!({ "url": "http://plain.example.com/", "events": [KINDS[0]] });
                let answer = self.client.send_as(&name(key), "POST", "/v1/events/subscribe", body.to_string()).await;
                let refused = |_: &mut World| (422, Some("validation_error"));
                let expected = self.world.request(key, Operation::Subscribe, false, refused);
                check(&answer, &expected)?;
            }
            Command::Fire { key, kind, delay } => {
                let mut wish = json!({ "type": KINDS[kind], "key": name(key) });
                if delay > 0 {
                    wish["delay"] = format!("{delay}ms").into();
                }
                let answer = self.control("POST", "events", &wish).await;
                let expected = if self.world.fire(key, kind, delay) > 0 { 200 } else { 404 };
                same("status of an event", answer.status, expected)?;
            }
            Command::Answer { key, hook, ref answers } => {
                if hook == OUTSIDE {
                    self.outside[key].answer(answers);
                    self.world.outside[key].answers = answers.iter().copied().collect();
                } else {
                    let path = format!("sink/{}", sink_name(key, hook));
                    self.order("POST", &path, &json!({ "respond": answers })).await?;
                    self.world.sinks.entry((key, hook)).or_default().answers = answers.iter().copied().collect();
                }
            }
            Command::Rotate { key, at } | Command::Delete { key, at } | Command::Switch { key, at, .. } => {
                self.change_subscription(key, at, command).await?;
            }
            Command::Scenarios { key, list } => {
                self.order("POST", "scenarios/active", &json!({ "active": LISTS[list], "key": key.map(name) })).await?;
                let active = (list, self.world.number());
                match key {
                    None => self.world.global = active,
                    Some(key) => {
                        self.world.space(key);
                        self.world.own[key] = Some(active);
                    }
                }
                return Ok(key);
            }
            Command::Requests { key, most } => {
                let path = format!("profile?key={}", name(key));
                self.order("PATCH", &path, &json!({ "rate_limit.requests": most })).await?;
                self.world.space(key);
                self.world.settings[key] = Some(most);
            }
            Command::Advance { key, .. } | Command::Set { key, .. } => return self.move_clock(key, command).await,
            Command::Freeze { key } | Command::Resume { key } | Command::Follow { key } => {
                return self.move_clock(Some(key), command).await;
            }
            Command::Reset { key } => {
                let wish = json!({ "key": key.map_or_else(|| "*".to_owned(), name) });
                let told = self.order("POST", "reset", &wish).await?;
                let count = key.map_or_else(|| self.world.spaces.iter().flatten().count(), |_| 1);
                same("keys that were reset", told["reset"].as_array().map(Vec::len), Some(count))?;
                self.world.reset(key);
                self.looked_at.clear();
                if key.is_none() {
                    self.put_scenarios().await;
                }
                return Ok(key);
            }
            Command::Save { key } => {
                self.open(key);
                let path = format!("snapshot?key={}", key.map_or_else(|| "*".to_owned(), name));
                let snapshot = self.order("GET", &path, &Value::Null).await?;
                self.saved = Some((snapshot, Saved { key, world: self.world.clone() }));
                return Ok(key);
            }
            Command::Load => {
                let Some((snapshot, saved)) = self.saved.clone() else { return Ok(None) };
                let told = self.order("PUT", "snapshot", &snapshot).await?;
                same("warnings of a load", &told["warnings"], &json!([]))?;
                self.world.load(&saved);
                self.looked_at.clear();
                return Ok(saved.key);
            }
        }
        Ok(command.key())
    }

    async fn move_clock(&mut self, key: Option<usize>, command: &Command) -> Result<Option<usize>, String> {
        self.open(key);
        let wish = match *command {
            Command::Advance { millis, .. } => {
                match key {
                    None => self.world.pass_all(millis),
                    Some(key) => self.world.pass(key, millis),
                }
                json!({ "advance": format!("{millis}ms") })
            }
            Command::Set { millis, .. } => {
                let wall = key.map_or(self.world.wall, |key| self.world.space(key).wall);
                self.world.set(key, millis);
                json!({ "set": shown(wall + millis) })
            }
            Command::Freeze { key } => {
                self.world.space(key).frozen = true;
                json!({ "mode": "frozen" })
            }
            Command::Resume { key } => {
                self.world.space(key).frozen = false;
                json!({ "mode": "real" })
            }
            Command::Follow { key } => {
                self.world.follow(key);
                json!({ "mode": "follow" })
            }
            _ => unreachable!("only these move a clock"),
        };
        self.clock(key, &wish).await
    }

    /// A call of the control API opens the space of the key that it names.
    fn open(&mut self, key: Option<usize>) {
        if let Some(key) = key {
            self.world.space(key);
        }
    }

    async fn control(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("content-type", "application/json")];
        self.client.send(method, &format!("/_emulator/{path}"), &headers, text).await
    }

    /// A call of the control API that is done.
    async fn order(&mut self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let answer = self.control(method, path, body).await;
        same(path, answer.status, 200).map_err(|problem| format!("{problem}: {answer:?}"))?;
        Ok(answer.json())
    }

    /// A change of a clock; the reference's has been changed already.
    async fn clock(&mut self, key: Option<usize>, wish: &Value) -> Result<Option<usize>, String> {
        let mut wish = wish.clone();
        if let Some(key) = key {
            wish["key"] = name(key).into();
        }
        let told = self.order("POST", "clock", &wish).await?;
        let wall = self.world.wall;
        let (now, follows) = match key {
            None => (wall, Value::Null),
            Some(key) => {
                let space = self.world.space(key);
                (space.wall, json!(!space.frozen && space.wall == wall))
            }
        };
        same(
            "the clock",
            (&told["mode"], &told["now"], &told["follows"]),
            (&json!("frozen"), &json!(shown(now)), &follows),
        )?;
        Ok(key)
    }

    async fn status(&mut self, key: usize, query: &str, named: bool) -> Seen {
        let path = format!("/v1/system/status{query}");
        let bearer = format!("Bearer {}", name(key));
        let headers = [("authorization", bearer.as_str()), ("x-emulator-scenario", "two")];
        let answer = self.client.send("GET", &path, &headers[..if named { 2 } else { 1 }], "").await;
        let ordinary = if query.is_empty() { (200, None) } else { (422, Some("validation_error")) };
        let expected = self.world.request(key, Operation::Status, named, |_| ordinary);
        check(&answer, &expected)?;
        if expected.status == 200 {
            same("checked_at", &answer.json()["checked_at"], &json!(shown(expected.wall)))?;
        }
        Ok(())
    }

    /// A request that leads to no endpoint is its key's and costs nothing.
    async fn nowhere(&mut self, key: usize) -> Seen {
        let answer = self.client.send_as(&name(key), "GET", "/v1/nowhere", "").await;
        let expected = self.world.nowhere(key);
        check(&answer, &expected)?;
        let newest = self.order("GET", &format!("requests?limit=1&key={}", name(key)), &Value::Null).await?;
        let newest = &newest["data"][0];
        let id = answer.header("x-emulator-request-id");
        same(
            "the newest request of the key",
            (newest["id"].as_str(), newest["at"].as_str()),
            (id, Some(shown(expected.wall).as_str())),
        )
    }

    async fn subscribe(&mut self, key: usize, hook: usize, events: u8, secret: bool) -> Seen {
        let mut body = json!({ "url": hook_url(key, hook), "events": events_of(events) });
        if secret {
            body["secret"] = SECRET.into();
        }
        let answer = self.client.send_as(&name(key), "POST", "/v1/events/subscribe", body.to_string()).await;
        let mut made = None;
        let expected = self.world.request(key, Operation::Subscribe, false, |world| {
            made = Some(world.subscribe(key, hook, events, secret));
            (200, None)
        });
        check(&answer, &expected)?;
        let Some((number, is_new)) = made else { return Ok(()) };
        let told = answer.json();
        same("whether a secret is shown", told["secret"].is_string(), is_new && !secret)?;
        self.know(number, &told["id"])
    }

    async fn change_subscription(&mut self, key: usize, at: usize, command: &Command) -> Seen {
        let Some(space) = self.world.spaces[key].as_mut().filter(|space| !space.subscriptions.is_empty()) else {
            return Ok(());
        };
        let at = at % space.subscriptions.len();
        let moment = space.moment;
        let path = format!("subscriptions/{}", self.ids[&space.subscriptions[at].number]);
        match command {
            Command::Switch { active, .. } => {
                space.subscriptions[at].active = *active;
                let status = if *active { "active" } else { "disabled" };
                self.order("PUT", &path, &json!({ "status": status })).await?;
            }
            Command::Rotate { .. } => {
                space.subscriptions[at].previous = Some(moment + ROTATION_GRACE);
                self.order("POST", &format!("{path}/rotate"), &json!({})).await?;
            }
            _ => {
                space.subscriptions.remove(at);
                self.order("DELETE", &path, &Value::Null).await?;
            }
        }
        Ok(())
    }

    /// Notes the id behind a number; one number never has two.
    fn know(&mut self, number: u64, id: &Value) -> Seen {
        let id = id.as_str().ok_or_else(|| format!("expected an id, found {id}"))?;
        let known = self.ids.entry(number).or_insert_with(|| id.to_owned());
        same("an id", id, known.as_str())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A case that failed has looked at nothing more.
        self.outside.iter_mut().for_each(|receiver| while receiver.try_next().is_some() {});
    }
}

/// Compares an answer of the emulated API.
fn check(answer: &Answer, expected: &Expected) -> Seen {
    let number = |name: &str| answer.header(name).map(|text| text.parse::<u32>().expect("a number"));
    let quota = number("x-ratelimit-limit").zip(number("x-ratelimit-remaining"));
    let code = (answer.status != 200).then(|| answer.code());
    same(
        "status, code and quota of an answer",
        (answer.status, code.as_deref(), quota),
        (expected.status, expected.code, expected.quota),
    )
}

/// `TokenBucket` as `token_bucket`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

mod compare;
