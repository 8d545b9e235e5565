"""Deciding on reflections: what something means, in free prose."""

from __future__ import annotations

from mnemolog.events.arguments import Refused
from mnemolog.events.graph import AddReflection, ReflectionAdded
from mnemolog.projections.graph import meaning, state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.graph.replies import shown_reflection
from mnemolog.services.families.graph.rules import Context


def decide_add_reflection(ctx: Context, args: AddReflection) -> Decided:
    space = ctx.call.space
    _check_target(ctx, ctx.state.space_id(space), args)
    fact = ReflectionAdded(
        reflection_id=ctx.state.peek_id(meaning.REFLECTIONS),
        target_type=args.target_type,
        target_id=args.target_id,
        author=args.author,
        content=args.content,
        mood=args.mood,
    )
    made = meaning.Reflection(
        fact.reflection_id,
        fact.target_type,
        fact.target_id,
        fact.author,
        fact.content,
        fact.mood,
        ctx.at_us,
    )
    return Decided(space, [fact], {"result": shown_reflection(made)})


def _check_target(ctx: Context, place: int | None, args: AddReflection) -> None:
    kind, number = args.target_type, args.target_id
    if kind in ("session", "global"):
        if number is not None:
            raise Refused(f"target_id must be null for target_type {kind}, not {number}")
        return
    if number is None:
        raise Refused(f"target_id is required for target_type {kind}: the id of the {kind}")
    there = (
        bool(state.existing(ctx.state, place, [number]))
        if kind == "entity"
        else state.has_relation(ctx.state, place, number)
    )
    if not there:
        raise Refused(f"{kind.capitalize()} {number} does not exist")
