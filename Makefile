# Everything a developer, a user or CI runs. Needs Go 1.26, make and git;
# gcc adds the race detector, Debian's python3-torch adds `make interop`.

GO     ?= go
OUT    ?= out
PYTHON ?= /usr/bin/python3
LINT   := bin/tools/golangci-lint
SOURCES := $(shell git ls-files '*.go' '*.s' go.mod go.sum harness testdata 2>/dev/null)

.PHONY: build demo test check interop faults harness seeded-faults oracle fixtures bench cross clean

build: bin/launch bin/worker ## the two programs, without cgo

bin/launch bin/worker: $(SOURCES)
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/launch ./cmd/worker

demo: build ## train two workers, resume, and compare with the uninterrupted run
	@scripts/demo.sh "$(OUT)"

# The race detector needs cgo, so a C compiler. Programs built with it sleep for
# a second before they exit, unless told not to.
test: ## every test
	@if command -v gcc >/dev/null 2>&1; then \
	  echo "go test -race ./..."; GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(GO) test -race ./...; \
	else \
	  echo "no gcc here: testing without the race detector"; CGO_ENABLED=0 $(GO) test ./...; \
	fi

check: $(LINT) cross ## formatting, vet, static analysis, import directions, module files
	$(LINT) run --allow-parallel-runners ./...
	$(GO) mod verify
	$(GO) mod tidy -diff

$(LINT): tools/go.mod tools/go.sum
	@mkdir -p $(dir $@)
	CGO_ENABLED=0 $(GO) build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

cross: ## the programs build for the other machines people have
	@for target in linux/amd64 linux/arm64 darwin/arm64; do \
	  echo "building for $$target"; \
	  CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/launch && \
	  CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/worker || exit 1; \
	done

# -v for the reasons of what is skipped; the test's own status counts, not grep's.
interop: SHELL := /bin/bash -o pipefail
interop: build ## real torch loads what we write, and we load what it writes
	REJOIN_INTEROP=1 REJOIN_PYTHON=$(PYTHON) $(GO) test -run Interop -count=1 -v ./... | \
	  grep -v -e '^=== ' -e 'no test files' -e 'no tests to run' -e '^PASS$$'

faults: SHELL := /bin/bash -o pipefail
faults: ## 200 seeded runs in which a save is killed, fails, meets a full disk or is late
	$(GO) test ./trainer -run Fault -count=1 -v -faults 200 -timeout 30m | grep -v '^=== '
	$(GO) test -tags rejoin_fault ./internal/fault

harness: build ## two workers, really resumed, in every way that is known to break
	@bin/launch harness

seeded-faults: ## faults put into the resume path must be seen by the harness
	scripts/seeded-faults.sh

ORACLE := bin/oracle
oracle: $(ORACLE)/installed ## torch and transformers of the report, in a virtual environment
$(ORACLE)/installed: scripts/oracle/requirements.txt
	python3 -m venv $(ORACLE)
	$(ORACLE)/bin/pip install -r scripts/oracle/requirements.txt
	@touch $@
	@echo 'run REJOIN_PYTHON=$(ORACLE)/bin/python bin/launch harness'

fixtures: oracle build ## what real torch and transformers write for testdata/, anew, in OUT/fixtures
	scripts/oracle/make.sh $(ORACLE)/bin/python $(OUT)/fixtures

bench: ## the benchmarks
	$(GO) test -run '^$$' -bench . ./...

clean:
	rm -rf bin
	[ ! -e "$(OUT)/.demo" ] || rm -rf "$(OUT)"
