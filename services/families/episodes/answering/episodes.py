"""Episodes looked up by their ids."""

from __future__ import annotations

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import BulkEpisodes, GetEpisode, GetEpisodeTimeline
from mnemolog.projections.episodes import state
from mnemolog.projections.times import zoned
from mnemolog.services.families.episodes.lookup import check_size, existing, named
from mnemolog.services.families.episodes.replies import at, shown_outcome, whole_episode
from mnemolog.services.reader.reader import Read, Reader


def answer_get(reader: Reader, call: Call, args: GetEpisode) -> Read:
    episode = existing(reader.view, call.space, args.episode_id)
    check_size(reader.view, "episode_id", [episode.id])
    return Read(whole_episode(reader.view, episode), [episode.id])


def answer_timeline(reader: Reader, call: Call, args: GetEpisodeTimeline) -> Read:
    episode = existing(reader.view, call.space, args.episode_id)
    steps = state.outline(reader.view, episode.id)
    reply = {
        "episode_id": episode.uuid,
        "task_description": episode.description,
        "start_time": zoned(episode.created_at_us),
        "end_time": at(episode.completed_at_us),
        "duration_seconds": round(episode.duration_ms / 1000, 3),
        "step_count": episode.steps,
        "timeline": [
            {
                "step_number": step.number,
                "timestamp": zoned(step.at_us),
                "tool": step.tool,
                "action": step.action,
                "result_type": step.result_type,
                "latency_ms": step.latency_ms,
            }
            for step in steps
        ],
        "outcome": shown_outcome(episode),
    }
    return Read(reply, [episode.id])


def answer_bulk(reader: Reader, call: Call, args: BulkEpisodes) -> Read:
    """In the order in which they were asked for, each once."""
    view = reader.view
    wanted = list(dict.fromkeys(named(one) for one in args.episode_ids))
    there = state.episodes_called(view, view.space_id(call.space), wanted)
    check_size(view, "episode_ids", [one.id for one in there.values()])
    rows = [whole_episode(view, there[one]) for one in wanted if one in there]
    reply = {
        "requested_count": len(args.episode_ids),
        "found_count": len(rows),
        "episodes": rows,
        "not_found": [one for one in wanted if one not in there],
    }
    return Read(reply, [there[one].id for one in wanted if one in there])
