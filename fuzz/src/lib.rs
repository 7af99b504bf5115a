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

/// Longest that one exchange may take; nothing here waits for anything.
const PATIENCE: Duration = Duration::from_secs(10);

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
                settings.most_journal_entries = 100;
                settings.most_workspaces = 20;
            });
            builder.start().await.expect("the emulator starts")
        });
        let address = emulator.base_url().trim_start_matches("http://").parse().expect("an address");
        Served { runtime, address, _emulator: emulator }
    })
}

/// Sends the bytes, closes that half, and gives what comes back; panics if there is no end in time.
pub fn exchange(bytes: &[u8]) -> Vec<u8> {
    let served = served();
    served.runtime.block_on(async {
        let mut stream = TcpStream::connect(served.address).await.expect("the emulator listens");
        // It may refuse before everything is written.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut read = Vec::new();
        let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await;
        // A reset ends an exchange as a close does.
        let _ = end.expect("an answer or the end in time");
        // Ports are few, and fast inputs would use them all up waiting.
        let _ = stream.set_zero_linger();
        read
    })
}

/// The statuses of all answers in what came back.
pub fn statuses(read: &[u8]) -> Vec<&[u8]> {
    read.windows(12).filter(|window| window.starts_with(b"HTTP/1.")).map(|window| &window[9..]).collect()
}
