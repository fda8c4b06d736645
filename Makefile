# Two commands matter: `make lab` to learn, `make test` to change the course. `make help` lists the rest.
PYTHON ?= python3
TORCH ?= cpu
PORT ?= 8888
BROWSER ?=

# The CUDA build has an environment of its own, so that changing your mind costs one word.
VENV := $(if $(filter cuda,$(TORCH)),.venv-cuda,.venv)
BIN := $(VENV)/bin
TORCH_VERSION := $(shell sed -n 's/^torch==//p' requirements/constraints.txt)
UV := uv==0.13.9

.PHONY: help lab test quick lint build check lock clean matrix bytecode repeat solved grade-quality grade-parity canaries draws record gpu-bundle gpu-test

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/\1:/p' $(MAKEFILE_LIST) | sort

lab: $(VENV)/.course  ## JupyterLab with lesson 1 in front (PORT=8888, BROWSER=none, TORCH=cpu|cuda)
	@$(BIN)/python -m autograder lab --port $(PORT) $(if $(BROWSER),--browser $(BROWSER))

test: $(VENV)/.test  ## everything that can be tested without a GPU
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m autograder build --check
	$(BIN)/python -m pytest tests -m alone; lessons=$$?; \
	$(BIN)/python -m pytest tests -m "not alone" -n 2 --dist loadfile --no-loadscope-reorder --durations 25 && exit $$lessons

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

quick: $(VENV)/.test lint  ## lint and unit tests only
	$(BIN)/python -m pytest tests/unit

build: $(VENV)/.course  ## notebooks/ and solutions/*.ipynb from solutions/*.py
	$(BIN)/python -m autograder build

check: $(VENV)/.course  ## prove each exercise: solved, unsolved, known mistakes (LESSON=01_basic_compile for one)
	$(BIN)/python -m autograder check $(LESSON)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# uv knows PyTorch's index of CPU builds by name; where that index is out of reach, pip's own index serves.
$(VENV)/.torch: requirements/constraints.txt | $(VENV)/bin/python
ifneq ($(TORCH),cuda)
	@$(BIN)/python -m pip install --quiet $(UV) && $(BIN)/uv pip install --quiet --python $(BIN)/python \
	  --torch-backend=cpu torch==$(TORCH_VERSION) 2>/dev/null \
	  || echo "PyTorch's CPU index is out of reach; taking torch $(TORCH_VERSION) from pip's index."
endif
	$(BIN)/python -m pip install --quiet torch==$(TORCH_VERSION)
	@touch $@

$(VENV)/.course: requirements/course.lock pyproject.toml | $(VENV)/.torch
	$(BIN)/python -m pip install --quiet -r requirements/course.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements/test.lock $(VENV)/.course
	$(BIN)/python -m pip install --quiet -r requirements/test.lock
	@touch $@

matrix: $(VENV)/.test  ## facts, symptoms and lessons' claims on torch 2.11 to 2.15, each in an environment of its own
	$(BIN)/python tests/matrix.py -o tests/matrix.md $(MATRIX)

bytecode: $(VENV)/.test  ## what depyf makes of bytecode on each torch (BYTECODE="--python python3.12 --python python3.13")
	$(BIN)/python tests/bytecode_pairs.py -o tests/bytecode.md $(BYTECODE)

repeat: $(VENV)/.test  ## each check of the solved lessons 20 times under full load: tests/repeat.md (REPEAT="02_timing")
	$(BIN)/python tests/repeat.py -o tests/repeat.md $(REPEAT)

solved: $(VENV)/.test  ## the solved lessons on torch 2.11 to 2.15: tests/solved.md (SOLVED="--torch 2.14.1 02_timing")
	$(BIN)/python tests/solved.py $(SOLVED)

grade-quality: $(VENV)/.test  ## mutants, mistakes and right answers of each exercise: tests/grade_quality.md (LESSON=1 for one)
	$(BIN)/python -m autograder quality $(LESSON)

grade-parity: $(VENV)/.test  ## 36 honest submissions by grade and by nbgrader autograde, field by field: tests/grading/parity.md
	$(BIN)/python tests/grading/parity.py -o tests/grading/parity.md

canaries: $(VENV)/.test  ## every known mistake and right answer after each right answer: tests/grading/canaries.md (CANARIES="02_timing")
	$(BIN)/python tests/canaries.py $(CANARIES)

draws: $(VENV)/.test  ## every known mistake and right answer on rare draws of inputs: tests/draws.md (DRAWS="capstone_3")
	$(BIN)/python tests/draws.py $(DRAWS)

lock:  ## resolve requirements/*.lock anew (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --no-annotate --custom-compile-command "make lock" \
	  -c requirements/constraints.txt --excludes requirements/excludes.txt -o requirements/course.lock
	uv pip compile pyproject.toml --extra test --universal --python-version 3.11 --no-annotate --custom-compile-command "make lock" \
	  -c requirements/constraints.txt -c requirements/course.lock --excludes requirements/excludes.txt -o requirements/test.lock
	uv pip compile pyproject.toml --extra cluster --universal --python-version 3.11 --no-annotate --custom-compile-command "make lock" \
	  -c requirements/constraints.txt -c requirements/test.lock --excludes requirements/excludes.txt -o requirements/cluster.lock

clean:  ## remove the environments; your work in my/ stays
	rm -rf .venv .venv-cuda .venv-2.*

NODE_PYTHON ?= 3.12
NODE_HAS ?=

gpu-bundle: $(VENV)/.test  ## wheels for a GPU node without network (NODE_PYTHON=3.12, NODE_HAS="numpy matplotlib ...")
	PATH="$(CURDIR)/$(BIN):$$PATH" tests/gpu/bundle.sh $(NODE_PYTHON) $(NODE_HAS)

record: $(VENV)/.course  ## on a machine with a GPU: assets/recorded/ anew
	$(BIN)/python -m compilescope.recorded

gpu-test: $(VENV)/.test  ## on a machine with a GPU: what only a GPU can show
	$(BIN)/python -m pytest tests/gpu --require-gpu
