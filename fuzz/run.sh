#!/usr/bin/env bash
# Fuzzes one target or all: fuzz/run.sh [target|all] [seconds]
#
# Uses the nightly toolchain's sanitizer and libFuzzer. New inputs stay in
# fuzz/corpus; an input that fails goes to fuzz/artifacts and belongs, once its
# bug is mended, into tests/it/fuzz/inputs, which `cargo test --test it fuzz::` replays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

wanted=${1:-all}
seconds=${2:-600}
all=(journal log sidecar image)
[[ $wanted == all ]] && targets=("${all[@]}") || targets=("$wanted")

skip() {
    echo "SKIPPED: $*"
    exit 0
}
rustup run nightly rustc --version >/dev/null 2>&1 || skip "there is no nightly toolchain"
command -v c++ >/dev/null || skip "there is no C++ compiler for libFuzzer"
cargo +nightly fetch --quiet 2>/dev/null || skip "libfuzzer-sys cannot be fetched"

# What `cargo fuzz build` does, for machines that do not have it.
host=$(rustup run nightly rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares \
-Zsanitizer=address -Ccodegen-units=1"
cargo +nightly build --release --target "$host" --bins

status=0
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    echo "=== $target, $seconds seconds"
    # Inputs are at most 64 KiB: a quarter of a gigabyte for one is out of
    # proportion.
    "target/$host/release/$target" \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -malloc_limit_mb=256 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="artifacts/$target/" \
        "corpus/$target" "../tests/it/fuzz/inputs/$target" 2>"artifacts/$target/log" || status=1
    grep -E '^(stat::|SUMMARY|Done|==.*ERROR)' "artifacts/$target/log" || true
done
exit "$status"
