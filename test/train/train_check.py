#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""anfora train on the digits: what is learned, what is written, runs that are resumed: train_check.py ANFORA."""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import xml.dom.minidom

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from tap import ROOT, Tap, run  # noqa: E402

DATA = os.path.join(ROOT, "examples", "data", "digits.npz")


def train(anfora, name, *words):
    return run([anfora, "train", os.path.join(ROOT, "examples", name), "--data", DATA, "--batch", "32", *words])


def accuracy(out):
    found = re.findall(r"accuracy ([0-9.]+) %", out)
    return float(found[-1]) if found else -1.0


def read_safetensors(path):
    """The format as its description has it, read independently."""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    kinds = {"F32": np.float32, "I32": np.int32}
    meta = head.pop("__metadata__")
    return meta, {k: np.frombuffer(data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]],
                                   kinds[v["dtype"]]).reshape(v["shape"]) for k, v in head.items()}


def forward(p, x):
    h = x.reshape(len(x), -1) / np.float32(16)
    for i in range(3):
        h = h @ p[f"s.p.{i}.w"] + p[f"s.p.{i}.b"]
        h = np.maximum(h, 0) if i < 2 else h
    return h.argmax(-1)


def learns(tap, anfora, folder):
    saved, curve = os.path.join(folder, "a.safetensors"), os.path.join(folder, "a.svg")
    out, problem = train(anfora, "digits_mlp.anf", "--epochs", "8", "--save", saved, "--curve", curve)
    tap.case("the MLP learns", problem or ("" if accuracy(out) > 95 else out))
    if problem:
        return
    meta, p = read_safetensors(saved)
    tap.case("the checkpoint counts steps", "" if meta["step"] == str(8 * (1438 // 32)) else str(meta))
    data = np.load(DATA)
    mine = 100 * (forward(p, data["x_test"].astype(np.float32)) == data["y_test"]).mean()
    tap.case("NumPy reads the checkpoint and gets the same accuracy",
             "" if abs(mine - accuracy(out)) < 0.3 else f"{mine}, {accuracy(out)}")
    lines = xml.dom.minidom.parse(curve).getElementsByTagName("polyline")
    tap.case("the curve has two lines", "" if len(lines) == 2 else str(len(lines)))


def resumes(tap, anfora, folder):
    whole, half, rest = (os.path.join(folder, name) for name in ("w.safetensors", "h.safetensors", "r.safetensors"))
    problems = [train(anfora, "digits_mlp.anf", "--steps", "100", "--save", whole)[1],
                train(anfora, "digits_mlp.anf", "--steps", "57", "--save", half)[1],
                train(anfora, "digits_mlp.anf", "--steps", "100", "--resume", half, "--save", rest)[1]]
    if any(problems):
        tap.case("a resumed run", "".join(problems))
        return
    with open(whole, "rb") as a, open(rest, "rb") as b:
        tap.case("a resumed run gives the same bytes", "" if a.read() == b.read() else "they differ")


def writes_graphs(tap, anfora, folder):
    prefix = os.path.join(folder, "cnn")
    out, problem = train(anfora, "digits_cnn.anf", "--steps", "2", "--graphs", prefix)
    tap.case("the CNN runs", problem)
    for stage in ("", "_gradient", "_step"):
        for ending in ("ir", "dat"):
            out, problem = run([anfora, "check", f"{prefix}{stage}.{ending}"])
            tap.case(f"cnn{stage}.{ending} is read back", problem)
    with open(prefix + "_step.tir", encoding="utf-8") as f:
        tap.case("the Tensor IR", "" if "func step(" in f.read() else "no step")


def finds_code(tap, anfora, folder):
    """What a run compiled is found by the next one, which gives the same state."""
    cache, ran = os.path.join(folder, "cache"), []
    for name in ("first", "second"):
        saved = os.path.join(folder, name)
        words = [anfora, "train", os.path.join(ROOT, "examples", "digits_mlp.anf"), "--data", DATA, "--steps", "3", "--save", saved]
        problem = run(words, env={"ANFORA_CACHE": cache})[1]
        tap.case(f"the {name} run with a folder for code", problem)
        with open(saved, "rb") as f:
            ran.append((f.read(), sorted(os.listdir(cache))))
    tap.case("both give the same bytes and need the same code", "" if ran[0] == ran[1] and ran[0][1] else str(ran[0][1]))


def traces(tap, anfora, folder):
    path = os.path.join(folder, "t.json")
    problem = train(anfora, "digits_mlp.anf", "--steps", "3", "--trace", path)[1]
    if problem:
        tap.case("a trace", problem)
        return
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    names = {e["name"] for e in events}
    tap.case("a trace has passes, lowering, code and regions",
             "" if {"specialise", "simplify", "lower", "code", "step"} <= names else str(names))
    runs = [e["ph"] for e in events if e["name"] == "step"]
    tap.case("a trace has each step, entered and left", "" if runs == ["B", "E"] * 3 else str(runs))


def tells_time(tap, anfora):
    """--time: shares of operations and of lines add up, products have a rate."""
    words = [anfora, "train", os.path.join(ROOT, "examples", "digits_mlp.anf"), "--data", DATA, "--steps", "30", "--time"]
    r = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    peak = re.search(r"one thread: ([0-9.]+) GFLOP/s, ([0-9.]+) GB/s", r.stderr)
    rows = re.findall(r"^ *([0-9.]+) +([0-9.]+) % +([0-9.]+) +(?:([0-9.]+) +)?([0-9.]+)  (\S+)$", r.stderr, re.M)
    tables = r.stderr.split("ms a step")
    shares = [sum(float(s) for s in re.findall(r"([0-9.]+) %", t)) for t in tables[1:]]
    products = [row for row in rows if row[5] == "MatMul"]
    good = (r.returncode == 0 and peak and len(shares) == 2 and all(90 < s < 102 for s in shares) and len(products) == 1
            and float(products[0][2]) == 8 and float(products[0][3]) > 0
            and any(row[5].startswith("lib/nn.anf:") for row in rows))
    tap.case("--time tells operations and lines", "" if good else f"status {r.returncode}\n{r.stderr}")


LONG = ["train", os.path.join(ROOT, "examples", "digits_mlp.anf"), "--data", DATA, "--epochs", "100000"]


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def is_left(folder):
    return [name for name in os.listdir(folder) if ".tmp" in name]


def survives_signals(tap, anfora, folder):
    """A signal ends the run after the step under way, with its state saved."""
    for number in SIGNALS:
        saved = os.path.join(folder, f"signal{number}.safetensors")
        p = subprocess.Popen([anfora, *LONG, "--save", saved], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in SIGNALS])  # tests may run under nohup
        p.stdout.readline()  # the first epoch is done
        p.send_signal(number)
        _, err = p.communicate(timeout=120)
        good = p.returncode == 128 + number and os.path.exists(saved) and "after step" in err
        steps = read_safetensors(saved)[0]["step"] if good else "0"
        tap.case(f"signal {int(number)} saves the state", "" if good and f"after step {steps}" in err and int(steps) >= 22
                 else f"status {p.returncode}, step {steps}\n{err}")
    out, problem = train(anfora, "digits_mlp.anf", "--steps", str(int(steps) + 1), "--resume", saved)
    tap.case("a run goes on from there", problem)


def saves_every(tap, anfora, folder):
    """--save-every: what was saved last is whole, however the run ends; the next save removes what that one left."""
    own = os.path.join(folder, "own")
    os.mkdir(own)
    saved = os.path.join(own, "c.safetensors")
    p = subprocess.Popen([anfora, *LONG, "--save", saved, "--save-every", "3"], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    p.kill()
    p.communicate(timeout=120)
    steps = int(read_safetensors(saved)[0]["step"])
    tap.case("a killed run leaves its last checkpoint", "" if steps and steps % 3 == 0 else str(steps))
    with open(os.path.join(own, ".c.safetensors.tmp-1-1"), "w", encoding="utf-8") as f:
        f.write("half")
    problem = train(anfora, "digits_mlp.anf", "--steps", str(steps + 1), "--resume", saved, "--save", saved)[1]
    tap.case("the next save leaves no other file", problem or "\n".join(is_left(own)))
    problem = train(anfora, "digits_mlp.anf", "--steps", "1", "--save", os.path.join(folder, "no", "such", "c"))[1]
    tap.case("a path that cannot be written is said before the first step", "" if "E0301" in problem and "epoch" not in problem else problem)
    problem = train(anfora, "digits_mlp.anf", "--steps", "1", "--save-every", "2")[1]
    tap.case("--save-every alone is refused", "" if "--save-every needs --save" in problem else problem)


def keeps_file(tap, anfora, folder):
    """The mode of the file that was, and a link to it."""
    target, link = os.path.join(folder, "target.safetensors"), os.path.join(folder, "link.safetensors")
    with open(target, "w", encoding="utf-8") as f:
        f.write("old")
    os.chmod(target, 0o640)
    os.symlink("target.safetensors", link)
    problem = train(anfora, "digits_mlp.anf", "--steps", "2", "--save", link)[1]
    os.mkdir(os.path.join(folder, "far"))
    for name, to in (("far/one.npz", "two.npz"), ("early.npz", "far/one.npz")):  # their target is not there yet
        os.symlink(to, os.path.join(folder, name))
    early = train(anfora, "digits_mlp.anf", "--steps", "2", "--save", os.path.join(folder, "early.npz"))[1]
    kept = os.path.islink(os.path.join(folder, "early.npz")) and os.path.isfile(os.path.join(folder, "far/two.npz"))
    tap.case("a link to a file that is not there yet is followed", early or ("" if kept else "the link was replaced"))
    mode = os.stat(target).st_mode & 0o777
    tap.case("a checkpoint keeps the mode and the link", problem or
             ("" if os.path.islink(link) and mode == 0o640 and read_safetensors(target)[0]["step"] == "2" else f"{mode:o}"))


def refuses_damage(tap, anfora, folder):
    saved, bad = os.path.join(folder, "d.safetensors"), os.path.join(folder, "e.safetensors")
    problem = train(anfora, "digits_mlp.anf", "--steps", "2", "--save", saved)[1]
    if problem:
        tap.case("a checkpoint to damage", problem)
        return
    with open(saved, "rb") as f:
        data = f.read()
    count = struct.unpack("<Q", data[:8])[0]

    def resumed(name, change, code):
        with open(bad, "wb") as f:
            f.write(change)
        said = train(anfora, "digits_mlp.anf", "--steps", "3", "--resume", bad)[1]
        tap.case(f"{name} is refused", "" if code in said else f"no {code}\n{said}")

    def other_step(text):
        head = json.loads(data[8:8 + count])
        head["__metadata__"]["step"] = text
        head = json.dumps(head).encode()
        return struct.pack("<Q", len(head)) + head + data[8 + count:]

    for at in (8 + count, len(data) - 1, len(data) - 4000):
        resumed(f"a bit changed at {at}", data[:at] + bytes([data[at] ^ 4]) + data[at + 1:], "E1124")
    for text in ("banana", "-5", "10 ", "", "1" + 30 * "0"):
        resumed(f"a count of '{text}'", other_step(text), "E1123")
    resumed("another count", other_step("3"), "E1124")


ROOT_OF_SQUARES = """
def init() { {w = Zeros(3, dtype=f32)} }
def loss(w: f32[3], x: f32[4, 3]) { Sqrt(Sum(Square(w * x))) }
def step(s, x: f32[4, 3]) {
  (l, g) = value_and_grad(loss)(s.w, x)
  ({w = s.w - 0.1 * g}, {loss = l})
}
"""


def finds_nan(tap, anfora, folder):
    """A finite loss whose gradient is NaN stops at the first step; --nan names the operation."""
    program, data, saved = (os.path.join(folder, name) for name in ("nan.anf", "nan.npz", "nan.safetensors"))
    with open(program, "w", encoding="utf-8") as f:
        f.write(ROOT_OF_SQUARES)
    np.savez(data, x=np.ones((8, 3), np.float32))
    words = [anfora, "train", program, "--data", data, "--batch", "4", "--steps", "5", "--save", saved]
    for more in ([], ["--nan"]):
        problem = run([*words, *more])[1]
        good = "E1125" in problem and "s.w" in problem and "step 1" in problem and not os.path.exists(saved)
        tap.case(f"NaN in the new state is found{' and its operation named' if more else ''}",
                 "" if good and (not more or "made the first" in problem) else problem or "it ran")


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        learns(tap, sys.argv[1], folder)
        resumes(tap, sys.argv[1], folder)
        writes_graphs(tap, sys.argv[1], folder)
        finds_code(tap, sys.argv[1], folder)
        traces(tap, sys.argv[1], folder)
        survives_signals(tap, sys.argv[1], folder)
        saves_every(tap, sys.argv[1], folder)
        keeps_file(tap, sys.argv[1], folder)
        refuses_damage(tap, sys.argv[1], folder)
        finds_nan(tap, sys.argv[1], folder)
    tells_time(tap, sys.argv[1])
    tap.done()


main()
