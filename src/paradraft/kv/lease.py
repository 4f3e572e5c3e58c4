"""A row's claim on pages: a shared prefix, committed tokens, and one private slice at a time."""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ProtocolError
from paradraft.kv.pool import PagePool
from paradraft.kv.prefix import PageContent, content_after, packed
from paradraft.kv.records import Checkpoint, Moves
from paradraft.kv.table import PageTable


class Lease:
    """The pages of one row.

    Slots below `committed` hold the row's tokens. The `staged` slots behind them are its private slice: the
    pass may write them, and commit or rollback settles all of them. Slots further on are never read.
    """

    __slots__ = (
        "_capacity",
        "_contents",
        "_on_close",
        "_pool",
        "_root",
        "_table",
        "_written",
        "committed",
        "grown_apart",
        "grown_blocks",
        "serial",
        "shared_len",
        "staged",
    )

    def __init__(
        self,
        pool: PagePool,
        serial: int,
        root: bytes,
        shared: tuple[list[int], list[PageContent]],
        on_close: Callable[[Lease], None],
    ) -> None:
        self._pool = pool
        self._root = root
        self._on_close = on_close
        self._table = PageTable(shared[0])
        self._contents = shared[1]  # of the full committed pages, published or not
        self._capacity = len(self._table) * pool.page_size  # -1 once closed
        self.serial = serial
        self.shared_len = self.committed = self._capacity
        self._written = self._capacity  # this row never wrote the slots from here on
        self.staged = 0
        self.grown_blocks = self.grown_apart = 0

    @property
    def page_table(self) -> IntArray:
        """Return the page numbers, read-only. The array never changes; after a reserve there may be a longer one."""
        return self._table.view

    @property
    def num_runs(self) -> int:
        """Return the number of runs of consecutive page numbers; with one, the row's slots are one view."""
        return self._table.num_runs

    @property
    def is_open(self) -> bool:
        """Whether the row was not closed."""
        return self._capacity >= 0

    @property
    def num_hashed(self) -> int:
        """Return the number of full pages whose content is known, published or not."""
        return len(self._contents)

    @property
    def unused_slots(self) -> int:
        """Return the slots of the page table that hold no committed or staged token."""
        return max(self._capacity, 0) - self.committed - self.staged

    def reserve(self, length: int) -> None:
        """Make the page table cover logical slots 0 .. length-1.

        Raises CapacityError, and changes nothing, if there are not enough pages.
        """
        if length <= self._capacity:
            return
        self._require_open()
        table, size = self._table, self._pool.page_size
        had = len(table)
        pages = self._pool.take(-(-length // size) - had, after=table.pages[-1] if had else -1)
        apart = table.extend(pages)
        self._capacity = len(table) * size
        if had:
            self.grown_blocks += len(pages)
            self.grown_apart += apart

    def stage(self, num_new: int) -> None:
        """Make the next num_new slots this row's private slice: the pass may write these and no others.

        Raises ProtocolError if the slice before is not settled or the page table is too short (reserve first).
        """
        end = self.committed + num_new
        if self.staged or num_new < 0 or end > self._capacity:
            self._refuse_slice(num_new)
        pool = self._pool
        if num_new and pool.references[self._table.pages[self.committed // pool.page_size]] != 1:
            raise ProtocolError("A shared page cannot be written.", remedy="Stage only behind the shared prefix.")
        self.staged = num_new
        if end > self._written:
            self._written = end
        pool.meter.read(self.shared_len, end)

    def commit(self, num_kept: int, path: IntArray, tokens: IntArray) -> Moves:
        """Keep the first num_kept staged slots and, behind them, the staged slots num_kept + path[i]; drop the rest.

        path [K] is strictly increasing (parents come before children). tokens are all tokens known of the row, at
        least as many as are committed afterwards. Pages that became full are published; the moves must be done
        before the next pass. Raises ProtocolError, and changes nothing, if the numbers do not fit the slice.
        """
        steps: list[int] = path.tolist()
        base = self.committed + num_kept
        end = base + len(steps)
        if not self._fits_slice(num_kept, steps) or len(tokens) < end:
            self._refuse_commit(num_kept, steps, len(tokens))
        moves = self._table.moves(base, steps, self._pool.page_size)
        self.committed = end
        self.staged = 0
        if end // self._pool.page_size > len(self._contents):
            self._publish(tokens)
        return moves

    def checkpoint(self) -> Checkpoint:
        """Return where the row stands, staged slots left out."""
        return Checkpoint(lease=self.serial, committed=self.committed, num_pages=len(self._table))

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Drop the slice and go back to the checkpoint; pages added since are given back.

        If this uncommits full pages, they and all behind them are given back; the row goes on in the page that the
        checkpoint lies in. If other rows hold that page, `committed` ends at its start instead.
        Raises ProtocolError for another row's checkpoint or one ahead of the row.
        """
        self._require_open()
        if checkpoint.lease != self.serial or checkpoint.committed > self.committed:
            raise ProtocolError(
                f"The checkpoint at {checkpoint.committed} of row {checkpoint.lease} does not lie behind "
                f"{self.committed} of row {self.serial}.",
                remedy="Go back only, and only to a checkpoint of the same row.",
            )
        self.staged = 0
        self.committed = checkpoint.committed
        size = self._pool.page_size
        if self.committed < size * len(self._contents):
            self._give_from(self._reopen(self.committed // size))
        elif checkpoint.num_pages < len(self._table):
            self._give_from(max(checkpoint.num_pages, -(-self.committed // size)))

    def close(self) -> None:
        """Give all pages back: full published ones stay findable, those with uncommitted slots are dirty.

        The lease cannot be used afterwards; closing it again does nothing.
        """
        if not self.is_open:
            return
        self._give_from(0)
        self._capacity = -1
        self.committed = self.staged = 0
        self._on_close(self)

    def _publish(self, tokens: IntArray) -> None:
        size, contents = self._pool.page_size, self._contents
        parent = contents[-1].digest if contents else self._root
        for index in range(len(contents), self.committed // size):
            content = content_after(parent, packed(tokens[index * size : (index + 1) * size]))
            contents.append(content)
            self._pool.publish(self._table.pages[index], content)
            parent = content.digest

    def _reopen(self, index: int) -> int:
        """Prepare full page `index` for writing behind `committed`; return how many pages the row can keep."""
        pool, page = self._pool, self._table.pages[index]
        if self.committed % pool.page_size == 0:
            return index
        if pool.references[page] > 1:
            self.committed = index * pool.page_size
            return index
        pool.withdraw(page)
        return index + 1

    def _give_from(self, keep: int) -> None:
        """Give back pages keep and up, the last one first, so that the cache loses the ends of prefixes first."""
        size, pages, contents = self._pool.page_size, self._table.pages, self._contents
        soiled = range(self.committed // size, -(-self._written // size) if self._written > self.committed else 0)
        for index in range(len(pages) - 1, keep - 1, -1):
            content = contents[index] if index < len(contents) else None
            self._pool.give_back(pages[index], content, is_soiled=index in soiled)
        self._table.cut(keep)
        del contents[min(keep, self.committed // size) :]
        self._capacity = keep * size
        self._written = min(self._written, self._capacity)
        self._pool.retain()

    def _fits_slice(self, num_kept: int, steps: list[int]) -> bool:
        last = -1
        for step in steps:
            if step <= last:
                return False
            last = step
        return self._capacity >= 0 and 0 <= num_kept <= self.staged - last - 1

    def _refuse_commit(self, num_kept: int, steps: list[int], num_tokens: int) -> None:
        self._require_open()
        raise ProtocolError(
            f"Keeping {num_kept} slots and path {steps} behind {self.committed} committed tokens does not fit "
            f"{self.staged} staged slots and {num_tokens} known tokens.",
            remedy="Commit what was staged, with a path of increasing indices and all known tokens.",
        )

    def _refuse_slice(self, num_new: int) -> None:
        self._require_open()
        raise ProtocolError(
            f"{num_new} slots cannot be staged: {self.staged} are, and {self.unused_slots} are left.",
            remedy="Settle the slice by commit or rollback, and reserve enough slots first.",
        )

    def _require_open(self) -> None:
        if not self.is_open:
            raise ProtocolError("The row was closed.", remedy="Drop results that arrive after a row ended.")
