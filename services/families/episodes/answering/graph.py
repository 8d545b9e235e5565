"""Episodes as a graph: what is around one of them, and the order that some of them have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import ACYCLIC, GetDependencyGraph, GetTopologicalOrder
from mnemolog.projections.episodes import relationships, state
from mnemolog.projections.episodes.relationships import Relationship
from mnemolog.projections.episodes.state import Episode
from mnemolog.projections.state.view import View
from mnemolog.services.families.episodes.lookup import all_existing, existing
from mnemolog.services.reader.reader import Read, Reader

MAX_NODES = 500
MAX_EDGES = 2000
"""More of either is too much to look at, and the graph says that it is cut."""
LABEL_SHOWN = 80


def answer_graph(reader: Reader, call: Call, args: GetDependencyGraph) -> Read:
    """Every relationship between the episodes that are at most `depth` away, in any direction."""
    view = reader.view
    root = existing(view, call.space, args.episode_id)
    distances, cut = _around(view, root, args.depth)
    edges = relationships.among(view, list(distances), limit=MAX_EDGES + 1)
    there = state.episodes(view, root.space, list(distances))
    nodes = [there[number] for number in distances]
    shown = edges[:MAX_EDGES]
    reply: dict[str, Any] = {
        "root": root.uuid,
        "node_count": len(nodes),
        "edge_count": len(shown),
        "truncated": cut or len(edges) > MAX_EDGES,
    }
    if args.format == "dot":
        reply |= {"format": "dot", "dot": _dot(nodes, shown)}
    else:
        reply |= {
            "nodes": [_node(one, distances[one.id]) for one in nodes],
            "edges": [_edge(one) for one in shown],
        }
    return Read(reply, list(distances))


def answer_order(reader: Reader, call: Call, args: GetTopologicalOrder) -> Read:
    """What nothing orders stays as it was asked for. Where there is a cycle, it and what comes
    after it have no place in the order."""
    # It takes a tenth of a second to import, which a start should not.
    import networkx  # type: ignore[import-untyped]

    view = reader.view
    asked = all_existing(view, call.space, args.episode_ids)
    places = {one.id: place for place, one in enumerate(asked)}
    graph = networkx.DiGraph()
    graph.add_nodes_from(places)
    for one in relationships.among(view, list(places), ACYCLIC):
        if one.type == "depends_on":
            graph.add_edge(one.target, one.source)
        else:
            graph.add_edge(one.source, one.target)
    order: list[int] = []
    try:
        for number in networkx.lexicographical_topological_sort(graph, key=places.__getitem__):
            order.append(number)
    except networkx.NetworkXUnfeasible:
        pass  # Only a cycle is left: the order ends here.
    there = {one.id: one for one in asked}
    reply: dict[str, Any] = {
        "order": [
            {
                "episode_id": there[number].uuid,
                "task_description": there[number].description,
                "position": position,
            }
            for position, number in enumerate(order, 1)
        ],
        "count": len(order),
        "has_cycles": len(order) < len(asked),
    }
    if len(order) < len(asked):
        reply["unordered"] = [one.uuid for one in asked if one.id not in order]
    return Read(reply, list(places))


def _around(view: View, root: Episode, depth: int) -> tuple[dict[int, int], bool]:
    """By episode how far it is from the root, the nearest first; and whether some are left out."""
    distances, frontier = {root.id: 0}, [root.id]
    for distance in range(1, depth + 1):
        # All that are known already may be among them, and one more tells that there are more.
        near = relationships.neighbours(view, frontier, 2 * MAX_NODES + 1)
        new = [number for number in near if number not in distances]
        room = MAX_NODES - len(distances)
        frontier = new[:room]
        distances |= dict.fromkeys(frontier, distance)
        if len(new) > room:
            return distances, True
        if not frontier:
            break
    return distances, False


def _node(episode: Episode, distance: int) -> dict[str, Any]:
    return {
        "id": episode.uuid,
        "task_description": episode.description,
        "domain": episode.domain,
        "task_type": episode.task_type,
        "status": episode.status,
        "distance": distance,
    }


def _edge(one: Relationship) -> dict[str, Any]:
    return {
        "id": one.uuid,
        "from": one.source_id,
        "to": one.target_id,
        "relationship_type": one.type,
        "priority": one.priority,
    }


def _dot(nodes: Sequence[Episode], edges: Sequence[Relationship]) -> str:
    """The graph as Graphviz reads it."""
    lines = ["digraph episodes {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f'  "{one.uuid}" [label="{_label(one.description)}"];' for one in nodes]
    lines += [
        f'  "{one.source_id}" -> "{one.target_id}" [label="{_label(one.type)}"];' for one in edges
    ]
    return "\n".join([*lines, "}", ""])


def _label(text: str) -> str:
    """As a label says it: one line, a beginning of it if it is long. Graphviz takes a backslash
    and an ampersand in a label for the beginning of something else."""
    line = " ".join(_UNSEEN.sub(" ", text).split())
    short = line if len(line) <= LABEL_SHOWN else f"{line[: LABEL_SHOWN - 1]}…"
    return short.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')


_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f]")
