"""A Q-table over pairs (state, queue) that holds visited pairs only, at any delay.

A queue is packed into 64-bit words, so keys of any length are exact. `slots` is a hash table with
open addressing that holds the rows of `keys` and `q`. Row 0 stands for all pairs without a visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Int32, Int64, UInt64

from deadtime.runtime.queue_keys import words_of

_MIX = np.uint64(0x9E3779B97F4A7C15)
_ROWS = 1024


class Table(NamedTuple):
    """A table whose row i has the key `keys[i]` and the values `q[i]`; `used[0]` rows are in use.

    A key is the state, followed by the words of the queue.
    """

    slots: Int32[np.ndarray, " slots"]
    keys: UInt64[np.ndarray, "rows words"]
    q: Float[np.ndarray, "rows A"]
    used: Int64[np.ndarray, " 1"]


def by_state(states: int, actions: int) -> Table:
    """Return a table over states, with row s for state s."""
    return Table(
        np.zeros(1, np.int32),
        np.zeros((1, 1), np.uint64),
        np.zeros((states, actions)),
        np.full(1, states, np.int64),
    )


def by_queue(actions: int, delay: int) -> Table:
    """Return an empty table over pairs (state, queue)."""
    slots = np.zeros(4 * _ROWS, np.int32)
    keys = np.zeros((_ROWS, words_of(actions, delay)), np.uint64)
    return Table(slots, keys, np.zeros((_ROWS, actions)), np.ones(1, np.int64))


@numba.njit(cache=True)
def pack(
    key: UInt64[np.ndarray, " words"],
    state: int,
    queue: Int64[np.ndarray, " steps"],
    m: int,
    bits: int,
) -> None:
    """Write the key of the state and the first m actions of `queue`."""
    key[0] = state
    per_word = 64 // bits
    for w in range(1, key.shape[0]):
        word = np.uint64(0)
        for i in range((w - 1) * per_word, min(w * per_word, m)):
            word = (word << np.uint64(bits)) | np.uint64(queue[i])
        key[w] = word


@numba.njit(cache=True)
def push_key(
    key: UInt64[np.ndarray, " words"],
    state: int,
    actions: Int64[np.ndarray, " steps"],
    first: int,
    m: int,
    bits: int,
) -> None:
    """Update a key to the next pair, whose queue begins at `actions[first]`.

    Every word drops its oldest action and takes one more.
    """
    key[0] = state
    per_word = 64 // bits
    for w in range(1, key.shape[0]):
        last = min(w * per_word, m)
        held = last - (w - 1) * per_word
        word = (key[w] << np.uint64(bits)) | np.uint64(actions[first + last - 1])
        if held * bits < 64:
            word &= (np.uint64(1) << np.uint64(held * bits)) - np.uint64(1)
        key[w] = word


@numba.njit(cache=True)
def known_key(
    key: UInt64[np.ndarray, " words"],
    known: UInt64[np.ndarray, " words"],
    number: int,
    pending: int,
    m: int,
    bits: int,
) -> None:
    """Write a key with `number` for the state, and only the last `pending` of its m actions."""
    known[0] = number
    per_word = 64 // bits
    for w in range(1, key.shape[0]):
        last = min(w * per_word, m)
        kept = (last - (m - pending)) * bits
        if kept <= 0:
            known[w] = np.uint64(0)
        elif kept >= 64:
            known[w] = key[w]
        else:
            known[w] = key[w] & ((np.uint64(1) << np.uint64(kept)) - np.uint64(1))


@numba.njit(cache=True)
def _slot_of(key: UInt64[np.ndarray, " words"], slots: int) -> np.int64:
    h = np.uint64(0)
    for w in range(key.shape[0]):
        h = (h ^ key[w]) * _MIX
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(slots - 1))


@numba.njit(cache=True)
def find(
    slots: Int32[np.ndarray, " slots"],
    keys: UInt64[np.ndarray, "rows words"],
    used: Int64[np.ndarray, " 1"],
    key: UInt64[np.ndarray, " words"],
    insert: bool,
) -> int:
    """Return the row of a key; a new key gets a new row if `insert`, else row 0."""
    slot = _slot_of(key, slots.shape[0])
    while slots[slot] != 0:
        row, same = slots[slot], True
        for w in range(key.shape[0]):
            same &= keys[row, w] == key[w]
        if same:
            return int(row)
        slot = (slot + 1) & (slots.shape[0] - 1)
    if not insert:
        return 0
    row = used[0]
    slots[slot] = row
    for w in range(key.shape[0]):
        keys[row, w] = key[w]
    used[0] = row + 1
    return int(row)


@numba.njit(cache=True)
def with_room(table: Table, rows: int) -> Table:
    """Return a table with room for `rows` more pairs; rows keep their numbers."""
    used = table.used[0]
    if used + rows <= table.q.shape[0]:
        return table
    room = table.q.shape[0]
    while room < used + rows:
        room = room + room // 2 + 1
    keys = np.zeros((room, table.keys.shape[1]), np.uint64)
    q = np.zeros((room, table.q.shape[1]))
    keys[:used], q[:used] = table.keys[:used], table.q[:used]
    size = table.slots.shape[0]
    if size >= room + room // 2:
        return Table(table.slots, keys, q, table.used)
    while size < room + room // 2:
        size *= 2
    slots = np.zeros(size, np.int32)
    for row in range(1, used):
        slot = _slot_of(keys[row], size)
        while slots[slot] != 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = row
    return Table(slots, keys, q, table.used)
