"""Code in the sandbox can compute, and nothing else: not for long, not in much memory, and not
after whoever started it is gone."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import psutil  # type: ignore[import-untyped]
import pytest

from mnemolog.infra.sandbox import Limits, Outcome, Sandbox
from tests.e2e.conftest import PATIENCE_S

MB = 1024 * 1024
SECRET = "SANDBOX_TEST_SECRET"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Long enough for a busy machine: what is to fail here fails for another reason."""
    made = Sandbox(Limits(wall_s=60.0))
    yield made
    made.close()


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    made = Sandbox(Limits(wall_s=1.0))
    yield made
    made.close()


def value(outcome: Outcome) -> Any:
    assert outcome.ok, outcome
    return msgspec.json.decode(outcome.value)


def descendants() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if _runs_deno(one)]


def _runs_deno(one: psutil.Process) -> bool:
    try:
        return bool(one.status() != psutil.STATUS_ZOMBIE and one.name().startswith("deno"))
    except psutil.NoSuchProcess:
        return False  # It ended while it was looked at.


# Time


@pytest.mark.parametrize(
    "code",
    [
        "while (true) {}",
        "for (;;) await null",
        "const again = () => Promise.resolve().then(again); again()",
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "addEventListener('unload', () => { for (;;); }); Deno.exit(0)",
        "setInterval(() => {}, 10); new Promise(() => {})",
        "await new Promise((done) => setTimeout(done, 600000))",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        "Deno.kill(Deno.pid, 'SIGSTOP')",
        "({ then() {} }); setInterval(() => {}, 10); ({ then() {} })",
        "({ toJSON() { for (;;); } })",
        "throw { get message() { for (;;); } }",
        "Object.defineProperty(globalThis, 'Error', { get() { for (;;); } }); throw 1",
    ],
)
def test_what_does_not_end_is_ended(hasty: Sandbox, code: str) -> None:
    outcome = hasty.run(code)
    assert (outcome.ok, outcome.kind) == (False, "timeout")
    assert descendants() == []


def test_computing_has_half_of_the_time() -> None:
    sandbox = Sandbox(Limits(wall_s=60.0, cpu_share=1 / 120))
    try:
        assert sandbox.run("for (;;);").message == "the code computed for longer than 0.5 s"
    finally:
        sandbox.close()


def test_the_system_holds_the_computing_time_too() -> None:
    """Whoever should look does not."""
    sandbox = Sandbox(Limits(wall_s=60.0, cpu_share=1 / 60))
    looks = threading.Event()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mnemolog.infra.sandbox.process.Run._past_limit", lambda *_: looks.set())
            outcome = sandbox.run("for (;;);")
        assert looks.is_set()
        assert "signal 9" in outcome.message
    finally:
        sandbox.close()


def test_twenty_loops_leave_room_for_the_next() -> None:
    sandbox = Sandbox(Limits(wall_s=2.0))
    try:
        with ThreadPoolExecutor(20) as pool:
            looping = list(pool.map(lambda _: sandbox.run("for (;;);"), range(20)))
        assert {one.kind for one in looping} == {"timeout"}
        assert descendants() == []
    finally:
        sandbox.close()
    sandbox = Sandbox(Limits(wall_s=60.0))
    try:
        assert value(sandbox.run("1 + 1")) == 2
    finally:
        sandbox.close()


# Memory


@pytest.mark.parametrize(
    "code",
    [
        "const a = []; for (;;) a.push(new Array(1000).fill(1.5))",
        "const a = []; for (let i = 0; ; i++) a.push(JSON.parse(`\"${'ab'.repeat(1e6)}\"`) + i)",
        "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(7))",
        "new Uint8Array(2 ** 31).fill(1)",
        "new Uint8Array(new SharedArrayBuffer(2 ** 30)).fill(1)",
        "const b = new ArrayBuffer(0, { maxByteLength: 2 ** 31 }); b.resize(2 ** 31); "
        "new Uint8Array(b).fill(1)",
        "const m = new WebAssembly.Memory({ initial: 1 }); m.grow(20000)",
        "new WebAssembly.Memory({ initial: 20000 })",
        "const a = []; for (;;) a.push(new Blob([new Uint8Array(1 << 22).fill(1)]))",
        "const a = []; const s = 'x'.repeat(1 << 24); for (;;) a.push(new TextEncoder().encode(s))",
        "const { Worker } = await import('node:worker_threads');\n"
        "for (let i = 0; i < 4; i++) new Worker('const a = []; for (;;) "
        "a.push(new Uint8Array(1 << 20).fill(7))', { eval: true });\n"
        "await new Promise((done) => setTimeout(done, 60000))",
    ],
)  # fmt: skip
def test_memory_is_bounded(sandbox: Sandbox, code: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    outcome = sandbox.run(code)
    assert (outcome.ok, outcome.kind) == (False, "memory")
    # The largest child that there ever was; one that was larger than this may have been another's.
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert after <= max(before, 2 * sandbox.limits.resident_mb * 1024)
    assert "/" not in outcome.message + outcome.console


def test_memory_is_looked_at_where_the_system_holds_nothing() -> None:
    sandbox = Sandbox(Limits(wall_s=60.0, data_mb=100_000, resident_mb=150))
    try:
        taken = "const a = new Uint8Array(200 << 20).fill(1);"
        outcome = sandbox.run(taken + "await new Promise((done) => setTimeout(done, 60000))")
        assert outcome.kind == "memory"
        assert outcome.message.endswith("it has 128 MB for objects and 150 MB in all")
    finally:
        sandbox.close()


def test_a_text_has_an_end(sandbox: Sandbox) -> None:
    outcome = sandbox.run("let s = 'x'; for (;;) s += s")
    assert outcome.message.startswith("RangeError: Invalid string length")


def test_a_flood_is_let_run_by(sandbox: Sandbox) -> None:
    before = psutil.Process().memory_info().rss
    outcome = sandbox.run(
        "const line = 'x'.repeat(1 << 20); for (let i = 0; i < 100; i++) console.log(line); 'done'"
    )
    assert value(outcome) == "done"
    assert (len(outcome.console), outcome.console_cut) == (65536, True)
    assert psutil.Process().memory_info().rss - before < 50 * MB


def test_a_flood_where_the_answer_goes_is_stopped(sandbox: Sandbox) -> None:
    outcome = sandbox.run(
        "const line = new Uint8Array(1 << 20).fill(120); for (;;) Deno.stdout.writeSync(line)"
    )
    assert (outcome.kind, len(outcome.console)) == ("output", 65536)
    assert "wrote more to stdout" in outcome.message


@pytest.mark.parametrize(
    "code",
    ["throw new Error('x'.repeat(1e7))", "throw 'x'.repeat(1e7)", "throw { name: 'x'.repeat(1e7), "
     "message: '' }"],
)  # fmt: skip
def test_an_error_of_many_words_is_cut(sandbox: Sandbox, code: str) -> None:
    outcome = sandbox.run(code)
    assert outcome.kind == "error"
    assert 4000 < len(outcome.message) < 5000


def test_recursion_without_an_end_is_an_error(sandbox: Sandbox) -> None:
    outcome = sandbox.run("function f() { return f() + 1 }\nf()")
    assert outcome.message.startswith("RangeError: Maximum call stack size exceeded")
    assert sandbox.run("eval('(' .repeat(1e5) + ')'.repeat(1e5))").kind == "error"
    assert sandbox.run("(" * 100_000 + ")" * 100_000).kind == "error"


# Answers


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("Deno.exit(0)", "exit code 0"),
        ("process.exit(3)", "exit code 3"),
        ("process.abort()", "signal 6"),
        ("Deno.kill(Deno.pid, 'SIGKILL')", "signal 9"),
        ("process.kill(process.pid, 'SIGUSR1')", "signal 10"),
        ("Deno.stdout.close(); 1", ""),
        ("close(); await new Promise((done) => setTimeout(done, 60000))", "exit code 0"),
    ],
)
def test_code_that_ends_its_process_is_told_so(sandbox: Sandbox, code: str, found: str) -> None:
    outcome = sandbox.run(code)
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert found in outcome.message


@pytest.mark.parametrize(
    "code",
    [
        "Object.prototype.toJSON = () => 'forged'; Array.prototype.toJSON = () => 'forged'; 5",
        "JSON.stringify = () => 'forged'; JSON.parse = () => 'forged'; 5",
        "Promise.prototype.then = () => { throw 1 }; Promise.resolve = null; 5",
        "Array.prototype[Symbol.iterator] = null; Array.prototype.push = null; 5",
        "String.prototype.toJSON = () => 6; Number.prototype.toString = () => '9'; 5",
        "TextEncoder.prototype.encode = null; Uint8Array.prototype.subarray = null; 5",
        "Deno.stdout.writeSync = null; globalThis.Deno = null; console = null; 5",
        "const it = Function.prototype; it.call = it.bind = it.apply = it.toString = null; 5",
        "Object.defineProperty(Object.prototype, 'length', { get() { throw 1 } }); 5",
        "Object.defineProperty(Object.prototype, 'then', { value: undefined }); 5",
        "for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {}\n5",
        "({ toJSON: () => 5, valueOf() { throw 1 }, [Symbol.toPrimitive]() { throw 2 } })",
    ],
)  # fmt: skip
def test_prototypes_are_the_codes_own_affair(sandbox: Sandbox, code: str) -> None:
    assert value(sandbox.run(code)) == 5


@pytest.mark.parametrize(
    "thrown",
    [
        "{ get message() { throw 1 } }",
        "new Proxy({}, { get() { throw 1 }, has() { throw 1 }, getPrototypeOf() { throw 1 } })",
        "Object.create(null)",
        "Object.assign(new Error('x'), { stack: { toString() { throw 1 } } })",
        "Object.assign(new Error('x'), { name: Symbol('s') })",
        "(Error.prepareStackTrace = () => { throw 1 }, new Error('x'))",
        "(Object.prototype.toString = () => { throw 1 }, Symbol('s'))",
        "{ toJSON() { throw 1 } }",
        "(String.prototype.slice = () => { throw 1 }, new Error('x'.repeat(5000)))",
        "(RegExp.prototype.exec = () => { throw 1 }, new Error('x'))",
        "(globalThis.String = null, 5n)",
    ],
)
def test_whatever_is_thrown_is_an_error(sandbox: Sandbox, thrown: str) -> None:
    outcome = sandbox.run(f"throw {thrown}")
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert outcome.message


@pytest.mark.parametrize(
    "garbage",
    [
        "'\\n'.repeat(1000)",
        "'{\"ok\":true}'",
        "'0'.repeat(32) + '5:value 6'",
        "String.fromCharCode(...Array(256).keys())",
    ],
)
def test_garbage_beside_the_answer_is_console(sandbox: Sandbox, garbage: str) -> None:
    write = "Deno.stdout.writeSync(Uint8Array.from({garbage}, (c) => c.charCodeAt(0)));"
    outcome = sandbox.run(write.format(garbage=garbage) + "7")
    assert value(outcome) == 7
    assert outcome.console
    outcome = sandbox.run(write.format(garbage=garbage) + "Deno.exit(0)")
    assert (outcome.kind, "exit code 0" in outcome.message) == ("error", True)


def test_no_run_leaves_anything_to_the_next(sandbox: Sandbox) -> None:
    left = "globalThis.left = 1; Object.prototype.left = 1; sessionStorage.setItem('left', '1'); 1"
    assert value(sandbox.run(left)) == 1
    seen = "[typeof globalThis.left, ({}).left ?? null, sessionStorage.getItem('left')]"
    assert value(sandbox.run(seen)) == ["undefined", None, None]


# The end


def started(sandbox: Sandbox) -> psutil.Process:
    """A run that waits, for as long as it is let."""
    waiting = "await new Promise((done) => setTimeout(done, 600000))"
    threading.Thread(target=sandbox.run, args=(waiting,), daemon=True).start()
    wait_until(lambda: len(descendants()) == 1)
    process: psutil.Process = descendants()[0]
    wait_until(lambda: process.memory_info().rss > 20 * MB)
    return process


def wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def test_the_child_is_given_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By what the system says of it: no variable, descriptor, directory or group of ours."""
    monkeypatch.setenv(SECRET, "the secret")
    monkeypatch.chdir(tmp_path)
    kept = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(kept, True)
    sandbox = Sandbox(Limits(wall_s=60.0))
    try:
        running = started(sandbox)
        environment = running.environ()
        assert set(environment) <= {
            *("DENO_DIR", "DENO_NO_UPDATE_CHECK", "DENO_NO_PACKAGE_JSON", "DENO_EMIT_CACHE_MODE"),
            *("HOME", "NO_COLOR", "TZ", "PWD"),
        }
        assert running.cwd() == "/"
        assert os.getsid(running.pid) == running.pid != os.getsid(0)
        opened = {str(one.readlink()) for one in Path(f"/proc/{running.pid}/fd").iterdir()}
        assert not {one for one in opened if one.startswith("/") and one != "/dev/null"}
        running.kill()
    finally:
        os.close(kept)
        wait_until(lambda: descendants() == [])
        sandbox.close()


PARENT = """
import sys, threading
from mnemolog.infra.sandbox import Limits, Sandbox

sandbox = Sandbox(Limits(wall_s=600.0))
for code in sys.argv[1:]:
    threading.Thread(target=sandbox.run, args=(code,), daemon=True).start()
threading.Event().wait()
"""


def test_nothing_outlives_a_kill_of_the_parent() -> None:
    codes = [
        "for (;;) console.log(1)",
        "for (;;);",
        "console.log(1); await new Promise((done) => setTimeout(done, 600000))",
        "console.log(1); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    ]
    ours = subprocess.Popen([sys.executable, "-c", PARENT, *codes])
    parent = psutil.Process(ours.pid)
    seen: list[psutil.Process] = []
    try:
        wait_until(
            lambda: sum(one.name().startswith("deno") for one in parent.children()) == len(codes)
        )
        seen = parent.children()
        assert len(seen) == 1 + len(codes), "the shell that minds them, and each of them"
        ours.kill()
        ours.wait()
        wait_until(lambda: not any(alive(one) for one in seen))
    finally:
        ours.kill()
        ours.wait()
        for one in seen:
            if alive(one):
                one.kill()


def alive(one: psutil.Process) -> bool:
    try:
        return bool(one.is_running() and one.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_minder_that_was_ended_is_replaced(sandbox: Sandbox) -> None:
    assert value(sandbox.run("1")) == 1
    minder = sandbox._minder._process
    assert minder is not None
    os.kill(minder.pid, signal.SIGKILL)
    wait_until(lambda: psutil.Process(minder.pid).status() == psutil.STATUS_ZOMBIE)
    assert value(sandbox.run("2")) == 2
    assert sandbox._minder._process not in (None, minder)


def test_closing_leaves_no_process() -> None:
    sandbox = Sandbox(Limits(wall_s=60.0))
    before = psutil.Process().children(recursive=True)
    assert value(sandbox.run("1")) == 1
    sandbox.close()
    assert psutil.Process().children(recursive=True) == before
