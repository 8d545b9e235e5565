"""The episodes family's part of the state: what may be asked of patterns and their evidence."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mnemolog.projections.state.view import View, marks


class Pattern(msgspec.Struct, frozen=True):
    """One row; `tools` and `tags` are JSON."""

    id: int
    space: int
    kind: str
    key: str
    domain: str
    task_type: str
    description: str
    text: str
    tools: str
    tags: str
    occurrences: int
    successes: float
    first_at_us: int
    last_at_us: int

    @property
    def success_rate(self) -> float:
        return self.successes / self.occurrences if self.occurrences else 0.0

    @property
    def tool_names(self) -> list[str]:
        return msgspec.json.decode(self.tools, type=list[str])

    @property
    def tag_names(self) -> list[str]:
        return msgspec.json.decode(self.tags, type=list[str])


class Evidence(msgspec.Struct, frozen=True):
    """That an episode showed a pattern, and how far the episode succeeded."""

    pattern: int
    episode: int
    success: float
    at_us: int


def pattern_with(view: View, space: int | None, key: str) -> Pattern | None:
    row = view.one("SELECT * FROM pattern WHERE space = ? AND key = ?", space, key)
    return None if row is None else Pattern(*row)


def patterns(view: View, space: int, numbers: Collection[int]) -> dict[int, Pattern]:
    """Those of `numbers` that are in the space."""
    # The plus keeps SQLite from going through an index of the space, all of it.
    sql = f"SELECT * FROM pattern WHERE id IN ({marks(numbers)}) AND +space = ?"
    return {row[0]: Pattern(*row) for row in view.all(sql, *numbers, space)}


def patterns_of(view: View, episode: int) -> list[Pattern]:
    """What an episode is evidence of, in the order they were found."""
    sql = (
        "SELECT pattern.* FROM evidence JOIN pattern ON pattern.id = evidence.pattern"
        " WHERE evidence.episode = ? ORDER BY pattern.id"
    )
    return [Pattern(*row) for row in view.all(sql, episode)]


def only_from(view: View, episode: int) -> list[int]:
    """Patterns that have no other evidence than this episode."""
    sql = (
        "SELECT pattern FROM evidence AS this WHERE episode = ? AND NOT EXISTS"
        " (SELECT 1 FROM evidence WHERE pattern = this.pattern AND episode != this.episode)"
        " ORDER BY pattern"
    )
    return [row[0] for row in view.all(sql, episode)]


class Summary(msgspec.Struct, frozen=True):
    """What patterns come to together; `tools` are those that most of them are about, each with how
    many."""

    count: int
    success_rate: float | None
    tools: list[tuple[str, int]]


def patterns_for(
    view: View, space: int, task_type: str, min_success_rate: float, limit: int
) -> list[Pattern]:
    """Of a type of task, those with most evidence first."""
    sql = (
        f"SELECT * FROM pattern WHERE {_GOOD} ORDER BY occurrences DESC, successes DESC, id LIMIT ?"
    )
    rows = view.all(sql, space, task_type, min_success_rate, limit)
    return [Pattern(*row) for row in rows]


def summary(view: View, space: int, task_type: str, min_success_rate: float, tools: int) -> Summary:
    """As `patterns_for`, all of them together."""
    given = (space, task_type, min_success_rate)
    count, rate = view.one(
        f"SELECT count(*), avg(successes / occurrences) FROM pattern WHERE {_GOOD}", *given
    )
    sql = (
        "SELECT json_each.value, count(DISTINCT pattern.id) FROM pattern, json_each(pattern.tools)"
        f" WHERE {_GOOD} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
    )
    return Summary(count, rate, [tuple(row) for row in view.all(sql, *given, tools)])


# A hair's breadth, as 0.7 times 10 is not 7 to everybody.
_GOOD = "space = ? AND task_type = ? AND successes >= ? * occurrences - 1e-9"


def evidence(view: View, pattern: int) -> list[Evidence]:
    """Oldest first."""
    sql = "SELECT * FROM evidence WHERE pattern = ? ORDER BY at_us, episode"
    return [Evidence(*row) for row in view.all(sql, pattern)]


class Shown(msgspec.Struct, frozen=True):
    """How many of some episodes showed a pattern, and how many of these succeeded, in shares."""

    pattern: int
    episodes: int
    successes: float

    @property
    def success_rate(self) -> float:
        return self.successes / self.episodes


def shown_between(
    view: View,
    space: int,
    domain: str,
    task_type: str | None,
    since_us: int | None,
    until_us: int | None,
    min_episodes: int,
) -> list[Shown]:
    """What so many of a domain's episodes showed that were completed within a time."""
    terms, given = ["pattern.space = ?", "pattern.domain = ?"], [space, domain]
    for term, value in (
        ("pattern.task_type = ?", task_type),
        ("evidence.at_us >= ?", since_us),
        ("evidence.at_us < ?", until_us),
    ):
        if value is not None:
            terms.append(term)
            given.append(value)
    sql = (
        "SELECT evidence.pattern, count(*), sum(evidence.success)"
        " FROM pattern JOIN evidence ON evidence.pattern = pattern.id"
        f" WHERE pattern.occurrences >= ? AND {' AND '.join(terms)}"
        " GROUP BY evidence.pattern HAVING count(*) >= ? ORDER BY evidence.pattern"
    )
    return [Shown(*row) for row in view.all(sql, min_episodes, *given, min_episodes)]
