"""The lives of episodes and patterns, also of those that are gone."""

from __future__ import annotations

import pytest

from mnemolog.events.codec import decode_decision
from mnemolog.events.episodes import EpisodeTagged, RelationshipAdded, RelationshipRemoved
from mnemolog.services.facts import facts_of
from mnemolog.services.families.episodes.told import THINGS, EpisodeLife, PatternLife
from mnemolog.services.told import Thing, life_of
from tests.spec.given_episodes import (
    NOBODY,
    Episodes,
    add_step,
    complete,
    delete,
    stated,
)


def lived(episodes: Episodes, asked: Thing) -> list[str]:
    """What is told of a thing, line by line."""
    decisions = [decode_decision(data) for data in episodes.log]
    facts = {one.call_offset: facts_of(episodes.decode(one)) for one in decisions}
    thing, calls = life_of(episodes.state.reader(), "default", asked, facts.__getitem__)
    return [
        line
        for call in calls
        for one in facts[call]
        if thing.concerns(one)
        for line in thing.sentence(thing.explained(one)).splitlines()
    ]


def related(episodes: Episodes, number: int, source: int, target: int) -> str:
    """A relationship between the episodes of these numbers; its id."""
    name = f"r-{number}"
    fact = RelationshipAdded(
        relationship=number,
        relationship_id=name,
        source=source,
        target=target,
        relationship_type="depends_on",
        reason="needs it",
    )
    episodes.given(stated(fact))
    return name


def test_an_episode_tells_all_that_happened_to_it(episodes: Episodes) -> None:
    own = episodes.begun(language="rust", tags=["auth"], complexity="simple")
    episodes.after(
        add_step(own, 1, "reader", "Read the log", result={"type": "error"}, latency_ms=1500),
        add_step(own, 2, "editor", "Fix it"),
    )
    tagged = EpisodeTagged(number=1, text="x", added=["jwt"], removed=["auth"])
    episodes.given(stated(tagged))
    reward = episodes.told(complete(own, "partial_success"))["reward_score"]
    assert lived(episodes, EpisodeLife(own)) == [
        "begun: Fix the login (debugging in web-api, rust, simple, auth)",
        "step 1, reader: Read the log (error, 1,500 ms)",
        "step 2, editor: Fix it",
        "tags:",
        "+ jwt",
        "- auth",
        f"completed: partial_success, reward {reward:g}",
        "Half of it",
        "+ login",
        "- logout",
        "shows pattern-1: ErrorRecovery: When reader fails, editor: Fix it (debugging in web-api)",
        "shows pattern-2: ContextPattern: debugging in web-api with language rust, complexity "
        "simple (debugging in web-api)",
    ]
    assert str(life(episodes, own)) == f"Episode {own}: Fix the login"


def life(episodes: Episodes, own: str) -> Thing:
    thing = EpisodeLife(own)
    lived(episodes, thing)
    return thing


def test_what_was_deleted_tells_what_it_was(episodes: Episodes) -> None:
    own = episodes.begun()
    episodes.after(add_step(own, 1), complete(own, "failure"), delete(own))
    assert lived(episodes, EpisodeLife(own))[-1] == (
        "deleted; it was: Fix the login (completed, failure, 1 step)"
    )
    other = episodes.begun("Sleep")
    episodes.after(delete(other))
    assert lived(episodes, EpisodeLife(other)) == [
        "begun: Sleep (debugging in web-api)",
        "deleted; it was: Sleep (active, 0 steps)",
    ]


def test_both_ends_tell_what_became_of_a_relationship(episodes: Episodes) -> None:
    first, second, third = (episodes.begun(one) for one in ("first", "second", "third"))
    kept, gone = related(episodes, 1, 1, 2), related(episodes, 2, 3, 1)
    for own in (first, second):
        assert lived(episodes, EpisodeLife(own))[1] == (
            f"relationship {kept}: {first} depends_on {second} added (needs it)"
        )
    removed = RelationshipRemoved(
        relationship=2,
        relationship_id=gone,
        source=3,
        target=1,
        source_id=third,
        target_id=first,
        relationship_type="depends_on",
    )
    episodes.given(stated(removed))
    for own in (first, third):
        assert lived(episodes, EpisodeLife(own))[-1] == (
            f"relationship {gone}: {third} depends_on {first} removed"
        )
    episodes.after(delete(second))
    arrow = f"{kept}: {first} depends_on {second}"
    assert lived(episodes, EpisodeLife(first))[-1] == (
        f"relationship {arrow} deleted with episode {second}"
    )
    assert lived(episodes, EpisodeLife(second))[-2:] == [
        "deleted; it was: second (active, 0 steps)",
        f"- {arrow}",
    ]
    assert all("deleted" not in line for line in lived(episodes, EpisodeLife(third)))
    episodes.after(delete(first))
    assert lived(episodes, EpisodeLife(second))[1] == f"relationship {arrow} added (needs it)"


def test_a_pattern_tells_who_showed_it_and_when_it_went(episodes: Episodes) -> None:
    first = episodes.begun(language="rust")
    episodes.after(complete(first))
    second = episodes.begun(language="rust")
    episodes.after(complete(second, "failure"), delete(first))
    told = [
        "found: ContextPattern: debugging in web-api with language rust (debugging in web-api)",
        f"shown by episode {first}, success 1",
        f"shown by episode {second}, success 0",
        f"no longer shown by episode {first}, which was deleted",
    ]
    assert lived(episodes, PatternLife(1)) == told
    episodes.after(delete(second))
    gone = f"gone with episode {second}, which alone showed it"
    assert lived(episodes, PatternLife(1)) == [*told, gone]
    assert lived(episodes, EpisodeLife(first))[-2].startswith("shows pattern-1: ContextPattern")


def test_what_never_was_has_no_life(episodes: Episodes) -> None:
    episodes.begun()
    assert lived(episodes, EpisodeLife(NOBODY)) == []
    assert lived(episodes, PatternLife(1)) == []


@pytest.mark.parametrize(
    ("kind", "text", "known"),
    [
        ("episode", f" {NOBODY.upper()}", f"Episode {NOBODY}"),
        ("episode", " ", None),
        ("pattern", "7", "Pattern pattern-7"),
        ("pattern", "pattern-7", "Pattern pattern-7"),
        ("pattern", "pattern-", None),
        ("pattern", "x7", None),
    ],
)
def test_what_is_typed(kind: str, text: str, known: str | None) -> None:
    (read,) = (one.read for one in THINGS if one.kind == kind)
    found = read(text)
    assert (None if found is None else str(found)) == known
