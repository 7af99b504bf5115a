//! The event stream: what happens is reported at once, from where one left off.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wrs_emulator::Emulator;
use wrs_emulator::http::handler::Limits;

use crate::support::{
    MachineTime, PATIENCE, START, builder, control, fire, get, refused, start, started, subscribe_sink,
};
use crate::wire::peer::Peer;

/// A viewer of the stream.
struct Viewer {
    peer: Peer,
    text: String,
}

const VIEW: &str = "GET /_emulator/stream HTTP/1.1\r\nHost: localhost\r\n";

impl Viewer {
    async fn open(emulator: &Emulator, last: Option<&str>) -> Self {
        let resume = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        Self::sending(emulator, &format!("{VIEW}{resume}\r\n")).await
    }

    async fn sending(emulator: &Emulator, request: &str) -> Self {
        let mut viewer = Self { peer: Peer::sending(emulator, request).await, text: String::new() };
        viewer.until(": events from now on").await;
        viewer
    }

    /// How a further viewer is answered; it leaves at once.
    async fn asks(emulator: &Emulator) -> u16 {
        Peer::sending(emulator, format!("{VIEW}\r\n")).await.head().await.status
    }

    /// Reads until this text has come.
    async fn until(&mut self, text: &str) {
        let read = async {
            while !self.text.contains(text) {
                self.more().await;
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("it comes in time");
    }

    /// Reads what comes next.
    async fn more(&mut self) {
        let mut buffer = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, self.peer.stream.read(&mut buffer)).await.expect("it comes in time");
        let count = read.expect("the stream is open");
        assert!(count > 0, "the stream ended: {}", self.text);
        self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }

    /// The id of the last event of this kind.
    fn last(&self, kind: &str) -> String {
        let at = self.text.rfind(&format!("\nevent: {kind}")).expect("an event of the kind");
        self.text[..at].rsplit("id: ").next().expect("an id before it").trim().to_owned()
    }
}

#[tokio::test]
async fn what_happens_is_streamed_and_can_be_resumed() {
    let emulator = start().await;
    let mut viewer = Viewer::open(&emulator, None).await;
    assert!(viewer.text.contains("content-type: text/event-stream"), "{}", viewer.text);
    get(&emulator, "/v1/system/status").await;
    viewer.until("\"operation\":\"system.status\"").await;
    subscribe_sink(&emulator, "app").await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    viewer.until("event: attempt").await;
    let last = viewer.last("request");
    // A number alone means this emulator.
    let number = last.rsplit_once('-').expect("an instance and a number").1;
    for last in [last.as_str(), number] {
        let mut again = Viewer::open(&emulator, Some(last)).await;
        again.until("event: attempt").await;
        assert!(!again.text.contains("system.status"), "only what came after is reported again: {}", again.text);
        assert!(!again.text.contains("event: restarted"), "{}", again.text);
    }
    for wrong in ["x", "x-y", "", "-", "1-2-x"] {
        let refused =
            crate::support::send(&emulator, "GET", "/_emulator/stream", &[("last-event-id", wrong)], "").await;
        assert_eq!(refused.status, 422, "{wrong:?}");
    }
}

/// What an id of before a restart says of the numbers of after it is nothing.
#[tokio::test]
async fn a_viewer_from_before_a_restart_is_sent_what_happens_from_now_on() {
    let before = start().await;
    let mut viewer = Viewer::open(&before, None).await;
    for _ in 0..5 {
        get(&before, "/v1/system/status").await;
    }
    while viewer.text.matches("event: request").count() < 5 {
        viewer.more().await;
    }
    let last = viewer.last("request");
    drop(before);
    // Another time or seed is another instance; of the very same run, a number that is still to come shows it.
    let later = START.checked_add(jiff::SignedDuration::from_secs(1)).expect("a time");
    for after in [builder().frozen_at(later), builder().seed(8), builder(), Emulator::builder().seed(7)] {
        let after = started(after).await;
        get(&after, "/v1/hello").await;
        let mut viewer = Viewer::open(&after, Some(&last)).await;
        viewer.until("event: restarted\ndata: {\"message\":\"").await;
        get(&after, "/v1/system/status").await;
        viewer.until("\"operation\":\"system.status\"").await;
        assert!(!viewer.text.contains("\"operation\":\"hello\""), "from now on: {}", viewer.text);
        // The id of that event is one to resume at.
        let mut resumed = Viewer::open(&after, Some(&viewer.last("restarted"))).await;
        resumed.until("\"operation\":\"system.status\"").await;
        assert!(!resumed.text.contains("event: restarted"), "{}", resumed.text);
    }
    let other = started(builder().seed(8)).await;
    for _ in 0..9 {
        get(&other, "/v1/hello").await;
    }
    let mut viewer = Viewer::open(&other, Some(&last)).await;
    viewer.until("event: restarted").await;
    assert!(!viewer.text.contains("event: request"), "also where the number exists again: {}", viewer.text);
}

/// The same seed on a clock that stands at the same time gives the same ids.
#[tokio::test]
async fn ids_of_the_stream_are_fixed_by_seed_and_clock() {
    let ids = async |builder: wrs_emulator::Builder| {
        let emulator = started(builder).await;
        let mut viewer = Viewer::open(&emulator, None).await;
        get(&emulator, "/v1/system/status").await;
        viewer.until("event: request").await;
        viewer.last("request")
    };
    assert_eq!(ids(builder()).await, ids(builder()).await);
    assert_ne!(ids(builder()).await, ids(builder().seed(8)).await);
}

/// Viewers share the text of an entry; once it is forgotten, no further viewer gets it.
#[tokio::test]
async fn what_was_forgotten_is_not_told_again() {
    let emulator = start().await;
    let mut viewer = Viewer::open(&emulator, None).await;
    get(&emulator, "/v1/system/status").await;
    viewer.until("\"operation\":\"system.status\"").await;
    let first = viewer.last("request");
    assert_eq!(control(&emulator, "DELETE", "requests", &json!({})).await.status, 200);
    get(&emulator, "/v1/hello").await;
    let (instance, number) = first.rsplit_once('-').expect("an instance and a number");
    let before = number.parse::<u64>().expect("a number") - 1;
    let mut late = Viewer::open(&emulator, Some(&format!("{instance}-{before}"))).await;
    late.until("\"operation\":\"hello\"").await;
    assert!(!late.text.contains("system.status"), "{}", late.text);
}

#[tokio::test]
async fn viewers_are_bounded_and_their_seats_are_given_back() {
    let time = MachineTime::stop();
    // A viewer that is gone cannot be distinguished from one that only stopped sending until this deadline is over.
    let limits = Limits { idle_timeout: Duration::from_secs(1), ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let mut viewers = Vec::new();
    for _ in 0..64 {
        viewers.push(Viewer::open(&emulator, None).await);
    }
    let refused = control(&emulator, "GET", "stream", &Value::Null).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_viewers"));
    viewers.clear();
    assert_eq!(Viewer::asks(&emulator).await, 429, "their seats are kept until then");
    let seat = async { while Viewer::asks(&emulator).await != 200 {} };
    time.passes_until(tokio::time::timeout(PATIENCE, seat)).await.expect("a seat is free again");
}

#[tokio::test]
async fn a_viewer_gets_only_the_kinds_it_asks_for() {
    let emulator = start().await;
    let request = "GET /_emulator/stream?kind=event,attempt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut viewer = Viewer::sending(&emulator, request).await;
    subscribe_sink(&emulator, "app").await;
    get(&emulator, "/v1/system/status").await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    viewer.until("event: attempt").await;
    assert!(viewer.text.contains("event: event") && !viewer.text.contains("event: request"), "{}", viewer.text);
    refused(&emulator, "GET", "stream?kind=event,requests", &Value::Null, 422, "found `requests`").await;
}

/// One of 64 viewers reads nothing: the others learn at once what happens, and it is ended by the write deadline.
#[tokio::test]
async fn a_stuck_viewer_slows_no_other_and_loses_its_seat() {
    let time = MachineTime::stop();
    let emulator = started(
        builder()
            .set("rate_limit.enabled=false")
            .configure(|settings| settings.limits.write_timeout = Duration::from_millis(500)),
    )
    .await;
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let address: std::net::SocketAddr = emulator.base_url().trim_start_matches("http://").parse().expect("an address");
    let mut stuck = socket.connect(address).await.expect("the emulator listens");
    stuck.write_all(format!("{VIEW}\r\n").as_bytes()).await.expect("it is sent");
    let mut watcher = Viewer::open(&emulator, None).await;
    for _ in 2..64 {
        let mut viewer = Viewer::open(&emulator, None).await;
        tokio::spawn(async move { tokio::io::copy(&mut viewer.peer.stream, &mut tokio::io::sink()).await });
    }
    assert_eq!(Viewer::asks(&emulator).await, 429, "all seats are taken");
    // More and more is reported, until writing to the stuck one has to wait for longer than the deadline.
    let long = "x".repeat(100_000);
    let seat = async {
        for round in 0.. {
            emulator.control().note(format!("round={round}& {long}"));
            watcher.text.clear();
            watcher.until(&format!("round={round}&")).await;
            if round % 5 == 4 && Viewer::asks(&emulator).await == 200 {
                return;
            }
        }
    };
    time.passes_until(tokio::time::timeout(PATIENCE, seat)).await.expect("the stuck viewer's seat is free");
    drop(stuck);
}
