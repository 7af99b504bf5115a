//! A hundred calls that wait for a request or a delivery that does not come, beside none: the processor time of an idle
//! emulator, and the throughput of requests that do not match.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use crate::Plan;
use crate::load::{Until, run};
use crate::pairs::{Pairs, in_turn};
use crate::process::{Server, Subject, moment};
use crate::table::{Compared, Figure};

/// Of each kind.
const CALLS: usize = 50;
/// How long an idle emulator is watched in a round.
const IDLE: Duration = Duration::from_secs(1);
/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn measure(plan: Plan) -> io::Result<Vec<Figure>> {
    let (with, without) = (Subject::Emulator.start()?.server, Subject::Emulator.start()?.server);
    // One half by operation, one by path; all by the key under load. The time is longer than any run.
    let mut requests = Vec::new();
    for number in 0..CALLS {
        let filter = if number % 2 == 0 { r#""operation":"hello""# } else { r#""path":"/v1/hello""# };
        let key = if number % 3 == 0 { r#","key":"*""# } else { "" };
        requests.push(begin(&with, "requests/wait", &format!(r#"{{{filter}{key},"timeout":"300s"}}"#))?);
    }
    let mut deliveries = Vec::new();
    for _ in 0..CALLS {
        deliveries.push(begin(&with, "deliveries/wait", r#"{"key":"*","status":"delivered","timeout":"300s"}"#)?);
    }
    let until = Until::Elapsed(plan.length);
    for server in [&with, &without] {
        run(server, until)?;
    }
    let [mut idle, mut throughput] = [Pairs::default(), Pairs::default()];
    for round in 0..plan.rounds {
        let [waited, alone] = in_turn(round, || idle_time(&with), || idle_time(&without))?;
        idle.push(waited, alone);
        let [waited, alone] = in_turn(round, || run(&with, until), || run(&without, until))?;
        throughput.push(waited.throughput(), alone.throughput());
    }
    check(&with, requests, deliveries)?;
    Ok(vec![
        idle.figure("processor time of an idle second, 100 waiting", "ms", Compared::Difference),
        throughput.figure("throughput, 100 waiting", "/s", Compared::Ratio),
    ])
}

/// Begins a call that waits.
fn begin(server: &Server, path: &str, body: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.address)?;
    let head = format!("POST /_emulator/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    Ok(stream)
}

/// Milliseconds of processor time that a server uses while nobody asks anything.
fn idle_time(server: &Server) -> io::Result<f64> {
    // What the last round has set off is over by then.
    sleep(Duration::from_millis(100));
    let (begun, used) = (moment(), server.processor_time()?);
    sleep(IDLE);
    let more = server.processor_time()?.saturating_sub(used).as_secs_f64();
    Ok(more * 1e3 / (moment() - begun).as_secs_f64())
}

/// Checks that all the calls were waiting until now: those for a request end with the one they wait for, and those for a
/// delivery continue to wait.
fn check(server: &Server, requests: Vec<TcpStream>, deliveries: Vec<TcpStream>) -> io::Result<()> {
    let mut asked = TcpStream::connect(server.address)?;
    asked.write_all(b"GET /v1/hello HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sk_test_local\r\n\r\n")?;
    let mut found = 0;
    for (number, mut stream) in requests.into_iter().enumerate() {
        // `hello` needs no key and so belongs to no workspace: only those who wait for all keys see it.
        if number % 3 != 0 {
            still_waits(stream)?;
            continue;
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        if answer != *b"HTTP/1.1 200" {
            return Err(io::Error::other("a call that waited did not end with what it waited for"));
        }
        found += 1;
    }
    if found == 0 {
        return Err(io::Error::other("no call was there to be ended"));
    }
    deliveries.into_iter().try_for_each(still_waits)
}

fn still_waits(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    match stream.read(&mut [0; 1]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(io::Error::other("a call ended that should have waited")),
    }
}
