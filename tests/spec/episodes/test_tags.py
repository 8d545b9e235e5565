"""add_episode_tags, remove_episode_tags, set_episode_tags, get_episode_tags,
search_episodes_by_tags."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mnemolog.events.envelope import Decision
from mnemolog.events.episodes import (
    MAX_TAGS,
    EpisodeCompleted,
    EpisodeEmbedded,
    EpisodeTagged,
    Outcome,
    Reflection,
    Reward,
)
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE
from mnemolog.projections.episodes.text import TEXT
from mnemolog.projections.ports import PutText
from tests.spec.given import MODEL, NORTH, Ask, days
from tests.spec.given_episodes import (
    VALIDATION,
    Episodes,
    add_tags,
    begun,
    called,
    get_tags,
    remove_tags,
    search_tags,
    set_tags,
    stated,
)

VISIBLE = "must have 2 to 100 visible characters"


@pytest.fixture
def episodes() -> Episodes:
    """With an episode, 1, tagged api and jwt."""
    return Episodes().given(begun(1, "Log users in", "jwt", "api"))


def text(*tags: str) -> str:
    return "\n".join(["Log users in", " ".join(["web-api", "testing", *tags])])


def tags(episodes: Episodes, number: int = 1) -> list[str]:
    found: list[str] = episodes.told(get_tags(number))["tags"]
    return found


# --- changing them -------------------------------------------------------------------------------


def test_tags_are_added_trimmed_lower_cased_and_once(episodes: Episodes) -> None:
    asked = add_tags(1, "  OAuth ", "oauth", "API", "two   words")
    episodes.when(asked).then(
        EpisodeTagged(
            number=1, text=text("api", "jwt", "oauth", "two words"), added=["oauth", "two words"]
        )
    ).then_reply(
        {
            "success": True,
            "episode_id": called(1),
            "tags_added": ["oauth", "two words"],
            "current_tags": ["api", "jwt", "oauth", "two words"],
        }
    ).then_rebuilt()
    assert tags(episodes) == ["api", "jwt", "oauth", "two words"]


def test_tags_are_removed(episodes: Episodes) -> None:
    episodes.when(remove_tags(1, "JWT", "never had")).then(
        EpisodeTagged(number=1, text=text("api"), removed=["jwt"])
    ).then_reply(
        {
            "success": True,
            "episode_id": called(1),
            "tags_removed": ["jwt"],
            "current_tags": ["api"],
        }
    ).then_rebuilt()
    assert tags(episodes) == ["api"]


def test_tags_are_set(episodes: Episodes) -> None:
    episodes.when(set_tags(1, "rust", "api")).then(
        EpisodeTagged(number=1, text=text("api", "rust"), added=["rust"], removed=["jwt"])
    ).then_reply(
        {
            "success": True,
            "episode_id": called(1),
            "tags_set": ["rust", "api"],
            "current_tags": ["api", "rust"],
        }
    ).then_rebuilt()
    assert tags(episodes) == ["api", "rust"]


def test_an_empty_list_takes_all_away(episodes: Episodes) -> None:
    episodes.when(set_tags(1)).then(
        EpisodeTagged(number=1, text=text(), removed=["api", "jwt"])
    ).then_reply_has(tags_set=[], current_tags=[]).then_rebuilt()
    assert tags(episodes) == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (add_tags(1, "api", " JWT "), {"tags_added": []}),
        (remove_tags(1, "other"), {"tags_removed": []}),
        (set_tags(1, "jwt", "api", "JWT"), {"tags_set": ["jwt", "api"]}),
    ],
    ids=["add", "remove", "set"],
)
def test_what_changes_nothing_leaves_no_fact(
    episodes: Episodes, asked: Ask, told: dict[str, list[str]]
) -> None:
    episodes.when(asked).then().then_reply(
        {"success": True, "episode_id": called(1), **told, "current_tags": ["api", "jwt"]}
    )


def test_a_completed_episode_is_tagged_and_found_by_how_it_ended_still(episodes: Episodes) -> None:
    completed = EpisodeCompleted(
        number=1,
        outcome=Outcome(type="failure", reason="The clock was wrong"),
        success=0.0,
        reward=Reward(total=0, base=0, efficiency=1, complexity=1, quality=1, learning=0),
        reflection=Reflection(),
        text="…",
    )
    found = f"{text('api', 'clocks', 'jwt')}\nThe clock was wrong"
    tagged = EpisodeTagged(number=1, text=found, added=["clocks"])
    episodes.given(stated(completed)).when(add_tags(1, "clocks")).then(tagged)
    decision = episodes.decision
    assert isinstance(decision, Decision)
    (put,) = TEXT[EpisodeTagged](tagged, decision)
    assert isinstance(put, PutText) and (put.id, put.text) == (1, found)


def test_an_episode_with_other_tags_is_described_anew(episodes: Episodes) -> None:
    embedded = EpisodeEmbedded(number=1, version=1, model=MODEL.name, embedding=0)
    episodes.given(stated(embedded, vector=NORTH))

    def described() -> bool:
        return DESCRIBED.is_described(episodes.state.view, MODEL.name, EPISODE, 1)

    episodes.told(add_tags(1, "api"))
    assert described()
    episodes.told(add_tags(1, "clocks"))
    assert not described()


# --- what is not taken ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [add_tags, remove_tags, set_tags, get_tags])
def test_an_episode_that_does_not_exist(episodes: Episodes, make: Callable[..., Ask]) -> None:
    given = [] if make is get_tags else ["api"]
    episodes.when(make(2, *given)).then_not_found(called(2))


def test_another_tenants_episode_does_not_exist(episodes: Episodes) -> None:
    episodes.when(add_tags(1, "mine", tenant="other")).then_not_found(called(1))
    assert episodes.told(search_tags("api", tenant="other"))["count"] == 0


@pytest.mark.parametrize("make", [add_tags, remove_tags, set_tags])
@pytest.mark.parametrize("tag", ["a", "  b  ", "", "x" * 101, "zero\u200bwidth", "nul\x00"])
def test_a_tag_is_neither_short_nor_long_nor_unseen(
    episodes: Episodes, make: Callable[..., Ask], tag: str
) -> None:
    episodes.when(make(1, "fine", tag)).then_invalid("tags[1]", VISIBLE, value=tag)


def test_a_search_says_what_no_tag_can_be(episodes: Episodes) -> None:
    episodes.when(search_tags("a")).then_invalid("tags[0]", VISIBLE, value="a")


def test_an_episode_has_so_many_tags_and_no_more(episodes: Episodes) -> None:
    more = [f"tag-{i}" for i in range(MAX_TAGS - 2)]
    episodes.told(add_tags(1, *more))
    assert len(tags(episodes)) == MAX_TAGS
    issue = f"would give the episode {MAX_TAGS + 1} tags; at most {MAX_TAGS} are kept: remove some"
    episodes.when(add_tags(1, "another")).then_invalid("tags", issue, value=["another"])
    assert episodes.told(add_tags(1, "tag-0"))["tags_added"] == []


@pytest.mark.parametrize(
    "asked",
    [
        add_tags(1),
        remove_tags(1),
        search_tags(),
        *(
            make(1, *(f"tag-{i}" for i in range(MAX_TAGS + 1)))
            for make in (add_tags, remove_tags, set_tags)
        ),
        search_tags("api", limit=0),
        search_tags("api", limit=1001),
    ],
    ids=lambda asked: f"{asked.tool}-{len(asked.arguments)}",
)
def test_lists_and_limits_are_bounded(episodes: Episodes, asked: Ask) -> None:
    episodes.when(asked).then_nothing_changed()
    assert episodes.decision is not None and episodes.decision.code == VALIDATION
    assert episodes.reply["field"] in ("tags", "limit")
    assert episodes.reply["error"].startswith("Validation error: ")


# --- looking -------------------------------------------------------------------------------------


def test_the_tags_of_an_episode(episodes: Episodes) -> None:
    assert episodes.told(get_tags(1)) == {
        "success": True,
        "episode_id": called(1),
        "tags": ["api", "jwt"],
        "count": 2,
    }
    episodes.then()


@pytest.fixture
def several(episodes: Episodes) -> Episodes:
    """With three more episodes; 4 was begun after 3."""
    return episodes.given(
        begun(2, "Sign tokens", "jwt"),
        begun(3, "Draw a map", "gis", at_us=days(1)),
        begun(4, "Serve a map", "gis", "api", at_us=days(2)),
    )


def ids(episodes: Episodes, asked: Ask) -> tuple[int, list[str]]:
    found = episodes.told(asked)
    return found["count"], [one["id"] for one in found["episodes"]]


def test_episodes_by_any_tag_the_newest_first(several: Episodes) -> None:
    assert ids(several, search_tags("API", "jwt")) == (3, [called(4), called(2), called(1)])
    several.then()
    assert ids(several, search_tags("gis")) == (2, [called(4), called(3)])
    assert ids(several, search_tags("unheard of")) == (0, [])


def test_episodes_by_all_tags(several: Episodes) -> None:
    assert ids(several, search_tags("api", "jwt", require_all=True)) == (1, [called(1)])
    assert ids(several, search_tags("jwt", "JWT ", require_all=True)) == (
        2,
        [called(2), called(1)],
    )
    assert ids(several, search_tags("jwt", "gis", require_all=True)) == (0, [])


def test_the_count_is_of_all_that_there_are(several: Episodes) -> None:
    assert ids(several, search_tags("api", "jwt", limit=1)) == (3, [called(4)])


def test_a_search_tells_what_it_searched_for(several: Episodes) -> None:
    found = several.told(search_tags("GIS", " api", require_all=True, limit=7))
    assert found["search_criteria"] == {"tags": ["gis", "api"], "require_all": True, "limit": 7}
    (one,) = found["episodes"]
    assert one["task_description"] == "Serve a map"
    assert (one["tags"], one["status"]) == (["api", "gis"], "active")


def test_a_search_in_which_nothing_ever_happened() -> None:
    assert Episodes().told(search_tags("api")) == {
        "count": 0,
        "episodes": [],
        "search_criteria": {"tags": ["api"], "require_all": False, "limit": 100},
    }


def test_a_tag_that_was_taken_away_finds_nothing(several: Episodes) -> None:
    several.told(remove_tags(2, "jwt"))
    assert ids(several, search_tags("jwt")) == (1, [called(1)])
    several.then_rebuilt()
