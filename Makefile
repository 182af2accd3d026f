# Newcomers need `make run` and `make test`; `make help` lists the rest.
# Recipes use bash, because they need its arrays and pipefail.
SHELL := bash

# Compiled packages contain no path of this machine. So a second checkout, such as CI's, compiles only what has changed.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# If HOME is not set, it is the user's home directory. If nothing can be written there, go compiles into .cache.
ifndef HOME
export HOME := $(shell echo ~)
endif
ifeq ($(shell mkdir -p "$(HOME)/.cache" 2> /dev/null; test -w "$(HOME)/.cache" && echo yes),)
export GOCACHE ?= $(CURDIR)/.cache/go-build
ifeq ($(wildcard $(HOME)/go/pkg/mod),)
export GOPATH ?= $(CURDIR)/.cache/go
endif
endif
# Older versions of make export variables only to recipes.
GO = $(foreach name,HOME GOCACHE GOPATH GOFLAGS,$(if $($(name)),$(name)="$($(name))")) go
# The program is built first, because `go run` turns a Ctrl-C into a failure. No commit is stamped into it, because
# git refuses to name the commit of another user's checkout.
BUILD := go build -buildvcs=false -o bin/
# `sendcode version` prints this: 0.1.0 at the tag v0.1.0, otherwise 0.1.0-dev+ and the commit, or 0.1.0-dev without git.
VERSION = $(shell v=$$(sed -n 's/^const nextVersion = "\(.*\)"$$/\1/p' internal/run/app/version.go); \
	if [ "$$(git describe --tags --exact-match --dirty 2> /dev/null)" = "v$$v" ]; then echo $$v; \
	else echo $$v-dev$$(git rev-parse --short=12 HEAD 2> /dev/null | sed 's/^/+/'); fi)
# Without symbols and tables for debuggers the program is a third smaller. Panics and profiles still name functions and lines.
PROGRAM = $(BUILD) -v -ldflags='-s -X sendcode/internal/run/app.version=$(VERSION)' ./cmd/sendcode
# Prints how many packages are compiled, because the first build takes minutes. Other output of go build is printed, too.
# The shell counts, because Debian's awk reads its input in blocks, and would print nothing for the first hundred packages.
PROGRESS = { all=$$(go list -deps ./cmd/sendcode | wc -l) done=0; while IFS= read -r line; do case $$line in \
	*[:\ ]*) echo "$$line" >&2 ;; \
	*) if ((++done % 50 == 0)); then echo "compiled $$done of at most $$all packages"; fi ;; esac; done; }
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Runs go test. It prints a line for each package, the output of failed tests, why tests were skipped, and how many ran.
# If gotestsum is not in the module cache and there is no network, plain go test runs.
GOTESTSUM = $(if $(shell $(GO) tool -n gotestsum 2> /dev/null),go tool gotestsum --format=pkgname-and-test-fails --format-icons=text --,$(ALONE))
ALONE = $(info gotestsum cannot be had: go test does not say what is skipped)go test
# The time limit of each package's tests. A test that hangs ends then, with the stacks of all goroutines.
TIMEOUT ?= 30m
# Each package's tests are a program that is linked each time. Without tables for debuggers, linking takes a third less.
TESTFLAGS = -vet=off -ldflags=-s -p=2 -timeout=$(TIMEOUT)
# Runs each test again, in another order. Otherwise go shows the old result of tests that passed and whose inputs have not changed.
AGAIN := -count=1 -shuffle=on
# Only `make nightly` runs the test files with this tag.
NIGHTLY := -tags=nightly
# Checks and tests run for minutes. With four times the memory, they spend less time on garbage collection.
LESS_GC := GOGC=400
# `make race` runs the packages that use goroutines, and the whole service under load and faults. RACED=./... runs every test.
# The packages whose tests take longest begin first, as in LONG.
RACED ?= ./internal/prove/e2e/parts ./internal/deliver/outbox ./quota/... ./internal/limit/gates ./internal/deliver/feedback ./internal/deliver/delivery/smtp ./internal/limit/admission \
	./internal/http/server ./internal/deliver/webhook ./internal/limit/refusals ./internal/deliver/delivery ./internal/deliver/delivery/oauth ./internal/run/metrics ./internal/verify/humancheck/vendors ./internal/base/logs
# The tests that say nothing under the detector are run by `make test` alone: those of rates under overload, of allocations, of how
# long thousands of messages wait in virtual time, which takes five minutes there, and the schedule of steps, which one goroutine makes.
# They are in these packages. What they run is also run by other tests there, under the detector.
RACED_NOT := UnderOverload$$|AtCapacity$$|^TestAllocations|^TestHeldRecipients|^TestASpike|^TestStrangersMailsDelay|^TestPeopleOfAPlain|^TestRandomScheduleOfManySteps$$
RACED_NOT_IN := ./internal/prove/e2e/parts ./internal/deliver/delivery ./internal/deliver/outbox ./internal/limit/admission ./quota
# SQLite is C translated into Go. It is slow under the race detector, database/sql calls it under a lock, and it shares none of our memory.
RACE := -race "-gcflags=modernc.org/...=-race=false -d=checkptr=0"
# The packages with tests for each commit. `make lint` compiles the other packages.
TESTED = $(shell $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
# The packages whose tests take longest begin first, because the last one would otherwise run alone. Two run at once: with
# three, each test waited longer, and all together took as long.
LONG := ./internal/http/page ./internal/store/postgres ./internal/prove/e2e/... ./internal/http/console/... ./internal/run/app ./internal/verify/verification ./internal/prove/simulate
# With UNRACED=1 `make test` leaves out what `make race` runs, for .ci/run, which runs both.
UNRACED ?=
SUITE = $(if $(UNRACED),$(filter-out $(shell $(GO) list $(RACED)),$(shell $(GO) list $(LONG)) $(TESTED)),$(LONG) $(TESTED))
FUZZTIME ?= 30s
SOAKTIME ?= 20s
PROVED ?= 100000
RESTARTS ?= 20
STEPS ?= 100000
HELD ?= 10m
CODES ?= 10000000
SEED ?= 0
SEEDS ?= 100000
FROM ?= 1
PROCESSES ?= 2
REPLICAS ?= 0
PEOPLE ?= 1000
RECIPIENTS ?= 10000
REQUESTS ?= 10000
MUTANTS ?=
# The releases of Debian whose engines `make engines` runs.
RELEASES ?= trixie forky
# The rows of tools/machines that run; "": all rows.
ROWS ?=
# The architectures for which `make image` builds; "": this machine's.
ARCHITECTURES ?=
PROVE ?= ^TestProve$$|^TestMoreForms$$|^TestMonthEnds$$/Redis
BENCH_ROUNDS ?= 5
# The ways of tools/ways that run; "": all ways.
WAYS ?=
# The measured programs and their servers use two processors, so that larger machines give the same ratios.
BENCH_CPUS ?= 0,1
BENCH_FLAGS ?=
BENCH = $(if $(shell command -v taskset),taskset -c $(BENCH_CPUS)) go test $(NIGHTLY) -run='^TestBench$$' -count=1 -v -timeout=6h ./tools/bench
OUT ?= dist
# `make nightly` runs these parts one after another, each with its time limit. All together take three and a half hours on two processors.
PARTS ?= goals tests machines engines image adoption outside prove soak sizes fuzz release simulate mutants
BOUND_outside ?= 4m
BOUND_adoption ?= 8m
BOUND_engines ?= 20m
BOUND_machines ?= 15m
BOUND_image ?= 8m
BOUND_tests ?= 52m
BOUND_goals ?= 5m
BOUND_fuzz ?= 12m
BOUND_prove ?= 12m
BOUND_soak ?= 18m
BOUND_sizes ?= 15m
BOUND_release ?= 8m
BOUND_simulate ?= 8m
BOUND_mutants ?= 19m
# The sizes at night. Each night has its own worlds, mutants and engines: seven nights run 21,000 worlds and all mutants.
DAY = $(shell echo $$(($$(date +%s) / 86400 % 7)))
NIGHT = SEEDS=3000 FROM=$$(($(DAY) * 3000 + 1)) MUTANTS=-day=$$(($(DAY) + 1)) PROVED=30000 RESTARTS=6 HELD=3m PEOPLE=300 FUZZTIME=20s RELEASES=$(word $(shell echo $$(($(DAY) % 2 + 1))),trixie forky) ROWS=today OUT=bin/night/dist

.PHONY: help build run demo test tests nightly race lint outside engines machines image adoption ways bench goals fuzz soak sizes prove simulate mutants up release version screenshots tools servers

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the program, bin/sendcode
	@echo "Compiling sendcode: minutes the first time, then seconds."
	@set -o pipefail; $(PROGRAM) 2>&1 | $(PROGRESS)

run: build ## the service on http://127.0.0.1:8080/, needing only Go
	@exec bin/sendcode serve

demo: ## the same with a week of made-up sends in it
	@$(BUILD) ./tools/demo
	@exec bin/demo

test: servers ## the tests that every commit passes, on servers and browsers of their own (ENSURE=no installs none)
	@$(LESS_GC) SENDCODE_TEST_RUN=$$(date +%s) $(GOTESTSUM) $(TESTFLAGS) $(if $(CI),$(AGAIN)) $(SUITE)
	@$(if $(UNRACED),$(LESS_GC) $(GOTESTSUM) $(TESTFLAGS) $(AGAIN) -run='$(RACED_NOT)' $(RACED_NOT_IN))

tests: TIMEOUT := 80m
tests: SERVERS := nightly
tests: servers ## every test, those too that only nightly runs
	@$(LESS_GC) $(GOTESTSUM) $(NIGHTLY) $(TESTFLAGS) $(AGAIN) $(LONG) ./...

nightly: ## all that `make test` leaves out, in three hours and a half, then a page: what ran, when, what failed, what was skipped. Stopped, it goes on at the same commit (PARTS="tests fuzz" BOUND_fuzz=1h)
	@$(BUILD) ./tools/nightly
	@rm -rf bin/night/dist
	@$(NIGHT) bin/nightly $(foreach part,$(PARTS),$(part):$(BOUND_$(part)))

race: servers ## the tests of what goroutines share, under the race detector
	@$(LESS_GC) GORACE="atexit_sleep_ms=50 $$GORACE" $(GOTESTSUM) $(RACE) $(TESTFLAGS) $(AGAIN) -skip='$(RACED_NOT)' $(RACED)

lint: ## gofmt, go vet, go.mod, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted:" $$unformatted; exit 1; fi
	$(LESS_GC) go vet $(NIGHTLY) ./...
	go mod tidy -diff
	go mod verify
	$(LESS_GC) go run $(STATICCHECK) $(NIGHTLY) ./...

outside: ## what asks other machines: govulncheck, the specification and the Dockerfile under tools from npm, schemas of Kubernetes and compose
	tools/outside/outside.sh

engines: servers ## the contracts, what fails over, and a short proof, on newer Redis, Valkey, Postgres and PgBouncer (RELEASES="trixie forky" of Debian)
	$(LESS_GC) tools/engines/engines.sh $(RELEASES)

machines: ## make test as on other machines: without a home, a network or IPv6, with one browser, below odd folders, for another user (ROWS="no-home busy")
	tools/machines/machines.sh $(ROWS)

image: ## the Dockerfile's image, built by buildah and run: a send, a stop, a second start (ARCHITECTURES="amd64 arm64"; as root on Debian)
	tools/image/image.sh $(ARCHITECTURES)

adoption: ## on a throw-away copy: another module path, a program that imports quota, the archive on a bare Debian, the image from a registry
	tools/adoption/adoption.sh

ways: ## the first steps of a back-end engineer, a front-end engineer and an operator, by the blocks of their page, each on an empty Debian that boots (WAYS="back-end"; as root on Debian, with debootstrap and systemd-container)
	tools/ways/ways.sh $(WAYS)

bench: servers ## what requests cost beside a floor, into docs/PERFORMANCE.md and tools/bench/RESULTS.md; fails if a goal is missed; a quarter of an hour (BENCH_ROUNDS=5 BENCH_CPUS=0,1 BENCH_FLAGS="-perf.older=COMMIT": see tools/bench)
	$(BENCH) -perf.rounds=$(BENCH_ROUNDS) -perf.for=2s -perf.callers=1,64,256 -perf.write $(BENCH_FLAGS)

goals: servers ## five rounds of bench, of 64 callers, against the goals of tools/bench; writes nothing
	$(BENCH) -perf.rounds=5 -perf.callers=64 $(BENCH_FLAGS)

# A target that fails runs again. Its input is kept, so a real fault fails again; a timeout while a worker is busy does not (go.dev/issue/75804).
fuzz: servers ## every fuzz target, each for FUZZTIME=30s
	@set -o pipefail; grep -roE '^func Fuzz\w+' --include='*_test.go' . | sed -E 's,/[^/]*:func , ,' | sort | while read -r package name; do \
		echo "$$package $$name"; \
		run() { go test $(NIGHTLY) -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) "$$package" < /dev/null; }; \
		run || run || exit 1; \
	done

soak: servers ## faults under load for SOAKTIME=20s, PROVED=100000 requests in each form while everything fails, and replicas restarted RESTARTS=20 times behind each proxy
	go test $(NIGHTLY) -run='^TestProve.+|^TestStalledRedisUnderLoad$$' -count=1 -v -timeout=90m ./internal/prove/e2e/parts -prove.time=$(SOAKTIME) -prove.requests=$(PROVED)
	go test $(NIGHTLY) -run='^TestRollingRestarts' -count=1 -v -timeout=60m ./internal/prove/e2e/parts -parts.restarts=$(RESTARTS)

sizes: servers ## STEPS=100000 random steps, a snapshot held for HELD=10m, REQUESTS=10000 held against the specification, PEOPLE=1000 impatient people at the page and at the widget, RECIPIENTS=10000 whose series are counted, 50 simulated worlds twice, and CODES=10000000 counted
	go test $(NIGHTLY) -run='RandomScheduleOfManySteps' -count=1 -v -timeout=20m ./quota -quota.steps=$(STEPS)
	go test $(NIGHTLY) -run='WhileASnapshotIsHeld' -count=1 -v -timeout=20m ./internal/store/postgres -store.held=$(HELD)
	go test $(NIGHTLY) -run='^TestRandomRequestsMatch' -count=1 -v -timeout=20m ./internal/prove/e2e/clients -clients.requests=$(REQUESTS)
	go test $(NIGHTLY) -run='^TestAllInABrowser$$/^impatient' -count=1 -v -timeout=40m ./internal/http/page -page.people=$(PEOPLE)
	go test $(NIGHTLY) -run='^TestSeriesAreBounded$$' -count=1 -v -timeout=20m ./internal/run/app -app.recipients=$(RECIPIENTS)
	go test $(NIGHTLY) -run='^TestSameStory$$' -count=1 -v -timeout=20m ./internal/prove/simulate -simulate.twice=50
	go test $(NIGHTLY) -run='^TestDeriveIsUniform$$' -count=1 -v -timeout=20m ./internal/codes/code -code.codes=$(CODES)

prove: servers ## in eight minutes: what is promised, counted in each of three forms, on a Redis Cluster, behind a Sentinel and PgBouncer, and by text message, while replicas are killed, stopped and frozen, Redis is flushed, stalled and replaced, Postgres restarted, both failed over, links cut and a carrier fails, then over the end of a month (SEED=n; PROVE=TestMonthEnds: that in each of the three)
	@go test $(NIGHTLY) -run='$(PROVE)' -count=1 -v -timeout=20m ./internal/prove/e2e/parts -prove.time=40s -prove.seed=$(SEED) 2>&1 | grep -vE '^ *(===|--- PASS|PASS|ok)'; exit $${PIPESTATUS[0]}

simulate: ## SEEDS=100000 worlds by seed, the first one FROM=1, in PROCESSES=2 processes; stopped, it goes on where it was. SEED=n: the story of one
	@go test $(NIGHTLY) -c -o bin/simulate ./internal/prove/simulate
ifneq ($(SEED),0)
	@bin/simulate -test.run='^TestWorld$$' -test.v -simulate.from=$(SEED) -simulate.replicas=$(REPLICAS)
else
	@run="bin/simulate -test.run=^TestWorlds$$ -test.timeout=0 -simulate.from=$(FROM) -simulate.seeds=$(SEEDS) -simulate.replicas=$(REPLICAS) -simulate.progress=$$([ -z "$$(git status --porcelain)" ] && echo bin/worlds-$$(git rev-parse --short HEAD).jsonl || mktemp)"; \
	for part in $$(seq 0 $$(($(PROCESSES) - 1))); do $$run -simulate.part=$$part -simulate.parts=$(PROCESSES) & pids="$$pids $$!"; done; \
	failed=0; for pid in $$pids; do wait $$pid || failed=1; done; $$run -test.v; exit $$failed
endif

mutants: servers ## changes one place of the core at a time and prints which change no test notices; each day other places, as many as fit (MUTANTS=-packages=quota, -only=, -budget=2h: see tools/mutants)
	@$(BUILD) ./tools/mutants
	@bin/mutants -results=bin/mutants.jsonl $(MUTANTS)

up: tools ## the service on a Redis and a Postgres of its own, which keep their data in data/up (FRESH=1: begin with empty ones, removed at the end)
	@bin/ensure redis-server PostgreSQL
	@$(BUILD) ./tools/up
	@exec bin/up $(if $(FRESH),-fresh)

release: ## archives for Linux and macOS with licences, bills of materials and checksums, into dist (OUT=dist); twice the same bytes
	go run ./tools/release -version=$(VERSION) -time=$$(git log -1 --format=%ct) -out=$(OUT)

version: ## what this tree calls itself
	@echo $(VERSION)

screenshots: servers ## pictures of every page, the console's too, and those of the README (docs/pictures)
	@go run ./tools/screenshots
	@mkdir -p screenshots
	@SENDCODE_TEST_SCREENSHOTS=$(CURDIR)/screenshots go test $(NIGHTLY) -run='^TestAllInABrowser$$/^(fits|every_card_in_..)$$' -count=1 ./internal/http/...

tools:
	@$(BUILD) ./tools/ensure

servers: tools # and browsers; root on Debian installs what lacks, unless ENSURE=no. Without them tests skip
	@bin/ensure $(SERVERS)
