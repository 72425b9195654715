"""The compiled tabular learner against a plain Python loop of the same algorithm, on one core.

Both run noisy 10×10 mazes; the plain loop (`plain.py`) runs fewer episodes. Rates are environment
steps a second, the median of rounds.
"""

from statistics import median
from time import perf_counter

import numpy as np
from plain import Plain

from deadtime.envs import Maze
from deadtime.learn import QLearning, new_agent, run_episodes
from deadtime.runtime import VIEWS

MAZE = Maze(size=10, noise=0.1).finite()
ROUNDS = 5
EPISODES = 2000
STEP_COST = 1000


def streams():
    return np.random.SeedSequence([0, 0]).generate_state(2, np.uint64)


def steps_of(returns):
    """Return the number of steps: a maze pays -1/1000 a step and 1 for the last."""
    reached = returns > -0.9995
    return float(np.where(reached, (1 - returns) * STEP_COST + 1, STEP_COST).sum())


def ours(agent, delay, episodes=EPISODES):
    new = new_agent(MAZE, VIEWS[agent], delay)
    begin = perf_counter()
    new, returns = run_episodes(MAZE, new, QLearning(), streams(), episodes, learn=True)
    return steps_of(returns.astype(float)) / (perf_counter() - begin), new


def plain(agent, delay, episodes):
    run = Plain(MAZE, VIEWS[agent], delay, streams())
    begin = perf_counter()
    steps = sum(run.episode()[1] for _ in range(episodes))
    return steps / (perf_counter() - begin)


def main():
    print("agent        m   compiled steps/s   plain steps/s   ratio")
    for agent in VIEWS:
        if VIEWS[agent].solves_offline:
            continue
        for delay in (0, 5, 10, 25):
            ours(agent, delay, 2)
            episodes = EPISODES if agent != "distribution" else 200
            fast = median(ours(agent, delay, episodes)[0] for _ in range(ROUNDS))
            slow = median(plain(agent, delay, 20) for _ in range(3))
            print(
                f"{agent:12} {delay:2} {fast:18,.0f} {slow:15,.0f} {fast / slow:7.0f}×", flush=True
            )
    for episodes in (500, 1000, 2000):
        _, agent = ours("augmented", 25, episodes)
        rows = int(agent.table.used[0])
        held = sum(part.nbytes for part in agent.table)
        print(
            f"augmented m=25, {episodes} episodes: {rows:,} pairs, {held / 2**20:.0f} MiB, "
            f"{held / rows:.0f} bytes a pair"
        )


if __name__ == "__main__":
    main()
