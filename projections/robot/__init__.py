"""What the robot family's facts do: memories and sessions, by collection."""

from mnemolog.events.robot import LANGUAGE
from mnemolog.projections.projection import Projection
from mnemolog.projections.robot import schema
from mnemolog.projections.robot.facts import EVOLVE
from mnemolog.projections.robot.kept import Kept
from mnemolog.projections.robot.state import decayed
from mnemolog.projections.robot.text import TEXT
from mnemolog.projections.robot.vectors import VECTORS

PROJECTION = Projection(
    language=LANGUAGE,
    tables=schema.SCHEMA,
    canonical=schema.CANONICAL,
    state=EVOLVE,
    text=TEXT,
    vectors=VECTORS,
    functions={"decayed": (3, decayed)},
    kept=Kept,
)
