//! The program's own files: whatever is put where a file is expected, nothing blocks, nothing foreign is overwritten, and a
//! file that could not be written is reported.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wire::process::Served;

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success(), "the pipe is made");
}

/// Has the folders read again; gives the status.
fn reload(served: &Served) -> String {
    let mut stream = served.connect();
    stream
        .write_all(
            b"POST /_emulator/scenarios/reload HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
              Content-Length: 2\r\n\r\n{}",
        )
        .expect("the request is taken");
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer in time");
    String::from_utf8_lossy(&start[9..]).into_owned()
}

/// Between a look at a file and its opening another may have taken its place.
#[test]
fn a_pipe_renamed_over_a_scenario_while_it_is_read_blocks_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("story.toml"), "title = \"one\"\n").expect("it is written");
    make_pipe(&path(".pipe"));
    let mut served = Served::start(&["--scenarios", &folder.path().display().to_string()]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::fs::hard_link(path(".pipe"), path(".next")).expect("it is linked");
                std::fs::rename(path(".next"), path("story.toml")).expect("it is renamed");
                std::fs::write(path(".next"), "title = \"two\"\n").expect("it is written");
                std::fs::rename(path(".next"), path("story.toml")).expect("it is renamed");
            }
        });
        let tried = std::panic::catch_unwind(|| {
            for _ in 0..300 {
                let status = reload(&served);
                assert!(["200", "422"].contains(&status.as_str()), "{status}");
            }
            served.serves();
        });
        done.store(true, Ordering::Relaxed);
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    served.signal("TERM");
    assert_eq!(served.exit_code(), 0);
}
