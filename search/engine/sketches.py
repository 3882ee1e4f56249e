"""Near-equal kernels: a small sketch of each source, made once, finds them among thousands; the share itself is exact.

The measure: Jaccard similarity of the sets of five neighbouring tokens, comments left out; near-equal is 0.95 or more.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

WIDTH = 5  # tokens a shingle
SIZE = 128  # hash functions a sketch, 4 bytes each
NEAR = 0.95
MARGIN = 0.08  # four standard deviations of the estimate at 0.95
TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|[^\w\s]")
COMMENT = re.compile(r"#[^\n]*")

_MIX = np.random.default_rng(20260522).integers(1, 1 << 63, size=(2, SIZE), dtype=np.uint64)  # fixed: sketches are kept
_ODD, _SHIFT = _MIX[0] | np.uint64(1), _MIX[1]


def shingles(source: str) -> frozenset[int]:
    """Hashes of every five neighbouring tokens; of all tokens together when there are fewer."""
    tokens = TOKEN.findall(COMMENT.sub("", source))
    if len(tokens) <= WIDTH:
        return frozenset({zlib.crc32(" ".join(tokens).encode())}) if tokens else frozenset()
    runs = zip(*(tokens[k:] for k in range(WIDTH)), strict=False)
    return frozenset(zlib.crc32(" ".join(run).encode()) for run in runs)


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Common over all, 0..1; two empty sets are alike."""
    every = len(one | other)
    return len(one & other) / every if every else 1.0


def sketch(source: str) -> bytes:
    """Min-hash of the shingles, 512 bytes; empty for a source without tokens."""
    found = shingles(source)
    if not found:
        return b""
    hashes = np.fromiter(found, dtype=np.uint64, count=len(found))
    mixed = (hashes[:, None] * _ODD[None, :] + _SHIFT[None, :]) >> np.uint64(32)
    return bytes(mixed.min(axis=0).astype("<u4").tobytes())


def likely(mine: bytes, others: Sequence[bytes], most: int = 8) -> list[int]:
    """Places in `others` that may be near-equal to `mine`, the likeliest first, the earlier on a tie."""
    if len(mine) != 4 * SIZE or not others:
        return []
    blank = bytes(4 * SIZE)
    stacked = b"".join(one if len(one) == 4 * SIZE else blank for one in others)
    table = np.frombuffer(stacked, dtype="<u4").reshape(len(others), SIZE)
    share = (table == np.frombuffer(mine, dtype="<u4")).mean(axis=1)
    order = np.argsort(-share, kind="stable")[:most]
    return [int(place) for place in order if share[place] >= NEAR - MARGIN]


__all__ = ["NEAR", "SIZE", "jaccard", "likely", "shingles", "sketch"]
