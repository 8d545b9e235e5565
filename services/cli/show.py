"""How the command line shows things: tables for people, JSON for programs, progress for both."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def console() -> Console:
    from rich.console import Console

    return Console()


def table(*columns: str) -> Table:
    """A table whose first column, a time or a number, is never broken."""
    from rich import box
    from rich.table import Column, Table

    first, *rest = columns
    return Table(
        Column(first, no_wrap=True), *[Column(one, overflow="fold") for one in rest], box=box.SIMPLE
    )


def add_row(grid: Table, *cells: str) -> None:
    """Cells as they are: what people said is never markup."""
    from rich.text import Text

    grid.add_row(*[Text(visible(cell)) for cell in cells])


def visible(text: str) -> str:
    """`text` with its control characters spelled out, line ends and tabs aside: what people said
    must not steer a terminal, nor be shown in another order."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def print_json(value: Any) -> None:
    data = msgspec.json.encode(value)
    click.echo((msgspec.json.format(data) if sys.stdout.isatty() else data).decode())


def fail(sentence: str) -> click.ClickException:
    """One sentence on standard error, exit code 1."""
    return click.ClickException(sentence)


@contextmanager
def progress_bar(title: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with (done, total). The bar is on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=hidden) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
