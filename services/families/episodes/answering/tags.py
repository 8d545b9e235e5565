"""The tags of an episode, and episodes by their tags."""

from __future__ import annotations

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import GetEpisodeTags, SearchEpisodesByTags
from mnemolog.projections.episodes import state
from mnemolog.projections.episodes.state import Episode
from mnemolog.services.families.episodes.deciding.tags import clean_tags
from mnemolog.services.families.episodes.lookup import existing
from mnemolog.services.families.episodes.replies import shown_episode
from mnemolog.services.reader.reader import Read, Reader


def answer_tags(reader: Reader, call: Call, args: GetEpisodeTags) -> Read:
    episode = existing(reader.view, call.space, args.episode_id)
    tags = state.tags(reader.view, episode.id)
    reply = {"success": True, "episode_id": episode.uuid, "tags": tags, "count": len(tags)}
    return Read(reply, [episode.id])


def answer_tagged(reader: Reader, call: Call, args: SearchEpisodesByTags) -> Read:
    """`count` is how many there are, whatever the limit."""
    view, wanted = reader.view, clean_tags(args.tags)
    space = view.space_id(call.space)
    total, found = 0, list[Episode]()
    if space is not None:
        total, found = state.tagged(view, space, wanted, args.require_all, args.limit)
    numbers = [one.id for one in found]
    tags = state.tags_of(view, numbers)
    reply = {
        "count": total,
        "episodes": [shown_episode(one, tags[one.id]) for one in found],
        "search_criteria": {
            "tags": wanted,
            "require_all": args.require_all,
            "limit": args.limit,
        },
    }
    return Read(reply, numbers)
