# SPDX-License-Identifier: Apache-2.0
"""Arrays of the host without copies, errors, threads, memory."""
import ctypes
import math
import gc
import os
import re
import subprocess
import sys
import threading
import time

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import CompileError, jit


@jit
def twice(x):
    return x * 2


@jit
def same(x):
    return x


def address(a):
    return np.asarray(a).__array_interface__["data"][0]


def raises(kind, words, f, *args):
    try:
        f(*args)
    except kind as e:
        assert all(w in str(e) for w in words), (words, str(e))
        return str(e)
    raise AssertionError(f"no {kind.__name__}")


def test_views_are_not_copies():
    x = np.arange(6.0).reshape(2, 3)
    a = anfora.asarray(x)
    assert address(a) == address(x) and a.shape == (2, 3) and a.dtype == "f64"
    assert (a.ndim, a.size, a.nbytes, len(a)) == (2, 6, 48, 2) and a.tolist() == x.tolist()
    x[0, 0] = 9
    assert np.asarray(a)[0, 0] == 9
    assert address(np.from_dlpack(a)) == address(x)


def test_dlpack_both_forms():
    x = np.arange(4, dtype=np.float32)
    class Old:
        """Gives unversioned capsules and does not know of versions, as JAX's arrays."""
        def __dlpack__(self, stream=None):
            return x.__dlpack__()
        def __dlpack_device__(self):
            return x.__dlpack_device__()
    assert address(anfora.asarray(Old())) == address(x)
    assert twice(Old()).tolist() == [0.0, 2.0, 4.0, 6.0]
    r = twice(x)
    assert "dltensor_versioned" in repr(r.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(r.__dlpack__())
    class New:
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            return r.__dlpack__(max_version=max_version)
    assert address(anfora.asarray(New())) == address(r)


class Lender:
    """A tensor of DLPack made by hand, in either form."""

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]

    def __init__(self, a, versioned, **change):
        self.a, self.versioned, self.lent, self.given_back = a, versioned, 0, 0
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.deleter = kind(self.delete)
        shape = change.pop("shape", a.shape)
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        strides = change.pop("strides", [s // a.itemsize for s in a.strides][:len(shape)])
        self.strides = (ctypes.c_int64 * max(1, len(shape)))(*strides) if strides else None
        t = self.Tensor(a.ctypes.data, 1, 0, len(shape), 2, 8 * a.itemsize, 1, ctypes.addressof(self.shape),
                        ctypes.addressof(self.strides) if strides else None, change.pop("offset", 0))
        major = change.pop("major", 1)
        for k, v in change.items():
            setattr(t, k, v)
        class Plain(ctypes.Structure):
            _fields_ = [("t", self.Tensor), ("user", ctypes.c_void_p), ("deleter", kind)]
        class Versioned(ctypes.Structure):
            _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("user", ctypes.c_void_p), ("deleter", kind),
                        ("flags", ctypes.c_uint64), ("t", self.Tensor)]
        self.made = Versioned(major, 0, None, self.deleter, 1, t) if versioned else Plain(t, None, self.deleter)

    def delete(self, _):
        self.given_back += 1

    def __dlpack__(self, **_):
        self.lent += 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new(ctypes.addressof(self.made), self.name, None)


def test_capsules_by_hand():
    a = np.arange(12.0).reshape(3, 4)
    for versioned in (False, True):
        for lender, want in ((Lender(a, versioned), a), (Lender(a, versioned, strides=None), a),
                             (Lender(a[:, ::2], versioned), a[:, ::2]), (Lender(a.T, versioned), a.T),
                             (Lender(a, versioned, shape=(2, 4), offset=32), a[1:]),
                             (Lender(a, versioned, shape=(3,), strides=(-4,), offset=64), a[::-1, 0]),
                             (Lender(a, versioned, shape=(0, 4)), a[:0]), (Lender(a, versioned, shape=()), a[0, 0])):
            x = anfora.asarray(lender)
            assert np.array_equal(np.asarray(x), want)
            assert np.asarray(jit(lambda v: v + 1)(lender)).tolist() == (want + 1).tolist()
            del x
            gc.collect()
            assert lender.lent == lender.given_back > 1, (lender.lent, lender.given_back)
        odd = np.frombuffer(b"x" + a.tobytes(), np.uint8)
        lender = Lender(a, versioned, data=odd.ctypes.data + 1)
        assert np.array_equal(np.asarray(anfora.asarray(lender)), a) and lender.given_back == 1
        bad = [({"device": 2}, "not in the CPU"), ({"lanes": 2}, "element type"), ({"bits": 128}, "element type"),
               ({"shape": (-1, 4)}, "no shape"), ({"ndim": -1}, "no shape"), ({"ndim": 99}, "too many dims")]
        for change, words in bad + ([({"major": 7}, "version 7")] if versioned else []):
            lender = Lender(a, versioned, **change)
            raises((TypeError, BufferError), [words], anfora.asarray, lender)
            assert lender.given_back == 1
    assert np.asarray(anfora.asarray(Lender(a, True))).flags.writeable is False


def test_what_a_loan_is_asked_for():
    a = anfora.asarray(np.arange(3.0))
    raises(BufferError, ["CPU's memory"], lambda: a.__dlpack__(dl_device=(2, 0)))
    raises(TypeError, [], lambda: a.__dlpack__(max_version="x"))
    class Taken:
        capsule = a.__dlpack__(copy=True)
        def __dlpack__(self, **_):
            return self.capsule
    b = anfora.asarray(Taken())
    assert address(b) != address(a) and np.asarray(b).tolist() == [0, 1, 2]
    raises(BufferError, ["or one that was taken"], anfora.asarray, Taken())


def test_strides_and_orders():
    x = np.arange(24.0).reshape(4, 6)
    for v in (x[::2], x[:, ::-1], x.T, np.asfortranarray(x), x[1:3, 2:4], np.broadcast_to(x[0], (3, 6)), x[:0]):
        assert np.array_equal(np.asarray(twice(v)), v * 2)


def test_all_element_types():
    for t in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
              np.float32, np.float64, np.complex64, np.complex128):
        x = np.array([0, 1, 1], t)
        y = np.asarray(anp.stack([x, x]))
        assert y.dtype == x.dtype and np.array_equal(y, np.stack([x, x])), t
        assert np.asarray(same(x[0])).dtype == x.dtype or t in (np.bool_, np.int64, np.float64)


def test_what_is_no_array():
    raises(TypeError, ["not an array", "set"], lambda: anfora.asarray(set()))
    raises(TypeError, ["format", "byte order"], twice, np.arange(3.0).astype(">f8"))
    raises(TypeError, ["argument of type", "set"], twice, {1})
    raises(TypeError, ["format"], twice, np.array(["a"]))
    raises(OverflowError, ["64 bits"], twice, 2 ** 70)
    raises(TypeError, ["missing a required argument"], twice)
    raises(TypeError, ["keys"], twice, {frozenset(): 2.0})


def test_read_only_memory_stays_so():
    x = np.arange(3.0)
    x.flags.writeable = False
    a = anfora.asarray(x)
    assert not np.asarray(a).flags.writeable
    raises(BufferError, ["read"], a.__dlpack__)


def test_errors_show_the_place():
    @jit
    def f(x, y):
        z = x + 1
        return z @ y
    text = raises(CompileError, ["cases_arrays.py", "return z @ y", "^^^^^"], f, np.ones((2, 3)), np.ones((2, 3)))
    assert "MatMul" in text
    @jit
    def g(x):
        with open("/dev/null"):
            return x
    raises(CompileError, ["with cannot be compiled", "with open", "hint"], g, 1.0)
    @jit
    def h(x):
        x[0] = 1.0
        return x
    raises(CompileError, ["x[0] = 1.0", "is an argument", "x = x.copy()"], h, np.ones(3))
    @jit
    def k(x):
        return os.getpid() + x
    raises(CompileError, ["cannot be called in a compiled function"], k, 1.0)
    @jit
    def m(x):
        return unknown_name + x  # noqa: F821
    raises(CompileError, ["there is no unknown_name"], m, 1.0)
    raises(CompileError, ["source"], jit(eval("lambda x: x")), 1.0)
    @jit
    def vector(x):
        return x * 2.0
    raises(CompileError, ["one real number", "f64[3]", "def vector(x)"], anfora.grad(vector), np.ones(3))


def test_stops_of_running_code():
    @jit
    def f(a, b):
        return a // b
    assert f(7, 2) == 3
    raises(anfora.RunError, ["cases_arrays.py", "return a // b"], f, 1, 0)


def test_kinds_of_arguments():
    @jit
    def f(x):
        return x + 1
    assert f(1) == 2 and f(1.5) == 2.5 and f(2) == 3 and f.compiled == 2
    x32 = f(np.ones(2, np.float32))
    assert x32.dtype == "f32" and f.compiled == 3
    assert f(True) == 2


def test_eager_operations():
    assert anp.sum(np.arange(4.0)) == 6.0
    assert anp.zeros((2, 3), dtype=anfora.f64).tolist() == [[0.0] * 3] * 2
    assert anp.concatenate([np.ones(1), np.zeros(1)]).tolist() == [1.0, 0.0]
    assert np.allclose(np.asarray(anp.softmax(np.array([0.0, 1.0]))), np.exp([0, 1]) / np.sum(np.exp([0, 1])))
    assert anfora.f32(2.5).dtype == "f32"
    raises(TypeError, ["no argument"], lambda: anp.sum(np.ones(2), axes=0))


def test_threads():
    @jit
    def spin(n):
        s = 0.0
        for i in range(n):
            s = s + anp.sin(s + i)
        return s
    want = spin(100)
    spins = []
    def count():
        while not done.is_set():
            spins.append(1)
            time.sleep(0.001)
    done = threading.Event()
    t = threading.Thread(target=count)
    t.start()
    start = time.perf_counter()
    while time.perf_counter() - start < 0.5:
        spin(1000000)
    done.set()
    t.join()
    assert len(spins) > 5, "other threads stood still"
    wrong = []
    def call(k):
        f = jit(lambda x: x * k + anp.sum(anp.ones(5)))
        for _ in range(200):
            if spin(100) != want or f(2.0) != 2.0 * k + 5 or np.asarray(twice(np.ones(k + 1)))[0] != 2:
                wrong.append((k, spin(100), f(2.0), np.asarray(twice(np.ones(k + 1)))))
    workers = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong, (want, wrong[:3])


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_calls_leave_nothing_behind():
    x = np.ones(1000, np.float32)
    tree = {"a": [x, (x, 1.0)], "b": x}
    f = jit(lambda t, k: ({"s": t["a"][0] * k, "b": [t["b"], t["a"][1][1]]}, k))
    for _ in range(100):
        f(tree, 2.0)
        twice(x)
    gc.collect()
    before, refs, held = resident(), sys.getrefcount(x), anfora._core.bytes_held()
    for _ in range(20000):
        f(tree, 2.0)
        twice(x)
    gc.collect()
    assert sys.getrefcount(x) == refs
    assert anfora._core.bytes_held() <= held, (held, anfora._core.bytes_held())
    assert resident() - before < 2 << 20, resident() - before


def test_functions_are_freed():
    def cycle(k):
        f = jit(lambda x: x + k)
        assert f(1.0) == 1.0 + k
        try:
            jit(lambda x: x @ x)(1.0)
        except CompileError:
            pass
    cycle(0)
    gc.collect()
    cycle(1)
    gc.collect()
    held = anfora._core.bytes_held()
    for k in range(5):
        cycle(k)
    gc.collect()
    assert anfora._core.bytes_held() <= held + 4096, (held, anfora._core.bytes_held())


def test_looking_inside():
    @jit
    def f(x, y):
        return anp.sin(x) + y
    assert "Sin(x)" in f.ir() and "digraph" in f.dot() and "func" in f.tir(1.0, 2.0)
    assert "define" in f.llvm(1.0, 2.0) and "<html" in f.html().lower() and "def f(" in f.source()
    assert f.dat().startswith("anfora") or "f" in f.dat()
    svg = f._repr_svg_()
    assert svg is None or svg.startswith("<svg")


def test_numbers_are_printed_with_the_digits_of_their_type():
    for dtype in (np.float16, np.float32, np.float64, np.complex64):
        for x in np.array([0.1, 2.68, 1 / 3, 1e-5, 6e4, 123.456, -0.0, np.nan, -np.inf], dtype):
            a = anfora.asarray(x)
            assert str(a) == "%s" % a == str(x) and f"{a}" == f"{x}" and repr(a) == f"Array({x!s}, {a.dtype})", (str(a), repr(a), x)
            assert dtype is np.complex64 or f"{a:.5f}" == f"{x:.5f}"
    x = anfora.asarray(np.array([0.1, 2.68], np.float32))
    assert repr(x) == str(x) == f"{x}" == "Array([0.1, 2.68], f32)" and x.tolist() == [float(np.float32(0.1)), float(np.float32(2.68))]
    assert repr(x[:1]) == f"{x[:1]}" == "Array([0.1], f32)" and f"{x[:1]:.2f}" == "0.10"


def test_half_precision_without_its_package():
    """Numbers become bf16 where NumPy has no such type."""
    program = "import sys; sys.modules['ml_dtypes'] = None; import anfora.numpy as np; x = np.asarray([0.1, 2.0], dtype='bf16'); print(x, np.array(1.5, dtype='bf16'))"
    r = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(anfora.__file__))})
    assert r.stdout == "Array([0.1, 2.0], bf16) 1.5\n", r


def test_numbers_that_come_back_are_arrays():
    twice = anfora.jit(lambda x: x * 2)
    for x, dtype in ((2.0, "float64"), (2, "int64"), (np.float32(2), "float32"), (np.int32(2), "int32"), (2j, "complex128"),
                     (np.array(2.0), "float64")):
        y = twice(x)
        assert isinstance(y, anfora.Array) and y.shape == () and y.dtype == np.dtype(dtype) and y == 2 * x, (x, y)
        assert np.asarray(y).dtype == dtype and str(y) == str(np.asarray(y)[()])
    whole = anp.sum(np.arange(4))
    assert list(range(whole)) == list(range(6)) and [0] * 7 == [0] * (whole + 1) and f"{whole:03d}" == "006"
    truth = anp.all(np.ones(3))
    assert isinstance(truth, anfora.Array) and truth.dtype == bool and bool(truth)
    assert math.sqrt(anp.sum(np.ones(4))) == 2.0 and round(float(anp.mean(np.ones(3)))) == 1


def test_arithmetic_of_arrays():
    x = np.array([[1.0, -2.0], [3.0, 4.0]])
    a = anfora.asarray(x)
    for f in (lambda v: v + 1, lambda v: 2 - v, lambda v: v * v, lambda v: 1 / v, lambda v: v // 2, lambda v: v % 3,
              lambda v: v ** 2, lambda v: v @ v, lambda v: -v, abs, lambda v: v == 3.0, lambda v: v < v * 2,
              lambda v: v[0], lambda v: v[:, 1], lambda v: v[1, 1] + 1):
        assert np.array_equal(np.asarray(f(a)), f(x)), f
    assert isinstance(a + 1, anfora.Array) and np.array_equal(x + a, x + x)
    raises(TypeError, ["unsupported operand"], lambda: a + "x")
    raises(IndexError, [], lambda: a[5])


def test_arrays_of_one_element_are_no_integers():
    x = anp.asarray(np.arange(6.0).reshape(2, 3))
    one = anp.asarray([1])
    assert x[one].shape == (1, 3) and x[0, one].shape == (1,) and x[one, one].tolist() == [4.0]
    assert x.at[one].set(0.0).tolist() == [[0, 1, 2], [0, 0, 0]] and x[anp.asarray(1)].shape == (3,)
    try:
        range(one)
    except TypeError as e:
        assert "int(x)" in str(e)
    else:
        raise AssertionError("an array with dims is no integer")
    mine = np.zeros(2)
    copied, shared = anp.array(mine), anp.asarray(mine)
    mine[0] = 5
    assert copied.tolist() == [0, 0] and shared.tolist() == [5, 0]


def test_numbers_compare_to_arrays():
    x = anp.asarray(2.0)
    for y in (x == 2, x != 3.0, x < anp.asarray(3), x >= 2):
        assert isinstance(y, anfora.Array) and y.dtype == "bool" and y.shape == () and y
    assert not x == 3 and [x].index(2.0) == 0
    nan = anp.asarray(float("nan"))
    assert nan != nan and not nan == nan


def test_long_rows_that_are_computed_when_read_are_never_whole_in_memory():
    n = 3 * 4096 + 8192 + 37  # more than fit one array, and some after the last piece
    x, y = np.random.default_rng(1).normal(size=(2, 8, n)).astype(np.float32)

    def total(x, y):
        return anp.sum(x * y, axis=1)

    def greatest(x, y):
        return anp.max(x * y, axis=1)

    def place(x, y):
        return anp.argmax(x * y, axis=1)

    def planes(x, y):
        return anp.sum(anp.reshape(x, (2, 4, n)) * anp.reshape(y, (2, 4, n)), axis=(0, 2))
    product = x * y
    for f, want in ((total, product.sum(1)), (greatest, product.max(1)), (place, product.argmax(1)),
                    (planes, product.reshape(2, 4, n).sum((0, 2)))):
        g = anfora.jit(f)
        assert np.allclose(np.asarray(g(x, y)), want, rtol=1e-4, atol=1e-3)
        whole = re.findall(rf"^( *)tensor \w+: \[f32 \* {8 * n}\]", g.tir(x, y), re.M)
        assert whole == ([] if f is not place else ["  "]), whole  # of the greatest's place once, before the loop over rows
    copy = anfora.jit(lambda z: anp.sum(z, axis=1))  # of rows that lie in memory, which add fours before
    assert np.abs(np.asarray(copy(product)) - np.asarray(anfora.jit(total)(x, y))).max() <= 2.0 ** -22 * np.abs(product).sum(1).max()
    product[3, 20000] = np.nan
    x[3, 20000] = np.nan
    assert np.isnan(np.asarray(anfora.jit(greatest)(x, y))).nonzero()[0].tolist() == [3]


def test_large_results_take_the_memory_of_those_that_were_freed():
    import resource
    x = np.ones(9 << 20, np.float32)
    twice(x), twice(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        y = twice(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 5000  # 9,216 a call if each has new pages
    assert (np.asarray(y[::4096]) == 2).all()
    small = x[:(4 << 18) + 5]  # above 4 MB
    for _ in range(2):
        made = [twice(small) for _ in range(6)]  # more than are kept, and none is given twice
        assert len({address(a) for a in made}) == 6 and all(address(a) % 64 == 0 for a in made)
        del made
    assert (np.asarray(twice(small)) == 2).all()


@jit
def rows_of(x):
    return x[:, None] * anp.ones((1, 256), np.float32)


def test_large_results_that_find_no_memory_leave_nothing_behind():
    import resource
    x = np.ones(120 << 10, np.float32)
    rows_of(x)
    made = [twice(np.ones(5 << 18, np.float32)) for _ in range(4)]
    del made  # what is kept is these, and not the result
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (used + (60 << 20), before[1]))
        raises(MemoryError, [], rows_of, x)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert (np.asarray(rows_of(x)[::4096]) == 1).all()
