"""Sweep files: a user's own comparison as a small TOML file.

    environments = ["noisy-cartpole", "acrobot"]
    agents = ["delayed", "augmented", "oblivious"]
    delays = [0, 5, 15]
    seeds = 5                        # or a list of them
    presets = ["best"]               # of deep agents
    [overrides]                      # any option of `deadtime train`
    steps = 50_000
    [overrides.noisy-cartpole]       # for one environment, or one agent
    noise = 0.2
    [env_kwargs.noisy-cartpole]      # an environment's own arguments, where names clash
    perturb = "masses"

The whole file is checked before any run starts; an error names the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from deadtime._support.names import nearest
from deadtime.envs.families import family_of
from deadtime.learn.learners import agents_of
from deadtime.learn.settings import FORMER_NAMES
from deadtime.runs.specs import Spec, make_spec
from deadtime.runs.sweep_text import USUAL, Place, Wrong, line_of, parsed, text_of
from deadtime.runs.tabular_specs import check_seeds, is_tabular
from deadtime.runs.wanted import Runs
from deadtime.runtime.views import VIEWS

_TABLE_SETTINGS = 100
_MOST_SETTINGS = 10_000
_MOST_RUNS = 1_000_000


class _Given(NamedTuple):
    """A setting of a run."""

    name: str
    value: Any
    place: Place
    environment: bool = False
    """Whether it is an environment's own argument, from the table `env_kwargs`."""


def read(path: Path, allowed: Collection[str] = (), most: int = _MOST_SETTINGS) -> Runs:
    """Return the runs of a sweep file with at most `most` combinations of its lists.

    An environment gym:MODULE:ID needs MODULE among the modules `allowed`.
    """
    if not path.is_file():
        raise ValueError(
            f"a sweep is described by a file; there is no {path}: write one, README has an example"
        )
    text = text_of(path.resolve())
    content = parsed(text, path)

    def wrong(place: Place, why: str) -> ValueError:
        return ValueError(f"{path}, line {line_of(text, place)}: {why}")

    asked = USUAL | content
    for key, kind, such in (
        ("environments", str, '["acrobot"]'),
        ("agents", str, '["delayed"]'),
    ):
        _check_list(key, asked[key], (kind,), such, wrong)
    _check_list("delays", asked["delays"], (int, str), '[0, 5, "uniform:2-6"]', wrong)
    _check_list("presets", asked["presets"], (str,), '["best"]', wrong)
    seeds = _checked_seeds(asked, most, wrong)
    if "presets" in content and all(is_tabular(env) for env in asked["environments"]):
        raise wrong(
            Place("", "presets"),
            "presets are for deep agents, and no environment here has one: leave the key out",
        )
    _check_names(asked, wrong, allowed)
    overrides = _tables("overrides", asked, (*asked["environments"], *asked["agents"]), wrong)
    arguments = _tables("env_kwargs", asked, asked["environments"], wrong)
    specs: dict[str, Spec] = {}
    for env, agent, delay, preset in product(
        asked["environments"], asked["agents"], asked["delays"], asked["presets"]
    ):
        given = [
            _Given(name, value, Place(f"{key}.{table}".rstrip("."), name), key == "env_kwargs")
            for key, tables in (("env_kwargs", arguments), ("overrides", overrides))
            for table in ("", env, agent)
            for name, value in tables.get(table, {}).items()
        ]
        if not is_tabular(env):
            given.insert(0, _Given("preset", preset, Place("", "presets", preset)))
        spec = _spec(env, agent, delay, _with_names_of_today(env, agent, given, wrong), wrong)
        specs[spec.name] = spec
    return [(spec, seeds) for spec in specs.values()]


def _with_names_of_today(
    env: str, agent: str, given: Sequence[_Given], wrong: Wrong
) -> list[_Given]:
    """Return the settings with former names replaced by the present ones."""
    today: dict[str, str] = {}
    for learner in agents_of(family_of(env)).get(agent, ()):
        today |= FORMER_NAMES.get(learner.settings.kind, {})
    together = {one.place[:2] for one in given}
    found = []
    for one in given:
        name = one.name if one.environment else today.get(one.name, one.name)
        if name != one.name and (one.place.table, name) in together:
            both = f"{one.name} is the former name of {name}, and both are given"
            raise wrong(one.place, f"{both}: leave {one.name} out")
        found.append(one._replace(name=name))
    return found


def _check_list(key: str, value: object, kinds: tuple[type, ...], such: str, wrong: Wrong) -> None:
    """Raise unless a value is a list of the right kinds, at least one and each once."""
    what = "words" if kinds == (str,) else "whole numbers and delay processes"
    if not (isinstance(value, list) and value and all(type(one) in kinds for one in value)):
        raise wrong(
            Place("", key),
            f"{key} is a list of {what}, at least one; got {value!r:.200}: write {key} = {such}, "
            "for example",
        )
    twice = [one for one, times in Counter(value).items() if times > 1]
    if twice:
        raise wrong(
            Place("", key, twice[0]),
            f"{key} names each once; got {twice[0]!r:.200} twice: leave one out",
        )


def _checked_seeds(asked: dict[str, Any], most: int, wrong: Wrong) -> tuple[int, ...]:
    """Return the seeds; raise if the sweep has too many runs, before any is listed."""
    given = asked["seeds"]
    settings = 1
    for key in ("environments", "agents", "delays", "presets"):
        settings *= len(asked[key])
    if settings > most:
        raise wrong(
            Place("", "delays"),
            f"a sweep has at most {most:,} combinations of environments, agents, delays and "
            f"presets; got {settings:,}: divide it into several sweeps",
        )
    if type(given) is int and settings * given > _MOST_RUNS:
        raise wrong(
            Place("", "seeds"),
            f"a sweep has at most {_MOST_RUNS:,} runs; got {settings * given:,}: name fewer seeds",
        )
    try:
        return check_seeds(given)
    except ValueError as error:
        raise wrong(Place("", "seeds"), str(error)) from None


def _check_names(asked: dict[str, Any], wrong: Wrong, allowed: Collection[str]) -> None:
    """Raise if an environment or an agent is unknown, or if a module may not be imported."""
    agents = tuple(VIEWS)
    for name in asked["environments"]:
        try:
            family = family_of(name)
        except ValueError as error:
            raise wrong(Place("", "environments", name), str(error)) from None
        try:
            family.check_import(name, allowed)
        except ValueError as error:
            module = name.partition(":")[2].rpartition(":")[0]
            raise wrong(
                Place("", "environments", name), f"{error}, or pass --allow-import {module:.100}"
            ) from None
    for name in asked["agents"]:
        if name not in agents:
            unknown = f"no agent is called {name!r:.200}{nearest(name, agents)}"
            why = f"{unknown}: choose one of {', '.join(agents)}"
            raise wrong(Place("", "agents", name), why)


def _tables(
    key: str, asked: dict[str, Any], names: Sequence[str], wrong: Wrong
) -> dict[str, dict[str, Any]]:
    """Return the tables of settings below `key`: for all ("") and by environment or agent."""
    if not isinstance(asked[key], dict):
        raise wrong(
            Place("", key),
            f"{key} is a table; got {asked[key]!r:.200}: write [{key}] and settings below it",
        )
    tables: dict[str, dict[str, Any]] = {"": {}}
    for name, value in asked[key].items():
        if not isinstance(value, dict):
            tables[""][name] = value
        elif name in names:
            tables[name] = value
        else:
            kinds = "an environment" if key == "env_kwargs" else "an environment or an agent"
            known = f"{key} are for {kinds} of this sweep; {name!r:.100} is not one"
            raise wrong(
                Place(key, name), f"{known}{nearest(name, names)}: choose one of {', '.join(names)}"
            )
    for table, settings in tables.items():
        if len(settings) > _TABLE_SETTINGS:
            place = Place(key, table)
            raise wrong(
                place,
                f"a table has at most {_TABLE_SETTINGS} settings; got {len(settings):,}: leave "
                "some out",
            )
        for name, value in settings.items():
            place = Place(f"{key}.{table}".rstrip("."), name)
            if key == "overrides" and name in ("preset", "seeds", "delay", "agent", "env"):
                raise wrong(
                    place,
                    f"{name} is no setting of a run here: use the sweep's own keys, "
                    f"{', '.join(USUAL)}",
                )
            if not isinstance(value, str | int | float | list):
                got = "a table" if isinstance(value, dict) else repr(value)
                raise wrong(
                    place,
                    f"{name} is a number, a word, true, false or a list of such; got {got}: "
                    "write one",
                )
    return tables


_REFUSED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""The errors of environments and learners for settings of the wrong kind."""


def _spec(env: str, agent: str, delay: int | str, given: Sequence[_Given], wrong: Wrong) -> Spec:
    """Return the spec of a run, or raise an error at the first place in the file that is wrong."""
    try:
        return _make(env, agent, delay, given)
    except _REFUSED as error:
        for place, attempt in _attempts(env, agent, delay, given):
            try:
                _make(*attempt)
            except _REFUSED as found:
                raise wrong(place, str(found)) from None
        raise wrong(Place("", "environments", env), str(error)) from None


def _make(env: str, agent: str, delay: int | str, given: Sequence[_Given]) -> Spec:
    """Return the spec of a run; later settings replace earlier ones."""
    options = {one.name: one.value for one in given if not one.environment}
    env_kwargs = {one.name: one.value for one in given if one.environment}
    return make_spec(env, agent, delay, options, env_kwargs)


def _attempts(
    env: str, agent: str, delay: int | str, given: Sequence[_Given]
) -> Iterator[tuple[Place, tuple[str, str, int | str, Sequence[_Given]]]]:
    """Yield each place in the file, with the run that all names and settings up to it describe."""
    yield Place("", "environments", env), (env, "oblivious", 0, ())
    yield Place("", "agents", agent), (env, agent, 0, ())
    for number, one in enumerate(given, 1):
        yield one.place, (env, agent, 0, given[:number])
    yield Place("", "delays", delay), (env, agent, delay, given)
