"""Who has to make room when large messages come in, and who has not."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from mnemolog.services.gateway import bodies
from mnemolog.services.gateway.bodies import SMALL_BYTES, Body, Full, Room

KB = 1024


class Sender:
    """A request whose body comes in as it is told to."""

    def __init__(self, room: Room) -> None:
        self._chunks: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self.body = Body(room)
        request = Request({"type": "http"}, self._chunks.get)
        self.reading = asyncio.create_task(self.body.read(request))

    async def send(self, kilobytes: int, *, last: bool = False) -> None:
        chunk = b" " * (kilobytes * KB)
        await self._chunks.put({"type": "http.request", "body": chunk, "more_body": not last})
        for _ in range(8):  # Turns of the loop, which has nothing else to do.
            await asyncio.sleep(0)

    async def read(self) -> int:
        """How many kilobytes came in."""
        found = await self.reading
        assert isinstance(found, bytes)
        return len(found) // KB


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may take any time when others need the room."""
    monkeypatch.setattr(bodies, "HURRY_S", 0.0)


@pytest.mark.usefixtures("hurry")
def test_the_one_that_began_first_makes_room() -> None:
    async def test() -> None:
        room = Room(1000 * KB)
        first, second, third = Sender(room), Sender(room), Sender(room)
        await first.send(400)
        await second.send(400)
        await first.send(100)  # That it goes on does not help it.
        await third.send(300, last=True)
        with pytest.raises(Full):
            await first.reading
        assert await third.read() == 300
        await second.send(100, last=True)
        assert await second.read() == 500
        assert room.left == 200 * KB
        for one in first, second, third:
            one.body.close()
        assert room.left == 1000 * KB and not room.coming

    asyncio.run(test())


@pytest.mark.usefixtures("hurry")
def test_what_is_whole_or_small_makes_no_room() -> None:
    async def test() -> None:
        room = Room(1000 * KB)
        whole, small, large = Sender(room), Sender(room), Sender(room)
        await whole.send(900, last=True)
        await small.send(SMALL_BYTES // KB)
        await large.send(200)
        with pytest.raises(Full):
            await large.reading
        assert await whole.read() == 900
        await small.send(0, last=True)
        assert await small.read() == SMALL_BYTES // KB

    asyncio.run(test())


@pytest.mark.usefixtures("hurry")
def test_one_that_grows_does_not_make_room_for_itself() -> None:
    async def test() -> None:
        room = Room(1000 * KB)
        first, second = Sender(room), Sender(room)
        await first.send(500)
        await second.send(400)
        await first.send(300, last=True)
        assert await first.read() == 800
        with pytest.raises(Full):
            await second.reading
        assert room.left == 200 * KB

    asyncio.run(test())


def test_who_hurries_keeps_its_room() -> None:
    async def test() -> None:
        room = Room(1000 * KB)
        first, second = Sender(room), Sender(room)
        await first.send(600)
        await second.send(600)
        with pytest.raises(Full):
            await second.reading
        await first.send(0, last=True)
        assert await first.read() == 600

    asyncio.run(test())


def test_a_request_that_is_given_up_is_not_taken_for_one_that_made_room() -> None:
    async def test() -> None:
        room = Room(1000 * KB)
        first = Sender(room)
        await first.send(600)
        first.reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first.reading
        first.body.close()
        assert room.left == 1000 * KB and not room.coming

    asyncio.run(test())
