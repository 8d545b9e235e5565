"""Show, for each installed model, how well topics are told apart at different cuts.

    python -m benchmarks.calibrate_topics [--models-dir DIR]

Reads `topic_entities.json`: entities whose observations are labelled with what they are about.
Agreement is the adjusted Rand index: 1 is the labels themselves, 0 is chance. "As it is" clusters
the cosine distances as the model gives them, "from the middle" those seen from the middle of the
entity's texts, which is what `projections/language/topics.py` does; its own cut is the last.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

# Run as a script, Python puts this folder on the path and not the one above it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mnemolog.infra.embedder.catalogue import CATALOGUE
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import installed, models_dir
from mnemolog.projections.language.topics import cut as cut_of

ENTITIES = Path(__file__).with_name("topic_entities.json")
CUTS = {
    "as it is": [0.3, 0.35, 0.4, 0.42, 0.45, 0.5],
    "from the middle": [0.9, 0.95, 1.0, 1.05, 1.1],
}


def distances(vectors: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    if how == "from the middle":
        vectors = vectors - vectors.mean(axis=0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: NDArray[np.float64] = np.clip(1.0 - unit @ unit.T, 0.0, 2.0)
    np.fill_diagonal(found, 0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models-dir", default=None)
    directory = models_dir(parser.parse_args().models_dir)
    entities = msgspec.json.decode(ENTITIES.read_bytes(), type=dict[str, dict[str, list[str]]])
    for model in CATALOGUE.values():
        if not installed(model, directory):
            print(f"{model.name}: not installed")
            continue
        embedder = OnnxEmbedder.load(model, directory)
        print(f"\n{model.name}: topics found / agreement, by cut")
        for title, labelled in entities.items():
            texts = [text for group in labelled.values() for text in group]
            labels = [i for i, group in enumerate(labelled.values()) for _ in group]
            vectors = np.array([embedder.embed_passage(text) for text in texts], dtype=np.float64)
            print(f"  {title}: {len(labelled)} topics")
            for how, cuts in CUTS.items():
                shown = []
                ours = [cut_of(len(texts))] if how == "from the middle" else []
                for cut in [*cuts, *ours]:
                    found = AgglomerativeClustering(
                        n_clusters=None,
                        metric="precomputed",
                        linkage="average",
                        distance_threshold=cut,
                    ).fit_predict(distances(vectors, how))
                    agreement = adjusted_rand_score(labels, found)
                    shown.append(f"{cut:.3g}: {found.max() + 1} / {agreement:.2f}")
                print(f"    {how:16}" + "   ".join(shown))


if __name__ == "__main__":
    main()
