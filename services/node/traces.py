"""Taking traces where the settings say where to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mnemolog.infra.settings import Settings


@contextmanager
def taken(settings: Settings, version: str) -> Iterator[None]:
    """Of what happens in here, if an endpoint is set."""
    endpoint = settings.traces_endpoint
    if endpoint is None:
        yield
        return
    # Here and not above: most have none, and it takes a moment to load.
    from mnemolog.infra.tracing import OtlpSpans
    from mnemolog.services import tracing

    tracing.use(OtlpSpans(endpoint, version))
    try:
        yield
    finally:
        tracing.close()
