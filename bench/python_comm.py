#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data parallel steps over gloo: ours and PyTorch's DistributedDataParallel, the same model in the same processes, in turn.
python_comm.py BUILD_DIR [RANKS]: wall clock of a step of the perceptron 784-512-512-10, 64 rows a rank, one thread each; the processor
time that a rank's process takes for it, which other programs do not change much; and how much of the exchange is hidden. It needs
torch."""
import multiprocessing
import os
import statistics
import sys
import time
from datetime import timedelta

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(BUILD, "python"))
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import distributed  # noqa: E402

import anfora.numpy as anp  # noqa: E402
from anfora import comm  # noqa: E402
from anfora.train import SGD, Step  # noqa: E402

ROWS, TURNS, STEPS = 64, 7, 20


def data(rank):
    source = np.random.default_rng(rank)
    return source.normal(size=(ROWS, 784)).astype("f4"), source.integers(0, 10, ROWS).astype("i4")


def params():
    source = np.random.default_rng(7)
    sizes = [784, 512, 512, 10]
    return [((source.normal(size=(a, b)) / np.sqrt(a)).astype("f4"), np.zeros(b, "f4")) for a, b in zip(sizes, sizes[1:])]


def loss(p, x, y):
    h = anp.relu(x @ p[0][0] + p[0][1])
    h = anp.relu(h @ p[1][0] + p[1][1])
    return anp.mean(anp.softmax_cross_entropy(h @ p[2][0] + p[2][1], y))


def ours(c):
    step = Step(loss, SGD(0.1), params(), comm=c)
    x, y = data(c.rank)
    return lambda: step(x, y)


def theirs(rank):
    torch.set_num_threads(1)
    layers = []
    for w, b in params():
        layer = torch.nn.Linear(*w.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(w.T.copy()))
            layer.bias.copy_(torch.from_numpy(b))
        layers += [layer, torch.nn.ReLU()]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
    rule, entropy = torch.optim.SGD(model.parameters(), lr=0.1), torch.nn.CrossEntropyLoss()
    x, y = (torch.from_numpy(a) for a in data(rank))
    y = y.long()

    def step():
        rule.zero_grad()
        value = entropy(model(x), y)
        value.backward()
        rule.step()
        return value.item()
    return step


def run(step):
    """Milliseconds a step, of the clock and of the processor, and the last loss."""
    start, busy = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        value = step()
    return 1e3 * (time.perf_counter() - start) / STEPS, 1e3 * (time.process_time() - busy) / STEPS, value


def work(rank, ranks, port, pipe):
    store = distributed.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=120))
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    c = comm.gloo()
    steps = {"ours": ours(c), "DDP": theirs(rank)}
    times: dict = {name: [] for name in steps}
    busy: dict = {name: [] for name in steps}
    last = {name: run(step)[2] for name, step in steps.items()}  # compiles
    before = c.counts
    for _ in range(TURNS):
        for name, step in steps.items():
            distributed.barrier()
            ms, cpu, last[name] = run(step)
            times[name].append(ms)
            busy[name].append(cpu)
    counts = {k: v - before[k] for k, v in c.counts.items()}
    total = torch.tensor([last["DDP"]])
    distributed.all_reduce(total)
    if rank == 0:
        pipe.send((times, busy, last["ours"], total.item() / ranks, counts))
    distributed.barrier()
    os._exit(0)


def main():
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    store = distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    fork = multiprocessing.get_context("fork")
    mine, end = fork.Pipe(False)
    workers = [fork.Process(target=work, args=(i, ranks, store.port, end)) for i in range(ranks)]
    for w in workers:
        w.start()
    times, busy, loss_ours, loss_theirs, counts = mine.recv()
    for w in workers:
        w.join()
    same = abs(loss_ours - loss_theirs) <= 1e-3 * abs(loss_theirs)
    medians = {name: statistics.median(ms) for name, ms in times.items()}
    worked = {name: statistics.median(ms) for name, ms in busy.items()}
    for name, ms in times.items():
        print(f"  {name:6} {ranks} ranks over gloo  {medians[name]:8.3f} ms a step  ({min(ms):.3f} to {max(ms):.3f}), of the processor {worked[name]:.3f}")
    steps = TURNS * STEPS
    hidden = 1 - counts["waited_ns"] / counts["busy_ns"]
    print(f"  ours / DDP {medians['ours'] / medians['DDP']:.2f}, of the processor {worked['ours'] / worked['DDP']:.2f}; hidden {100 * hidden:.0f} % of {counts['busy_ns'] / steps / 1e6:.2f} ms; "
          f"{counts['bytes'] / steps:.0f} bytes a step; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
          f"losses {loss_ours:.6f} {loss_theirs:.6f}{'' if same else '  WRONG'}")
    sys.exit(0 if same else 1)


main()
