# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` do everything on a fresh Debian 12 machine as root, and say what is missing elsewhere.

STRATA := .venv/bin/strata

.NOTPARALLEL:

.PHONY: help
help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: setup
setup:  ## Install what is missing, build what every study needs of the lab (cached); the other targets do it, too
	@scripts/setup

.PHONY: setup-all
setup-all:  ## The same with all modules of the kernel and all that tests need
	@scripts/setup --all

.PHONY: demo
demo: setup  ## Compare ext4, XFS and btrfs for PostgreSQL and fio on one modelled disk, and write the report
	$(STRATA) run studies/quickstart.toml
	$(STRATA) report results/quickstart
	@echo
	@echo "The table again:  $(STRATA) show results/quickstart"
	@echo "What to choose:   $(STRATA) advise results/quickstart"
	@echo "The study:        studies/quickstart.toml (change it, then: $(STRATA) run studies/quickstart.toml)"
	@echo "A look inside:    $(STRATA) lab enter studies/quickstart.toml --stack xfs"

.PHONY: test
test: setup-all  ## Lint and every test but the slow ones; the totals are the last line
	@.venv/bin/python scripts/run_tests.py

.PHONY: test-all
test-all: setup-all  ## Lint and every test
	@.venv/bin/python scripts/run_tests.py --slow

.PHONY: durations
durations: setup-all  ## The same as test, and record how long each took in tests/durations.md; on an idle machine
	@.venv/bin/python scripts/run_tests.py --record-durations

CUTS := 1000

.PHONY: power-cuts
power-cuts: setup-all  ## CUTS=1000 seeded power cuts that must be survived, and some that must not be
	.venv/bin/python tests/lab/power_cut_table.py --cuts $(CUTS)

SIGNALS := 1000

.PHONY: signals
signals: setup-all  ## SIGNALS=1000 seeded signals into running studies: nothing may be left, nothing lost
	.venv/bin/python tests/lab/signal_storm.py --signals $(SIGNALS)

.PHONY: bench
bench: setup-all  ## How fast the lab is, as ratios measured in one run, and the report
	.venv/bin/python -m bench

.PHONY: validate
validate: python  ## The disk models against theory, published figures and real drives, on one page: build/validation.html
	$(STRATA) validate

.PHONY: figures
figures: setup  ## Measure the figures that README and tutorial quote anew, and keep them in tests/records
	.venv/bin/python scripts/findings.py --quoted

.PHONY: dist
dist: setup  ## Wheels, source archive and container image, for those without a clone: build/dist
	.venv/bin/python scripts/dist.py

.PHONY: dist-source
dist-source: setup  ## The kernel's source, which must stand wherever the wheel strata-storage-lab is published
	.venv/bin/python scripts/dist.py source

.PHONY: man
man: python  ## The manual pages, from the command line itself: build/man
	$(STRATA) man

.PHONY: docs
docs: python  ## The documentation as a site, warnings being errors: build/docs/index.html
	@scripts/docs
	@echo "The documentation: build/docs/index.html"

.PHONY: lint
lint: python  ## Every checker; changes nothing
	@scripts/lint

.PHONY: fmt
fmt: python  ## Format the sources
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix --exit-zero --quiet .
	cargo fmt --all

.PHONY: lock
lock: python  ## Refresh requirements.lock and image/packages.lock from what index and mirror have now
	scripts/lock

.PHONY: clean
clean:  ## Delete what is built here and in the caches; results stay
	@[ ! -x $(STRATA) ] || $(STRATA) lab clean --all
	rm -rf .venv target build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: python
python:
	@scripts/setup --no-lab
