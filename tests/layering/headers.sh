#!/usr/bin/env bash
# Every public header compiles alone, in C and in C++, with warnings as errors. Run in the project's root.
set -euo pipefail

mapfile -t headers < <(find runtime autodiff kernels shaders models cli -path '*/include/quern/*.h' 2>/dev/null | sort)
includes=()
while IFS= read -r folder; do
  includes+=("-I$folder")
done < <(find runtime autodiff kernels shaders models cli -type d -name include 2>/dev/null | sort)
if [ "${#headers[@]}" -eq 0 ]; then
  echo "no public header found: run this in the project's root" >&2
  exit 1
fi
cc=${CC:-cc}
cxx=${CXX:-c++}
failed=0
for header in "${headers[@]}"; do
  name=${header##*/include/}
  if ! printf '#include "%s"\n#include "%s"\n' "$name" "$name" |
    "$cc" -x c -std=c17 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
      -Wstrict-prototypes -Werror -fsyntax-only "${includes[@]}" -; then
    echo "$header: does not compile alone in C" >&2
    failed=$((failed + 1))
  fi
  if ! printf '#include "%s"\n#include "%s"\n' "$name" "$name" |
    "$cxx" -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "${includes[@]}" -; then
    echo "$header: does not compile alone in C++" >&2
    failed=$((failed + 1))
  fi
done
echo "${#headers[@]} public headers, $failed failures"
[ "$failed" -eq 0 ]
