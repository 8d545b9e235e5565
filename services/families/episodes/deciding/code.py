"""execute_agent_code: run at the edge, in a sandbox; what came of it is decided on the log."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Answered, Call
from mnemolog.events.episodes import CodeExecuted, ExecuteAgentCode
from mnemolog.services.api import Ran
from mnemolog.services.decider.tool import Decided, Edge
from mnemolog.services.families.episodes.problems import SANDBOX, TIMEOUT, invalid
from mnemolog.services.families.episodes.rules import Context

AT_ONCE = 64
"""More than the sandbox runs: the others wait for their turn there, and no longer than it says."""


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of it, as the call keeps it. `value` is the last expression's."""

    ok: bool
    value: msgspec.Raw = msgspec.Raw(b"null")
    console: str = ""
    console_cut: bool = False
    kind: str = ""
    message: str = ""
    ms: float = 0.0


def carry_out(edge: Edge, call: Call, args: ExecuteAgentCode) -> Call:
    ran: Ran = edge.run_code(args.code, args.context.task, args.context.input)
    told = Told(
        ok=ran.ok,
        value=msgspec.Raw(ran.value),
        console=ran.console,
        console_cut=ran.console_cut,
        kind=ran.kind or "",
        message=ran.message,
        ms=round(ran.ms, 1),
    )
    reply = msgspec.json.encode(told)
    return replace(call, answered=Answered([], ms=told.ms, reply=reply))


def decide_execute(ctx: Context, args: ExecuteAgentCode) -> Decided:
    answered = ctx.call.answered
    if answered is None or not answered.reply:
        raise Refused("Code is run before it is decided on; this call's was not", code=SANDBOX)
    try:
        told = msgspec.json.decode(answered.reply, type=Told)
        value = msgspec.json.decode(told.value)
    except msgspec.MsgspecError:
        sentence = "What came of this code was recorded in a form that is not known"
        raise Refused(sentence, code=SANDBOX) from None
    if not told.ok:
        raise _failed(told)
    code = args.code.encode("utf-8", "surrogatepass")
    fact = CodeExecuted(sha256=hashlib.sha256(code).hexdigest())
    # How long it took is with the call: the same call has the same outcome, whoever carries it out.
    reply: dict[str, Any] = {"result": value, "console": told.console}
    if told.console_cut:
        reply["console_cut"] = True
    return Decided(ctx.call.space, [fact], reply)


def value_of(reply: dict[str, Any]) -> Any:
    """The part of the reply that is shown in words."""
    return reply["result"]


def _failed(told: Told) -> Refused:
    if told.kind == "refused":
        return invalid("code", told.message)
    code = TIMEOUT if told.kind == "timeout" else SANDBOX
    data = {"kind": told.kind, "console": told.console, "execution_time_ms": told.ms}
    return Refused(f"Sandbox error: {told.message}", code=code, data=data)
