#!/usr/bin/env python3
"""The training step of mnist_mlp beside JAX's on the same processor, in the same sitting: both are run in turn, several
times, each in a process of its own, and the least time of each counts. Needs jax and optax; run in the project's root:

    python3 bench/against_jax.py [--rounds N] [--steps N] [--device D]... [build/release/bench/bench_step]

Without --device all devices are measured."""

import argparse
import json
import os
import subprocess
import sys
import time


def jax_step(steps, batch):
    """Prints the times of JAX's own step: the same network, loss and optimizer, everything jitted into one call."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    rng = np.random.default_rng(0)
    sizes = [784, 64, 64, 10]
    params = [
        {"w": jnp.asarray(rng.normal(size=(i, o)) / np.sqrt(i), jnp.float32), "b": jnp.zeros((o,), jnp.float32)}
        for i, o in zip(sizes, sizes[1:])
    ]
    x = jnp.asarray(rng.integers(0, 256, size=(batch, 784)), jnp.float32)
    y = jnp.asarray(rng.integers(0, 10, size=batch))
    optimizer = optax.adam(1e-3)

    def loss(params, x, y):
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(params, state, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    args = (params, optimizer.init(params), x, y)
    times = []
    for i in range(steps + 20):
        start = time.perf_counter()
        jax.block_until_ready(step(*args))
        times.append(time.perf_counter() - start)
    times = sorted(times[20:])
    print(json.dumps({"jax": jax.__version__, "min_ms": times[0] * 1e3, "median_ms": times[len(times) // 2] * 1e3}))


def lines_of(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.stderr.write(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/bench_step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", action="append", default=[])
    parser.add_argument("--jax", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.jax:
        return jax_step(o.steps, o.batch)
    common = ["--steps", str(o.steps), "--batch", str(o.batch)]
    chosen = [["--device", d] for d in o.device] or [[]]
    rows, jax, wrong = {}, [], 0
    for turn in range(o.rounds):
        jax += lines_of([sys.executable, os.path.abspath(__file__), "--jax"] + common)
        for device in chosen:
            for line in lines_of([o.program, "--json"] + common + device):
                rows.setdefault(line["device"], []).append(line)
                wrong += not line["right"]
        print("round %d of %d, load %.1f" % (turn + 1, o.rounds, os.getloadavg()[0]), file=sys.stderr)
    if not jax or not rows:
        sys.exit("nothing to compare: jax and optax must be installed, and %s built" % o.program)
    least = min(r["min_ms"] for r in jax)
    middle = sorted(r["median_ms"] for r in jax)[len(jax) // 2]
    print("| device | name | step, ms | median, ms | in a row, ms | of peak | to JAX | right |")
    print("|---|---|---|---|---|---|---|---|")
    print("| JAX %s | CPU | %.4f | %.4f | - | - | 1.00 | - |" % (jax[0]["jax"], least, middle))
    for device, lines in rows.items():
        best = min(lines, key=lambda r: r["min_ms"])
        peak = max(r["peak_gflops"] for r in lines)
        print("| %s | %s | %.4f | %.4f | %.4f | %s | %.2f | %s |" % (
            device, best["name"], best["min_ms"], sorted(r["median_ms"] for r in lines)[len(lines) // 2],
            min(r["streamed_ms"] for r in lines), "%.1f%%" % (100 * best["gflops"] / peak) if peak else "-",
            best["min_ms"] / least, "yes" if all(r["right"] for r in lines) else "NO"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
