"""The episodes family's part of the state: what may be asked of relationships."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mnemolog.projections.state.view import View, marks


class Relationship(msgspec.Struct, frozen=True):
    """`source_id` and `target_id` are the episodes' own ids."""

    id: int
    uuid: str
    source: int
    target: int
    source_id: str
    target_id: str
    type: str
    reason: str | None
    priority: int | None
    created_by: str | None
    created_at_us: int


_SELECT = (
    "SELECT relationship.id, relationship.uuid, source, target, a.uuid, b.uuid, type, reason,"
    " priority, created_by, relationship.created_at_us FROM relationship"
    " JOIN episode a ON a.id = source JOIN episode b ON b.id = target"
)


def relationship(view: View, space: int | None, uuid: str) -> Relationship | None:
    sql = f"{_SELECT} WHERE relationship.space = ? AND relationship.uuid = ?"
    row = view.one(sql, space, uuid)
    return None if row is None else Relationship(*row)


def between(view: View, source: int, target: int, kind: str) -> Relationship | None:
    row = view.one(f"{_SELECT} WHERE source = ? AND target = ? AND type = ?", source, target, kind)
    return None if row is None else Relationship(*row)


def outgoing(
    view: View, numbers: Collection[int], kinds: Collection[str] = ()
) -> list[Relationship]:
    """Relationships that begin at one of these episodes, of these types, or of any."""
    return _touching(view, "source", numbers, kinds)


def incoming(
    view: View, numbers: Collection[int], kinds: Collection[str] = ()
) -> list[Relationship]:
    """Relationships that lead to one of these episodes, of these types, or of any."""
    return _touching(view, "target", numbers, kinds)


def among(
    view: View, numbers: Collection[int], kinds: Collection[str] = (), limit: int = -1
) -> list[Relationship]:
    """Relationships between these episodes, of these types, or of any; at most `limit` of them."""
    these, which = marks(numbers), _of(kinds)
    sql = (
        f"{_SELECT} WHERE source IN ({these}) AND target IN ({these}){which}"
        " ORDER BY relationship.id LIMIT ?"
    )
    return [Relationship(*row) for row in view.all(sql, *numbers, *numbers, *kinds, limit)]


def links(view: View, numbers: Collection[int], kind: str, limit: int) -> list[tuple[int, int]]:
    """Source and target of relationships of a type that begin at one of these episodes, at most
    `limit` of them."""
    sql = (
        f"SELECT source, target FROM relationship WHERE source IN ({marks(numbers)}) AND type = ?"
        " ORDER BY source, target LIMIT ?"
    )
    return view.all(sql, *numbers, kind, limit)


def is_led_to(view: View, episode: int, kind: str) -> bool:
    """Whether a relationship of a type leads to the episode."""
    sql = "SELECT 1 FROM relationship WHERE target = ? AND type = ? LIMIT 1"
    return view.one(sql, episode, kind) is not None


def neighbours(view: View, numbers: Collection[int], limit: int) -> list[int]:
    """Episodes that are related to one of these, in either direction; at most `limit` of them."""
    these = marks(numbers)
    sql = (
        f"SELECT target FROM relationship WHERE source IN ({these})"
        f" UNION SELECT source FROM relationship WHERE target IN ({these}) ORDER BY 1 LIMIT ?"
    )
    return [row[0] for row in view.all(sql, *numbers, *numbers, limit)]


def count_of(view: View, episode: int) -> int:
    sql = "SELECT count(*) FROM relationship WHERE source = ? OR target = ?"
    return int(view.one(sql, episode, episode)[0])


def _touching(
    view: View, end: str, numbers: Collection[int], kinds: Collection[str]
) -> list[Relationship]:
    sql = f"{_SELECT} WHERE {end} IN ({marks(numbers)}){_of(kinds)} ORDER BY relationship.id"
    return [Relationship(*row) for row in view.all(sql, *numbers, *kinds)]


def _of(kinds: Collection[str]) -> str:
    return f" AND type IN ({marks(kinds)})" if kinds else ""
