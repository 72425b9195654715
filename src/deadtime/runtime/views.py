"""Views: what an agent is shown when it decides, and which transition it learns from.

An agent is a learner with a view. A view is data, and `VIEWS` is the registry of all of them:

| sees         | the network or table is shown                             |
|--------------|-----------------------------------------------------------|
| "state"      | s_t                                                       |
| "queue"      | s_t and the pending actions                               |
| "prediction" | the forward model's most likely s_{t+m}                   |
| "law"        | the forward model's law of s_{t+m}; Q is averaged over it |
| "history"    | all states of the episode so far, through a memory        |

| credits      | the transition learned at step t                          |
|--------------|-----------------------------------------------------------|
| "chosen"     | (what was seen, a_t, r_t, what is seen next)              |
| "executed"   | (s_t, a_{t-m}, r_t, s_{t+1}) for t ≥ m: the undelayed one |
| "shifted"    | (s_{t-m}, a_{t-m}, r_t, s_{t-m+1}) for t ≥ m              |

The learner decides what it learns from the first m steps, which execute the warm-up. The tabular
forward model learns from every step: a prediction passes through the states of the warm-up. The
deep learner stores an episode's steps from `skipped_delays` × m on (see `settings.DoubleQ`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Sees = Literal["state", "queue", "prediction", "law", "history"]
Credits = Literal["chosen", "executed", "shifted"]
SEES: tuple[Sees, ...] = ("state", "queue", "prediction", "law", "history")
CREDITS: tuple[Credits, ...] = ("chosen", "executed", "shifted")
STATE, QUEUE, PREDICTION, LAW, HISTORY = range(len(SEES))
CHOSEN, EXECUTED, SHIFTED = range(len(CREDITS))


class Code(NamedTuple):
    """A view as two whole numbers, for compiled code; in a shared program each run has its own."""

    sees: Any
    credits: Any

    @property
    def sees_queue(self) -> Any:
        """Whether the pending actions are shown."""
        return self.sees == QUEUE

    @property
    def predicts(self) -> Any:
        """Whether a forward model is needed."""
        return (self.sees == PREDICTION) | (self.sees == LAW)

    @property
    def executed(self) -> Any:
        """Whether the transition of the executed action is learned from."""
        return self.credits == EXECUTED


class Shown(NamedTuple):
    """Inputs of a view of one's own, which sees the queue in another form."""

    size: Callable[[int, int], int]
    """The number of inputs, from the numbers of an observation and the number of actions."""
    inputs: Callable[[Any, Any, Any], Any]
    """The inputs, from an observation, a queue whose last m entries are pending, and m.

    It must work with arrays of NumPy and of JAX, and give `size` numbers.
    """


@dataclass(frozen=True)
class View:
    """What an agent sees and which transition it learns from."""

    sees: Sees
    credits: Credits
    solves_offline: bool = False
    """Whether the agent acts at random first, and then solves its model."""
    shown: Shown | None = None
    """The inputs of a view of one's own; None: those of the table above."""

    @property
    def code(self) -> Code:
        """The view as numbers."""
        return Code(SEES.index(self.sees), CREDITS.index(self.credits))

    @property
    def predicts(self) -> bool:
        """Whether a forward model is needed."""
        return self.code.predicts

    @property
    def sees_queue(self) -> bool:
        """Whether the pending actions are shown."""
        return self.code.sees_queue


VIEWS: dict[str, View] = {
    "delayed": View("prediction", "executed"),
    "augmented": View("queue", "chosen"),
    "oblivious": View("state", "chosen"),
    "shifted": View("state", "shifted"),
    "distribution": View("law", "executed"),
    "mbs": View("prediction", "executed", solves_offline=True),
    "recurrent": View("history", "chosen"),
}
"""The view of each agent; add one here, and the learners that can have it offer the agent."""


def own_inputs(agent: str) -> Shown | None:
    """Return the inputs of an agent whose view has its own, else None."""
    return VIEWS[agent].shown if agent in VIEWS else None
