"""What everybody may rely on of a log, whatever it is kept in.

A backend subclasses `LogContract` and gives a fixture `opened` that opens the test's own log:
the same one whenever it is called within a test, and another in every test.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import pytest

from mnemolog.events.log import Ends, Log, LogError, Stored

T = TypeVar("T")
PARTITIONS = 3
PATIENCE_S = 240
"""A test that has waited so long has failed; hardly anything here takes a second."""


class Opened(Protocol):
    def __call__(self, partitions: int | None = PARTITIONS) -> Awaitable[Log]:
        """Open the log, and make it with that many partitions when it is not there yet."""
        ...


def run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        return await asyncio.wait_for(work, PATIENCE_S)

    return asyncio.run(limited())


@asynccontextmanager
async def closing(opening: Awaitable[Log]) -> AsyncIterator[Log]:
    log = await opening
    try:
        yield log
    finally:
        await log.close()


def records(*texts: str, space: str = "default/robot/default") -> list[tuple[str, bytes]]:
    return [(space, text.encode()) for text in texts]


def numbered(start: int, *texts: str) -> list[Stored]:
    return [Stored(start + i, text.encode()) for i, text in enumerate(texts)]


class LogContract:
    @pytest.fixture
    def opened(self) -> Opened:
        raise NotImplementedError("a backend says how its log is opened")

    # --- offsets ---------------------------------------------------------------------------------

    def test_a_new_log_is_empty(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                assert log.partitions == PARTITIONS
                for partition in range(PARTITIONS):
                    assert await log.ends(partition) == Ends(0, 0)
                    assert await log.read_calls(partition, 0, 10) == []
                    assert await log.read_decisions(partition, 0, 10) == []

        run(check())

    def test_offsets_count_from_0_without_gaps(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                assert await log.append_calls(1, records("a")) == [0]
                assert await log.append_calls(1, records("b", "c", "d")) == [1, 2, 3]
                assert await log.append_calls(1, records("e")) == [4]
                assert await log.read_calls(1, 0, 10) == numbered(0, "a", "b", "c", "d", "e")
                assert await log.ends(1) == Ends(calls=5, decisions=0)

        run(check())

    def test_calls_and_decisions_count_each_on_their_own(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                await log.append_calls(0, records("a", "b", "c"))
                assert await log.append_decisions(0, records("A")) == [0]
                assert await log.append_calls(0, records("d")) == [3]
                assert await log.append_decisions(0, records("B", "C")) == [1, 2]
                assert await log.read_calls(0, 0, 10) == numbered(0, "a", "b", "c", "d")
                assert await log.read_decisions(0, 0, 10) == numbered(0, "A", "B", "C")
                assert await log.ends(0) == Ends(calls=4, decisions=3)

        run(check())

    def test_partitions_count_each_on_their_own(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                for partition in range(PARTITIONS):
                    texts = [f"{partition}-{i}" for i in range(partition + 1)]
                    expected = list(range(partition + 1))
                    assert await log.append_calls(partition, records(*texts)) == expected
                    assert await log.append_decisions(partition, records(*texts)) == expected
                for partition in range(PARTITIONS):
                    texts = [f"{partition}-{i}" for i in range(partition + 1)]
                    assert await log.read_calls(partition, 0, 10) == numbered(0, *texts)
                    assert await log.ends(partition) == Ends(len(texts), len(texts))

        run(check())

    def test_appending_nothing_changes_nothing(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                assert await log.append_calls(0, []) == []
                assert await log.append_decisions(0, []) == []
                assert await log.ends(0) == Ends(0, 0)

        run(check())

    # --- reading ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("what", ["calls", "decisions"])
    def test_reading_from_any_position_with_a_limit(self, opened: Opened, what: str) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                append = log.append_calls if what == "calls" else log.append_decisions
                read = log.read_calls if what == "calls" else log.read_decisions
                texts = [f"r{i}" for i in range(10)]
                await append(2, records(*texts))
                for start in range(12):
                    for limit in (1, 3, 100):
                        assert await read(2, start, limit) == numbered(
                            start, *texts[start : start + limit]
                        )
                assert await read(1, 0, 100) == []

        run(check())

    def test_any_bytes_under_any_space_come_back_as_they_were(self, opened: Opened) -> None:
        chance = random.Random(5)
        contents = [b"", b"\x00", b"\xff\xfe\x00'\"", bytes(range(256)), chance.randbytes(5000)]
        spaces = ["default/robot/default", "默认/robot/厨房", "a b/robot/c'd", "", "x" * 500]

        async def check() -> None:
            async with closing(opened()) as log:
                await log.append_calls(0, list(zip(spaces, contents, strict=True)))
                found = await log.read_calls(0, 0, 10)
                assert [one.data for one in found] == contents

        run(check())

    def test_large_records(self, opened: Opened) -> None:
        large = [random.Random(i).randbytes(1024 * 1024) for i in range(3)]

        async def check() -> None:
            async with closing(opened()) as log:
                rows = [("default/robot/default", one) for one in large]
                assert await log.append_calls(0, rows) == [0, 1, 2]
                assert await log.append_decisions(0, rows[:1]) == [0]
            async with closing(opened()) as log:
                assert [one.data for one in await log.read_calls(0, 0, 10)] == large
                assert [one.data for one in await log.read_decisions(0, 0, 10)] == large[:1]

        run(check())

    # --- what was appended stays -----------------------------------------------------------------

    def test_what_was_appended_is_there_after_reopening(self, opened: Opened) -> None:
        async def check() -> None:
            for turn in range(3):
                async with closing(opened()) as log:
                    assert await log.ends(1) == Ends(2 * turn, turn)
                    assert await log.append_calls(1, records(f"a{turn}", f"b{turn}")) == [
                        2 * turn,
                        2 * turn + 1,
                    ]
                    assert await log.append_decisions(1, records(f"A{turn}")) == [turn]
            async with closing(opened(None)) as log:
                texts = [f"{letter}{turn}" for turn in range(3) for letter in "ab"]
                assert await log.read_calls(1, 0, 100) == numbered(0, *texts)
                assert await log.read_decisions(1, 0, 100) == numbered(0, "A0", "A1", "A2")
                assert await log.ends(0) == Ends(0, 0)

        run(check())

    def test_a_log_that_was_closed_says_so(self, opened: Opened) -> None:
        async def check() -> None:
            log = await opened()
            await log.append_calls(0, records("a"))
            await log.read_calls(0, 0, 1)
            await log.close()
            await log.close()
            with pytest.raises(LogError, match="is closed for writing"):
                await log.append_calls(0, records("b"))
            with pytest.raises(LogError, match="is closed"):
                await log.read_calls(0, 0, 1)

        run(check())

    # --- many at once ----------------------------------------------------------------------------

    def test_concurrent_appends_keep_every_record_once_and_each_callers_order(
        self, opened: Opened
    ) -> None:
        callers, each = 24, 12

        async def caller(log: Log, name: int) -> dict[int, bytes]:
            """What was appended, by the offset that the log gave it."""
            chance = random.Random(name)
            given: dict[int, bytes] = {}
            partition, i = name % PARTITIONS, 0
            while i < each:
                count = min(chance.randint(1, 3), each - i)
                rows = records(*(f"{name}-{i + k}" for k in range(count)))
                offsets = await log.append_calls(partition, rows)
                given |= dict(zip(offsets, (data for _, data in rows), strict=True))
                i += count
            return given

        async def check() -> None:
            async with closing(opened()) as log:
                given = await asyncio.gather(*(caller(log, name) for name in range(callers)))
                for partition in range(PARTITIONS):
                    found = await log.read_calls(partition, 0, 10_000)
                    assert [one.offset for one in found] == list(range(len(found)))
                    promised: dict[int, bytes] = {}
                    for name in range(partition, callers, PARTITIONS):
                        assert promised.keys().isdisjoint(given[name].keys())
                        promised |= given[name]
                        order = [
                            int(one.data.split(b"-")[1])
                            for one in found
                            if one.data.startswith(b"%d-" % name)
                        ]
                        assert order == list(range(each))
                    assert {one.offset: one.data for one in found} == promised

        run(check())

    def test_one_appends_records_stay_together(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                batches = [[f"{name}-{i}" for i in range(5)] for name in range(30)]
                await asyncio.gather(*(log.append_decisions(0, records(*one)) for one in batches))
                texts = [one.data.decode() for one in await log.read_decisions(0, 0, 1000)]
                assert sorted(texts[i : i + 5] for i in range(0, 150, 5)) == sorted(batches)

        run(check())

    def test_a_caller_that_gives_up_does_not_stop_the_others(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                for turn in range(20):
                    tasks = [
                        asyncio.create_task(log.append_calls(0, records(f"{turn}-{i}")))
                        for i in range(6)
                    ]
                    await asyncio.sleep(0)
                    for task in tasks[::2]:
                        task.cancel()
                    results = await asyncio.gather(*tasks, return_exceptions=True)
                    assert all(isinstance(one, asyncio.CancelledError) for one in results[::2])
                    assert all(isinstance(one, list) for one in results[1::2])
                (last,) = await log.append_calls(0, records("last"))
                found = [one.data.decode() for one in await log.read_calls(0, 0, 1000)]
                assert found[last] == "last"
                assert len(set(found)) == len(found)
                asked = {f"{turn}-{i}" for turn in range(20) for i in range(6)} | {"last"}
                given_up = {f"{turn}-{i}" for turn in range(20) for i in (0, 2, 4)}
                assert asked - given_up <= set(found) <= asked

        run(check())

    # --- partitions ------------------------------------------------------------------------------

    @pytest.mark.parametrize("partition", [-1, PARTITIONS, 1000])
    def test_a_partition_that_is_not_there(self, opened: Opened, partition: int) -> None:
        async def check() -> None:
            async with closing(opened()) as log:
                asks: list[Callable[[], Awaitable[object]]] = [
                    lambda: log.append_calls(partition, records("a")),
                    lambda: log.append_decisions(partition, records("a")),
                    lambda: log.read_calls(partition, 0, 1),
                    lambda: log.read_decisions(partition, 0, 1),
                    lambda: log.ends(partition),
                ]
                for ask in asks:
                    with pytest.raises(LogError, match=f"partition {partition}"):
                        await ask()

        run(check())

    def test_the_number_of_partitions_is_fixed_when_the_log_is_made(self, opened: Opened) -> None:
        async def check() -> None:
            async with closing(opened(PARTITIONS)) as log:
                await log.append_calls(2, records("a"))
            for other in (1, PARTITIONS + 1):
                with pytest.raises(LogError, match=f"{PARTITIONS} partitions, not {other}"):
                    await opened(other)
            async with closing(opened(None)) as log:
                assert log.partitions == PARTITIONS
                assert await log.read_calls(2, 0, 1) == numbered(0, "a")

        run(check())

    @pytest.mark.parametrize("count", [0, -1, 1025])
    def test_a_number_of_partitions_that_cannot_be(self, opened: Opened, count: int) -> None:
        async def check() -> None:
            with pytest.raises(LogError, match=f"from 1 to 1024, not {count}"):
                await opened(count)

        run(check())
