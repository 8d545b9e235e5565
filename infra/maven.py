"""How Maven is called: with a plugin of one version, and with what it fetches checked."""

from __future__ import annotations

from typing import Final

DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
"""Named without its version, it would be whichever is the newest, or the Maven at hand prefers."""
OPTIONS: Final = ("--batch-mode", "--quiet", "--strict-checksums")
