"""The vector index on a Qdrant server over https: whom it believes, and where its key goes."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemolog.infra import settings
from mnemolog.infra.settings import Settings, SettingsError
from mnemolog.projections.ports import VectorsAway
from mnemolog.projections.vectors import collection
from mnemolog.services.node.vectors import opening
from mnemolog.services.node.vectors.opening import open_server, open_tailed
from tests.certificates import Authority
from tests.contract.qdrant_wire import serving
from tests.contract.test_vector_index import DIMS, SPACE, ids, put, unit

HOST = "127.0.0.1"
KEY = "a-secret-that-nobody-may-see-4711"
MODEL = "test-model"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in on a busy machine is no server that is away."""
    monkeypatch.setattr(collection, "SEARCH_TIMEOUT_S", 60)
    monkeypatch.setattr(opening, "_warned", set())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture
def showing(authority: Authority) -> Callable[..., ssl.SSLContext]:
    """A server's side, with a certificate for a name."""

    def showing(name: str = HOST, days: int = 30) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.shows("server", name, days=days).both)
        return context

    return showing


def test_a_life_over_https(authority: Authority, showing: Callable[..., ssl.SSLContext]) -> None:
    with serving(tls=showing()) as server:
        assert server.url.startswith("https://")
        index = open_server(server.url, DIMS, MODEL, KEY, ca=str(authority.ca))
        index.apply(0, 0, [put(n) for n in range(20)])
        index.commit()
        node = open_tailed(server.url, DIMS, MODEL, KEY, ca=str(authority.ca))
        assert node.checkpoint(0) == 0
        assert len(ids(node, unit(1), 100)) == 20
        assert {headers["api-key"] for _, _, headers in server.seen} == {KEY}
        for one in (index, node):
            one.close()


@pytest.mark.parametrize(
    ("name", "days", "by", "said"),
    [
        (HOST, 30, "the stranger", "is not trusted .* vectors_ca"),
        (HOST, 30, "the system", "is not trusted .* vectors_ca"),
        (HOST, -1, "the authority", r"is not trusted \(certificate has expired\)"),
        ("qdrant.example", 30, "the authority", "is for another name"),
    ],
)
def test_a_certificate_that_is_not_believed(
    authority: Authority,
    stranger: Authority,
    showing: Callable[..., ssl.SSLContext],
    name: str,
    days: int,
    by: str,
    said: str,
) -> None:
    """And the key is not sent there."""
    believed = {"the stranger": str(stranger.ca), "the authority": str(authority.ca)}
    ca = believed.get(by, "")
    with serving(tls=showing(name, days)) as server:
        with pytest.raises(VectorsAway, match=said) as caught:
            open_server(server.url, DIMS, MODEL, KEY, ca=ca)
        assert caught.value.again, "a certificate can be renewed"
        node = open_tailed(server.url, DIMS, MODEL, KEY, ca=ca)
        with pytest.raises(VectorsAway, match="shows a certificate that"):
            node.search(SPACE, unit(1), 5)
        assert "shows a certificate that" in str(node.health())
        node.close()
        assert server.seen == []
        assert KEY not in str(caught.value)


def test_https_where_there_is_none(authority: Authority) -> None:
    with serving() as server, pytest.raises(VectorsAway, match="cannot be reached"):
        open_server(server.url.replace("http", "https"), DIMS, MODEL, KEY, ca=str(authority.ca))


@pytest.mark.parametrize(
    ("url", "ca", "said"),
    [
        ("https://h:1", "/gone", "vectors_ca: /gone cannot be read"),
        ("https://h:1", __file__, "holds no certificate in PEM"),
        ("http://h:1", __file__, "write https://, or leave vectors_ca out"),
    ],
)
def test_settings_that_do_not_go_together(url: str, ca: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        open_tailed(url, DIMS, MODEL, ca=ca)


@pytest.mark.parametrize(
    ("url", "key", "warned"),
    [
        ("http://qdrant:6333", KEY, True),
        ("http://10.0.0.7:6333", KEY, True),
        ("http://10.0.0.7:6333", None, False),
        ("http://127.0.0.1:6333", KEY, False),
        ("http://[::1]:6333", KEY, False),
        ("http://localhost:6333", KEY, False),
        ("https://10.0.0.7:6333", KEY, False),
    ],
)
def test_a_key_in_the_clear_over_a_network_is_warned_of_once(
    url: str, key: str | None, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        open_tailed(url, DIMS, MODEL, key).close()
    told = [one for one in caplog.records if one.name == "mnemolog.vectors"]
    assert len(told) == warned
    assert KEY not in caplog.text


def test_the_key_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    monkeypatch.delenv("MNEMOLOG_QDRANT_API_KEY", raising=False)
    monkeypatch.setenv("MNEMOLOG_QDRANT_API_KEY_FILE", str(file))
    assert settings.qdrant_api_key() == KEY
    assert KEY not in repr(settings.load())
    assert "qdrant_api_key" not in Settings.__struct_fields__
