#!/usr/bin/env bash
# Runs the commands of the README, the cookbook and the page on testing, each `console` block, against a real emulator, and
# compares what they print. Usage: readme.sh EMULATOR_BINARY, with pytest, pytest-xdist and node on the path.
#
# In a block, `$ …` is a command and what follows is its output, where `…` stands for anything. A block that begins with a
# comment of one file name is written to that file first. `wrs-emulator/tests` stands for a checkout of this repository.
set -euo pipefail
export emulator_binary; emulator_binary=$(realpath "$1")
root="$(dirname "$0")/../.."
python3 - "$root/README.md" "$root/docs/cookbook.md" "$root/docs/testing.md" <<'PYTHON'
import os, re, subprocess, sys, tempfile


def play(page):
    text = open(page, encoding="utf-8").read()
    name = os.path.basename(page)
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    folder = tempfile.mkdtemp()
    binaries = os.path.join(folder, "bin")
    os.mkdir(binaries)
    os.mkdir(os.path.join(folder, "scenarios"))
    os.mkdir(os.path.join(folder, "wrs-emulator"))
    tests = os.path.join(os.path.dirname(page), "tests" if name == "README.md" else "../tests")
    os.symlink(os.path.realpath(tests), os.path.join(folder, "wrs-emulator", "tests"))
    for _, file, rest in re.findall(r"^```[a-z]+\n(#|//) ([\w.]+)\n(.*?)^```", text, re.M | re.S):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as opened:
            opened.write(rest)
    os.symlink(os.environ["emulator_binary"], os.path.join(binaries, "wrs-emulator"))
    environment = {**os.environ, "PATH": binaries + ":" + os.environ["PATH"]}
    server = subprocess.Popen(["wrs-emulator", "--quiet"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    passed = 0
    try:
        assert "ready on http://127.0.0.1:9770" in server.stdout.readline()
        for block in blocks:
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                lines = part.split("\n")
                command = [lines.pop(0)]
                while command[-1].endswith("\\"):
                    command.append(lines.pop(0))
                command, expected = "\n".join(command), "\n".join(lines).strip()
                result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
                printed = result.stdout.strip()
                pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
                if expected and not re.fullmatch(pattern, printed, re.S):
                    sys.exit(f"{name}: `{command}` printed\n{printed}\nand not\n{expected}")
                passed += 1
    finally:
        server.terminate()
        assert server.wait(timeout=10) == 0
    assert passed >= 8, f"only {passed} commands were found in {name}"
    return passed


print(f"{sum(play(page) for page in sys.argv[1:])} passed, 0 failed")
PYTHON
