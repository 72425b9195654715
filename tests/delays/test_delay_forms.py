"""Delays from numbers, text and JSON, and what they refuse."""

import json
import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import deadtime
from deadtime import delays
from deadtime.delays import (
    PROCESSES,
    Buffered,
    Categorical,
    Chain,
    Constant,
    DelayProcess,
    GilbertElliott,
    Held,
    PerEpisode,
    RandomWalk,
    Seconds,
    Trace,
    Uniform,
    as_process,
    from_json,
    mjlab_buffer,
    parse,
    rlrd_wifi,
)

ALL = [
    Constant(5),
    Uniform(2, 6),
    Uniform(2, 6, in_order=False),
    Categorical([0.25, 0.75]),
    RandomWalk(0, 8, move=0.25),
    GilbertElliott(1, Uniform(3, 5), 0.1, 0.3),
    PerEpisode(Uniform(1, 4)),
    PerEpisode(PerEpisode(RandomWalk(0, 2))),
    Trace([2, 0, 1]),
    Trace([2, 0, 1], repeat=True),
    Buffered(Uniform(2, 6), 7),
    Held(0, 3, hold=0.25, period=2),
    Seconds(0.035, step=0.02),
]


@pytest.mark.parametrize("process", ALL, ids=repr)
def test_every_form_gives_the_process_back(process):
    assert eval(repr(process), vars(delays)) == process
    assert from_json(process.to_json()) == process
    assert from_json(json.loads(json.dumps(process.to_json()))) == process
    assert as_process(json.dumps(process.to_json())) == process
    assert pickle.loads(pickle.dumps(process)) == process
    assert hash(from_json(process.to_json())) == hash(process)
    _ = process.chain
    assert "_chain" not in vars(pickle.loads(pickle.dumps(process)))


def test_each_kind_is_registered():
    assert {type(process).kind for process in ALL} == set(PROCESSES)
    assert {type(process) for process in ALL} == set(PROCESSES.values())


@pytest.mark.parametrize(
    ("text", "process"),
    [
        ("5", Constant(5)),
        (" 0 ", Constant(0)),
        ("constant:5", Constant(5)),
        ("uniform:2-6", Uniform(2, 6)),
        ("uniform:2-6,in_order=false", Uniform(2, 6, in_order=False)),
        ("categorical:0/0.25/0.75", Categorical([0, 0.25, 0.75])),
        ("walk:0-8", RandomWalk(0, 8)),
        ("walk:0-8,move=0.3", RandomWalk(0, 8, move=0.3)),
        ("episode:uniform:2-6", PerEpisode(Uniform(2, 6))),
        ("episode:5", PerEpisode(5)),
        ("buffered:8:walk:0-8", Buffered(RandomWalk(0, 8), 8)),
        ("held:0-3,hold=0.25,period=4", Held(0, 3, 0.25, 4)),
        ("seconds:0.035,step=0.02", Seconds(0.035, 0.02)),
        ("rlrd-wifi", rlrd_wifi()),
        ("rlrd-wifi:inference=false", rlrd_wifi(inference=False)),
        ("mjlab-buffer:0-3,hold=0.25,period=4", mjlab_buffer(0, 3, 0.25, 4)),
    ],
)
def test_text_forms(text, process):
    assert parse(text) == as_process(text) == process


@pytest.mark.parametrize(
    "process", [p for p in ALL if not isinstance(p, GilbertElliott | PerEpisode | Trace | Buffered)]
)
def test_str_is_a_text_form(process):
    assert parse(str(process)) == process


def test_numbers_are_constants():
    assert as_process(5) == as_process(np.int64(5)) == Constant(5) == Constant(np.int32(5))
    assert as_process({"kind": "uniform", "low": 2, "high": 6}) == Uniform(2, 6)
    assert deadtime.delays.Constant is Constant
    assert Constant(5).constant == Seconds(0.1, 0.02).constant == 5
    assert Buffered(Uniform(2, 4), 5).constant == 5
    assert Uniform(5, 5).constant is None


@pytest.mark.parametrize(
    ("seconds", "step", "steps"),
    [
        (0.035, 0.02, 2),
        (0.06, 0.02, 3),
        (0.0, 0.02, 0),
        (0.1, 0.1, 1),
        (0.3, 0.1, 3),
        (0.041, 0.02, 3),
    ],
)
def test_seconds_are_rounded_up_to_whole_steps(seconds, step, steps):
    assert Seconds(seconds, step).longest == steps


@dataclass(frozen=True)
class Alternating(DelayProcess):
    """Ages 0 and `late` in turn: a process from outside."""

    late: int = 1
    kind: ClassVar[str] = "alternating"

    def make_chain(self):
        return Chain(np.array([0, self.late]), np.eye(2)[::-1], np.full(2, 0.5))


def test_one_class_from_outside_is_enough(monkeypatch):
    monkeypatch.setitem(PROCESSES, Alternating.kind, Alternating)
    assert parse("alternating:late=3") == from_json(Alternating(3).to_json()) == Alternating(3)
    assert parse("alternating") == Alternating()
    assert Alternating(3).longest == 3
    assert Alternating(3).latency_law is None
    assert sorted(delays.timeline("alternating:late=3", 4).ages) == [0, 0, 3, 3]


class TestTrace:
    def test_ages_from_latencies(self):
        """Message 0 arrives at 3, 1 at 2, 2 at 3, 3 at 8, 4 at 5, 5 at 5; before it the longest."""
        assert Trace(latencies=[3, 1, 1, 5, 1, 0]).ages == (5, 5, 1, 1, 2, 0)
        assert Trace(latencies=[0, 0]).ages == (0, 0)

    def test_file(self, tmp_path):
        file = tmp_path / "delays.txt"
        file.write_text("# ages of one drive\n3 1\n1, 2  # a comment\n")
        assert Trace(file=file) == parse(f"trace:{file}") == Trace([3, 1, 1, 2])
        assert parse(f"trace:{file},repeat=true") == Trace([3, 1, 1, 2], repeat=True)
        assert parse(f"latencies:{file}") == Trace(latencies=[3, 1, 1, 2])
        assert Trace(file=file) == from_json(Trace(file=file).to_json()), "known by its content"

    def test_it_begins_anew_in_each_episode_and_ends(self):
        stream = delays.AgeStream(Trace([3, 1, 2]))
        for _ in range(2):
            assert [stream.start(), stream.advance(), stream.advance()] == [3, 1, 2]
        assert stream.advance(ended=True) == 2
        with pytest.raises(ValueError) as error:
            stream.advance()
        assert str(error.value) == (
            "an episode is no longer than the trace of its delays; got a trace of 3 steps and an "
            "episode that goes on: pass a longer trace, Trace(…, repeat=True), or a time limit of "
            "3 steps"
        )

    def test_a_repeated_trace_begins_again(self):
        assert delays.timeline(Trace([3, 1, 2], repeat=True), 7).ages.tolist() == [
            3,
            1,
            2,
            3,
            1,
            2,
            3,
        ]

    def test_str_tells_traces_apart(self):
        assert str(Trace([1, 2])) != str(Trace([1, 3]))
        assert str(Trace([1, 2])).startswith("trace of 2 steps, ")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "takes one of ages, latencies and file; got none: pass one"),
            ({"ages": [1], "latencies": [1]}, r"got \['ages', 'latencies'\]: pass one"),
            ({"ages": []}, "at least one step; got no ages"),
            (
                {"ages": [1.5]},
                r"ages of a trace are whole numbers of steps, 0 or more; got \[1.5\]",
            ),
            ({"latencies": [2, -1]}, r"latencies of a trace .*; got \[2, -1\]"),
            ({"file": "nowhere.txt"}, "got 'nowhere.txt', which can't be read .*: check its name"),
        ],
    )
    def test_bad_traces(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Trace(**arguments)

    def test_a_file_with_other_things(self, tmp_path):
        (tmp_path / "t.txt").write_text("1 2 0.5")
        with pytest.raises(ValueError, match=r"has '0.5': round its values up"):
            Trace(file=tmp_path / "t.txt")
        (tmp_path / "t.txt").write_text("# nothing")
        with pytest.raises(ValueError, match="a trace has at least one step"):
            Trace(file=tmp_path / "t.txt")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(-1, 3), "low is a whole number of steps, 0 or more; got -1"),
        (lambda: Uniform(1, 2.5), "high is a whole number of steps, 0 or more; got 2.5"),
        (lambda: Uniform(6, 2), "low is at most high, which is included; got low=6, high=2: swap"),
        (lambda: Uniform(True, 2), "low is a whole number of steps, 0 or more; got True"),
        (lambda: Categorical([]), "the law of latencies is a law on 0 outcomes"),
        (lambda: Categorical({}), "the law of latencies is a law on 0 outcomes"),
        (lambda: Categorical([0.5, 0.4]), "sums to 1; got a sum of 0.9: divide the probabilities"),
        (lambda: Categorical([1.5, -0.5]), "got .*: pass none that is negative"),
        (lambda: Categorical({1.5: 1.0}), "latency is a whole number of steps, 0 or more; got 1.5"),
        (lambda: Categorical("abc"), "is a list of probabilities; got 'abc': pass, for example"),
        (lambda: RandomWalk(0, 3, move=0), "move is a probability above 0, at most 1; got 0"),
        (lambda: RandomWalk(0, 3, move=1.5), "move is a probability above 0, at most 1; got 1.5"),
        (lambda: Held(0, 3, hold=1), r"hold is below 1, .*; got 1: use PerEpisode"),
        (lambda: Held(0, 3, hold=-1), "hold is a probability, 0 to 1; got -1"),
        (lambda: Held(0, 3, period=0), "period is a whole number of steps, 1 or more; got 0"),
        (lambda: GilbertElliott(1, RandomWalk(0, 2), 0.1, 0.1), "bad is a number of steps or a"),
        (lambda: GilbertElliott(Uniform(0, 2, False), 1, 0.1, 0.1), "good is a number of steps or"),
        (lambda: GilbertElliott(1, 2, 0, 0.1), "to_bad is a probability above 0, at most 1; got 0"),
        (lambda: GilbertElliott(1, 2, 1, 1), "got to_bad=1, to_good=1: pass smaller"),
        (lambda: Buffered(Uniform(2, 6), 5), "at least the longest age, 6; got 5: pass Buffered"),
        (lambda: Seconds(-1, 0.02), "seconds is a time in seconds, 0 or more; got -1"),
        (lambda: Seconds(0.1, 0), "step is a time in seconds, more than 0; got 0"),
        (lambda: Seconds(float("nan"), 1), "seconds is a time in seconds, 0 or more; got nan"),
        (lambda: Seconds(1e9, 1e-3), "at most 2147483647; got"),
        (lambda: Constant(2.5), "delay is a whole number of steps, 0 or more; got 2.5: pass a"),
        (lambda: as_process((2, 6)), r"got \(2, 6\): for a random delay pass, for example, .*Unif"),
        (lambda: as_process(-1), "delay is a whole number of steps, 0 or more; got -1"),
        (lambda: as_process(None), "delay is a whole number of steps, 0 or more; got None"),
        (lambda: parse("unifrm:2-6"), "got 'unifrm'; did you mean 'uniform'.*: write, for example"),
        (lambda: parse("-1"), "delay is a whole number of steps, 0 or more; got -1"),
        (lambda: parse("uniform:2"), "a range of steps is low-high, two whole numbers; got '2'"),
        (lambda: parse("walk:0-8,mov=1"), "does not fit RandomWalk .*mov"),
        (lambda: parse("walk:0-8,0.3"), "settings of a delay are name=value, .*; got '0.3'"),
        (lambda: parse("walk:0-8,move=fast"), "is a number, true or false; got 'fast'"),
        (lambda: parse("constant:x"), "a constant delay is a whole number of steps; got 'x'"),
        (lambda: parse("categorical:a/b"), "lists the probabilities of 0, 1, … steps; got 'a/b'"),
        (lambda: parse("{bad"), "a delay that begins with { is JSON; got '{bad'"),
        (lambda: from_json({"low": 2}), 'is an object with "kind"; got'),
        (lambda: from_json({"kind": "uniform", "lo": 2}), "does not fit Uniform .*lo"),
    ],
)  # fmt: skip
def test_bad_processes(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class TestPeers:
    def test_rlrds_wifi_with_its_own_loop(self):
        """rlrd: an action sent at step t with latency k is applied from the step after t + k on.

        Their loop is written out here: the environment steps with the action received before, then
        the newest action that has arrived is received.
        """
        probabilities = np.array([0.3082, 0.5927, 0.0829, 0.0075, 0.0031, 0.0056])
        law = probabilities / probabilities.sum()
        np.testing.assert_allclose(rlrd_wifi().latency_law[2:], law)
        np.testing.assert_allclose(rlrd_wifi(inference=False).latency_law[1:], law)
        latencies = np.random.default_rng(0).choice(np.arange(1, 7), 400, p=law)
        received, ages = None, []
        for t in range(400):
            if received is not None:
                ages.append(t - received)  # env.step(next_action), of an action chosen before
            arrived = [s for s in range(t + 1) if s + latencies[s] <= t]
            received = max(arrived) if arrived else received
        ours = Trace(latencies=latencies + 1).ages
        assert ages[10:] == list(ours[-len(ages) :])[10:]

    def test_mjlabs_buffer_with_its_own_loop(self):
        """Lags redrawn every `period` steps, each draw left out with probability `hold`."""
        low, high, hold, period = 1, 3, 0.25, 4
        rng = np.random.default_rng(1)
        lags = np.zeros(3000, int)
        phases = rng.integers(0, period, 3000)
        history = []
        for step in range(40):
            due = (step + phases) % period == 0
            drawn = rng.integers(low, high + 1, 3000)
            lags = np.where(due & (rng.random(3000) >= hold), drawn, lags)
            history.append(lags)
        ours = np.array(
            [
                delays.timeline(mjlab_buffer(low, high, hold, period), 2, seed).ages
                for seed in range(3000)
            ]
        )
        theirs = np.array(history[-2:]).T
        for first in range(low, high + 1):
            for second in range(low, high + 1):
                one, other = ((pair == (first, second)).all(1).mean() for pair in (ours, theirs))
                assert one == pytest.approx(other, abs=5 * np.sqrt(0.25 / 3000))

    def test_mjlabs_default_draws_at_every_step(self):
        assert mjlab_buffer(0, 3) == Held(0, 3, hold=0.0, period=1)
        np.testing.assert_allclose(mjlab_buffer(0, 3).chain.matrix(), 0.25)
