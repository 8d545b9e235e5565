"""One analysis: what is asked for, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mnemolog.services.families.episodes.answering.series.anomalies import anomalies
from mnemolog.services.families.episodes.answering.series.causes import causes
from mnemolog.services.families.episodes.answering.series.changepoints import changepoints
from mnemolog.services.families.episodes.answering.series.checking import Config, check
from mnemolog.services.families.episodes.answering.series.correlations import correlations
from mnemolog.services.families.episodes.answering.series.forecasts import forecasts
from mnemolog.services.families.episodes.answering.series.numbers import Variable, scaled
from mnemolog.services.families.episodes.answering.series.summary import summary
from mnemolog.services.families.episodes.answering.series.trends import trends

AnalysisType = Literal["statistical", "predictive", "comprehensive"]


def analyse(
    series: Mapping[str, Sequence[float]], analysis_type: AnalysisType, config: Config
) -> dict[str, Any]:
    """The results of that type and a summary, finite numbers throughout, the same for the same
    input; `Refused` for what `check` refuses.

    Every kind of test is corrected for how often it is made in the call: where nothing is the case,
    each kind calls something significant with a chance of at most `significance_level`.
    """
    check(series, config)
    variables = [scaled(name, values) for name, values in series.items()]
    found: dict[str, Any] = {}
    if analysis_type != "predictive":
        found["statistical_results"] = _statistical(variables, config)
    if analysis_type != "statistical":
        found["predictive_results"] = _predictive(variables, config)
    return {**found, "summary": summary(variables, found, config)}


def _statistical(variables: Sequence[Variable], config: Config) -> dict[str, Any]:
    level = config.significance_level
    return {
        "correlations": correlations(variables, level),
        "changepoints": changepoints(variables, level),
        "trends": trends(variables, level),
    }


def _predictive(variables: Sequence[Variable], config: Config) -> dict[str, Any]:
    level = config.significance_level
    return {
        "forecasts": forecasts(variables, config.forecast_horizon, level),
        "anomalies": anomalies(variables, config.anomaly_sensitivity),
        "causal_relationships": causes(variables, level) if config.enable_causal_inference else [],
    }
