"""advanced_pattern_analysis: series that a caller gives, analysed."""

from __future__ import annotations

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import AdvancedPatternAnalysis, AnalysisConfig
from mnemolog.services.families.episodes.answering.series import analyse
from mnemolog.services.reader.reader import Read, Reader


def answer_analysis(reader: Reader, call: Call, args: AdvancedPatternAnalysis) -> Read:
    config = args.config or AnalysisConfig()
    return Read(analyse(args.time_series_data, args.analysis_type, config), [])
