"""The two usual methods: the peak of the cross-correlation, and a search over ARX models."""

from __future__ import annotations

import numpy as np

from deadtime.identify import Log

_OUTPUT_ORDER = 2
_INPUT_ORDER = 2


def correlation_peak(log: Log, max_delay: int) -> int:
    """Return the lag at which an action and a change of an output correlate most."""
    values = []
    for k in range(max_delay + 1):
        pairs = [
            (actions[: len(change) - k], change[k:])
            for actions, change in _changes(log)
            if len(change) > k
        ]
        values.append(_largest_correlation(*_joined(pairs)) if pairs else 0.0)
    return int(np.argmax(values))


def arx_delay(log: Log, max_delay: int) -> int:
    """Return the lag whose ARX models leave the smallest variance, as MATLAB's `delayest` does.

    Each output has a model of its own: two past values of the output, and the actions at the lag
    and one step before. The logarithms of the variances are added over outputs.
    """
    order = max(_OUTPUT_ORDER, 1)
    losses = []
    for k in range(max_delay + 1):
        first = max(order - 1, k + _INPUT_ORDER - 1)
        rows = [
            _arx_rows(seen, actions, k, first)
            for seen, actions in zip(log.observations, log.actions, strict=True)
            if min(len(actions), len(seen) - 1) > first
        ]
        losses.append(_loss(rows) if rows else np.inf)
    return int(np.argmin(losses))


def _changes(log: Log) -> list[tuple[np.ndarray, np.ndarray]]:
    pairs = zip(log.observations, log.actions, strict=True)
    return [(actions, np.diff(seen, axis=0)[: len(actions)]) for seen, actions in pairs]


def _joined(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([one for one, _ in pairs]), np.concatenate([one for _, one in pairs])


def _largest_correlation(actions: np.ndarray, change: np.ndarray) -> float:
    one, other = actions - actions.mean(0), change - change.mean(0)
    size = np.sqrt((one**2).sum(0))[:, None] * np.sqrt((other**2).sum(0))
    return float(np.abs(one.T @ other / np.where(size > 0, size, np.inf)).max())


def _arx_rows(
    seen: np.ndarray, actions: np.ndarray, k: int, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the next outputs, the past outputs (n, d, 2) and the actions, from row `first` on."""
    rows = np.arange(first, min(len(actions), len(seen) - 1))
    past = np.stack([seen[rows - i] for i in range(_OUTPUT_ORDER)], axis=-1)
    acted = np.concatenate([actions[rows - k - i] for i in range(_INPUT_ORDER)], axis=1)
    return seen[rows + 1], past, acted


def _loss(rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> float:
    following, past, acted = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    ones = np.ones((len(acted), 1))
    if len(acted) < 2 * (acted.shape[1] + _OUTPUT_ORDER + 1):
        return np.inf
    total = 0.0
    for j in range(following.shape[1]):
        features = np.concatenate([ones, past[:, j], acted], axis=1)
        target = following[:, j]
        if target.std() == 0:
            continue
        left = target - features @ np.linalg.lstsq(features, target, rcond=None)[0]
        total += float(np.log(max(left.var(), 1e-12 * target.var())))
    return total
