//! Receivers on their own hosts: they accept, refuse, stall, break off, go away and come back, and write down all that they get.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};
use wrs_emulator::util::net::simulated::{TcpSocket, TcpStream};

use crate::plan::{Plan, TIMEOUT_MS, chance};
use crate::wire::Connection;

/// One delivery as a receiver got it.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) at: Instant,
    pub(crate) host: IpAddr,
    /// Whose it is, from the path.
    pub(crate) key: String,
    pub(crate) delivery: String,
    pub(crate) id: String,
    pub(crate) timestamp: String,
    pub(crate) signature: String,
    pub(crate) body: Vec<u8>,
    /// What was answered, if anything was.
    pub(crate) status: Option<u16>,
}

pub(crate) type Posts = Arc<Mutex<Vec<Post>>>;

pub(crate) fn host(number: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, 1 + u8::try_from(number).unwrap_or_default()).into()
}

/// A receiver, which may be down.
pub(crate) struct Receiver {
    pub(crate) host: IpAddr,
    chance: Arc<Mutex<ChaCha8Rng>>,
    accepts: u32,
    posts: Posts,
    running: Option<AbortHandle>,
}

impl Receiver {
    pub(crate) fn new(plan: &Plan, number: usize, posts: &Posts) -> Self {
        Self {
            host: host(number),
            chance: Arc::new(Mutex::new(chance(plan.seed, &format!("receiver {number}")))),
            accepts: plan.accepts,
            posts: Arc::clone(posts),
            running: None,
        }
    }

    pub(crate) fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(self.host, 80)).expect("a free port");
        let listener = socket.listen(1024).expect("a bound socket");
        let (chance, posts, host, accepts) =
            (Arc::clone(&self.chance), Arc::clone(&self.posts), self.host, self.accepts);
        let serving = tokio::spawn(async move {
            // Dropped with the task, so that a receiver that goes down closes all of its connections.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (chance, posts) = (Arc::clone(&chance), Arc::clone(&posts));
                connections.spawn(serve(stream, host, accepts, chance, posts));
            }
        });
        self.running = Some(serving.abort_handle());
    }

    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }
}

async fn serve(stream: TcpStream, host: IpAddr, accepts: u32, chance: Arc<Mutex<ChaCha8Rng>>, posts: Posts) {
    let mut connection = Connection::of(stream);
    loop {
        let Some((line, headers)) = connection.head().await else { return };
        let Some(body) = connection.sized_body(&headers).await else { return };
        let target = line.split(' ').nth(1).unwrap_or_default();
        let of = |name: &str| {
            headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let post = Post {
            at: Instant::now(),
            host,
            key: target.split('/').nth(1).unwrap_or_default().to_owned(),
            delivery: of("x-emulator-delivery"),
            id: of("webhook-id"),
            timestamp: of("webhook-timestamp"),
            signature: of("webhook-signature"),
            body,
            status: None,
        };
        let at = {
            let mut posts = posts.lock();
            posts.push(post);
            posts.len() - 1
        };
        let (accepted, kind, wait) = {
            let mut chance = chance.lock();
            (chance.random_ratio(accepts, 10), chance.random_range(0..20), chance.random_range(0..1_500))
        };
        let answered = |status| posts.lock()[at].status = Some(status);
        let (status, further, is_last) = match kind {
            _ if accepted => (200, "", kind == 0),
            0..=5 => (500, "", false),
            6..=8 => (503, "retry-after: 3\r\n", false),
            9 => (410, "", false),
            10 => (302, "location: /elsewhere\r\n", true),
            11 | 12 => {
                // Never answers; the emulator gives up.
                sleep(Duration::from_millis(3 * TIMEOUT_MS)).await;
                return;
            }
            13 => {
                answered(200);
                sleep(Duration::from_millis(wait + 600)).await;
                (200, "", false)
            }
            14..=16 => return connection.reset(),
            17 => {
                // The status decides.
                answered(200);
                let _ = connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
                return;
            }
            18 => {
                let _ = connection.send(b"no answer at all\r\n\r\n").await;
                return;
            }
            _ => return,
        };
        answered(status);
        let ends = if is_last { "connection: close\r\n" } else { "" };
        let answer = format!("HTTP/1.1 {status} As planned\r\n{further}{ends}content-length: 2\r\n\r\nok");
        if connection.send(answer.as_bytes()).await.is_none() || is_last {
            return;
        }
    }
}
