# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users of JAX, PyTorch and NumPy make most: each is refused, and the message has the place, what was expected and what to
write instead. One line of a table each: the words that the message must have, and the mistake."""
import random
import time

import anfora as jax
import anfora.numpy as jnp
import numpy as np
from anfora import jit, lax
from anfora import random as jr
from anfora.optim import Adam
from anfora.train import Step

X, A = np.arange(3.0), np.ones((2, 3))
def keyed(x):
    d = {}
    for v in x:
        d[int(v)] = 1
    return len(d)


MISTAKES = []  # the words, and the mistake
COUNT = 0


def mistake(words):
    def add(f):
        MISTAKES.append((words, f))
        return f
    return add


@mistake('write anp.where(c, a, b) for arrays, or anp.all(c) or')
def while_of_array():

    def f(x):
        while x > 0:
            x = x - 1
        return x
    return jit(f)(X)

@mistake('arrays do not change in place: write x =')
def item_assign_jax():
    x = jnp.zeros(3)
    x[0] = 1
    return x

@mistake('write x = x.copy() before, and return x')
def item_assign_arg():

    def f(x):
        x[0] = 1
        return x
    return jit(f)(X)

@mistake('write x = x.copy() before, and return x')
def inplace_sort():

    def f(x):
        x.sort()
        return x
    return jit(f)(X)

@mistake('return what is to be added, and let the caller add it')
def global_append():
    L = []

    def f(x):
        L.append(x)
        return x
    return jit(f)(X)

@mistake('return the new value, and let the caller bind it')
def global_counter():

    def f(x):
        global COUNT
        COUNT += 1
        return x
    return jit(f)(X)

@mistake('write d = dict(d) before, and return d')
def dict_mutation():

    def f(d, x):
        d['a'] = x
        return x
    return jit(f)({'a': X}, X)

@mistake('make a new object')
def attribute_assign():

    class C:
        n = 0

        def f(self, x):
            self.n = x
            return x
    return jit(C().f)(X)

@mistake('the function ends without return, and so gives None: return')
def grad_of_none():

    def f(x):
        x * 2
    return jax.grad(f)(1.0)

@mistake('f has no derivative yet: call defvjp(forward, backward)')
def custom_vjp_no_rule():

    @jax.custom_vjp
    def f(x):
        return x
    return jax.grad(f)(1.0)

@mistake('the second rule gives a tuple with one adjoint for each')
def custom_vjp_count():

    @jax.custom_vjp
    def f(x, y):
        return x * y
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1],))
    return jax.grad(f)(1.0, 2.0)

@mistake('call what it does outside of the compiled function')
def opening():

    def f(x):
        with open('a') as g:
            return x
    return jit(f)(X)

@mistake('write a condition: y = a / b if b != 0 else 0.0')
def try_in():

    def f(x):
        try:
            return x / 0
        except ZeroDivisionError:
            return x
    return jit(f)(X)

@mistake('goes through all its items')
def yield_in():

    def f(x):
        for i in x:
            yield i
    return jit(f)(X)

@mistake('define the class outside of the compiled function')
def class_in():

    def f(x):

        class C:
            pass
        return x
    return jit(f)(X)

@mistake("give 'y' a value before")
def maybe_unbound():

    def f(x):
        if x > 0:
            y = 1.0
        return y
    return jit(f)(1.0)

@mistake('give a value in each branch: a function that ends without')
def return_on_one_path():

    def f(x):
        if x > 0:
            return x
    return jit(f)(1.0)

@mistake('both branches give values of the same type and structure,')
def types_differ():

    def f(x):
        if x > 0:
            return x
        return 'neg'
    return jit(f)(1.0)

@mistake('x must be positive')
def assert_fails():

    def f(x):
        assert x > 0, 'x must be positive'
        return x
    return jit(f)(-1.0)

@mistake('test for the case that ends it first: `if n == 0: return')
def recursion_forever():

    def f(x):
        return f(x) + 1
    return jit(f)(1.0)

@mistake('there are 3 names for 2 items')
def unpack_wrong():

    def f(t):
        a, b, c = t
        return a
    return jit(f)((X, X))

@mistake('there are 2 names for another number of items')
def unpack_array():

    def f(x):
        a, b = x
        return a
    return jit(f)(X)

@mistake('dims are compared from the last one on, and must be equal')
def loss_shape_change():
    s = Step(lambda p, x: jnp.sum(p['w'] * x), Adam(0.1), {'w': np.ones(3)})
    return s(np.ones(4))

@mistake('define it in a file or in a notebook; functions made by')
def exec_source():
    d = {}
    exec('def f(x): return x+1', d)
    return jit(d['f'])(X)

@mistake('deletes it')
def del_name():

    def f(x):
        y = x
        del y
        return y
    return jit(f)(X)


MISTAKES += [
    ("write anp.where(c, a, b) for arrays, or anp.all(c) or",
     lambda: jit(lambda x: 1 if x > 0 else 2)(X)),
    ("write anp.where(c, a, b) for arrays, or anp.all(c) or",
     lambda: jit(lambda x: x[x > 0 and x < 2])(X)),
    ("write anp.where(c, a, b) for arrays, or anp.all(c) or",
     lambda: jit(lambda x: jnp.where(0 < x < 2, x, 0.0))(X)),
    ("one number or truth is needed here, and this is an array:",
     lambda: jit(lambda x: float(x))(X)),
    ("use an array with an element for each key that there may be",
     lambda: jit(keyed)(X)),
    ("make the argument a constant with jit(static_argnums=...),",
     lambda: jit(lambda n: jnp.zeros(n))(X[0])),
    ("how many elements it gives depends on values: give size=,",
     lambda: jax.grad(lambda x: jnp.sum(x[jnp.nonzero(x)[0]]))(X)),
    ("how many elements it gives depends on values: give size=,",
     lambda: jax.grad(lambda x: jnp.max(jnp.unique(x)))(X)),
    ("how many elements it gives depends on values: give size=,",
     lambda: jax.vmap(lambda x: jnp.where(x > 0)[0])(X[None])),
    ("both branches give values of the same type and structure,",
     lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0)),
    ("x.ndim says how many indices x takes; x[..., None] adds a",
     lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: c[0] + 1, (0, 1.0))),
    ("the function that scan calls gives two things: return",
     lambda: lax.scan(lambda c, x: c + x, 0.0, X)),
    ("scan() calls it with 2 arguments, and it is defined in line",
     lambda: lax.scan(lambda c: (c, c), 0.0, X)),
    ("fori_loop() calls it with 2 arguments, and it is defined in",
     lambda: lax.fori_loop(0, 3, lambda c: c + 1, 0.0)),
    ("write lax.cond(pred, lambda: a, lambda: b); anp.where(pred,",
     lambda: lax.cond(True, 1.0, 2.0)),
    ("cond() calls it with 1 argument, and it is defined in line",
     lambda: lax.cond(True, lambda: 1.0, lambda: 2.0, 3.0)),
    ("in_axes=None keeps an argument whole",
     lambda: jax.vmap(lambda a, b: a + b)(X, np.ones(4))),
    ("an axis or None for each argument",
     lambda: jax.vmap(lambda a, b: a + b, in_axes=(0,))(X, X)),
    ("an array with one dim more",
     lambda: jax.vmap(lambda a: a)(3.0)),
    ("an array with one dim more",
     lambda: jax.vmap(lambda a: a, in_axes=2)(A)),
    ("x.at[i] stands before .set(v), .add(v) and the like: x =",
     lambda: jit(lambda x: x.at[0])(X)),
    ("the index of x.at stands in brackets: x.at[i].set(value)",
     lambda: jnp.zeros(3).at(0).set(1)),
    ("index 5 is out of bounds for axis 0 with size 3",
     lambda: jnp.zeros(3)[5]),
    ("the indices of this dim are 0 to its size less one, and -1",
     lambda: jit(lambda x: x[5])(X)),
    ("there are more indices than dims",
     lambda: jit(lambda x: x[0, 0])(X)),
    ("write int(x) for a number, x.astype(int) for an array of",
     lambda: jit(lambda x: x[1.0])(X)),
    ("write int(x) for a number, x.astype(int) for an array of",
     lambda: jit(lambda x, i: x[i])(X, X)),
    ("an array has no fields; a dictionary or a dataclass has",
     lambda: jit(lambda x: x['a'])(X)),
    ("the last dim of the first must be the last but one of the",
     lambda: jit(lambda a, b: a @ b)(A, A)),
    ("dims are compared from the last one on, and must be equal",
     lambda: jit(lambda a, b: a + b)(A, np.ones(2))),
    ("all dims but that of the axis must be equal, as many on",
     lambda: jnp.concatenate([A, np.ones((2, 2))])),
    ("stack takes arrays of one shape; concatenate joins others",
     lambda: jnp.stack([X, np.ones(2)])),
    ("axes are counted from 0, and from -1 backwards; x.ndim says",
     lambda: jnp.concatenate([1.0, 2.0])),
    ("axes are counted from 0, and from -1 backwards; x.ndim says",
     lambda: jnp.sum(A, axis=2)),
    ("both shapes must have as many elements; one dim may be -1,",
     lambda: A.__class__ and jnp.asarray(A).reshape(4, 2)),
    ("give all sizes but one",
     lambda: jnp.asarray(A).reshape(-1, -1)),
    ("give as many axes as x has dims, such as (1, 0)",
     lambda: jnp.transpose(A, (0, 1, 2))),
    ("a letter stands for one size",
     lambda: jnp.einsum('ij,jk->ik', A, A)),
    ("a letter stands for one size",
     lambda: jnp.einsum('ij->ik', A)),
    ("dims are compared from the last one on, and must be equal",
     lambda: jnp.broadcast_to(A, (4, 3))),
    ("pinv and lstsq take matrices of any shape",
     lambda: jnp.linalg.inv(A)),
    ("b has as many rows",
     lambda: jnp.linalg.solve(np.eye(3), np.ones(2))),
    ("x is (batch, channels, height, width) and w (channels out,",
     lambda: lax.conv_general_dilated(np.ones((1, 1, 5, 5)), np.ones((1, 2, 3, 3)), (1, 1), 'SAME')),
    ("array_split takes parts of several sizes",
     lambda: jnp.split(np.arange(5.0), 2)),
    ("squeeze removes dims of size 1; x[0] or x.reshape(shape)",
     lambda: jnp.squeeze(A, axis=0)),
    ("the indices have as many dims as x: i[:, None] adds one",
     lambda: jnp.take_along_axis(A, np.array([0]), axis=1)),
    ("write x.astype(int)",
     lambda: jax.nn.one_hot(X, 3)),
    ("inhomogeneous",
     lambda: jnp.array([[1, 2], [3]])),
    ("take the sum or the mean; jacrev and jacfwd give the slopes",
     lambda: jax.grad(lambda x: x * 2)(X)),
    ("write a number with a point, such as 2.0, for a float",
     lambda: jax.grad(lambda x: x * 2.0)(3)),
    ("argnums counts the parameters from 0",
     lambda: jax.grad(lambda x: x * 2.0, argnums=1)(3.0)),
    ("give the loss alone, or pass has_aux=True if it is the",
     lambda: jax.grad(lambda x: (x, x))(1.0)),
    ("an Array is not a function that can be compiled; a",
     lambda: jax.grad(jnp.sum(X))(X)),
    ("tangents have the types of the arguments, and cotangents",
     lambda: jax.jvp(jnp.sin, (X,), (np.ones(2),))),
    ("jvp() takes a function, a tuple of arguments and a tuple of",
     lambda: jax.jvp(jnp.sin, X, X)),
    ("tangents have the types of the arguments, and cotangents",
     lambda: jax.vjp(jnp.sin, X)[1](np.ones(2))),
    ("take the sum or the mean; jacrev and jacfwd give the slopes",
     lambda: jax.hessian(lambda x: x ** 2)(X).shape),
    ("use anfora.random with a key: random numbers of a compiled",
     lambda: jit(lambda x: x + np.random.normal())(X)),
    ("use anfora.random with a key: random numbers of a compiled",
     lambda: jit(lambda x: x + random.random())(X)),
    ("take the time outside, and give it as an argument",
     lambda: jit(lambda x: (x, time.time()))(X)),
    ("import it",
     lambda: jit(lambda x: x + undefined_name)(X)),
    ("anfora.numpy has no sni; it has sin",
     lambda: jit(lambda x: jnp.sni(x))(X)),
    ("an array has sum",
     lambda: jit(lambda x: x.summ())(X)),
    ("an array has shape",
     lambda: jit(lambda x: x.shapee)(X)),
    ("write anp.expand_dims(x, axis)",
     lambda: jit(lambda x: x.unsqueeze(0))(X)),
    ("it takes (x, axis=None, dtype=None, out=None,",
     lambda: jit(lambda x: jnp.sum(x, dim=0))(X)),
    ("write anfora.grad(loss)(params)",
     lambda: jit(lambda x: x.backward())(X)),
    ("make one with anfora.random.key(seed)",
     lambda: jr.normal((3,))),
    ("make one with anfora.random.key(seed)",
     lambda: jr.normal(0, (3,))),
    ("make one with anfora.random.key(seed)",
     lambda: jit(lambda s: jr.normal(s, (3,)))(0)),
    ("an argument of type object cannot be passed to a compiled",
     lambda: jit(lambda x, o: x)(X, object())),
    ("an argument of type set cannot be passed to a compiled",
     lambda: jit(lambda x, o: x)(X, {1, 2})),
    ("<lambda>(x, y): missing a required argument: 'y'",
     lambda: jit(lambda x, y: x)(X)),
    ("<lambda>(x, y): missing a required argument: 'y'",
     lambda: jit(lambda x, y: x)(X, z=1)),
    ("jit compiles functions written in Python",
     lambda: jit(jnp.sum(X))),
    ("an argument that jit takes as static must be hashable, and",
     lambda: jit(lambda x, n: x, static_argnums=1)(X, [1])),
    ("an argument that jit takes as static must be hashable, and",
     lambda: jit(lambda x, n: x, static_argnums=1)(X, X)),
    ("give print the parts: print(\"loss\", x)",
     lambda: jit(lambda x: f'{x}')(X)),
    ("arrays and texts do not mix: print(\"text\", x) shows both",
     lambda: jit(lambda x: 'a' + x)(X)),
    ("it is None here: give the argument, or test it before with",
     lambda: jit(lambda x, y=None: x + y)(X)),
    ("anp.where(b == 0, 1, b)",
     lambda: jit(lambda a, b: a // b)(1, 0)),
    ("'flaot32' is not an element type; there is float32",
     lambda: jnp.zeros(3, dtype='flaot32')),
    ("Add computes in u8 here; i64(x) makes it compute in i64",
     lambda: jit(lambda x: x + 300)(np.zeros(3, np.uint8))),
    ("the step must not be 0",
     lambda: jnp.arange(3, step=0)),
    ("the trees differ in structure: one has the keys ['a'], one",
     lambda: jax.tree.map(lambda a, b: a + b, {'a': 1}, {'b': 1})),
    ("it has 'a'",
     lambda: jit(lambda d: d['b'])({'a': X})),
    ("there is no item 2: there are 2",
     lambda: jit(lambda t: t[2])((X, X))),
    ("a number has no len() and cannot be gone through: range(n)",
     lambda: jit(lambda n: sum((i for i in n)))(3)),
    ("a number has no len() and cannot be gone through: range(n)",
     lambda: jit(lambda n: len(n))(3.0)),
    ("it takes whole numbers: a // b is one, a / b a float",
     lambda: jit(lambda n: sum((i for i in range(n))))(3.0)),
    ("it takes whole numbers: a // b is one, a / b a float",
     lambda: jit(lambda x: [x[i] for i in range(x.shape[0] / 2)])(X)),
    ("a // b is a whole number, a / b a float",
     lambda: jit(lambda x: x[:x.shape[0] / 2])(X)),
    ("take the sum or the mean; jacrev and jacfwd give the slopes",
     lambda: Step(lambda p, x: p['w'] * x, Adam(0.1), {'w': np.ones(3)})(X)),
    ("cast it before: x.astype(float)",
     lambda: Step(lambda p, x: jnp.sum(p['w'] * x), Adam(0.1), {'w': np.arange(3)})(X)),
    ("as many arguments",
     lambda: Step(lambda p, x, y: jnp.sum(p['w'] * x), Adam(0.1), {'w': np.ones(3)})(X)),
    ("the loss of step 1 is no number; the parameters are those",
     lambda: Step(lambda p, x: jnp.log(-jnp.sum(p['w'] * x)), Adam(0.1), {'w': np.ones(3)})(X)),
    ("jit compiles functions written in Python",
     lambda: jit(abs)(X)),
    ("matrix_rank",  # of Python or of C, as NumPy's version has it
     lambda: jit(np.linalg.matrix_rank)(A)),
    ("write anp.where(c, a, b) for arrays, or anp.all(c) or",
     lambda: jit(lambda x: 0.0 if np.isnan(x) else x)(X)),
    ("max() by a key is of items that are known",
     lambda: jit(lambda x: max(x, key=lambda v: -v))(X)),
    ("one number or truth is needed here, and this is an array:",
     lambda: jit(lambda x: x in [1.0, 2.0])(X)),
    ("it takes (a b)",
     lambda: jit(lambda *a: jnp.add(*a))(X)),
    ("take the real part or the absolute value, or pass",
     lambda: jax.grad(lambda z: z * z)(1 + 2j)),
    ("keep is \"arguments\"",
     lambda: jax.checkpoint(lambda x: x, policy='everything')(1.0)),
]


def message_of(f):
    try:
        return f"nothing: {f()!r}", ""
    except (jax.AnforaError, TypeError, ValueError, IndexError, AttributeError, FloatingPointError) as e:
        return str(e), type(e).__name__


def test_mistakes():
    """All of them at once, so that all that is poor is seen."""
    assert len(MISTAKES) >= 120
    poor = [(words, text) for words, f in MISTAKES for text, kind in [message_of(f)] if words not in text or not kind]
    assert not poor, "\n".join(f"{words!r} is not in: {text}" for words, text in poor)


def test_what_is_refused_where_nothing_reads_it_leaves_no_trace():
    def f(x, y):
        n = abs(len([v for v in [y, y, y] if v > x]))
        s = 0
        for i in range(4, 1, -1):
            s = s + i
        return s
    assert f(1.0, 2) == 9
    try:
        assert int(jit(f)(1.0, 2)) == 9
    except jax.CompileError as e:
        assert "if v > x" in str(e) or "how long a tuple is" in str(e), e


def test_mistakes_in_compiled_functions_have_their_place():
    """The line of the user, with a caret below what is wrong."""
    missing = [text for _, f in MISTAKES for text, kind in [message_of(f)] if kind == "CompileError" and "jit" in f.__code__.co_names
               and not ("cases_errors.py" in text and "^" in text) and "the source of" not in text]
    assert not missing, "\n".join(missing)
