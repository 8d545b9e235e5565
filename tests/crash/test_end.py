"""The end in good order does not wait until the text of every collection is durable: what is left
comes from the log, at the next start."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.projections.ports import PutText
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.text.space import Space
from mnemolog.services.node import node as nodes
from mnemolog.services.node import upkeep
from tests.contract.test_feed import Node, opened
from tests.crash.process import ANSWER_WITHIN_S
from tests.crash.server import Http, Server
from tests.crash.stored import check_rebuild, check_whole

SPACES = 12


def fed(index: TantivyText) -> TantivyText:
    for number in range(SPACES):
        index.apply(0, number, [PutText(f"lab/{number}", number, f"cup number {number}")])
    return index


def count(root: Path) -> int:
    """Of how many spaces anything is durable."""
    return sum((space / "meta.json").exists() for space in (root / "spaces").iterdir())


@pytest.mark.parametrize("flushes", [0, 5])
def test_an_index_that_is_hurried_leaves_the_rest_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes: int
) -> None:
    whole = fed(TantivyText(tmp_path / "whole"))
    index = fed(TantivyText(tmp_path / "text"))
    real, done = Space.flush, 0

    def flush(space: Space) -> int:
        nonlocal done
        done += 1
        if done == flushes:
            index.hurry(0.0)
        return real(space)

    with monkeypatch.context() as patched:
        patched.setattr(Space, "flush", flush)
        if flushes == 0:
            index.hurry(0.0)
        index.commit()
        assert index.search("lab/11", "cup", 5), "it is searched as before"
        index.close()
    assert done == flushes == count(tmp_path / "text")
    again = TantivyText(tmp_path / "text")
    assert again.checkpoint(0) == -1
    fed(again)
    for number in range(SPACES):
        assert [hit.id for hit in again.search(f"lab/{number}", "cup", 5)] == [number]
    assert again.digest() == whole.digest()
    assert again.checkpoint(0) == SPACES - 1
    again.close()
    whole.close()


async def total(node: Node, number: int) -> int:
    answer = await node.call("recall", query="mark", collection=f"c{number}")
    body: dict[str, Any] = msgspec.json.decode(answer.reply)
    return int(body["total"])


def test_what_was_left_is_found_and_made_durable_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write() -> None:
        async with opened(tmp_path / "data") as node:
            for number in range(SPACES):
                await node.learn(number, collection=f"c{number}")

    async def look() -> None:
        async with opened(tmp_path / "data") as node:
            text = node.node.projections.text
            assert [await total(node, number) for number in range(SPACES)] == [1] * SPACES
            deadline = time.monotonic() + ANSWER_WITHIN_S
            while text.checkpoint(0) < SPACES - 1:
                assert time.monotonic() < deadline, "it stays as it is until somebody writes"
                await asyncio.sleep(0.05)

    monkeypatch.setattr(nodes, "END_S", 0.0)
    monkeypatch.setattr(upkeep, "EVERY_S", 3600.0)
    asyncio.run(write())
    assert count(tmp_path / "data" / "projections" / "text") == 0
    monkeypatch.setattr(upkeep, "EVERY_S", 0.05)
    asyncio.run(look())
    assert count(tmp_path / "data" / "projections" / "text") == SPACES


def test_a_signal_while_everything_is_being_made_durable(data: Path) -> None:
    """The upkeep begins with it when nobody has written for a moment, and has to stop for it."""
    spaces = data / "projections" / "text" / "spaces"
    with Server(data) as server:
        client = Http(server.port())
        for number in range(30):
            said = client.call("learn", {"insight": "cups slip", "collection": f"c{number}"})
            assert not said.refused
        client.close()
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not any(spaces.iterdir()):
            assert time.monotonic() < deadline, "the upkeep does nothing"
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(ANSWER_WITHIN_S) == 0
    with Server(data) as server:
        client = Http(server.port())
        for number in range(30):
            found = client.call("recall", {"query": "cups", "collection": f"c{number}"})
            assert found.body["total"] == 1, number
        client.close()
        assert server.terminate() == 0
    check_whole(data)
    check_rebuild(data)
