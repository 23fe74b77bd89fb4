# `make help` lists the targets.

CARGO   ?= cargo
PREFIX  ?= /usr/local
UNITS    = $(PREFIX)/lib/systemd/system
SECONDS ?= 30

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

packages: ## the Debian packages that are missing
	./dependencies

build: packages ## target/release/zovn
	$(CARGO) build --release --package zovn

profiled: packages ## target/profiled/zovn: the same for those who simulate much, compiled with a simulation's profile
	CARGO=$(CARGO) tools/profiled

# For our own target by name: so the flags are not those of build scripts and macros, which cannot be static.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
guest: packages ## target/guest/zovn-guest: what runs in virtual machines, static and small
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --profile small --package guest \
		--target $(HOST) --target-dir target/guest
	ln -f target/guest/$(HOST)/small/zovn-guest target/guest/zovn-guest

kernel: packages ## target/tmp/kernel: the kernel of tests' virtual machines, fetched alone
	$(CARGO) run --quiet --package lab --example kernel -- target/tmp

run: build ## the demo: a tenant's network, and every switch under the same load; writes report.html (needs root)
	target/release/zovn demo --report report.html

check: ## formatting and the tests that need no root
	$(CARGO) fmt --all --check
	CARGO=$(CARGO) tools/test check

test: packages ## every test there is; needs root
	CARGO=$(CARGO) tools/test

# The pinned compiler has the sanitizer, but takes its flag as a nightly one only.
# Not here: what needs QEMU, and a fault of ours, which the sanitizer answers before the kernel does.
sanitize: ## what touches guests' memory, virtio's rings among it, under AddressSanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" $(CARGO) test --package port --package vhost --lib --tests \
		--target $(HOST) --target-dir target/sanitize -- --skip vhost::qemu --skip a_fault_elsewhere

# What makes no system call of its own: slots, and virtio's rings in memory of the test's. The one that may be skipped: a nightly
# compiler is not everywhere to be had. `make test` counts the line.
miri: ## virtio's rings under Miri, by a nightly compiler that is fetched
	@if nightly=$$(tools/nightly 2>&1); then set -x; \
	PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation \
	$(CARGO) +$$nightly miri test --package port --package vhost --lib --target-dir target/miri -- pool:: cut:: span:: virtio::; \
	else echo "skipped: miri: $$nightly"; fi

fuzz: ## each fuzz target for SECONDS seconds; needs a nightly compiler
	fuzz/run $(SECONDS)

style: packages ## formatting, and clippy's warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

lint: style ## style, and the licenses and sources of what we depend on
	tools/cargo-deny check --hide-inclusion-graph bans licenses sources

doc: packages ## target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

bench: packages ## every benchmark
	$(CARGO) bench --workspace --benches

count: packages ## the instructions that a frame and a turn cost, which must not grow by a tenth
	$(CARGO) bench --package admission --package conntrack --package demand --package placement --package nlog --package hypervisor \
		--package shares --package classifier --package plane --package overlay --package forwarding --package sim --bench instructions

SHARE       = $(DESTDIR)$(PREFIX)/share
SYSUSERS    = $(DESTDIR)$(PREFIX)/lib/sysusers.d/zovn-controller.conf
BASH        = $(SHARE)/bash-completion/completions/zovn
ZSH         = $(SHARE)/zsh/site-functions/_zovn
FISH        = $(SHARE)/fish/vendor_completions.d/zovn.fish

# The example's ports stay comments: it is for its reader to name containers that exist.
install: build ## into DESTDIR/PREFIX: programs, their manual, completion, units of the agent and the controller; examples of their files in /etc/zovn if there are none
	$(CARGO) build --release --package zovn-agent
	install -D -m 755 target/release/zovn target/release/zovn-agent -t $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(UNITS) $(DESTDIR)/etc/zovn $(dir $(BASH) $(ZSH) $(FISH))
	sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/zovn-agent.service >$(DESTDIR)$(UNITS)/zovn-agent.service
	sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/zovn-controller.service >$(DESTDIR)$(UNITS)/zovn-controller.service
	install -D -m 644 packaging/zovn-controller.sysusers $(SYSUSERS)
	target/release/zovn man $(SHARE)/man/man1
	target/release/zovn completion bash >$(BASH)
	target/release/zovn completion zsh >$(ZSH)
	target/release/zovn completion fish >$(FISH)
	[ -e $(DESTDIR)/etc/zovn/host.toml ] || \
	sed '/^\[\[port/,$$ s/^[^#]/# &/' examples/host.toml >$(DESTDIR)/etc/zovn/host.toml
	[ -e $(DESTDIR)/etc/zovn/controller.env ] || cp examples/controller.env $(DESTDIR)/etc/zovn/controller.env

uninstall: ## removes what `make install` has put there; /etc/zovn stays
	rm -f $(DESTDIR)$(PREFIX)/bin/zovn $(DESTDIR)$(PREFIX)/bin/zovn-agent
	rm -f $(DESTDIR)$(UNITS)/zovn-agent.service $(DESTDIR)$(UNITS)/zovn-controller.service $(SYSUSERS)
	rm -f $(SHARE)/man/man1/zovn.1 $(SHARE)/man/man1/zovn-*.1 $(BASH) $(ZSH) $(FISH)

clean: ## removes what was built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/corpus fuzz/artifacts report.html

.PHONY: help packages build profiled guest kernel run check test sanitize miri fuzz style lint doc bench count install uninstall clean
