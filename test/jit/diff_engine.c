// SPDX-License-Identifier: Apache-2.0
/* diff_engine ENGINE COUNT [FIRST] [CC]: does an engine compute what the interpreter computes?
 * Every operation on every element type, alone and in lanes, on values at the edges of the types;
 * then random modules. Results must agree to the bit, NaN with any NaN; where the interpreter
 * reports a division by zero, the engine's call must trap. TAP. */
#include "test/jit/wild.h"

#include <math.h>
#include <stdlib.h>

static unsigned bad, ran;

typedef struct buffers {
  anf_tir_arg arg[WILD_PARAMS];
  size_t bytes[WILD_PARAMS];
} buffers;

static void fill(tfunc f, buffers *b, uint64_t seed) {
  for (uint32_t i = 0; i < f->n; i++) {
    texpr p = f->param[i];
    tdtype d = anfi_t_dt((anf_tir_elem)p->dtype.elem);
    uint64_t n = 1;
    b->arg[i] = (anf_tir_arg){.v.bits = p->kind == TX_var ? wild_lane(d, &seed, false) : 0};
    b->bytes[i] = 0;
    if (p->kind != TX_tensor) continue;
    anfi_t_const_elems(p, &n);
    size_t size = anfi_t_bytes(d);
    b->bytes[i] = (size_t)n * size;
    b->arg[i].bytes = b->bytes[i];
    b->arg[i].data = aligned_alloc(64, (b->bytes[i] + 127) / 64 * 64);
    for (uint64_t k = 0; k < n; k++) {
      uint64_t bits = wild_lane(d, &seed, true);
      memcpy((char *)b->arg[i].data + k * size, &bits, size);
    }
  }
}
static void drop(tfunc f, buffers *b) {
  for (uint32_t i = 0; i < f->n; i++) free(b->arg[i].data);
}

static bool same_lane(tdtype d, uint64_t a, uint64_t b) {
  if (a == b) return true;
  return anfi_t_is_float(d) && isnan(anfi_t_lane_f64(d, a)) && isnan(anfi_t_lane_f64(d, b));
}

static bool compare(tfunc f, const buffers *x, const buffers *y, uint64_t rx, uint64_t ry) {
  if (!anfi_t_is_void(f->ret) && !same_lane(f->ret, rx, ry)) {
    printf("# %s gives %llx, not %llx\n", f->name->s, (unsigned long long)ry,
           (unsigned long long)rx);
    return false;
  }
  for (uint32_t i = 0; i < f->n; i++) {
    tdtype d = anfi_t_dt((anf_tir_elem)f->param[i]->dtype.elem);
    size_t size = anfi_t_bytes(d);
    for (size_t k = 0; k < x->bytes[i]; k += size) {
      uint64_t a = 0, b = 0;
      memcpy(&a, (char *)x->arg[i].data + k, size);
      memcpy(&b, (char *)y->arg[i].data + k, size);
      if (same_lane(d, a, b)) continue;
      printf("# %s: element %zu of argument %u is %llx (%g), not %llx (%g)\n", f->name->s, k / size,
             i, (unsigned long long)b, anfi_t_lane_f64(d, b), (unsigned long long)a,
             anfi_t_lane_f64(d, a));
      return false;
    }
  }
  return true;
}

static uint64_t low(tdtype d, uint64_t v) {
  size_t bytes = anfi_t_bytes(d);
  return bytes >= 8 ? v : v & ((UINT64_C(1) << bytes * 8) - 1);
}

static bool one(const tmod *m, anf_jit_module *jm, tfunc f, uint64_t seed) {
  buffers x, y;
  anf_generic args[WILD_PARAMS + 1] = {{.bits = 0}};
  anf_tir_arg r = {.v.bits = 0};
  anf_tir_run_opts o = {.size = sizeof o, .plain = true, .max_steps = 3000000};
  fill(f, &x, seed);
  fill(f, &y, seed);
  anf_diag *d = anf_diag_new(m->cx);
  anf_status want = anf_tir_run(m, f->name->s, f->n, x.arg, &o, d, &r), have;
  bool divides = anf_diag_count(d) && strcmp(anf_diag_at(d, 0)->code, "E0858") == 0, good = true;
  if (want != ANF_OK && !divides && getenv("SHOW")) anf_diag_print(d, stdout, false);
  if (want == ANF_OK || divides) {
    for (uint32_t i = 0; i < f->n; i++) {
      if (y.arg[i].data) args[i].ptr = y.arg[i].data;
      else args[i].bits = y.arg[i].v.bits;
    }
    anf_jit_function *jf = anf_jit_get_function(jm, f->name->s);
    have = jf ? anf_jit_call_generic(jf, NULL, args) : ANF_INTERNAL;
    anf_jit_function_free(jf);
    ran++;
    if ((have == ANF_OK) != (want == ANF_OK)) {
      printf("# %s ends with %s, not %s\n", f->name->s, anf_status_name(have),
             anf_status_name(want));
      good = false;
    } else if (want == ANF_OK)
      good =
          compare(f, &x, &y, r.v.bits, anfi_t_is_void(f->ret) ? 0 : low(f->ret, args[f->n].bits));
  }
  anf_diag_free(d);
  drop(f, &x);
  drop(f, &y);
  return good;
}

static void module(anf_ctx *cx, anf_jit_engine *e, const char *text, uint64_t seed, unsigned runs) {
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL;
  anf_jit_module *jm = NULL;
  if (anf_tir_parse(cx, text, strlen(text), "diff", d, &m) != ANF_OK ||
      anf_jit_make_module(e, m, d, &jm) != ANF_OK) {
    printf("# seed %llu is not compiled\n", (unsigned long long)seed);
    if (getenv("SHOW")) puts(text);
    anf_diag_print(d, stdout, false);
    bad++;
  }
  for (size_t i = 0; jm && i < m->func.n && bad < 20; i++) {
    tfunc f = m->func.at[i];
    if (!f->body || anfi_t_attr(f->attrs, TA_is_private, NULL)) continue;
    for (unsigned k = 0; k < runs; k++)
      if (!one(m, jm, f, seed * 1000 + k)) {
        printf("# seed %llu\n", (unsigned long long)seed);
        bad++;
        break;
      }
  }
  anf_jit_module_free(jm);
  anf_tir_module_free(m);
  anf_diag_free(d);
}

int main(int argc, char **argv) {
  enum { AT_ONCE = 12 };
  uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 24,
           first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  anf_jit_kind kind;
  if (argc < 2 || !anf_jit_kind_of(argv[1], &kind)) return 2;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_jit_engine *e = NULL;
  anf_jit_opts o = {.size = sizeof o,
                    .cc = argc > 4 ? argv[4] : NULL,
                    .passes = "index_flattener auto_caster tensor_init auto_caster",
                    .level = argc > 5 ? (anf_jit_level)atoi(argv[5]) : ANF_JIT_AUTO};
  if (anf_jit_engine_new(cx, kind, &o, d, &e) != ANF_OK) {
    anf_diag_print(d, stdout, false);
    printf("1..0 # SKIP no engine\n");
    return 0;
  }
  char *all = wild_operations();
  module(cx, e, all, 1, 8);
  free(all);
  for (uint64_t s = first; s < first + n && bad < 20; s += AT_ONCE) {
    char *text = wild_random(s, AT_ONCE);
    module(cx, e, text, s, 1);
    free(text);
  }
  anf_jit_engine_free(e);
  anf_diag_free(d);
  anf_ctx_free(cx);
  printf("1..1\n%sok 1 - %s: %u calls\n", bad ? "not " : "", argv[1], ran);
  return bad != 0;
}
