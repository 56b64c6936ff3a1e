# SPDX-License-Identifier: Apache-2.0
"""From the source of a Python function to a program: source.py walks the syntax tree; known.py has what is known while it does,
loops.py, match.py and captures.py their statements, static.py, builtins.py and foreign.py what names from outside mean, emit.py
the text and its places, explain.py messages with values."""
