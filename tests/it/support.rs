//! The real emulator in-process (port 0, frozen clock, fixed seed), a client, and a webhook receiver.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use wrs_emulator::state::journal::Entry;
use wrs_emulator::{Builder, Emulator};

use crate::openapi::Document;
use crate::process::Started;

pub(crate) const KEY: &str = "sk_test_local";
/// Where the clock of every test stands: 2026-01-31T09:30:00Z.
pub(crate) const START: Timestamp = Timestamp::constant(1_769_851_800, 0);
/// The longest wait of a test, which then fails; it never passes by waiting.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The machine's time, as the runtime of this test has it: it stands still unless the test lets it pass, so that no deadline depends on
/// how fast the machine is. After [`PATIENCE`] it runs on, and the test fails.
pub(crate) struct MachineTime {
    stopped: std::sync::mpsc::Sender<()>,
}

impl MachineTime {
    pub(crate) fn stop() -> Self {
        tokio::time::pause();
        let (stopped, runs_on) = std::sync::mpsc::channel();
        // An idle runtime would move on to its next timer, but not while blocking work is under way.
        tokio::task::spawn_blocking(move || runs_on.recv_timeout(PATIENCE));
        Self { stopped }
    }

    pub(crate) async fn passes(&self, by: Duration) {
        tokio::time::advance(by).await;
    }

    /// A millisecond passes at each turn of the runtime, until this is done.
    pub(crate) async fn passes_until<T>(&self, done: impl Future<Output = T>) -> T {
        let turn = async || {
            // Blocking work that was given before has begun by then, however busy the machine is.
            tokio::task::spawn_blocking(|| ()).await.expect("no panic");
            self.passes(Duration::from_millis(1)).await;
        };
        let mut done = pin!(done);
        loop {
            tokio::select! {
                biased;
                done = &mut done => return done,
                () = turn() => {}
            }
        }
    }
}

impl Drop for MachineTime {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stopped.send(()).expect("time stands still to the end: nothing is waited for in vain");
            tokio::time::resume();
        }
    }
}

/// How large a test is: with `WRS_TEST_LARGE`, which `.ci/nightly` sets, it looks harder for what a smaller one rarely finds.
pub(crate) fn sized<T>(usual: T, large: T) -> T {
    if std::env::var_os("WRS_TEST_LARGE").is_some() { large } else { usual }
}

/// The binary with these arguments, in a folder without scenarios, and without a developer's own settings.
pub(crate) fn wrs_emulator(arguments: &[&str]) -> Command {
    let mut command = with_default_signals(env!("CARGO_BIN_EXE_wrs-emulator"));
    command.args(arguments).current_dir(std::env::temp_dir()).stdin(Stdio::null());
    let ours = |name: &str| {
        ["WRS_", "GITHUB_", "GITLAB_"].iter().any(|prefix| name.starts_with(prefix))
            || name.to_lowercase().ends_with("_proxy")
    };
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// A program with the default action for the signals that tests send. Whoever runs the tests may ignore some, as `nohup` and a shell's
/// background jobs do, and programs inherit that.
pub(crate) fn with_default_signals(program: &str) -> Command {
    static HAS_ENV: LazyLock<bool> = LazyLock::new(|| {
        let tried = Command::new(ENV).args([DEFAULT_SIGNALS, "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    });
    if !*HAS_ENV {
        // Before coreutils 8.31, and elsewhere: such tests then need to be run in the foreground.
        return Command::new(program);
    }
    let mut command = Command::new(ENV);
    command.args([DEFAULT_SIGNALS, program]);
    command
}

/// By its path, as tests change where programs are looked for.
const ENV: &str = "/usr/bin/env";
const DEFAULT_SIGNALS: &str = "--default-signal=INT,TERM,HUP,QUIT";

/// What came of a command; comparisons that fail show its whole line and output.
#[derive(Debug)]
pub(crate) struct Outcome {
    _command: String,
    output: Output,
}

impl Outcome {
    pub(crate) fn new(command: &Command, output: Output) -> Self {
        Self { _command: format!("{command:?}"), output }
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    /// Stdout contains each of these.
    #[track_caller]
    pub(crate) fn prints(self, parts: &[&str]) -> Self {
        let stdout = text(&self.stdout);
        for part in parts {
            assert!(stdout.contains(part), "no {part:?} in {self:#?}");
        }
        self
    }

    /// Stderr contains each of these.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        let stderr = text(&self.stderr);
        for part in parts {
            assert!(stderr.contains(part), "no {part:?} in {self:#?}");
        }
        self
    }
}

impl Deref for Outcome {
    type Target = Output;

    fn deref(&self) -> &Output {
        &self.output
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Outcome {
    let output = command.output().expect("the program runs");
    Outcome::new(command, output)
}

/// The binary run with these arguments.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    finish(&mut wrs_emulator(arguments))
}

/// A command with this input.
pub(crate) fn piped(command: &mut Command, input: &[u8]) -> Outcome {
    let mut child = Started::new(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // A program that does not read may be gone before everything is written.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    Outcome::new(command, child.output())
}

/// This file of the repository has this text; `UPDATE_EXPECTED=1` writes it anew.
#[track_caller]
pub(crate) fn assert_in_step(path: impl AsRef<Path>, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, made).expect("it is written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(there, made, "{}: UPDATE_EXPECTED=1 writes it anew", path.display());
}

/// What a program wrote, as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A listing of `--json` as one object: the fields of its last line, and its records in `data`.
pub(crate) fn listing(text: &str) -> Option<Value> {
    let mut records: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>().ok()?;
    let mut end = records.pop().filter(|end| end["truncated"].is_boolean() && end["shown"] == records.len())?;
    end["data"] = records.into();
    Some(end)
}

/// An emulator with its settings fixed: nothing depends on the machine.
pub(crate) fn builder() -> Builder {
    Emulator::builder().seed(7).frozen_at(START)
}

pub(crate) async fn started(builder: Builder) -> Emulator {
    builder.start().await.expect("the emulator starts")
}

pub(crate) async fn start() -> Emulator {
    started(builder()).await
}

/// An emulator with these settings set.
pub(crate) async fn start_with(settings: &[&str]) -> Emulator {
    started(settings.iter().fold(builder(), |builder, setting| builder.set(setting))).await
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("the body is not JSON ({error}): {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header of text"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().expect("an error with a code").to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().expect("an error with a message").to_owned()
    }
}

/// One request on its own connection.
pub(crate) async fn send(
    emulator: &Emulator,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    Client::new(emulator).send(method, path, headers, body).await
}

/// A client that keeps its connection.
pub(crate) struct Client {
    address: String,
    kept: Option<http1::SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(crate) fn new(emulator: &Emulator) -> Self {
        Self::at(emulator.base_url().trim_start_matches("http://"))
    }

    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), kept: None }
    }

    async fn connection(&mut self) -> http1::SendRequest<Full<Bytes>> {
        if let Some(mut kept) = self.kept.take()
            && kept.ready().await.is_ok()
        {
            return kept;
        }
        let stream = TcpStream::connect(&self.address).await.expect("the emulator listens");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        sender
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", &self.address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let mut sender = self.connection().await;
        let exchange = async {
            let response = sender.send_request(request).await.expect("an answer");
            let (parts, body) = response.into_parts();
            let body = body.collect().await.expect("a whole body").to_bytes();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body }
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time");
        self.kept = Some(sender);
        answer
    }

    /// A request of a key with a body of JSON.
    pub(crate) async fn send_as(&mut self, key: &str, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        let bearer = format!("Bearer {key}");
        self.send(method, path, &[("authorization", &bearer), ("content-type", "application/json")], body).await
    }
}

pub(crate) async fn get(emulator: &Emulator, path: &str) -> Answer {
    get_as(emulator, KEY, path).await
}

pub(crate) async fn get_as(emulator: &Emulator, key: &str, path: &str) -> Answer {
    send(emulator, "GET", path, &[("authorization", &format!("Bearer {key}"))], "").await
}

pub(crate) async fn subscribe(emulator: &Emulator, body: &Value) -> Answer {
    subscribe_as(emulator, KEY, body).await
}

/// What is accepted must be valid by the document that the emulator serves, whatever a test subscribes.
pub(crate) async fn subscribe_as(emulator: &Emulator, key: &str, body: &Value) -> Answer {
    let profile = emulator.control().profile(key);
    let answer = Client::new(emulator).send_as(key, "POST", "/v1/events/subscribe", body.to_string()).await;
    // A scenario may answer anything to anything.
    let is_own = answer.status == 200 && answer.json()["id"].as_str().is_some_and(|id| id.starts_with("sub_"));
    if is_own {
        Document::of_profile(&profile).check_call("post", "/v1/events/subscribe", body, &answer);
    }
    answer
}

/// A subscription of this URL to `workflow.completed`, because the body of a request.
pub(crate) fn hook(url: &str) -> Value {
    json!({ "url": url, "events": ["workflow.completed"] })
}

/// Subscribes this URL to `workflow.completed`.
pub(crate) async fn subscribe_url(emulator: &Emulator, key: &str, url: &str) -> Value {
    let answer = subscribe_as(emulator, key, &hook(url)).await;
    assert_eq!(answer.status, 200, "{url}: {answer:?}");
    answer.json()
}

/// A receiver that answers so, and an emulator with a subscription that leads to it.
pub(crate) async fn with_receiver(builder: Builder, statuses: &[u16]) -> (Emulator, Receiver) {
    let receiver = Receiver::plain(statuses).await;
    let emulator = started(builder.forward(&format!("https://app.example.com=http://{}", receiver.address))).await;
    subscribe_url(&emulator, KEY, "https://app.example.com/hooks").await;
    (emulator, receiver)
}

/// A call of the control API.
pub(crate) async fn control(emulator: &Emulator, method: &str, path: &str, body: &Value) -> Answer {
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    send(emulator, method, &format!("/_emulator/{path}"), &[("content-type", "application/json")], bytes).await
}

/// What a GET of the control API answers.
pub(crate) async fn view(emulator: &Emulator, path: &str) -> Value {
    ask(emulator, "GET", path, &Value::Null).await
}

/// A call of the control API that succeeds, and its answer.
pub(crate) async fn ask(emulator: &Emulator, method: &str, path: &str, body: &Value) -> Value {
    let answer = control(emulator, method, path, body).await;
    assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
    answer.json()
}

/// A call of the control API that is refused with this status and a message that contains this.
pub(crate) async fn refused(emulator: &Emulator, method: &str, path: &str, body: &Value, status: u16, part: &str) {
    let answer = control(emulator, method, path, body).await;
    assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
    assert!(answer.message().contains(part), "{method} {path} {body}: no {part:?} in {:?}", answer.message());
}

/// Every call of the control API's own document: method, and path below `/_emulator/` with `x` instead of variable segments.
pub(crate) async fn documented_calls(emulator: &Emulator) -> Vec<(String, String)> {
    let document = view(emulator, "openapi.json").await;
    let mut calls = Vec::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let path = path.trim_start_matches("/_emulator/").replace("{id}", "x").replace("{name}", "x");
        let methods = operations.as_object().expect("operations").keys();
        calls.extend(methods.map(|method| (method.to_ascii_uppercase(), path.clone())));
    }
    assert!(calls.len() > 30, "the calls were found: {calls:?}");
    calls
}

/// The messages of notices in the journal: all, or the warnings.
pub(crate) fn notices(emulator: &Emulator, warnings_alone: bool) -> Vec<String> {
    emulator.control().journal().search(None, usize::MAX, |_, entry| match entry {
        Entry::Notice(notice) if notice.warning || !warnings_alone => Some(notice.message.clone()),
        _ => None,
    })
}

/// Puts a scenario under this name.
pub(crate) async fn put_scenario(emulator: &Emulator, name: &str, text: impl Into<String>) {
    let toml = [("content-type", "application/toml")];
    let answer = send(emulator, "PUT", &format!("/_emulator/scenarios/{name}"), &toml, text.into()).await;
    assert_eq!(answer.status, 200, "{name}: {answer:?}");
}

/// Makes these scenarios the active ones, of all keys or of one.
pub(crate) async fn activate(emulator: &Emulator, names: &[&str], key: Option<&str>) {
    let mut request = json!({ "active": names });
    if let Some(key) = key {
        request["key"] = key.into();
    }
    ask(emulator, "POST", "scenarios/active", &request).await;
}

/// A new folder with one scenario file.
pub(crate) fn folder_with(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), name, text);
    folder
}

/// Writes a scenario file into a folder.
pub(crate) fn write_scenario(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name).with_extension("toml"), text).expect("the file is written");
}

/// When something is due next, from the start; waits until something is planned.
pub(crate) async fn next_due(emulator: &Emulator) -> Duration {
    let planned = async {
        loop {
            if let Some(due) = emulator.control().next_due_of_all() {
                return due.since_start();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, planned).await.expect("something is planned")
}

/// Subscribes a sink to both event types.
pub(crate) async fn subscribe_sink(emulator: &Emulator, name: &str) -> Value {
    let body = json!({ "url": format!("https://{name}.sink.localhost/hooks"), "events": ["workflow.completed", "reference.matched"] });
    let answer = subscribe(emulator, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Fires an event and waits until each endpoint has been tried.
pub(crate) async fn fire(emulator: &Emulator, body: &Value) -> Value {
    ask(emulator, "POST", "events?wait=15s", body).await
}

/// Writes raw bytes and reads until the server closes: a request that would be kept open asks for `Connection: close`.
pub(crate) async fn raw(emulator: &Emulator, bytes: &[u8]) -> String {
    raw_at(emulator.base_url().trim_start_matches("http://"), bytes).await
}

/// The same, to another address.
pub(crate) async fn raw_at(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the emulator listens");
    // The server may refuse before everything is written.
    let _ = stream.write_all(bytes).await;
    let mut read = Vec::new();
    // It may also end with a reset.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("the server closes");
    text(&read)
}

/// A request as a receiver got it.
#[derive(Debug)]
pub(crate) struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
            .to_str()
            .expect("a header of text")
    }
}

/// A webhook receiver on its own port; answers from a script of statuses (503 asks to come again
/// after 2 s), then as it chooses, which is 200.
pub(crate) struct Receiver {
    pub address: SocketAddr,
    answers: Arc<Answers>,
    received: mpsc::UnboundedReceiver<Received>,
    task: tokio::task::JoinHandle<()>,
}

struct Answers {
    script: Mutex<VecDeque<u16>>,
    choice: Box<dyn Fn(&Received) -> u16 + Send + Sync>,
    /// A permit for each answer; `None` if they need none.
    permits: Option<Semaphore>,
}

/// A certificate made for a test: authority file and server settings.
pub(crate) struct Certificates {
    folder: tempfile::TempDir,
    chain: Vec<rustls::pki_types::CertificateDer<'static>>,
    key: rcgen::KeyPair,
    config: Arc<rustls::ServerConfig>,
}

impl Certificates {
    /// For `localhost` and 127.0.0.1, valid now.
    pub(crate) fn for_localhost() -> Self {
        Self::new(&["localhost", "127.0.0.1"], |_| {})
    }

    pub(crate) fn new(names: &[&str], change: impl FnOnce(&mut rcgen::CertificateParams)) -> Self {
        let mut ca = parameters(&[]);
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_key = rcgen::KeyPair::generate().expect("a key");
        let ca_certificate = ca.self_signed(&ca_key).expect("a certificate");
        let mut leaf = parameters(names);
        change(&mut leaf);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = leaf.signed_by(&key, &rcgen::Issuer::new(ca, ca_key)).expect("a certificate");
        Self::of(&ca_certificate, &certificate, key)
    }

    /// One certificate, which is its own authority, as `openssl req -x509` makes it.
    pub(crate) fn self_signed(names: &[&str]) -> Self {
        let mut params = parameters(names);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self::of(&certificate, &certificate, key)
    }

    fn of(authority: &rcgen::Certificate, leaf: &rcgen::Certificate, key: rcgen::KeyPair) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, certificate) in [("ca.pem", authority), ("leaf.pem", leaf)] {
            std::fs::write(folder.path().join(name), certificate.pem()).expect("the file is written");
        }
        let chain = vec![leaf.der().clone()];
        let builder = server_config(rustls::DEFAULT_VERSIONS).with_no_client_auth();
        let config = builder.with_single_cert(chain.clone(), private_key(&key)).expect("a certificate with its key");
        Self { folder, chain, key, config: Arc::new(config) }
    }

    /// The same, for a server of one version of TLS that requires client certificates of the same authority.
    pub(crate) fn asking_for_certificates(&self, version: &'static rustls::SupportedProtocolVersion) -> Self {
        let pem = std::fs::read(self.ca_file()).expect("the authority");
        let authority = rustls::pki_types::CertificateDer::from_pem_slice(&pem).expect("a certificate");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = server_config(&[version]).with_client_cert_verifier(verifier.build().expect("a verifier"));
        let config = builder.with_single_cert(self.chain.clone(), private_key(&self.key)).expect("a certificate");
        let (folder, key) = (tempfile::tempdir().expect("a folder"), rcgen::KeyPair::generate().expect("a key"));
        Self { folder, chain: self.chain.clone(), key, config: Arc::new(config) }
    }

    /// The certificate of these files, whatever it is worth.
    pub(crate) fn of_files(certificate: &str, key: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["ca.pem", "leaf.pem"] {
            std::fs::write(folder.path().join(name), certificate).expect("the file is written");
        }
        let chain = vec![rustls::pki_types::CertificateDer::from_pem_slice(certificate.as_bytes()).expect("one")];
        let key = rcgen::KeyPair::from_pem(key).expect("a key");
        let signing = rustls::crypto::ring::sign::any_supported_type(&private_key(&key)).expect("a key that signs");
        let served = rustls::sign::CertifiedKey::new(chain.clone(), signing);
        let resolver = rustls::sign::SingleCertAndKey::from(served);
        let builder = server_config(rustls::DEFAULT_VERSIONS).with_no_client_auth();
        Self { folder, chain, key, config: Arc::new(builder.with_cert_resolver(Arc::new(resolver))) }
    }

    /// A server with this certificate.
    pub(crate) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        tokio_rustls::TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// The certificate of the server itself.
    pub(crate) fn leaf_file(&self) -> PathBuf {
        self.folder.path().join("leaf.pem")
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }
}

fn parameters(names: &[&str]) -> rcgen::CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    rcgen::CertificateParams::new(names).expect("parameters")
}

fn private_key(key: &rcgen::KeyPair) -> rustls::pki_types::PrivateKeyDer<'static> {
    rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key")
}

fn server_config(
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier> {
    rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("protocol versions")
}

impl Receiver {
    pub(crate) async fn plain(statuses: &[u16]) -> Self {
        Self::start(Answers::script(statuses), None).await
    }

    pub(crate) async fn tls(certificates: &Certificates, statuses: &[u16]) -> Self {
        Self::start(Answers::script(statuses), Some(certificates.acceptor())).await
    }

    /// Answers with the status that is chosen for a delivery.
    pub(crate) async fn choosing(choice: impl Fn(&Received) -> u16 + Send + Sync + 'static) -> Self {
        Self::start(Answers { choice: Box::new(choice), ..Answers::script(&[]) }, None).await
    }

    /// Answers nothing until [`Receiver::let_one_through`].
    pub(crate) async fn hanging() -> Self {
        Self::start(Answers { permits: Some(Semaphore::new(0)), ..Answers::script(&[]) }, None).await
    }

    async fn start(answers: Answers, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answers = Arc::new(answers);
        let shared = Arc::clone(&answers);
        let (sender, received) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, answers, sender) = (tls.clone(), Arc::clone(&shared), sender.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| receive(request, Arc::clone(&answers), sender.clone()));
                    let server = hyper::server::conn::http1::Builder::new();
                    match tls {
                        None => drop(server.serve_connection(TokioIo::new(stream), service).await),
                        Some(tls) => {
                            // A client that does not trust the certificate ends the handshake; that is its test.
                            if let Ok(stream) = tls.accept(stream).await {
                                drop(server.serve_connection(TokioIo::new(stream), service).await);
                            }
                        }
                    }
                });
            }
        });
        Self { address, answers, received, task }
    }

    /// Answers with these statuses from now on, then with 200.
    pub(crate) fn answer(&self, statuses: &[u16]) {
        *self.answers.script.lock().expect("no test panics with the lock") = VecDeque::from(statuses.to_vec());
    }

    pub(crate) fn let_one_through(&self) {
        self.answers.permits.as_ref().expect("a receiver that hangs").add_permits(1);
    }

    /// The next delivery.
    pub(crate) async fn next(&mut self) -> Received {
        tokio::time::timeout(PATIENCE, self.received.recv())
            .await
            .expect("a delivery in time")
            .expect("the receiver runs")
    }

    /// The next delivery, if it has come.
    pub(crate) fn try_next(&mut self) -> Option<Received> {
        self.received.try_recv().ok()
    }

    /// Nothing may have come that no test looked at.
    pub(crate) fn nothing_more(&mut self) {
        assert!(self.received.try_recv().is_err(), "a delivery came that the test did not expect");
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            self.nothing_more();
        }
    }
}

impl Answers {
    fn script(statuses: &[u16]) -> Self {
        Self { script: Mutex::new(statuses.iter().copied().collect()), choice: Box::new(|_| 200), permits: None }
    }
}

async fn receive(
    request: Request<Incoming>,
    answers: Arc<Answers>,
    sender: mpsc::UnboundedSender<Received>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let received = Received { path: parts.uri.to_string(), headers: parts.headers, body };
    let scripted = answers.script.lock().expect("no test panics with the lock").pop_front();
    let status = scripted.unwrap_or_else(|| (answers.choice)(&received));
    // The test may have ended.
    let _ = sender.send(received);
    if let Some(permits) = &answers.permits {
        permits.acquire().await.expect("it is never closed").forget();
    }
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    if status == 503 {
        response.headers_mut().insert("retry-after", hyper::header::HeaderValue::from_static("2"));
    }
    Ok(response)
}
