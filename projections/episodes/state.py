"""The episodes family's part of the state: what deciding and answering may ask of episodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec

from mnemolog.events.episodes import Outcome, Reflection, Reward
from mnemolog.events.ids import space_of
from mnemolog.projections.described import Described
from mnemolog.projections.state.view import LAST, View, marks

EPISODE = "episode"
PATTERN = "pattern"
EPISODES = "episode"
PATTERNS = "pattern"
RELATIONSHIPS = "relationship"
"""The counters of ids."""

DESCRIBED = Described("episodes_", {EPISODE: "episode", PATTERN: "pattern"})

Order = Literal["newest", "oldest", "duration", "success"]


class Episode(msgspec.Struct, frozen=True):
    """One row; `outcome`, `rewarded` and `reflection` are JSON."""

    id: int
    space: int
    uuid: str
    description: str
    domain: str
    task_type: str
    language: str | None
    framework: str | None
    complexity: str | None
    version: int
    created_at_us: int
    completed_at_us: int | None
    steps: int
    failed_steps: int
    latency_ms: int
    last_step: int
    last_step_at_us: int | None
    outcome: str | None
    outcome_type: str | None
    success: float | None
    reward: float | None
    rewarded: str | None
    reflection: str | None

    @property
    def status(self) -> str:
        return "active" if self.completed_at_us is None else "completed"

    @property
    def duration_ms(self) -> int:
        """From its beginning to its end, or to its last step while it goes on."""
        end = self.completed_at_us or self.last_step_at_us or self.created_at_us
        return max(0, end - self.created_at_us) // 1000

    @property
    def ended(self) -> Outcome | None:
        return None if self.outcome is None else msgspec.json.decode(self.outcome, type=Outcome)

    @property
    def reward_parts(self) -> Reward | None:
        return None if self.rewarded is None else msgspec.json.decode(self.rewarded, type=Reward)

    @property
    def reflected(self) -> Reflection | None:
        found = self.reflection
        return None if found is None else msgspec.json.decode(found, type=Reflection)


class Step(msgspec.Struct, frozen=True):
    """`parameters` and `result` are JSON."""

    number: int
    tool: str
    action: str
    failed: int
    """1 or 0."""
    result_type: str | None
    parameters: str | None
    result: str | None
    latency_ms: int | None
    at_us: int


class Use(msgspec.Struct, frozen=True):
    """A step without what it was given and gave."""

    tool: str
    failed: int
    latency_ms: int | None


class Totals(msgspec.Struct, frozen=True):
    """What episodes come to together, those that ended with one type of outcome."""

    outcome_type: str | None
    """None: they go on."""
    count: int
    success: float
    reward: float
    duration_ms: float
    steps: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which episodes of a space; what is None or empty does not matter. `tags` are all needed.
    `numbers`: only these, or none if there are none."""

    numbers: Collection[int] | None = None
    domain: str | None = None
    task_type: str | None = None
    tags: Sequence[str] = ()
    outcome_type: str | None = None
    completed: bool | None = None
    since_us: int | None = None
    until_us: int | None = None
    ended_since_us: int | None = None
    ended_until_us: int | None = None


def episodes_space(tenant: str) -> str:
    """The space that holds a tenant's episodes."""
    return space_of(tenant, "episodes")


# --- episodes ------------------------------------------------------------------------------------


def episode(view: View, space: int | None, uuid: str) -> Episode | None:
    if space is None:
        return None
    row = view.one("SELECT * FROM episode WHERE space = ? AND uuid = ?", space, uuid)
    return None if row is None else Episode(*row)


def episodes(view: View, space: int, numbers: Collection[int]) -> dict[int, Episode]:
    """Those of `numbers` that are in the space."""
    # The plus keeps SQLite from going through an index of the space, all of it.
    sql = f"SELECT * FROM episode WHERE id IN ({marks(numbers)}) AND +space = ?"
    return {row[0]: Episode(*row) for row in view.all(sql, *numbers, space)}


class Kind(msgspec.Struct, frozen=True):
    """What an episode is weighed and filtered by."""

    id: int
    domain: str
    task_type: str


def kinds(view: View, space: int, numbers: Collection[int]) -> list[Kind]:
    """As `episodes`, without the bulk of them."""
    # The plus keeps SQLite from going through an index of the space, all of it.
    sql = f"SELECT id, domain, task_type FROM episode WHERE id IN ({marks(numbers)}) AND +space = ?"
    return [Kind(*row) for row in view.all(sql, *numbers, space)]


def episodes_called(view: View, space: int | None, uuids: Collection[str]) -> dict[str, Episode]:
    """By their own ids, those that there are."""
    sql = f"SELECT * FROM episode WHERE space = ? AND uuid IN ({marks(uuids)})"
    return {row[2]: Episode(*row) for row in view.all(sql, space, *uuids)}


def names(view: View, numbers: Collection[int]) -> dict[int, str]:
    """By number the ids of those that there are."""
    sql = f"SELECT id, uuid FROM episode WHERE id IN ({marks(numbers)})"
    return dict(view.all(sql, *numbers))


_DOMAINS = """
WITH RECURSIVE found (domain) AS (
  SELECT min(domain) FROM episode WHERE space = ?1 AND domain >= ?2 AND domain < ?3
  UNION ALL
  SELECT (SELECT min(domain) FROM episode
          WHERE space = ?1 AND domain > found.domain AND domain < ?3)
  FROM found WHERE found.domain IS NOT NULL
)
SELECT domain FROM found WHERE domain IS NOT NULL LIMIT ?4
"""
"""From one to the next by the index: most episodes share theirs with many."""


def domains(view: View, tenant: str, start: str, limit: int) -> list[str]:
    """The first so many domains that begin with `start`."""
    space = view.space_id(episodes_space(tenant))
    rows = view.all(_DOMAINS, space, start, start + LAST, limit)
    return [domain for (domain,) in rows]


def steps(view: View, episode: int, after: int = 0, limit: int = -1) -> list[Step]:
    """In their order: all of them, or so many after one."""
    sql = (
        "SELECT number, tool, action, failed, result_type, parameters, result, latency_ms, at_us"
        " FROM episode_step WHERE episode = ? AND number > ? ORDER BY number LIMIT ?"
    )
    return [Step(*row) for row in view.all(sql, episode, after, limit)]


def uses(view: View, episode: int) -> list[Use]:
    """The steps in their order, without the bulk of them."""
    sql = "SELECT tool, failed, latency_ms FROM episode_step WHERE episode = ? ORDER BY number"
    return [Use(*row) for row in view.all(sql, episode)]


def outline(view: View, episode: int, limit: int = -1) -> list[Step]:
    """As `steps`, the first so many, without the parameters and results, which may be large."""
    sql = (
        "SELECT number, tool, action, failed, result_type, NULL, NULL, latency_ms, at_us"
        " FROM episode_step WHERE episode = ? ORDER BY number LIMIT ?"
    )
    return [Step(*row) for row in view.all(sql, episode, limit)]


def tools_of(view: View, numbers: Collection[int]) -> dict[str, int]:
    """By tool in how many of these episodes it was used."""
    sql = (
        "SELECT tool, count(DISTINCT episode) FROM episode_step"
        f" WHERE episode IN ({marks(numbers)}) GROUP BY tool"
    )
    return dict(view.all(sql, *numbers))


def size(view: View, numbers: Collection[int]) -> int:
    """How many characters the steps of these episodes hold."""
    sql = (
        "SELECT coalesce(sum(length(action) + coalesce(length(parameters), 0)"
        f" + coalesce(length(result), 0)), 0) FROM episode_step WHERE episode IN ({marks(numbers)})"
    )
    return int(view.one(sql, *numbers)[0])


def has_step(view: View, episode: int, number: int) -> bool:
    sql = "SELECT 1 FROM episode_step WHERE episode = ? AND number = ?"
    return view.one(sql, episode, number) is not None


_ORDERS = {
    "newest": "created_at_us DESC, id DESC",
    "oldest": "created_at_us, id",
    "duration": "coalesce(completed_at_us, last_step_at_us, created_at_us) - created_at_us, id",
    "success": "coalesce(success, -1) DESC, coalesce(reward, -1) DESC, id DESC",
}


def found(
    view: View, space: int, wanted: Wanted, order: Order, limit: int, offset: int = 0
) -> list[Episode]:
    """The episodes that are wanted, a page of them."""
    where, given = _where(space, wanted)
    sql = f"SELECT * FROM episode WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?"
    return [Episode(*row) for row in view.all(sql, *given, limit, offset)]


def count(view: View, space: int, wanted: Wanted) -> int:
    where, given = _where(space, wanted)
    return int(view.one(f"SELECT count(*) FROM episode WHERE {where}", *given)[0])


def totals(view: View, space: int, wanted: Wanted) -> list[Totals]:
    """By the type of outcome, all the episodes that are wanted."""
    where, given = _where(space, wanted)
    took = "max(0, coalesce(completed_at_us, last_step_at_us, created_at_us) - created_at_us)"
    sql = (
        "SELECT outcome_type, count(*), total(success), total(reward),"
        f" total({took} / 1000), sum(steps) FROM episode WHERE {where} GROUP BY 1 ORDER BY 1"
    )
    return [Totals(*row) for row in view.all(sql, *given)]


def _where(space: int, wanted: Wanted) -> tuple[str, list[Any]]:
    # Where the numbers are known, no index of the space is to be gone through.
    terms: list[str] = ["space = ?" if wanted.numbers is None else "+space = ?"]
    given: list[Any] = [space]
    for name, value in (
        ("domain = ?", wanted.domain),
        ("task_type = ?", wanted.task_type),
        ("outcome_type = ?", wanted.outcome_type),
        ("created_at_us >= ?", wanted.since_us),
        ("created_at_us < ?", wanted.until_us),
        ("completed_at_us >= ?", wanted.ended_since_us),
        ("completed_at_us < ?", wanted.ended_until_us),
    ):
        if value is not None:
            terms.append(name)
            given.append(value)
    if wanted.completed is not None:
        terms.append(f"completed_at_us IS {'NOT ' if wanted.completed else ''}NULL")
    if wanted.numbers is not None:
        terms.append(f"id IN ({marks(wanted.numbers)})")
        given += wanted.numbers
    for tag in wanted.tags:
        terms.append("EXISTS (SELECT 1 FROM episode_tag WHERE episode = episode.id AND tag = ?)")
        given.append(tag)
    return " AND ".join(terms), given


# --- tags ----------------------------------------------------------------------------------------


def tagged(
    view: View, space: int, wanted: Collection[str], every: bool, limit: int
) -> tuple[int, list[Episode]]:
    """How many episodes have one of these tags, or every one, and the newest of them."""
    having = (
        f"SELECT episode FROM episode_tag WHERE space = ? AND tag IN ({marks(wanted)})"
        " GROUP BY episode HAVING count(*) >= ?"
    )
    given = (space, *wanted, len(wanted) if every else 1)
    total = int(view.one(f"SELECT count(*) FROM ({having})", *given)[0])
    sql = f"SELECT * FROM episode WHERE id IN ({having}) ORDER BY {_ORDERS['newest']} LIMIT ?"
    return total, [Episode(*row) for row in view.all(sql, *given, limit)]


def tags(view: View, episode: int) -> list[str]:
    """In alphabetical order."""
    rows = view.all("SELECT tag FROM episode_tag WHERE episode = ? ORDER BY tag", episode)
    return [row[0] for row in rows]


def tags_of(view: View, numbers: Collection[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {number: [] for number in numbers}
    sql = f"SELECT episode, tag FROM episode_tag WHERE episode IN ({marks(numbers)}) ORDER BY 1, 2"
    for number, tag in view.all(sql, *numbers):
        found[number].append(tag)
    return found
