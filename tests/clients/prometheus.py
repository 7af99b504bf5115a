"""Reads the emulator's metrics with the parser of PyPI prometheus_client. Usage: prometheus.py EMULATOR_BINARY"""

import subprocess
import sys
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

server = subprocess.Popen(
    [sys.argv[1], "serve", "--quiet", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
)
try:
    url = server.stdout.readline().strip().removeprefix("wrs-emulator ready on ")
    assert url.startswith("http://127.0.0.1:"), url
    for _ in range(3):
        urllib.request.urlopen(url + "/v1/hello").read()
    try:
        urllib.request.urlopen(url + "/v1/system/status")
        sys.exit("a request without a key was answered")
    except urllib.error.HTTPError as error:
        assert error.code == 401, error.code
    text = urllib.request.urlopen(url + "/_emulator/metrics").read().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    requests = {
        (sample.labels["operation"], sample.labels["status"]): sample.value
        for sample in families["wrs_emulator_requests"].samples
    }
    assert requests == {("hello", "2xx"): 3, ("system.status", "4xx"): 1}, requests
    assert families["wrs_emulator_requests"].type == "counter"
    histogram = families["wrs_emulator_delivery_attempt_duration_seconds"]
    assert histogram.type == "histogram" and len(histogram.samples) == 15, histogram
    assert all(family.documentation for family in families.values())
finally:
    server.terminate()
    server.wait(timeout=10)
print(f"{len(families)} families read")
