"""Reads the named StableHLO files with JAX's parser and verifier; ends with 1 if it refuses one, with 77 where there is no jaxlib."""

import sys

try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, stablehlo
except ImportError:
    sys.exit(77)

refused = 0
for path in sys.argv[1:]:
    with ir.Context() as context:
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        stablehlo.register_dialect(context)
        chlo.register_dialect(context)
        with open(path, encoding="utf-8") as f:
            try:
                ir.Module.parse(f.read()).operation.verify()
            except Exception as e:
                refused += 1
                print("%s: %s" % (path, str(e)[:300]))
print("%d programs read by JAX, %d refused" % (len(sys.argv) - 1, refused))
sys.exit(1 if refused else 0)
