"""Topics: what a list of short texts is about."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.projections.language.likeness import asymmetric, containment, word_set
from mnemolog.projections.language.topics import topics, unused
from mnemolog.projections.ports import Vector

WORDS = st.sampled_from(
    ["tests", "Pruebas", "árbol", "the", "de", "抓取力", "General", "☕", "x1", ""]
)
TEXTS = st.lists(st.lists(WORDS, max_size=4).map(" ".join), min_size=0, max_size=12, unique=True)
NUMBERS = st.lists(st.integers(-2, 2), min_size=4, max_size=4)


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float16)


@settings(max_examples=150)
@given(TEXTS, st.data())
def test_every_text_is_in_exactly_one_topic(texts: list[str], data: st.DataObject) -> None:
    one = st.one_of(st.none(), NUMBERS.map(lambda values: vector(*values)))
    size = len(texts)
    vectors = data.draw(st.one_of(st.none(), st.lists(one, min_size=size, max_size=size)))
    found = topics(texts, vectors, data.draw(WORDS))
    assert Counter(text for group in found.values() for text in group) == Counter(texts)
    assert all(found.values())
    assert all(name.strip() for name in found)
    assert list(topics(texts, vectors, "").items()) == list(topics(texts, vectors, "").items())


def test_thousands_of_texts_and_words_take_little_memory() -> None:
    texts = [" ".join(f"word{n * 10 + i}" for i in range(10)) + " shared" for n in range(3000)]
    tracemalloc.start()
    found = topics([*texts, "other"], None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(map(len, found.values())) == [3000, 1]
    assert peak < 100e6  # With all the zeros it was over 700.


def test_texts_are_grouped_by_meaning_whatever_all_have_in_common() -> None:
    texts = ["gato uno", "gato dos", "perro uno", "perro dos"]
    close = [(9.0, 1.0, 0.1), (9.0, 1.0, -0.1), (9.0, -1.0, 0.1), (9.0, -1.0, -0.1)]
    found = topics(texts, [vector(*one) for one in close])
    assert found == {"Gato": texts[:2], "Perro": texts[2:]}


def test_when_meaning_tells_nothing_words_do() -> None:
    texts = ["one pump", "another pump", "some valve", "that valve", "else"]
    same: list[Vector | None] = [vector(1.0, 0.0)] * 5
    by_words = {"Pump": texts[:2], "Valve": texts[2:4], "General": texts[4:]}
    assert topics(texts, None) == by_words
    assert topics(texts, same) == by_words, "one group"
    apart: list[Vector | None] = [vector(*row) for row in np.eye(5)]
    assert topics(texts, apart) == by_words, "each its own"


def test_a_word_that_all_texts_share_tells_nothing() -> None:
    texts = ["pump red", "pump blue", "pump green"]
    assert topics(texts, None) == {"General": texts}


def test_names_keep_accents_and_capitals_and_are_no_small_words() -> None:
    texts = ["la búsqueda", "otra búsqueda", "the FastMCP", "with FastMCP", "para las", "with the"]
    assert topics(texts, None) == {
        "Búsqueda": texts[:2],
        "FastMCP": texts[2:4],
        "General": texts[4:],
    }


def test_what_all_is_about_names_no_topic() -> None:
    texts = ["cachorro web", "cachorro page", "cachorro", "web"]
    assert "Cachorro" in topics(texts, None)
    assert "Cachorro" not in topics(texts, None, "Proyecto Cachorro")


def test_two_topics_never_share_a_name() -> None:
    texts = ["☕ 1", "☕ 2", "🤖 1", "🤖 2"]
    two = [vector(1, 0.1), vector(1, -0.1), vector(-1, 0.1), vector(-1, -0.1)]
    assert topics(texts, two) == {"General": texts[:2], "General 2": texts[2:]}
    assert unused("a", {"a", "a 2"}) == "a 3"


# --- containment ---------------------------------------------------------------------------------


def test_containment_goes_by_the_shorter_text() -> None:
    long, short = word_set("Stack: FastMCP + SQLite"), word_set("fastmcp, now")
    assert containment(short, long) == 0.5
    assert containment(word_set("…"), long) == 0.0
    assert word_set("Sesión ABC") == word_set("abc sesion")
    assert word_set("抓取 force") == {"抓", "取", "force"}


def test_one_text_is_at_least_twice_as_long() -> None:
    assert asymmetric("abc", "abcdef")
    assert asymmetric("abcdef", "abc")
    assert not asymmetric("abc", "abcde")
