// SPDX-License-Identifier: Apache-2.0
/* The base of the library: memory, interning, containers, diagnostics, files.
 *
 * Glossary
 *   arena   chunks of memory freed together; large blocks in it can be resized without a copy
 *   frame   one protected API entry. Allocation that fails jumps back to the innermost frame, so
 *           inner code has no error plumbing for memory; everything it owns is in an arena or on
 *           the frame's defer list.
 *   loc     where something was written: file, line, column
 */
#ifndef ANFI_BASE_H
#define ANFI_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "anfora/base.h"

#if defined(__GNUC__)
#define ANFI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ANFI_NORETURN     __attribute__((noreturn))
#else
#define ANFI_PRINTF(f, a)
#define ANFI_NORETURN
#endif

/* The hostile build shrinks the world, so that growth and collision paths run in every test, and has
 * both kinds of IR verified after each pass that changed something, and at the end. */
#ifdef ANF_HOSTILE
#define ANFI_CHUNK_MIN 128
#define ANFI_HASH_MIN  2
#define ANFI_VEC_MIN   1
#define ANFI_VERIFY    true
#else
#define ANFI_CHUNK_MIN 4096
#define ANFI_HASH_MIN  16
#define ANFI_VEC_MIN   8
#define ANFI_VERIFY    false
#endif

/* Memory is handed back at once, so that a use after that is found. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ANFI_SANITIZED true
#endif
#endif
#if !defined(ANFI_SANITIZED) && defined(__SANITIZE_ADDRESS__)
#define ANFI_SANITIZED true
#elif !defined(ANFI_SANITIZED)
#define ANFI_SANITIZED false
#endif

#define ANFI_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* arena.c */
typedef struct anfi_chunk anfi_chunk;
typedef struct anfi_arena {
  anf_ctx *cx;
  anfi_chunk *chunks; // small allocations are carved from the first
  anfi_chunk *large;  // doubly linked, one block each
  char *at, *end;     // free part of the first chunk
  size_t chunk_size;  // of the next chunk; doubles up to a limit
  bool skipped;       // anfi_visit_memory does not look at it: set before the first allocation
} anfi_arena;

void anfi_arena_init(anfi_arena *a, anf_ctx *cx);
void anfi_arena_free(anfi_arena *a);
void anfi_free_spare(anf_ctx *cx); // chunks that arenas gave back for others to take
/* 16-byte aligned. Never NULL: a failure jumps to the frame. */
void *anfi_alloc(anfi_arena *a, size_t size);
void *anfi_zalloc(anfi_arena *a, size_t size);
/* As anfi_alloc, of a multiple of 16 bytes: a few instructions where the chunk has room. */
static inline void *anfi_bump(anfi_arena *a, size_t size) {
  if (size >= ANFI_CHUNK_MIN || (size_t)(a->end - a->at) < size) return anfi_alloc(a, size);
  char *p = a->at;
  a->at = p + size;
  return p;
}
/* As realloc; `old` is the size that `p` was allocated with. */
void *anfi_grow(anfi_arena *a, void *p, size_t old, size_t size);
/* Frees a large block of `size` bytes at once; a smaller one is freed with the arena. */
void anfi_give_back(anfi_arena *a, void *p, size_t size);
char *anfi_strndup(anfi_arena *a, const char *s, size_t len);
char *anfi_sprintf(anfi_arena *a, const char *fmt, ...) ANFI_PRINTF(2, 3);

/* The memory of a structure that outlives the entry, zeroed; NULL: there is none. */
void *anfi_object(anf_ctx *cx, size_t size);
void anfi_object_free(anf_ctx *cx, void *p);
/* Goes over the memory of all arenas and objects. */
void anfi_visit_memory(const anf_ctx *cx, void (*see)(void *user, const void *from, size_t bytes),
                       void *user);

/* trim.c: blocks that anf_ctx_trim frees once nothing refers to them: types and strings. A reference is any pointer into
 * the block from an arena, an object or a live block, or a pin, which others need: values. */
typedef struct anfi_shared {
  struct anfi_shared *next;
  uint32_t pins;
  uint32_t live : 1;  // at the last anfi_mark
  uint32_t size : 31; // of the block, this header included
} anfi_shared;
void *anfi_share(anf_ctx *cx, size_t size); // zeroed, within a frame
static inline anfi_shared *anfi_shared_of(const void *p) { return (anfi_shared *)(uintptr_t)p - 1; }
static inline void anfi_pin(const void *p) { anfi_shared_of(p)->pins++; }
static inline void anfi_unpin(const void *p) { anfi_shared_of(p)->pins--; }
static inline bool anfi_is_live(const void *p) { return anfi_shared_of(p)->live; }
/* Marks what is referred to. anfi_revive adds what numbers refer to, anfi_mark_on what that refers to. Then anfi_free_unmarked
 * frees the rest, which their tables have forgotten. */
typedef struct anfi_marking anfi_marking;
anfi_marking *anfi_mark(anf_ctx *cx); // lives as long as the frame
void anfi_revive(anfi_marking *m, const void *p);
void anfi_mark_on(anfi_marking *m);
void anfi_free_unmarked(anf_ctx *cx);

#define ANFI_NEW(a, T)      ((T *)anfi_zalloc((a), sizeof(T)))
#define ANFI_NEW_N(a, T, n) ((T *)anfi_zalloc((a), anfi_size_mul((a)->cx, (n), sizeof(T))))

/* Growable array in an arena: ANFI_VEC(int) v = {0}; anfi_push(a, &v, 7); v.at[0] */
#define ANFI_VEC(T)                                                                                \
  struct {                                                                                         \
    T *at;                                                                                         \
    size_t n, cap;                                                                                 \
  }
#define anfi_push(a, v, x)                                                                         \
  ((v)->n == (v)->cap ? (void)((v)->at = anfi_vec_grow((a), (v)->at, &(v)->cap, sizeof(*(v)->at))) \
                      : (void)0,                                                                   \
   (v)->at[(v)->n++] = (x))
void *anfi_vec_grow(anfi_arena *a, void *at, size_t *cap, size_t elem);

/* ctx.c: a context; `fill` adds, inside a frame, the initial state of the folders above. */
anf_ctx *anfi_ctx_new(const anf_ctx_opts *o, void (*fill)(anf_ctx *));
/* Raw memory of the context, tracked; NULL on failure. Use arenas where you can. */
void *anfi_raw(anf_ctx *cx, void *p, size_t old, size_t size);
ANFI_NORETURN void anfi_throw_nomem(anf_ctx *cx);
/* Jumps to the frame with the status of the error just reported. */
ANFI_NORETURN void anfi_throw(anf_ctx *cx);
/* a * b, jumping to the frame on overflow */
size_t anfi_size_mul(anf_ctx *cx, size_t a, size_t b);

/* A location in a program. */
typedef struct anfi_loc {
  const char *file; // interned, or NULL when unknown
  uint32_t line, col;
} anfi_loc;

/* Protected entries. The pattern of every public function that can allocate:
 *
 *   anf_status anf_thing(anf_ctx *cx, ..., anf_diag *d, anf_out **out) {
 *     ANFI_ENTRY(cx, d);
 *     *out = thing(cx, ...);
 *     return anfi_leave(cx);
 *   }
 * INVARIANT: between ANFI_ENTRY and anfi_leave only parameters and one assignment to an
 * out-parameter are touched, so nothing is clobbered by the jump. Do the work in a static function.
 */
typedef struct anfi_frame {
  jmp_buf jump;
  struct anfi_frame *outer;
  struct anfi_defer *defers;
  anf_diag *diag;
  anf_status status; // of the first error in this frame
  uint32_t nerror;
  anfi_loc (*where)(const void *of); // which place of a program the frame is at; or NULL
  const void *of;
} anfi_frame;

/* Misuse: a pointer that may not be NULL is. E0002 names function and parameter, in `d`, else in the context's own list
 * if there is a context. The simplest is one line at the head of an entry:
 *   ANFI_NEED(d, g, out);                           a function that gives a status
 *   ANFI_NEED_ELSE(cx, NULL, cx, names, items);     one that gives something else
 * n pointers whose names are `names`, "g, out"; false if one is NULL. */
bool anfi_need(anf_ctx *cx, anf_diag *d, const char *function, const char *names, size_t n,
               const void *const *p);
#define ANFI_GIVEN_(cx, d, names, ...)                                                             \
  anfi_need((cx), (d), __func__, names, sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *),    \
            (const void *[]){__VA_ARGS__})
#define ANFI_NEED(d, ...)                                                                          \
  if (!ANFI_GIVEN_(NULL, d, #__VA_ARGS__, __VA_ARGS__)) return ANF_INVALID
#define ANFI_NEED_ELSE(cx, otherwise, ...)                                                         \
  if (!ANFI_GIVEN_(cx, NULL, #__VA_ARGS__, __VA_ARGS__)) return otherwise
/* Findings of calls that were given no list; the last such call's. */
anf_diag *anfi_own_diag(anf_ctx *cx);

void anfi_enter(anf_ctx *cx, anf_diag *d, anfi_frame *f);
anf_status anfi_leave(anf_ctx *cx);
#define ANFI_ENTRY(cx, d)                                                                          \
  anfi_frame frame_;                                                                               \
  anfi_enter((cx), (d), &frame_);                                                                  \
  if (setjmp(frame_.jump)) return anfi_leave(cx)
/* The same in a function that appends x, which has a context `cx`, to a text. */
#define ANFI_TEXT_ENTRY(x, out)                                                                    \
  ANFI_NEED_ELSE((out) ? (out)->cx : (x) ? (x)->cx : NULL, ANF_INVALID, x, out);                   \
  anfi_text_of((out), (x)->cx);                                                                    \
  ANFI_ENTRY((x)->cx, NULL)
/* The same in a function that returns a pointer, or `otherwise`. */
#define ANFI_ENTRY_ELSE(cx, d, otherwise)                                                          \
  anfi_frame frame_;                                                                               \
  anfi_enter((cx), (d), &frame_);                                                                  \
  if (setjmp(frame_.jump)) return (void)anfi_leave(cx), (otherwise)

/* Cleanups run at anfi_leave, last first: ALWAYS, or only when the frame failed. */
typedef enum { ANFI_ALWAYS, ANFI_ON_FAIL } anfi_when;
void anfi_defer(anf_ctx *cx, anfi_when when, void (*fn)(void *), void *arg);
void anfi_free_text(void *text); // cleanups of an anf_text, an anfi_arena and an anf_diag
void anfi_free_diag(void *d);
void anfi_free_arena(void *arena);
/* Takes back the newest cleanup of `arg`; quick for a recent one. */
void anfi_undefer(anf_ctx *cx, const void *arg);
/* A scratch arena that lives until the frame is left. */
anfi_arena *anfi_scratch(anf_ctx *cx);
/* Has this frame recorded an error? */
bool anfi_failed(const anf_ctx *cx);
/* Records that memory ended at a place: E0871 if max_bytes is the reason, else E0872. A frame that failed for want of
 * memory does so by itself. Always false. */
bool anfi_fail_memory(anf_ctx *cx, anfi_loc loc);
/* Code that runs without polling the context: anf_ctx_cancel stops it too, by stop(arg), from any thread or signal
 * handler. Gives what ran around it, for anfi_run_end, after which nobody calls stop any more. */
typedef struct anfi_running {
  void (*stop)(void *arg);
  void *arg;
} anfi_running;
const anfi_running *anfi_run_begin(anf_ctx *cx, const anfi_running *r);
void anfi_run_end(anf_ctx *cx, const anfi_running *outer);

/* Polls the cancel flag and the progress callback; records ANF_CANCELLED and returns false. */
bool anfi_go_on(anf_ctx *cx, const char *what, double done);

/* str.c: interned strings of one table; equality is pointer equality. */
typedef struct anfi_str {
  uint32_t id, len; // id dense per table
  char s[];         // NUL-terminated
} anfi_str;
typedef struct anfi_strtab {
  anfi_arena *arena;
  bool shared; // strings are blocks that a trim may free: those of a context
  anfi_str **slots;
  size_t nslot;
  ANFI_VEC(const anfi_str *) all; // by id; NULL: the id is free
  ANFI_VEC(uint32_t) free;        // such ids
} anfi_strtab;
void anfi_strtab_init(anfi_strtab *t, anfi_arena *a);
const anfi_str *anfi_intern(anfi_strtab *t, const char *s, size_t len);
const anfi_str *anfi_intern_z(anfi_strtab *t, const char *s);
/* Forgets strings that are not live. */
void anfi_strtab_trim(anfi_strtab *t);
/* The interned string if it is there already, or NULL. */
const anfi_str *anfi_interned(const anfi_strtab *t, const char *s, size_t len);
/* Is it one of the words, with spaces between them, of `list`? NULL has none. */
bool anfi_has_word(const char *list, const char *word, size_t len);

/* map.c: open addressing, uint64 to uint64, keys any; in an arena. */
typedef struct anfi_map {
  anfi_arena *arena;
  struct anfi_map_slot *slots;
  size_t nslot, n;
  uint64_t zero; // the value of key 0, since a 0 marks a free slot
  bool has_zero;
} anfi_map;
void anfi_map_init(anfi_map *m, anfi_arena *a);
/* The slot of the value of `key`, made (as 0) if absent; valid until the next call. */
uint64_t *anfi_map_at(anfi_map *m, uint64_t key);
/* The value's slot, or NULL. */
uint64_t *anfi_map_find(const anfi_map *m, uint64_t key);
static inline uint64_t anfi_key(const void *p) { return (uint64_t)(uintptr_t)p; }

/* hash.c */
uint64_t anfi_hash(const void *p, size_t n, uint64_t seed);
static inline uint64_t anfi_hash_mix(uint64_t h, uint64_t x) {
  h ^= x + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
  h *= UINT64_C(0xff51afd7ed558ccd);
  return h ^ (h >> 32);
}

/* diag.c */
typedef enum anfi_code {
#define ANF_MSG(code, class, text, explanation) ANF_##code,
#include "base/diag.def"
#undef ANF_MSG
  ANF_CODE_COUNT
} anfi_code;
const char *anfi_code_text(anfi_code code); // as for printf
/* Records an error in the frame's list; the arguments fill the text of the code. Always false. */
bool anfi_fail(anf_ctx *cx, anfi_loc loc, anfi_code code, ...);
/* The status of an inner frame, which has recorded why, becomes this frame's. Always false. */
bool anfi_fail_as(anf_ctx *cx, anf_status st);
/* The first error of another list, said again in that of the frame. False: the list has none. */
bool anfi_repeat(anf_ctx *cx, const anf_diag *from);
/* The place of the errors of this call that have none. */
void anfi_place_errors(anf_ctx *cx, anfi_loc loc);
/* Is this code among the findings after the first `from`? And drop those findings. */
bool anfi_diag_has(const anf_diag *d, size_t from, anfi_code code);
void anfi_diag_forget(anf_diag *d, size_t from);
/* Further words on the item recorded last. */
void anfi_hint(anf_ctx *cx, const char *fmt, ...) ANFI_PRINTF(2, 3);
void anfi_note(anf_ctx *cx, anfi_loc loc, const char *fmt, ...) ANFI_PRINTF(3, 4);
void anfi_warn(anf_ctx *cx, anfi_loc loc, anfi_code code, ...);
/* May more errors be recorded in this frame? Recovery goes on only while true. */
bool anfi_more_errors(const anf_ctx *cx);
/* Remembers a file's text, so that diagnostics can show the line; borrows `text` until removed. */
void anfi_source_add(anf_ctx *cx, const char *file, const char *text, size_t len);
void anfi_source_remove(anf_ctx *cx, const char *file);
void anfi_source_remove_text(anf_ctx *cx,
                             const char *text); // whichever file has this very text; NULL: all
static inline anfi_loc anfi_nowhere(void) { return (anfi_loc){NULL, 0, 0}; }
/* The candidate nearest to `word` by edit distance, or NULL if none is near: "did you mean". */
const char *anfi_nearest(const char *word, const char *(*candidate)(void *, size_t), void *user);
/* A hint on the item recorded last that names `near`, or the nearest candidate; false: there is none. */
bool anfi_did_you_mean(anf_ctx *cx, const char *near);
bool anfi_suggest(anf_ctx *cx, const char *word, const char *(*candidate)(void *, size_t),
                  void *user);

/* Reads a host's options (NULL: all default) into a zeroed structure of ours; `first` bytes of it were there in its first
 * version, up to its field `last`. Refused, with a finding: a size that is none, and unknown bytes that are not zero.
 *   anf_grad_opts opts;
 *   if (!ANFI_OPTS(cx, d, anf_grad_opts, sens, o, &opts)) return ANF_INVALID;
 * Sizes are checked before anything beyond them is read. */
bool anfi_read_opts(anf_ctx *cx, anf_diag *d, const char *name, const void *from, size_t first,
                    size_t size, void *to);
#define ANFI_END(T, field) (offsetof(T, field) + sizeof(((T *)NULL)->field))
/* Until the first release the last field is the last one that there is, or this does not compile. */
#define ANFI_OPTS(cx, d, T, last, from, to)                                                        \
  anfi_read_opts((cx), (d), #T, (from),                                                            \
                 ANFI_END(T, last) + 0 * sizeof(char[sizeof(T) - ANFI_END(T, last) < 8 ? 1 : -1]), \
                 sizeof(T), (to))

/* The same within a frame, which fails. */
#define ANFI_OPTS_IN(cx, T, last, from, to)                                                        \
  (ANFI_OPTS(cx, NULL, T, last, from, to) || anfi_fail_as((cx), ANF_INVALID))

/* A look-up by name found nothing: the context's own list says so, with the nearest candidate; and so does the next finding
 * of a NULL, which is mostly what the look-up gave. */
void anfi_missed(anf_ctx *cx, const char *kind, const char *name,
                 const char *(*candidate)(void *, size_t), void *user);

/* text.c: appending to an anf_text; a failure jumps to the frame. */
/* At the head of an entry that appends to a host's text: one without a context takes this one. */
void anfi_text_of(anf_text *t, anf_ctx *cx);
/* A text for a function that a failure may jump out of: the frame frees it, if anfi_text_done does not before. */
anf_text *anfi_text_begin(anf_ctx *cx);
void anfi_text_done(anf_text *t);
void anfi_put(anf_text *t, const char *s, size_t len);
void anfi_puts(anf_text *t, const char *s);
/* A constant of more elements than are shown to people: "4096 elements, digest 0x53f1.." */
enum { ANFI_SHOWN_ELEMENTS = 1024 };
void anfi_put_elided(anf_text *t, size_t n, const void *data, size_t bytes);
void anfi_putc(anf_text *t, char c);
void anfi_putf(anf_text *t, const char *fmt, ...) ANFI_PRINTF(2, 3);
void anfi_put_u64(anf_text *t, uint64_t v);
void anfi_put_i64(anf_text *t, int64_t v);
/* In the shortest form that reads back exactly. */
void anfi_put_f64(anf_text *t, double v);
void anfi_put_f32(anf_text *t, float v);
/* Length of the valid UTF-8 character at s (1..4), or 0. */
size_t anfi_utf8_len(const char *s, size_t left);

/* half.c: exact conversions, rounding to nearest even */
float anfi_f16_to_f32(uint16_t h);
uint16_t anfi_f32_to_f16(float f);
uint16_t anfi_f64_to_f16(double f);
float anfi_bf16_to_f32(uint16_t h);
uint16_t anfi_f32_to_bf16(float f);
uint16_t anfi_f64_to_bf16(double f);

/* special.c, which the run time has too: functions of complex numbers x (and y), and the n-th derivative of
 * the digamma function */
#define ANFI_COMPLEX_FUNCTIONS                                                                     \
  ANFI_COMPLEX(pow, cpow(x, y))                                                                    \
  ANFI_COMPLEX(sqrt, csqrt(x))                                                                     \
  ANFI_COMPLEX(exp, cexp(x))                                                                       \
  ANFI_COMPLEX(log, clog(x))                                                                       \
  ANFI_COMPLEX(sin, csin(x))                                                                       \
  ANFI_COMPLEX(cos, ccos(x))                                                                       \
  ANFI_COMPLEX(tan, ctan(x))                                                                       \
  ANFI_COMPLEX(sinh, csinh(x))                                                                     \
  ANFI_COMPLEX(cosh, ccosh(x))                                                                     \
  ANFI_COMPLEX(tanh, ctanh(x))
typedef enum anfi_complex_fn {
#define ANFI_COMPLEX(name, call) ANFI_COMPLEX_##name,
  ANFI_COMPLEX_FUNCTIONS
#undef ANFI_COMPLEX
} anfi_complex_fn;
void anfi_complex(anfi_complex_fn f, const double a[2], const double b[2], double out[2]);
double anfi_polygamma(int n, double x);

/* eigen.c */
/* Eigenvalues w[n] of (a + a') / 2, the least first, and eigenvectors, the columns of v[n, n]. `work` has anfi_eigh_work(n) doubles. */
size_t anfi_eigh_work(size_t n);
void anfi_eigh(size_t n, const double *a, double *w, double *v, double *work);
/* u[m, k] diag(s[k]) vt[k, n] = a[m, n] with k the less of m and n, the greatest value first; `work` has anfi_svd_work(m, n) doubles. */
size_t anfi_svd_work(size_t m, size_t n);
void anfi_svd(size_t m, size_t n, const double *a, double *u, double *s, double *vt, double *work);

/* factor.c: of a[m, n], with k the less of m and n */
/* Row c was exchanged with row pivots[c] of k; row i of lu is of row rows[i] of a, of m. */
void anfi_lu(size_t m, size_t n, const double *a, double *lu, double *pivots, double *rows);
/* R on and above the diagonal of h[m, n], below it the vectors of the reflections without their first element 1, and the k factors
 * tau; `work` has n doubles. */
void anfi_householder(size_t m, size_t n, const double *a, double *h, double *tau, double *work);

/* os/posix.c: system calls */
/* Reads a whole file into the arena, NUL-terminated; "-" is standard input. Fails with E03xx. */
bool anfi_os_read(anf_ctx *cx, anfi_arena *a, const char *path, char **text, size_t *len);
/* Reads n bytes at `offset` of the regular file `name` below the folder `dir`, "" for the present one; no part of the name
 * is a link, "." or "..". Nothing is read where the file, of `*size` bytes, ends before that. False with E03xx. */
bool anfi_os_read_below(anf_ctx *cx, const char *dir, const char *name, uint64_t offset, void *to,
                        size_t n, uint64_t *size);
/* May `name`, of `len` bytes, be read below a folder: it does not begin at the root, leads nowhere up, and has no NUL. */
bool anfi_os_is_below(const char *name, size_t len);
/* The first bytes of a file, n at most; 0 if it cannot be read. */
size_t anfi_os_head(const char *path, char *to, size_t n);
/* Writes a file whole or not at all (temporary name, then rename). */
bool anfi_os_write(anf_ctx *cx, const char *path, const char *text, size_t len);
typedef struct anfi_bytes {
  const void *p;
  size_t n;
} anfi_bytes;
/* The same of parts, one after the other. `durable`: it is on the disk when this returns, and what a process left
 * that died while it wrote this file is removed. */
bool anfi_os_write_parts(anf_ctx *cx, const char *path, size_t n, const anfi_bytes *part,
                         bool durable);
/* The same where parts without memory are fetched when it is their turn: NULL, with an error recorded, ends it. */
typedef struct anfi_part_source {
  const void *(*part)(void *user, size_t i);
  void *user;
} anfi_part_source;
bool anfi_os_write_parts_from(anf_ctx *cx, const char *path, size_t n, const anfi_bytes *part,
                              const anfi_part_source *from, bool durable);
bool anfi_os_may_write(anf_ctx *cx, const char *path); // else fails as writing would
bool anfi_os_put_all(int f, const char *p, size_t n);  // false: errno says why
uint64_t anfi_os_now_ns(void);
uint64_t anfi_os_thread_ns(void); // that this thread computed so far
uint64_t anfi_os_cache_bytes(
    uint32_t level); // of the data cache 1, 2 or 3 of a core; 0: the system does not say
/* Asks for huge pages for a block that is aligned to one; gives the block back. */
enum { ANFI_HUGE_PAGE = 1 << 21 };
void *anfi_os_huge(void *p, size_t size);
/* Would the system give so much more address space now? */
bool anfi_os_has_room(size_t bytes);

/* os/number.c, which the run time has too */
/* strtod, strtof and "%.*g" with a decimal point, whatever locale the host has set. */
double anfi_read_f64(const char *s, char **end);
float anfi_read_f32(const char *s, char **end);
void anfi_format_f64(char *buf, size_t size, int digits, double v);
/* Shortest decimal that reads back to the same number: "0.1", "1e+300", "inf", "nan". Into
 * ANFI_NUMBER bytes; returns the length. */
enum { ANFI_NUMBER = 48 };
size_t anfi_text_f64(char *buf, double v);
size_t anfi_text_f32(char *buf, float v);
size_t anfi_text_half(char *buf, uint16_t h, bool brain); // of f16 or bf16

/* os/dir.c: folders of files that processes share */
typedef struct anfi_file {
  const char *name;
  uint64_t bytes;
  int64_t used; // when it was written or touched last, in ns since 1970
} anfi_file;
typedef ANFI_VEC(anfi_file) anfi_files;
bool anfi_os_make_dirs(anf_ctx *cx,
                       const char *path); // 0700, and those above; false: errno says why
/* Is it there, and another user's or one that others may write to? */
bool anfi_os_is_foreign(const char *dir);
/* Writes a file whole or not at all, whoever else writes it. False: errno says why. */
bool anfi_os_put(anf_ctx *cx, const char *dir, const char *name, const void *p, size_t n);
/* Reads a file of our own; false, without an error, if it cannot be read or is foreign (or a link). */
bool anfi_os_get(anf_ctx *cx, const char *path, char **out, size_t *len, bool *foreign);
/* The files whose names begin so. False: the folder cannot be read. */
bool anfi_os_list(anf_ctx *cx, const char *dir, const char *begin, anfi_files *out);
/* A lock that threads and processes share by the name of a file. False: it could not be had in so many ms. A cleanup gives it up. */
typedef struct anfi_claim {
  const char *path;
  int f;
} anfi_claim;
bool anfi_os_claim(const char *path, uint64_t ms, anfi_claim *out);
void anfi_os_unclaim(void *c); // once, or again
void anfi_os_touch(const char *path);
/* The folder of the code cache: ANFORA_CACHE, or else the user's. NULL: no cache. */
const char *anfi_os_cache_dir(anfi_arena *a);

/* os/library.c: loaded objects, by an address in them */
/* Identifies the build of the object; and of the library. */
const char *anfi_os_build_of(anfi_arena *a, uintptr_t address);
const char *anfi_os_this_build(anfi_arena *a);
/* Pages of its code and constants leave memory until they are used again. */
void anfi_os_leave_library(uintptr_t address);

/* os/process.c: other programs, temporary folders, shared objects */
/* The path of a program, looked for in PATH; NULL: there is none. */
const char *anfi_os_find_program(anfi_arena *a, const char *name);
/* Runs argv[0], a path, and waits; its output goes to the file `log`. The exit status, or -1. */
int anfi_os_spawn(const char *const *argv, const char *log);
const char *anfi_os_temp_dir(void); // TMPDIR, or else the system's
/* A new folder in `in`, for this user alone; NULL: failed. */
char *anfi_os_make_temp(anf_ctx *cx, const char *in);
void anfi_os_remove(const char *path); // a file or an empty folder
void *anfi_os_dl_open(const char *path, char *why, size_t len);
void *anfi_os_dl_symbol(void *handle, const char *name);
bool anfi_os_c_library_has(
    const char *name); // a function of that name that programs are linked with
void anfi_os_dl_close(void *handle);

/* os/thread.c: a thread that does one piece of work at a time */
typedef struct anfi_worker anfi_worker;
anfi_worker *anfi_os_worker_new(anf_ctx *cx); // a failure jumps to the frame
void anfi_os_worker_start(anfi_worker *w, void (*fn)(void *), void *arg); // it must be idle
bool anfi_os_worker_wait(anfi_worker *w); // false: what was under way stayed behind at a fork
bool anfi_os_worker_busy(anfi_worker *w);
void anfi_os_worker_free(anfi_worker *w); // waits; w may be NULL
uint64_t anfi_os_thread_id(void);         // differs between threads that live
uint32_t anfi_os_cpus(void);              // that this process may use

/* ctx.c: the context itself */
typedef struct anfi_small {
  struct anfi_small *next;
} anfi_small;
enum { ANFI_SMALL_SIZES = 16 };

typedef ANFI_VEC(const char *) anfi_folders;

struct anf_comm;
/* What keeps loops over arrays linear: tests of growth turn it off, and must notice. */
enum {
  ANFI_WITHOUT_LINEAR = 1,      // backend/lower/graph/linear.c
  ANFI_WITHOUT_READS_FIRST = 2, // ir/reads_first.c
  ANFI_WITHOUT_SUMS = 4         // ◀ that add to adjoints: autodiff/reverse/activity.c
};

struct anf_ctx {
  /* memory and its limits */
  anf_allocator alloc;
  size_t bytes, max_bytes;
  uint32_t max_errors, max_nesting;
  /* progress and cancellation */
  bool (*progress)(void *, const char *, double);
  void *progress_user;
  atomic_bool cancel;
  _Atomic(const anfi_running *) running; // code that anf_ctx_cancel stops, or NULL
  atomic_uint cancelling;                // threads that look at `running`
  /* the current call, and what it reports */
  anfi_frame *frame;    // innermost, or NULL
  bool over_limit;      // max_bytes made an allocation fail
  bool reported_memory; // E0871 or E0872 is recorded
  /* switches of tests, and what programs are given */
  unsigned without;      // ANFI_WITHOUT_..
  anfi_folders imports;  // that imports may lead into, beside the program's own: real paths
  struct anf_comm *comm; // of programs that the host runs, or NULL
  int64_t watched;       // ops that compute with a multiple of this number are noted; 0: none are
  bool watched_used;
  /* findings of the context's own */
  anf_diag *own;   // findings of calls that were given no list, made at the first; may be NULL
  bool own_is_old; // a later call begins it anew
  bool missed;     // a look-up by name found nothing, which no finding has reported yet
  /* freed memory, and the blocks that trims visit */
  anfi_chunk *spare; // arena.c; empty outside entries
  uint32_t nspare, nsmall;
  anfi_small *small
      [ANFI_SMALL_SIZES]; // ctx.c: freed blocks of up to 16, 32, .. bytes; empty outside entries
  anfi_chunk *scanned;    // arena.c: memory that anfi_visit_memory goes over
  anfi_shared *shared;    // trim.c: all such blocks
  size_t nshared;
  /* tables */
  anfi_arena arena;  // what lives as long as the context
  anfi_arena tables; // that refer to shared blocks without keeping them
  anfi_strtab strings;
  struct anfi_source *sources;
  struct anfi_types *types;    // ir/value/type.c
  struct anfi_schema *schemas; // ir/op.c: the op table, parsed
  anfi_map op_by_name;         // string id -> opcode
  anfi_map hosts;              // string id -> anfi_host: ir/host.c
  const struct anfi_scalar *
      *scalars; // ir/value/scalar.c: code of elementwise ops by opcode, parsed at first use
  const struct anfi_ruleset *rules;  // optimizer/rules/parse.c: likewise
  struct anfi_kept *kept;            // anfi_ctx_keep, newest first
  struct anfi_generator *generators; // ir/generator.c
};

/* What is made at first use and lives as long as the context, by an address that nothing else uses as its key. It is freed
 * before anything else of the context, newest first. */
void anfi_ctx_keep(anf_ctx *cx, const void *key, void *value, void (*free)(void *));
void *anfi_ctx_kept(const anf_ctx *cx, const void *key); // or NULL

#endif
