"""Builds the image with buildah and runs it with podman and runc. Usage: engine.py STATIC_BINARY NODE_MODULES FOLDER

Started by `engine.sh` in separate namespaces. Two things are replaced: the build stage (its base image would be downloaded), and the
timer of health checks (podman asks systemd for one).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check, passed, until

binary, modules, work = map(pathlib.Path, sys.argv[1:])
root = pathlib.Path(__file__).parents[2]
MIB = 1024 * 1024
IMAGE, PATIENCE = "wrs-emulator", 60
environment = {name: value for name, value in os.environ.items() if not name.startswith(("WRS_", "DOCKER_", "CONTAINER"))} | {
    "CONTAINERS_CONF": str(work / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(work / "storage.conf"), "BUILDAH_ISOLATION": "chroot",
    # The default format of OCI has no health check.
    "BUILDAH_FORMAT": "docker",
    "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin",
}
# A machine that may not raise its limits may not grant the engine's defaults either.
(work / "containers.conf").write_text(f"""
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
static_dir = "{work}/libpod"
tmp_dir = "{work}/tmp"
compat_api_enforce_docker_hub = false
[network]
network_backend = "netavark"
network_config_dir = "{work}/networks"
""")
(work / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{work}/graph"\nrunroot = "{work}/run"\n')


def run(*command, folder=work, must=True, settings=None):
    result = subprocess.run(command, cwd=folder, env=environment | (settings or {}), capture_output=True, text=True, timeout=PATIENCE)
    if must and result.returncode != 0:
        sys.exit(f"✗ {command}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def podman(*command, **how):
    return run("podman", *command, **how)


def inspect(container, form):
    return podman("inspect", container, "--format", form).stdout.strip()


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status, answer.read().decode()
    except OSError:
        return None


def beat():
    """What systemd does where it runs: the health check of every container that has one, again and again."""
    while True:
        for container in podman("ps", "--quiet", must=False).stdout.split():
            podman("healthcheck", "run", container, must=False)
        time.sleep(0.3)


def example(name):
    """The text of a file of docs/examples."""
    return (root / "docs/examples" / name).read_text()


def lay_out_context(folder):
    """The last stage, unchanged, after a build stage that is made of files."""
    image = folder / "build/target/image"
    (image / "scenarios").mkdir(parents=True)
    shutil.copy(binary, image / "wrs-emulator")
    (folder / "build/target/state").mkdir()
    (folder / "etc/ssl/certs").mkdir(parents=True)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", folder / "etc/ssl/certs")
    _, last = (root / "Dockerfile").read_text().rsplit("\nFROM scratch\n", 1)
    (folder / "Dockerfile").write_text(f"FROM scratch AS build\nCOPY . /\n\nFROM scratch\n{last}")


def build():
    context = work / "wrs-emulator"
    lay_out_context(context)
    run("buildah", "bud", "--quiet", "--tag", IMAGE, ".", folder=context)
    size = int(inspect(IMAGE, "{{.Size}}"))
    podman("push", "--quiet", IMAGE, f"oci:{work}/oci:latest")
    packed = sum(blob.stat().st_size for blob in (work / "oci/blobs/sha256").iterdir())
    check(f"buildah builds the image: {size / MIB:.1f} MiB, pulled {packed / MIB:.1f} MiB", size > packed > 0)
    # A program under test, for the examples: the receiver of the command line.
    (work / "Dockerfile.app").write_text(f'FROM localhost/{IMAGE}\nHEALTHCHECK NONE\nENTRYPOINT ["/wrs-emulator", "listen", "--listen", "0.0.0.0:3000"]\n')
    run("buildah", "bud", "--quiet", "--tag", "your-app", "--file", "Dockerfile.app", ".")


def plain():
    """No argument, then stopped."""
    podman("run", "--detach", "--name", "plain", "--publish", "9770:9770", IMAGE)
    status, body = until("the published port answers", lambda: get("http://127.0.0.1:9770/v1/hello"))
    check("podman runs it without an argument, and the published port answers", status == 200 and "Hello, world!" in body, body)
    until("the health check turns healthy", lambda: inspect("plain", "{{.State.Health.Status}}") == "healthy")
    check("its health check turns healthy", True)
    begun = time.monotonic()
    podman("stop", "--time", "10", "plain")
    seconds, code = time.monotonic() - begun, inspect("plain", "{{.State.ExitCode}}")
    check(f"podman stop ends it by SIGTERM, with exit code 0 after {seconds:.1f} s", code == "0" and seconds < 5, code)
    podman("rm", "plain")


def hardened():
    """Read-only, without capabilities, its state on a volume that outlives it."""
    flags = ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--volume", "state:/state",
             "--env", "WRS_EMULATOR_STATE=/state/state.json", "--env", "WRS_EMULATOR_CONTROL_OPEN=1", "--publish", "9770:9770"]
    for attempt in (1, 2):
        podman("run", "--detach", "--name", "hardened", *flags, IMAGE)
        until("the published port answers", lambda: get("http://127.0.0.1:9770/v1/hello"))
        if attempt == 1:
            process = pathlib.Path("/proc", inspect("hardened", "{{.State.Pid}}"))
            status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
            mount = next(line for line in (process / "mountinfo").read_text().splitlines() if line.split()[4] == "/")
            safe = int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"] == "1" and status["Uid"].split()[0] == "65532"
            check("it runs with a read-only root, no capability, no new privileges, as 65532", safe and mount.split()[5].startswith("ro,"), [status, mount])
            podman("exec", "hardened", "/wrs-emulator", "subscriptions", "create", "https://app.sink.localhost/hooks", "--key", "sk_test_kept")
            fired = podman("exec", "hardened", "/wrs-emulator", "trigger", "workflow.completed", "--key", "sk_test_kept", "--wait")
            check("a webhook goes round, triggered by podman exec", "delivered https://app.sink.localhost/hooks" in fired.stdout, fired)
        else:
            listed = podman("exec", "hardened", "/wrs-emulator", "subscriptions", "list", "--key", "sk_test_kept")
            check("the next container has the state of the volume", "https://app.sink.localhost/hooks" in listed.stdout, listed)
        podman("stop", "hardened")
        assert inspect("hardened", "{{.State.ExitCode}}") == "0"
        podman("rm", "hardened")


def compose():
    """The example, unchanged."""
    folder = work / "compose"
    folder.mkdir()
    shutil.copytree(work / "wrs-emulator", folder / "wrs-emulator")
    (folder / "scenarios").mkdir()
    (folder / "scenarios/mine.toml").write_text('[[rule]]\nwhen = { operation = "hello" }\nreply = { status = 503, code = "scripted", message = "no" }\n')
    (folder / "compose.yaml").write_text(example("compose.yaml"))
    up = run("podman-compose", "up", "--detach", folder=folder)
    until("the published port answers", lambda: get("http://127.0.0.1:9770/v1/hello"))
    inside = ["podman-compose", "exec", "wrs-emulator", "/wrs-emulator"]
    run(*inside, "subscriptions", "create", "https://app.example.com/hooks", "--key", "sk_test_compose", folder=folder)
    fired = run(*inside, "trigger", "workflow.completed", "--key", "sk_test_compose", "--wait", folder=folder)
    check("podman-compose runs compose.yaml: a webhook reaches the other service by its name", "sent to http://app:3000/hooks: answered 200" in fired.stdout, fired)
    listed = run(*inside, "scenarios", "list", folder=folder)
    check("podman-compose: the mounted scenario is there", "mine" in listed.stdout, listed)
    if ignored := re.search(r"Ignored .* doesn't support healthy!", up.stderr):
        print(f"  NOT shown: waiting for service_healthy. podman-compose: {ignored[0]}")
    run("podman-compose", "down", "--volumes", folder=folder)


def kubernetes():
    """The example, with the sidecar as an ordinary container."""
    for name in ("your-organisation/wrs-emulator:0.1.0", "your-organisation/app:1.0.0"):
        podman("tag", IMAGE if "emulator" in name else "your-app", name)
    text = example("kubernetes.yaml")
    file = work / "kubernetes.yaml"
    file.write_text(text)
    verbatim = podman("kube", "play", file, must=False)
    podman("kube", "down", file, must=False)
    if verbatim.returncode:
        print(f"  NOT shown: a sidecar as init container. podman: {verbatim.stderr.splitlines()[-1].removeprefix('Error: ')}")
    config, deployment = yaml.safe_load_all(text)
    spec = deployment["spec"]["template"]["spec"]
    (sidecar,) = spec.pop("initContainers")
    del sidecar["restartPolicy"]
    spec["containers"].insert(0, sidecar)
    file.write_text(yaml.safe_dump_all([config, deployment]))
    podman("kube", "play", file)
    inside = ["exec", "app-pod-0-wrs-emulator", "/wrs-emulator"]
    until("the probe's command succeeds", lambda: podman(*inside, "health", must=False).returncode == 0)
    listed = podman(*inside, "scenarios", "list")
    check("podman kube play: the ConfigMap's scenario is active", re.search(r"\* +throttled|throttled.*active", listed.stdout), listed.stdout)
    podman(*inside, "subscriptions", "create", "https://app.example.com/hooks")
    fired = podman(*inside, "trigger", "workflow.completed", "--wait")
    check("podman kube play: a webhook reaches the app in the same pod", "sent to http://localhost:3000/hooks: answered 200" in fired.stdout, fired)
    probe = json.loads(inspect("app-pod-0-wrs-emulator", "{{json .Config.Healthcheck.Test}}"))
    if probe[0] == "CMD-SHELL":
        print(f"  NOT shown: the probe in podman, which passes it to a shell that the image does not have: {probe}")
    podman("kube", "down", file)


def testcontainers():
    """The examples for Python and Node against podman's socket: a webhook reaches the test's own process."""
    socket, folder = work / "podman.sock", work / "testcontainers"
    service = subprocess.Popen(["podman", "system", "service", "--time=0", f"unix://{socket}"], env=environment, stderr=subprocess.DEVNULL)
    until("podman's socket is there", socket.exists)
    folder.mkdir()
    for name in ("test_webhook.py", "webhook.test.mjs"):
        # Debian's podman takes `host-gateway` for an address. It has a name for the host itself.
        (folder / name).write_text(example(f"testcontainers/{name}").replace("http://host.docker.internal", "http://host.containers.internal"))
    (folder / "node_modules").symlink_to(modules)
    # Their reaper is its own image, which would be downloaded. Here the machine may be a container itself, which Python would ask
    # for its gateway.
    settings = {"DOCKER_HOST": f"unix://{socket}", "TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
                "TESTCONTAINERS_CONNECTION_MODE": "docker_host"}
    result = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", folder=folder, settings=settings)
    check("Testcontainers for Python: a webhook from a container of podman reaches the test", "1 passed" in result.stdout, result)
    result = run("node", "--test", "--test-reporter=tap", "webhook.test.mjs", folder=folder, settings=settings)
    check("Testcontainers for Node: a webhook from a container of podman reaches the test", "# pass 1\n" in result.stdout, result)
    service.terminate()
    service.wait()


def main():
    for tool in ("buildah", "podman", "runc"):
        print(f"  {run(tool, '--version').stdout.splitlines()[0]}")
    build()
    threading.Thread(target=beat, daemon=True).start()
    plain()
    hardened()
    compose()
    kubernetes()
    testcontainers()
    left = podman("ps", "--all", "--quiet").stdout
    check("no container is left", left == "", left)
    print(f"{len(passed)} passed, 0 failed")


main()
