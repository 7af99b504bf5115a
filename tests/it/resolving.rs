//! Names whose look-up never ends: they cost their own attempts, and nothing else.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;
use wrs_emulator::webhook::resolve::LookUp;
use wrs_emulator::{Builder, Emulator};

use crate::support::{
    KEY, MachineTime, PATIENCE, Receiver, ask, builder, started, subscribe, subscribe_as, subscribe_url,
};

/// A resolver that never answers for names below `hangs.example`, and knows this machine by every other name.
#[derive(Default)]
struct Names {
    asked: Mutex<Vec<String>>,
    changed: Condvar,
    is_over: Mutex<bool>,
}

impl Names {
    fn look_up(self: &Arc<Self>) -> LookUp {
        let names = Arc::clone(self);
        LookUp::new(move |name| {
            names.asked.lock().expect("no test panics with the lock").push(name.to_owned());
            if name.ends_with("hangs.example") {
                let over = names.is_over.lock().expect("no test panics with the lock");
                drop(names.changed.wait_while(over, |over| !*over).expect("no test panics with the lock"));
            }
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no test panics with the lock").clone()
    }

    async fn until_asked(&self, count: usize) {
        let asked = async {
            while self.asked().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, asked).await.expect("the look-ups begin");
    }
}

/// The names of one test, whose look-ups end with it.
struct Hanging(Arc<Names>);

impl Hanging {
    fn new() -> (Self, Arc<Names>) {
        let names: Arc<Names> = Arc::default();
        (Self(Arc::clone(&names)), names)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        *self.0.is_over.lock().expect("no test panics with the lock") = true;
        self.0.changed.notify_all();
    }
}

fn looking_up(names: &Arc<Names>) -> Builder {
    builder().configure(|settings| settings.look_up = names.look_up())
}

async fn fire_as(emulator: &Emulator, key: &str, kind: &str) -> Value {
    ask(emulator, "POST", "events", &json!({ "type": kind, "key": key })).await
}

#[tokio::test]
async fn a_thousand_names_that_hang_delay_no_other_receiver_and_no_stop() {
    let (_hanging, names) = Hanging::new();
    let mut receiver = Receiver::plain(&[]).await;
    let port = receiver.address.port();
    let emulator = started(
        looking_up(&names)
            .set("rate_limit.enabled=false")
            // Were anything to wait for these attempts, it would wait for an hour.
            .set("webhooks.timeout=1h")
            .forward(&format!("https://address.example.com=http://127.0.0.1:{port}"))
            .forward(&format!("https://name.example.com=http://name.example.com:{port}"))
            .configure(|settings| settings.grace = Duration::ZERO),
    )
    .await;
    for number in 0..1_000 {
        let hook = json!({ "url": format!("https://{number}.hangs.example/"), "events": ["reference.matched"] });
        assert_eq!(subscribe(&emulator, &hook).await.status, 200);
    }
    let good = |host: &str| json!({ "url": format!("https://{host}/"), "events": ["workflow.completed"] });
    assert_eq!(subscribe(&emulator, &good("address.example.com")).await.status, 200);
    assert_eq!(subscribe_as(&emulator, "sk_test_other", &good("name.example.com")).await.status, 200);
    let fired = fire_as(&emulator, "sk_test_local", "reference.matched").await;
    assert_eq!(fired["events"][0]["deliveries"].as_array().map(Vec::len), Some(1_000));
    names.until_asked(4).await;
    // The same workspace reaches an address, another one even a name.
    fire_as(&emulator, "sk_test_local", "workflow.completed").await;
    receiver.next().await;
    fire_as(&emulator, "sk_test_other", "workflow.completed").await;
    receiver.next().await;
    let asked: BTreeSet<String> = names.asked().into_iter().filter(|name| name.ends_with("hangs.example")).collect();
    assert_eq!((asked.len(), names.asked().len()), (4, 5), "a workspace has four look-ups at a time: {asked:?}");
    timeout(PATIENCE, emulator.stop()).await.expect("a stop waits for no look-up").expect("it stops");
}

#[tokio::test]
async fn an_attempt_ends_with_its_timeout_while_the_look_up_hangs() {
    let time = MachineTime::stop();
    let (_hanging, names) = Hanging::new();
    let emulator = started(looking_up(&names).set("webhooks.timeout=200ms").set("webhooks.retry.preset=none")).await;
    subscribe_url(&emulator, KEY, "https://one.hangs.example/").await;
    for _ in 0..3 {
        let event = json!({ "type": "workflow.completed" });
        let fired = time.passes_until(crate::support::fire(&emulator, &event)).await;
        let outcome = &fired["deliveries"][0]["attempts"][0]["outcome"];
        assert_eq!(outcome["failure"], "timeout", "{outcome}");
        let detail = outcome["detail"].as_str().expect("text");
        for part in ["one.hangs.example", "webhooks.timeout"] {
            assert!(detail.contains(part), "{detail}");
        }
        assert_eq!(outcome["hint"]["advice"]["do"], "forward", "{outcome}");
    }
    assert_eq!(names.asked(), ["one.hangs.example"], "the look-up under way serves later attempts");
}

#[tokio::test]
async fn a_workspace_whose_receivers_hang_leaves_room_for_others() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut receiver = Receiver::plain(&[]).await;
    let emulator = started(
        builder()
            .set("rate_limit.enabled=false")
            .set("webhooks.timeout=1h")
            .forward(&format!("https://silent.example.com=http://{}", silent.local_addr().expect("an address")))
            .forward(&format!("https://app.example.com=http://{}", receiver.address))
            .configure(|settings| settings.grace = Duration::ZERO),
    )
    .await;
    for number in 0..300 {
        subscribe_url(&emulator, KEY, &format!("https://silent.example.com/{number}")).await;
    }
    subscribe_url(&emulator, "sk_test_other", "https://app.example.com/").await;
    fire_as(&emulator, "sk_test_local", "workflow.completed").await;
    // As many as may be under way: the receiver accepts their connections and says nothing.
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(timeout(PATIENCE, silent.accept()).await.expect("an attempt in time").expect("a connection"));
    }
    fire_as(&emulator, "sk_test_other", "workflow.completed").await;
    receiver.next().await;
    timeout(PATIENCE, emulator.stop()).await.expect("a stop waits for no receiver").expect("it stops");
    // Nothing can connect any more.
    assert!(silent.accept().now_or_never().is_none(), "a workspace has 64 attempts at a time");
}

#[test]
fn a_runtime_ends_while_a_look_up_hangs() {
    let (_hanging, names) = Hanging::new();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let emulator = started(looking_up(&names)).await;
            subscribe_url(&emulator, KEY, "https://one.hangs.example/").await;
            fire_as(&emulator, "sk_test_local", "workflow.completed").await;
            names.until_asked(1).await;
        });
        drop(runtime);
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(PATIENCE).expect("the runtime waits for no look-up");
}
