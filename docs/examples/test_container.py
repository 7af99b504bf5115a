import urllib.request

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy


@pytest.fixture(scope="session")
def wrs():
    container = (
        DockerContainer("wrs-emulator")
        .with_exposed_ports(9770)
        .with_env("WRS_EMULATOR_CONTROL_TOKEN", "only-for-this-run")
        .waiting_for(HealthcheckWaitStrategy())
    )
    with container as running:
        yield f"http://{running.get_container_host_ip()}:{running.get_exposed_port(9770)}"


def test_status(wrs):
    headers = {"Authorization": "Bearer sk_test_python_status"}
    with urllib.request.urlopen(urllib.request.Request(wrs + "/v1/system/status", headers=headers)) as answer:
        assert answer.status == 200
