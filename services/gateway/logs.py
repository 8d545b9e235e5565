"""Log lines go to stderr: over stdio, stdout is the protocol."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import MutableMapping
from typing import Any


class _Stderr(io.StringIO):
    """Where it cannot be written to, a line is lost: a disk that has no room for it must not keep
    a caller from the answer that says so."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def to_stderr() -> None:
    """Send this process's log lines, and those of the libraries it uses, to stderr."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _escaped,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(_Stderr()),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal would obey, line ends aside."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


class _Formatter(logging.Formatter):
    """What clients sent may be in any of it: a line is one line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(self, exception: Any) -> str:
        return printable(super().formatException(exception))


def _escaped(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = printable(value)
    return event
