"""Rebuild: projections made anew from the log, beside the old ones, compared, switched over."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mnemolog.infra.embedder.catalogue import Model
from mnemolog.infra.settings import Settings
from mnemolog.projections.projection import Projected
from mnemolog.services.api import Progress
from mnemolog.services.node.following.belongs import check_not_shorter
from mnemolog.services.node.following.follow import ReadableLog
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.kafka.logs import reading
from mnemolog.services.node.vectors.feeder import rebuild_shared
from mnemolog.services.node.vectors.opening import EDGE

if TYPE_CHECKING:
    from mnemolog.services.node.node import Node


class Report(msgspec.Struct, frozen=True):
    """What a rebuild came to. `differences` names the parts whose contents were not the same."""

    decisions: int
    parts: int
    verified: bool
    differences: list[str]
    state_hash: str


def rebuild_live(node: Node, verify: bool, progress: Progress) -> Report:
    """Rebuild under a running node. Reads go on, but for a moment at the switch; writes wait while
    the end is compared. One rebuild at a time: a second one waits for the first."""
    with node.rebuilding:
        return _rebuild_live(node, verify, progress)


def _rebuild_live(node: Node, verify: bool, progress: Progress) -> Report:
    directory = node.directory
    # Shared vectors are not this node's: they are made anew beside, too, and switched at the end.
    own = node.model if node.shared is None else None
    projected = node.catalogue.projected
    fresh = _build(node.log, directory, projected, own, progress)
    try:
        with node.paused():
            fresh.catch_up(node.log)
            if verify:
                return _compare(node.log, node.projections, fresh)
            report = _compare(node.log, None, fresh)
            fresh.commit()  # raises what closing only notes
            fresh.close()
            with node.using.alone():
                # Closed before its directory moves: what it still has to write goes by the path.
                node.projections.close()
                _swap(directory)
                node.projections = Projections(
                    directory / "projections",
                    node.log.partitions,
                    projected,
                    node.model,
                    node.shared,
                )
            node.use_states(node.projections.states)
        shutil.rmtree(directory / "projections.old", ignore_errors=True)
        if node.shared is not None and node.model is not None:
            rebuild_shared(node.settings, projected, node.model, node.log)
        return report
    finally:
        fresh.close()
        shutil.rmtree(directory / "projections.new", ignore_errors=True)


def rebuild_offline(
    settings: Settings,
    projected: Projected,
    model: Model | None,
    verify: bool,
    progress: Progress,
    *,
    accept_log: bool = False,
) -> Report:
    """Rebuild a store that nobody has open. Needs the directory's lock. A log that is shorter than
    what the projections were made from is refused, unless it is accepted: then they are kept."""
    shared, model = (model, None) if settings.vectors != EDGE else (None, model)
    with reading(settings) as (log, directory):
        if not accept_log:
            check_not_shorter(log, directory / "projections")
        fresh = _build(log, directory, projected, model, progress)
        made = False
        try:
            if verify:
                live = Projections(
                    directory / "projections", log.partitions, projected, model, mend=False
                )
                try:
                    live.catch_up(log)
                    return _compare(log, live, fresh)
                finally:
                    live.close()
            report = _compare(log, None, fresh)
            fresh.commit()  # raises what closing only notes
            made = True
        finally:
            fresh.close()
            if not made:
                shutil.rmtree(directory / "projections.new", ignore_errors=True)
        _swap(directory)
        if accept_log and (directory / "projections.old").exists():
            (directory / "projections.old").rename(_unused(directory / "projections.kept"))
        shutil.rmtree(directory / "projections.old", ignore_errors=True)
        if shared is not None:
            rebuild_shared(settings, projected, shared, log)
        return report


def _build(
    log: ReadableLog,
    directory: Path,
    projected: Projected,
    model: Model | None,
    progress: Progress,
) -> Projections:
    beside = directory / "projections.new"
    shutil.rmtree(beside, ignore_errors=True)
    fresh = Projections(beside, log.partitions, projected, model)
    decisions = sum(log.end(p).decisions for p in range(log.partitions))
    total = decisions * (2 if model is None else 3)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(min(done, total), total)

    try:
        fresh.catch_up(log, advance)
    except BaseException:
        fresh.close()
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return fresh


def _compare(log: ReadableLog, live: Projections | None, fresh: Projections) -> Report:
    """Without `live` only the state's hash is made: writes wait, and nobody asks for the rest."""
    made = fresh.state_digest() if live is None else fresh.digest()
    there = made if live is None else live.digest()
    return Report(
        decisions=sum(log.end(p).decisions for p in range(log.partitions)),
        parts=len(made),
        verified=live is not None,
        differences=sorted(
            name for name in made.keys() | there.keys() if made.get(name) != there.get(name)
        ),
        state_hash=state_hash(made),
    )


def state_hash(digest: dict[str, str]) -> str:
    """One hash for all of the state, in canonical order."""
    parts = sorted((name, value) for name, value in digest.items() if name.startswith("state/"))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _unused(path: Path) -> Path:
    """The path, with a number where there is one already."""
    names = itertools.chain(
        [path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2))
    )
    return next(one for one in names if not one.exists())


def _swap(directory: Path) -> None:
    """Put the new projections in the place of the old. A crash in between loses nothing: what is
    missing is made from the log at the next start."""
    old = directory / "projections.old"
    shutil.rmtree(old, ignore_errors=True)
    if (directory / "projections").exists():
        (directory / "projections").rename(old)
    (directory / "projections.new").rename(directory / "projections")
