"""Find, for each installed model, the cosine from which on two memories say the same.

    python -m benchmarks.calibrate_dedup [--models-dir DIR] [--worst N]

Reads `dedup_pairs.json`: pairs in the words of robot memories that mean the same, and near
misses in which an object, a condition, an actor or a relation is changed, some word for word and
some reworded. Only pairs that deciding would bring before the cosine count: those that share
over 70 % of their words, differ in a number or a negation, or say opposite things are decided
before it.

Taking a near miss for a duplicate loses knowledge, missing a paraphrase only stores it twice; so
the threshold is the lowest one that lets at most 2 % of the near misses through, and never under
0.85. A model that covers
several scripts takes the highest threshold over its languages. The result belongs into
`dedup_cosine` in `infra/embedder/catalogue.py`. "Held out" is what thresholds found on one half
of the pairs do on the other half.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import msgspec
import numpy as np

# Run as a script, Python puts this folder on the path and not the one above it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mnemolog.infra.embedder.catalogue import CATALOGUE, covers
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import installed, models_dir
from mnemolog.projections.language import guard, jaccard, opposed, swapped, token_set, tokens
from mnemolog.services.families.robot.rules import RobotRules

PAIRS = Path(__file__).with_name("dedup_pairs.json")
FALSE_DUPLICATE_LIMIT = 0.02
FLOOR = 0.85


class Pair(msgspec.Struct, frozen=True):
    language: str
    same: bool
    a: str
    b: str


def cosine(embedder: OnnxEmbedder, pair: Pair) -> float:
    """As deciding does it: both as passages, rounded to float16, compared in float32."""
    a, b = (embedder.embed_passage(text).astype(np.float32) for text in (pair.a, pair.b))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def reaches_cosine(pair: Pair) -> bool:
    """Whether neither the words nor the guard decide this pair already."""
    a, b = token_set(pair.a), token_set(pair.b)
    if guard(pair.a) != guard(pair.b) or opposed(a, b) or swapped(tokens(pair.a), tokens(pair.b)):
        return False
    return jaccard(a, b) <= RobotRules().dedup_jaccard


def threshold(near_misses: list[float]) -> float:
    """The lowest threshold, in steps of 0.001, that few enough near misses reach."""
    allowed = math.floor(FALSE_DUPLICATE_LIMIT * len(near_misses))
    barred = sorted(near_misses, reverse=True)[allowed]
    return max(FLOOR, math.floor(barred * 1000 + 1) / 1000)


def held_out(same: list[float], near: list[float], rounds: int = 500) -> tuple[float, float]:
    """Mean shares of paraphrases and of near misses over a threshold found on the other half."""
    random = np.random.default_rng(0)
    shares = []
    for _ in range(rounds):
        same_order, near_order = random.permutation(same), random.permutation(near)
        limit = threshold(list(near_order[: len(near) // 2]))
        shares.append(
            (
                np.mean(same_order[len(same) // 2 :] >= limit),
                np.mean(near_order[len(near) // 2 :] >= limit),
            )
        )
    paraphrases, near_misses = np.mean(shares, axis=0)
    return float(paraphrases), float(near_misses)


def distribution(values: list[float]) -> str:
    marks = np.percentile(values, [0, 10, 50, 90, 100])
    return "min {:.3f}  p10 {:.3f}  median {:.3f}  p90 {:.3f}  max {:.3f}".format(*marks)


def calibrate(embedder: OnnxEmbedder, pairs: list[Pair], worst: int) -> None:
    model = embedder.model
    print(f"\n{model.name} (catalogue: {model.dedup_cosine:.3f})")
    scored: dict[str, list[tuple[float, Pair]]] = {}
    for pair in pairs:
        if covers(model, pair.a) and covers(model, pair.b):
            scored.setdefault(pair.language, []).append((cosine(embedder, pair), pair))
    found: dict[str, float] = {}
    for language, results in scored.items():
        same = [value for value, pair in results if pair.same]
        near = [value for value, pair in results if not pair.same]
        found[language] = threshold(near)
        print(f"  {language}: {len(same)} paraphrases   {distribution(same)}")
        print(f"  {language}: {len(near)} near misses   {distribution(near)}")
        caught_share, false_share = held_out(same, near)
        print(
            f"  {language}: held out, {caught_share:.0%} of the paraphrases and {false_share:.1%} "
            "of the near misses"
        )
        for value, pair in sorted(results, key=lambda each: -each[0]):
            if not pair.same and worst > 0:
                worst -= 1
                print(f"      {value:.3f}  {pair.a} | {pair.b}")
    chosen = max(found.values())
    for language, results in scored.items():
        caught = [pair.same for value, pair in results if value >= chosen]
        total = sum(pair.same for _, pair in results)
        print(
            f"  {language}: threshold by itself {found[language]:.3f}; at {chosen:.3f} it catches "
            f"{sum(caught)} of {total} paraphrases and {len(caught) - sum(caught)} of "
            f"{len(results) - total} near misses"
        )
    print(f"  dedup_cosine = {chosen:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate the cosine threshold of dedup.")
    parser.add_argument("--models-dir", help="default: where `mnemolog models pull` puts them")
    parser.add_argument("--worst", type=int, default=0, help="print the N closest near misses")
    options = parser.parse_args()
    directory = models_dir(options.models_dir)
    everything = msgspec.json.decode(PAIRS.read_bytes(), type=list[Pair])
    pairs = [pair for pair in everything if reaches_cosine(pair)]
    taken = [pair for pair in everything if not reaches_cosine(pair)]
    print(
        f"{len(pairs)} of {len(everything)} pairs reach the cosine; decided before it: "
        f"{sum(pair.same for pair in taken)} paraphrases, "
        f"{sum(not pair.same for pair in taken)} near misses"
    )
    if options.worst:
        for pair in taken:
            print(f"      {'same' if pair.same else 'near miss'}: {pair.a} | {pair.b}")
    for model in CATALOGUE.values():
        if installed(model, directory):
            calibrate(OnnxEmbedder.load(model, directory), pairs, options.worst)
        else:
            print(f"\n{model.name}: not installed, run `mnemolog models pull {model.name}`")


if __name__ == "__main__":
    main()
