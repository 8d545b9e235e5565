"""Running code of an agent in a process that may do nothing but compute."""

from __future__ import annotations

from mnemolog.infra.sandbox.outcome import Kind, Limits, Outcome
from mnemolog.infra.sandbox.sandbox import Sandbox

__all__ = ["Kind", "Limits", "Outcome", "Sandbox"]
