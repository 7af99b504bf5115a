//! What the targets that go over a socket share: one running emulator, and one exchange of bytes with it.
//!
//! A panic anywhere ends the target, also one that the emulator would answer with a 500: the fuzzer's panic hook comes first.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use wrs_emulator::Emulator;

/// Longest that one exchange may take: a snapshot gives attempts under way ten seconds to end.
const PATIENCE: Duration = Duration::from_secs(15);

struct Served {
    runtime: Runtime,
    address: SocketAddr,
    _emulator: Emulator,
}

fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| {
        let runtime = Runtime::new().expect("the runtime starts");
        let emulator = runtime.block_on(async {
            let builder = Emulator::builder().seed(7).set("rate_limit.enabled=false");
            // Little is kept, so that memory says something about one input and not about all of them.
            let builder = builder.configure(|settings| {
                settings.max_journal_entries = 100;
                settings.max_workspaces = 20;
            });
            builder.start().await.expect("the emulator starts")
        });
        let address = emulator.base_url().trim_start_matches("http://").parse().expect("an address");
        Served { runtime, address, _emulator: emulator }
    })
}

/// Sends any bytes, closes that half, and gives what comes back; panics if there is no end in time. A request whose answer takes
/// a moment may get none: a client that has closed is taken for gone.
pub fn exchange(bytes: &[u8]) -> Vec<u8> {
    send(bytes, true)
}

/// Sends a whole request that asks for the connection to be closed, and gives the answer.
pub fn ask(request: &[u8]) -> Vec<u8> {
    send(request, false)
}

fn send(bytes: &[u8], closes: bool) -> Vec<u8> {
    let served = served();
    served.runtime.block_on(async {
        let mut stream = TcpStream::connect(served.address).await.expect("the emulator listens");
        // It may refuse before everything is written.
        let _ = stream.write_all(bytes).await;
        if closes {
            let _ = stream.shutdown().await;
        }
        let mut read = Vec::new();
        let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await;
        // A reset ends an exchange as a close does.
        let _ = end.expect("an answer or the end in time");
        // Ports are few, and fast inputs would use them all up waiting.
        let _ = stream.set_zero_linger();
        read
    })
}

/// The statuses of all answers in what came back. What a message repeats of an input may look like one.
pub fn statuses(read: &[u8]) -> Vec<&[u8]> {
    let is_status_line =
        |line: &&[u8]| line.starts_with(b"HTTP/1.") && line[8] == b' ' && line[9..].iter().all(u8::is_ascii_digit);
    read.windows(12).filter(is_status_line).map(|line| &line[9..]).collect()
}
