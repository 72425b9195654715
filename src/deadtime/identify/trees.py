"""Boosted regression trees: a model of any function of several numbers, such as a controller.

Each tree halves the rows at thresholds of single numbers, and predicts the mean of each part. It is
fitted to what the trees before it left. So steps, limits and dead bands are learned, which
polynomials miss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BINS = 128
_DEPTH = 3
_ROUNDS = 60
_RATE = 0.3
"""The part of each tree's prediction that is added."""
_LEAST_ROWS = 10
"""The smallest number of rows on each side of a threshold."""
_MOST_ROWS = 4000
"""The largest number of rows that trees are fitted to; more are thinned out evenly."""


@dataclass(frozen=True)
class _Tree:
    """A complete binary tree; node i has the children 2 i + 1 and 2 i + 2."""

    columns: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray

    def predict(self, places: np.ndarray) -> np.ndarray:
        """Return the prediction for rows of bin numbers, (n, u)."""
        node = np.zeros(len(places), np.int64)
        rows = np.arange(len(places))
        for _ in range(_DEPTH):
            right = places[rows, self.columns[node]] > self.thresholds[node]
            node = 2 * node + 1 + right
        return self.leaves[node - len(self.columns)]


def held_out_predictions(
    inputs: np.ndarray, targets: np.ndarray, folds: list[np.ndarray]
) -> np.ndarray:
    """Return the prediction of each row by trees that were fitted to the rows of other folds.

    `inputs` is (n, f) and `targets` (n, u). The number of trees is the one with the least error;
    it is 0 if no tree predicts better than none.
    """
    places = _binned(inputs)
    errors = np.zeros(_ROUNDS + 1)
    steps = np.zeros((_ROUNDS, *targets.shape))
    for test in folds:
        train = np.flatnonzero(~test)
        train = train[:: -(-len(train) // _MOST_ROWS)]
        left, held = targets[train].copy(), targets[test].copy()
        errors[0] += (held**2).sum()
        for turn in range(_ROUNDS):
            tree = _fitted(places[train], left)
            left -= _RATE * tree.predict(places[train])
            steps[turn, test] = _RATE * tree.predict(places[test])
            held -= steps[turn, test]
            errors[turn + 1] += (held**2).sum()
    return steps[: int(errors.argmin())].sum(0)


def _binned(inputs: np.ndarray) -> np.ndarray:
    """Return the number of the bin of each entry; bins have about equally many rows."""
    cuts = np.quantile(inputs, np.arange(1, _BINS) / _BINS, axis=0)
    columns = [np.searchsorted(cut, column) for cut, column in zip(cuts.T, inputs.T, strict=True)]
    return np.stack(columns, axis=1)


def _fitted(places: np.ndarray, targets: np.ndarray) -> _Tree:
    """Return the tree that halves the rows where the squared error falls most."""
    inner = 2**_DEPTH - 1
    columns = np.zeros(inner, np.int64)
    thresholds = np.full(inner, _BINS)
    node = np.zeros(len(places), np.int64)
    rows = np.arange(len(places))
    for level in range(_DEPTH):
        first, count = 2**level - 1, 2**level
        column, threshold = _best_splits(places, targets, node - first, count)
        columns[first : first + count] = column
        thresholds[first : first + count] = threshold
        node = 2 * node + 1 + (places[rows, columns[node]] > thresholds[node])
    leaf = node - inner
    sizes = np.bincount(leaf, minlength=inner + 1)
    sums = [np.bincount(leaf, column, inner + 1) for column in targets.T]
    return _Tree(columns, thresholds, np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None])


def _best_splits(
    places: np.ndarray, targets: np.ndarray, node: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the column and the threshold for each of `count` nodes."""
    width = places.shape[1]
    shape = (count, width, _BINS)
    keys = (node[:, None] * width + np.arange(width)) * _BINS + places
    flat = keys.ravel()
    sizes = np.bincount(flat, minlength=count * width * _BINS).reshape(shape).cumsum(2)
    whole = sizes[..., -1:]
    gain = np.zeros(shape)
    for column in targets.T:
        weights = np.repeat(column, width)
        sums = np.bincount(flat, weights, count * width * _BINS).reshape(shape).cumsum(2)
        other = sums[..., -1:] - sums
        gain += sums**2 / np.maximum(sizes, 1) + other**2 / np.maximum(whole - sizes, 1)
    gain[(sizes < _LEAST_ROWS) | (whole - sizes < _LEAST_ROWS)] = -1.0
    best = gain.reshape(count, -1).argmax(1)
    column, threshold = np.divmod(best, _BINS)
    nothing = gain.reshape(count, -1).max(1) < 0
    return column, np.where(nothing, _BINS, threshold)
