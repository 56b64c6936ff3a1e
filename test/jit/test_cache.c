// SPDX-License-Identifier: Apache-2.0
/* Caches of compiled code: found again in memory, on disk and by other processes; what differs is told
 * apart; damaged files are made anew; the folder does not outgrow its limit. */
#define _DEFAULT_SOURCE // mkdtemp
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "anfora/jit.h"
#include "backend/jit/jit.h"
#include "test/unit/folder.h"

typedef struct bench {
  anf_ctx *cx;
  anf_diag *d;
  anf_jit_engine *e;
} bench;

static bench begin_with(anf_jit_kind k, const anf_jit_opts *o) {
  bench b = {anf_ctx_new(NULL), NULL, NULL};
  b.d = anf_diag_new(b.cx);
  assert_int_equal(anf_jit_engine_new(b.cx, k, o, b.d, &b.e), ANF_OK);
  return b;
}
static bench begin(anf_jit_kind k, const char *dir) {
  anf_jit_opts o = {.size = sizeof o, .cache_dir = dir};
  return begin_with(k, &o);
}
static void end(bench *b) {
  anf_jit_engine_free(b->e);
  anf_diag_free(b->d);
  anf_ctx_free(b->cx);
}

static anf_jit_module *compiled(bench *b, const char *text) {
  anf_tir_module *t = NULL;
  anf_jit_module *m = NULL;
  anf_status st = anf_tir_parse(b->cx, text, strlen(text), "test", b->d, &t);
  if (st == ANF_OK) st = anf_jit_make_module(b->e, t, b->d, &m);
  if (st != ANF_OK) anf_diag_print(b->d, stderr, false);
  anf_tir_module_free(t);
  assert_int_equal(st, ANF_OK);
  return m;
}

static int64_t call(anf_jit_module *m, int64_t x) {
  anf_jit_function *f = anf_jit_get_function(m, "f");
  assert_non_null(f);
  anf_generic args[2] = {{.s64 = x}};
  assert_int_equal(anf_jit_call_generic(f, NULL, args), ANF_OK);
  anf_jit_function_free(f);
  return args[1].s64;
}

/* f(x) = x * k + T[0], with T in the data; then T[0]++ */
static const char *program(char *out, size_t room, int k) {
  snprintf(out, room,
           "private tensor T: [s64 * 1] = {100s64}\n"
           "func f(x: s64): s64 {\n"
           "  T[0] = (T[0] + 1s64)\n"
           "  return (((x * %ds64) + T[0]) - 1s64)\n"
           "}\n",
           k);
  return out;
}

static char *new_dir(void) {
  static char path[TEST_PATH];
  assert_true(test_folder(path));
  return path;
}

typedef struct seen {
  size_t n;
  uint64_t bytes;
  char last[128];
} seen;
static bool see(void *user, const anf_jit_cached *file) {
  seen *s = (seen *)user;
  s->n++;
  s->bytes += file->bytes;
  snprintf(s->last, sizeof s->last, "%s", file->name);
  return file->used > 0;
}
static seen look(const char *dir) {
  seen s = {0};
  anf_ctx *cx = anf_ctx_new(NULL);
  assert_int_equal(anf_jit_cache_visit(cx, dir, see, &s, NULL), ANF_OK);
  anf_ctx_free(cx);
  return s;
}
static void remove_dir(const char *dir) {
  anf_ctx *cx = anf_ctx_new(NULL);
  assert_int_equal(anf_jit_cache_clear(cx, dir, NULL), ANF_OK);
  anf_ctx_free(cx);
  assert_int_equal(look(dir).n, 0);
  assert_int_equal(rmdir(dir), 0); // nothing else is in it
}

/* A module that is large enough to be compiled in groups: f calls functions that stay apart, the first
 * two through one that is calls alone, which is not optimised. */
static char *large(void) {
  enum { MANY = 40, LINES = 40, ROOM = MANY * (LINES + 4) * 80 };
  char *text = (char *)malloc(ROOM), *p = text;
  assert_non_null(text);
  p += sprintf(p, "private tensor T: [s64 * 1] = {100s64}\n");
  for (int i = 0; i < MANY; i++) {
    p += sprintf(p, "func part%d(x: s64): s64 @[inline_level=0, is_private] {\n", i);
    p += sprintf(p, "  var y: s64 = x\n  T[0] = (T[0] + 1s64)\n");
    for (int k = 0; k < LINES; k++) p += sprintf(p, "  y = ((y * %ds64) + %ds64)\n", i + 3, k);
    p += sprintf(p, "  return y\n}\n");
  }
  p += sprintf(p, "func both(x: s64): s64 @[inline_level=0, is_private] {\n"
                  "  var y: s64 = part0(x)\n  return part1(y)\n}\n");
  p += sprintf(p, "func f(x: s64): s64 {\n  var y: s64 = both(x)\n");
  for (int i = 2; i < MANY; i++) p += sprintf(p, "  y = part%d(y)\n", i);
  p += sprintf(p, "  return (y + T[0])\n}\n");
  assert_true(p < text + ROOM);
  return text;
}

static int64_t of_large(int64_t x) {
  uint64_t y = (uint64_t)x;
  for (uint64_t i = 0; i < 40; i++)
    for (uint64_t k = 0; k < 40; k++) y = y * (i + 3) + k;
  return (int64_t)(y + 140);
}

static char *whole_file(const char *dir, const char *name, size_t *n) {
  char path[TEST_PATH + 200], *p = (char *)malloc(1 << 20);
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "rb");
  assert_true(p && file);
  *n = fread(p, 1, 1 << 20, file);
  fclose(file);
  return p;
}

/* The same machine code, whoever made it. */
static void many_threads(void **state) {
  (void)state;
  char *text = large(), *file[3], dir[3][TEST_PATH];
  size_t n[3];
  for (int i = 0; i < 3; i++) {
    snprintf(dir[i], sizeof dir[i], "%s", new_dir());
    anf_jit_opts o = {.size = sizeof o, .cache_dir = dir[i], .threads = (uint32_t)(2 * i + 1)};
    bench b = begin_with(ANF_JIT_LLVM, &o);
    anf_jit_module *m = compiled(&b, text);
    assert_int_equal(call(m, 5), of_large(5));
    anf_jit_module_free(m);
    end(&b);
    file[i] = whole_file(dir[i], look(dir[i]).last, &n[i]);
    assert_int_equal(n[i], n[0]);
    assert_memory_equal(file[i], file[0], n[0]);
  }
  size_t objects = 0;
  for (size_t i = 0; i + 4 < n[0]; i++) objects += memcmp(file[0] + i, "\177ELF", 4) == 0;
  assert_true(objects > 1);
  for (int i = 0; i < 3; i++) {
    free(file[i]);
    remove_dir(dir[i]);
  }
  free(text);
}

static double ms_of(void (*fn)(void *), void *arg) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  fn(arg);
  clock_gettime(CLOCK_MONOTONIC, &b);
  return (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
}

typedef struct one {
  bench *b;
  const char *text;
  anf_jit_module *m;
} one;
static void compile_one(void *arg) {
  one *o = (one *)arg;
  o->m = compiled(o->b, o->text);
}

static void found_again(void **state) {
  (void)state;
  char text[300];
  const char *dir = new_dir();
  const anf_jit_kind kinds[] = {ANF_JIT_LLVM, ANF_JIT_CJIT};
  for (size_t k = 0; k < 2; k++) {
    double cold = 0, disk = 1e9, memory = 1e9;
    for (int turn = 0; turn < 4; turn++) { // the first makes it, the others find it
      bench b = begin(kinds[k], dir);
      one first = {&b, program(text, sizeof text, 7), NULL}, again = first;
      anf_jit_module *warm = compiled(&b, "func g(): s32 {\n  return 1\n}\n");
      double ms = ms_of(compile_one, &first), more = ms_of(compile_one, &again);
      if (turn == 0) cold = ms;
      else if (ms < disk) disk = ms;
      if (more < memory) memory = more;
      assert_int_equal(call(first.m, 3), 121);
      assert_int_equal(call(first.m, 3), 122);
      assert_int_equal(call(again.m, 3), 121); // data of its own
      anf_jit_function *f = anf_jit_get_function(again.m, "f");
      assert_non_null(anf_jit_get_function_pointer(f));
      anf_jit_function_free(f);
      anf_jit_module_free(warm);
      anf_jit_module_free(first.m);
      anf_jit_module_free(again.m);
      end(&b);
    }
    print_message("# %s: cold %.2f ms, from disk %.2f ms, from memory %.2f ms\n",
                  anf_jit_kind_name(kinds[k]), cold, disk, memory);
    assert_int_equal(look(dir).n, 2 * (k + 1));
    assert_true(disk < cold);
  }
  remove_dir(dir);
}

/* One file more for each thing that code depends on */
static void told_apart(void **state) {
  (void)state;
  char text[300];
  const char *dir = new_dir();
  anf_target_machine less = {.size = sizeof less, .features = "-avx2"};
  const anf_jit_opts o[] = {{.level = ANF_JIT_O1}, {.level = ANF_JIT_O2},
                            {.bounds = true},      {.contract = true},
                            {.target = &less},     {.passes = "index_flattener auto_caster"}};
  for (size_t i = 0; i < sizeof o / sizeof *o; i++) {
    anf_jit_opts mine = o[i];
    mine.size = sizeof mine;
    mine.cache_dir = dir;
    for (int turn = 0; turn < 2; turn++) {
      bench b = begin_with(ANF_JIT_LLVM, &mine);
      anf_jit_module *m = compiled(&b, program(text, sizeof text, 2));
      assert_int_equal(call(m, 1), 102);
      anf_jit_module_free(m);
      end(&b);
    }
    assert_int_equal(look(dir).n, i + 1);
  }
  bench b = begin(ANF_JIT_LLVM, dir);
  size_t n = look(dir).n;
  const char *variants[] = {
      "func f(x: s64): s64 {\n  return (x / 3s64)\n}\n",
      "func f(x: s64): s64 {\n  return (x / 4s64)\n}\n",
      "func f(x: s64): s64 {\n\n  return (x / 4s64)\n}\n", // traps tell another line
      "func f(y: s64): s64 {\n  return (y / 4s64)\n}\n",
      "func f(x: s64): s64 {\n  return (x % 4s64)\n}\n"};
  const int64_t want[] = {4, 3, 3, 3, 0};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    anf_jit_module *m = compiled(&b, variants[i]);
    assert_int_equal(call(m, 12), want[i]);
    anf_jit_module_free(m);
    assert_int_equal(look(dir).n, n + i + 1);
  }
  end(&b);
  remove_dir(dir);
}

/* ---- constants in blocks ---- */

static anfi_os_block *two(int64_t x, int64_t y) {
  anfi_os_block *b = anfi_os_block_new(2 * sizeof x);
  assert_non_null(b);
  memcpy(anfi_os_block_data(b), (int64_t[]){x, y}, 2 * sizeof x);
  return b;
}

/* f(x) = 10 A[x] + B[x], in an engine and context of its own; the module outlives both. */
static anf_jit_module *of_blocks(const char *dir, anfi_os_block *a, anfi_os_block *b) {
  static const char text[] = "private tensor A: [s64 * 2] = {1s64, 2s64}\n"
                             "private tensor B: [s64 * 2] = {3s64, 4s64}\n"
                             "func f(x: s64): s64 {\n  return ((A[x] * 10s64) + B[x])\n}\n";
  bench at = begin(ANF_JIT_LLVM, dir);
  anf_tir_module *t = NULL;
  anf_jit_module *m = NULL;
  assert_int_equal(anf_tir_parse(at.cx, text, strlen(text), "test", at.d, &t), ANF_OK);
  for (size_t i = 0; i < 2; i++) {
    tstmt g = t->global.at[i];
    texpr list = anfi_t_list_block(t->t, g->e[1]->dtype, 2, i ? b : a);
    t->global.at[i] = anfi_t_define(t->t, TL_private, g->e[0], list);
  }
  assert_int_equal(anf_jit_make_module(at.e, t, at.d, &m), ANF_OK);
  assert_int_equal(anf_jit_module_data_bytes(m), 128); // two addresses
  anf_tir_module_free(t);
  end(&at);
  anfi_os_block_release(a);
  anfi_os_block_release(b);
  return m;
}

static void blocks(void **state) {
  (void)state;
  const char *dir = new_dir();
  const int64_t want[] = {13, 57, 99};
  for (size_t i = 0; i < 3;
       i++) { // code for other elements is the same, but not for one block twice
    anfi_os_block *a = i == 0 ? two(1, 2) : i == 1 ? two(5, 6) : two(9, 8);
    anfi_os_block *b = i == 0 ? two(3, 4) : i == 1 ? two(7, 8) : anfi_os_block_retain(a);
    anf_jit_module *m = of_blocks(dir, a, b), *more = NULL;
    assert_int_equal(look(dir).n, i < 2 ? 1 : 2);
    assert_int_equal(anf_jit_module_instance(m, &more), ANF_OK);
    assert_int_equal(call(m, 0), want[i]);
    anf_jit_module_free(m);
    assert_int_equal(call(more, 0), want[i]);
    anf_jit_module_free(more);
  }
  remove_dir(dir);
}

/* ---- damage ---- */

static void damage(const char *path, long at, int how) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  if (how == 0) {
    assert_int_equal(truncate(path, at), 0);
    return;
  }
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  fseek(f, at, SEEK_SET);
  int c = fgetc(f);
  fseek(f, at, SEEK_SET);
  fputc(c ^ how, f);
  fclose(f);
}

static void damaged(void **state) {
  (void)state;
  char text[300], path[2 * TEST_PATH];
  const char *dir = new_dir();
  program(text, sizeof text, 5);
  uint64_t size = 0;
  for (int turn = 0; turn < 24; turn++) {
    bench b = begin(ANF_JIT_LLVM, dir);
    anf_jit_module *m = compiled(&b, text);
    assert_int_equal(call(m, 3), 115);
    assert_int_equal(anf_diag_count(b.d), turn > 0);
    if (turn) assert_string_equal(anf_diag_at(b.d, 0)->code, "W0902");
    anf_jit_module_free(m);
    end(&b);
    seen s = look(dir);
    assert_int_equal(s.n, 1);
    if (turn) assert_true(s.bytes == size); // it is whole again
    size = s.bytes;
    snprintf(path, sizeof path, "%s/%s", dir, s.last);
    damage(path, (long)((uint64_t)turn * (size - 1) / 23), turn % 3 ? 1 << turn % 8 : 0);
  }
  remove_dir(dir);
}

/* ---- malformed: lengths that are wrong under a sum that is right ---- */

enum { HEAD = 48 }; // magic, id, sum, bytes

static char *read_whole(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  *n = (size_t)ftell(f);
  rewind(f);
  char *p = (char *)malloc(*n);
  assert_int_equal(fread(p, 1, *n, f), *n);
  fclose(f);
  return p;
}

static void write_whole(const char *path, char *p, size_t n) {
  uint64_t bytes = n - HEAD;
  anfi_jit_id sum = anfi_jit_sum(p + HEAD, n - HEAD);
  memcpy(p + 24, &sum, sizeof sum);
  memcpy(p + 40, &bytes, sizeof bytes);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(p, 1, n, f), n);
  fclose(f);
}

/* Where the payload has lengths: of entries, their names, types; of globals, image and code. */
static size_t lengths(const char *p, size_t *at) {
  size_t n = 0, here = HEAD;
  uint64_t len;
  at[n++] = here; // entries: one
  here += 8;
  for (int i = 0; i < 4; i++) { // its name, parameters, type of the result, types of the parameters
    at[n++] = here;
    memcpy(&len, p + here, 8);
    here += 8 + (i == 1 ? 0 : (size_t)len);
  }
  at[n++] = here; // globals: T
  here += 8;
  at[n++] = here;
  memcpy(&len, p + here, 8);
  here += 8 + (size_t)len;
  for (int i = 0; i < 3; i++, here += 8) at[n++] = here; // element type, offset, bytes
  at[n++] = here;                                        // image
  memcpy(&len, p + here, 8);
  at[n++] = here + 8 + (size_t)len; // code
  return n;
}

static void malformed_of(anf_jit_kind kind) {
  char text[300], path[2 * TEST_PATH];
  const char *dir = new_dir();
  size_t n, at[16];
  bench b = begin(kind, dir);
  anf_jit_module_free(compiled(&b, program(text, sizeof text, 5)));
  end(&b);
  assert_int_equal(look(dir).n, 1);
  snprintf(path, sizeof path, "%s/%s", dir, look(dir).last);
  char *good = read_whole(path, &n), *bad = (char *)malloc(n);
  size_t count = lengths(good, at);
  static const uint64_t wrong[] = {UINT64_MAX, UINT64_C(1) << 40, 0x7fffffff00000000};
  for (size_t i = 0; i <= 3 * count; i++) {
    memcpy(bad, good, n);
    size_t k = n;
    if (i < 3 * count) memcpy(bad + at[i / 3], &wrong[i % 3], 8);
    else k = at[count - 1] + 8, memset(bad + k - 8, 0, 8); // code of no bytes
    write_whole(path, bad, k);
    b = begin(kind, dir);
    anf_jit_module *m = compiled(&b, text);
    assert_int_equal(call(m, 3), 115);
    assert_int_equal(anf_diag_count(b.d), 1);
    assert_string_equal(anf_diag_at(b.d, 0)->code, "W0902");
    anf_jit_module_free(m);
    m = compiled(&b, text); // what this engine keeps is whole, too
    assert_int_equal(anf_diag_count(b.d), 1);
    anf_jit_module_free(m);
    end(&b);
  }
  free(good);
  free(bad);
  remove_dir(dir);
}

static void malformed(void **state) {
  (void)state;
  malformed_of(ANF_JIT_LLVM);
  malformed_of(ANF_JIT_CJIT);
}

/* ---- without memory ---- */

static int allocations = -1; // that succeed before the one that fails; -1: all do

void *aligned_alloc(size_t align, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes) {
  void *p = NULL;
  if (allocations == 0) return NULL;
  if (allocations > 0) allocations--;
  return posix_memalign(&p, align, bytes) ? NULL : p;
}

static anf_status unpacked(bench *b, const anf_text *packed, const char **p, size_t *n,
                           anfi_jit_code **out) {
  ANFI_ENTRY(b->cx, b->d);
  *out = anfi_jit_unpack(b->cx, b->e, packed->text, packed->len, p, n);
  return anfi_leave(b->cx);
}

/* Each allocation of unpacking fails once: no memory, and nothing is damaged. */
static void without_memory(void **state) {
  (void)state;
  bench b = begin(ANF_JIT_LLVM, NULL);
  anfi_jit_code *code = anfi_jit_code_new(b.e), *back = NULL;
  const char *p, *wants[] = {"f", "g"};
  size_t n;
  anf_status st = ANF_NOMEM;
  anf_text packed = {.cx = b.cx};
  code->entry = (anfi_jit_entry *)anfi_jit_alloc(2 * sizeof *code->entry);
  for (; code->nentry < 2; code->nentry++) {
    code->entry[code->nentry].name = anfi_jit_strdup(wants[code->nentry]);
    code->entry[code->nentry].param = (tdtype *)anfi_jit_alloc(sizeof(tdtype));
  }
  anfi_jit_pack(code, "code", 4, &packed);
  anfi_jit_code_release(code);
  int fails = 0;
  for (; st == ANF_NOMEM && fails < 100; fails++) {
    allocations = fails;
    st = unpacked(&b, &packed, &p, &n, &back);
    allocations = -1;
  }
  assert_int_equal(st, ANF_OK);
  assert_non_null(back);
  assert_true(fails > 8);
  assert_int_equal(anf_diag_count(b.d), fails - 1);
  anfi_jit_code_release(back);
  anf_text_free(&packed);
  end(&b);
}

/* ---- what others could have written is not run ---- */

static void foreign(void **state) {
  (void)state;
  char text[300], path[2 * TEST_PATH], aside[TEST_PATH], link_to[2 * TEST_PATH];
  const char *dir = new_dir();
  struct stat st;
  for (int turn = 0; turn < 4;
       turn++) { // all is well, file for all to write, a link, folder for all to write
    bench b = begin(ANF_JIT_LLVM, dir);
    anf_jit_module *m = compiled(&b, program(text, sizeof text, 5));
    assert_int_equal(call(m, 3), 115);
    assert_int_equal(anf_diag_count(b.d), turn > 0);
    if (turn) assert_string_equal(anf_diag_at(b.d, 0)->code, "W0904");
    anf_jit_module_free(m);
    end(&b);
    snprintf(path, sizeof path, "%s/%s", dir, look(dir).last);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600);
    if (turn == 0) assert_int_equal(chmod(path, 0666), 0);
    if (turn == 1) {
      assert_true(test_folder(aside));
      snprintf(link_to, sizeof link_to, "%s/entry", aside);
      assert_int_equal(rename(path, link_to), 0);
      assert_int_equal(symlink(link_to, path), 0);
    }
    if (turn == 2) assert_int_equal(chmod(dir, 0777), 0);
  }
  assert_int_equal(unlink(link_to), 0);
  assert_int_equal(rmdir(aside), 0);
  remove_dir(dir);
}

static void own_folder(void **state) {
  (void)state;
  char text[300], inner[TEST_PATH + 8];
  const char *dir = new_dir();
  struct stat st;
  snprintf(inner, sizeof inner, "%s/inner", dir);
  bench b = begin(ANF_JIT_LLVM, inner);
  anf_jit_module_free(compiled(&b, program(text, sizeof text, 5)));
  end(&b);
  assert_int_equal(stat(inner, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  remove_dir(inner);
  remove_dir(dir);
}

/* ---- builds and compilers ---- */

static void builds(void **state) {
  (void)state;
  char here[TEST_PATH];
  anf_ctx *cx = anf_ctx_new(NULL);
  anfi_arena a;
  anfi_arena_init(&a, cx);
  const char *here_id = anfi_os_this_build(&a);
  assert_true(strlen(here_id) >= 16);
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir("/"), 0); // it does not hang upon paths
  assert_string_equal(anfi_os_this_build(&a), here_id);
  assert_int_equal(chdir(here), 0);
  assert_string_not_equal(anfi_os_build_of(&a, (uintptr_t)&fopen), here_id);
  anfi_arena_free(&a);
  anf_ctx_free(cx);
}

/* A compiler by the name `cc` that says what it is asked, then is the system's. */
static void new_compiler(const char *path, const char *answer) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "#!/bin/sh\nfor w; do [ \"$w\" = '-###' ] && { %s; }; done\nexec cc \"$@\"\n", answer);
  fclose(f);
  assert_int_equal(chmod(path, 0755), 0);
}

static size_t files_with(const char *dir, const char *cc) {
  char text[300];
  assert_int_equal(setenv("CC", cc, 1), 0);
  bench b = begin(ANF_JIT_CJIT, dir);
  anf_jit_module_free(compiled(&b, program(text, sizeof text, 5)));
  end(&b);
  return look(dir).n;
}

static void compilers(void **state) {
  (void)state;
  char folder[TEST_PATH], cc[TEST_PATH + 4];
  const char *dir = new_dir(), *before = getenv("CC");
  assert_true(test_folder(folder));
  snprintf(cc, sizeof cc, "%s/cc", folder);
  assert_int_equal(files_with(dir, "gcc"), 1);
  assert_int_equal(files_with(dir, "gcc"), 1);
  assert_int_equal(files_with(dir, "gcc -ffast-math"), 2); // other words
  new_compiler(cc, "echo version 1; exit 0");
  assert_int_equal(files_with(dir, cc), 3);
  assert_int_equal(files_with(dir, cc), 3);
  new_compiler(cc, "echo version 2; exit 0"); // another version, or another processor
  assert_int_equal(files_with(dir, cc), 4);
  new_compiler(cc, "exit 1"); // no answer
  assert_int_equal(files_with(dir, cc), 4);
  if (before) setenv("CC", before, 1);
  else unsetenv("CC");
  assert_int_equal(unlink(cc), 0);
  assert_int_equal(rmdir(folder), 0);
  remove_dir(dir);
}

/* A file that has been renamed is not what its name says. */
static void renamed(void **state) {
  (void)state;
  char text[300], other[TEST_PATH], from[2 * TEST_PATH], aside[2 * TEST_PATH], to[2 * TEST_PATH];
  assert_true(test_folder(other));
  const char *dir = new_dir();
  bench b = begin(ANF_JIT_LLVM, dir);
  anf_jit_module_free(compiled(&b, program(text, sizeof text, 5)));
  snprintf(from, sizeof from, "%s/%s", dir, look(dir).last);
  snprintf(aside, sizeof aside, "%s/entry", other);
  assert_int_equal(rename(from, aside), 0);
  anf_jit_module_free(compiled(&b, program(text, sizeof text, 6)));
  snprintf(to, sizeof to, "%s/%s", dir, look(dir).last);
  assert_int_equal(rename(aside, to), 0);
  assert_int_equal(rmdir(other), 0);
  end(&b);
  b = begin(ANF_JIT_LLVM, dir);
  anf_jit_module *m = compiled(&b, text);
  assert_int_equal(call(m, 1), 106);
  anf_jit_module_free(m);
  end(&b);
  remove_dir(dir);
}

static void no_room(void **state) {
  (void)state;
  char text[300];
  const char *dir = new_dir();
  anf_jit_opts o = {.size = sizeof o, .cache_dir = dir};
  uint64_t one_file = 0;
  for (int i = 0; i < 12; i++) {
    bench b = begin_with(ANF_JIT_LLVM, &o);
    anf_jit_module_free(compiled(&b, program(text, sizeof text, i + 2)));
    end(&b);
    seen s = look(dir);
    if (!one_file) one_file = s.bytes;
    o.cache_bytes = one_file * 5 + 1000;
    assert_true(s.bytes <= o.cache_bytes);
    assert_true(s.n >= 1);
  }
  assert_true(look(dir).n >= 3);
  remove_dir(dir);
}

static void no_folder(void **state) {
  (void)state;
  char text[300];
  bench b = begin(ANF_JIT_LLVM, "/proc/no/such");
  anf_jit_module *m = compiled(&b, program(text, sizeof text, 5));
  assert_int_equal(call(m, 3), 115);
  anf_jit_module_free(m);
  assert_int_equal(anf_diag_count(b.d), 1);
  assert_string_equal(anf_diag_at(b.d, 0)->code, "W0901");
  end(&b);
}

/* ---- many at once ---- */

static int work(const char *dir, int turns) {
  char text[300];
  int wrong = 0;
  bench b = begin(ANF_JIT_LLVM, dir);
  for (int i = 0; i < turns; i++) {
    anf_jit_module *m = compiled(&b, program(text, sizeof text, i % 5 + 2));
    wrong += call(m, 10) != 10 * (i % 5 + 2) + 100;
    anf_jit_module_free(m);
  }
  end(&b);
  return wrong;
}

static void *thread(void *dir) { return (void *)(intptr_t)work((const char *)dir, 10); }

static void at_once(void **state) {
  (void)state;
  char *dir = new_dir();
  pid_t child[3];
  for (int i = 0; i < 3; i++) {
    child[i] = fork();
    assert_true(child[i] >= 0);
    if (!child[i]) _exit(work(dir, 15) != 0);
  }
  pthread_t t[2];
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, thread, dir), 0);
  for (int i = 0; i < 2; i++) {
    void *wrong = NULL;
    pthread_join(t[i], &wrong);
    assert_null(wrong);
  }
  for (int i = 0; i < 3; i++) {
    int status = -1;
    assert_int_equal(waitpid(child[i], &status, 0), child[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(look(dir).n, 5);
  remove_dir(dir);
}

/* Those who need the same code at the same time: one compiles, the others find it. How many did, the time that the
 * process computed says. */
static void *compile_large(void *dir) {
  char *text = large();
  bench b = begin(ANF_JIT_LLVM, (const char *)dir);
  anf_jit_module *m = compiled(&b, text);
  bool wrong = call(m, 5) != of_large(5) || anf_diag_count(b.d) > 0;
  anf_jit_module_free(m);
  end(&b);
  free(text);
  return (void *)(intptr_t)wrong;
}

static double cpu_ms_of(int threads) {
  struct timespec from, to;
  pthread_t t[6];
  char *dir = new_dir();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  for (int i = 0; i < threads; i++)
    assert_int_equal(pthread_create(&t[i], NULL, compile_large, dir), 0);
  for (int i = 0; i < threads; i++) {
    void *wrong = NULL;
    pthread_join(t[i], &wrong);
    assert_null(wrong);
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  assert_int_equal(look(dir).n, 1);
  remove_dir(dir); // no lock is left in it
  return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
}

static void compiled_once(void **state) {
  (void)state;
  double alone = cpu_ms_of(1), all = cpu_ms_of(6);
  print_message("# computed for one: %.0f ms, for six at once: %.0f ms\n", alone, all);
  assert_true(all < 3 * alone);
}

/* Holds the lock of program 3 in a new folder, as somebody who compiles it. */
static char *busy_dir(anfi_claim *held) {
  static char lock[2 * TEST_PATH];
  char text[256];
  char *dir = new_dir();
  bench b = begin(ANF_JIT_LLVM, dir);
  anf_jit_module_free(compiled(&b, program(text, sizeof text, 3)));
  end(&b);
  seen s = look(dir);
  assert_int_equal(s.n, 1);
  snprintf(lock, sizeof lock, "%s/%s", dir, s.last);
  assert_int_equal(unlink(lock), 0);
  snprintf(lock, sizeof lock, "%s/tmp-%.32s", dir, s.last);
  assert_true(anfi_os_claim(lock, 0, held));
  return dir;
}

static void out_of_patience(void **state) {
  (void)state;
  anfi_claim held;
  char text[256], *dir = busy_dir(&held);
  bench b = begin(ANF_JIT_LLVM, dir);
  b.e->patience_ms = 50;
  anf_jit_module *m = compiled(&b, program(text, sizeof text, 3));
  assert_int_equal(call(m, 5), 115);
  assert_int_equal(anf_diag_count(b.d), 1);
  assert_string_equal(anf_diag_at(b.d, 0)->code, "W0906");
  anf_jit_module_free(m);
  end(&b);
  anfi_os_unclaim(&held);
  remove_dir(dir);
}

static bool not_while_waiting(void *user, const char *what, double done) {
  (void)done;
  *(int *)user += strncmp(what, "waiting", 7) == 0;
  return *(int *)user < 2;
}

static void cancelled(void **state) {
  (void)state;
  anfi_claim held;
  int turns = 0;
  char text[256], *dir = busy_dir(&held);
  anf_ctx_opts co = {.size = sizeof co, .progress = not_while_waiting, .progress_user = &turns};
  anf_jit_opts o = {.size = sizeof o, .cache_dir = dir};
  anf_tir_module *t = NULL;
  anf_jit_module *m = NULL;
  bench b = {anf_ctx_new(&co), NULL, NULL};
  b.d = anf_diag_new(b.cx);
  assert_int_equal(anf_jit_engine_new(b.cx, ANF_JIT_LLVM, &o, b.d, &b.e), ANF_OK);
  program(text, sizeof text, 3);
  assert_int_equal(anf_tir_parse(b.cx, text, strlen(text), "test", b.d, &t), ANF_OK);
  assert_int_equal(anf_jit_make_module(b.e, t, b.d, &m), ANF_CANCELLED);
  assert_null(m);
  assert_int_equal(turns, 2);
  anf_tir_module_free(t);
  end(&b);
  anfi_os_unclaim(&held);
  remove_dir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiled_once),   cmocka_unit_test(at_once),
      cmocka_unit_test(many_threads),    cmocka_unit_test(found_again),
      cmocka_unit_test(told_apart),      cmocka_unit_test(damaged),
      cmocka_unit_test(renamed),         cmocka_unit_test(no_room),
      cmocka_unit_test(no_folder),       cmocka_unit_test(malformed),
      cmocka_unit_test(without_memory),  cmocka_unit_test(foreign),
      cmocka_unit_test(own_folder),      cmocka_unit_test(builds),
      cmocka_unit_test(compilers),       cmocka_unit_test(blocks),
      cmocka_unit_test(out_of_patience), cmocka_unit_test(cancelled)};
  return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
