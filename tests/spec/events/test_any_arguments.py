"""Any arguments of any tool fit its struct, or the first problem with them is found and said."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from mnemolog.events import episodes, graph, robot
from mnemolog.events.arguments import DO_NOT_FIT, Arguments, Refused, parse

KINDS: list[type[Arguments]] = [
    one
    for module in (robot, graph, episodes)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Arguments) and one is not Arguments
]

# Without the characters that are looked for in the sentences: what was sent is shown in them.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`$"), max_size=8)
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, 2**64, -(10**30), 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["", " ", "\x00", "x" * 61, "x" * 6000])
)
NAMES = TEXT | st.sampled_from(["name", "type", "x" * 99])
JSON: st.SearchStrategy[Any] = SCALARS.map(lambda one: [one] * 1001) | st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=6,
)


def alike(hint: Any, limits: tuple[Meta, ...] = ()) -> st.SearchStrategy[Any]:
    """What a field of this type may hold, just does not hold, and now and then anything."""
    return st.integers(0, 15).flatmap(lambda n: JSON if n == 15 else near(hint, limits))


def near(hint: Any, limits: tuple[Meta, ...]) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return near(inner[0], (*(one for one in inner[1:] if isinstance(one, Meta)), *limits))
    if origin in (Union, types.UnionType):
        return st.one_of([near(one, limits) for one in inner])
    if origin is Literal:
        return st.sampled_from([*inner, inner[0].upper()])
    if origin is list:
        return st.lists(alike(inner[0]), max_size=3) | sizes(limits, 20).map(lambda n: ["x"] * n)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return objects(hint)
    if hint is str:
        filled = st.builds(lambda one, n: one * n, st.sampled_from("x \x00"), sizes(limits, 20))
        return st.just("a wet cup") | TEXT | filled
    if hint in (int, float):
        bounds = [one for meta in limits for one in (meta.ge, meta.gt, meta.le) if one is not None]
        edges = [hint(bound + step) for bound in bounds for step in (-1, 0, 1)]
        return st.sampled_from([*edges, 1, True, 1.0])
    return st.booleans() if hint is bool else JSON


def sizes(limits: tuple[Meta, ...], most: int) -> st.SearchStrategy[int]:
    """Around the limits, which are seldom kept to by chance."""
    bounds = [one for meta in limits for one in (meta.min_length, meta.max_length) if one]
    return st.sampled_from([n for bound in [*bounds, most] for n in (bound - 1, bound, bound + 1)])


@st.composite
def objects(draw: st.DrawFn, kind: type[msgspec.Struct]) -> dict[str, Any]:
    found = {}
    for field in draw(st.permutations(msgspec.structs.fields(kind))):
        if draw(st.integers(0, 9)) < (9 if field.required else 4):
            found[field.encode_name] = draw(alike(field.type))
    if draw(st.integers(0, 19)) == 19:
        found[draw(TEXT)] = draw(JSON)
    return found


def fits(kind: type[Arguments], given: Any) -> Arguments | None:
    """What msgspec makes of it; null counts as left out where that may be."""
    optional = {one.encode_name for one in msgspec.structs.fields(kind) if not one.required}
    try:
        kept = {k: v for k, v in given.items() if v is not None or k not in optional}
        return msgspec.convert(kept, kind)
    except msgspec.ValidationError:
        return None


def test_there_are_tools_to_look_at() -> None:
    assert {robot.Learn, robot.EndSession, graph.CreateEntities, graph.EntityInput} <= set(KINDS)
    assert len(KINDS) > 25


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_arguments_fit_or_the_first_problem_is_found(kind: type[Arguments]) -> None:
    @settings(max_examples=150)
    @given(objects(kind) | st.dictionaries(TEXT, JSON, max_size=4))
    def check(given: dict[str, Any]) -> None:
        expected = fits(kind, given)
        if expected is not None:
            assert parse(kind, msgspec.json.encode(given)) == expected
            return
        with pytest.raises(Refused) as refused:
            parse(kind, msgspec.json.encode(given))
        found = refused.value.sentence
        assert found
        assert len(found) <= 300
        assert "`" not in found
        assert "$." not in found
        assert "\n" not in found
        assert found != DO_NOT_FIT

    check()
