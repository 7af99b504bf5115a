"""Tries every file in `docs/examples/`. Usage: try.py EMULATOR_BINARY

`CHECKS` names the check of each file. A file that needs an engine is compared with its published schema, and its commands are run
against a real emulator that has the Dockerfile's environment and that of the file.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

binary = sys.argv[1]
root = pathlib.Path(__file__).parents[2]
work = pathlib.Path(tempfile.mkdtemp())
binaries = work / "bin"
binaries.mkdir()
(binaries / "wrs-emulator").symlink_to(binary)
# A developer's own settings are not part of an example.
clean = {name: value for name, value in os.environ.items() if not name.startswith("WRS_")}
clean["PATH"] = f"{binaries}:{pathlib.Path(sys.executable).parent}:{clean['PATH']}"
JARS = ["junit-jupiter-api", "junit-jupiter-engine", "junit-platform-commons", "junit-platform-engine", "junit-platform-launcher",
        "junit-platform-reporting", "junit-platform-console", "opentest4j", "opentest4j-reporting-events", "apiguardian-api",
        "picocli", "univocity-parsers"]


def run(command, folder=work, environment=None, holds=None):
    """Runs a command, ends everything if it fails or if `holds` does not; gives its output."""
    result = subprocess.run(command, cwd=folder, env=environment or clean, capture_output=True, text=True, timeout=120)
    printed = result.stdout + result.stderr
    if result.returncode != 0 or (holds and not holds(printed)):
        sys.exit(f"✗ {command}: exit code {result.returncode}\n{printed}")
    return printed


class Service:
    """The emulator with the environment of the Dockerfile and that of an example."""

    def __init__(self, environment, scenarios=None):
        dockerfile = (root / "Dockerfile").read_text().rsplit("FROM scratch", 1)[1]
        own = dict(re.findall(r"\b(WRS_EMULATOR_\w+)=(\S+)", dockerfile))
        assert own.keys() == {"WRS_EMULATOR_LISTEN", "WRS_EMULATOR_SCENARIOS"}, own
        own["WRS_EMULATOR_SCENARIOS"] = str(scenarios or pathlib.Path(tempfile.mkdtemp(dir=work)))
        environment = {name: "" if value is None else str(value) for name, value in environment.items()}
        self.environment = {**clean, **own, **environment}

    def __enter__(self):
        self.process = subprocess.Popen([binary], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        assert " ready on " in line, line
        self.url = re.search(r"http://\S+", line)[0].rstrip("/")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0


def matches_schema(schema, text):
    (work / "file.yaml").write_text(text)
    run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, "file.yaml"])
    return yaml.safe_load(text)


def play(steps, environment):
    """Runs the steps of a job as a runner does."""
    environment = {**clean, **{name: str(value) for name, value in environment.items()}}
    for step in steps:
        run(["bash", "-e", "-o", "pipefail", "-c", step], environment=environment)
    return f"its {len(steps)} commands were run against a service with its environment"


def github_workflow(text, _):
    workflow = matches_schema("vendor.github-workflows", text)
    (job,) = workflow["jobs"].values()
    (service,) = job["services"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    with Service(service["env"]):
        return "fits GitHub's schema; " + play(steps, workflow["env"])


def github_npm(text, _):
    """The tests of a project by `npx`, from its own folder of modules; `npm ci` needs a registry."""
    workflow = matches_schema("vendor.github-workflows", text)
    (job,) = workflow["jobs"].values()
    install, test = [step["run"] for step in job["steps"] if "run" in step]
    assert install == "npm ci", install
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    (folder / "package.json").write_text('{"scripts": {"test": "curl --fail --silent $WRS_BASE_URL/v1/hello"}}')
    (folder / "node_modules/.bin").mkdir(parents=True)
    (folder / "node_modules/.bin/wrs-emulator").symlink_to(binary)
    run(["bash", "-e", "-o", "pipefail", "-c", test], folder)
    assert (folder / job["steps"][-1]["with"]["path"]).exists()
    return "fits GitHub's schema; its tests were run by npx and left the report"


def github_pytest(text, _):
    """The tests of a project by `exec`; the wheel that it installs is tried with the packages."""
    workflow = matches_schema("vendor.github-workflows", text)
    (job,) = workflow["jobs"].values()
    install, test = [step["run"] for step in job["steps"] if "run" in step]
    assert install.startswith("pip install vendor/wrs_emulator-"), install
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    for name, target in (("wrs-emulator", f'exec "{binary}" "$@"'), ("pytest", "curl --fail --silent $WRS_BASE_URL/v1/hello")):
        (folder / name).write_text(f"#!/bin/sh\n{target}\n")
        (folder / name).chmod(0o755)
    run(["bash", "-e", "-o", "pipefail", "-c", f'PATH="$PWD:$PATH"; {test}'], folder)
    assert (folder / job["steps"][-1]["with"]["path"]).exists()
    return "fits GitHub's schema; a command in place of pytest was run by exec and left the report"


def gitlab_ci(text, _):
    job = matches_schema("vendor.gitlab-ci", text)["test"]
    (service,) = job["services"]
    (work / "hosts").write_text(f"127.0.0.1 localhost {service['alias']}\n")
    # In a mount namespace of this run.
    subprocess.run(["mount", "--bind", work / "hosts", "/etc/hosts"], check=True)
    try:
        with Service({**job["variables"], **service["variables"]}):
            return "fits GitLab's schema; " + play(job["before_script"] + job["script"] + job["after_script"], job["variables"])
    finally:
        subprocess.run(["umount", "/etc/hosts"], check=True)


def github_action(text, _):
    matches_schema("vendor.github-workflows", text)
    return "fits GitHub's schema; tests/action/play.py runs it"


def gitlab_cached(text, _):
    """Twice: `cargo` exists the first time only."""
    job = matches_schema("vendor.gitlab-ci", text)["test"]
    cargo = binaries / "cargo"
    cargo.write_text(f'#!/bin/sh\nfor last; do :; done\nmkdir -p "$last/bin" && ln -s {binary} "$last/bin/wrs-emulator"\n')
    cargo.chmod(0o755)
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    for _ in ("build", "cache"):
        for step in job["before_script"] + job["script"]:
            run(["bash", "-e", "-o", "pipefail", "-c", step], folder)
        cargo.unlink(missing_ok=True)
    return "fits GitLab's schema; its commands were run, with `cargo install` played, then from the cache"


def pre_commit_config(text, _):
    (work / "pre-commit.yaml").write_text(text)
    run(["pre-commit", "validate-config", "pre-commit.yaml"])
    hooks = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())
    assert yaml.safe_load(text)["repos"][0]["hooks"][0]["id"] in [hook["id"] for hook in hooks]
    return "pre-commit accepts it; tests/hooks/run.sh runs the hook"


def compose(text, _):
    matches_schema("vendor.compose-spec", text)
    return "fits the Compose schema; tests/container/engine.py runs it"


def kubernetes(text, _):
    (work / "manifests.yaml").write_text(text)
    run([sys.executable, "-m", "kubernetes_validate", "--strict", "manifests.yaml"])
    config, deployment = yaml.safe_load_all(text)
    scenarios = work / "config-map"
    scenarios.mkdir()
    for name, content in config["data"].items():
        (scenarios / name).write_text(content)
    run(["wrs-emulator", "check", "--deny", "warnings", str(scenarios)])
    (sidecar,) = deployment["spec"]["template"]["spec"]["initContainers"]
    environment = {entry["name"]: entry["value"] for entry in sidecar["env"]}
    probe = sidecar["startupProbe"]["exec"]["command"]
    assert probe[0] == "/wrs-emulator", probe
    with Service(environment, scenarios):
        run(["wrs-emulator", *probe[1:]])
        run(["wrs-emulator", "scenarios", "list"], holds=lambda printed: environment["WRS_EMULATOR_SCENARIO"] in printed)
    return "fits Kubernetes' schema; its scenarios were checked and served with its environment, its probe run"


PARSER = '''
import com.sun.source.util.JavacTask;
import java.nio.file.Path;
import java.util.List;
import javax.tools.*;

class Parse {
    public static void main(String[] files) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
        StandardJavaFileManager manager = compiler.getStandardFileManager(found, null, null);
        var task = (JavacTask) compiler.getTask(null, manager, found, null, null, manager.getJavaFileObjects(Path.of(files[0])));
        task.parse();
        found.getDiagnostics().forEach(System.out::println);
        System.exit(found.getDiagnostics().isEmpty() ? 0 : 1);
    }
}
'''


def java_syntax(text, _):
    (work / "Parse.java").write_text(PARSER)
    (work / "WebhookTest.java").write_text(text)
    run(["java", "Parse.java", "WebhookTest.java"])
    return "its syntax was checked by javac; NOT compiled, as its package is not fetched"


def formatted(*command):
    """Checks a file by a formatter, which reads its syntax and has nothing to change."""

    def check(text, name):
        file = work / pathlib.Path(name).name
        file.write_text(text)
        run([*command, file.name], holds=lambda printed: printed == "")
        return f"its syntax was checked by {command[0]}; NOT compiled, as its packages are not fetched"

    return check


def java_file(text, name):
    (work / "java").mkdir(exist_ok=True)
    (work / "java" / name).write_text(text)
    return "compiled with the tests below"


def java_test(text, name):
    java_file(text, name)
    files = [path for jar in JARS if (path := pathlib.Path(f"/usr/share/java/{jar}.jar")).exists()]
    classes = ":".join([str(work / "java"), *map(str, files)])
    run(["javac", "-Xlint:all,-processing,-path", "-Werror", "-cp", classes, *sorted(path.name for path in (work / "java").glob("*.java"))], work / "java")
    command = ["java", "-cp", classes, "org.junit.platform.console.ConsoleLauncher", "--disable-banner", "--select-class", name.removesuffix(".java")]
    run(command, holds=lambda printed: "2 tests successful" in printed)
    return "compiled without a warning, and run by JUnit's console"


CHECKS = {
    "github.yml": github_workflow,
    "github-npm.yml": github_npm,
    "github-pytest.yml": github_pytest,
    "github-action.yml": github_action,
    "gitlab.yml": gitlab_ci,
    "gitlab-cached.yml": gitlab_cached,
    "pre-commit-config.yaml": pre_commit_config,
    "compose.yaml": compose,
    "kubernetes.yaml": kubernetes,
    "testcontainers/WebhookTest.java": java_syntax,
    "testcontainers/webhook_test.go": formatted("gofmt", "-l"),
    "testcontainers/webhook.rs": formatted("rustfmt", "--check", "--edition", "2024", "--config", "max_width=120,use_small_heuristics=Max"),
    "WrsEmulator.java": java_file,
    "QuotaTest.java": java_test,
}
# Run by `cargo test`, tests/fleet/run.sh, tests/container/engine.py, and tests/clients/pages.py with the pages about receivers and testing.
ELSEWHERE = {"nginx.conf", "testcontainers/test_webhook.py", "testcontainers/webhook.test.mjs", "receiver.py", "receiver.mjs", "Receiver.java",
             "receiver.go", "receiver.php", "receiver.rb", "status.test.mjs", "status.sh"}


def main():
    examples = root / "docs/examples"
    files = {str(path.relative_to(examples)) for path in examples.rglob("*") if path.is_file()}
    assert files == CHECKS.keys() | ELSEWHERE, "a file of docs/examples has no check"
    for name, check in CHECKS.items():
        print(f"✓ {name}: {check((examples / name).read_text(), name)}", flush=True)
    print(f"{len(CHECKS)} passed, 0 failed")


try:
    main()
finally:
    shutil.rmtree(work)
