"""What the episodes family's facts do: episodes, their steps, patterns, relationships."""

from mnemolog.events.episodes import LANGUAGE
from mnemolog.projections.episodes import provided, schema
from mnemolog.projections.episodes.facts import EVOLVE
from mnemolog.projections.episodes.state import DESCRIBED
from mnemolog.projections.episodes.text import TEXT
from mnemolog.projections.episodes.vectors import VECTORS
from mnemolog.projections.projection import Projection

PROJECTION = Projection(
    language=LANGUAGE,
    tables=schema.SCHEMA + DESCRIBED.tables + provided.TABLES,
    canonical={**schema.CANONICAL, **DESCRIBED.canonical, **provided.CANONICAL},
    state=EVOLVE,
    text=TEXT,
    vectors=VECTORS,
)
