"""The whole log, read through quietly beside everything else: what is written once and rarely read
again goes bad unnoticed, and then there is no backup left that is older than the damage."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from mnemolog.events.log import LogDamaged
from mnemolog.services.node.background import Quiet, Stopped
from mnemolog.services.node.failing import Complaints
from mnemolog.services.node.following.follow import DAMAGED, ReadableLog
from mnemolog.services.verifying import verify

FIRST_AFTER_S = 5.0
EVERY_S = 24 * 3600.0

_log = structlog.get_logger("mnemolog.node")


class Scrub(Quiet):
    """`damaged` hears of a partition's damage, and where."""

    def __init__(self, log: ReadableLog, damaged: Callable[[int, str], None]) -> None:
        super().__init__("scrub")
        self.read_through = 0
        """How often the whole log was."""
        self._log = log
        self._damaged = damaged

    def _run(self) -> None:
        complaints, wait_s = Complaints(_log), FIRST_AFTER_S
        while not self._stopping.wait(wait_s):
            wait_s = EVERY_S
            with complaints.about("the log could not be read through"):
                self._go_through()

    def _go_through(self) -> None:
        self._begin_work()
        try:
            reports = verify(self._log, {}, lambda *_: self._rest())
        except Stopped:
            return
        except LogDamaged as error:
            self._tell(0, str(error))
            return
        for report in reports:
            if report.problems:
                self._tell(report.partition, f"{report.problems[0]}. {DAMAGED}")
        self.read_through += 1

    def _tell(self, partition: int, sentence: str) -> None:
        _log.error("the log is damaged", partition=partition, found=sentence)
        self._damaged(partition, sentence)
