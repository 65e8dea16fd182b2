# make        run every kernel against PyTorch, then show what memory accesses it makes; no GPU needed
# make test   all tests
# make help   the other targets
#
# The virtual environment is made on first use, and again when the pins change. PY=python3.12 uses an interpreter that
# has everything already and makes nothing: that is for a GPU machine without a network.

HOST_PYTHON ?= python3
VENV := .venv
TORCH_CPU := https://download.pytorch.org/whl/cpu

BENCHES := 02-elementwise/evidence/bench_elementwise.py 01-activations/evidence/bench_activations.py

ifdef PY
PYTHON := PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(PY)
READY :=
else
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

.PHONY: run test inspect tables bench tune sectors results lint check audit vendor clean help
.DEFAULT_GOAL := run

run: $(READY) ## every kernel against PyTorch (on the GPU, or emulated), then its memory accesses
	$(PYTHON) 01-activations/relu_variants.py
	$(PYTHON) 01-activations/gelu_variants.py
	$(PYTHON) 01-activations/inspect_activations.py --tables
	$(PYTHON) 02-elementwise/elementwise_variants.py
	$(PYTHON) 02-elementwise/inspect_elementwise.py --tables

test: $(READY) ## all tests; those that need a GPU say so and skip where there is none
	$(PYTHON) -m pytest -n auto

inspect: $(READY) ## each kernel's CUDA, the SASS that touches memory, and the tables
	$(PYTHON) 01-activations/inspect_activations.py
	$(PYTHON) 02-elementwise/inspect_elementwise.py

tables: $(READY) ## write the tables of the READMEs anew
	$(PYTHON) 01-activations/inspect_activations.py --write
	$(PYTHON) 02-elementwise/inspect_elementwise.py --write

bench: $(READY) ## bandwidth against ceiling and peers, into results/; needs a GPU. BENCH=--quick, BENCH='--budget 120'
	@status=0; for script in $(BENCHES); do $(PYTHON) $$script $(BENCH) || status=1; done; exit $$status

tune: $(READY) ## the same for threads and elements a thread
	@status=0; for script in $(BENCHES); do $(PYTHON) $$script --tune $(BENCH) || status=1; done; exit $$status

sectors: $(READY) ## predicted requests and sectors against the GPU's counters, into results/; needs a GPU and ncu
	$(PYTHON) -m tilescope.measuring.sectors

results: $(READY) ## write the tables and plots of what was measured, from results/
	$(PYTHON) -m tilescope.book.results

lint: $(READY) ## ruff
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

check: audit ## compile every Python file, and audit; needs nothing but python3
	@find . -name '*.py' -not -path './.*' -print0 | xargs -0 $(HOST_PYTHON) -m py_compile && echo "every file compiles"
	$(HOST_PYTHON) 07-api-audit/release_table.py --check

audit: ## does the repository use only names that TileLang has? needs nothing but python3
	$(HOST_PYTHON) 07-api-audit/api_audit.py .

vendor: $(READY) ## extract the surface of the installed TileLang, or of VERSION=0.1.14, for the audit
	$(PYTHON) 07-api-audit/extract_surface.py $(if $(VERSION),--release $(VERSION))

clean: ## remove the environment; compiled kernels stay in the cache (~/.cache/tilescope)
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# PyTorch's CPU build is a twentieth of the CUDA build; where its index cannot be reached, PyPI's build serves as well.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(HOST_PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 10) <= v <= (3, 12) or sys.exit( \
	  "Python 3.10, 3.11 or 3.12 is needed, %s is %d.%d; name another: make HOST_PYTHON=python3.12" % (sys.executable, *v))'
	$(HOST_PYTHON) -m venv $(VENV)
	@nvidia-smi -L >/dev/null 2>&1 \
	  || $(VENV)/bin/pip install --retries 1 --no-deps --index-url $(TORCH_CPU) -c constraints.txt torch \
	  || echo "$(TORCH_CPU) cannot be reached: PyTorch comes from PyPI, several GB"
	$(VENV)/bin/pip install -c constraints.txt -e '.[test,peers]'
	@touch $@
