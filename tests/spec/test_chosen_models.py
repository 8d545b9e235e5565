"""What is decided about a space's model, and what of its vectors a search finds: from the state
alone, with no provider near."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Answered, Call
from mnemolog.events.episodes import ConfigureEmbeddings
from mnemolog.projections.episodes import provided
from mnemolog.projections.ports import Choice
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.decider.decide import Deciding, Inputs
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.families.episodes.deciding.embeddings import LEFT_OUT, Told, clean
from mnemolog.services.families.episodes.describing import provide
from tests.families import CATALOGUE, PROJECTED

SPACE = "default/episodes"


class Given:
    """One partition's decider, fed with calls."""

    def __init__(self, path: Path) -> None:
        self.state = PartitionState(path / "p0000.db", 0, 1, PROJECTED)
        self.decider = PartitionDecider(self.state, Deciding(CATALOGUE, CATALOGUE.rules))
        self.count = 0

    def call(self, tool: str, answered: Told | None = None, **given: Any) -> dict[str, Any]:
        self.count += 1
        reply = b"" if answered is None else msgspec.json.encode(answered)
        data = encode_call(
            Call(
                id=f"call-{self.count}",
                tool=tool,
                arguments=msgspec.json.encode(given),
                space=SPACE,
                received_at_us=self.count,
                answered=None if answered is None else Answered([], reply=reply),
            )
        )
        self.state.begin()
        made = self.decider.decide(data, self.decider.read(data), Inputs())
        self.state.commit()
        told: dict[str, Any] = msgspec.json.decode(made.counted.decision.reply)
        return told

    def configure(self, name: str, dims: int = 4) -> dict[str, Any]:
        told = Told(name=name, model=name, dims=dims)
        return self.call("configure_embeddings", told, provider="openai" if name else "local")

    def begin(self, count: int) -> None:
        for n in range(count):
            self.call(
                "create_episode",
                task_description=f"task {n}",
                domain="shop",
                task_type="debugging",
            )

    def note(self, model: str, number: int, vector: list[float], version: int = 1) -> int:
        data = base64.b64encode(np.array(vector, dtype=np.float16).tobytes()).decode()
        meaning = {"kind": "episode", "number": number, "version": version, "vector": data}
        told = self.call(provide.NAME, space=SPACE, model=model, meanings=[meaning])
        return int(told["embedded"])

    @property
    def choice(self) -> Choice:
        found = provided.choice(self.state.reader(), SPACE)
        assert found is not None
        return found

    def nearest(self, query: list[float], limit: int = 10) -> list[int]:
        wanted = np.array(query, dtype=np.float16)
        found = provided.nearest(self.state.reader(), self.choice, "episode", wanted, limit)
        return [number for number, _ in found]

    def waiting(self) -> list[int]:
        return [one.number for one in provided.waiting(self.state.reader(), SPACE, 100)]


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Given]:
    one = Given(tmp_path)
    yield one
    one.state.close()


def test_what_was_there_waits_for_a_new_model_and_what_comes_later_too(given: Given) -> None:
    given.begin(2)
    assert given.configure("a")["to_embed"] == 2
    given.begin(1)
    assert given.waiting() == [3, 2, 1], "the newest change first"
    assert given.note("a", 2, [1, 0, 0, 0]) == 1
    assert given.waiting() == [3, 1]
    assert given.note("a", 2, [1, 0, 0, 0]) == 0, "it no longer waits"


def test_vectors_of_another_model_or_length_or_version_are_not_taken(given: Given) -> None:
    given.begin(1)
    given.configure("a")
    assert given.note("b", 1, [1, 0, 0, 0]) == 0
    assert given.note("a", 1, [1, 0, 0]) == 0
    assert given.note("a", 1, [1, 0, 0, 0], version=2) == 0
    assert given.note("a", 7, [1, 0, 0, 0]) == 0
    assert given.nearest([1, 0, 0, 0]) == []


def test_the_nearest_are_found_as_vectors_come_and_change_and_go(given: Given) -> None:
    given.begin(3)
    given.configure("a")
    given.note("a", 1, [1, 0, 0, 0])
    assert given.nearest([1, 0, 0, 0]) == [1]
    given.note("a", 2, [0.8, 0.6, 0, 0])
    given.note("a", 3, [0, 1, 0, 0])
    assert given.nearest([1, 0, 0, 0]) == [1, 2, 3]
    assert given.nearest([0, 1, 0, 0], limit=2) == [3, 2]
    uuid = given.state.reader().one("SELECT uuid FROM episode WHERE id = 1")[0]
    given.call("delete_episode", episode_id=uuid, confirm=True)
    left = given.state.reader().one("SELECT count(*) FROM episodes_provided")[0]
    assert left == 2


def test_vectors_go_with_their_model_and_stay_when_it_is_configured_again(given: Given) -> None:
    given.begin(1)
    given.configure("a")
    given.note("a", 1, [1, 0, 0, 0])
    given.configure("a")
    assert given.nearest([1, 0, 0, 0]) == [1]
    given.configure("b")
    assert (given.nearest([1, 0, 0, 0]), given.waiting()) == ([], [1])
    given.configure("a")
    assert (given.nearest([1, 0, 0, 0]), given.waiting()) == ([], [1])
    given.configure("", dims=0)
    given.begin(1)
    assert given.waiting() == []


def test_a_choice_that_was_not_asked_before_is_refused(given: Given) -> None:
    assert "asked before" in given.call("configure_embeddings", provider="openai")["error"]
    told = Told(field="api_key_env", issue="names X_API_KEY, which is not set")
    reply = given.call("configure_embeddings", told, provider="openai")
    assert reply["field"] == "api_key_env" and reply["value"] is None
    assert "503" in given.call("configure_embeddings", Told(away="503"), provider="openai")["error"]
    assert provided.choice(given.state.reader(), SPACE) is None


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("api_key_env", "OPENAI_API_KEY", True),
        ("api_key_env", "sk-proj-abc", False),
        ("api_key_env", "abcdef", False),
        ("base_url", "https://host/v1", True),
        ("base_url", "https://me:word@host/v1", False),
        ("base_url", "https://host/v1?key=word", False),
    ],
)
def test_what_may_be_a_secret_does_not_get_to_the_log(field: str, value: str, kept: bool) -> None:
    args = msgspec.convert({"provider": "openai", field: value}, ConfigureEmbeddings)
    assert getattr(clean(args), field) == (value if kept else LEFT_OUT)
