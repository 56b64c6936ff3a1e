// SPDX-License-Identifier: Apache-2.0
/* The header of a step that is compiled ahead of time: structures that hold its state and outputs, and
 * the function that runs it on them.
 *   step(p: {w: f32[2,3]}, x: f32[3])     typedef struct step_state { struct { float w[2][3]; } p; } step_state;
 *                                         anf_status step_run(anf_stream *, step_state *, const float *x, step_out *)
 * INVARIANT: members of structures stand in the order of the leaves; what has no elements has none. */
#include "step/build.h"

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)
#define OUT(...) anfi_putf(c->out, __VA_ARGS__)

typedef struct member {
  const anfi_leaf *leaf;
  const char *path; // in C: "p.w"; NULL: it has no elements
} member;
typedef ANFI_VEC(member) members;

typedef struct stephead {
  cgen *c;
  const char *name; // of the function
  const anfi_step_built *b;
  const anfi_lowered *low; // for all sizes
  /* what the structures and the function are made of */
  const char **size; // sizes of dims, which are the first parameters: their names in C
  size_t nsize;
  members state, in, out; // leaves, in order
  bool has_state, has_out;
  const char **param; // of inputs: their names in C
} stephead;

static bool has_members(const anfi_leaf *l, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (l[i].n) return true;
  return false;
}

/* ---- structures: types nest no deeper than inference allows, so walks may recurse ---- */

static void put_leaf(cgen *c, const anfi_leaf *l, const char *name) {
  uint64_t all = 1;
  OUT("%s %s", anfi_c_host_type(anfi_t_dt(l->elem)), name);
  for (uint32_t i = 0; i < l->type->n && !l->scalar; i++) {
    OUT("[%lld]", (long long)l->type->dims[i]);
    all *= (uint64_t)l->type->dims[i];
  }
  if (!l->scalar && all != l->n) OUT("[%llu]", (unsigned long long)(l->n / all)); // complex
  OUT(";\n");
}

/* Words of C and C++ get _1 appended. */
static const char *name_of(cgen *c, const char *s) {
  return anfi_c_local_name(c, anfi_c_is_cpp_word(s) ? SAY("%s_1", s) : s);
}

static const anfi_leaf *put_member(cgen *c, const anf_type *t, const anfi_leaf *l, const char *name,
                                   const char *path, int depth, members *to);

static const anfi_leaf *put_items(cgen *c, const anf_type *t, const anfi_leaf *l, const char *path,
                                  int depth, members *to) {
  anfi_map outer = c->local;
  anfi_map_init(&c->local, c->a);
  for (uint32_t i = 0; i < t->n; i++) {
    const char *name = t->kind == ANF_TYPE_RECORD ? name_of(c, t->names[i]->s) : SAY("_%u", i);
    l = put_member(c, t->items[i], l, name, SAY("%s%s%s", path, *path ? "." : "", name), depth, to);
  }
  c->local = outer;
  return l;
}

/* Returns the first leaf after. */
static const anfi_leaf *put_member(cgen *c, const anf_type *t, const anfi_leaf *l, const char *name,
                                   const char *path, int depth, members *to) {
  size_t n = anfi_leaf_count(t);
  if (!has_members(l, n)) {
    for (size_t i = 0; i < n; i++) anfi_push(c->a, to, ((member){&l[i], NULL}));
    return l + n;
  }
  OUT("%*s", 2 * depth, "");
  if (!anfi_is_nest(t)) {
    put_leaf(c, l, name);
    anfi_push(c->a, to, ((member){l, path}));
    return l + 1;
  }
  OUT("struct {\n");
  l = put_items(c, t, l, path, depth + 1, to);
  OUT("%*s} %s;\n", 2 * depth, "", name);
  return l;
}

/* ---- parts ---- */

static void put_state(stephead *h) {
  cgen *c = h->c;
  const anfi_leaf *l = h->low->param.at;
  size_t n = h->low->first[h->b->nstate];
  h->has_state = has_members(l, n);
  for (size_t i = 0; i < n && !h->has_state; i++)
    anfi_push(c->a, &h->state, ((member){&l[i], NULL}));
  if (!h->has_state) return;
  OUT("\n/* What it updates */\ntypedef struct %s_state {\n", h->name);
  anfi_map_init(&c->local, c->a);
  for (size_t i = 0; i < h->b->nstate; i++) {
    const char *name = name_of(c, anf_node_name(h->b->g->params.at[i]));
    l = put_member(c, h->b->param[i], l, name, name, 1, &h->state);
  }
  OUT("} %s_state;\n", h->name);
}

/* Records and tuples among the inputs are structures, too. */
static void put_inputs(stephead *h, tfunc f) {
  cgen *c = h->c;
  static const char *const ours[] = {"stream", "state", "out", "args", "status"};
  size_t n = h->b->g->params.n;
  h->param = ANFI_NEW_N(c->a, const char *, n + 1);
  anfi_map_init(&c->local, c->a);
  for (size_t i = 0; i < ANFI_LEN(ours); i++) anfi_c_local_name(c, ours[i]);
  h->size = ANFI_NEW_N(c->a, const char *, h->nsize + 1);
  for (size_t i = 0; i < h->nsize; i++) h->size[i] = name_of(c, f->param[i]->u.name->s);
  for (size_t i = h->b->nstate; i < n; i++) {
    const anf_type *t = h->b->param[i];
    const anfi_leaf *l = &h->low->param.at[h->low->first[i]];
    size_t many = anfi_leaf_count(t);
    const char *name = h->param[i] = name_of(c, anf_node_name(h->b->g->params.at[i]));
    bool made = anfi_is_nest(t) && has_members(l, many);
    if (made) {
      OUT("\ntypedef struct %s_%s {\n", h->name, name);
      put_items(c, t, l, "", 1, &h->in);
      OUT("} %s_%s;\n", h->name, name);
    }
    for (size_t k = 0; k < many && !made; k++)
      anfi_push(c->a, &h->in, ((member){&l[k], l[k].n ? name : NULL}));
  }
}

static void put_out(stephead *h) {
  cgen *c = h->c;
  size_t from = h->low->first[h->b->nstate], n = h->low->result.n - from;
  const anfi_leaf *l = h->low->result.at + from;
  h->has_out = has_members(l, n);
  for (size_t i = 0; i < n && !h->has_out; i++) anfi_push(c->a, &h->out, ((member){&l[i], NULL}));
  if (!h->has_out) return;
  OUT("\n/* Its outputs */\ntypedef struct %s_out {\n", h->name);
  anfi_map_init(&c->local, c->a);
  if (anfi_is_nest(h->b->out)) put_items(c, h->b->out, l, "", 1, &h->out);
  else put_member(c, h->b->out, l, "out", "out", 1, &h->out);
  OUT("} %s_out;\n", h->name);
}

/* ---- the function ---- */

static void put_params(stephead *h) {
  cgen *c = h->c;
  OUT("anf_stream *stream");
  for (size_t i = 0; i < h->nsize; i++) OUT(", int64_t %s", h->size[i]);
  if (h->has_state) OUT(", %s_state *state", h->name);
  for (size_t i = h->b->nstate; i < h->b->g->params.n; i++) {
    const anf_type *t = h->b->param[i];
    const anfi_leaf *l = &h->low->param.at[h->low->first[i]];
    if (!has_members(l, anfi_leaf_count(t))) continue;
    const char *elem = anfi_c_host_type(anfi_t_dt(l->elem));
    if (anfi_is_nest(t)) OUT(", const %s_%s *%s", h->name, h->param[i], h->param[i]);
    else if (l->scalar) OUT(", %s %s", elem, h->param[i]);
    else {
      OUT(", const %s *%s /* ", elem, h->param[i]);
      anfi_put_type(c->out, c->cx, t);
      OUT(" */");
    }
  }
  if (h->has_out) OUT(", %s_out *out", h->name);
}

static void put_slot(cgen *c, size_t at, const member *m, const char *base) {
  if (!m->path) OUT("  args[%zu].ptr = 0;\n", at);
  else if (m->leaf->scalar)
    OUT("  args[%zu].bits = 0;\n  args[%zu].%s = %s%s;\n", at, at,
        anfi_c_slot(anfi_t_dt(m->leaf->elem)), base, m->path);
  else OUT("  args[%zu].ptr = (void *)(uintptr_t)%s%s;\n", at, base, m->path);
}

/* Numbers of the state are updated when all went well, so the room for a new one is a variable. */
static size_t put_rooms(stephead *h, size_t at, size_t returned) {
  cgen *c = h->c;
  size_t nstate = h->low->first[h->b->nstate];
  for (size_t i = 0; i < nstate; i++)
    if (i != returned && h->state.at[i].leaf->scalar) {
      OUT("  %s next%zu;\n", anfi_c_host_type(anfi_t_dt(h->state.at[i].leaf->elem)), i);
      OUT("  args[%zu].ptr = &next%zu;\n", at++, i);
    }
  for (size_t i = 0; i < h->out.n; i++) {
    const member *m = &h->out.at[i];
    if (i + nstate == returned) continue;
    if (!m->path) OUT("  args[%zu].ptr = 0;\n", at++);
    else OUT("  args[%zu].ptr = %sout->%s;\n", at++, m->leaf->scalar ? "&" : "", m->path);
  }
  return at;
}

/* What the function gives by value, and the new numbers of the state */
static void put_results(stephead *h, size_t last, size_t returned) {
  cgen *c = h->c;
  size_t nstate = h->low->first[h->b->nstate];
  for (size_t i = 0; i < nstate + h->out.n; i++) {
    const member *m = i < nstate ? &h->state.at[i] : &h->out.at[i - nstate];
    const char *base = i < nstate ? "state->" : "out->";
    if (i == returned)
      OUT("  %s%s = args[%zu].%s;\n", base, m->path, last, anfi_c_slot(anfi_t_dt(m->leaf->elem)));
    else if (i < nstate && m->leaf->scalar) OUT("  state->%s = next%zu;\n", m->path, i);
  }
}

static void put_run(stephead *h, tfunc f, uint32_t flags) {
  cgen *c = h->c;
  size_t at = h->nsize, returned = anfi_returned_leaf(&h->low->result), input = h->b->nstate;
  OUT("\n/* One step. The state is as it was if the status is not ANF_OK; anf_stream_trap(stream) "
      "says "
      "why then.\n * stream NULL: the thread's own. */\n");
  OUT("static inline anf_status %s_run(", h->name);
  put_params(h);
  OUT(") {\n  anf_generic args[%u];\n", f->n + 1);
  for (size_t i = 0; i < at; i++) OUT("  args[%zu].s64 = %s;\n", i, h->size[i]);
  for (size_t i = 0; i < h->state.n; i++) put_slot(c, at++, &h->state.at[i], "state->");
  for (size_t i = 0; i < h->in.n; i++) {
    while (h->low->first[input + 1] <= at - h->nsize) input++;
    put_slot(c, at++, &h->in.at[i],
             anfi_is_nest(h->b->param[input]) ? SAY("%s->", h->param[input]) : "");
  }
  at = put_rooms(h, at, returned);
  OUT("  args[%zu].bits = 0;\n", at);
  OUT("  anf_status status = anf_object_enter(&%s_object, stream, %s_0wrapper, args, %u);\n",
      c->aot->name, h->name, flags);
  OUT("  if (status != ANF_OK) return status;\n");
  put_results(h, at, returned);
  OUT("  return status;\n}\n");
}

void anfi_step_put(cgen *c, tfunc f, uint32_t flags, const anfi_c_doc *doc) {
  stephead h = {.c = c,
                .name = f->name->s,
                .b = (const anfi_step_built *)doc->user,
                .low = (const anfi_lowered *)doc->low,
                .nsize = doc->nsize};
  put_state(&h);
  put_inputs(&h, f);
  put_out(&h);
  if (doc->before) OUT("\n%s", doc->before);
  OUT("\nvoid %s_0wrapper(anf_stream *stream, void *data, anf_generic *args);\n", h.name);
  put_run(&h, f, flags);
}
