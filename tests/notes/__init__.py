"""A family that lives in the tests alone: notes, which can be taken and looked up.

All that the service knows of it is in this folder. `python -m tests.notes` is the command line of a
service that has it beside the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemolog.services.listed import Listed

if TYPE_CHECKING:
    from mnemolog.services.family import Family

NAME = "notes"
INTRODUCTION = "Notes: take_note keeps a text, find_notes looks for words in them."


def _load() -> Family:
    from tests.notes.family import FAMILY

    return FAMILY


LISTED = Listed(NAME, INTRODUCTION, _load)
