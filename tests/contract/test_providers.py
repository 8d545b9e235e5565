"""Embeddings from elsewhere: right answers are vectors, anything else a sentence in good time; and
neither texts nor keys go where they must not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from mnemolog.infra.embedder import providers
from mnemolog.infra.embedder.providers import ProviderAway, Providers, at_once
from mnemolog.infra.embedder.where import Target, Where, WrongTarget
from tests.embedding_server import DIMS, EmbeddingServer

SECRET = "sk-test-0123456789abcdef"
ENVIRONMENT = {
    "OPENAI_API_KEY": SECRET,
    "SPARE_API_KEY": SECRET,
    "MNEMOLOG_QDRANT_API_KEY": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "BROKEN_API_KEY": "two\nlines",
    "EMPTY_API_KEY": "",
}
PATIENCE_S = 60.0


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    one = EmbeddingServer(key=SECRET)
    yield one
    one.close()


@pytest.fixture
def asking(server: EmbeddingServer) -> Iterator[Providers]:
    one = Providers(Where([server.host], ENVIRONMENT))
    yield one
    one.close()


def target(server: EmbeddingServer, provider: str = "openai", path: str = "/v1") -> Target:
    return Target(provider, "words", "SPARE_API_KEY", server.url + path)


@pytest.mark.parametrize(
    ("provider", "path", "asked", "header"),
    [
        ("openai", "/v1", "/v1/embeddings", "authorization"),
        ("mistral", "/v1", "/v1/embeddings", "authorization"),
        (
            "azure",
            "",
            "/openai/deployments/words/embeddings?api-version=2024-02-01",
            "api-key",
        ),
        ("cohere", "", "/v2/embed", "authorization"),
    ],
)
def test_each_provider_is_asked_in_its_own_way(
    server: EmbeddingServer, asking: Providers, provider: str, path: str, asked: str, header: str
) -> None:
    texts = ["fix the car", "bake bread", "repair the automobile"]
    found = asking.embed(target(server, provider, path), texts, dims=DIMS, within_s=PATIENCE_S)
    assert [one.dtype for one in found] == [np.float16] * 3
    lengths = [float(np.linalg.norm(one.astype(np.float32))) for one in found]
    assert lengths == pytest.approx([1, 1, 1], abs=1e-3)
    near = float(found[0].astype(np.float32) @ found[2].astype(np.float32))
    far = float(found[0].astype(np.float32) @ found[1].astype(np.float32))
    assert near == pytest.approx(1, abs=1e-3) and far < 0.5
    (path_asked, headers, body) = server.asked[0]
    assert path_asked == asked
    assert SECRET in headers[header]
    assert (body["texts"] if provider == "cohere" else body["input"]) == texts


def test_cohere_is_told_what_is_a_query(server: EmbeddingServer, asking: Providers) -> None:
    asking.embed(target(server, "cohere", ""), ["a"], query=True, within_s=PATIENCE_S)
    asking.embed(target(server, "cohere", ""), ["a"], within_s=PATIENCE_S)
    assert [one[2]["input_type"] for one in server.asked] == ["search_query", "search_document"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("garbage", "cannot be used"),
        ("few", "1 vectors for 2 texts"),
        ("nothing", "without a direction"),
        ("hang_up", "cannot be reached"),
    ],
)
def test_a_wrong_answer_is_a_sentence(
    server: EmbeddingServer, asking: Providers, mode: str, said: str
) -> None:
    server.mode = mode
    with pytest.raises(ProviderAway, match=said) as met:
        asking.embed(target(server), ["a b", "c"], within_s=PATIENCE_S)
    assert SECRET not in str(met.value)
    server.mode = "right"
    assert len(asking.embed(target(server), ["a b", "c"], within_s=PATIENCE_S)) == 2


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, "trouble of its own"),
        (401, "does not accept the key in SPARE_API_KEY"),
        (404, "are model and base_url right"),
        (307, "sends elsewhere"),
    ],
)
def test_a_refusal_is_a_sentence_that_does_not_repeat_what_was_answered(
    server: EmbeddingServer, asking: Providers, status: int, said: str
) -> None:
    server.mode, server.status = "status", status
    with pytest.raises(ProviderAway, match=said) as met:
        asking.embed(target(server), ["a"], within_s=PATIENCE_S)
    assert SECRET not in str(met.value) and "Incorrect" not in str(met.value)
    assert len(server.asked) == 1, "nobody goes where it sends"


@pytest.mark.parametrize(
    ("told", "after_s"),
    [("7", 7.0), ("86400", providers.MAX_RETRY_AFTER_S), ("soon", 0.0), ("nan", 0.0), ("-3", 0.0)],
)
def test_how_long_to_leave_it_alone_is_told_and_bounded(
    server: EmbeddingServer, asking: Providers, told: str, after_s: float
) -> None:
    server.mode, server.status, server.retry_after = "status", 429, told
    with pytest.raises(ProviderAway, match="left alone") as met:
        asking.embed(target(server), ["a"], within_s=PATIENCE_S)
    assert met.value.after_s == after_s


def test_vectors_of_other_dimensions_are_refused(
    server: EmbeddingServer, asking: Providers
) -> None:
    server.dims = 32
    with pytest.raises(ProviderAway, match="32 dimensions, where its model has 64"):
        asking.embed(target(server), ["a"], dims=64, within_s=PATIENCE_S)


@pytest.mark.parametrize("mode", ["slow", "drip"])
def test_who_is_slow_is_given_up(server: EmbeddingServer, asking: Providers, mode: str) -> None:
    server.mode = mode
    with pytest.raises(ProviderAway, match="did not answer within"):
        asking.embed(target(server), ["a"], within_s=0.3)


def test_an_answer_without_end_is_given_up(
    server: EmbeddingServer, asking: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "MAX_ANSWER_BYTES", 1000)
    with pytest.raises(ProviderAway, match="more than 1,000 bytes"):
        asking.embed(target(server), ["a"] * 50, within_s=PATIENCE_S)


def test_who_is_away_is_a_sentence_and_may_come_back(
    server: EmbeddingServer, asking: Providers
) -> None:
    server.away()
    with pytest.raises(ProviderAway, match="cannot be reached"):
        asking.embed(target(server), ["a"], within_s=PATIENCE_S)
    server.back()
    assert len(asking.embed(target(server), ["a"], within_s=PATIENCE_S)) == 1


def test_the_end_of_the_service_does_not_wait(server: EmbeddingServer) -> None:
    one, met = Providers(Where([server.host], ENVIRONMENT)), []
    server.mode = "slow"

    def ask() -> None:
        try:
            one.embed(target(server), ["a"], within_s=600)
        except ProviderAway as error:
            met.append(str(error))

    waiting = threading.Thread(target=ask, daemon=True)
    waiting.start()
    deadline_s = time.monotonic() + PATIENCE_S
    while not server.asked and time.monotonic() < deadline_s:
        time.sleep(0.01)
    one.close()
    waiting.join(PATIENCE_S)
    assert met == ["The service is ending"]
    with pytest.raises(ProviderAway, match="ending"):
        one.embed(target(server), ["a"], within_s=1)


def test_as_many_texts_at_once_as_have_room() -> None:
    assert at_once("openai", 1536, 64) == 64
    assert at_once("cohere", 1536, 2048) == 96
    many = at_once("openai", 3072, 2048)
    assert 1 < many * 3072 * providers.FLOAT_BYTES <= providers.MAX_ANSWER_BYTES
    assert at_once("openai", 0, 5) == 5


# --- where ----------------------------------------------------------------------------------------


def where(*listed: str) -> Where:
    return Where(listed, ENVIRONMENT)


def test_a_provider_alone_is_asked_at_its_own_host_with_its_own_key() -> None:
    found = where().target("openai", None, None, None)
    assert found == Target("openai", "text-embedding-3-small")
    place = where().place(found)
    assert (place.url, place.key) == ("https://api.openai.com/v1", SECRET)
    assert SECRET not in repr(place)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/v1",
        "http://169.254.169.254/latest",
        "http://10.0.0.1:8080",
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.evil.example",
        "http://127.0.0.1.evil.example",
        "http://0.0.0.0:9000",
        "http://2130706433",
    ],
)
def test_nothing_is_sent_to_a_host_that_the_operator_has_not_listed(url: str) -> None:
    with pytest.raises(WrongTarget, match="MNEMOLOG_EMBEDDING_HOSTS") as met:
        where("listed.example").target("openai", None, None, url)
    assert met.value.field == "base_url"


def test_listed_hosts_are_asked_and_get_keys() -> None:
    for listed in ("inner.example", "inner.example:8080"):
        target = Target("openai", "m", "SPARE_API_KEY", "http://inner.example:8080/v1")
        assert where(listed).place(target).key == SECRET
    with pytest.raises(WrongTarget):
        where("inner.example:9090").place(target)


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost:9", "[::1]:9", "127.8.8.8:9"])
def test_this_machine_is_asked_without_a_key_and_gets_one_only_when_listed(host: str) -> None:
    url = f"http://{host}/v1"
    assert where().place(Target("openai", "m", "", url)).key is None
    with pytest.raises(WrongTarget, match="no key is sent"):
        where().place(Target("openai", "m", "OPENAI_API_KEY", url))
    assert where(host).place(Target("openai", "m", "OPENAI_API_KEY", url)).key == SECRET


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/",
        "127.0.0.1:8080",
        "file:///etc/passwd",
        "http://",
        "http://127.0.0.1\\@evil.example",
        "http://127.0.0.1/ x",
        "http://user:hunter2@127.0.0.1",
        "http://user@127.0.0.1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1/v1?to=evil.example",
        "http://127.0.0.1/v1#here",
        "http://127.0.0.1/" + "a" * 600,
    ],
)
def test_what_is_no_plain_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(WrongTarget) as met:
        where().target("openai", None, None, url)
    assert met.value.field == "base_url"
    assert "hunter2" not in str(met.value)


@pytest.mark.parametrize(
    "name", [SECRET, "openai_api_key", "PATH", "AWS_SECRET_ACCESS_KEY", "MNEMOLOG_QDRANT_API_KEY"]
)
def test_only_variables_that_are_called_so_can_be_named(name: str) -> None:
    with pytest.raises(WrongTarget, match="ends in _API_KEY") as met:
        where().target("openai", None, name, None)
    assert SECRET not in str(met.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ABSENT_API_KEY", "ABSENT_API_KEY, which is not set"),
        ("EMPTY_API_KEY", "EMPTY_API_KEY, which is not set"),
        ("BROKEN_API_KEY", "BROKEN_API_KEY, whose value cannot be a key"),
    ],
)
def test_a_variable_without_a_key_is_named(name: str, said: str) -> None:
    with pytest.raises(WrongTarget, match=said) as met:
        where().target("openai", None, name, None)
    assert "two" not in str(met.value)


def test_azure_has_no_host_and_no_model_of_its_own() -> None:
    with pytest.raises(WrongTarget, match="model is required"):
        where().target("azure", None, None, None)
    with pytest.raises(WrongTarget, match="base_url is required"):
        where().target("azure", "mine", None, None)
