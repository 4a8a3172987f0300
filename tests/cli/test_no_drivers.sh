#!/usr/bin/env bash
# A machine without any driver: `quern devices` still lists the cpu as the default, and says for the others why they are skipped; asking for one of
# them is a plain failure with the same reason.
set -u
quern=$1
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/none"
export QN_CACHE_DIR="$work/cache" OCL_ICD_VENDORS="$work/none/" VK_ICD_FILENAMES="$work/none.json" VK_DRIVER_FILES="$work/none.json"
unset QN_DEVICE

say() {
  echo "$*"
  failures=$((failures + 1))
}
has() { grep -qE -- "$1" <<<"$out" || say "no \"$1\" in: $out"; }
hasnt() { ! grep -qE -- "$1" <<<"$out" || say "\"$1\" in: $out"; }

out=$("$quern" devices 2>&1) || say "quern devices fails: $out"
has '^\* cpu '
for driver in vulkan opencl; do
  # A build without a driver has no row for it.
  if grep -q "^ *$driver" <<<"$out"; then
    has "^ *$driver  *skipped: .{10,}"
  fi
done
hasnt '(opencl|vulkan):[0-9]'
with_json=$("$quern" devices --json 2>&1) || say "quern devices --json fails: $with_json"
out=$with_json
has '"id":"cpu","usable":true,"default":true'
hasnt '"id":"(opencl|vulkan)[^"]*","usable":true'

for driver in vulkan opencl; do
  out=$("$quern" explain mnist_mlp --device "$driver" 2>&1)
  code=$?
  [ "$code" -eq 2 ] || say "quern explain --device $driver: exit code $code, expected 2: $out"
  has "^quern: .*$driver.{20,}"
done

# The same commands with everything that is installed find at least as much.
unset OCL_ICD_VENDORS VK_ICD_FILENAMES VK_DRIVER_FILES
out=$("$quern" devices 2>&1) || say "quern devices fails: $out"
has '^[* ] cpu '

[ "$failures" -eq 0 ] && echo "all passed"
exit "$((failures > 0))"
