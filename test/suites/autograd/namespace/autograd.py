# SPDX-License-Identifier: Apache-2.0
"""The names of HIPS autograd that its tests import, as Anfora's: functions of NumPy are compiled and differentiated. A name that
has no counterpart is an error when it is called."""
import builtins
import sys
import types

import anfora
import anfora.scipy
import numpy
import scipy
import scipy.linalg
import scipy.special
import scipy.stats


def plain(tree):
    """Arrays of NumPy, and numbers."""
    return anfora.tree_map(lambda x: numpy.asarray(x)[()], tree)


def floats(x):
    """Whole numbers as numbers with a point, as autograd takes them."""
    if type(x) is int:
        return float(x)
    if builtins.isinstance(x, builtins.tuple):
        return builtins.tuple(floats(i) for i in x)
    if builtins.isinstance(x, builtins.list):
        return [floats(i) for i in x]
    if builtins.isinstance(x, builtins.dict):
        return {k: floats(v) for k, v in x.items()}
    return x.astype(float) if builtins.isinstance(x, numpy.ndarray) and x.dtype.kind == "i" else x


def with_names(f, kw):
    if kw or not builtins.isinstance(f, types.FunctionType) or f.__module__.startswith("numpy"):
        return lambda *args: f(*args, **kw)
    return f


def operator(transform):
    """f, argnum -> a function of the arguments of f."""
    def of(fun, argnum=0):
        places = argnum if type(argnum) is int else builtins.tuple(argnum)

        def derived(*args, **kw):
            at = (places,) if type(places) is int else places
            args = [floats(a) if i in at else a for i, a in enumerate(args)]
            return plain(transform(with_names(fun, kw), argnums=places)(*args))
        derived.__name__ = f"{transform.__name__}_of_{getattr(fun, '__name__', 'f')}"
        return derived
    return of


grad, value_and_grad = operator(anfora.grad), operator(anfora.value_and_grad)
hessian = operator(anfora.hessian)


def jacobian(fun, argnum=0):
    return operator(anfora.jacrev)(fun, argnum)


def elementwise_grad(fun, argnum=0):
    def total(*args, **kw):
        return numpy.sum(fun(*args, **kw))
    return grad(total, argnum)


deriv = elementwise_grad


def make_vjp(fun, argnum=0):
    def made(*args, **kw):
        args = [floats(a) for a in args]
        value, back = anfora.vjp(lambda x: fun(*args[:argnum], x, *args[argnum + 1:], **kw), args[argnum])
        return (lambda g: plain(back(g)[0])), plain(value)
    return made


def make_jvp(fun, argnum=0):
    def made(*args, **kw):
        args = [floats(a) for a in args]
        return lambda v: plain(anfora.jvp(lambda x: fun(*args[:argnum], x, *args[argnum + 1:], **kw), (args[argnum],), (floats(v),)))
    return made


def hessian_vector_product(fun, argnum=0):
    def product(*args):
        *args, v = map(floats, args)
        return plain(anfora.jvp(anfora.grad(lambda x: fun(*args[:argnum], x, *args[argnum + 1:])), (args[argnum],), (v,))[1])
    return product


hessian_tensor_product = hessian_vector_product


def make_hvp(fun, argnum=0):
    return lambda *args: (lambda v: hessian_vector_product(fun, argnum)(*args, v),)


def tensor_jacobian_product(fun, argnum=0):
    def product(*args):
        *args, v = map(floats, args)
        return plain(anfora.vjp(lambda x: fun(*args[:argnum], x, *args[argnum + 1:]), args[argnum])[1](v)[0])
    return product


vector_jacobian_product = tensor_jacobian_product


def grad_and_aux(fun, argnum=0):
    return lambda *args: plain(anfora.grad(fun, argnums=argnum, has_aux=True)(*map(floats, args)))


def checkpoint(fun):
    return anfora.checkpoint(fun)


isinstance, tuple, list, dict, type_ = builtins.isinstance, builtins.tuple, builtins.list, builtins.dict, type  # noqa: A001


# ---- test_util ----

STEP, TOLERANCE = 1e-6, 1e-5


def leaves(tree):
    return [numpy.asarray(x) for x in anfora.tree_leaves(tree)]


def scalar_close(a, b):
    return abs(a - b) < 1e-6 or abs(a - b) / abs(a + b) < 1e-6


def check_equivalent(x, y):
    xs, ys = leaves(x), leaves(y)
    assert len(xs) == len(ys)
    for a, b in zip(xs, ys):
        assert a.shape == b.shape and numpy.allclose(a, b, rtol=1e-6, atol=1e-8), (a, b)


def noise(x, random):
    """A random tree like a tree."""
    def of(a):
        a = numpy.asarray(a)
        made = random.standard_normal(a.shape)
        return made + 1j * random.standard_normal(a.shape) if a.dtype.kind == "c" else made
    return anfora.tree_map(of, x)


def product(x, y):
    return sum(float(numpy.sum(numpy.real(numpy.conj(a) * b))) for a, b in zip(leaves(x), leaves(y)))


def check_grads(fun, argnum=None, modes=None, order=2):
    """fun compiled gives what it gives as it stands, and its derivatives, as far as two orders, are those of differences."""
    del argnum
    modes = ["fwd", "rev"] if modes is None else modes

    def check(*args, **kw):
        f = with_names(fun, kw)
        args = builtins.tuple(floats(a) for a in args)
        want, got = f(*args), plain(anfora.jit(f)(*args))
        check_equivalent(want, got)
        random = numpy.random.default_rng(0)
        weights = [numpy.asarray(w) for w in leaves(noise(want, random))]

        def weighed(y, w):
            real = numpy.sum(numpy.real(y) * numpy.real(w))
            return real + numpy.sum(numpy.imag(y) * numpy.imag(w)) if complex_ else real
        complex_ = any(w.dtype.kind == "c" for w in weights)
        if builtins.isinstance(want, (builtins.tuple, builtins.list)):
            def total(*xs):
                y = f(*xs)
                return sum(weighed(y[i], w) for i, w in enumerate(weights))
        elif builtins.isinstance(want, builtins.dict):
            keys = sorted(want)

            def total(*xs):
                y = f(*xs)
                return sum(weighed(y[k], w) for k, w in zip(keys, weights))
        else:
            def total(*xs):
                return weighed(f(*xs), weights[0])
        whole = builtins.tuple(range(len(args)))

        def slopes(*xs):
            return anfora.grad(total, argnums=whole)(*xs)

        def moved(xs, v, s):
            return builtins.tuple(anfora.tree_map(lambda a, d: a + s * d, x, d) for x, d in zip(xs, v))
        v = builtins.tuple(noise(a, random) for a in args)

        def close(a, b):
            assert abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b)), (a, b)
        slope = (total(*moved(args, v, STEP)) - total(*moved(args, v, -STEP))) / (2 * STEP)
        if "rev" in modes:
            close(product(plain(slopes(*args)), v), float(slope))
            if order > 1:
                u = builtins.tuple(noise(a, random) for a in args)
                second = (product(plain(slopes(*moved(args, v, STEP))), u) - product(plain(slopes(*moved(args, v, -STEP))), u)) / (2 * STEP)
                turned = plain(anfora.jvp(slopes, args, v)[1])
                close(product(turned, u), second)
        if "fwd" in modes:
            close(float(numpy.real(plain(anfora.jvp(total, args, v)[1]))), float(slope))
    return check


def combo_check(fun, *args, **kw):
    """All ways to choose arguments, in first order."""
    from itertools import product as ways
    one = check_grads(fun, *args, **kw | {"order": 1})

    def check(*lists, **named):
        for xs in ways(*lists):
            for k in ways(*([(n, x) for x in values] for n, values in named.items())):
                one(*xs, **builtins.dict(k))
    return check


# ---- modules ----

def absent(name):
    def f(*_args, **_kw):
        raise NotImplementedError(f"{name} is autograd's own")
    f.__name__ = name.rsplit(".", 1)[-1]
    return f


def module(name, source, names=()):
    m = types.ModuleType(f"autograd.{name}")
    vars(m).update({n: getattr(source, n) for n in dir(source) if not n.startswith("__")} if source is not None else {})
    vars(m).update(names)
    m.__getattr__ = lambda n: absent(f"autograd.{name}.{n}") if not n.startswith("__") else _no(n)
    m.__path__ = []
    sys.modules[f"autograd.{name}"] = m
    return m


def _no(name):
    raise AttributeError(name)


def __getattr__(name):
    return absent(f"autograd.{name}") if not name.startswith("__") else _no(name)


__path__ = []
numpy_ = module("numpy", numpy)
for part in ("random", "linalg", "fft"):
    setattr(numpy_, part, module(f"numpy.{part}", getattr(numpy, part)))
scipy_ = module("scipy", scipy)
for part in ("special", "stats", "linalg", "signal", "integrate"):
    __import__(f"scipy.{part}")
    own = vars(getattr(anfora.scipy, part, types.SimpleNamespace()))
    setattr(scipy_, part, module(f"scipy.{part}", getattr(scipy, part), {n: f for n, f in own.items() if not n.startswith("_")}))
for part in ("norm", "multivariate_normal", "dirichlet", "t", "gamma", "beta", "chi2", "poisson"):
    setattr(scipy_.stats, part, module(f"scipy.stats.{part}", getattr(anfora.scipy.stats, part, None)))
test_util = module("test_util", None, {"check_grads": check_grads, "combo_check": combo_check, "check_equivalent": check_equivalent,
                                       "scalar_close": scalar_close})
for part in ("core", "tracer", "extend", "misc", "util", "builtins", "differential_operators", "misc.flatten", "misc.optimizers",
             "numpy.numpy_boxes", "numpy.numpy_vspaces", "numpy.numpy_wrapper"):
    module(part, None, {"tuple": tuple, "list": list, "dict": dict, "isinstance": isinstance} if part == "builtins" else {})
