#!/usr/bin/env bash
# Recorded suites: the small copy passes on the cpu and on the reference; wrong values, damaged files and strange words are noticed; where the
# shared data is there, a fixed part of the elementwise and reduce suites passes on every device.
set -u
quern=$1
mini=tests/data/golden_mini
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export QN_CACHE_DIR="$work/cache"

say() {
  echo "$*"
  failures=$((failures + 1))
}

# run CODE ARGUMENTS...: output in $out
run() {
  local code=$1 got
  shift
  out=$("$quern" replay "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" -eq "$code" ] || say "quern replay $*: exit code $got, expected $code: $out"
}
has() { grep -qF -- "$1" <<<"$out" || say "no \"$1\" in: $out"; }

out=$("$quern" replay "$mini" --suite ops_reduce --device cpu-ref 2>&1)
if grep -q "no JSON reader" <<<"$out"; then
  echo "built without a JSON reader: suites are not replayed"
  exit 0
fi

# ---- the small copy ----
for device in cpu-ref cpu; do
  run 0 "$mini" --device $device
  has "17 passed    0 failed    0 skipped"
  [ "$(grep -c " 0 failed " <<<"$out")" -eq 6 ] || say "$device: expected six suites: $out"
done
QN_INTERPRET=on run 0 "$mini" --device cpu --suite ops_elementwise
run 0 "$mini" --device cpu --suite ops_elementwise --batch 1
has "17 passed"
run 0 "$mini" --device cpu-ref --suite ops_elementwise --case 'grad_corner/*' --verbose
has "passed  grad_corner/abs"
has "3 passed"
run 0 "$mini" --device cpu-ref --suite ops_elementwise --part 2/4
has "4 passed"
run 0 "$mini" --device cpu-ref --json
has '{"device":"cpu-ref","suites":['
has '{"name":"ops_elementwise","passed":17,"failed":0,"skipped":0,"excluded":0'
has '"failures":[]'

# ---- wrong values: each of outputs, vjp and jvp ----
if command -v python3 >/dev/null; then
  cp -r "$mini" "$work/wrong"
  python3 - "$work/wrong" <<'PYTHON'
import json, struct, sys
folder = sys.argv[1] + "/ops_elementwise"
with open(folder + ".json") as f:
    cases = {c["id"]: c for c in json.load(f)["cases"]}
with open(folder + ".safetensors", "rb") as f:
    data = bytearray(f.read())
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + n])
for name in (cases["unary/abs/f32_special"]["outputs"][0], cases["grad_corner/maximum"]["vjp"][1], cases["grad_corner/abs"]["jvp"][0]):
    end = 8 + n + header[name]["data_offsets"][1]
    data[end - 4 : end] = struct.pack("<f", 123.0)
with open(folder + ".safetensors", "wb") as f:
    f.write(data)
PYTHON
  for device in cpu-ref cpu; do
    run 1 "$work/wrong" --suite ops_elementwise --device $device
    has "14 passed    3 failed"
    has "unary/abs/f32_special: output 0: element"
    has "grad_corner/maximum: vjp 1: element"
    has "grad_corner/abs: jvp 0: element"
    has "expected 123"
  done
  run 1 "$work/wrong" --suite ops_elementwise --device cpu-ref --json
  has '"failures":["unary/abs/f32_special","grad_corner/maximum","grad_corner/abs"]'
  "$quern" replay "$work/wrong" --device cpu-ref --json | python3 -c 'import json, sys; json.load(sys.stdin)' || say "no JSON"
fi

# ---- an operation that is not built is skipped, and that is no success ----
mkdir "$work/strange"
sed 's/"op": "abs"/"op": "no_such_op"/' "$mini/ops_elementwise.json" >"$work/strange/ops_elementwise.json"
cp "$mini/ops_elementwise.safetensors" "$work/strange/"
run 1 "$work/strange" --device cpu-ref --verbose
has "operation not built yet: no_such_op"
has "not allowed"

# ---- damaged and missing files ----
mkdir "$work/cut" "$work/json" "$work/lost" "$work/empty"
cp "$mini/ops_reduce.json" "$work/cut/"
head -c 2000 "$mini/ops_reduce.safetensors" >"$work/cut/ops_reduce.safetensors"
run 2 "$work/cut" --device cpu-ref
has "ops_reduce.safetensors"
head -c 700 "$mini/ops_reduce.json" >"$work/json/ops_reduce.json"
cp "$mini/ops_reduce.safetensors" "$work/json/"
run 2 "$work/json" --device cpu-ref
has "ops_reduce.json: no JSON"
cp "$mini/ops_reduce.json" "$work/lost/"
run 2 "$work/lost" --device cpu-ref
has "ops_reduce.safetensors"
sed 's/in0"/in9"/' "$mini/ops_reduce.json" >"$work/lost/ops_reduce.json"
cp "$mini/ops_reduce.safetensors" "$work/lost/"
run 1 "$work/lost" --device cpu-ref
has "is not in ops_reduce.safetensors"
run 2 "$work/empty"
has "there is no suite"
run 2 "$work/nowhere"
has "there is no folder"
run 2 "$mini" --suite ops_none
has "there is no suite 'ops_none'"
has "there are: control_rng_fft, ops_contract"
run 2 "$mini" --case 'nothing/*' --device cpu-ref
has "no case is chosen"
run 2 "$mini" --part 11/10
run 2 "$mini" --device warp:3
has 'no device "warp:3"'

# ---- the shared suites: a tenth on the cpu, a hundredth on devices that compile slowly (QN_TEST_ALL=1: a tenth there too) ----
shared=${QN_SHARED:-../shared}/golden
# rusticl takes seconds for a kernel with a transcendental function: integer cases only.
slow=$("$quern" devices --json | sed 's/},{/}\n{/g' | grep -i rusticl | grep -o '"id":"[^"]*","usable":true' | cut -d'"' -f4)
devices=$("$quern" devices --json | grep -o '"id":"[^"]*","usable":true' | cut -d'"' -f4 | grep -v '^null$')
if [ -f "$shared/ops_elementwise.json" ]; then
  run 0 "$shared" --suite ops_elementwise --device cpu-ref
  for device in $devices; do
    part=3/100 cases='*'
    if [[ " $slow " == *" $device "* ]]; then part=7/20 cases='*i32*'; fi
    if [ "$device" = cpu ] || [ "${QN_TEST_ALL:-0}" != 0 ]; then part=3/10; fi
    for suite in ops_elementwise ops_reduce; do
      out=$("$quern" replay "$shared" --suite $suite --part $part --case "$cases" --device "$device" 2>&1)
      grep -q " 0 failed " <<<"$out" || say "$out"
    done
  done
else
  for device in $devices; do
    run 0 "$mini" --suite ops_elementwise --case 'binary/*' --device "$device"
  done
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
