//! Instructions for one webhook over HTTP: the emulator delivers events to a hundred subscriptions; a bare client signs and posts.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::cases::{per, post as request, subscribe};
use crate::client;
use crate::counted::Counted;
use crate::plain::{self, IN_FLIGHT};
use crate::receiver::Receiver;
use crate::report::Figure;

/// Its name in the table.
pub(crate) const NAME: &str = "webhook over HTTP";
/// The argument that makes a process of this executable the bare client: `FLAG PORT POSTS_OF_EACH_CONNECTION`.
pub(crate) const FLAG: &str = "--bare-client";
/// Subscriptions that every event goes to.
const SUBSCRIPTIONS: usize = 100;
/// Events of the short and of the long run. More than the 100 up to which the answer to the call lists every delivery: that list is no
/// part of a delivery.
const EVENTS: [usize; 2] = [110, 150];
/// Posts on each connection of the bare client, in the short and in the long run.
const POSTS: [usize; 2] = [15, 75];

/// Instructions for one delivery, by the emulator and by the bare client.
pub(crate) fn measure() -> io::Result<Figure> {
    let emulator = difference(deliver(EVENTS[0])?, deliver(EVENTS[1])?, SUBSCRIPTIONS * (EVENTS[1] - EVENTS[0]));
    let bare = difference(bare(POSTS[0])?, self::bare(POSTS[1])?, IN_FLIGHT * (POSTS[1] - POSTS[0]));
    Ok(Figure { name: NAME, emulator, bare, goal: None, goal_times_bare: Some(1.3) })
}

fn difference(short: u64, long: u64, count: usize) -> f64 {
    per(long.saturating_sub(short), count)
}

fn deliver(events: usize) -> io::Result<u64> {
    let receiver = Receiver::start()?;
    let forward = format!("https://app.example.com=http://localhost:{}", receiver.port);
    let program = Path::new(env!("CARGO_BIN_EXE_wrs-emulator"));
    let arguments =
        ["serve", "--quiet", "--listen", "127.0.0.1:0", "--port-file", "url", "--seed", "1", "--forward", &forward];
    let arguments = arguments.into_iter().chain(["--set", "rate_limit.enabled=false"]).collect::<Vec<_>>();
    let mut server = Counted::start(program, &arguments, &[])?;
    let port = server.port()?;
    for number in 0..SUBSCRIPTIONS {
        expect(&client::ask(port, &subscribe(number))?, 200)?;
    }
    let body = format!(r#"{{"type":"workflow.completed","count":{events}}}"#);
    expect(&client::ask(port, &request("/_emulator/events?key=sk_test_local", &body))?, 200)?;
    wait(&receiver, SUBSCRIPTIONS * events)?;
    server.stop()
}

fn expect(answer: &client::Answer, status: u16) -> io::Result<()> {
    if answer.status() == status || answer.status() == status + 1 {
        return Ok(());
    }
    Err(io::Error::other(format!("{}\n{}", answer.head, answer.body)))
}

/// Waits until the receiver has had so many posts.
fn wait(receiver: &Receiver, posts: usize) -> io::Result<()> {
    for _ in 0..3000 {
        let answer = client::ask(receiver.port, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        if answer.body.parse() == Ok(posts) {
            return Ok(());
        }
        sleep(Duration::from_millis(20));
    }
    Err(io::Error::other("not all webhooks arrived within a minute"))
}

fn bare(posts: usize) -> io::Result<u64> {
    let receiver = Receiver::start()?;
    let arguments = [FLAG.to_owned(), receiver.port.to_string(), posts.to_string()];
    Counted::start(&std::env::current_exe()?, &arguments, &[])?.count()
}

/// Posts as the bare client, and ends.
pub(crate) fn post(port: &str, count: &str) -> io::Result<()> {
    let (port, count) = (port.parse().map_err(io::Error::other)?, count.parse().map_err(io::Error::other)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(plain::post(port, count));
    Ok(())
}
