"""What deciding on memories keeps in memory of its tables: vectors, and the long lists of postings.

A word that thousands of memories have is a list of thousands of rows, and who writes with a few
words makes all of them so. One row at a time they would hold up everybody's calls; as one array
each they are counted in a moment.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mnemolog.projections.language import opposites
from mnemolog.projections.robot.understood import Understood
from mnemolog.projections.state.nearest import Nearest

_BITS = 16
"""For the number of words beside a memory's id: no text that is stored has as many."""
_LIST = 32
"""What a list costs beside what is in it, in numbers."""

_READ = " UNION ALL ".join(
    f"SELECT memory << {_BITS} | words FROM {table} WHERE space = ? AND token = ? AND guard = ?"
    for table in ("posting", "place")
)

Key = tuple[int, str, str]
"""A space, a token and a guard."""
Posting = tuple[int, str, str, int, int]
"""A key, the number of a memory, and how many words it has."""


class Postings:
    """By space, token and guard the memories that have it; a list is read when it is first asked
    for, and kept in step by the facts' functions. Lists that hold more than `most` numbers together
    are dropped, and read again."""

    def __init__(self, connection: sqlite3.Connection, most: int = 4_000_000) -> None:
        self._connection = connection
        self._lists: dict[Key, array[int]] = {}
        self._most = most
        self._held = 0

    def clear(self) -> None:
        self._lists.clear()
        self._held = 0

    def put(self, postings: Iterable[Posting]) -> None:
        for space, token, guard, number, words in postings:
            kept = self._lists.get((space, token, guard))
            if kept is not None:
                kept.append(number << _BITS | words)
                self._held += 1

    def remove(self, postings: Iterable[Posting]) -> None:
        for space, token, guard, number, words in postings:
            kept = self._lists.get((space, token, guard))
            if kept is not None:
                at = np.frombuffer(kept, dtype=np.int64) == (number << _BITS | words)
                kept[int(np.flatnonzero(at)[0])] = kept[-1]
                kept.pop()
                self._held -= 1

    def alike(self, space: int, said: Understood, threshold: float) -> list[tuple[float, int]]:
        """Every memory with the same guard whose Jaccard similarity is over `threshold`, in no
        particular order."""
        packed, shared = np.unique(self._all(space, said.guard, said.words), return_counts=True)
        words = packed & (1 << _BITS) - 1
        similarity: NDArray[np.float64] = shared / (len(said.words) + words - shared)
        over = np.flatnonzero(similarity > threshold)
        return list(zip(similarity[over].tolist(), (packed[over] >> _BITS).tolist(), strict=True))

    def turned_round(self, space: int, said: Understood) -> set[int]:
        """Every memory with the same guard that has words of the opposite meaning, or the same
        words in swapped roles: what `opposed` and `swapped` say of two texts."""
        found = []
        for word in said.words:
            against = opposites(word) - said.words
            if against:
                there = self._all(space, said.guard, against)
                found.append(np.setdiff1d(there, self._all(space, said.guard, [word])))
        for right, left in said.other_places:
            went_right = self._all(space, said.guard, right)
            found.append(np.intersect1d(went_right, self._all(space, said.guard, left)))
        return {number for one in found for number in (one >> _BITS).tolist()}

    def _all(self, space: int, guard: str, tokens: Iterable[str]) -> NDArray[np.int64]:
        """What is in the lists of all `tokens`, as often as it is there."""
        lists = [self._list((space, token, guard)) for token in tokens]
        return np.frombuffer(b"".join(lists), dtype=np.int64)

    def _list(self, key: Key) -> array[int]:
        kept = self._lists.get(key)
        if kept is None:
            rows = self._connection.execute(_READ, key * 2)
            kept = array("q", [row[0] for row in rows])
            if self._held + len(kept) + _LIST > self._most:
                self.clear()
            self._lists[key] = kept
            self._held += len(kept) + _LIST
        return kept


class Kept:
    """Both, for one partition."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.nearest = Nearest(
            connection,
            one="SELECT vector FROM vector WHERE memory = ? AND model = ?",
            every="SELECT memory.id, vector.vector FROM memory JOIN vector"
            " ON vector.memory = memory.id AND vector.model = ?"
            " WHERE memory.space = ? AND memory.status = 'active' ORDER BY memory.id",
        )
        self.postings = Postings(connection)

    def clear(self) -> None:
        self.nearest.clear()
        self.postings.clear()
