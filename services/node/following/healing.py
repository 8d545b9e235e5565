"""An index that a read stumbled over, made anew from the log while the node goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from mnemolog.services.node.background import Background
from mnemolog.services.node.following.rebuild import rebuild_live

if TYPE_CHECKING:
    from mnemolog.services.node.node import Node

LOOK_EVERY_S = 0.5
AGAIN_AFTER_S = 30.0
"""After it could not be done: on a full disk it cannot."""

_log = structlog.get_logger("mnemolog.node")


class _Stopped(Exception):
    """The node ends, and what was being made is dropped."""


class Healing(Background):
    """What is whole costs a look; what is damaged is made anew beside the old, with everything
    else, and switched to, as `mnemolog rebuild` does."""

    def __init__(self, node: Node) -> None:
        super().__init__("healing")
        self._node = node

    def _run(self) -> None:
        wait_s = LOOK_EVERY_S
        while not self._stopping.wait(wait_s):
            wait_s = LOOK_EVERY_S
            with self._node.using.shared():
                found = self._node.projections.damaged
            if found is None:
                continue
            _log.warning("an index is damaged and is made anew from the log", found=found)
            try:
                rebuild_live(self._node, False, self._go_on)
                _log.warning("the indexes were made anew")
            except _Stopped:
                return
            except Exception as error:
                _log.error("the indexes could not be made anew", error=str(error))
                wait_s = AGAIN_AFTER_S

    def _go_on(self, done: int, total: int) -> None:
        if self._stopping.is_set():
            raise _Stopped
