"""The vector index through the real HTTP client: what goes over the wire, and when it breaks."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator

import pytest

from mnemolog.infra import settings
from mnemolog.infra.settings import SettingsError
from mnemolog.projections.ports import Remove, VectorsAway
from mnemolog.projections.vectors import client, collection
from mnemolog.projections.vectors.tail import TailedVectors
from mnemolog.services.node.vectors.opening import checked_key, open_server, open_tailed
from tests.contract.qdrant_wire import Fault, serving
from tests.contract.test_vector_index import DIMS, SPACE, ids, put, unit
from tests.ports import HeldPort

KEY = "a-secret-that-nobody-may-see-4711"


@pytest.fixture
def nobody() -> Iterator[str]:
    """The URL of a port that nobody listens on."""
    port = HeldPort()
    yield port.url
    port.release()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in on a busy machine is no server that is away."""
    monkeypatch.setattr(collection, "SEARCH_TIMEOUT_S", 60)


def test_a_life_over_the_wire() -> None:
    with serving() as server:
        index = open_server(server.url, DIMS, "test-model")
        index.apply(0, 0, [put(n) for n in range(300)])
        index.apply(0, 1, [Remove(SPACE, 7), put(8, seed=900, version=2)])
        assert [(hit.id, hit.version) for hit in index.search(SPACE, unit(900), 1)] == [(8, 2)]
        assert len(ids(index, unit(1), 1_000)) == 299
        assert index.search(SPACE, unit(1), 5, session="s", min_confidence=0.5) == []
        assert index.checkpoint(0) == -1
        index.commit()

        node = open_tailed(server.url, DIMS, "test-model")
        assert node.checkpoint(0) == 1
        node.apply(0, 2, [Remove(SPACE, 8), put(1_000)])
        assert ids(node, unit(1_000), 1) == [1_000]
        assert len(ids(node, unit(1), 1_000)) == 299
        index.apply(0, 2, [Remove(SPACE, 8), put(1_000)])
        index.commit()
        assert node.refresh() is True
        assert node.health()["tail"] == 0
        assert node.digest() == index.digest()

        displaced = open_server(server.url, DIMS, "test-model")
        assert displaced.checkpoint(0) == 2
        fresh = index.fresh()
        fresh.apply(0, 2, [put(5)])
        index.switch_to(fresh)
        assert ids(node, unit(5)) == [5]
        displaced.apply(0, 3, [put(6)])
        with pytest.raises(client.Gone):
            displaced.commit()
        assert displaced.resume(0) == 2
        for one in (index, node, displaced):
            one.close()


# --- when the wire breaks ------------------------------------------------------------------------


def test_nobody_listens(nobody: str) -> None:
    with pytest.raises(VectorsAway, match="cannot be reached"):
        open_server(nobody, DIMS, "test-model")
    node = open_tailed(nobody, DIMS, "test-model")
    assert node.checkpoint(0) == -1
    node.apply(0, 0, [put(1)])
    with pytest.raises(VectorsAway, match="cannot be reached"):
        node.search(SPACE, unit(1), 5)
    assert node.health()["status"] == "away"
    node.close()


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "SEARCH_TIMEOUT_S", 1)
    with serving() as server:
        index = open_server(server.url, DIMS, "test-model")
        monkeypatch.setattr(index._breaker, "_pause_s", 3600)
        server.faults["/points/query"] = None
        with pytest.raises(VectorsAway, match="did not answer in time"):
            index.search(SPACE, unit(1), 5)
        asked = len(server.seen)
        with pytest.raises(VectorsAway, match="did not answer in time"):
            index.search(SPACE, unit(1), 5)
        assert len(server.seen) == asked, "the second search did not ask"


@pytest.mark.parametrize(
    ("fault", "sentence", "again"),
    [
        ((500, b"on fire"), r"answers 500 \(on fire\)", True),
        ((503, b"{}"), "answers 503", True),
        ((429, b"{}"), "answers 429", True),
        ((400, b'{"status": {"error": "Bad vector"}}'), "Bad vector", False),
        ((401, b"Must provide an API key"), "refuses the key", False),
        ((403, b"forbidden"), "refuses the key", False),
        ((404, b"Not found: Collection `x` doesn't exist!"), "no such collection", False),
        ((200, b'{"result": null, "status": "ok", "time": 0}'), "cannot be read", True),
        ((200, b"[]"), "cannot be read", True),
        ((200, b"\xff\xfe"), "cannot be read", True),
        ((200, b"<html>a proxy says hello</html>"), "cannot be read", True),
    ],
)
def test_what_a_server_says_becomes_a_sentence(fault: Fault, sentence: str, again: bool) -> None:
    with serving() as server:
        index = open_server(server.url, DIMS, "test-model")
        index.apply(0, 0, [put(1)])
        server.faults["/points"] = fault
        with pytest.raises(VectorsAway, match=sentence) as caught:
            index.commit()
        assert caught.value.again is again


# --- the key -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_the_key_is_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture, nobody: str) -> None:
    """Also when the server repeats it in what it answers."""
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []

    def tell(work: Callable[[], object]) -> None:
        with pytest.raises(VectorsAway) as caught:
            work()
        shown.extend(traceback.format_exception(caught.value))
        shown.extend([str(caught.value), repr(caught.value)])

    with serving() as server:
        index = open_server(server.url, DIMS, "test-model", KEY)
        node = open_tailed(server.url, DIMS, "test-model", f" {KEY}\n")
        index.checkpoint(0)
        node.checkpoint(0)
        for faulty in ((500, KEY.encode() * 40), (403, KEY.encode()), (200, KEY.encode())):
            server.faults["/points"] = server.faults["/points/query"] = faulty
            index.apply(0, len(shown), [put(1)])
            tell(index.commit)
            tell(lambda: TailedVectors(node._server, DIMS, "m").search(SPACE, unit(1), 5))
        assert all(headers["api-key"] == KEY for _, _, headers in server.seen)
        assert len(server.seen) > 10
    tell(lambda: open_server(nobody, DIMS, "test-model", KEY))
    shown += [repr(index), repr(node), repr(index._server), str(node._server)]
    shown += [repr(node.health()), caplog.text]
    assert len(shown) > 20
    for text in shown:
        assert KEY not in text
        assert KEY[:20] not in text


def test_the_key_comes_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOLOG_QDRANT_API_KEY", raising=False)
    assert settings.qdrant_api_key() is None
    monkeypatch.setenv("MNEMOLOG_QDRANT_API_KEY", KEY)
    assert settings.qdrant_api_key() == KEY
    assert KEY not in repr(settings.load())


@pytest.mark.parametrize("key", ["two words", "a\nb", "clé", "x" * 5_000])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        checked_key(key)
    assert key not in str(caught.value)
    assert checked_key("  ") is None


# --- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    ["", "Edge", "qdrant", "127.0.0.1:6333", "ftp://h", "http://", "http://h:99999", "http://[x"],
)
def test_what_is_no_server_is_refused(spec: str) -> None:
    with pytest.raises(SettingsError, match="`edge` or the URL of a Qdrant server such as"):
        open_server(spec, DIMS, "test-model")


@pytest.mark.parametrize(
    "spec", ["http://me:secret@h", "https://secret@h:1", "me:secret@h", "http://h/?key=secret"]
)
def test_secrets_in_the_url_are_refused_and_not_repeated(spec: str) -> None:
    with pytest.raises(SettingsError, match="MNEMOLOG_QDRANT_API_KEY") as caught:
        open_server(spec, DIMS, "test-model")
    assert "secret" not in str(caught.value)
