"""How a call went, in one of a few words."""

from __future__ import annotations

from typing import Any

import pytest

from mnemolog.events.envelope import Refusal, Truncated
from mnemolog.services.api import Answer, Request
from mnemolog.services.gateway.auth.admission import needs_scope
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED, NOT_FOR
from mnemolog.services.gateway.watched import calls_told, outcome_of, reason_of
from mnemolog.services.scopes import ADMIN

DENIED = Refusal(needs_scope(ADMIN), AUTHORIZATION_FAILED)
SPOKE_FOR = Refusal(f"{NOT_FOR} 'ana'", AUTHORIZATION_FAILED)
WITHHELD = Refusal("Unknown tool 'recall'", -32602)


def asked(**more: Any) -> Request:
    return Request(tool="learn", arguments=b"{}", call_id="c", received_at_us=0, **more)


def refused(code: int | None = None, *, unfit: bool = False) -> Answer:
    return Answer(reply=b'{"error":"no"}', refused=True, code=code, unfit=unfit)


@pytest.mark.parametrize(
    ("request_", "answer", "reason"),
    [
        (asked(), refused(), "rules"),
        (asked(), refused(unfit=True), "invalid_arguments"),
        (asked(), refused(-32005), "invalid_arguments"),
        (asked(), refused(-32004), "not_found"),
        (asked(), refused(-32602, unfit=True), "unknown_tool"),
        (asked(refused=WITHHELD), refused(-32602, unfit=True), "unknown_tool"),
        (asked(refused=Refusal("_meta.actor must be a text")), refused(unfit=True), None),
        (asked(refused=DENIED), refused(AUTHORIZATION_FAILED, unfit=True), "scope"),
        (asked(refused=SPOKE_FOR), refused(AUTHORIZATION_FAILED, unfit=True), "actor"),
        (asked(truncated=Truncated("not JSON", 100, b"")), refused(unfit=True), "malformed"),
        (asked(truncated=Truncated("large", 5_000_000, b"")), refused(unfit=True), "too_large"),
    ],
)
def test_why_it_was_refused(request_: Request, answer: Answer, reason: str | None) -> None:
    assert reason_of(request_, answer) == (reason or "invalid_arguments")
    denied = reason in ("scope", "actor")
    assert outcome_of(request_, answer) == ("denied" if denied else "refused")


def test_what_was_answered_is_ok() -> None:
    assert outcome_of(asked(), Answer(reply=b"{}")) == "ok"


def test_when_a_line_is_written() -> None:
    assert calls_told(wanted=False, level="info") is None
    assert calls_told(wanted=False, level="debug") == "debug"
    assert calls_told(wanted=True, level="debug") == "info"
