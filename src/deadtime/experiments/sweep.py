"""`deadtime sweep`: a user's own comparison from a small TOML file, by the same machinery as the paper's.

    environments = ["noisy-cartpole", "acrobot"]
    agents = ["delayed", "augmented", "oblivious"]
    delays = [0, 5, 15]
    seeds = 5                        # or a list of them
    presets = ["best"]               # of deep agents
    [overrides]                      # whatever `deadtime train` takes
    steps = 50_000
    [overrides.noisy-cartpole]       # for one environment, or one agent
    noise = 0.2

All of it is checked before anything runs; an error names the line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro
from rich.console import Console

from deadtime.agents.presets import LEARNERS
from deadtime.agents.views import VIEWS
from deadtime.envs import nearest
from deadtime.envs.outside import check_imported
from deadtime.experiments import events, own
from deadtime.experiments.runner import Runs, Where, train_missing
from deadtime.experiments.specs import TABULAR, check_seeds
from deadtime.experiments.store import opened
from deadtime.files import whole
from deadtime.training.result import ENVIRONMENTS, Spec, make_spec

USUAL: dict[str, Any] = {
    "environments": [],
    "agents": ["delayed", "augmented", "oblivious"],
    "delays": [0, 5, 15],
    "seeds": 5,
    "presets": ["best"],
    "overrides": {},
}


@dataclass(frozen=True)
class Sweep:
    """Run every environment, agent and delay that a TOML file names, and record them; what is recorded is not run again."""

    file: tyro.conf.Positional[Path]
    """Its keys: environments, agents, delays, seeds, presets, and the table overrides."""
    out: Annotated[str, tyro.conf.arg(metavar="PATH|URL", help_behavior_hint="")] = ""
    """The folder where records are kept, or a URL such as s3://BUCKET/FOLDER; default: the file's name without .toml."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to its folder `tensorboard`."""
    where: tyro.conf.OmitArgPrefixes[Where] = field(default_factory=Where)

    def run(self) -> int:
        """Check everything, then run."""
        if self.file.suffix != ".toml":
            raise ValueError(f"a sweep is described by a file NAME.toml; got {self.file}: rename it")
        runs, place = read(self.file), self.out or str(self.file.with_suffix(""))
        with opened(place) as (out, store):
            lost = train_missing(runs, out, self.where, store, lambda: self._keep_file(out))
            if self.tensorboard:
                events.write_all((spec for spec, _ in runs), out)
            console = Console(emoji=False)
            mine = own.experiments(out)
            for experiment, results in mine:
                console.print(own.printed(experiment, results))
        if mine:
            console.print(f"all of it on a page: deadtime report {place}", soft_wrap=True, highlight=False, markup=False)
        return 1 if lost else 0

    def _keep_file(self, out: Path) -> None:
        """A copy beside the records, in place of an earlier sweep's and of nothing else."""
        copy, text = out / self.file.name, self.file.read_bytes()
        if copy.exists() and not copy.samefile(self.file) and copy.read_bytes() != text:
            read(copy, imports=False)
        out.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or not copy.samefile(self.file):
            with whole(copy) as part:
                part.write_bytes(text)


class Place(NamedTuple):
    """Where in the file something is said."""

    table: str
    key: str
    value: Any = None


def read(path: Path, imports: bool = True) -> Runs:
    """The runs that a file asks for; `imports` says whether those of gym:MODULE:ID may import MODULE."""
    if not path.is_file():
        raise ValueError(f"a sweep is described by a file; there is no {path}: write one, README has an example")
    try:
        text = path.read_text(encoding="utf-8-sig")
        said = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path}: a sweep is a text file in UTF-8: save it as such") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is not TOML, {error}: write keys as `delays = [0, 5]`") from None

    def wrong(place: Place, why: str) -> ValueError:
        return ValueError(f"{path}, line {line_of(text, place)}: {why}")

    for key in said:
        if key not in USUAL:
            raise wrong(Place("", key), f"a sweep has no key {key!r}{nearest(key, USUAL)}: it has {', '.join(USUAL)}")
    if "environments" not in said:
        raise ValueError(f'{path}: a sweep names its environments; got none: write environments = ["noisy-cartpole"], say')
    asked = USUAL | said
    for key, kind, such in (("environments", str, '["acrobot"]'), ("agents", str, '["delayed"]'), ("delays", int, "[0, 5]")):
        _check_list(key, asked[key], kind, such, wrong)
    _check_list("presets", asked["presets"], str, '["best"]', wrong)
    try:
        seeds = check_seeds(asked["seeds"])
    except ValueError as error:
        raise wrong(Place("", "seeds"), str(error)) from None
    if "presets" in said and all(env in TABULAR for env in asked["environments"]):
        raise wrong(Place("", "presets"), "presets are of deep agents, and no environment here has one: leave the key out")
    _check_names(asked, wrong, imports)
    tables = _tables(asked, wrong)
    specs: dict[str, Spec] = {}
    for env, agent, delay, preset in product(asked["environments"], asked["agents"], asked["delays"], asked["presets"]):
        options: dict[str, Any] = {} if env in TABULAR else {"preset": preset}
        places: dict[str, Place] = {}
        for table in ("", env, agent):
            for name, value in tables.get(table, {}).items():
                options[name], places[name] = value, Place(f"overrides.{table}".rstrip("."), name)
        spec = _spec(env, agent, delay, preset, options, places, wrong)
        specs[spec.name] = spec
    return [(spec, seeds) for spec in specs.values()]


def _check_list(key: str, value: Any, kind: type, such: str, wrong: Any) -> None:
    what = "words" if kind is str else "whole numbers"
    good = isinstance(value, list) and value and all(type(one) is kind for one in value)
    if not good:
        raise wrong(Place("", key), f"{key} is a list of {what}, at least one; got {value!r}: write {key} = {such}, say")
    twice = [one for i, one in enumerate(value) if one in value[:i]]
    if twice:
        raise wrong(Place("", key, twice[0]), f"{key} names each once; got {twice[0]!r} twice: leave one out")


def _check_names(asked: dict[str, Any], wrong: Any, imports: bool) -> None:
    for key, names in (("environments", ENVIRONMENTS), ("agents", dict.fromkeys((*VIEWS, *LEARNERS)))):
        for name in asked[key]:
            if name not in names and not (key == "environments" and name.startswith(("gym:", "gymnax:", "atari:"))):
                known = f"no {key[:-1]} is called {name!r}{nearest(name, names)}: choose one of {', '.join(names)}"
                raise wrong(Place("", key, name), known)
    for name in () if imports else asked["environments"]:
        check_imported(name)


def _tables(asked: dict[str, Any], wrong: Any) -> dict[str, dict[str, Any]]:
    """Overrides by what they are for: all (""), an environment or an agent."""
    if not isinstance(asked["overrides"], dict):
        got = asked["overrides"]
        raise wrong(Place("", "overrides"), f"overrides is a table; got {got!r}: write [overrides] and settings below it")
    names = (*asked["environments"], *asked["agents"])
    tables: dict[str, dict[str, Any]] = {"": {}}
    for key, value in asked["overrides"].items():
        if not isinstance(value, dict):
            tables[""][key] = value
        elif key in names:
            tables[key] = value
        else:
            known = f"overrides are for an environment or an agent of this sweep; {key!r} is none{nearest(key, names)}"
            raise wrong(Place("overrides", key), f"{known}: it has {', '.join(names)}")
    for table, settings in tables.items():
        for name, value in settings.items():
            place = Place(f"overrides.{table}".rstrip("."), name)
            if name in ("preset", "seeds", "delay", "agent", "env"):
                raise wrong(place, f"{name} is no setting of a run here: use the sweep's own keys, {', '.join(USUAL)}")
            if not isinstance(value, str | int | float | list):
                raise wrong(place, f"{name} is a number, a word, true, false or a list of such; got {value!r}: write one")
    return tables


def _spec(env: str, agent: str, delay: int, preset: str, options: dict[str, Any], places: dict[str, Place], wrong: Any) -> Spec:
    """One run or, if it is refused, an error at the first thing in the file that makes it so."""
    try:
        return make_spec(env, agent, delay, options)
    except ValueError as error:
        for place, (tried, so_far) in _attempts(env, agent, delay, preset, options, places):
            try:
                make_spec(*tried, so_far)
            except ValueError as found:
                raise wrong(place, str(found)) from None
        raise wrong(Place("", "environments", env), str(error)) from None


def _attempts(
    env: str, agent: str, delay: int, preset: str, options: dict[str, Any], places: dict[str, Place]
) -> Iterator[tuple[Place, tuple[tuple[str, str, int], dict[str, Any]]]]:
    """The run built up from what nothing is wrong with, one thing at a time."""
    so_far: dict[str, Any] = {}
    yield Place("", "environments", env), ((env, "oblivious", 0), {})
    yield Place("", "agents", agent), ((env, agent, 0), {})
    for name, value in options.items():
        so_far[name] = value
        place = Place("", "presets", preset) if name == "preset" else places[name]
        yield place, ((env, agent, 0), dict(so_far))
    yield Place("", "delays", delay), ((env, agent, delay), so_far)


def line_of(text: str, place: Place) -> int:
    """The line where it is said: of the value if one is named and found, else of the key, else of its table."""
    table, best, inside = "", 1, False
    whole_name = f"{place.table}.{place.key}".lstrip(".")
    for number, line in enumerate((re.sub(r"\s#.*|^#.*", "", line) for line in text.splitlines()), 1):
        header = re.match(r"\s*\[{1,2}([^\[\]=]+)\]{1,2}\s*$", line)
        key = re.match(r"\s*([^=\[\]#]+?)\s*=", line)
        if header:
            table, inside = _bare(header[1]), False
            if table in (place.table, whole_name):
                best = number
        elif key:
            name = f"{table}.{_bare(key[1])}".lstrip(".")
            inside = name == whole_name
            if inside or whole_name.startswith(f"{name}."):  # the latter is a table within one line
                best = number
        if inside and (place.value is None or re.search(rf"(?<![\w.:-]){re.escape(str(place.value))}(?![\w.:-])", line)):
            return number
    return best


def _bare(name: str) -> str:
    """A key without its quotes and spaces."""
    return re.sub("[\"'\\s]", "", name)
