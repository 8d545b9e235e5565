"""What every text index promises; a further backend subclasses `TextIndexContract`."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from mnemolog.projections.language import tokens
from mnemolog.projections.ports import Hit, PutText, Remove, TextChange, TextIndex
from mnemolog.projections.text.index import MAX_OPEN, TantivyText
from mnemolog.projections.text.manifest import TextIndexError
from mnemolog.projections.text.whole import mend

PATIENCE_S = 240
"""How long a test waits before it fails; nothing is measured by it."""

WORDS = [f"w{rank}" for rank in range(400)]
WEIGHTS = [1 / (rank + 1) for rank in range(400)]


def corpus(seed: int, count: int) -> list[str]:
    """Texts with a natural spread of word frequencies; some are long."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choices(WORDS, WEIGHTS, k=chance.choice((3, 8, 15, 30, 45, 200))))
        for _ in range(count)
    ]


def questions(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, WEIGHTS, k=chance.randint(1, 6))) for _ in range(count)]


def feed(
    index: TextIndex, changes: Iterable[TextChange], *, start: int = 0, partition: int = 0
) -> int:
    """Apply each change as a decision of its own; gives the next offset."""
    offset = start
    for change in changes:
        index.apply(partition, offset, [change])
        offset += 1
    return offset


def puts(texts: Iterable[str], space: str = "lab/arm", first: int = 1) -> list[PutText]:
    return [PutText(space, id, text) for id, text in enumerate(texts, first)]


def ids(hits: Iterable[Hit]) -> list[int]:
    return [hit.id for hit in hits]


class TextIndexContract:
    def open(self, path: Path) -> TextIndex:
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "text"

    @pytest.fixture
    def index(self, path: Path) -> Iterator[TextIndex]:
        index = self.open(path)
        yield index
        index.close()

    @pytest.fixture(params=["uncommitted", "committed"])
    def committed(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param == "committed")

    def test_an_unknown_space_has_no_hits_and_nothing_is_made_for_it(
        self, index: TextIndex, path: Path
    ) -> None:
        before = sorted(path.rglob("*"))
        assert index.search("lab/nowhere", "grip", 5) == []
        index.commit()
        assert sorted(path.rglob("*")) == before
        assert index.digest() == {}

    def test_a_search_sees_what_was_applied(self, index: TextIndex, committed: bool) -> None:
        feed(index, puts(["Gripping a cup at 15N", "charging the battery"]))
        if committed:
            index.commit()
        assert ids(index.search("lab/arm", "how do I grip cups?", 5)) == [1]
        assert ids(index.search("lab/arm", "battery cup", 5)) in ([1, 2], [2, 1])
        assert index.search("lab/arm", "window", 5) == []

    def test_chinese_is_found_by_its_words(self, index: TextIndex, committed: bool) -> None:
        feed(index, puts(["抓取杯子时用15牛的力", "给电池充电"]))
        if committed:
            index.commit()
        assert ids(index.search("lab/arm", "杯子", 5)) == [1]

    def test_a_second_put_replaces_the_first(self, index: TextIndex, committed: bool) -> None:
        at = feed(index, puts(["red cup", "red door"]))
        if committed:
            index.commit()
        feed(index, [PutText("lab/arm", 1, "blue cup")], start=at)
        assert ids(index.search("lab/arm", "red", 5)) == [2]
        assert ids(index.search("lab/arm", "blue", 5)) == [1]
        assert ids(index.search("lab/arm", "cup", 5)) == [1]
        index.commit()
        assert ids(index.search("lab/arm", "red", 5)) == [2]
        assert ids(index.search("lab/arm", "cup", 5)) == [1]

    def test_what_is_removed_is_not_found(self, index: TextIndex, committed: bool) -> None:
        at = feed(index, puts(["red cup", "red door", "red box"]))
        if committed:
            index.commit()
        feed(index, [Remove("lab/arm", 3), Remove("lab/arm", 77), Remove("lab/no", 1)], start=at)
        assert ids(index.search("lab/arm", "red", 2)) == [2, 1]
        index.commit()
        assert ids(index.search("lab/arm", "red", 2)) == [2, 1]

    def test_removed_and_put_again_within_one_decision(self, index: TextIndex) -> None:
        at = feed(index, puts(["red cup"]))
        index.apply(0, at, [Remove("lab/arm", 1), PutText("lab/arm", 1, "green cup")])
        assert ids(index.search("lab/arm", "green", 5)) == [1]
        index.apply(0, at + 1, [PutText("lab/arm", 1, "blue cup"), Remove("lab/arm", 1)])
        assert index.search("lab/arm", "cup", 5) == []

    def test_a_space_does_not_move_the_scores_of_another(
        self, index: TextIndex, committed: bool
    ) -> None:
        at = feed(index, puts(["red cup", "red red door on a wall", "blue box"]))
        if committed:
            index.commit()
        before = index.search("lab/arm", "red cup", 5)
        feed(index, puts(["red cup"] * 50, space="lab/other"), start=at)
        if committed:
            index.commit()
        assert index.search("lab/arm", "red cup", 5) == before
        assert len(before) == 2

    def test_filters_leave_scores_alone_and_do_not_cost_rows(
        self, index: TextIndex, committed: bool
    ) -> None:
        texts = corpus(1, 200)
        changes = [
            PutText("lab/arm", id, text, f"s{id % 20}", (id % 10) / 10)
            for id, text in enumerate(texts, 1)
        ]
        feed(index, changes)
        if committed:
            index.commit()
        every = index.search("lab/arm", "w0 w1 w2", 200)
        by_id = {change.id: change for change in changes}
        of_session = [hit for hit in every if by_id[hit.id].session == "s7"]
        confident = [hit for hit in every if by_id[hit.id].confidence >= 0.7]
        assert 5 < len(of_session) <= 10
        assert index.search("lab/arm", "w0 w1 w2", 10, session="s7") == of_session
        assert index.search("lab/arm", "w0 w1 w2", 50, min_confidence=0.7) == confident[:50]
        both = index.search("lab/arm", "w0 w1 w2", 10, session="s7", min_confidence=0.7)
        assert both == of_session
        assert not index.search("lab/arm", "w0 w1 w2", 10, session="s7", min_confidence=0.8)
        assert index.search("lab/arm", "w0 w1 w2", 10, session="nobody's") == []

    def test_ties_go_to_the_newest(self, index: TextIndex) -> None:
        texts = puts(["the same words"] * 100)
        at = feed(index, texts[:40])
        index.commit()
        at = feed(index, texts[40:90], start=at)
        index.commit()
        feed(index, texts[90:], start=at)
        assert ids(index.search("lab/arm", "words", 12)) == list(range(100, 88, -1))
        index.commit()
        assert ids(index.search("lab/arm", "words", 12)) == list(range(100, 88, -1))
        assert ids(index.search("lab/arm", "words", 100)) == list(range(100, 0, -1))

    @pytest.mark.parametrize(
        "query",
        ["", "   ", "()", "*", "???", "\x01checkpoint", "\ud800", "\x00", "AND OR NOT"],
    )
    def test_a_query_without_known_words_has_no_hits(self, index: TextIndex, query: str) -> None:
        feed(index, puts(["red cup"]))
        index.commit()
        assert index.search("lab/arm", query, 5) == []

    @pytest.mark.parametrize(
        "query", ["+cup -red", 'body:"cup', "cup* ~2 ^9", "id:1 AND (cup", "cup " * 3000]
    )
    def test_query_text_is_never_syntax(self, index: TextIndex, query: str) -> None:
        feed(index, puts(["red cup"]))
        index.commit()
        assert ids(index.search("lab/arm", query, 5)) == [1]

    def test_limits(self, index: TextIndex) -> None:
        feed(index, puts(["red cup", "red door"]))
        assert index.search("lab/arm", "red", 0) == []
        assert len(index.search("lab/arm", "red", 1)) == 1
        assert len(index.search("lab/arm", "red", 10_000)) == 2
        long = " ".join(f"unknown{n}" for n in range(500)) + " red"
        assert index.search("lab/arm", long, 5) == []

    @pytest.mark.parametrize("committed_share", [0.0, 0.02, 0.3, 0.7, 0.97])
    def test_the_order_is_that_of_the_committed_index(
        self, index: TextIndex, committed_share: float
    ) -> None:
        texts = puts(corpus(2, 600))
        cut = int(len(texts) * committed_share)
        at = feed(index, texts[:cut])
        index.commit()
        feed(index, texts[cut:], start=at)
        asked = questions(3, 40)
        early = [index.search("lab/arm", query, 10) for query in asked]
        index.commit()
        for query, before in zip(asked, early, strict=True):
            after = index.search("lab/arm", query, 30)
            scores = {hit.id: hit.score for hit in after}
            assert [hit.score for hit in before] == pytest.approx(
                [hit.score for hit in after[:10]], rel=0.03
            )
            # Where the order differs, the scores hardly do.
            final = [scores[hit.id] for hit in before]
            assert all(b <= a * 1.02 for a, b in pairwise(final))

    def test_any_history_finds_what_a_plain_dictionary_finds(
        self, index: TextIndex, path: Path
    ) -> None:
        chance = random.Random(4)
        texts = corpus(5, 400)
        model: dict[int, str] = {}
        words: dict[int, set[str]] = {}
        for offset, text in enumerate(texts):
            id = chance.randint(1, 80)
            if chance.random() < 0.3:
                model.pop(id, None)
                index.apply(0, offset, [Remove("lab/arm", id)])
            else:
                model[id], words[id] = text, set(tokens(text))
                index.apply(0, offset, [PutText("lab/arm", id, text)])
            if chance.random() < 0.04:
                index.commit()
            query = " ".join(chance.choices(WORDS, k=3))
            wanted = set(tokens(query))
            expected = {id for id in model if wanted & words[id]}
            found = ids(index.search("lab/arm", query, 100))
            assert len(found) == len(set(found))
            assert set(found) == expected
        other = self.open(path.parent / "in one go")
        feed(other, [PutText("lab/arm", id, text) for id, text in sorted(model.items())])
        assert index.digest() == other.digest()
        other.close()

    def test_applying_again_changes_nothing(self, index: TextIndex) -> None:
        feed(index, puts(["red cup", "red door"]))
        feed(index, [Remove("lab/arm", 2)], start=2)
        for again in range(2):
            feed(index, puts(["red cup", "red door"]))
            assert ids(index.search("lab/arm", "red", 5)) == [1], f"round {again}"
            index.commit()

    def test_the_checkpoint_follows_commits(self, index: TextIndex) -> None:
        assert index.checkpoint(0) == -1
        feed(index, puts(["red cup", "red door"]), start=10)
        assert index.checkpoint(0) == -1
        index.commit()
        assert (index.checkpoint(0), index.checkpoint(1)) == (11, -1)
        index.apply(0, 12, [])
        feed(index, puts(["blue box"], space="lab/two"), partition=1, start=3)
        assert index.checkpoint(0) == 11
        index.commit()
        assert (index.checkpoint(0), index.checkpoint(1)) == (12, 3)

    def test_closing_commits(self, path: Path) -> None:
        index = self.open(path)
        feed(index, puts(["red cup", "red door"]))
        before = index.search("lab/arm", "red", 5)
        index.close()
        again = self.open(path)
        assert again.checkpoint(0) == 1
        assert again.search("lab/arm", "red", 5) == before
        feed(again, [Remove("lab/arm", 2)], start=1)
        assert ids(again.search("lab/arm", "red", 5)) == [2, 1], "offset 1 is already in the index"
        again.close()
        again.close()

    def test_the_digest_tells_contents_and_nothing_else(self, path: Path) -> None:
        texts = puts(corpus(6, 60))
        one = self.open(path)
        feed(one, [*texts, PutText("lab/gone", 1, "x"), Remove("lab/gone", 1)])
        two = self.open(path.parent / "two")
        at = 0
        for change in reversed(texts):
            at = feed(two, [PutText(change.space, change.id, "other"), change], start=at)
            if at % 20 == 0:
                two.commit()
        assert one.digest() == two.digest()
        assert list(one.digest()) == ["lab/arm"]
        before = one.digest()["lab/arm"]
        changed = [
            PutText("lab/arm", 1, "other text"),
            PutText("lab/arm", 1, texts[0].text, session="s"),
            PutText("lab/arm", 1, texts[0].text, confidence=0.5),
        ]
        digests = {before}
        for offset, change in enumerate(changed, 1000):
            one.apply(0, offset, [change])
            digests.add(one.digest()["lab/arm"])
        assert len(digests) == 4
        one.apply(0, 2000, [texts[0]])
        assert one.digest()["lab/arm"] == before
        one.close()
        two.close()

    def test_readers_beside_a_writer_and_commits_see_each_document_once(
        self, index: TextIndex
    ) -> None:
        count = 40
        at = feed(index, puts([f"steady {n}" for n in range(count)]))
        stop = threading.Event()
        wrong: list[object] = []
        done = Counter[str]()

        def read() -> None:
            found = sorted(ids(index.search("lab/arm", "steady", 100)))
            if found != list(range(1, count + 1)):
                wrong.append(found)

        def again_and_again(name: str, work: Callable[[], None]) -> None:
            while not stop.is_set() and not wrong:
                try:
                    work()
                except Exception as error:
                    wrong.append(error)
                done[name] += 1

        work = {"one": read, "two": read, "three": read, "commits": index.commit}
        threads = [threading.Thread(target=again_and_again, args=one) for one in work.items()]
        for thread in threads:
            thread.start()
        chance = random.Random(7)
        # Until everybody had many turns, however long that takes.
        turns = {"writes": 2000, "one": 500, "two": 500, "three": 500, "commits": 4}
        while not wrong and any(done[name] < least for name, least in turns.items()):
            id = chance.randint(1, count)
            index.apply(0, at, [Remove("lab/arm", id), PutText("lab/arm", id, f"steady {at}")])
            at += 1
            newest = index.search("lab/arm", str(at - 1), 1)
            if ids(newest) != [id]:
                wrong.append(("not seen", at - 1, newest))
            done["writes"] += 1
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestTantivyTextCommittingOften(TextIndexContract):
    """With hardly anything left uncommitted: the background takes part in every test."""

    def open(self, path: Path) -> TantivyText:
        return TantivyText(path, commit_at=3)

    @pytest.fixture
    def committed(self) -> bool:
        """Always, so that no commit comes between two searches whose scores are compared."""
        return True


class TestTantivyText(TextIndexContract):
    def open(self, path: Path) -> TantivyText:
        return TantivyText(path)

    def test_scores_before_the_commit_are_tantivys_own(self, tmp_path: Path) -> None:
        """In a space that is all uncommitted nothing is approximate, long texts included."""
        index = TantivyText(tmp_path / "text", commit_at=10_000)
        feed(index, puts(corpus(8, 200) + ["w0 " * n + "w3" for n in (39, 41, 57, 300, 4999)]))
        asked = questions(9, 40)
        early = [index.search("lab/arm", query, 20) for query in asked]
        index.commit()
        for query, before in zip(asked, early, strict=True):
            after = index.search("lab/arm", query, 20)
            assert [h.score for h in before] == pytest.approx([h.score for h in after], rel=2e-5)
        index.close()

    def test_a_full_space_is_committed_in_the_background(self, path: Path) -> None:
        index = TantivyText(path, commit_at=32)
        feed(index, puts(corpus(10, 32)))
        deadline = time.monotonic() + PATIENCE_S
        while index._spaces["lab/arm"].waiting:
            assert time.monotonic() < deadline, "it is not committed"
            time.sleep(0.01)
        assert index.checkpoint(0) == -1, "the manifest is the owner's to move"
        index.close()

    def test_more_spaces_than_stay_open(self, path: Path) -> None:
        index = self.open(path)
        spaces = [f"lab/{n}" for n in range(MAX_OPEN + 8)]
        for at, space in enumerate(spaces):
            index.apply(0, at, [PutText(space, at, f"red cup {at}")])
        index.commit()
        for at, space in enumerate(spaces):
            assert ids(index.search(space, "cup", 5)) == [at]
        assert len(index.digest()) == len(spaces)
        index.close()
        index = self.open(path)
        for at, space in enumerate(spaces):
            index.apply(0, 100 + at, [PutText(space, 100 + at, f"blue cup {at}")])
        assert sum(space.is_open for space in index._spaces.values()) == MAX_OPEN
        for at, space in enumerate(spaces):
            assert ids(index.search(space, "cup", 5)) == [100 + at, at]
        index.close()

    def test_a_commit_that_fails_loses_nothing(self, index: TextIndex, path: Path) -> None:
        feed(index, puts(["red cup"]))
        (path / "spaces").rename(path / "away")
        (path / "spaces").write_bytes(b"in the way")
        with pytest.raises(TextIndexError, match="Not a directory"):
            index.commit()
        assert index.checkpoint(0) == -1
        feed(index, puts(["red door"], first=2), start=1)
        (path / "spaces").unlink()
        (path / "away").rename(path / "spaces")
        assert ids(index.search("lab/arm", "red", 5)) == [2, 1]
        index.commit()
        assert index.checkpoint(0) == 1
        assert ids(index.search("lab/arm", "red", 5)) == [2, 1]

    def test_what_cannot_be_stored_does_not_fail_a_commit(self, index: TextIndex) -> None:
        feed(index, [PutText("lab/arm", 1, "cup \ud800 red\x00", session="\udfff")])
        index.commit()
        assert ids(index.search("lab/arm", "red", 5, session="\udfff")) == [1]
        with pytest.raises(ValueError, match="outside"):
            index.apply(0, 1, [PutText("lab/arm", -1, "red")])
        index.apply(0, 1, [PutText("lab/arm", 2, "red")])
        assert ids(index.search("lab/arm", "red", 5)) == [2, 1]

    def test_a_closed_index_takes_nothing_more(self, path: Path) -> None:
        index = self.open(path)
        index.close()
        with pytest.raises(RuntimeError, match="closed"):
            index.apply(0, 0, puts(["red cup"]))

    def test_a_foreign_directory_is_refused(self, path: Path) -> None:
        path.mkdir()
        (path / "notes.txt").write_text("mine")
        with pytest.raises(TextIndexError, match="mnemolog rebuild"):
            self.open(path)
        shutil.rmtree(path)
        path.write_text("a file")
        with pytest.raises(TextIndexError, match="not a directory"):
            self.open(path)

    @pytest.mark.parametrize("contents", ["", "{", '{"format":99,"checkpoints":{}}'])
    def test_a_damaged_manifest_is_refused(self, path: Path, contents: str) -> None:
        self.open(path).close()
        (path / "manifest.json").write_text(contents)
        with pytest.raises(TextIndexError, match="mnemolog rebuild"):
            self.open(path)

    @pytest.mark.parametrize(
        ("pattern", "contents"),
        [("meta.json", None), ("meta.json", "{"), ("*.store", None), ("*.term", "x" * 300)],
    )
    def test_a_damaged_space_is_refused(
        self, path: Path, pattern: str, contents: str | None
    ) -> None:
        index = self.open(path)
        feed(index, puts(["red cup"]))
        index.close()
        for file in (path / "spaces").glob(f"*/{pattern}"):
            file.unlink()
            if contents is not None:
                file.write_text(contents)
        index = self.open(path)
        with pytest.raises(TextIndexError, match="mnemolog rebuild"):
            index.search("lab/arm", "red", 5)
        feed(index, puts(["blue cup"]), start=5)
        feed(index, puts(["green cup"], "lab/other"), start=6)
        with pytest.raises(TextIndexError, match="mnemolog rebuild"):
            index.search("lab/arm", "cup", 5)
        assert ids(index.search("lab/other", "green", 5)) == [1]
        index.commit()
        assert index.checkpoint(0) == 0, "what it did not take counts as taken"
        assert index.damaged is not None and "lab" not in index.damaged
        assert f"(unreadable: {index._path('lab/arm').name})" in index.digest()
        index.close()
        (told,) = mend(path)
        assert "mnemolog rebuild" in told
        index = self.open(path)
        assert index.checkpoint(0) == -1 and index.damaged is None
        feed(index, puts(["red cup"]))
        assert ids(index.search("lab/arm", "red", 5)) == [1]

    def test_the_directory_of_another_space_is_refused(self, path: Path) -> None:
        index = self.open(path)
        feed(index, puts(["red cup"]))
        index.close()
        index = self.open(path)
        (made,) = (path / "spaces").iterdir()
        made.rename(index._path("lab/other"))
        with pytest.raises(TextIndexError, match="lab/arm"):
            index.search("lab/other", "red", 5)

    def test_an_index_of_an_earlier_version_is_opened_as_it_is(self, path: Path) -> None:
        """Its manifest has no marks of spaces; the next one has."""
        index = self.open(path)
        feed(index, puts(["red cup"]))
        index.close()
        manifest = path / "manifest.json"
        before = msgspec.json.decode(manifest.read_bytes())
        assert before.pop("spaces")
        manifest.write_bytes(msgspec.json.encode(before))
        assert mend(path) == []
        index = self.open(path)
        assert index.checkpoint(0) == 0
        assert ids(index.search("lab/arm", "red", 5)) == [1]
        feed(index, puts(["blue cup"], "lab/other"), start=1)
        index.close()
        for space in ("lab/arm", "lab/other"):
            shutil.rmtree(index._path(space))
        assert len(mend(path)) == 2
        assert self.open(path).checkpoint(0) == -1

    def test_what_is_whole_beside_what_is_not_stays(self, path: Path) -> None:
        index = self.open(path)
        feed(index, puts(["red cup"]))
        feed(index, puts(["blue cup"], "lab/other"), start=1)
        index.close()
        shutil.rmtree(index._path("lab/arm"))
        (told,) = mend(path)
        assert index._path("lab/arm").name in told and "meta.json is missing" in told
        assert mend(path) == [], "it is mended once"
        index = self.open(path)
        assert ids(index.search("lab/other", "blue", 5)) == [1]
        feed(index, puts(["red cup"]))
        feed(index, puts(["blue cup"], "lab/other"), start=1)
        assert ids(index.search("lab/arm", "red", 5)) == [1]
        assert ids(index.search("lab/other", "blue", 5)) == [1]
        index.close()
        assert mend(path) == []
