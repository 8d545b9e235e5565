"""What the knowledge graph's facts do: entities, observations, relations, reflections."""

from mnemolog.events.graph import LANGUAGE
from mnemolog.projections.graph import facts, meaning, schema
from mnemolog.projections.graph.text import TEXT
from mnemolog.projections.graph.vectors import VECTORS
from mnemolog.projections.projection import Projection

PROJECTION = Projection(
    language=LANGUAGE,
    tables=schema.SCHEMA + meaning.DESCRIBED.tables,
    canonical={**schema.CANONICAL, **meaning.DESCRIBED.canonical},
    state={**facts.EVOLVE, **meaning.EVOLVE},
    text=TEXT,
    vectors=VECTORS,
)
