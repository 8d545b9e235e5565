"""Lines on stderr: for people or for programs, one for each call where that is asked for, and
nothing in them that was said to the service."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HttpClient, Message, Server, StdioClient, run

CONTENTS = ["cups-slip-when-wet", "no-such-tool-as-this", "kitchen-of-ana", "sk-e2e-secret-77"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ALL = {"MNEMOLOG_LOG_FORMAT": "json", "MNEMOLOG_LOG_CALLS": "true"}
WORDS_ONLY = ("--model", "none")


def work(client: HttpClient) -> None:
    meta = {"actor": "arm-3", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    given = {"insight": CONTENTS[0], "collection": CONTENTS[2]}
    client.ok("learn", given, meta)
    client.ok("recall", {"query": CONTENTS[0], "collection": CONTENTS[2]})
    client.refused(f"{CONTENTS[1]}\x1b[2J", {})
    client.refused("learn", {"insight": "", "context": CONTENTS[3]})
    client.send_raw(b'{"' + CONTENTS[3].encode())
    client.post(b"{}", {"Content-Type": "application/json", "Authorization": CONTENTS[3]})


def objects(server: Server) -> list[Message]:
    """Every line is one."""
    found = [json.loads(line) for line in server.errors.read_text().splitlines()]
    assert all({"event", "level", "timestamp"} <= set(one) for one in found)
    return found


def nothing_is_told(server: Server) -> None:
    said = server.errors.read_text()
    assert not [one for one in CONTENTS if one in said]


def test_every_line_is_an_object_and_every_call_has_one(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *WORDS_ONLY, env=ALL)
    try:
        work(server.client())
    finally:
        assert server.stop() == 0
    nothing_is_told(server)
    found = objects(server)
    assert "serving http" in found[0]["event"]
    calls = [one for one in found if one["event"] == "call"]
    first = calls[0]
    assert first["call"] and first["ms"] > 0
    told = {name: first[name] for name in ("tool", "family", "outcome", "actor", "tenant", "trace")}
    assert told == {
        "tool": "learn",
        "family": "robot",
        "outcome": "ok",
        "actor": "arm-3",
        "tenant": "default",
        "trace": TRACE,
    }
    assert [(one["tool"], one["outcome"], one["reason"]) for one in calls[1:5]] == [
        ("recall", "ok", None),
        ("unknown", "refused", "unknown_tool"),
        ("learn", "refused", "invalid_arguments"),
        ("unknown", "refused", "malformed"),
    ]
    logged = run("audit", "log", "--data", str(server.data), "--json")
    assert first["call"] in {one["call_id"] for one in json.loads(logged.stdout)}


@pytest.mark.parametrize(
    ("env", "lines"),
    [
        ({}, 0),
        ({"MNEMOLOG_LOG_LEVEL": "debug"}, 1),
        ({"MNEMOLOG_LOG_CALLS": "true"}, 1),
        ({"MNEMOLOG_LOG_CALLS": "true", "MNEMOLOG_LOG_LEVEL": "warning"}, 0),
    ],
)
def test_lines_for_people_come_when_they_are_asked_for(
    tmp_path: Path, env: dict[str, str], lines: int
) -> None:
    server = Server(tmp_path / "data", *WORDS_ONLY, env=env)
    try:
        meta = {"actor": "arm-3\u202e"} if not lines else {"actor": "arm-3"}
        server.client().call("learn", {"insight": CONTENTS[0]}, meta)
    finally:
        server.stop()
    nothing_is_told(server)
    said = [line for line in server.errors.read_text().splitlines() if "tool=learn" in line]
    assert len(said) == lines
    assert all("outcome=ok" in line and "actor=arm-3" in line for line in said)


def test_what_keeps_it_from_serving_is_an_object_too(server: Server) -> None:
    port = server.url.rsplit(":", 1)[1]
    os.environ["MNEMOLOG_LOG_FORMAT"] = "json"
    try:
        told = run("serve", "--data", str(server.data.parent / "other"), "--port", port)
    finally:
        del os.environ["MNEMOLOG_LOG_FORMAT"]
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["level"] == "error" and "Cannot listen" in found["event"]


def test_over_stdio_they_are_on_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, value in ALL.items():
        os.environ[name] = value
    try:
        client = StdioClient(tmp_path / "data", *WORDS_ONLY)
    finally:
        for name in ALL:
            del os.environ[name]
    client.initialize()
    client.ok("learn", {"insight": CONTENTS[0]}, {"actor": "arm-3"})
    assert client.close() == 0
    said = capfd.readouterr().err
    (line,) = [one for one in said.splitlines() if '"call"' in one]
    assert json.loads(line)["actor"] == "arm-3"
    assert CONTENTS[0] not in said
