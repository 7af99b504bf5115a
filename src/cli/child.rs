//! A command that runs while an emulator does: how it finds the emulator, its output, how it ended. For `exec`.

use std::env::VarError;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IsTerminal as _, PipeReader, PipeWriter, Read as _};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use regex::Regex;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::ioctl_fionread;
use tokio::process::{Child, Command};
use url::Url;

use super::arguments::{Target, reachable};
use super::client::{ControlClient, in_background};
use super::failure::{Failure, FailureCode, note};
use super::stream::Stream;
use super::trust::TrustFiles;
use crate::app::{Emulator, FileLimit};
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{ExecFacts, RecordedRun};
use crate::redact::{MASK, Redactor, Secrets, visible_lines};
use crate::settings::Profile;
use crate::util::pipe;
use crate::util::process::ending_signal;

/// How long the emulator may need to answer with the data of a report.
const REPORT_LIMIT: Duration = Duration::from_secs(30);
/// Maximum bytes of a command in a report.
const SHOWN_COMMAND: usize = 16 * 1024;

/// Maximum bytes that are kept.
const MAX_KEPT: usize = 64 * 1024;
/// How long the end of a stream is waited for after the command has ended: processes that it left running may keep it open for ever.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The variables in which clients look for a proxy.
pub(super) const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

/// Colours, movements of the cursor and titles of windows.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])").expect("a pattern")
});

impl ExecFacts {
    pub(super) fn of(command: &[OsString], status: ExitStatus, masks: &Masks) -> Self {
        Self { exit_status: exit_code(status), signal: ending_signal(status), ..Self::not_ended(command, masks) }
    }

    pub(super) fn not_run(command: &[OsString], failure: &Failure, masks: &Masks) -> Self {
        let problem = Some(masks.text(&failure.message));
        Self { exit_status: failure.status, problem, ..Self::not_ended(command, masks) }
    }

    fn not_ended(command: &[OsString], masks: &Masks) -> Self {
        Self { command: masked_command(command, masks), ..Self::default() }
    }
}

/// The settings of an emulator when its command began, and those when it ended: the command, or a person meanwhile, may change the
/// prefixes of keys.
pub(super) struct Masks(Vec<Arc<Profile>>);

impl Masks {
    pub(super) fn begun(emulator: &Emulator) -> Self {
        Self(vec![emulator.control().profile_of_all()])
    }

    pub(super) fn ended(mut self, emulator: &Emulator) -> Self {
        self.0.push(emulator.control().profile_of_all());
        self
    }

    /// The text, with everything masked that is a credential under any of these settings.
    fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, profile| Redactor::new(&profile.keys).text(&text).into_owned())
    }
}

/// A command and its arguments, credentials masked; of a very long one the beginning.
fn masked_command(command: &[OsString], masks: &Masks) -> Vec<String> {
    let mut room = SHOWN_COMMAND;
    let mut words = Vec::new();
    for word in command {
        let word = masks.text(&word.to_string_lossy());
        if word.len() > room {
            words.push("…".to_owned());
            break;
        }
        room -= word.len();
        words.push(word);
    }
    words
}

/// The running emulator as its clients reach it.
pub(super) fn target(emulator: &Emulator) -> Target {
    Target {
        url: reachable(&emulator.control_url()),
        control_token: emulator.control_token().map(str::to_owned),
        ca: Vec::new(),
        // The connection stays within this process, so there is nothing to verify.
        insecure: true,
    }
}

/// Starts the command with the emulator's address in its environment.
pub(super) fn spawn(
    command: &[OsString],
    emulator: &Emulator,
    trust: Option<&TrustFiles>,
    raised: FileLimit,
    streams: Streams,
) -> Result<(Child, Option<Tee>), Failure> {
    let (program, arguments) = command.split_first().expect("clap demands a command");
    let target = target(emulator);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("WRS_BASE_URL", reachable(&emulator.base_url()))
        .env("WRS_EMULATOR_URL", &target.url)
        .envs(unproxied(&[&target.url, &emulator.base_url()], |name| std::env::var_os(name)))
        .kill_on_drop(true);
    // Blanks and line ends around a value are ignored, as for flags: no header can carry them.
    match std::env::var("WRS_API_KEY") {
        Ok(key) if !key.trim().is_empty() => command.env("WRS_API_KEY", key.trim()),
        Err(VarError::NotUnicode(_)) => &mut command,
        _ => command.env("WRS_API_KEY", SAMPLE_KEY),
    };
    if let Some(token) = &target.control_token {
        command.env("WRS_EMULATOR_CONTROL_TOKEN", token);
    }
    command.envs(trust.iter().flat_map(|files| files.variables()));
    let mut start = || {
        let tee = Tee::attach(&mut command, streams)?;
        Ok((command.spawn()?, tee))
    };
    raised.restored_for(&mut start).map_err(|error| not_run(program, &error))
}

/// Says that the environment names a proxy, if it does, and what the command uses it for.
pub(super) fn note_proxy() {
    if let Some(name) = PROXIES.iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        note(&format!("`{name}` is set; the command's calls to the emulator and to loopback bypass it, by `NO_PROXY`"));
    }
}

/// Both variables that list what no proxy is used for, with the loopback addresses and the hosts of these URLs added. Clients read
/// one or the other, so that a list in only one of them counts for both.
pub(super) fn unproxied(urls: &[&str], variable: impl Fn(&str) -> Option<OsString>) -> [(&'static str, OsString); 2] {
    // Not as text: a list need not be UTF-8, and is passed on as it is.
    let set = |name| variable(name).filter(|list| !list.as_bytes().trim_ascii().is_empty());
    let hosts: Vec<String> = urls.iter().filter_map(|url| Some(host_of(&Url::parse(&reachable(url)).ok()?))).collect();
    let complete = |list: Option<OsString>| {
        let list = list.unwrap_or_default();
        let names = list.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
        // Many clients know the star only where it stands alone.
        if names != [b"*"] {
            for host in LOOPBACK.into_iter().chain(hosts.iter().map(String::as_str)).map(str::as_bytes) {
                if !names.contains(&host) {
                    names.push(host);
                }
            }
        }
        OsString::from_vec(names.join(&b','))
    };
    [("NO_PROXY", "no_proxy"), ("no_proxy", "NO_PROXY")]
        .map(|(name, other)| (name, complete(set(name).or_else(|| set(other)))))
}

/// The variable that names a proxy which clients would use for this host; `None` if there is none, or both lists except the host.
pub(super) fn catching_proxy(host: &str, variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let name = PROXIES.into_iter().find(|name| variable(name).is_some())?;
    let lists: Vec<String> = ["NO_PROXY", "no_proxy"].into_iter().filter_map(variable).collect();
    let is_excepted = !lists.is_empty() && lists.iter().all(|list| is_unproxied(list, host));
    (!is_excepted).then_some(name)
}

/// True if a list as `NO_PROXY` has it names this host.
fn is_unproxied(list: &str, host: &str) -> bool {
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    list.split(',').map(str::trim).any(|entry| {
        let name = entry.trim_start_matches("*.").trim_start_matches('.');
        // A port may follow, unless these are the colons of an IPv6 address.
        let name = name.rsplit_once(':').filter(|(name, _)| !name.contains(':')).map_or(name, |(name, _)| name);
        let is_below = host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        entry == "*"
            || name == host
            || (is_below && !name.is_empty())
            || (is_loopback && name.starts_with("127.") && name.contains('/'))
    })
}

/// The host of a URL, an IPv6 address without its brackets.
pub(super) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

/// The run of the command, and how it ended.
pub(super) async fn whole_run(target: &Target, facts: ExecFacts) -> Result<RecordedRun, Failure> {
    let target = target.clone();
    let run = in_background(move || RecordedRun::ask(ControlClient::new(&target).limit(REPORT_LIMIT), "*")).await;
    run.map(|run| run.after(facts))
        .map_err(|problem| Failure::io(format!("the run cannot be read: {}", problem.message)))
}

/// Exit codes as in shells: 127 for a command that does not exist, 126 for one that cannot be run.
fn not_run(program: &OsStr, error: &io::Error) -> Failure {
    let shown = program.display();
    let (code, message) = match error.kind() {
        ErrorKind::NotFound => (127, format!("there is no command `{shown}`")),
        _ => (126, format!("cannot run `{shown}`: {error}")),
    };
    let hint = "`--` is followed by a program and its arguments; to run a shell command: -- sh -c '…'";
    Failure::new(code, FailureCode::NotRun, message).with_hint(hint)
}

pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| ending_signal(status).map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Where the output of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// To our own streams, which the command inherits, unless one is a pipe that does not block.
    Own,
    /// To our own streams, and its end is kept. One that is a terminal is left to the command, for its colours, its width and its
    /// questions.
    OwnAndKept,
    /// To stderr, and its end is kept. The command has no input.
    StderrAndKept,
    /// Its end is kept. The command has no input.
    Kept,
}

/// Passes on what a command writes, at the reader's pace, and keeps the end of it.
pub(super) struct Tee {
    kept: Arc<Mutex<Tail>>,
    copies: Vec<Arc<Copied>>,
}

/// How far the copying of one pipe of the command is.
struct Copied {
    progress: Mutex<CopyProgress>,
    changed: Condvar,
}

struct CopyProgress {
    /// The pipe; absent once nothing more is read from it.
    from: Option<PipeReader>,
    read: u64,
    passed_on: u64,
}

#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Tee {
    /// Connects the streams of a command that is about to start.
    fn attach(command: &mut Command, streams: Streams) -> io::Result<Option<Self>> {
        let mut tee = Self { kept: Arc::default(), copies: Vec::new() };
        match streams {
            Streams::Own | Streams::OwnAndKept => {
                let is_kept = streams == Streams::OwnAndKept;
                let passes = |fd: BorrowedFd<'_>| !fd.is_terminal() && (is_kept || is_non_blocking(fd));
                if passes(io::stdout().as_fd()) {
                    command.stdout(tee.copy(Some(Stream::Out))?);
                }
                if passes(io::stderr().as_fd()) {
                    command.stderr(tee.copy(Some(Stream::Err))?);
                }
            }
            Streams::StderrAndKept | Streams::Kept => {
                let to = tee.copy((streams == Streams::StderrAndKept).then_some(Stream::Err))?;
                command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
            }
        }
        Ok((!tee.copies.is_empty()).then_some(tee))
    }

    /// A pipe that is copied to this stream.
    fn copy(&mut self, to: Option<Stream>) -> io::Result<PipeWriter> {
        let (mut from, end) = io::pipe()?;
        let progress = Mutex::new(CopyProgress { from: Some(from.try_clone()?), read: 0, passed_on: 0 });
        let copied = Arc::new(Copied { progress, changed: Condvar::new() });
        self.copies.push(Arc::clone(&copied));
        let kept = Arc::clone(&self.kept);
        thread::spawn(move || {
            let mut piece = [0; 8 * 1024];
            while pipe::wait_readable(&from).is_ok() {
                // Under the lock, so that each byte is either in the pipe or counted.
                let count = {
                    let mut progress = copied.progress.lock();
                    let count = from.read(&mut piece).unwrap_or_default();
                    progress.read += count as u64;
                    count
                };
                kept.lock().add(&piece[..count]);
                // If it cannot be passed on, the command learns so from its next write.
                if count == 0 || to.is_some_and(|stream| !stream.write(&piece[..count])) {
                    break;
                }
                copied.progress.lock().passed_on += count as u64;
                copied.changed.notify_all();
            }
            drop(from);
            copied.progress.lock().from = None;
            copied.changed.notify_all();
        });
        Ok(end)
    }

    /// After the command has ended: blocks until everything that it wrote has been passed on, but not for what still runs in the
    /// background.
    pub(super) fn pass_on(&self) {
        self.copies.iter().for_each(|copied| copied.pass_on());
    }

    /// The end of the output, with credentials and this secret masked.
    pub(super) fn kept(&self, secret: Option<&str>, masks: &Masks) -> String {
        let kept = std::mem::take(&mut *self.kept.lock());
        kept.masked(secret, masks)
    }
}

impl Copied {
    fn pass_on(&self) {
        let mut progress = self.progress.lock();
        self.changed.wait_while_for(&mut progress, |progress| progress.from.is_some(), GRACE);
        // A process left behind may write forever, so the command's output ends with the present content of the pipe.
        let in_pipe = progress.from.as_ref().and_then(|from| ioctl_fionread(from).ok()).unwrap_or_default();
        let all = progress.read + in_pipe;
        self.changed.wait_while(&mut progress, |progress| progress.from.is_some() && progress.passed_on < all);
    }
}

/// A command that writes to such a stream would lose what its reader has no room for.
fn is_non_blocking(stream: BorrowedFd<'_>) -> bool {
    fcntl_getfl(stream).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

impl Tail {
    fn add(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        // Cut seldom, because the rest has to be moved.
        if self.bytes.len() > 2 * MAX_KEPT {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let beyond = self.bytes.len().saturating_sub(MAX_KEPT);
        self.bytes.drain(..beyond);
        self.is_cut |= beyond > 0;
    }

    fn masked(mut self, secret: Option<&str>, masks: &Masks) -> String {
        self.cut();
        let text = String::from_utf8_lossy(&self.bytes);
        // A credential that the cut has shortened could not be recognised, so the first line goes.
        let text = if self.is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let plain = ESCAPES.replace_all(text, "");
        let masked = masks.text(&plain);
        let secret = Secrets::default().and(secret.unwrap_or_default(), MASK);
        visible_lines(&secret.hide(&masked)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::{is_unproxied, unproxied};

    fn lists(upper: Option<&str>, lower: Option<&str>, url: &str) -> [String; 2] {
        let variable = |name: &str| if name == "NO_PROXY" { upper } else { lower }.map(OsString::from);
        unproxied(&[url], variable).map(|(_, list)| list.into_string().expect("it is UTF-8"))
    }

    #[test]
    fn a_list_that_is_not_utf_8_is_passed_on() {
        let list = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let [(_, upper), (_, lower)] = unproxied(&["http://127.0.0.1:1"], |_| Some(list(b"\xff.test, b")));
        assert_eq!(
            [upper, lower],
            [list(b"\xff.test,b,127.0.0.1,localhost,::1"), list(b"\xff.test,b,127.0.0.1,localhost,::1")]
        );
    }

    #[test]
    fn loopback_and_the_emulators_host_are_added_to_both_lists() {
        let loopback = "127.0.0.1,localhost,::1";
        let local = "http://127.0.0.1:9770";
        assert_eq!(lists(None, None, local), [loopback, loopback]);
        assert_eq!(lists(None, Some(" "), "http://[::]:9770"), [loopback, loopback]);
        let both = ["a.test, .b.test", "localhost,c.test"];
        let full = ["a.test,.b.test,127.0.0.1,localhost,::1", "localhost,c.test,127.0.0.1,::1"];
        assert_eq!(lists(Some(both[0]), Some(both[1]), local), full);
        assert_eq!(lists(Some(both[0]), None, local), [full[0], full[0]]);
        assert_eq!(lists(Some("*"), None, local), ["*", "*"]);
        let far = format!("{loopback},192.0.2.7");
        assert_eq!(lists(None, None, "http://192.0.2.7:9770"), [far.as_str(), far.as_str()]);
    }

    #[test]
    fn lists_of_hosts_without_a_proxy_are_read_as_clients_do() {
        for (list, host, expected) in [
            ("localhost,127.0.0.1", "127.0.0.1", true),
            ("localhost", "127.0.0.1", false),
            ("*", "127.0.0.1", true),
            ("127.0.0.0/8", "127.0.0.1", true),
            ("10.0.0.0/8", "127.0.0.1", false),
            ("127.0.0.1:9770", "127.0.0.1", true),
            (".internal", "emulator.internal", true),
            ("*.internal", "emulator.internal", true),
            ("internal", "emulatorinternal", false),
            ("::1", "::1", true),
            ("", "127.0.0.1", false),
        ] {
            assert_eq!(is_unproxied(list, host), expected, "{list} {host}");
        }
    }
}
