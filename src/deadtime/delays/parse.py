"""The registry of delay processes, and delays from numbers, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from deadtime.delays.ages import Held, PerEpisode, RandomWalk
from deadtime.delays.constant import Buffered, Constant, Seconds
from deadtime.delays.convention import check_delay
from deadtime.delays.messages import Categorical, GilbertElliott, Uniform
from deadtime.delays.peers import mjlab_buffer_from_text, rlrd_wifi_from_text
from deadtime.delays.process import DelayProcess
from deadtime.delays.trace import Trace, latencies_from_text

Delay = int | DelayProcess
"""A delay: a constant number of steps, or a process."""
DelayLike = Delay | str | Mapping[str, Any]
"""A delay, or its form as text or as JSON."""

PROCESSES: dict[str, type[DelayProcess]] = {
    kind.kind: kind
    for kind in (
        Constant,
        Uniform,
        Categorical,
        RandomWalk,
        GilbertElliott,
        PerEpisode,
        Trace,
        Buffered,
        Held,
        Seconds,
    )
}
"""The classes of delay processes by their `kind`. ``PROCESSES["mine"] = Mine`` adds
yours.
"""

_DEEPEST = 32

_NAMED: dict[str, Callable[[str], DelayProcess]] = {
    "latencies": latencies_from_text,
    "rlrd-wifi": rlrd_wifi_from_text,
    "mjlab-buffer": mjlab_buffer_from_text,
}
"""Text forms that stand for a process of another kind."""


def as_process(delay: DelayLike) -> DelayProcess:
    """Return the process that `delay` stands for: a process, a whole number, text or JSON.

    ``as_process(5)``, ``as_process("5")`` and ``as_process("constant:5")`` are all ``Constant(5)``.
    """
    if isinstance(delay, DelayProcess):
        return delay
    if isinstance(delay, str):
        return parse(delay)
    if isinstance(delay, Mapping):
        return from_json(delay)
    if delay is None or isinstance(delay, bool | int | float | np.generic):
        return Constant(check_delay(delay))
    raise ValueError(
        "a delay is a whole number of steps, 0 or more, or a process of deadtime.delays; "
        f"got {delay!r}: for a random delay pass, for example, deadtime.delays.Uniform(2, 6)"
    )


def as_delay(delay: DelayLike) -> Delay:
    """Return a constant delay as a number, and any other delay as its process."""
    process = as_process(delay)
    return process if process.constant is None else process.constant


def parse(text: str) -> DelayProcess:
    """Return the process of a text form: ``5``, ``uniform:2-6``, ``walk:0-8``, ``trace:FILE``, …,
    or JSON.

    ``episode:FORM`` holds one age per episode. ``buffered:8:FORM`` waits until each age is 8.
    """
    given = text.strip()
    number = _number(given)
    if number is not None:
        return Constant(check_delay(number))
    if given.startswith("{"):
        return _from_json_text(given)
    if given.count("episode:") + given.count("buffered:") > _DEEPEST:
        raise ValueError(
            f"a delay is nested at most {_DEEPEST} deep; got {given[:40]!r} …: write it with fewer "
            "processes inside one another"
        )
    kind, _, rest = given.partition(":")
    if kind == PerEpisode.kind and rest:
        return PerEpisode(parse(rest))
    if kind == Buffered.kind and rest:
        steps, _, form = rest.partition(":")
        return Buffered(parse(form), Constant.from_text(steps).delay)
    known = _NAMED.get(kind)
    name = kind if known else _class_of(kind).__name__
    try:
        return known(rest) if known else _class_of(kind).from_text(rest)
    except TypeError as error:
        raise ValueError(f"{given!r} does not fit {name} ({error}): see deadtime.delays") from None


def from_json(data: Mapping[str, Any]) -> DelayProcess:
    """Return the process that `DelayProcess.to_json` wrote."""
    _check_depth(data)
    return _from_mapping(data)


def _check_depth(data: object) -> None:
    level: list[Any] = [data] if isinstance(data, Mapping) else []
    for _ in range(_DEEPEST):
        inner = (value.values() if isinstance(value, Mapping) else value for value in level)
        level = [part for parts in inner for part in parts if isinstance(part, Mapping | list)]
        if not level:
            return
    raise ValueError(
        f"a delay in JSON is nested at most {_DEEPEST} deep; got more: write it with fewer "
        "processes inside one another"
    )


def _from_mapping(data: Mapping[str, Any]) -> DelayProcess:
    if not isinstance(data, Mapping) or "kind" not in data:
        raise ValueError(
            f'a delay in JSON is an object with "kind"; got {data!r}: write '
            f'{{"kind": "constant", "delay": 5}}'
        )
    values = {name: _from_plain(value) for name, value in data.items() if name != "kind"}
    kind = _class_of(data["kind"])
    try:
        return kind.from_json_values(values)
    except TypeError as error:
        raise ValueError(
            f"{dict(data)!r} does not fit {kind.__name__} ({error}): see "
            f"deadtime.delays.{kind.__name__}"
        ) from None


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _from_plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return _from_mapping(value)
    return tuple(_from_plain(part) for part in value) if isinstance(value, list) else value


def _from_json_text(text: str) -> DelayProcess:
    try:
        return from_json(json.loads(text))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"a delay that begins with {{ is JSON; got {text[:200]!r} ({error}): correct it"
        ) from None


def _class_of(kind: object) -> type[DelayProcess]:
    if isinstance(kind, str) and kind in PROCESSES:
        return PROCESSES[kind]
    known = [*PROCESSES, *_NAMED]
    close = get_close_matches(str(kind), known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"a delay is a whole number of steps or one of {', '.join(known)}; got {kind!r}{hint}: "
        "write, for example, 5 or uniform:2-6"
    )
