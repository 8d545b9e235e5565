"""Settings: command-line flags over MNEMOLOG_* variables over a file over defaults.

The file is the user's own, or one that was named. None is looked for in the working directory: MCP
clients start the service in whatever project is open, and a project that came from elsewhere must
not say where the memory goes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs

from mnemolog.events.fields import TENANT
from mnemolog.infra.embedder import DEFAULT_MODEL

_BROKER = r"([^:/\s,]+|\[[0-9a-fA-F:]+\]):\d{1,5}"
FILE_NAME = "mnemolog.toml"
ENV_CONFIG = "MNEMOLOG_CONFIG"
ROLES = ("gateway", "decider", "projector")


class SettingsError(Exception):
    """A setting is wrong; the sentence says which, and what is allowed."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, with its default."""

    data: str = ""
    """Data directory; empty: the user's data directory for mnemolog."""
    host: str = "127.0.0.1"
    port: int = 3000
    auth: Literal["none", "keys", "oauth"] = "none"
    """How callers over HTTP are told apart: not at all, by API keys, or by an authorization
    server's tokens."""
    keys_file: str = ""
    """The API keys of `auth=keys`; empty: `keys.json` in the data directory."""
    insecure: bool = False
    """Serve everybody who reaches the port, though it is not on this machine alone."""
    rate_limits: str = "on"
    """`on`, `off`, or rates with bursts such as `read=100/150 write=20/30`: how often one client
    may ask over HTTP."""
    client_limits: str = ""
    """Rates of some clients, by name or address: `robot-7 read=500/700, 10.0.0.4 write=50/80`."""
    allowed_hosts: str = ""
    """Names under which clients may ask for it beside its address, separated by commas."""
    log: str = "sqlite"
    """`sqlite`: in the data directory; `kafka://HOST:PORT[,HOST:PORT…]`: on these brokers."""
    partitions: int | None = None
    """Fixed when the log is made; None: as the log has it, and for a new one 1 (Kafka: 16)."""
    topics: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,200}$")] = "mnemolog"
    """What the names of the log's topics and groups on Kafka, and of the collections on a Qdrant
    server, begin with: a name for each store that shares a server with others."""
    replication: Annotated[int, msgspec.Meta(ge=1, le=32767)] = 1
    """On Kafka: on how many brokers a new log is kept."""
    role: str = "all"
    """On Kafka: what this process does, of gateway, decider and projector; `all`: everything."""
    model: str = DEFAULT_MODEL
    """A name from `mnemolog models list`, or `none` for search by words alone."""
    models: str = ""
    """Directory of the embedding models; empty: the user's cache directory."""
    vectors: str = "edge"
    """`edge`: the vector index is in this process; or the URL of a Qdrant server."""
    embedding_hosts: str = ""
    """Hosts, with a port or without, that clients may have texts of episodes embedded at, with a
    key: beside the providers' own, separated by commas."""
    import_dir: str = ""
    """Where clients over HTTP may import files from; empty: `import` in the data directory."""
    toolsets: str = ""
    """The tool families that clients are offered, separated by commas; empty: all."""
    tenant: Annotated[str, msgspec.Meta(pattern=TENANT)] = "default"
    actor: str = ""
    """Who the calls of this process are recorded as; empty: the user's login name."""
    accept_clock: bool = False
    """Believe the clock though it is more than a year later than everything on the log."""
    agent_code: bool = True
    """Run the code that agents send with execute_agent_code, in a sandbox."""
    call_timeout_s: float = 30.0
    model_wait_s: float = 15.0
    """How long a call waits for a model that is still being loaded."""
    describe_wait_s: float = 2.0
    """How long a search by meaning waits for what was just written to be described."""
    events_buffer: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000
    """Events that may wait for one reader of `/events` before it is cut off."""
    events_streams: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 256
    """Readers of `/events`, and MCP subscriptions, at the same time."""

    @property
    def brokers(self) -> str | None:
        """Kafka's addresses; None: the log is embedded."""
        if self.log == "sqlite":
            return None
        address = self.log.removeprefix("kafka://")
        if address == self.log or not all(re.fullmatch(_BROKER, one) for one in address.split(",")):
            raise SettingsError(
                f"log can be sqlite or kafka://HOST:PORT (several: HOST:PORT,HOST:PORT), "
                f"not {self.log[:80]!r}"
            )
        return address

    @property
    def roles(self) -> frozenset[str]:
        named = frozenset(name.strip() for name in self.role.split(",") if name.strip())
        if named == {"all"}:
            return frozenset(ROLES)
        if not named or not named <= set(ROLES):
            known = ", ".join(ROLES)
            raise SettingsError(f"role can be all, or some of {known}; not {self.role[:80]!r}")
        return named

    @property
    def families(self) -> frozenset[str]:
        return frozenset(name.strip() for name in self.toolsets.split(",") if name.strip())

    @property
    def hosts(self) -> list[str]:
        return [name.strip() for name in self.allowed_hosts.split(",") if name.strip()]

    @property
    def embedding_places(self) -> list[str]:
        return [name.strip() for name in self.embedding_hosts.split(",") if name.strip()]

    @property
    def import_root(self) -> Path:
        given = Path(self.import_dir).expanduser() if self.import_dir else self.data_dir / "import"
        return given.absolute()

    @property
    def keys_path(self) -> Path:
        given = Path(self.keys_file).expanduser() if self.keys_file else self.data_dir / "keys.json"
        return given.absolute()

    @property
    def data_dir(self) -> Path:
        return Path(self.data).expanduser() if self.data else default_data_dir()


def default_data_dir() -> Path:
    found = _of_user(platformdirs.user_data_path)
    if found is None:
        raise SettingsError("This user has no home directory: say where the data goes with --data")
    return found


def user_config() -> Path | None:
    """Where the user's own settings are, if there are any; None without a home directory."""
    found = _of_user(platformdirs.user_config_path)
    return None if found is None else found / FILE_NAME


def _of_user(place: Callable[..., Path]) -> Path | None:
    """One of the user's directories. Without a home it is none, or below the working directory:
    that depends on the version of platformdirs."""
    try:
        found = place("mnemolog", appauthor=False)
    except RuntimeError:
        return None
    return found if found.is_absolute() else None


def qdrant_api_key() -> str | None:
    """The key for the Qdrant server. From the environment alone: settings are shown, it is not."""
    return os.environ.get("MNEMOLOG_QDRANT_API_KEY") or None


def load(flags: dict[str, Any] | None = None, config: str | None = None) -> Settings:
    """The settings in force; `flags` whose value is None were not given. `config` is the file, else
    the variable names it, else it is the user's own."""
    values = _of_file(config or os.environ.get(ENV_CONFIG) or None)
    for name in Settings.__struct_fields__:
        variable = os.environ.get(f"MNEMOLOG_{name.upper()}")
        if variable is not None:
            values[name] = variable
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    if os.environ.get("OAUTH_ENABLED", "").strip().lower() in ("1", "true", "yes", "on"):
        values.setdefault("auth", "oauth")
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"Wrong setting: {error}") from None


def _of_file(named: str | None) -> dict[str, Any]:
    file = Path(named).expanduser() if named else user_config()
    if file is None or (not named and not file.exists()):
        return {}
    # Here and not above: most have no such file, and an MCP client waits meanwhile.
    import tomllib

    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise SettingsError(f"The settings in {file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}") from None
