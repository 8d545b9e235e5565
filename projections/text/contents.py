"""What a space holds, as one hash: its documents, and everything by which a search finds them.

A search hardly ever reads a stored text. It reads the postings of terms and sessions, the lengths
that go into a score, and the columns of ids and confidences; a replacement finds what it replaces
by the postings of ids. Any of them can be lost while the documents stay, so all of them are read.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tantivy import Order, Query, Schema, Searcher

from mnemolog.projections.ranking.bm25 import K1
from mnemolog.projections.text.bm25 import Statistics, length_norm

TOLERANCE = 1e-4
"""How far a score of Tantivy's, computed in 32 bits, may be from ours, as a part of it."""

Stems = Callable[[str], list[str]]


class Row(msgspec.Struct, array_like=True):
    """A document as it is stored, and what of it is found."""

    id: int
    body: str
    session: str | None
    confidence: float | None
    column: Any
    """The confidence that a filter sees."""
    replaceable: bool
    """Whether its id finds it."""
    sessions: list[str]
    """Those that find it."""
    terms: int


def contents_digest(
    schema: Schema, searcher: Searcher, held: Statistics, stems: Stems
) -> str | None:
    """A hash of the live documents in the order of their ids; None when there is none.

    The same for the same documents, however many segments they lie in and whatever was removed
    beside them. Takes some three seconds per 100,000 documents.
    """
    rows = _documents(schema, searcher)
    if not rows:
        return None
    found = {row.id: row for row in rows}
    for session, ids, _ in _postings(schema, searcher, "session", "basic"):
        for id in ids:
            found[id].sessions.append(session)
    sums = _sums_of_terms(schema, searcher, held, found, stems)
    total = hashlib.sha256()
    for row in rows:
        row.terms = sums[row.id]
        total.update(msgspec.json.encode(row) + b"\n")
    return total.hexdigest()


def _documents(schema: Schema, searcher: Searcher) -> list[Row]:
    """The live documents but for the checkpoint, which has no id, in the order of their ids."""
    if searcher.num_docs == 0:
        return []
    every = searcher.search(
        Query.all_query(), searcher.num_docs, False, order_by_field="id", order=Order.Asc
    ).hits
    places = [(int(id), at) for id, at in every if id is not None]
    if not places:
        return []
    columns = searcher.fast_field_values("confidence", [at for _, at in places])
    by_id = Query.term_set_query(schema, "id", [id for id, _ in places])
    replaceable = set(_found(searcher, by_id, len(places))[0])
    rows = []
    for (id, at), column in zip(places, columns, strict=True):
        stored = searcher.doc(at)
        body, session, confidence = map(stored.get_first, ("body", "session", "confidence"))
        rows.append(Row(id, body or "", session, confidence, column, id in replaceable, [], 0))
    return rows


def _sums_of_terms(
    schema: Schema, searcher: Searcher, held: Statistics, rows: dict[int, Row], stems: Stems
) -> dict[int, int]:
    """Per document a sum over the terms that find it with the score that its text must have: a
    sum does not depend on the terms' order. The score tells the count and the length that are
    kept beside the postings."""
    order = np.array(list(rows), np.int64)
    lengths = (row.body.count(" ") + 1 for row in rows.values())
    norms = np.array([length_norm(length, held.average) for length in lengths])
    sums = np.zeros(len(order), np.uint64)
    repeated = _repeated(rows, stems)
    for term, ids, scores in _postings(schema, searcher, "body", "freq"):
        if not ids:
            continue
        places = np.searchsorted(order, ids)
        counts: NDArray[np.uint64] | np.uint64 = np.uint64(1)
        if term in repeated:
            often = repeated[term]
            counts = np.array([often.get(id, 1) for id in ids], np.uint64)
        weight = _idf(held.docs, searcher.doc_freq("body", term)) * (K1 + 1)
        due = weight * counts / (counts + norms[places])
        right = np.abs(scores - due) <= due * TOLERANCE
        code = hashlib.blake2b(term.encode(), digest_size=8).digest()
        sums[places] += np.frombuffer(code, "<u8")[0] * counts * right
    return dict(zip(rows, sums.tolist(), strict=True))


def _idf(docs: int, having: int) -> float:
    """In 32 bits, as Tantivy has it: of a term that nearly all documents have, few digits are left
    that way."""
    ratio = np.float32(docs - having + 0.5) / np.float32(having + 0.5)
    return float(np.log(np.float32(1) + ratio))


def _repeated(rows: dict[int, Row], stems: Stems) -> dict[str, dict[int, int]]:
    """Per term the documents that have it more than once, and how often."""
    repeated: dict[str, dict[int, int]] = defaultdict(dict)
    for id, row in rows.items():
        terms = stems(row.body)
        if len(set(terms)) < len(terms):
            for term, count in Counter(terms).items():
                if count > 1:
                    repeated[term][id] = count
    return repeated


def _postings(
    schema: Schema, searcher: Searcher, field: str, option: str
) -> Iterator[tuple[str, list[int], NDArray[np.float64]]]:
    """Each term of a field, the ids of the documents that it finds, and their scores."""
    for term, _ in searcher.terms_with_prefix(field, ""):
        ask = Query.term_query(schema, field, term, option)
        yield term, *_found(searcher, ask, searcher.doc_freq(field, term))


def _found(searcher: Searcher, ask: Query, limit: int) -> tuple[list[int], NDArray[np.float64]]:
    hits = searcher.search(ask, limit, count=False).hits
    ids = searcher.fast_field_values("id", [at for _, at in hits])
    if None in ids:  # the checkpoint
        hits = [hit for hit, id in zip(hits, ids, strict=True) if id is not None]
    return [int(id) for id in ids if id is not None], np.array([hit[0] for hit in hits])
