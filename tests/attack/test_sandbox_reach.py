"""Code in the sandbox reaches nothing: no file, variable, socket, process or module."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemolog.infra.sandbox import Limits, Outcome, Sandbox
from tests.attack.test_sandbox import SECRET, value


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Long enough for a busy machine: what is to fail here fails for another reason."""
    made = Sandbox(Limits(wall_s=60.0))
    yield made
    made.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that is there, and that this process can read."""
    file = tmp_path / "secret.json"
    file.write_text(json.dumps(SECRET))
    return file


def told(outcome: Outcome) -> str:
    return f"{outcome.value!r} {outcome.console} {outcome.message}"


READING = [
    "Deno.readTextFileSync(FILE)",
    "await Deno.readTextFile(FILE)",
    "await Deno.open(FILE)",
    "Deno.statSync(FILE).size",
    "[...Deno.readDirSync(FILE + '/..')]",
    "(await import('node:fs')).readFileSync(FILE, 'utf8')",
    "(await import('node:fs/promises')).readFile(FILE, 'utf8')",
    "process.getBuiltinModule('fs').readFileSync(FILE, 'utf8')",
    "(await import('node:module')).createRequire('file:///')(FILE)",
    "import('file://' + FILE, { with: { type: 'json' } })",
    "import('file://' + FILE, { with: { type: 'text' } })",
    "import('data:text/javascript,export * from \"file://' + FILE + '\" with {type: \"json\"}')",
    "import(URL.createObjectURL(new Blob([`import a from 'file://${FILE}' with {type: 'json'};"
    "export default a`], { type: 'text/javascript' })))",
    "(await fetch('file://' + FILE)).text()",
    "new ((await import('node:sqlite')).DatabaseSync)(FILE)",
    "new ((await import('node:sqlite')).DatabaseSync)(':memory:').exec(`ATTACH '${FILE}' AS a`)",
    "process.loadEnvFile(FILE)",
]


@pytest.mark.parametrize("code", READING)
def test_no_file_is_read(sandbox: Sandbox, secret: Path, code: str) -> None:
    outcome = sandbox.run(code.replace("FILE", "input"), "", str(secret))
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert SECRET not in told(outcome)


@pytest.mark.parametrize(
    "code",
    [
        "import secret from 'file://FILE' with { type: 'json' };\nsecret",
        "(await import('file://FILE', { with: { type: 'json' } })).default",
        "import('file://FILE', { with: { type: 'text' } }).then((it) => it.default)",
        "}\nimport secret from 'file://FILE' with { type: 'json' };\nthrow new Error(secret);\n{",
        "}\nexport { default } from 'file://FILE' with { type: 'text' };\n{",
        "}}}\nthrow new Error(JSON.stringify(await import('file://FILE', "
        "{ with: { type: 'json' } })));\n{{{",
    ],
)
def test_no_file_is_read_by_its_literal_name(sandbox: Sandbox, secret: Path, code: str) -> None:
    """Deno loads what the main module names without asking; the code must be no part of that."""
    outcome = sandbox.run(code.replace("FILE", str(secret)))
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert SECRET not in told(outcome)


@pytest.mark.parametrize(
    "code",
    [
        "Deno.writeTextFileSync(FILE, 'x')",
        "(await import('node:fs')).writeFileSync(FILE, 'x')",
        "new ((await import('node:sqlite')).DatabaseSync)(FILE)",
        "const { DatabaseSync } = await import('node:sqlite');\n"
        "new DatabaseSync(':memory:').exec(`VACUUM INTO '${FILE}'`)",
        "(await import('node:v8')).writeHeapSnapshot(FILE)",
        "Deno.makeTempFileSync()",
        "Deno.symlinkSync('/etc', FILE)",
        "localStorage.setItem('a', 'b')",
        "await caches.open('a')",
    ],
)
def test_nothing_is_written_or_kept(sandbox: Sandbox, tmp_path: Path, code: str) -> None:
    outcome = sandbox.run(code.replace("FILE", "input"), "", str(tmp_path / "new"))
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "code",
    [
        "Deno.env.toObject()",
        f"Deno.env.get('{SECRET}')",
        f"process.env.{SECRET}",
        "({ ...process.env })",
        "(await import('node:fs')).readFileSync('/proc/self/environ', 'utf8')",
        "Deno.hostname()",
        "Deno.networkInterfaces()",
        "(await import('node:os')).userInfo()",
        "(await import('node:os')).homedir()",
    ],
)
def test_nothing_is_told_of_the_machine(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv(SECRET, "the secret")
    outcome = sandbox.run(code)
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert "the secret" not in told(outcome)


@pytest.mark.parametrize(
    "code",
    [
        "await Deno.connect({ hostname: '127.0.0.1', port: PORT })",
        "await fetch('http://127.0.0.1:' + PORT)",
        "new WebSocket('ws://127.0.0.1:' + PORT)",
        "new EventSource('http://127.0.0.1:' + PORT); await new Promise((d) => setTimeout(d, 300))",
        "const net = await import('node:net'); await new Promise((done, no) => "
        "net.connect(PORT, '127.0.0.1', done).on('error', no))",
        "const http = await import('node:http'); await new Promise((done, no) => "
        "http.get('http://127.0.0.1:' + PORT, done).on('error', no))",
        "const d = (await import('node:dgram')).createSocket('udp4'); await new Promise((done, no)"
        " => d.on('error', no).send('x', PORT, '127.0.0.1', (e) => e ? no(e) : done()))",
        "(await import('node:dns/promises')).lookup('localhost')",
        "Deno.listen({ port: 0 })",
        "Deno.serve({ port: 0 }, () => new Response())",
        "(await import('node:inspector')).open(0)",
        "import('http://127.0.0.1:' + PORT + '/x.ts')",
        "import('https://deno.land/std/version.ts')",
        "import('npm:left-pad')",
        "import('jsr:@std/path')",
        "import 'https://deno.land/std/version.ts'; 1",
    ],
)
def test_nobody_is_reached(sandbox: Sandbox, code: str) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        port = listening.getsockname()[1]
        outcome = sandbox.run(code.replace("PORT", "input"), "", port)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert not outcome.ok or "EventSource" in code, outcome
    assert outcome.kind in ("error", None)


@pytest.mark.parametrize(
    "code",
    [
        "new Deno.Command('/bin/sh', { args: ['-c', 'touch ' + input] }).outputSync()",
        "new Deno.Command('/bin/sh', { args: ['-c', 'touch ' + input], env: {} }).spawn()",
        "(await import('node:child_process')).execSync('touch ' + input)",
        "(await import('node:child_process')).spawnSync('/bin/touch', [input], { env: {} })",
        "(await import('node:cluster')).default.fork()",
        "Deno.dlopen('libc.so.6', { system: { parameters: ['buffer'], result: 'i32' } })",
        "process.dlopen({ exports: {} }, '/lib/x.node')",
        "process.kill(process.ppid, 0)",
        "Deno.kill(-1, 'SIGCONT')",
        "new Worker('data:text/javascript,')",
        "process.setuid(0)",
    ],
)
def test_no_process_is_started_or_touched(sandbox: Sandbox, tmp_path: Path, code: str) -> None:
    outcome = sandbox.run(code, "", str(tmp_path / "made"))
    assert (outcome.ok, outcome.kind) == (False, "error")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_asked_for(sandbox: Sandbox) -> None:
    code = "const asked = await Deno.permissions.request({ name: 'read' }); asked.state"
    assert value(sandbox.run(code)) == "denied"
    assert value(sandbox.run("[prompt('?'), confirm('?')]")) == [None, False]
    assert value(sandbox.run("debugger; [typeof navigator.gpu, Deno.cwd()]")) == ["undefined", "/"]
