# Tutti: build it, try it, test it, measure it. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
DIST := $(CURDIR)/dist
# `release` is the fastest server.
PROFILE := release
BUILT = $(TARGET)/$(PROFILE:dev=debug)
# The packages to build. With the tests' profile it is all of them, with the features that the tests have built them with: nothing is
# built twice.
PACKAGES = $(if $(filter dev,$(PROFILE)),--workspace,$(addprefix -p ,$(1)))
# Other builds than the release: the tests' own, and the demo's, which takes minutes.
DEV := $(CURDIR)/.work/dev
DEMO := $(CURDIR)/.work/demo/dist
DEBS := $(CURDIR)/.work/debs
# A file that runs is replaced by rename: it cannot be written to.
replace = install -m $(or $(3),755) $(1) $(2).new && mv -f $(2).new $(2)
# No user may read root's language hosts: see packaging/build-each.
HOST_MODE = $(if $(filter 0,$(shell id -u)),711,755)
# The host for WebAssembly components takes as long to build as all the rest; `make build WASM=` leaves it out.
WASM = 1
LOOM = RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom
# With the assertions of a debug build.
SIMULATED = RUSTFLAGS="--cfg simulated" CARGO_PROFILE_QUICK_DEBUG_ASSERTIONS=true CARGO_TARGET_DIR=$(TARGET)/simulated
# `packaging/limited` runs each test executable: see there.
LIMITED = CARGO_TARGET_$(shell rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER=$(CURDIR)/packaging/limited
# Tests wait for processes most of the time: more of them at once than there are cores.
TEST_THREADS = RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),$(shell echo $$(($$(nproc) * 2))))
# This machine's kind; its flags do not reach what builds the build: macros and build scripts.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# libFuzzer needs this to see which branches are taken (clang's SanitizerCoverage).
COVERAGE = -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# For Ruby, which leaves functions by the compiler's own longjmp: AddressSanitizer cannot see that, and takes the stack's marks that stay for faults.
WITHOUT_STACK = --param asan-stack=0
SANITIZED_BUILD = CARGO_TARGET_DIR=$(TARGET)/sanitized \
    RUSTFLAGS="-Clinker=$(CURDIR)/packaging/link-sanitized -Clink-arg=$(TARGET)/sanitized/options.o"
# The files for the time of each step, the skipped tests, and the output of the tests; `packaging/test-summary` reports each.
ifeq ($(origin TUTTI_TIMES),undefined)
export TUTTI_TIMES := $(CURDIR)/.work/test-times
SUMMARY = packaging/test-summary
endif
export TUTTI_SKIPPED := $(CURDIR)/.work/test-skipped
export TUTTI_TESTS := $(CURDIR)/.work/tests.log
# A step that fails keeps no other from running, but those that come after it.
STEP = @packaging/timed --go-on
# The parts of `make test` that run; packaging/shards.toml says what they are. A step runs if one of its parts does.
SHARDS ?= http languages wasm fleet models real packages
IN = $(if $(filter $(1),$(SHARDS)),$(STEP),@: left out:)
# Those with test programs.
TESTED = $(filter-out models real packages,$(SHARDS))
# Built beside the tests, which wait for processes most of the time.
BESIDE = $(if $(filter models,$(SHARDS)),$(MAKE) --no-print-directory build-fuzz build-loom build-sim)
# The step that most others come after.
PROGRAMS = "building the programs, and installing what the tests need"
PERL = $(shell /usr/bin/perl -MConfig -e 'print "$$Config{PERL_REVISION}.$$Config{PERL_VERSION}"')
RUBY = $(shell /usr/bin/ruby -e 'print RUBY_VERSION[/\d+\.\d+/]')

.PHONY: help build deps server demo demo-stop time-demo check flaky test test-shard test-steps steps-real steps-packages test-fresh test-long soak build-loom build-fuzz test-loom test-fuzz test-miri test-miri-seeds test-sanitizers test-threads test-pythons test-javas test-nodes test-debian test-real test-real-debian test-agents test-suites test-packages test-packages-debian test-chart test-image test-verify test-reproducible test-entrypoint image images chart dist release publish site recording fuzz bench bench-quick bench-arena bench-instructions bench-fleet lint lint-texts lint-words lint-workflows lint-site check-format clean test-release packages repository test-pairs sim build-sim sim-proves test-aarch64 mutants coverage

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

deps:
	@packaging/install-deps build

# One call of cargo: the linker takes minutes for the server and for the host of WebAssembly, each on one core.
build: BESIDE_SERVER = tutti-external tutti-cgi tutti-node tutti-node-addon tutti-perl tutti-ruby tutti-java tutti-c $(if $(WASM),tutti-wasm)
build: deps server ## dist/bin/tutti (tuttid and unitd are links to it), dist/bin/tutti-import and dist/modules/
	rm -rf $(DIST)/share/tutti/go $(DIST)/share/tutti/node
	mkdir -p $(DIST)/share/tutti/go $(DIST)/share/tutti/node/unit-http $(DIST)/lib $(DIST)/include
	install -m 644 sdk/go/go.mod $(filter-out %_test.go,$(wildcard sdk/go/*.go)) $(DIST)/share/tutti/go/
	install -m 644 sdk/node/unit-http/* $(DIST)/share/tutti/node/unit-http/
	$(call replace,$(BUILT)/tutti-external,$(DIST)/modules/tutti-external,$(HOST_MODE))
	$(call replace,$(BUILT)/tutti-cgi,$(DIST)/modules/tutti-cgi,$(HOST_MODE))
	$(call replace,$(BUILT)/tutti-node,$(DIST)/modules/tutti-node,$(HOST_MODE))
	$(call replace,$(BUILT)/libtutti_node_addon.so,$(DIST)/modules/libtutti_node_addon.so,644)
	install -m 644 $(BUILT)/libtutti_worker_c.so $(DIST)/lib/libtutti_worker.so
	install -m 644 $(BUILT)/libtutti_worker_c.a $(DIST)/lib/libtutti_worker.a
	install -m 644 sdk/c/include/tutti_worker.h $(DIST)/include/
	CARGO=$(CARGO) PROFILE=$(PROFILE) packaging/build-python $(DIST)/modules $(TARGET)
	$(call replace,$(BUILT)/tutti-perl,$(DIST)/modules/tutti-perl$(PERL),$(HOST_MODE))
	$(call replace,$(BUILT)/tutti-ruby,$(DIST)/modules/tutti-ruby$(RUBY),$(HOST_MODE))
	$(call replace,$(BUILT)/tutti-java,$(DIST)/modules/tutti-java,$(HOST_MODE))
	packaging/build-java --archives $(DIST)/modules $(TARGET)/java-build
	$(if $(WASM),$(call replace,$(BUILT)/tutti-wasm,$(DIST)/modules/tutti-wasm,$(HOST_MODE)))
	@echo "built: $(DIST)/bin/tutti and $$(ls $(DIST)/modules | tr '\n' ' ')"

# The server with PHP: all that the demo needs.
server:
	mkdir -p $(DIST)/bin $(DIST)/modules $(DIST)/share/tutti/php
	$(CARGO) build --profile $(PROFILE) $(call PACKAGES,tutti-daemon tutti-import $(BESIDE_SERVER))
	$(call replace,$(BUILT)/tutti,$(DIST)/bin/tutti)
	$(call replace,$(BUILT)/tutti-import,$(DIST)/bin/tutti-import)
	ln -sfn tutti $(DIST)/bin/tuttid
	ln -sfn tutti $(DIST)/bin/unitd
	CARGO=$(CARGO) PROFILE=$(PROFILE) packaging/build-php $(DIST)/modules $(TARGET)
	install -m 644 sdk/php/resident/*.php $(DIST)/share/tutti/php/
	install -m 755 packaging/install.sh $(DIST)/share/tutti/install.sh

demo: ## install what is missing, build the server with PHP, serve a small site on port 8080 and check it
	@packaging/install-deps server demo
	$(MAKE) --no-print-directory server PROFILE=demo DIST=$(DEMO)
	DIST=$(DEMO) packaging/demo start

time-demo: ## `make demo` with nothing built and an empty cache of crates, on two cores: at most MINUTES (5)
	packaging/time-demo

demo-stop: ## stop what `make demo` started
	@DIST=$(DEMO) packaging/demo stop

test: ## everything that is quick enough to run before each push; what was skipped, where the time went, and which steps failed
	@mkdir -p .work && rm -f $(TUTTI_SKIPPED) $(TUTTI_TESTS) $(if $(SUMMARY),$(TUTTI_TIMES))
	@status=0; $(MAKE) --no-print-directory test-steps || status=$$?; $(or $(SUMMARY),:); packaging/timed --outcome || status=1; exit $$status

test-shard: ## the part SHARD of `make test` (packaging/shards.toml), within its time; `make test-shard SHARD=wasm`
	@packaging/test-programs --within $(or $(SHARD),none) $(MAKE) --no-print-directory test SHARDS=$(SHARD)

check: ## what to run before each push (minutes): formatting, the repository's rules, and the unit tests of the crates that BASE (origin/main) lacks
	$(CARGO) fmt --all --check
	$(CARGO) xtask check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	env CARGO=$(CARGO) $(TEST_THREADS) packaging/test-programs --changed-since $(or $(BASE),origin/main)

flaky: ## hunt tests that fail now and then: each test program that matches TESTS (*), such as *php*, runs TIMES (50) times beside busy loops (hours)
	$(CARGO) build --workspace --bins
	env CARGO=$(CARGO) packaging/test-programs --flaky $(or $(TIMES),50) '$(or $(TESTS),*)'

test-steps:
	@packaging/others-may-enter
	@packaging/timed "installing what the build needs" packaging/install-deps build
	$(STEP) $(PROGRAMS) \
	    packaging/beside --nice 0 .work/install.log "packaging/install-deps test real packages release" $(CARGO) build --workspace --bins
	$(call IN,http) --after $(PROGRAMS) "repository rules, with an empty cache of crates" packaging/fresh --home $(TARGET)/debug/xtask check
	$(call IN,http) "the parts of the tests" packaging/test-programs --check
	$(call IN,http languages wasm fleet) "building the tests" packaging/test-programs --shards "$(TESTED)" --build
	$(if $(LINTED),$(call IN,http) "building what is not tested" $(CARGO) build --workspace --benches)
	$(call IN,http languages wasm fleet) --after $(PROGRAMS) --after "building the tests" "tests$(if $(BESIDE), (loom, fuzzing and the simulator are built beside them))" \
	    packaging/beside .work/beside.log "$(or $(BESIDE),:)" \
	    env CARGO=$(CARGO) $(TEST_THREADS) packaging/test-programs --shards "$(TESTED)" 2>&1 | tee $(TUTTI_TESTS)
	$(call IN,http) "tests of the bench" env -C bench python3 -m unittest -q harness.test_arena harness.test_loads harness.test_workers
	$(call IN,models) "loom" $(MAKE) --no-print-directory test-loom
	$(call IN,models) "the simulator" $(MAKE) --no-print-directory sim SEEDS=1-250
	$(call IN,models) "fuzz targets" $(MAKE) --no-print-directory test-fuzz
	$(call IN,http) --after $(PROGRAMS) "quick test suites of others" python3 tests/suites/run.py --programs $(TARGET)/debug --quick --check
	$(call IN,real packages) "building for the real sites" $(MAKE) --no-print-directory build PROFILE=dev DIST=$(DEV) WASM=
	@$(MAKE) --no-print-directory -j2 --output-sync=target steps-real steps-packages

# Beside each other: most of both is waiting, for applications that start and for apt.
steps-real:
	$(call IN,real) --after "building for the real sites" "real sites" $(MAKE) --no-print-directory test-real DIST=$(DEV)

steps-packages:
	$(call IN,packages) --after "building for the real sites" "packages" $(MAKE) --no-print-directory test-packages DIST=$(DEV) QUICK=--quick
	$(call IN,packages) --after "building for the real sites" "release" $(MAKE) --no-print-directory test-verify DIST=$(DEV)

# The commands of a newcomer, each by itself; of `bench` only the round that shows that it works, since all of it takes hours.
FRESH ?= build test bench-quick dist site
test-fresh: ## the targets FRESH (build, test, bench-quick, dist, site), each with nothing built and nothing downloaded (hours)
	@status=0; for target in $(FRESH); do packaging/fresh make $$target || { status=1; echo "test-fresh: \`make $$target\` failed"; }; done; exit $$status

# They have flags of their own, so that nothing else can be used for them.
build-fuzz:
	RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 $(COVERAGE)" \
	    $(CARGO) build --manifest-path fuzz/Cargo.toml --target $(HOST) --target-dir $(TARGET)/fuzz --bins

build-loom:
	$(LOOM) $(CARGO) test --profile quick -p tutti-wire -p tutti-pool --lib --no-run

build-sim:
	$(SIMULATED) $(CARGO) build --profile quick -p tutti-simulator

sim: build-sim ## the pool and the worker protocol on a simulated machine: SEEDS (1-1000, or `new`), for at most SECONDS of processor time; TRACE=1 prints each step
	trap '' XFSZ; TUTTI_COMMIT=$$(git rev-parse --short HEAD 2>/dev/null || echo unknown) $(TARGET)/simulated/quick/tutti-simulator \
	    SEEDS=$(or $(SEEDS),1-1000) $(if $(SECONDS),SECONDS=$(SECONDS)) $(if $(TRACE),TRACE=$(TRACE)) $(if $(TWICE),TWICE=$(TWICE))

sim-proves: build-sim ## the simulator finds each fault of crates/simulator/proofs, which are brought back in a copy
	packaging/sim-proves $(TARGET)/simulated

test-loom: ## every interleaving of the lock-free parts: the transport, the waiting queue
	$(LOOM) $(LIMITED) $(CARGO) test --profile quick -p tutti-wire -p tutti-pool --lib

test-fuzz: build-fuzz ## FUZZ_SECONDS (10) of each fuzz target, without cargo-fuzz and AddressSanitizer, which `make fuzz` uses
	packaging/fuzz-each $(TARGET)/fuzz/$(HOST)/debug $(or $(FUZZ_SECONDS),10)

# Miri is itself of the nightly compiler. Its weak memory made that end with an internal error. Of the workers' base it takes what needs
# no process, socket or signal: most of it is those.
NIGHTLY = rustup component list --toolchain nightly --installed 2>/dev/null | grep '^$(1)' >/dev/null || \
    rustup toolchain install nightly --profile minimal --component miri --component rust-src --component rustfmt --component llvm-tools
test-miri: ## the wire's lock-free parts and tables and the workers' base under Miri: undefined behaviour, data races (a quarter of an hour)
	@$(call NIGHTLY,miri)
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-disable-weak-memory-emulation" CARGO_TARGET_DIR=$(TARGET)/miri \
	    $(CARGO) +nightly miri test -p tutti-wire -p tutti-worker --lib

# Each seed is another order of threads, and other choices of what the memory orderings let a load see. Rustix makes addresses of numbers.
test-miri-seeds: ## the models of the wire's lock-free parts (those of loom) under Miri with its weak memory, for SEEDS (64) seeds
	@$(call NIGHTLY,miri)
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance -Zmiri-many-seeds=0..$(or $(SEEDS),64)" \
	    CARGO_TARGET_DIR=$(TARGET)/miri $(CARGO) +nightly miri test -p tutti-wire --lib -- models::

# They read what clients, proxies, upstreams and applications send. FILES: others; `tests/mutants.toml` has what cannot be noticed, with reasons.
UNTRUSTED = $(addprefix crates/http/src/,body.rs chunked.rs field.rs field_code.rs host.rs huffman.rs path.rs priority.rs section.rs stream_head.rs token.rs trailers.rs \
        head/*.rs http2/*.rs http2/hpack/decoder.rs http3/*.rs websocket/*.rs) \
    $(addprefix crates/gateway/src/,proxy_protocol.rs cgi/script.rs fastcgi/read.rs) crates/conn/src/proxy_header.rs \
    $(addprefix crates/http2/src/,closed_streams.rs frames.rs receiver.rs settings.rs stream_state.rs windows.rs) \
    crates/files/src/range.rs crates/routing/src/fields.rs \
    $(addprefix crates/wire/src/,control.rs message.rs request.rs response.rs slotmap.rs span.rs table.rs)
mutants: ## changes the code of FILES (all that reads untrusted bytes), one place at a time: the tests of its crate must notice each change (hours)
	cargo_mutants="$$(packaging/fetch-tool cargo-mutants)" && "$$cargo_mutants" mutants --config tests/mutants.toml --output .work \
	    --jobs $$(nproc) $(foreach file,$(or $(FILES),$(UNTRUSTED)),--file '$(file)')

coverage: ## branches and lines of FILES (all that reads untrusted bytes) that the tests of their crates reach
	@$(call NIGHTLY,llvm-tools)
	packaging/coverage $(TARGET)/coverage $(or $(FILES),$(UNTRUSTED))

SANITIZED = $(TARGET)/sanitized/$(HOST)/debug
test-sanitizers: test-threads ## AddressSanitizer and UndefinedBehaviorSanitizer over the C code of PHP's, Perl's and Ruby's hosts, and a program in C
	@mkdir -p $(TARGET)/sanitized
	$(CC) -O1 -c packaging/sanitizers.c -o $(TARGET)/sanitized/options.o
	$(SANITIZED_BUILD) CFLAGS_$(subst -,_,$(HOST))="$(SANITIZE)" \
	    sh -c '$(CARGO) build --target $(HOST) -p tutti-perl && $(LIMITED) $(CARGO) test --target $(HOST) -p tutti-php --no-fail-fast'
	$(SANITIZED_BUILD) CFLAGS_$(subst -,_,$(HOST))="$(SANITIZE) $(WITHOUT_STACK)" $(CARGO) build --target $(HOST) -p tutti-ruby
	$(CARGO) build --workspace --bins
	TUTTI_PERL_HOST=$(SANITIZED)/tutti-perl TUTTI_RUBY_HOST=$(SANITIZED)/tutti-ruby TUTTI_LANGUAGES="perl ruby ruby-threads" $(LIMITED) \
	    $(CARGO) test --no-fail-fast -p tutti-e2e --test perl --test ruby --test ruby_hijack --test contract
	TUTTI_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all" $(LIMITED) $(CARGO) test -p tutti-c --test abi

# The standard library is built with the sanitizer, or it would not see what its locks order.
THREADED = tutti-wire tutti-pool tutti-upstream tutti-guard tutti-metrics
test-threads: ## ThreadSanitizer over what threads share: the transport, the pool, servers of upstreams, bounds on rates, metrics
	@$(call NIGHTLY,rust-src)
	RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=$(TARGET)/threads $(LIMITED) \
	    $(CARGO) +nightly test -Zbuild-std --target $(HOST) $(addprefix -p ,$(THREADED)) --lib --no-fail-fast

test-pythons: ## the tests of Python applications on each Python found, also on those that only root can read
	$(CARGO) build --workspace --bins
	ALL=1 packaging/build-python --list | while read -r version program; do \
	    echo "Python $$version: $$program"; \
	    PYO3_PYTHON=$$program CARGO_TARGET_DIR=$(TARGET)/pythons $(CARGO) build -p tutti-python </dev/null; \
	    TUTTI_PYTHON_HOST=$(TARGET)/pythons/debug/tutti-python TUTTI_LANGUAGES="wsgi wsgi-threads asgi" \
	        $(CARGO) test --no-fail-fast -p tutti-e2e --test python_wsgi --test python_asgi --test contract </dev/null; \
	done

test-javas: ## the tests of Java applications on each Java that the host finds
	$(CARGO) build --workspace --bins
	$(TARGET)/debug/tutti-java --homes | while read -r version home; do \
	    echo "Java $$version: $$home"; \
	    PATH=$$home/bin:$$PATH TUTTI_LANGUAGES=java $(CARGO) test --no-fail-fast -p tutti-e2e --test contract --test java --test java_websocket --test java_machine </dev/null; \
	done

# Each is a package of npm, for this machine's processor.
NODES = 18.20.8 20.20.2 22.23.3 24.21.0
NODE_PACKAGE = node-linux-$(if $(filter aarch64,$(shell uname -m)),arm64,x64)

test-nodes: ## the tests of Node.js applications on each Node.js of NODES, from npm
	$(CARGO) build --workspace --bins
	status=0; for version in $(NODES); do \
	    folder=$(TARGET)/nodes/$$version; mkdir -p $$folder; \
	    npm install --prefix $$folder --no-save --no-audit --no-fund --ignore-scripts --loglevel error $(NODE_PACKAGE)@$$version || exit 1; \
	    node=$$folder/node_modules/$(NODE_PACKAGE)/bin/node; \
	    echo "Node.js $$($$node --version): $$node"; \
	    TUTTI_NODE_RUNTIME=$$node TUTTI_LANGUAGES=node $(CARGO) test --workspace --no-fail-fast --test contract --test node --test node_direct --test node_frameworks </dev/null || status=1; \
	done; exit $$status

test-debian: ## the languages on SUITE (trixie; of forky, which is not released, its Python), another Debian, in a root of its own (root only; most of an hour)
	packaging/test-debian $(or $(SUITE),trixie)

# `LONG=--long`: also those that take minutes to build.
test-real: ## DokuWiki, WordPress, Rails, Django, Spring, NestJS and others, used like a person
	python3 tests/real/run.py --server tutti --dist $(DIST) $(LONG)
	python3 tests/real/imports_run.py --dist $(DIST)
	python3 tests/real/snippets_run.py --dist $(DIST)
	python3 tests/real/imports_cases.py --dist $(DIST)
	python3 tests/real/imports_fuzz.py --dist $(DIST) $(if $(LONG),--count 480)
	python3 tests/agents/run.py --quick --dist $(DIST)

test-aarch64: ## the core, and an application of each language, on the other processor, by qemu (root only)
	@packaging/install-deps build aarch64
	PROFILE=$(or $(filter-out release,$(PROFILE)),demo) packaging/test-aarch64

test-real-debian: ## the same on SUITE (trixie), another Debian, with all that it has; those that take minutes to build, too (root only; most of an hour)
	packaging/test-debian $(or $(SUITE),trixie) bash -c 'packaging/install-deps real long && \
	    make build PROFILE=demo WASM= DIST=/srv/dist && make test-real LONG=--long DIST=/srv/dist'

# `SUITES=--only NAME,…`, `--quick` or `--check`: see tests/suites/run.py.
test-suites: ## the test suites of others (tests/suites) against DIST; the results are docs/project/conformance.md
	@packaging/install-deps test
	python3 tests/suites/run.py --dist $(DIST) $(SUITES)

# `TRIPLES=1`: each three of them (half an hour); `PAIRS=--list` and others: see tests/pairs/run.py.
test-pairs: ## each pair of thirty capabilities together, on a server of its own for each combination
	@packaging/install-deps build test
	$(CARGO) build --workspace --bins
	env -C tests/pairs python3 -m unittest -q test_covering
	python3 tests/pairs/run.py --programs $(TARGET)/debug $(if $(TRIPLES),--triples) $(PAIRS)

# Each tool is fetched once, below the target folder.
test-agents: ## agents, debuggers, profilers and coverage tools on applications of DIST (a quarter of an hour): docs/languages/agents.md
	@packaging/install-deps real
	python3 tests/agents/run.py --dist $(DIST)

# `QUICK=--quick`: PHP alone, packages without compression and lintian.
test-packages: ## the Debian packages of DIST on a fresh Debian with systemd: install, use, upgrade under load, remove, purge
	@packaging/install-deps packages
	rm -rf $(DEBS) && mkdir -p $(DEBS)
	packaging/build-deb --dist $(DIST) --out $(DEBS)/old $(QUICK)
	packaging/build-deb --dist $(DIST) --out $(DEBS)/new $(QUICK) --revision 2
	$(if $(QUICK),,lintian --allow-root --fail-on error,warning --tag-display-limit 0 $(DEBS)/old/*.changes)
	python3 tests/packages/run.py --packages $(DEBS)/old --newer $(DEBS)/new $(if $(QUICK),,--all)
	$(MAKE) --no-print-directory test-entrypoint

test-packages-debian: ## the same on SUITE (trixie), another Debian, built there, and the images of these packages
	@packaging/install-deps packages
	packaging/test-debian $(or $(SUITE),trixie) bash -c 'packaging/install-deps packages && \
	    CARGO_PROFILE_DEMO_DEBUG=line-tables-only make build PROFILE=demo WASM= && \
	    packaging/build-deb --out /srv/debs/old && packaging/build-deb --quick --revision 2 --out /srv/debs/new && \
	    lintian --allow-root --fail-on error,warning --tag-display-limit 0 /srv/debs/old/*.changes'
	python3 tests/packages/run.py --suite $(or $(SUITE),trixie) --all --packages .work/debian/$(or $(SUITE),trixie)/srv/debs/old \
	    --newer .work/debian/$(or $(SUITE),trixie)/srv/debs/new
	python3 tests/packages/registry.py --build .work/debian/$(or $(SUITE),trixie)/srv/debs/old

test-verify: ## a release of what DIST has: refused, signed, verified by VERIFY.md, installed and updated by install.sh
	@packaging/install-deps release
	python3 tests/packages/release.py --dist $(DIST)

test-reproducible: ## a release built twice, the second time as VERIFY.md says, by another user in another folder: the same bytes (hours; PROFILE=demo WASM=, CRATES=tutti-perl or IMAGED=dist/deb, an image of these packages alone: sooner)
	@packaging/install-deps build packages release image
	python3 tests/packages/reproducible.py $(if $(filter command%,$(origin IMAGED)),--image $(IMAGED),$(if $(CRATES),--crates "$(CRATES)" $(PROFILE),PROFILE=$(PROFILE) WASM=$(WASM)))

# The packages that images are made of, and the archives of them, under the names by which they are published.
IMAGED = $(DIST)/deb
IMAGES = $(DIST)/images
OWN_IMAGE = tutti-image-$(OWN_VERSION)-$(shell dpkg --print-architecture).tar
# LANGUAGES: those that it has (Dockerfile).
image: ## the container image of the packages that `make dist` has made (root only), as dist/tutti-image.tar
	packaging/build-image $(IMAGED) $(IMAGES)/$(OWN_IMAGE)
	ln -sf images/$(OWN_IMAGE) $(DIST)/tutti-image.tar

# ONLY: names of packaging/image/tags.toml, with commas.
images: ## the images that replace NGINX Unit's, one for each language that Debian has in the version of the packages of `make dist` (root only)
	packaging/build-images $(IMAGED) $(if $(ONLY),--only $(ONLY)) --archives $(IMAGES)

test-chart: ## the Helm chart: linted, rendered, held to Kubernetes' schemas and to docs/operate/kubernetes.md
	python3 tests/packages/chart.py

test-image: test-chart ## the image as Compose runs it, public users of Unit's images on those of `make images`, and these by way of a registry; the Dockerfile is linted
	python3 tests/packages/image.py
	python3 tests/packages/unit_users.py
	python3 tests/packages/registry.py --archives $(IMAGES) $(if $(filter release,$(PROFILE)),--sizes)

test-entrypoint: ## the entry point of the images that replace NGINX Unit's, without images (root only; half a minute)
	python3 tests/packages/entrypoint.py --dist $(DIST)

# Helm gives each file the present time.
chart: ## the Helm chart, as dist/tutti-VERSION.tgz
	mkdir -p $(DIST)
	helm="$$(packaging/fetch-tool helm)" && "$$helm" package --destination $(DIST) packaging/helm/tutti
	folder="$$(mktemp -d)" && for chart in $(DIST)/tutti-*.tgz; do \
	    tar -C "$$folder" -xf "$$chart" && packaging/archive "$$chart" "$$folder" tutti; done && rm -r "$$folder"

# Debian's own languages, wherever this is built.
DEBIANS = PYTHONS=/usr/bin/python3 PHPS="$$(php-config --version | cut -d. -f1,2)"
dist: deps ## dist/deb: packages for this Debian, with the licences of what is inside, a bill of materials and checksums; the same bytes each time
	@packaging/install-deps packages
	$(DEBIANS) packaging/reproducible $(MAKE) --no-print-directory build
	packaging/reproducible $(CARGO) xtask notices $(DIST)/third-party.txt
	rm -rf $(DIST)/deb
	packaging/reproducible packaging/build-deb --dist $(DIST) --out $(DIST)/deb
	packaging/reproducible packaging/bill-of-materials $(DIST)
	cd $(DIST)/deb && sha256sum *.deb *.json >SHA256SUMS

OWN_VERSION = $(shell sed -n '/^version = /{s/^version = "\(.*\)"/\1/p;q}' Cargo.toml)
REPOSITORY_KEYS = $(if $(GPG_KEY),--gpg-key $(GPG_KEY)) $(if $(APK_KEY),--apk-key $(APK_KEY))
# `IMAGE=` leaves out the images, which are root's to make. REHEARSAL=1 alone signs with a key of that run.
IMAGE = 1
PUT_TOGETHER = packaging/release $(or $(VERSION),$(if $(REHEARSAL),$(OWN_VERSION),none)) --dist $(DIST) $(if $(KEY),--key $(KEY)) $(if $(UNSIGNED),--unsigned) $(REPOSITORY_KEYS) $(if $(REHEARSAL),--rehearsal)
release: ## dist/release: all that is published of VERSION, signed with KEY or UNSIGNED=1; the same bytes each time (docs/project/releasing.md)
	$(if $(UNSIGNED),,@packaging/install-deps release)
	@$(PUT_TOGETHER) --check
	$(MAKE) --no-print-directory dist
	rm -rf $(addprefix $(DIST)/,rpm apk tar) $(IMAGES) $(DIST)/tutti-image.tar
	if $(PUT_TOGETHER) --portable; then packaging/reproducible $(MAKE) --no-print-directory packages VERSION=; fi
	$(if $(IMAGE),packaging/reproducible $(MAKE) --no-print-directory image images)
	packaging/reproducible $(MAKE) --no-print-directory chart
	packaging/reproducible $(MAKE) --no-print-directory site
	@$(PUT_TOGETHER)

# PUBLIC: a copy of what the server of releases has; KEY: minisign's secret key; GPG_KEY and APK_KEY: files with the secret keys of the repositories.
publish: ## add dist/release to PUBLIC (dist/public): releases, repositories for apt, dnf and apk, documents (docs/project/releasing.md)
	@packaging/install-deps repository release
	packaging/publish $(DIST)/release $(or $(PUBLIC),$(DIST)/public) $(if $(KEY),--key $(KEY)) $(REPOSITORY_KEYS) $(if $(REHEARSAL),--again)

# VERSION: another than that of Cargo.toml, for a release candidate. PACKAGES: where they are written.
PACKAGES_OF = $(or $(PACKAGES_FOLDER),$(DIST))
# PORTABLE: the C libraries that they are built for.
PORTABLE = gnu musl
PORTED = $(if $(filter $(1),$(PORTABLE)),$(2),@: left out: $(1))
PACKED = packaging/build-packages $(2) --dist $(TARGET)/portable/$(1) --out $(PACKAGES_OF)/$(2) $(if $(VERSION),--version $(VERSION))
packages: ## packages for other systems, of DIST (`make build`): rpm and a tar archive for glibc 2.28 and later, apk for musl; each in DIST/KIND
	@packaging/install-deps repository
	rm -rf $(PACKAGES_OF)/rpm $(PACKAGES_OF)/tar $(PACKAGES_OF)/apk
	$(CARGO) xtask notices $(DIST)/third-party.txt
	for libc in $(PORTABLE); do PROFILE=$(PROFILE) WASM=$(WASM) packaging/build-portable $$libc $(DIST) $(TARGET)/portable/$$libc; done
	$(call PORTED,gnu,$(call PACKED,gnu,rpm))
	$(call PORTED,gnu,$(call PACKED,gnu,tar))
	$(call PORTED,musl,$(call PACKED,musl,apk))

# Without GPG_KEY and APK_KEY the lists are not signed.
repository: ## dist/repository: what `make dist` and `make packages` have made, as repositories for apt, dnf and apk; static files
	@packaging/install-deps repository
	packaging/build-repository --out $(DIST)/repository $(REPOSITORY_KEYS) $(wildcard $(addprefix $(DIST)/,deb rpm apk))

# PREVIOUS: the folder with the last release's packages by kind (deb/SUITE, rpm, apk, tar), in place of the first candidate's; NEW is a later version.
RELEASE := $(CURDIR)/.work/release
OLD = 0.1.0-rc.1
NEW = $(if $(PREVIOUS),$(OWN_VERSION),0.1.0-rc.2)
CANDIDATES = $(if $(PREVIOUS),,old:$(OLD)) new:$(NEW)
test-release: ## publish a release candidate, install it on fresh Debian 12 and 13, an rpm- and a musl-based system, also by install.sh, upgrade under load, roll back (root only; hours)
	@packaging/install-deps packages repository release
	rm -rf $(RELEASE)
	mkdir -p $(RELEASE)/old $(RELEASE)/new
	$(if $(PREVIOUS),cp -r $(PREVIOUS)/. $(RELEASE)/old/)
	for one in $(CANDIDATES); do \
	    packaging/build-packages deb --quick --dist $(DIST) --version $${one#*:} --out $(RELEASE)/$${one%:*}/deb/$$(. /etc/os-release && echo $$VERSION_CODENAME); \
	    packaging/reproducible $(MAKE) --no-print-directory packages PACKAGES_FOLDER=$(RELEASE)/$${one%:*} VERSION=$${one#*:}; \
	done
	packaging/test-debian trixie bash -ec 'packaging/install-deps packages && make build PROFILE=demo WASM= DIST=/srv/dist && rm -rf /srv/release && \
	    for one in $(CANDIDATES); do packaging/build-packages deb --quick --dist /srv/dist --version $${one#*:} --out /srv/release/$${one%:*}/deb/trixie; done'
	cp -rn .work/debian/trixie/srv/release/. $(RELEASE)/
	python3 tests/packages/rehearsal.py --packages $(RELEASE) --dist $(DIST)
	suite="$$(. /etc/os-release && echo $$VERSION_CODENAME)" && python3 tests/packages/registry.py --candidates $(RELEASE)/old/deb/$$suite $(RELEASE)/new/deb/$$suite

# Links to sources lead into the repository that Cargo.toml names, to this version.
REPOSITORY = $(shell sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_URL = $(if $(findstring .invalid/,$(REPOSITORY)),,$(REPOSITORY)/blob/v$(OWN_VERSION))
site: ## the documents with search, as pages in dist/site/VERSION, all links tried
	SOURCE_URL="$(SOURCE_URL)" $(CARGO) xtask book $(CURDIR)/.work/book
	mdbook="$$(packaging/fetch-tool mdbook)" && "$$mdbook" build $(CURDIR)/.work/book
	packaging/site/finish $(CURDIR)/.work/book/book
	packaging/site/publish $(CURDIR)/.work/book/book $(DIST)/site $(OWN_VERSION)
	python3 tests/site.py $(DIST)/site

lint-site: site ## Lighthouse on the site as Tutti serves it: 95 points in each category (Chromium; fetches Lighthouse from npm once)
	$(CARGO) build --profile $(PROFILE) -p tutti-daemon
	python3 tests/site_quality.py $(BUILT)/tutti $(DIST)/site

recording: build ## docs/start/session.svg: the session of the README, recorded in a terminal (port 8080)
	packaging/site/record $(DIST) docs/start/session.svg

test-long: build ## every fault at length, all that a release has, then an hour of mixed load with the memory watched
	@packaging/install-deps build test real long bench
	$(CARGO) build --release --workspace --bins
	TUTTI_LONG=1 TUTTI_BIN_DIR=$(TARGET)/release $(CARGO) test --workspace --no-fail-fast -- --include-ignored
	$(MAKE) --no-print-directory test-real LONG=--long
	$(MAKE) --no-print-directory test-packages
	$(MAKE) --no-print-directory dist
	$(MAKE) --no-print-directory image
	$(MAKE) --no-print-directory images
	$(MAKE) --no-print-directory chart site
	$(MAKE) --no-print-directory test-image
	$(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory test-debian
	$(MAKE) --no-print-directory test-real-debian
	$(MAKE) --no-print-directory test-packages-debian
	$(MAKE) --no-print-directory soak HOURS=$(or $(HOURS),1)

soak: ## HOURS (4) of all languages, protocols, jobs, changes, kills and upgrades at once, in DIST; memory, descriptors and files must stay flat
	@packaging/install-deps build test real bench
	python3 tests/soak/run.py --dist $(DIST) --hours $(or $(HOURS),4)

fuzz: ## each fuzz target, or those of TARGETS, for FUZZ_SECONDS (60); what it found is kept in fuzz/corpus
	@packaging/install-deps build fuzz
	for target in $(or $(TARGETS),$$(cd fuzz && $(CARGO) fuzz list)); do \
	    seeds=$$(ls -d fuzz/seeds/$$target 2>/dev/null || true); \
	    mkdir -p fuzz/corpus/$$target; \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target fuzz/corpus/$$target $$seeds -- -max_total_time=$(or $(FUZZ_SECONDS),60); \
	done

bench: build ## every point of docs/project/performance.md beside nginx, FPM and Apache
	@packaging/install-deps build bench
	python3 bench/run.py --dist $(DIST) --document

bench-quick: build ## one short round of the same: shows that the harness works
	@packaging/install-deps build bench
	python3 bench/run.py --dist $(DIST) --quick --results $(CURDIR)/.work/bench

bench-arena: build ## what HttpArena's validation asks of our entries in bench/arena, without Docker (some minutes)
	@packaging/install-deps build bench
	python3 bench/arena/check.py --dist $(DIST)

bench-instructions: build ## instructions of the router for one request, by callgrind (root only; some minutes; BESIDE=OTHER/dist: a ratio)
	@packaging/install-deps build test
	python3 bench/instructions.py --dist $(DIST) $(if $(BESIDE),--beside $(BESIDE))

bench-fleet: build ## 1,000 nodes of a fleet on one etcd, without servers: docs/operate/fleet.md (some minutes)
	@packaging/install-deps build test bench
	python3 bench/fleet.py --dist $(DIST) --document

lint: deps ## formatting, clippy, licences and advisories, the repository's own rules
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask check
	@$(MAKE) --no-print-directory lint-texts
	@if [[ -x .work/tools/bin/vale ]] || command -v vale >/dev/null; then $(MAKE) --no-print-directory lint-words; \
	else echo "vale is not installed: only xtask has looked at the words (packaging/fetch-tool vale)"; fi

lint-texts: ## of these what needs nothing built: formatting, unused dependencies, licences and advisories
	$(CARGO) fmt --all --check
	@if ! $(CARGO) machete --version >/dev/null 2>&1; then \
	    echo "cargo-machete is not installed: unused dependencies not looked for (cargo install --locked cargo-machete)"; \
	else $(CARGO) machete; fi
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then \
	    echo "cargo-deny is not installed: licences and advisories not checked (cargo install --locked cargo-deny)"; \
	else \
	    $(CARGO) deny check --hide-inclusion-graph bans licenses sources || exit 1; \
	    if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny check advisories; \
	    else echo "the advisory database cannot be reached: advisories not checked"; fi; \
	fi

format: ## formats the code; imports are grouped by nightly rustfmt, which is installed once
	@$(call NIGHTLY,rustfmt)
	$(CARGO) +nightly fmt --all

lint-workflows: ## the workflows of GitHub: by actionlint and zizmor, which are fetched once
	actionlint="$$(packaging/fetch-tool actionlint)" && "$$actionlint"
	zizmor="$$(packaging/fetch-tool zizmor)" && "$$zizmor" --offline --quiet .github/workflows

check-format: # imports are grouped, which only nightly rustfmt checks
	@$(call NIGHTLY,rustfmt)
	$(CARGO) +nightly fmt --all --check

lint-words: ## comments, documents and messages: the words of packaging/vale, by Vale, which is fetched once (minutes)
	packaging/vale/check

clean:
	$(CARGO) clean
	rm -rf $(DIST) .work
