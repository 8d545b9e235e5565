"""The exact-match form of a text, its tokens, and what two texts share."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.projections.language import (
    MAX_CHARACTERS,
    MAX_TOKEN_LENGTH,
    content_hash,
    jaccard,
    normalise,
    token_set,
    tokens,
)
from mnemolog.projections.language.words import MAX_TOKENS

ANY_TEXT = st.text(st.characters(), max_size=300)  # every code point, lone surrogates included


class TestSameText:
    @pytest.mark.parametrize(
        "other",
        [
            "Grip at 15N",
            "grip  at\n15n",
            " GRIP AT 15N. ",
            "Ｇｒｉｐ at １５Ｎ！",
            "grip\u00a0at 15N",
            "gr\u200bip at 15N",
        ],
    )
    def test_case_width_space_and_a_final_stop_do_not_count(self, other: str) -> None:
        assert content_hash(other) == content_hash("Grip at 15N")

    @pytest.mark.parametrize(
        "other", ["Grip at 15N?", "Grip at -15N", "Grip, at 15N", "Gríp at 15N"]
    )
    def test_everything_else_counts(self, other: str) -> None:
        assert content_hash(other) != content_hash("Grip at 15N")

    def test_texts_of_punctuation_alone_stay_different(self) -> None:
        assert normalise("...") == "..."
        assert content_hash("...") != content_hash("!")

    def test_the_hash_is_fixed(self) -> None:
        # It is on the log and in the state: a change here makes old duplicates new.
        assert content_hash("Straße  nach Łódź.") == content_hash("strasse nach łódź")
        assert content_hash("Grip at 15N").startswith("85aef7ee8b82799a")

    @given(ANY_TEXT)
    def test_normalising_twice_is_normalising_once(self, text: str) -> None:
        assert normalise(normalise(text)) == normalise(text)

    @given(ANY_TEXT)
    def test_any_text_has_a_hash(self, text: str) -> None:
        assert len(content_hash(text)) == 64


class TestTokens:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", []),
            ("…!? --", []),
            ("Red cups, red bins", ["red", "cups", "red", "bins"]),
            ("Sesión de FUERZA", ["sesion", "de", "fuerza"]),
            ("Ångström Øre Łódź Straße", ["angstrom", "ore", "lodz", "strasse"]),
            ("grip_force=12.5N", ["grip_force", "grip", "force", "12.5", "n"]),
            ("12.50 N", ["12.5", "n"]),
            ("80% of 1,000", ["80", "of", "1000"]),
            ("[1,2,3] 0.10,0.20", ["1", "2", "3", "0.1", "0.2"]),
            ("UR5e v1.5 2F85 3x", ["ur5e", "v1.5", "2f85", "3x"]),
            ("__init__ joint_03", ["init", "joint_03", "joint", "3"]),
            ("src/arm/home.py:12", ["src", "arm", "home", "py", "12"]),
            ("don't, can’t, won't", ["do", "not", "can", "not", "will", "not"]),
            ("the robot's arm, we're", ["the", "robot", "arm", "we"]),
            ("发现红色杯子需要更大的力", ["发现", "红色", "杯子", "需要", "更", "大", "的", "力"]),
            ("抓取力不得超过15N", ["抓取", "力", "不得", "超过", "15", "n"]),
            ("グリップ力", ["グリ", "リッ", "ップ", "力"]),
            ("그리퍼가 미끄러짐", ["그리", "리퍼", "퍼가", "미끄", "끄러", "러짐"]),
            ("पकड़ बल", ["पकड़", "बल"]),
            ("Сила захвата", ["сила", "захвата"]),
        ],
    )
    def test_what_a_text_is_made_of(self, text: str, expected: list[str]) -> None:
        assert tokens(text) == expected

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("红色杯子", "发现红色杯子需要更大的力"),
            ("传感", "故障由传感器漂移引起"),
            ("未检查", "陷阱:仿真中未检查关节限位"),
            ("關節", "注意關節限位"),
            ("grip force", "grip_force=12.5N optimal"),
            ("GRIP_FORCE", "grip_force=12.5N optimal"),
            ("12.5 n", "grip_force=12.5N optimal"),
            ("sesion", "Sesión 12"),
            ("グリッパー", "青いグリッパーが滑る"),
            ("그리퍼", "그리퍼가 미끄러짐"),
            ("มือจับ", "มือจับลื่น"),
        ],
    )
    def test_every_token_of_the_query_is_in_the_text(self, query: str, text: str) -> None:
        assert token_set(query) <= token_set(text)

    def test_chinese_costs_nothing_to_those_who_do_not_write_it(self) -> None:
        check = (
            "import sys; from mnemolog.projections.language import tokens;"
            "tokens('red cups, グリップ');"
            "assert 'rjieba' not in sys.modules; tokens('杯子'); assert 'rjieba' in sys.modules"
        )
        subprocess.run([sys.executable, "-c", check], check=True, timeout=240)

    @given(ANY_TEXT)
    def test_any_text_has_tokens_without_space_or_capitals(self, text: str) -> None:
        found = tokens(text)
        assert all(token and not any(map(str.isspace, token)) for token in found)
        assert all(len(token) <= MAX_TOKEN_LENGTH for token in found)
        assert all(token == token.casefold() for token in found if token.isascii())

    @given(st.text("abcXYZ 019._-'%N力杯子カ가", max_size=80))
    def test_case_does_not_matter(self, text: str) -> None:
        assert tokens(text.upper()) == tokens(text.lower())

    @pytest.mark.parametrize(
        "unit",
        [
            "a_",
            "1,000,",
            "1.",
            "中",
            "传感器",
            "カ",
            "a'",
            "\u0301\u0316",
            "ﷺ",
            "1e",
            "n't ",
            "_",
            "9",
        ],
    )
    def test_long_input_is_bounded(self, unit: str) -> None:
        found = tokens(unit * 100_000)
        assert len(found) <= MAX_TOKENS
        assert sum(map(len, found)) <= 3 * MAX_CHARACTERS
        assert normalise(unit * 100_000)


class TestJaccard:
    def test_shared_over_all(self) -> None:
        assert jaccard(token_set("red cup slips"), token_set("blue cup slips")) == 0.5
        assert jaccard(token_set("grip at 15N"), token_set("Grip at 15 N!")) == 1.0

    def test_texts_without_tokens_share_nothing(self) -> None:
        assert jaccard(token_set("!!!"), token_set("???")) == 0.0

    @given(st.frozensets(st.text("ab", max_size=3)), st.frozensets(st.text("ab", max_size=3)))
    def test_symmetric_and_between_0_and_1(self, a: frozenset[str], b: frozenset[str]) -> None:
        assert jaccard(a, b) == jaccard(b, a)
        assert 0.0 <= jaccard(a, b) <= 1.0
        assert (jaccard(a, b) == 1.0) == (a == b and bool(a))
