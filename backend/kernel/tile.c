// SPDX-License-Identifier: Apache-2.0
/* The cost model. A tile of R rows and V vectors does R * V products a step of K and loads R + V
 * values; sums of one place follow each other with a latency. What a tile costs a step is the
 * greatest of these, and every tile has a start. A's rows are R streams through the caches and B's
 * vectors another: among tiles of about as many sums the square one disturbs them the least. Balanced
 * rows: ceil(m / R) tiles of nearly equal height. A tile whose sums, vectors of B and one value of A
 * do not fit the registers is never made: spilling halves its speed. */
#include "backend/kernel/kernel.h"

enum { FMA_A_CYCLE = 2, LOADS_A_CYCLE = 2, LATENCY = 4, TYPICAL_K = 256 };
enum { WAYS = 12 }; // of the first cache: more lines that are pages apart do not stay there
enum { TILE_START = 16, STREAM = 4 }; // cycles for TYPICAL_K steps; of a row or vector

static const double UNEVEN = 1.005; // a panel more, with a kernel of its own
static const double LOW = 1.005;    // less than six rows for each load of B, though there are more
enum { SQUARE = 4 };                // vectors of a tile of six rows

static bool fits(const anfi_isa *isa, uint32_t rows, uint32_t vecs) {
  uint32_t b = rows == 1 ? 1 : vecs; // a single row reads B from memory
  return vecs <= TILE_VECS && rows <= WAYS && rows * vecs + b + 1 <= isa->regs;
}

static double max2(double a, double b) { return a > b ? a : b; }

/* A row of B that lies pages away from the next, in a cache that others share: the row, and each vector. */
static const double FAR_ROW = 7, FAR_VEC = 1.7;

/* Cycles a step of K of one tile, with its share of the start. */
static double tile_cost(uint64_t rows, uint64_t vecs, bool far) {
  double work = (double)(rows * vecs) / FMA_A_CYCLE,
         loads = (double)(rows == 1 ? 1 + vecs : rows + vecs) / LOADS_A_CYCLE,
         wait = far ? FAR_ROW + FAR_VEC * (double)vecs : LATENCY;
  return max2(max2(work, loads), wait) +
         (double)(TILE_START + rows * vecs + STREAM * (rows + vecs)) / (double)TYPICAL_K;
}

/* All rows of a panel of `vecs` vectors. */
static double panel_cost(uint64_t m, uint32_t rows, uint64_t vecs, bool far) {
  uint64_t t = (m + rows - 1) / rows, q = m / t, more = m % t;
  return (double)more * tile_cost(q + 1, vecs, far) + (double)(t - more) * tile_cost(q, vecs, far);
}

static uint32_t most_rows(const anfi_isa *isa, uint32_t vecs) {
  uint32_t r = 1;
  while (fits(isa, r + 1, vecs)) r++;
  return r;
}

/* The height with the least cost; among equals the greatest, which loads B less often. */
static uint32_t best_rows(const anfi_isa *isa, uint64_t m, uint32_t vecs, bool far, double *cost) {
  uint32_t best = 1;
  *cost = panel_cost(m, 1, vecs, far);
  for (uint32_t r = 2; r <= most_rows(isa, vecs) && r <= m; r++) {
    double c = panel_cost(m, r, vecs, far);
    if (c <= *cost) *cost = c, best = r;
  }
  return best;
}

static double cost_of(const anfi_isa *isa, uint64_t m, uint64_t nvec, uint32_t vecs, bool far,
                      uint32_t *rows) {
  double one = 0, last = 0;
  *rows = best_rows(isa, m, vecs, far, &one);
  if (vecs > SQUARE && m > SQUARE) one *= LOW;
  if (nvec % vecs == 0) return (double)(nvec / vecs) * one;
  best_rows(isa, m, (uint32_t)(nvec % vecs), far, &last);
  return UNEVEN * ((double)(nvec / vecs) * one + last);
}

static double pick(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n, bool far,
                   anfi_tile *tile) {
  uint64_t nvec = (n + lanes - 1) / lanes;
  double best = 0;
  *tile = (anfi_tile){1, 1};
  for (uint32_t v = 1; v <= nvec && fits(isa, 1, v); v++) {
    uint32_t rows;
    double c = cost_of(isa, m, nvec, v, far, &rows);
    if (v == 1 || c < best) best = c, *tile = (anfi_tile){rows, v};
  }
  return best;
}

anfi_tile anfi_tile_pick(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n) {
  anfi_tile t = {1, 1};
  if (m && n) pick(isa, lanes, m, n, false, &t);
  return t;
}

uint32_t anfi_tile_rows(const anfi_isa *isa, uint64_t m, uint32_t vecs) {
  double cost;
  return best_rows(isa, m, vecs, false, &cost);
}

double anfi_tile_cost(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n) {
  anfi_tile t;
  return m && n ? pick(isa, lanes, m, n, false, &t) : 0;
}

/* Squares of A are turned beside the multiplications: each of 16 columns takes cycles more, and so does
 * turning the sums at the end. */
bool anfi_tile_is_transposed(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n) {
  enum { SIDE = 16, MOST = 12, TURN = 2 };
  if (isa->level != ISA_AVX512 || lanes != SIDE || n > MOST) return false;
  double loads = (double)(n + 1) / LOADS_A_CYCLE,
         start = (double)(TILE_START + 4 * SIDE) / (double)TYPICAL_K;
  return (double)((m + SIDE - 1) / SIDE) * (max2(loads, LATENCY) + TURN + start) <
         anfi_tile_cost(isa, lanes, m, n);
}

/* ---- AMX ---- */

/* A tile takes as many cycles as it has rows; B is laid out once for all rows, C comes and goes by
 * memory, and there is a configuration to load. */
enum { AMX_SIDE = 16, AMX_DEPTH = 64, AMX_LAY = 64, AMX_MOVE = 48, AMX_START = 400 };

bool anfi_tile_amx(const anfi_isa *isa, const anfi_gemm *g) {
  bool floats = g->c == ANF_TIR_f32 && g->a == ANF_TIR_bf16 && g->b == ANF_TIR_bf16 && !isa->exact;
  if (!isa->amx || (g->c != ANF_TIR_s32 && !floats) || g->list || g->flags & (GEMM_TA | GEMM_VNNI))
    return false;
  if (!g->known[GEMM_K] || !g->known[GEMM_NUM]) return false;
  int64_t k = g->size[GEMM_K], num = g->size[GEMM_NUM], depth = floats ? AMX_DEPTH / 2 : AMX_DEPTH;
  if (k < 1 || num < 1) return false;
  uint32_t steps = anfi_dot_group(isa, g);
  double down = (double)((g->m + AMX_SIDE - 1) / AMX_SIDE),
         across = (double)((g->n + AMX_SIDE - 1) / AMX_SIDE),
         deep = (double)num * (double)((k + depth - 1) / depth),
         vectors = (double)num * (double)k / (steps ? steps : 1) *
                   anfi_tile_cost(isa, AMX_SIDE, (uint64_t)g->m, (uint64_t)g->n);
  return AMX_START + across * (deep * (AMX_SIDE * down + AMX_LAY) + AMX_MOVE * down) < vectors;
}

/* ---- blocks ---- */

enum { K_BYTES = 3072, PAGE = 4096 };
enum { NEAR = 512, SMALL_B = 40 << 10 }; // bytes from row to row, of all of B
enum { LAID_OUT_VECS = 6 };
enum { FEW_STEPS = 64 }; // of K: a line of the first cache each stays there

static uint64_t parts(uint64_t n, uint64_t most) { return (n + most - 1) / most; }
static uint64_t even(uint64_t n, uint64_t most) { // equal parts of at most `most`
  return n ? (n + parts(n, most) - 1) / parts(n, most) : 0;
}

/* Few rows read B where it lies, and once: does it come from behind the second cache, half a page a row or
 * more? Of bytes, putting words together takes longer. */
static bool is_far(const anfi_isa *isa, const anfi_product *p) {
  enum { FEW = 12 };
  return p->m <= FEW && !p->tb && !p->prepacked && p->bytes > 1 && p->ldb * p->bytes >= PAGE / 2 &&
         p->k * p->n * p->bytes > isa->l2 / 2;
}

/* How many of a panel's rows stay in the second cache where they lie? They are on many pages, and fall on
 * the fewer places the greater the power of two is that they are apart. The limits are measured. */
static uint64_t staying(const anfi_isa *isa, const anfi_product *p, uint64_t nr) {
  enum { MOST_PAGES = 512 };
  uint64_t apart = p->ldb * p->bytes, width = nr * p->bytes, step = apart & (0 - apart);
  if (step > PAGE) step = PAGE;
  uint64_t places = 2 * (isa->l2 / (step > width ? step : width)), room = isa->l2 / 5 / width,
           most = MOST_PAGES * PAGE / (apart < PAGE ? apart : PAGE);
  if (places < most) most = places;
  return room < most ? room : most;
}

/* Blocks of K that stay may be so short where rows of A are too few for copying B to be worth it: fewer if
 * a row of B is longer than a page. */
static uint64_t least_staying(const anfi_product *p, const anfi_blocks *b) {
  enum { FEW = 256, FEW_FAR = 32, LEAST = 256 };
  bool few = p->m <= (p->ldb * p->bytes <= PAGE ? FEW : FEW_FAR);
  return few && b->kb > LEAST ? LEAST : b->kb;
}

static void cut_rows(const anfi_isa *isa, const anfi_product *p, uint64_t rows, anfi_blocks *b) {
  uint32_t dots = p->bytes < p->sum ? 2 : 1;
  uint64_t most = b->kb ? dots * (isa->l2 / 8) / (b->kb * p->bytes) / rows * rows : p->m;
  b->mb = even(p->m, most > rows ? most : rows);
  if (b->mb < p->m) b->mb = (b->mb + rows - 1) / rows * rows;
}

/* Too few for copying A. */
static bool few_panels(const anfi_product *p, uint64_t nr) { return p->n > nr && p->n <= 4 * nr; }

/* `across`: a step's values of A are far from the next ones, so almost as many are read as a line has. */
static anfi_tile tile_for(const anfi_isa *isa, const anfi_product *p, uint32_t lanes,
                          bool *across) {
  anfi_tile t = {1, 1};
  if (p->m && p->n) pick(isa, lanes, p->m, p->n, is_far(isa, p), &t);
  bool tiles = isa->amx && p->bytes < p->sum && (p->bytes == 1 || !isa->exact);
  if (tiles && p->m > AMX_SIDE) t = (anfi_tile){2 * AMX_SIDE, 4};
  if (!p->ta && p->bytes == p->sum && anfi_tile_is_transposed(isa, lanes, p->m, p->n))
    t.rows = lanes;
  *across = p->ta && p->bytes == p->sum && p->lda * p->bytes >= PAGE / 2 && p->m > WAYS &&
            few_panels(p, (uint64_t)t.vecs * lanes);
  if (*across) t = (anfi_tile){anfi_tile_rows(isa, p->m, 2), 2};
  // a few rows read long rows of B well, but of a panel no more than these vectors
  if (p->prepacked && t.vecs > LAID_OUT_VECS)
    t = (anfi_tile){anfi_tile_rows(isa, p->m, LAID_OUT_VECS), LAID_OUT_VECS};
  return t;
}

/* A tile starts and ends once in a block of K, which is so long that the tile's rows of A take half of
 * the first cache; a group of panels takes half of the second, a block of A an eighth. B is copied
 * where each panel is read by more than a few tiles, unless it stays in a cache as it is, or is not
 * stored by rows, or few rows of A read it by short blocks of K that stay; A where its rows are so many and so far
 * apart that they fall on the same places of the first cache, or if a tile would read a few values of a
 * line in each of many steps. */
anfi_blocks anfi_blocks_pick(const anfi_isa *isa, const anfi_product *p) {
  uint32_t lanes = isa->bytes / p->sum;
  bool across = false;
  anfi_tile t = tile_for(isa, p, lanes, &across);
  anfi_blocks b = {.nr = (uint64_t)t.vecs * lanes};
  uint32_t dots = p->bytes < p->sum ? 2 : 1; // several steps at once leave more time to move blocks
  uint64_t row = isa->l1 / 2 / t.rows, least = dots * K_BYTES;
  b.kb = even(p->k, (row > least ? row : least) / p->bytes);
  if (p->bytes < p->sum && b.kb < p->k) b.kb = (b.kb + AMX_DEPTH - 1) / AMX_DEPTH * AMX_DEPTH;
  bool plain = !p->tb && !p->prepacked, close;
  if (p->bytes == p->sum) {
    uint64_t stay = staying(isa, p, b.nr);
    close = stay >= least_staying(p, &b);
    if (plain && close && p->m > t.rows && p->n > b.nr && stay < b.kb) b.kb = even(p->k, stay);
  } else close = p->ldb * p->bytes < NEAR && p->k * p->ldb * p->bytes <= SMALL_B;
  cut_rows(isa, p, t.rows, &b);
  uint64_t panel = b.nr * (b.kb ? b.kb : 1) * p->bytes, most = isa->l2 / 2 / panel;
  b.group = even(p->n / b.nr, most ? most : 1);
  b.pack_b = p->tb || (p->m > 4 * (uint64_t)t.rows && p->n > b.nr && !close);
  bool far = p->ta ? p->lda * p->bytes >= PAGE / 2 || b.kb > FEW_STEPS
                   : t.rows > WAYS / 2 && p->lda * p->bytes % PAGE == 0;
  b.pack_a = far && !across && p->n > 4 * b.nr;
  return b;
}
