"""A family is its own files: notes work in every way in which the families of the service do."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest

from mnemolog.events.codec import encode_fact
from mnemolog.infra.kafka.broker import Broker
from mnemolog.services.catalogue import load
from mnemolog.services.families import FAMILIES
from tests.e2e import conftest
from tests.e2e.conftest import Server, checked, reached, run
from tests.notes import LISTED
from tests.notes.family import NoteRules
from tests.notes.language import NotesRead, NoteTaken
from tests.spec.given import Scenario, ask, happened

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
WITH_NOTES = load((*FAMILIES, LISTED))
SPACE = "default/notes"


@pytest.fixture(autouse=True)
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mnemolog` is the command line that has notes."""
    script = tmp_path / "mnemolog"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.notes "$@"\n')
    script.chmod(0o700)
    monkeypatch.setattr(conftest, "MNEMOLOG", script)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def notes() -> Scenario:
    return Scenario(catalogue=WITH_NOTES)


# --- specs ---------------------------------------------------------------------------------------


def taken(number: int, text: str) -> Any:
    return happened(NoteTaken(note_id=number, text=text), space=SPACE)


def test_a_note_is_taken(notes: Scenario) -> None:
    notes.given(taken(1, "tea at 5")).when(ask("take_note", text="milk")).then(
        NoteTaken(note_id=2, text="milk")
    ).then_reply({"note_id": 2})


def test_how_many_there_may_be_is_a_rule() -> None:
    notes = Scenario(NoteRules(most=1), catalogue=WITH_NOTES).given(taken(1, "tea at 5"))
    notes.when(ask("take_note", text="milk")).then_refused("There are 1 notes, which is the limit")


def test_a_rebuild_equals_what_is_live(notes: Scenario) -> None:
    notes.given(taken(1, "tea at 5"), happened(NotesRead(note_ids=[1]), space=SPACE))
    assert notes.rebuilt().digest() == notes.state.digest()


def test_without_the_family_its_facts_are_of_a_newer_version() -> None:
    notes = Scenario(catalogue=WITH_NOTES).given(taken(1, "tea at 5"))
    with pytest.raises(Exception, match=r"the fact 'notes\.note_taken' is not known"):
        Scenario()._take(notes.log[0])


@pytest.mark.parametrize(
    ("fact", "golden"),
    [
        (
            NoteTaken(note_id=7, text="tea at 5"),
            "83a474797065b06e6f7465732e6e6f74655f74616b656ea76e6f74655f696407"
            "a474657874a87465612061742035",
        ),
        (
            NotesRead(note_ids=[1, 300]),
            "82a474797065b06e6f7465732e6e6f7465735f72656164a86e6f74655f6964739201cd012c",
        ),
    ],
    ids=["note_taken", "notes_read"],
)
def test_its_facts_are_written_and_read_as_ever(fact: Any, golden: str) -> None:
    data = bytes.fromhex(golden)
    assert bytes(encode_fact(fact)) == data
    assert WITH_NOTES.projected.facts.decode_one(data) == fact


# --- as a service --------------------------------------------------------------------------------


@pytest.fixture
def broker_of(request: pytest.FixtureRequest) -> Callable[[], Broker]:
    return lambda: request.getfixturevalue("broker")


@pytest.mark.parametrize("transport", conftest.TRANSPORTS)
def test_a_client_has_its_tools_and_resources(
    transport: str, tmp_path: Path, broker_of: Callable[[], Broker]
) -> None:
    async def test(way: Any) -> None:
        async with mcp.Client(way) as client:
            call = checked(client)
            assert "take_note keeps a text" in (client.instructions or "")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"take_note", "find_notes", "learn", "read_graph"} <= tools.keys()
            hints = tools["find_notes"].annotations
            assert hints is not None and hints.read_only_hint
            assert await call("take_note", text="tea at 5") == {"note_id": 1}
            assert await call("take_note", text="milk and tea bags") == {"note_id": 2}
            found = await call("find_notes", words="milk")
            assert found == {"notes": [{"id": 2, "text": "milk and tea bags"}]}
            told = await call("find_notes", refused=True, words="  ")
            assert told == {"error": "words must not be blank; leave them out for all notes"}
            told = await call("take_note", refused=True)
            assert told["error"].startswith("text is required: text of 1 to 500 characters")
            uris = {str(one.uri) for one in (await client.list_resources()).resources}
            assert {"notes://all", "mnemolog://events/notes"} <= uris
            (read,) = (await client.read_resource("notes://all")).contents
            assert len(json.loads(read.text)["notes"]) == 2  # type: ignore[union-attr]
            (read,) = (await client.read_resource("mnemolog://events/notes")).contents
            events = json.loads(read.text)["events"]  # type: ignore[union-attr]
            assert [one["facts"][0]["text"] for one in events] == ["tea at 5", "milk and tea bags"]

    data = tmp_path / "data"
    with reached(transport, data, broker_of, "--model", "none") as way:
        asyncio.run(test(way))
    told_afterwards(data)


def told_afterwards(data: Path) -> None:
    """The audit tells of it, and a rebuild from the log gives the same."""
    life = json.loads(out("audit", "show", "note:2", "--json", data=data))["life"]
    assert [one["changes"] for one in life] == [["taken: milk and tea bags"]]
    log = json.loads(out("audit", "log", "--json", data=data))
    assert {one["tool"] for one in log} == {"take_note", "find_notes"}
    refused = [one["error"] for one in log if one["refused"]]
    assert sorted(refused)[1] == "words must not be blank; leave them out for all notes"
    assert len(refused) == 2
    report = json.loads(out("rebuild", "--verify", "--json", data=data))
    assert report["differences"] == []
    out("rebuild", data=data)
    assert (
        json.loads(out("rebuild", "--verify", "--json", data=data))["state_hash"]
        == (report["state_hash"])
    )
    found = json.loads(out("call", "find_notes", "{}", "--json", data=data))
    assert [one["id"] for one in found["notes"]] == [1, 2]


def out(*args: str, data: Path) -> str:
    shown = run(*args, "--data", str(data))
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_followers_are_told_of_its_changes(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--model", "none")
    try:
        server.client().ok("take_note", {"text": "tea at 5"})
        address = f"{server.url}/events?space=notes&after=start&follow=false"
        with urllib.request.urlopen(address, timeout=conftest.PATIENCE_S) as stream:
            lines = stream.read().decode().splitlines()
    finally:
        server.stop()
    told = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    facts = [fact for one in told for fact in one.get("facts", [])]
    assert facts == [{"fact": "notes.note_taken", "note_id": 1, "text": "tea at 5"}]


def test_it_can_be_offered_alone(tmp_path: Path) -> None:
    client = conftest.StdioClient(tmp_path / "data", "--toolsets", "notes", "--model", "none")
    try:
        client.initialize()
        tools = client.ask("tools/list")["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["take_note", "find_notes"]
        assert client.refused("learn", {"insight": "grip at 15N"}) == "Unknown tool 'learn'"
    finally:
        client.close()


def test_a_store_from_before_the_family_came_goes_on(tmp_path: Path) -> None:
    """Its tables come by themselves, from the log; what was there is there."""
    data = tmp_path / "data"
    os.environ.pop("MNEMOLOG_DATA", None)
    before = Path(sys.executable).with_name("mnemolog")
    with_notes, conftest.MNEMOLOG = conftest.MNEMOLOG, before
    try:
        out("call", "learn", '{"insight": "grip at 15N"}', data=data)
    finally:
        conftest.MNEMOLOG = with_notes
    assert json.loads(out("call", "take_note", '{"text": "tea"}', "--json", data=data)) == {
        "note_id": 1
    }
    found = json.loads(out("call", "recall", '{"query": "grip"}', "--json", data=data))
    assert [one["content"] for one in found["memories"]] == ["grip at 15N"]


# --- nothing else knows of it --------------------------------------------------------------------


def sources() -> Iterator[Path]:
    for folder in ("events", "projections", "services", "infra"):
        yield from (ROOT / folder).rglob("*.py")


def test_no_other_file_names_it() -> None:
    naming = [path for path in sources() if "take_note" in path.read_text()]
    assert naming == []


GENERAL = ("services/node", "services/gateway", "services/decider", "services/reader", "infra/log")
"""Where no family is named: what is there serves all of them."""
GENERAL_FILES = (
    "projections/state/store.py",
    "projections/state/view.py",
    "projections/state/schema.py",
    "projections/projection.py",
    "services/catalogue.py",
    "services/family.py",
    "services/audit.py",
    "services/news.py",
)


def test_no_family_is_named_where_all_are_served() -> None:
    """Neither imported nor spelled out in a text; docstrings may give examples."""
    names = {one.name for one in FAMILIES}
    paths = [path for folder in GENERAL for path in (ROOT / folder).rglob("*.py")]
    paths += [ROOT / name for name in GENERAL_FILES]
    assert len(paths) > 40
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in paths
        for line, text in named_in(path)
        if any(name in words(text) for name in names)
    ]
    assert wrong == []


def words(text: str) -> set[str]:
    return set(re.split(r"[^a-z_]+", text.lower()))


def named_in(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that is imported and every text, docstrings aside."""
    tree = ast.parse(path.read_text())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, f"{node.module} {' '.join(one.name for one in node.names)}"
        elif isinstance(node, ast.Constant) and id(node) not in documents:
            yield node.lineno, str(node.value)
