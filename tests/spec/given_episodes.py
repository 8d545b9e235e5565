"""The words of `given` for episodes.

    first = episodes.ran(task("Deploy orders"), step("build"), step("deploy"), ends=failed("down"))
    assert episodes.told(compare(first, second))["episodes_compared"] == 2

An episode is known by the id that creating it gave. Reads are answered as a gateway would, from the
state and from real search indexes that are fed with each decision, and then decided like any other
call. Vectors are given by what a text begins with, so that a cosine is what the specification says
it is; a query without a vector is in a script that the model does not cover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from msgspec.structs import replace

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Answered, Refusal
from mnemolog.projections.episodes import patterns, state
from mnemolog.projections.episodes.state import DESCRIBED, episodes_space
from mnemolog.projections.ports import Vector
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.services.counted import Counted
from mnemolog.services.decider.tool import Asked
from mnemolog.services.families.episodes.describing import describe
from mnemolog.services.node.following.follow import feed_text, feed_vectors
from mnemolog.services.reader.reader import Reader
from tests.spec.given import DIMS, MODEL, NOW_US, Ask, Given, Scenario, ask, happened

Reply = dict[str, Any]
SECOND_US = 1_000_000


def experienced(fact: Fact, *, tenant: str = "default", **more: Any) -> Given:
    """A fact that has happened to a tenant's episodes."""
    return happened(fact, tenant=tenant, space=episodes_space(tenant), **more)


# --- what is asked -------------------------------------------------------------------------------


def task(
    description: str, domain: str = "deployment", task_type: str = "code_generation", **more: Any
) -> Ask:
    return ask(
        "create_episode",
        task_description=description,
        domain=domain,
        task_type=task_type,
        **more,
    )


def step(tool: str, action: str = "go on", result: str | None = "success", **more: Any) -> Reply:
    """What a step says, but for the episode and its number."""
    given: Reply = {"tool": tool, "action": action, **more}
    return given if result is None else {"result": {"type": result}, **given}


def succeeded(verdict: str = "done", **more: Any) -> Reply:
    return {"outcome_type": "success", "verdict": verdict, **more}


def partly(completed: list[str], failed: list[str], **more: Any) -> Reply:
    given = {"completed": completed, "failed": failed, "verdict": "some of it"}
    return {"outcome_type": "partial_success", **given, **more}


def failed(reason: str = "it broke", **more: Any) -> Reply:
    return {"outcome_type": "failure", "reason": reason, **more}


def get(episode_id: str, **more: Any) -> Ask:
    return ask("get_episode", episode_id=episode_id, **more)


def delete(episode_id: str, **more: Any) -> Ask:
    return ask("delete_episode", episode_id=episode_id, confirm=True, **more)


# --- the scenario --------------------------------------------------------------------------------


class Episodes(Scenario):
    """A partition from nothing; `answer` is what the last read told its caller, `queries` are the
    vectors of what is searched for."""

    answer: Reply

    def __init__(self, directory: Path, *, has_model: bool = True) -> None:
        super().__init__(model=MODEL if has_model else None)
        self.text = TantivyText(directory / "text")
        self.vectors = EdgeVectors(directory / "vectors", DIMS, MODEL.name) if has_model else None
        self.queries: dict[str, bytes] = {}

    def close(self) -> None:
        self.text.close()
        if self.vectors is not None:
            self.vectors.close()

    # given

    def begun(self, asked: Ask, *steps: Reply) -> str:
        """An episode that goes on; its steps have the numbers from 1."""
        self.when(asked).then_taken()
        episode_id: str = self.reply["episode_id"]
        for number, one in enumerate(steps, start=1):
            more = {"episode_id": episode_id, "step_number": number, **one}
            more |= {"at_us": asked.at_us, "tenant": asked.tenant}
            self.after(ask("add_episode_step", **more))
        return episode_id

    def ran(
        self, asked: Ask, *steps: Reply, ends: Reply | None = None, seconds: float = 60.0
    ) -> str:
        """An episode from its beginning to its end, which takes so long."""
        episode_id = self.begun(asked, *steps)
        more = {"at_us": asked.at_us + round(seconds * SECOND_US), "tenant": asked.tenant}
        self.after(ask("complete_episode", episode_id=episode_id, **(ends or succeeded()), **more))
        return episode_id

    def after(self, *asked: Ask) -> Self:
        """Each of these is asked, and none may be refused."""
        for one in asked:
            self.when(one).then_taken()
        return self

    def described(self, vectors: Mapping[str, bytes], tenant: str = "default") -> Self:
        """All that waits is described: with the vector of what its text begins with, or, having
        none, as something that the model does not cover."""
        space = episodes_space(tenant)
        view = self.state.view
        found = [one for one in DESCRIBED.waiting(view, MODEL.name, 10_000) if one.space == space]
        made = describe.made(view, found, len, lambda _: True)
        rows, given = [], {}
        for one in made:
            text = one.item.text
            vector = next((v for name, v in vectors.items() if text.startswith(name)), None)
            rows.append(replace(one.item, covered=vector is not None))
            if vector is not None:
                given[text] = vector
        asked = ask(
            describe.NAME,
            space=space,
            descriptions=msgspec.to_builtins(rows),
            tenant=tenant,
            vectors=given,
        )
        return self.after(asked)

    # when

    def when(self, asked: Ask) -> Self:
        tool = self.catalogue.tools.get(asked.tool)
        if tool is not None and tool.answer is not None and asked.answered is None:
            found = self._answered(asked)
            if isinstance(found, Refusal):
                asked = replace(asked, refused=found)
            else:
                asked = replace(asked, answered=found)
        super().when(asked)
        return self

    def when_bytes(self, data: bytes, vectors: Mapping[str, bytes] | None = None) -> Self:
        offset = self.state.next_offset
        super().when_bytes(data, vectors)
        assert self.decision is not None
        counted = Counted(offset, self.decision, self.decode(self.decision))
        projected = self.catalogue.projected
        feed_text(self.text, projected, 0, counted)
        if self.vectors is not None:
            feed_vectors(self.vectors, projected, MODEL.name, 0, counted)
        return self

    def told(self, asked: Ask) -> Reply:
        """What a read tells its caller, or the reply of a write."""
        self.when(asked).then_taken()
        return self.answer if self.catalogue.tools[asked.tool].reads else self.reply

    # then

    def then_taken(self) -> Self:
        assert self.decision is not None
        assert not self.decision.refused, self.reply
        return self

    def then_refused_with(self, code: int, **data: Any) -> Self:
        """The call is refused with this code and, among other things, this data."""
        decision = self._decided()
        assert decision.refused, f"not refused: {decision.reply.decode()}"
        assert decision.code == code, decision.reply
        assert {name: self.reply.get(name) for name in data} == data
        return self.then_nothing_changed()

    # what there is now

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

    def _answered(self, asked: Ask) -> Answered | Refusal | None:
        return self.answered(asked, self._reader)

    def _reader(self, read: Asked) -> Reader:
        has_model = self.model is not None
        return Reader(
            self.state.reader(),
            self.text,
            self.vectors,
            self._embed,
            model=self.model,
            loaded=lambda: MODEL.name if has_model else None,
        )

    def _embed(self, query: str) -> Callable[[], Vector] | None:
        vector = None if self.model is None else self.queries.get(query)
        return None if vector is None else lambda: np.frombuffer(vector, dtype=np.float16)


def seconds(number: float) -> int:
    """The moment so many seconds after `NOW_US`."""
    return NOW_US + round(number * SECOND_US)
