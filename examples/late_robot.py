"""From a log to a robot: find the delay of a machine, train for it, run the policy in real time.

The plant is a Gymnasium environment in another process, behind a link that holds commands and
observations back (`late_plant.py`). Nobody tells the agent for how long. The example

1. drives the plant with random actions for half a minute, and writes a log;
2. identifies the delay from the log;
3. trains an agent for that delay, and exports it;
4. runs the exported policy in a `deadtime.runtime.Controller`, beside the same networks without it,
   which act on the newest observation as if nothing were late.

It writes the returns as a figure, and an episode of each as an animation, to out/.

    python examples/late_robot.py [cartpole|pendulum] [--train-steps N] [--episodes N] [--simulated]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from late_plant import Task
from late_world import Driver, RealTime, Row, SimulatedTime, World
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

import deadtime
from deadtime.runtime import Controller, Policy, load, save

OUT = Path("out")


def angle_and_speed(observation: np.ndarray) -> np.ndarray:
    """Return the state of Pendulum from its observation."""
    return np.array([np.arctan2(observation[1], observation[0]), observation[2]])


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        0.02,
        neutral=(0, 1),
        learn={"env": "cartpole", "agent": "delayed", "steps": 60_000},
        state=np.array,
    ),
    "pendulum": Task(
        "Pendulum-v1",
        0.05,
        neutral=((0.0,),),
        learn={
            "env": "pendulum",
            "agent": "delayed",
            "steps": 15_000,
            "hidden": (64, 64),
            "random_steps": 1000,
        },
        state=angle_and_speed,
        action_latency=0.080,
        observation_latency=0.045,
    ),
}
"""The environments, by the name on the command line."""
LOG_STEPS = 1500
_POINTS = {"textcoords": "offset points"}


def log_of(world: World, steps: int) -> list[Row]:
    """Drive the plant with random actions, and return what was seen and done."""
    space = gym.make(world.task.env).action_space
    space.seed(0)
    driver = Driver(lambda fresh, newest: space.sample())
    world.play(driver, lambda: len(driver.rows) >= steps, seed=1000)
    return driver.rows


def by_episode(rows: list[Row], name: str) -> list[np.ndarray]:
    """Return one column of a log as an array for each episode."""
    episodes = dict.fromkeys(row["episode"] for row in rows)
    return [np.array([row[name] for row in rows if row["episode"] == one]) for one in episodes]


def usual_age(rows: list[Row], period: float) -> int:
    """Return the usual age of observations in steps, by their time stamps."""
    return int(np.median([round((row["now"] - row["stamp"]) / period) for row in rows]))


def controlled(policy: Policy, world: World, age: int) -> tuple[Driver, Controller]:
    """Return a driver with a controller."""
    neutral = world.task.neutral
    how = {"period": world.task.period, "clock": world.clock, "observation_age": age}
    controller = Controller(policy, neutral[0], **how)
    controller.warm()
    pending = [neutral[step % len(neutral)] for step in range(policy.delay)]

    def decide(fresh: Row | None, newest: Row) -> Any:
        if fresh is None:
            return controller.step()
        return controller.step(fresh["observation"], fresh["stamp"])

    return Driver(decide, lambda: controller.reset(pending)), controller


def naive(policy: Policy) -> Driver:
    """Return a driver that acts on the newest observation as if nothing were late."""
    undelayed = policy.at_delay(0)
    return Driver(lambda fresh, newest: undelayed.act(newest["observation"]))


def draw_returns(returns: dict[str, list[float]], title: str, path: Path) -> None:
    """Draw the return of each episode."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, found in enumerate(returns.values()):
        color = ("#0072B2", "#E69F00")[place]
        mean = float(np.mean(found))
        axes.bar(place, mean, 0.5, color=color, alpha=0.35)
        axes.plot(place + np.linspace(-0.15, 0.15, len(found)), found, "o", color=color)
        axes.annotate(f"mean {mean:.0f}", (place, mean), (0, 9), ha="center", **_POINTS)
    axes.set_xticks(range(len(returns)), [*returns])
    axes.set(ylabel="return of an episode", xlim=(-0.6, len(returns) - 0.4))
    axes.margins(y=0.15)
    axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=130)


def animate(task: Task, drivers: dict[str, Driver], path: Path, frames: int = 200) -> None:
    """Draw the last episode of each driver beside the others, every second step."""
    panels = [_pictures(task, name, driver) for name, driver in drivers.items()]
    length = min(max(len(one) for one in panels), frames)
    joined = []
    for at in range(length):
        parts = [one[at] if at < len(one) else _over(one[-1]) for one in panels]
        width, height = parts[0].size
        frame = Image.new("RGB", (width * len(parts), height), "white")
        for place, part in enumerate(parts):
            frame.paste(part, (width * place, 0))
        joined.append(frame.quantize(32))
    times = [round(2000 * task.period)] * (length - 1) + [1500]
    joined[0].save(path, save_all=True, append_images=joined[1:], duration=times, loop=0)


def _over(picture: Image.Image) -> Image.Image:
    """Return the last picture of an episode, marked as such."""
    marked = picture.copy()
    ImageDraw.Draw(marked).text((8, 24), "the episode has ended", "red", font_size=13)
    return marked


def _pictures(task: Task, name: str, driver: Driver) -> list[Image.Image]:
    """Return pictures of a driver's last whole episode, every second step."""
    os.environ |= {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}  # no window, no sound
    env = gym.make(task.env, render_mode="rgb_array")
    env.reset()
    rows = [row for row in driver.rows if row["episode"] == len(driver.returns) - 1]
    found = []
    for number, row in enumerate(rows[::2]):
        env.unwrapped.state = task.state(row["observation"])
        picture = Image.fromarray(env.render()).resize((300, 200))
        words = f"{name}: {2 * number * task.period:.1f} s"
        ImageDraw.Draw(picture).text((8, 6), words, "black", font_size=13)
        found.append(picture)
    return found


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", nargs="?", default="cartpole", choices=TASKS)
    parser.add_argument("--train-steps", type=int, help="default: those of the task")
    parser.add_argument("--log-steps", type=int, default=LOG_STEPS)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--simulated", action="store_true", help="use a simulated clock")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    task = TASKS[asked.task]
    world = SimulatedTime(task) if asked.simulated else RealTime(task)
    OUT.mkdir(exist_ok=True)

    rows = log_of(world, asked.log_steps)
    observations, actions = by_episode(rows, "observation"), by_episode(rows, "action")
    np.savez(
        OUT / "late_robot_log.npz",
        observations=np.concatenate(observations),
        actions=np.concatenate(actions),
        episode=np.array([row["episode"] for row in rows]),
        time=np.array([row["now"] for row in rows]),
    )
    found = deadtime.identify_delay(observations, actions, step=task.period)
    print(found)
    age = usual_age(rows, task.period)
    print(f"an observation is usually {age} steps old when it arrives")

    learn = task.learn if asked.train_steps is None else task.learn | {"steps": asked.train_steps}
    result = deadtime.train(**learn, delay=found.delay)
    print(f"greedy return in training's environment: {result.scores.mean():.0f}")
    policy = load(save(result.policy(), OUT / f"late_{asked.task}.safetensors"))

    acting, controller = controlled(policy, world, age)
    plain = naive(policy)
    drivers = {"delay handled": acting, "newest observation": plain}
    for name, driver in drivers.items():
        world.play(driver, lambda driver=driver: len(driver.returns) >= asked.episodes, seed=0)
        print(f"{name}: returns {', '.join(f'{one:.0f}' for one in driver.returns)}")
        if world.timing is not None:
            print(f"  {world.timing}")
    print(controller.statistics)

    returns = {name: driver.returns for name, driver in drivers.items()}
    title = f"{task.env} in real time, {1 / task.period:.0f} Hz, {found.delay} steps late"
    draw_returns(returns, title, OUT / f"late_{asked.task}_returns.png")
    animate(task, drivers, OUT / f"late_{asked.task}_robot.gif")
    print(f"wrote {OUT}/late_{asked.task}_returns.png and {OUT}/late_{asked.task}_robot.gif")


if __name__ == "__main__":
    main()
