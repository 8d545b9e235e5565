"""A tool family as one value: what each layer knows of it, put together.

Adding one means a folder in each layer and a line where the families are listed
(`services/families/__init__.py`). Nothing else names a family, and nothing registers itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.projections.projection import Projection
from mnemolog.projections.state.view import View
from mnemolog.services.decider.tool import Tool
from mnemolog.services.late import Provided, Queue, Sweep
from mnemolog.services.prompts import Prompt
from mnemolog.services.told import ThingKind

INTERNAL_ERROR = -32603
PARAMETER = re.compile(r"\{(\w+)\}")

Completes = Callable[[View, str, str, int], list[str]]
"""In a partition, the first so many names of a tenant's that begin with a text, in their order."""


class Spaces(msgspec.Struct, frozen=True, kw_only=True):
    """The spaces of a family, as callers name them. `path` is `graph` where a tenant has one, or
    `robot/{collection}` where it has many; `words` says that in a sentence. `find` gives the key of
    the space that a tenant means by a name, None when it means none."""

    path: str
    words: str
    title: str
    description: str
    find: Callable[[str, str], str | None]

    @property
    def single(self) -> bool:
        return "{" not in self.path


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an MCP client can read: what `tool` answers. It changes when the space `space`
    does. An `uri` with names in braces stands for many; `arguments` are the tool's, from what an
    address has in their places."""

    uri: str
    name: str
    title: str
    description: str
    tool: str
    space: str
    arguments: Callable[[Mapping[str, str]], dict[str, Any]] = lambda _: {}

    @property
    def parameters(self) -> list[str]:
        return PARAMETER.findall(self.uri)


class Codes(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON-RPC error codes of a call that could not be carried out: as such, or in time."""

    unavailable: int = INTERNAL_ERROR
    timed_out: int = INTERNAL_ERROR


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """`introduction` is what a client may tell its model of the family; `rules` are the numbers
    that its deciding goes by; `things` what `audit show` can tell the life of; `late` what is
    embedded after the reply. `refusal` gives a refusal that is not the family's own (arguments that
    do not fit, a call that came cut off) the form in which the family refuses, `codes` what a call
    ends with that could not be carried out. `prompts` are what it has clients tell their models;
    `completes` gives the names that an argument of a prompt or a resource may have."""

    name: str
    introduction: str
    projection: Projection
    tools: tuple[Tool, ...]
    spaces: Spaces
    rules: msgspec.Struct
    resources: tuple[Resource, ...] = ()
    things: tuple[ThingKind, ...] = ()
    refusal: Callable[[Refused], Refused] = lambda refused: refused
    codes: Codes = Codes()
    late: tuple[Queue | Sweep | Provided, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    completes: Mapping[str, Completes] = {}

    def __post_init__(self) -> None:
        if self.projection.name != self.name:
            raise ValueError(f"the family {self.name} has the projection of {self.projection.name}")
        if self.spaces.path.partition("/")[0] != self.name:
            raise ValueError(f"the spaces of the family {self.name} are called {self.spaces.path}")
        tools = {tool.name: tool for tool in self.tools}
        for resource in self.resources:
            if resource.tool not in tools or not tools[resource.tool].reads:
                raise ValueError(f"{resource.uri}: {resource.tool} is no read of {self.name}")
        for prompt in self.prompts:
            strange = {name for step in prompt.steps for name in step.tools} - tools.keys()
            if strange:
                raise ValueError(f"{prompt.moment.name}: {self.name} has no tool {min(strange)}")
        for late in self.late:
            if late.tool not in tools or not tools[late.tool].internal:
                raise ValueError(f"{late.tool} is no internal tool of {self.name}")
