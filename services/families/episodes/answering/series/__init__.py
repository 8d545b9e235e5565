"""Statistics and forecasts of time series: numbers in, a reply out, and nothing else is looked at.

numpy is here anyway. scipy.stats, ruptures and statsmodels (with pandas) take up to seconds to load
and tens of megabytes to keep, so they are imported inside the functions that use them: a service
that nobody asks for an analysis does not pay for it.
"""

from __future__ import annotations

from mnemolog.services.families.episodes.answering.series.analysis import (
    AnalysisType as AnalysisType,
)
from mnemolog.services.families.episodes.answering.series.analysis import analyse as analyse
from mnemolog.services.families.episodes.answering.series.checking import Config as Config
from mnemolog.services.families.episodes.answering.series.checking import check as check
