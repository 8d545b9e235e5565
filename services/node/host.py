"""What a node's parts use of the node that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from mnemolog.events.envelope import Call
from mnemolog.services.api import Answer
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.node.following.follow import ReadableLog
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.gate import Gate

if TYPE_CHECKING:
    from mnemolog.projections.vectors.tail import TailedVectors
    from mnemolog.services.node.embedding.chosen import ChosenModels
    from mnemolog.services.node.embedding.embedding import Embedding
    from mnemolog.services.node.embedding.late import LateVectors
    from mnemolog.services.node.health import Condition


class Host(Protocol):
    catalogue: Catalogue
    using: Gate
    """Entered by whoever uses the projections outside the deciders' threads."""
    moments: Gate
    """Entered by whoever reads several things of one moment of a state."""
    projections: Projections
    """Others after a rebuild: to be looked up within `using`."""
    embedding: Embedding
    models: ChosenModels
    late: LateVectors
    shared: TailedVectors | None
    clock: Callable[[], int]
    condition: Condition

    @property
    def log(self) -> ReadableLog: ...

    def standing(self) -> dict[str, Any]: ...

    def figures_of(self, tenant: str) -> dict[str, dict[str, Any]]: ...

    def decides(self, partition: int) -> bool:
        """Whether the partition's calls are decided here."""
        ...

    def submit_embedded(self, call: Call) -> Future[Answer]:
        """From a thread: have a call decided whose texts are embedded first, so that nobody else
        waits for them. For work of the service's own."""
        ...
