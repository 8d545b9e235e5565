"""Shows results to people and writes them down for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.goals import GRAPH_PEER, GUARDED, ON_KAFKA, OURS, PEER
from benchmarks.results import (
    BUS_OPERATIONS,
    EPISODE_OPERATIONS,
    GATEWAY_OPERATIONS,
    GRAPH_OPERATIONS,
    OPERATIONS,
    Figure,
    Results,
)

_VERDICT_STYLES = {"met": "bold green", "missed": "bold red", "not measured": "yellow"}

_DIFFERENCE_STYLES = {
    "faster": "green",
    "within 5 %": "green",
    "unclear": "yellow",
    "slower": "red",
}

_FAMILIES = (
    (OPERATIONS, "memories", PEER),
    (GRAPH_OPERATIONS, "entities", GRAPH_PEER),
    (EPISODE_OPERATIONS, "episodes", ""),
    (BUS_OPERATIONS, "nodes", ON_KAFKA),
    (GATEWAY_OPERATIONS, "servers", GUARDED),
)
"""The operations of each family, what its sizes count, and what is compared with."""


def show(results: Results, console: Console) -> None:
    """Print the tables and a plain verdict per goal."""
    for line in _preamble(results):
        console.print(line, highlight=False, markup=False)
    if results.comparisons:
        console.print(_comparisons(results))
    for operations, size, second in _FAMILIES:
        figures = [one for one in results.figures if one.operation in operations]
        if figures:
            console.print(_operations(figures, size, second))
    if results.rates:
        console.print(_rates(results))
    if results.starts or results.memory:
        console.print(_processes(results))
    if results.checks:
        console.print(_checks(results))
    if results.goals:
        console.print(_goals(results))
    for note in results.notes:
        console.print(f"note: {note}", style="dim", highlight=False, markup=False)


def as_json(results: Results) -> str:
    """The results as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode()


def write(results: Results, folder: Path) -> Path:
    """Write the results to a new file in `folder`, named by the time in UTC; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = ("beside-" if results.comparisons else "") + ("quick" if results.quick else "full")
    path = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{kind}.json"
    path.write_text(as_json(results) + "\n", encoding="utf-8")
    return path


def _preamble(results: Results) -> list[str]:
    machine = ", ".join(f"{key} {value}" for key, value in results.machine.items())
    lines = [machine, f"client: {results.client}"]
    if results.quick:
        lines.append("quick run: shows that the harness works; too few samples for a verdict")
    return lines


def _comparisons(results: Results) -> Table:
    table = Table(
        title="This version beside the other: median ms; ratio of the same call (95 % interval)"
    )
    for heading in ("operation", "size", "calls each", "this", "beside", "this / beside", ""):
        table.add_column(heading, justify="right" if heading not in ("operation", "") else "left")
    for one in results.comparisons:
        style = _DIFFERENCE_STYLES[one.difference]
        table.add_row(
            one.operation,
            f"{one.size:,}",
            str(one.samples),
            f"{one.this_ms:.2f}",
            f"{one.beside_ms:.2f}",
            f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})",
            f"[{style}]{one.difference}[/]",
        )
    return table


def _operations(figures: list[Figure], size: str, second: str) -> Table:
    table = Table(title="Operations: milliseconds a caller waits, median (p95)")
    table.add_column("operation")
    table.add_column(size, justify="right")
    table.add_column(OURS, justify="right")
    table.add_column(second, justify="right")
    table.add_column(f"{OURS} / {second}", justify="right")
    found = {(each.operation, each.size, each.system): each for each in figures}
    rows = list(dict.fromkeys((each.operation, each.size) for each in figures))
    operations = list(dict.fromkeys(operation for operation, _ in rows))
    for operation, held in sorted(rows, key=lambda row: (operations.index(row[0]), row[1])):
        ours = found.get((operation, held, OURS))
        other = found.get((operation, held, second))
        ratio = f"{ours.median_ms / other.median_ms:.2f} ×" if ours and other else ""
        table.add_row(operation, f"{held:,}", _times(ours), _times(other), ratio)
    return table


def _rates(results: Results) -> Table:
    table = Table(title="Durable writes: learn over HTTP by several clients at once")
    for heading in ("system", "nodes", "clients", "writes/s", "median (p95) ms", "cores taken"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    for rate in results.rates:
        table.add_row(
            rate.system,
            str(rate.nodes),
            str(rate.clients),
            f"{rate.writes_per_s:.0f}",
            f"{rate.median_ms:.1f} ({rate.p95_ms:.1f})",
            ", ".join(f"{who} {cores:.2f}" for who, cores in rate.cores.items()),
        )
    return table


def _processes(results: Results) -> Table:
    table = Table(title="Processes: from process start, median")
    for heading in ("system", "size", "starts", "initialize", "first recall", "resident"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    for start in results.starts:
        table.add_row(
            start.system,
            f"{start.size:,}",
            str(start.samples),
            f"{start.initialize_ms:.0f} ms",
            f"{start.first_recall_ms:.0f} ms",
            "",
        )
    for entry in results.memory:
        table.add_row(entry.system, f"{entry.size:,}", "", "", "", f"{entry.rss_mb:.0f} MB")
    return table


def _checks(results: Results) -> Table:
    table = Table(title="Were the measured answers right?")
    table.add_column("check")
    table.add_column("system")
    table.add_column("size", justify="right")
    table.add_column("right", justify="right")
    for check in results.checks:
        style = "" if check.right == check.total else "yellow"
        right = f"{check.right} of {check.total}"
        table.add_row(check.what, check.system, f"{check.size:,}", right, style=style)
    return table


def _goals(results: Results) -> Table:
    table = Table(title="Goals")
    table.add_column("goal")
    table.add_column("measured")
    table.add_column("verdict")
    for goal in results.goals:
        style = _VERDICT_STYLES[goal.verdict]
        table.add_row(goal.text, goal.measured, f"[{style}]{goal.verdict}[/]")
    return table


def _times(figure: Figure | None) -> str:
    return f"{figure.median_ms:.2f} ({figure.p95_ms:.2f})" if figure else ""
