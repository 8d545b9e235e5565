"""The text index's digest: what a search finds, and nothing of how it came to be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemolog.projections.ports import PutText
from mnemolog.projections.text.index import TantivyText
from tests.contract.test_text_index import corpus, feed, ids
from tests.crash.emptied import drop_words

SPACE = "lab/arm"
TEXTS = [
    PutText(SPACE, 1, "red cups want a soft grip", "morning", 0.8),
    PutText(SPACE, 2, "red doors want a push and a push", "evening", 0.9),
]


def test_neither_commits_nor_merges_nor_what_was_removed_show(tmp_path: Path) -> None:
    """Also where a word is in every document, of whose weight 32 bits keep little."""
    texts = [f"cup {text}" for text in corpus(1, 3_000)]
    at_once = TantivyText(tmp_path / "at once", commit_at=10_000)
    feed(at_once, [PutText(SPACE, id, text, f"s{id % 7}") for id, text in enumerate(texts)])
    bit_by_bit = TantivyText(tmp_path / "bit by bit", commit_at=10_000)
    end = 0
    for id, text in reversed(list(enumerate(texts))):
        changes = [PutText(SPACE, id, text, f"s{id % 7}")]
        if id % 3 == 0:
            changes.insert(0, PutText(SPACE, id, "it said cup cup once"))
        end = feed(bit_by_bit, changes, start=end)
        if id % 400 == 0:
            bit_by_bit.commit()
    assert at_once.digest() == bit_by_bit.digest()
    at_once.close()
    bit_by_bit.close()


@pytest.mark.parametrize(
    ("word", "session", "query"),
    [("cups", None, "cups"), ("push", None, "push"), (None, "morning", "red")],
)
def test_a_document_that_is_stored_and_not_found_shows(
    tmp_path: Path, word: str | None, session: str | None, query: str
) -> None:
    index = TantivyText(tmp_path / "text")
    feed(index, TEXTS)
    before = index.digest()
    path = index._path(SPACE)
    assert len(ids(index.search(SPACE, query, 5, session=session))) == 1
    index.close()
    drop_words(path, [word] if word else [], [session] if session else [])
    index = TantivyText(tmp_path / "text")
    assert ids(index.search(SPACE, query, 5, session=session)) == []
    after = index.digest()
    assert after.keys() == before.keys() and after != before
    index.close()


def test_documents_written_anew_as_they_were_do_not_show(tmp_path: Path) -> None:
    index = TantivyText(tmp_path / "text")
    feed(index, TEXTS)
    before = index.digest()
    index.close()
    drop_words(index._path(SPACE))
    assert TantivyText(tmp_path / "text").digest() == before


def test_what_lies_where_no_search_looks_is_not_taken_for_its_space(tmp_path: Path) -> None:
    index = TantivyText(tmp_path / "text")
    feed(index, TEXTS)
    index.close()
    index._path(SPACE).rename(index._path("lab/other"))
    assert list(TantivyText(tmp_path / "text").digest()) == [
        f"(stray: {index._path('lab/other').name})"
    ]
