"""The words of `given` for episodes: begun, gone through, completed, found again.

    one = episodes.begun("Fix the login", domain="web-api")
    episodes.after(step(one, 1, "editor", "Write auth.rs"), complete(one, verdict="works"))

The indexes are the real ones, fed with each decision as a node feeds them. Vectors are given by an
episode's description, so that a similarity is what the specification says it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from mnemolog.events.envelope import Answered, Decision, Refusal
from mnemolog.projections.episodes.state import DESCRIBED
from mnemolog.projections.ports import Hit, Vector, VectorIndex, VectorsAway
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.services.counted import Counted
from mnemolog.services.decider.tool import Asked
from mnemolog.services.families.episodes.describing import describe
from mnemolog.services.node.following.follow import feed_text, feed_vectors
from mnemolog.services.reader.reader import Reader, VectorModel
from tests.spec.given import DIMS, MODEL, Ask, Scenario, ask

Reply = dict[str, Any]
NOBODY = "550e8400-e29b-41d4-a716-446655440001"
"""The id of no episode."""


# --- what is asked -------------------------------------------------------------------------------


def begin(description: str = "Fix the login", **more: Any) -> Ask:
    given = {"domain": "web-api", "task_type": "debugging", **more}
    return ask("create_episode", task_description=description, **given)


def step(
    episode: str, number: int, tool: str = "editor", action: str = "Write auth.rs", **more: Any
) -> Ask:
    envelope = {name: more.pop(name) for name in ("at_us", "tenant") if name in more}
    given = {"episode_id": episode, "step_number": number, "tool": tool, "action": action, **more}
    return Ask(tool="add_episode_step", arguments=msgspec.json.encode(given), **envelope)


def complete(episode: str, kind: str = "success", **more: Any) -> Ask:
    every: dict[str, Reply] = {
        "success": {"verdict": "It works"},
        "partial_success": {"verdict": "Half of it", "completed": ["login"], "failed": ["logout"]},
        "failure": {"reason": "No access"},
    }
    given = {**every[kind], **more}
    return ask("complete_episode", episode_id=episode, outcome_type=kind, **given)


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


# --- the scenario --------------------------------------------------------------------------------


class Away:
    """A vector store that does not answer."""

    def search(self, *args: Any, **more: Any) -> list[Hit]:
        raise VectorsAway("no answer")


class Episodes(Scenario):
    """A partition from nothing, with its search indexes. `answer` is what the last read told its
    caller; `queries` are the vectors of what is searched for: a query without one is in a script
    that the model does not cover."""

    answer: Reply
    away = False
    installed = True

    def __init__(self, directory: Path, *, model: VectorModel | None = MODEL) -> None:
        super().__init__(model=model)
        self.directory = directory
        self.text = TantivyText(directory / "text")
        self.vectors = EdgeVectors(directory / "vectors", DIMS, MODEL.name)
        self.queries: dict[str, bytes] = {}

    def close(self) -> None:
        self.text.close()
        self.vectors.close()

    # when

    def when(self, asked: Ask) -> Self:
        tool = self.catalogue.tools.get(asked.tool)
        if tool is not None and tool.answer is not None and asked.answered is None:
            found = self._answered(asked)
            if isinstance(found, Refusal):
                asked = replace(asked, refused=found)
            else:
                asked = replace(asked, answered=found)
        return super().when(asked)

    def when_bytes(self, data: bytes, vectors: Mapping[str, bytes] | None = None) -> Self:
        offset = self.state.next_offset
        super().when_bytes(data, vectors)
        counted = Counted(offset, self._decided(), self.decode(self._decided()))
        feed_text(self.text, self.catalogue.projected, 0, counted)
        feed_vectors(self.vectors, self.catalogue.projected, MODEL.name, 0, counted)
        return self

    def after(self, *asked: Ask) -> Self:
        """Each of these is asked, and none may be refused."""
        for one in asked:
            self.when(one)
            assert not self._decided().refused, self.reply
        return self

    def begun(self, description: str = "Fix the login", **more: Any) -> str:
        """The id of a new episode."""
        return str(self.after(begin(description, **more)).reply["episode_id"])

    def told(self, asked: Ask) -> Reply:
        """What a read tells its caller, or the reply of a write."""
        self.after(asked)
        return self.answer if self.catalogue.tools[asked.tool].reads else self.reply

    def found(self, asked: Ask) -> list[str]:
        """Descriptions of the episodes that a search finds, in their order."""
        return [one["task_description"] for one in self.told(asked)["episodes"]]

    def described(self, vectors: Mapping[str, bytes]) -> Self:
        """All that waits is described: with the vector that its description has here, or, having
        none, as something that the model does not cover."""
        view = self.state.view
        waiting = DESCRIBED.waiting(view, MODEL.name, 10_000)
        ready = describe.made(view, waiting, len, lambda text: text.split("\n")[0] in vectors)
        items = [one.item for one in ready]
        given = {one.text: vectors[one.text.split("\n")[0]] for one in items if one.covered}
        rows = msgspec.to_builtins(items)
        space = "default/episodes"
        return self.after(ask(describe.NAME, space=space, descriptions=rows, vectors=given))

    # then

    def then_invalid(self, field: str, issue: str, value: Any) -> Self:
        """The call is refused as a wrong argument, and leaves no trace in the state."""
        return self._refused(-32005, {"field": field, "issue": issue, "value": value})

    def then_not_found(self, episode: str) -> Self:
        return self._refused(-32004, {"resource": "episode", "id": episode})

    def then_server_error(self, details: str) -> Self:
        return self._refused(-32000, {"details": details})

    def _refused(self, code: int, data: Reply) -> Self:
        decision = self._decided()
        assert decision.refused, f"not refused: {decision.reply.decode()}"
        assert {name: one for name, one in self.reply.items() if name != "error"} == data
        assert decision.code == code
        assert self.reply["error"]
        return self.then_nothing_changed()

    @property
    def decided(self) -> Decision:
        return self._decided()

    # answering

    def _answered(self, asked: Ask) -> Answered | Refusal | None:
        return self.answered(asked, self._reader)

    def _reader(self, read: Asked) -> Reader:
        vectors = cast(VectorIndex, Away()) if self.away else self.vectors
        space = f"{read.call.tenant}/episodes"
        waits = read.tool is not None and read.tool.awaits and self.model is not None
        return Reader(
            self.state.reader(),
            self.text,
            vectors if self.model else None,
            self._embed,
            model=self.model,
            loaded=lambda: MODEL.name if self.model and self.installed else None,
            pending=DESCRIBED.count(self.state.view, MODEL.name, space, "episode") if waits else 0,
        )

    def _embed(self, text: str) -> Callable[[], Vector] | None:
        vector = self.queries.get(text) if self.model and self.installed else None
        return None if vector is None else lambda: np.frombuffer(vector, dtype=np.float16)
