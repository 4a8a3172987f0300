#!/usr/bin/env bash
# quern bench: the shape of what it prints, that results are checked, and what a wrong name gets. No figure is judged.
set -u
quern=$1
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export QN_CACHE_DIR="$work/cache"

fail() {
  echo "$*"
  failures=$((failures + 1))
}

"$quern" bench --device cpu --quick --only launch,gemm_f32_64 --json >"$work/out" 2>"$work/err"
code=$?
[ "$code" -eq 0 ] || fail "bench: exit code $code: $(cat "$work/err")"
number='[0-9][0-9.e+-]*'
shape="^\{\"device\":\"cpu\",\"driver\":\"[^\"]+\",\"rows\":\["
shape+="\{\"name\":\"launch\",\"unit\":\"us\",\"min\":$number,\"median\":$number,\"max\":$number,\"of_peak\":null,\"correct\":true\},"
shape+="\{\"name\":\"gemm_f32_64\",\"unit\":\"GFLOP/s\",\"min\":$number,\"median\":$number,\"max\":$number,\"of_peak\":$number,\"correct\":true\}\]\}$"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "bench --json: not one line: $(cat "$work/out")"
grep -qE "$shape" "$work/out" || fail "bench --json: $(cat "$work/out")"

"$quern" bench --device cpu --quick --only peak_f32,mlp_b32 >"$work/out" 2>"$work/err" || fail "bench: $(cat "$work/err")"
grep -qF "| row | unit | min | median | max | of peak | correct |" "$work/out" || fail "bench: no head: $(cat "$work/out")"
for row in "peak_f32 | GFLOP/s" "mlp_b32 | ms"; do
  grep -qE "^\| $row \| .* \| yes \|$" "$work/out" || fail "bench: no row $row that is right: $(cat "$work/out")"
done
[ "$(grep -c '^| [a-z0-9_]* | [GM/a-z]* | [0-9]' "$work/out")" -le 2 ] || fail "bench --only: more rows than asked for"

for names in nope launch,nope "" launch,; do
  out=$("$quern" bench --only "$names" 2>&1)
  code=$?
  [ "$code" -eq 2 ] || fail "bench --only '$names': exit code $code, expected 2"
  [ "$(wc -l <<<"$out")" -eq 1 ] || fail "bench --only '$names': not one line: $out"
  [[ "$out" == "quern: bench --only: there is no row '"*"; there are: peak_f32, triad, "* ]] || fail "bench --only '$names': $out"
done
out=$("$quern" bench --device nothing --only launch 2>&1)
code=$?
[ "$code" -eq 2 ] || fail "bench --device nothing: exit code $code, expected 2"

[ "$failures" -eq 0 ] && echo "all passed"
exit $((failures > 0))
