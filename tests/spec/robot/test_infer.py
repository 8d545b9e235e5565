"""What is inferred from a memory's own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.services.families.robot.deciding.infer import (
    MAX_PATH,
    MAX_SCOPE_FILES,
    confidence,
    scope_files,
    trim,
)

CONTEXT = '{"robot": {"type": "UR5e"}}'


@pytest.mark.parametrize(
    ("expected", "text", "context"),
    [
        (0.80, "Use the wide jaw for trays", ""),
        (0.80, "Use the wide jaw for trays", '{"a": 1}'),
        (0.80, "Use the wide jaw for trays", " " * 40),
        (0.85, "grip_force=12.5N optimal for cylindrical objects", CONTEXT),
        (0.85, "Limits live in config/limits.yaml", ""),
        (0.85, "Call home() first", ""),
        (0.85, "Set `max_force` first", ""),
        (0.85, "gripper.close(force=5) blocks", ""),
        (0.85, "It slipped because of oil", ""),
        (0.85, "由于反光,定位会跳变", ""),
        (0.90, "It slipped because of oil", CONTEXT),
        (0.95, "arm.py fails because of `home`", ""),
        (0.95, "arm.py fails because of `home`", CONTEXT),
        (0.80, "Pick the cup(s) at 12.5N", ""),
        (0.80, "Speed 1.5 m/s, torque 3 N/m", ""),
    ],
)
def test_confidence_grows_with_evidence(expected: float, text: str, context: str) -> None:
    assert confidence(text, context) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tune src/grip/controller.py:42 and config/limits.yaml.", 2),
        ("参数在config/arm.yaml里", 1),
        ("see (launch/bringup.launch), then main.cpp", 2),
        (r"Log at C:\robot\logs\run.txt", 1),
        ("The lidar is /dev/ttyUSB0", 1),
        ("Edit ~/robot/notes and ../maps/floor2.pgm", 2),
        ("Makefile and CMakeLists.txt", 2),
        ("docs: https://example.org/a/b.html and http://host/x.py", 0),
        ("Node.js 20, v1.5, 12.5N, e.g. this, and/or that, 3 km/h, 24/7", 0),
        ("The topic /camera/image_raw and self.msg", 0),
        ("mail ops@robots.py", 0),
    ],
)
def test_what_is_a_file(text: str, expected: int) -> None:
    assert len(scope_files(text, "")) == expected


def test_files_come_in_order_once_and_without_line_numbers() -> None:
    text = "b.py:12:3 calls src/a.py, then b.py"
    context = r'{"file": "src\/a.py", "logs": ["run\nlogs/run.log"], "deep": {"c.json": true}}'
    assert scope_files(text, context) == ["b.py", "src/a.py", "logs/run.log", "c.json"]


def test_a_context_that_is_no_json_is_read_as_text() -> None:
    assert scope_files("", "see {arm.urdf") == ["arm.urdf"]
    assert scope_files("", "[" * 100_000 + "arm.urdf") == ["arm.urdf"]


def test_the_files_are_bounded() -> None:
    assert len(scope_files(" ".join(f"f{i}.py" for i in range(500)), "")) == MAX_SCOPE_FILES
    assert scope_files("x" * MAX_PATH + ".py", "") == []


def test_trim() -> None:
    assert trim("  as it is \n") == ("as it is", False)
    assert trim("x" * 300) == ("x" * 300, False)
    assert trim("x" * 301) == ("x" * 300, True)
    assert trim("力" * 301) == ("力" * 300, True)
    assert trim("a" * 299 + " b") == ("a" * 299, True)
    assert trim("one two", limit=4) == ("one", True)
    assert trim(" \t ") == ("", False)


@given(st.text(st.characters(), max_size=400), st.text(st.characters(), max_size=100))
def test_any_text_is_accepted(text: str, context: str) -> None:
    assert 0.80 <= confidence(text, context) <= 0.95
    assert all(0 < len(path) <= MAX_PATH for path in scope_files(text, context))
    assert len(trim(text)[0]) <= 300


@pytest.mark.parametrize("unit", ["a_", "a.", "a/", "`", "a(", ":1", "\\", "a:", "a://", "/."])
def test_adversarial_repetition_is_harmless(unit: str) -> None:
    text = unit * 100_000
    assert confidence(text, text) <= 0.95
    assert len(scope_files(text, text)) <= MAX_SCOPE_FILES
