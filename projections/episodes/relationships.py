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


def count_of(view: View, episode: int) -> int:
    sql = "SELECT count(*) FROM relationship WHERE source = ? OR target = ?"
    return int(view.one(sql, episode, episode)[0])


def _touching(
    view: View, end: str, numbers: Collection[int], kinds: Collection[str]
) -> list[Relationship]:
    which = f" AND type IN ({marks(kinds)})" if kinds else ""
    sql = f"{_SELECT} WHERE {end} IN ({marks(numbers)}){which} ORDER BY relationship.id"
    return [Relationship(*row) for row in view.all(sql, *numbers, *kinds)]
