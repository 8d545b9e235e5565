"""One seeded script of calls over every tool, played on any node; it goes by the replies it gets,
so it is the same script as long as the replies are the same."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bus.episode_script import EpisodeScript

Reply = dict[str, Any]
Play = Callable[[str, Reply], Awaitable[Reply]]

_THINGS = [
    "gripper",
    "wheel",
    "camera",
    "cup",
    "door",
    "shelf",
    "battery",
    "arm",
    "lidar",
    "tray",
    "hinge",
    "motor",
]
_HOW = [
    "slips",
    "sticks",
    "turns",
    "rattles",
    "overheats",
    "drifts",
    "stalls",
    "jams",
    "bends",
    "cools",
]
_WHEN = ["when wet", "at dawn", "under load", "near the window", "after a restart", "in the cold"]
_TYPES = ("Project", "Sesion", "Component", "Robot", "")


class Script:
    def __init__(self, seed: int, calls: int, directory: Path) -> None:
        self._chance = random.Random(seed)
        self._left = calls
        self._memories: list[int] = []
        self._sessions: list[tuple[str, str]] = []
        self._names: list[str] = []
        self._relations: list[int] = []
        self._number = 0
        self._file = directory / "memory.jsonl"
        self._episodes = EpisodeScript(self._chance, self._text)

    async def play(self, play: Play) -> list[Reply]:
        replies = []
        for tool, arguments in self._calls():
            reply = await play(tool, arguments)
            self._learn_from(tool, reply)
            replies.append({"tool": tool, **reply})
        return replies

    def _calls(self) -> Iterator[tuple[str, Reply]]:
        makers: list[tuple[int, Callable[[], tuple[str, Reply]]]] = [
            (16, self._learn),
            (12, self._recall),
            (3, self._perceive),
            (3, self._forget),
            (4, self._update),
            (3, self._start),
            (2, self._end),
            (12, self._create),
            (6, self._add),
            (6, self._relate),
            (2, self._end_relation),
            (2, self._unsay),
            (2, self._delete),
            (1, self._unrelate),
            (5, self._search),
            (3, self._open),
            (1, self._read),
            (5, self._semantic),
            (2, self._reflect),
            (2, self._reflections),
            (4, self._upkeep),
            (1, self._migrate),
            (3, self._wrong),
            *self._episodes.makers,
        ]
        weights = [weight for weight, _ in makers]
        for _, maker in makers:  # Every one of them comes, however short the script is.
            yield maker()
        yield from self._upkeeps(self._name())
        yield from self._episodes.every()
        while self._left > 0:
            self._left -= 1
            (maker,) = self._chance.choices([maker for _, maker in makers], weights)
            yield maker()

    def _learn_from(self, tool: str, reply: Reply) -> None:
        self._episodes.learn_from(tool, reply)
        if tool in ("learn", "save_perception") and "memory_id" in reply:
            self._memories.append(reply["memory_id"])
        if tool == "start_session" and "session_id" in reply:
            self._sessions.append((reply["session_id"], reply["collection"]))
        for one in reply.get("relations", []) if tool in ("search_nodes", "open_nodes") else []:
            self._relations.append(one["id"])

    # --- what is said ----------------------------------------------------------------------------

    def _text(self) -> str:
        pick, self._number = self._chance.choice, self._number + 1
        number = self._chance.randrange(40)
        return f"The {pick(_THINGS)} {number} {pick(_HOW)} {pick(_WHEN)}"

    def _collection(self) -> str:
        return f"c{self._chance.randrange(6)}"

    def _name(self) -> str:
        if self._names and self._chance.random() < 0.9:
            return self._chance.choice(self._names)
        return "Nobody"

    # --- the robot -------------------------------------------------------------------------------

    def _learn(self) -> tuple[str, Reply]:
        asked: Reply = {"insight": self._text(), "collection": self._collection()}
        if self._sessions and self._chance.random() < 0.4:
            asked["session_id"], asked["collection"] = self._chance.choice(self._sessions)
        if self._chance.random() < 0.3:
            place = {"robot": {"position": [self._chance.randrange(9), 2, 3]}}
            real = {"env": {"sim_or_real": self._chance.choice(["sim", "real"])}}
            asked["context"] = json.dumps(place | real)
        return "learn", asked

    def _recall(self) -> tuple[str, Reply]:
        asked: Reply = {"query": self._text(), "collection": self._collection()}
        if self._chance.random() < 0.2:
            asked["n"] = self._chance.randrange(1, 9)
        if self._chance.random() < 0.2:
            asked["min_confidence"] = 0.7
        return "recall", asked

    def _perceive(self) -> tuple[str, Reply]:
        return "save_perception", {"description": self._text(), "collection": self._collection()}

    def _some_memory(self) -> int:
        return self._chance.choice(self._memories) if self._memories else 1

    def _forget(self) -> tuple[str, Reply]:
        return "forget", {"memory_id": self._some_memory(), "reason": "it was wrong"}

    def _update(self) -> tuple[str, Reply]:
        return "update", {"memory_id": self._some_memory(), "new_content": self._text()}

    def _start(self) -> tuple[str, Reply]:
        return "start_session", {"collection": self._collection()}

    def _end(self) -> tuple[str, Reply]:
        if not self._sessions:
            return "end_session", {"session_id": "none"}
        session, _ = self._sessions.pop(self._chance.randrange(len(self._sessions)))
        return "end_session", {"session_id": session, "outcome_score": 0.5}

    # --- the graph -------------------------------------------------------------------------------

    def _create(self) -> tuple[str, Reply]:
        entities = []
        for _ in range(self._chance.randrange(1, 4)):
            name = f"{self._chance.choice(_THINGS).title()} {self._chance.randrange(30)}"
            self._names.append(name)
            kind = self._chance.choice(_TYPES)
            said = [self._text() for _ in range(self._chance.randrange(4))]
            entity: Reply = {"name": name, "observations": said}
            entities.append(entity | {"entityType": kind} if kind else entity)
        return "create_entities", {"entities": entities}

    def _add(self) -> tuple[str, Reply]:
        texts = [self._text() for _ in range(self._chance.randrange(1, 4))]
        if self._chance.random() < 0.5:
            return "add_observations", {"name": self._name(), "observations": texts}
        rows = [{"entityName": self._name(), "contents": texts}]
        return "add_observations", {"observations": rows}

    def _triple(self) -> Reply:
        kind = self._chance.choice(["uses", "contiene", "parte_de"])
        return {"from": self._name(), "to": self._name(), "relationType": kind}

    def _relate(self) -> tuple[str, Reply]:
        return "create_relations", {"relations": [self._triple(), self._triple()]}

    def _end_relation(self) -> tuple[str, Reply]:
        number = self._chance.choice(self._relations) if self._relations else 1
        return "end_relation", {"relation_id": number}

    def _unsay(self) -> tuple[str, Reply]:
        return "delete_observations", {"name": self._name(), "observations": [self._text()]}

    def _delete(self) -> tuple[str, Reply]:
        return "delete_entities", {"entityNames": [self._name()]}

    def _unrelate(self) -> tuple[str, Reply]:
        return "delete_relations", {"relations": [self._triple()]}

    def _search(self) -> tuple[str, Reply]:
        return "search_nodes", {"query": self._chance.choice([*_THINGS, *_HOW]), "limit": 5}

    def _open(self) -> tuple[str, Reply]:
        return "open_nodes", {"names": [self._name(), self._name()], "include_ended": True}

    def _read(self) -> tuple[str, Reply]:
        return "read_graph", {"limit": 5}

    def _semantic(self) -> tuple[str, Reply]:
        return "search_semantic", {"query": self._text(), "limit": 4}

    def _reflect(self) -> tuple[str, Reply]:
        asked: Reply = {"target_type": "global", "content": self._text(), "mood": "duda"}
        return "add_reflection", asked

    def _reflections(self) -> tuple[str, Reply]:
        return "search_reflections", {"query": self._text(), "limit": 3}

    def _upkeep(self) -> tuple[str, Reply]:
        return self._chance.choice(self._upkeeps(self._name()))

    def _upkeeps(self, name: str) -> list[tuple[str, Reply]]:
        return [
            ("analyze_entity_split", {"entity_name": name}),
            ("propose_entity_split", {"entity_name": name}),
            ("execute_entity_split", self._split(name)),
            ("find_split_candidates", {}),
            ("find_duplicate_observations", {"entity_name": name}),
            ("consolidation_report", {"stale_days": 0}),
        ]

    def _split(self, name: str) -> Reply:
        part = {"name": f"{name} - Part", "entity_type": "Robot", "observations": [self._text()]}
        return {"entity_name": name, "approved_splits": [part]}

    def _migrate(self) -> tuple[str, Reply]:
        names = [f"Imported {self._chance.randrange(50)}" for _ in range(5)]
        rows: list[Reply] = [
            {"type": "entity", "name": name, "entityType": "Old", "observations": [self._text()]}
            for name in names
        ]
        rows.append({"type": "relation", "from": names[0], "to": names[1], "relationType": "knows"})
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text("\n".join(json.dumps(row) for row in rows))
        return "migrate", {"source_path": str(self._file)}

    # --- what is refused -------------------------------------------------------------------------

    def _wrong(self) -> tuple[str, Reply]:
        wrong: list[tuple[str, Reply]] = [
            ("learn", {"insight": ""}),
            ("recall", {"query": "x", "n": 0}),
            ("forget", {"memory_id": 10**9, "reason": "never was"}),
            ("create_entities", {"entities": [{"name": " "}]}),
            ("end_relation", {"relation_id": 10**9}),
            ("no_such_tool", {}),
            ("add_reflection", {"target_type": "planet", "content": "x"}),
        ]
        return self._chance.choice(wrong)
