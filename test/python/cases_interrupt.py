# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and other signals while compiled code runs."""
import os
import signal
import subprocess
import sys
import threading
import time

import anfora.numpy as anp
import numpy as np
from anfora import jit
from anfora.train import SGD, Step


@jit
def loop(x, n):
    while n > 0:
        x = anp.sin(x) * 0.5 + 1.0
        n = n - 1
    return x


@jit
def calls(n):
    return n if n < 2 else calls(n - 1) + calls(n - 2)


@jit
def rows(x, n):
    for i in range(n):
        x = anp.tanh(x) + 1e-3
    return x


def interrupted(f, *args):
    """How long after SIGINT the call ends, in seconds."""
    sent = []
    timer = threading.Timer(0.2, lambda: (sent.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT)))
    timer.start()
    try:
        f(*args)
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.join()
    raise AssertionError("the call was not interrupted")


def test_loops_and_recursion_end_soon():
    loop(0.5, 3), calls(5), rows(np.zeros(100000), 3)  # compiled before
    took = [interrupted(loop, 0.5, 2 ** 62), interrupted(calls, 90), interrupted(rows, np.zeros(100000), 1000000)]
    print("# ended", ", ".join(f"{1e3 * t:.1f} ms" for t in took), "after the signal")
    assert max(took) < 1.0, took  # the machines that test are busy: alone it takes 1 ms
    assert loop(0.5, 3) == loop(0.5, 3) and calls(10) == 55


def test_while_it_is_compiled_for_other_types():
    assert interrupted(loop, np.float32(0.5), 2 ** 62) < 2.0


def test_a_handler_that_raises_nothing():
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(time.monotonic()))
    try:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        assert calls(30) == 832040
        while not came and time.monotonic() < start + 5:
            calls(30)
        assert len(came) == 1
        assert calls(30) == 832040
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted(loop, 0.5, 2 ** 62) < 1.0


def test_sigint_that_is_not_handled_ends_the_process():
    code = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import anfora
signal.signal(signal.SIGINT, signal.SIG_DFL)
@anfora.jit
def loop(n):
    while n > 0: n = n - n % 2 + 1
    return n
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
loop(5)
"""
    r = subprocess.run([sys.executable, "-c", code, sys.path[0]], timeout=60)
    assert r.returncode == -signal.SIGINT, r.returncode


def slow_loss(p, x):
    s = 0.0
    i = 0
    while i < 100:
        s = s + anp.sum(anp.tanh(x * p + s))
        i = i + 1
    return s


def test_training_steps():
    """The step under way ends, and the state is as it was before it."""
    x = np.linspace(-1, 1, 50000)
    step = Step(slow_loss, SGD(1e-3), np.float64(0.5), stop_at_nan=False)
    step(x)
    before, count = float(step.params), step.count
    took = interrupted(lambda: [step(x) for _ in range(1000)])
    print(f"# a training step ended {1e3 * took:.1f} ms after the signal")
    assert took < 1.0, took
    if step.count == count:
        assert float(step.params) == before
    step(x)
    assert step.count > count


def test_other_threads_do_not_take_signals():
    results = []
    t = threading.Thread(target=lambda: results.append(calls(27)))
    t.start()
    assert interrupted(loop, 0.5, 2 ** 62) < 1.0
    t.join()
    assert results == [196418]
