// A webhook from the emulator in a container to this process, as tests/webhook.rs of a crate:
// cargo add --dev testcontainers --features blocking; cargo add --dev tiny_http ureq
use std::sync::mpsc::channel;
use std::time::Duration;

use testcontainers::core::{Host, IntoContainerPort as _, WaitFor};
use testcontainers::runners::SyncRunner as _;
use testcontainers::{GenericImage, ImageExt as _};

const TOKEN: &str = "only-for-this-run";
const KEY: &str = "sk_test_rust_webhook";

fn post(url: &str, bearer: &str, body: &str) {
    let request = ureq::post(url).header("Authorization", &format!("Bearer {bearer}"));
    request.header("Content-Type", "application/json").send(body).expect("a 200");
}

#[test]
fn a_webhook_arrives() {
    // On all addresses: containers do not reach others.
    let receiver = tiny_http::Server::http("0.0.0.0:0").expect("a port");
    let port = receiver.server_addr().to_ip().expect("an address").port();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for mut request in receiver.incoming_requests() {
            let mut body = String::new();
            request.as_reader().read_to_string(&mut body).expect("an event");
            let signature = request.headers().iter().find(|header| header.field.equiv("webhook-signature")).cloned();
            request.respond(tiny_http::Response::empty(204)).expect("the emulator waits");
            let _ = sender.send((signature.expect("a signature").value.to_string(), body));
        }
    });

    let wrs = GenericImage::new("wrs-emulator", "latest")
        .with_exposed_port(9770.tcp())
        .with_wait_for(WaitFor::message_on_stdout(" ready on "))
        .with_env_var("WRS_EMULATOR_CONTROL_TOKEN", TOKEN)
        .with_env_var("WRS_EMULATOR_FORWARD", format!("https://app.example.com=http://host.docker.internal:{port}"))
        .with_host("host.docker.internal", Host::HostGateway)
        .start()
        .expect("an engine, and the image");
    let url = format!("http://{}:{}", wrs.get_host().expect("a host"), wrs.get_host_port_ipv4(9770).expect("a port"));

    post(
        &format!("{url}/v1/events/subscribe"),
        KEY,
        r#"{"url":"https://app.example.com/hooks","events":["workflow.completed"]}"#,
    );
    post(&format!("{url}/_emulator/events"), TOKEN, &format!(r#"{{"key":"{KEY}","type":"workflow.completed"}}"#));
    let (signature, body) = received.recv_timeout(Duration::from_secs(10)).expect("a webhook");
    assert!(signature.starts_with("v1,"));
    assert!(body.contains(r#""type":"workflow.completed""#));
}
