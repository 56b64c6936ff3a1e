#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Curves of model.py: draw.py [FOLDER] writes weak.svg and strong.svg (default: docs/scale); draw.py --check compares them, and checks the
model against what theory says."""
from __future__ import annotations

import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import model  # noqa: E402
from model import CLUSTER, METHODS, RANKS, TRANSFORMER, WAYS, Link, Machine  # noqa: E402

DOCS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "scale")
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd"]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 340, 60, 30, 110, 45
ROWS = 4  # a rank, of weak scaling
WHOLE = 16384  # rows of a batch, of strong scaling


def weak() -> dict[str, list[float]]:
    """Efficiency: the time of a step on one rank by that on R, each with as many rows."""
    alone = model.data_parallel(TRANSFORMER, CLUSTER, 1, ROWS)
    return {way: [alone / model.data_parallel(TRANSFORMER, CLUSTER, r, ROWS * r, way) for r in RANKS] for way in WAYS}


def strong() -> dict[str, list[float]]:
    """Speed by that of one rank, of one batch."""
    alone = model.data_parallel(TRANSFORMER, CLUSTER, 1, WHOLE)
    return {name: [alone / f(TRANSFORMER, CLUSTER, r, WHOLE) for r in RANKS] for name, f in METHODS.items()}


def svg(title: str, what: str, curves: dict[str, list[float]], logarithmic: bool) -> str:
    w, h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    top = 10 ** math.ceil(math.log10(max(map(max, curves.values())))) if logarithmic else 1.0

    def x(r: float) -> float:
        return LEFT + w * math.log10(r) / 4

    def y(v: float) -> float:
        return TOP + h * (1 - (math.log10(max(v, 1)) / math.log10(top) if logarithmic else v))
    ticks = [10 ** k for k in range(int(math.log10(top)) + 1)] if logarithmic else [k / 5 for k in range(6)]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="#fff"/>', f'<text x="{LEFT}" y="18" font-size="13">{title}</text>']
    for v in ticks:
        out.append(f'<path d="M{LEFT} {y(v):.1f}h{w}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    for k in range(5):
        out.append(f'<path d="M{x(10 ** k):.1f} {TOP}v{h}" stroke="#eee"/>'
                   f'<text x="{x(10 ** k):.1f}" y="{TOP + h + 15}" text-anchor="middle">{10 ** k}</text>')
    out.append(f'<text x="{LEFT + w / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">ranks</text>')
    out.append(f'<text x="14" y="{TOP + h / 2:.0f}" text-anchor="middle" transform="rotate(-90 14 {TOP + h / 2:.0f})">{what}</text>')
    for i, (name, values) in enumerate(curves.items()):
        points = " ".join(f"{x(r):.1f},{y(v):.1f}" for r, v in zip(RANKS, values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[i]}" stroke-width="1.8"/>')
        out.append(f'<path d="M{LEFT + w + 10} {TOP + 12 + 18 * i}h18" stroke="{COLOURS[i]}" stroke-width="2"/>'
                   f'<text x="{LEFT + w + 33}" y="{TOP + 16 + 18 * i}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def drawings() -> dict[str, str]:
    return {"weak.svg": svg(f"Data parallel, {ROWS} rows a rank", "efficiency", weak(), False),
            "strong.svg": svg(f"One batch of {WHOLE} rows", "speed by that of one rank", strong(), True)}


def problems() -> list[str]:
    """What the model must hold whatever its numbers are."""
    found, free = [], Machine(1e12, 8, Link(0, 1e-9), Link(0, 1e-9))
    n = 1e6
    for r in (2, 8, 64, 10000):
        least = 2 * n * (r - 1) / r * 1e-9
        if not math.isclose(model.ring(n, r, free), least):
            found.append(f"a ring of {r} moves another number of bytes than is the least")
        for name, way in WAYS.items():
            if way(n, r, CLUSTER) < 2 * n * (r - 1) / r * CLUSTER.inside.byte:
                found.append(f"{name} on {r} ranks is faster than its bytes")
    for name, way in WAYS.items():
        if way(n, 1, CLUSTER) != 0:
            found.append(f"{name}: one rank exchanges something")
    if model.two_level(n, 512, CLUSTER) >= model.ring(n, 512, CLUSTER):
        found.append("two levels have fewer slow hops than one ring")
    if not all(0 < e <= 1 for curve in weak().values() for e in curve):
        found.append("an efficiency is above 1")
    for name, curve in strong().items():
        if any(s > r * 1.0001 for s, r in zip(curve, RANKS)):
            found.append(f"{name} is faster than its ranks")
    if model.hidden(1.0, 10, 0.05) <= 0.85 or model.hidden(1.0, 10, 10.0) >= 0.1:
        found.append("exchanges overlap with the layers that follow, and no others")
    for method, want in (("data", 16), ("ZeRO-1", 4 + 12 / 8), ("FSDP", 16 / 8)):
        if not math.isclose(model.memory(TRANSFORMER, 8, method) / TRANSFORMER.parameters(), want):
            found.append(f"memory of {method}")
    return found


def main() -> None:
    check = "--check" in sys.argv
    folder = next((a for a in sys.argv[1:] if not a.startswith("--")), DOCS)
    wrong = problems()
    for name, text in drawings().items():
        path = os.path.join(folder, name)
        if not check:
            os.makedirs(folder, exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            wrong.append(f"{path} is not what draw.py draws")
    print("\n".join(wrong) or "the model holds")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
