# SPDX-License-Identifier: Apache-2.0
"""Functions of trees by the names of jax.tree_util."""
from ._tree import (DictKey, GetAttrKey, SequenceKey, keystr, register_dataclass, register_pytree_node, register_pytree_node_class,
                    tree_all, tree_flatten, tree_flatten_with_path, tree_leaves, tree_leaves_with_path, tree_map, tree_map_with_path,
                    tree_reduce, tree_structure, tree_transpose, tree_unflatten, treedef_is_leaf)

__all__ = ["DictKey", "GetAttrKey", "SequenceKey", "keystr", "register_dataclass", "register_pytree_node", "register_pytree_node_class",
           "tree_all", "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path",
           "tree_reduce", "tree_structure", "tree_transpose", "tree_unflatten", "treedef_is_leaf"]
