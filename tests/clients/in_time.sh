#!/usr/bin/env bash
# Promises in seconds: a changed scenario is served within one, and an idle stop lasts 100 ms.
# Usage: in_time.sh [EMULATOR_BINARY]     (target/release/wrs-emulator)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=$here/.. python3 - "$(realpath "${1:-$here/../../target/release/wrs-emulator}")" <<'PYTHON'
import http.client, os, shutil, sys, tempfile, time

from emulator import Emulator

binary = sys.argv[1]


def story(number):
    return f'title = "{number}"\n[[rule]]\nwhen = {{ operation = "hello" }}\nreply = {{ status = 422, code = "n{number}", message = "m" }}\n'


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def in_place(folder, number):
    write(f"{folder}/story.toml", story(number))


def rename_over(folder, number):
    write(f"{folder}/.new", story(number))
    os.replace(f"{folder}/.new", f"{folder}/story.toml")


def behind_a_link(folder, number):
    target = f"{elsewhere}/story.toml"
    write(target, story(number))
    if os.path.realpath(f"{folder}/story.toml") != target:
        os.remove(f"{folder}/story.toml")
        os.symlink(target, f"{folder}/story.toml")


elsewhere = os.path.realpath(tempfile.mkdtemp())
folder = tempfile.mkdtemp()
write(f"{folder}/story.toml", story(0))
number = 0
with Emulator(binary, "--scenarios", folder, "--scenario", "story") as emulator:
    # A file behind a link lies in a folder that is not watched: it is found by polling.
    for save, limit in [(in_place, 1), (rename_over, 1), (behind_a_link, 2)]:
        worst = 0
        for _ in range(5):
            number += 1
            save(folder, number)
            began = time.monotonic()
            while f'"n{number}"' not in emulator.call("GET", "/v1/hello")[1]:
                assert time.monotonic() < began + 10, f"{save.__name__}: not seen at all"
                time.sleep(0.005)
            worst = max(worst, time.monotonic() - began)
            time.sleep(0.1)
        print(f"{save.__name__.replace('_', ' '):18} seen after {worst * 1000:5.0f} ms at most (at most {limit} s)")
        assert worst <= limit, "too late"
shutil.rmtree(folder)
shutil.rmtree(elsewhere)

quickest = 9.0
for _ in range(5):
    with Emulator(binary) as emulator:
        idle = http.client.HTTPConnection(emulator.url.removeprefix("http://"))
        idle.request("GET", "/v1/hello")
        idle.getresponse().read()
        began = time.monotonic()
    quickest = min(quickest, time.monotonic() - began)
print(f"an idle stop took {quickest * 1000:.0f} ms (at most 100 ms)")
assert quickest <= 0.1
print("in_time.sh: passed")
PYTHON
