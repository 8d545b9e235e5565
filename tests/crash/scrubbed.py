"""A process that opens a store and reads its vectors through again and again, without a rest.

`python -m tests.crash.scrubbed DATA check` ends once they were read through and are as they should
be, and tells what it found. `… write` writes until it is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from pathlib import Path

import msgspec

from mnemolog.projections.vectors import edge
from mnemolog.services.gateway import logs
from mnemolog.services.node import background
from mnemolog.services.node.vectors import scrub
from tests.contract.test_feed import Node, opened
from tests.contract.test_node import body
from tests.contract.test_scrub import until


class Found(msgspec.Struct, frozen=True):
    """`told` is what was said of the vectors; `mode` is that of a search."""

    told: list[str]
    vectors: dict[str, str]
    mode: str


async def check(node: Node, told: list[str]) -> None:
    await until(lambda: node.node.vector_scrub.read_through)
    digest = await asyncio.to_thread(node.node.projections.digest)
    vectors = {name: value for name, value in digest.items() if name.startswith("vectors/")}
    answer = body(await node.call("recall", query="the clamp", collection="kitchen", n=3))
    say(Found(told, vectors, answer["mode"]))


async def write(node: Node) -> None:
    for number in itertools.count():
        await node.call("learn", insight=f"Note {number}: shelf {number * 7}", collection="kitchen")
        if number % 3 == 2:
            await node.call("forget", memory_id=number, reason="it changed")
        say(Found([], {}, str(node.node.vector_scrub.read_through)))


def say(found: Found) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.flush()


class Told(logging.Handler):
    """What is said while it is there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentences: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.sentences.append(record.getMessage())


def main(data: Path, what: str) -> None:
    logs.to_stderr()
    background.IDLE = 0
    scrub.FIRST_AFTER_S, scrub.EVERY_S, scrub.AGAIN_AFTER_S = 0.0, 0.02, 0.02
    told = Told()
    logging.getLogger(edge.__name__).addHandler(told)

    async def run() -> None:
        async with opened(data, model="bge-small-en-v1.5") as node:
            await (write(node) if what == "write" else check(node, told.sentences))

    asyncio.run(run())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
