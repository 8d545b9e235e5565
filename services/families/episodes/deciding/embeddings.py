"""configure_embeddings: the model is asked once at the edge; what came of it is decided on the log.

A key is never in a call. What was given in its place by mistake does not get to the log either.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Answered, Call
from mnemolog.events.episodes import BATCH, ConfigureEmbeddings, EmbeddingsConfigured
from mnemolog.projections.episodes import provided
from mnemolog.projections.ports import VectorsAway
from mnemolog.services.decider.tool import Decided, Edge
from mnemolog.services.families.episodes.problems import SERVER, invalid
from mnemolog.services.families.episodes.rules import Context
from mnemolog.services.reader.reader import NotAllowed

AT_ONCE = 4
LEFT_OUT = "(left out)"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of asking the model, as the call keeps it. `field` is wrong, or the model is
    `away`; else it is called `name`, with the rest as it was settled."""

    field: str = ""
    issue: str = ""
    away: str = ""
    name: str = ""
    model: str = ""
    api_key_env: str = ""
    base_url: str = ""
    dims: int = 0
    ms: float = 0.0


def carry_out(edge: Edge, call: Call, args: ConfigureEmbeddings) -> Call:
    told = _asked(edge, call, args)
    cleaned = clean(args)
    if cleaned != args:
        call = replace(call, arguments=msgspec.json.encode(cleaned))
    return replace(call, answered=Answered([], ms=told.ms, reply=msgspec.json.encode(told)))


def clean(args: ConfigureEmbeddings) -> ConfigureEmbeddings:
    """Without what may be a secret: what is no variable's name may be the key itself, and a URL may
    hold a password."""
    if args.api_key_env is not None and not _VARIABLE.fullmatch(args.api_key_env):
        args = replace(args, api_key_env=LEFT_OUT)
    if args.base_url is not None and re.search(r"[@?#]", args.base_url):
        args = replace(args, base_url=LEFT_OUT)
    return args


def decide_configure(ctx: Context, args: ConfigureEmbeddings) -> Decided:
    told = _told(ctx.call)
    if told.field:
        raise invalid(told.field, told.issue)
    if told.away:
        raise Refused(
            f"{told.away}. Nothing was changed: try again when it answers",
            code=SERVER,
            data={"provider": args.provider, "model": told.model},
        )
    fact = EmbeddingsConfigured(
        name=told.name,
        provider=args.provider,
        model=told.model,
        api_key_env=told.api_key_env,
        base_url=told.base_url,
        batch_size=args.batch_size or BATCH,
        similarity_threshold=args.similarity_threshold,
        dims=told.dims,
    )
    space = ctx.call.space
    before = provided.choice(ctx.state, space)
    again = (before.name if before else "", before.dims if before else 0)
    changed = again != (fact.name, fact.dims) and not (before is None and not fact.name)
    total = provided.progress(ctx.state, space, None).total if changed else 0
    reply = {
        "success": True,
        "provider": fact.provider,
        "model": fact.model or "the service's own",
        "dimensions": fact.dims,
        "batch_size": fact.batch_size,
        "similarity_threshold": fact.similarity_threshold,
        "to_embed": total,
        "message": _message(total, changed),
    }
    return Decided(space, [fact], reply)


def _message(total: int, changed: bool) -> str:
    if not changed:
        return "Embeddings are configured; what is embedded stays"
    if not total:
        return "Embeddings are configured; there is nothing to embed yet"
    return (
        f"Embeddings are configured; {total} episodes and patterns are embedded in the background, "
        "and test_embeddings tells how far that is"
    )


def _asked(edge: Edge, call: Call, args: ConfigureEmbeddings) -> Told:
    if edge.models is None:
        return Told(away="This node has no models to choose from")
    try:
        choice, tried = edge.models.chosen(
            call.space, args.provider, args.model, args.api_key_env, args.base_url
        )
    except NotAllowed as error:
        return Told(field=error.field, issue=error.issue)
    except VectorsAway as error:
        return Told(away=str(error), model=args.model or "")
    return Told(
        name=choice.name,
        model=choice.model,
        api_key_env=choice.api_key_env,
        base_url=choice.base_url,
        dims=tried.dims,
        ms=tried.ms,
    )


def _told(call: Call) -> Told:
    if call.answered is None or not call.answered.reply:
        raise Refused("A model is asked before it is decided on; this call's was not", code=SERVER)
    try:
        return msgspec.json.decode(call.answered.reply, type=Told)
    except msgspec.MsgspecError:
        sentence = "What came of asking this model was recorded in a form that is not known"
        raise Refused(sentence, code=SERVER) from None
