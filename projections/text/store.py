"""One space's Tantivy index: its fields, its checkpoint document, and a searchable moment of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import tantivy
from tantivy import FieldType, Occur, Query

from mnemolog.projections.files import sync_directory
from mnemolog.projections.ports import is_want
from mnemolog.projections.text.bm25 import Statistics
from mnemolog.projections.text.contents import contents_digest
from mnemolog.projections.text.manifest import TextIndexError

ANALYSER = "tokens_english_stems"
MARK = "\x01checkpoint"
"""The body of the checkpoint document: a term that no token of a text can be."""
WRITER_HEAP_BYTES = 15_000_000
"""The least that Tantivy accepts for a writer."""
NO_ID = -1
"""No document has it."""
EMPTY = Statistics(docs=1, tokens=1.0)
"""A space with no documents: the checkpoint document alone, as Tantivy will count it."""

_analyser = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


def stems(body: str) -> list[str]:
    """The terms that a body of space-separated tokens is indexed and searched by."""
    return _analyser.analyze(body)


def _schema() -> tantivy.Schema:
    fields = tantivy.SchemaBuilder()
    # Signed: a delete by term takes a Python int for a signed one and finds no unsigned field.
    fields.add_integer_field("id", stored=True, indexed=True, fast=True)
    fields.add_text_field("body", stored=True, tokenizer_name=ANALYSER, index_option="freq")
    fields.add_text_field("session", stored=True, tokenizer_name="raw", index_option="basic")
    fields.add_float_field("confidence", stored=True, fast=True)
    fields.add_bytes_field("checkpoint", stored=True)
    return fields.build()


SCHEMA = _schema()
_MARK_QUERY = Query.term_query(SCHEMA, "body", MARK, "freq")


class Document(msgspec.Struct, frozen=True):
    """What is stored of a text; `body` is its tokens, joined by spaces."""

    id: int
    body: str
    session: str | None
    confidence: float


class Checkpoint(msgspec.Struct, frozen=True):
    """Written with the data, in one commit. `highest` bounds the ids that the space ever held."""

    space: str
    partition: int
    offset: int
    highest: int


class Store:
    """A moment of one space's index. `write` gives the next moment; this one stays as it is."""

    def __init__(self, path: Path, index: tantivy.Index) -> None:
        self._path = path
        self._index = index
        self._searcher = index.searcher()
        self.checkpoint: Checkpoint | None = None
        self.statistics = EMPTY
        marks = self._searcher.search(_MARK_QUERY, 2, count=False).hits
        if len(marks) == 1:
            address = marks[0][1]
            stored = self._searcher.doc(address).get_first("checkpoint")
            self.checkpoint = msgspec.json.decode(stored or b"", type=Checkpoint)
            explained = _MARK_QUERY.explain(self._searcher, address).to_json()
            self.statistics = _statistics(msgspec.json.decode(explained))
        elif marks or self._searcher.num_docs:
            raise TextIndexError(path, f"it has {len(marks)} checkpoint documents in place of one")

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether an index was made at `path`; one that lost its head is an error, not absent."""
        if (path / "meta.json").exists():
            return True
        if next(path.glob("*.store"), None) is not None:
            raise TextIndexError(path, "its meta.json is missing")
        return False

    @classmethod
    def open(cls, path: Path, *, made: bool = False) -> Store:
        """Open the index at `path`, or make an empty one, unless it was `made` before."""
        if made and not cls.exists(path):
            raise TextIndexError(path, "its files are missing")
        new = not path.exists()
        with readable(path):
            path.mkdir(exist_ok=True)
            index = tantivy.Index(SCHEMA, str(path))
            index.register_tokenizer(ANALYSER, _analyser)
            # Only `write` moves to a newer moment; the default would poll the files for one.
            index.config_reader("manual")
            store = cls(path, index)
        if new:
            sync_directory(path.parent)
        return store

    def write(
        self, checkpoint: Checkpoint, changes: Mapping[int, Document | None]
    ) -> tuple[Store, tantivy.IndexWriter]:
        """Commit documents (None: remove) and checkpoint as one.

        Gives the moment after it, and the writer: wait for its merges when nobody is waiting.
        """
        try:
            writer = self._index.writer(WRITER_HEAP_BYTES, 1)
        except ValueError as error:
            why = f"no writer can be opened ({error})"
            raise TextIndexError(self._path, why, damaged=False) from error
        before = self.checkpoint.highest if self.checkpoint else -1
        try:
            # A writer's first operation has the number of the last commit. Merges that a killed
            # process did not end begin now, up to that number, and pass over such an operation in
            # segments that the last commit deleted from: a delete would be lost. This one may be.
            writer.delete_documents_by_term("id", NO_ID)
            for id, document in changes.items():
                if id <= before:
                    writer.delete_documents_by_term("id", id)
                if document is not None:
                    writer.add_document(tantivy.Document.from_dict(_fields(document), SCHEMA))
            writer.delete_documents_by_term("body", MARK)
            mark = {"body": MARK, "checkpoint": msgspec.json.encode(checkpoint)}
            writer.add_document(tantivy.Document.from_dict(mark, SCHEMA))
            writer.commit()
        except BaseException:
            # The error's traceback would keep the writer alive, and with it the directory's lock.
            writer.rollback()
            del writer
            raise
        self._index.reload()
        return Store(self._path, self._index), writer

    def having(self, stems: Iterable[str]) -> dict[str, int]:
        """How many documents contain each term, as Tantivy's BM25 counts them; a term that none
        contains is left out."""
        frequency = self._searcher.doc_freq
        return {stem: count for stem in stems if (count := frequency("body", stem))}

    def top(self, query: Query, limit: int) -> list[tuple[float, tantivy.DocAddress]]:
        return self._searcher.search(query, limit, count=False).hits

    def ids(self, addresses: list[tantivy.DocAddress]) -> list[int]:
        return [
            int(id) for id in self._searcher.fast_field_values("id", addresses) if id is not None
        ]

    def body(self, address: tantivy.DocAddress) -> str:
        return str(self._searcher.doc(address).get_first("body") or "")

    def digest(self) -> str | None:
        """A hash of what is stored and found here; None when there is nothing."""
        with readable(self._path):
            return contents_digest(SCHEMA, self._searcher, self.statistics, stems)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever Tantivy cannot read is a `TextIndexError`."""
    try:
        yield
    except TextIndexError:
        raise
    except (ValueError, OSError, msgspec.DecodeError) as error:
        raise TextIndexError(path, str(error), damaged=not is_want(error)) from error
    except BaseException as error:
        # What the engine did not reckon with in a damaged file reaches Python as no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise TextIndexError(path, str(error)) from error


def query(boosts: Mapping[str, float], session: str | None, min_confidence: float | None) -> Query:
    """The OR of the terms; the filters narrow it and add nothing to the score."""
    terms = [
        (Occur.Should, term if boost == 1.0 else Query.boost_query(term, boost))
        for stem, boost in boosts.items()
        for term in (Query.term_query(SCHEMA, "body", stem, "freq"),)
    ]
    clauses = [(Occur.Must, Query.boolean_query(terms))]
    filters = []
    if session is not None:
        filters.append(Query.term_query(SCHEMA, "session", session, "basic"))
    if min_confidence is not None:
        filters.append(
            Query.range_query(
                SCHEMA, "confidence", FieldType.Float, lower_bound=float(min_confidence)
            )
        )
    clauses += [(Occur.Must, Query.const_score_query(each, 0.0)) for each in filters]
    return Query.boolean_query(clauses) if filters else clauses[0][1]


def _fields(document: Document) -> dict[str, Any]:
    fields = {
        "id": document.id,
        "body": document.body,
        "confidence": document.confidence,
    }
    return fields if document.session is None else {**fields, "session": document.session}


def _statistics(explained: Any) -> Statistics:
    """Tantivy's own totals, which it tells nowhere but in the explanation of a score."""
    found: dict[str, float] = {}
    stack = [explained]
    while stack:
        part = stack.pop()
        found[str(part["description"]).split(",")[0]] = part["value"]
        stack += part.get("details", ())
    docs = int(found["N"])
    return Statistics(docs=docs, tokens=docs * found["avgdl"])
