# SPDX-License-Identifier: Apache-2.0
"""What JAX's tests import, with the functions that Anfora has in place of JAX's. The others raise Absent when they are called; types,
trees, settings and the helpers of tests stay JAX's."""
import contextlib
import functools
import importlib
import sys
import types

import anfora
import anfora.initializers
import anfora.lax
import anfora.nn
import anfora.numpy
import anfora.random
import anfora.scipy
import jax
import jax.nn.initializers
import jax.test_util
import numpy
from jax._src import public_test_util, test_util

TRANSFORMS = """jit grad value_and_grad vmap jvp vjp linearize jacfwd jacrev jacobian hessian checkpoint remat custom_vjp custom_jvp eval_shape ShapeDtypeStruct
    checkpoint_policies device_put device_get block_until_ready""".split()
OWN = "make_jaxpr linear_transpose export named_call closure_convert pure_callback linearize_transpose live_arrays devices local_devices".split()
SETTINGS = {"result_type", "promote_types", "can_cast", "issubdtype", "isdtype", "dtype", "finfo", "iinfo", "set_printoptions", "printoptions", "iscomplexobj",
            "broadcast_shapes", "dtypes"}


BELOW = """lax nn random image scipy scipy.special scipy.stats scipy.linalg scipy.signal scipy.ndimage scipy.optimize scipy.integrate scipy.fft
    scipy.interpolate scipy.cluster""".split()


class Absent(Exception):
    """A function that Anfora has not."""


class Own(Exception):
    """A function by which a test looks inside of JAX."""


class Seen:
    """What the test that runs has done."""
    ours, backend, loading = False, "llvm", True


def plain(x):
    """Arrays of NumPy in place of Anfora's, in tuples, lists and dicts."""
    if isinstance(x, anfora.Array):
        return numpy.array(x)
    if isinstance(x, tuple):
        return type(x)(*map(plain, x)) if hasattr(x, "_fields") else tuple(map(plain, x))
    if isinstance(x, list):
        return list(map(plain, x))
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return x


class Stub:
    """A function that is not there: it has a name, and is an error when it is called."""

    def __init__(self, theirs, error, name):
        self._theirs, self._error, self.__name__ = theirs, error, name

    def __getattr__(self, name):
        if name in ("__wrapped__", "__signature__", "__doc__"):
            return getattr(self._theirs, name)
        raise self._error(f"{self.__name__}.{name}")

    def __call__(self, *args, **kw):
        if Seen.loading:  # what the parameters of tests are made with
            return self._theirs(*args, **kw)
        raise self._error(self.__name__)

    def __deepcopy__(self, _memo):
        return self


class Module(types.ModuleType):
    """A module of JAX with Anfora's functions of the same names."""

    def __init__(self, theirs, ours, changed=(), error=Absent):
        super().__init__(getattr(theirs, "__name__", "jax"))
        self.__dict__.update(_theirs=theirs, _ours=ours, _error=error, _changed=dict(changed))

    def __getattr__(self, name):
        if name in self._changed:
            Seen.ours = True
            return self._changed[name]
        theirs = getattr(self._theirs, name)
        if name.startswith("__"):
            return theirs
        if isinstance(theirs, types.ModuleType):
            return theirs if self._ours is None else self._changed.setdefault(name, Module(theirs, getattr(self._ours, name, NOTHING)))
        if name in SETTINGS or not callable(theirs) or isinstance(theirs, type) and not isinstance(theirs, type(jax.numpy.add)):
            return theirs  # types, numbers, settings
        if not isinstance(theirs, types.FunctionType) and hasattr(theirs, "dtype"):
            return theirs  # float32 and so on
        if self._ours is None:
            return theirs
        Seen.ours = True
        try:
            return getattr(self._ours, name)
        except AttributeError:
            return Stub(theirs, self._error, f"{self.__name__}.{name}")


NOTHING = types.SimpleNamespace()  # a module that Anfora has not, or that has no tests here


def check_grads(f, args, order, modes=("fwd", "rev"), atol=None, rtol=None, eps=None):
    """Derivatives of f against differences as JAX's check_grads has them; second derivatives are those of the first one in one
    direction."""
    Seen.ours = True
    given = {"atol": atol, "rtol": rtol, "eps": eps or public_test_util.EPS}
    args = tuple(args)

    def value(*xs):
        return arrays(f(*xs))

    def arrays(tree):
        return jax.tree.map(numpy.asarray, plain(tree))

    def conj(tree):
        return jax.tree.map(lambda x: numpy.conj(x) if numpy.iscomplexobj(x) else x, tree)

    def jvp(g):
        return lambda xs, ts: arrays(anfora.jvp(g, xs, ts))

    def vjp(g):
        def both(*xs):
            y, back = anfora.vjp(g, *xs)
            return arrays(y), lambda t: conj(arrays(back(conj(t))))  # the gradient of complex numbers is the conjugate of JAX's
        return both
    if "fwd" in modes:
        public_test_util.check_jvp(value, jvp(f), args, **given)
    if "rev" in modes:
        public_test_util.check_vjp(value, vjp(f), args, **given)
    if order > 1:
        def first(*xs):
            y, back = anfora.vjp(f, *xs)
            return back(y)

        def slope(*xs):
            return arrays(first(*xs))
        public_test_util.check_jvp(slope, jvp(first), args, **given)


class Quiet(contextlib.nullcontext):
    """ignore_warning, which leaves functions as they are."""

    def __init__(self, **_kw):
        super().__init__()

    def __call__(self, f):
        return f


class Checks:
    """Methods of JaxTestCase whose arguments may be Anfora's."""

    @staticmethod
    def exchanged(theirs, count):
        @functools.wraps(theirs)
        def method(self, *args, **kw):
            return theirs(self, *map(plain, args[:count]), *args[count:], **kw)
        return method

    def compile_and_check(self, fun, args_maker, *, check_dtypes=True, tol=None, rtol=None, atol=None, check_cache_misses=True):
        Seen.ours = True
        args = args_maker()

        f, first, named = (fun.func, fun.args, fun.keywords) if isinstance(fun, functools.partial) else (fun, (), {})

        def whole(*xs):
            return f(*first, *xs, **named)

        def alone(*xs):
            return fun(*xs)
        want, got = plain(fun(*args)), plain(anfora.jit(whole if f is not fun else alone, backend=Seen.backend)(*args))
        self.assertAllClose(got, want, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol)

    def check_against_numpy(self, theirs, ours, args_maker, check_dtypes=True, tol=None, atol=None, rtol=None, canonicalize_dtypes=True):
        args = args_maker()
        got, want = plain(ours(*args)), theirs(*plain(tuple(args)))
        self.assertAllClose(got, want, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol, canonicalize_dtypes=canonicalize_dtypes)

    @contextlib.contextmanager
    def assert_raises(self, expected, *_args, **_kw):
        """Errors have other words here; it must be of the type, or one of Anfora's."""
        class Context:
            exception = None
        try:
            yield Context
        except (Absent, Own):
            raise
        except Exception as e:  # noqa: BLE001: whatever it is, it is judged
            Context.exception = e
            if not isinstance(e, (expected, anfora.AnforaError, TypeError, ValueError)):
                raise
            return
        raise AssertionError("it is accepted, where JAX raises an error")

    def raises(self, expected, *args, **kw):
        rest = args[1:] if args and (isinstance(args[0], str) or hasattr(args[0], "pattern")) else args
        if not rest:
            return Checks.assert_raises(self, expected)
        with Checks.assert_raises(self, expected):
            rest[0](*rest[1:], **kw)
        return None


def prepare():
    """Changes the helpers of tests, and gives what modules of tests see under JAX's names."""
    case = test_util.JaxTestCase
    for name, count in (("assertArraysEqual", 2), ("assertArraysAllClose", 2), ("assertDtypesMatch", 2), ("assertAllClose", 2), ("assertEqual", 2)):
        setattr(case, name, Checks.exchanged(getattr(case, name), count))
    case._CheckAgainstNumpy = Checks.check_against_numpy
    case._CompileAndCheck, case.assertRaisesRegex, case.assertRaises = Checks.compile_and_check, Checks.raises, Checks.raises
    test_util.ignore_warning = Quiet
    test_util.supported_dtypes = lambda _all=test_util.supported_dtypes: {t for t in _all() if numpy.dtype(t).kind in "biufc"}
    test_util._LazyDtypes.custom_floats = [jax.dtypes.bfloat16]  # a test has no parameters else
    test_util.check_eq = lambda xs, ys, err_msg="", _check=test_util.check_eq: _check(plain(xs), plain(ys), err_msg)
    public_test_util.check_grads = test_util.check_grads = check_grads
    parts = {n: Module(getattr(jax.numpy, n), getattr(anfora.numpy, n)) for n in ("linalg", "fft")}
    jnp = Module(jax.numpy, anfora.numpy, parts)
    lax = Module(jax.lax, anfora.lax)
    nn = Module(jax.nn, anfora.nn, {"initializers": Module(jax.nn.initializers, anfora.initializers)})
    policies = Module(jax.checkpoint_policies, anfora.checkpoint_policies)
    changed = {n: getattr(anfora, n) for n in TRANSFORMS} | {"checkpoint_policies": policies} | {"numpy": jnp, "lax": lax, "nn": nn}
    changed |= {n: Stub(getattr(jax, n, None), Own, f"jax.{n}") for n in OWN}
    changed |= {n: Module(importlib.import_module(f"jax.{n}"), getattr(anfora, n, NOTHING)) for n in ("scipy", "random", "image")}
    whole = Module(jax, None, changed)
    public = Module(jax.test_util, None, {"check_grads": check_grads})
    seen = {"jax": whole, "jax.numpy": jnp, "jax.test_util": public}
    for n in BELOW:
        importlib.import_module(f"jax.{n}")
        seen[f"jax.{n}"] = functools.reduce(getattr, n.split("."), whole)
    seen["jax.experimental.ode"] = Module(importlib.import_module("jax.experimental.ode"), NOTHING)
    return seen


def load(name, folder):
    """The module of tests of this name."""
    seen = prepare()
    real = {n: sys.modules[n] for n in seen}
    sys.path.insert(0, folder)
    sys.modules.update(seen)
    try:
        module = importlib.import_module(name)
    finally:
        sys.modules.update(real)
    api = {n: getattr(anfora, n) for n in TRANSFORMS}
    for n in ("api", "custom_derivatives"):  # what tests call of JAX's inner modules
        if hasattr(module, n):
            setattr(module, n, Module(getattr(module, n), None, api))
    Seen.loading = False
    return module
