"""What an analysis takes, what it refuses, and that whatever it takes gives a reply."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mnemolog.events.arguments import Refused
from mnemolog.services.families.episodes.answering.series import (
    AnalysisType,
    Config,
    analyse,
    check,
)
from mnemolog.services.families.episodes.answering.series.numbers import holm

FIVE = [1.0, 3.0, 2.0, 5.0, 4.0]

# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("series", "sentence"),
    [
        ({}, "time_series_data has no variables; give at least one, with its values"),
        (
            {f"v{n}": FIVE for n in range(21)},
            "time_series_data has 21 variables; at most 20 are analysed in one call",
        ),
        (
            {"a": FIVE, "b": FIVE[:4]},
            "time_series_data.b has 4 values and a has 5; all variables need a value at each of "
            "the same times",
        ),
        (
            {"a": [1.0, 2.0]},
            "time_series_data.a has 2 values; at least 3 are needed, and 5 for a forecast",
        ),
        (
            {"a": []},
            "time_series_data.a has 0 values; at least 3 are needed, and 5 for a forecast",
        ),
        (
            {"a": [0.0] * 5001, "b": [0.0] * 5001},
            "time_series_data has 10,002 values; at most 10,000 in all variables together are "
            "analysed in one call: send fewer variables, or the newest points",
        ),
    ],
    ids=["none", "many", "lengths", "two", "empty", "long"],
)
def test_sizes_that_are_refused(series: dict[str, list[float]], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        analyse(series, "comprehensive", Config())
    assert refused.value.sentence == f"Validation error: {sentence}"
    assert refused.value.code == -32005


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, None, True, "1", [1.0], 10**400],
    ids=["nan", "inf", "minus inf", "null", "true", "text", "list", "beyond"],
)
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(Refused, match=r"time_series_data\.a\[1\] must be a finite number"):
        check({"a": [1.0, value, 2.0]}, Config())


@pytest.mark.parametrize("values", ["123", None, 5, {"0": 1}])
def test_what_is_no_array_is_refused(values: Any) -> None:
    with pytest.raises(Refused, match=r"time_series_data\.a must be an array of numbers$"):
        check({"a": values}, Config())


@pytest.mark.parametrize("name", ["", " ", "\u200b", "a\nb", "x" * 129])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(
        Refused, match=r"time_series_data has a variable whose name is not of 1 to 128"
    ):
        check({name: FIVE}, Config())


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("forecast_horizon", [0, 101, -1, 2.5, True]),
        ("anomaly_sensitivity", [-0.01, 1.01, math.nan, "0.5", True]),
        ("significance_level", [0.0, -0.1, 0.51, math.nan, None]),
        ("enable_causal_inference", [1, "yes", None]),
    ],
)
def test_settings_that_are_refused(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(Refused, match=f"config.{field} must be ") as refused:
            check({"a": FIVE}, Config(**{field: value}))
        assert refused.value.code == -32005


def test_the_limits_themselves_are_taken() -> None:
    for config in (Config(1, 0, False, 1e-9), Config(100, 1, True, 0.5)):
        check({"x" * 128: [0.0] * 500, **{f"v{n}": [1] * 500 for n in range(19)}}, config)
        check({"a": [1, 2, 3]}, config)


# --- what is answered ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("analysis_type", "parts"),
    [
        ("statistical", {"statistical_results"}),
        ("predictive", {"predictive_results"}),
        ("comprehensive", {"statistical_results", "predictive_results"}),
    ],
)
def test_what_was_asked_for_is_answered(analysis_type: AnalysisType, parts: set[str]) -> None:
    assert analyse({"a": FIVE}, analysis_type, Config()).keys() == {*parts, "summary"}


def test_forecasts_are_made_from_five_points_on() -> None:
    four = analyse({"a": FIVE[:4]}, "predictive", Config())
    assert four["predictive_results"]["forecasts"] == []
    advice = "Collect at least 5 points for forecasts: there are 4."
    assert advice in four["summary"]["recommendations"]
    five = analyse({"a": FIVE}, "predictive", Config(forecast_horizon=3))
    assert len(five["predictive_results"]["forecasts"][0]["point_forecasts"]) == 3
    assert five["summary"]["recommendations"] != four["summary"]["recommendations"]


def test_causes_can_be_left_out() -> None:
    values = np.random.default_rng(0).normal(size=40)
    series = {"x": values.tolist(), "y": np.roll(values, 1).tolist()}
    for wanted in (True, False):
        found = analyse(series, "predictive", Config(enable_causal_inference=wanted))
        assert bool(found["predictive_results"]["causal_relationships"]) is wanted


def test_what_is_found_is_said() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=100), rng.normal(size=100)
    y[2:] += 3.0 * x[:-2]
    level = rng.normal(size=100) + np.repeat([0.0, 9.0], 50)
    level[20] = 40.0
    series = {"x": x.tolist(), "y": y.tolist(), "level": level.tolist(), "flat": [4.0] * 100}
    summary = analyse(series, "comprehensive", Config())["summary"]
    said = "\n".join(summary["key_findings"])
    for sentence in (
        "flat is constant.",
        "level is increasing (",
        "The mean of level increases at index 50 (",
        "x tells y 2 steps ahead: it explains ",
        "level stands out at index 20 (",
    ):
        assert sentence in said
    advice = "\n".join(summary["recommendations"])
    assert "Look for what happened to level at index 50: " in advice
    assert "Check level at index 20 before " in advice
    assert "Vary x on purpose to see whether y follows after 2 steps: " in advice
    assert summary["variables_analyzed"] == 4


def test_nothing_is_said_to_be_nothing() -> None:
    found = analyse({"a": [1.0, 3.0, 2.0, 2.5]}, "statistical", Config())
    assert found["summary"]["key_findings"] == [
        "Nothing stands out at a significance level of 0.05."
    ]


NUMBERS = (
    st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-10, 10)
    | st.sampled_from([1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 1e-300, 2**70])
)
LISTS: dict[str, Callable[[int], st.SearchStrategy[list[float]]]] = {
    "any": lambda n: st.lists(NUMBERS, min_size=n, max_size=n),
    "few values": lambda n: st.lists(st.sampled_from([0, 1]), min_size=n, max_size=n),
    "steps": lambda n: st.tuples(NUMBERS, NUMBERS).map(
        lambda ab: [ab[k > n // 2] for k in range(n)]
    ),
    "line": lambda n: st.tuples(st.floats(-1e6, 1e6), st.floats(-1e3, 1e3)).map(
        lambda ab: [ab[0] + ab[1] * k for k in range(n)]
    ),
}
CONFIGS = st.builds(
    Config,
    forecast_horizon=st.sampled_from([1, 3, 100]),
    anomaly_sensitivity=st.floats(0, 1),
    enable_causal_inference=st.booleans(),
    significance_level=st.floats(0, 0.5, exclude_min=True),
)


@st.composite
def any_series(draw: st.DrawFn) -> dict[str, list[float]]:
    count = draw(st.sampled_from([3, 4, 5, 6, 7, 8, 10, 12, 13, 20, 33]))
    names = draw(st.integers(1, 3))
    kinds = st.sampled_from(sorted(LISTS))
    return {f"v{n}": draw(draw(kinds.map(lambda kind: LISTS[kind](count)))) for n in range(names)}


@example({"a": [0, 0, 1, 1.7976931348623157e308, -1.7976931348623157e308]}, "predictive", Config())
@settings(max_examples=40, derandomize=True)
@given(any_series(), st.sampled_from(["statistical", "predictive", "comprehensive"]), CONFIGS)
def test_whatever_is_taken_gives_one_finite_reply(
    series: dict[str, list[float]], analysis_type: AnalysisType, config: Config
) -> None:
    found = analyse(series, analysis_type, config)
    text = json.dumps(found, allow_nan=False)
    assert json.dumps(analyse(series, analysis_type, config), allow_nan=False) == text
    for forecast in found.get("predictive_results", {}).get("forecasts", []):
        for low, middle, high in zip(
            forecast["lower_bounds"],
            forecast["point_forecasts"],
            forecast["upper_bounds"],
            strict=True,
        ):
            assert low <= middle <= high
    for one in found.get("statistical_results", {}).get("correlations", []):
        assert -1 <= one["confidence_interval"][0] <= one["confidence_interval"][1] <= 1


def test_certainty_has_finite_bounds() -> None:
    """A line without noise has no errors to be multiplied by the infinite."""
    config = Config(significance_level=5e-324)
    found = analyse({"a": [0, 1, 2, 3, 4], "b": FIVE}, "comprehensive", config)
    json.dumps(found, allow_nan=False)
    assert found["predictive_results"]["anomalies"][0]["anomaly_indices"] == []
    line, other = found["predictive_results"]["forecasts"]
    assert line["lower_bounds"] == line["upper_bounds"] == [float(n) for n in range(5, 15)]
    assert other["lower_bounds"][0] < -100 < 100 < other["upper_bounds"][0]


@pytest.mark.parametrize("factor", [1e-290, 1e-6, 1e300])
def test_the_unit_changes_nothing_but_the_forecasts(factor: float) -> None:
    rng = np.random.default_rng(0)
    series = {name: rng.normal(size=40) for name in "ab"}
    plain, scaled = (
        analyse({k: (v * by).tolist() for k, v in series.items()}, "comprehensive", Config())
        for by in (1.0, factor)
    )
    assert plain["statistical_results"] == scaled["statistical_results"]
    for kind in ("anomalies", "causal_relationships"):
        assert plain["predictive_results"][kind] == scaled["predictive_results"][kind]
    for one, other in zip(
        plain["predictive_results"]["forecasts"],
        scaled["predictive_results"]["forecasts"],
        strict=True,
    ):
        assert np.array(other["upper_bounds"]) / factor == pytest.approx(one["upper_bounds"], 1e-4)


@pytest.mark.parametrize("p_values", [[], [0.04], [0.5, 0.01, 0.03, 0.01], [1.0, 0.9]])
def test_the_correction_is_holms(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    expected = multipletests(p_values, method="holm")[1] if p_values else []
    assert holm(p_values) == pytest.approx(list(expected))


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    program = (
        "import sys; import mnemolog.services.families.episodes.answering.series;"
        "print(sorted({'scipy', 'statsmodels', 'pandas', 'ruptures'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
