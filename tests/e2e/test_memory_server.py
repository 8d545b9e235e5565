"""A client that was written for the public memory server, with its nine tools called its way.

Where that server and the documentation differ on the same arguments, the documentation holds:
creating an entity that exists adds to it, and what could not be done is told beside what was.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.conftest import Client, Message, StdioClient

WORDS_ONLY = ("--model", "none")
PUBLIC = {
    "create_entities",
    "create_relations",
    "add_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "read_graph",
    "search_nodes",
    "open_nodes",
}
"""The tools of the public memory server."""


def entity(name: str, kind: str, *observations: str) -> Message:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def without_ids(graph: Message) -> Message:
    """A reply as documented: ids are an addition to it."""
    assert all(isinstance(one.pop("id"), int) for one in graph["entities"] + graph["relations"])
    return graph


ALICE = entity("Alice", "person", "works at Acme Corp", "likes programming")
BOB = entity("Bob", "person", "likes TypeScript")
ACME = entity("Acme Corp", "company", "tech company")
ALICE_AT = {"from": "Alice", "to": "Acme Corp", "relationType": "works_at"}
BOB_KNOWS = {"from": "Bob", "to": "Alice", "relationType": "knows"}


@pytest.fixture
def known(empty: Client) -> Client:
    """With three entities and two relations, made as such a client makes them."""
    made = empty.ok("create_entities", {"entities": [ALICE, BOB, ACME]})
    assert made == {"entities": [ALICE, BOB, ACME]}
    made = empty.ok("create_relations", {"relations": [ALICE_AT, BOB_KNOWS]})
    assert [{**one, "id": 0} for one in made["relations"]] == [
        {"id": 0, **ALICE_AT},
        {"id": 0, **BOB_KNOWS},
    ]
    return empty


def test_an_empty_graph_is_read(empty: Client) -> None:
    nothing: Message = {"entities": [], "relations": []}
    assert empty.ok("read_graph", {}) == nothing
    assert empty.ok("search_nodes", {"query": "anything"}) == nothing
    assert empty.ok("open_nodes", {"names": ["Nobody"]}) == nothing
    assert empty.ok("open_nodes", {"names": []}) == nothing


def test_empty_lists_are_nothing_to_do(known: Client) -> None:
    before = known.ok("read_graph", {})
    assert known.ok("create_entities", {"entities": []}) == {"entities": []}
    assert known.ok("create_relations", {"relations": []}) == {"relations": []}
    assert known.ok("add_observations", {"observations": []}) == {"results": []}
    assert known.ok("delete_entities", {"entityNames": []}) == {"deleted": []}
    assert known.ok("delete_relations", {"relations": []}) == {"deleted": []}
    assert known.ok("delete_observations", {"deletions": []})["success"] is True
    assert known.ok("read_graph", {}) == before


def test_the_whole_graph_is_read(known: Client) -> None:
    assert without_ids(known.ok("read_graph", {})) == {
        "entities": [ALICE, BOB, ACME],
        "relations": [ALICE_AT, BOB_KNOWS],
    }


def test_an_entity_that_exists_is_not_made_twice(known: Client) -> None:
    known.ok("create_entities", {"entities": [ALICE, entity("Alice", "person")]})
    known.ok("create_relations", {"relations": [ALICE_AT]})
    graph = without_ids(known.ok("read_graph", {}))
    assert graph == {"entities": [ALICE, BOB, ACME], "relations": [ALICE_AT, BOB_KNOWS]}


def test_contents_are_added_and_the_new_ones_told(known: Client) -> None:
    contents = ["likes TypeScript", "plays chess"]
    said = [
        {"entityName": "Bob", "contents": contents},
        {"entityName": "Alice", "contents": ["likes programming"]},
    ]
    assert known.ok("add_observations", {"observations": said}) == {
        "results": [
            {"entityName": "Bob", "addedObservations": ["plays chess"]},
            {"entityName": "Alice", "addedObservations": []},
        ]
    }
    opened = known.ok("open_nodes", {"names": ["Bob"]})["entities"]
    assert opened[0]["observations"] == contents


def test_contents_for_nobody_are_an_error_and_nothing_is_added(known: Client) -> None:
    said = [
        {"entityName": "Bob", "contents": ["plays chess"]},
        {"entityName": "Nobody", "contents": ["x"]},
    ]
    assert "Nobody" in known.refused("add_observations", {"observations": said})
    assert known.ok("search_nodes", {"query": "chess"})["entities"] == []


def test_deleting_an_entity_deletes_its_relations(known: Client) -> None:
    assert known.ok("delete_entities", {"entityNames": ["Alice"]}) == {"deleted": ["Alice"]}
    graph = without_ids(known.ok("read_graph", {}))
    assert graph == {"entities": [BOB, ACME], "relations": []}


def test_deleting_what_is_not_there_is_no_error(known: Client) -> None:
    known.ok("delete_entities", {"entityNames": ["Nobody"]})
    known.ok("delete_relations", {"relations": [{**ALICE_AT, "relationType": "left"}]})
    deletions = [
        {"entityName": "Nobody", "observations": ["x"]},
        {"entityName": "Bob", "observations": ["x"]},
    ]
    assert known.ok("delete_observations", {"deletions": deletions})["success"] is True
    graph = without_ids(known.ok("read_graph", {}))
    assert graph == {"entities": [ALICE, BOB, ACME], "relations": [ALICE_AT, BOB_KNOWS]}


def test_observations_and_relations_are_deleted(known: Client) -> None:
    deletions = [
        {"entityName": "Alice", "observations": ["works at Acme Corp"]},
        {"entityName": "Bob", "observations": ["likes TypeScript"]},
    ]
    assert known.ok("delete_observations", {"deletions": deletions}) == {
        "success": True,
        "message": "Observations deleted successfully",
    }
    known.ok("delete_relations", {"relations": [ALICE_AT]})
    assert without_ids(known.ok("read_graph", {})) == {
        "entities": [entity("Alice", "person", "likes programming"), entity("Bob", "person"), ACME],
        "relations": [BOB_KNOWS],
    }


@pytest.mark.parametrize(
    ("query", "names", "relations"),
    [
        ("alice", ["Alice"], [ALICE_AT, BOB_KNOWS]),
        ("COMPANY", ["Acme Corp"], [ALICE_AT]),
        ("programming", ["Alice"], [ALICE_AT, BOB_KNOWS]),
        ("acme", ["Alice", "Acme Corp"], [ALICE_AT, BOB_KNOWS]),
        ("nothing like it", [], []),
    ],
)
def test_nodes_are_searched_with_the_relations_that_touch_them(
    known: Client, query: str, names: list[str], relations: list[Message]
) -> None:
    found = without_ids(known.ok("search_nodes", {"query": query}))
    assert [one["name"] for one in found["entities"]] == names
    assert found["relations"] == relations


def test_nodes_are_opened_with_the_relations_that_touch_them(known: Client) -> None:
    opened = without_ids(known.ok("open_nodes", {"names": ["Bob", "Nobody", "bob"]}))
    assert opened == {"entities": [BOB], "relations": [BOB_KNOWS]}


def test_the_graph_is_there_after_a_restart(new_stdio: Callable[..., StdioClient]) -> None:
    first = new_stdio(*WORDS_ONLY)
    first.initialize()
    first.ok("create_entities", {"entities": [ALICE, BOB]})
    first.ok("create_relations", {"relations": [BOB_KNOWS]})
    before = first.ok("read_graph", {})
    assert first.close() == 0
    again = new_stdio(*WORDS_ONLY)
    again.initialize()
    assert again.ok("read_graph", {}) == before


def test_its_nine_tools_are_offered(client: Client) -> None:
    offered = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
    assert set(offered) >= PUBLIC
    for name in ("read_graph", "search_nodes", "open_nodes"):
        assert offered[name]["annotations"]["readOnlyHint"] is True
    for name in ("delete_entities", "delete_observations", "delete_relations"):
        assert offered[name]["annotations"]["destructiveHint"] is True
    required = {name: tool["inputSchema"].get("required", []) for name, tool in offered.items()}
    assert required["add_observations"] == ["observations"]
    assert required["delete_observations"] == []
    assert required["read_graph"] == []
