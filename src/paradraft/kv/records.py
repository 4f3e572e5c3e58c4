"""What the page bookkeeping tells others: counts, figures, moves and checkpoints. All plain integers."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.arrays import IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class PageCounts:
    """How many pages are in each state; the four add up to total."""

    free: int  # clean, nobody's
    held: int  # in the table of at least one row
    cached: int  # nobody's, but with published content that a prompt may find again
    dirty: int  # nobody's, given back with slots whose tokens were never committed
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class KvStats:
    """Figures since the start, except where they say 'now'."""

    cache_reuse_ratio: float  # positions read in pages taken over by prefix / all positions read
    step_reuse_ratio: float  # the same, of the last step that read anything
    prefix_share: float  # now: share of the pool that published pages may keep (see kv/reuse.py)
    fragmentation: float  # now: unused slots / slots of held pages, 0.0 when no page is held
    unused_slots: int  # now: slots of held pages that hold no committed or staged token
    open_rows: int  # now
    max_runs: int  # now: most runs of consecutive pages in one row's table
    mean_runs: float  # now: the same on average over the rows that have pages
    grown_blocks: int  # pages added to rows that already had some
    grown_apart: int  # of these, pages that do not follow the page before them
    shared_tokens: int  # tokens that rows took over by prefix when they opened
    sweeps: int
    cleaned_pages: int
    evictions: int
    closed_rows: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Moves:
    """Cache slots to copy (page * page_size + offset). Read all sources before writing any destination."""

    sources: IntArray  # [K]
    destinations: IntArray  # [K]

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Where a row stood. Going back to it moves no keys and values."""

    lease: int  # serial number of the lease it belongs to
    committed: int
    num_pages: int
