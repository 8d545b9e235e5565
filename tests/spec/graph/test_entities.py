"""create_entities, add_observations, delete_observations, delete_entities."""

from __future__ import annotations

import msgspec
import pytest

from mnemolog.events.graph import (
    EntitiesAccessed,
    EntitiesCoOccurred,
    EntityCreated,
    EntityDeleted,
    EntityTypeChanged,
    ObservationsAdded,
    ObservationsRemoved,
    RelationEnded,
    RelationKept,
)
from mnemolog.services.families.graph.replies import show_changed
from tests.spec.given import Ask, ask
from tests.spec.given_graph import (
    Graph,
    Reply,
    add,
    create,
    created,
    delete,
    end,
    entity,
    observed,
    open_nodes,
    read,
    relate,
    related,
    search,
    searchable,
    stated,
    triple,
    unsay,
)


def shown(name: str, kind: str, *observations: str) -> Reply:
    return {"name": name, "entityType": kind, "observations": list(observations)}


# --- create_entities -----------------------------------------------------------------------------


def test_an_entity_is_created_with_what_is_said_of_it(graph: Graph) -> None:
    graph.when(create(entity("Astro", "Tool", "6.x", "islands"))).then(
        EntityCreated(entity_id=1, name="Astro", entity_type="Tool"),
        ObservationsAdded(entity_id=1, observations=["6.x", "islands"]),
    ).then_reply({"entities": [shown("Astro", "Tool", "6.x", "islands")]})


def test_an_entity_needs_no_more_than_a_name(graph: Graph) -> None:
    graph.when(ask("create_entities", entities=[{"name": "Astro"}])).then(
        EntityCreated(entity_id=1, name="Astro", entity_type="Generic")
    ).then_reply({"entities": [shown("Astro", "Generic")]})


def test_several_entities_get_ids_in_their_order(graph: Graph) -> None:
    graph.when(create(entity("a"), entity("b"), entity("c"))).then(
        *(EntityCreated(entity_id=n, name=x, entity_type="Generic") for n, x in enumerate("abc", 1))
    )
    graph.when(create(entity("b"), entity("d"))).then(
        EntityCreated(entity_id=4, name="d", entity_type="Generic")
    )


def test_ids_tell_the_partition(graph: Graph) -> None:
    graph = Graph(partition=1, partitions=3)
    graph.after(create(entity("a"), entity("b")), relate(triple("a", "uses", "b")))
    told = graph.told(read())
    assert [one["id"] % 3 for one in told["entities"]] == [told["relations"][0]["id"] % 3] * 2
    assert len({one["id"] for one in told["entities"]}) == 2


def test_an_id_is_not_given_twice(graph: Graph) -> None:
    gone = EntityDeleted(
        entity_id=2, name="b", entity_type="Generic", observations=[], relations=[]
    )
    graph.given(created(1, "a"), created(2, "b"), stated(gone)).when(create(entity("b"))).then(
        EntityCreated(entity_id=3, name="b", entity_type="Generic")
    )


def test_observations_are_merged_and_known_ones_discarded(graph: Graph) -> None:
    graph.given(created(1, "Astro", "Tool"), observed(1, "6.x", "islands")).when(
        create(entity("Astro", "Tool", "islands", "fast", "fast", "6.x"))
    ).then(ObservationsAdded(entity_id=1, observations=["fast"])).then_reply(
        {"entities": [shown("Astro", "Tool", "6.x", "islands", "fast")]}
    )


def test_only_exact_duplicates_are_discarded(graph: Graph) -> None:
    graph.after(create(entity("Astro", "Tool", "Fast"))).when(
        create(entity("Astro", "Tool", "fast", "Fast ", "Fást"))
    ).then(
        ObservationsAdded(entity_id=1, observations=["fast", "Fast ", "Fást"], flagged=[0, 1, 2])
    )


def test_an_upsert_with_nothing_new_is_no_fact(graph: Graph) -> None:
    graph.after(create(entity("Astro", "Tool", "6.x"))).when(
        create(entity("Astro", "Tool", "6.x"))
    ).then().then_reply({"entities": [shown("Astro", "Tool", "6.x")]})


def test_a_type_that_is_left_out_is_kept(graph: Graph) -> None:
    graph.after(create(entity("Astro", "Tool"))).when(create(entity("Astro", None, "6.x"))).then(
        ObservationsAdded(entity_id=1, observations=["6.x"])
    ).then_reply({"entities": [shown("Astro", "Tool", "6.x")]})
    graph.when(
        ask("create_entities", entities=[{"name": "Astro", "entityType": None}])
    ).then().then_reply({"entities": [shown("Astro", "Tool", "6.x")]})


def test_a_type_that_is_given_replaces_the_old_one(graph: Graph) -> None:
    graph.after(create(entity("Astro", "Tool", "6.x"))).when(
        create(entity("Astro", "Framework"))
    ).then(EntityTypeChanged(entity_id=1, entity_type="Framework")).then_reply(
        {"entities": [shown("Astro", "Framework", "6.x")]}
    )
    assert graph.names(search("framework")) == ["Astro"]
    assert graph.names(search("tool")) == []


def test_an_entity_named_twice_in_a_call_is_one(graph: Graph) -> None:
    graph.when(
        create(entity("A", "Tool", "x"), entity("B"), entity("A", "Task", "x", "y"), entity("A"))
    ).then(
        EntityCreated(entity_id=1, name="A", entity_type="Tool"),
        ObservationsAdded(entity_id=1, observations=["x"]),
        EntityCreated(entity_id=2, name="B", entity_type="Generic"),
        EntityTypeChanged(entity_id=1, entity_type="Task"),
        ObservationsAdded(entity_id=1, observations=["y"]),
    ).then_reply({"entities": [shown("A", "Task", "x", "y"), shown("B", "Generic")]})


def test_names_are_told_apart_by_case_and_accents(graph: Graph) -> None:
    names = ["Sesión", "Sesion", "sesión", "Sesión "]
    graph.after(create(*map(entity, names)))
    assert graph.names(read()) == names
    assert graph.names(open_nodes("Sesion")) == ["Sesion"]


# --- add_observations ----------------------------------------------------------------------------


def test_observations_are_added_to_one_entity(graph: Graph) -> None:
    graph.given(created(1, "Astro", "Tool"), observed(1, "6.x")).when(
        add("Astro", "6.x", "fast", "fast")
    ).then(
        ObservationsAdded(entity_id=1, observations=["fast"]), EntitiesAccessed(entity_ids=[1])
    ).then_reply({"entity": shown("Astro", "Tool", "6.x", "fast")})


def test_observations_are_added_to_a_list_of_entities(graph: Graph) -> None:
    graph.given(created(1, "A"), observed(1, "x"), created(2, "B"))
    observations = [
        {"entityName": "B", "contents": ["z"]},
        {"entityName": "A", "contents": ["x", "y"]},
        {"entityName": "B", "contents": ["z", "w"]},
    ]
    graph.when(ask("add_observations", observations=observations)).then(
        ObservationsAdded(entity_id=2, observations=["z"]),
        ObservationsAdded(entity_id=1, observations=["y"]),
        ObservationsAdded(entity_id=2, observations=["w"]),
        EntitiesAccessed(entity_ids=[1, 2]),
    ).then_reply(
        {
            "results": [
                {"entityName": "B", "addedObservations": ["z"]},
                {"entityName": "A", "addedObservations": ["y"]},
                {"entityName": "B", "addedObservations": ["w"]},
            ]
        }
    )
    assert graph.said("B") == ["z", "w"]


@pytest.mark.parametrize(
    "asked",
    [
        add("Nobody", "x"),
        ask(
            "add_observations",
            observations=[
                {"entityName": "A", "contents": ["x"]},
                {"entityName": "Nobody", "contents": ["x"]},
            ],
        ),
        unsay("Nobody", "x"),
    ],
    ids=["one", "list", "delete"],
)
def test_an_entity_that_is_not_there_is_not_made(graph: Graph, asked: Ask) -> None:
    graph.after(create(entity("A"))).when(asked).then_refused("Entity not found: Nobody")


def test_the_two_shapes_of_adding_are_not_mixed(graph: Graph) -> None:
    graph.after(create(entity("A")))
    said = {"entityName": "A", "contents": ["x"]}
    for arguments in (
        {"observations": ["x"]},
        {"name": "B", "observations": [said]},
        {"name": "A", "observations": ["x", said]},
        {"observations": [said, "x"]},
    ):
        graph.when(ask("add_observations", **arguments)).then_refused("Give either name with …")


def test_a_name_that_the_list_gives_anyway_does_no_harm(graph: Graph) -> None:
    """A model that is offered both sends both."""
    graph.after(create(entity("A")))
    said = {"entityName": "A", "contents": ["x"]}
    graph.when(ask("add_observations", name="A", observations=[said]))
    graph.then_reply({"results": [{"entityName": "A", "addedObservations": ["x"]}]})
    deletions = [{"entityName": "A", "observations": ["x"]}]
    graph.when(ask("delete_observations", name="A", deletions=deletions))
    graph.then_reply({"success": True, "message": "Observations deleted successfully"})
    assert graph.said("A") == []


# --- delete_observations -------------------------------------------------------------------------


def test_observations_are_deleted_by_their_exact_text(graph: Graph) -> None:
    graph.given(created(1, "Astro", "Tool"), observed(1, "6.x", "Fast", "islands")).when(
        unsay("Astro", "Fast", "fast", "island", "6.x", "6.x")
    ).then(ObservationsRemoved(entity_id=1, observations=["Fast", "6.x"])).then_reply(
        {"entity": shown("Astro", "Tool", "islands")}
    )
    assert graph.names(search("6.x")) == []
    assert graph.names(search("islands")) == ["Astro"]


def test_deleting_what_was_not_said_changes_nothing(graph: Graph) -> None:
    graph.after(create(entity("Astro", "Tool", "6.x"))).when(unsay("Astro", "7.x")).then()
    graph.then_reply({"entity": shown("Astro", "Tool", "6.x")})


def test_what_was_deleted_can_be_said_again_and_comes_last(graph: Graph) -> None:
    graph.after(create(entity("A", None, "x", "y")), unsay("A", "x"), add("A", "x"))
    assert graph.said("A") == ["y", "x"]
    graph.after(unsay("A", "x", "y"), add("A", "z"))
    assert graph.said("A") == ["z"]


def test_deleting_one_of_two_that_fold_alike_leaves_the_other_findable(graph: Graph) -> None:
    graph.after(create(entity("A", None, "Café", "cafe")), unsay("A", "cafe"))
    assert graph.names(search("cafe")) == ["A"]
    graph.after(unsay("A", "Café"))
    assert graph.names(search("cafe")) == []


def test_observations_of_several_entities_are_deleted(graph: Graph) -> None:
    graph.after(create(entity("A", None, "x", "y"), entity("B", None, "x")))
    deletions = [
        {"entityName": "A", "observations": ["x"]},
        {"entityName": "Nobody", "observations": ["x"]},
        {"entityName": "B", "observations": ["other"]},
        {"entityName": "A", "observations": ["x", "y"]},
    ]
    graph.when(ask("delete_observations", deletions=deletions)).then(
        ObservationsRemoved(entity_id=1, observations=["x", "y"])
    ).then_reply({"success": True, "message": "Observations deleted successfully"})
    assert (graph.said("A"), graph.said("B")) == ([], ["x"])


def test_the_two_shapes_of_deleting_are_not_mixed(graph: Graph) -> None:
    graph.after(create(entity("A", None, "x")))
    deletions = [{"entityName": "A", "observations": ["x"]}]
    for arguments in (
        {},
        {"name": "A"},
        {"observations": ["x"]},
        {"name": "A", "observations": ["x"], "deletions": deletions},
        {"name": "B", "deletions": deletions},
    ):
        graph.when(ask("delete_observations", **arguments)).then_refused("Give either name and …")


# --- delete_entities -----------------------------------------------------------------------------


def test_a_deleted_entity_takes_everything_with_it(graph: Graph) -> None:
    graph.given(
        created(1, "A", "Tool"),
        observed(1, "x"),
        created(2, "B"),
        created(3, "C"),
        related(1, 1, "uses", 2),
        related(2, 3, "uses", 1),
        related(3, 2, "uses", 3),
        related(4, 1, "likes", 1),
        stated(RelationEnded(relation_id=2)),
        stated(EntitiesCoOccurred(entity_ids=[1, 2, 3])),
    ).when(delete("A")).then(
        EntityDeleted(
            entity_id=1,
            name="A",
            entity_type="Tool",
            observations=["x"],
            relations=[
                RelationKept(1, "A", "B", "uses"),
                RelationKept(2, "C", "A", "uses"),
                RelationKept(4, "A", "A", "likes"),
            ],
        )
    ).then_reply({"deleted": ["A"]})
    told = graph.told(read(include_ended=True))
    assert [one["name"] for one in told["entities"]] == ["B", "C"]
    assert [one["id"] for one in told["relations"]] == [3]
    assert graph.pairs() == {(2, 3): 1}
    assert {number for number, _ in searchable(graph.state)} == {2, 3}
    graph.after(create(entity("A")))
    assert graph.said("A") == []


def test_a_relation_between_two_deleted_entities_is_told_once(graph: Graph) -> None:
    graph.given(created(1, "A"), created(2, "B"), related(1, 1, "uses", 2)).when(
        delete("A", "B")
    ).then(
        EntityDeleted(
            entity_id=1,
            name="A",
            entity_type="Generic",
            observations=[],
            relations=[RelationKept(1, "A", "B", "uses")],
        ),
        EntityDeleted(entity_id=2, name="B", entity_type="Generic", observations=[], relations=[]),
    )
    assert graph.told(read()) == {"entities": [], "relations": []}


def test_those_that_are_not_there_are_reported_and_the_others_deleted(graph: Graph) -> None:
    graph.after(create(entity("A"), entity("B"))).when(delete("A", "Gone", "B", "A")).then_reply(
        {"deleted": ["A", "B"], "errors": ["Entity not found: Gone", "Entity not found: A"]}
    )
    graph.when(delete("A")).then().then_reply({"deleted": [], "errors": ["Entity not found: A"]})


# --- nothing -------------------------------------------------------------------------------------


def test_an_empty_list_is_nothing_to_do(graph: Graph) -> None:
    graph.after(create(entity("A", "Tool", "x")))
    one = {"entity": shown("A", "Tool", "x")}
    for asked, reply in (
        (create(), {"entities": []}),
        (relate(), {"relations": []}),
        (add("A"), one),
        (ask("add_observations", observations=[]), {"results": []}),
        (delete(), {"deleted": []}),
        (unsay("A"), one),
        (ask("delete_relations", relations=[]), {"deleted": []}),
        (
            ask("delete_observations", deletions=[]),
            {"success": True, "message": "Observations deleted successfully"},
        ),
    ):
        graph.when(asked).then().then_reply(reply)
    graph.when(add("Nobody")).then_refused("Entity not found: Nobody")


# --- tenants -------------------------------------------------------------------------------------


def test_tenants_do_not_see_each_other(graph: Graph) -> None:
    graph.after(
        create(entity("A", "Tool", "ours"), entity("B")),
        relate(triple("A", "uses", "B")),
        create(entity("A", "Task", "theirs"), tenant="rival"),
    )
    assert graph.told(read(tenant="rival")) == {
        "entities": [{"id": 3, **shown("A", "Task", "theirs")}],
        "relations": [],
    }
    assert graph.names(search("ours", tenant="rival")) == []
    assert graph.names(search("o", tenant="rival")) == []
    assert graph.names(open_nodes("A", "B", tenant="rival")) == ["A"]
    assert graph.told(read(tenant="third")) == {"entities": [], "relations": []}
    graph.when(add("B", "x", tenant="rival")).then_refused("Entity not found: B")
    graph.when(end(1, tenant="rival")).then_refused("Relation 1 does not exist")
    graph.after(delete("A", "B", tenant="rival"))
    assert graph.names(read()) == ["A", "B"]
    assert graph.said("A") == ["ours"]


def test_what_no_log_could_take_is_refused_and_changes_nothing(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemolog.services.decider.partition.MAX_DECISION_BYTES", 3000)
    graph.when(create(entity("A", None, "a" * 2000)))
    refused = "What follows from this call takes …"
    graph.when(add("A", "b" * 1500, "c" * 1500)).then_refused(refused)
    assert graph.said("A") == ["a" * 2000]


def test_a_decision_does_not_hold_what_the_state_knows(graph: Graph) -> None:
    graph.when(create(entity("A", None, *(f"{n}: " + "a" * 1900 for n in range(50)))))
    for asked in (add("A"), unsay("A", "never said"), create(entity("A"))):
        graph.when(asked)
        assert len(graph.log[-1]) < 500
        assert len(msgspec.json.encode(graph.reply)) > 50 * 1900


def test_the_same_call_again_shows_the_entity_as_it_is(graph: Graph) -> None:
    graph.when(create(entity("A", "Task", "first"), key="once"))
    graph.when(add("A", "second"))
    graph.when(create(entity("A", "Task", "first"), key="once")).then()
    graph.then_reply({"entities": [shown("A", "Task", "first", "second")]})
    graph.after(delete("A"))
    graph.when(create(entity("A", "Task", "first"), key="once")).then()
    graph.then_reply({"entities": [shown("A", "Task")]})


def test_what_an_earlier_version_replied_is_told_as_it_was(graph: Graph) -> None:
    whole = {"entities": [shown("A", "Task", "first")]}
    assert show_changed(graph.state.view, whole) == whole


def test_an_entity_that_could_not_be_shown_again_does_not_come_to_be(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemolog.projections.graph.state.MAX_ANSWER_CHARACTERS", 5000)
    graph.when(create(entity("A", None, "a" * 2000, "b" * 2000)))
    graph.when(add("A", "c" * 1001)).then_refused("The entity would have 5,001 characters …")
    graph.when(create(entity("A", None, "c" * 1001))).then_refused("The entity would have …")
    graph.when(create(entity("A"), entity("B", None, "b" * 1001)))
    rows = graph.reply["entities"]
    assert [(row["name"], len(row["observations"])) for row in rows] == [("A", 2), ("B", 0)]
    assert rows[1]["omitted"] == "open_nodes shows its observations"
