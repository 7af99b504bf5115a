"""Clients in several languages call an emulator that serves TLS, without a setting of their own. Usage: trust.py EMULATOR_BINARY CLIENT...

Each client runs below `exec --tls`, with a certificate made at start and with one from files, while the environment names a proxy that
does not answer. Then the variables that the banner of `serve` names are tried.
"""

import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

binary, *chosen = sys.argv[1:]
work = pathlib.Path(tempfile.mkdtemp())
clean = {name: value for name, value in os.environ.items() if not name.startswith("WRS_")}
DEAD = "http://127.0.0.1:1"
PROXIES = {name: DEAD for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}

(work / "Call.java").write_text("""
import java.net.URI;
import java.net.http.*;

class Call {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("WRS_BASE_URL") + "/v1/hello")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.body());
    }
}
""")
URL = 'process.env.WRS_BASE_URL + "/v1/hello"'
CLIENTS = {
    "curl": ["sh", "-c", "curl -sSf $WRS_BASE_URL/v1/hello"],
    "urllib": [sys.executable, "-c", "import os, urllib.request as u; print(u.urlopen(os.environ['WRS_BASE_URL'] + '/v1/hello').read())"],
    "requests": [sys.executable, "-c", "import os, requests; print(requests.get(os.environ['WRS_BASE_URL'] + '/v1/hello').text)"],
    "httpx": [sys.executable, "-c", "import os, httpx; print(httpx.get(os.environ['WRS_BASE_URL'] + '/v1/hello').text)"],
    "fetch": ["node", "-e", f"fetch({URL}).then((answer) => answer.text()).then(console.log)"],
    "https": ["node", "-e", f"require('https').get({URL}, (answer) => answer.on('data', (part) => console.log(`${{part}}`)))"],
    "java": ["java", str(work / "Call.java")],
}


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], cwd=work, check=True, capture_output=True)


def own_certificate():
    """A certificate of an authority, followed by that authority, as services are given them."""
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=a test")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    (work / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "leaf.pem", "-days",
            "2", "-extfile", "names")
    (work / "chain.pem").write_text((work / "leaf.pem").read_text() + (work / "ca.pem").read_text())
    return f"{work}/chain.pem:{work}/key.pem"


def check(name, command, environment):
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if result.returncode != 0 or "Hello, world!" not in result.stdout:
        sys.exit(f"✗ {name}: exit code {result.returncode}\n{result.stdout}{result.stderr}")


def banner():
    """Starts `serve` at a terminal; gives it and the variables that its banner names."""
    ours, theirs = pty.openpty()
    command = [binary, "--listen", "127.0.0.1:0", "--tls", "self-signed"]
    process = subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, stderr=theirs, text=True)
    url = process.stdout.readline().split()[-1]
    shown = ""
    while "stop with Ctrl-C" not in shown:
        shown += os.read(ours, 65536).decode()
    return process, url, dict(re.findall(r"export (\w+)=(\S+)", shown)), shown


for tls in ("self-signed", own_certificate()):
    for name in chosen:
        check(f"{name}, --tls {tls}", [binary, "exec", "--quiet", "--tls", tls, "--", *CLIENTS[name]], {**clean, **PROXIES})
        print(f"✓ {name}: trusts --tls {tls if tls == 'self-signed' else 'CERT:KEY'}")
process, url, variables, shown = banner()
for name in [name for name in chosen if name != "java"]:
    check(f"{name}, by the banner", CLIENTS[name], {**clean, **variables, "WRS_BASE_URL": url})
bundle = pathlib.Path(variables["SSL_CERT_FILE"])
assert bundle.exists() and f"curl --cacert {bundle.parent}/emulator.pem " in shown, shown
process.terminate()
assert process.wait(timeout=20) == 0 and not bundle.parent.exists(), "the files are removed at the end"
print("✓ the banner of `serve` names what clients need")
