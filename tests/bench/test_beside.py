"""Another checkout beside this one: each fills its stores with its own code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import corpus, graph_corpus
from benchmarks.beside import FILL_GRAPH, FILL_ROBOT
from benchmarks.mcp_client import BenchmarkError, StdioClient
from benchmarks.peers.mnemolog import BESIDE, THIS, Checkout, beside
from benchmarks.prepare import PREPARED_SEED, generate
from benchmarks.run import main

PROGRAMS = Path(sys.executable).parent


def checkout(root: Path, prepare: str) -> Checkout:
    """One with no more than a way to fill stores."""
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "__init__.py").touch()
    (root / "benchmarks" / "prepare.py").write_text(prepare)
    return Checkout(BESIDE, root, PROGRAMS)


def test_a_checkout_fills_with_its_own_code(tmp_path: Path) -> None:
    prepare = "def prepare_store(directory, count): directory.write_text(f'its own {count}')"
    checkout(tmp_path, prepare).run(FILL_ROBOT, str(tmp_path / "store"), "7")
    assert (tmp_path / "store").read_text() == "its own 7"


def test_a_checkout_that_cannot_fill_says_why(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="cannot import name 'prepare_store'"):
        checkout(tmp_path, "").run(FILL_ROBOT, str(tmp_path / "store"), "7")


def test_a_checkout_that_is_not_set_up_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--beside", str(tmp_path), "--only", "robot.start"])
    assert done.exit_code == 1
    assert "make setup" in done.output
    with pytest.raises(BenchmarkError, match="make setup"):
        beside(tmp_path).program()


def test_peers_are_not_measured_beside_another_version(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--beside", str(tmp_path), "--system", "robotmem"])
    assert done.exit_code == 2
    assert "--system" in done.output


def test_filled_and_generated_memories_are_found(tmp_path: Path) -> None:
    THIS.run(FILL_ROBOT, str(tmp_path / "filled"), "6")
    generate(tmp_path / "generated", 6)
    query = corpus.take(6, PREPARED_SEED)[5].insight
    for store in ("filled", "generated"):
        with StdioClient(THIS.server(tmp_path / store)) as client:
            client.initialize()
            found = client.call("recall", {"query": query, "n": 6}).body
        assert found["mode"] == "hybrid"
        assert found["memories"][0]["content"] == query


def test_a_filled_graph_is_described(tmp_path: Path) -> None:
    entities = graph_corpus.write_file(tmp_path / "graph.jsonl", 10, PREPARED_SEED)
    THIS.run(FILL_GRAPH, str(tmp_path / "store"), str(tmp_path / "graph.jsonl"))
    with StdioClient(THIS.server(tmp_path / "store")) as client:
        client.initialize()
        found = client.call("search_semantic", {"query": entities[3].observations[1]}).body
    assert len(found["results"]) == 10
    assert "pending" not in found
