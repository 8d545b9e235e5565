"""`completion/complete`: names that the memory knows, as somebody types an argument."""

from __future__ import annotations

from collections.abc import Iterable

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mnemolog.services.api import MAX_NAMES, Unavailable
from mnemolog.services.family import PARAMETER, Family
from mnemolog.services.gateway.clients import Clients, Context
from mnemolog.services.gateway.resources import template_families
from mnemolog.services.gateway.tools import Offer

MAX_BEGUN = 1000
"""Nothing has a name that is as long."""


class Completion:
    """The handler."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        calls, offer = self._clients(ctx)
        argument, text = params.argument.name, params.argument.value
        found: set[str] = set()
        for family in _asked(offer, params.ref, argument):
            if argument in family.completes and len(text) <= MAX_BEGUN:
                try:
                    found.update(await calls.names(family.name, argument, text))
                except Unavailable as error:
                    raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        more = len(found) > MAX_NAMES
        completion = types.Completion(
            values=sorted(found)[:MAX_NAMES], total=None if more else len(found), has_more=more
        )
        return types.CompleteResult(completion=completion)


def _asked(
    offer: Offer, ref: types.ResourceTemplateReference | types.PromptReference, argument: str
) -> Iterable[Family]:
    """Whose names they may be; raises `MCPError` for what there is not."""
    families: Iterable[Family]
    if isinstance(ref, types.PromptReference):
        prompt, families = offer.prompts.get(ref.name), offer.families
        name, arguments = f"prompt {ref.name[:80]!r}", prompt and list(prompt.arguments)
    else:
        families = template_families(offer).get(ref.uri, [])
        name, arguments = f"resource template {ref.uri[:140]!r}", PARAMETER.findall(ref.uri)
        arguments = arguments if families else None
    if arguments is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no {name}")
    if argument not in arguments:
        takes = ", ".join(arguments) or "none"
        raise MCPError(
            types.INVALID_PARAMS, f"The {name} has no argument {argument[:40]!r}; there are {takes}"
        )
    return families
