"""Nested Gymnasium spaces (Dict, Tuple) as lists of leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gymnasium import spaces


def space_leaves(space: spaces.Space, value: Any) -> Iterator[tuple[spaces.Space, Any]]:
    """Pair each leaf of a (nested) space with the matching part of `value`."""
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            yield from space_leaves(child, value[key])
    elif isinstance(space, spaces.Tuple):
        for child, part in zip(space.spaces, value, strict=True):
            yield from space_leaves(child, part)
    else:
        yield space, value


def from_leaves(space: spaces.Space, leaves: Iterator[Any]) -> Any:
    """Build a value of the (nested) structure of `space` from its leaves, in order.

    This is the inverse of `space_leaves`.
    """
    if isinstance(space, spaces.Dict):
        return {key: from_leaves(child, leaves) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(from_leaves(child, leaves) for child in space.spaces)
    return next(leaves)


def map_leaves(function: Callable[..., Any], space: spaces.Space, *values: object) -> Any:
    """Apply `function` to the matching leaves of `values`, all of the structure of `space`."""
    columns = [[leaf for _, leaf in space_leaves(space, value)] for value in values]
    return from_leaves(space, iter([function(*row) for row in zip(*columns, strict=True)]))


def leaf_spaces(space: spaces.Space) -> list[spaces.Space]:
    """Return the leaves of a (nested) space, in the order of `space_leaves`."""
    if isinstance(space, spaces.Dict):
        return [leaf for child in space.spaces.values() for leaf in leaf_spaces(child)]
    if isinstance(space, spaces.Tuple):
        return [leaf for child in space.spaces for leaf in leaf_spaces(child)]
    return [space]
