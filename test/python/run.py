#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python package, as TAP: run.py FOLDER FILE: each function test_* of the file is a case. FOLDER has
the package `anfora`."""
import importlib.util
import inspect
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.abspath(sys.argv[1]), HERE, os.path.dirname(HERE)]

from tap import Tap  # noqa: E402


class Skip(Exception):
    """A case that cannot run here."""


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main():
    tap = Tap()
    module = load(os.path.abspath(sys.argv[2]))
    for name in [n for n, x in vars(module).items() if n.startswith("test_") and inspect.isfunction(x)]:
        try:
            getattr(module, name)()
        except Exception as e:
            if type(e).__name__ == "Skip":
                tap.skip(name, str(e))
            else:
                tap.case(name, traceback.format_exc())
        else:
            tap.case(name)
    tap.done()


if __name__ == "__main__":
    main()
