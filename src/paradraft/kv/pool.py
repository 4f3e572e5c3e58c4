"""The state of every page: free, held, cached or dirty, and the ways from one to another."""

from __future__ import annotations

from collections import OrderedDict

from paradraft.core.errors import CapacityError
from paradraft.kv.free_runs import FreeRuns
from paradraft.kv.prefix import PageContent, PrefixIndex
from paradraft.kv.reuse import ReuseMeter


class PagePool:
    """Hands out pages and takes them back. Not for use by several threads at once.

    A page is dirty when it comes back with slots that were written for a draft and never committed:
    soiled_at[page] == generation[page]. Cleaning it is one step of its generation; nothing is overwritten.
    """

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.references = [0] * num_pages
        self.generation = [0] * num_pages
        self.soiled_at = [-1] * num_pages
        self.free = FreeRuns(num_pages)
        self.dirty: dict[int, None] = {}
        self.cached: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self.num_held = 0
        self.index = PrefixIndex(page_size)
        self.meter = ReuseMeter()
        self.sweeps = self.cleaned_pages = self.evictions = 0
        self._tails: set[int] = set()  # pages handed out last to a row: it may grow behind them
        # Evicting a few at a time gives back runs instead of single pages.
        self._eviction_batch = max(1, num_pages // 32)

    @property
    def num_available(self) -> int:
        """Return how many pages can be handed out now."""
        return self.free.count + len(self.dirty) + len(self.cached)

    def require(self, count: int) -> None:
        """Raise CapacityError if this many pages cannot be handed out now."""
        if count > self.num_available:
            raise CapacityError(
                f"{count} more key-value pages are needed, but {self.num_available} of {self.num_pages} are available.",
                remedy="Let another row end or preempt one, or set kv_tokens higher.",
            )

    def take(self, count: int, after: int) -> list[int]:
        """Hand out clean pages, following page `after` (-1: none) where that is possible.

        Raises CapacityError, and changes nothing, if there are not enough.
        """
        self.require(count)
        if self.dirty and (self.free.count < count or (after >= 0 and after + 1 in self.dirty)):
            self.sweep()
        if self.free.count < count:
            self.evict(max(count - self.free.count, self._eviction_batch))
        pages: list[int] = []
        if after >= 0 and (follow := min(self.free.length_at(after + 1), count)):
            self._cut(after + 1, after + 1, follow, pages)
        while len(pages) < count:
            low, high = self.free.largest()
            size = min(high - low, count - len(pages))
            self._cut(low, self._start_in(low, high, size), size, pages)
        self.num_held += count
        self._tails.discard(after)
        self._tails.update(pages[-1:])
        return pages

    def hold(self, page: int) -> None:
        """Add a reference to a published page."""
        if self.references[page] == 0:
            del self.cached[page]
            self.num_held += 1
        self.references[page] += 1

    def publish(self, page: int, content: PageContent) -> None:
        """Let others find a held page that became full, unless they find that content elsewhere already."""
        if self.index.publish(page, content):
            self.retain()

    def give_back(self, page: int, content: PageContent | None, *, is_soiled: bool) -> None:
        """Drop a reference; the last one makes the page cached, free or dirty.

        A full page whose content lost its entry since is entered again. If the entry is another page, that
        one counts as used just now, so that the pages behind it do not outlive it.
        """
        self.references[page] -= 1
        if self.references[page]:
            return
        self.num_held -= 1
        self._tails.discard(page)
        if content is not None and self.index.publish(page, content):
            self.cached[page] = None
            return
        if content is not None:
            self._touch(content)
        if is_soiled:
            self.soiled_at[page] = self.generation[page]
            self.dirty[page] = None
        else:
            self.free.add(page, page + 1)

    def withdraw(self, page: int) -> None:
        """Let nobody find a page any more, because its row is going to write it."""
        if page in self.index:
            self.index.forget(page)

    def sweep(self) -> None:
        """Clean every dirty page."""
        self.sweeps += 1
        self.cleaned_pages += len(self.dirty)
        for page in self.dirty:
            self.generation[page] += 1
            self.free.add(page, page + 1)
        self.dirty.clear()

    def evict(self, count: int) -> None:
        """Free the `count` least recently used cached pages, or all there are."""
        for _ in range(min(count, len(self.cached))):
            page, _none = self.cached.popitem(last=False)
            self.index.forget(page)
            self.free.add(page, page + 1)
            self.evictions += 1

    def retain(self) -> None:
        """Evict what published pages hold beyond their share of the pool."""
        surplus = len(self.index) - int(self.meter.share * self.num_pages + 1e-9)
        if surplus > 0 and self.cached:
            self.evict(surplus)

    def _touch(self, content: PageContent) -> None:
        owner = self.index.owner(content)
        if owner is not None and owner in self.cached:
            self.cached.move_to_end(owner)

    def _start_in(self, low: int, high: int, size: int) -> int:
        """Return where to place pages in a run: in the middle if a row may grow into the run from below."""
        return low + (high - low - size) // 2 if low - 1 in self._tails else low

    def _cut(self, run: int, start: int, size: int, pages: list[int]) -> None:
        self.free.cut(run, start, start + size)
        self.references[start : start + size] = [1] * size
        pages.extend(range(start, start + size))
