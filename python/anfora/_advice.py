# SPDX-License-Identifier: Apache-2.0
"""What to write instead, in Python's words, where a finding of the core says none."""
from __future__ import annotations

import difflib
import re

# code, what its message has, the hint; the first that fits is taken
ADVICE = [
    ("E0401", r"divides an integer", "divide floats, which gives inf or nan, or choose another divisor before: anp.where(b == 0, 1, b)"),
    ("E0404", r"outside a dim of size (\d+)", "the indices of this dim are 0 to its size less one, and -1 is the last; x.at[i].get(mode=\"clip\") takes the nearest"),
    ("E0506", r"BitOr is not defined for (float|b?f\d+)", "it takes whole numbers: a // b is one, a / b a float"),
    ("E0501", r"bound of a slice", "a // b is a whole number, a / b a float"),
    ("E0501", r"index must be an integer", "write int(x) for a number, x.astype(int) for an array of indices, and a mask as truth values: x > 0"),
    ("E0501", r"more parts than", "x.ndim says how many indices x takes; x[..., None] adds a dim"),
    ("E0501", r"only one dim may be -1", "give all sizes but one"),
    ("E0501", r"shape of x\[mask\]", "sums and means of x[mask] are compiled; anp.where(mask, x, 0) keeps the shape, and x[anp.nonzero(mask, size=n)[0]] has n elements"),
    ("E0501", r"Len: only a tensor", "a number has no len() and cannot be gone through: range(n) counts to it"),
    ("E0501", r"axes must name every axis once", "give as many axes as x has dims, such as (1, 0)"),
    ("E0501", r"TupleConcat: the arg", "a list or tuple is added to a list; of an array and a list make two arrays: x + anp.array(xs)"),
    ("E0501", r"only tensors and tuples have parts", "fields of a record are read by name, x.field or x[\"field\"]"),
    ("E0501", r"Split: the dim is no multiple", "array_split takes parts of several sizes"),
    ("E0501", r"Squeeze: a dim that is not 1", "squeeze removes dims of size 1; x[0] or x.reshape(shape) removes others"),
    ("E0501", r"must be a square matrix", "pinv and lstsq take matrices of any shape"),
    ("E0502", r"and is none$", "it is None here: give the argument, or test it before with `if x is None`"),
    ("E0502", r"and is str$", "arrays and texts do not mix: print(\"text\", x) shows both"),
    ("E0502", r"and is \(", "make an array of it: anp.array(xs)"),
    ("E0503", r"", "dims are compared from the last one on, and must be equal or 1; x[:, None] and x.reshape(shape) add some"),
    ("E0508", r"cannot be given the shape \(\)$", "one number or truth is needed here, and this is an array: write anp.any(x), anp.all(x), anp.logical_not(x), "
     "anp.maximum(x, y) or x.astype(dtype)"),
    ("E0508", r"", "both shapes must have as many elements; one dim may be -1, and is what remains"),
    ("E0510", r"", "a function is called with as many arguments as it has parameters; `lambda *args` takes any number"),
    ("E0514", r"", "give the function itself, f, not what it gives, f(x)"),
    ("E0515", r"none", "give a value in each branch: a function that ends without return gives None"),
    ("E0515", r"", "both branches give values of the same type and structure, such as two floats or two tuples of as many parts"),
    ("E0518", r"", "test for the case that ends it first: `if n == 0: return ...`"),
    ("E0520", r"", "make the argument a constant with jit(static_argnums=...), or take the number from a shape"),
    ("E0521", r"", "write anp.where(c, a, b) for arrays, or anp.all(c) or anp.any(c) for one truth; & and | for and and or"),
    ("E0523", r"no field 'at'", "x.at[i] stands before .set(v), .add(v) and the like: x = x.at[i].set(v)"),
    ("E0523", r" in \{", "the keys of a dictionary are read by d[\"key\"], and the fields of an object by its names, which stand between the braces"),
    ("E0530", r"this one gives \(", "give the loss alone, or pass has_aux=True if it is the first of two parts"),
    ("E0530", r"gives (c64|c128|complex)$", "take the real part or the absolute value, or pass holomorphic=True"),
    ("E0530", r"gives none$", "the function ends without return, and so gives None: return the loss"),
    ("E0530", r"", "take the sum or the mean; jacrev and jacfwd give the slopes of all results"),
    ("E0531", r"it is [iu]\d", "cast it before: x.astype(float)"),
    ("E0532", r"", "argnums counts the parameters from 0"),
    ("E0533", r"^Jvp|^Vjp", "tangents have the types of the arguments, and cotangents those of the results: anp.ones_like(y)"),
    ("E0533", r"rule of CustomVjp", "the second rule gives a tuple with one adjoint for each argument; None stands for zeros"),
    ("E0536", r"is outside (an argument|a result)", "a mapped argument has that axis: give an array with one dim more; in_axes=None keeps an argument whole"),
    ("E0536", r"not as many in_axes", "in_axes has an axis or None for each argument"),
    ("E0536", r"", "in_axes=None keeps an argument whole"),
    ("E0539", r"is given (float|int|bool|[a-z]+\d+)$", "a number has no items: range(n) counts to it, and [x] is a list of it"),
    ("E0540", r"", "axes are counted from 0, and from -1 backwards; x.ndim says how many there are"),
    ("E0544", r"^MatMul", "the last dim of the first must be the last but one of the second; b.T exchanges those of b"),
    ("E0544", r"^Concat", "all dims but that of the axis must be equal, as many on each side"),
    ("E0544", r"^Stack", "stack takes arrays of one shape; concatenate joins others along an axis"),
    ("E0544", r"^TakeAlongAxis", "the indices have as many dims as x: i[:, None] adds one"),
    ("E0544", r"^Conv", "x is (batch, channels, height, width) and w (channels out, channels in, height, width) as long as dimension_numbers says no other order"),
    ("E0544", r"^Solve", "a is a square matrix, and b has as many rows"),
    ("E0545", r"", "a letter stands for one size everywhere, and each letter of the result is one of an operand: ij,jk->ik"),
    ("E0546", r"", "write x.astype(int)"),
    ("E0550", r"", "make one with anfora.random.key(seed)"),
    ("E0724", r"", "what a loop carries keeps its type: a list that grows, or an array that changes its shape, needs a number of rounds that shapes "
     "or constants tell; else make an array of the most rows before, xs = np.zeros(most), and count: xs[k] = x; k += 1"),
    ("E0953", r"", "what a loop carries and what branches give keeps its shape; mark with anp.where what counts; nonzero and unique take size=; "
     "an argument that is a size is known with jit(static_argnums=...)"),
]

# what a function of the library says of the functions that it is given: its name, what the message has, the hint
CALLED = [
    ("scan", r"Len: |names for another number", "the function that scan calls gives two things: return carry, y (y may be None)"),
    ("cond", r"only a function", "write lax.cond(pred, lambda: a, lambda: b); anp.where(pred, a, b) takes values"),
    *((name, r"must be known|no values of type", "how many elements it gives depends on values: give size=, the most there can be, or call it outside")
      for name in ("nonzero", "flatnonzero", "argwhere", "unique", "union1d", "compress", "extract")),
]


def advice(code: str, message: str) -> str:
    """By what the message says, else by its code."""
    field = re.match(r"there is no field '(\w+)' in (float|int|bool|[a-z]+\d+)\b", message) if code == "E0523" else None
    if field and field[1] != "at":
        return _nearest_name(field[1])
    return next((hint for c, words, hint in ADVICE if c == code and re.search(words, message)), "")


def advice_for_call(call: str, message: str) -> str:
    """Of an error in a function of the library that is called so."""
    return next((hint for name, words, hint in CALLED if call.startswith(name) and re.search(words, message)), "")


def _nearest_name(name: str) -> str:
    from ._core import Array
    from ._ops import METHODS
    near = difflib.get_close_matches(name, [n for n in {*dir(Array), *METHODS} if not n.startswith("_")], 1)
    return f"an array has {near[0]}" if near else "an array has no fields; a dictionary or a dataclass has"
