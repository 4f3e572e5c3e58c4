"""The page cache: opens rows on the longest published prefix and reports counts, laws and figures."""

from __future__ import annotations

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.kv.laws import check_laws
from paradraft.kv.lease import Lease
from paradraft.kv.pool import PagePool
from paradraft.kv.prefix import root_of
from paradraft.kv.records import KvStats, PageCounts

SWEEP_EVERY = 1000  # closed rows


class PageCache:
    """Bookkeeping of a key-value cache of num_pages pages with page_size slots each; it touches no tensor."""

    def __init__(self, *, num_pages: int, page_size: int) -> None:
        for name, value in (("num_pages", num_pages), ("page_size", page_size)):
            if value < 1:
                raise ConfigError(f"{name}={value} is not allowed.", remedy="Use a whole number from 1.")
        self._pool = PagePool(num_pages, page_size)
        self._rows: dict[int, Lease] = {}
        self._num_opened = self._num_closed = self._shared_tokens = 0
        self._grown_blocks = self._grown_apart = 0

    @property
    def num_pages(self) -> int:
        """Return the size of the pool."""
        return self._pool.num_pages

    @property
    def page_size(self) -> int:
        """Return the slots of a page."""
        return self._pool.page_size

    @property
    def num_free(self) -> int:
        """Return how many pages can be handed out now: free, dirty and cached ones."""
        return self._pool.num_available

    def open(self, tokens: IntArray, *, salt: str = "", reuse: bool = True, room: int = 0) -> Lease:
        """Open a row on the longest published prefix of its tokens.

        Whole pages are taken over, at most len(tokens)-1 tokens, so that at least one is left to feed; lease.committed
        tells how many. Rows of other salts share nothing. reuse=False takes over nothing; the row's own pages are
        published all the same. `room` slots are reserved from the start; raises CapacityError, and changes nothing, if
        there are not enough pages for them.
        """
        pool, root = self._pool, root_of(salt)
        shared = pool.index.match(tokens, root) if reuse else ([], [])
        num_idle = sum(not pool.references[page] for page in shared[0])
        pool.require(-(-room // pool.page_size) - len(shared[0]) + num_idle)
        for page in shared[0]:
            pool.hold(page)
        lease = Lease(pool, self._num_opened, root, shared, self._forget)
        lease.reserve(room)
        self._rows[lease.serial] = lease
        self._num_opened += 1
        self._shared_tokens += lease.shared_len
        return lease

    def generation(self, page: int) -> int:
        """Return how often a page was cleaned; whatever was written to it before that is void."""
        return self._pool.generation[page]

    def sweep(self) -> None:
        """Clean the dirty pages now. Done by itself when pages run short and every SWEEP_EVERY closed rows."""
        self._pool.sweep()

    def drop_cached(self) -> None:
        """Free every cached page: no later row finds what was published, except in pages that are held."""
        self._pool.evict(self._pool.num_pages)

    def note_step(self) -> float:
        """Close the books of one step (all slices staged since the last call); return its cache reuse ratio.

        Applies the policy of kv/reuse.py. Call once per step.
        """
        ratio = self._pool.meter.end_step()
        self._pool.retain()
        return ratio

    def positions_read(self) -> tuple[int, int]:
        """Return the positions read since the start, those in pages taken over by prefix first and then all."""
        return self._pool.meter.positions

    def counts(self) -> PageCounts:
        """Return how many pages are in each state."""
        pool = self._pool
        return PageCounts(
            free=pool.free.count,
            held=pool.num_held,
            cached=len(pool.cached),
            dirty=len(pool.dirty),
            total=pool.num_pages,
        )

    def check(self) -> None:
        """Raise AssertionError naming the law that is broken, if one is. Reads every page: for tests and on demand."""
        check_laws(self._pool, list(self._rows.values()))

    def stats(self) -> KvStats:
        """Return all figures; those that stand for 'now' read every open row."""
        pool, rows = self._pool, self._rows.values()
        unused = sum(row.unused_slots for row in rows)
        runs = [row.num_runs for row in rows if row.num_runs]
        return KvStats(
            cache_reuse_ratio=pool.meter.ratio,
            step_reuse_ratio=pool.meter.last,
            prefix_share=pool.meter.share,
            fragmentation=unused / (pool.num_held * pool.page_size) if pool.num_held else 0.0,
            unused_slots=unused,
            open_rows=len(self._rows),
            max_runs=max(runs, default=0),
            mean_runs=sum(runs) / len(runs) if runs else 0.0,
            grown_blocks=self._grown_blocks + sum(row.grown_blocks for row in rows),
            grown_apart=self._grown_apart + sum(row.grown_apart for row in rows),
            shared_tokens=self._shared_tokens,
            sweeps=pool.sweeps,
            cleaned_pages=pool.cleaned_pages,
            evictions=pool.evictions,
            closed_rows=self._num_closed,
        )

    def _forget(self, lease: Lease) -> None:
        del self._rows[lease.serial]
        self._grown_blocks += lease.grown_blocks
        self._grown_apart += lease.grown_apart
        self._num_closed += 1
        if self._num_closed % SWEEP_EVERY == 0:
            self._pool.sweep()
