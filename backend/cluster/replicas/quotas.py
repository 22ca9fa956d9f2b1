"""Balanced quotas: how many more partitions each member takes."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Quotas:
    """Spreads `count` partitions over members, balanced to within one; the least loaded members get
    one more."""

    def __init__(
        self,
        count: int,
        members: list[int],
        load: list[int],
        prefer: Callable[[int], int] = lambda _: 0,
    ) -> None:
        """`load`: partitions by member, assigned so far; updated. `prefer`: breaks ties."""
        self._load = load
        base, extra = divmod(count, len(members))
        by_load = sorted(members, key=lambda i: (load[i], prefer(i), i))
        self.room = {i: base + (rank < extra) for rank, i in enumerate(by_load)}
        self._heap = [(-room, i) for i, room in self.room.items()]
        heapq.heapify(self._heap)

    def take(self, member: int) -> None:
        self.room[member] -= 1
        self._load[member] += 1

    def give_back(self, member: int) -> None:
        self.room[member] += 1
        self._load[member] -= 1
        heapq.heappush(self._heap, (-self.room[member], member))

    def emptiest(self, fits: Callable[[int], bool] = lambda _: True) -> int | None:
        """The member with the most room among those that fit; None if none has room."""
        skipped = []
        chosen = None
        while self._heap:
            negative, member = heapq.heappop(self._heap)
            if -negative != self.room[member]:
                # a stale entry: push the current value, unless it is in the heap already
                if 0 < self.room[member] < -negative:
                    heapq.heappush(self._heap, (-self.room[member], member))
                continue
            if self.room[member] <= 0:
                continue
            skipped.append((negative, member))
            if fits(member):
                chosen = member
                break
        for entry in skipped:
            heapq.heappush(self._heap, entry)
        return chosen
