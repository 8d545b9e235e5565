"""An entity as one text, for the embedding: what it is called, and of what is said of it as much
as a model reads.

`name (type): observation | observation …`. Up to ten observations are all there. Of more, the
first three (what it is), the last seven (how it stands now), and in the room that is left those
from between that add most words not said yet, all in the order they were made.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from mnemolog.projections.language import token_set
from mnemolog.services.late import CountTokens

BUDGET = 480
HEAD, TAIL = 3, 7
BETWEEN = 500
"""Of more observations between head and tail, this many, evenly spread, are looked at."""
LONGEST = 4_000
"""Characters of a name or observation that are looked at: more never fit the budget."""


def entity_text(
    name: str, kind: str, observations: Sequence[str], count: CountTokens, budget: int = BUDGET
) -> str:
    """The text, which takes at most `budget` tokens.

    It is put together from parts with white space between them, and a tokenizer counts those
    apart; so each observation is counted once, and never all of them together.
    """
    ruler = _Ruler(count)
    head = f"{ruler.cut(name, budget // 2)} ({ruler.cut(kind, budget // 4)})"
    room = budget - count(f"{head}:")
    if len(observations) <= HEAD + TAIL:
        places = list(range(len(observations)))
    else:
        places = [*range(HEAD), *range(len(observations) - TAIL, len(observations))]
    chosen, room = _share({place: observations[place] for place in places}, room, ruler)
    if room > 0 and len(observations) > len(places):
        chosen |= _between(observations, chosen, room, ruler)
    if not chosen:
        return head
    return f"{head}: " + " | ".join(chosen[place] for place in sorted(chosen))


class _Ruler:
    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._frame = count("")

    def tokens(self, text: str) -> int:
        """What a part adds to a text."""
        return self._count(text) - self._frame

    def cut(self, text: str, limit: int) -> str:
        """The beginning of `text` that takes at most `limit` tokens, to a word's end if it can."""
        text = text[:LONGEST]
        if limit <= 0:
            return ""
        if self.tokens(text) <= limit:
            return text
        low, high = 0, len(text) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.tokens(text[:middle]) <= limit:
                low = middle
            else:
                high = middle - 1
        beginning = text[:low]
        if beginning[-1:].isspace() or text[low].isspace():
            return beginning.rstrip()
        words = beginning.rsplit(maxsplit=1)
        return words[0] if len(words) == 2 else beginning


def _share(texts: dict[int, str], room: int, ruler: _Ruler) -> tuple[dict[int, str], int]:
    """All of `texts` within `room` tokens, and what is left of it: the short ones are whole, the
    long ones share what those leave, each cut to the same length."""
    chosen: dict[int, str] = {}
    sizes = {place: ruler.tokens(text[:LONGEST]) + 1 for place, text in texts.items()}
    waiting = sorted(sizes, key=lambda place: (sizes[place], place))
    for i, place in enumerate(waiting):
        fair = room // (len(waiting) - i)
        text = texts[place][:LONGEST]
        if sizes[place] > fair:
            text = ruler.cut(text, fair - 1)
            if not text:
                continue
            sizes[place] = ruler.tokens(text) + 1
        chosen[place] = text
        room -= sizes[place]
    return chosen, room


def _between(
    observations: Sequence[str], chosen: dict[int, str], room: int, ruler: _Ruler
) -> dict[int, str]:
    """Those from between that add most unseen words, as long as they fit whole."""
    seen = frozenset[str]().union(*(token_set(text) for text in chosen.values()))
    places = range(HEAD, len(observations) - TAIL)
    if len(places) > BETWEEN:
        places = range(places.start, places.stop, -(-len(places) // BETWEEN))
    found: dict[int, str] = {}
    words = {place: token_set(observations[place]) for place in places}
    # What an observation adds only ever falls as others are taken, so an old figure that is still
    # the highest when made anew is the highest.
    queue = [(-len(said - seen), place) for place, said in words.items()]
    heapq.heapify(queue)
    while queue and room > 1:
        adds, place = heapq.heappop(queue)
        now = -len(words[place] - seen)
        if now != adds:
            heapq.heappush(queue, (now, place))
            continue
        text = observations[place]
        if now == 0:
            break
        # No word is less than a token: most that are too long need not be counted.
        if len(text.split()) >= room or (size := ruler.tokens(text) + 1) > room:
            continue
        found[place] = text
        seen |= words[place]
        room -= size
    return found
