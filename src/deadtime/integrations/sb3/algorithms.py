"""Stable-Baselines3's learners with the view `projected`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from deadtime.integrations.sb3.policies import (
    ProjectedDQNPolicy,
    ProjectedQNetwork,
    ProjectedSACPolicy,
    ProjectedTD3Policy,
)
from deadtime.integrations.sb3.replay import ProjectedReplayBuffer


def _named(policy: type[BasePolicy]) -> dict[str, type[BasePolicy]]:
    """Return the names of a policy; an environment with a Dict is refused by `_shown`."""
    return {"MlpPolicy": policy, "MultiInputPolicy": policy}


class _Projected:
    """Mixin that gives a learner the rows and the policy of `projected`."""

    def _setup_model(self) -> None:
        model: Any = self
        if model.replay_buffer_class not in (None, ProjectedReplayBuffer):
            raise ValueError(
                "projected has a replay buffer of its own; got "
                f"replay_buffer_class={model.replay_buffer_class.__name__}: leave it out"
            )
        model.replay_buffer_class = ProjectedReplayBuffer
        if model.env is not None:
            shown = _shown(model.env)
            model.policy_kwargs = {**model.policy_kwargs, "state_size": shown["state_size"]}
            model.replay_buffer_kwargs = {**model.replay_buffer_kwargs, **shown}
        n_steps = model.n_steps
        model.n_steps = 1  # else Stable-Baselines3 warns that a custom buffer ignores it
        rows = {"n_steps": n_steps, "gamma": model.gamma}
        model.replay_buffer_kwargs = {**model.replay_buffer_kwargs, **rows}
        super()._setup_model()  # type: ignore[misc]
        model.n_steps = n_steps


def _shown(env: VecEnv) -> dict[str, Any]:
    """Return what the replay buffer must know of the delays in a vector environment."""
    if not env.has_attr("augmentation") or not isinstance(env.observation_space, spaces.Box):
        raise ValueError(
            "projected decides from the observation and the pending actions in one vector; got "
            f"observations {env.observation_space}: wrap each environment, "
            "AugmentObservation(ActionDelay(env, delay), flat=True)"
        )
    first, *others = env.get_attr("knowledge")
    for other in others:
        if (other.process, other.observed) != (first.process, first.observed):
            raise ValueError(
                "the environments of one agent have the same delay; got "
                f"{first.process} observed {first.observed!r} and {other.process} observed "
                f"{other.observed!r}: pass the same delay to each ActionDelay"
            )
    augmentation = env.get_attr("augmentation")[0]
    if augmentation.observation_delay:
        raise ValueError(
            "projected takes a delay of actions alone; got a delay of observations of "
            f"{augmentation.observation_delay}: use one ActionDelay with the sum of both"
        )
    return {
        "state_size": augmentation.observation_size,
        "constant_delay": first.longest if first.constant else None,
        "sees_next_age": first.observed == "now",
    }


class ProjectedSAC(_Projected, SAC):
    """SAC whose actor decides from (s, queue) and whose critic values states (BPQL's rule)."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = _named(ProjectedSACPolicy)


class ProjectedTD3(_Projected, TD3):
    """TD3 whose actor decides from (s, queue) and whose critic values states."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = _named(ProjectedTD3Policy)


class ProjectedDQN(_Projected, DQN):
    """DQN with values of states, and a projection of them to (s, queue) that chooses actions."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = _named(ProjectedDQNPolicy)
    q_net: ProjectedQNetwork
    q_net_target: ProjectedQNetwork

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Fit Q to executed transitions, and F to Q at the state where the action was executed."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            rows = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            loss, misfit = self._losses(rows)
            losses.append(loss.item())
            self.policy.optimizer.zero_grad()
            (loss + misfit).backward()
            self._clip_gradients()
            self.policy.optimizer.step()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))

    def _losses(self, rows: ReplayBufferSamples) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of Q and the loss of F.

        F chooses the next action of a target, as it chooses all actions. Where F is Q, the target
        network chooses, as in DQN.
        """
        now, then = rows.observations, rows.next_observations
        actions = rows.actions.long()
        with torch.no_grad():
            choosing = self.q_net_target if self.q_net.projection is None else self.q_net
            chosen = choosing.projected(then.seen).argmax(dim=1, keepdim=True)
            if then.fixed is not None:
                chosen = torch.where(then.fixed, then.action.long(), chosen)
            next_values = torch.gather(self.q_net_target(then.state), dim=1, index=chosen)
            discounts = self.gamma if rows.discounts is None else rows.discounts
            target = rows.rewards + (1 - rows.dones) * discounts * next_values
        values = self.q_net(now.state)
        loss = functional.smooth_l1_loss(torch.gather(values, dim=1, index=actions), target)
        if self.q_net.projection is None:
            return loss, torch.zeros_like(loss)
        misfits = (self.q_net.projected(now.seen) - values.detach()).square().mean(dim=1)
        if now.fixed is not None:
            misfits = misfits * ~now.fixed.reshape(-1)
        return loss, misfits.mean()

    def _clip_gradients(self) -> None:
        """Clip the gradients of Q, and separately those of F, as DQN clips its own."""
        projection = self.q_net.projection
        apart = [] if projection is None else list(projection.parameters())
        known = {id(parameter) for parameter in apart}
        rest = [weights for weights in self.policy.parameters() if id(weights) not in known]
        for weights in (rest, apart):
            if weights:
                clip_grad_norm_(weights, self.max_grad_norm)
