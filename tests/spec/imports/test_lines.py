"""Files are read line by line, however their lines end and however long they are."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest

from mnemolog.services.families.graph.importing import lines as module
from mnemolog.services.families.graph.importing.lines import MAX_LINE_BYTES, lines


def texts(data: bytes) -> list[tuple[int, bytes | None]]:
    return [(line.number, line.text) for line in lines(io.BytesIO(data))]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_end_as_on_any_system(end: bytes) -> None:
    assert texts(b"a" + end + b"b" + end) == [(1, b"a"), (2, b"b")]


def test_the_last_line_needs_no_end() -> None:
    assert texts(b"a\nb") == [(1, b"a"), (2, b"b")]


def test_blank_lines_are_left_out_but_counted() -> None:
    assert texts(b"\n  \t\r\na\n\n\nb\n") == [(3, b"a"), (6, b"b")]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert texts(b"\xef\xbb\xbfa\n\xef\xbb\xbfb") == [(1, b"a"), (2, b"\xef\xbb\xbfb")]


def test_other_line_separators_are_text() -> None:
    assert texts("a\u2028b\x0bc\x85d\n".encode()) == [(1, "a\u2028b\x0bc\x85d".encode())]


def test_reading_can_begin_anywhere() -> None:
    data = b"first\r\n\nsecond\nthird"
    found = list(lines(io.BytesIO(data)))
    for line in found:
        assert next(lines(io.BytesIO(data), line.at, line.number)) == line
    assert [line.at for line in found] == [0, 8, 15]
    assert sum(line.size for line in found) == len(data) - 1, "all but the blank line"


@pytest.mark.parametrize("over", [-1, 0, 1, 2, 1000])
def test_a_line_over_the_limit_is_passed_over(monkeypatch: pytest.MonkeyPatch, over: int) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 5000)
    monkeypatch.setattr(module, "_PIECE", 64)
    long = b"x" * (5000 + over)
    kept = [(2, long)] if over <= 0 else [(2, None)]
    assert texts(b"a\n" + long + b"\nb\n") == [(1, b"a"), *kept, (3, b"b")]
    assert texts(b"a\n" + long) == [(1, b"a"), *kept]


class Zeros(io.RawIOBase):
    """A file of a first line, then one line of `size` bytes, then a last one."""

    def __init__(self, size: int) -> None:
        self._left: list[Any] = [b"first\n", size, b"\nlast\n"]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = 0) -> int:
        assert at == 0
        return 0

    def tell(self) -> int:
        return 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while self._left:
            piece = self._left[0]
            if isinstance(piece, bytes):
                buffer[: len(piece)] = piece
                del self._left[0]
                return len(piece)
            count: int = min(piece, len(buffer))
            buffer[:count] = b"0" * count
            self._left[0] = piece - count
            if piece == count:
                del self._left[0]
            return count
        return 0


def test_a_gigantic_line_takes_no_more_memory_than_the_limit() -> None:
    size = 6 * MAX_LINE_BYTES
    file = io.BufferedReader(Zeros(size), 1024 * 1024)
    tracemalloc.start()
    try:
        found = [(line.number, line.size, line.text) for line in lines(file)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [(1, 6, b"first"), (2, size + 1, None), (3, 5, b"last")]
    assert peak < 3 * MAX_LINE_BYTES
