#!/usr/bin/env python3
"""Runs the commands of pages as a reader would type them, and compares their output with the page.

Usage: pages.py EMULATOR_BINARY [--tools FOLDER]... [--node-modules FOLDER] [PAGE...]
Without pages it runs README.md, docs/*.md and docs/internals/*.md; tests/recipes/run.sh tries the other files of docs/examples/. `--tools` goes in front of PATH, for a Python that has libraries.

Each page is played in a fresh folder, in one shell, against a fresh emulator on port 9770, which the pages name. There
`wrs-emulator` stands for a checkout of this repository (the front page is in one, so `docs` is there as well), and `pip` and `npm` install into folders of the page, without a network. By its first words a block of code is

- `console`: `$ …` is a command, the lines below it are its output, where `…` stands for anything. A command that
  shows nothing must print nothing and succeed. One that ends in `&` runs until the page ends or kills it; the lines shown
  is its first lines. A page that starts the emulator so gets no other;
- `sh`: a script that must succeed. `sh starts`: lines that each start an emulator, which must get ready and stop;
- any language with `file=NAME`, or with a comment of one file name as its first line: a file, written for the commands below it;
- any of these with `needs=PROGRAM`: left out, and told, where the program is not installed;
- any of these with `no-run`: not run. These are counted, and listed with the reason that the page gives: `no-run=reason`;
- anything else: no command. Languages of programs are refused then, so that no command is left out by mistake.
"""

import argparse
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_COMMANDS = {"", "text", "toml", "json", "jsonc", "yaml", "ini", "http", "diff", "xml", "groovy", "make", "dockerfile"}
# Held by the tests of the crate: `cargo test` runs it as documentation, or compares it with what it runs.
HELD_ELSEWHERE = {"rust"}
PATIENCE = 60
READY = re.compile(r"wrs-emulator ready on (\S+)")


class Wrong(Exception):
    """A page is wrong."""


class Block:
    """One fenced block: its language, what its first line says besides, its text, and where it begins."""

    def __init__(self, words: str, text: str, line: int) -> None:
        language, *rest = words.split() or [""]
        self.language, self.text, self.line = language, text, line
        pairs = [word.partition("=") for word in rest]
        self.words = {name: value for name, _, value in pairs}
        if named := re.match(r"(?:#|//) ([\w.]+\.\w+)\n", text):
            self.words["file"], self.text = named[1], text[named.end():]


def blocks(page: str) -> list[Block]:
    found = []
    pattern = re.compile(r"^(?P<indent> *)```(?P<words>[^\n`]*)\n(?P<text>.*?)^(?P=indent)``` *$", re.M | re.S)
    for match in pattern.finditer(page):
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        found.append(Block(match["words"], text, page.count("\n", 0, match.start()) + 1))
    return found


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with what the page shows below it."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = part.split("\n")
        command = [lines.pop(0)]
        # Lines that bash would ask for belong to the command: after a backslash, within quotes, in a document.
        while lines and (command[-1].endswith("\\") or not is_whole("\n".join(command))):
            command.append(lines.pop(0))
        found.append(("\n".join(command), "\n".join(lines).strip()))
    return found


def is_whole(command: str) -> bool:
    result = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
    return result.returncode == 0 and "here-document" not in result.stderr


def shows(expected: str, printed: str) -> bool:
    # A last line of `…` also stands for no line.
    expected, rest = (expected.removesuffix("\n…"), r"(\n.*)?") if expected.endswith("\n…") else (expected, "")
    pattern = ".*".join(re.escape(piece) for piece in expected.split("…")) + rest
    return re.fullmatch(pattern, printed, re.S) is not None


class Shell:
    """One bash that stays for a whole page, so that variables do as well."""

    MARK = "\x01done\x01"

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        self.folder = pathlib.Path(folder)
        self.background: list[int] = []
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, command: str) -> tuple[str, int]:
        script = self.folder.parent / "command.sh"
        script.write_text(command + "\n")
        line = f'. "{script}" </dev/null; printf "\\1done\\1%s\\n" "$?"\n'
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        printed, deadline = b"", time.monotonic() + PATIENCE
        while True:
            head, mark, tail = printed.partition(self.MARK.encode())
            if mark and tail.endswith(b"\n"):
                return head.decode().strip(), int(tail)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Wrong(f"`{command}` did not end within {PATIENCE} s and printed\n{printed.decode()}")
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise Wrong(f"`{command}` ended the shell and printed\n{printed.decode()}")
            printed += part

    def start(self, command: str, expected: str) -> None:
        """Runs it in the background and waits until it has printed as many lines as the page shows."""
        log = self.folder.parent / f"{len(self.background)}.log"
        output, status = self.run(f'{command.rstrip().removesuffix("&")} >"{log}" 2>&1 & echo "$!"')
        if status != 0 or not output.split()[-1].isdigit():
            raise Wrong(f"`{command}` printed\n{output}")
        self.background.append(int(output.split()[-1]))
        wanted, deadline = max(1, len(expected.splitlines())), time.monotonic() + PATIENCE
        while True:
            printed = log.read_text(errors="replace") if log.exists() else ""
            if printed.count("\n") >= wanted:
                printed = "\n".join(printed.splitlines()[:wanted])
                if not shows(expected, printed):
                    raise Wrong(f"`{command}` printed\n{printed}\nand not\n{expected}")
                return
            ended = not pathlib.Path(f"/proc/{self.background[-1]}").exists()
            if ended or time.monotonic() > deadline:
                raise Wrong(f"`{command}` {'ended' if ended else 'is silent'} and printed\n{printed}\nand not\n{expected}")
            time.sleep(0.02)

    def wait_for_last(self) -> None:
        """Waits until the last process is gone, so that its port is free."""
        self.run('wait "$!" 2>/dev/null')

    def end(self) -> None:
        # The session holds the shell and all that it started.
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)


def serve(command: list[str], folder: str, environment: dict[str, str]) -> subprocess.Popen:
    server = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not READY.fullmatch(line.strip()):
        server.kill()
        raise Wrong(f"`{' '.join(command)}` did not get ready; it printed `{line.strip()}`")
    return server


def stop(server: subprocess.Popen) -> None:
    server.terminate()
    if server.wait(timeout=10) != 0:
        raise Wrong(f"the emulator ended with {server.returncode}")


class Page:
    """One page while it is played, and what came of it."""

    def __init__(self, path: pathlib.Path, arguments: argparse.Namespace) -> None:
        self.path, self.arguments = path, arguments
        self.ran, self.files = 0, 0
        self.left_out: list[str] = []

    def play(self) -> None:
        found = blocks(self.path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as outer:
            folder = os.path.join(outer, "page")
            binaries = os.path.join(outer, "bin")
            os.makedirs(os.path.join(folder, "scenarios"))
            os.mkdir(binaries)
            os.mkdir(os.path.join(folder, "wrs-emulator"))
            for part in ("docs", "packages", "tests", "Cargo.toml", "LICENSE"):
                os.symlink(ROOT / part, os.path.join(folder, "wrs-emulator", part))
            if self.path.parent == ROOT:
                # Whoever reads the front page is in the checkout.
                os.symlink(ROOT / "docs", os.path.join(folder, "docs"))
            os.symlink(os.path.realpath(self.arguments.emulator), os.path.join(binaries, "wrs-emulator"))
            if self.arguments.node_modules:
                # Found from the folder below it, which may have its own beside.
                os.symlink(os.path.realpath(self.arguments.node_modules), os.path.join(outer, "node_modules"))
            pathlib.Path(folder, "package.json").write_text('{"private": true}')
            tools = [os.path.realpath(tool) for tool in self.arguments.tools]
            environment = {name: value for name, value in os.environ.items() if not name.startswith("WRS_")}
            environment["PATH"] = ":".join([binaries, *tools, os.environ["PATH"]])
            environment |= {"PIP_TARGET": f"{outer}/python", "PIP_NO_INDEX": "1", "PYTHONPATH": f"{outer}/python"}
            environment |= {"npm_config_offline": "true", "npm_config_audit": "false", "npm_config_fund": "false"}
            starts_own = any(re.search(r"^\$ wrs-emulator( serve\b| -).*&$", block.text, re.M) for block in found)
            runs = any(block.language in ("console", "sh") and "no-run" not in block.words for block in found)
            server = serve(["wrs-emulator", "--quiet"], folder, environment) if runs and not starts_own else None
            shell = Shell(folder, environment)
            try:
                for block in found:
                    try:
                        self.play_block(block, folder, environment, shell)
                    except Wrong as wrong:
                        raise Wrong(f"{self.path.relative_to(ROOT)}:{block.line}: {wrong}") from None
            finally:
                shell.end()
                if server:
                    stop(server)

    def play_block(self, block: Block, folder: str, environment: dict[str, str], shell: Shell) -> None:
        what = f"{self.path.relative_to(ROOT)}:{block.line} ({block.language})"
        needs = block.words.get("needs")
        if "no-run" in block.words:
            self.left_out.append(f"{what}: {block.words['no-run'].replace('-', ' ') or 'the page says so'}")
        elif needs and not shutil.which(needs, path=environment["PATH"]):
            self.left_out.append(f"{what}: `{needs}` is not installed here")
        elif "file" in block.words:
            target = pathlib.Path(folder, block.words["file"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
            self.files += 1
        elif block.language == "console":
            self.play_console(block, shell)
        elif block.language == "sh" and "starts" in block.words:
            for line in filter(None, (line.split("  #")[0].strip() for line in block.text.splitlines())):
                stop(serve(["bash", "-c", f"exec {line}"], folder, {**environment, "WRS_EMULATOR_LISTEN": "127.0.0.1:0"}))
                self.ran += 1
        elif block.language in ("sh", "bash"):
            printed, status = shell.run(f"set -e\n{block.text}\nset +e")
            if status != 0:
                raise Wrong(f"the script ended with {status} and printed\n{printed}")
            self.ran += 1
        elif block.language not in NO_COMMANDS | HELD_ELSEWHERE:
            raise Wrong(f"a block of `{block.language}` that is not run; give it `file=NAME` or `no-run=reason`")

    def play_console(self, block: Block, shell: Shell) -> None:
        found = commands(block.text)
        if not found:
            raise Wrong("a `console` block without a command")
        for command, expected in found:
            if command.rstrip().endswith("&"):
                shell.start(command, expected)
            else:
                printed, status = shell.run(command)
                if command.startswith("kill $!"):
                    shell.wait_for_last()
                if not shows(expected, printed):
                    raise Wrong(f"`{command}` printed\n{printed}\nand not\n{expected or 'nothing'}")
                if not expected and status != 0:
                    raise Wrong(f"`{command}` ended with {status}")
            self.ran += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("emulator")
    parser.add_argument("--tools", action="append", default=[])
    parser.add_argument("--node-modules")
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    arguments = parser.parse_intermixed_args()
    paths = arguments.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/internals").glob("*.md"))]
    failed, ran, left_out = 0, 0, []
    for path in paths:
        page = Page(path.resolve(), arguments)
        try:
            page.play()
        except Wrong as wrong:
            print(wrong, file=sys.stderr)
            failed += 1
        print(f"{page.ran:5} commands, {page.files:2} files: {page.path.relative_to(ROOT)}", flush=True)
        ran += page.ran
        left_out += page.left_out
    for what in left_out:
        print(f"not run: {what}")
    print(f"{ran} commands passed, {failed} pages failed, {len(left_out)} blocks not run")
    sys.exit(1 if failed or ran == 0 else 0)


main()
