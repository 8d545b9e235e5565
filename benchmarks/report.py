"""Shows results to people and writes them down for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.goals import OURS, PEER
from benchmarks.results import Figure, Results

_VERDICT_STYLES = {"met": "bold green", "missed": "bold red", "not measured": "yellow"}


def show(results: Results, console: Console) -> None:
    """Print the tables and a plain verdict per goal."""
    for line in _preamble(results):
        console.print(line, highlight=False, markup=False)
    if results.figures:
        console.print(_operations(results.figures))
    if results.starts or results.memory:
        console.print(_processes(results))
    if results.checks:
        console.print(_checks(results))
    console.print(_goals(results))
    for note in results.notes:
        console.print(f"note: {note}", style="dim", highlight=False, markup=False)


def as_json(results: Results) -> str:
    """The results as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode()


def write(results: Results, folder: Path) -> Path:
    """Write the results to a new file in `folder`, named by the time in UTC; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "quick" if results.quick else "full"
    path = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{kind}.json"
    path.write_text(as_json(results) + "\n", encoding="utf-8")
    return path


def _preamble(results: Results) -> list[str]:
    machine = ", ".join(f"{key} {value}" for key, value in results.machine.items())
    lines = [machine, f"client: {results.client}"]
    if results.quick:
        lines.append("quick run: shows that the harness works; too few samples for a verdict")
    return lines


def _operations(figures: list[Figure]) -> Table:
    table = Table(title="Operations: milliseconds a caller waits, median (p95)")
    table.add_column("operation")
    table.add_column("memories", justify="right")
    table.add_column(OURS, justify="right")
    table.add_column(PEER, justify="right")
    table.add_column("ratio", justify="right")
    found = {(each.operation, each.memories, each.system): each for each in figures}
    rows = list(dict.fromkeys((each.operation, each.memories) for each in figures))
    operations = list(dict.fromkeys(operation for operation, _ in rows))
    for operation, memories in sorted(rows, key=lambda row: (operations.index(row[0]), row[1])):
        ours = found.get((operation, memories, OURS))
        peer = found.get((operation, memories, PEER))
        ratio = f"{ours.median_ms / peer.median_ms:.2f} ×" if ours and peer else ""
        table.add_row(operation, f"{memories:,}", _times(ours), _times(peer), ratio)
    return table


def _processes(results: Results) -> Table:
    table = Table(title="Processes: from process start, median")
    for heading in ("system", "memories", "starts", "initialize", "first recall", "resident"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    for start in results.starts:
        table.add_row(
            start.system,
            f"{start.memories:,}",
            str(start.samples),
            f"{start.initialize_ms:.0f} ms",
            f"{start.first_recall_ms:.0f} ms",
            "",
        )
    for entry in results.memory:
        table.add_row(entry.system, f"{entry.memories:,}", "", "", "", f"{entry.rss_mb:.0f} MB")
    return table


def _checks(results: Results) -> Table:
    table = Table(title="Were the measured answers right?")
    table.add_column("check")
    table.add_column("system")
    table.add_column("memories", justify="right")
    table.add_column("right", justify="right")
    for check in results.checks:
        style = "" if check.right == check.total else "yellow"
        right = f"{check.right} of {check.total}"
        table.add_row(check.what, check.system, f"{check.memories:,}", right, style=style)
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
