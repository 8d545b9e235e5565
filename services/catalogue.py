"""The families of a service together: every tool by its name, and what else is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mnemolog.events.arguments import Refused, parse
from mnemolog.events.envelope import Call, Decision
from mnemolog.events.ids import is_tenant, partition_of_space
from mnemolog.projections.projection import Projected
from mnemolog.services.decider.tool import Asked, Tool
from mnemolog.services.family import Family
from mnemolog.services.late import Provided, Queue, Sweep
from mnemolog.services.listed import Families
from mnemolog.services.told import ThingKind

UNKNOWN_TOOL = -32602
TENANTS = "1 to 64 letters, digits, dots, dashes and underscores"

Rules = Mapping[str, msgspec.Struct]
"""By family the rules that deciding goes by."""


class Catalogue:
    """Made from the families once, and passed to whoever needs it."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = {family.name: family for family in families}
        if len(self.families) < len(families):
            raise ValueError("two families have one name")
        self.tools: dict[str, Tool] = {}
        """By every name a call may use; the call is on the log under the name it used."""
        self.family_of: dict[str, Family] = {}
        for family in families:
            for tool in family.tools:
                for name in (tool.name, *tool.aliases):
                    if name in self.tools:
                        raise ValueError(f"two tools are called {name}")
                    self.tools[name] = tool
                    self.family_of[name] = family
        self.projected = Projected([family.projection for family in families])
        self.rules: Rules = {family.name: family.rules for family in families}
        self.things = _unique([one for family in families for one in family.things])
        late = [one for family in families for one in family.late]
        self.queues = [one for one in late if isinstance(one, Queue)]
        self.sweeps = [one for one in late if isinstance(one, Sweep)]
        self.provided = [one for one in late if isinstance(one, Provided)]
        kinds = [kind for queue in self.queues for kind in queue.kinds]
        if len(set(kinds)) < len(kinds):
            raise ValueError("two families have things of one kind described")
        strange = {tool.awaits for tool in self.tools.values() if tool.awaits} - set(kinds)
        if strange:
            raise ValueError(f"nobody describes {sorted(strange)[0]}, which a tool awaits")

    def read(self, call: Call, partitions: int, *, internal: bool = True) -> Asked:
        """The call with its tool and arguments, and where it belongs; or why it is refused. A tool
        of the service's own is unknown to whoever is not `internal`."""
        tool = self.tools.get(call.tool)
        try:
            if not is_tenant(call.tenant):
                raise Refused(f"{call.tenant[:80]!r} is no tenant's name: {TENANTS}")
            if call.refused is not None:
                told = call.refused
                raise Refused(told.reason, code=told.code, data=told.data)
            if call.truncated is not None:
                raise Refused(call.truncated.reason)
            if tool is None or (tool.internal and not internal):
                raise Refused(f"Unknown tool {call.tool[:64]!r}", code=UNKNOWN_TOOL)
            args = parse(tool.arguments, call.arguments)
        except Refused as error:
            refused = self.refusal(call.tool, error)
            return Asked(call, partition_of_space(call.space, partitions), tool, refused=refused)
        place = tool.place(call.tenant, args)
        if call.space != place.space:
            call = msgspec.structs.replace(call, space=place.space)
        return Asked(call, place.partition(partitions), tool, args)

    def refusal(self, tool: str, refused: Refused) -> Refused:
        """In the form in which the tool's family refuses; one that has a code has a form."""
        family = self.family_of.get(tool)
        return refused if family is None or refused.code is not None else family.refusal(refused)

    def space_named(self, tenant: str, name: str) -> str:
        """The key of a space from the name that callers know it by."""
        if not is_tenant(tenant):
            raise Refused(f"{tenant[:80]!r} is no tenant's name: {TENANTS}")
        for family in self.families.values():
            space = family.spaces.find(tenant, name)
            if space is not None:
                return space
        every = sorted(self.families.values(), key=lambda one: not one.spaces.single)
        words = ", or ".join(family.spaces.words for family in every)
        raise Refused(f"space can be {words}; not {name[:140]!r}")

    def is_news(self, decision: Decision) -> bool:
        """Whether followers are told of a decision: it changed something. What a read leaves behind
        is not news, or a follower that looks things up would be told of its own looking; neither
        is the service's own work, such as late vectors."""
        tool = self.tools.get(decision.tool)
        return bool(decision.facts) and not (tool is not None and (tool.reads or tool.internal))


def load(families: Families) -> Catalogue:
    return Catalogue([one.load() for one in families])


def _unique(things: Sequence[ThingKind]) -> dict[str, ThingKind]:
    found = {one.kind: one for one in things}
    if len(found) < len(things):
        raise ValueError("two families tell of things of one kind")
    return found
