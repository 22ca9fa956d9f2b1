"""Tools for agents, asked by the client of the official package: as a process, and by HTTP with
tokens."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client as AgentClient
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from local.kafka.broker import Broker
from local.waiting import wait_until
from queryable.cli.exit_codes import USAGE_ERROR
from tests.support.deployment import Deployment, views_toml
from tests.support.in_process.tokens import SECRET, token
from tests.support.plugins.fixtures import MakeTopic
from tests.support.security.cluster_secret import SECRET as CLUSTER_SECRET
from tests.support.security.private_file import write_private
from tests.support.topics import Writer
from tests.system.queryable.cli.deployed import COMMAND, HOUR, MANY, Deployed

MEANING = "Orders of the shop, by number"


def in_process(deployed: Deployed, ask: Callable[[AgentClient], Awaitable[None]]) -> None:
    """`ask` with a server that an agent's program would start."""
    program, *arguments = COMMAND
    server = StdioServerParameters(command=program, args=[*arguments, "mcp"], env=deployed.env)

    async def run() -> None:
        async with asyncio.timeout(120), AgentClient(server) as client:
            await ask(client)

    asyncio.run(run())


async def document(client: AgentClient, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refusal(client: AgentClient, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)


def test_an_agent_reads_views(deployed: Deployed) -> None:
    async def ask(client: AgentClient) -> None:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} == {
            "list_views", "describe_view", "get", "query",
        }  # fmt: skip
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.tools)

        views = {view["name"]: view for view in (await document(client, "list_views"))["views"]}
        assert (views["flights"]["store"], views["flights"]["entries"]) == ("key-value", 4)
        assert views["bookings"]["store"] == "window"

        flights = await document(client, "describe_view", view="flights")
        assert flights["columns"] == {
            "key": "string", "delay": "int?", "from": "string", "gate": "string",
        }  # fmt: skip
        assert {"key": "N0", "from": "EWR", "delay": 20} in flights["examples"]
        assert (flights["lag"], flights["positions"]) == (0, "0:4")
        bookings = await document(client, "describe_view", view="bookings")
        assert bookings["columns"].keys() == {"key", "start", "end", "sequence", "value"}

        found = await document(client, "get", view="flights", key="N1")
        assert (found["found"], found["value"]) == (True, {"from": "EWR", "delay": -10})
        assert (found["lag"], found["positions"]) == (0, "0:4")
        assert not (await document(client, "get", view="flights", key="none"))["found"]

        statement = "select key, delay from flights where delay > ? order by key desc"
        rows = await document(client, "query", sql=statement, parameters=[0])
        assert rows["rows"] == [{"key": "N2", "delay": 40}, {"key": "N0", "delay": 20}]
        assert (rows["is_complete"], rows["plan"], rows["examined"]) == (True, "scan", 4)
        groups = "select start, count(*) as n from bookings group by start order by start limit 2"
        rows = await document(client, "query", sql=groups)
        assert [row["n"] for row in rows["rows"]] == [2, 1]
        assert rows["rows"][1]["start"] - rows["rows"][0]["start"] == HOUR

    in_process(deployed, ask)


def test_answers_are_short_and_refusals_say_what_to_do(deployed: Deployed) -> None:
    async def ask(client: AgentClient) -> None:
        rows = await document(client, "query", sql="select key from many")
        assert (len(rows["rows"]), rows["is_complete"]) == (200, False)
        assert rows["left_out"].startswith("There are more rows than these 200.")
        assert len(json.dumps(rows)) < 65_536
        rows = await document(client, "query", sql="select key from many limit 200")
        assert rows["is_complete"]
        count = await document(client, "query", sql="select count(*) as n from many")
        assert count["rows"] == [{"n": MANY}]

        assert "use query" in await refusal(client, "get", view="bookings", key="anna")
        assert "[view-not-found]" in await refusal(client, "describe_view", view="nothing")
        said = await refusal(client, "query", sql="select a from flights join many on a = b")
        assert "derive one of both" in said
        said = await refusal(client, "query", sql="select delay from flights order by delay")
        assert "[no-index]" in said

    in_process(deployed, ask)


@pytest.fixture(scope="module")
def guarded(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """A deployment with tokens."""
    topic = make_topic(2)
    Writer(broker.bootstrap_servers).table(topic, {"a": {"n": 1}, "b": {"n": 2}})
    folder = tmp_path_factory.mktemp("guarded")
    deployment = Deployment(
        folder,
        broker.bootstrap_servers,
        views_toml(orders={"topic": topic, "description": MEANING}, others={"topic": topic}),
        auth="jwt",
        jwt_key_file=str(write_private(folder / "key", SECRET)),
    )
    deployment.use_secrets(CLUSTER_SECRET)
    deployment.token = token("read:*", "metrics")
    with deployment:
        [backend] = deployment.start()
        yield Deployed(deployment, f"http://127.0.0.1:{backend.port}")


@contextmanager
def serving(deployed: Deployed) -> Iterator[str]:
    """The URL of a server for many agents. It has a token of its own, which it must not use."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = {**deployed.env, "QUERYABLE_TOKEN": token("read:*")}
    process = subprocess.Popen([*COMMAND, "mcp", "--http", address], env=env)
    try:
        host, port = address.split(":")

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex((host, int(port))) == 0

        wait_until(listens, 30, "the server for agents")
        yield f"http://{address}/mcp"
    finally:
        process.terminate()
        process.wait(20)


def test_an_agent_has_the_rights_of_its_own_token(guarded: Deployed) -> None:
    async def ask(url: str, sent: str | None) -> list[str]:
        """What the tools say."""
        headers = {} if sent is None else {"Authorization": f"Bearer {sent}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url, http_client=http)
            async with asyncio.timeout(60), AgentClient(transport) as client:
                results = [
                    await client.call_tool("get", {"view": "orders", "key": "a"}),
                    await client.call_tool("get", {"view": "others", "key": "a"}),
                    await client.call_tool("query", {"sql": "select count(*) n from orders"}),
                    await client.call_tool("list_views", {}),
                ]
        return [result.content[0].text for result in results]

    with serving(guarded) as url:
        right, other, counted, listed = asyncio.run(ask(url, token("read:orders")))
        assert json.loads(right)["value"] == {"n": 1}
        assert "[forbidden]" in other
        assert json.loads(counted)["rows"] == [{"n": 2}]
        assert MEANING in listed
        for sent in (None, token("append:orders"), "nonsense"):
            for said in asyncio.run(ask(url, sent))[:3]:
                assert "[unauthenticated]" in said or "[forbidden]" in said


@pytest.mark.parametrize("address", ["8765", "localhost", "127.0.0.1:0", "127.0.0.1:70000"])
def test_addresses_that_are_refused(deployed: Deployed, address: str) -> None:
    said = deployed.run("mcp", "--http", address, status=USAGE_ERROR)
    assert "write a host and a port" in said
