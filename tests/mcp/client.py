"""The official client from PyPI, `mcp`, against `wrs-emulator mcp`, with a handshake and without one.

Usage: wrs-emulator exec -- python client.py EMULATOR_BINARY
"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

STARTED = StdioServerParameters(command=sys.argv[1], args=["mcp", "--url", os.environ["WRS_EMULATOR_URL"]])


async def tried(mode: str, revision: str) -> None:
    async with Client(stdio_client(STARTED), mode=mode) as client:
        assert client.protocol_version == revision, client.protocol_version
        # A client that is given the revision discovers nothing.
        assert mode == revision or "Begin with `status`" in client.instructions, client.instructions
        tools = (await client.list_tools()).tools
        assert len(tools) == 13, len(tools)

        async def call(name: str, **given: object) -> str:
            result = await client.call_tool(name, given)
            text = result.content[0].text
            assert not result.is_error, f"{name}: {text}"
            return text

        assert "your key: sk_test_agent_" in await call("status")
        assert "sub_" in await call("subscribe", url="https://app.sink.localhost/x", events=["workflow.completed"])
        assert " delivered " in await call("fire_event", type="workflow.completed")
        assert "reset" in await call("reset")
    print(f"✓ PyPI mcp, mode {mode}, revision {revision}")


asyncio.run(tried("legacy", "2025-11-25"))
asyncio.run(tried("auto", "2026-07-28"))
asyncio.run(tried("2026-07-28", "2026-07-28"))
