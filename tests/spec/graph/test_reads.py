"""search_nodes, open_nodes, read_graph: what is found, in which order, in which pages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemolog.events.graph import EntityCreated, RelationDeleted, RelationKept
from mnemolog.projections.graph.containing import folded
from tests.spec.given import Ask, ask
from tests.spec.given_graph import (
    Graph,
    add,
    create,
    delete,
    entity,
    open_nodes,
    read,
    relate,
    search,
    triple,
    unsay,
)


def test_an_entity_is_found_by_name_type_and_observations(graph: Graph) -> None:
    graph.after(
        create(
            entity("Astro", "Tool"),
            entity("Blog", "Astronomy"),
            entity("Site", "Project", "Built with astro 5.x"),
            entity("Gastro", "Astro", "astro", "more astro"),
            entity("Other", "Project", "x"),
        )
    )
    assert graph.names(search("astro")) == ["Astro", "Blog", "Site", "Gastro"]


def test_the_reply_holds_ids_observations_and_relations_at_either_end(graph: Graph) -> None:
    graph.after(
        create(entity("A", "Tool", "x", "y"), entity("B"), entity("C")),
        relate(triple("A", "uses", "B"), triple("C", "uses", "A"), triple("B", "uses", "C")),
    )
    expected = {
        "entities": [{"id": 1, "name": "A", "entityType": "Tool", "observations": ["x", "y"]}],
        "relations": [
            {"id": 1, **triple("A", "uses", "B")},
            {"id": 2, **triple("C", "uses", "A")},
        ],
    }
    assert graph.told(search("tool")) == expected
    assert graph.told(open_nodes("A")) == expected


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("Sesión de Diseño", ["sesion", "SESIÓN", "diseno", "ó", "sesio\u0301n", "n de d"]),
        ("100% done", ["100%", "% d", "%"]),
        ("snake_case", ["_case", "_", "e_c"]),
        ("Straße", ["strasse", "STRASSE", "ss"]),
        ("抓取力不得超过 15N", ["抓", "抓取", "取力不", "抓取力不得超过", "15n"]),
        ("カップを掴む", ["カ", "カップ", "掴む"]),
        ("café ☕ time", ["☕", "☕ time", "e ☕"]),
        ('say "hi" AND (bye)* OR NEAR', ['"hi"', '" AND (', "*", "(bye)*", "or near", '"']),
        ("it's a test; DROP", ["it's", "'s", "; drop"]),
        ("back\\slash", ["k\\s", "\\"]),
        ("two\n lines", ["two lines", "o l"]),
        ("-dash ^caret col:umn", ["-dash", "^caret", "col:umn", ":u"]),
        ("nul\0inside here", ["nul\0inside", "inside", "l\0i", "\0", "here"]),
    ],
)
def test_case_accents_and_signs(graph: Graph, text: str, queries: list[str]) -> None:
    graph.after(create(entity("other", None, "nothing here to see?"), entity("this", None, text)))
    for query in queries:
        assert "this" in graph.names(search(query)), query
    assert "this" not in graph.names(search("nothing"))


@pytest.mark.parametrize("query", ["%", "_", "a%c", "a_c", "*", "???", "a*", "AND", "a OR b"])
def test_no_sign_is_a_wildcard(graph: Graph, query: str) -> None:
    graph.after(create(entity("abc", None, "a b c"), entity("b", None, "xyz")))
    assert graph.names(search(query)) == []


def test_what_holds_nothing_visible_finds_nothing(graph: Graph) -> None:
    graph.after(create(entity("abc")))
    assert graph.names(search("\u200b")) == []


def test_pages_hold_everything_once_in_order(graph: Graph) -> None:
    graph.after(create(*(entity(f"n{i}", None, "even" if i % 2 else "odd") for i in range(23))))
    for asked, expected in (
        (read, list(range(23))),
        (lambda **more: search("even", **more), list(range(1, 23, 2))),
        (lambda **more: search("n", **more), list(range(23))),
    ):
        names = [f"n{i}" for i in expected]
        for limit in (1, 4, len(names) - 1, len(names), 1000):
            assert pages(graph, asked, limit) == names


def pages(graph: Graph, asked: Any, limit: int) -> list[str]:
    found: list[str] = []
    told = graph.told(asked(limit=limit))
    while True:
        assert len(told["entities"]) <= limit
        found += [one["name"] for one in told["entities"]]
        if "next_cursor" not in told:
            return found
        assert len(told["entities"]) == limit
        told = graph.told(asked(limit=limit, cursor=told["next_cursor"]))


def test_what_is_common_is_found_like_what_is_rare(graph: Graph) -> None:
    for i in range(40):
        kept = "kept in the hall" if i % 2 else "lost in the yard"
        graph.after(create(entity(f"n{i}", None, f"thing {i} is {kept}", "seen, kept in mind")))
    odd = [f"n{i}" for i in range(1, 40, 2)]
    for limit in (3, 7, 100):
        assert pages(graph, lambda **more: search("KEPT in the h", **more), limit) == odd
    assert graph.names(search("kept in")) == [f"n{i}" for i in range(40)]
    assert graph.names(search("lost in the hall")) == []
    assert graph.names(search("thing 7 is kept")) == ["n7"]


def test_a_page_ends_where_it_has_enough_to_say(graph: Graph) -> None:
    for i in range(3):
        graph.after(create(entity(f"n{i}")))
        for start in range(0, 300, 100):
            graph.after(
                add(f"n{i}", *(f"{n:04}".ljust(2000, "x") for n in range(start, start + 100)))
            )
    graph.after(create(entity("short", None, "xxx")))
    for asked in (read, lambda **more: search("xxx", **more)):
        found: list[list[str]] = []
        cursor: int | None = 0
        while cursor is not None:
            told = graph.told(asked(cursor=cursor))
            found.append([one["name"] for one in told["entities"]])
            cursor = told.get("next_cursor")
        assert found == [["n0"], ["n1"], ["n2", "short"]]


def test_a_cursor_outlives_what_is_deleted_and_added(graph: Graph) -> None:
    graph.after(create(*(entity(f"n{i}") for i in range(6))))
    cursor = graph.told(read(limit=3))["next_cursor"]
    graph.after(delete("n0", "n2", "n4"), create(entity("n6")))
    assert graph.names(read(cursor=cursor)) == ["n3", "n5", "n6"]
    assert graph.told(read(cursor=2**53 - 1)) == {"entities": [], "relations": []}


def test_pages_hold_a_relation_once_with_the_later_of_its_entities(graph: Graph) -> None:
    graph.after(
        create(entity("A"), entity("B"), entity("C")),
        relate(triple("A", "uses", "B"), triple("C", "uses", "A"), triple("A", "is", "A")),
    )
    first = graph.told(read(limit=1))
    assert [one["id"] for one in first["relations"]] == [3]
    rest = graph.told(read(cursor=first["next_cursor"]))
    assert [one["id"] for one in rest["relations"]] == [1, 2]


def test_an_empty_query_is_in_everything(graph: Graph) -> None:
    graph.after(create(entity("A"), entity("B"), entity("C")))
    for query in ("", " \n"):
        first = graph.told(search(query, limit=2))
        assert [one["name"] for one in first["entities"]] == ["A", "B"]
        assert graph.names(search(query, cursor=first["next_cursor"])) == ["C"]


def test_what_cannot_be_there_is_not_there(graph: Graph) -> None:
    graph.after(create(entity("A", None, "x"))).when(open_nodes("A", "", " ", "n" * 600))
    assert graph.names(open_nodes("A", "", " ", "n" * 600)) == ["A"]
    graph.when(delete("", "n" * 600)).then()
    graph.when(unsay("A", "", "x" * 2001)).then()


def test_what_was_shown_may_be_sent_back(graph: Graph) -> None:
    graph.after(
        create(entity("A"), entity("B", "Tool", "sharp")),
        relate(triple("A", "uses", "B"), triple("B", "is", "B")),
    )
    shown = graph.told(read(include_ended=True))
    graph.when(ask("create_entities", entities=shown["entities"])).then()
    graph.when(ask("create_relations", relations=shown["relations"])).then()
    lines = [{"type": "relation", **triple("B", "is", "B")}]
    gone = RelationDeleted(relation=RelationKept(2, "B", "B", "is"))
    graph.when(ask("delete_relations", relations=lines)).then(gone)
    gone = RelationDeleted(relation=RelationKept(1, "A", "B", "uses"))
    graph.when(ask("delete_relations", relations=shown["relations"][:1])).then(gone)


def test_a_blank_type_is_none(graph: Graph) -> None:
    graph.when(create(entity("A", " "))).then(
        EntityCreated(entity_id=1, name="A", entity_type="Generic")
    )
    graph.after(create(entity("B", "Tool"))).when(create(entity("B", ""))).then()


def test_null_is_as_good_as_nothing(graph: Graph) -> None:
    graph.after(create(entity("A")))
    asked = ask("read_graph", limit=None, cursor=None, include_ended=None)
    assert graph.told(asked) == graph.told(read())
    named = [{"name": "B", "entityType": None, "observations": None}]
    graph.when(ask("create_entities", entities=named)).then(
        EntityCreated(entity_id=2, name="B", entity_type="Generic")
    )
    graph.when(ask("search_nodes", query=None)).then_refused(
        "query must be text of at most 500 characters, not null"
    )


def test_nodes_are_opened_in_the_order_asked_each_once(graph: Graph) -> None:
    graph.after(create(entity("A"), entity("B"), entity("C")))
    assert graph.names(open_nodes("C", "X", "A", "c", "C")) == ["C", "A"]


def at_most(what: str, most: int, given: int) -> str:
    return f"{what} must be a list of at most {most} entries, not a list of {given}"


def from_1_to_1000(given: int) -> str:
    return f"limit must be a whole number from 1 to 1000, not {given}"


SIXTY = [*map(str, range(60))]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            search("x" * 501),
            "query must be text of at most 500 characters, not a text of 501 characters",
        ),
        (search("x", limit=0), from_1_to_1000(0)),
        (search("x", limit=-1), from_1_to_1000(-1)),
        (search("x", limit=1001), from_1_to_1000(1001)),
        (
            search("x", cursor=-1),
            "cursor must be a whole number from 0 to 9007199254740991, not -1",
        ),
        (read(limit=0), from_1_to_1000(0)),
        (read(limit=1001), from_1_to_1000(1001)),
        (open_nodes(*("a" * 1001)), at_most("names", 1000, 1001)),
        (ask("open_nodes"), "names is required: a list of at most 1000 entries"),
        (ask("create_entities"), "entities is required: a list of at most 50 entries"),
        (create(*(entity(f"n{i}") for i in range(51))), at_most("entities", 50, 51)),
        (create(entity(" ")), "entities[0].name must not be empty or blank"),
        (
            create(entity("a", "t" * 257)),
            "entities[0].entityType must be text of at most 256 characters, "
            "not a text of 257 characters",
        ),
        (
            create(entity("a", None, *SIXTY), entity("a", None, *SIXTY)),
            "a gets 120 observations; at most 100 an entity are allowed in a call",
        ),
        (
            create(entity("a", None, " ")),
            "entities[0].observations[0] must not be empty or blank",
        ),
        (
            create(entity("a", None, *map(str, range(101)))),
            at_most("entities[0].observations", 100, 101),
        ),
        (
            ask("add_observations", name="abc"),
            "observations is required: a list of at most 100 entries",
        ),
        (add("abc", *map(str, range(101))), at_most("observations", 100, 101)),
        (
            add("abc", "x" * 2001),
            "observations[0] must be text of at most 2000 characters, "
            "not a text of 2001 characters",
        ),
        (ask("create_relations"), "relations is required: a list of at most 200 entries"),
        (relate(*[triple("abc", "uses", "abc")] * 201), at_most("relations", 200, 201)),
        (
            relate(triple("abc", " ", "abc")),
            "relations[0].relationType must not be empty or blank",
        ),
        (ask("delete_entities"), "entityNames is required: a list of at most 50 entries"),
        (ask("delete_relations"), "relations is required: a list of at most 200 entries"),
        (delete(*(f"n{i}" for i in range(51))), at_most("entityNames", 50, 51)),
        (unsay("abc", *map(str, range(101))), at_most("observations", 100, 101)),
        (
            ask("add_observations", observations=[{"entityName": "abc", "contents": SIXTY}] * 2),
            "abc gets 120 observations; at most 100 an entity are allowed in a call",
        ),
        (
            ask("end_relation", relation_id=0),
            "relation_id must be a whole number greater than 0 and up to 9007199254740991, not 0",
        ),
        (
            ask("end_relation", relation_id="1"),
            "relation_id must be a whole number greater than 0 and up to 9007199254740991, not '1'",
        ),
    ],
)
def test_what_is_over_a_limit_is_refused_whole(graph: Graph, asked: Ask, sentence: str) -> None:
    graph.after(create(entity("abc"))).when(asked).then_refused(sentence)


def test_what_is_at_a_limit_is_taken(graph: Graph) -> None:
    graph.after(
        create(*(entity(f"n{i}") for i in range(50))),
        create(entity("n" * 512, "t" * 256, *(f"{i:04}" + "x" * 1996 for i in range(100)))),
        add("n0", *(str(i) for i in range(100))),
        relate(*(triple("n0", f"t{i}", "n1") for i in range(200))),
        search("x" * 500, limit=1000),
        open_nodes(*(f"n{i}" for i in range(1000))),
        delete(*(f"n{i}" for i in range(50))),
    )


# --- against a plain search ----------------------------------------------------------------------

LETTERS = st.sampled_from("aAáÁbBßẞ%_\"' -*İıſσςΣK抓取力ñn\u0301\u200b☕ﬁＡ1\0\t")
TEXTS = st.text(LETTERS, min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
NAMES = TEXTS.filter(lambda text: not set("\0\t") & set(text) and bool(text.strip(" \u200b")))
SMALL = st.lists(
    st.tuples(NAMES, st.one_of(st.none(), TEXTS), st.lists(TEXTS, max_size=3)), max_size=5
)


@example([("a", None, ["áßb"])], ["ASSB", "s", "ssb"])
@given(SMALL, st.lists(TEXTS, min_size=1, max_size=4))
def test_it_finds_what_a_plain_search_finds(
    entities: list[tuple[str, str | None, list[str]]], queries: list[str]
) -> None:
    graph = Graph()
    for name, kind, observations in entities:
        graph.after(create(entity(name, kind, *observations)))
    known = graph.told(read())["entities"]
    every = [text for one in known for text in (one["name"], *one["observations"])]
    parts = [text[i : i + n] for text in every for n in (1, 2, 3, 5) for i in range(4)]
    for query in [*queries, *parts[:20]]:
        wanted = folded(query)
        if not query.strip():
            continue
        expected = [
            one["name"]
            for one in known
            if wanted
            and any(
                wanted in folded(text)
                for text in (one["name"], one["entityType"], *one["observations"])
            )
        ]
        assert graph.names(search(query)) == expected, query
