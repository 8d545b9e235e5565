"""What the service understands of a text without a model: its words, its numbers, its sameness.

Pure functions of their argument. They accept any string, lone surrogates included, and their work
grows linearly with its length. What they return goes into the text index and into the duplicate
checks: a change here that alters `tokens` asks for a rebuild of both.
"""

from mnemolog.projections.language.opposites import opposed, opposites, sides, swapped
from mnemolog.projections.language.signature import guard
from mnemolog.projections.language.words import (
    MAX_CHARACTERS,
    MAX_TOKEN_LENGTH,
    content_hash,
    jaccard,
    normalise,
    token_set,
    tokens,
)

__all__ = [
    "MAX_CHARACTERS",
    "MAX_TOKEN_LENGTH",
    "content_hash",
    "guard",
    "jaccard",
    "normalise",
    "opposed",
    "opposites",
    "sides",
    "swapped",
    "token_set",
    "tokens",
]
