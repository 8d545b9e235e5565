"""Messages that cannot be read: what is wrong, whom to answer, and the answer.

Everything here is for the failing path; a message that reads well never comes by.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from mnemolog.events.depth import MAX_DEPTH, is_deeper
from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.sizes import MAX_MESSAGE_BYTES, Raw, raw

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603

TOO_DEEP = "The message is nested too deeply"

Id = int | str | None

_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|-?\d{1,19})'
_MEMBER = rb'\s*"\w+"\s*:\s*' + _SCALAR + rb"\s*"
# Only plain members come before (or after) the id, so it is the message's own and no argument's.
_ID_FIRST = re.compile(rb"\s*\{(?:" + _MEMBER + rb',)*?\s*"id"\s*:\s*(' + _SCALAR + rb")\s*,")
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(' + _SCALAR + rb")\s*(?:," + _MEMBER + rb")*\}\s*$")
_TOOL = re.compile(rb'"params"\s*:\s*\{\s*"name"\s*:\s*"(\w{1,128})"')


class Malformed(msgspec.Struct, frozen=True):
    """A message that gets an error. `record` tells whether it belongs on the log: a call does, and
    what cannot be read may have been one."""

    code: int
    reason: str
    given: Raw
    id: Id = None
    tool: str = ""
    record: bool = True


def too_large(given: Raw) -> Malformed:
    """A message over `MAX_MESSAGE_BYTES`, of which only the ends were kept."""
    reason = (
        f"The message is too large: {given.size:,} bytes; at most {MAX_MESSAGE_BYTES:,} are allowed"
    )
    return Malformed(INVALID_REQUEST, reason, given, *outline(given))


def unreadable(data: bytes) -> Malformed:
    """A message that the protocol's parser did not take."""
    given = raw(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        reason = f"The message is not valid UTF-8: byte {error.start} cannot be decoded"
        return Malformed(PARSE_ERROR, reason, given)
    constants: list[str] = []
    try:
        message = json.loads(text, parse_constant=constants.append)
    except RecursionError:
        return Malformed(PARSE_ERROR, TOO_DEEP, given)
    except json.JSONDecodeError as error:
        reason = (
            "The message is not valid JSON: it cannot be read from "
            f"line {error.lineno}, column {error.colno} on"
        )
        return Malformed(PARSE_ERROR, reason, given)
    except ValueError:  # A whole number of thousands of digits is JSON, and nothing we could keep.
        reason = "The message holds a number of too many digits"
        return Malformed(PARSE_ERROR, reason, given, *outline(given))
    if not isinstance(message, dict):
        reason = "The message must be one JSON-RPC object; batches are not supported"
        return Malformed(INVALID_REQUEST, reason, given)
    id_, method, params = _id(message.get("id")), message.get("method"), message.get("params")
    tool = params.get("name") if isinstance(params, dict) else None
    tool = tool if isinstance(tool, str) else ""
    if is_deeper(message, MAX_DEPTH):
        return Malformed(PARSE_ERROR, TOO_DEEP, given, id=id_, tool=tool)
    try:
        msgspec.json.decode(data)
    except RecursionError:  # In a value that another of the same name replaced.
        return Malformed(PARSE_ERROR, TOO_DEEP, given, id=id_, tool=tool)
    except (msgspec.MsgspecError, UnicodeError):
        # Python's parser is lenient, so that the id can be answered.
        reason = _taken_by_python_alone(message, constants)
        return Malformed(PARSE_ERROR, reason, given, id=id_, tool=tool)
    reason = (
        'The message is not a JSON-RPC 2.0 request: it needs "jsonrpc": "2.0", a "method", and an '
        '"id" that is a whole number or text; "params" must be an object'
    )
    return Malformed(INVALID_REQUEST, reason, given, id_, tool, record=method == "tools/call")


def _taken_by_python_alone(message: Any, constants: list[str]) -> str:
    """What JSON does not allow in a message that Python's parser took, with the `constants` that it
    met."""
    if not _is_text(json.dumps(message, ensure_ascii=False)):
        return (
            "The message holds half of a surrogate pair: a character, such as an emoji, was "
            "cut in two. Send it whole, or leave it out"
        )
    if constants:
        return f"The message is not valid JSON: it holds {constants[0]}, which JSON does not have"
    try:
        json.dumps(message, allow_nan=False)
    except ValueError:
        return "The message holds a number that is too large"
    return "The message is not valid JSON"


def outline(given: Raw) -> tuple[Id, str]:
    """The id and the tool of a message that is not read as a whole, as far as its ends tell: to
    look through all of it would take long."""
    found = _ID_FIRST.match(given.head) or _ID_LAST.search(given.tail)
    tool = _TOOL.search(given.head)
    return _id(json.loads(found[1])) if found else None, tool[1].decode() if tool else ""


def is_dropped(message: Any) -> bool:
    """Whether the protocol's parser took a request for a notification, which nobody would answer:
    one without an id, or with one that is neither text nor a whole number."""
    # Here and not above: a client is greeted before the SDK is loaded.
    from mcp_types import JSONRPCNotification

    return isinstance(message, JSONRPCNotification) and not message.method.startswith(
        "notifications/"
    )


async def refuse(calls: Calls, problem: Malformed, client: str = "") -> dict[str, Any]:
    """Record the message where it belongs on the log; the JSON-RPC error to answer with."""
    code, reason = problem.code, problem.reason
    if problem.record:
        try:
            await calls.refuse(reason, problem.given, problem.tool, client)
        except Unavailable as error:
            code, reason = INTERNAL_ERROR, str(error)
    error_ = {"code": code, "message": reason}
    return {"jsonrpc": "2.0", "id": problem.id, "error": error_}


def _id(value: Any) -> Id:
    if isinstance(value, str):
        return value if _is_text(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
