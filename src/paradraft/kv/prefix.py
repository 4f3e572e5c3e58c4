"""Which page holds which published content, found by a chained hash and confirmed token by token."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from paradraft.core.arrays import IntArray

_DIGEST_BYTES = 32


class PageContent(NamedTuple):
    """A full page's tokens and the digest of all that came before, the tenant's salt and the tokens."""

    digest: bytes
    tokens: bytes  # int32, little endian


def root_of(salt: str) -> bytes:
    """Return the digest that a tenant's chains start from; other salts never meet it."""
    return blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES, person=b"kv-salt").digest()


def packed(tokens: IntArray) -> bytes:
    """Return tokens in the byte form that is hashed and compared."""
    return np.asarray(tokens, dtype="<i4").tobytes()


def content_after(parent: bytes, tokens: bytes) -> PageContent:
    """Return the content of a full page whose predecessor (or tenant root) has this digest."""
    return PageContent(blake2b(parent + tokens, digest_size=_DIGEST_BYTES, person=b"kv-page").digest(), tokens)


class PrefixIndex:
    """Published pages by content. One content has one page, and one page one content."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._page_of: dict[bytes, int] = {}
        self._content_of: dict[int, PageContent] = {}

    def __len__(self) -> int:
        return len(self._page_of)

    def __contains__(self, page: int) -> bool:
        return page in self._content_of

    def publish(self, page: int, content: PageContent) -> bool:
        """Enter a page unless another holds this content; return whether it is the entered one."""
        owner = self._page_of.setdefault(content.digest, page)
        if owner != page:
            return False
        self._content_of[page] = content
        return True

    def owner(self, content: PageContent) -> int | None:
        """Return the page entered under this digest."""
        return self._page_of.get(content.digest)

    def forget(self, page: int) -> None:
        """Take a published page out."""
        del self._page_of[self._content_of.pop(page).digest]

    def match(self, tokens: IntArray, root: bytes) -> tuple[list[int], list[PageContent]]:
        """Return the pages that hold the longest published prefix, at most len(tokens)-1 tokens, and their content.

        Hashing decides where to look; a page counts only if its tokens are the very ones asked for, so a
        collision of digests costs a hit and never a wrong prefix.
        """
        pages: list[int] = []
        contents: list[PageContent] = []
        text, width, parent = packed(tokens), 4 * self._page_size, root
        for start in range(0, 4 * (len(tokens) - 1) - width + 1, width):
            content = content_after(parent, text[start : start + width])
            page = self._page_of.get(content.digest)
            if page is None or self._content_of[page] != content:
                break
            pages.append(page)
            contents.append(content)
            parent = content.digest
        return pages, contents

    def entries(self) -> dict[int, PageContent]:
        """Return a copy of the published pages with their content."""
        return dict(self._content_of)

    def is_consistent(self) -> bool:
        """Whether both directions name the same pages, once each."""
        return len(self._page_of) == len(self._content_of) and all(
            self._page_of.get(content.digest) == page for page, content in self._content_of.items()
        )
