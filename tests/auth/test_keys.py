"""`serve --auth keys` and `mnemolog keys`: adding, using, expiring, revoking, while it serves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from mnemolog.services.api import Unavailable
from mnemolog.services.cli.keys import keys as keys_command
from mnemolog.services.gateway.auth import key_file
from mnemolog.services.gateway.auth.keys import Keys
from tests.auth.conftest import JSON, Known, made, put, said
from tests.e2e.conftest import MNEMOLOG, PATIENCE_S, Server, environment, run

Serve = Callable[..., Server]
KEYS = ("--auth", "keys")
INSIGHT = "cups slip when wet"


def test_keys_are_added_used_and_revoked_while_it_serves(serve: Serve) -> None:
    server = serve(*KEYS)
    assert "nobody is let in" in server.errors.read_text()
    assert "mnemolog keys add NAME" in server.errors.read_text()
    assert Known(server, f"mnk_{'0' * 16}_{'0' * 64}").learns(INSIGHT).status == 401

    key = made(server.data, "robot-7")
    robot = Known(server, key)
    assert robot.learns(INSIGHT).status == 200
    assert robot.recalls("cups") == [INSIGHT]

    assert said(server.data, "revoke", "robot-7").returncode == 0
    refused = robot.learns(INSIGHT)
    assert (refused.status, refused.code) == (401, -32002)
    assert refused.json["error"]["message"] == "This key is revoked"
    assert made(server.data, "robot-7") != key
    assert robot.learns(INSIGHT).status == 401, "a new key of a name does not bring the old back"


def test_who_says_nothing_is_told_how(keyed: Server) -> None:
    put(keyed.data, "unused")
    told = Known(keyed).learns(INSIGHT)
    assert (told.status, told.code) == (401, -32002)
    wanted = 'Bearer realm="mnemolog", scope="memory:read memory:write"'
    assert told.headers["WWW-Authenticate"] == wanted
    wrong = Known(keyed, "mnk_no").learns(INSIGHT)
    assert 'error="invalid_token"' in wrong.headers["WWW-Authenticate"]
    for path in ("/events?follow=false", "/metrics"):
        assert Known(keyed).told(path).status == 401


def test_a_key_is_sent_as_a_bearer_token_and_no_other_way(keyed: Server) -> None:
    key = put(keyed.data, "bearer")
    long = "a" * 20_000
    wrong = (
        "Basic KEY",
        "Bearer",
        "Bearer  ",
        "KEY",
        "Bearer KEY KEY",
        "Bearer KEY,",
        "Bearer KEY\tx",
    )
    for one in (*wrong, f"Bearer {long}"):
        told = Known(keyed, Authorization=one.replace("KEY", key)).learns(INSIGHT)
        assert told.status == 401, one
        assert key not in told.body.decode()
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    for query in (f"access_token={key}", f"key={key}", f"token={key}"):
        assert Known(keyed).told(f"/mcp?{query}", call, **JSON).status == 401


def test_a_key_allows_what_its_scopes_say(keyed: Server) -> None:
    reads, writes, watches = (
        Known(keyed, put(keyed.data, f"may-{scope}", "scopes", scope))
        for scope in ("read", "write", "admin")
    )
    told = reads.learns(INSIGHT)
    assert (told.status, told.code) == (403, -32003)
    asked = told.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope"' in asked and 'scope="memory:read memory:write"' in asked
    assert writes.learns(INSIGHT).status == 200
    assert reads.recalls("cups") == [INSIGHT]
    assert writes.asked("recall", {"query": "cups"}).status == 403
    assert reads.told("/events?follow=false").status == 200
    assert writes.told("/events?follow=false").status == 403
    assert reads.told("/metrics").status == 403
    assert watches.told("/metrics").status == 200
    assert watches.asked("recall", {"query": "cups"}).status == 403


def test_health_tells_the_rest_to_who_may_know_it(keyed: Server) -> None:
    reads, watches = (
        Known(keyed, put(keyed.data, f"health-{scope}", "health", scope))
        for scope in ("read", "admin")
    )
    for client in (Known(keyed), reads, Known(keyed, "wrong")):
        told = client.told("/healthz")
        assert (told.status, told.json) == (200, {"status": "ok"})
    assert "partitions" in watches.told("/healthz").json


def test_tenants_see_nothing_of_each_other(keyed: Server) -> None:
    one = Known(keyed, put(keyed.data, "robot-1", "one"))
    other = Known(keyed, put(keyed.data, "robot-2", "other"))
    assert one.learns(INSIGHT).status == 200
    assert one.recalls("cups") == [INSIGHT]
    assert other.recalls("cups") == []
    assert INSIGHT in one.told("/events?follow=false&last=10").body.decode()
    assert INSIGHT not in other.told("/events?follow=false&last=10").body.decode()
    # What a client says of itself does not make it another.
    named = other.asked("recall", {"query": "cups"}, {"tenant": "one"})
    assert INSIGHT not in named.body.decode()


def test_calls_are_recorded_as_the_keys_and_not_as_somebody_elses(keyed: Server) -> None:
    fleet = Known(keyed, made(keyed.data, "fleet", "--speaks-for", "alice, bob"))
    learn = {"insight": INSIGHT}
    assert fleet.learns(INSIGHT).status == 200
    for actor in ("alice", "fleet/arm-3"):
        assert fleet.asked("learn", learn, {"actor": actor}).status == 200
    told = fleet.asked("learn", learn, {"actor": "mallory"})
    assert (told.status, told.code) == (403, -32003)
    sdk = Known(keyed, fleet.headers["Authorization"].split()[1], **NEWEST)
    assert sdk.asked("learn", learn, {"actor": "mallory", **CLIENT}).code == -32003
    shown = run("audit", "log", "--json", "--last", "1000", "--data", str(keyed.data))
    calls = [one for one in json.loads(shown.stdout) if one["tool"] == "learn"]
    named = {one["who"].split(" via ")[0] for one in calls}
    assert {"alice", "fleet", "fleet/arm-3"} <= named
    refused = [one for one in calls if "mallory" in json.dumps(one)]
    assert len(refused) == 2
    assert {one["who"].split(" via ")[0] for one in refused} == {"fleet"}


NEWEST = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "learn"}
CLIENT = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_an_expired_key_is_none(keyed: Server) -> None:
    key = made(keyed.data, "robot-7", "--expires", "1h")
    robot = Known(keyed, key)
    assert robot.learns(INSIGHT).status == 200
    over = datetime.now(UTC) - timedelta(seconds=1)

    def expired(keys: list[key_file.Key]) -> list[key_file.Key]:
        *others, kept = keys
        assert kept.name == "robot-7"
        return [*others, msgspec.structs.replace(kept, expires=over)]

    key_file.change(keyed.data / "keys.json", expired)
    told = robot.learns(INSIGHT)
    assert (told.status, told.json["error"]["message"]) == (401, "This key is expired")
    rows = json.loads(said(keyed.data, "list", "--json").stdout)["keys"]
    assert {one["name"]: one["state"] for one in rows}["robot-7"] == "expired"
    assert made(keyed.data, "robot-7") != key, "the name is free again"


def test_a_file_that_cannot_be_believed_lets_nobody_in(serve: Serve) -> None:
    server = serve(*KEYS)
    key = made(server.data, "robot-7")
    robot, path = Known(server, key), server.data / "keys.json"
    good = path.read_bytes()
    hash_ = json.loads(good)["keys"][0]["sha256"]
    for harm in HARMS.values():
        assert robot.learns(INSIGHT).status == 200
        harm(path, good)
        told = robot.learns(INSIGHT)
        assert told.status == 503
        assert told.headers["Retry-After"]
        assert str(path) not in told.body.decode()
        assert Known(server).learns(INSIGHT).status == 401
        with pytest.raises(Unavailable, match=re.escape(str(path))) as refused:
            Keys(path)
        assert hash_ not in str(refused.value)
        mend(path, good)
    assert robot.learns(INSIGHT).status == 200
    path.rename(path.with_name("kept"))
    assert robot.learns(INSIGHT).status == 401, "no file, no keys"
    assert hash_ not in server.errors.read_text()


def mend(path: Path, good: bytes) -> None:
    if path.is_dir():
        path.rmdir()
    path.write_bytes(good)
    path.chmod(0o600)


def test_with_such_a_file_nothing_begins_and_nothing_is_changed(tmp_path: Path) -> None:
    key, path = made(tmp_path, "robot-7"), tmp_path / "keys.json"
    cut = path.read_bytes()[:-40]
    path.write_bytes(cut)
    begin = ("serve", "--data", str(tmp_path), "--port", "0", "--model", "none", *KEYS)
    done = [said(tmp_path, "list"), said(tmp_path, "add", "x"), said(tmp_path, "revoke", "robot-7")]
    for one in (*done, run(*begin)):
        assert one.returncode == 1
        assert f"{path} is damaged" in one.stderr
        assert "Traceback" not in one.stderr
        assert not re.search("[0-9a-f]{16}", one.stderr) and key not in one.stderr
    assert path.read_bytes() == cut


def _directory(path: Path, _: bytes) -> None:
    path.unlink()
    path.mkdir()


def _twice(path: Path, good: bytes) -> None:
    found = json.loads(good)
    path.write_text(json.dumps(found | {"keys": found["keys"] * 2}))


HARMS: dict[str, Callable[[Path, bytes], object]] = {
    "damaged": lambda path, good: path.write_bytes(good.replace(b"memory:read", b"memory:all")),
    "cut": lambda path, good: path.write_bytes(good[:-40]),
    "twice": _twice,
    "open": lambda path, _: path.chmod(0o622),
    "directory": _directory,
    "newer": lambda path, good: path.write_bytes(good.replace(b'"name"', b'"only":1,"name"')),
}


def test_two_who_add_at_once_both_have_their_key(tmp_path: Path) -> None:
    names = [f"robot-{number}" for number in range(8)]
    with ThreadPoolExecutor(4) as several:
        keys = list(several.map(lambda name: made(tmp_path / "data", name), names))
    _, kept = key_file.read(tmp_path / "data" / "keys.json")
    assert sorted(one.name for one in kept) == names
    assert {one.sha256 for one in kept} == {key_file.hashed(key) for key in keys}
    assert (tmp_path / "data" / "keys.json").stat().st_mode & 0o777 == 0o600
    assert {one.name for one in (tmp_path / "data").iterdir()} == {"keys.json", "keys.json.lock"}


ADD_MANY = """
import sys
import msgspec
from pathlib import Path
from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.auth import key_file
from mnemolog.services.gateway.auth.keys import Keys
path = Path(sys.argv[1])
_, (one, *_) = key_file.read(path)
for number in range(50):
    id_ = f"{int(sys.argv[2]):08x}{number:08x}"
    made = msgspec.structs.replace(one, name=f"{sys.argv[2]}/{number}", id=id_)
    key_file.change(path, lambda keys: [*keys, made])
"""


def test_no_writer_loses_what_another_wrote(tmp_path: Path) -> None:
    made(tmp_path, "first")
    path = tmp_path / "keys.json"
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_MANY, str(path), str(number)])
        for number in range(2)
    ]
    assert [one.wait(PATIENCE_S) for one in writers] == [0, 0]
    assert len(key_file.read(path)[1]) == 101


def test_what_is_listed_says_everything_but_the_keys(tmp_path: Path) -> None:
    key = made(tmp_path, "robot-7", "--tenant", "lab", "--scopes", "memory:read", "--expires", "9d")
    made(tmp_path, "fleet", "--speaks-for", "alice,bob")
    said(tmp_path, "revoke", "fleet")
    shown = said(tmp_path, "list", "--json").stdout
    fleet, robot = json.loads(shown)["keys"]
    assert robot["tenant"] == "lab" and robot["scopes"] == ["memory:read"]
    assert robot["state"] == "active" and robot["revoked"] is None
    created, expires = (datetime.fromisoformat(robot[at]) for at in ("created", "expires"))
    assert expires - created == timedelta(days=9)
    assert fleet["speaks_for"] == ["alice", "bob"] and fleet["state"] == "revoked"
    table = said(tmp_path, "list").stdout
    assert "robot-7" in table and "revoked" in table
    for text in (shown, table):
        assert not re.search(r"[0-9a-f]{64}", text)
        assert key.split("_")[1] not in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["add", ""], "A name has letters"),
        (["add", "a b"], "A name has letters"),
        (["add", "a\nb"], "A name has letters"),
        (["add", "../x"], "A name has letters"),
        (["add", "x" * 129], "A name has letters"),
        (["add", "x", "--tenant", "a/b"], "tenant"),
        (["add", "x", "--scopes", "memory:everything"], "--scopes takes some of"),
        (["add", "x", "--scopes", ""], "--scopes takes some of"),
        (["add", "x", "--speaks-for", "a\x1bb"], "--speaks-for takes"),
        (["add", "x", "--expires", "soon"], "--expires takes"),
        (["add", "x", "--expires", "0d"], "--expires takes"),
        (["add", "x", "--expires", "999999d"], "--expires takes"),
        (["add", "x", "--expires", "2001-01-01"], "--expires takes"),
        (["revoke", "x"], "There is no key of 'x'"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, words: list[str], sentence: str) -> None:
    given = {"families": (), "data": str(tmp_path)}
    done = CliRunner().invoke(keys_command, words, obj=given)
    assert done.exit_code == 1
    assert sentence in (done.stderr or str(done.exception))
    assert not (tmp_path / "keys.json").exists()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("90d", "2027-01-30T12:00:00+00:00"),
        ("12h", "2026-11-02T00:00:00+00:00"),
        ("2027-01-01", "2027-01-01T00:00:00+00:00"),
        ("2027-01-01T01:00:00+02:00", "2026-12-31T23:00:00+00:00"),
    ],
)
def test_when_a_key_expires(written: str, expected: str) -> None:
    now = datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert key_file.expiry(written, now).isoformat() == expected


def test_one_name_has_one_key(tmp_path: Path) -> None:
    made(tmp_path, "robot-7")
    done = said(tmp_path, "add", "robot-7")
    assert done.returncode == 1
    assert "robot-7 has a key" in done.stderr


def test_the_command_line_sends_the_key_it_is_given(keyed: Server) -> None:
    key = put(keyed.data, "caller")
    call = (str(MNEMOLOG), "call", "learn", json.dumps({"insight": INSIGHT}), "--url", keyed.url)

    def called(*more: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*call, *more],
            env=environment() | env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    without = called()
    assert without.returncode == 1
    assert "Authorization: Bearer" in json.loads(without.stdout)["error"]
    assert called(MNEMOLOG_KEY=key).returncode == 0
    assert called("--actor", "mallory", MNEMOLOG_KEY=key).returncode == 1
    assert called("--actor", "caller/arm", MNEMOLOG_KEY=key).returncode == 0


def test_another_file_can_be_named(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.json"
    os.environ["MNEMOLOG_KEYS_FILE"] = str(path)
    try:
        server = serve(*KEYS)
        key = made(server.data, "robot-7")
    finally:
        del os.environ["MNEMOLOG_KEYS_FILE"]
    assert path.exists() and not (server.data / "keys.json").exists()
    assert Known(server, key).learns(INSIGHT).status == 200
