#!/usr/bin/env bash
# Makes the drafters of a model from its own answers: captured texts, a table, and per method a fit and a drafter
# folder with measured acceptance on its card.
#
#     GSM8K=gsm8k_train.jsonl recipes/smollm2-135m.sh
#
# Every size is a variable. Kill it whenever you like and run it again with the same ones: what is whole stays, and what
# is not goes on. Remove a result to have it made again.
set -euo pipefail

: "${GSM8K:?Name the problems of GSM8K, training set: GSM8K=gsm8k_train.jsonl}"
PARADRAFT=${PARADRAFT:-paradraft}
MODEL=${MODEL:-smollm2-135m}
NAME=${NAME:-smollm2-135m}          # of what is made: NAME.table, NAME-dspark
OUT=${OUT:-out/drafters}
METHODS=${METHODS:-dspark peagle dflash}
OWN_TURNS=${OWN_TURNS:-4500}        # user turns that the model writes itself
FOLLOW_UPS=${FOLLOW_UPS:-0}         # share of them with a second turn; the answers between cost more than all turns
PROBLEMS=${PROBLEMS:-1500}          # of GSM8K
MAX_PROMPT=${MAX_PROMPT:-384}       # tokens; second turns need the room
MAX_TOKENS=${MAX_TOKENS:-256}       # of an answer
ROWS=${ROWS:-32}                    # answered together
UNIT=${UNIT:-60}                    # conversations that a killed capture loses
TAPS_GB=${TAPS_GB:-40}
PARTS=${PARTS:-2}                   # captures side by side, one thread each
HELD_OUT=${HELD_OUT:-mt-bench,gsm8k-100}
DTYPE=${DTYPE:-bf16}                # of capturing, fitting and measuring
# Where NAME.table and NAME-METHOD to begin with may lie; empty: all afresh.
BEGIN_FROM=${BEGIN_FROM-$(dirname "$0")/../src/paradraft/shipped}
STEPS=${STEPS:-1750}
SEQUENCES=${SEQUENCES:-6}           # per step
ANCHORS=${ANCHORS:-96}              # per sequence
LR=${LR:-5e-4}
FIT_THREADS=${FIT_THREADS:-}
SETTINGS=${SETTINGS:-schedule=linear-end cooldown=0.4 depths=mixed weighting=equal soft=0.6 head_rows=4096 num_key_heads=9 seed=11}
TABLE_MB=${TABLE_MB:-20}
PROMPTS=${PROMPTS:-mt-bench,gsm8k-100}  # to measure acceptance on
LIMIT=${LIMIT:-40}                  # prompts of each

shards=$OUT/capture
mkdir -p "$OUT"
trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT

capture() {
    "$PARADRAFT" train capture "$shards" --model "$MODEL" --own-turns "$OWN_TURNS" \
        --follow-ups "$FOLLOW_UPS" --prompts "gsm8k=$GSM8K" \
        --limit "$PROBLEMS" --held-out "$HELD_OUT" --max-prompt "$MAX_PROMPT" --max-tokens "$MAX_TOKENS" --rows "$ROWS" --unit "$UNIT" \
        --taps-gb "$TAPS_GB" --dtype "$DTYPE" --part "$1/$PARTS" --set threads=1
}

capture_all() {
    local part pids=()
    for ((part = 0; part < PARTS; part++)); do
        capture "$part" &
        pids+=($!)
    done
    for part in "${pids[@]}"; do wait "$part"; done
}

fit() {  # method, folder
    local sizes=() setting
    for setting in $SETTINGS; do sizes+=(--set "$setting"); done
    [ "$1" = dspark ] || sizes+=(--set markov_rank=0)
    if [ -n "$BEGIN_FROM" ] && [ -e "$BEGIN_FROM/$NAME-$1/config.json" ]; then
        sizes+=(--begin-from "$BEGIN_FROM/$NAME-$1")
    fi
    "$PARADRAFT" train fit "$shards" "$2" --model "$MODEL" --method "$1" --steps "$STEPS" --sequences "$SEQUENCES" \
        --anchors "$ANCHORS" --lr "$LR" ${FIT_THREADS:+--threads "$FIT_THREADS"} --set dtype="$DTYPE" "${sizes[@]}"
}

export_to() {  # run, folder, more options
    "$PARADRAFT" train export "$1" "$2" --model "$MODEL" --shards "$shards" --dtype fp16 --licence Apache-2.0 \
        --source-licence gsm8k=MIT --source-licence self=Apache-2.0 "${@:3}"
}

drafter() {  # method
    local run=$OUT/runs/$1 bare=$OUT/runs/$1/unmeasured figures=$OUT/runs/$1/figures.json
    fit "$1" "$run"
    rm -rf "$bare"
    export_to "$run" "$bare"
    "$PARADRAFT" train evaluate "$bare" --model "$MODEL" --prompts "$PROMPTS" --limit "$LIMIT" \
        --max-tokens "$MAX_TOKENS" --dtype "$DTYPE" --json "$figures"
    export_to "$run" "$OUT/$NAME-$1" --acceptance "$figures"
}

if [ ! -e "$OUT/$NAME.table" ]; then
    capture_all
    older=()
    if [ -n "$BEGIN_FROM" ] && [ -e "$BEGIN_FROM/$NAME.table" ]; then older=(--begin-from "$BEGIN_FROM/$NAME.table"); fi
    "$PARADRAFT" train table "$shards" "$OUT/$NAME.table" --max-mb "$TABLE_MB" "${older[@]}"
fi
for method in $METHODS; do
    [ -e "$OUT/$NAME-$method" ] || drafter "$method"
done
