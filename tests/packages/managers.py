"""The npm package as package managers install it: from its file and from a registry. Usage: managers.py EMULATOR_BINARY TOOLS [MANAGER…]

TOOLS is a node_modules folder with the managers; without one, the `npm` on the path. A registry on loopback records its requests.
"""

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check, passed

root = pathlib.Path(__file__).parents[2]
PATIENCE = 60
PLATFORMS = ("linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64")
# On another platform, for the manager and for the program that it starts.
FOREIGN = """
for (const [name, value] of [["platform", "darwin"], ["arch", "arm64"]]) Object.defineProperty(process, name, { value });
"""


class Registry:
    """Knows the packages that are put into it, and notes every request."""

    def __init__(self):
        self.asked, self.files = [], {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.asked.append(self.path)
                content = registry.files.get(self.path.split("?")[0].replace("%2f", "/"))
                self.answer(200 if content else 404, content or b"{}")

            def do_POST(self):
                registry.asked.append(self.path)
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                registry.asked.append(f"in the body: {body.decode(errors='replace')}")
                self.answer(200, b"{}")

            def answer(self, status, content):
                self.send_response(status)
                self.send_header("content-type", "application/json" if content.startswith(b"{") else "application/octet-stream")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def publish(self, file, content):
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            manifest = json.load(archive.extractfile("package/package.json"))
        name, version = manifest["name"], manifest["version"]
        path = f"/{name}/-/{file}"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        manifest["dist"] = {"tarball": self.url + path, "integrity": integrity, "shasum": hashlib.sha1(content).hexdigest()}
        page = {"name": name, "dist-tags": {"latest": version}, "versions": {version: manifest}, "time": {version: "2020-01-01T00:00:00.000Z"}}
        self.files |= {f"/{name}": json.dumps(page).encode(), path: content}

    def named(self):
        return [one for one in self.asked if "wrs-emulator" in one]


class Manager:
    """A package manager: how it adds the package, installs from the lock file, and runs the program."""

    def __init__(self, name, program, add, locked, execute):
        self.name, self.program, self.add, self.locked, self.execute = name, program, add, locked, execute


def managers(tools):
    """All of them, by name."""
    if tools is None:
        return {"npm": Manager("npm", ["npm"], ["install", "--save-dev"], ["ci"], ["exec", "--no", "--"])}
    node = lambda path: ["node", str(tools / path)]
    npm = lambda version: Manager(
        f"npm {version}", node(f"npm{version}/bin/npm-cli.js"), ["install", "--save-dev"], ["ci"], ["exec", "--no", "--"]
    )
    bun = [str(tools / ".bin/bun")]
    return {
        **{f"npm{version}": npm(version) for version in (9, 10, 11)},
        "pnpm": Manager("pnpm", node("pnpm/bin/pnpm.cjs"), ["add", "--save-dev"], ["install", "--frozen-lockfile"], ["exec"]),
        "yarn1": Manager("yarn 1", node("yarn1/bin/yarn.js"), ["add", "--dev"], ["install", "--frozen-lockfile"], ["run", "--silent"]),
        "yarn4": Manager("yarn 4", node("@yarnpkg/cli-dist/bin/yarn.js"), ["add", "--dev"], ["install", "--immutable"], ["run"]),
        "bun": Manager("bun", bun, ["add", "--dev"], ["install", "--frozen-lockfile"], ["x", "--no-install"]),
    }


class Project:
    """An empty project, and a manager that asks one registry."""

    def __init__(self, manager, registry, work):
        self.manager, self.registry = manager, registry
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=work))
        (self.folder / "package.json").write_text('{"name": "shop", "private": true}')
        (self.folder / "foreign.cjs").write_text(FOREIGN)
        # Without it yarn 4 looks for a project further up.
        if manager.name == "yarn 4":
            (self.folder / "yarn.lock").touch()
        clean = {name: value for name, value in os.environ.items() if not name.lower().startswith(("npm_", "yarn_", "wrs_", "bun_"))}
        self.environment = clean | {
            "HOME": str(self.folder), "npm_config_registry": registry.url, "npm_config_cache": str(self.folder / "cache"),
            "YARN_REGISTRY": registry.url, "YARN_CACHE_FOLDER": str(self.folder / "yarn"),
            "BUN_CONFIG_REGISTRY": registry.url, "BUN_INSTALL_CACHE_DIR": str(self.folder / "bun"), "COREPACK_ENABLE_STRICT": "0",
            "npm_config_store_dir": str(self.folder / "store"), "npm_config_update_notifier": "false", "CI": "1",
        }
        if manager.name == "yarn 4":
            self.environment |= {
                "YARN_NPM_REGISTRY_SERVER": registry.url, "YARN_UNSAFE_HTTP_WHITELIST": "127.0.0.1", "YARN_ENABLE_TELEMETRY": "0",
                "YARN_ENABLE_IMMUTABLE_INSTALLS": "0",
            }
            del self.environment["YARN_REGISTRY"], self.environment["YARN_CACHE_FOLDER"]

    def run(self, *arguments, foreign=False):
        environment = self.environment
        # Bun is not Node: it reads the platform from its flags.
        if foreign and self.manager.name != "bun":
            environment = environment | {"NODE_OPTIONS": f"--require {self.folder}/foreign.cjs"}
        command = [*self.manager.program, *map(str, arguments)]
        if foreign and self.manager.name == "bun":
            command += ["--os=darwin", "--cpu=arm64"]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)

    def manifest(self):
        return json.loads((self.folder / "package.json").read_text())

    def forget(self):
        """As in a fresh checkout."""
        for name in ("node_modules", ".yarn", ".pnp.cjs", ".pnp.loader.mjs", "cache", "store", "yarn", "bun"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def stub(platform):
    """The head of a binary, from which `build.py` reads its platform."""
    system, processor = platform.split("-")
    if system == "darwin":
        return b"\xcf\xfa\xed\xfe" + struct.pack("<I", {"x64": 0x01000007, "arm64": 0x0100000C}[processor]) + bytes(60)
    return b"\x7fELF" + bytes(14) + struct.pack("<H", {"x64": 0x3E, "arm64": 0xB7}[processor]) + bytes(60)


def build(binary, work, *flags, platforms=PLATFORMS[1:]):
    """Packs the binary and stubs for other platforms; gives the file of the npm package, or the one with those to publish."""
    binaries = [binary]
    for platform in platforms:
        binaries.append(work / platform)
        binaries[-1].write_bytes(stub(platform))
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    subprocess.run([sys.executable, root / "packages/build.py", *flags, *binaries, folder], check=True, stdout=subprocess.DEVNULL)
    (file,) = (*folder.glob("*.tgz"), *folder.glob("*.tar"))
    return file


def from_file(manager, file, work, version):
    """README's way: add the file, install again from the lock file, here and on another platform."""
    registry = Registry()
    project = Project(manager, registry, work)
    shutil.copy(file, project.folder)
    added = project.run(*manager.add, f"./{file.name}")
    check(f"{manager.name}: installs the package from its file", added.returncode == 0, added)
    runs = project.run(*manager.execute, "wrs-emulator", "--version")
    check(f"{manager.name}: and runs the program", runs.stdout == version, runs)
    manifest = project.manifest()
    named = {name for kind, names in manifest.items() if kind.endswith("ependencies") for name in names}
    check(f"{manager.name}: it is the one dependency", named == set(manifest["devDependencies"]) == {"wrs-emulator"}, manifest)
    for foreign in (False, True):
        project.forget()
        locked = project.run(*manager.locked, foreign=foreign)
        where = "on another platform" if foreign else "from the lock file"
        check(f"{manager.name}: {' '.join(manager.locked)} {where}", locked.returncode == 0, locked)
    # Npm sends the names of all that is installed to its audit, which gives no package.
    asked = [one for one in registry.named() if not one.startswith("in the body")]
    check(f"{manager.name}: no registry is asked for our names", not asked, registry.asked)


def foreign_program(file, work):
    """The package has the program of another platform, and names the missing one."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    foreign = folder / "foreign.cjs"

    def found(platform, arch):
        foreign.write_text(FOREIGN.replace('"darwin"', f'"{platform}"').replace('"arm64"', f'"{arch}"'))
        command = ["node", "--require", foreign, "-p", f"require('{folder}/package/binary.js')()"]
        return subprocess.run(command, capture_output=True, text=True)

    path = found("darwin", "arm64").stdout.strip()
    check("on another platform it has that platform's program", path == f"{folder}/package/bin/darwin-arm64/wrs-emulator", path)
    path = found("sunos", "x64").stderr
    check("on one that it was not packed for, it says so", f"no binary for sunos-x64, only for {', '.join(sorted(PLATFORMS))}" in path, path)


def from_registry(manager, packages, work, version):
    """The published packages: only the platform's program is installed, also from the lock file."""
    registry = Registry()
    for name, content in packages:
        registry.publish(name, content)
    project = Project(manager, registry, work)
    added = project.run(*manager.add, "wrs-emulator")
    runs = project.run(*manager.execute, "wrs-emulator", "--version")
    check(f"{manager.name}: from a registry, it runs", runs.stdout == version, (added, runs))
    project.forget()
    locked = project.run(*manager.locked)
    fetched = [one for one in registry.asked if one.endswith(".tgz") and "wrs-emulator-l" in one]
    check(f"{manager.name}: and from the lock file", locked.returncode == 0 and fetched, (locked, registry.asked))


def published_needs_registry(manager, packages, work):
    """The published package from a file asks for the packages of its platforms: so this test would see it."""
    registry = Registry()
    project = Project(manager, registry, work)
    (name, content) = packages[-1]
    (project.folder / name).write_bytes(content)
    project.run(*manager.add, f"./{name}")
    check(f"{manager.name}: the registry notes who asks for our names", registry.named(), registry.asked)


def wrong_programs(binary, work):
    """Without a program, or with a wrong one, `build.py` says what to type."""
    text = work / "text"
    text.write_text("no program")
    for arguments, reason in (
        ([], "a built program is missing"), ([binary], "a folder for the packages is missing"),
        ([work / "absent", work / "to"], "No such file or directory"), ([text, work / "to"], "neither ELF nor Mach-O"),
        ([sys.executable, work / "to"], "it is not wrs-emulator"),
    ):
        result = subprocess.run([sys.executable, root / "packages/build.py", *arguments], capture_output=True, text=True)
        told = result.returncode == 1 and reason in result.stderr and "build.py target/release/wrs-emulator dist" in result.stderr
        check(f"build.py: {reason}, and what to type", told and not (work / "to").exists(), result)


def main():
    binary, tools = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:3]
    known = managers(pathlib.Path(tools[0]).resolve() if tools and tools[0] else None)
    chosen = [known[name] for name in sys.argv[3:]] or list(known.values())
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    with contextlib.ExitStack() as stack:
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        wrong_programs(binary, work)
        file = build(binary, work)
        foreign_program(file, work)
        with tarfile.open(build(binary, work, "--publish")) as archive:
            packages = [(entry.name, archive.extractfile(entry).read()) for entry in archive]
        published_needs_registry(chosen[0], packages, work)
        for manager in chosen:
            from_file(manager, file, work, version)
            from_registry(manager, packages, work, version)
    print(f"{len(passed)} passed, 0 failed")


main()
