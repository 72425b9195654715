"""Keys of (state, queue) pairs, exact for queues of any length.

A key is a row of 64-bit words. The first word is the state. The other words hold the pending
actions, oldest first, with the same number of bits for each action and as many actions as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int, UInt64


def bits_of(actions: int) -> int:
    """Return the number of bits that one action takes in a packed queue."""
    return max((actions - 1).bit_length(), 1)


def words_of(actions: int, delay: int) -> int:
    """Return the number of words in a key: one for the state, then the packed queue."""
    return 1 + -(-delay // (64 // bits_of(actions)))


def key_of(state: int, queue: Sequence[int], actions: int) -> UInt64[np.ndarray, " words"]:
    """Return the key of a state and its pending actions, oldest first."""
    bits = bits_of(actions)
    per_word = 64 // bits
    words = [state]
    for first in range(0, len(queue), per_word):
        word = 0
        for action in queue[first : first + per_word]:
            word = word << bits | action
        words.append(word)
    return np.array(words, np.uint64)


class KeyIndex:
    """An index that finds the row of a key among millions.

    The keys are sorted once. A search bisects them by the first word of the key, then the remaining
    ones by the next word, and so on.
    """

    def __init__(self, keys: UInt64[np.ndarray, "rows words"]):
        """Sort the keys of all rows but row 0, which stands for pairs that were never visited.

        If two rows have the same key, searches find the first.
        """
        columns = keys[1:].T
        order = np.lexsort(columns[::-1])
        self._words: UInt64[np.ndarray, "words rows"] = columns.take(order, axis=1)
        self._rows: Int[np.ndarray, " rows"] = 1 + order

    @property
    def nbytes(self) -> int:
        """The size of the sorted keys and their row numbers in bytes."""
        return self._words.nbytes + self._rows.nbytes

    def row(self, key: UInt64[np.ndarray, " words"]) -> int:
        """Return the row of a key, or 0 if the pair was never visited."""
        first, last = 0, len(self._rows)
        for i, word in enumerate(key):
            if last - first == 1:
                same = (self._words[i:, first] == key[i:]).all()
                return int(self._rows[first]) if same else 0
            column = self._words[i, first:last]
            last = first + int(column.searchsorted(word, "right"))
            first += int(column.searchsorted(word, "left"))
            if first == last:
                return 0
        return int(self._rows[first])
