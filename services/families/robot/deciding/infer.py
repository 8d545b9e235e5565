"""What a memory's own words say about it: how sure it sounds, and which files it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mnemolog.events.robot import MAX_INSIGHT

MAX_SCOPE_FILES = 20
MAX_PATH = 255

_CODE_SPAN = re.compile(r"`[^`]{1,200}`")
_CALL = re.compile(r"(?<![\w.:])([a-z_][\w.:]*)\(([^()]{0,200})\)", re.IGNORECASE | re.ASCII)
_CAUSAL = re.compile(
    r"\b(?:because|caus(?:ed|es|ing)|due to|therefore|hence|thus|as a result|results? in"
    r"|resulted in|so that|which is why|root cause|leads to|porque|debido a)\b"
    r"|因为|由于|导致|所以|因此|引起|造成|原因|引发|以致|从而",
    re.IGNORECASE | re.ASCII,
)

_URL_OR_PATH = re.compile(r"[a-z][a-z0-9+]{1,9}://\S+|[\w.~/\\:@+-]+", re.IGNORECASE | re.ASCII)
_POSITION = re.compile(r"(?::\d+){1,2}$")
_PATH_WITH_FOLDER = re.compile(
    r"(?:[a-z]:)?[\w.~@+-]*(?:[/\\]+[\w.@+-]+)*[/\\][\w.@+-]*\.[a-z][a-z0-9]{0,9}", re.I | re.A
)
_SYSTEM_PATH = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)/[\w./@+-]+"
    r"|~/[\w./@+-]+",
    re.ASCII,
)
# Endings that make a word without a folder a file; "self.msg" or "arm.step" would be no file.
_ENDING = re.compile(
    "py|pyi|ipynb|c|h|cc|cpp|cxx|hpp|hh|cu|rs|go|java|kt|swift|rb|lua|js|mjs|ts|tsx|jsx|css|html"
    "|sh|bash|bat|ps1|sql|proto|xml|urdf|xacro|sdf|srdf|mjcf|usd|usda|launch|json|jsonl|yaml|yml"
    "|toml|ini|cfg|conf|csv|tsv|md|rst|txt|log|pdf|png|jpg|jpeg|svg|mp4|bag|mcap|db3|pcd|ply|stl"
    "|dae|onnx|pt|pth|npy|npz|pkl|h5|hdf5|parquet|sqlite|db|zip|gz|tar|cmake",
    re.IGNORECASE,
)
_NO_FILE = re.compile(r"(?:node|next|vue|three|react|express|d3)\.js", re.IGNORECASE)
_BARE_FILES = frozenset({"Makefile", "Dockerfile", "Jenkinsfile", "CMakeLists.txt"})


def confidence(text: str, context: str) -> float:
    """0.80, and 0.05 more for each of: a file path, code, a causal word, a context of over 20
    characters; 0.95 at most."""
    signs = (
        next(_paths(text), None) is not None,
        _has_code(text),
        _CAUSAL.search(text) is not None,
        len(context.strip()) > 20,
    )
    return round(min(0.95, 0.80 + 0.05 * sum(signs)), 2)


def scope_files(text: str, context: str) -> list[str]:
    """The file paths named in a text, then those in its context, each once and as written.

    At most 20, of at most 255 characters; a line number after a path is left off. `context` is
    JSON; when it is not, it is read as text.
    """
    found: dict[str, None] = {}
    for source in (text, *_strings(context)):
        for path in _paths(source):
            found[path] = None
            if len(found) == MAX_SCOPE_FILES:
                return list(found)
    return list(found)


def trim(text: str, limit: int = MAX_INSIGHT) -> tuple[str, bool]:
    """The text without space around it, at most `limit` characters, and whether any were lost."""
    stripped = text.strip()
    if len(stripped) <= limit:
        return stripped, False
    return stripped[:limit].rstrip(), True


def _has_code(text: str) -> bool:
    # Arguments make a call only of a name that is no ordinary word: "cup(s)" is none.
    return _CODE_SPAN.search(text) is not None or any(
        not arguments or not name.isalpha() for name, arguments in _CALL.findall(text)
    )


def _paths(text: str) -> Iterator[str]:
    for match in _URL_OR_PATH.finditer(text):
        candidate = match.group()
        if "://" not in candidate and len(candidate) <= MAX_PATH + 20:
            path = _POSITION.sub("", candidate.rstrip(".:-")).rstrip(":")
            if len(path) <= MAX_PATH and _is_path(path):
                yield path


def _is_path(candidate: str) -> bool:
    if "/" in candidate or "\\" in candidate:
        return bool(_SYSTEM_PATH.fullmatch(candidate) or _PATH_WITH_FOLDER.fullmatch(candidate))
    if candidate in _BARE_FILES:
        return True
    stem, _, ending = candidate.rpartition(".")
    return (
        bool(stem)
        and ":" not in candidate
        and "@" not in candidate
        and _ENDING.fullmatch(ending) is not None
        and _NO_FILE.fullmatch(candidate) is None
    )


def _strings(context: str) -> Iterator[str]:
    """Every string in a JSON text, keys included, in order; a text that is no JSON as it is."""
    try:
        value = msgspec.json.decode(context.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        yield context
        return
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, dict):
            pending.extend(part for pair in reversed(value.items()) for part in reversed(pair))
