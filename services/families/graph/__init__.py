"""The knowledge graph family: entities, what is observed of them, and relations between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemolog.services.listed import Listed

if TYPE_CHECKING:
    from mnemolog.services.family import Family

NAME = "graph"

INTRODUCTION = """\
A knowledge graph of entities, what is observed of them, and relations between them:
- Before answering, look up what is known: search_nodes finds a text in names, types and \
observations, search_semantic finds by meaning, open_nodes fetches entities by name.
- Keep what is worth knowing later with create_entities, add_observations (single facts, each a \
sentence) and create_relations (in active voice). Creating an entity that exists adds to it.
- When something is no longer so, call end_relation: that it once held stays in the history. \
Delete what was never right.
- add_reflection keeps what something means, in free prose."""


def _load() -> Family:
    from mnemolog.services.families.graph.family import FAMILY

    return FAMILY


LISTED = Listed(NAME, INTRODUCTION, _load)
