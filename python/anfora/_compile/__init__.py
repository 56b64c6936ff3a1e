# SPDX-License-Identifier: Apache-2.0
"""From the source of a Python function to a program: source.py walks the syntax tree; known.py has what is known of names while it does,
constants.py what expressions are, structures.py what they are like,
loops.py, comprehensions.py, match.py and captures.py their statements,
loop_lists.py and owned.py what changes in place, given.py the lists that a function is given and changes, ranges.py and tries.py other words
for ranges and for errors that are caught, static.py, builtins.py, foreign.py and numbers.py what names from outside mean, emit.py
the text and its places, explain.py messages with values."""
