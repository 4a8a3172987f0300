#!/usr/bin/env bash
# quern transform: derivatives and batches by options from left to right, as plain StableHLO that runs, comes back from its own text, and is read by
# JAX where there is one (QN_JAX_PYTHON names its Python).
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

# transform CODE PROGRAM OPTIONS...: output in $out
transform() {
  local code=$1 got
  shift
  out=$("$quern" transform "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" -eq "$code" ] || say "quern transform $*: exit code $got, expected $code: $out"
}
has() { grep -qF -- "$1" <<<"$out" || say "no \"$1\" in: $out"; }
signature() { has "@main($1) -> $2 {"; }

f=$data/score.mlir x='%arg0: tensor<3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<i32>' v='tensor<3xf32>' s='tensor<f32>'

# ---- what goes in and comes out ----
transform 0 $f
signature "$x" "$s"
transform 0 $f --grad 0
signature "$x" "$v"
transform 0 $f --grad 1,0
signature "$x" "($v, $v)"
transform 0 $f --value-and-grad 0,1
signature "$x" "($s, $v, $v)"
transform 0 $f --jvp
signature "$x, %arg3: $v, %arg4: $v" "($s, $s)"
transform 0 $f --vjp
signature "$x, %arg3: $s" "($s, $v, $v)"
transform 0 $f --vmap 0,0,- --size 5
signature "%arg0: tensor<5x3xf32>, %arg1: tensor<5x3xf32>, %arg2: tensor<i32>" "tensor<5xf32>"
transform 0 $f --vmap 1,-,- --size 5
signature "%arg0: tensor<3x5xf32>, %arg1: $v, %arg2: tensor<i32>" "tensor<5xf32>"
transform 0 $f --hessian 0
signature "$x" "tensor<3x3xf32>"
for o in jacfwd jacrev; do
  transform 0 $f --grad 0 --$o 1
  signature "$x" "tensor<3x3xf32>"
done
transform 0 $f --grad 0 --vmap 0,-,- --size 2
signature "%arg0: tensor<2x3xf32>, %arg1: $v, %arg2: tensor<i32>" "tensor<2x3xf32>"
transform 0 $f --remat --grad 0
signature "$x" "$v"

# ---- values: gradients that can be told, and both ways round ----
printf 'func.func @main() -> (%s, %s, tensor<i32>) {\n%s\n%s\n%s\nreturn %%a, %%b, %%c : %s, %s, tensor<i32>\n}\n' "$v" "$v" \
  '%a = stablehlo.constant dense<[0.0, 1.0, 2.0]> : tensor<3xf32>' '%b = stablehlo.constant dense<[2.0, 1.0, 0.0]> : tensor<3xf32>' \
  '%c = stablehlo.constant dense<2> : tensor<i32>' "$v" "$v" >"$work/in.mlir"
"$quern" run "$work/in.mlir" --device cpu --out "$work/out.safetensors" >/dev/null || say "no inputs"
python3 - "$work" <<'PYTHON' 2>/dev/null || cp "$work/out.safetensors" "$work/in.safetensors"
import json, struct, sys
w = sys.argv[1]
b = open(w + "/out.safetensors", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
h = json.dumps({k.replace("out", "in"): v for k, v in json.loads(b[8 : 8 + n]).items()}).encode()
open(w + "/in.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + b[8 + n :])
PYTHON
if command -v python3 >/dev/null; then
  for device in cpu cpu-ref; do
    "$quern" transform $f --value-and-grad 0 -o "$work/g.mlir" || say "no gradient"
    out=$("$quern" run "$work/g.mlir" --in "$work/in.safetensors" --device $device)
    has "out0 f32[]  1.5231"
    has "out1 f32[3]  4 0.8399"
    "$quern" transform $f --grad 0 --jacfwd 0 -o "$work/a.mlir"
    "$quern" transform $f --hessian 0 -o "$work/b.mlir"
    "$quern" run "$work/a.mlir" --in "$work/in.safetensors" --device $device --out "$work/a.npy" >/dev/null
    out=$("$quern" run "$work/b.mlir" --in "$work/in.safetensors" --device $device --compare "$work/a.npy")
    has "1 of 1 results agree"
  done
fi

# ---- marks and custom derivatives are put in plain words; a derivative taken before keeps them ----
transform 0 $data/marks.mlir
has "stablehlo.sine"
grep -q quern <<<"$out" && say "marks are left: $out"
transform 0 $data/marks.mlir --vjp
grep -q quern <<<"$out" && say "marks are left: $out"

# ---- messages ----
transform 2 $f --grad 7
has "there is no argument 7, the function has 3"
transform 2 $f --grad x
has "'x' is no list of argument numbers"
transform 2 $f --grad 2
has "i32"
transform 2 $f --vmap 0
has "--size N"
transform 2 $f --size 3 --vmap 0
has "--size belongs right behind --vmap"
transform 2 $f --vmap 0,0 --size 3
has "2 axes, expected one, or one for each of 3 arguments"
transform 2 $f --vmap 9 --size 3
has "axis 9 is out of range"
transform 2 $f --jvp=3
transform 2 $f -q
has "has no option '-q'; there are: --grad"
transform 2 $f -o
has "-o needs a value: -o Q.mlir"
transform 2 "$work/nowhere.mlir"
transform 2 $f -o "$work/no/such/folder/q.mlir"

# ---- its own text comes back, and JAX reads it ----
shared=${QN_SHARED:-../shared}/stablehlo
programs=($data/*.mlir)
[ -f "$shared/add_one.mlir" ] && programs+=("$shared"/*.mlir)
count=0
for p in "${programs[@]}"; do
  name=$(basename "$p" .mlir)
  "$quern" transform "$p" -o "$work/$name.1.mlir" 2>"$work/err" || {
    grep -q "unknown \(operation\|target\)" "$work/err" || say "$p: $(cat "$work/err")"
    continue
  }
  "$quern" transform "$work/$name.1.mlir" -o "$work/$name.2.mlir" || say "$name is not read again"
  cmp -s "$work/$name.1.mlir" "$work/$name.2.mlir" || say "$name reads as something else"
  rm -f "$work/$name.2.mlir"
  count=$((count + 1))
done
for o in "--value-and-grad 0" "--jvp" "--vjp" "--vmap 0 --size 3 --jvp" "--hessian 0"; do
  # shellcheck disable=SC2086
  "$quern" transform $f $o -o "$work/score${o// /}.1.mlir" || say "score $o"
done
python=${QN_JAX_PYTHON:-python3}
"$python" tests/cli/read_with_jax.py "$work"/*.1.mlir
case $? in
0) ;;
77) echo "no jaxlib for $python: $count programs came back from their text, JAX was not asked" ;;
*) say "JAX refuses some" ;;
esac

echo "$failures failures"
[ "$failures" -eq 0 ]
