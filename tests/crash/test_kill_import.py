"""An import that is killed with SIGKILL in the middle, again and again, comes to the same graph as
one that was left alone."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import time
from pathlib import Path
from random import Random

from tests.crash import stored
from tests.crash.process import ANSWER_WITHIN_S, NO_MODEL, Stdio, command, environment, tail

ENTITIES = 1500
RELATIONS = 1200
KILLS = 3


def test_a_killed_import_goes_on_where_it_stopped(
    data: Path, tmp_path: Path, chance: Random
) -> None:
    file = tmp_path / "memory.jsonl"
    with file.open("w") as out:
        lines = [
            {"type": "entity", "name": f"E{n}", "entityType": "T", "observations": [f"is {n}", "x"]}
            for n in range(ENTITIES)
        ]
        lines += [
            {"type": "relation", "from": f"E{n}", "to": f"E{n * 3 % 1600}", "relationType": "r"}
            for n in range(RELATIONS)
        ]
        for line in lines:
            out.write(json.dumps(line) + "\nbroken\n" * (chance.random() < 0.01) + "\n")
    alone = tmp_path / "alone"
    with Stdio(alone) as client:
        expected = client.call("migrate", {"source_path": str(file)}).body
    assert expected["entities_imported"] == ENTITIES
    assert 0 < expected["relations_imported"] < RELATIONS

    total = ENTITIES + expected["relations_imported"]
    # The first in good time: on a busy machine an import goes on for a while before it is killed.
    marks = [chance.randrange(1, total // 4)]
    marks += sorted(chance.sample(range(marks[0] + 1, total), KILLS - 1))
    seen = []
    for mark in marks:
        with Stdio(data) as client:
            client.send("migrate", {"source_path": str(file)})
            _wait_for(data, mark)
            client.kill()
        seen.append(_stored(data))
    assert any(0 < count < total for count in seen), f"none was killed in the middle: {seen}"
    assert seen == sorted(seen)

    with Stdio(data) as client:
        reply = client.call("migrate", {"source_path": str(file)})
        assert not reply.refused
        assert client.finish() == 0
    counted = ("entities_imported", "relations_imported", "errors", "skipped", "reasons")
    assert {name: reply.body[name] for name in counted} == {
        name: expected[name] for name in counted
    }
    assert _exported(data) == _exported(alone)
    stored.check_whole(data)
    stored.check_rebuild(data)


def _wait_for(data: Path, mark: int) -> None:
    """Until the graph holds that many entities and relations, or has all there are."""
    deadline = time.monotonic() + 3 * ANSWER_WITHIN_S
    while _stored(data) < mark:
        assert time.monotonic() < deadline, f"the import does not go on: {tail(data)}"
        time.sleep(0.005)


def _stored(data: Path) -> int:
    path = data / "projections" / "state" / "p0000.db"
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as state,
    ):
        sql = "SELECT (SELECT count(*) FROM entity) + (SELECT count(*) FROM relation)"
        return int(state.execute(sql).fetchone()[0])
    return 0


def _exported(data: Path) -> bytes:
    told = subprocess.run(
        command("export", "--data", str(data)),
        capture_output=True,
        env=environment(NO_MODEL),
        timeout=3 * ANSWER_WITHIN_S,
        check=True,
    )
    assert told.stdout.count(b"\n") > ENTITIES
    return told.stdout
