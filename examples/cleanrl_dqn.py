"""DQN in one file, in the style of CleanRL: a copy to read and to change.

`cleanrl_dqn_delay.py` beside it is the same agent under a delay, with the parts of Delayed-Q.
"""

import random
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn
from torch.nn import functional


@dataclass
class Args:
    """The settings of a run."""

    env_id: str = "CartPole-v1"
    """The id of the environment."""
    seed: int = 0
    """The seed of the run."""
    total_steps: int = 50_000
    """The number of steps of the environment."""
    learning_rate: float = 1e-3
    """The learning rate of Adam."""
    buffer_size: int = 50_000
    """The number of transitions in the replay buffer."""
    batch_size: int = 64
    """The number of transitions in a batch."""
    gamma: float = 0.99
    """The discount of future rewards."""
    learning_starts: int = 1000
    """The number of steps before the first update."""
    train_frequency: int = 2
    """The number of steps to one update."""
    target_frequency: int = 500
    """The number of steps between two copies to the target network."""
    start_epsilon: float = 1.0
    """The part of random actions at the start."""
    end_epsilon: float = 0.04
    """The part of random actions in the end."""
    exploration_fraction: float = 0.2
    """The part of the steps in which that part falls."""
    evaluation_episodes: int = 10
    """The number of episodes after training."""


class QNetwork(nn.Module):
    """The values of all actions in a state."""

    def __init__(self, env):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(int(np.prod(env.observation_space.shape)), 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, int(env.action_space.n)),
        )

    def forward(self, x):
        return self.layers(x)


class ReplayBuffer:
    """The last transitions, in arrays."""

    def __init__(self, size, env):
        shape = env.observation_space.shape
        self.obs = np.zeros((size, *shape), np.float32)
        self.next_obs = np.zeros((size, *shape), np.float32)
        self.actions = np.zeros(size, np.int64)
        self.rewards = np.zeros(size, np.float32)
        self.terminated = np.zeros(size, np.float32)
        self.size, self.count = size, 0

    def add(self, obs, action, reward, next_obs, terminated):
        i = self.count % self.size
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.actions[i], self.rewards[i], self.terminated[i] = action, reward, terminated
        self.count += 1

    def sample(self, batch_size):
        rows = np.random.randint(0, min(self.count, self.size), batch_size)
        parts = (self.obs, self.actions, self.rewards, self.next_obs, self.terminated)
        return [torch.as_tensor(part[rows]) for part in parts]


def make_env(args):
    return gym.make(args.env_id)


def linear_schedule(start, end, duration, step):
    return max(end, start + (end - start) * step / duration)


def greedy(network, obs):
    with torch.no_grad():
        return int(network(torch.as_tensor(obs)).argmax())


def evaluate(network, env, args):
    returns = []
    for episode in range(args.evaluation_episodes):
        obs, _ = env.reset(seed=10_000 + episode)
        total, ended = 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(greedy(network, obs))
            total, ended = total + reward, terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def train(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = make_env(args)
    network, target = QNetwork(env), QNetwork(env)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=args.learning_rate)
    buffer = ReplayBuffer(args.buffer_size, env)

    obs, _ = env.reset(seed=args.seed)
    total, length = 0.0, 0
    for step in range(args.total_steps):
        duration = args.exploration_fraction * args.total_steps
        epsilon = linear_schedule(args.start_epsilon, args.end_epsilon, duration, step)
        if random.random() < epsilon:
            action = random.randrange(int(env.action_space.n))
        else:
            action = greedy(network, obs)

        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        total += reward
        length += 1
        if terminated or truncated:
            if step % 5000 < length:  # once in 5000 steps
                print(f"step {step}: return {total:.0f}")
            obs, _ = env.reset()
            total, length = 0.0, 0

        if step >= args.learning_starts and step % args.train_frequency == 0:
            seen, actions, rewards, following, ends = buffer.sample(args.batch_size)
            with torch.no_grad():
                best = target(following).max(dim=1).values
                aims = rewards + args.gamma * best * (1 - ends)
            values = network(seen).gather(1, actions.unsqueeze(1)).squeeze(1)
            loss = functional.smooth_l1_loss(values, aims)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        if step % args.target_frequency == 0:
            target.load_state_dict(network.state_dict())

    print(f"mean return of the greedy policy: {evaluate(network, env, args):.1f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(tyro.cli(Args))
