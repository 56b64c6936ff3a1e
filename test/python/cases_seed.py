# SPDX-License-Identifier: Apache-2.0
"""The four programs of the document that the graph IR follows, as they stand there but for the decorator."""
from anfora import jit as ms_function


def func(x, y):
    return x / y

@ms_function
def test_f(x, y):
    a = x - 1
    b = a + y
    c = b * func(a, b)
    return c

@ms_function
def hof(x):
    def f(x):
        return x + 3
    def g(function, x):
        return function(x) * function(x)
    res = g(f, x)
    return res

@ms_function
def fibonacci(n):
    if(n < 1):
        return 0
    elif(n == 1):
        return 1
    else:
        return fibonacci(n-1) + fibonacci(n-2)

@ms_function
def func_outer(a, b):
    def func_inner(c):
        return a + b + c
    return func_inner

@ms_function
def ms_closure():
    closure = func_outer(1, 2)
    out1 = closure(1)
    out2 = closure(2)
    return out1, out2


def test_function_and_call():
    assert test_f(3, 4) == 6 * (2 / 6)
    assert test_f(3.0, 5.0) == 2.0


def test_higher_order():
    assert hof(2) == 25


def test_recursion():
    assert [fibonacci(n) for n in range(10)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert fibonacci(20) == 6765


def test_closures():
    assert ms_closure() == (4, 5)


def test_graphs_have_the_marks():
    text = fibonacci.ir()
    assert "✓fibonacci" in text and "✗✗fibonacci" in text and "Switch" in text
