# SPDX-License-Identifier: Apache-2.0
"""The surface of Python and NumPy, against Python itself: each function below runs compiled and as it stands; values,
types, shapes and the structure of results must be the same."""
import tempfile
import os
import copy
import dataclasses
import functools
import math
import typing
import warnings

import anfora
import anfora.numpy as anp
import numpy as np

A = np.arange(12.0).reshape(3, 4)
A32 = A.astype(np.float32)
V = np.array([1.0, 2.0, 3.0])
G, TUP, LST = 2.5, (1.0, 2.0, 3.0), [1, 2, 3]
DCT = {"a": 1.0, "b": (2.0, 3.0)}
ARR = np.array([1.0, 2.0, 3.0])


class Cfg:
    n = 3
    act = "relu"


@dataclasses.dataclass
class P:
    w: object
    b: object

    def apply(self, x):
        return x * self.w + self.b

    @property
    def total(self):
        return self.w + self.b


class NT(typing.NamedTuple):
    x: float
    y: float


class Net:
    def __init__(self):
        self.k = 3.0
        self.w = ARR

    def __call__(self, x):
        return self.k * x

    def go(self, x):
        return self.k * x + self.w


net = Net()


def plain(x):
    """Arrays of either side as NumPy's."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return type(x)(map(plain, x)) if type(x) in (tuple, list) else tuple(map(plain, x))
    return x if x is None or isinstance(x, (bool, int, float, complex)) else np.asarray(x)


def check(want, got, at=""):
    if isinstance(want, dict):
        assert isinstance(got, dict) and list(want) == list(got), (at, want, got)
        for k in want:
            check(want[k], got[k], f"{at}[{k!r}]")
    elif isinstance(want, (tuple, list)):
        assert type(want) is type(got) and len(want) == len(got), (at, want, got)
        for i, (w, g) in enumerate(zip(want, got)):
            check(w, g, f"{at}[{i}]")
    elif want is None:
        assert got is None, (at, got)
    else:
        w, g = np.asarray(want), np.asarray(got)
        assert w.shape == g.shape and w.dtype == g.dtype, (at, want, got)
        assert np.allclose(w, g, 1e-6, 1e-6, equal_nan=True), (at, want, got)


def case(*args, **kw):
    """The function is a test, with these arguments."""
    def add(f):
        def test():
            with np.errstate(all="ignore"):
                want = plain(f(*copy.deepcopy(args), **kw))
            check(want, plain(anfora.jit(f)(*args, **kw)))
        globals()["test_" + f.__name__] = test
        return f
    return add

@case(A)
def step(x): return x[::2]

@case(A)
def reversed(x): return x[::-1]

@case(A)
def two_slices(x): return x[1:-1, ::-2]

@case(A)
def negative_indices(x): return x[-1], x[-2:, -3:]

@case(A)
def new_dims(x): return x[..., 0], x[None], x[:, None, :]

@case(A)
def out_of_range(x): return x[10:], x[2:1], x[-100:2]

@case(A)
def list_as_index(x): return x[:, [0,2,3]]

@case(A, np.array([0,2]))
def arrays_as_index(x, i): return x[i], x[i, i], x[:, i]

@case(A)
def where(x): return np.where(x > 5, x, 0)

@case(A)
def augmented(x):
    y = x
    y += 1
    y *= 2
    y -= 3
    y /= 4
    y **= 2
    return y

@case(7)
def augmented_integers(n):
    n //= 2
    n %= 5
    n <<= 3
    n >>= 1
    n |= 1
    n &= 7
    n ^= 2
    return n

@case(A32, A[0])
def f32_and_f64(a, b): return a + b, a * 2.5, a - 1

@case(np.arange(4,dtype=np.int8), np.arange(4,dtype=np.int16))
def small_integers(a, b): return a + b, a * a, a + 1, a > b, a / b

@case(np.arange(4,dtype=np.uint8))
def unsigned(a): return a - 1, a + 255, a << 1, a // 3, a % 3, ~a

@case(np.arange(4,dtype=np.float16))
def halves(a): return a + 1, a * a, a @ a, a / 3, np.exp(a), a.sum()

@case(np.array([True,False,True]), np.array([1.,2.,3.]))
def bools(b, x): return b & True, b | (x > 2), ~b, b ^ b, x * b, b.sum(), b + b

@case(np.zeros((0,3)), np.zeros((3,0)))
def empty_arrays(x, y): return x.sum(), x.sum(axis=0), x @ y, y @ x, x + 1, x.T

@case(np.array(3.0), np.array(2, np.int32))
def no_dims(x, n): return x + 1, x * n, x.shape, n

@case(np.asfortranarray(A), A[::2, ::2], A.T)
def orders_and_strides(a, b, c): return a + 1, b * 2, c @ a

@case(A)
def loops_within_loops(x):
    s = 0.0
    for i in range(3):
        for j in range(4):
            s += x[i, j] * i
    return s

@case(10)
def nested_while(n):
    t = 0
    i = 0
    while i < n:
        j = 0
        while j < i:
            if (i + j) % 3 == 0:
                j += 1
                continue
            t += j
            j += 1
            if t > 100: break
        i += 1
    return t

@case(5)
def recursion(n):
    if n <= 1: return 1
    return n * recursion(n - 1)

@case(3, 4)
def ackermann(m, n):
    if m == 0: return n + 1
    if n == 0: return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))

@case(2., 3.)
def closures(a, b):
    def add(x, k=2):
        return x + a * k
    def mk(z):
        def inner(y): return y * z + add(y)
        return inner
    g = mk(b)
    return g(1.0), add(1.0), add(b, k=5), add(k=1, x=0.0)

@case(2., y=3.)
def defaults_and_keywords(x, y=1., *, z=4.): return x * y + z

@case([1., 2., 3.])
def loop_over_a_list_argument(xs):
    t = 0.
    for x in xs: t += x
    return t

@case((1., 2, A))
def tuple_argument(p):
    a, b, c = p
    return a * b + c.sum()

@case({'w': A, 'b': 2.0})
def dictionary_argument(p): return {'w': p['w'] * p['b'], 'n': p['b']}

@case(A)
def comprehension(x): return [x[i].sum() for i in range(3)]

@case(A)
def sum_of_a_list(x): return sum([x[i].sum() for i in range(3)])

@case(A)
def sum_of_a_generator(x): return sum(x[i].sum() for i in range(3))

@case(3.)
def conditional(x): return 1.0 if x > 2 else -1.0

@case(3)
def chained_comparison(x): return 1 < x < 5, 1 < x <= 2, x == 3 != 4

@case(True, False)
def words_on_bools(a, b): return a and b, a or b, not a, a == b

@case(3, 0)
def words_on_numbers(a, b): return (a > 0 and b > 0), (a or b)

@case(A)
def reductions(x): return x.mean(), x.max(axis=1), x.min(0), x.std(), x.var(axis=0), x.prod(), x.argmax(), x.argmax(axis=1), x.cumsum(axis=1), x.any(), x.all()

@case(A)
def reshapes(x): return x.reshape(4, 3), x.reshape((2, 6)), x.reshape(-1), x.T, x.transpose(1, 0), x.ravel(), x.flatten(), x.squeeze()

@case(A)
def numpy_axes(x): return np.sum(x, axis=(0, 1)), np.mean(x, axis=-1, keepdims=True), np.concatenate([x, x], axis=1), np.stack([x, x])

@case(A)
def numpy_orders(x): return np.sort(x, axis=1), np.argsort(x[0]), np.flip(x), np.roll(x, 1), np.tile(x, (2, 1)), np.repeat(x, 2, axis=0)

@case(A)
def numpy_pointwise(x): return np.clip(x, 2, 5), np.minimum(x, 3), np.maximum(x, 3), np.sign(x), np.floor(x/2), np.round(x/3), np.isnan(x), np.logical_and(x > 1, x < 5)

@case(5, 3)
def integer_division(a, b): return a // b, a % b, -a // b, -a % b, divmod(a, b), a ** b, a / b

@case(-5.5, 2.0)
def float_division(a, b): return a // b, a % b, -a // b, a ** 2

@case(2.)
def pythons_types(x): return int(x), float(3), bool(x), abs(-x), round(x), min(x, 1.0), max(x, 5.0, 2.0)

@case(A, A)
def comparisons(x, y): return x == y, x != y, x < y, (x <= y).all()

@case(2.)
def constants_from_outside(x): return x*G + TUP[1] + DCT['b'][0] + Cfg.n

@case(2.)
def loop_over_constants(x):
    s=0.
    for t in TUP: s += t*x
    for i,t in enumerate(LST): s += i*t
    return s

@case(2.)
def loop_over_a_constant_list(x):
    for k in LST: x = x*k
    return x

@case(2.)
def choice_from_outside(x): return x if Cfg.act=='relu' else -x

@case(2.)
def methods_of_outside_objects(x): return net.go(x), net(x), net.k

@case(P(2.,3.), 4.)
def methods_of_arguments(p,x): return p.apply(x), p.total, p.w

@case(P(2.,3.))
def dataclass_replaced(p): return dataclasses.replace(p, w=5.0).w

@case(NT(1.,2.))
def named_tuple(p): return p.x+p.y, p[0], p._replace(x=3.)

@case(NT(1.,2.))
def named_tuple_unpacked(p):
    x,y=p
    return x-y

@case({'a':1.,'b':2.})
def dict_comprehension(p):
    return {k: v*2 for k,v in p.items()}

@case({'a':1.,'b':2.})
def loop_over_keys(p):
    s=0.
    for k in p: s+=p[k]
    return s

@case({'a':1.,'b':2.})
def loop_over_values(p):
    s=0.
    for v in p.values(): s+=v
    return s, len(p), 'a' in p

@case({'a':1.,'b':2.})
def dict_spread(p): return {**p, 'c':3.}

@case({'a':1.,'b':2.})
def dict_get(p): return p.get('a'), p.get('z', 3.0)

@case({'a':{'b':[V,(V,None)]}})
def none_inside(p): return p['a']['b'][1][0]

@case(V)
def append(x):
    out=[]
    for i in range(3): out.append(x[i]*2)
    return out

@case(V)
def item_assigned(x):
    xs=[x,x+1]
    xs[0]=x*5
    return xs

@case(V)
def list_grows(x):
    xs=[x,x+1]
    xs += [x]
    return xs, len(xs), xs[-1], xs[1:], xs[::-1]

@case(V)
def comprehension_with_if(x): return [i*x for i in range(4) if i%2==0]

@case(V)
def comprehension_of_comprehension(x): return [[i*j for j in range(2)] for i in range(3)]

@case(V)
def comprehension_of_zip(x): return [a*b for a,b in zip((1.,2.),(3.,4.))]

@case(V)
def comprehension_with_two_for(x): return [i*j for i in range(2) for j in range(3)]

@case(V)
def arrays_of_numbers(x): return np.array([x[0],x[1]]), np.array([1.,2.]), np.array(3.0), np.asarray(x)

@case(V)
def max_of_a_list(x): return max([1.,2.,5.]), min(x[0],x[1]), sorted((3,1,2))

@case(V)
def tuples_of_generators(x): return tuple(i*2 for i in (1,2,3)), list((1,2))

@case(V)
def list_of_map(x): return list(map(lambda v: v*2, (1.,2.)))

@case(V)
def starred_target(x):
    a,*b=x[0],x[1],x[2]
    return a

@case(V)
def swap(x):
    (a,b),c=(x[0],x[1]),x[2]
    a,b=b,a
    return a,b,c

@case(V)
def two_targets(x):
    a=b=x*2
    return a+b

@case(V)
def loop_over_an_array(x):
    s=0.
    for v in x: s+=v*v
    return s

@case(A)
def enumerate_and_zip_of_arrays(x):
    s=0.
    for r in x: s+=r.sum()
    for i,r in enumerate(x): s+=r[i]
    for r,q in zip(x,x): s+= r@q
    return s

@case(A)
def shapes(x): return len(x), x.ndim, x.size, x.shape[0], x.shape

@case(A)
def branch_on_rank(x):
    if x.ndim==2: return x.sum()
    return x

@case(A)
def branch_on_dim(x):
    if x.shape[0]==3: return x[0]
    return x.T[0]

@case(3.)
def while_else(x):
    while x<100:
        x*=2
    else:
        x=-x
    return x

@case(10)
def variable_after_a_loop(n):
    for i in range(n):
        if i*i>20: break
    return i

@case(10)
def return_in_a_loop(n):
    for i in range(n):
        if i==3: return i*10
    return -1

@case(3)
def while_true(n):
    i=0
    while True:
        i+=1
        if i>n: break
    return i

@case(5)
def raise_not_reached(n):
    if n<0: raise ValueError("negative")
    return n

@case(5)
def assertion_with_a_value(n):
    assert n>0, f"n is {n}"
    return n

@case(5)
def deleted_name(n):
    x=n
    del x
    return n

@case(5)
def import_inside(n):
    import math
    return math.sqrt(n)

@case(5.)
def star_parameter(x):
    def f(*a): return a[0]
    return f(x,1)

@case(5.)
def keywords_parameter(x):
    def f(**k): return k['a']
    return f(a=x)

@case(1.,2.,3.)
def star_parameter_of_the_outermost(*xs): return xs[0]+xs[1]+xs[2]

@case(1.,a=2.,b=3.)
def keywords_parameter_of_the_outermost(x,**k): return x+k['a']*k['b']

@case(5.)
def reduce(x): return functools.reduce(lambda a,b: a+b, (x,2.,3.))

@case(5.)
def lambda_defaults(x):
    f=lambda y, k=3.: y*k
    return f(x), f(x,k=1.)

@case(5.)
def star_argument(x):
    t=(x,2.)
    return pow(*t)

@case(5.)
def nested_recursion(x):
    def rec(n, acc): return acc if n==0 else rec(n-1, acc*x)
    return rec(3,1.)

@case(5.)
def loop_over_functions(x):
    fs=[lambda v: v+1, lambda v: v*2]
    for f in fs: x=f(x)
    return x

@case(5.)
def functions_in_a_tuple(x):
    fs=(math.sin, np.cos)
    return fs[0](x)+fs[1](x)

@case(5., True)
def function_chosen(x, flag):
    f = math.sin if flag else math.cos
    return f(x)

@case(5.)
def none_bound_anew(x):
    y=None
    if y is None: y=x
    return y

@case(5., None)
def none_argument_bound_anew(x, y=None):
    if y is None: y=x
    return y

@case(5.)
def returns_none(x):
    return None

@case(5.)
def passes(x): pass

@case(5.)
def empty_containers(x): return (), [], {}

@case(5.)
def text_as_choice(x):
    mode='a'
    if mode=='a': return x
    return -x

@case(5., 'neg')
def text_argument(x, mode): return -x if mode=='neg' else x

@case(1+2j)
def complex_number(z): return z*z, z.real, z.imag, z.conjugate(), abs(z)

@case(np.array([1+2j,3j]))
def complex_array(z): return z*2, z.real, np.abs(z), z.conj()

@case(5)
def literals(n): return n ^ 0xff, n | 0b10, 1_000*n, -7//2, -7%3, 7//-2, 2**10

@case(1.)
def mutual_nested(x):
    def f(): return g(x)
    def g(y): return y*2
    return f()

@case(3)
def closure_in_a_loop(n):
    fs=0
    for i in range(n):
        f=lambda: i
        fs+=f()
    return fs

@case(V)
def branch_on_length_of_shape(x):
    if len(x.shape)==1: return x.sum()
    return x

@case(V)
def conditional_on_dim(x):
    return x.sum() if x.shape[0]==3 else x

@case(5.)
def int_becomes_float(x):
    y=1
    if x>2: y=x
    return y

@case(5)
def int_becomes_float_in_a_loop(n):
    y=0
    for i in range(n): y=y+0.5
    return y

@case(V)
def sum_of_items(x):
    y=0
    for i in range(3): y+=x[i]
    return y

@case(3)
def loop_variable_changed(n):
    for i in range(n): i+=10
    return n

@case(3)
def bound_changed_in_the_loop(n):
    s=0
    for i in range(n):
        n=1
        s+=i
    return s

@case(3)
def loop_variable_kept(n):
    i=7
    for i in range(n): pass
    return i


@case(A)
def einsum(x): return np.einsum("ij,kj->ik", x, x)


# ---- what is refused, and how ----

def refused(f, args, *words):
    try:
        anfora.jit(f)(*args)
    except anfora.AnforaError as e:
        assert all(w in str(e) for w in words), str(e)
        return
    raise AssertionError("it was not refused")


def test_late_captures_are_refused():
    def after(x):
        k = x
        f = lambda: k  # noqa: E731
        k = x + 5
        return f()
    def in_a_loop(n):
        k = 1
        def f():
            return k
        s = 0
        for _ in range(n):
            s += f()
            k = k * 2
        return s
    def wrapped(x, n):
        f = lambda v: v  # noqa: E731
        for i in range(n):
            f = lambda v, g=f: g(v) + i  # noqa: B023, E731
        return f(x)
    def composed(x, n):
        f = lambda v: v  # noqa: E731
        for i in range(n):
            f = (lambda g: lambda v: g(v) + i)(f)  # noqa: B023
        return f(x)
    def of_before(x, n):
        f, s = lambda v: v, 0.0
        for i in range(n):
            s = s + f(x)
            f = lambda v: v * i  # noqa: B023, E731
        return s
    def not_always(x, n):
        f = lambda v: v  # noqa: E731
        for i in range(n):
            if i == 1:
                f = lambda v: v * i  # noqa: B023, E731
        return f(x)
    def listed(x):
        fs = []
        for i in range(3):
            fs.append(lambda v: v * i)  # noqa: B023
        return fs[0](x) + fs[2](x)
    def comprehended(x):
        fs = [lambda v: v * i for i in range(3)]
        return fs[0](x) + fs[2](x)
    refused(after, (1.0,), "reads k, which changes here", "k = x + 5")
    refused(in_a_loop, (3,), "reads k, which changes here", "k = k * 2")
    for f in wrapped, composed, of_before, not_always:
        refused(f, (1.5, 3), "reads i, which changes here", "for i in range(n)", "i=i")
    for f in listed, comprehended:
        refused(f, (1.5,), "reads i, which changes here", "for i in range(3)")


def test_parts_of_tuples_from_outside():
    given, at = (1.0, np.array([1.0, 2.0]), 3.0), 1
    def f(a, b, c):
        return a * b + c
    def instead(x):
        return f(*given[:at], x, *given[at + 1:])
    def last(x):
        return f(x, *given[-2:])
    assert np.allclose(anfora.jit(instead)(2.0), instead(2.0)) and np.allclose(anfora.jit(last)(2.0), last(2.0))


def test_functions_made_in_loops():
    def wrapped(x, n):
        f = lambda v: v * x  # noqa: E731
        for i in range(n):
            f = lambda v, g=f, i=i: np.sin(g(v)) + i  # noqa: E731
        return f(x)
    def composed(x, n):
        f = lambda v: v  # noqa: E731
        for i in range(n):
            f = (lambda g, k: lambda v: np.sin(g(v)) + k)(f, i)
        return f(x)
    def defined(x, n):
        f = lambda v: v * x  # noqa: E731
        for i in range(n):
            def step(v, g=f, k=i):
                return np.sin(g(v)) + k * x
            f = step
        return f(x)
    def at_once(x, n):
        p, rate = (x, x * 2), 0.5
        for i in range(n):
            p = anfora.tree_map(lambda w: w - rate * i, p)  # noqa: B023
            rate = rate * 0.9
        return p[0] + p[1]
    def last(x, n):
        f = lambda v: v  # noqa: E731
        for i in range(n):
            f = lambda v: v * i  # noqa: B023, E731
        return f(x)
    def continued(x, n):
        def go(k, to):
            return to(x) if k == 0 else go(k - 1, lambda v: to(np.sin(v) * x))
        return go(n, lambda v: v * v)
    for f in wrapped, composed, defined, at_once, last, continued:
        slope = (f(0.6 + 1e-6, 4) - f(0.6 - 1e-6, 4)) / 2e-6
        value, gradient = anfora.value_and_grad(f)(0.6, 4)
        assert np.isclose(value, f(0.6, 4)) and np.isclose(gradient, slope), f.__name__


def test_changes_in_place_are_refused():
    def alias(x):
        a = [x]
        b = a
        b.append(x)
        return a
    def in_a_runtime_loop(n):
        out = []
        for i in range(n):
            out.append(i)
        return out
    def key(d):
        d["w"] = np.ones(2)
        return d
    refused(alias, (1.0,), "changes in place")
    refused(key, ({"w": np.zeros(2)},), "is an argument, which the caller would see change")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert anfora.jit(in_a_runtime_loop)(np.array(3)) == [0, 1, 2]
    assert any("W0908" in str(w.message) for w in said)


def test_raises_and_assertions_stop():
    def positive(x):
        if x < 0:
            raise ValueError(f"{x} is negative")
        return x
    def third(x, mode):
        if mode == "a":
            return x
        raise ValueError(f"no mode {mode}")
    refused(positive, (-1.0,), "ValueError: -1.0 is negative", "raise ValueError")
    assert anfora.jit(positive)(1.0) == 1.0
    refused(third, (1.0, "b"), "no mode b")
    def loop(n):
        for i in range(n):
            pass
        return i
    refused(loop, (0,), "the loop does not run, so i is not bound")


def test_functions_without_a_counterpart_are_named():
    def f(x):
        return np.emath.sqrt(x)
    refused(f, (V,), "numpy.lib.scimath.sqrt cannot be called in a compiled function", "np.emath.sqrt(x)")
    def g(d):
        return [v for v in d.items()]
    refused(g, (V,), "it is not known what keys this has")
    def depth_first(n):
        stack = [n]
        while len(stack) > 0:
            x = stack.pop()
            if x > 1:
                stack.append(x // 2)
        return x
    refused(depth_first, (5,), "pop of a list that is not known to have a certain length", "a stack or queue is an array and a number")
    def h(x):
        a, b = (x, x, x)
        return a + b
    refused(h, (V,), "there are 2 names for 3 items")


def test_elements_written():
    def f(x, i):
        a = x.at[i].set(7.0)
        b = x.at[0, 1].add(1.0)
        c = x.at[1:3].set(0.0)
        d = x.at[np.array([0, 2])].multiply(2.0)
        return a, b, c, d
    got = anfora.jit(f)(A, 1)
    for g, change in zip(got, (lambda x: x.__setitem__(1, 7.0), lambda x: x.__setitem__((0, 1), x[0, 1] + 1.0),
                               lambda x: x.__setitem__(slice(1, 3), 0.0),
                               lambda x: x.__setitem__([0, 2], x[[0, 2]] * 2.0))):
        want = A.copy()
        change(want)
        check(want, plain(g))


def test_gradients_of_layers():
    """Layers of different sizes, in a loop and in a comprehension; against finite differences."""
    def net(layers, x):
        for w, b in layers[:-1]:
            x = anp.tanh(x @ w + b)
        w, b = layers[-1]
        return anp.sum((x @ w + b) ** 2)
    def each(layers, x):
        return sum([anp.sum(w * w) for w, _ in layers]) + net(layers, x)
    r = np.random.default_rng(0)
    layers = [(r.normal(size=(3, 5)), r.normal(size=5)), (r.normal(size=(5, 2)), r.normal(size=2))]
    x = r.normal(size=(4, 3))
    for f in (net, each):
        g = anfora.grad(f)(layers, x)
        assert type(g) is list and type(g[0]) is tuple
        for k, i in ((0, (1, 2)), (1, (4, 1))):
            ends = []
            for h in (1e-6, -1e-6):
                moved = copy.deepcopy(layers)
                moved[k][0][i] += h
                ends.append(float(anfora.jit(f)(moved, x)))
            assert np.isclose(np.asarray(g[k][0])[i], (ends[0] - ends[1]) / 2e-6, rtol=1e-4)


def test_anfora_dump_writes_every_stage():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANFORA_DUMP"] = folder
        try:
            assert anfora.jit(lambda x: anfora.grad(lambda y: y * y * y)(x))(2.0) == 12.0
        finally:
            del os.environ["ANFORA_DUMP"]
        stages = {name.split("_", 1)[1] for name in os.listdir(folder)}
        assert {"parse.ir", "specialise.ir", "specialise.dat", "specialise.dot", "expand.ir", "lowered.tir"} <= stages, stages
        os.environ["ANFORA_DUMP"] = os.path.join(folder, os.listdir(folder)[0], "below_a_file")
        try:
            anfora.jit(lambda x: x + 17)(2.0)
            raise AssertionError("a folder that cannot be made was taken")
        except anfora.CompileError as e:
            assert "below_a_file" in str(e)
        finally:
            del os.environ["ANFORA_DUMP"]
