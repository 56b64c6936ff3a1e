# SPDX-License-Identifier: Apache-2.0
"""Factorisations in terms of JAX itself, in the place of calls of LAPACK; their derivatives are JAX's own rules."""
RULED: tuple = ()
VALUES: tuple = ()
