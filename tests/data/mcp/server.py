"""A server with tools of every temper, over stdio or, with a port, over streamable HTTP."""

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("odd", instructions="Adds, and falls over.\nSecond line.")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def boom() -> str:
    """Fails."""
    raise ValueError("no luck")


@server.tool()
def die() -> str:
    """Ends the whole server."""
    os.kill(os.getpid(), 9)
    return ""


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Takes its time."""
    for step in range(10):
        await ctx.report_progress(step, 10, "at it")
        await asyncio.sleep(seconds / 10)
    return "done"


@server.resource("odd://note")
def note() -> str:
    """A note."""
    return "remember"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Say hello to {name}"


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
