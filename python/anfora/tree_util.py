# SPDX-License-Identifier: Apache-2.0
"""Functions of trees by the names of jax.tree_util."""
from ._tree import (register_dataclass, register_pytree_node, register_pytree_node_class, tree_all, tree_flatten, tree_leaves, tree_map,
                    tree_reduce, tree_structure, tree_transpose, tree_unflatten, treedef_is_leaf)

__all__ = ["register_dataclass", "register_pytree_node", "register_pytree_node_class", "tree_all", "tree_flatten", "tree_leaves",
           "tree_map", "tree_reduce", "tree_structure", "tree_transpose", "tree_unflatten", "treedef_is_leaf"]
