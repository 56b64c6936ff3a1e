// SPDX-License-Identifier: Apache-2.0
/* Operations whose work a function of Python does: their C function is a callback of ctypes.
 *   add_op("Hypot2", "fn(f64, f64) -> f64", address, takes, None, 0)   ->   Hypot2(x, y) in programs calls it */
#include "core.h"

#include "anfora/host.h"

/* add_op(name, type, address of the C function, what it takes, derivative or None, flags): for as long as the context, which is that
 * of the process */
PyObject *op_add(PyObject *module, PyObject *args) {
  const char *name, *type, *takes, *vjp;
  Py_ssize_t address;
  unsigned flags;
  if (!PyArg_ParseTuple(args, "ssnszI", &name, &type, &address, &takes, &vjp, &flags)) return NULL;
  core *c = core_of(module);
  anf_host_op op = {.size = sizeof op,
                    .name = name,
                    .type = type,
                    .function = (void (*)(void))(uintptr_t)address,
                    .takes = takes,
                    .vjp = vjp,
                    .flags = flags};
  PyThreadState *ts = core_enter(c);
  anf_diag *d = anf_diag_new(c->cx);
  anf_status st = d ? anf_op_register(c->cx, &op, d) : ANF_NOMEM;
  if (st == ANF_OK) anf_diag_free(d);
  core_leave(c, ts);
  if (st == ANF_OK) Py_RETURN_NONE;
  return core_raise(c, st, d);
}
