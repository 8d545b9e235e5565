"""robotmem 0.1.3, in an environment of its own, with the default model on."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from benchmarks.mcp_client import BenchmarkError, Server
from benchmarks.model import ModelFiles

NAME = "robotmem"
VERSION = "0.1.3"
# Its server is written for the first generation of the MCP package.
REQUIREMENTS = (f"robotmem=={VERSION}", "mcp<2")
MODEL_FOLDER = "models--Qdrant--bge-small-en-v1.5-onnx-Q"
SNAPSHOT = "benchmark"


def install(cache: Path) -> Path:
    """Make the environment under `cache` unless it is there; its Python. Takes about 45 s."""
    environment = cache / NAME
    python = environment / "bin" / "python"
    # Written last, so an environment that was left half-made is not used but made anew.
    marker = environment / "installed.txt"
    wanted = "\n".join(REQUIREMENTS)
    if marker.exists() and marker.read_text() == wanted:
        return python
    shutil.rmtree(environment, ignore_errors=True)
    _run([str(_interpreter()), "-m", "venv", str(environment)], "make a virtual environment")
    _run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], "install robotmem")
    marker.write_text(wanted)
    return python


def describe(python: Path) -> str:
    """Its version and those of what its speed depends on."""
    packages = ("robotmem", "mcp", "fastembed", "onnxruntime", "sqlite-vec")
    code = (
        "import platform; from importlib.metadata import version; "
        f"print(*(f'{{name}} {{version(name)}}' for name in {packages}), "
        "'python ' + platform.python_version(), sep=' · ')"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def offer_model(cache: Path, model: ModelFiles) -> Path:
    """Lay the model out as the offline cache folder its embedding library reads; the folder."""
    folder = cache / "fastembed"
    snapshot = folder / MODEL_FOLDER / "snapshots" / SNAPSHOT
    snapshot.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model.onnx, snapshot / "model_optimized.onnx")
    shutil.copyfile(model.tokenizer, snapshot / "tokenizer.json")
    (snapshot / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (snapshot / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 512, "pad_token": "[PAD]"})
    )
    (snapshot / "special_tokens_map.json").write_text("{}")
    refs = folder / MODEL_FOLDER / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(SNAPSHOT)
    return folder


def server(python: Path, model_folder: Path, directory: Path) -> Server:
    """robotmem on `directory`, which also holds its configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = {"fastembed_cache_dir": str(model_folder)}
    (directory / "config.json").write_text(json.dumps(settings))
    return Server(
        name=NAME,
        command=(str(python), "-m", "robotmem"),
        directory=directory,
        environment={"ROBOTMEM_HOME": str(directory), "HF_HUB_OFFLINE": "1"},
    )


def embedded_count(directory: Path) -> int:
    """How many memories are in its vector index, read from its own database.

    Its recall says "hybrid" whenever a model is loaded, so the replies alone prove little.
    """
    with closing(sqlite3.connect(directory / "memory.db")) as database:
        # The virtual table needs an extension; the plain table behind it does not.
        (count,) = database.execute("SELECT count(*) FROM memories_vec_rowids").fetchone()
    return int(count)


def _interpreter() -> Path:
    """A Python whose sqlite3 loads extensions, which robotmem's vector index needs.

    Without one robotmem drops its vector search and says nothing, so measuring it there would
    compare our hybrid search with its text search.
    """
    names = [f"python3.{minor}" for minor in range(11, 15)] + ["python3"]
    folders = [Path(part) for part in os.get_exec_path()]
    candidates = [Path(sys.executable)] + [folder / name for name in names for folder in folders]
    probe = (
        "import ensurepip, sqlite3, sys, venv; sqlite3.Connection.enable_load_extension; "
        "sys.exit(sys.version_info < (3, 10))"
    )
    for candidate in candidates:
        if not candidate.exists():
            continue
        done = subprocess.run([str(candidate), "-c", probe], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    raise BenchmarkError(
        "robotmem's vector search needs a Python 3.10 or newer whose sqlite3 module can load "
        "extensions, and none is on the PATH. Install one (a distribution's python3 and "
        "python3-venv usually will do)."
    )


def _run(command: list[str], purpose: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"Could not {purpose}: {(done.stderr or done.stdout)[-2000:]}")
