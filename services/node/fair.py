"""Waiting in turns: bounded queues in which nobody's calls keep another's waiting.

Whose calls they are is told by the tenant. What waits for one tenant stays in the order in which it
came, and tenants are taken in turns. `services/shares.py` says how much of a queue one may have.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from mnemolog.services.api import Busy
from mnemolog.services.shares import Shares

OURS: Final = ""
"""The tenant of the service's own work."""

T = TypeVar("T")


class Turns(Generic[T]):
    """A queue that any thread may use. `what` waits in it is told to who finds no room."""

    def __init__(self, most: int, what: str) -> None:
        self._shares = Shares(most)
        self._what = what
        self._lanes: OrderedDict[str, deque[tuple[int, T]]] = OrderedDict()
        """Of those who have something waiting, whose turn is next first; numbered as they came."""
        self._after: deque[tuple[int, T]] = deque()
        self._count = 0
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        return self._shares.taken

    def check(self, tenant: str) -> None:
        """`Busy` when there is no room."""
        if not self._shares.has_room(tenant):
            raise Busy(
                f"Too many {self._what} are waiting ({self._shares.taken}); nothing was recorded, "
                "try again"
            )

    def put(self, tenant: str, item: T, *, must: bool = False) -> None:
        """`must`: there is no way back, so there has to be room."""
        with self._changed:
            if not must:
                self.check(tenant)
            self._shares.take(tenant)
            self._count += 1
            self._lanes.setdefault(tenant, deque()).append((self._count, item))
            self._changed.notify()

    def put_after(self, item: T) -> None:
        """To be taken when everything that waits by now was. There is always room for it."""
        with self._changed:
            self._count += 1
            self._after.append((self._count, item))
            self._changed.notify()

    def put_back(self, items: Iterable[tuple[str, T]]) -> None:
        """What was taken, in that order, and not used: it is the first of its tenant's again."""
        with self._changed:
            for tenant, item in reversed(list(items)):
                self._shares.take(tenant)
                self._lanes.setdefault(tenant, deque()).appendleft((0, item))
            self._changed.notify()

    def take(self, within_s: float | None = None) -> T | None:
        """The next one, waited for if need be; None when there is none `within_s` seconds."""
        deadline = None if within_s is None else time.monotonic() + within_s
        with self._changed:
            while not self._lanes and not self._after:
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._changed.wait(left_s)
            if self._after and not self._waits_before(self._after[0][0]):
                return self._after.popleft()[1]
            tenant, lane = next(iter(self._lanes.items()))
            _, item = lane.popleft()
            self._shares.leave(tenant)
            if lane:
                self._lanes.move_to_end(tenant)
            else:
                del self._lanes[tenant]
            return item

    def _waits_before(self, number: int) -> bool:
        return any(lane[0][0] < number for lane in self._lanes.values())


class FairThreads:
    """Threads that work for all tenants in turns. At most `most` calls wait for one."""

    def __init__(self, count: int, name: str, most: int, what: str) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._turns: Turns[tuple[Future[Any], Callable[[], Any]]] = Turns(most, what)

    def submit(
        self, tenant: str, function: Callable[..., T], *args: Any, must: bool = False
    ) -> Future[T]:
        """`Busy` when there is no room, `RuntimeError` when they are shut down."""
        done: Future[T] = Future()
        self._turns.put(tenant, (done, lambda: function(*args)), must=must)
        # Each of these takes whoever's turn it is then.
        self._threads.submit(self._next)
        return done

    async def run(
        self, tenant: str, function: Callable[..., T], *args: Any, must: bool = False
    ) -> T:
        return await asyncio.wrap_future(self.submit(tenant, function, *args, must=must))

    @property
    def waiting(self) -> int:
        """Calls that no thread has taken up yet."""
        return self._turns.waiting

    def shutdown(self, *, drop: bool = False) -> None:
        """Returns when what waits is done, or with `drop` when what is under way is."""
        self._threads.shutdown(cancel_futures=drop)
        while (left := self._turns.take(0)) is not None:
            left[0].cancel()

    def _next(self) -> None:
        found = self._turns.take(0)
        if found is None:
            return
        done, function = found
        if not done.set_running_or_notify_cancel():
            return
        try:
            result = function()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)
