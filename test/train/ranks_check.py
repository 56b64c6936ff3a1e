#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""anfora train --ranks: threads, and processes of MPI where mpirun and libanfora_mpi are, train what one process trains;
ranks that are killed: ranks_check.py ANFORA [BLAME SHRINK] [--kills N | --valgrind]. The programs mpi_blame and mpi_shrink."""
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from tap import ROOT, Tap, run  # noqa: E402

MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root"]
# Without /etc/hosts Open MPI asks a name server for localhost, for each rank; an answer that is lost costs 5 s.
os.environ.setdefault("RES_OPTIONS", "use-vc timeout:1 attempts:1")
LIMIT = 3  # seconds that ranks wait for one another
BUCKET = ["--bucket", "65536"]  # where its size is not tried: not measured again and again
EXAMPLES = [  # what, program and data, options, how near losses of several ranks are to those of one
    ("digits", ["examples/digits_mlp.anf", "--data", "examples/data/digits.npz"], ["--batch", "32", "--steps", "40"], 1e-5),
    ("MLP", ["FOLDER/mlp.anf", "--data", "examples/data/mlp.npz"], ["--batch", "20", "--steps", "30"], 1e-5),
    ("GPT", ["examples/chars.anf", "--data", "LICENSE", "--window", "49"], ["--batch", "16", "--steps", "8"], 1e-4),
]
MLP = """import nn, optim
def init(key: key) {
  k = SplitKey(key, 2)
  p = (nn.dense_init(k[0], 8, 16), nn.dense_init(k[1], 16, 4))
  {p = p, m = optim.momentum_init(p)}
}
def loss(p, x, y) { (a, b) = p; nn.mse(nn.dense(b, Tanh(nn.dense(a, x))), y) }
def step(s, x: f32[B, 8], y: f32[B, 4]) {
  (l, g) = value_and_grad(loss)(s.p, x, y)
  (p, m) = optim.momentum(s.p, g, s.m, 0.05, 0.9)
  ({p = p, m = m}, {loss = l})
}
"""


SMALL = """import nn
def init(key: key) { nn.dense_init(key, 8, 4) }
def loss(p, x, y) { nn.mse(nn.dense(p, x), y) }
def step(s, x: f32[B, 8], y: f32[B, 4]) {
  (l, g) = value_and_grad(loss)(s, x, y)
  ({w = s.w - 0.1 * g.w, b = s.b - 0.1 * g.b}, {loss = l})
}
"""
SPLITS = {"digits": "p.0.w=column, p.1.w=row", "GPT": "qkv=2, attention.out=row, up.w=column, down.w=row"}


def train(anfora, words, ranks, launcher, saved, way=()):
    """The losses and the bytes of the state, or what is wrong."""
    more = ["--ranks", str(ranks), "--timeout", "60", *way] if ranks else []
    folder = os.path.dirname(saved)
    words = [w.replace("FOLDER", folder) for w in words]
    out, problem = run([*launcher, anfora, "train", *words, *more, "--json", "--save", saved], cwd=ROOT)
    if problem:
        return None, None, problem
    with open(saved, "rb") as f:  # a checkpoint in parts: the file that names them
        return [e["loss"] for e in json.loads(out)["epochs"]], f.read(), ""


def trains(tap, anfora, mpi, folder):
    saved = os.path.join(folder, "state.safetensors")
    with open(os.path.join(folder, "mlp.anf"), "w", encoding="utf-8") as f:
        f.write(MLP)
    for name, words, more, near in EXAMPLES:
        alone, _, problem = train(anfora, words + more, 0, [], saved)
        for ranks in (2, 4):
            ways = [("threads", [])] + [("threads, sharded", []), ("threads, parameters once", [])] * (name != "MLP")  # whose tensors are too small
            ways += [(f"{n} processes", [*MPIRUN, "-n", str(n)]) for n in (2, 4) if n <= ranks and mpi]
            ways += [("2 processes that send all over MPI", [*MPIRUN, "-x", "ANFORA_MPI_SHARED=off", "-n", "2"])] * (mpi and ranks == 2 and name == "digits")
            ways += [(f"4 processes, {what}", [*MPIRUN, "-n", "4"]) for what in ("sharded", "parameters again") if mpi and ranks == 4 and name != "MLP"]
            first = None
            for way, launcher in ways:
                how = ["--shard"] if "sharded" in way else ["--shard-params", way.split()[-1]] if "parameters" in way else []
                losses, state, wrong = (None, None, problem) if problem else train(anfora, words + more, ranks, launcher, saved, [*BUCKET, *how])
                wrong = wrong or ("" if all(abs(a - b) <= near * abs(b) for a, b in zip(losses, alone)) and len(losses) == len(alone)
                                  else f"{losses}, alone {alone}")
                first = first or (losses, state)
                tap.case(f"{name} on {ranks} ranks, {way}: the losses of one process, the bits of threads",
                         wrong or ("" if (losses, state) == first else f"{losses}, threads {first[0]}"))


def splits(tap, anfora, mpi, folder):
    """Ranks that are one model have the losses of one process, as threads and as processes, and exchange what Megatron does."""
    saved = os.path.join(folder, "split.safetensors")
    for name, words, more, near in EXAMPLES:
        if name not in SPLITS:
            continue
        alone, _, problem = train(anfora, words + more, 0, [], saved)
        first = None
        for way, launcher in [("threads", [])] + [("2 processes", [*MPIRUN, "-n", "2"])] * mpi:
            losses, state, wrong = (None, None, problem) if problem else train(anfora, words + more, 2, launcher, saved, [*BUCKET, "--split", SPLITS[name]])
            wrong = wrong or ("" if all(abs(a - b) <= near * abs(b) for a, b in zip(losses, alone)) else f"{losses}, alone {alone}")
            first = first or (losses, state)
            tap.case(f"{name} split, {way}: the losses of one process, the bits of threads",
                     wrong or ("" if (losses, state) == first else f"{losses}, threads {first[0]}"))
    name, words, more, _ = EXAMPLES[2]
    said = subprocess.run([anfora, "train", *words, *more, "--ranks", "2", "--split", SPLITS[name], "--explain-ranks"], cwd=ROOT,
                          capture_output=True, text=True, check=False).stderr
    sums = [x for x in said.splitlines() if x.startswith("AllReduce of f32[") and "lib/nn.anf" in x]
    tap.case("two sums forward and two backward for each of two blocks", "" if len(sums) == 8 and "AllGather" not in said else said)


def buckets(tap, anfora, folder):
    """Their size is measured, or given; the bits do not depend on it."""
    saved, words = os.path.join(folder, "buckets"), EXAMPLES[0][1] + ["--batch", "32", "--steps", "40"]
    found = [train(anfora, words, 4, [], saved, ["--bucket", n]) for n in ("1", "4096", "10000000")] + [train(anfora, words, 4, [], saved)]
    tap.case("buckets of any size give the same bits", "".join(f[2] for f in found) or ("" if found[1:] == found[:-1] else str([f[0] for f in found])))
    ways = [(more, subprocess.run([anfora, "train", *words, "--ranks", "4", "--time", *more], cwd=ROOT, capture_output=True, text=True, check=False).stderr)
            for more in ([], ["--bucket", "4096"])]
    tap.case("the size is measured unless it is given", "" if ("buckets of " in ways[0][1], "buckets of " in ways[1][1]) == (True, False) else str(ways))
    moved = [[int(line.split()[1]) for line in said.splitlines() if line.startswith("exchanges: ")] for _, said in ways]
    tap.case("exchanges of the measurement count for no step", "" if moved[0] and moved[1] and moved[0][0] < 1.1 * moved[1][0] else str(moved))


def parts(tap, anfora, mpi, folder):
    """A checkpoint that each rank writes its part of is that of a whole state, for any number of ranks."""
    words, more = EXAMPLES[0][1], ["--batch", "48", "--steps"]
    whole, part = os.path.join(folder, "whole"), os.path.join(folder, "part")
    launcher = [*MPIRUN, "-n", "3"] if mpi else []
    train(anfora, words + more + ["9"], 3, [], whole, ["--shard"])
    _, _, problem = train(anfora, words + more + ["9"], 3, launcher, part, ["--shard-params", "again", "--save-parts", "--save-every", "2"])
    there = [name for name in sorted(os.listdir(folder)) if name.startswith("part.")]
    tap.case("each rank writes its part", problem or ("" if [n[:7] + n[-1:] for n in there] == [f"part.pa{r}" for r in range(3)] else str(there)))
    for ranks, way in ((1, []), (2, ["--shard"]), (3, []), (4, ["--shard-params", "once"])):
        found = [train(anfora, words + more + ["12", "--resume", path], ranks, [], os.path.join(folder, "on"), way) for path in (whole, part)]
        tap.case(f"{ranks} ranks go on from 3 parts with the bits of a whole checkpoint",
                 found[0][2] or found[1][2] or ("" if found[0] == found[1] else f"{found[0][0]} {found[1][0]}"))
    problems = []
    for i in range(4):  # no step is left to do: a rank writes where the others may still read
        again = os.path.join(folder, f"again{i}")
        problems += [train(anfora, words + more + ["2"], 4, [], again, ["--shard-params", "again", "--save-parts"])[2],
                     train(anfora, words + more + ["1", "--resume", again], 4, [], again)[2]]
    tap.case("a checkpoint in parts is read by all ranks before one writes in its place", "".join(problems))
    os.unlink(os.path.join(folder, there[1]))
    problem = run([anfora, "train", *words, *more, "12", "--ranks", "2", "--resume", part], cwd=ROOT)[1]
    tap.case("a part that is missing is named once", "" if problem.count("error E0301") == 1 and there[1] in problem else problem or "it ran")


def refuses(tap, anfora, mpi):
    digits = [anfora, "train", *EXAMPLES[0][1], "--steps", "1"]
    cases = [("E1385", ["--batch", "30", "--ranks", "4"], {}, "30 rows is not 4 parts"),
             ("E1386", ["--ranks", "4"], {"OMPI_COMM_WORLD_SIZE": "3"}, "4 ranks are not divided among 3"),
             ("E1387", ["--ranks", "4"], {"OMPI_COMM_WORLD_SIZE": "2", "ANFORA_MPI": "/nowhere.so"}, "/nowhere.so"),
             ("E0022", ["--ranks", "2", "--batch", "4000"], {}, "4000")]
    for more, env, text in ((["--shard"], {}, "--shard needs --ranks N"), (["--split", "p.0.w=row"], {}, "--split needs --ranks N"),
                            (["--timeout", "3"], {}, "--timeout needs --ranks N"), ([], {"OMPI_COMM_WORLD_SIZE": "3"}, "--ranks 3 trains on them together")):
        r = subprocess.run([*digits, *more], cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **env})
        tap.case(f"one rank: {text}", "" if r.returncode == 2 and text in r.stderr else f"{r.returncode} {r.stderr}")
    if mpi:
        cases.append(("E1388", ["--ranks", "4"], {"OMPI_COMM_WORLD_SIZE": "2"}, "another number of processes"))
    for code, words, env, text in cases:
        problem = run([*digits, *words], cwd=ROOT, env=env)[1]
        tap.case(f"{code} is told once", "" if problem.count("error ") == 1 and code in problem and text in problem else problem or "it ran")


def start(anfora, launcher, saved, *more):
    words = [*launcher, anfora, "train", *EXAMPLES[0][1], "--batch", "32", "--epochs", "100000", "--ranks", "4", "--timeout", str(LIMIT),
             "--save", saved, "--save-every", "3", *more]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(path, seconds=60):
    end = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.02)
    return os.path.exists(path)


def finished(p, seconds):
    """Standard error; None if it hangs."""
    try:
        return p.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return None


def ends_together(tap, anfora, folder):
    saved = os.path.join(folder, "asked.safetensors")
    p = start(anfora, [], saved)
    there = wait_for(saved)
    p.terminate()
    err = finished(p, 60)
    tap.case("SIGTERM ends all ranks after one step, with the state written",
             "" if there and err and p.returncode == 143 and err.count("ended by a signal") == 1 else f"{p.returncode} {err}")


def goes_on(anfora, saved):
    return run([anfora, "train", *EXAMPLES[0][1], "--batch", "32", "--ranks", "4", "--steps", "1", "--resume", saved, "--save", saved], cwd=ROOT)[1]


def kill_one(anfora, folder, source, recovery, more):
    """kill -9 of one of four processes at a random moment; what is wrong."""
    saved = os.path.join(folder, f"killed{source.random()}.safetensors")
    p = start(anfora, [*MPIRUN, *(["--enable-recovery"] if recovery else []), "-n", "4"], saved, *more)
    if not wait_for(saved):
        return f"no checkpoint: {finished(p, 0.1)}"
    time.sleep(source.uniform(0, 0.3))
    ranks = [int(w) for w in subprocess.run(["ps", "-o", "pid=", "--ppid", str(p.pid)], capture_output=True, text=True, check=False).stdout.split()]
    who = source.randrange(4)
    os.kill(sorted(ranks)[who], signal.SIGKILL)
    began = time.monotonic()
    err = finished(p, LIMIT + 30)
    took = time.monotonic() - began
    if err is None:
        return "the other ranks hang"
    named = [line for line in err.splitlines() if f"rank {who} " in line and ("error E120" in line or "process rank" in line)]
    if len(named) < (3 if recovery else 1) or took > LIMIT + 20:
        return f"rank {who}, {took:.1f} s, status {p.returncode}\n{err}"
    problem = goes_on(anfora, saved)  # and removes what the one that was killed left
    left = glob.glob(os.path.join(folder, ".*.tmp*"))
    return problem or (f"left are {left}" if left else "")


def names_the_last(tap, program):
    """Each of a row of ranks waits for the next, whose time ends later; the last is silent."""
    for shared in ("on", "off"):
        p = subprocess.Popen([*MPIRUN, "--enable-recovery", "-n", "4", program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             start_new_session=True, env={**os.environ, "ANFORA_MPI_SHARED": shared})
        err = finished(p, 60)
        named = [line for line in (err or "").splitlines() if line.startswith("rank ")]
        tap.case(f"the ranks of a row name the last, which is silent; messages over memory {shared}",
                 "" if len(named) == 3 and all(n.startswith("rank 3 ") for n in named) else f"{err}")


def goes_on_without_one(tap, program):
    """Where MPI can shrink, the ranks that are left meet again, over memory and over MPI; one that hangs meanwhile is not waited for."""
    for shared, more, want in (("on", [], [f"was {was}: rank {rank} of 3, sum 8, revoked 1, shrunk 1" for rank, was in enumerate((0, 2, 3))]),
                               ("off", [], [f"was {was}: rank {rank} of 3, sum 8, revoked 1, shrunk 1" for rank, was in enumerate((0, 2, 3))]),
                               ("on", ["one hangs"], ["was 0: did not meet", "was 2: did not meet"])):
        p = subprocess.Popen([*MPIRUN, "--enable-recovery", "-n", "4", program, *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             start_new_session=True, env={**os.environ, "ANFORA_MPI_SHARED": shared})
        err = finished(p, 60)
        said = sorted(line for line in (err or "").splitlines() if line.startswith("was "))
        what = "one more hangs, and the others do not wait for it" if more else "three of four ranks go on after one was killed"
        tap.case(f"{what}; messages over memory {shared}", "" if said == want else f"{err}")


def says_what_is_slow(tap, anfora):
    """Ranks of one machine that cannot share memory say so, once; `off` is meant."""
    words = [anfora, "train", *EXAMPLES[0][1], "--batch", "32", "--steps", "1", "--ranks"]
    for shared, ranks, times, why in (("/nowhere", 2, 1, "no folder"), ("on", 2, 0, ""), ("off", 2, 0, ""), ("on", 4, 1, "several ranks each")):
        r = subprocess.run([*MPIRUN, "-n", "2", *words, str(ranks)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
                           env={**os.environ, "ANFORA_MPI_SHARED": shared})
        tap.case(f"memory that ranks share: {shared}, {ranks} ranks in 2 processes",
                 "" if r.returncode == 0 and r.stderr.count("W0907") == times and why in r.stderr else f"{r.returncode} {r.stderr}")


def shares_without_devshm(tap, anfora):
    """Where there is no memory for files, the file is where temporary ones are."""
    hide = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$@"', "hide"]
    if subprocess.run([*hide, "true"], capture_output=True, check=False).returncode:
        tap.skip("memory that ranks share where /dev/shm is read only", "mounts are not allowed")
        return
    words = [anfora, "train", *EXAMPLES[0][1], "--batch", "32", "--steps", "1", "--ranks", "2"]
    with tempfile.TemporaryDirectory() as temporary:
        r = subprocess.run([*hide, *MPIRUN, "-n", "2", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
                           env={**os.environ, "TMPDIR": temporary})
        left = glob.glob(os.path.join(temporary, "anfora-*"))
    tap.case("memory that ranks share where /dev/shm is read only",
             "" if r.returncode == 0 and "W0907" not in r.stderr and not left else f"{r.returncode} {r.stderr} {left}")


def fast_sums(tap, anfora, mpi, folder):
    """--fast-sums: near the losses of one process, the bits of threads in processes."""
    saved, words = os.path.join(folder, "fast"), EXAMPLES[0][1] + EXAMPLES[0][2]
    alone, _, problem = train(anfora, words, 0, [], saved)
    for ranks in (2, 4):
        by_rank, found = (train(anfora, words, ranks, [], saved, [*BUCKET, *way]) for way in ([], ["--fast-sums"]))
        problem = problem or by_rank[2] or found[2]
        tap.case(f"--fast-sums on {ranks} ranks: losses of one process",
                 problem or ("" if all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(found[0], alone)) else f"{found[0]}, alone {alone}"))
        tap.case(f"--fast-sums on {ranks} ranks: {'the bits of' if ranks == 2 else 'other bits than'} sums in 64 bits",
                 problem or ("" if (found[1] == by_rank[1]) == (ranks == 2) else "not so"))
        ways = [("again", [])] + [(f"{ranks} processes", [*MPIRUN, "-n", str(ranks)])] * mpi
        for way, launcher in ways:
            more = train(anfora, words, ranks, launcher, saved, [*BUCKET, "--fast-sums"])
            tap.case(f"--fast-sums on {ranks} ranks, {way}: the same bits", more[2] or ("" if more == found else f"{more[0]}, {found[0]}"))


def kills(tap, anfora, folder, n):
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    for i in range(n):
        recovery, parts = i % 2 == 0, i % 4 > 1
        problem = kill_one(anfora, folder, source, recovery, ["--shard-params", "again", "--save-parts"] if parts else [])
        tap.case(f"{'the others name a rank that was killed' if recovery else 'mpirun names a rank that was killed'}, the checkpoint {'in parts ' * parts}is whole",
                 problem and f"seed {seed}, case {i}: {problem}")


def small(folder):
    program = os.path.join(folder, "small.anf")
    with open(program, "w", encoding="utf-8") as f:
        f.write(SMALL)
    return program


def parts_of_none(tap, anfora, folder):
    """A state too small to be sharded is one file, with --save-parts too."""
    saved = os.path.join(folder, "none.safetensors")
    words = [anfora, "train", small(folder), "--data", "examples/data/mlp.npz", "--batch", "4", "--ranks", "2", "--shard", "--save-parts", "--save", saved]
    problem = run([*words, "--steps", "2"], cwd=ROOT)[1] or run([*words, "--steps", "3", "--resume", saved], cwd=ROOT)[1]
    beside = glob.glob(saved + ".part-*")
    tap.case("--save-parts where nothing is sharded", problem or (f"there are {beside}" if beside else ""))


def watched(tap, anfora, folder):
    """Threads and processes of MPI under valgrind; what is found in MPI is suppressed by the names of its functions."""
    program = small(folder)
    known = [os.path.join(HERE, "mpi.supp"), "/usr/share/openmpi/openmpi-valgrind.supp"]
    watch = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite",
             *(f"--suppressions={k}" for k in known if os.path.exists(k))]
    words = [*watch, anfora, "train", program, "--data", "examples/data/mlp.npz", "--batch", "4", "--steps", "2", "--ranks", "2", "--backend", "tir",
             "--save", os.path.join(folder, "small.safetensors")]
    tap.case("valgrind finds nothing in threads", run(words, cwd=ROOT, seconds=1200)[1])
    for shared in ("on", "off"):
        os.environ["ANFORA_MPI_SHARED"] = shared
        tap.case(f"valgrind finds nothing but what is MPI's, messages over memory {shared}", run([*MPIRUN, "-n", "2", *words], cwd=ROOT, seconds=1200)[1])


def main():
    tap, anfora = Tap(), os.path.abspath(sys.argv[1])
    library = glob.glob(os.path.join(os.path.dirname(os.path.dirname(anfora)), "comm", "mpi", "libanfora_mpi.so.0"))
    mpi = bool(library) and shutil.which("mpirun") is not None
    long = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANFORA_CACHE"] = os.path.join(folder, "cache")  # of this run: a program is compiled once
        if "--valgrind" in sys.argv:
            watched(tap, anfora, folder)
            return tap.done()
        if not long:
            trains(tap, anfora, mpi, folder)
            splits(tap, anfora, mpi, folder)
            buckets(tap, anfora, folder)
            fast_sums(tap, anfora, mpi, folder)
            parts(tap, anfora, mpi, folder)
            parts_of_none(tap, anfora, folder)
            refuses(tap, anfora, mpi)
            ends_together(tap, anfora, folder)
        if mpi:
            if not long:
                names_the_last(tap, os.path.abspath(sys.argv[2]))
                goes_on_without_one(tap, os.path.abspath(sys.argv[3]))
                says_what_is_slow(tap, anfora)
                shares_without_devshm(tap, anfora)
            kills(tap, anfora, folder, long or 4)
        else:
            tap.skip("processes of MPI", "no mpirun" if library else "the build has no libanfora_mpi")
    return tap.done()


main()
