"""Reads the emulator's metrics with the parser of PyPI prometheus_client. Usage: prometheus.py EMULATOR_BINARY"""

import pathlib
import sys

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from emulator import Emulator

with Emulator(sys.argv[1]) as emulator:
    for path, status in [("/v1/hello", 200), ("/v1/hello", 200), ("/v1/hello", 200), ("/v1/system/status", 401)]:
        assert emulator.call("GET", path, key=None)[0] == status, path
    _, text = emulator.call("GET", "/_emulator/metrics")
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
print(f"{len(families)} families read")
