"""What an analysis takes, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mnemolog.events.arguments import NO_CONTROLS, is_finite
from mnemolog.events.episodes import AnalysisConfig
from mnemolog.services.families.episodes.problems import invalid

DATA = "time_series_data"
MOST_VARIABLES = 20
FEWEST_POINTS = 3
MOST_POINTS = 10_000
"""In all variables together: the most that one slow core analyses in some five seconds."""
LONGEST_HORIZON = 100
HIGHEST_LEVEL = 0.5
_LONGEST_NAME = 128


Config = AnalysisConfig


def check(series: Mapping[str, Sequence[float]], config: Config) -> None:
    """Raises `Refused` for the first thing that an analysis cannot be made of."""
    _check_sizes(series)
    for name, values in series.items():
        _check_values(name, values)
    _check_config(config)


def _check_sizes(series: Mapping[str, Sequence[float]]) -> None:
    if not series:
        raise invalid(DATA, "has no variables; give at least one, with its values", {})
    if len(series) > MOST_VARIABLES:
        raise invalid(
            DATA,
            f"has {len(series):,} variables; at most {MOST_VARIABLES} are analysed in one call",
            len(series),
        )
    for name, values in series.items():
        _check_name(name)
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            raise invalid(_field(name), "must be an array of numbers", values)
    first, *others = series
    count = len(series[first])
    for name in others:
        if len(series[name]) != count:
            raise invalid(
                _field(name),
                f"has {len(series[name]):,} values and {first} has {count:,}; all variables need "
                "a value at each of the same times",
                len(series[name]),
            )
    if count < FEWEST_POINTS:
        raise invalid(
            _field(first),
            f"has {count} values; at least {FEWEST_POINTS} are needed, and 5 for a forecast",
            count,
        )
    if count * len(series) > MOST_POINTS:
        raise invalid(
            DATA,
            f"has {count * len(series):,} values; at most {MOST_POINTS:,} in all variables "
            "together are analysed in one call: send fewer variables, or the newest points",
            count * len(series),
        )


def _check_name(name: Any) -> None:
    if not (isinstance(name, str) and len(name) <= _LONGEST_NAME and re.search(NO_CONTROLS, name)):
        raise invalid(
            DATA,
            f"has a variable whose name is not of 1 to {_LONGEST_NAME} visible characters without "
            "control characters",
            name,
        )


def _check_values(name: str, values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        if not is_finite(value):
            raise invalid(
                f"{_field(name)}[{index}]",
                "must be a finite number; leave out, or fill in, what was not measured",
                value,
            )


def _check_config(config: Config) -> None:
    horizon, level = config.forecast_horizon, config.significance_level
    if type(horizon) is not int or not 1 <= horizon <= LONGEST_HORIZON:
        raise invalid(
            "config.forecast_horizon",
            f"must be a whole number from 1 to {LONGEST_HORIZON}",
            horizon,
        )
    sensitivity = config.anomaly_sensitivity
    if not is_finite(sensitivity) or not 0.0 <= sensitivity <= 1.0:
        raise invalid("config.anomaly_sensitivity", "must be a number from 0 to 1", sensitivity)
    if not isinstance(config.enable_causal_inference, bool):
        raise invalid(
            "config.enable_causal_inference",
            "must be true or false",
            config.enable_causal_inference,
        )
    if not is_finite(level) or not 0.0 < level <= HIGHEST_LEVEL:
        raise invalid(
            "config.significance_level",
            f"must be a number above 0 and up to {HIGHEST_LEVEL}, such as 0.05",
            level,
        )


def _field(name: str) -> str:
    return f"{DATA}.{name}"
