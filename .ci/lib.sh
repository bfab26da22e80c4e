# What the scripts here share. They start in the repository's root.
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-always}"
export CARGO_NET_RETRY="${CARGO_NET_RETRY:-10}"
# Flags from outside would replace those that switch `cargo loom` to its models, which then
# would explore nothing.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS RUSTDOCFLAGS

# Asks rustup only for what is missing, so that a complete machine needs no network.
component() {
    cargo "$2" --version >/dev/null 2>&1 || rustup component add "$1"
}

# packaged COMMAND PACKAGE...: installs the packages if the command fails and Debian's package
# manager is there.
packaged() {
    local found=$1
    shift
    eval "$found" >/dev/null 2>&1 && return
    command -v apt-get >/dev/null 2>&1 || return 1
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } >/dev/null
}

# What only some tests need. Without it they say SKIPPED; where it can be had they must run.
browser() {
    if packaged "command -v chromium && command -v chromedriver" chromium chromium-driver; then
        export SESSIONLOG_BROWSER=required
    else
        echo "SKIPPED: no browser can be installed"
    fi
}
postgres() {
    if packaged "ls /usr/lib/postgresql/*/bin/initdb && command -v pgbouncer && command -v openssl" \
        postgresql pgbouncer openssl; then
        export SESSIONLOG_POSTGRES=required
    else
        echo "SKIPPED: PostgreSQL cannot be installed"
    fi
}
