"""Room that tenants share: none of them may take so much that there is none for the next."""

from __future__ import annotations

from collections import Counter
from typing import Final

SHARE: Final = 4
"""Times the room that is free: so much one tenant may take. Alone that is four fifths of all."""


class Shares:
    """How much of some room, `most` in all, each tenant has. For one thread at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._by_tenant: Counter[str] = Counter()

    def has_room(self, tenant: str) -> bool:
        return self._by_tenant[tenant] < SHARE * (self.most - self.taken)

    def take(self, tenant: str) -> None:
        self.taken += 1
        self._by_tenant[tenant] += 1

    def leave(self, tenant: str) -> None:
        self.taken -= 1
        self._by_tenant[tenant] -= 1
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]
