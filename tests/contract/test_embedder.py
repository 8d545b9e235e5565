"""The embedder: what is pulled is what was asked for, and a text has one vector."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from mnemolog.infra.embedder.catalogue import (
    CATALOGUE,
    DEFAULT_MODEL,
    ONNX_FILE,
    HuggingFace,
    Maven,
    Model,
    ModelFile,
    covers,
)
from mnemolog.infra.embedder.lazy import BackgroundEmbedder
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import (
    ENV_HUB,
    PullError,
    file_path,
    installed,
    models_dir,
    pull,
    verify,
)
from mnemolog.services.cli.models import models as models_command
from mnemolog.services.families.graph.describing.entity_text import entity_text

PATIENCE_S = 240
"""How long a test waits for a model before it fails; nothing is measured by it."""

DEFAULT = CATALOGUE[DEFAULT_MODEL]
CHINESE = CATALOGUE["bge-small-zh-v1.5"]


class Hub:
    """A real HTTP server on this machine that holds files by path, as the model hub does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        files = self.files

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub()
    monkeypatch.setenv(ENV_HUB, hub.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


CONTENTS = {"model.onnx": b"weights" * 50_000, "tokenizer.json": b"{}"}


def small_model(*repositories: str) -> Model:
    """A model whose files are `CONTENTS`, to be had from each of the repositories."""
    return Model(
        name="small",
        dims=2,
        pooling="cls",
        dedup_cosine=0.9,
        scripts=("latin",),
        files=tuple(
            ModelFile(name, hashlib.sha256(body).hexdigest(), len(body))
            for name, body in CONTENTS.items()
        ),
        sources=tuple(
            HuggingFace(repository, "r1", {name: name for name in CONTENTS})
            for repository in repositories
        ),
    )


def publish(hub: Hub, repository: str, contents: dict[str, bytes]) -> None:
    for name, body in contents.items():
        hub.files[f"/{repository}/resolve/r1/{name}"] = body


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


class TestPull:
    def test_what_was_pulled_is_there_and_a_second_pull_fetches_nothing(
        self, hub: Hub, tmp_path: Path
    ) -> None:
        publish(hub, "good", CONTENTS)
        model = small_model("good")
        seen: list[tuple[str, int, int]] = []
        assert not installed(model, tmp_path)
        assert pull(model, tmp_path, lambda *step: seen.append(step))
        assert installed(model, tmp_path)
        assert verify(model, tmp_path) == []
        assert seen[-1][1:] == (model.size_bytes, model.size_bytes)
        hub.files.clear()
        assert not pull(model, tmp_path)
        assert names(tmp_path) == ["small"]

    @pytest.mark.parametrize(
        "forged", [b"w3ights" * 50_000, b"weights" * 49_999, b"weights" * 50_001, b""]
    )
    def test_a_file_with_another_sha256_is_refused_and_leaves_nothing_behind(
        self, hub: Hub, tmp_path: Path, forged: bytes
    ) -> None:
        publish(hub, "bad", CONTENTS | {"model.onnx": forged})
        model = small_model("bad")
        with pytest.raises(PullError, match=r"Tried:\n  Hugging Face \(bad at r1\)"):
            pull(model, tmp_path)
        assert names(tmp_path) == []

    def test_the_next_source_is_tried_and_the_error_tells_of_all(
        self, hub: Hub, tmp_path: Path
    ) -> None:
        publish(hub, "forged", CONTENTS | {"tokenizer.json": b"[]"})
        with pytest.raises(PullError) as failure:
            pull(small_model("missing", "forged"), tmp_path)
        assert "missing at r1): HTTP Error 404" in str(failure.value)
        assert "tokenizer.json has sha256" in str(failure.value)
        assert "mnemolog models pull small" in str(failure.value)
        publish(hub, "good", CONTENTS)
        assert pull(small_model("missing", "forged", "good"), tmp_path)

    def test_a_damaged_file_is_repaired(self, hub: Hub, tmp_path: Path) -> None:
        publish(hub, "good", CONTENTS)
        model = small_model("good")
        pull(model, tmp_path)
        weights = file_path(model, ONNX_FILE, tmp_path)
        weights.write_bytes(bytes(len(CONTENTS[ONNX_FILE])))
        assert installed(model, tmp_path)
        assert len(verify(model, tmp_path)) == 1
        assert pull(model, tmp_path)
        assert verify(model, tmp_path) == []

    @pytest.mark.parametrize("kind", ["threads", "processes"])
    def test_several_may_pull_at_once(self, hub: Hub, tmp_path: Path, kind: str) -> None:
        publish(hub, "good", CONTENTS)
        model = small_model("good")
        executor: Executor = (
            ThreadPoolExecutor(8)
            if kind == "threads"
            else ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn"))
        )
        with executor:
            for pulled in [executor.submit(pull, model, tmp_path) for _ in range(8)]:
                pulled.result()
        assert verify(model, tmp_path) == []
        assert names(tmp_path) == ["small"]

    def test_what_a_killed_pull_left_is_taken_away_and_a_running_one_is_let_be(
        self, hub: Hub, tmp_path: Path
    ) -> None:
        publish(hub, "good", CONTENTS)
        for name, age_s in ((".pull-killed", 3 * 24 * 3600), (".pull-running", 0)):
            (tmp_path / name).mkdir()
            os.utime(tmp_path / name, (time.time() - age_s,) * 2)
        pull(small_model("good"), tmp_path)
        assert names(tmp_path) == [".pull-running", "small"]

    def test_a_directory_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(PullError, match=r"Cannot write to the models directory .*file"):
            pull(small_model("any"), tmp_path / "file" / "models")

    def test_maven_gives_the_same_files(self, tmp_path: Path) -> None:
        maven = tuple(source for source in DEFAULT.sources if isinstance(source, Maven))
        # PullError says what is missing: a network, or `mvn`.
        assert pull(msgspec.structs.replace(DEFAULT, sources=maven), tmp_path)
        assert verify(DEFAULT, tmp_path) == []
        assert names(tmp_path) == [DEFAULT.name]


class TestCatalogue:
    def test_every_model_is_pinned_and_calibrated(self) -> None:
        for name, model in CATALOGUE.items():
            assert model.name == name
            assert 0.85 <= model.dedup_cosine < 1
            assert {len(file.sha256) for file in model.files} == {64}
            for source in model.sources:
                names = source.paths if isinstance(source, HuggingFace) else source.members
                assert set(names) == {file.name for file in model.files}
                assert isinstance(source, Maven) or len(source.revision) == 40

    @pytest.mark.parametrize(
        ("text", "english", "chinese"),
        [
            ("The gripper slips on wet cups", True, True),
            ("", True, True),
            ("12.5 – 15 %", True, True),
            ("La pinza resbaló más de lo que señaló José", True, True),
            ("Ask Юра about the torque limit of the second joint", True, True),
            ("The sign reads 出 above the door on the left of the long corridor", True, True),
            ("机械臂抓取红色杯子时打滑", False, True),
            ("Put the 螺丝 into the tray", False, True),
            ("抓取 cup 用 12N", False, True),
            ("ロボットがカップを落とした", False, False),
            ("로봇이 컵을 떨어뜨렸다", False, False),
            ("Робот уронил чашку", False, False),
            ("🤖🤖", False, False),
            ("x" * 101, False, False),
            (f"The tag says {'Ab1' * 40}", False, False),
            (f"标签是 {'Ab1' * 40}", False, False),
            ("Well done 👍", True, True),
        ],
    )
    def test_a_text_in_a_foreign_script_is_not_covered(
        self, text: str, english: bool, chinese: bool
    ) -> None:
        assert covers(DEFAULT, text) is english
        assert covers(CHINESE, text) is chinese

    def test_importing_it_loads_nothing_heavy(self) -> None:
        code = (
            "import sys, mnemolog.infra.embedder.catalogue, mnemolog.infra.embedder.store\n"
            "import mnemolog.infra.embedder.lazy\n"
            "print([name for name in ('numpy', 'onnxruntime', 'tokenizers')"
            " if name in sys.modules])"
        )
        root = Path(__file__).parents[2]
        run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
        assert run.stdout == "[]\n", run.stderr


@pytest.fixture(scope="session")
def directory() -> Path:
    """The models directory, with the default model in it."""
    found = models_dir()
    try:
        pull(DEFAULT, found)
    except PullError as error:
        pytest.fail(f"These tests need the default embedding model. {error}", pytrace=False)
    return found


@pytest.fixture(scope="session")
def embedder(directory: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load(DEFAULT, directory)


TEXTS = [
    "The gripper slips on the cup when it is wet",
    "A wet cup makes the gripper lose its hold",
    "The meeting about the budget was moved to Friday",
    "grip_force=12.5N works best for red cups",
    "",
    "La taza mojada se le resbala a la pinza",
    "Open the drawer before reaching in. " * 100,
]


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    return float(a.astype(np.float32) @ b.astype(np.float32))


class TestVectors:
    @pytest.mark.parametrize("text", TEXTS)
    def test_a_vector_has_unit_length_and_the_models_dimensions(
        self, embedder: OnnxEmbedder, text: str
    ) -> None:
        for vector in (embedder.embed_passage(text), embedder.embed_query(text)):
            assert vector.dtype == np.float16
            assert vector.shape == (DEFAULT.dims,)
            assert similarity(vector, vector) == pytest.approx(1, abs=2e-3)

    def test_a_text_has_one_vector_whoever_asks_and_whenever(
        self, embedder: OnnxEmbedder, directory: Path
    ) -> None:
        first = [embedder.embed_passage(text).tobytes() for text in TEXTS]
        with ThreadPoolExecutor(4) as threads:
            again = threads.map(embedder.embed_passage, TEXTS * 2)
            assert [vector.tobytes() for vector in again] == first * 2
        fresh = OnnxEmbedder.load(DEFAULT, directory)
        assert [fresh.embed_passage(text).tobytes() for text in reversed(TEXTS)] == first[::-1]

    def test_a_paraphrase_is_nearer_than_another_subject(self, embedder: OnnxEmbedder) -> None:
        said, paraphrase, unrelated = (embedder.embed_passage(text) for text in TEXTS[:3])
        assert similarity(said, paraphrase) > similarity(said, unrelated) + 0.2
        asked = embedder.embed_query("what happens with wet cups?")
        assert similarity(asked, said) > similarity(asked, unrelated) + 0.1

    def test_a_query_is_embedded_with_its_prefix(self, embedder: OnnxEmbedder) -> None:
        model = msgspec.structs.replace(DEFAULT, query_prefix="query: ")
        prefixed = OnnxEmbedder.load(model, models_dir())
        query = prefixed.embed_query("wet cups")
        assert (query == embedder.embed_passage("query: wet cups")).all()
        assert (query != embedder.embed_passage("wet cups")).any()

    def test_what_is_past_the_limit_is_counted_and_not_seen(self, embedder: OnnxEmbedder) -> None:
        assert embedder.count_tokens("") == 2
        assert embedder.count_tokens("wet cup") == 4
        for words in (509, 510, 511, 3000):
            assert embedder.count_tokens("cup " * words) == words + 2
        full = embedder.embed_passage("cup " * 510)
        assert (full == embedder.embed_passage("cup " * 510 + "entirely different")).all()
        assert (full != embedder.embed_passage("cup " * 509 + "different")).any()

    def test_an_entity_s_text_keeps_to_its_budget(self, embedder: OnnxEmbedder) -> None:
        """Parts are counted one by one: that holds only if they take as many tokens together."""
        odd = [
            "抓取力 15N",
            "naïve café",
            "a_b-c.d/e",
            "🤖🤖",
            "e\u0301",
            "|",
            "(x) | y",
            "\x00",
            "ß",
        ]
        many = [f"{odd[i % len(odd)]} {i} of w{i * 7919}" for i in range(300)]
        for observations in (odd, many, ["抓" * 2000], ["word " * 400] * 12, [*many, "x" * 2000]):
            for name in ("Astro", "抓" * 512, "a.b " * 128):
                text = entity_text(name, "Tool", observations, embedder.count_tokens)
                assert embedder.count_tokens(text) <= 480
        full = entity_text("Astro", "Tool", many, embedder.count_tokens)
        assert embedder.count_tokens(full) > 440

    def test_a_broken_character_is_no_error(self, embedder: OnnxEmbedder) -> None:
        assert np.isfinite(embedder.embed_passage("cup \ud800 \x00 tray")).all()


class TestBackground:
    def test_without_a_model_it_stays_absent(self, tmp_path: Path) -> None:
        background = BackgroundEmbedder(None, tmp_path)
        background.start()
        assert background.poll() == "absent"
        assert background.wait(PATIENCE_S) is None
        assert (background.name, background.dims, background.model) == (None, None, None)
        assert "text alone" in background.reason

    def test_an_installed_model_becomes_ready(self, directory: Path) -> None:
        background = BackgroundEmbedder(DEFAULT, directory)
        background.start()
        background.start()
        assert background.status in ("loading", "ready")
        embedder = background.wait(PATIENCE_S)
        assert embedder is not None
        assert (background.status, background.reason) == ("ready", "")
        assert background.wait(0) is embedder
        assert (background.name, background.dims) == (DEFAULT.name, DEFAULT.dims)

    def test_a_model_that_is_pulled_later_is_noticed(self, directory: Path, tmp_path: Path) -> None:
        background = BackgroundEmbedder(DEFAULT, tmp_path)
        background.start()
        assert background.status == "absent"
        assert f"mnemolog models pull {DEFAULT.name}" in background.reason
        assert background.wait(PATIENCE_S) is None
        (tmp_path / DEFAULT.name).symlink_to(directory / DEFAULT.name)
        while background.poll() == "absent":
            time.sleep(0.02)
        assert background.wait(PATIENCE_S) is not None

    def test_a_damaged_model_fails_with_what_to_do_and_recovers_when_repaired(
        self, directory: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / DEFAULT.name
        folder.mkdir()
        for file in DEFAULT.files:
            (folder / file.name).write_bytes(bytes(file.size_bytes))
        background = BackgroundEmbedder(DEFAULT, tmp_path)
        background.start()
        assert background.wait(PATIENCE_S) is None
        assert background.status == "failed"
        assert f"mnemolog models pull {DEFAULT.name}" in background.reason
        assert background.poll() == "failed"
        folder.rename(tmp_path / "damaged")
        folder.symlink_to(directory / DEFAULT.name)
        while background.poll() == "failed":
            time.sleep(0.02)
        assert background.wait(PATIENCE_S) is not None
        assert background.reason == ""


class TestCommand:
    def test_list_shows_what_is_installed(self, directory: Path, tmp_path: Path) -> None:
        for where, there in ((directory, True), (tmp_path, False)):
            options = ["list", "--json", "--models-dir", str(where)]
            shown = json.loads(CliRunner().invoke(models_command, options).stdout)
            assert shown["directory"] == str(where)
            first = shown["models"][0]
            assert (first["name"], first["installed"]) == (DEFAULT.name, there)
        table = CliRunner().invoke(models_command, ["list", "--models-dir", str(directory)])
        assert all(name in table.stdout for name in CATALOGUE)

    def test_pull_says_where_the_model_is(self, directory: Path) -> None:
        done = CliRunner().invoke(models_command, ["pull", "--models-dir", str(directory)])
        assert (done.exit_code, str(directory / DEFAULT.name) in done.stdout) == (0, True)

    def test_an_unknown_model_is_refused_with_the_known_ones(self) -> None:
        refused = CliRunner().invoke(models_command, ["pull", "gpt"])
        assert refused.exit_code == 2
        assert DEFAULT_MODEL in refused.stderr
