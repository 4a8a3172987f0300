#!/usr/bin/env python3
"""Compiling StableHLO programs on the cpu device beside jaxlib on the same processor, in the same sitting: from the compile call, which gets a
parsed module in both cases, to the end of the first run. The least of several rounds counts. Needs jax:

    python3 bench/compile_against_jax.py [--rounds N] [--quern build/release/quern] FOLDER

FOLDER holds P.mlir with its inputs in0, in1 ... in P.safetensors. Quern runs each program in a process of its own: cold without a cache, warm
with one that an earlier run filled, and compiled with QN_INTERPRET=off, which compiles steps of little work as well. JAX compiles all programs in
one process whose backend is warm, with no cache."""

import argparse
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
import time


def arrays(path):
    import ml_dtypes
    import numpy as np

    kinds = {"BF16": ml_dtypes.bfloat16, "BOOL": np.bool_}
    names = {"F": "float", "I": "int", "U": "uint"}
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    out = {}
    for name, a in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        kind = kinds.get(a["dtype"]) or np.dtype(names[a["dtype"][0]] + a["dtype"][1:])
        begin, end = a["data_offsets"]
        out[name] = np.frombuffer(data[8 + size + begin : 8 + size + end], kind).reshape(a["shape"])
    for name in [n[:-3] for n in out if n.endswith(".re")]:
        out[name] = (out[name + ".re"] + 1j * out[name + ".im"]).astype(np.complex64)
    return [out["in%d" % i] for i in range(len(out)) if "in%d" % i in out]


def jax_side(paths):
    import jax
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    backend = xla_bridge.get_backend("cpu")
    jax.jit(lambda x: x + 1)(1.0).block_until_ready()
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    for path in paths:
        module = ir.Module.parse(open(path).read(), context=mlir.make_ir_context())
        inputs = [jax.device_put(a) for a in arrays(path[:-5] + ".safetensors")]
        for a in inputs:
            a.block_until_ready()
        start = time.perf_counter()
        made = backend.compile_and_load(module, devices, options)
        for a in made.execute_sharded(inputs).disassemble_into_single_device_arrays():
            a[0].block_until_ready()
        print(json.dumps({"program": path, "seconds": time.perf_counter() - start}), flush=True)


def quern(program, path, **environment):
    command = [program, "run", path, "--in", path[:-5] + ".safetensors", "--device", "cpu", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if run.returncode != 0:
        sys.stderr.write("%s: %s" % (path, run.stderr))
        return None
    result = json.loads(run.stdout)
    return result["compile_seconds"] + result["seconds"]["least"]


def round_of(o, paths, folder, times):
    ways = {
        "cold": {"QN_CACHE": "off"},
        "compiled": {"QN_CACHE": "off", "QN_INTERPRET": "off"},
        "fill": {"QN_CACHE_DIR": folder, "QN_INTERPRET": "off"},
        "warm": {"QN_CACHE_DIR": folder, "QN_INTERPRET": "off"},
    }
    for path in paths:
        for way, environment in ways.items():
            seconds = quern(o.quern, path, **environment)
            if seconds is not None:
                times.setdefault(path, {}).setdefault(way, []).append(seconds)
    lines = subprocess.run([sys.executable, os.path.abspath(__file__), "--jax"] + paths, capture_output=True, text=True)
    sys.stderr.write(lines.stderr if lines.returncode else "")
    for line in lines.stdout.splitlines():
        row = json.loads(line)
        times.setdefault(row["program"], {}).setdefault("jax", []).append(row["seconds"])


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--quern", default="build/release/quern")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jax", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.jax:
        return jax_side(o.folder)
    paths, times = sorted(glob.glob(os.path.join(o.folder[0], "*.mlir"))), {}
    for turn in range(o.rounds):
        with tempfile.TemporaryDirectory() as folder:
            round_of(o, paths, folder, times)
        print("round %d of %d, load %.1f" % (turn + 1, o.rounds, os.getloadavg()[0]), file=sys.stderr)
    whole = {p: {w: min(s) for w, s in t.items()} for p, t in times.items() if {"cold", "warm", "jax"} <= set(t)}
    if not whole:
        sys.exit("nothing to compare: jax must be installed, and %s built" % o.quern)
    print("| program | JAX, ms | cold, ms | to JAX | compiled at once, ms | warm, ms | compiled to warm |")
    print("|---|---|---|---|---|---|---|")
    for path, t in whole.items():
        print("| %s | %.1f | %.2f | %.3f | %.1f | %.1f | %.1f |" % (
            os.path.basename(path)[:-5], t["jax"] * 1e3, t["cold"] * 1e3, t["cold"] / t["jax"], t["compiled"] * 1e3,
            t["warm"] * 1e3, t["compiled"] / t["warm"]))
    rows = whole.values()
    print("| geometric mean of %d | | | %.3f (%.3f compiled at once) | | | %.1f |" % (
        len(whole), mean([t["cold"] / t["jax"] for t in rows]), mean([t["compiled"] / t["jax"] for t in rows]),
        mean([t["compiled"] / t["warm"] for t in rows])))
    for path in sorted(set(paths) - set(whole)):
        print("not compared: %s" % os.path.basename(path))


if __name__ == "__main__":
    main()
