"""A callback that trains a forward model while a Stable-Baselines3 agent trains."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from deadtime.integrations.forward_model import ForwardModel
from deadtime.integrations.sb3.replay import ExecutedReplayBuffer


class LearnForwardModel(BaseCallback):
    """A callback that trains a `ForwardModel` on each step of the environments."""

    def __init__(self, model: ForwardModel, steps_per_update: int = 1):
        """`steps_per_update` is the number of steps of the vector environment per update."""
        super().__init__()
        self.forward_model = model
        self._every = steps_per_update

    def _on_training_start(self) -> None:
        env = self.training_env
        shown = env.get_attr("forward_model") if env.has_attr("forward_model") else []
        if not shown or any(model is not self.forward_model for model in shown):
            raise ValueError(
                "the model that is trained must be the one that predicts, in this process; got "
                f"{env}: wrap each environment, PredictObservation(ActionDelay(env, delay), model),"
                " in a DummyVecEnv if there are several"
            )

        rows = getattr(self.model, "replay_buffer", None)
        if rows is not None and not isinstance(rows, ExecutedReplayBuffer):
            raise ValueError(
                "beside predictions, replay rows hold the executed action and the states that "
                f"occurred; got a {type(rows).__name__}: "
                "pass replay_buffer_class=ExecutedReplayBuffer"
            )

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            self.forward_model.add(
                info["last_observation"], info["executed_action"], info["present_observation"]
            )
        if self.n_calls % self._every == 0:
            self.forward_model.update()
        return True
