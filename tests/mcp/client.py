"""The official client SDK from PyPI (`mcp`) against `wrs-emulator mcp`: arguments are validated by the tools' schemas.

Usage: client.py EMULATOR_BINARY URL
"""

import asyncio
import sys
import urllib.error
import urllib.request

import jsonschema
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

BINARY, URL = sys.argv[1:3]
TOML = 'rule = [{ times = 1, reply = { error = "rate_limit_exceeded" } }]\n'


def send(key, path, body=None):
    """One request of the program under test; its status."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(URL + path, body, headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


async def main():
    server = StdioServerParameters(command=BINARY, args=["mcp", "--url", URL])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        assert session.protocol_version == "2025-06-18", session.protocol_version
        assert "sk_test_agent_" in hello.instructions
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert len(tools) == 12 and all(tool.annotations for tool in tools.values()), tools
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        called = set()

        async def call(name, **arguments):
            jsonschema.validate(arguments, tools[name].input_schema)
            answer = await session.call_tool(name, arguments)
            assert not answer.is_error, (name, answer.content[0].text)
            called.add(name)
            return answer.content[0].text

        key = (await call("status")).split("your key: ")[1].split()[0]
        hook = b'{"url":"https://app.sink.localhost/x","events":["workflow.completed"]}'
        assert send(key, "/v1/events/subscribe", hook) == 200
        assert send(key, "/v1/helo") == 404
        assert "/v1/helo" in await call("find_requests", key=key, status=404)
        assert " delivered " in await call("fire_event", type="workflow.completed")
        await call("fire_event", type="workflow.completed", tamper="signature", count=3)
        await call("fire_event", type="workflow.completed", count=200, wait="0s")
        delivery = (await call("find_deliveries", key=key, limit=1)).splitlines()[1].split()[0]
        for thing in [delivery, None]:
            await call("explain", **({"id": thing} if thing else {}))
        assert "1 error" in await call("check_scenario", toml="rule = 5")
        assert key in await call("play_scenario", toml=TOML, active=["slow-responses"])
        await call("play_scenario", toml=TOML)
        assert send(key, "/v1/system/status") == 429
        await call("explain")
        await call("advance_clock", advance="72h")
        assert "✗ unmatched" in await call("verification", wait="1s")
        assert "judged: " in await call("review_findings", key=key)
        assert (await call("assumptions", about="webhooks")).count("contract:") > 5
        await call("assumptions")
        refused = await session.call_tool("reset", {"key": "sk_test_local"})
        assert refused.is_error and "was not made by this session" in refused.content[0].text
        await call("reset")
        assert called == set(tools), set(tools) - called
        await session.send_ping()
    # A client of the newest revision of the protocol first asks for what is not there.
    async with Client(stdio_client(server)) as client:
        assert len((await client.list_tools()).tools) == 12 and client.protocol_version == "2025-06-18"
    print(f"✓ PyPI mcp: {len(called)} tools called")


asyncio.run(asyncio.wait_for(main(), 60))
