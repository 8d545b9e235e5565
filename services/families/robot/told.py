"""The life of a memory, in sentences."""

from __future__ import annotations

import msgspec

from mnemolog.events.ids import partition_of_id
from mnemolog.projections.robot import state
from mnemolog.projections.state.view import View
from mnemolog.projections.times import iso
from mnemolog.services.told import FactRow, FactsOf, Standing, Thing, ThingKind, number_of


class MemoryLife(Thing):
    kind = "memory"

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return f"Memory {self.number}"

    def partition(self, tenant: str, partitions: int) -> int:
        return partition_of_id(self.number, partitions)

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        return self, view.touching(f"memory:{self.number}")

    def concerns(self, fact: FactRow) -> bool:
        if not fact["fact"].startswith("robot."):
            return False
        numbers = {fact.get("memory_id"), fact.get("existing_id"), fact.get("kept")}
        return self.number in numbers | set(fact.get("superseded", ()))

    def sentence(self, fact: FactRow) -> str:
        match fact["fact"]:
            case "robot.memory_learned":
                return f"learned: {fact['content']}"
            case "robot.memory_updated":
                return f"changed to: {fact['content']}"
            case "robot.memory_forgotten":
                return "forgotten"
            case "robot.duplicate_found":
                return f"said again ({fact['method']}, similarity {fact['similarity']:g})"
            case "robot.memories_consolidated" if fact["kept"] == self.number:
                return f"kept; merged into it: {', '.join(map(str, fact['superseded']))}"
            case "robot.memories_consolidated":
                return f"merged into memory {fact['kept']}"
            case other:
                return str(other)

    def standing(self, view: View) -> Standing | None:
        memory = state.memory(view, self.number)
        if memory is None:
            return None
        used = "" if memory.accessed_at_us is None else f", last {iso(memory.accessed_at_us)} UTC"
        lines = [
            f"in {memory.space}: {memory.status}",
            memory.content,
            f"{memory.category}, confidence {memory.confidence:g}, "
            f"recalls: {memory.access_count}{used}",
        ]
        return Standing(lines, msgspec.to_builtins(memory))


def _read(text: str) -> MemoryLife | None:
    number = number_of(text)
    return None if number is None else MemoryLife(number)


THINGS = (ThingKind("memory", "memory:NUMBER", _read),)
