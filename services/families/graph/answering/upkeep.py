"""What may need care: observations that say the same, and a report on the whole graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Call
from mnemolog.events.graph import ConsolidationReport, FindDuplicateObservations
from mnemolog.projections.graph import state, upkeep
from mnemolog.projections.language import jaccard
from mnemolog.projections.language.likeness import asymmetric, containment, word_set
from mnemolog.projections.ports import Vector
from mnemolog.projections.state.view import View
from mnemolog.projections.times import DAY_US
from mnemolog.services.families.graph.answering.examining import MAX_CANDIDATES, analyses
from mnemolog.services.families.graph.deciding.entities import existing
from mnemolog.services.reader.reader import Read, Reader, no_model

MAX_COMPARED = 500
"""Every pair of an entity's observations is compared: 124,750 pairs."""
MAX_PAIRS = 1000
MAX_ROWS = 200


def answer_duplicates(reader: Reader, call: Call, args: FindDuplicateObservations) -> Read:
    place = reader.view.space_id(call.space)
    entity = _comparable(reader.view, place, args.entity_name)
    texts = state.observations(reader.view, entity.id)
    vectors = reader.embed_passages(texts)
    if vectors is None:
        raise no_model(reader.model)
    pairs = _alike(texts, vectors, args.threshold, args.containment_threshold)
    groups = _groups(len(texts), pairs)
    reply: dict[str, Any] = {
        "entity_name": entity.name,
        "total_observations": len(texts),
        "duplicate_pairs": [
            {
                "obs_text_a": texts[a],
                "obs_text_b": texts[b],
                "similarity_score": round(score, 4),
                "match_type": kind,
                "group": groups[a],
            }
            for a, b, score, kind in pairs[:MAX_PAIRS]
        ],
    }
    if len(pairs) > MAX_PAIRS:
        reply |= {"truncated": True, "total_pairs": len(pairs)}
    return Read(reply, [entity.id])


def answer_report(reader: Reader, call: Call, args: ConsolidationReport) -> Read:
    """Each list has its first rows; the summary counts all. Of the entities that are too large,
    those that are about one thing only are no candidates for a split."""
    view, now_us = reader.view, call.received_at_us
    place = view.space_id(call.space)
    if place is None:
        return Read(_report((0, 0), [], 0, (0, []), (0, []), [], now_us), [])
    large = upkeep.too_large(view, place)
    examined = list(analyses(reader, large[:MAX_CANDIDATES]))
    diverse = [one.entity for one in examined if len(one.topics) > 1]
    reply = _report(
        upkeep.totals(view, place),
        diverse,
        len(large) - len(examined) + len(diverse),
        upkeep.flagged(view, place, MAX_ROWS),
        upkeep.stale(view, place, now_us - round(args.stale_days * DAY_US), MAX_ROWS),
        large,
        now_us,
    )
    return Read(reply, [])


def _report(
    totals: tuple[int, int],
    candidates: list[upkeep.Sized],
    candidate_count: int,
    flagged: tuple[int, list[tuple[str, str]]],
    stale: tuple[int, list[upkeep.Idle]],
    large: list[upkeep.Sized],
    now_us: int,
) -> dict[str, Any]:
    return {
        "summary": {
            "total_entities": totals[0],
            "total_observations": totals[1],
            "split_candidates_count": candidate_count,
            "flagged_observations_count": flagged[0],
            "stale_entities_count": stale[0],
            "large_entities_count": len(large),
        },
        "split_candidates": [
            {**_sized(one), "threshold": one.threshold, "split_score": one.score}
            for one in candidates[:MAX_ROWS]
        ],
        "flagged_observations": [
            {"entity_name": name, "observation_text": text, "similarity_flag": 1}
            for name, text in flagged[1]
        ],
        "stale_entities": [
            {
                "entity_name": one.name,
                "entity_type": one.type,
                "last_accessed_days_ago": max(0, now_us - one.accessed_at_us) // DAY_US,
                "access_count": one.access_count,
                "observation_count": one.observations,
            }
            for one in stale[1]
        ],
        "large_entities": [_sized(one) for one in large[:MAX_ROWS]],
    }


def _sized(one: upkeep.Sized) -> dict[str, Any]:
    return {
        "entity_name": one.name,
        "entity_type": one.type,
        "observation_count": one.observations,
    }


def _comparable(view: View, place: int | None, name: str) -> state.Entity:
    entity = existing(view, place, name)
    count = state.observation_count(view, entity.id)
    if count > MAX_COMPARED:
        raise Refused(
            f"{name} has {count:,} observations, and up to {MAX_COMPARED} can be compared; "
            "propose_entity_split tells how to split it"
        )
    return entity


def _alike(
    texts: list[str], vectors: list[Vector | None], threshold: float, contained: float
) -> list[tuple[int, int, float, str]]:
    """Pairs that may say the same, most alike first: cosine, else containment. Where the model does
    not cover both, the share of their words stands in for the cosine."""
    cosines = _cosines(vectors)
    words = [word_set(text) for text in texts]
    found = []
    for a in range(len(texts)):
        for b in range(a + 1, len(texts)):
            kind, score = "cosine", float(cosines[a, b])
            if score < 0:
                kind, score = "words", jaccard(words[a], words[b])
            if score < threshold and asymmetric(texts[a], texts[b]):
                short, long = (a, b) if len(texts[a]) < len(texts[b]) else (b, a)
                kind, score = "containment", containment(words[short], words[long])
            if score >= (contained if kind == "containment" else threshold):
                found.append((a, b, score, kind))
    return sorted(found, key=lambda pair: (-round(pair[2], 4), pair[0], pair[1]))


def _cosines(vectors: list[Vector | None]) -> NDArray[np.float64]:
    """Of every pair, within 0 to 1; -1 where a text has no vector."""
    blank = next((np.zeros_like(one) for one in vectors if one is not None), None)
    if blank is None:
        return np.full((len(vectors), len(vectors)), -1.0)
    stacked = np.array([blank if one is None else one for one in vectors], dtype=np.float64)
    lengths = np.linalg.norm(stacked, axis=1)
    stacked /= np.where(lengths > 0, lengths, 1.0)[:, None]
    cosines = np.clip(np.round(stacked @ stacked.T, 6), 0.0, 1.0)
    without = lengths == 0
    cosines[without, :] = -1.0
    cosines[:, without] = -1.0
    return cosines


def _groups(count: int, pairs: list[tuple[int, int, float, str]]) -> list[int]:
    """For each text the number of its group, from 1 in the order of the groups' first texts:
    those that are alike, directly or through others. A text that is like no other has 0."""
    if not pairs:
        return [0] * count
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.array([pair[:2] for pair in pairs])
    graph = coo_matrix((np.ones(len(pairs)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    labels = connected_components(graph, directed=False)[1].tolist()
    numbers: dict[int, int] = {}
    paired = {place for pair in pairs for place in pair[:2]}
    return [
        numbers.setdefault(label, len(numbers) + 1) if place in paired else 0
        for place, label in enumerate(labels)
    ]
