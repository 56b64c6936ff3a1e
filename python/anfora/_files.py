# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays in files, as safetensors: a file is there whole or not at all."""
from __future__ import annotations

import errno
import json
import os
from typing import Any

from . import _core
from ._tree import tree_leaves, tree_paths, tree_unflatten, tree_structure

_NAMES = {"bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
          "u64": "U64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64"}
KEYS = "anfora.keys"  # the text about a file that names the arrays that are keys of random numbers


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
    try:
        arrays, about = _core.load_tensors(os.fsencode(path))
    except _core.Failure as failure:
        raise _error(str(path), failure) from None
    for name in json.loads(about.pop(KEYS, "[]")):
        array = arrays.get(name)
        if array is None or array.dtype != "u64":
            raise ValueError(f"{path}: {name} is no array of keys, as a note in the file says")
        arrays[name] = _core.frombytes("key", array.shape, array.tobytes())
    return arrays, about


def _error(path: str, failure: Any) -> Exception:
    status, findings = failure.args
    text = "\n".join(x[3] for x in findings) or f"{path}: {status}"
    number = next((n for n in errno.errorcode if text.endswith(": " + os.strerror(n))), errno.EIO)
    if status == "ANF_NOMEM":
        return MemoryError(text)
    return OSError(number, text) if status == "ANF_IO" else ValueError(text)
