"""The servers that are compared: how each is started so that it gives the answer, and how with further rules in front.

Each runs with its defaults, except that requests are not logged where a flag says so. Where a server has rules on requests, a
further rule asks for another value of the query parameter `n`; where it has only routes, a further rule is a further route.
Where a server can post to a receiver because of a request, `webhooks` sets it up to post one small event for each.
"""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

HEADERS = {"Accept": "application/json", "Authorization": "Bearer sk_test_local"}
ANSWER = {"ok": True, "environment": "sandbox", "version": "v1.0", "checked_at": "2026-01-31T09:30:00.000Z"}
PATH = "/v1/system/status"
EVENT = {"type": "workflow.completed", "data": {"workflow_id": "wf_42", "status": "completed"}}


def free_port():
    """A port that nobody has at present."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """What is the same of all."""

    name = ""
    takes_rules = True

    def missing(self):
        """Why it cannot be measured, or None."""
        return None

    def version(self):
        """Its version, for the table."""
        return ""

    def query(self, _rules):
        """What is added to the URL."""
        return ""

    def command(self, folder, port, rules):
        """The command that serves on the port; files may be put into the folder."""
        raise NotImplementedError

    def webhooks(self, folder, port, receiver):
        """The command that also posts an event to the receiver's URL for each request, or None if it cannot."""
        return None


class Emulator(Server):
    name = "wrs-emulator"

    def __init__(self, root):
        self.binary = root / "target/dist/wrs-emulator"

    def missing(self):
        return None if self.binary.exists() else "run `cargo build --profile dist`"

    def version(self):
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]

    def query(self, rules):
        return f"?n={rules}" if rules else ""

    def command(self, folder, port, rules):
        command = [self.binary, "serve", "--quiet", "--listen", f"127.0.0.1:{port}"]
        # Quota is counted for every request, and no request is refused.
        command += ["--set", "rate_limit.requests=4294967295"]
        if rules:
            rule = '[[rule]]\nwhen = {{ operation = "system.status", query.n = "{}" }}\npass = true\n'
            (folder / "rules").mkdir()
            (folder / "rules/many.toml").write_text("".join(rule.format(n) for n in range(1, rules + 2)))
            command += ["--scenarios", folder / "rules", "--scenario", "many"]
        return command

    def webhooks(self, folder, port, receiver):
        """Signed, over a pool of connections; the contract's URL is https and leads to the receiver."""
        subscription = '[[given.subscription]]\nurl = "https://app.example.com/hooks"\nevents = ["workflow.completed"]\n'
        data = ", ".join(f'{name} = "{value}"' for name, value in EVENT["data"].items())
        emit = f'[[emit]]\nevent = "{EVENT["type"]}"\ndata = {{ {data} }}\non = {{ operation = "system.status" }}\n'
        (folder / "events").mkdir()
        (folder / "events/each.toml").write_text(subscription + emit)
        more = ["--scenarios", folder / "events", "--scenario", "each", "--forward", f"https://app.example.com={receiver}"]
        return [*self.command(folder, port, 0), *more]


class BareHyper(Server):
    name = "bare hyper"
    takes_rules = False

    def __init__(self, root):
        built = [path for path in (root / "target/dist/deps").glob("bare_hyper-*") if path.suffix == ""]
        self.binary = max(built, key=lambda path: path.stat().st_mtime, default=None)

    def missing(self):
        return None if self.binary else "run `cargo bench --profile dist --bench bare_hyper --no-run`"

    def command(self, folder, port, _rules):
        headers = [["content-type", "application/json"], ["x-emulator-generation", "1"]]
        headers += [["x-ratelimit-limit", "4294967295"], ["x-ratelimit-remaining", "4294967294"]]
        headers += [["x-emulator-request-id", "req_01kg9p6je0vr8r2ej1960613z0"]]
        answer = json.dumps({"headers": headers, "body": json.dumps(ANSWER)})
        return [self.binary, "--bare-server", folder / "url", answer, f"127.0.0.1:{port}"]


class Package(Server):
    """One that npm installs."""

    package = script = needs = ""

    def __init__(self, packages):
        self.folder = packages / "node_modules" / self.package
        self.script_file = packages / "node_modules/.bin" / self.script

    def missing(self):
        if shutil.which(self.needs) is None:
            return f"`{self.needs}` is not installed"
        return None if self.folder.exists() else f"npm package `{self.package}` is not installed"

    def version(self):
        return json.loads((self.folder / "package.json").read_text())["version"]


class Posting(Package):
    """One that matches the query, and can post to a receiver."""

    def query(self, rules):
        return f"?n={rules}" if rules else ""

    def command(self, folder, port, rules):
        return self.start(folder, port, rules, None)

    def webhooks(self, folder, port, receiver):
        return self.start(folder, port, 0, receiver)

    def start(self, folder, port, rules, receiver):
        """The command, with a post for each request if there is a receiver."""
        raise NotImplementedError


class JsonServer(Package):
    name, package, script, needs = "json-server", "json-server", "json-server", "node"

    def command(self, folder, port, rules):
        routes = {f"/v1/other/{n}": "/status" for n in range(rules)} | {PATH: "/status"}
        (folder / "db.json").write_text(json.dumps({"status": ANSWER}))
        (folder / "routes.json").write_text(json.dumps(routes))
        files = ["--routes", folder / "routes.json", folder / "db.json"]
        return ["node", self.script_file.resolve(), "--quiet", "--host", "127.0.0.1", "--port", str(port), *files]


class Prism(Package):
    name, package, script, needs = "Prism", "@stoplight/prism-cli", "prism", "node"

    def command(self, folder, port, rules):
        content = {"application/json": {"schema": {"type": "object"}, "example": ANSWER}}
        item = {"get": {"responses": {"200": {"description": "the status", "content": content}}}}
        paths = {f"/v1/other/{n}": item for n in range(rules)} | {PATH: item}
        document = {"openapi": "3.1.0", "info": {"title": "status", "version": "1"}, "paths": paths}
        (folder / "openapi.json").write_text(json.dumps(document))
        where = ["-h", "127.0.0.1", "-p", str(port)]
        return ["node", self.script_file.resolve(), "mock", "-v", "silent", *where, folder / "openapi.json"]


class Mockoon(Posting):
    name, package, script, needs = "Mockoon", "@mockoon/cli", "mockoon-cli", "node"

    def start(self, folder, port, rules, receiver):
        """The environment with its callback, if there is a receiver."""
        callback = {
            "uuid": "00000000-0000-4000-b000-000000000001",
            "id": "event",
            "name": "event",
            "documentation": "",
            "method": "post",
            "uri": receiver,
            "headers": [{"key": "Content-Type", "value": "application/json"}],
            "body": json.dumps(EVENT),
            "bodyType": "INLINE",
        }

        def response(number, rule):
            rules_of = [{"target": "query", "modifier": "n", "value": str(rule), "operator": "equals", "invert": False}]
            return {
                "uuid": f"00000000-0000-4000-8000-{number:012}",
                "body": json.dumps(ANSWER),
                "latency": 0,
                "statusCode": 200,
                "label": "",
                "headers": [{"key": "Content-Type", "value": "application/json"}],
                "bodyType": "INLINE",
                "filePath": "",
                "databucketID": "",
                "sendFileAsBody": False,
                "rules": rules_of if rule is not None else [],
                "rulesOperator": "OR",
                "disableTemplating": False,
                "fallbackTo404": False,
                "default": rule is None,
                "crudKey": "id",
                "callbacks": [{"uuid": callback["uuid"], "latency": 0}] if receiver else [],
            }

        # The default stands last and answers when no rule fits.
        responses = [response(n, n + rules + 1) for n in range(rules)] + [response(rules, None)]
        route = {
            "uuid": "00000000-0000-4000-9000-000000000001",
            "type": "http",
            "documentation": "",
            "method": "get",
            "endpoint": PATH.lstrip("/"),
            "responses": responses,
            "responseMode": None,
            "streamingMode": None,
            "streamingInterval": 0,
        }
        document = {
            "uuid": "00000000-0000-4000-a000-000000000001",
            "lastMigration": 33,
            "name": "status",
            "endpointPrefix": "",
            "latency": 0,
            "port": port,
            "hostname": "127.0.0.1",
            "routes": [route],
            "rootChildren": [{"type": "route", "uuid": route["uuid"]}],
            "folders": [],
            "proxyMode": False,
            "proxyHost": "",
            "proxyRemovePrefix": False,
            "tlsOptions": {"enabled": False, "type": "CERT", "pfxPath": "", "certPath": "", "keyPath": "", "caPath": "",
                           "passphrase": ""},
            "cors": False,
            "headers": [],
            "proxyReqHeaders": [],
            "proxyResHeaders": [],
            "data": [],
            "callbacks": [callback] if receiver else [],
        }
        (folder / "environment.json").write_text(json.dumps(document))
        arguments = ["start", "--disable-log-to-file", "--repair", "--data", folder / "environment.json"]
        return ["node", self.script_file.resolve(), *arguments]


class WireMock(Posting):
    name, package, script, needs = "WireMock", "wiremock", "wiremock", "java"

    def start(self, folder, port, rules, receiver):
        """The mappings, with a webhook if there is a receiver."""
        hook = {"method": "POST", "url": receiver, "headers": {"Content-Type": "application/json"}, "body": json.dumps(EVENT)}

        def mapping(number):
            request = {"method": "GET", "urlPath": PATH}
            if number is not None:
                request["queryParameters"] = {"n": {"equalTo": str(number + rules + 1)}}
            response = {"status": 200, "headers": {"Content-Type": "application/json"}, "jsonBody": ANSWER}
            # Lower numbers are looked at first.
            stub = {"priority": 9 if number is None else 1, "request": request, "response": response}
            if receiver:
                stub["serveEventListeners"] = [{"name": "webhook", "parameters": hook}]
            return stub

        (folder / "mappings").mkdir()
        mappings = [mapping(n) for n in range(rules)] + [mapping(None)]
        (folder / "mappings/all.json").write_text(json.dumps({"mappings": mappings}))
        jar = next(self.folder.glob("build/*.jar"))
        arguments = ["--bind-address", "127.0.0.1", "--port", str(port), "--root-dir", folder, "--disable-banner"]
        return ["java", "-jar", jar, *arguments]


class MockServer(Posting):
    name, package, script, needs = "MockServer", "mockserver-node", "mockserver", "java"

    def start(self, folder, port, rules, receiver):
        """The expectations, with an action after the answer if there is a receiver. Those that were made first are looked at first."""
        json_header = {"Content-Type": ["application/json"]}

        def expectation(number):
            request = {"method": "GET", "path": PATH}
            if number is not None:
                request["queryStringParameters"] = {"n": [str(number + rules + 1)]}
            made = {"httpRequest": request}
            made["httpResponse"] = {"statusCode": 200, "headers": json_header, "body": json.dumps(ANSWER)}
            if receiver:
                address = {"host": "127.0.0.1", "port": urlsplit(receiver).port, "scheme": "HTTP"}
                event = {"method": "POST", "path": "/", "headers": json_header, "body": json.dumps(EVENT)}
                made["afterActions"] = [{"httpRequest": {**event, "socketAddress": address}}]
            return made

        expectations = [expectation(n) for n in range(rules)] + [expectation(None)]
        (folder / "expectations.json").write_text(json.dumps(expectations))
        settings = {"logLevel": "WARN", "initializationJsonPath": folder / "expectations.json"}
        settings = [f"-Dmockserver.{name}={value}" for name, value in settings.items()]
        jar = next(self.folder.glob("*.jar"))
        return ["java", *settings, "-jar", jar, "-serverPort", str(port)]


class Httpmock(Server):
    """The crate's own server, which cargo installs."""

    name = "httpmock"

    def __init__(self, packages):
        self.packages, self.binary = packages, packages / "bin/httpmock"

    def missing(self):
        return None if self.binary.exists() else "cargo has not installed `httpmock`"

    def version(self):
        # The program itself names another.
        return re.search(r'"httpmock ([\d.]+)', (self.packages / ".crates.toml").read_text()).group(1)

    def query(self, rules):
        return f"?n={rules}" if rules else ""

    def command(self, folder, port, rules):
        def mock(number):
            when = {"method": "GET", "path": PATH}
            if number is not None:
                when["query_param"] = [{"name": "n", "value": str(number + rules + 1)}]
            header = [{"name": "Content-Type", "value": "application/json"}]
            # JSON is YAML.
            return json.dumps({"when": when, "then": {"status": 200, "header": header, "body": json.dumps(ANSWER)}})

        (folder / "mocks").mkdir()
        mocks = [mock(n) for n in range(rules)] + [mock(None)]
        (folder / "mocks/all.yaml").write_text("\n---\n".join(mocks))
        return [self.binary, "--port", str(port), "--disable-access-log", "--mock-files-dir", folder / "mocks"]


class Receiver:
    """Takes posts and counts them: the receiver of `cargo bench --bench instructions`."""

    def __init__(self, root, folder):
        built = [path for path in (root / "target/dist/deps").glob("instructions-*") if path.suffix == ""]
        if not built:
            raise FileNotFoundError("run `cargo bench --profile dist --bench instructions --no-run`")
        binary = max(built, key=lambda path: path.stat().st_mtime)
        self.process = subprocess.Popen([binary, "--receiver", folder])
        while not (folder / "port").exists():
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{(folder / 'port').read_text()}/"

    def posts(self):
        """How many came so far."""
        with urllib.request.urlopen(self.url, timeout=5) as answer:
            return int(answer.read())

    def stop(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()


def all_of(root: Path, packages: Path):
    """Every server, in the order of the table."""
    others = [kind(packages) for kind in (Httpmock, WireMock, MockServer, Mockoon, Prism, JsonServer)]
    return [Emulator(root), BareHyper(root), *others]
