# SPDX-License-Identifier: Apache-2.0
"""Ranks: threads, and processes of torch.distributed where torch is: the same bits, failures that name a rank, and
training that goes on without it."""
import atexit
import gc
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

os.environ["ANFORA_CACHE"] = tempfile.mkdtemp()  # of this run: ranks and runs that are compared compile a step once
atexit.register(shutil.rmtree, os.environ["ANFORA_CACHE"], True)

import anfora  # noqa: E402
import anfora.numpy as anp  # noqa: E402
from anfora import CompileError, RunError  # noqa: E402
from anfora import comm as ranks_of  # noqa: E402
from anfora.comm import CommError  # noqa: E402
from anfora.train import SGD, Accumulated, Adam, Clipped, Lamb, Step, batches  # noqa: E402
from anfora.tree_util import tree_leaves  # noqa: E402
from run import Skip  # noqa: E402

X = np.random.default_rng(1).normal(size=(64, 6)).astype("f4")
Y = np.tanh(X @ np.arange(12).reshape(6, 2).astype("f4") / 10).astype("f4")
LIMIT = 10


def params(scale=1.0):
    source = np.random.default_rng(0).normal
    return {"a": (scale * source(size=(6, 16))).astype("f4"), "b": np.zeros(16, "f4"), "c": source(size=(16, 2)).astype("f4") / 4}


def loss(p, x, y):
    return anp.mean((anp.tanh(x @ p["a"] + p["b"]) @ p["c"] - y) ** 2)


def bits(tree):
    return b"".join(np.asarray(tree[k]).tobytes() for k in sorted(tree))


def trained(c, epochs=3):
    step = Step(loss, Adam(1e-2), params(), comm=c)
    for x, y in batches((X, Y), 16, epochs=epochs, comm=c):
        step(x, y)
    return list(step.losses), bits(step.params), None if c is None else c.counts


def raises(kind, f, text):
    try:
        f()
    except kind as e:
        assert text in str(e), str(e)
        return e
    raise AssertionError(f"no {kind.__name__}")


# ---- threads ----

def test_operations_of_threads():
    def work(c):
        x = np.arange(5, dtype="f4") + c.rank
        return c.ranks, np.asarray(c.all_reduce(x)), np.asarray(c.all_reduce(x, mean=True)), np.asarray(c.all_gather(x)), np.asarray(c.broadcast(x, 2))
    for rank, (n, total, mean, all_, second) in enumerate(ranks_of.launch(3, work)):
        base = np.arange(5, dtype="f4")
        assert n == 3 and (total == 3 * base + 3).all() and (mean == base + 1).all() and (second == base + 2).all(), rank
        assert (all_ == base + np.arange(3)[:, None]).all() and all_.dtype == np.float32


def test_steps_of_threads():
    alone = trained(None)
    for n in (1, 2, 4):
        found = ranks_of.launch(n, trained)
        assert np.allclose(found[0][0], alone[0], rtol=1e-5), (n, found[0][0], alone[0])
        assert all(f[:2] == found[0][:2] for f in found) and ranks_of.launch(n, trained)[0][:2] == found[0][:2]


def trained_sharded(c, **how):
    step = Step(loss, Adam(1e-2), params(), comm=c, shard=1, **how)
    for x, y in batches((X, Y), 16, epochs=5, comm=c):
        step(x, y)
    return bits(step.params), list(step.losses), tree_leaves(step.state)


def test_a_sharded_state_has_the_bits_of_a_whole_one():
    def whole(c):
        step = Step(loss, Adam(1e-2), params(), comm=c)
        for x, y in batches((X, Y), 16, epochs=5, comm=c):
            step(x, y)
        return bits(step.params), list(step.losses), tree_leaves(step.state)
    for n in (1, 2, 4):
        a, b = ranks_of.launch(n, whole), ranks_of.launch(n, trained_sharded)
        for x, y in zip(a, b):
            assert x[:2] == y[:2] and len(x[2]) == len(y[2]) > 5
            assert all(np.array_equal(np.asarray(p), np.asarray(q)) for p, q in zip(x[2], y[2]))


def test_sharded_parameters_have_the_bits_of_whole_ones():
    for n in (1, 2, 4):
        for how in (True, "again", "once"):
            for x, y in zip(ranks_of.launch(n, trained_sharded), ranks_of.launch(n, lambda c: trained_sharded(c, shard_params=how))):
                assert x[:2] == y[:2]
                assert all(np.array_equal(np.asarray(p), np.asarray(q)) for p, q in zip(x[2], y[2]))


def placed(c):
    step = Step(loss, SGD(0.1), params(), comm=c)
    step(X[:16], Y[:16])
    return step.exchanges()


def test_sharded_parameters_are_gathered_by_layers():
    def work(c, how):
        step = Step(loss, SGD(0.1), params(), comm=c, shard=1, shard_params=how)
        step(X[:16], Y[:16])
        return [line.split(" at ")[0] for line in step.exchanges().splitlines()]
    again, once = (ranks_of.launch(2, lambda c: work(c, how))[0] for how in ("again", "once"))
    whole = ranks_of.launch(2, lambda c: work(c, False))[0]
    held = [line for line in again if "of which each rank holds" in line]
    assert len(held) == len(tree_leaves(params())) and held == [line for line in once if "holds" in line], again
    gathers = [line for line in again if line.startswith("AllGather") and " for layer " in line]
    assert len(gathers) == len(set(line.rsplit(" ", 1)[1] for line in gathers)) >= len(held), again
    assert sum(line.startswith("ReduceScatter") for line in again) == len(held), again
    assert not any("layer" in line or "Scatter" in line for line in whole), whole
    places = {line.split(" at ")[1] for line in ranks_of.launch(2, lambda c: placed(c))[0].splitlines()}
    assert len(places) == 1, places  # of the derivative


def trained_split(c, split={"params.a": "column", "c": "row"}):
    step = Step(loss, Clipped(Adam(1e-2), 0.1), params(), comm=c, split=split) if c else Step(loss, Clipped(Adam(1e-2), 0.1), params())
    for x, y in batches((X, Y), 16, epochs=3):
        step(x, y)
    leaves = tree_leaves((step.params, step.state))
    return list(step.losses), [np.asarray(x).tobytes() for x in leaves], leaves, step.exchanges()


def test_a_split_model_is_that_of_one_rank():
    alone = trained_split(None)
    for n in (2, 4):
        found = ranks_of.launch(n, trained_split)
        assert all(f[:2] == found[0][:2] for f in found) and np.allclose(found[0][0], alone[0], rtol=1e-5), (n, found[0][0], alone[0])
        assert all(np.allclose(np.asarray(p), np.asarray(q), rtol=1e-4, atol=1e-6) for p, q in zip(found[0][2], alone[2])), n
        lines = found[0][3].splitlines()
        assert sum(x.startswith("params.") for x in lines) == 3 and f"params.a: f32[6, 16], of which each rank holds f32[6, {16 // n}] along axis 1" in lines
        products = [x for x in lines if x.startswith("AllReduce of f32[16, 2]") and "cases_comm.py" in x]
        assert len(products) == 1 and not any("AllGather" in x for x in lines), found[0][3]


def test_a_split_that_cannot_be_is_refused():
    def work(c, split, x=X):
        step = Step(loss, Adam(1e-2), params(), comm=c, split=split)
        return step(x[:8] if c.rank else x[8:16], Y[:8])
    raises(CompileError, lambda: ranks_of.launch(2, lambda c: work(c, {"d": "row"})), "no state is named 'd'")
    raises(RunError, lambda: ranks_of.launch(2, lambda c: work(c, {"a": 1})), "the inputs of rank 1 are not those of rank 0")
    raises(ValueError, lambda: Step(loss, SGD(0.1), params(), split={"a": 1}), "split")


def test_ranks_with_other_numbers_of_rows_are_refused():
    """All of them, at once; the state is as it was, and they go on."""
    def work(c, uneven):
        step = Step(loss, SGD(0.1), params(), comm=c)
        if uneven:
            raises(RunError, lambda: step(X[:4 - (c.rank == 1)], Y[:4 - (c.rank == 1)]), "the rows of rank 1 are not those of rank 0")
        assert step.count == 0 and bits(step.params) == bits(params())
        for n in (4, 4, 3, 4):  # alike on all ranks
            step(X[n * c.rank:n * c.rank + n], Y[n * c.rank:n * c.rank + n])
        return list(step.losses), bits(step.params)
    found = ranks_of.launch(2, lambda c: work(c, True), timeout=LIMIT)
    assert found == ranks_of.launch(2, lambda c: work(c, False), timeout=LIMIT) and found[0] == found[1]


def test_ranks_weighed_by_their_rows():
    """A loss that is a sum over ranks of its own: that of one process with all rows, whoever has them."""
    def weighed(p, x, y):
        e = ranks_of.all_reduce(anp.sum((anp.tanh(x @ p["a"] + p["b"]) @ p["c"] - y) ** 2))
        return e / ranks_of.all_reduce(anp.sum(0 * y + 1))

    def work(c, f, cut):
        step = Step(f, SGD(0.1), params(), comm=c)
        for _ in range(3):
            step(X[cut[c.rank if c else 0]], Y[cut[c.rank if c else 0]])
        return list(step.losses), [float(v) for v in np.asarray(step.params["a"]).ravel()]
    one = work(None, loss, [slice(0, 12)])
    found = ranks_of.launch(2, lambda c: work(c, weighed, [slice(0, 3), slice(3, 12)]))
    assert found[0] == found[1] and near(found[0][0], one[0]) and near(found[0][1], one[1]), (found[0][0], one[0])


def test_optimisers_with_norms_counts_and_clipping_are_sharded():
    def work(c, rule, shard):
        step = Step(loss, rule, params(), comm=c, shard=shard)
        for x, y in batches((X, Y), 16, comm=c):
            step(x, y)
        return [np.asarray(x).tobytes() for x in tree_leaves((step.params, step.state))], list(step.losses)
    for rule in (Lamb(1e-2), Accumulated(Adam(1e-2), 2), Clipped(Adam(1e-2), 0.1)):
        assert ranks_of.launch(2, lambda c: work(c, rule, 1)) == ranks_of.launch(2, lambda c: work(c, rule, 0)), rule


def near(found, one):
    return all(abs(a - b) <= 1e-6 * (1 + abs(b)) for a, b in zip(found, one, strict=True))


def test_a_running_mean_of_all_ranks():
    """What a loss gives beside its value is the same on all ranks if it is an all_reduce; a norm by the whole batch is that of one process."""
    def normed(p, s, x, y):
        h = x @ p["a"]
        m = ranks_of.all_reduce(anp.mean(h, axis=0), mean=True)
        v = ranks_of.all_reduce(anp.mean((h - m) ** 2, axis=0), mean=True)
        return anp.mean((anp.tanh((h - m) / anp.sqrt(v + 1e-3) + p["b"]) @ p["c"] - y) ** 2), {"mean": 0.9 * s["mean"] + 0.1 * m}

    def work(c, f=normed):
        step = Step(f, SGD(0.1), params(), extra={"mean": np.zeros(16, "f4")}, comm=c)
        for x, y in batches((X, Y), 16, epochs=2, comm=c):
            step(x, y)
        return list(step.losses), [float(v) for v in np.asarray(step.extra["mean"])]

    def own(p, s, x, y):
        h = x @ p["a"]
        return anp.mean((anp.tanh(h + p["b"]) @ p["c"] - y) ** 2), {"mean": 0.9 * s["mean"] + 0.1 * anp.mean(h, axis=0)}
    one = work(None)
    for ranks in (2, 4):
        found = ranks_of.launch(ranks, work)
        assert found == found[:1] * ranks
        assert near(found[0][0], one[0]) and near(found[0][1], one[1]), (found[0], one)
    raises(CompileError, lambda: ranks_of.launch(2, lambda c: work(c, own)), "E1210")


class Scaled(SGD):
    """A loss that is multiplied by a scale: the update is skipped and the scale halved where a gradient is infinite."""

    def init(self, params):
        return {"scale": np.float32(1024), "skipped": np.int32(0)}

    def rule(self):
        rate = self.rate

        def update(params, state, grads):
            g = {k: grads[k] * state["scale"] for k in params}
            fine = anp.isfinite(anp.sum(g["a"])) & anp.isfinite(anp.sum(g["b"])) & anp.isfinite(anp.sum(g["c"]))
            new = {k: anp.where(fine, params[k] - rate * (g[k] / state["scale"]), params[k]) for k in params}
            return new, {"scale": anp.where(fine, state["scale"], state["scale"] / 2), "skipped": state["skipped"] + anp.where(fine, 0, 1).astype(np.int32)}
        return update


def steep(p, x, y):
    """The gradient of a row of large numbers is beyond f32, the value is not."""
    return anp.mean((x @ p["a"] + p["b"]) ** 2) + 0.0 * anp.sum(p["c"]) + 0.0 * anp.mean(y)


def test_an_infinite_gradient_of_one_rank_is_skipped_by_all():
    def work(c):
        me, ranks = (c.rank, c.ranks) if c else (0, 1)
        step = Step(steep, Scaled(0.01), {k: 1e-20 * v for k, v in params().items()}, comm=c)
        found = []
        for k in range(4):
            x = X[16 * k:16 * k + 16].copy()
            if k in (1, 2):
                x[15] *= 1e30  # the last rank's
            part = slice(16 // ranks * me, 16 // ranks * (me + 1))
            value = step(x[part], Y[16 * k:16 * k + 16][part])
            found.append((float(value), float(step.state["scale"]), int(step.state["skipped"]), bits(step.params)))
        return found
    one = work(None)
    assert [f[1:3] for f in one] == [(1024, 0), (512, 1), (256, 2), (256, 2)], one
    assert one[0][3] == one[1][3] == one[2][3] != one[3][3]
    for ranks in (2, 4):
        found = ranks_of.launch(ranks, work)
        assert found == found[:1] * ranks
        assert [f[1:3] for f in found[0]] == [f[1:3] for f in one]
        assert found[0][0][3] == found[0][1][3] == found[0][2][3] != found[0][3][3]
        assert near([f[0] for f in found[0]], [f[0] for f in one])


def test_clipping_takes_the_norm_of_all_ranks():
    """Ranks whose own gradients have other norms than their mean: as one process clips."""
    def work(c, rule):
        step = Step(loss, rule, params(), comm=c)
        for x, y in batches((X, Y), 16, seed=None, epochs=2, comm=c):
            step(x, y)
        return list(step.losses), [float(v) for v in np.asarray(step.params["a"]).ravel()]
    free = work(None, SGD(0.3))
    for rule in (Clipped(SGD(0.3), 0.05), Clipped(SGD(0.3), value=0.01)):
        one = work(None, rule)
        assert not near(one[0], free[0])  # it clips
        for ranks in (2, 4):
            found = ranks_of.launch(ranks, lambda c: work(c, rule))
            assert found == found[:1] * ranks
            assert near(found[0][0], one[0]) and near(found[0][1], one[1])


def test_fast_sums():
    """Near the sums in 64 bits, the same bits on all ranks and in every run; on two ranks the bits of the others."""
    one = trained(None)[0]
    for ranks in (2, 4):
        found = ranks_of.launch(ranks, lambda c: trained(c)[:2], fast_sums=True)
        assert found == found[:1] * ranks == ranks_of.launch(ranks, lambda c: trained(c)[:2], fast_sums=True)
        assert near(found[0][0], one)
        assert ranks == 4 or found[0] == ranks_of.launch(2, lambda c: trained(c)[:2])[0]


def test_exact_sums_have_the_bits_of_one_process():
    """Small integers: no sum rounds, so 1, 2 and 4 ranks of one global batch are one process, bit for bit."""
    x = np.random.default_rng(3).integers(-1, 2, size=(32, 6)).astype("f4")
    y = np.random.default_rng(4).integers(-2, 3, size=32).astype("f4")

    def work(c):
        step = Step(lambda p, x, y: anp.mean((x @ p["w"] - y) ** 2), SGD(0.125), {"w": np.zeros(6, "f4")}, comm=c)
        for part in batches((x, y), 16, seed=None, comm=c):
            step(*part)
        return list(step.losses), bits(step.params)
    one = work(None)
    assert one[0][1] != one[0][0]
    for ranks in (1, 2, 4):
        assert ranks_of.launch(ranks, work) == [one] * ranks


def test_programs_as_users_write_them():
    """Parameters that are not there, not used, not changed; batches that are trees; gradients of two batches: as in one process."""
    def wrapped(p, x, y):
        return loss(p["net"], x, y)

    def frozen(p, x, y):
        return loss({"a": anfora.stop_gradient(p["a"]), "b": p["b"], "c": p["c"]}, x, y)

    def of_tree(p, batch):
        return loss(p, batch["x"], batch["y"])

    def work(c, f, rule, start, tree=False):
        step = Step(f, rule, start, comm=c)
        for x, y in batches((X, Y), 16, epochs=2, comm=c):
            step(*([{"x": x, "y": y}] if tree else (x, y)))
        return list(step.losses), [float(v) for leaf in tree_leaves(step.params) for v in np.asarray(leaf).ravel()]
    for what in ((wrapped, Adam(1e-2), {"net": params(), "none": None}), (wrapped, Adam(1e-2), {"net": params(), "spare": np.ones(3, "f4")}),
                 (frozen, Adam(1e-2), params()), (of_tree, SGD(0.1), params(), True), (loss, Accumulated(Adam(1e-2), 2), params()),
                 (loss, Adam(lambda t: 0.01 / (1 + t)), params())):
        one = work(None, *what)
        for ranks in (2, 4):
            found = ranks_of.launch(ranks, lambda c: work(c, *what))
            assert found == found[:1] * ranks
            assert near(found[0][0], one[0]) and near(found[0][1], one[1]), what


def test_a_rank_with_no_data_left():
    """The others hear of its end; nothing hangs."""
    def work(c):
        step = Step(loss, SGD(0.1), params(), comm=c)
        for _ in range(3 if c.rank else 5):
            step(X[:4], Y[:4])
    c = ranks_of.threads(2, timeout=LIMIT)
    done = threading.Thread(target=lambda: work(c[1]))
    done.start()

    def rest():
        step = Step(loss, SGD(0.1), params(), comm=c[0])
        for k in range(5):
            if k == 3:
                done.join()
                c[1].abort()
            step(X[:4], Y[:4])
    assert raises(CommError, rest, "rank 1").rank == 1


def test_threads_parse_one_source_one_by_one():
    from anfora._compile import origin
    wrong, before, often = [], sys.getswitchinterval(), gc.get_threshold()

    def collects(*_):
        sum(range(50))  # threads change within the parser

    def parse():
        for _ in range(3):
            origin._PARSED.pop(__file__, None)
            try:
                origin._tree_of(__file__)
            except SystemError as e:
                wrong.append(e)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(collects)
    try:
        workers = [threading.Thread(target=parse) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        gc.callbacks.remove(collects)
        gc.set_threshold(*often)
        sys.setswitchinterval(before)
    assert not wrong, wrong


def test_a_sharded_checkpoint_is_that_of_a_whole_state():
    def work(c, path, shard, resume, until):
        step = Step(loss, Adam(1e-2), params(), comm=c, shard=shard, shard_params=bool(shard) and c.ranks != 2)
        if resume:
            step.load(resume)
        for i in range(step.count, until):
            step(X[:48][c.rank::c.ranks], Y[:48][c.rank::c.ranks])
        if path:
            step.save(path)
        return bits(step.params)
    with tempfile.TemporaryDirectory() as folder:
        path = [os.path.join(folder, name) for name in ("whole", "sharded")]
        for k in range(2):
            ranks_of.launch(4, lambda c: work(c, path[k], bool(k) and 1, None, 3))
        with open(path[0], "rb") as f, open(path[1], "rb") as g:
            assert f.read() == g.read()
        for n in (1, 2, 3):
            assert ranks_of.launch(n, lambda c: work(c, None, 1, path[1], 6)) == ranks_of.launch(n, lambda c: work(c, None, 0, path[0], 6))


def test_ranks_that_do_not_write_keep_no_whole_state():
    def work(c, folder):
        step = Step(loss, Adam(1e-2), params(), comm=c, shard_params=1)
        for _ in range(2):
            step(X[:48][c.rank::c.ranks], Y[:48][c.rank::c.ranks])
        kept, read = [], step._live[0].read
        class Watched:
            def __getattr__(self, name): return getattr(live, name)
            def read(self, keep=True):
                kept.append(read(keep))
                return kept[-1]
        live = step._live[0]
        step._live = (Watched(), *step._live[1:])
        step.save(os.path.join(folder, "whole"))
        step._live = (live, *step._live[1:])
        return [x is not None for x in kept[0]], bits(step.params)
    with tempfile.TemporaryDirectory() as folder:
        found = ranks_of.launch(3, lambda c: work(c, folder))
        assert [(any(f[0]), all(f[0])) for f in found] == [(True, True), (False, False), (False, False)], found
        assert found[0][1] == found[1][1] == found[2][1]
        assert len(anfora.load(os.path.join(folder, "whole"))) >= 6


def test_a_checkpoint_in_parts_is_that_of_a_whole_state():
    def work(c, ways, resume, until, how):
        step = Step(loss, Adam(1e-2), params(), comm=c, **how)
        if resume:
            step.load(resume)
            assert step.count == 3
        for i in range(step.count, until):
            step(X[:48][c.rank::c.ranks], Y[:48][c.rank::c.ranks])
        for path, parts in ways:
            step.save(path, parts=parts)
        return bits(step.params), [np.asarray(x).tobytes() for x in tree_leaves(step.state)], step.count
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = (os.path.join(folder, name) for name in ("whole", "parts"))
        sharded = ({"shard": 1}, {"shard": 1, "shard_params": "once"})
        for how in sharded[1:]:
            ranks_of.launch(3, lambda c: work(c, [(whole, False), (parts, True)], None, 3, how))
            names = [f"{parts}.part-{turn}-{r}" for turn in "ab" for r in range(3)]
            assert sum(map(os.path.exists, names)) == 3
            here, there = anfora.load(parts), anfora.load(whole)
            assert here.keys() == there.keys() and all(here[k].tobytes() == there[k].tobytes() for k in here)
            for n, then in ((1, {}), (2, sharded[1]), (4, sharded[0])):
                assert ranks_of.launch(n, lambda c: work(c, [], parts, 6, then)) == ranks_of.launch(n, lambda c: work(c, [], whole, 6, then))
        last = next(name for name in reversed(names) if os.path.exists(name))
        with open(last, "r+b") as f:
            f.seek(-1, 2)
            byte = f.read(1)
            f.seek(-1, 2)
            f.write(bytes([byte[0] ^ 1]))
        raises(ValueError, lambda: anfora.load(parts), "damaged")
        os.unlink(last)
        raises(FileNotFoundError, lambda: anfora.load(parts), "part-")
        found = ranks_of.launch(2, lambda c: raises(OSError, lambda: work(c, [("/nowhere/at/all", True)], None, 1, sharded[0]), "nowhere"))
        assert len(found) == 2


def test_threads_go_on_from_snapshots_of_a_sharded_state():
    for how in (False, True):
        found = ranks_of.launch(3, lambda c: goes_on(c, 1, 7, 1, how), timeout=LIMIT)
        assert found[1] is None and found[0][0] == 2
        assert found[0][2] == found[2][2] == expected_to_go_on(7)


def test_bytes_sent_are_those_of_one_round():
    n = (sum(p.size for p in params().values()) + 1) * 4  # gradients and the loss: few, so each rank gets all of them
    for ranks in (2, 4):
        step_bytes = ranks_of.launch(ranks, lambda c: trained(c, 1)[2]["bytes"] - sent_before(c))
        rows = 8 * (ranks - 1)  # ranks compare how many they have, once
        assert step_bytes == [4 * n * (ranks - 1) + rows] * ranks, step_bytes


def sent_before(c):
    """Of the state at the start: rank 0 sends it to all."""
    return 0 if c.rank else (c.ranks - 1) * (3 * sum(p.size for p in params().values()) + 1) * 4


def test_buckets_from_a_curve():
    def work(c):
        bucket, curve = c.tune()
        return bucket, [b for b, _ in curve], all(ns > 0 for _, ns in curve), trained(c)[:2]
    found = ranks_of.launch(2, work)
    sizes = [16384 * 4 ** i for i in range(5)]
    assert found[0] == found[1] and found[0][0] in sizes and found[0][1] == sizes and found[0][2], found
    assert found[0][3] == ranks_of.launch(2, trained)[0][:2]
    assert ranks_of.threads(1)[0].tune() == (0, [])


def test_ranks_start_from_the_state_of_rank_0():
    def work(c):
        step = Step(loss, SGD(0.1), params(1.0 + c.rank), comm=c)
        return bits(step.params)
    assert set(ranks_of.launch(3, work)) == {bits(params())}


def test_a_rank_that_raises_is_named():
    seen = []

    def work(c):
        step = Step(loss, SGD(0.1), params(), comm=c)
        for i, (x, y) in enumerate(batches((X, Y), 15, epochs=2, comm=c)):
            if c.rank == 1 and i == 3:
                raise KeyError("its data")
            try:
                step(x, y)
            except CommError as e:
                seen.append((e.rank, str(e), step.count))
                raise
    raises(KeyError, lambda: ranks_of.launch(3, work), "its data")
    # rank 1 may leave while the other two still exchange what belongs to its last step
    assert len(seen) == 2 and all(s[0] == 1 and "rank 1" in s[1] and s[2] in (2, 3) for s in seen), seen


def test_what_is_refused():
    raises(ValueError, lambda: ranks_of.threads(0), "1 to 1024")
    raises(ValueError, lambda: ranks_of.threads(2, timeout=0), "time limit")
    raises(TypeError, lambda: Step(loss, SGD(0.1), params(), comm=3), "comm")
    raises(ValueError, lambda: Step(loss, SGD(0.1), params(), shard=True), "shard")
    raises(ValueError, lambda: Step(loss, SGD(0.1), params(), shard_params=True), "shard_params")
    raises(ValueError, lambda: Step(loss, SGD(0.1), params(), comm=ranks_of.threads(1)[0], shard_params="often"), "shard_params")

    def work(c):
        Step(lambda p, x, y: (loss(p, x, y), 1.0), SGD(0.1), params(), comm=c, has_aux=True)
    raises(ValueError, lambda: ranks_of.launch(2, work), "has_aux")
    raises(ValueError, lambda: list(batches((X, Y), 15, comm=ranks_of.threads(2)[0])), "15 rows")


def goes_on(c, lost, at, shard=0, shard_params=False):
    """Trains; the rank `lost` leaves before step `at`. The losses of the steps that count, by number."""
    step, losses = Step(loss, Adam(1e-2), params(), comm=c, snapshot_every=4, shard=shard, shard_params=shard_params), {}
    while step.count < 16:
        if c.rank == lost and step.count == at and c.ranks == 3:
            c.abort()
            return None
        rows = slice(step.count % 4 * 12 + c.rank * (12 // c.ranks), step.count % 4 * 12 + (c.rank + 1) * (12 // c.ranks))
        try:
            losses[step.count] = step(X[rows], Y[rows])
        except CommError as e:
            assert e.rank == lost, e
            step.recover()
    return c.ranks, losses, bits(step.params)


def expected_to_go_on(at):
    """Three ranks up to the snapshot, then two."""
    def before(c):
        step = Step(loss, Adam(1e-2), params(), comm=c)
        for i in range(at // 4 * 4):
            rows = slice(i % 4 * 12 + c.rank * 4, i % 4 * 12 + (c.rank + 1) * 4)
            step(X[rows], Y[rows])
        return step.params, step.state
    p, s = ranks_of.launch(3, before)[0]

    def after(c):
        step = Step(loss, Adam(1e-2), params(), comm=c)
        step.params, step.state = p, s
        for i in range(at // 4 * 4, 16):
            rows = slice(i % 4 * 12 + c.rank * 6, i % 4 * 12 + (c.rank + 1) * 6)
            step(X[rows], Y[rows])
        return bits(step.params)
    return ranks_of.launch(2, after)[0]


def test_threads_go_on_without_one():
    found = ranks_of.launch(3, lambda c: goes_on(c, 1, 7), timeout=LIMIT)
    assert found[1] is None and found[0][0] == 2
    assert found[0][2] == found[2][2] == expected_to_go_on(7)


# ---- memory that processes of one machine share ----

class Store(dict):
    """As much of a store of torch as is needed to meet."""

    def set(self, key, value):
        self[key] = value.encode()

    def get(self, key):
        while key not in self:
            time.sleep(0.001)
        return self[key]


def test_memory_that_cannot_be_shared_is_noted():
    def areas(n):
        store, found = Store(), [None] * n
        workers = [threading.Thread(target=lambda r=r: found.__setitem__(r, ranks_of._area(store, r, n))) for r in range(n)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        return [(area is not None, why) for area, why in found]
    assert areas(2) == [(True, "")] * 2 and areas(1) == [(False, "")]
    assert areas(17) == [(False, "there are more than 16 ranks")] * 17
    shared, ranks_of.SHARED = ranks_of.SHARED, ("/nowhere",)
    try:
        assert areas(2) == [(False, "rank 0 can make no folder in /nowhere")] * 2
        ranks_of.SHARED = ("/nowhere", None)
        assert areas(2) == [(True, "")] * 2, "where temporary files are"
    finally:
        ranks_of.SHARED = shared


# ---- processes of torch.distributed ----

def torch_or_skip():
    try:
        from torch import distributed
    except ImportError:
        raise Skip("no torch") from None
    if not distributed.is_gloo_available():
        raise Skip("torch has no gloo")
    return distributed


STORE = None  # of a process


def run_rank(work, rank, n, port, pipe, shared):
    from torch import distributed
    from datetime import timedelta
    global STORE
    STORE = store = distributed.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60))
    try:
        pipe.send(work(ranks_of.gloo(timeout=LIMIT, store=store, rank=rank, ranks=n, shared_memory=shared)))
    except BaseException as e:  # noqa: BLE001: the parent looks at it
        pipe.send(e)
    os._exit(0)


def processes(n, work, while_running=lambda workers, store: None, shared=True):
    """What each rank gives; None if it died. ``shared``: over memory, not over messages of gloo."""
    distributed = torch_or_skip()
    store = distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    multiprocessing.set_forkserver_preload(["torch.distributed", __name__])
    fork = multiprocessing.get_context("forkserver")  # this process has threads
    pipes = [fork.Pipe(False) for _ in range(n)]
    workers = [fork.Process(target=run_rank, args=(work, i, n, store.port, pipes[i][1], shared)) for i in range(n)]
    for w in workers:
        w.start()
    for _, end in pipes:
        end.close()
    while_running(workers, store)
    found = []
    for i, (end, _) in enumerate(pipes):
        try:
            found.append(end.recv() if end.poll(60) else "it hangs")
        except EOFError:
            found.append(None)
    for w in workers:
        w.kill()
        w.join()
    errors = [f for f in found if isinstance(f, BaseException)]
    if errors:
        raise errors[0]
    return found


def test_steps_of_processes_have_the_bits_of_threads():
    torch_or_skip()
    for n in (2, 4):
        threads = [t[:2] for t in ranks_of.launch(n, trained)]
        for shared in (True, False):
            assert [f[:2] for f in processes(n, trained, shared=shared)] == threads, (n, shared)
    left = [f for f in os.listdir(ranks_of.SHARED[0]) if f.startswith("anfora-")]
    assert not left, left
    assert [f[:2] for f in processes(2, split_bits)] == [t[:2] for t in ranks_of.launch(2, trained_split)]
    assert [f[:2] for f in processes(2, sharded_bits)] == [t[:2] for t in ranks_of.launch(2, trained_sharded)]


def slow(c):
    """Once more, where there is no memory to share."""
    from torch import distributed
    ranks_of.SHARED = ("/nowhere",)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        d = ranks_of.gloo(timeout=LIMIT, store=distributed.PrefixStore("slow", STORE), rank=c.rank, ranks=c.ranks)
    d.all_reduce(np.ones(3, "f4"))
    return c.note, c.counts["slow"], d.note, d.counts["slow"], sum("W0907" in str(w.message) for w in said)


def test_messages_in_place_of_memory_are_noted_and_counted():
    why = "rank 0 can make no folder in /nowhere"
    assert processes(2, slow) == [("", 0, why, 1, 1), ("", 0, why, 1, 0)]


def split_bits(c):
    return trained_split(c)[:2]


def sharded_bits(c):
    return trained_sharded(c)[:2]


def kill_soon(source, who):
    def kill(workers, store):
        while store.add("steps", 0) < 4 and all(w.is_alive() for w in workers):
            time.sleep(0.02)
        time.sleep(source.uniform(0, 0.5))
        os.kill(workers[who].pid, signal.SIGKILL)
    return kill


def until_killed(c):
    """Steps until a rank is lost, then four more without it."""
    step, more = Step(loss, Adam(1e-2), params(), comm=c, snapshot_every=4), -1
    at = lost = -1
    while more:
        try:
            step(X[4 * c.rank:4 * c.rank + 4], Y[4 * c.rank:4 * c.rank + 4])
            more -= more > 0
            if step.count == 1 and lost < 0:
                STORE.add("steps", 1)
        except CommError as e:
            began, lost = time.monotonic(), e.rank
            at, more = step.recover(), 4
            if time.monotonic() - began > 2 * LIMIT:
                raise AssertionError("it took too long to go on") from e
    return lost, at, c.ranks, step.count, bits(step.params)


def test_a_process_that_is_killed_is_named_and_the_others_go_on():
    torch_or_skip()
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    for case in range(int(os.environ.get("ANFORA_KILLS", "5"))):
        who = source.randrange(4)
        found = processes(4, until_killed, kill_soon(source, who), shared=case % 2 == 0)
        left = [f for i, f in enumerate(found) if i != who]
        assert found[who] is None and all(f[0] == who and f[2] == 3 for f in left), (seed, case, who, found)
        assert len(set(left)) == 1 and left[0][1] % 4 == 0 and left[0][3] == left[0][1] + 4, (seed, case, left)


def hangs(c):
    c.all_reduce(np.ones(1, "f4"))
    if c.rank == 2:
        time.sleep(2 * LIMIT)
        return None
    return raises(CommError, lambda: c.all_reduce(np.ones(4000, "f4")), "rank 2").rank


def test_a_process_that_hangs_is_named():
    torch_or_skip()
    for shared in (True, False):
        assert processes(4, hangs, shared=shared) == [2, 2, None, 2], shared


def waits_in_a_row(c):
    """Rank 0 waits for 1, which waits for 2, which waits for 3, each a little later; 3 is silent."""
    from torch import distributed
    limit = 6
    link = ranks_of._Gloo(distributed.PrefixStore("row", STORE), c.rank, c.ranks, limit, False)
    if c.rank == 3:
        time.sleep(2 * limit)
        return None
    time.sleep(limit / 20 * c.rank)
    return link.wait(link.start(False, c.rank + 1, 77, memoryview(np.ones(64, "u1"))), limit * 1000)[1]


def test_ranks_of_a_row_name_the_last():
    at_the_end = ranks_of.at_the_end
    assert at_the_end(["", "", "", ""], ["1 4", "2 3", "3 1", ""], 1) == 3
    assert at_the_end(["1 3", "0 2", ""], ["1 4", "0 2", ""], 1) == 1, "an entry of long ago"
    assert at_the_end(["", "", ""], ["1 1", "2 1", "0 1"], 1) == 1, "a ring"
    assert at_the_end([], ["1 1", "2 1", ""], 1) == 1, "no time to look"
    assert processes(4, waits_in_a_row) == [3, 3, 3, None]
