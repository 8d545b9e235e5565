"""A process that only keeps the shared vectors: `mnemolog serve --role projector`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.log.kafka_way import way_of
from mnemolog.infra.settings import Settings, SettingsError
from mnemolog.services.api import Answer, Begun, Event, Follow, Progress, Request, Unavailable
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.node.embedding.embedding import model_of
from mnemolog.services.node.kafka.logs import SyncLog
from mnemolog.services.node.kafka.node import projectors
from mnemolog.services.node.vectors.feeder import Feeder
from mnemolog.services.node.vectors.opening import EDGE, checked_url


class ProjectorNode:
    """Has no files of its own: where it stands is in the store that it feeds."""

    def __init__(self, log: KafkaLog, feeder: Feeder, settings: Settings) -> None:
        self._log = log
        self._model = settings.model
        self._feeder = feeder
        self._member = projectors(settings, log, feeder)

    @classmethod
    async def open(cls, settings: Settings, catalogue: Catalogue) -> ProjectorNode:
        model = model_of(settings)
        if settings.vectors == EDGE or model is None:
            raise SettingsError(
                "A projector keeps the vectors of a Qdrant server: give its URL with --vectors, "
                "and a model"
            )
        checked_url(settings.vectors)
        assert settings.brokers is not None
        log = await KafkaLog.open(
            settings.brokers,
            settings.partitions,
            prefix=settings.topics,
            replication=settings.replication,
            timeout_s=settings.call_timeout_s,
            way=way_of(settings),
        )
        feeder = Feeder(
            settings, catalogue.projected, model, SyncLog(log, asyncio.get_running_loop())
        )
        node = cls(log, feeder, settings)
        feeder.start()
        try:
            await node._member.start()
        except BaseException:
            await node.aclose()
            raise
        return node

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        raise Unavailable("This process is a projector and takes no calls; ask a gateway")

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        raise Unavailable("This process is a projector and tells no events; ask a gateway")

    async def names(self, begun: Begun) -> list[str]:
        raise Unavailable("This process is a projector and knows no names; ask a gateway")

    async def health(self) -> dict[str, Any]:
        reasons = [one for one in (self._feeder.failed, self._feeder.away) if one]
        if not self._member.running:
            reasons.append("The Faust worker is not running")
        return {
            "status": "degraded" if reasons else "ok",
            "reasons": reasons,
            "role": "projector",
            "takes_calls": False,
            "model": {"name": self._model, "status": "not needed by a projector"},
            "partitions": self._feeder.positions(),
        }

    async def figures(self) -> dict[str, Any]:
        return {}

    async def aclose(self) -> None:
        await self._member.stop()
        await asyncio.to_thread(self._feeder.stop)
        await self._log.close()
