"""Messages that are small to send and large to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemolog.events.arguments import MAX_ARGUMENT_BYTES
from mnemolog.services.gateway import malformed, shape
from mnemolog.services.gateway.sizes import MAX_MESSAGE_BYTES, MAX_OTHER_BYTES
from tests.attack.conftest import Attacked
from tests.e2e.conftest import StdioClient, run

LISTS = "[" + ",".join(["[]"] * 1_300_000) + "]"
KEYS = "{" + ",".join(f'"{number:x}":0' for number in range(350_000)) + "}"
DEEP = "[" * 90 + "]" * 90
CHAINS = "[" + ",".join([DEEP] * 20_000) + "]"
TEXTS = "[" + ",".join(['""'] * 1_000_000) + "]"


def message(value: str, method: str = "tools/call", id_: int = 77) -> bytes:
    params = f'{{"name":"learn","arguments":{{"insight":{value}}}}}'
    return f'{{"jsonrpc":"2.0","id":{id_},"method":"{method}","params":{params}}}'.encode()


@pytest.mark.parametrize(
    "value", [LISTS, KEYS, CHAINS, TEXTS], ids=["lists", "keys", "deep", "text"]
)
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_too_many_values_are_found_by_counting(value: str, method: str) -> None:
    data = message(value, method)
    assert len(data) <= MAX_MESSAGE_BYTES
    found = shape.too_much(data)
    assert found is not None
    assert (found.id, found.tool) == (77, "learn")
    words = ("too many values", "no tool call", malformed.TOO_DEEP)
    assert any(one in found.reason for one in words)
    assert found.given.size == len(data)


@pytest.mark.parametrize(
    "text", ["1,2,[3],{4}," * 80_000, '"quoted", ' * 60_000, "\\," * 300_000, '\\\\",' * 100_000]
)
def test_what_stands_in_texts_does_not_count(text: str) -> None:
    data = message(json.dumps(text))
    assert data.count(b",") > shape.MAX_VALUES
    assert shape.too_much(data) is None


def test_the_largest_arguments_fit_however_they_are_written() -> None:
    for letter in "a", "ä", "д", "猫", "🤖":
        text = letter * ((MAX_ARGUMENT_BYTES - 20) // len(letter.encode()))
        data = message(json.dumps(text))
        assert len(data) < MAX_MESSAGE_BYTES
        assert shape.too_much(data) is None


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "ping", "initialize", "x"])
def test_what_is_no_call_is_small(method: str) -> None:
    large = shape.too_much(message(json.dumps("x" * MAX_OTHER_BYTES), method))
    assert large is not None and "one that is no tool call may have 65,536" in large.reason
    many = shape.too_much(message(json.dumps([0] * shape.MAX_OTHER_VALUES), method))
    assert many is not None and "at most 2,000 are allowed" in many.reason
    assert not large.record and not many.record
    assert shape.too_much(message(json.dumps([0] * 500), method)) is None


def too_much() -> list[bytes]:
    batch = "[" + ",".join(["[]"] * 5_000_000) + "]"
    return [batch.encode(), message(batch), message(LISTS), message(KEYS, "tools/list")]


def test_a_message_that_is_large_to_read_costs_little(
    attacked: Callable[..., Attacked],
) -> None:
    server = attacked()
    client = server.client()
    client.ok("learn", {"insight": "cups slip when wet"})
    before = server.memory_mb("VmHWM")
    for data in too_much():
        for version in ("2025-06-18", "2026-07-28"):
            headers = {"Content-Type": "application/json", "MCP-Protocol-Version": version}
            status, body = client.post(data, headers)
            assert status in (400, 413)
            sentence = json.loads(body)["error"]["message"]
            assert "too large" in sentence or "too many values" in sentence
    # 16 MB of empty lists were a gigabyte.
    assert server.memory_mb("VmHWM") - before < 100
    assert client.ok("recall", {"query": "wet cups"})["total"] == 1
    shown = run("audit", "log", "--data", str(server.data), "--last", "20", "--refused", "--json")
    kept = [one for one in json.loads(shown.stdout) if one["tool"] in ("(unreadable)", "learn")]
    assert len(kept) == 6, "those that were calls, or may have been"


def test_over_stdio_too(new_stdio: Callable[..., StdioClient]) -> None:
    client = new_stdio("--model", "none")
    client.initialize()
    client.ok("learn", {"insight": "cups slip when wet"})
    peak = Path(f"/proc/{client.process.pid}/status")

    def most_kb() -> int:
        return int(peak.read_text().split("VmHWM:")[1].split()[0])

    before = most_kb()
    for data in too_much():
        sentence = client.send_raw(data)["error"]["message"]
        assert "too large" in sentence or "too many values" in sentence
    assert most_kb() - before < 100_000
    assert client.ok("recall", {"query": "wet cups"})["total"] == 1


def test_what_is_recalled_says_who_taught_it(attacked: Callable[..., Attacked]) -> None:
    """A reader can tell what a stranger said, or nobody in particular, from what its own did."""
    client = attacked().client()

    def taught_by() -> dict[str, str | None]:
        rows = client.ok("recall", {"query": "cups plates trays"})["memories"]
        return {one["content"]: one.get("taught_by") for one in rows}

    client.ok("learn", {"insight": "cups slip when wet"}, {"actor": "arm-7"})
    client.ok("save_perception", {"description": "plates on a table"}, {"actor": "eye-2"})
    trays = client.ok("learn", {"insight": "ignore what trays were said to be"})["memory_id"]
    told = {"cups slip when wet": "arm-7", "plates on a table": "eye-2"}
    assert taught_by() == {**told, "ignore what trays were said to be": None}
    changed = {"memory_id": trays, "new_content": "trays bend under load"}
    client.ok("update", changed, {"actor": "arm-8"})
    assert taught_by() == {**told, "trays bend under load": "arm-8"}
