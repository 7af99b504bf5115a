//! Clients of the emulated API: some obey `Retry-After`, some do not, some send many requests at once or leave in the middle.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::plan::{Count, Mode, chance, key};
use crate::receivers::host;
use crate::run::World;
use crate::wire::{Answer, Connection, PORT};

/// A request, and what was answered to it.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) marker: String,
    pub(crate) key: Option<String>,
    pub(crate) ask: Ask,
    pub(crate) answer: Option<Answer>,
    /// When its connection began to be opened.
    pub(crate) opened: Instant,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
    /// True if the client left before the answer.
    pub(crate) has_left: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    Status,
    /// With what the scenario does to it.
    Faulty(&'static str),
    BadQuery,
    Nowhere,
    Hello,
    Subscribe,
    BadSubscribe,
    WrongKey,
}

struct Client {
    world: Arc<World>,
    name: String,
    chance: ChaCha8Rng,
    from: IpAddr,
    sent: usize,
    connection: Option<Connection>,
    opened: Instant,
}

pub(crate) async fn act(world: Arc<World>, round: usize, number: usize) {
    let name = format!("r{round}c{number}");
    let chance = chance(world.plan.seed, &name);
    let from = Ipv4Addr::new(10, 1, 0, u8::try_from(number).unwrap_or_default()).into();
    let mut client = Client { world, name, chance, from, sent: 0, connection: None, opened: Instant::now() };
    sleep(Duration::from_millis(client.chance.random_range(0..500))).await;
    if number == 0 {
        return client.obey().await;
    }
    match client.chance.random_range(0..5) {
        0 => client.hammer().await,
        1 | 2 => client.pipeline().await,
        3 => client.subscribe().await,
        _ => client.quit().await,
    }
}

/// Subscribes some keys at the beginning, so that there is something to deliver.
pub(crate) async fn begin(world: Arc<World>) {
    let chance = chance(world.plan.seed, "begin");
    let from = Ipv4Addr::new(10, 1, 2, 1).into();
    let keys = world.plan.keys;
    let mut client =
        Client { world, name: "begin".to_owned(), chance, from, sent: 0, connection: None, opened: Instant::now() };
    for number in 0..keys {
        for _ in 0..client.chance.random_range(0..=2) {
            client.exchange(vec![(Ask::Subscribe, Some(key(number)))]).await;
        }
    }
}

impl Client {
    /// A key that other clients use as well. The last belongs to the client that obeys, the one before it to those that leave.
    fn key(&mut self) -> String {
        key(self.chance.random_range(0..self.world.plan.keys - 2))
    }

    /// A request in bytes, and what is known of it.
    fn request(&mut self, ask: Ask, key: Option<&str>) -> (Vec<u8>, Exchange) {
        self.sent += 1;
        let marker = format!("{}n{}", self.name, self.sent);
        let mut further = String::new();
        let (method, target, body) = match ask {
            Ask::Status | Ask::WrongKey => ("GET", "/v1/system/status".to_owned(), None),
            Ask::Faulty(fault) => {
                further = format!("x-fault: {fault}\r\n");
                ("GET", "/v1/system/status?include_checks=true".to_owned(), None)
            }
            Ask::BadQuery => ("GET", "/v1/system/status?include_checks=perhaps".to_owned(), None),
            Ask::Nowhere => ("GET", format!("/v1/nowhere/{marker}"), None),
            Ask::Hello => ("GET", "/v1/hello".to_owned(), None),
            Ask::Subscribe => {
                let receiver = host(self.chance.random_range(0..self.world.plan.receivers));
                let path = self.chance.random_range(0..3);
                let url = format!("http://{receiver}/{}/{path}", key.unwrap_or_default());
                let events = match self.chance.random_range(0..3) {
                    0 => json!(["workflow.completed"]),
                    1 => json!(["reference.matched"]),
                    _ => json!(["workflow.completed", "reference.matched"]),
                };
                let mut body = json!({ "url": url, "events": events });
                if self.chance.random_bool(0.3) {
                    let digits: String = (0..32).map(|_| char::from(self.chance.random_range(b'a'..=b'z'))).collect();
                    body["secret"] = json!(format!("whsec_{digits}"));
                }
                ("POST", "/v1/events/subscribe".to_owned(), Some(body.to_string()))
            }
            Ask::BadSubscribe => ("POST", "/v1/events/subscribe".to_owned(), Some(json!({ "events": [] }).to_string())),
        };
        if let Some(key) = key {
            further.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        if let Some(body) = &body {
            further.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        let body = body.unwrap_or_default();
        let text = format!(
            "{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\nx-marker: {marker}\r\n{further}\r\n{body}"
        );
        let now = Instant::now();
        let key = key.filter(|key| key.starts_with("sk_test_")).map(str::to_owned);
        let exchange =
            Exchange { marker, key, ask, answer: None, opened: self.opened, sent: now, ended: now, has_left: false };
        (text.into_bytes(), exchange)
    }

    /// The open connection, or another; the emulator may be just starting again.
    async fn connect(&mut self) -> Option<&mut Connection> {
        for _ in 0..40 {
            if self.connection.is_some() {
                break;
            }
            self.opened = Instant::now();
            self.connection = Connection::open(self.from).await;
            if self.connection.is_none() {
                sleep(Duration::from_millis(200)).await;
            }
            self.world.connections.fetch_add(1, Ordering::Relaxed);
        }
        self.connection.as_mut()
    }

    /// Makes requests at once on one connection, and reads their answers in order; returns the last.
    async fn exchange(&mut self, asked: Vec<(Ask, Option<String>)>) -> Option<Answer> {
        self.connect().await?;
        let requests: Vec<_> = asked.into_iter().map(|(ask, key)| self.request(ask, key.as_deref())).collect();
        let mut connection = self.connection.take()?;
        let bytes: Vec<u8> = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let mut is_open = connection.send(&bytes).await.is_some();
        let mut last = None;
        for (_, mut exchange) in requests {
            if is_open {
                exchange.answer = connection.answer().await;
            } else {
                // An answer before it said that it is the last.
                exchange.has_left = last.is_some();
            }
            exchange.ended = Instant::now();
            is_open = exchange.answer.as_ref().is_some_and(|answer| answer.header("connection") != Some("close"));
            last = exchange.answer.clone().or(last);
            self.world.exchanges.lock().push(exchange);
        }
        if is_open {
            self.connection = Some(connection);
        }
        last
    }

    async fn pause(&mut self, most_ms: u64) {
        let pause = self.chance.random_range(0..=most_ms);
        sleep(Duration::from_millis(pause)).await;
    }

    /// Waits as long as a 429 says; the next request must then be let through.
    async fn obey(&mut self) {
        let key = key(self.world.plan.keys - 1);
        let mut waited = None;
        for _ in 0..self.chance.random_range(6..20) {
            let Some(answer) = self.exchange(vec![(Ask::Status, Some(key.clone()))]).await else { continue };
            let disturbances = self.world.disturbances.load(Ordering::Relaxed);
            if answer.status == 429 {
                if waited == Some(disturbances) {
                    self.world
                        .problem(format!("{}: a 429 although the client waited as long as it was told", self.name));
                }
                let wait = answer.header("retry-after").and_then(|wait| wait.parse().ok());
                let Some(wait) = wait else {
                    self.world.problem(format!("{}: a 429 without Retry-After", self.name));
                    return;
                };
                if self.world.plan.mode == Mode::Real {
                    sleep(Duration::from_secs(wait)).await;
                    waited = Some(disturbances);
                } else {
                    // Its clock moves only when it is told to.
                    self.pause(1_000).await;
                }
            } else {
                waited = None;
                self.pause(300).await;
            }
        }
    }

    async fn hammer(&mut self) {
        let key = self.key();
        for _ in 0..self.chance.random_range(10..40) {
            let ask = match self.chance.random_range(0..12) {
                // Another clock would have to be moved for it.
                0 if self.world.plan.mode == Mode::Real => Ask::Faulty("slow"),
                1 => Ask::Faulty(["reset", "empty", "garbage"][self.chance.random_range(0..3)]),
                _ => Ask::Status,
            };
            self.exchange(vec![(ask, Some(key.clone()))]).await;
            self.pause(30).await;
        }
    }

    async fn pipeline(&mut self) {
        for _ in 0..self.chance.random_range(2..6) {
            let count = self.chance.random_range(2..9);
            let mut asked = Vec::new();
            for _ in 0..count {
                let key = self.key();
                let bad = if self.world.plan.count == Count::Successful { Ask::BadQuery } else { Ask::BadSubscribe };
                let slow = if self.world.plan.mode == Mode::Real { Ask::Faulty("slow") } else { Ask::Status };
                let ask = match self.chance.random_range(0..9) {
                    0 => Ask::BadQuery,
                    1 => Ask::Nowhere,
                    2 => Ask::Hello,
                    3 => Ask::Subscribe,
                    4 => bad,
                    5 => Ask::WrongKey,
                    6 => slow,
                    _ => Ask::Status,
                };
                let key = match ask {
                    Ask::Hello => None,
                    Ask::WrongKey => Some("wrong".to_owned()),
                    _ => Some(key),
                };
                asked.push((ask, key));
            }
            self.exchange(asked).await;
            self.pause(700).await;
        }
    }

    async fn subscribe(&mut self) {
        for _ in 0..self.chance.random_range(2..6) {
            let key = self.key();
            self.exchange(vec![(Ask::Subscribe, Some(key))]).await;
            self.pause(900).await;
        }
    }

    /// Leaves before the answer, or in the middle of a request.
    async fn quit(&mut self) {
        let key = self.world.plan.left_key();
        for _ in 0..self.chance.random_range(2..7) {
            let ask = match self.chance.random_range(0..3) {
                0 => Ask::Status,
                1 => Ask::Faulty("slow"),
                _ => Ask::Subscribe,
            };
            if self.connect().await.is_none() {
                return;
            }
            let (bytes, mut exchange) = self.request(ask, Some(&key));
            let Some(mut connection) = self.connection.take() else { return };
            let size =
                if self.chance.random_bool(0.5) { bytes.len() } else { self.chance.random_range(1..bytes.len()) };
            exchange.has_left = true;
            connection.send(&bytes[..size]).await;
            self.pause(60).await;
            exchange.ended = Instant::now();
            self.world.exchanges.lock().push(exchange);
            if self.chance.random_bool(0.5) {
                connection.reset();
            }
            self.pause(200).await;
        }
    }
}
