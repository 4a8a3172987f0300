#!/usr/bin/env python3
"""The training step of mnist_mlp beside JAX's on the same processor, in the same sitting: both are run in turn, several
times, each in a process of its own, and the least time of each counts. Needs jax and optax; run in the project's root:

    python3 bench/against_jax.py [--rounds N] [--steps N] [--batch 32|1024] [--device D]... [build/release/quern]

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
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith(("{", "["))]


def step_rows(program, batch, device):
    """The step's row of each device that quern bench measures."""
    name = "mlp_b%d" % batch
    for found in lines_of([program, "bench", "--only", name, "--json", "--device", device]):
        for entry in found if isinstance(found, list) else [found]:
            yield entry["device"], entry["rows"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default="build/release/quern")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=32, choices=[32, 1024])
    parser.add_argument("--device", action="append", default=[])
    parser.add_argument("--jax", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.jax:
        return jax_step(o.steps, o.batch)
    common = ["--steps", str(o.steps), "--batch", str(o.batch)]
    rows, jax, wrong = {}, [], 0
    for turn in range(o.rounds):
        jax += lines_of([sys.executable, os.path.abspath(__file__), "--jax"] + common)
        for device in o.device or ["all"]:
            for name, row in step_rows(o.program, o.batch, device):
                wrong += not row["correct"]
                if row["correct"]:
                    rows.setdefault(name, []).append(row)
        print("round %d of %d, load %.1f" % (turn + 1, o.rounds, os.getloadavg()[0]), file=sys.stderr)
    if not jax or not rows:
        sys.exit("nothing to compare: jax and optax must be installed, and %s built" % o.program)
    least = min(r["min_ms"] for r in jax)
    middle = sorted(r["median_ms"] for r in jax)[len(jax) // 2]
    print("| device | step, ms | median, ms | to JAX |")
    print("|---|---|---|---|")
    print("| JAX %s, CPU | %.4f | %.4f | 1.00 |" % (jax[0]["jax"], least, middle))
    for device, found in rows.items():
        best = min(r["min"] for r in found)
        print("| %s | %.4f | %.4f | %.2f |" % (
            device, best, sorted(r["median"] for r in found)[len(found) // 2], best / least))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
