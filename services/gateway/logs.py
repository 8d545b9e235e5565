"""Log lines go to stderr: over stdio, stdout is the protocol."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal


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


Style = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
_style: Style = "text"


def to_stderr(style: Style = "text", level: Level = "info") -> None:
    """Send this process's log lines of at least the `level`, and warnings of the libraries that it
    uses, to stderr: for people, or an object each."""
    import structlog

    global _style
    _style = style
    renderer: Any = structlog.processors.JSONRenderer()
    formatter: logging.Formatter = _JsonFormatter()
    if style == "text":
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        formatter = _Formatter("%(asctime)s %(levelname)s %(message)s")
    lowest: int = getattr(logging, level.upper())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _escaped,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.PrintLoggerFactory(_Stderr()),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=max(lowest, logging.WARNING), handlers=[handler])


def say(sentence: str, level: Level = "info") -> None:
    """What whoever started the process should see, whatever the level."""
    line = f"mnemolog: {sentence}"
    if _style == "json":
        line = _object(sentence, level)
    stderr = _Stderr()
    stderr.write(f"{line}\n")
    stderr.flush()


def fail(sentence: str) -> None:
    """Why the process ends."""
    if _style == "json":
        say(sentence, "error")
    else:
        sys.stderr.write(f"Error: {sentence}\n")


def _object(event: str, level: str, **more: str) -> str:
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": event, "level": level, "timestamp": at, **more})


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


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        more = {"logger": record.name}
        if record.exc_info:
            more["exception"] = self.formatException(record.exc_info)
        return _object(printable(record.getMessage()), record.levelname.lower(), **more)


def _escaped(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = printable(value)
    return event
