// SPDX-License-Identifier: Apache-2.0
/* The cost model: which register tile and which cache blocks take the fewest cycles.
 *
 *   64 x 64 x 64, AVX-512      tiles of 6 rows by 4 vectors (64 columns), one block
 *   1024 x 768 x 3072          the same tiles; blocks of 60 rows and 1024 steps of K, groups of 4 packed panels
 *
 * A register tile of R rows and V vectors does R * V multiply-adds for each step of K and loads R + V values; the sums
 * of one place wait for each other (latency). A step costs the greatest of the three, and every tile has a start (Low
 * et al., Analytical Modeling is Enough for High-Performance BLIS). A's rows are R streams through the caches and B's
 * vectors another: among tiles with about as many sums the square one disturbs them least. Rows are balanced:
 * ceil(m / R) tiles of nearly equal height. A tile whose sums, vectors of B and one value of A do not fit the registers
 * is never made: spilling halves its speed.
 *
 * Each measured constant names the rows of bench/bench_gemm.c (M x N x K) whose plan it decides. */
#include "backend/kernel/kernel.h"

static const double FMA_A_CYCLE = 2, LOADS_A_CYCLE = 2, LATENCY = 4, TYPICAL_K = 256;
enum { WAYS = 12 }; // rows of a tile at most: more lines that are pages apart evict each other
enum { TILE_START = 16, STREAM = 4 }; // cycles for TYPICAL_K steps; of a row or vector

static const double UNEVEN =
    1.005; // a narrower last panel is a kernel of its own: 33 x 65 x 129, 512 x 512 x 512 (AVX2)
static const double LOW =
    1.005;           // fewer than six rows for each load of B: 256 x 768 x 768 (AVX-512)
enum { SQUARE = 4 }; // vectors of a tile of six rows

static bool fits(const anfi_isa *isa, uint32_t rows, uint32_t vecs) {
  uint32_t b = rows == 1 ? 1 : vecs; // a single row reads B from memory
  return vecs <= TILE_VECS && rows <= WAYS && rows * vecs + b + 1 <= isa->regs;
}

static double max2(double a, double b) { return a > b ? a : b; }

/* Cycles for a row of B that is pages away from the next in a shared cache, and for each of its vectors:
 * 4 x 1024 x 1024. */
static const double FAR_ROW = 7, FAR_VEC = 1.7;

/* Cycles a step of K of one tile, with its share of the start. */
static double tile_cost(uint64_t rows, uint64_t vecs, bool far) {
  double work = (double)(rows * vecs) / FMA_A_CYCLE,
         loads = (double)(rows == 1 ? 1 + vecs : rows + vecs) / LOADS_A_CYCLE,
         wait = far ? FAR_ROW + FAR_VEC * (double)vecs : LATENCY;
  return max2(max2(work, loads), wait) +
         (double)(TILE_START + rows * vecs + STREAM * (rows + vecs)) / TYPICAL_K;
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

static uint32_t cuts_of_panel(const anfi_isa *isa, uint32_t lanes, int64_t m, uint32_t columns,
                              anfi_cut *out) {
  int64_t rows = anfi_tile_rows(isa, (uint64_t)m, (columns + lanes - 1) / lanes),
          count = (m + rows - 1) / rows, q = m / count, more = m % count;
  uint32_t n = 0;
  if (more) out[n++] = (anfi_cut){(uint32_t)q + 1, columns, 0, more};
  out[n++] = (anfi_cut){(uint32_t)q, columns, more * (q + 1), count - more};
  return n;
}

uint32_t anfi_gemm_cuts(const anfi_isa *isa, uint32_t lanes, const anfi_gemm *k, anfi_cut *out) {
  uint32_t width = anfi_tile_pick(isa, lanes, (uint64_t)k->m, (uint64_t)k->n).vecs * lanes,
           rest = (uint32_t)(k->n % width), n = 0;
  if (k->n >= width) n = cuts_of_panel(isa, lanes, k->m, width, out);
  return rest ? n + cuts_of_panel(isa, lanes, k->m, rest, out + n) : n;
}

double anfi_tile_cost(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n) {
  anfi_tile t;
  return m && n ? pick(isa, lanes, m, n, false, &t) : 0;
}

/* Squares of A are transposed beside the multiplications: each of 16 columns takes more cycles, and so does transposing
 * the sums at the end. */
bool anfi_tile_is_transposed(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n) {
  enum { SIDE = 16, MOST = 12 };
  static const double TURN = 2;
  if (!anfi_isa_has(isa, CPU_avx512) || lanes != SIDE || n > MOST) return false;
  double loads = (double)(n + 1) / LOADS_A_CYCLE,
         start = (double)(TILE_START + 4 * SIDE) / TYPICAL_K;
  return (double)((m + SIDE - 1) / SIDE) * (max2(loads, LATENCY) + TURN + start) <
         anfi_tile_cost(isa, lanes, m, n);
}

/* ---- AMX ---- */

/* A tile takes as many cycles as it has rows; B is packed once for all rows, C is loaded and stored, and there is a
 * configuration to load. */
enum { AMX_SIDE = 16, AMX_DEPTH = 64 };
static const double AMX_PACK = 64, AMX_MOVE = 48, AMX_START = 400; // cycles

bool anfi_tile_amx(const anfi_isa *isa, const anfi_gemm *g) {
  const anfi_dot_info *d = anfi_dot_of(g->a, g->b, g->c);
  if (!anfi_dot_has_tile(isa, d) || d->c != g->c || g->list || g->flags & (GEMM_TA | GEMM_VNNI))
    return false;
  if (!g->known[GEMM_K] || !g->known[GEMM_NUM]) return false;
  int64_t k = g->size[GEMM_K], num = g->size[GEMM_NUM], depth = AMX_DEPTH / 4 * d->group;
  if (k < 1 || num < 1) return false;
  uint32_t steps = anfi_dot_group(isa, g);
  double down = (double)((g->m + AMX_SIDE - 1) / AMX_SIDE),
         across = (double)((g->n + AMX_SIDE - 1) / AMX_SIDE),
         deep = (double)num * (double)((k + depth - 1) / depth),
         vectors = (double)num * (double)k / (steps ? steps : 1) *
                   anfi_tile_cost(isa, AMX_SIDE, (uint64_t)g->m, (uint64_t)g->n);
  return AMX_START + across * (deep * ((double)AMX_SIDE * down + AMX_PACK) + AMX_MOVE * down) <
         vectors;
}

/* ---- blocks ---- */

enum { K_BYTES = 3072, PAGE = 4096 };
enum { NEAR = 512, SMALL_B = 40 << 10 }; // bytes from row to row, of all of B
enum { PREPACKED_VECS = 6 };
enum { FEW_STEPS = 64 }; // of K: a line of the first cache each stays there

static uint64_t parts(uint64_t n, uint64_t most) { return (n + most - 1) / most; }
static uint64_t even(uint64_t n, uint64_t most) { // equal parts of at most `most`
  return n ? (n + parts(n, most) - 1) / parts(n, most) : 0;
}

/* Few rows read B as stored, once: does it come from behind the L2 cache, with rows half a page apart or more? With
 * bytes, interleaving groups of k takes longer than the load. */
static bool is_far(const anfi_isa *isa, const anfi_product *p) {
  enum { FEW = 12 };
  return p->m <= FEW && !p->tb && !p->prepacked && p->bytes > 1 && p->ldb * p->bytes >= PAGE / 2 &&
         p->k * p->n * p->bytes > isa->l2 / 2;
}

/* How many rows of an unpacked panel stay in the L2 cache? They are on many pages, and map to the fewer sets the
 * greater the power of two in their stride is (conflict misses). The limits are measured. */
static uint64_t staying(const anfi_isa *isa, const anfi_product *p, uint64_t nr) {
  enum { MOST_PAGES = 512 };
  uint64_t apart = p->ldb * p->bytes, width = nr * p->bytes, step = apart & (0 - apart);
  if (step > PAGE) step = PAGE;
  uint64_t sets = 2 * (isa->l2 / (step > width ? step : width)), fits = isa->l2 / 5 / width,
           most = MOST_PAGES * PAGE / (apart < PAGE ? apart : PAGE);
  if (sets < most) most = sets;
  return fits < most ? fits : most;
}

/* Does a tile's step take so long that it hides reading a row of B that is far from the one before, behind the L1 cache and on
 * another page? Tiles of AVX-512 do (12 cycles and more), those of AVX2 (6) do not: 512 x 512 x 512, 256 x 768 x 768 (AVX2). */
static bool hides_far_rows(const anfi_tile *t) {
  static const double CYCLES = 8;
  return t->rows * t->vecs >= CYCLES * FMA_A_CYCLE;
}

/* Where too few rows of A read B for packing to be worth it, blocks of K may be so short that unpacked panels stay in
 * cache; the rows must be fewer if a row of B is longer than a page. */
static uint64_t least_staying(const anfi_product *p, const anfi_blocks *b) {
  enum { FEW = 256, FEW_FAR = 32, LEAST = 256 };
  bool few = p->m <= (p->ldb * p->bytes <= PAGE ? FEW : FEW_FAR);
  return few && b->kb > LEAST ? LEAST : b->kb;
}

/* Of an element of A as kernels read it. */
static uint64_t bytes_of_a(const anfi_product *p) { return p->wide_a ? 2 * p->bytes : p->bytes; }

static void cut_rows(const anfi_isa *isa, const anfi_product *p, uint64_t rows, anfi_blocks *b) {
  uint32_t dots = p->bytes < p->sum ? 2 : 1;
  uint64_t most = b->kb ? dots * (isa->l2 / 8) / (b->kb * bytes_of_a(p)) / rows * rows : p->m;
  b->mb = even(p->m, most > rows ? most : rows);
  if (b->mb < p->m) b->mb = (b->mb + rows - 1) / rows * rows;
}

/* Too few panels for packing A. */
static bool few_panels(const anfi_product *p, uint64_t nr) { return p->n > nr && p->n <= 4 * nr; }

/* Are the lines of a transposed A all in the same sets of L1? They are gone before the next tile reads the rest of them. */
static bool is_in_few_sets(const anfi_product *p) {
  return p->ta && p->bytes == p->sum && p->lda * p->bytes % PAGE == 0 && p->k > WAYS && p->m > WAYS;
}

/* `across`: the values of A for a step are a row apart, so a tile reads almost all of each cache line. */
static anfi_tile tile_for(const anfi_isa *isa, const anfi_product *p, uint32_t lanes,
                          bool *across) {
  anfi_tile t = {1, 1};
  if (p->m && p->n) pick(isa, lanes, p->m, p->n, is_far(isa, p), &t);
  bool tiles = anfi_isa_has(isa, CPU_amx) && p->bytes < p->sum && (p->bytes == 1 || !isa->exact);
  if (tiles && p->m > AMX_SIDE) t = (anfi_tile){2 * AMX_SIDE, 4};
  if (!p->ta && p->bytes == p->sum && anfi_tile_is_transposed(isa, lanes, p->m, p->n))
    t.rows = lanes;
  *across = p->ta && p->bytes == p->sum && p->lda * p->bytes >= PAGE / 2 && p->m > WAYS &&
            !is_in_few_sets(p) && few_panels(p, (uint64_t)t.vecs * lanes);
  if (*across) t = (anfi_tile){anfi_tile_rows(isa, p->m, 2), 2};
  // a few rows read long rows of B well, but of a panel no more than these vectors
  if (p->prepacked && t.vecs > PREPACKED_VECS)
    t = (anfi_tile){anfi_tile_rows(isa, p->m, PREPACKED_VECS), PREPACKED_VECS};
  return t;
}

/* A tile starts and ends once in a block of K, which is so long that the tile's rows of A take half of the L1 cache; a
 * group of panels takes half of the L2 cache, a block of A an eighth. B is packed if it is transposed, or if more
 * than a few tiles read each panel and unpacked panels do not stay in cache. A is packed if its rows are so many and so
 * far apart that they map to the same sets of L1, or if a tile would read a few values of a line in many steps; a transposed one for two panels
 * already, if those lines map to the same sets. */
anfi_blocks anfi_blocks_pick(const anfi_isa *isa, const anfi_product *p) {
  uint32_t lanes = isa->bytes / p->sum;
  bool across = false;
  anfi_isa one_less = *isa;
  if (p->adds) one_less.regs--, isa = &one_less;
  anfi_tile t = tile_for(isa, p, lanes, &across);
  anfi_blocks b = {.nr = (uint64_t)t.vecs * lanes};
  uint32_t dots = p->bytes < p->sum ? 2 : 1; // several steps at once leave more time to move blocks
  uint64_t row = isa->l1 / 2 / t.rows, least = dots * K_BYTES;
  b.kb = even(p->k, (row > least ? row : least) / bytes_of_a(p));
  if (p->bytes < p->sum && b.kb < p->k) b.kb = (b.kb + AMX_DEPTH - 1) / AMX_DEPTH * AMX_DEPTH;
  bool plain = !p->tb && !p->prepacked, hides = hides_far_rows(&t), close;
  if (p->bytes == p->sum) {
    uint64_t stay = staying(isa, p, b.nr);
    close = stay >= least_staying(p, &b) && (hides || p->ldb * p->bytes < PAGE / 4);
    if (plain && close && p->m > t.rows && p->n > b.nr && stay < b.kb) b.kb = even(p->k, stay);
  } else close = p->ldb * p->bytes < NEAR && p->k * p->ldb * p->bytes <= SMALL_B;
  cut_rows(isa, p, t.rows, &b);
  uint64_t panel = b.nr * (b.kb ? b.kb : 1) * p->bytes, most = isa->l2 / 2 / panel;
  b.group = even(p->n / b.nr, most ? most : 1);
  uint64_t few = (hides || p->bytes < p->sum ? 4 : 2) *
                 (uint64_t)t.rows; // rows of A for which B is not packed
  b.pack_b = p->tb || (p->m > few && p->n > b.nr && !close);
  uint64_t ways = isa->l1 / PAGE; // a page spans all sets
  bool far = p->ta ? p->lda * p->bytes >= PAGE / 2 || b.kb > FEW_STEPS
                   : t.rows > ways / 2 && p->lda * p->bytes % PAGE == 0;
  b.pack_a = far && !across && p->n > (is_in_few_sets(p) ? 1 : 4) * b.nr;
  return b;
}
