"""The knowledge graph's tools through real processes: the documented examples, what is refused,
and many writers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import StdioServerParameters

from tests.e2e.conftest import (
    PATIENCE_S,
    TRANSPORTS,
    Client,
    Message,
    Server,
    checked,
    reached,
    run,
)
from tests.e2e.test_definitions import EVERY
from tests.e2e.test_memory_server import WORDS_ONLY, entity, without_ids

SPACE = ["Stack: Astro 6.x + Starlight 0.38.x", "Deployed on Vercel at cachorro.space"]
CHARTS = ["ECharts 6.x chosen for visualizations", "Accent color: teal (#2dd4bf)"]
USES = {"from": "CachorroSpace", "to": "Astro", "relationType": "uses"}


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test's own, without a model."""
    server = Server(tmp_path / "data", *WORDS_ONLY)
    yield server
    server.stop()


# --- the documented examples ---------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_documented_examples(
    transport: str, mode: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def test(where: str | StdioServerParameters) -> None:
        async with mcp.Client(where, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == EVERY
            await example(checked(client))

    with reached(
        transport, tmp_path / "data", lambda: request.getfixturevalue("broker"), *WORDS_ONLY
    ) as where:
        asyncio.run(test(where))


async def example(call: Callable[..., Any]) -> None:
    """The calls and replies of the documentation, in its order."""
    project = entity("CachorroSpace", "Project", *SPACE)
    assert await call("create_entities", entities=[project]) == {"entities": [project]}
    refused = await call("create_entities", entities=[{"entityType": "Project"}], refused=True)
    assert set(refused) == {"error"}
    assert "name" in refused["error"]

    missing = "Entity not found: NonExistentEntity"
    unknown = {**USES, "to": "NonExistentEntity"}
    assert await call("create_relations", relations=[unknown]) == {
        "relations": [{"error": missing}],
        "errors": [missing],
    }
    await call("create_entities", entities=[{"name": "Astro"}])
    made = (await call("create_relations", relations=[USES]))["relations"]
    number = made[0]["id"]
    assert made == [{"id": number, **USES}]
    assert await call("create_relations", relations=[USES]) == {
        "relations": [{"id": number, **USES, "error": "Relation already exists"}]
    }

    added = await call("add_observations", name="CachorroSpace", observations=CHARTS)
    assert added == {"entity": entity("CachorroSpace", "Project", *SPACE, *CHARTS)}
    nobody = {"name": "NonExistentEntity", "observations": ["x"]}
    assert await call("add_observations", **nobody, refused=True) == {"error": missing}
    left = await call("delete_observations", name="CachorroSpace", observations=[CHARTS[1]])
    assert left == {"entity": entity("CachorroSpace", "Project", *SPACE, CHARTS[0])}
    assert await call("delete_observations", **nobody, refused=True) == {"error": missing}

    ink = entity("CachorroInk", "Project", "Blog built with Astro 5.x")
    await call("create_entities", entities=[ink, entity("Cup", "Thing", "red")])
    found = await call("search_nodes", query="astro")
    assert found["relations"] == [{"id": number, **USES}]
    assert without_ids(found)["entities"] == [
        entity("CachorroSpace", "Project", *SPACE, CHARTS[0]),
        entity("Astro", "Generic"),
        ink,
    ]
    opened = await call("open_nodes", names=["CachorroInk", "Nobody"])
    assert without_ids(opened) == {"entities": [ink], "relations": []}

    ended = await call("end_relation", relation_id=number)
    assert ended == {"result": f"Relation {number} expired successfully"}
    ended = await call("end_relation", relation_id=number)
    assert ended == {"result": f"Relation {number} was already expired"}
    refused = await call("end_relation", relation_id=10**9, refused=True)
    assert refused == {"error": f"Relation {10**9} does not exist"}
    assert (await call("read_graph"))["relations"] == []
    kept = (await call("read_graph", include_ended=True))["relations"]
    assert [(one["id"], one["active"]) for one in kept] == [(number, False)]
    again = (await call("create_relations", relations=[USES]))["relations"]
    assert again[0]["id"] != number

    gone = {"id": again[0]["id"], **USES}
    assert await call("delete_relations", relations=[USES]) == {"deleted": [gone]}
    absent = {"from": "Cup", "to": "Astro", "relationType": "contains"}
    assert await call("delete_relations", relations=[absent]) == {
        "deleted": [],
        "errors": ["Relation not found: Cup -> Astro (contains)"],
    }
    assert await call("delete_relations", relations=[{**absent, "from": "A"}]) == {
        "deleted": [],
        "errors": ["Entity not found: A or Astro"],
    }
    assert await call("delete_entities", entityNames=["Cup", "Already Deleted Entity"]) == {
        "deleted": ["Cup"],
        "errors": ["Entity not found: Already Deleted Entity"],
    }
    assert await call("delete_entities", entityNames=["Astro", "CachorroInk"]) == {
        "deleted": ["Astro", "CachorroInk"]
    }
    names = [one["name"] for one in (await call("read_graph"))["entities"]]
    assert names == ["CachorroSpace"]


# --- what is refused -----------------------------------------------------------------------------


def creating(**more: Any) -> tuple[str, Message]:
    return "create_entities", {"entities": [{"name": "A", **more}]}


MANY = [str(i) for i in range(101)]
BAD: dict[str, tuple[tuple[str, Any], str]] = {
    "51 entities": (
        ("create_entities", {"entities": [{"name": n} for n in MANY[:51]]}),
        "entities must be a list of at most 50 entries, not a list of 51",
    ),
    "no entities": (("create_entities", {}), "entities is required: a list of at most 50 entries"),
    "an entity that is a text": (
        ("create_entities", {"entities": ["A"]}),
        "entities[0] must be an object, not 'A'",
    ),
    "an entity without a name": (
        ("create_entities", {"entities": [{"name": "A"}, {"entityType": "Tool"}]}),
        "entities[1] needs name",
    ),
    "an empty name": (creating(name=""), "entities[0].name must not be empty"),
    "a blank name": (creating(name=" \t"), "entities[0].name must not be empty"),
    "a name of 513": (
        creating(name="x" * 513),
        "entities[0].name must be text of at most 512 characters, not a text of 513 characters",
    ),
    "a field it does not have": (
        creating(mood="good"),
        "entities[0] has the unknown field 'mood'; there are name, entityType, observations",
    ),
    "a type under another name": (
        creating(type="Person"),
        "entities[0] has the unknown field 'type'; there are name, entityType, observations",
    ),
    "a relation's type under another name": (
        ("create_relations", {"relations": [{"from": "A", "to": "A", "type": "likes"}]}),
        "relations[0] needs relationType",
    ),
    "a field that an observation does not have": (
        (
            "add_observations",
            {"observations": [{"entityName": "A", "contents": [], "mood": "good"}]},
        ),
        "observations[0] has the unknown field 'mood'; there are entityName, contents",
    ),
    "a name beside a list of another's": (
        (
            "add_observations",
            {"name": "A", "observations": [{"entityName": "B", "contents": ["x"]}]},
        ),
        "Give either name",
    ),
    "60 and 60 observations of one new entity": (
        (
            "create_entities",
            {"entities": [{"name": "A", "observations": some} for some in (MANY[:60], MANY[40:])]},
        ),
        "A gets 121 observations; at most 100 an entity are allowed in a call",
    ),
    "101 observations of a new entity": (
        creating(observations=MANY),
        "entities[0].observations must be a list of at most 100 entries, not a list of 101",
    ),
    "an observation of 2,001 of a new entity": (
        creating(observations=["x" * 2001]),
        "entities[0].observations[0] must be text of at most 2000 characters, not a text of 2001",
    ),
    "101 observations": (
        ("add_observations", {"name": "A", "observations": MANY}),
        "not a list of 101",
    ),
    "an observation of 2,001": (
        ("add_observations", {"name": "A", "observations": ["x", "x" * 2001]}),
        "observations[1] must be text of at most 2000 characters, not a text of 2001",
    ),
    "a blank observation": (
        ("add_observations", {"name": "A", "observations": [" "]}),
        "observations[0] must not be empty or blank",
    ),
    "101 contents": (
        ("add_observations", {"observations": [{"entityName": "A", "contents": MANY}]}),
        "observations[0].contents must be a list of at most 100 entries, not a list of 101",
    ),
    "observations of nobody": (("add_observations", {"observations": ["x"]}), "Give either name"),
    "nothing to delete": (("delete_observations", {}), "Give either name and observations"),
    "51 entities to delete": (
        ("delete_entities", {"entityNames": MANY[:51]}),
        "entityNames must be a list of at most 50 entries, not a list of 51",
    ),
    "a relation without a type": (
        ("create_relations", {"relations": [{"from": "A", "to": "B"}]}),
        "relations[0] needs relationType",
    ),
    "a relation from a blank name": (
        ("create_relations", {"relations": [{**USES, "from": " "}]}),
        "relations[0].from must not be empty",
    ),
    "relation 0": (("end_relation", {"relation_id": 0}), "relation_id must be a whole number"),
    "an unknown relation": (("end_relation", {"relation_id": 10**9}), "does not exist"),
    "a query of 501": (
        ("search_nodes", {"query": "x" * 501}),
        "query must be text of at most 500 characters, not a text of 501 characters",
    ),
    "limit 0": (("search_nodes", {"query": "x", "limit": 0}), "from 1 to 1000, not 0"),
    "limit -1": (("search_nodes", {"query": "x", "limit": -1}), "from 1 to 1000, not -1"),
    "limit 0 of the whole graph": (("read_graph", {"limit": 0}), "from 1 to 1000, not 0"),
    "limit -1 of the whole graph": (("read_graph", {"limit": -1}), "from 1 to 1000, not -1"),
    "a cursor of -1": (("read_graph", {"cursor": -1}), "cursor must be a whole number"),
    "names that are one text": (("open_nodes", {"names": "A"}), "names must be a list"),
    "half a surrogate pair": (("search_nodes", {"query": "a \ud83d b"}), "surrogate"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_a_clear_sentence(client: Client, name: str) -> None:
    (tool, arguments), expected = BAD[name]
    sentence = client.refused(tool, arguments)
    assert expected in sentence
    assert len(sentence) < 300
    assert "Traceback" not in sentence


def test_what_is_refused_leaves_nothing_behind(empty: Client) -> None:
    for (tool, arguments), _ in BAD.values():
        empty.refused(tool, arguments)
    assert empty.ok("read_graph", {}) == {"entities": [], "relations": []}


def test_odd_texts_are_found_as_they_are(client: Client, collection: str) -> None:
    odd = [f"{collection} {text}" for text in ("o\u200dh", '"', "100%", "a_b", "抓", "🤖", "\\")]
    client.ok("create_entities", {"entities": [{"name": one} for one in odd]})
    said = f"{collection} nul\0 here"
    client.ok("add_observations", {"observations": [{"entityName": odd[0], "contents": [said]}]})
    found = client.ok("search_nodes", {"query": said.upper()})["entities"]
    assert [node["observations"] for node in found] == [[said]]
    for one in odd:
        found = client.ok("search_nodes", {"query": one.upper()})["entities"]
        assert [node["name"] for node in found] == [one]


# --- many at once --------------------------------------------------------------------------------


def test_ten_clients_at_once_lose_nothing(own_server: Server) -> None:
    rounds = range(5)

    def work(who: int) -> int:
        client = own_server.client()
        me = f"client {who}"
        for i in rounds:
            entities = [entity("Shared", "Place", f"{me} saw {i}"), entity(me, "Agent", f"{i}")]
            client.ok("create_entities", {"entities": entities})
            said = [{"entityName": "Shared", "contents": [f"{me} said {i}", "all say"]}]
            client.ok("add_observations", {"observations": said})
            client.ok("open_nodes", {"names": ["Shared", me]})
            client.ok("create_entities", {"entities": [entity(f"{me} scratch", "Note")]})
            client.ok("delete_entities", {"entityNames": [f"{me} scratch"]})
        mine = {"from": me, "to": "Shared", "relationType": "visits"}
        everyones = {"from": "Shared", "to": "Shared", "relationType": "is"}
        made = client.ok("create_relations", {"relations": [mine, everyones]})["relations"]
        assert "error" not in made[0]
        return int("error" not in made[1])

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(work, range(10))) == 1, "one of them made everyone's relation"
    graph = own_server.client().ok("read_graph", {})
    by_name = {one["name"]: one for one in graph["entities"]}
    assert len(by_name) == len(graph["entities"]) == 11
    expected = {f"client {who} {did} {i}" for who in range(10) for did in ("saw", "said")
                for i in rounds}  # fmt: skip
    shared = by_name["Shared"]["observations"]
    assert len(shared) == len(set(shared))
    assert set(shared) == expected | {"all say"}
    for who in range(10):
        assert by_name[f"client {who}"]["observations"] == [str(i) for i in rounds]
    assert len(graph["relations"]) == 11
    assert len({one["id"] for one in graph["relations"]}) == 11
    assert len({one["id"] for one in graph["entities"]}) == 11


def test_the_log_verifies_and_a_rebuild_says_the_same(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = Server(data, *WORDS_ONLY)
    try:
        client = server.client()
        people = [entity("Ana", "Person", "Café"), entity("Bo", "Person"), entity("Cy", "Person")]
        client.ok("create_entities", {"entities": people})
        knows = [{"from": "Ana", "to": name, "relationType": "knows"} for name in ("Bo", "Cy")]
        made = client.ok("create_relations", {"relations": knows})["relations"]
        client.ok("end_relation", {"relation_id": made[1]["id"]})
        client.ok("delete_entities", {"entityNames": ["Bo"]})
        before = client.ok("read_graph", {"include_ended": True})
    finally:
        assert server.stop() == 0
    for command in (("audit", "verify"), ("rebuild",)):
        told = run(*command, "--data", str(data))
        assert told.returncode == 0, told.stderr
    server = Server(data, *WORDS_ONLY)
    try:
        assert server.client().ok("read_graph", {"include_ended": True}) == before
        found = server.client().ok("search_nodes", {"query": "CAFE"})["entities"]
        assert [one["name"] for one in found] == ["Ana"]
    finally:
        server.stop()
