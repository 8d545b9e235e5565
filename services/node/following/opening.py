"""The search indexes of one store, opened, and made whole where they are not: what is dropped here
is made anew as the log is followed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from mnemolog.infra.embedder.catalogue import Model
from mnemolog.projections.ports import IndexDamaged

if TYPE_CHECKING:
    from mnemolog.projections.text.index import TantivyText
    from mnemolog.projections.vectors.edge import EdgeVectors

_log = structlog.get_logger("mnemolog.node")


def text(directory: Path, mend: bool) -> TantivyText:
    """The text index in `directory`. `IndexDamaged` when it is not to be mended, and cannot be
    opened."""
    from mnemolog.projections.text import whole
    from mnemolog.projections.text.index import TantivyText

    if mend:
        for sentence in whole.mend(directory):
            _tell(sentence)
    return TantivyText(directory)


def vectors(directory: Path, model: Model, mend: bool) -> EdgeVectors:
    """The vectors of a model in `directory`. `IndexDamaged` when they are not to be mended, and
    cannot be opened."""
    from mnemolog.projections.vectors import whole
    from mnemolog.projections.vectors.edge import EdgeVectors
    from mnemolog.projections.vectors.manifest import wipe

    if not mend:
        return EdgeVectors(directory, model.dims, model.name)
    try:
        whole.check(directory)
        found = EdgeVectors(directory, model.dims, model.name)
        try:
            found.check()
        except IndexDamaged:
            found.close()
            raise
        return found
    except IndexDamaged as error:
        _tell(str(error))
        wipe(directory)
        return EdgeVectors(directory, model.dims, model.name)


def vectors_differ(directory: Path) -> dict[str, str]:
    """What a digest says besides of vectors whose files are not those that were committed."""
    from mnemolog.projections.vectors import whole

    try:
        whole.check(directory)
    except IndexDamaged as error:
        return {"(damaged)": str(error)}
    return {}


def _tell(sentence: str) -> None:
    _log.warning("an index is not whole and is made anew from the log", found=sentence)
