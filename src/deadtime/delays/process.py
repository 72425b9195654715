"""The interface of a delay process. A new process is one class with a method `make_chain`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from deadtime.delays.chain import Chain
from deadtime.delays.convention import LONGEST


@dataclass(frozen=True)
class DelayProcess(ABC):
    """A random sequence of ages z_0, z_1, …: step t reads the item of age z_t, the one made at step
    t - z_t.

    A process is a frozen dataclass, so it can be compared, hashed, pickled and printed. Its fields
    are numbers, tuples of numbers or other processes. `kind` is its name in JSON and text, and its
    key in `deadtime.delays.PROCESSES`.
    """

    kind: ClassVar[str]

    @abstractmethod
    def make_chain(self) -> Chain:
        """Return the process as a Markov chain of the channel."""

    @property
    def chain(self) -> Chain:
        """The process as a Markov chain of the channel, made when it is first used."""
        made: Chain | None = self.__dict__.get("_chain")
        if made is None:
            made = self.make_chain()
            self.__dict__["_chain"] = made
        return made

    @property
    def longest(self) -> int:
        """The longest age, K: how many past actions must be kept."""
        return self.chain.longest

    @property
    def constant(self) -> int | None:
        """The delay m if the channel is constant by construction, else None."""
        return None

    @property
    def age_law(self) -> np.ndarray:
        """The stationary probability of each age 0 … K; for a trace, the frequency of each age."""
        return self.chain.age_law

    @property
    def latency_law(self) -> np.ndarray | None:
        """The probability of each latency 0, 1, … of a message; None for a process that is stated
        by its ages.
        """
        return None

    @property
    def mean_age(self) -> float:
        """The mean of the age law."""
        return float(np.arange(len(self.age_law)) @ self.age_law)

    def to_json(self) -> dict[str, Any]:
        """Return the process as plain data for `deadtime.delays.from_json`."""
        own = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"kind": self.kind, **own}

    @classmethod
    def from_json_values(cls, values: dict[str, Any]) -> DelayProcess:
        """Return the process with these fields, which come from JSON."""
        return cls(**values)

    @classmethod
    def from_text(cls, text: str) -> DelayProcess:
        """Parse the part of the text form after "kind:", by default ``field=value,field=value``."""
        return cls(**named_values(text))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the chain, which is computed again."""
        return {name: value for name, value in self.__dict__.items() if name != "_chain"}

    def __deepcopy__(self, memo: dict[int, Any]) -> DelayProcess:
        """Return the process itself, which never changes."""
        return self


def _plain(value: object) -> Any:
    if isinstance(value, DelayProcess):
        return value.to_json()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def named_values(text: str) -> dict[str, Any]:
    """Return the values in ``name=value,name=value``: whole numbers, numbers, true or false."""
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(
                f"settings of a delay are name=value, separated by commas; got {part!r}: "
                "write, for example, move=0.3"
            )
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(
        f"a setting of a delay is a number, true or false; got {text!r}: write a number"
    )


def split_text(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``2-6,in_order=false`` into its first part and the named values after it."""
    first, *rest = text.split(",")
    return first, named_values(",".join(rest))


def span(text: str, example: str) -> tuple[int, int]:
    """Return the two numbers of ``low-high``."""
    low, dash, high = text.partition("-")
    if not (dash and low.strip().isdecimal() and high.strip().isdecimal()):
        raise ValueError(
            f"a range of steps is low-high, two whole numbers; got {text!r}: write, for example, "
            f"{example}"
        )
    return int(low), int(high)


def check_steps(value: object, name: str, least: int = 0) -> int:
    """Return `value` as an int, or raise if it is not a whole number of steps, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        fraction = isinstance(value, float | np.floating) and 0 < value < 1
        how = (
            "; divide a time in seconds by the duration of a step, and round up" if fraction else ""
        )
        raise ValueError(
            f"{name} is a whole number of steps, {least} or more; got {value!r}: pass a whole "
            f"number{how}"
        )
    if value > LONGEST:
        raise ValueError(f"{name} is at most {LONGEST} steps; got {value!r}: pass a smaller number")
    return int(value)


def check_range(low: object, high: object) -> tuple[int, int]:
    """Return both bounds as ints, or raise if they are not whole numbers with low ≤ high."""
    least, most = check_steps(low, "low"), check_steps(high, "high")
    if least > most:
        raise ValueError(
            f"low is at most high, which is included; got low={least}, high={most}: swap them"
        )
    return least, most


def check_probability(value: float, name: str, positive: bool = False) -> float:
    """Return `value` as a float, or raise if it is not a probability; `positive` excludes 0."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1 or (positive and value == 0):
        rule = "a probability above 0, at most 1" if positive else "a probability, 0 to 1"
        raise ValueError(f"{name} is {rule}; got {value!r}: pass a number in this range")
    return float(value)


def check_flag(value: object, name: str) -> bool:
    """Return `value` as a bool, or raise if it is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is True or False; got {value!r}: pass one of them, not text")
    return bool(value)


def set_fields(process: DelayProcess, /, **values: object) -> None:
    """Set fields of a frozen process in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(process, name, value)
