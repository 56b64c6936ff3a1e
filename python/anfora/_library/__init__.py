# SPDX-License-Identifier: Apache-2.0
"""Functions that are made of operations and written as users write compiled functions."""
