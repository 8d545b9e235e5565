"""Questions about the whole of a knowledge graph: what has grown, is doubtful, or lies idle."""

from __future__ import annotations

import msgspec

from mnemolog.projections.language.characters import fold, strip_accents
from mnemolog.projections.state.view import View

_THRESHOLDS = {"sesion": 15, "session": 15, "proyecto": 25, "project": 25}
_OTHERS = 20
_LEAST = min(_OTHERS, *_THRESHOLDS.values())
RARELY = 2
"""An entity that was accessed at most so often, and not for long, is stale."""

_SAID = "(SELECT count(*) FROM observation WHERE observation.entity = entity.id)"


class Sized(msgspec.Struct, frozen=True):
    """An entity and how many observations it has."""

    id: int
    name: str
    type: str
    observations: int

    @property
    def threshold(self) -> int:
        """How many observations an entity of its type may have before it is too large."""
        return _THRESHOLDS.get(strip_accents(fold(self.type)), _OTHERS)

    @property
    def score(self) -> float:
        return round(self.observations / self.threshold, 2)

    @property
    def too_large(self) -> bool:
        return self.observations > self.threshold


class Idle(msgspec.Struct, frozen=True):
    name: str
    type: str
    accessed_at_us: int
    access_count: int
    observations: int


def totals(view: View, space: int) -> tuple[int, int]:
    """How many entities there are, and how many observations."""
    row = view.one(f"SELECT count(*), coalesce(sum({_SAID}), 0) FROM entity WHERE space = ?", space)
    return row[0], row[1]


def too_large(view: View, space: int) -> list[Sized]:
    """Entities over the threshold of their type, those most over it first."""
    rows = view.run(
        f"SELECT id, name, type, {_SAID} AS said FROM entity WHERE space = ? AND said > ?",
        space,
        _LEAST,
    )
    found = [one for one in (Sized(*row) for row in rows) if one.too_large]
    return sorted(found, key=lambda one: (-one.observations / one.threshold, one.id))


def flagged(view: View, space: int, limit: int) -> tuple[int, list[tuple[str, str]]]:
    """How many observations resemble another, and the first of them with their entity's name."""
    within = (
        " FROM observation CROSS JOIN entity ON entity.id = observation.entity"
        " WHERE similarity_flag = 1 AND space = ?"
    )
    (count,) = view.one(f"SELECT count(*){within}", space)
    rows = view.all(f"SELECT name, content{within} ORDER BY entity.id, place LIMIT ?", space, limit)
    return count, rows


def stale(view: View, space: int, before_us: int, limit: int) -> tuple[int, list[Idle]]:
    """How many entities nobody has accessed since `before_us`, nor often before, and the longest
    idle of them. One about which nothing is said is not counted."""
    within = (
        f" FROM entity WHERE space = ? AND accessed_at_us <= ? AND access_count <= {RARELY}"
        " AND EXISTS (SELECT 1 FROM observation WHERE observation.entity = entity.id)"
    )
    (count,) = view.one(f"SELECT count(*){within}", space, before_us)
    rows = view.all(
        f"SELECT name, type, accessed_at_us, access_count, {_SAID}{within}"
        " ORDER BY accessed_at_us, id LIMIT ?",
        space,
        before_us,
        limit,
    )
    return count, [Idle(*row) for row in rows]
