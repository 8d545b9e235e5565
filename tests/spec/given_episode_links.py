"""The words of `given` for what links episodes: tags and relationships.

    episodes.given(begun(1), begun(2)) \\
            .when(relate(1, "depends_on", 2)) \\
            .then(RelationshipAdded(...))

Episodes are spoken of by their numbers; `called` is the id that callers know. A read is answered
from the state as a gateway would, and then decided like any other call.
"""

from __future__ import annotations

from typing import Any, Self, cast

from msgspec.structs import replace

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Answered, Refusal
from mnemolog.events.episodes import EpisodeCreated, RelationshipAdded
from mnemolog.projections.episodes.state import episodes_space
from mnemolog.services.decider.tool import Asked
from mnemolog.services.reader.reader import Reader
from tests.spec.given import Ask, Given, Scenario, ask, happened

Reply = dict[str, Any]

NOT_FOUND, VALIDATION = -32004, -32005


def called(number: int) -> str:
    """The id of the episode with this number."""
    return f"00000000-0000-8000-8000-{number:012}"


def stated(fact: Fact, *, tenant: str = "default", **more: Any) -> Given:
    """A fact that has happened to a tenant's episodes."""
    return happened(fact, tenant=tenant, space=episodes_space(tenant), **more)


def begun(number: int, task: str | None = None, *tags: str, **more: Any) -> Given:
    fact = EpisodeCreated(
        number=number,
        episode_id=called(number),
        task_description=f"task {number}" if task is None else task,
        domain="web-api",
        task_type="testing",
        tags=list(tags),
    )
    return stated(fact, **more)


def linked(number: int, source: int, kind: str, target: int, **more: Any) -> Given:
    fact = RelationshipAdded(
        relationship=number,
        relationship_id=f"r-{number}",
        source=source,
        target=target,
        relationship_type=kind,
    )
    return stated(fact, **more)


# --- what is asked -------------------------------------------------------------------------------


def add_tags(number: int, *tags: str, **more: Any) -> Ask:
    return ask("add_episode_tags", episode_id=called(number), tags=list(tags), **more)


def remove_tags(number: int, *tags: str, **more: Any) -> Ask:
    return ask("remove_episode_tags", episode_id=called(number), tags=list(tags), **more)


def set_tags(number: int, *tags: str, **more: Any) -> Ask:
    return ask("set_episode_tags", episode_id=called(number), tags=list(tags), **more)


def get_tags(number: int, **more: Any) -> Ask:
    return ask("get_episode_tags", episode_id=called(number), **more)


def search_tags(*tags: str, **more: Any) -> Ask:
    return ask("search_episodes_by_tags", tags=list(tags), **more)


def _between(tool: str, source: int, kind: str, target: int, **more: Any) -> Ask:
    return ask(
        tool,
        from_episode_id=called(source),
        to_episode_id=called(target),
        relationship_type=kind,
        **more,
    )


def relate(source: int, kind: str, target: int, **more: Any) -> Ask:
    return _between("add_episode_relationship", source, kind, target, **more)


def unrelate(relationship_id: str, **more: Any) -> Ask:
    return ask("remove_episode_relationship", relationship_id=relationship_id, **more)


def exists(source: int, kind: str, target: int, **more: Any) -> Ask:
    return _between("check_relationship_exists", source, kind, target, **more)


def no_cycles(source: int, kind: str, target: int, **more: Any) -> Ask:
    return _between("validate_no_cycles", source, kind, target, **more)


def relationships_of(number: int, **more: Any) -> Ask:
    return ask("get_episode_relationships", episode_id=called(number), **more)


def related_to(number: int, **more: Any) -> Ask:
    return ask("find_related_episodes", episode_id=called(number), **more)


def graph_of(number: int, **more: Any) -> Ask:
    return ask("get_dependency_graph", episode_id=called(number), **more)


def order_of(*numbers: int, **more: Any) -> Ask:
    ids = [called(number) for number in numbers]
    return ask("get_topological_order", episode_ids=ids, **more)


# --- the scenario --------------------------------------------------------------------------------


class Episodes(Scenario):
    """A partition from nothing; `answer` is what the last read told its caller."""

    answer: Reply

    def when(self, asked: Ask) -> Self:
        tool = self.catalogue.tools.get(asked.tool)
        if tool is not None and tool.answer is not None:
            found = self._answered(asked)
            if isinstance(found, Refusal):
                asked = replace(asked, refused=found)
            else:
                asked = replace(asked, answered=found)
        super().when(asked)
        return self

    def told(self, asked: Ask) -> Reply:
        """What a call that is not refused tells its caller."""
        self.when(asked)
        assert self.decision is not None and not self.decision.refused, self.reply
        return self.answer if self.catalogue.tools[asked.tool].reads else self.reply

    def then_not_found(self, kind: str, name: str) -> Self:
        sentence = f"Resource not found: there is no {kind} {name!r}"
        return self.then_error(NOT_FOUND, sentence, resource=kind, id=name)

    def then_invalid(self, field: str, issue: str, **more: Any) -> Self:
        sentence = f"Validation error: {field} {issue}"
        return self.then_error(VALIDATION, sentence, field=field, issue=issue, **more)

    def then_error(self, code: int, sentence: str, **data: Any) -> Self:
        """The call is refused with this sentence, code and data, and changes nothing."""
        assert self.decision is not None
        assert self.decision.refused, f"not refused: {self.reply}"
        assert (self.decision.code, self.reply["error"]) == (code, sentence)
        assert {name: self.reply.get(name) for name in data} == data
        return self.then_nothing_changed()

    def then_rebuilt(self) -> Self:
        """The decisions alone give the same state."""
        assert self.rebuilt().digest() == self.state.digest()
        return self

    def _answered(self, asked: Ask) -> Answered | Refusal | None:
        return self.answered(asked, self._reader)

    def _reader(self, read: Asked) -> Reader:
        # Reads of tags and relationships look at the state alone.
        return Reader(self.state.reader(), cast(Any, None), None, lambda _: None)
