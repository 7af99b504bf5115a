# A webhook from the emulator in a container to this process: pip install testcontainers pytest
import http.server
import json
import queue
import threading
import urllib.request

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

TOKEN, KEY = "only-for-this-run", "sk_test_python_webhook"


@pytest.fixture(scope="session")
def received():
    """What this process received: a queue of headers and body. Containers reach it only if it listens on all addresses."""
    deliveries = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            deliveries.put((dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        deliveries.port = server.server_port
        yield deliveries
        server.shutdown()


@pytest.fixture(scope="session")
def url(received):
    container = (
        DockerContainer("wrs-emulator")
        .with_exposed_ports(9770)
        .with_env("WRS_EMULATOR_CONTROL_TOKEN", TOKEN)
        .with_env("WRS_EMULATOR_FORWARD", f"https://app.example.com=http://host.docker.internal:{received.port}")
        .with_kwargs(extra_hosts={"host.docker.internal": "host-gateway"})
        .waiting_for(HttpWaitStrategy(9770, "/_emulator/health"))
    )
    with container as running:
        yield f"http://{running.get_container_host_ip()}:{running.get_exposed_port(9770)}"


def post(url, bearer, body):
    headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


def test_a_webhook_arrives(url, received):
    post(f"{url}/v1/events/subscribe", KEY, {"url": "https://app.example.com/hooks", "events": ["workflow.completed"]})
    post(f"{url}/_emulator/events", TOKEN, {"key": KEY, "type": "workflow.completed"})
    headers, body = received.get(timeout=10)
    assert headers["webhook-signature"].startswith("v1,")
    assert json.loads(body)["type"] == "workflow.completed"
