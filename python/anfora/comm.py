# SPDX-License-Identifier: Apache-2.0
"""Ranks: the same program in several threads or processes, which exchange arrays (docs/distributed.md).

>>> comm = comm.gloo()  # a process of torch.distributed is a rank; comm.threads(4) gives four in this process
>>> step = Step(loss, Adam(1e-3), params, comm=comm)  # each rank steps on rows of its own of the batch
"""
from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from datetime import timedelta
from typing import Any, Callable

from . import _core
from ._errors import warn
from ._ops import Op

FINE, LATE, LOST, RANKS, BROKEN = range(5)  # anf_comm_why
ALL_REDUCE, ALL_GATHER, BROADCAST = 0, 3, 4  # anf_comm_kind
JOIN = 60  # seconds at least until all processes have joined
POLL = 0.5  # seconds in which a rank that gave up is found out
BEATS = 32  # times in the time limit that a rank which waits says for whom
LAST = 4  # the last 1/4 of a time limit looks who has stopped saying so


all_reduce = Op("all_reduce", ("AllReduce", "collective", [("x", "")], [("mean", "bool", "false")],
                               """In a function that is compiled, such as the loss of a step with a comm: the sum over all ranks of x, or the
mean. Of means of a batch norm, for one. Without a comm there is one rank, whose x it is."""))


class CommError(RuntimeError):
    """An exchange between ranks failed. ``rank`` is the one that the others waited for, or -1."""

    def __init__(self, why: int, text: str, rank: int, ms: int) -> None:
        named = f"rank {rank} {text}" if rank >= 0 and why != RANKS else text
        super().__init__(f"{named} within {ms / 1000:g} s" if why == LATE else named)
        self.why, self.rank = why, rank


class Comm:
    """A rank and its link to the others. All ranks run the same operations in the same order."""

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._core.rank()[0]

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self._core.rank()[1]

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.ranks}>"

    def _run(self, kind: int, mean: bool, root: int, x: Any) -> Any:
        result = self._core.run(kind, mean, root, _core.asarray(x))
        if isinstance(result, tuple):
            raise CommError(*result)
        return result

    def all_reduce(self, x: Any, mean: bool = False) -> Any:
        """The sum, or mean, of all ranks' x: the same bits on all ranks and in every run."""
        return self._run(ALL_REDUCE, mean, 0, x)

    def all_gather(self, x: Any) -> Any:
        """The x of all ranks, with a new first axis."""
        return self._run(ALL_GATHER, False, 0, x)

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """The x of the rank `root`."""
        return self._run(BROADCAST, False, root, x)

    def abort(self) -> None:
        """This rank gives up: operations of the others fail and name it."""
        self._core.abort(-1)

    def reinit(self) -> bool:
        """After a failure: goes on with the ranks that call this within the time limit; they get new numbers in the order of
        the old ones. False: this rank came too late, or the link cannot."""
        return self._core.reinit()

    def tune(self) -> tuple[int, list[tuple[int, int]]]:
        """Measures the link, and sets the size of buckets: the bytes of one, and a curve of (bytes, nanoseconds) of all_reduce. All
        ranks call this at once. Results keep their bits."""
        if self.ranks == 1:
            return 0, []
        found = self._core.tune()
        if found is None or len(found) != 2:
            raise CommError(*(found or (BROKEN, "memory is used up", -1, 0)))
        return found

    @property
    def counts(self) -> dict[str, int]:
        """Operations so far, buckets that they ran in, bytes sent, nanoseconds that they took and that steps waited for them,
        operations that went a slower way than they could (``note``), and what of both times was before all ranks had begun."""
        names = ("operations", "buckets", "bytes", "busy_ns", "waited_ns", "slow", "late_ns", "late_waited_ns")
        return dict(zip(names, self._core.counts()))

    @property
    def note(self) -> str:
        """Why messages go a slower way than they could; "": they do not."""
        return self._core.note()


def _numbers(timeout: float, bucket_bytes: int, fast_sums: bool) -> tuple[int, int, bool]:
    if timeout <= 0 or bucket_bytes < 0:
        raise ValueError("the time limit is above 0, the bytes of a bucket are 0 or more")
    return max(1, round(timeout * 1000)), bucket_bytes, bool(fast_sums)


def threads(n: int, *, timeout: float = 60, bucket_bytes: int = 0, fast_sums: bool = False) -> list[Comm]:
    """The ranks of one process: item i is for the thread that is rank i. ``timeout``: seconds until a rank that does not take
    part is an error; ``bucket_bytes``: gradients that are sent as one (0: 64 KB); ``fast_sums``: sums of f32 are rounded after
    each addition, in less time. All ranks choose alike."""
    return [Comm(c) for c in _core.comm_threads(n, *_numbers(timeout, bucket_bytes, fast_sums))]


def launch(n: int, work: Callable[[Comm], Any], *, timeout: float = 60, bucket_bytes: int = 0, fast_sums: bool = False) -> list[Any]:
    """Runs ``work(comm)`` on n threads, one for each rank; the results in the order of ranks. The first exception that is not
    another rank's fault is raised."""
    results: list[Any] = [None] * n
    errors: list[BaseException | None] = [None] * n

    def run(i: int, c: Comm) -> None:
        try:
            results[i] = work(c)
        except BaseException as e:  # noqa: BLE001: it is raised on the caller's thread
            errors[i] = e
            c.abort()
    workers = [threading.Thread(target=run, args=(i, c)) for i, c in enumerate(threads(n, timeout=timeout, bucket_bytes=bucket_bytes, fast_sums=fast_sums))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    found = [e for e in errors if e is not None]
    if found:
        raise next((e for e in found if not isinstance(e, CommError)), found[0])
    return results


def link(provider: Any, rank: int, ranks: int, *, timeout: float = 60, bucket_bytes: int = 0, fast_sums: bool = False) -> Comm:
    """A rank whose bytes `provider` moves: its start(send, peer, tag, memory) gives a request, wait(request, ms) gives (why,
    rank), and cancel(request), abort(blame), reinit(ms) and close() are as in anfora/comm.h."""
    return Comm(_core.comm_link(provider, rank, ranks, *_numbers(timeout, bucket_bytes, fast_sums), None, ""))


class _Waits:
    """Which rank waits for which: a table in the store. Rank 0 waits for 1, which waits for 2, which hangs: 2 is to blame.

    A thread writes "peer count" for this rank while a wait lasts, with a count that grows. So an entry that changed within the
    last quarter of the time limit is of a rank that is alive and waits; any other says nothing."""

    def __init__(self, store: Any, rank: int, ranks: int, seconds: float) -> None:
        self._store, self._rank, self._ranks = store, rank, ranks
        self._beat, self._last = seconds / BEATS, seconds / LAST
        self._wait: tuple[int, float] | None = None  # peer and end; an object of its own for each wait
        self._earlier: tuple[float, list[str]] = (0.0, [])  # the table, and until when it is of use
        self._quit = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, peer: int, end: float) -> None:
        self._wait = (peer, end)

    def end(self) -> None:
        self._wait = None

    def quit(self) -> None:
        self._quit.set()

    def _watch(self) -> None:
        before, count = None, 0
        try:
            while not self._quit.wait(self._beat):
                wait = self._wait
                if wait is not None and wait is before:
                    count += 1
                    self._store.set(f"waits{self._rank}", f"{wait[0]} {count}")
                    if wait[1] - time.monotonic() <= self._last and self._earlier[0] < time.monotonic():
                        self._earlier = (wait[1] + self._beat, self._table())
                before = wait
        except RuntimeError:
            pass  # the process of the store is gone

    def _table(self) -> list[str]:
        return [_peek(self._store, f"waits{r}") for r in range(self._ranks)]

    def culprit(self, peer: int) -> int:
        """At the end of a wait for `peer`: the rank at the end of the row of those that wait."""
        until, earlier = self._earlier
        try:
            return at_the_end(earlier, self._table(), peer) if time.monotonic() <= until + self._last else peer
        except RuntimeError:
            return peer


def at_the_end(earlier: list[str], now: list[str], peer: int) -> int:
    """The first rank of the row that begins with `peer` whose entry did not change; `peer` if the row is a ring."""
    who = peer
    for _ in now:
        if not earlier or now[who] == earlier[who]:
            return who
        who = int(now[who].split()[0])
    return peer


def _peek(store: Any, key: str) -> str:
    """The entry, or "" if there is none: `get` would wait for it."""
    return str(store.compare_set(key, "", "").decode())


SHARED = ("/dev/shm", None)  # folders for memory that ranks share: of files in memory; else of temporary files


def _machine() -> str:
    """What processes of one machine have in common, and others have not; "": it is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return ""


def _folder(base: str | None) -> str:
    try:
        return tempfile.mkdtemp(prefix="anfora-", dir=base)
    except OSError:
        return ""


def _area(store: Any, rank: int, ranks: int) -> tuple[Any, str]:
    """Memory that all ranks share; or None: one of them is on another machine, or why those of one machine have none."""
    store.set(f"machine{rank}", _machine())
    machines = {store.get(f"machine{r}") for r in range(ranks)}
    if len(machines) > 1 or machines == {b""} or ranks < 2:
        return None, ""
    if ranks > 16:
        return None, "there are more than 16 ranks"
    area, why = None, ""
    for base in SHARED:
        area, why = _area_in(base, store, rank, ranks)
        if not why:
            break
    return area, why


def _area_in(base: str | None, store: Any, rank: int, ranks: int) -> tuple[Any, str]:
    """That memory as a file in a folder; or None and why."""
    at = base or tempfile.gettempdir()
    if rank == 0:
        store.set(f"area{base}", _folder(base))
    folder = store.get(f"area{base}").decode()
    if not folder:
        return None, f"rank 0 can make no folder in {at}"
    area = _core.comm_area(os.path.join(folder, "area"), rank, ranks)
    store.set(f"has{base}{rank}", "yes" if area else "no")
    without = [r for r in range(ranks) if store.get(f"has{base}{r}") != b"yes"]
    if rank == 0:  # it stays as long as it is mapped
        shutil.rmtree(folder, ignore_errors=True)
    if without:
        return None, f"rank {without[0]} found no room in {at}, or sees another folder there"
    return area, ""


class _Gloo:
    """Messages over gloo, whose pairs of processes notice that one has died. What gloo cannot say, who is to blame, is in the
    store: the first rank to fail writes it, and the others look there before they blame a peer. Ranks of one machine share
    memory (`area`) in place of messages."""

    def __init__(self, store: Any, rank: int, ranks: int, seconds: float, shared: bool) -> None:
        import torch
        from torch import distributed
        self._torch, self._dist = torch, distributed
        self._base, self._seconds, self._age, self._shared = store, seconds, 0, shared
        self._join(store, rank, ranks)

    def _join(self, store: Any, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        self._store = self._dist.PrefixStore(f"anfora/{self._age}", store)
        self._waits = self._group = None
        self.area, self.note = _area(self._store, rank, ranks) if self._shared else (None, "")
        if self.area is not None:
            return
        if self.note and rank == 0:
            warn(f"[W0907] ranks of one machine exchange over gloo, not over memory that they share: {self.note}")
        self._waits = _Waits(self._store, rank, ranks, self._seconds)
        self._group = self._dist.ProcessGroupGloo(self._dist.PrefixStore("gloo", self._store), rank, ranks,
                                                  timedelta(seconds=max(JOIN, self._seconds)))

    def start(self, send: bool, peer: int, tag: int, memory: memoryview) -> Any:
        t = self._torch.frombuffer(memory, dtype=self._torch.uint8)
        try:
            return peer, t, (self._group.send if send else self._group.recv)([t], peer, tag)
        except RuntimeError:
            return None

    def wait(self, request: Any, ms: int) -> tuple[int, int]:
        peer, _, work = request
        end = time.monotonic() + ms / 1000
        self._waits.begin(peer, end)
        try:
            work.wait(timedelta(milliseconds=max(1, ms)))
            return FINE, -1
        except RuntimeError:
            pass
        finally:
            self._waits.end()
        if time.monotonic() >= end - 0.001:
            silent = self._waits.culprit(peer)
            who = self._blame(silent)
            return LATE if who == silent else LOST, who
        return LOST, self._blamed(POLL, peer)

    def _blame(self, peer: int) -> int:
        """The rank that was blamed first."""
        try:
            return int(self._store.compare_set("blame", "", str(peer)))
        except RuntimeError:
            return peer  # the process of the store is gone

    def _blamed(self, seconds: float, peer: int) -> int:
        """The rank that is blamed within that time, or else the peer."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self._store.check(["blame"]):
                    return int(self._store.get("blame"))
            except RuntimeError:
                return peer
            if time.monotonic() >= end:
                return peer
            time.sleep(0.02)

    def cancel(self, request: Any) -> None:
        pass  # the last reference goes away, and with it gloo's buffer: what arrives later is dropped

    def abort(self, blame: int) -> None:
        self._blame(self.rank if blame < 0 else blame)
        if blame < 0:
            self._group = None  # closes the pairs, so that the others find out

    def reinit(self, ms: int) -> tuple[int, int, Any, str] | None:
        """The ranks that meet write their numbers; the first that has waited long enough closes the list."""
        s, was = self._store, self.rank
        lost = int(s.get("blame")) if s.check(["blame"]) else -1
        s.set(f"meets{was}", "1")
        end = time.monotonic() + ms / 1000
        others = [r for r in range(self.ranks) if r != lost]
        while not s.check(["members"]):
            here = [r for r in others if s.check([f"meets{r}"])]
            if len(here) == len(others) or time.monotonic() >= end:
                s.compare_set("members", "", ",".join(map(str, here)))
            else:
                time.sleep(0.01)
        members = [int(r) for r in s.get("members").decode().split(",")]
        if was not in members:
            return None
        self.close()
        self._age += 1
        self._join(self._base, members.index(was), len(members))
        area, self.area = self.area, None
        return self.rank, self.ranks, area, self.note

    def close(self) -> None:
        if self._waits is not None:
            self._waits.quit()
        self._group = None


def gloo(*, timeout: float = 60, bucket_bytes: int = 0, store: Any = None, rank: int | None = None, ranks: int | None = None,
         shared_memory: bool = True, fast_sums: bool = False) -> Comm:
    """This process of torch.distributed as a rank, over gloo; over memory, if all ranks are processes of this machine and
    ``shared_memory`` is true, which it is for all of them or none. Of the default process group, which
    ``torch.distributed.init_process_group`` made with any backend; or of a ``store`` with rank and ranks. The store's process must
    outlive failures: with torchrun it is the launcher."""
    from torch import distributed
    if store is None:
        store = distributed.distributed_c10d._get_default_store()
        rank, ranks = distributed.get_rank(), distributed.get_world_size()
    if rank is None or ranks is None:
        raise ValueError("a store needs rank= and ranks=")
    provider = _Gloo(store, rank, ranks, timeout, shared_memory)
    area, provider.area = provider.area, None
    return Comm(_core.comm_link(provider, rank, ranks, *_numbers(timeout, bucket_bytes, fast_sums), area, provider.note))
