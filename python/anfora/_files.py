# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays in files, as safetensors: a file is there whole or not at all."""
from __future__ import annotations

import json
import os
import zlib
from typing import Any

from . import _core
from ._tree import tree_leaves, tree_paths, tree_unflatten, tree_structure

_NAMES = {"bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
          "u64": "U64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64"}
KEYS = "anfora.keys"  # the text about a file that names the arrays that are keys of random numbers
_TYPES = {there: here for here, there in _NAMES.items()}


def save(path: Any, tree: Any, **about: str) -> None:
    """Writes a tree of arrays and numbers; ``about`` are texts that stand in the file too. The file that was there
    stays as it was if this fails."""
    header: dict[str, Any] = {"__metadata__": about} if about else {}
    parts, at, keys = [], 0, []
    for name, leaf in zip(tree_paths(tree), tree_leaves(tree)):
        array = _core.asarray(leaf) if hasattr(leaf, "shape") else _array(leaf)
        if array.dtype == "key":  # which the format does not have: a note tells that it is one
            array = _core.frombytes("u64", array.shape, array.tobytes())
            keys.append(name)
        if array.dtype not in _NAMES:
            raise TypeError(f"{name} has elements of type {array.dtype}, which the format does not have")
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        parts.append(array)
        at += array.nbytes
    if keys:
        header["__metadata__"] = {**about, KEYS: json.dumps(keys)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe cannot be renamed over
        _write(path, text, parts)
        return
    beside = f"{path}.{os.getpid()}.part"
    try:
        _write(beside, text, parts)
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def _write(path: str, header: bytes, parts: list) -> None:
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        for array in parts:
            f.write(array.tobytes())
        f.flush()
        if os.path.isfile(path):
            os.fsync(f.fileno())


def _array(x: Any) -> Any:
    from .numpy import asarray
    return asarray(x)


def load(path: Any, like: Any = None) -> Any:
    """The arrays of a file as a dictionary by name; as a tree of the structure of ``like`` if that is given, whose names
    and shapes must be those of the file."""
    found = read(path)[0]
    if like is None:
        return found
    names = tree_paths(like)
    missing, more = [n for n in names if n not in found], [n for n in found if n not in names]
    if missing or more:
        wrong = [f"it lacks {n}" for n in missing[:1]] + [f"it has {n} too" for n in more[:1]]
        raise ValueError(f"{path} is of another tree: " + " and ".join(wrong))
    for name, leaf in zip(names, tree_leaves(like)):
        want = tuple(getattr(leaf, "shape", ()))
        if found[name].shape != want:
            raise ValueError(f"{path}: {name} has the shape {found[name].shape}, not {want}")
    return tree_unflatten(tree_structure(like), [found[n] for n in names])


def read(path: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """(arrays by name, texts about them), of one file or of one that names parts beside it"""
    arrays, about, keys = _read_one(path)
    if {"turn", "index"} <= about.keys():
        _join(os.fspath(path), arrays, about, keys)
    return arrays, about


def _sum(total: int, name: str, data: bytes = b"") -> int:
    return zlib.crc32(data, zlib.crc32(name.encode() + b"\0", total))


def _join(path: str, arrays: dict[str, Any], about: dict[str, str], keys: list[str]) -> None:
    """Adds the tensors whose parts lie in files of their own, whole; frontend/store/parts.c has the format. Sums are CRC-32."""
    mark = "whole "
    cuts = {name[len(mark):]: about.pop(name) for name in list(about) if name.startswith(mark)}
    turn, parts, sums, index = (about.pop(name, "") for name in ("turn", "parts", "sums", "index"))
    step, count = about.get("step", ""), int(parts)
    total = _sum(0, f"{step} {parts} {turn} {sums}")
    for name, text in cuts.items():
        total = _sum(total, name, text.encode())
    for name, array in arrays.items():
        total = _sum(total, name, array.tobytes())
    if f"{total:08x}" != index or len(sums.split()) != count:
        raise ValueError(f"{path} is damaged: its sum is another")
    whole: dict[str, bytearray] = {}
    for r, want in enumerate(sums.split()):
        beside = f"{path}.part-{turn}-{r}"
        found = _read_one(beside)[0]
        total = _sum(0, f"{step} {r} {parts}")
        for name in cuts:
            total = _sum(total, name, found[name].tobytes() if name in found else b"")
        if f"{total:08x}" != want:
            raise ValueError(f"{beside} is damaged, or not of this checkpoint: its sum is another")
        for name, text in cuts.items():
            _put_part(whole, name, [int(n) for n in text.split()], found[name], r, count)
    for name, text in cuts.items():
        kind = "key" if name in keys else str(found[name].dtype)
        arrays[name] = _core.frombytes(kind, tuple(int(n) for n in text.split()[1:]), bytes(whole[name]))


def _put_part(whole: dict[str, bytearray], name: str, cut: list[int], part: Any, r: int, count: int) -> None:
    """``cut``: the axis, -1 of one in a row, and the dims of the whole."""
    axis, dims = cut[0], cut[1:]
    size = part.nbytes // max(1, _product(part.shape))
    all_of = whole.setdefault(name, bytearray(_product(dims) * size))
    blocks = _product(dims[:max(axis, 0)])
    block, data = part.nbytes // max(1, blocks), part.tobytes()
    for i in range(blocks):
        at = (i * count + r) * block
        end = min(len(all_of), at + block)
        if at < end:
            all_of[at:end] = data[i * block:i * block + end - at]


def _product(dims: Any) -> int:
    n = 1
    for d in dims:
        n *= d
    return n


def _read_one(path: Any) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:8 + size])
        about = header.pop("__metadata__", {})
        keys = json.loads(about.pop(KEYS, "[]"))
        arrays = {}
        for name, x in header.items():
            start, end = x["data_offsets"]
            if not 0 <= start <= end <= len(data) - 8 - size:
                raise ValueError("it is cut short")
            arrays[name] = _core.frombytes("key" if name in keys else _TYPES[x["dtype"]], tuple(x["shape"]), data[8 + size + start:8 + size + end])
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"{path} is no whole safetensors file: {e}") from None
    return arrays, about, keys
