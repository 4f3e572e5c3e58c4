"""The laws of the page bookkeeping, checked from scratch: slow, obvious, and independent of the counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paradraft.kv.lease import Lease
from paradraft.kv.pool import PagePool


def check_laws(pool: PagePool, rows: Sequence[Lease]) -> None:
    """Raise AssertionError naming the first law that does not hold."""
    _check_states(pool)
    _check_references(pool, rows)
    _check_published(pool, rows)
    for row in rows:
        _check_row(pool, row)
    _check_slices(pool, rows)


def _law(holds: bool, name: str) -> None:
    if not holds:
        raise AssertionError(f"broken law: {name}")


def _check_states(pool: PagePool) -> None:
    free = [page for low, high in pool.free.runs() for page in range(low, high)]
    held = [page for page, count in enumerate(pool.references) if count]
    states = Counter([*free, *held, *pool.cached, *pool.dirty])
    _law(set(states) == set(range(pool.num_pages)), "free + held + cached + dirty = total")
    _law(max(states.values()) == 1, "a page is in one state")
    _law(len(free) == pool.free.count and len(held) == pool.num_held, "counts agree with the pages")
    _law(all(pool.soiled_at[page] == pool.generation[page] for page in pool.dirty), "a dirty page is marked so")
    clean = [*free, *pool.cached]
    _law(all(pool.soiled_at[page] < pool.generation[page] for page in clean), "a page is clean before it is free")


def _check_references(pool: PagePool, rows: Sequence[Lease]) -> None:
    tables = [row.page_table.tolist() for row in rows]
    counted = Counter(page for table in tables for page in table)
    _law(
        all(counted[page] == count for page, count in enumerate(pool.references)),
        "a page's count is the number of rows that hold it",
    )
    _law(all(len(set(table)) == len(table) for table in tables), "a row holds a page once")


def _check_published(pool: PagePool, rows: Sequence[Lease]) -> None:
    _law(pool.index.is_consistent(), "one content, one page")
    _law(all(page in pool.index for page in pool.cached), "a cached page is published")
    full = {page for row in rows for page in row.page_table.tolist()[: row.committed // pool.page_size]}
    published = set(pool.index.entries())
    _law(published <= full | set(pool.cached), "a published page is full of committed tokens")


def _check_row(pool: PagePool, row: Lease) -> None:
    size, pages = pool.page_size, row.page_table.tolist()
    _law(row.committed + row.staged <= len(pages) * size, "a row's slots lie in its page table")
    _law(row.shared_len <= row.committed, "a shared prefix stays committed")
    _law(row.num_hashed == row.committed // size, "a row knows the content of its full pages and of no others")
    _law(row.unused_slots == len(pages) * size - row.committed - row.staged, "unused slots are counted right")
    runs = sum(page != before + 1 for before, page in zip([-2, *pages], pages, strict=False))
    _law(row.num_runs == runs, "runs are counted right")
    behind = pages[row.committed // size :]
    _law(all(pool.references[page] == 1 for page in behind), "a page with count above one is never written")
    _law(not any(page in pool.index for page in behind), "a published page is never written")


def _check_slices(pool: PagePool, rows: Sequence[Lease]) -> None:
    slots: Counter[int] = Counter()
    for row in rows:
        pages, size = row.page_table.tolist(), pool.page_size
        staged = range(row.committed, row.committed + row.staged)
        slots.update(pages[slot // size] * size + slot % size for slot in staged)
    _law(max(slots.values(), default=1) == 1, "a dirty slice belongs to one row")
