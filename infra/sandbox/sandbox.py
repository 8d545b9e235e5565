"""Running code of an agent where it can do no harm."""

from __future__ import annotations

import base64
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, Final

import msgspec

from mnemolog.infra.sandbox.minder import Minder
from mnemolog.infra.sandbox.outcome import Limits, Outcome, failed
from mnemolog.infra.sandbox.process import Run, bootstrap

_TYPESCRIPT: Final = "data:application/typescript;base64,"


def find_deno() -> str | None:
    """Where Deno is: beside this Python, where its package puts it, or on the path."""
    return shutil.which(Path(sys.executable).with_name("deno")) or shutil.which("deno")


class Sandbox:
    """Runs TypeScript and JavaScript in a process of its own each, without any permission.

    `run` may be called from many threads. Nothing of one run is there for another.
    """

    def __init__(self, limits: Limits | None = None, *, enabled: bool = True) -> None:
        self.limits = limits or Limits()
        self._enabled = enabled
        self._turns = threading.BoundedSemaphore(self.limits.at_once)
        self._minder = Minder()
        self._script = bootstrap()

    def run(
        self, code: str, task: str = "", input: Any = None, timeout_s: float | None = None
    ) -> Outcome:
        """The value of the last expression of `code`, a promise's once it is settled. `task` and
        `input` are variables to it. It waits for its turn for as long as it may run at most."""
        wall_s = self.limits.wall_s if timeout_s is None else timeout_s
        if not self._enabled:
            return failed("unavailable", "running code is switched off in the settings")
        deno = find_deno()
        if deno is None:
            return failed("unavailable", "Deno is missing, which runs the code: pip install deno")
        payload = self._payload(code, task, input)
        if isinstance(payload, str):
            return failed("refused", payload)
        if not 0 < wall_s <= self.limits.wall_s:
            most = self.limits.wall_s
            return failed("refused", f"the time-out has to be above 0 and at most {most:g} s")
        if not self._turns.acquire(timeout=wall_s):
            most = self.limits.at_once
            return failed("busy", f"sandbox busy: {most} pieces of code are running, try again")
        try:
            return Run(self.limits, wall_s, self._minder).outcome(deno, self._script, payload)
        except OSError as error:
            return failed("unavailable", f"the code could not be started: {error}")
        finally:
            self._turns.release()

    def close(self) -> None:
        self._minder.close()

    def _payload(self, code: str, task: str, input: Any) -> dict[str, object] | str:
        """What the bootstrap script is sent, or what is wrong with it."""
        try:
            source = code.encode()
            described = task.encode()
            data = msgspec.json.encode(input)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            return f"code, task and input have to be valid text and JSON: {error}"
        except RecursionError:
            return "the input is nested too deeply: send it flatter"
        if not source.strip():
            return "the code is empty: send some TypeScript or JavaScript"
        for what, has, most in (
            ("code", len(source), self.limits.code_bytes),
            ("task", len(described), self.limits.task_bytes),
            ("input", len(data), self.limits.input_bytes),
        ):
            if has > most:
                return f"the {what} has {has} bytes, at most {most} are taken: shorten it"
        module = b"export async function __code() {\n" + source + b"\n}"
        return {
            "url": _TYPESCRIPT + base64.b64encode(module).decode(),
            "code": code,
            "task": task,
            "input": msgspec.Raw(data),
            "most": self.limits.result_bytes,
        }
