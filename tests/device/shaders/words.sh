#!/bin/sh
# Prints C arrays with the SPIR-V words of shaders: words.sh FILE.comp... | clang-format > words.h. Needs glslangValidator.
set -eu
echo "/* Made by tests/device/shaders/words.sh from the .comp files beside it; do not edit. */"
for file in "$@"; do
  name=$(basename "$file" .comp)
  out=$(mktemp)
  glslangValidator -V --target-env vulkan1.1 -S comp -o "$out" "$file" >/dev/null
  echo "static const uint32_t spirv_$name[] = {"
  od -An -v -tx4 -w32 "$out" | sed 's/ \([0-9a-f]\{8\}\)/0x\1, /g; s/^/    /; s/ *$//'
  echo "};"
  rm -f "$out"
done
