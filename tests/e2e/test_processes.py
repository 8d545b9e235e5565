"""The commands as processes: how they start, share a directory, and end."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENCE_S, Message, Server, StdioClient, run, start

WORDS_ONLY = ("--model", "none")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test's own, without a model."""
    server = Server(tmp_path / "data", *WORDS_ONLY)
    yield server
    server.stop()


def test_stdio_ends_when_the_client_hangs_up(new_stdio: Callable[..., StdioClient]) -> None:
    client = new_stdio(*WORDS_ONLY)
    client.initialize()
    client.ok("learn", {"insight": "cups slip when wet"})
    assert client.close() == 0
    again = new_stdio(*WORDS_ONLY)
    again.initialize()
    assert again.ok("recall", {"query": "wet cups"})["total"] == 1


def test_stdio_ends_by_a_signal_in_good_order(new_stdio: Callable[..., StdioClient]) -> None:
    client = new_stdio(*WORDS_ONLY)
    client.initialize()
    client.ok("learn", {"insight": "cups slip when wet"})
    client.process.terminate()
    assert client.process.wait(PATIENCE_S) == 0


def test_stdio_answers_a_file_of_requests(tmp_path: Path) -> None:
    learn = {"name": "learn", "arguments": {"insight": "cups slip when wet"}}
    init = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "file", "version": "1"},
    }
    requests = [("initialize", init), ("tools/call", learn), ("tools/list", {})]
    file = tmp_path / "requests"
    file.write_text(
        "".join(
            json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}) + "\n"
            for i, (method, params) in enumerate(requests)
        )
    )
    with file.open("rb") as given:
        process = start(
            "stdio",
            "--data",
            str(tmp_path / "data"),
            *WORDS_ONLY,
            stdin=given,
            stdout=subprocess.PIPE,
        )
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    answers = [json.loads(line) for line in output.splitlines()]
    assert {one["id"] for one in answers} == {0, 1, 2}
    assert all("result" in one for one in answers)


def test_two_clients_share_a_directory(new_stdio: Callable[..., StdioClient]) -> None:
    one, two = new_stdio(*WORDS_ONLY), new_stdio(*WORDS_ONLY)
    one.initialize()
    two.initialize()
    one.ok("learn", {"insight": "cups slip when wet"})
    assert two.ok("recall", {"query": "wet cups"})["total"] == 1
    assert one.close() == 0
    two.ok("learn", {"insight": "plates break when dropped"})
    assert two.ok("recall", {"query": "wet cups"})["total"] == 1


def test_serve_tells_where_it_is_and_how_it_is(own_server: Server) -> None:
    assert str(own_server.data) in own_server.line
    assert "model" in own_server.line
    client = own_server.client()
    status, body = client.get("/healthz")
    assert status == 200
    assert json.loads(body)["status"] == "ok"
    client.ok("learn", {"insight": "cups slip when wet"})
    client.refused("learn", {"insight": ""})
    client.refused("made_up", {})
    client.refused("update", {"memory_id": 70, "new_content": "there is no such memory"})
    client.send_raw(b"{")
    status, metrics = client.get("/metrics")
    assert status == 200
    family = 'family="robot"'
    assert f'mnemolog_calls_total{{{family},outcome="ok",tool="learn"}} 1.0' in metrics
    assert f'mnemolog_calls_total{{{family},outcome="refused",tool="learn"}} 1.0' in metrics
    unknown = 'family="unknown",outcome="refused",tool="unknown"'
    assert f"mnemolog_calls_total{{{unknown}}} 2.0" in metrics
    for reason in ("invalid_arguments", "unknown_tool", "malformed", "rules"):
        assert f'mnemolog_refusals_total{{reason="{reason}"}} 1.0' in metrics
    assert 'mnemolog_log_position{of="decisions",partition="0"} 5.0' in metrics
    assert 'mnemolog_lag{of="state",partition="0"} 0.0' in metrics
    assert "mnemolog_call_seconds_bucket" in metrics
    assert "/mcp" in client.get("/")[1]
    assert own_server.stop() == 0
    assert "Traceback" not in own_server.errors.read_text()


def test_a_plain_post_needs_no_special_headers(own_server: Server) -> None:
    """The documentation's Python, TypeScript and Rust clients send a content type at most."""
    client = own_server.client()
    call = {"name": "learn", "arguments": {"insight": "cups slip when wet"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}).encode()
    for accept in (None, "*/*", "application/json", "text/html"):
        headers = {"Content-Type": "application/json"}
        status, answer = client.post(
            body, headers if accept is None else {**headers, "Accept": accept}
        )
        assert status == 200, answer
        message = json.loads(answer)
        assert message["id"] == 7
        assert json.loads(message["result"]["content"][0]["text"])["status"]
    assert client.get("/mcp")[0] == 405


def test_a_plain_call_is_answered_as_the_sdk_answers(own_server: Server) -> None:
    """A plain call does not go through the SDK; one with something more in it does."""
    client = own_server.client()
    calls: list[Message] = [
        {"name": "recall", "arguments": {"query": "cups"}},
        {"name": "list_sessions", "arguments": None},
        {"name": "recall", "arguments": {"query": "cups"}, "_meta": {"progressToken": 1}},
        {"name": "learn", "arguments": {"insight": " "}},
        {"name": "learn", "arguments": {"insight": "cups"}, "_meta": {"after": "somewhere"}},
        {"name": "remember", "arguments": {}},
        {"name": "recall"},
    ]
    assert not client.ask("tools/call", {"name": "learn", "arguments": {"insight": "wet cups"}})[
        "result"
    ]["isError"]
    for id_, call in enumerate(calls):
        message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": call}
        plain = client.send_raw(json.dumps(message).encode())
        more = {**call, "more": True}
        by_sdk = client.send_raw(json.dumps({**message, "params": more}).encode())
        for one in (plain, by_sdk):
            one.get("result", {}).pop("_meta", None)
        if "memories" in plain.get("result", {}).get("structuredContent", {}):
            for one in (plain, by_sdk):  # A recall is remembered, so the next one tells of it.
                one["result"] = one["result"]["structuredContent"]["memories"][0]["id"]
        assert plain == by_sdk


def test_web_pages_cannot_reach_a_local_server(own_server: Server) -> None:
    client = own_server.client()
    before = json.loads(client.get("/healthz")[1])["partitions"]
    headers = {"Content-Type": "application/json"}
    for more in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        for body in (b"{}", b"not json"):
            assert client.post(body, {**headers, **more})[0] in (403, 421)
    assert client.post(b"{}", {"Content-Type": "text/plain"})[0] == 400
    assert json.loads(client.get("/healthz")[1])["partitions"] == before


def test_a_second_serve_is_told_so(own_server: Server) -> None:
    second = run("serve", "--data", str(own_server.data), "--port", "0", *WORDS_ONLY)
    assert second.returncode == 1
    assert second.stderr.startswith("Error: Another `mnemolog serve`")
    assert len(second.stderr.splitlines()) == 1


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = run("serve", "--data", str(tmp_path / "data"), "--port", port)
    assert told.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_call_on_the_directory_and_through_a_server(own_server: Server) -> None:
    data, learn = str(own_server.data), '{"insight": "cups slip when wet"}'
    through = run("call", "learn", learn, "--url", own_server.url, "--actor", "ann", "--json")
    assert (through.returncode, through.stderr) == (0, "")
    assert json.loads(through.stdout)["status"] == "created"
    key = ("--idempotency-key", "once")
    first = run("--data", data, "call", "learn", '{"insight": "plates break"}', *key)
    second = run("call", "learn", "-", "--data", data, *key, given='{"insight": "plates break"}')
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout == second.stdout
    for place in (("--url", own_server.url + "/mcp"), ("--data", data)):
        refused = run("call", "learn", '{"insight": ""}', *place)
        assert refused.returncode == 1
        assert "insight" in json.loads(refused.stdout)["error"]
        unknown = run("call", "remember", *place)
        assert unknown.returncode == 1
        assert json.loads(unknown.stdout) == {"error": "Unknown tool 'remember'"}
    shown = run("audit", "log", "--data", data, "--json").stdout
    assert "ann" in shown


def test_what_people_said_does_not_steer_the_terminal(tmp_path: Path) -> None:
    data = str(tmp_path)
    said = {"insight": "[red]odd[/] \x1b[31m\x07 \x9b2J \u202etext\nof two lines"}
    learned = run("call", "learn", json.dumps(said), "--data", data)
    assert learned.returncode == 0, learned.stderr
    for told in (run("audit", "show", "1", "--data", data), run("audit", "log", "--data", data)):
        assert told.returncode == 0, told.stderr
        assert "odd[/]" in told.stdout
        assert not set("\x1b\x07\x9b\u202e") & set(told.stdout)
    as_json = json.loads(run("audit", "show", "1", "--json", "--data", data).stdout)
    assert as_json["memory"]["content"] == said["insight"]
    beyond = run("audit", "show", str(10**30), "--data", data)
    assert (beyond.returncode, "Invalid value" in beyond.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("call", "learn", "{"), "no valid JSON"),
        (("call", "learn", "[1]"), "must be an object"),
        (("call", "learn", "{}", "--url", "http://127.0.0.1:9"), "does not answer"),
        (("call", "learn", "{}", "--url", "ftp://x"), "must begin with http"),
        (("call", "learn", "{}", "--data", "/dev/null/x"), "/dev/null"),
        (("serve", "--data", "/dev/null/x", "--port", "0"), "/dev/null"),
        (("serve", "--port", "0", "--host", "no.such.host.invalid"), "Cannot listen"),
    ],
)
def test_errors_are_one_sentence(args: tuple[str, ...], words: str) -> None:
    told = run(*args)
    assert told.returncode == 1
    assert words in told.stderr
    assert "Traceback" not in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1


def test_help_and_version() -> None:
    assert run("--version").stdout.startswith("mnemolog, version ")
    overview = run("--help").stdout
    for name in ("serve", "stdio", "call", "models"):
        assert name in overview
        told = run(name, "--help")
        assert told.returncode == 0
        assert "Examples:" in told.stdout


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """The event loop turns Nagle's algorithm off only where the socket names its protocol."""
    from mnemolog.services.gateway.http import _listen

    with _listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
