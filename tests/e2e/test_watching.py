"""The dashboard and the alerts ask for what a running service shows: every metric, label and value
in them is held against it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import yaml

from mnemolog.services.gateway.watched import Outcome
from tests.e2e.conftest import Server

ROOT = Path(__file__).parents[2]
WATCHING = ROOT / "infra" / "watching"
ALERTS = yaml.safe_load((WATCHING / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((WATCHING / "dashboard.json").read_text())

SCRAPED = {"instance", "job"}
"""Labels that Prometheus gives to everything; so it does `up`."""
FIXED = {"outcome": set(get_args(Outcome)), "code": {"401", "403"}}
"""Values that not every service shows from the start."""

_STRING = r'"(?:[^"\\]|\\.)*"'
_SELECTOR = re.compile(rf"([a-zA-Z_:][\w:]*)\s*(\{{(?:[^}}\"]|{_STRING})*\}})?\s*(\(?)")
_MATCHER = re.compile(rf"(\w+)\s*(=~|!~|!=|=)\s*({_STRING})")
_GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_WORDS = {"and", "or", "unless", "bool", "offset"}
_FUNCTIONS = {
    "delta",
    "deriv",
    "histogram_quantile",
    "max",
    "min",
    "min_over_time",
    "rate",
    "sum",
    "time",
    "topk",
}


class Asked(NamedTuple):
    """What an expression asks for: metrics with their matchers, and labels to group by."""

    metrics: dict[str, list[tuple[str, str, str]]]
    grouped: set[str]


def read(expression: str) -> Asked:
    assert expression.count("(") == expression.count(")")
    plain = _GROUPING.sub("", expression)
    grouped = {
        label.strip()
        for _, listed in _GROUPING.findall(expression)
        for label in listed.split(",")
        if label.strip()
    }
    plain = re.sub(r"\[\d+[smhd]\]", "", plain)
    metrics: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for name, matchers, call in _SELECTOR.findall(plain):
        if call and not matchers:
            assert name in _FUNCTIONS | _WORDS, f"{name} in {expression}"
        elif name not in _WORDS:
            metrics[name] += [
                (label, how, json.loads(value))
                for label, how, value in _MATCHER.findall(matchers or "")
            ]
    assert metrics, expression
    return Asked(dict(metrics), grouped)


def expressions() -> Iterator[tuple[str, str, str]]:
    """Where it is, the expression, and the words that are shown with what it finds."""
    for rule in ALERTS:
        yield rule["alert"], rule["expr"], " ".join(rule["annotations"].values())
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]


Labels = dict[str, dict[str, set[str]]]
"""By metric, the values that each of its labels has."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """Of a service that was called once."""
    env = {"MNEMOLOG_RATE_LIMITS": "on"}
    server = Server(tmp_path_factory.mktemp("watched") / "data", env=env)
    try:
        server.client().ok("learn", {"insight": "cups slip when wet"})
        _, text = server.client().get("/metrics")
        _, text = server.client().get("/metrics")
    finally:
        server.stop()
    found: Labels = {"up": {}}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, given = line.rpartition(" ")[0].partition("{")
        labels = found.setdefault(name, {})
        for label, _, value in _MATCHER.findall(given):
            labels.setdefault(label, set()).add(json.loads(value))
    return found


@pytest.mark.parametrize(("where", "expression", "words"), list(expressions()))
def test_what_is_asked_for_is_there(shown: Labels, where: str, expression: str, words: str) -> None:
    asked = read(expression)
    known = set(SCRAPED)
    for metric, matchers in asked.metrics.items():
        assert metric in shown, f"{where}: there is no {metric}"
        known |= set(shown[metric])
        for label, how, value in matchers:
            if label in SCRAPED:
                continue
            there = shown[metric].get(label, set()) | FIXED.get(label, set())
            assert label in shown[metric], f"{where}: {metric} has no {label}"
            for one in value.split("|") if how == "=~" else [value]:
                assert one in there, f"{where}: {metric} has no {label}={one}"
    assert asked.grouped <= known, f"{where}: nothing has {sorted(asked.grouped - known)}"
    told = set(re.findall(r"\$labels\.(\w+)", words)) | set(re.findall(r"\{\{(\w+)\}\}", words))
    assert told <= known, where
    aggregated = re.match(r"(?:sum|max|min|topk\(10, sum) by", expression)
    if aggregated:
        assert told <= asked.grouped, f"{where}: what is summed up has no other labels"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("mnemolog_made_up", "there is no mnemolog_made_up"),
        ("sum(mnemolog_up) / mnemolog_nothing", "there is no mnemolog_nothing"),
        ('rate(mnemolog_calls_total{tenant="a"}[5m])', "has no tenant"),
        ('mnemolog_lag{of="dreams"}', "has no of=dreams"),
        ("sum by (client) (mnemolog_up)", "nothing has"),
    ],
)
def test_what_is_not_there_would_be_found(shown: Labels, expression: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_what_is_asked_for_is_there(shown, "here", expression, "")


def test_every_alert_says_what_it_is_and_is_on_the_page() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(set(names)) == len(names)
    for rule in ALERTS:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
    page = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"^\| (Mnemolog\w+) \|", page, re.MULTILINE) == names


def test_the_dashboard_is_whole() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    placed = [one["gridPos"] for one in panels]
    cells = [
        (x, y)
        for one in placed
        for x in range(one["x"], one["x"] + one["w"])
        for y in range(one["y"], one["y"] + one["h"])
    ]
    assert len(set(cells)) == len(cells), "two panels are in one place"
    assert all(x < 24 for x, _ in cells)
    (instance,) = [one for one in DASHBOARD["templating"]["list"] if one["name"] == "instance"]
    assert instance["query"]["query"] == "label_values(mnemolog_up, instance)"
