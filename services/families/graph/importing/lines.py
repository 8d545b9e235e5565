"""A file line by line, however long its lines are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is passed over without being held in memory."""
_PIECE = 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(msgspec.Struct, frozen=True):
    """`number` counts from 1, `at` is where the line begins. `text` has no line end; None: the
    line is longer than `MAX_LINE_BYTES`."""

    number: int
    at: int
    size: int
    text: bytes | None


def lines(file: BinaryIO, at: int = 0, number: int = 1) -> Iterator[Line]:
    """The lines from `at` on, which is where line `number` begins; blank ones are left out."""
    file.seek(at)
    while data := file.readline(MAX_LINE_BYTES + 1):
        size = len(data)
        if size > MAX_LINE_BYTES and not data.endswith(b"\n"):
            while not data.endswith(b"\n") and (data := file.readline(_PIECE)):
                size += len(data)
            yield Line(number, at, size, None)
        else:
            text = data.removeprefix(_BYTE_ORDER_MARK) if at == 0 else data
            text = text.strip(b" \t\r\n")
            if text:
                yield Line(number, at, size, text)
        at += size
        number += 1
