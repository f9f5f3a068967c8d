# whence: two commands on a fresh machine are `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DATA   ?= data

.PHONY: demo test test-gpu check lint types zoo bench tables language floors docs dist clean help

help:            ## what can be made
	@grep -E '^[a-z]+: .*##|^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)   ## explain a sentence with the bundled model
	$(BIN)/whence explain "a gorgeous, witty, seductive movie"

test: $(VENV)/.doors ## run the tests
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

$(VENV)/.doors: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[doors]'
	touch $@

test-gpu: $(STAMP) ## the same questions on a GPU
	HF_HUB_OFFLINE=1 $(BIN)/python -m tests.gpu

check: lint types ## lint and types

lint: $(STAMP)
	$(BIN)/ruff check src tests zoo benchmarks training examples docs
	$(BIN)/ruff format --check src tests zoo benchmarks training examples docs

types: $(STAMP)
	$(BIN)/mypy

zoo: $(STAMP)    ## explain every architecture of transformers; writes docs/coverage.md
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m zoo --write docs/coverage.md

bench: $(STAMP)  ## speed and memory as ratios; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks.speed --write docs/benchmarks.md
	$(BIN)/python -m benchmarks.attention --write docs/benchmarks_attention.md
	$(BIN)/python -m benchmarks.shap_speed
	$(BIN)/python -m benchmarks.evaluation_speed
	$(BIN)/python -m benchmarks.costs --write benchmarks/results/costs.json

tables: $(STAMP) ## the papers' tables on real data (DATA=, TEACHER=, JOBS=, QUICK=1); writes docs/results.md
	$(BIN)/python -m benchmarks.tables --data $(DATA) --teacher $(TEACHER) --jobs $(or $(JOBS),1) $(if $(QUICK),--quick)

language: $(STAMP) ## language models against an answer key (DATA=, LLM= a folder); writes docs/results_language.md
	$(BIN)/python -m benchmarks.language --data $(DATA) --model $(LLM)

floors:          ## the wheel in empty environments: no extra, each extra, lowest and newest versions (TORCH=2.13.0)
	$(PYTHON) -m tests.installed $(if $(TORCH),--torch $(TORCH))

docs: $(VENV)/.docs ## the documentation site, strictly: no dead link, no page outside the menu; build/site/index.html
	$(BIN)/python -m whence methods --markdown > docs/methods.md
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m docs.generate build
	$(BIN)/zensical build --clean --strict --config-file build/zensical.toml
	$(BIN)/python -m docs.generate.checking build/site

$(VENV)/.docs: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $@

dist: $(STAMP)   ## source and wheel into dist/, checked, installed apart and tried
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[release]'
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	cd build && HF_HUB_OFFLINE=1 wheel/bin/whence explain "a gorgeous, witty, seductive movie"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
