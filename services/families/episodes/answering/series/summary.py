"""What was found, in sentences that the numbers make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mnemolog.services.families.episodes.answering.series import causes, changepoints, forecasts
from mnemolog.services.families.episodes.answering.series.checking import Config
from mnemolog.services.families.episodes.answering.series.numbers import Variable, rounded

_SHOWN = 5
"""Sentences of a kind; how many more there are is said."""
_POOR_FIT = 0.2

Results = Mapping[str, Sequence[Mapping[str, Any]]]


def summary(
    variables: Sequence[Variable], found: Mapping[str, Results], config: Config
) -> dict[str, Any]:
    """How many variables there were, what stands out and what to do about it. `confidence_level` is
    that of every test and interval: 1 less the significance level."""
    results: Results = {kind: entries for part in found.values() for kind, entries in part.items()}
    findings = [
        *_few(f"{one.name} is constant." for one in variables if one.constant),
        *_few(_trend(one) for one in _significant(results, "trends")),
        *_few(_change(one) for one in results.get("changepoints", ())),
        *_few(_correlation(one) for one in _significant(results, "correlations")),
        *_few(_cause(one) for one in _significant(results, "causal_relationships")),
        *_few(_anomaly(one) for one in _standing_out(results)),
        *_few(_forecast(one, config) for one in results.get("forecasts", ())),
    ]
    level = config.significance_level
    return {
        "variables_analyzed": len(variables),
        "key_findings": findings
        or [f"Nothing stands out at a significance level of {rounded(level):g}."],
        "recommendations": list(_recommendations(variables, results, config)),
        "confidence_level": rounded(1.0 - level),
    }


def _few(sentences: Iterator[str]) -> list[str]:
    every = list(sentences)
    more = len(every) - _SHOWN
    return (
        every if more <= 0 else [*every[:_SHOWN], f"{more} more of this kind are in the results."]
    )


def _significant(results: Results, kind: str) -> list[Mapping[str, Any]]:
    return [one for one in results.get(kind, ()) if one["significant"]]


def _standing_out(results: Results) -> list[Mapping[str, Any]]:
    return [one for one in results.get("anomalies", ()) if one["anomaly_indices"]]


def _trend(one: Mapping[str, Any]) -> str:
    return (
        f"{one['variable']} is {one['direction']} "
        f"(Kendall's tau {one['strength']:.2f}, p {_p(one)})."
    )


def _change(one: Mapping[str, Any]) -> str:
    kind, _, direction = one["change_type"].partition("_")
    return (
        f"The {kind} of {one['variable']} {direction}s at index {one['index']} "
        f"(confidence {one['confidence']:.3f})."
    )


def _correlation(one: Mapping[str, Any]) -> str:
    first, second = one["variables"]
    how = "together" if one["coefficient"] > 0 else "against each other"
    return f"{first} and {second} move {how} (r {one['coefficient']:.2f}, p {_p(one)})."


def _cause(one: Mapping[str, Any]) -> str:
    return (
        f"{one['cause']} tells {one['effect']} {_steps(one['lag'])} ahead: it explains "
        f"{one['strength']:.0%} of what {one['effect']}'s own past leaves open (p {_p(one)})."
    )


def _anomaly(one: Mapping[str, Any]) -> str:
    return (
        f"{one['variable']} stands out at {_indices(one)} "
        f"(by up to {max(one['anomaly_scores']):.1f} standard deviations)."
    )


def _forecast(one: Mapping[str, Any], config: Config) -> str:
    steps = len(one["point_forecasts"])
    return (
        f"{one['variable']} is forecast at {one['point_forecasts'][-1]:g} in {_steps(steps)}, "
        f"between {one['lower_bounds'][-1]:g} and {one['upper_bounds'][-1]:g} with "
        f"{100.0 * (1.0 - config.significance_level):g} % confidence."
    )


def _recommendations(
    variables: Sequence[Variable], results: Results, config: Config
) -> Iterator[str]:
    yield from _few(
        f"Look for what happened to {one['variable']} at index {one['index']}: what held before "
        "need not hold after."
        for one in results.get("changepoints", ())
    )
    yield from _few(
        f"Check {one['variable']} at {_indices(one)} before relying on its mean."
        for one in _standing_out(results)
    )
    yield from _few(
        f"Vary {one['cause']} on purpose to see whether {one['effect']} follows after "
        f"{_steps(one['lag'])}: what comes first need not be the cause."
        for one in _significant(results, "causal_relationships")
    )
    yield from _few(
        f"Go by the bounds of {one['variable']} rather than by its point forecasts: the fit tells "
        f"{one['fit_quality']:.0%} of its variance."
        for one in results.get("forecasts", ())
        if one["fit_quality"] < _POOR_FIT
    )
    yield from _wanting(variables, results, config)


def _wanting(variables: Sequence[Variable], results: Results, config: Config) -> Iterator[str]:
    """What more points would allow."""
    count = len(variables[0].raw)
    fewest = {
        "changepoints": ("change points", 2 * changepoints.SHORTEST, "changepoints" in results),
        "forecasts": ("forecasts", forecasts.FEWEST, "forecasts" in results),
        "causes": (
            "causes",
            causes.FEWEST,
            "causal_relationships" in results
            and config.enable_causal_inference
            and len(variables) > 1,
        ),
    }
    for kind, least, asked in fewest.values():
        if asked and count < least:
            yield f"Collect at least {least} points for {kind}: there are {count}."


def _indices(one: Mapping[str, Any]) -> str:
    indices = one["anomaly_indices"]
    shown = ", ".join(str(at) for at in indices[:_SHOWN])
    word = "index" if len(indices) == 1 else "indices"
    more = len(indices) - _SHOWN
    return f"{word} {shown}" + (f" and {more} more" if more > 0 else "")


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _p(one: Mapping[str, Any]) -> str:
    return f"{one['p_value']:.2g}"
