"""search_nodes: which entities contain a text, in their name, type or an observation.

An index of trigrams tells which texts may contain it; what many texts contain is looked for in one
entity after the other. Which of the two is chosen by a sample of the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from mnemolog.projections.graph.state import page
from mnemolog.projections.language.characters import fold, strip_accents
from mnemolog.projections.state.view import View, Writable, marks

_TRIGRAM = 3
_LOOKED_UP = 2
"""So many trigrams are looked up together: more of them narrow little and cost more."""
_SAMPLE = 500
"""So many texts, drawn at random, tell how common a trigram is."""
_COMMON = 10
"""What so many of those contain is common."""
_LOOKED_AT = 100
_HINT = "graph.sample"


class Sample:
    """What some of the texts in a state have in them: a hint, the same for all who read it."""

    def __init__(self) -> None:
        self.drawn_from = 0
        """How many texts there were."""
        self.seen: Counter[str] = Counter()
        self.texts: list[str] = []


def folded(text: str) -> str:
    """The form in which names and observations are searched: case and accents do not count."""
    # SQLite's text index ends a text at its first NUL.
    return strip_accents(fold(text)).replace("\0", "\ufffd")


def containing(view: View, space: int, text: str, after: int, limit: int) -> list[int]:
    """Ids past `after` of entities whose name, type or an observation contains `text`.

    An index of trigrams tells which texts may contain it: those that have its most telling ones.
    What many texts contain, and what is shorter than three characters, is looked for in one entity
    after the other until there are enough.
    """
    if not text.strip():
        return page(view, space, after, limit)
    wanted = folded(text)
    if not wanted:  # Nothing but what cannot be seen: it is in every text, and says nothing.
        return []
    sample = _sampled(view)
    telling = _telling(sample, wanted)
    if not telling or _is_common(sample, wanted, telling[0]):
        rows = view.all(
            "SELECT id FROM entity WHERE space = ? AND id > ? AND EXISTS (SELECT 1 FROM node"
            " WHERE node.entity = entity.id AND instr(content, ?)) ORDER BY id LIMIT ?",
            space,
            after,
            wanted,
            limit,
        )
    else:
        # CROSS: the hits come first. Left to choose, SQLite goes through every entity.
        rows = view.all(
            "SELECT DISTINCT entity.id FROM node_text CROSS JOIN node ON node.id = node_text.rowid"
            " CROSS JOIN entity ON entity.id = node.entity WHERE node_text MATCH ?"
            " AND instr(node.content, ?) AND entity.space = ? AND entity.id > ?"
            " ORDER BY entity.id LIMIT ?",
            " AND ".join(map(_quoted, telling)),
            wanted,
            space,
            after,
            limit,
        )
    return [row[0] for row in rows]


def _is_common(sample: Sample, wanted: str, rarest: str) -> bool:
    """Whether so many texts should contain it that its index would bring too many of them."""
    if sample.seen[rarest] < _COMMON:
        return False
    return sum(wanted in text for text in sample.texts) >= _COMMON


def _telling(sample: Sample, wanted: str) -> list[str]:
    """The trigrams of a text that the fewest others should have, the rarest first; none overlaps
    another."""
    seen = sample.seen
    places = range(min(len(wanted) - _TRIGRAM + 1, _LOOKED_AT))
    chosen: list[int] = []
    for place in sorted(places, key=lambda i: seen[wanted[i : i + _TRIGRAM]]):
        if all(abs(place - other) >= _TRIGRAM for other in chosen):
            chosen.append(place)
            if len(chosen) == _LOOKED_UP:
                break
    return [wanted[i : i + _TRIGRAM] for i in chosen]


def _sampled(view: View) -> Sample:
    """Some of the texts, and how many of them have a trigram; drawn anew when the graph has
    doubled.

    Counting in the index would be exact, and takes longer than the search itself.
    """
    sample: Sample = view.hints.setdefault(_HINT, Sample())
    last = view.one("SELECT max(id) FROM node")[0] or 0
    if last > 2 * sample.drawn_from:
        drawn = Random(last).sample(range(1, last + 1), min(_SAMPLE, last))
        rows = view.all(f"SELECT content FROM node WHERE id IN ({marks(drawn)})", *drawn)
        seen: Counter[str] = Counter()
        for (text,) in rows:
            seen.update({text[i : i + _TRIGRAM] for i in range(len(text) - _TRIGRAM + 1)})
        sample.drawn_from, sample.seen, sample.texts = last, seen, [row[0] for row in rows]
    return sample


def _quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'


def index(view: Writable, number: int, texts: Iterable[str]) -> None:
    for text in texts:
        content = folded(text)
        row = view.run("INSERT INTO node (entity, content) VALUES (?, ?)", number, content)
        view.run("INSERT INTO node_text (rowid, content) VALUES (?, ?)", row.lastrowid, content)


def unindex(view: Writable, number: int, texts: Iterable[str]) -> None:
    for text in texts:
        row = view.one(
            "SELECT id FROM node WHERE entity = ? AND content = ? LIMIT 1", number, folded(text)
        )
        if row is not None:
            view.run("DELETE FROM node WHERE id = ?", row[0])
            view.run("DELETE FROM node_text WHERE rowid = ?", row[0])
