"""Settings: command-line flags over MNEMOLOG_* variables over mnemolog.toml over defaults."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import platformdirs

from infra.embedder.catalogue import DEFAULT_MODEL


class SettingsError(Exception):
    """A setting is wrong; the sentence says which, and what is allowed."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, with its default."""

    data: str = ""
    """Data directory; empty: the user's data directory for mnemolog."""
    host: str = "127.0.0.1"
    port: int = 3000
    partitions: int | None = None
    """Fixed when the log is made; None: as the log has it, 1 for a new one."""
    model: str = DEFAULT_MODEL
    """A name from `mnemolog models list`, or `none` for search by words alone."""
    models: str = ""
    """Directory of the embedding models; empty: the user's cache directory."""
    toolsets: str = "robot,graph"
    """The tool families that clients are offered, separated by commas."""
    tenant: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "default"
    actor: str = ""
    """Who the calls of this process are recorded as; empty: the user's login name."""
    call_timeout_s: float = 30.0
    model_wait_s: float = 15.0
    """How long a call waits for a model that is still being loaded."""
    describe_wait_s: float = 2.0
    """How long a search by meaning waits for what was just written to be described."""

    @property
    def families(self) -> frozenset[str]:
        return frozenset(name.strip() for name in self.toolsets.split(",") if name.strip())

    @property
    def data_dir(self) -> Path:
        return Path(self.data).expanduser() if self.data else default_data_dir()


def default_data_dir() -> Path:
    return Path(platformdirs.user_data_dir("mnemolog", appauthor=False))


def load(flags: dict[str, Any] | None = None, directory: Path | None = None) -> Settings:
    """The settings in force; `flags` whose value is None were not given."""
    values: dict[str, Any] = {}
    file = (directory or Path.cwd()) / "mnemolog.toml"
    if file.is_file():
        try:
            values |= tomllib.loads(file.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file} is not valid TOML: {error}") from None
    for name in Settings.__struct_fields__:
        variable = os.environ.get(f"MNEMOLOG_{name.upper()}")
        if variable is not None:
            values[name] = variable
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"Wrong setting: {error}") from None
