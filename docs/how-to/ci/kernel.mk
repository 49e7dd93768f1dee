# The storage gate of a kernel's tree: make -f kernel.mk TREE=../linux BASE=v7.2
# storage.toml lies beside this file; its line `kernel = …` is replaced. The tree's own code is built and run.
TREE ?= ../linux
BASE ?= v7.2
SEE ?= 5%
base := $(shell git -C $(TREE) rev-parse --short=12 $(BASE))
head := $(shell git -C $(TREE) rev-parse --short=12 HEAD)

# Builds User-Mode Linux of a revision and runs the study with it; what was measured is not run again.
measure = sed 's|^kernel = .*|kernel = "$(abspath $(TREE))@$(1)"|' storage.toml > storage-$(1).toml && \
	strata run storage-$(1).toml --results results/$(1) --allow-kernel-source --quiet

.PHONY: gate candidate baseline
gate: candidate
	strata gate results/$(base) results/$(head) --see $(SEE)
candidate: baseline
	$(call measure,$(head))
baseline:
	$(call measure,$(base))
	strata gate results/$(base) --see $(SEE)
