"""Deciding on the tags of episodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mnemolog.events.codec import Fact
from mnemolog.events.episodes import (
    MAX_TAGS,
    AddEpisodeTags,
    EpisodeTagged,
    RemoveEpisodeTags,
    SetEpisodeTags,
)
from mnemolog.projections.episodes import state
from mnemolog.projections.episodes.text import text_of
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.episodes.lookup import existing
from mnemolog.services.families.episodes.problems import invalid
from mnemolog.services.families.episodes.rules import Context

SHORTEST, LONGEST = 2, 100


def decide_add_tags(ctx: Context, args: AddEpisodeTags) -> Decided:
    episode = existing(ctx.state, ctx.call.space, args.episode_id)
    have = state.tags(ctx.state, episode.id)
    added = [tag for tag in clean_tags(args.tags) if tag not in have]
    many = len(have) + len(added)
    if many > MAX_TAGS:
        issue = f"would give the episode {many} tags; at most {MAX_TAGS} are kept: remove some"
        raise invalid("tags", issue, args.tags)
    return _tagged(ctx, episode, have, {*have, *added}, tags_added=added)


def decide_remove_tags(ctx: Context, args: RemoveEpisodeTags) -> Decided:
    episode = existing(ctx.state, ctx.call.space, args.episode_id)
    have = state.tags(ctx.state, episode.id)
    removed = [tag for tag in clean_tags(args.tags) if tag in have]
    return _tagged(ctx, episode, have, {*have} - {*removed}, tags_removed=removed)


def decide_set_tags(ctx: Context, args: SetEpisodeTags) -> Decided:
    episode = existing(ctx.state, ctx.call.space, args.episode_id)
    have, wanted = state.tags(ctx.state, episode.id), clean_tags(args.tags)
    return _tagged(ctx, episode, have, wanted, tags_set=wanted)


def clean_tags(tags: Sequence[str], field: str = "tags") -> list[str]:
    """Trimmed and lower-cased, each once, in the order they came."""
    found: dict[str, None] = {}
    for place, tag in enumerate(tags):
        clean = " ".join(tag.split()).lower()
        if not SHORTEST <= len(clean) <= LONGEST or not clean.isprintable():
            issue = f"must have {SHORTEST} to {LONGEST} visible characters"
            raise invalid(f"{field}[{place}]", issue, tag)
        found[clean] = None
    return list(found)


def _tagged(
    ctx: Context, episode: state.Episode, have: Sequence[str], wanted: Collection[str], **told: Any
) -> Decided:
    """From now on an episode has the tags that are wanted, and no others."""
    now = sorted(wanted)
    facts: list[Fact] = []
    if now != list(have):
        fact = EpisodeTagged(
            number=episode.id,
            text=text_of(episode, now, episode.ended),
            added=[tag for tag in now if tag not in have],
            removed=[tag for tag in have if tag not in wanted],
        )
        facts.append(fact)
    reply = {"success": True, "episode_id": episode.uuid, **told, "current_tags": now}
    return Decided(ctx.call.space, facts, reply)
