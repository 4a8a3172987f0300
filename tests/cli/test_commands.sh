#!/usr/bin/env bash
# Exit codes and messages: what a user gets for a wrong word, a wrong option, a file that is not there.
set -u
quern=$1
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export QN_CACHE_DIR="$work/cache"

# expect CODE PART ARGUMENTS...: the exit code, and a part of what is said on either stream
expect() {
  local code=$1 part=$2 out got
  shift 2
  out=$("$quern" "$@" 2>&1 </dev/null)
  got=$?
  if [ "$got" -ne "$code" ]; then
    echo "quern $*: exit code $got, expected $code: $out"
    failures=$((failures + 1))
  fi
  if ! grep -qF -- "$part" <<<"$out"; then
    echo "quern $*: no \"$part\" in: $out"
    failures=$((failures + 1))
  fi
}

# One line on stderr that begins with the tool's name, and nothing on stdout.
expect_one_line() {
  local out err
  out=$("$quern" "$@" 2>"$work/err" </dev/null)
  err=$(cat "$work/err")
  if [ -n "$out" ] || [ "$(wc -l <"$work/err")" -ne 1 ] || [[ "$err" != "quern: "* ]]; then
    echo "quern $*: expected one line \"quern: ...\" on stderr, got: $out$err"
    failures=$((failures + 1))
  fi
}

expect 2 "usage: quern COMMAND"
expect 0 "usage: quern COMMAND" --help
expect 0 "usage: quern COMMAND" help
expect 0 "quern 0." --version
for command in devices train run transform explain replay bench cache; do
  expect 0 "usage: quern $command" "$command" --help
  expect 0 "usage: quern $command" help "$command"
  expect 0 "$command" --help
  expect 2 "has no option '--nonsense'; there are:" "$command" --nonsense
  expect 2 "has no option '-z'" "$command" -z
done
expect 2 "there is no command 'trian'; there are: devices, train" trian
expect 2 "there is no command 'trian'" help trian
expect_one_line trian

expect 2 "train needs an operand" train
expect 2 "there is no program 'nope'; there are: mnist_mlp" train nope
expect 2 "'more' is one operand too many" train mnist_mlp more
expect 2 "train --batch: '0' is no whole number from 1 on" train mnist_mlp --batch 0
expect 2 "train --batch: '3x' is no whole number" train mnist_mlp --batch=3x
expect 2 "train --seed: '-1' is no whole number from 0 on" train mnist_mlp --seed -1
expect 2 "train --seed: 9223372036854775808 is too large, expected at most 9223372036854775807" train mnist_mlp --seed 9223372036854775808
expect 2 "train --epochs: 99999999999999999999 is too large, expected at most 2147483647" train mnist_mlp --epochs 99999999999999999999
expect 2 "train --epochs: 3000000000 is too large, expected at most 2147483647" train mnist_mlp --epochs 3000000000
expect 2 "explain --batch: 2147483648 is too large" explain mnist_mlp --batch 2147483648
expect 2 "train --threads: 257 is too large, expected at most 256" train mnist_mlp --threads 257
QN_THREADS=abc expect 2 "QN_THREADS=abc" train mnist_mlp
QN_DEVICE=nonsense expect 0 "QN_DEVICE is nonsense" devices
expect 2 "train --out needs a value" train mnist_mlp --out
expect 2 "train --scale takes no value" train mnist_mlp --scale=1
expect 2 'no device "gpu:9"; there are: ' train mnist_mlp --device gpu:9
expect 2 "runs 'quern run' and 'quern replay' only" train mnist_mlp --device cpu-ref
expect 2 "nowhere" train mnist_mlp --device cpu --data "$work/nowhere" --out "$work/out" --steps 1
expect_one_line train mnist_mlp --device gpu:9

expect 2 "explain: there is no file 'nope.mlir'" explain nope.mlir
expect 2 "there is no program 'nope'" explain nope
echo 'func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { garbage }' >"$work/bad.mlir"
expect 2 "bad.mlir:1:" explain "$work/bad.mlir" --device cpu
head -c 3000 /dev/urandom >"$work/noise.mlir"
expect 2 "noise.mlir" explain "$work/noise.mlir" --device cpu
: >"$work/empty.mlir"
expect 2 "empty.mlir" explain "$work/empty.mlir" --device cpu
cat >"$work/good.mlir" <<'MLIR'
module @jit_f {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>) -> (tensor<3xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<3xf32>
    %2 = stablehlo.tanh %1 : tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
MLIR
expect 0 "it fits" explain "$work/good.mlir" --device cpu
expect 0 "stablehlo.tanh" explain "$work/good.mlir" --device cpu --kernels
expect 0 "it fits" explain mnist_mlp --device cpu --batch 8
expect 2 "no device" explain mnist_mlp --device vulkan:nothing-like-this

expect 2 "cache: there is no 'forget'; there are: show, clear, verify" cache forget
expect 0 "total" cache
expect 0 "0 bad" cache verify
expect 0 '"checked":' cache verify --json
expect 0 "cleared" cache clear
expect 0 '"entries":0' cache show --json
QN_CACHE=off expect 0 "off:" cache
QN_CACHE=off expect 1 "nothing was cleared, the cache is off: QN_CACHE is off" cache clear
QN_CACHE=off expect 1 '"cleared":false' cache clear --json
mkdir -p "$work/broken"
head -c 9000 /dev/urandom >"$work/broken/kernels.db"
QN_CACHE_DIR="$work/broken" expect 1 "1 bad" cache verify
QN_CACHE_DIR="$work/broken" expect 0 "0 bad" cache verify
expect 2 "train: the null device computes nothing" train mnist_mlp --device null

expect 0 "cpu" devices
expect 0 '"default":true' devices --json
if command -v python3 >/dev/null; then
  "$quern" devices --json | python3 -c 'import json, sys; d = json.load(sys.stdin)["devices"]; assert any(x["id"] == "cpu" and x["usable"] for x in d)' || failures=$((failures + 1))
  "$quern" cache --json | python3 -c 'import json, sys; json.load(sys.stdin)' || failures=$((failures + 1))
fi
# No colours but on a terminal.
if "$quern" devices | grep -q $'\033'; then
  echo "devices: escape sequences in a pipe"
  failures=$((failures + 1))
fi
# An output that cannot be written is a failure.
if [ -w /dev/full ] && "$quern" devices >/dev/full 2>/dev/null; then
  echo "devices: a full disk was not noticed"
  failures=$((failures + 1))
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
