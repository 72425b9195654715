"""The plant, the link and the loop of `examples/late_robot.py`, with a simulated clock."""

import sys
from pathlib import Path

import numpy as np
import pytest

import deadtime

ROOT = Path(__file__).parents[1]
POLICY = ROOT / "results/paper/cartpole-delayed-m5-best-0a5d884a5f51"
"""A recorded policy for a delay of 5."""


@pytest.fixture
def robot(monkeypatch):
    """The example as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import late_robot

    yield late_robot
    for name in ("late_robot", "late_world", "late_plant"):
        sys.modules.pop(name, None)


def test_a_link_holds_each_message_for_its_latency(robot):
    latencies = iter([0.5, 0.1, 0.1])
    link = sys.modules["late_plant"].Link(lambda: next(latencies))
    for message in "abc":
        link.put(message, 1.0)
    assert [link.take(now) for now in (1.05, 1.1, 1.3, 1.5)] == [[], ["b", "c"], [], ["a"]]


def test_datagrams_cross_the_loopback_interface(robot):
    """An end learns the other's port from the first datagram."""
    plant = sys.modules["late_plant"]
    agent = plant.UdpWire()
    machine = plant.UdpWire(other=agent.port)
    agent.send({"lost": True})  # nobody is known yet
    for sender, receiver in ((machine, agent), (agent, machine)):
        sender.send({"action": [0.5]})
        while not (found := receiver.receive()):
            pass
        assert found == [{"action": [0.5]}]
    agent.close()
    machine.close()


def test_the_delay_is_found_in_the_log(robot):
    """Latencies of 30 and 50 ms at 50 Hz are 5 steps, 2 of them before the agent sees."""
    world = robot.SimulatedTime(robot.TASKS["cartpole"])
    rows = robot.log_of(world, 1000)
    assert robot.usual_age(rows, 0.02) == 2
    columns = [robot.by_episode(rows, name) for name in ("observation", "action")]
    assert deadtime.identify_delay(*columns).delay == 5


def test_a_plant_executes_each_action_five_steps_late(robot):
    """The plant's physics follow from the log: observation, actions, five steps."""
    import gymnasium as gym

    world = robot.SimulatedTime(robot.TASKS["cartpole"])
    rows = robot.log_of(world, 200)
    env = gym.make("CartPole-v1").unwrapped
    env.reset()
    checked = 0
    for seen, actions in zip(
        robot.by_episode(rows, "observation"), robot.by_episode(rows, "action"), strict=True
    ):
        for t in range(5, len(seen) - 1):
            env.state = seen[t].astype(np.float64)
            after, *_ = env.step(int(actions[t - 5]))
            np.testing.assert_allclose(seen[t + 1], after, rtol=1e-4, atol=1e-5)
            checked += 1
    assert checked > 50


@pytest.mark.slow
def test_the_controller_handles_the_delay(robot, tmp_path):
    world = robot.SimulatedTime(robot.TASKS["cartpole"])
    policy = deadtime.load(POLICY)
    acting, controller = robot.controlled(policy, world, 2)
    plain = robot.naive(policy)
    for driver in (acting, plain):
        world.play(driver, lambda driver=driver: len(driver.returns) == 2, seed=0)
    assert acting.returns == [500, 500]
    assert max(plain.returns) < 50
    counted = controller.statistics
    assert counted.ages == (0, 0, counted.steps)
    assert counted.nan == counted.invalid == counted.late == counted.skipped == 0
    returns = {"with": acting.returns, "without": plain.returns}
    robot.draw_returns(returns, "CartPole", tmp_path / "returns.png")
    robot.animate(world.task, {"with": acting, "without": plain}, tmp_path / "robot.gif", frames=5)
    assert (tmp_path / "returns.png").stat().st_size > 5_000
    assert (tmp_path / "robot.gif").read_bytes().startswith(b"GIF")
