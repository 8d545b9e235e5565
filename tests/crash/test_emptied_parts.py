"""A search index that lost what it holds, and says that it has everything, is found by `mnemolog
rebuild --verify`, which names the part, and made whole by `mnemolog rebuild`."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.crash import emptied, stored
from tests.crash.process import ANSWER_WITHIN_S, Stdio, stderr_of

MEMORIES = "default/robot/kitchen"
ENTITIES = "default/graph#entity"
REFLECTIONS = "default/graph#reflection"
SPACES = (MEMORIES, ENTITIES, REFLECTIONS)
MODEL = "bge-small-en-v1.5"

LEARNED = [
    "Squeeze eggs only very gently, their shells break under more than 3 N",
    "Pour water slowly, the glass is full at 200 ml",
    "The drawer on the left needs a stronger pull than the others",
]
NAMED = {
    "Docs site": ["Built with Astro and Starlight", "Published from the main branch"],
    "Gripper": ["Two fingers with rubber tips", "Closes in half a second"],
}


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Memories, entities and reflections, all described by the model; ended in good order. Tests
    work on copies."""
    data = tmp_path_factory.mktemp("emptied") / "store"
    with Stdio(data, model=None) as client:
        began = client.call("start_session", {"collection": "kitchen"})
        session = began.body["session_id"]
        for insight in LEARNED:
            arguments = {"insight": insight, "collection": "kitchen", "session_id": session}
            assert client.call("learn", arguments).body["status"] == "created"
        entities = [
            {"name": name, "entityType": "thing", "observations": observations}
            for name, observations in NAMED.items()
        ]
        assert not client.call("create_entities", {"entities": entities}).refused
        reply = client.call(
            "add_reflection",
            {
                "target_type": "global",
                "author": "sofia",
                "content": "Rubber wears off first; what it held tells how long it lasts.",
            },
        )
        assert not reply.refused, reply
        wait_until_described(client)
        assert client.finish() == 0
    assert parts_that_differ(copy(data, data.with_name("looked-at"))) == []
    return data


def wait_until_described(client: Stdio) -> None:
    deadline = time.monotonic() + 3 * ANSWER_WITHIN_S
    for tool in ("search_semantic", "search_reflections"):
        while "pending" in client.call(tool, {"query": "anything"}).body:
            assert time.monotonic() < deadline, "it is never described"


def copy(data: Path, to: Path) -> Path:
    return Path(shutil.copytree(data, to, ignore=shutil.ignore_patterns("socket")))


def parts_that_differ(data: Path) -> list[str]:
    told = stored.run(data, "rebuild", "--verify", "--json", model=None)
    assert "Traceback" not in told.err, told.err
    assert told.code == (1 if told.json["differences"] else 0)
    assert told.json["verified"]
    found: list[str] = told.json["differences"]
    return found


def spaces_that_differ(data: Path) -> list[str]:
    """Without what is said of files."""
    return [one for one in parts_that_differ(data) if "/(" not in one]


def mend(data: Path) -> None:
    told = stored.run(data, "rebuild", "--json", model=None)
    assert told.code == 0, told.err
    assert parts_that_differ(data) == []


@pytest.mark.parametrize(
    ("empty", "space"),
    [
        (emptied.delete_directory, MEMORIES),
        (emptied.forget_segments, ENTITIES),
        (emptied.delete_documents, REFLECTIONS),
        (emptied.empty_postings, MEMORIES),
        (emptied.empty_postings, ENTITIES),
    ],
)
def test_an_emptied_text_index_is_named_and_mended(
    whole_store: Path, data: Path, empty: emptied.Emptying, space: str
) -> None:
    empty(copy(whole_store, data), space)
    assert spaces_that_differ(data) == [f"text/{space}"]
    mend(data)


def test_a_text_index_that_cannot_be_read_is_named_and_mended(
    whole_store: Path, data: Path
) -> None:
    emptied.lose_postings_file(copy(whole_store, data), MEMORIES)
    directory = emptied.text_of(data, MEMORIES).name
    assert parts_that_differ(data) == [f"text/(unreadable: {directory})", f"text/{MEMORIES}"]
    mend(data)


@pytest.mark.parametrize("space", [MEMORIES, ENTITIES])
def test_deleted_points_are_named_and_mended(whole_store: Path, data: Path, space: str) -> None:
    emptied.delete_points(copy(whole_store, data), space)
    assert spaces_that_differ(data) == [f"vectors/{MODEL}/{space}"]
    mend(data)


@pytest.mark.parametrize(
    "empty",
    [
        emptied.delete_segments,
        emptied.delete_originals,
        emptied.zero_codes,
        emptied.zero_index_of_spaces,
    ],
)
def test_an_emptied_vector_index_is_named_and_mended(
    whole_store: Path, data: Path, empty: emptied.Emptying
) -> None:
    empty(copy(whole_store, data), "")
    assert spaces_that_differ(data) == sorted(f"vectors/{MODEL}/{space}" for space in SPACES)
    mend(data)


def test_a_vector_index_that_cannot_be_opened_is_named_and_mended(
    whole_store: Path, data: Path
) -> None:
    emptied.delete_shard(copy(whole_store, data), "")
    told = stored.run(data, "rebuild", "--verify", model=None)
    assert told.code == 1
    assert "The vector index in" in told.err and "`mnemolog rebuild`" in told.err
    assert "Traceback" not in told.err, told.err
    mend(data)


@pytest.mark.parametrize(
    "pattern", ["text/spaces/*/*.pos", "vectors/*/shard/**/is_null/flags_a.dat"]
)
def test_a_file_that_was_changed_is_named_and_mended(
    whole_store: Path, data: Path, pattern: str
) -> None:
    """Where nothing that a search reads was: it is found as before."""
    path = sorted((copy(whole_store, data) / "projections").glob(pattern))[0]
    with path.open("r+b") as file:
        file.write(bytes([path.read_bytes()[0] ^ 1]))
    (told,) = [one for one in parts_that_differ(data) if "/(" in one]
    assert told.startswith(pattern.split("/")[0]), told
    with Stdio(data, model=None) as client:
        assert client.call("recall", {"query": "eggs", "collection": "kitchen"}).body["memories"]
        assert client.finish() == 0
    assert "not whole and is made anew" in stderr_of(data).read_text()
    assert parts_that_differ(data) == []
