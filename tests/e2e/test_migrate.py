"""migrate, `mnemolog import` and `mnemolog export` through real processes and the real client."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import StdioServerParameters

from tests.e2e.conftest import (
    MNEMOLOG,
    PATIENCE_S,
    TRANSPORTS,
    Message,
    Server,
    StdioClient,
    environment,
    reached,
    run,
)
from tests.e2e.test_memory_server import WORDS_ONLY

COUNTS = ("entities_imported", "relations_imported", "errors", "skipped")


def memory_file(path: Path, *, relations_first: bool = False) -> Path:
    """The file of the documented example: 32 entities, 37 relations, 2 lines that are neither."""
    entities = [
        {
            "type": "entity",
            "name": f"Entidad {n}",
            "entityType": "Proyecto",
            "observations": [f"observación {n}.{i}" for i in range(n % 4)],
        }
        for n in range(32)
    ]
    relations = [
        {
            "type": "relation",
            "from": f"Entidad {n % 32}",
            "to": f"Entidad {n * 5 % 32}",
            "relationType": "usa" if n < 32 else "contiene",
        }
        for n in range(37)
    ]
    rows = relations + entities if relations_first else entities + relations
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    lines[10:10] = ['{"type": "entity", "name": ', ""]
    lines.append('{"type": "note", "name": "?"}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def counts(reply: Message) -> list[int]:
    return [reply[name] for name in COUNTS]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    yield server
    server.stop()


# --- the tool ------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_documented_example(
    transport: str, mode: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    below = tmp_path if transport == "stdio" else tmp_path / "data" / "import"
    path = memory_file(below / "memory.jsonl")

    async def test(where: str | StdioServerParameters) -> None:
        told: list[tuple[float, float | None]] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total))

        async with mcp.Client(where, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            given = {"source_path": str(path)}
            first = await client.call_tool("migrate", given, progress_callback=hear)
            assert not first.is_error, first
            reply: Message = first.structured_content
            assert counts(reply) == [32, 37, 0, 2]
            assert [one["line"] for one in reply["problems"]] == [11, 72]
            assert reply["reasons"] == {"not_json": 1, "unknown_type": 1}
            assert reply["new"]["relations"] == 37
            again = await client.call_tool("migrate", given)
            assert counts(again.structured_content) == [32, 37, 0, 2]
            assert set(again.structured_content["new"].values()) == {0}
            nodes = await client.call_tool("open_nodes", {"names": ["Entidad 3"]})
            (entity,) = nodes.structured_content["entities"]
            assert entity["observations"] == [f"observación 3.{i}" for i in range(3)]
        size = path.stat().st_size
        assert told[-1] == (size, size)

    with reached(
        transport, tmp_path / "data", lambda: request.getfixturevalue("broker"), *WORDS_ONLY
    ) as where:
        asyncio.run(test(where))


def test_over_http_only_the_import_directory(own_server: Server, tmp_path: Path) -> None:
    client, root = own_server.client(), tmp_path / "data" / "import"
    outside = memory_file(tmp_path / "outside.jsonl")
    root.mkdir()
    (root / "link.jsonl").symlink_to(outside)
    for path in (outside, "../outside.jsonl", "link.jsonl", "~/.bashrc", "/etc/passwd"):
        refused = client.refused("migrate", {"source_path": str(path)})
        assert f"Over HTTP only files in {root} can be imported" in refused
    assert client.ok("read_graph", {})["entities"] == []
    assert "There is no file 'm.jsonl'" in client.refused("migrate", {"source_path": "m.jsonl"})
    memory_file(root / "m.jsonl")
    assert counts(client.ok("migrate", {"source_path": "m.jsonl"})) == [32, 37, 0, 2]
    # A client that takes no stream gets one answer, whatever it asks to be told.
    again = client.ok("migrate", {"source_path": "m.jsonl"}, {"progressToken": 1})
    assert counts(again) == [32, 37, 0, 2]
    log = run("audit", "log", "--refused", "--json", "--data", str(tmp_path / "data")).stdout
    assert log.count("Over HTTP only files") == 5


def test_the_import_directory_can_be_set(tmp_path: Path) -> None:
    memory_file(tmp_path / "elsewhere" / "m.jsonl")
    server = Server(tmp_path / "data", *WORDS_ONLY, "--import-dir", str(tmp_path / "elsewhere"))
    try:
        client = server.client()
        assert counts(client.ok("migrate", {"source_path": "m.jsonl"})) == [32, 37, 0, 2]
        inside = memory_file(tmp_path / "data" / "import" / "m.jsonl")
        refused = client.refused("migrate", {"source_path": str(inside)})
        assert f"Over HTTP only files in {tmp_path / 'elsewhere'} can" in refused
    finally:
        server.stop()


def test_what_is_wrong_with_the_arguments_is_told(own_server: Server) -> None:
    client = own_server.client()
    assert "source_path" in client.refused("migrate", {})
    assert "source_path" in client.refused("migrate", {"source_path": ""})
    assert "path" in client.refused("migrate", {"source_path": "a", "path": "b"})


@pytest.mark.parametrize(
    "tool", ["mnemolog.import_graph", "mnemolog.begin_import", "mnemolog.export_graph"]
)
def test_clients_cannot_name_the_calls_of_an_import(own_server: Server, tool: str) -> None:
    given = {"what": "entities"} if tool.endswith("export_graph") else {"sha256": "0" * 64}
    assert "Unknown tool" in own_server.client().refused(tool, given)


def test_the_same_key_imports_once(own_server: Server, tmp_path: Path) -> None:
    client = own_server.client()
    memory_file(tmp_path / "data" / "import" / "m.jsonl")
    given, meta = {"source_path": "m.jsonl"}, {"idempotency_key": "once"}
    first = client.ok("migrate", given, meta)
    client.ok("delete_entities", {"entityNames": ["Entidad 3"]})
    assert client.ok("migrate", given, meta) == first
    assert client.ok("open_nodes", {"names": ["Entidad 3"]})["entities"] == []
    client.ok("migrate", given)
    assert len(client.ok("open_nodes", {"names": ["Entidad 3"]})["entities"]) == 1


def test_a_second_process_imports_from_where_it_is(
    new_stdio: Callable[..., StdioClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path is its own, though another process holds the store and reads the file."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    memory_file(tmp_path / "second" / "m.jsonl")
    memory_file(tmp_path / "second" / "home.jsonl")
    monkeypatch.chdir(tmp_path / "first")
    holder = new_stdio(*WORDS_ONLY)
    holder.initialize()
    holder.ok("read_graph", {})
    monkeypatch.chdir(tmp_path / "second")
    monkeypatch.setenv("HOME", str(tmp_path / "second"))
    guest = new_stdio(*WORDS_ONLY)
    guest.initialize()
    assert counts(guest.ok("migrate", {"source_path": "m.jsonl"})) == [32, 37, 0, 2]
    assert counts(guest.ok("migrate", {"source_path": "~/home.jsonl"})) == [32, 37, 0, 2]
    assert "There is no file" in holder.refused("migrate", {"source_path": "m.jsonl"})


# --- the command line ----------------------------------------------------------------------------


def none(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """A command, without a model."""
    return subprocess.run(
        [str(MNEMOLOG), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**environment(), "MNEMOLOG_MODEL": "none"},
        check=False,
    )


def test_import_and_export_there_and_back(tmp_path: Path) -> None:
    path = memory_file(tmp_path / "memory.jsonl", relations_first=True)
    first, second = tmp_path / "first", tmp_path / "second"
    told = none("import", path, "--data", first)
    assert told.returncode == 0, told.stderr
    words = told.stdout.split()
    assert words[words.index("entities") :][:3] == ["entities", "32", "32"]
    assert "not_json" in words and "unknown_type" in words
    exported = none("export", "--data", first).stdout
    assert exported.count('"type":"entity"') == 32
    assert exported.count('"type":"relation"') == 37
    assert "Entidad 31" in exported and "observación" in exported

    out = tmp_path / "exported.jsonl"
    out.write_text("what was there before")
    out.chmod(0o640)
    told = none("export", "--format", "anthropic", "-o", out, "--data", first)
    assert (told.returncode, told.stdout) == (0, "")
    assert told.stderr == f"32 entities and 37 relations are in {out}\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert out.read_text() == exported
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == [
        "exported.jsonl",
        "memory.jsonl",
    ]

    told = none("import", "--format", "anthropic", out, "--json", "--data", second)
    assert counts(json.loads(told.stdout)) == [32, 37, 0, 0]
    assert none("export", "--data", second).stdout == exported
    for data in (first, second):
        assert none("rebuild", "--verify", "--data", data).returncode == 0


def test_both_work_beside_a_running_server(own_server: Server, tmp_path: Path) -> None:
    path = memory_file(tmp_path / "anywhere.jsonl")
    told = none("import", path, "--json", "--data", tmp_path / "data")
    assert counts(json.loads(told.stdout)) == [32, 37, 0, 2]
    assert len(own_server.client().ok("read_graph", {})["entities"]) == 32
    exported = none("export", "--data", tmp_path / "data").stdout
    assert len(exported.splitlines()) == 69


def test_what_went_wrong_is_one_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    told = none("import", tmp_path / "missing.jsonl", "--data", data)
    assert told.returncode == 1
    assert told.stderr.splitlines()[-1].startswith("Error: There is no file")
    told = none("import", tmp_path, "--json", "--data", data)
    assert told.returncode == 1
    assert "is a directory" in json.loads(told.stdout)["error"]
    assert none("import", "--data", data).returncode == 2
    assert none("import", "x", "--format", "other", "--data", data).returncode == 2
    told = none("export", "--data", tmp_path / "nothing")
    assert told.returncode == 1 and "There is no log" in told.stderr
    assert not (tmp_path / "nothing").exists()
    told = none("export", "-o", tmp_path / "no" / "such" / "folder", "--data", data)
    assert told.returncode == 1
    assert told.stderr.startswith(f"Error: {tmp_path / 'no' / 'such' / 'folder'} cannot be written")


def test_an_empty_graph_is_an_empty_file(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "memory.jsonl"
    none("call", "read_graph", "{}", "--data", data)
    told = none("export", "-o", file, "--data", data)
    assert (told.returncode, file.read_text()) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = none("import", file, "--json", "--data", data)
    assert told.returncode == 0
    assert counts(json.loads(told.stdout)) == [0, 0, 0, 0]


def test_a_file_of_something_else_is_a_failure(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "memory.json"
    file.write_text('{"entities": [], "relations": []}')
    told = none("import", file, "--data", data)
    assert told.returncode == 1
    assert "No line of memory.json is an entity or a relation" in told.stderr
    assert none("import", file, "--json", "--data", data).returncode == 1


def test_an_export_says_what_it_leaves_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    client = StdioClient(data, "--model", "none")
    try:
        client.initialize()
        client.ok("create_entities", {"entities": [{"name": "A"}]})
        loops = {"from": "A", "to": "A", "relationType": "is"}
        made = client.ok("create_relations", {"relations": [loops]})["relations"]
        client.ok("end_relation", {"relation_id": made[0]["id"]})
        for words in ("so it goes", "and so on"):
            client.ok("add_reflection", {"target_type": "global", "content": words})
    finally:
        client.close()
    told = none("export", "--data", data)
    assert told.returncode == 0
    assert len(told.stdout.splitlines()) == 1
    assert told.stderr.endswith("no place for it: 1 ended relations and 2 reflections\n")


@pytest.mark.parametrize("command", ["import", "export"])
def test_help_has_examples(command: str) -> None:
    told = none(command, "--help")
    assert told.returncode == 0
    assert f"mnemolog {command}" in told.stdout.split("Examples:")[1]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """`-o` writes to where a link leads; people link their memory files into place."""
    data = tmp_path / "data"
    none("import", memory_file(tmp_path / "m.jsonl"), "--data", data)
    (tmp_path / "link").symlink_to("real")
    none("export", "-o", tmp_path / "link", "--data", data)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_size > 1000
