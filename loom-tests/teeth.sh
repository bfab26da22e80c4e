#!/usr/bin/env bash
# Seeds every fault of teeth.txt into a copy of the source, one at a time, and
# asserts that the model named beside it fails, or a random schedule.
#
#   loom-tests/teeth.sh                all faults
#   loom-tests/teeth.sh mailbox poison those whose names contain one of these
#
# Fails where a model does not catch its fault, where a fault does not build, and
# where its text is no longer in the source exactly once. The build directory is
# target/teeth; with it warm, a fault costs some seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS

# No model takes as long; one that does hangs, and hanging proves nothing.
readonly PATIENCE=${TEETH_PATIENCE:-600}
readonly HERE=$PWD
readonly COPY=$HERE/target/teeth/source
readonly BUILD=$HERE/target/teeth/build
filters=("$@")
export CARGO_TARGET_DIR=$BUILD

# Random schedules tried for a fault that is theirs to catch: more than CI runs.
readonly SEEDS=${TEETH_SEEDS:-50000}

# Exit codes of the models' runner that say nothing about the model.
readonly MISUSED=2 TOO_FEW=3 TIMED_OUT=124

mkdir -p "$COPY" "$BUILD"
find "$COPY" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
tar --exclude=./target --exclude=./.git -cf - . | tar -xf - -C "$COPY"
cd "$COPY"

caught=0 missed=() seen=0

wanted() {
    [[ ${#filters[@]} -eq 0 ]] && return
    local filter
    for filter in "${filters[@]}"; do
        [[ $1 == *"$filter"* || $2 == *"$filter"* ]] && return
    done
    return 1
}

die() {
    echo "$*" >&2
    exit 2
}

# apply FILE OLD NEW: replaces the one occurrence.
apply() {
    local text rest
    text=$(<"$1")
    rest=${text//"$2"/}
    (( (${#text} - ${#rest}) == ${#2} )) ||
        die "fault \"$fault\": its text is not in $1 exactly once"
    printf '%s\n' "${text/"$2"/"$3"}" >"$1"
}

# As models are built: without optimization the engine overflows their small stacks,
# and whoever looks at exit codes takes that for a fault that was caught.
built() {
    local tests=loom cfgs="'--cfg','sessionlog_loom'"
    if [[ $model == schedules ]]; then
        tests=schedules cfgs+=",'--cfg','sessionlog_shuttle'"
    fi
    cargo test --quiet --no-run --profile loom --test "$tests" --message-format=json \
        --config "build.rustflags=[$cfgs,'-A','warnings']" 2>"$BUILD/stderr" |
        grep -o '"executable":"[^"]*"' | tail -1 | cut -d'"' -f4
}

run_fault() {
    local binary code=0 start=$SECONDS arguments=("$model")
    [[ $model == schedules ]] && arguments=(--range 1 "$SEEDS")
    seen=$((seen + 1))
    binary=$(built) || { cat "$BUILD/stderr" >&2; die "fault \"$fault\" does not build"; }
    timeout "$PATIENCE" "$binary" "${arguments[@]}" >"$BUILD/stdout" 2>&1 || code=$?
    local reason
    reason=$(grep -m1 -A1 "panicked at" "$BUILD/stdout" | tail -1) || true
    case $code in
        0 | "$MISUSED" | "$TOO_FEW" | "$TIMED_OUT")
            missed+=("$model: $fault (exit code $code)")
            echo "MISSED  $model: $fault (exit code $code)"
            ;;
        *)
            if [[ -z $reason ]] || grep -q "overflowed its stack" "$BUILD/stdout"; then
                tail -20 "$BUILD/stdout" >&2
                die "fault \"$fault\": $model died without a claim (exit code $code), which proves nothing"
            fi
            caught=$((caught + 1))
            echo "caught  $model: $fault ($((SECONDS - start)) s): ${reason:0:120}"
            ;;
    esac
}

restore() {
    local path
    for path in "${touched[@]}"; do
        cp "$HERE/$path" "$path"
    done
}

fault='' model='' file='' part='' old='' new='' touched=()
while IFS= read -r line || [[ -n $line ]]; do
    case $part:$line in
        :'fault '*) fault=${line#fault } touched=() ;;
        :'model '*) model=${line#model } ;;
        :'file '*) file=${line#file } ;;
        :'<<<<') part=old old='' ;;
        old:'====') part=new new='' ;;
        new:'>>>>')
            part=''
            # Also where it is not run: a fault that no longer fits must not hide.
            apply "$file" "${old%$'\n'}" "${new%$'\n'}"
            touched+=("$file")
            ;;
        :'end')
            if wanted "$fault" "$model"; then
                run_fault
            fi
            restore
            ;;
        old:*) old+=$line$'\n' ;;
        new:*) new+=$line$'\n' ;;
        : | :'#'*) ;;
        *) die "teeth.txt: $line" ;;
    esac
done <"$HERE/loom-tests/teeth.txt"

echo "$caught of $seen faults caught"
(( seen > 0 && caught == seen )) || { printf 'missed: %s\n' "${missed[@]}" >&2; exit 1; }
