"""Views: the input of an agent's decisions, and the transition that it learns from.

An agent is a learner with a view. A view is data, and `VIEWS` is the registry of all views:

| sees         | the input of the network or table                         |
|--------------|-----------------------------------------------------------|
| "state"      | s_t                                                       |
| "queue"      | s_t and the pending actions                               |
| "prediction" | the forward model's most likely s_{t+m}                   |
| "law"        | the forward model's law of s_{t+m}; Q is averaged over it |
| "history"    | all states of the episode so far, through a memory        |

| credits      | the transition learned at step t                          |
|--------------|-----------------------------------------------------------|
| "chosen"     | (input at t, a_t, r_t, input at t+1)                      |
| "executed"   | (s_t, a_{t-m}, r_t, s_{t+1}) for t ≥ m: the undelayed one |
| "shifted"    | (s_{t-z}, a_{t-z}, r_t, s_{t+1-z'}) for t ≥ z, z and z' the |
|              | ages of this step and the next; constant: s_{t-m+1}       |

| values   | the input of the values                                       |
|----------|---------------------------------------------------------------|
| "inputs" | that of the decisions                                         |
| "state"  | s_t, while decisions have the input of `sees`: the row of an  |
|          | executed action then has the (s, queue) it was decided from   |

The first m steps execute the warm-up, and each learner treats them in its own way. The tabular
forward model learns from every step, because predictions pass through the states of the warm-up.
The deep learner stores the steps of an episode from `skipped_delays` × m on (see
`settings.DoubleQ`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Sees = Literal["state", "queue", "prediction", "law", "history"]
Credits = Literal["chosen", "executed", "shifted"]
Values = Literal["inputs", "state"]
SEES: tuple[Sees, ...] = ("state", "queue", "prediction", "law", "history")
CREDITS: tuple[Credits, ...] = ("chosen", "executed", "shifted")
STATE, QUEUE, PREDICTION, LAW, HISTORY = range(len(SEES))
CHOSEN, EXECUTED, SHIFTED = range(len(CREDITS))


class Code(NamedTuple):
    """A view as whole numbers, for compiled code that runs of several views share."""

    sees: Any
    credits: Any
    projects: Any = False
    """Whether values are of states, and decisions of other inputs."""

    @property
    def sees_queue(self) -> Any:
        """Whether the agent sees the pending actions."""
        return self.sees == QUEUE

    @property
    def values_queue(self) -> Any:
        """Whether the values see the pending actions."""
        return self.sees_queue & (self.projects == 0)

    @property
    def predicts(self) -> Any:
        """Whether the agent needs a forward model."""
        return (self.sees == PREDICTION) | (self.sees == LAW)

    @property
    def executed(self) -> Any:
        """Whether the agent learns from the transition of the executed action."""
        return self.credits == EXECUTED


class Shown(NamedTuple):
    """Custom inputs of a view, which sees the queue in another form."""

    size: Callable[[int, int], int]
    """A function that returns the number of inputs.

    Its arguments are the length of an observation and the number of actions.
    """
    inputs: Callable[[Any, Any, Any], Any]
    """A function that returns the inputs, `size` numbers.

    Its arguments are an observation, a queue whose last m entries are pending, and m. It must work
    with arrays of NumPy and of JAX.
    """


@dataclass(frozen=True)
class View:
    """The input of an agent's decisions, and the transition that it learns from."""

    sees: Sees
    credits: Credits
    solves_offline: bool = False
    """Whether the agent first acts at random, and then solves its model."""
    shown: Shown | None = None
    """Custom inputs; None for those of the table above."""
    values: Values = "inputs"
    """The input of the values: that of the decisions, or the state."""

    @property
    def code(self) -> Code:
        """The view as numbers."""
        return Code(SEES.index(self.sees), CREDITS.index(self.credits), self.projects)

    @property
    def predicts(self) -> bool:
        """Whether the agent needs a forward model."""
        return self.code.predicts

    @property
    def sees_queue(self) -> bool:
        """Whether the agent sees the pending actions."""
        return self.code.sees_queue

    @property
    def shows_ages(self) -> bool:
        """Whether networks see the age that the agent knows, if the delay varies.

        Custom inputs show the queue alone.
        """
        return self.sees_queue and self.shown is None

    @property
    def projects(self) -> bool:
        """Whether values are of states, and decisions of other inputs."""
        return self.values == "state"


VIEWS: dict[str, View] = {
    "delayed": View("prediction", "executed"),
    "augmented": View("queue", "chosen"),
    "projected": View("queue", "executed", values="state"),
    "oblivious": View("state", "chosen"),
    "shifted": View("state", "shifted"),
    "distribution": View("law", "executed"),
    "mbs": View("prediction", "executed", solves_offline=True),
    "recurrent": View("history", "chosen"),
}
"""The view of each agent. Learners that support a view offer the agent."""
BUILT_IN = frozenset(VIEWS)
"""The agents that are part of deadtime."""


def own_inputs(agent: str) -> Shown | None:
    """Return the custom inputs of an agent's view, or None."""
    return VIEWS[agent].shown if agent in VIEWS else None
