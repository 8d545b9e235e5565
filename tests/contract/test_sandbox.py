"""The sandbox: what code is worth, what it prints, and what is said when something is wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mnemolog.infra.sandbox import Limits, Outcome, Sandbox

# Generous: a busy machine takes its time, and what these tests are about is not how long.
PATIENT = Limits(wall_s=60.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(PATIENT)
    yield made
    made.close()


def value(outcome: Outcome) -> Any:
    assert outcome.ok, outcome
    assert outcome.kind is None
    return msgspec.json.decode(outcome.value)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "function process(data) { return data.map(x => x * 2); } process(input);",
            [2, 4, 6, 8, 10],
        ),
        ("const f = (x: number): number => x + 1;\nf(input.length as number);", 6),
        ("interface A { n: number }\nenum E { P, Q }\nconst a: A = { n: E.Q };\na", {"n": 1}),
        ("function same<T>(x: T): T { return x; } same<string>('s')", "s"),
        ("task", "sums"),
        ("var input = input.slice(1); input", [2, 3, 4, 5]),
        ("const input = 3; input", 3),
        ("let x = 1; if (x) { x + 1 }", 2),
        ("'use strict'; 'no \\u2028 \\u{1f600} ü'", "no \u2028 😀 ü"),
        ("010", 8),
        ("with ({ a: 5 }) { a }", 5),
        ("undefined", None),
        ("NaN", None),
        ("// nothing but a comment", None),
        ("({ a: undefined, b: [undefined, () => 1], c: new Date(0) })",
         {"b": [None, None], "c": "1970-01-01T00:00:00.000Z"}),
    ],
)  # fmt: skip
def test_the_last_expression_is_the_result(sandbox: Sandbox, code: str, expected: object) -> None:
    assert value(sandbox.run(code, "sums", [1, 2, 3, 4, 5])) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("Promise.resolve(4)", 4),
        ("async function main() { return { ok: 1 }; }\nmain()", {"ok": 1}),
        ("new Promise((done) => setTimeout(() => done('later'), 5))", "later"),
        ("const x: number = await Promise.resolve(4);\nx + 1", 5),
        ("await Promise.all([\n  1,\n  Promise.resolve(2),\n]); // both", [1, 2]),
        ("const x = await 1;\n`a\n  b${x}`", "a\n  b1"),
        ("return await Promise.resolve(input.length)", 5),
        ("if (input.length > 2) return 'many';\nreturn 'few'", "many"),
        ("let n = 0;\nfor (const i of [1, 2, 3]) { n += await i; }", None),
        ("let n = 0;\nfor (const i of [1, 2, 3]) { n += await i; }\nn", 6),
        ("await 1;\nfunction last() { return 1; }", None),
        ("await 1;\n({ a: 1 })", {"a": 1}),
        ("await 1; const f = () => {\n  return 2; }; f(); /* that\n  is it */", 2),
        ("const s = await `\n  a`; [s,\n `\n  b` ]", ["\n  a", "\n  b"]),
        ("const r = await (async () => 5)();\nr", 5),
        ("await [Promise.resolve(1)][0]", 1),
        ("var x = 010; return await x", 8),
        ("(await import('node:path')).basename('/a/b.ts')", "b.ts"),
    ],
)
def test_promises_are_awaited_wherever_they_are(
    sandbox: Sandbox, code: str, expected: object
) -> None:
    assert value(sandbox.run(code, "", [1, 2, 3, 4, 5])) == expected


def test_input_comes_as_it_is(sandbox: Sandbox) -> None:
    sent = {"__proto__": {"x": 1}, "a": [1.5, None, True, "ü\u2028</script>`${1}`"]}
    assert value(sandbox.run("input", "", sent)) == sent
    assert value(sandbox.run("[input, ({}).x === undefined]", "", None)) == [None, True]


def test_the_console_is_apart(sandbox: Sandbox) -> None:
    outcome = sandbox.run(
        "console.log('one', { a: 1 }); console.error('two'); console.info('three');\n"
        "console.dir([4]); process.stdout.write('five'); 6"
    )
    assert value(outcome) == 6
    assert outcome.console == "one { a: 1 }\ntwo\nthree\n[ 4 ]\nfive"
    assert not outcome.console_cut


def test_a_long_console_is_cut_and_says_so() -> None:
    sandbox = Sandbox(Limits(wall_s=60.0, console_bytes=101))
    try:
        outcome = sandbox.run("console.log('ü'.repeat(100)); 1")
        assert value(outcome) == 1
        assert (outcome.console, outcome.console_cut) == ("ü" * 50, True)
        outcome = sandbox.run("console.log('x'.repeat(100)); 1")
        assert (outcome.console, outcome.console_cut) == ("x" * 100 + "\n", False)
    finally:
        sandbox.close()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("\n\nnull.x", "TypeError: Cannot read properties of null (reading 'x') (line 3)"),
        (
            "// types\n\ninterface A {\n  n: number\n}\n\nfunction f(a: A) {\n\n"
            "  throw new RangeError('bad ' + a.n);\n}\n\nf({ n: 1 });",
            "RangeError: bad 1 (line 9)",
        ),
        ("await 1;\n\n\nthrow new Error('after')", "Error: after (line 4)"),
        ("with ({ a: 1 }) {\n  throw new Error('old')\n}", "Error: old (line 2)"),
        ("let a = 1;\nlet a b = 2;", "SyntaxError: Expected a semicolon (line 2)"),
        ("1;\nlet a; let a;", "SyntaxError: Identifier 'a' has already been declared (line 2)"),
        ("JSON.parse('{')", "SyntaxError: Expected property name or '}' in JSON at position 1"),
        ("class Mine extends Error { name = 'Mine' }\nthrow new Mine('own')", "Mine: own (line 2)"),
        ("Promise.reject(new Error('no'))", "Error: no (line 1)"),
        ("setTimeout(() => { throw new Error('later') }, 1); new Promise((done) => "
         "setTimeout(done, 60000))", "Error: later (line 1)"),
        ("Promise.reject(new Error('nobody asked')); new Promise((done) => "
         "setTimeout(done, 60000))", "Error: nobody asked (line 1)"),
        ("throw 'a text'", "a text was thrown"),
        ("throw null", "null was thrown"),
        ("throw { code: 5 }", '{"code":5} was thrown'),
        ("new Promise(() => {})", "the promise that the code ended with is never settled"),
    ],
)  # fmt: skip
def test_what_is_thrown_is_told(sandbox: Sandbox, code: str, message: str) -> None:
    outcome = sandbox.run(code)
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert outcome.message.startswith(message)
    assert outcome.console == ""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("10n", "cannot be told as JSON: TypeError: Do not know how to serialize a BigInt"),
        ("const a = {}; a.a = a; a", "cannot be told as JSON: TypeError: Converting circular"),
        ("({ get a() { throw new Error('mine') } })", "cannot be told as JSON: Error: mine"),
        ("(() => 1)", "the result is a function, which JSON does not have"),
        ("Symbol('s')", "the result is a symbol, which JSON does not have"),
        ("'x'.repeat(1024 * 1024)", "the result is 1048578 bytes of JSON, 1048576 are taken"),
        ("'ü'.repeat(600000)", "the result is 1200002 bytes of JSON, 1048576 are taken"),
        ("let a = []; for (let i = 0; i < 5000; i++) a = [a]; a", "nested too deeply"),
    ],
)
def test_a_result_that_cannot_be_passed_on(sandbox: Sandbox, code: str, message: str) -> None:
    outcome = sandbox.run(code)
    assert (outcome.ok, outcome.kind) == (False, "output")
    assert message in outcome.message


def test_results_and_arguments_up_to_their_limits(sandbox: Sandbox) -> None:
    text = "x" * (1024 * 1024 - 2)
    assert value(sandbox.run("input", "t" * 65536, text)) == text
    code = "task.length;".ljust(256 * 1024 - 2, " ") + "\n7"
    assert value(sandbox.run(code, "t" * 65536)) == 7


class Odd:
    pass


@pytest.mark.parametrize(
    ("code", "task", "sent", "timeout_s", "message"),
    [
        ("", "", None, None, "the code is empty"),
        (" \n\t", "", None, None, "the code is empty"),
        ("x" * (256 * 1024 + 1), "", None, None, "the code has 262145 bytes, at most 262144"),
        ("1", "t" * 65537, None, None, "the task has 65537 bytes"),
        ("1", "", "x" * 1024 * 1024, None, "the input has 1048578 bytes"),
        ("1", "", Odd(), None, "have to be valid text and JSON"),
        ("1", "", "\ud800", None, "have to be valid text and JSON"),
        ("'\ud800'", "", None, None, "have to be valid text and JSON"),
        (None, "", None, None, "have to be valid text and JSON"),
        ("1", "", None, 0.0, "the time-out has to be above 0 and at most 60 s"),
        ("1", "", None, 61.0, "the time-out has to be"),
        ("1", "", None, float("nan"), "the time-out has to be"),
    ],
)
def test_what_is_refused(
    sandbox: Sandbox, code: Any, task: str, sent: object, timeout_s: float | None, message: str
) -> None:
    outcome = sandbox.run(code, task, sent, timeout_s)
    assert (outcome.ok, outcome.kind) == (False, "refused")
    assert message in outcome.message


def test_an_input_that_is_nested_too_deeply_is_refused(sandbox: Sandbox) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    outcome = sandbox.run("1", "", deep)
    assert (outcome.kind, "nested too deeply" in outcome.message) == ("refused", True)
    while deep:  # Python itself takes it apart by recursion otherwise.
        deep = deep[0]


def test_it_can_be_switched_off() -> None:
    outcome = Sandbox(enabled=False).run("1")
    assert (outcome.kind, "switched off" in outcome.message) == ("unavailable", True)


def test_without_deno_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_: None)
    outcome = Sandbox().run("1")
    assert outcome.kind == "unavailable"
    assert "pip install deno" in outcome.message


def test_more_than_there_is_room_for_wait_for_their_turn() -> None:
    sandbox = Sandbox(Limits(wall_s=60.0, at_once=2))
    try:
        outcomes: list[Outcome] = []
        threads = [
            threading.Thread(target=lambda: outcomes.append(sandbox.run("input + 1", "", 1)))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [value(one) for one in outcomes] == [2] * 6
    finally:
        sandbox.close()


def test_who_gets_no_turn_is_told_so() -> None:
    sandbox = Sandbox(Limits(wall_s=60.0, at_once=1))
    try:
        with sandbox._turns:
            outcome = sandbox.run("1", timeout_s=0.1)
        assert (outcome.kind, outcome.message[:12]) == ("busy", "sandbox busy")
        assert value(sandbox.run("1")) == 1
    finally:
        sandbox.close()
