"""The node's own vectors, read through quietly beside everything else and compared with the log.

The files of the engine change in place while it runs, and no checksum of them says anything. What
they should hold follows from the log, and that is compared: each point, its payload, its vector and
its code, as a search reads them. A point that is changed meanwhile is left out, so nothing needs to
stand still, and what differs is not late but wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import structlog

from mnemolog.events.log import LogError
from mnemolog.projections.ports import IndexDamaged, VectorsAway
from mnemolog.services.api import Unavailable
from mnemolog.services.node.background import Quiet, Stopped
from mnemolog.services.node.failing import Complaints
from mnemolog.services.node.following.follow import counted_after
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.host import Host

if TYPE_CHECKING:
    from mnemolog.projections.vectors.edge import EdgeVectors
    from mnemolog.projections.vectors.expected import Expected

FIRST_AFTER_S = 5.0
EVERY_S = 24 * 3600.0
AGAIN_AFTER_S = 60.0
"""When it was not to be had: the disk is full, or a rebuild put other vectors in its place."""
PAGE = 16
"""Points that are read at once: some 2 ms, in which the engine lets no other thread run."""

_log = structlog.get_logger("mnemolog.node")


class _Replaced(Exception):
    """Others are in use now."""


class VectorScrub(Quiet):
    """What is not as the log says is given up, and made anew by `Healing`."""

    def __init__(self, host: Host) -> None:
        super().__init__("vector-scrub")
        self.read_through = 0
        """How often all of it was, and was right."""
        self._host = host

    def _run(self) -> None:
        complaints, wait_s = Complaints(_log), FIRST_AFTER_S
        what = "the vectors could not be read through"
        while not self._stopping.wait(wait_s):
            wait_s = EVERY_S
            with complaints.about(what):
                try:
                    self._go_through()
                except Stopped:
                    return
                except _Replaced:
                    wait_s = AGAIN_AFTER_S
                except (VectorsAway, LogError) as error:
                    wait_s = AGAIN_AFTER_S
                    raise Unavailable(str(error)) from error

    def _go_through(self) -> None:
        self._begin_work()
        with self._host.using.shared():
            projections = self._host.projections
        vectors = projections.own
        if vectors is None:
            return
        try:
            self._read(projections, vectors)
            self._compare(projections, vectors)
        except IndexDamaged as error:
            with self._in_use(projections):
                vectors.give_up(str(error))
            return
        self.read_through += 1

    def _read(self, projections: Projections, vectors: EdgeVectors) -> None:
        from mnemolog.projections.vectors import whole

        with self._in_use(projections):
            names = whole.sizes_of(vectors.directory / "shard")
        for _ in whole.read_through(vectors.directory, names):
            self._rest()

    def _compare(self, projections: Projections, vectors: EdgeVectors) -> None:
        """`IndexDamaged` at a point that is not what it should be, is missing, or should not be
        there."""
        from mnemolog.projections.vectors.expected import Expected
        from mnemolog.projections.vectors.manifest import VectorIndexError

        with ExitStack() as ends:
            with self._in_use(projections):
                applied, changed = ends.enter_context(vectors.watched())
                expected = ends.enter_context(closing(Expected(vectors.directory, vectors.dims)))
            self._follow(projections, expected, applied)
            due, after, more = expected.rows, None, True
            while more:
                self._rest()
                with self._in_use(projections):
                    found, after = vectors.rows(after, PAGE)
                wrong = [key for key, row in found.items() if key not in due or due.pop(key) != row]
                more = after is not None
                if not more:
                    wrong += due  # What is left was not met.
                for key in wrong:
                    if key not in changed:
                        raise VectorIndexError(
                            vectors.directory, f"does not hold what the log says (point {key})"
                        )

    def _follow(
        self, projections: Projections, expected: Expected, applied: dict[int, int]
    ) -> None:
        """Have it expect what the log says, up to what was applied."""
        projected, model = projections.projected, projections.model
        assert model is not None
        for partition, last in applied.items():
            every = counted_after(self._host.log, projected, partition, -1, lambda _: self._rest())
            for counted in every:
                if counted.offset > last:
                    break
                for change in projected.vector_changes(counted.decision, counted.facts, model.name):
                    if expected.take(change):
                        with self._in_use(projections):
                            expected.settle()
                        self._rest()
        with self._in_use(projections):
            expected.settle()

    @contextmanager
    def _in_use(self, projections: Projections) -> Iterator[None]:
        """While what is in use is not replaced; for a moment. `_Replaced` when it was."""
        with self._host.using.shared():
            if self._host.projections is not projections:
                raise _Replaced
            yield
