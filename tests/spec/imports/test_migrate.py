"""migrate: a whole file, read at the edge and decided in chunks."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.events.arguments import NO_CONTROLS
from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Answered, Call
from mnemolog.events.graph import MAX_OBSERVATIONS, GraphImported
from mnemolog.services.api import Files, Unavailable
from mnemolog.services.families.graph.answering import exports
from mnemolog.services.families.graph.importing import importing as imports
from mnemolog.services.families.graph.importing.anthropic import read_line
from mnemolog.services.families.graph.importing.importing import CHUNK_BYTES, CHUNK_ITEMS
from tests.spec.given_graph import delete, end, unsay
from tests.spec.given_import import Store, counts, problems


def entity(name: str, *said: Any, kind: str = "Thing") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(said)}


def relation(source: str, kind: str, target: str) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": kind}


def written(path: Path, *lines: dict[str, Any] | str | bytes) -> Path:
    """A file with these lines; texts and bytes as they are."""
    with path.open("wb") as file:
        for line in lines:
            data = line if isinstance(line, (str, bytes)) else json.dumps(line)
            file.write((data.encode() if isinstance(data, str) else data) + b"\n")
    return path


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.jsonl"


# --- what is imported ----------------------------------------------------------------------------


def test_entities_and_relations(store: Store, file: Path) -> None:
    lines = [entity("A", "x", "y"), entity("B"), relation("A", "uses", "B")]
    reply = store.migrate(written(file, *lines))
    assert counts(reply) == (2, 1, 0, 0)
    assert reply["new"] == {"entities": 2, "observations": 2, "relations": 1}
    assert reply["file"]["name"] == "memory.jsonl"
    assert "problems" not in reply and "reasons" not in reply
    assert [json.loads(line) for line in store.export().splitlines()] == lines


def test_relations_may_come_before_their_entities(store: Store, file: Path) -> None:
    lines = [relation("A", "uses", "B"), entity("A"), relation("B", "is", "B"), entity("B")]
    assert counts(store.migrate(written(file, *lines))) == (2, 2, 0, 0)


def test_relations_may_name_what_was_in_the_graph_before(
    store: Store, file: Path, tmp_path: Path
) -> None:
    store.migrate(written(tmp_path / "before.jsonl", entity("A")))
    assert counts(store.migrate(written(file, entity("B"), relation("A", "uses", "B"))))[1] == 1


def test_a_relation_without_its_entity_is_skipped(store: Store, file: Path) -> None:
    lines = [entity("A"), relation("A", "uses", "X"), relation("Y", "uses", "A")]
    reply = store.migrate(written(file, *lines))
    assert counts(reply) == (1, 0, 0, 2)
    assert problems(reply) == [(2, "entity_not_found"), (3, "entity_not_found")]
    assert [one["detail"] for one in reply["problems"]] == [
        "Entity not found: X",
        "Entity not found: Y",
    ]


def test_every_line_that_is_not_blank_is_counted_once(store: Store, file: Path) -> None:
    reply = store.migrate(
        written(
            file,
            b'\xef\xbb\xbf{"type":"entity","name":"A","observations":["1","1"]}\r',
            "",
            "broken",
            entity("A", "2", kind="Other"),
            relation("A", "knows", "A"),
            relation("A", "knows", "A"),
            {"type": "user", "name": "A"},
            entity("B", "ok", 3, "x" * 2001),
            relation("A", "knows", "Nobody"),
        )
    )
    assert counts(reply) == (3, 2, 2, 3)
    assert problems(reply) == [
        (3, "not_json"),
        (7, "unknown_type"),
        (8, "observation_not_text"),
        (8, "observation_too_long"),
        (9, "entity_not_found"),
    ]
    assert store.export().splitlines() == [
        b'{"type":"entity","name":"A","entityType":"Other","observations":["1","2"]}',
        b'{"type":"entity","name":"B","entityType":"Thing","observations":["ok"]}',
        b'{"type":"relation","from":"A","to":"A","relationType":"knows"}',
    ]


def test_an_entity_with_very_many_observations_is_one_entity(store: Store, file: Path) -> None:
    said = [f"{n} " + "é" * 500 for n in range(12 * MAX_OBSERVATIONS + 5)]
    assert counts(store.migrate(written(file, entity("A", *said)))) == (1, 0, 0, 0)
    assert len(store.chunks()) > 3, "more than a chunk may hold"
    assert store.graph.said("A") == said


def test_only_the_first_problems_are_listed_and_all_are_counted(store: Store, file: Path) -> None:
    lines: list[Any] = []
    for n in range(150):
        lines += [relation(f"X{n}", "uses", "Y"), f"broken {n}"]
    reply = store.migrate(written(file, *lines))
    assert counts(reply) == (0, 0, 0, 300)
    assert reply["reasons"] == {"entity_not_found": 150, "not_json": 150}
    assert [one["line"] for one in reply["problems"]] == list(range(1, 101))


def test_long_texts_do_not_make_the_reply_long(store: Store, file: Path) -> None:
    lines = [relation("n" * 500, "uses", f"{n}") for n in range(200)]
    lines += [entity("x" * 5000) for _ in range(200)]
    reply = store.migrate(written(file, *lines))
    assert counts(reply) == (0, 0, 0, 400)
    assert len(msgspec.json.encode(reply)) < 50_000


def test_a_line_over_the_limit_is_skipped(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemolog.services.families.graph.importing.lines.MAX_LINE_BYTES", 10_000)
    reply = store.migrate(written(file, entity("A"), entity("B", "x" * 20_000), entity("C")))
    assert counts(reply) == (2, 0, 0, 1)
    assert problems(reply) == [(2, "line_too_long")]


def test_the_log_tells_what_was_imported(store: Store, file: Path) -> None:
    reply = store.migrate(written(file, entity("A", 5), "broken", relation("A", "is", "A")))
    store.graph.then(
        GraphImported(
            sha256=reply["file"]["sha256"],
            source="memory.jsonl",
            entities=1,
            relations=1,
            errors=1,
            skipped=1,
        )
    )
    assert str(file.parent) not in str(store.graph.decision)


# --- again, and after a break --------------------------------------------------------------------


def test_a_second_time_nothing_is_new(store: Store, file: Path) -> None:
    written(file, entity("A", "x"), entity("B"), relation("A", "uses", "B"), "broken")
    first = store.migrate(file)
    before = store.graph.state.digest()
    second = store.migrate(file)
    assert counts(second) == counts(first) == (2, 1, 0, 1)
    assert second["new"] == {"entities": 0, "observations": 0, "relations": 0}
    after = store.graph.state.digest()
    assert {name for name in after if after[name] != before[name]} == {"outcome"}


def test_a_second_time_what_was_deleted_comes_back(store: Store, file: Path) -> None:
    written(file, entity("A", "x", "y"), entity("B"), relation("A", "uses", "B"))
    store.migrate(file)
    before = store.export()
    store.graph.after(unsay("A", "y"), delete("B"))
    assert store.migrate(file)["new"] == {"entities": 1, "observations": 1, "relations": 1}
    assert store.export() == before


def test_the_same_key_again_imports_nothing(store: Store, file: Path) -> None:
    written(file, entity("A", "x"))
    first = store.migrate(file, key="k")
    store.graph.after(delete("A"))
    assert store.migrate(file, key="k") == first
    assert store.export() == b""
    other = written(file.with_name("other.jsonl"), entity("C"))
    assert "was used for another call" in store.migrate(other, key="k")["error"]
    assert store.export() == b""


MANY = 10_000


def many(path: Path, count: int = MANY) -> Path:
    """That many lines, entities and relations in any order, a broken line now and then."""
    lines: list[Any] = []
    for n in range(count):
        if n % 3 == 2:
            lines.append(relation(f"E{n - 1}", "next", f"E{(n * 7) % count}"))
        elif n % 500 == 499:
            lines.append('{"type": "entity"')
        else:
            lines.append(entity(f"E{n}", *[f"fact {n}.{i} " + "é" * 40 for i in range(n % 5)]))
    return written(path, *lines)


def test_a_long_file_is_imported_in_chunks_of_bounded_size(store: Store, file: Path) -> None:
    many(file)
    reply = store.migrate(file)
    entities, relations, errors, skipped = counts(reply)
    assert entities + relations + skipped == MANY and errors == 0
    assert entities > 6_000 and relations > 1_500 and skipped > 1_000
    assert len(reply["problems"]) == 100
    chunks = store.chunks()
    assert len(chunks) > MANY // CHUNK_ITEMS
    for call in chunks:
        given = msgspec.json.decode(call.arguments)
        assert 0 < len(given.get("entities", [])) + len(given.get("relations", [])) <= CHUNK_ITEMS
        assert len(call.arguments) < CHUNK_BYTES + 1000 * CHUNK_ITEMS
    assert store.told[-1] == (file.stat().st_size, file.stat().st_size)
    assert store.told == sorted(store.told)


def broken_off(file: Path, done: int, key: str | None = None) -> Store:
    """A store with the first chunks of a file."""
    store = Store()
    store.break_off_after = done
    with pytest.raises(Unavailable):
        store.migrate(file, key=key)
    assert len(store.chunks()) == done
    store.break_off_after = None
    return store


@pytest.mark.parametrize("done", [0, 1, 9, 40])
def test_an_import_that_was_broken_off_is_completed(
    file: Path, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "CHUNK_ITEMS", 20)
    many(file, 1000)
    whole = Store()
    expected = whole.migrate(file)
    assert len(whole.chunks()) > 41

    store = broken_off(file, done)
    reply = store.migrate(file)
    assert {**reply, "new": {}} == {**expected, "new": {}}
    assert (reply["new"] == expected["new"]) is (done == 0), "what was there before is not new"
    assert store.export() == whole.export()
    assert store.graph.state.digest()["entity"] == whole.graph.state.digest()["entity"]

    again = broken_off(file, done, key="k")
    assert again.migrate(file, key="k") == expected, "the same call, so all of it is new"
    assert again.export() == whole.export()


def test_what_was_deleted_after_an_import_was_broken_off_comes_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "CHUNK_ITEMS", 1)
    written(file, entity("A", "x", "y"), entity("B"), entity("C"), relation("A", "uses", "B"))
    store = broken_off(file, 2)
    store.graph.after(unsay("A", "y"), delete("B"))
    reply = store.migrate(file)
    assert counts(reply) == (3, 1, 0, 0)
    assert reply["new"] == {"entities": 2, "observations": 1, "relations": 1}
    assert store.graph.said("A") == ["x", "y"]
    assert store.export().count(b'"type":"entity"') == 3


def test_an_import_ends_early_when_the_service_does(store: Store, file: Path) -> None:
    store.stopping = True
    with pytest.raises(Unavailable, match="migrate again to complete it"):
        store.migrate(written(file, entity("A")))
    assert store.chunks() == []


def test_a_file_that_changes_meanwhile_is_told(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(file, entity("A"), relation("A", "is", "A"))

    def reading(text: bytes) -> Any:
        with file.open("ab") as more:
            more.write(b"\n")
        return read_line(text)

    monkeypatch.setattr(imports, "read_line", reading)
    assert "was changed while it was read" in store.migrate(file)["error"]


@pytest.mark.parametrize(
    ("answered", "sentence"),
    [
        (None, "An import is carried out before it is decided; this call was not"),
        (b"", "An import is carried out before it is decided; this call was not"),
        (b'{"error": "There is no file"}', "There is no file"),
        (b'{"entities_imported": 1}', "What came of this import was recorded in a form that …"),
        (b"[]", "What came of this import was recorded in a form that …"),
        (b"{", "What came of this import was recorded in a form that …"),
    ],
)
def test_a_call_without_what_came_of_it_is_refused(
    store: Store, answered: bytes | None, sentence: str
) -> None:
    call = Call(
        id="c",
        tool="migrate",
        arguments=b'{"source_path": "x"}',
        space="default/graph",
        received_at_us=0,
        answered=None if answered is None else Answered([], reply=answered),
    )
    store.graph.when_bytes(encode_call(call)).then_refused(sentence)


# --- which files ---------------------------------------------------------------------------------


def test_files_that_cannot_be_imported(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "wide").write_text('{"type": "entity", "name": "A"}', encoding="utf-16")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    files = Files(cwd=str(tmp_path), home="/nowhere")

    def refused(path: str) -> str:
        reply = store.migrate(path, files=files)
        store.graph.then_refused(reply["error"])
        return str(reply["error"])

    assert refused("missing") == "There is no file 'missing'"
    assert refused(".").startswith("'.' is a directory")
    assert refused("pipe") == "'pipe' is not a regular file"
    assert refused("/dev/zero") == "'/dev/zero' is not a regular file"
    assert refused("wide") == "'wide' is written in UTF-16; save it as UTF-8"
    assert refused("empty/x").startswith("'empty/x' cannot be read: ")
    assert refused("loop").startswith("'loop' cannot be read: ")
    assert refused("n" * 300).startswith(f"'{'n' * 300}' cannot be read: ")
    assert "NUL" in refused("a\0b")


def test_paths_begin_where_the_caller_is(store: Store, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "home").mkdir()
    written(tmp_path / "here" / "m.jsonl", entity("A"))
    written(tmp_path / "home" / "m.jsonl", entity("A"), entity("B"))
    files = Files(cwd=str(tmp_path / "here"), home=str(tmp_path / "home"))
    assert counts(store.migrate("m.jsonl", files=files))[0] == 1
    assert counts(store.migrate("~/m.jsonl", files=files))[0] == 2
    assert counts(store.migrate(tmp_path / "home" / "m.jsonl", files=files))[0] == 2
    assert counts(store.migrate("../home/m.jsonl", files=files))[0] == 2


def test_with_a_root_only_what_is_below_it(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "import"
    root.mkdir()
    written(root / "in.jsonl", entity("A"))
    (root / "also.jsonl").symlink_to("in.jsonl")
    outside = written(tmp_path / "out.jsonl", entity("Secret"))
    written(tmp_path / "import-other", entity("Secret"))
    (root / "link.jsonl").symlink_to(outside)
    (root / "up").symlink_to(tmp_path)
    files = Files(cwd=str(root), home=str(tmp_path), root=str(root))

    for path in ("in.jsonl", root / "in.jsonl", "also.jsonl", "up/import/in.jsonl"):
        assert counts(store.migrate(path, files=files))[0] == 1
    outsiders = ("../out.jsonl", outside, "~/out.jsonl", "link.jsonl", "up/out.jsonl", "..")
    for path in (*outsiders, "../import-other", "/etc/passwd", "/there/is/no/such/file"):
        refused = store.migrate(path, files=files)["error"]
        assert refused.startswith(f"Over HTTP only files in {root} can be imported"), path
    assert b"Secret" not in store.export()

    (tmp_path / "linked").symlink_to(root)
    linked = Files(cwd=str(tmp_path), home="/", root=str(tmp_path / "linked"))
    assert counts(store.migrate("linked/in.jsonl", files=linked))[0] == 1


# --- there and back ------------------------------------------------------------------------------


def test_an_ended_relation_is_not_exported(store: Store, file: Path) -> None:
    lines = [entity("A"), relation("A", "is", "A"), relation("A", "was", "A")]
    store.migrate(written(file, *lines))
    store.graph.after(end(2))
    assert store.export().splitlines()[1:] == [
        b'{"type":"relation","from":"A","to":"A","relationType":"is"}'
    ]


def test_an_export_comes_in_pages_of_bounded_size(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [entity(f"E{n}", *["x" * 100] * (n % 3)) for n in range(60)]
    lines += [relation(f"E{n}", "next", f"E{(n * 7) % 60}") for n in range(60)]
    store.migrate(written(file, *lines))
    whole = store.export()
    assert len(whole.splitlines()) == 120
    for count, size in ((1, 1_000_000), (7, 1_000_000), (500, 300), (500, 1)):
        monkeypatch.setattr(exports, "PAGE", count)
        monkeypatch.setattr(exports, "PAGE_BYTES", size)
        assert store.export() == whole


NAMES = st.text(min_size=1, max_size=12).filter(re.compile(NO_CONTROLS).search)


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    said = st.lists(NAMES, max_size=4)
    lines = [entity(name, *draw(said), kind=draw(NAMES)) for name in names]
    ends = st.sampled_from(names)
    lines += [
        relation(source, kind, target)
        for source, kind, target in draw(st.lists(st.tuples(ends, NAMES, ends), max_size=8))
    ]
    return draw(st.permutations(lines))


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_export_and_import_into_an_empty_store_give_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    first, second = Store(), Store()
    reply = first.migrate(written(folder / "given", *lines))
    assert counts(reply)[2:] == (0, 0)
    exported = first.export()
    (folder / "exported").write_bytes(exported)
    again = second.migrate(folder / "exported")
    assert second.export() == exported
    assert counts(again)[2:] == (0, 0)
    assert again["new"] == reply["new"]
    wanted = {(one["name"]): set(one["observations"]) for one in lines if "name" in one}
    kept = [json.loads(line) for line in exported.split(b"\n") if line]
    assert {one["name"]: set(one["observations"]) for one in kept if "name" in one} == wanted
    triples = {(one["from"], one["relationType"], one["to"]) for one in lines if "from" in one}
    assert {
        (one["from"], one["relationType"], one["to"]) for one in kept if "from" in one
    } == triples


def test_what_was_imported_can_be_rebuilt_from_the_log(store: Store, file: Path) -> None:
    store.migrate(many(file, 1000))
    rebuilt = store.graph.rebuilt()
    assert rebuilt.digest() == store.graph.state.digest()
