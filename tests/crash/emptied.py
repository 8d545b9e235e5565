"""Emptying parts of the search indexes by hand, past the service, and leaving their checkpoints.

What is left opens as if nothing had happened and says that it holds everything: the checkpoints
are in files, or in documents, that these leave alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import qdrant_edge as qe
import tantivy

from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.text.store import ANALYSER, SCHEMA, WRITER_HEAP_BYTES

Emptying = Callable[[Path, str], None]
"""Takes a store's directory, and the space whose index is to lose what it finds."""


def text_of(data: Path, space: str) -> Path:
    """Where the text index of a space lies."""
    path = TantivyText(data / "projections" / "text")._path(space)
    assert (path / "meta.json").exists(), f"{space} has no text index"
    return path


def shard_of(data: Path) -> Path:
    (manifest,) = (data / "projections" / "vectors").glob("*/manifest.json")
    return manifest.parent / "shard"


# --- the text index ------------------------------------------------------------------------------


def delete_directory(data: Path, space: str) -> None:
    shutil.rmtree(text_of(data, space))


def forget_segments(data: Path, space: str) -> None:
    """The index is whole and has no segments."""
    path = text_of(data, space) / "meta.json"
    meta = json.loads(path.read_text())
    assert meta["segments"]
    path.write_text(json.dumps({**meta, "segments": []}))


def lose_postings_file(data: Path, space: str) -> None:
    for file in text_of(data, space).glob("*.idx"):
        file.unlink()


def delete_documents(data: Path, space: str) -> None:
    """All but the checkpoint."""
    index = tantivy.Index(SCHEMA, str(text_of(data, space)))
    writer = index.writer(WRITER_HEAP_BYTES, 1)
    ids = {id for id, _ in _documents(index)}
    for id in ids:
        writer.delete_documents_by_term("id", id)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    assert ids and index.searcher().num_docs == 1


def empty_postings(data: Path, space: str) -> None:
    """The documents are stored as before, and no word leads to them any more."""
    path = text_of(data, space)
    documents = _documents(tantivy.Index(SCHEMA, str(path)))
    words = {word for _, document in documents for word in document["body"][0].split()}
    drop_words(path, words=words)


def drop_words(path: Path, words: Iterable[str] = (), sessions: Iterable[str] = ()) -> None:
    """Write the documents of the index at `path` anew as they are stored, but let no posting lead
    to them from these words and sessions."""
    index = tantivy.Index(SCHEMA, str(path))
    index.register_tokenizer(
        ANALYSER,
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        .filter(tantivy.Filter.custom_stopword(sorted(words)))
        .filter(tantivy.Filter.stemmer("english"))
        .build(),
    )
    index.register_tokenizer(
        "raw",
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
        .filter(tantivy.Filter.custom_stopword(sorted(sessions)))
        .build(),
    )
    documents = [document for _, document in _documents(index)]
    writer = index.writer(WRITER_HEAP_BYTES, 1)
    for document in documents:
        writer.delete_documents_by_term("id", document["id"][0])
        writer.add_document(tantivy.Document.from_dict(document, SCHEMA))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    assert [document for _, document in _documents(index)] == documents


def _documents(index: tantivy.Index) -> list[tuple[int, dict[str, list[Any]]]]:
    searcher = index.searcher()
    hits = searcher.search(tantivy.Query.all_query(), searcher.num_docs, order_by_field="id").hits
    return [(id, searcher.doc(at).to_dict()) for id, at in hits if id is not None]


# --- the vector index ----------------------------------------------------------------------------


def delete_points(data: Path, space: str) -> None:
    shard = qe.EdgeShard.load(str(shard_of(data)))
    of_space = qe.Filter(must=[qe.FieldCondition("space", match=qe.MatchValue(space))])
    assert shard.count(qe.CountRequest(filter=of_space)) > 0
    shard.update(qe.UpdateOperation.delete_points_by_filter(of_space))
    shard.flush()
    shard.close()


def delete_segments(data: Path, _: str) -> None:
    shutil.rmtree(shard_of(data) / "segments")


def delete_originals(data: Path, _: str) -> None:
    """The vectors; their codes stay."""
    _each(data, "vector_storage/vectors", shutil.rmtree)


def zero_codes(data: Path, _: str) -> None:
    """The codes that a search goes by; the vectors stay."""
    _each(data, "vector_storage/quantized_data/chunk_*.mmap", _zero)


def zero_index_of_spaces(data: Path, _: str) -> None:
    """By which a search finds the points of a space; the points stay."""
    _each(data, "payload_index/*-space-map/tracker_journal.dat", Path.unlink)
    _each(data, "payload_index/*-space-map/tracker.dat", _zero)


def delete_shard(data: Path, _: str) -> None:
    shutil.rmtree(shard_of(data))


def _zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _each(data: Path, pattern: str, do: Callable[[Path], object]) -> None:
    found = list((shard_of(data) / "segments").glob(f"*/{pattern}"))
    assert found, f"the shard has no {pattern}"
    for path in found:
        do(path)
