"""What the gateway says of messages that cannot be read; it is kept with the call."""

from __future__ import annotations

import pytest

from mnemolog.services.gateway import malformed

DEEP = "The message is nested too deeply"


@pytest.mark.parametrize(
    ("data", "id_", "reason"),
    [
        (b'{"id": 7, "method": "tools/', None, "line 1, column 21"),
        (b'{"id": 7,\n "a" 1}', None, "line 2, column 6"),
        (b'{"id": 7, "a": NaN}', 7, "it holds NaN, which JSON does not have"),
        (b'{"id": 7, "a": [-Infinity, NaN]}', 7, "it holds -Infinity, which JSON does not have"),
        (b'{"id": 7, "a": 1e400}', 7, "The message holds a number that is too large"),
        (b'{"id": 7, "a": "\\ud83d"}', 7, "half of a surrogate pair"),
        (b'{"id": 7, "a": "\\ud83d", "b": 1e400}', 7, "half of a surrogate pair"),
        (b'{"id": 7, "a": %s}' % (b"1" * 5000), 7, "a number of too many digits"),
        (b'{"id": 7, "a": %s"\\ud83d"%s}' % (b"[" * 101, b"]" * 101), 7, DEEP),
        (b'{"id": 7, "a": %s"\\ud83d"%s}' % (b"[" * 500, b"]" * 500), 7, DEEP),
        (b'{"id": 7, "a": %s1}' % (b"[" * 100_000), None, DEEP),
        (b'{"id": 7, "a": "\xff"}', None, "not valid UTF-8: byte 16"),
    ],
)
def test_a_message_that_cannot_be_read(data: bytes, id_: int | None, reason: str) -> None:
    found = malformed.unreadable(data)
    assert found.code == malformed.PARSE_ERROR
    assert reason in found.reason
    assert found.reason.startswith("The message ")
    assert found.id == id_
    assert found.record
