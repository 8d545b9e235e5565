"""The part of the script about episodes: every tool of theirs, over what the replies gave."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Reply = dict[str, Any]
Maker = Callable[[], tuple[str, Reply]]

_TOOLS = ("planner", "editor", "compiler", "tester", "deployer")
_DOMAINS = ("web-api", "robotics")
_TASKS = ("code_generation", "debugging", "testing")
_TAGS = ("auth", "jwt", "cold start", "grasping", "Retry")
_KINDS = ("depends_on", "parent_child", "blocks", "follows", "related_to", "duplicates")
_CODE = (
    "input.map(x => x * 2)",
    "throw new Error('no')",
    "task.length",
    "await Promise.resolve(3)",
)


class EpisodeScript:
    def __init__(self, chance: random.Random, text: Callable[[], str]) -> None:
        self._chance = chance
        self._text = text
        self._open: dict[str, int] = {}
        """By its id how many steps an ongoing episode has."""
        self._known: list[str] = []
        self._relationships: list[str] = []

    @property
    def makers(self) -> list[tuple[int, Maker]]:
        return [
            (8, self._create),
            (14, self._step),
            (6, self._complete),
            (1, self._delete),
            (3, self._look),
            (4, self._query),
            (5, self._tag),
            (5, self._relate),
            (5, self._ask_relations),
            (4, self._patterns),
            (2, self._watch),
            (1, self._code),
            (3, self._wrong),
        ]

    def every(self) -> list[tuple[str, Reply]]:
        """Calls that a short script might not come by."""
        return [
            *self._looks(),
            *self._tags(),
            *self._relations(),
            *self._pattern_calls(),
            *self._watches(),
            ("remove_episode_relationship", {"relationship_id": self._relationship()}),
            ("query_semantic_memory", {"query": self._text(), "similarity_threshold": 0.2}),
            ("execute_agent_code", self._ran(_CODE[0])),
            ("configure_embeddings", {"provider": "local"}),
            ("configure_embeddings", {"provider": "local", "model": "nobody's"}),
            ("test_embeddings", {}),
        ]

    def learn_from(self, tool: str, reply: Reply) -> None:
        if "error" in reply:
            return
        if tool == "create_episode":
            self._open[reply["episode_id"]] = 0
            self._known.append(reply["episode_id"])
        elif tool == "add_episode_step":
            self._open[reply["episode_id"]] = reply["step_number"]
        elif tool == "complete_episode":
            self._open.pop(reply["episode_id"], None)
        elif tool == "add_episode_relationship":
            self._relationships.append(reply["relationship_id"])

    # --- what is asked ---------------------------------------------------------------------------

    def _pick(self, among: tuple[str, ...] | list[str]) -> str:
        return self._chance.choice(among)

    def _episode(self) -> str:
        return self._pick(self._known) if self._known else "nobody's"

    def _relationship(self) -> str:
        return self._pick(self._relationships) if self._relationships else "nobody's"

    def _create(self) -> tuple[str, Reply]:
        asked: Reply = {
            "task_description": self._text(),
            "domain": self._pick(_DOMAINS),
            "task_type": self._pick(_TASKS),
            "tags": [self._pick(_TAGS)],
        }
        if self._chance.random() < 0.5:
            asked |= {"language": "rust", "complexity": self._pick(("simple", "complex"))}
        return "create_episode", asked

    def _ongoing(self) -> str:
        return self._pick(sorted(self._open)) if self._open else self._episode()

    def _step(self) -> tuple[str, Reply]:
        episode = self._ongoing()
        number = self._open.get(episode, 0) + (1 if self._chance.random() < 0.95 else 0)
        return "add_episode_step", {
            "episode_id": episode,
            "step_number": max(1, number),
            "tool": self._pick(_TOOLS),
            "action": f"{self._pick(('Check', 'Build', 'Verify'))}: {self._text()}",
            "result": {"type": self._pick(("success", "success", "error"))},
            "latency_ms": self._chance.randrange(1000),
        }

    def _complete(self) -> tuple[str, Reply]:
        how: list[Reply] = [
            {"outcome_type": "success", "verdict": self._text(), "artifacts": ["test.rs"]},
            {
                "outcome_type": "partial_success",
                "verdict": self._text(),
                "completed": ["a"],
                "failed": ["b", "c"],
            },
            {"outcome_type": "failure", "reason": self._text()},
        ]
        return "complete_episode", {"episode_id": self._ongoing(), **self._chance.choice(how)}

    def _delete(self) -> tuple[str, Reply]:
        return "delete_episode", {"episode_id": self._episode(), "confirm": True}

    def _look(self) -> tuple[str, Reply]:
        return self._chance.choice(self._looks())

    def _looks(self) -> list[tuple[str, Reply]]:
        one = {"episode_id": self._episode()}
        both = {"episode_ids": [self._episode(), self._episode()]}
        return [
            ("get_episode", one),
            ("get_episode_timeline", one),
            ("bulk_episodes", both),
            ("batch_query_episodes", {"limit": 3, "include_patterns": True}),
            ("batch_compare_episodes", both),
        ]

    def _query(self) -> tuple[str, Reply]:
        asked: Reply = {"query": self._text(), "domain": self._pick(_DOMAINS), "limit": 4}
        if self._chance.random() < 0.5:
            asked["sort"] = self._pick(("newest", "oldest", "duration", "success"))
        return "query_memory", asked

    def _tag(self) -> tuple[str, Reply]:
        return self._chance.choice(self._tags())

    def _tags(self) -> list[tuple[str, Reply]]:
        asked = {"episode_id": self._episode(), "tags": [self._pick(_TAGS), self._pick(_TAGS)]}
        return [
            ("add_episode_tags", asked),
            ("remove_episode_tags", asked),
            ("set_episode_tags", asked),
            ("get_episode_tags", {"episode_id": self._episode()}),
            ("search_episodes_by_tags", {"tags": [self._pick(_TAGS)], "limit": 5}),
        ]

    def _pair(self) -> Reply:
        return {
            "from_episode_id": self._episode(),
            "to_episode_id": self._episode(),
            "relationship_type": self._pick(_KINDS),
        }

    def _relate(self) -> tuple[str, Reply]:
        if self._relationships and self._chance.random() < 0.15:
            asked = {"relationship_id": self._relationship()}
            return "remove_episode_relationship", asked
        return "add_episode_relationship", {**self._pair(), "reason": self._text()}

    def _ask_relations(self) -> tuple[str, Reply]:
        return self._chance.choice(self._relations())

    def _relations(self) -> list[tuple[str, Reply]]:
        one = {"episode_id": self._episode()}
        return [
            ("add_episode_relationship", self._pair()),
            ("get_episode_relationships", one),
            ("find_related_episodes", {**one, "include_metadata": True}),
            ("check_relationship_exists", self._pair()),
            ("get_dependency_graph", {**one, "depth": 3}),
            ("validate_no_cycles", self._pair()),
            ("get_topological_order", {"episode_ids": [self._episode(), self._episode()]}),
        ]

    def _patterns(self) -> tuple[str, Reply]:
        return self._chance.choice(self._pattern_calls())

    def _pattern_calls(self) -> list[tuple[str, Reply]]:
        domain = self._pick(_DOMAINS)
        series = {"a": [float(n % 5) for n in range(12)], "b": [float(n) for n in range(12)]}
        return [
            ("analyze_patterns", {"task_type": self._pick(_TASKS), "min_success_rate": 0.0}),
            ("search_patterns", {"query": self._text(), "domain": domain, "min_relevance": 0.0}),
            ("recommend_patterns", {"task_description": self._text(), "domain": domain}),
            ("batch_pattern_analysis", {"domain": domain, "min_episodes": 1}),
            (
                "advanced_pattern_analysis",
                {"time_series_data": series, "analysis_type": "statistical"},
            ),
        ]

    def _watch(self) -> tuple[str, Reply]:
        return self._chance.choice(self._watches())

    def _watches(self) -> list[tuple[str, Reply]]:
        return [
            ("health_check", {}),
            ("get_metrics", {"metric_type": "episodes"}),
            ("quality_metrics", {"time_range": "all"}),
        ]

    def _code(self) -> tuple[str, Reply]:
        return "execute_agent_code", self._ran(self._pick(_CODE))

    def _ran(self, code: str) -> Reply:
        return {"code": code, "context": {"task": "try it", "input": [1, 2, 3]}}

    def _wrong(self) -> tuple[str, Reply]:
        wrong: list[tuple[str, Reply]] = [
            ("create_episode", {"task_description": "", "domain": "x", "task_type": "testing"}),
            ("create_episode", {"task_description": "x", "domain": "x", "task_type": "hard"}),
            ("get_episode", {"episode_id": "nobody's"}),
            ("delete_episode", {"episode_id": self._episode(), "confirm": False}),
            ("get_dependency_graph", {"episode_id": self._episode(), "depth": 6}),
            ("batch_compare_episodes", {"episode_ids": [self._episode()]}),
            ("query_memory", {"query": "x", "domain": "x", "limit": 0}),
        ]
        return self._chance.choice(wrong)
