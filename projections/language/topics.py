"""What a list of short texts is about: topics by meaning where there are vectors, else by words.

Topics by meaning are the clusters of average-linkage agglomerative clustering on cosine distance.
The distances are taken from the middle of the texts: what all of them have in common (an entity's
texts are all about it, and a model puts all texts of one language close together) would hide what
tells them apart. So no cut has to be found for each model: two clusters are joined as long as
they are closer to each other than two of the texts are on average.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from itertools import chain, count
from typing import Any

import numpy as np

from mnemolog.projections.language.characters import HAN, UNSPACED, clean
from mnemolog.projections.language.words import tokens
from mnemolog.projections.ports import Vector

MAX_WORD_TOPICS = 8
OTHERS = "General"
"""The topic of what has no word of its own."""

_UNSPACED = re.compile(f"[{HAN}{UNSPACED}]+")
_WORD = re.compile(r"[^\W\d_]\w+")
_SHORTEST = 3

_SPANISH = """
algo alguna algunas alguno algunos ante antes aquel aquella aquello así aún aunque bajo bien
cada casi como cómo con contra cosa cual cuál cuales cuando cuándo cuanto cuatro del desde donde
dónde dos durante ella ellas ello ellos entonces entre era eran eres esa esas ese eso esos esta
está estaba estamos están estar estas este esto estos estoy fue fueron fui gran grande hace
hacen hacer hacia han hasta hay haya las les los luego más mas menos mes mientras mis misma
mismas mismo mismos mucha muchas mucho muchos muy nada nadie ninguna ninguno nos nosotros
nuestra nuestras nuestro nuestros nunca otra otras otro otros para parece parte pero poco por
porque primera primero pueda puede pueden pues que qué queda quien quién sea sean según ser si
sí sido siempre siendo sin sino sobre solo sólo son soy sus tal también tampoco tan tanto tenía
tener tengo tiene tienen toda todas todavía todo todos tras tres tus una unas uno unos usa usan
usar usted vez veces vos vosotros vuestra vuestro
"""
_SPANISH_STOP_WORDS = frozenset(_SPANISH.split())


def topics(
    texts: Sequence[str], vectors: Sequence[Vector | None] | None, about: str = ""
) -> dict[str, list[str]]:
    """The texts by topic, each text in exactly one, the largest topic first.

    Those with a vector are grouped by meaning and named by their most telling word; the others, or
    all of them when meaning tells nothing (one group, or each text its own), by words they share.
    `about` is what all of the texts are about: its words name no topic. The same texts and vectors
    give the same topics.
    """
    known = {word for word, _ in _words(about)}
    by_meaning: list[list[int]] = []
    if vectors is not None:
        seen = [i for i, vector in enumerate(vectors) if vector is not None]
        groups = _clusters([one for one in vectors if one is not None])
        if 1 < len(groups) < len(seen):
            by_meaning = [[seen[i] for i in group] for group in groups]
    grouped = {i for group in by_meaning for i in group}
    rest = [i for i in range(len(texts)) if i not in grouped]
    named = _named([[texts[i] for i in group] for group in by_meaning], known)
    found = list(zip(named, by_meaning, strict=True))
    found += _by_words(texts, rest, known | {name.casefold() for name in named})
    found.sort(key=lambda one: (-len(one[1]), one[1][0]))
    told: dict[str, list[str]] = {}
    for name, group in found:
        told[unused(name, told)] = [texts[i] for i in group]
    return told


def unused(name: str, taken: Container[str]) -> str:
    """`name`, with a number after it if there is one already."""
    numbered = (f"{name} {n}" for n in count(2))
    return next(one for one in chain([name], numbered) if one not in taken)


def cut(count: int) -> float:
    """The cosine distance from which on clusters of `count` texts are left apart: seen from their
    middle, unit vectors have an average cosine of -1 / (count - 1), some less, some more.
    `benchmarks/calibrate_topics.py` shows what it finds."""
    return 1.0 + 1.0 / (count - 1)


def _clusters(vectors: Sequence[Vector]) -> list[list[int]]:
    """Places of vectors that belong together, in the order of their first."""
    if len(vectors) < 2:
        return [[i] for i in range(len(vectors))]
    from sklearn.cluster import AgglomerativeClustering

    stacked = np.array(vectors, dtype=np.float64)
    stacked -= stacked.mean(axis=0)
    lengths = np.linalg.norm(stacked, axis=1, keepdims=True)
    # Rounded: what is equally far must not be ordered by the last bits of a maths library.
    unit = np.divide(stacked, lengths, out=np.zeros_like(stacked), where=lengths > 1e-9)
    distances = np.clip(np.round(1.0 - unit @ unit.T, 9), 0.0, 2.0)
    np.fill_diagonal(distances, 0.0)
    labels = AgglomerativeClustering(
        n_clusters=None,
        metric="precomputed",
        linkage="average",
        distance_threshold=cut(len(vectors)),
    ).fit_predict(distances)
    groups: dict[int, list[int]] = {}
    for place, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(place)
    return list(groups.values())


def _named(groups: list[list[str]], known: Collection[str]) -> list[str]:
    """A name for each group: the word of the highest c-TF-IDF that is not another group's.

    c-TF-IDF sees a group as one document: a word counts by its share of the group's words, and the
    more the fewer of them are in all groups together.
    """
    names: dict[int, str] = {}
    surface, counts, terms = _counted([" \n".join(group) for group in groups], known)
    if terms:
        of_term, of_group = counts.sum(axis=0), counts.sum(axis=1)
        rarity = np.log1p(of_group.mean() / of_term)
        weight = counts.data / np.maximum(of_group[counts.row], 1) * rarity[counts.col]
        order = sorted(
            zip((-weight).round(9).tolist(), counts.row.tolist(), counts.col.tolist(), strict=True),
            key=lambda one: (one[0], one[1], terms[one[2]]),
        )
        taken: set[str] = set()
        for _, group, term in order:
            if group not in names and terms[term] not in taken:
                taken.add(terms[term])
                names[group] = surface[terms[term]]
    return [names.get(i, OTHERS) for i in range(len(groups))]


def _by_words(
    texts: Sequence[str], places: list[int], known: Collection[str]
) -> list[tuple[str, list[int]]]:
    """Those at `places` by the most telling words that several of them share, by TF-IDF."""
    if not places:
        return []
    surface, counts, terms = _counted([texts[i] for i in places], known)
    chosen: list[int] = []
    if terms:
        within = counts.count_nonzero(axis=0)
        weight = (counts.sum(axis=0) * np.log1p(len(places) / within)).round(9)
        shared = np.flatnonzero((within > 1) & (within < len(places))).tolist()
        chosen = sorted(shared, key=lambda t: (-weight[t], terms[t]))[:MAX_WORD_TOPICS]
    has = counts.tocsc()[:, chosen].toarray()
    groups: dict[str, list[int]] = {}
    others: list[int] = []
    for row, place in enumerate(places):
        best = next((terms[t] for nth, t in enumerate(chosen) if has[row, nth]), None)
        (others if best is None else groups.setdefault(surface[best], [])).append(place)
    # A word that is left with one text, since another took the rest, is no topic.
    others += [one for group in groups.values() if len(group) == 1 for one in group]
    found = [(name, group) for name, group in groups.items() if len(group) > 1]
    return [*found, (OTHERS, sorted(others))] if others else found


def _counted(documents: list[str], known: Collection[str]) -> tuple[dict[str, str], Any, list[str]]:
    """How a word is written, how often it is in each document, and the words of the columns. Most
    words are in few documents: all the zeros would take gigabytes for an entity of thousands."""
    from scipy.sparse import coo_array
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    silent = {*ENGLISH_STOP_WORDS, *_SPANISH_STOP_WORDS, *known}
    written: dict[str, Counter[str]] = {}
    folded: list[list[str]] = []
    for document in documents:
        folded.append([])
        for word, as_written in _words(document):
            if word not in silent:
                folded[-1].append(word)
                written.setdefault(word, Counter())[as_written] += 1
    if not written:
        return {}, coo_array((len(documents), 0), dtype=np.int64), []
    vectorizer = CountVectorizer(analyzer=lambda words: words)
    counts = coo_array(vectorizer.fit_transform(folded))
    surface = {word: _capital(forms.most_common(1)[0][0]) for word, forms in written.items()}
    return surface, counts, vectorizer.get_feature_names_out().tolist()


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text that could name a topic, folded and as written, accents kept."""
    cleaned = clean(text)
    for run in _UNSPACED.findall(cleaned):
        yield from ((token, token) for token in tokens(run) if len(token) > 1)
    for word in _WORD.findall(_UNSPACED.sub(" ", cleaned)):
        if len(word) >= _SHORTEST:
            yield word.casefold(), word


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
