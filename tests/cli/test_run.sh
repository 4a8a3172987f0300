#!/usr/bin/env bash
# quern run: inputs and results in every file format, comparison, messages and exit codes, where a NaN came from.
set -u
quern=$1
data=tests/data/programs
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
  out=$("$quern" run "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" -eq "$code" ] || say "quern run $*: exit code $got, expected $code: $out"
}
has() { grep -qF -- "$1" <<<"$out" || say "no \"$1\" in: $out"; }
one_line() { [ "$(wc -l <<<"$out")" -eq 1 ] && [[ "$out" == "quern: "* ]] || say "expected one line: $out"; }

iota() { # NAME TYPE: a program whose one result is 0, 1, 2 ...
  printf 'func.func @main() -> tensor<%s> {\n  %%0 = stablehlo.iota dim = 0 : tensor<%s>\n  return %%0 : tensor<%s>\n}\n' \
    "$2" "$2" "$2" >"$work/$1.mlir"
}
same() { # NAME TYPES...: a program that gives its arguments back
  local name=$1 params="" results="" types="" i=0 t
  shift
  for t in "$@"; do
    params+="${params:+, }%arg$i: tensor<$t>" results+="${results:+, }%arg$i" types+="${types:+, }tensor<$t>"
    i=$((i + 1))
  done
  printf 'func.func @main(%s) -> (%s) {\n  return %s : %s\n}\n' "$params" "$types" "$results" "$types" >"$work/$name.mlir"
}

# ---- programs without inputs; every format there and back ----
iota f 2x3xf32
iota i 4xi64
iota b 3xbf16
iota h 3xf16
for p in f i b h; do
  for device in cpu cpu-ref; do
    run 0 "$work/$p.mlir" --device $device --out "$work/$p.npy"
  done
done
run 0 "$work/i.mlir" --device cpu
has "out0 i64[4]  0 1 2 3"
has "fallbacks: 0"
same two 2x3xf32 4xi64
run 0 "$work/two.mlir" --device cpu --in "$work/f.npy" --in "$work/i.npy" --out "$work/two.npz"
run 0 "$work/two.mlir" --device cpu-ref --in "$work/f.npy" --in="$work/i.npy" --compare "$work/two.npz"
has "2 of 2 results agree"
for t in b:3xbf16 h:3xf16; do
  same "${t%%:*}_same" "${t#*:}"
  run 0 "$work/${t%%:*}_same.mlir" --device cpu --in "$work/${t%%:*}.npy" --compare "$work/${t%%:*}.npy"
  has "1 of 1 results agree"
done

# ---- what JAX recorded ----
for p in add_one vmap_dot dynamic_slice complex_math; do
  for device in cpu cpu-ref; do
    run 0 $data/$p.mlir --in $data/$p.safetensors --compare $data/$p.safetensors --device $device
    has "results agree"
  done
done
run 0 $data/vmap_dot.mlir --in $data/vmap_dot.safetensors --device cpu --repeat 3 --json --compare $data/vmap_dot.safetensors
has '"passed":true'
has '"fallbacks":0'
has '"differ":0'
if command -v python3 >/dev/null; then python3 -c 'import json, sys; json.load(sys.stdin)' <<<"$out" || say "no JSON: $out"; fi

# Complex arrays: pairs in safetensors files, one array in NumPy's.
for f in c.safetensors c.npz; do
  run 0 $data/complex_math.mlir --in $data/complex_math.safetensors --device cpu --out "$work/$f"
  run 0 $data/complex_math.mlir --in $data/complex_math.safetensors --device cpu-ref --compare "$work/$f"
done
grep -q '"out3.re"' "$work/c.safetensors" || say "no out3.re"

# ---- a comparison that fails: one line for each result, exit code 1 ----
run 0 $data/vmap_dot.mlir --in $data/vmap_dot.safetensors --device cpu --out "$work/o.safetensors"
run 0 $data/vmap_dot.mlir --in $data/vmap_dot.safetensors --device cpu --compare "$work/o.safetensors" --rtol 0 --atol 0
run 0 "$work/i.mlir" --device cpu --out "$work/want.npy"
sed 's/dim = 0/dim = 1/' "$work/f.mlir" >"$work/other.mlir"
run 1 "$work/other.mlir" --device cpu --compare "$work/f.npy"
has "out0 f32[2,3]: 4 of 6 elements differ; worst at [0,2]: got 2, want 0 (rtol 0.0001, atol 1e-05)"
has "0 of 1 results agree"
run 0 "$work/other.mlir" --device cpu --compare "$work/f.npy" --atol 2
run 1 "$work/other.mlir" --device cpu --compare "$work/f.npy" --atol 1.5 --json
has '"passed":false'

# ---- what is wrong with the inputs: one line, exit code 2 ----
run 2 "$work/two.mlir" --device cpu --in "$work/f.npy"
has "in1 of i64[4] is missing (2 are expected)"
one_line
run 2 "$work/two.mlir" --device cpu --in "$work/i.npy" --in "$work/f.npy"
has "in0 is i64[4], expected f32[2,3]"
one_line
run 2 "$work/two.mlir" --device cpu --in "$work/f.npy" --in "$work/i.npy" --in "$work/i.npy"
has "one array too many, expected 2"
run 2 "$work/f.mlir" --device cpu --in $data/vmap_dot.safetensors
has "the program has only 0 inputs"
run 2 "$work/f.mlir" --device cpu --in "$work/nowhere.npy"
has "nowhere.npy"
one_line
run 2 "$work/f.mlir" --device cpu --in "$work/f.mlir"
has "ends with .npy, .npz or .safetensors"
run 2 "$work/two.mlir" --device cpu --in "$work/f.npy" --in "$work/i.npy" --out "$work/x.npy"
has "an npy file holds one array"
run 2 "$work/f.mlir" --device cpu --compare $data/vmap_dot.safetensors
has "out0 is"
run 2 "$work/f.mlir" --device null
has "the null device computes nothing"
run 2 "$work/f.mlir" --rtol -1
has "'-1' is no number from 0 on"
run 2 "$work/f.mlir" --repeat 0
head -c 100 "$work/f.npy" >"$work/cut.npy"
same f_same 2x3xf32
run 2 "$work/f_same.mlir" --device cpu --in "$work/cut.npy"
has "the npy header's length is"
head -c 140 "$work/f.npy" >"$work/cut.npy"
run 2 "$work/f_same.mlir" --device cpu --in "$work/cut.npy"
has "cut short or damaged"
head -c 200 "$work/two.npz" >"$work/cut.npz"
run 2 "$work/two.mlir" --device cpu --in "$work/cut.npz"
has "no npz file, or cut short"

# ---- where a NaN came from ----
same x_same 3xf32
iota x 3xf32
run 0 "$work/x.mlir" --device cpu --out "$work/x.npy"
for device in cpu cpu-ref; do
  run 1 $data/nan.mlir --in "$work/x.npy" --check-nans --device $device
  has "sqrt made 1 NaN in f32[3], the first at [0], of operands without any ($data/nan.mlir:7:10)"
  run 0 $data/add_one.mlir --in $data/add_one.safetensors --check-nans --device $device
  has "no result holds a NaN"
done

# ---- arrays of NumPy's, where it is there ----
if python3 -c 'import numpy' 2>/dev/null; then
  python3 - "$work" <<'PYTHON'
import sys
import numpy as np
w = sys.argv[1]
f = np.array([[0, 0, 0], [1, 1, 1]], np.float32)
np.savez_compressed(w + "/arr.npz", f, np.arange(4))
np.savez(w + "/named.npz", in1=np.arange(4), in0=np.asfortranarray(f))
np.save(w + "/big.npy", f.astype(">f4"))
np.save(w + "/text.npy", np.array(["a", "b"]))
np.save(w + "/objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
PYTHON
  for z in arr named; do
    run 0 "$work/two.mlir" --device cpu --in "$work/$z.npz" --compare "$work/two.npz"
    has "2 of 2 results agree"
  done
  for z in big text objects; do
    run 1 "$work/f_same.mlir" --device cpu --in "$work/$z.npy"
    one_line
  done
  python3 - "$work" <<'PYTHON' || say "NumPy does not read what was written"
import sys
import numpy as np
w = sys.argv[1]
z = np.load(w + "/two.npz")
assert z.files == ["out0", "out1"] and z["out0"].tolist() == [[0, 0, 0], [1, 1, 1]] and z["out1"].dtype == np.int64
assert np.load(w + "/h.npy").dtype == np.float16
PYTHON
fi

# ---- everything in the shared folder that has its inputs beside it and parses ----
shared=${QN_SHARED:-../shared}/stablehlo
if [ -f "$shared/add_one.mlir" ]; then
  for p in clip_where_pad gather_scatter int_bits rng_split_randint seed000_train_step special_fns transformer_step; do
    run 0 "$shared/$p.mlir" --in "$shared/$p.safetensors" --compare "$shared/$p.safetensors" --device cpu
  done
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
