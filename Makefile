# Every target is a command of tools/x.py, which runs without make: `python3 tools/x.py test`.
# Words for a command: make test ARGS="-k cron -x"

PYTHON ?= python3
ARGS ?=
X = $(PYTHON) tools/x.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-slow test-crash test-mutants soak check lint fmt types bench bench-quick bench-compare bench-scale bench-seeds profile schema completion release build clean

help: ## list the targets
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv with everything a developer needs
	@$(X) setup $(ARGS)

demo: ## see it work: a server, a worker, jobs
	@$(X) demo $(ARGS)

test: ## run the tests on the system's PostgreSQL and on the newest
	@$(X) test $(ARGS)

test-fast: ## run the tests on one PostgreSQL, stop at the first failure
	@$(X) test-fast $(ARGS)

test-slow: ## run the tests that take seconds
	@$(X) test-slow $(ARGS)

test-crash: ## kill processes, connections and servers for a minute
	@$(X) test-crash $(ARGS)

test-mutants: ## plant bugs, and see each one found
	@$(X) test-mutants $(ARGS)

soak: ## chaos and fuzzing for longer, with new seeds: make soak MINUTES=30
	@$(X) soak $(MINUTES) $(ARGS)

check: ## style, types, layers, sizes: everything that needs no server
	@$(X) check $(ARGS)

lint: ## style, format and layers only
	@$(X) lint $(ARGS)

fmt: ## format the code
	@$(X) fmt $(ARGS)

types: ## types only
	@$(X) types $(ARGS)

bench: ## measure ourselves and the peers
	@$(X) bench $(ARGS)

bench-quick: ## measure ourselves alone, in under two minutes
	@$(X) bench-quick $(ARGS)

bench-compare: ## what became better or worse: make bench-compare OLD=old.json NEW=new.json
	@$(X) bench-compare $(OLD) $(NEW)

bench-scale: ## how cost grows with jobs, workers, queues and payloads
	@$(X) bench-scale $(ARGS)

bench-seeds: ## start and stop, 20,000 jobs by 4 processes x 10, latency
	@$(X) bench-seeds $(ARGS)

profile: ## where the time of a job goes, by part
	@$(X) profile $(ARGS)

schema: ## write the golden dump of the schema again
	@$(X) schema $(ARGS)

completion: ## write the completions of shells and the help of the command again
	@$(X) completion $(ARGS)

release: ## keep this checkout as a release, for the tests of upgrades: make release VERSION=0.2.0
	@$(X) release $(VERSION) $(ARGS)

build: ## build the wheel and the sdist into dist/
	@$(X) build $(ARGS)

clean: ## remove .venv and everything else that was made here
	@$(X) clean $(ARGS)
