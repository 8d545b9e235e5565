"""What was put into a series is found in it, and where nothing was, nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from mnemolog.services.families.episodes.answering.series import Config, analyse
from mnemolog.services.families.episodes.answering.series.anomalies import anomalies
from mnemolog.services.families.episodes.answering.series.causes import causes, granger, lags_for
from mnemolog.services.families.episodes.answering.series.changepoints import changepoints
from mnemolog.services.families.episodes.answering.series.correlations import correlations
from mnemolog.services.families.episodes.answering.series.forecasts import forecasts
from mnemolog.services.families.episodes.answering.series.numbers import Numbers, Variable, scaled
from mnemolog.services.families.episodes.answering.series.trends import trends

LEVEL = 0.05
SEEDS = 50


def noise(seed: int | list[int], count: int) -> Numbers:
    return np.random.default_rng(seed).normal(size=count)


def variables(**series: Numbers) -> list[Variable]:
    return [scaled(name, values) for name, values in series.items()]


def at_most(rate: float, tries: int) -> int:
    """More than this many happen with a chance of one in a thousand."""
    return int(binom.ppf(0.999, tries, rate))


# --- change points -------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "kind"), [(4.0, "mean_increase"), (-4.0, "mean_decrease")])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_found_where_it_is(step: float, kind: str, seed: int) -> None:
    values = noise(seed, 60)
    values[40:] += step
    (found,) = changepoints(variables(x=values), LEVEL)
    assert found["variable"] == "x"
    assert found["change_type"] == kind
    assert abs(found["index"] - 40) <= 2
    assert 0.95 <= found["confidence"] <= 1.0


def test_each_of_two_steps_is_found() -> None:
    values = noise(4, 90)
    values[30:60] += 5.0
    found = changepoints(variables(x=values), LEVEL)
    assert [one["change_type"] for one in found] == ["mean_increase", "mean_decrease"]
    assert abs(found[0]["index"] - 30) <= 2
    assert abs(found[1]["index"] - 60) <= 2


def test_a_step_without_noise_is_found() -> None:
    (found,) = changepoints(variables(x=np.repeat([0.0, 1.0], 6)), LEVEL)
    assert (found["index"], found["change_type"]) == (6, "mean_increase")


def test_a_step_beside_a_slope_is_found() -> None:
    values = noise(1, 80) + 0.1 * np.arange(80)
    values[30:] -= 8.0
    found = changepoints(variables(x=values), LEVEL)
    assert [one["change_type"] for one in found] == ["mean_decrease"]
    assert abs(found[0]["index"] - 30) <= 2


@pytest.mark.parametrize(
    ("before", "after", "kind"), [(1.0, 5.0, "variance_increase"), (5.0, 1.0, "variance_decrease")]
)
def test_a_change_of_spread_is_found(before: float, after: float, kind: str) -> None:
    values = noise(2, 120) * np.repeat([before, after], 60)
    (found,) = changepoints(variables(x=values), LEVEL)
    assert found["change_type"] == kind
    assert abs(found["index"] - 60) <= 5


@pytest.mark.parametrize("slope", [0.1, 1.0, 100.0])
def test_a_slope_is_no_change(slope: float) -> None:
    assert changepoints(variables(x=noise(3, 80) + slope * np.arange(80)), LEVEL) == []


def test_a_single_point_is_no_change() -> None:
    values = noise(5, 60)
    values[30] = 40.0
    assert changepoints(variables(x=values), LEVEL) == []


# --- trends, correlations ------------------------------------------------------------------------


@pytest.mark.parametrize(("slope", "direction"), [(0.1, "increasing"), (-0.1, "decreasing")])
def test_a_trend_is_found(slope: float, direction: str) -> None:
    (found,) = trends(variables(x=noise(0, 60) + slope * np.arange(60)), LEVEL)
    assert found["direction"] == direction
    assert found["significant"]
    assert found["p_value"] < 1e-6
    assert 0.4 < found["strength"] <= 1.0


def test_what_does_not_move_is_stable() -> None:
    (found,) = trends(variables(x=np.full(9, 7.0)), LEVEL)
    assert found == {
        "variable": "x",
        "direction": "stable",
        "strength": 0.0,
        "p_value": 1.0,
        "significant": False,
    }


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_moves_together_is_found(sign: float) -> None:
    shared = noise(0, 80)
    found = correlations(
        variables(x=shared, y=sign * shared + 0.5 * noise(1, 80), z=noise(2, 80)), LEVEL
    )
    assert [one["significant"] for one in found] == [True, False, False]
    assert found[0]["variables"] == ["x", "y"]
    low, high = found[0]["confidence_interval"]
    assert low < found[0]["coefficient"] < high
    assert abs(found[0]["coefficient"] - sign * 0.894) < 0.05


def test_the_same_twice_is_wholly_correlated() -> None:
    (found,) = correlations(variables(x=noise(0, 30), y=2.0 * noise(0, 30) + 1.0), LEVEL)
    assert (found["coefficient"], found["p_value"]) == (1.0, 0.0)
    assert found["confidence_interval"] == [1.0, 1.0]


def test_three_points_prove_nothing() -> None:
    """Of their six orders two are sorted."""
    (found,) = correlations(variables(x=np.arange(3.0), y=np.arange(3.0)), LEVEL)
    assert found["coefficient"] == 1.0
    assert not found["significant"]


def test_running_totals_that_have_nothing_in_common_seldom_correlate() -> None:
    """Counted as independent points, most of them would."""
    alarms = sum(
        correlations(
            variables(x=noise(seed, 100).cumsum(), y=noise(1000 + seed, 100).cumsum()), LEVEL
        )[0]["significant"]
        for seed in range(SEEDS)
    )
    assert alarms <= at_most(2 * LEVEL, SEEDS)


# --- causes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [1, 2, 4])
def test_a_cause_is_found_with_its_lag_and_direction(lag: int) -> None:
    cause, effect = noise(0, 120), noise(1, 120)
    effect[lag:] += cause[:-lag]
    found = {
        (one["cause"], one["effect"]): one for one in causes(variables(x=cause, y=effect), LEVEL)
    }
    assert found["x", "y"]["significant"]
    assert found["x", "y"]["lag"] == lag
    assert 0.2 < found["x", "y"]["strength"] < 0.8
    assert not found["y", "x"]["significant"]


def test_a_copy_is_told_wholly_by_what_it_copies() -> None:
    cause = noise(0, 60)
    found = causes(variables(x=cause, y=np.roll(cause, 2)), LEVEL)
    assert (found[0]["cause"], found[0]["lag"], found[0]["significant"]) == ("x", 2, True)
    assert found[0]["strength"] > 0.99


def test_the_p_value_is_that_of_statsmodels() -> None:
    """Of two of its regressions: its own Granger test has no straight line and no untested lag."""
    from statsmodels.regression.linear_model import OLS

    cause, effect = noise(0, 100), noise(1, 100)
    effect[2:] += 0.3 * cause[:-2]
    lags = lags_for(100)
    rows = range(lags + 1, 100)
    own = [[1.0, t, *effect[t - lags - 1 : t], cause[t - lags - 1]] for t in rows]
    both = [[*known, *cause[t - lags : t]] for known, t in zip(own, rows, strict=True)]
    full = OLS(effect[lags + 1 :], np.array(both)).fit()
    _, p_value, _ = full.compare_f_test(OLS(effect[lags + 1 :], np.array(own)).fit())
    assert granger(cause, effect).p_value == pytest.approx(p_value, rel=1e-6)
    assert 1e-6 < p_value < 0.5


# --- anomalies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 30, 59])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_an_outlier_is_found(at: int, slope: float) -> None:
    values = noise(0, 60) + slope * np.arange(60)
    values[at] += 12.0
    (found,) = anomalies(variables(x=values), 0.5)
    assert found["anomaly_indices"] == [at]
    assert found["anomaly_scores"][0] > 6.0


def test_an_outlier_among_equal_values_is_found() -> None:
    values = np.full(40, 3.0)
    values[11] = 4.0
    assert anomalies(variables(x=values), 0.5)[0]["anomaly_indices"] == [11]


def test_a_step_is_no_outlier() -> None:
    values = noise(0, 60)
    values[30:] += 20.0
    assert anomalies(variables(x=values), 0.5)[0]["anomaly_indices"] == []


def test_more_is_found_the_more_sensitive_it_is() -> None:
    found = [
        set(anomalies(variables(x=noise(0, 300)), sensitivity)[0]["anomaly_indices"])
        for sensitivity in (0.0, 0.5, 0.8, 1.0)
    ]
    assert found[0] <= found[1] <= found[2] < found[3]


# --- forecasts -----------------------------------------------------------------------------------


def test_bounds_hold_what_comes() -> None:
    """Of a line with noise, at 95 %: the points of one series miss together, so they are counted by
    series."""
    missed = 0
    for seed in range(30):
        values = 0.5 * np.arange(42) + noise(seed, 42)
        (found,) = forecasts(variables(x=values[:40]), 2, LEVEL)
        missed += not found["lower_bounds"][1] <= values[41] <= found["upper_bounds"][1]
        assert abs(found["point_forecasts"][1] - 20.5) < 2.0
    assert missed <= at_most(LEVEL, 30)


def test_what_wanders_is_smoothed() -> None:
    values = noise(0, 100).cumsum()
    (found,) = forecasts(variables(x=values), 9, LEVEL)
    assert found["method"] == "simple_exponential_smoothing"
    assert abs(found["point_forecasts"][0] - values[-1]) < 2.0
    widths = np.subtract(found["upper_bounds"], found["lower_bounds"])
    assert widths[-1] > 2.0 * widths[0]


def test_a_line_without_noise_goes_on() -> None:
    (found,) = forecasts(variables(x=1e9 + 3.0 * np.arange(20.0)), 3, LEVEL)
    assert found["point_forecasts"] == pytest.approx([1e9 + 60, 1e9 + 63, 1e9 + 66], abs=1e-3)
    assert found["fit_quality"] == 1.0


def test_what_does_not_move_stays() -> None:
    (found,) = forecasts(variables(x=np.full(6, 0.1)), 2, LEVEL)
    assert found == {
        "variable": "x",
        "point_forecasts": [0.1, 0.1],
        "lower_bounds": [0.1, 0.1],
        "upper_bounds": [0.1, 0.1],
        "fit_quality": 1.0,
        "method": "constant",
    }


# --- nothing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [20, 60])
def test_of_noise_nothing_is_said(count: int) -> None:
    """A call of three variables has a false alarm of a kind about as often as the level says; of
    points, about one in a thousand stands out."""
    alarms = dict.fromkeys(("correlations", "trends", "causes", "changepoints"), 0)
    points = 0
    for seed in range(SEEDS):
        given = variables(**{name: noise([seed, k], count) for k, name in enumerate("xyz")})
        alarms["correlations"] += _any(correlations(given, LEVEL))
        alarms["trends"] += _any(trends(given, LEVEL))
        alarms["causes"] += _any(causes(given, LEVEL))
        alarms["changepoints"] += bool(changepoints(given, LEVEL))
        points += sum(len(one["anomaly_indices"]) for one in anomalies(given, 0.5))
    assert max(alarms.values()) <= at_most(LEVEL, SEEDS), alarms
    assert points <= at_most(0.001, SEEDS * 3 * count)


def _any(found: list[dict[str, Any]]) -> bool:
    return any(one["significant"] for one in found)


# --- the whole -----------------------------------------------------------------------------------


def test_the_documented_example() -> None:
    durations = [100, 120, 110, 130, 125, 140, 135, 150, 145, 160]
    config = Config(forecast_horizon=5, anomaly_sensitivity=0.6, enable_causal_inference=True)
    found = analyse({"episode_duration": durations}, "comprehensive", config)
    statistical, predictive = found["statistical_results"], found["predictive_results"]
    assert statistical["correlations"] == statistical["changepoints"] == []
    (trend,) = statistical["trends"]
    assert (trend["direction"], trend["significant"]) == ("increasing", True)
    (forecast,) = predictive["forecasts"]
    points = forecast["point_forecasts"]
    assert len(points) == len(forecast["lower_bounds"]) == len(forecast["upper_bounds"]) == 5
    assert points == sorted(points)
    assert 155 < points[0] < 170 < points[-1] < 200
    assert forecast["fit_quality"] > 0.8
    assert predictive["anomalies"][0]["anomaly_indices"] == []
    assert predictive["causal_relationships"] == []
    assert found["summary"] == {
        "variables_analyzed": 1,
        "key_findings": [
            "episode_duration is increasing (Kendall's tau 0.82, p 0.00036).",
            "episode_duration is forecast at 185.909 in 5 steps, between 163.434 and 208.384 with "
            "95 % confidence.",
        ],
        "recommendations": [],
        "confidence_level": 0.95,
    }
