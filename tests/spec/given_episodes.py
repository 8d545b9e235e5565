"""The words of `given` for episodes.

    first = episodes.ran(task("Deploy orders"), step("build"), step("deploy"), ends=failed("down"))
    assert episodes.told(compare(first, second))["episodes_compared"] == 2

    episodes.given(begun(1), begun(2)) \\
            .when(relate(1, "depends_on", 2)) \\
            .then(RelationshipAdded(...))

An episode is known by the id that creating it gave; one that was given as a fact is spoken of by
its number, and `called` is its id. Reads are answered as a gateway would, from the state and from
real search indexes that are fed with each decision, and then decided like any other call. Vectors
are given by what a text begins with, so that a cosine is what the specification says it is; a query
without a vector is in a script that the model does not cover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision, Refusal
from mnemolog.events.episodes import EpisodeCreated, RelationshipAdded
from mnemolog.projections.episodes import patterns, state
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE, episodes_space
from mnemolog.projections.ports import Hit, TextIndex, Vector, VectorIndex, VectorsAway
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.services.counted import Counted
from mnemolog.services.decider.tool import Asked
from mnemolog.services.families.episodes.describing import describe
from mnemolog.services.node.following.follow import feed_text, feed_vectors
from mnemolog.services.reader.reader import Reader, VectorModel
from tests.spec.given import DIMS, MODEL, NOW_US, Ask, Given, Scenario, ask, happened

Reply = dict[str, Any]
SECOND_US = 1_000_000
NOT_FOUND, VALIDATION, SERVER = -32004, -32005, -32000
NOBODY = "550e8400-e29b-41d4-a716-446655440001"
"""The id of no episode."""
MISSING = "Field is required"


def seconds(number: float) -> int:
    """The moment so many seconds after `NOW_US`."""
    return NOW_US + round(number * SECOND_US)


# --- what is given -------------------------------------------------------------------------------


def called(number: int) -> str:
    """The id of the episode that was given with this number."""
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


def task(
    description: str, domain: str = "deployment", task_type: str = "code_generation", **more: Any
) -> Ask:
    given = {"task_description": description, "domain": domain, "task_type": task_type}
    return ask("create_episode", **given, **more)


def login(description: str = "Fix the login", **more: Any) -> Ask:
    """The task of those specifications in which it matters little."""
    return task(description, **{"domain": "web-api", "task_type": "debugging", **more})


def step(tool: str, action: str = "go on", result: str | None = "success", **more: Any) -> Reply:
    """What a step says, but for the episode and its number."""
    given: Reply = {"tool": tool, "action": action, **more}
    return given if result is None else {"result": {"type": result}, **given}


def add_step(
    episode: str, number: int, tool: str = "editor", action: str = "Write auth.rs", **more: Any
) -> Ask:
    given = {"episode_id": episode, "step_number": number, "tool": tool, "action": action}
    return ask("add_episode_step", **given, **more)


def succeeded(verdict: str = "done", **more: Any) -> Reply:
    return {"outcome_type": "success", "verdict": verdict, **more}


def partly(completed: list[str], failed: list[str], **more: Any) -> Reply:
    given = {"completed": completed, "failed": failed, "verdict": "some of it"}
    return {"outcome_type": "partial_success", **given, **more}


def failed(reason: str = "it broke", **more: Any) -> Reply:
    return {"outcome_type": "failure", "reason": reason, **more}


ENDS = {
    "success": succeeded("It works"),
    "partial_success": partly(["login"], ["logout"], verdict="Half of it"),
    "failure": failed("No access"),
}


def complete(episode: str, ends: str | Reply = "success", **more: Any) -> Ask:
    """It ends as is said, or in the usual way of that type."""
    given = {**(ENDS[ends] if isinstance(ends, str) else ends), **more}
    return ask("complete_episode", episode_id=episode, **given)


def delete(episode: str, *, confirm: bool = True, **more: Any) -> Ask:
    return ask("delete_episode", episode_id=episode, confirm=confirm, **more)


def get(episode: str, **more: Any) -> Ask:
    return ask("get_episode", episode_id=episode, **more)


def timeline(episode: str, **more: Any) -> Ask:
    return ask("get_episode_timeline", episode_id=episode, **more)


def bulk(*episodes: str, **more: Any) -> Ask:
    return ask("bulk_episodes", episode_ids=list(episodes), **more)


def query(text: str, **more: Any) -> Ask:
    return ask("query_memory", **{"query": text, "domain": "web-api", **more})


def semantic(text: str, **more: Any) -> Ask:
    return ask("query_semantic_memory", query=text, **more)


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
    ends = {"from_episode_id": called(source), "to_episode_id": called(target)}
    return ask(tool, **ends, relationship_type=kind, **more)


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


class Away:
    """A vector store that does not answer."""

    def search(self, *args: Any, **more: Any) -> list[Hit]:
        raise VectorsAway("no answer")


class Episodes(Scenario):
    """A partition from nothing, with its search indexes if it has a directory for them. `answer` is
    what the last read told its caller; `queries` are the vectors of what is searched for."""

    away = False
    installed = True

    def __init__(self, directory: Path | None = None, *, model: VectorModel | None = MODEL) -> None:
        super().__init__(model=model)
        self.text = None if directory is None else TantivyText(directory / "text")
        self.vectors = (
            None
            if directory is None or model is None
            else EdgeVectors(directory / "vectors", DIMS, model.name)
        )
        self.queries: dict[str, bytes] = {}

    def close(self) -> None:
        for index in (self.text, self.vectors):
            if index is not None:
                index.close()

    # given

    def begun(self, asked: Ask | str = "Fix the login", *steps: Reply, **more: Any) -> str:
        """The id of an episode that goes on; its steps have the numbers from 1."""
        if isinstance(asked, str):
            asked = login(asked, **more)
        episode_id = str(self.after(asked).reply["episode_id"])
        for number, one in enumerate(steps, start=1):
            self.after(add_step(episode_id, number, **one, at_us=asked.at_us, tenant=asked.tenant))
        return episode_id

    def ran(
        self, asked: Ask, *steps: Reply, ends: Reply | None = None, seconds: float = 60.0
    ) -> str:
        """An episode from its beginning to its end, which takes so long."""
        episode_id = self.begun(asked, *steps)
        more = {"at_us": asked.at_us + round(seconds * SECOND_US), "tenant": asked.tenant}
        self.after(complete(episode_id, ends or succeeded(), **more))
        return episode_id

    def after(self, *asked: Ask) -> Self:
        """Each of these is asked, and none may be refused."""
        for one in asked:
            self.when(one)
            assert not self.decided.refused, self.reply
        return self

    def described(self, vectors: Mapping[str, bytes], tenant: str = "default") -> Self:
        """All that waits is described: with the vector of what its text begins with, or, having
        none, as something that the model does not cover."""
        space = episodes_space(tenant)
        view = self.state.view
        found = [one for one in DESCRIBED.waiting(view, MODEL.name, 10_000) if one.space == space]
        rows, given = [], {}
        for one in describe.made(view, found, len, lambda _: True):
            text = one.item.text
            vector = next((v for name, v in vectors.items() if text.startswith(name)), None)
            rows.append(replace(one.item, covered=vector is not None))
            if vector is not None:
                given[text] = vector
        items = msgspec.to_builtins(rows)
        asked = ask(describe.NAME, space=space, descriptions=items, tenant=tenant, vectors=given)
        return self.after(asked)

    # when

    def when(self, asked: Ask) -> Self:
        tool = self.catalogue.tools.get(asked.tool)
        if tool is not None and tool.answer is not None and asked.answered is None:
            found = self.answered(asked, self._reader)
            if isinstance(found, Refusal):
                asked = replace(asked, refused=found)
            else:
                asked = replace(asked, answered=found)
        return super().when(asked)

    def when_bytes(self, data: bytes, vectors: Mapping[str, bytes] | None = None) -> Self:
        offset = self.state.next_offset
        super().when_bytes(data, vectors)
        counted = Counted(offset, self.decided, self.decode(self.decided))
        projected = self.catalogue.projected
        if self.text is not None:
            feed_text(self.text, projected, 0, counted)
        if self.vectors is not None:
            feed_vectors(self.vectors, projected, MODEL.name, 0, counted)
        return self

    def told(self, asked: Ask) -> Reply:
        """What a read tells its caller, or the reply of a write."""
        self.after(asked)
        return self.answer if self.catalogue.tools[asked.tool].reads else self.reply

    def found(self, asked: Ask) -> list[str]:
        """Descriptions of the episodes that a search finds, in their order."""
        return [one["task_description"] for one in self.told(asked)["episodes"]]

    # then

    def then_invalid(self, field: str, issue: str, value: Any, **more: Any) -> Self:
        """The call is refused as a wrong argument, with this data and nothing else."""
        self._refused(VALIDATION, {"field": field, "issue": issue, "value": value, **more})
        if issue != MISSING:  # That it is missing, the sentence says in words of its own.
            assert self.reply["error"] == f"Validation error: {field} {issue}"
        return self

    def then_not_found(self, name: str, kind: str = "episode") -> Self:
        self._refused(NOT_FOUND, {"resource": kind, "id": name})
        assert self.reply["error"] == f"Resource not found: there is no {kind} {name!r}"
        return self

    def then_server_error(self, details: str) -> Self:
        return self._refused(SERVER, {"details": details})

    def then_refused_with(self, code: int, **data: Any) -> Self:
        """The call is refused with this code and, among other things, this data; it leaves no trace
        in the state."""
        assert self.decided.refused, f"not refused: {self.reply}"
        assert self.decided.code == code, self.reply
        assert {name: self.reply.get(name) for name in data} == data
        assert self.reply["error"]
        return self.then_nothing_changed()

    def _refused(self, code: int, data: Reply) -> Self:
        self.then_refused_with(code, **data)
        assert set(self.reply) == {"error", *data}
        return self

    def then_rebuilt(self) -> Self:
        """The decisions alone give the same state."""
        fresh = self.rebuilt()
        assert fresh.digest() == self.state.digest()
        fresh.close()
        return self

    # what there is now

    @property
    def decided(self) -> Decision:
        return self._decided()

    def shown(self, episode_id: str) -> Reply:
        return self.told(get(episode_id))

    def pattern(self, kind: str, about: str = "") -> patterns.Pattern:
        """The one pattern of a kind whose description says this."""
        (found,) = [one for one in self.patterns(kind) if about in one.description]
        return found

    def patterns(self, kind: str | None = None) -> list[patterns.Pattern]:
        """Read without leaving a trace, in the order in which they were found."""
        rows = self.state.view.all("SELECT * FROM pattern ORDER BY id")
        return [one for row in rows if kind in (None, (one := patterns.Pattern(*row)).kind)]

    def episode(self, episode_id: str, tenant: str = "default") -> state.Episode:
        view = self.state.view
        found = state.episode(view, view.space_id(episodes_space(tenant)), episode_id)
        assert found is not None, f"there is no episode {episode_id}"
        return found

    # answering

    def _reader(self, read: Asked) -> Reader:
        assert read.tool is not None
        vectors = cast(VectorIndex, Away()) if self.away else self.vectors
        pending = 0
        if read.tool.awaits and self.model is not None:
            space = episodes_space(read.call.tenant)
            pending = DESCRIBED.count(self.state.view, MODEL.name, space, EPISODE)
        return Reader(
            self.state.reader(),
            cast(TextIndex, self.text),
            vectors,
            self._embed,
            model=self.model,
            loaded=lambda: MODEL.name if self.model and self.installed else None,
            pending=pending,
        )

    def _embed(self, text: str) -> Callable[[], Vector] | None:
        vector = self.queries.get(text) if self.model and self.installed else None
        return None if vector is None else lambda: np.frombuffer(vector, dtype=np.float16)
