# The first use of a target makes .venv; later ones reuse it until pyproject.toml or constraints.txt changes.
PYTHON ?= python3
EXTRAS ?= dev
comma := ,
BIN := .venv/bin
NEWEST := .venv-newest/bin
# Several test processes share the cores, and threads of OpenBLAS would only wait for each other.
ALONE = OPENBLAS_NUM_THREADS=1
# JAX of constraints.txt compiles in a third of the time with this option; an unknown one is an error.
# `test-all` and `test-newest` compile as users do.
QUICKLY = $(ALONE) XLA_FLAGS="$$XLA_FLAGS --xla_cpu_use_fusion_emitters=false"
READY = .venv/.ready-$(subst $(comma),-,$(EXTRAS))

.PHONY: check demo docs test test-all test-newest smoke lint bench benchmarks clean

demo: .venv/.ready-learn
	$(BIN)/python examples/late_cartpole.py

# The site, into out/docs. A warning is an error.
docs: .venv/.ready-docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs out/docs
	@echo "open out/docs/index.html"

check: $(READY)
	$(QUICKLY) $(BIN)/python -m pytest -n 2 -m "not slow and not full"

test: $(READY)
	$(QUICKLY) $(BIN)/python -m pytest -n 4 --dist loadgroup

test-all: $(READY)
	$(ALONE) $(BIN)/python -m pytest -n 4 --dist loadgroup -m "full or not full"

# The second install brings what `pip install deadtime` brings: it goes past the caps of the extras (gymnax has
# gymnasium<1.4, moviepy pillow<12), about which pip complains without failing.
test-newest:
	$(PYTHON) -m venv .venv-newest
	$(NEWEST)/pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager --editable '.[$(EXTRAS)]'
	$(NEWEST)/pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager --editable .
	$(ALONE) $(NEWEST)/python -m pytest -n 4 --dist loadgroup

smoke: $(READY)
	$(QUICKLY) $(BIN)/deadtime reproduce all --smoke

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench:
	$(MAKE) benchmarks EXTRAS=dev,sb3

benchmarks: $(READY)
	$(BIN)/python benchmarks/environments.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/tabular.py
	$(BIN)/python benchmarks/random_delays.py
	$(BIN)/python benchmarks/deep.py
	$(BIN)/python benchmarks/continuous.py
	$(BIN)/python benchmarks/atari.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/estimates.py
	$(BIN)/python benchmarks/runtime.py

clean:
	rm -rf .venv .venv-newest out

.venv/.ready-%: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(subst -,$(comma),$*)]'
	touch $@
