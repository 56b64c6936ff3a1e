# SPDX-License-Identifier: Apache-2.0
"""Random functions give what Python gives, or are refused (random_programs.py)."""
import tempfile

import anfora
import random_changes
import random_idioms
import random_mistakes
import random_programs
import random_statements


def no_wrong_value(first, count, backend):
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = random_programs.run(anfora, first, count, folder, backend)
    assert not wrong, "\n".join(f"program {seed}: {reason}\n{text}{arguments}" for seed, reason, text, arguments in wrong[:2])
    assert counts["same"] > 0.7 * count, (counts, why.most_common(5))  # most are compiled; what shares the memory of an array that changes is not


def test_interpreted():
    no_wrong_value(2000, 60, "interp")


def test_compiled():
    no_wrong_value(5000, 30, "llvm")


def test_statements():
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = random_programs.run(anfora, 1, 30, folder, "interp", program=random_statements.Program, head=random_statements.HEAD,
                                                 differs=random_statements.differs)
    assert not wrong, "\n".join(f"program {seed}: {reason}\n{text}{arguments}" for seed, reason, text, arguments in wrong[:2])
    assert counts["same"] > 0.4 * 30, (counts, why.most_common(5))  # lists under two names are refused


def test_idioms():
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = random_programs.run(anfora, 1, 20, folder, "interp", program=random_idioms.Program, head=random_idioms.HEAD, differs=random_statements.differs)
    assert not wrong, "\n".join(f"program {seed}: {reason}\n{text}{arguments}" for seed, reason, text, arguments in wrong[:2])
    assert counts["same"] > 5, (counts, why.most_common(5))  # objects and lists that change are refused


def test_changes():
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = random_programs.run(anfora, 1, 25, folder, "interp", program=random_changes.Program, head=random_changes.HEAD, differs=random_changes.differs)
    assert not wrong, "\n".join(f"program {seed}: {reason}\n{text}{arguments}" for seed, reason, text, arguments in wrong[:2])
    assert counts["same"] > 4, (counts, why.most_common(5))  # lists under two names are refused


def test_mistakes():
    with tempfile.TemporaryDirectory() as folder:
        counts, bad = random_mistakes.run(anfora, 1, 60, folder)
    bad = [x for x in bad if x[1] != "accepted"]  # mistakes in what nothing uses
    assert not bad, "\n".join(f"program {seed} is {what}: {reason}\n{text}{arguments}" for seed, what, reason, text, arguments in bad[:2])
    assert counts["same"] + counts["raises"] > 30, counts
