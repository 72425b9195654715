"""Delays from odd input: text, JSON of strangers, and ages too long for memory."""

import json
import tracemalloc

import numpy as np
import pytest

from deadtime.delays import (
    Categorical,
    GilbertElliott,
    Held,
    PerEpisode,
    RandomWalk,
    Seconds,
    Trace,
    Uniform,
    from_json,
    parse,
    rlrd_wifi,
)

HUGE = 10**12


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(0, 3, in_order="false"),
        lambda: Categorical([0.5, 0.5], in_order=1),
        lambda: Trace([1], repeat="no"),
        lambda: rlrd_wifi(inference="false"),
        lambda: from_json({"kind": "uniform", "low": 0, "high": 3, "in_order": "false"}),
    ],
)
def test_flags_are_true_or_false_and_not_text_which_is_always_true(make):
    with pytest.raises(ValueError, match="is True or False; got"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(0, HUGE),
        lambda: RandomWalk(0, HUGE),
        lambda: Held(0, HUGE),
        lambda: Categorical({HUGE: 1.0}),
        lambda: Trace([HUGE]),
        lambda: Trace(latencies=[HUGE, 0]),
        lambda: parse(f"uniform:0-{HUGE}"),
        lambda: parse("9" * 5000),
        lambda: Seconds(1e300, step=1e-300),
        lambda: Trace(5),
        lambda: parse("rlrd-wifi:other=3"),
        lambda: parse("episode:" * 2000 + "3"),
        lambda: parse("uniform:²-3"),
        lambda: from_json({"kind": ["constant"]}),
        lambda: from_json([]),
        lambda: GilbertElliott(1, GilbertElliott(0, 2, 0.1, 0.1), 0.1, 0.1),
    ],
)
def test_input_that_makes_no_sense_is_refused_with_its_remedy(make):
    with pytest.raises(ValueError, match=": "):
        make()


def test_json_of_a_stranger_that_is_nested_deep_is_refused():
    for innermost in ({"kind": "constant", "delay": 1}, []):
        deep = innermost
        for _ in range(400):
            deep = {"kind": "episode", "process": deep}
        with pytest.raises(ValueError, match="nested at most"):
            from_json(deep)
        with pytest.raises(ValueError, match="nested at most"):
            parse(json.dumps(deep))
    with pytest.raises(ValueError, match="JSON"):
        parse('{"kind":' * 100_000)


def test_json_of_a_stranger_opens_no_file(tmp_path):
    file = tmp_path / "ages.txt"
    file.write_text("1 2 3")
    with pytest.raises(ValueError, match="a trace in JSON has ages and repeat"):
        from_json({"kind": "trace", "file": str(file), "repeat": True})
    assert Trace(file=file) == from_json({"kind": "trace", "ages": [1, 2, 3], "repeat": False})


def test_json_of_a_stranger_constructs_nothing_large():
    tracemalloc.start()
    constant = {"kind": "constant", "delay": 10**8}
    uniform = {"kind": "uniform", "low": 0, "high": 10**8}
    for data in (
        uniform,
        {"kind": "gilbert-elliott", "good": constant, "bad": 0, "to_bad": 0.1, "to_good": 0.1},
        {"kind": "gilbert-elliott", "good": 1, "bad": uniform, "to_bad": 0.1, "to_good": 0.1},
        {"kind": "episode", "process": uniform},
        {"kind": "buffered", "process": uniform, "delay": 10**8},
        {"kind": "trace", "ages": [10**8], "repeat": True},
    ):
        assert from_json(data).longest == 10**8
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**6


def test_a_longest_age_too_large_for_memory_is_refused_before_memory_is_taken(monkeypatch):
    monkeypatch.setattr("deadtime.delays.chain.free_memory", lambda: 10**8)
    long = 10**7
    tracemalloc.start()
    for process in (
        Uniform(0, long),
        Uniform(long, long),
        Uniform(0, long, in_order=False),
        GilbertElliott(1, Uniform(0, long), 0.1, 0.1),
        PerEpisode(Uniform(0, long)),
        RandomWalk(0, long),
        Held(0, long),
    ):
        with pytest.raises(ValueError, match="must fit in memory"):
            _ = process.chain
    for process in (Trace([long]), Trace(latencies=[long]), PerEpisode(long)):
        with pytest.raises(ValueError, match="must fit in memory"):
            _ = process.age_law
    with pytest.raises(ValueError, match="must fit in memory"):
        Categorical({long: 1.0})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < long


@pytest.mark.parametrize(
    ("good", "bad", "to_bad", "to_good", "longest"),
    [
        (2, 0, 1, 0.5, 1),
        (Uniform(1, 5), 2, 1, 0.5, 3),
        (1, Uniform(2, 6), 0.5, 1, 2),
        (Uniform(1, 3), 2, 1, 0.5, 3),
        (1, Uniform(2, 6), 1, 0.5, 6),
        (3, 1, 0.5, 1, 3),
    ],
)
def test_the_longest_age_of_two_channel_states_is_reached(good, bad, to_bad, to_good, longest):
    process = GilbertElliott(good, bad, to_bad=to_bad, to_good=to_good)
    assert process.longest == process.chain.longest == longest
    assert len(process.age_law) == longest + 1
    assert np.isclose(process.age_law.sum(), 1)
    assert process.age_law[-1] > 0
