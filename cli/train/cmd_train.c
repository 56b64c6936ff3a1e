// SPDX-License-Identifier: Apache-2.0
/* anfora train: runs a step function over the rows of arrays, epoch by epoch.
 *   anfora train mlp.anf --data digits.npz   ->   epoch 1  loss 0.4213  held out: loss 0.3102  .. steps/s, and so on
 * The program has init(key), which makes the state, and step(state, x, ..), which gives (state, outputs); perhaps
 * test(state, x, ..), which gives outputs. Parameters after the state are the arrays of the data by name; names of
 * those of test end in _test. */
#define _XOPEN_SOURCE 700 // sigaction, SA_RESETHAND
#include "cli/train/train.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/ir.h"

enum { SHARD_LEAST = 4096 }; // bytes of a tensor that --shard cuts: less is not worth a message

typedef struct training {
  /* program */
  anf_module *m;
  anf_graph *init, *step, *test; // test: or NULL
  anf_value *data;
  anf_value **arg; // of the step
  /* steps */
  anf_step *s, *t;
  /* data, log */
  train_set rows, held;
  train_log log;
  /* options */
  uint64_t steps, epochs, batch, seed, threads, window, save_every;
  anf_step_opts o;
  anf_exec_opts how; // its engine
  /* reports */
  double compile_ms;
  anf_trace *trace;
  json_t *epoch_list; // of --json, or NULL
  train_ending ending;
  /* ranks */
  int32_t me;             // this rank
  anf_comm_curve curve;   // of its link, if it was measured
  anf_comm_counts before; // the steps
} training;

static void free_json(void *j) { json_decref((json_t *)j); }
static void free_step(void *s) { anf_step_free((anf_step *)s); }

/* ---- making ---- */

static bool numbers(const cli *c, training *t) {
  t->batch = 64;
  t->epochs = 10;
  t->window = 49;
  return cli_number(c, OPT_STEPS, UINT32_MAX, &t->steps) &&
         cli_number(c, OPT_EPOCHS, UINT32_MAX, &t->epochs) &&
         cli_number(c, OPT_BATCH, UINT32_MAX, &t->batch) &&
         cli_number(c, OPT_WINDOW, 1 << 20, &t->window) &&
         cli_number(c, OPT_SAVE_EVERY, UINT32_MAX, &t->save_every) &&
         cli_number_or_0(c, OPT_SEED, INT64_MAX, &t->seed) &&
         cli_number(c, OPT_THREADS, 1024, &t->threads);
}

static bool load(cli *c, const char *file, anf_module **m) {
  return cli_load(c, file, m) == ANF_OK && (*m = train_model(c, file, *m)) != NULL;
}

static bool is_rate(const char *s) {
  char *end = NULL;
  return !s || (anfi_read_f64(s, &end) >= 0 && end != s && !*end);
}

static bool find_functions(cli *c, training *t) {
  uint64_t ranks = c->value[OPT_SPLIT] ? 1 : (uint64_t)anf_comm_ranks(c->comm);
  cli_target target = cli_split(c, c->arg[0]);
  if (!load(c, target.file, &t->m) || anf_verify(t->m, c->d) != ANF_OK) return false;
  const char *name = target.function ? target.function : "step";
  t->step = anf_module_find(t->m, name);
  t->init = anf_module_find(t->m, "init");
  t->test = anf_module_find(t->m, "test");
  const anf_type *rows = t->step && t->step->params.n > 1 ? t->step->params.at[1]->type : NULL;
  if (!c->value[OPT_BATCH] && rows && rows->kind == ANF_TYPE_TENSOR && rows->n && rows->dims[0] > 0)
    t->batch = (uint64_t)rows->dims[0] * ranks; // as many as the step is declared to take
  if (t->step && t->init && t->step->params.n > 1 && t->init->params.n < 2) return true;
  return anfi_fail(c->cx, anfi_nowhere(), ANF_E0020, target.file, name);
}

static bool make_state(cli *c, training *t) {
  anf_value *key = anf_value_tensor(c->cx, ANF_KEY, 0, NULL, &t->seed), *s = NULL;
  if (!key) anfi_throw_nomem(c->cx);
  anf_status st = anf_run(t->init, t->init->params.n, &key, NULL, c->d, &s);
  anf_value_release(key);
  if (st != ANF_OK) return false;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, s);
  t->arg[0] = s;
  return true;
}

static anf_value *zeros(cli *c, const anf_type *t) {
  anf_value *v = anfi_value_new_tensor(c->cx, t);
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static bool make_step(cli *c, training *t, anf_graph *g, size_t nstate, train_set *set,
                      const anf_step_opts *o, anf_step **out) {
  for (size_t i = 0; i < set->n; i++) t->arg[i + 1] = zeros(c, set->in[i].type);
  anf_status st = anf_step_new(g, nstate, set->n + 1, t->arg, o, c->d, out);
  if (st != ANF_OK) return false;
  anfi_defer(c->cx, ANFI_ALWAYS, free_step, *out);
  t->compile_ms += anf_step_compile_ms(*out);
  return train_bind(c, *out, set);
}

static bool is_sharded(const anf_step *s, size_t i) {
  anf_array a, whole;
  anf_step_leaf(s, ANF_STATE, i, &a);
  anf_step_whole(s, i, &whole);
  bool same = a.rank == whole.rank;
  for (size_t k = 0; same && k < a.rank; k++) same = a.dims[k] == whole.dims[k];
  return !same;
}

/* Do ranks hold parts of the state, which all of them gather together? */
static bool has_parts(const training *t) { return t->o.shard || t->o.params || t->o.split; }

/* The test reads the state where the step keeps it, but for sharded leaves. */
static bool share_state(cli *c, const training *t) {
  size_t n = anf_step_leaf_count(t->s, ANF_STATE);
  for (size_t i = 0; i < n; i++) {
    anf_array a;
    anf_step_leaf(t->s, ANF_STATE, i, &a);
    if (is_sharded(t->s, i)) continue;
    if (anf_step_bind(t->t, ANF_INPUT, i, &a, c->d) != ANF_OK) return false;
  }
  return true;
}

/* Gathers the state's parts before a test, on all ranks. */
static bool gather_state(cli *c, const training *t) {
  size_t n = has_parts(t) ? anf_step_leaf_count(t->s, ANF_STATE) : 0;
  for (size_t i = 0; i < n; i++) {
    anf_array a;
    if (!is_sharded(t->s, i)) continue;
    if (anf_step_leaf(t->t, ANF_INPUT, i, &a) != ANF_OK ||
        anf_step_read(t->s, ANF_STATE, i, &a, c->d) != ANF_OK)
      return false;
  }
  return true;
}

static bool make_test(cli *c, training *t) {
  anf_step_opts o = t->o;
  o.nan = ANF_NAN_IGNORE;
  o.comm = NULL; // each rank has the whole test
  o.shard = 0;
  o.params = ANF_PARAMS_WHOLE;
  o.split = NULL;
  o.trace = NULL;
  if (!t->test) return true;
  return train_find(c, t->data, t->test, "_test", 0, &t->held) &&
         make_step(c, t, t->test, 0, &t->held, &o, &t->t) && share_state(c, t);
}

static void show(void *user, const char *text, size_t len) { fwrite(text, 1, len, (FILE *)user); }

static bool options(const cli *c, training *t) {
  const char *backend = c->value[OPT_BACKEND] ? c->value[OPT_BACKEND] : "llvm";
  t->o = (anf_step_opts){.size = sizeof t->o, .threads = (uint32_t)t->threads, .print = show};
  t->o.user = c->value[OPT_JSON] ? stderr : stdout;
  t->o.comm = c->comm;
  t->o.shard = c->comm && c->value[OPT_SHARD] ? SHARD_LEAST : 0;
  if (c->comm && c->value[OPT_SHARD_PARAMS])
    t->o.params =
        strcmp(c->value[OPT_SHARD_PARAMS], "once") == 0 ? ANF_PARAMS_ONCE : ANF_PARAMS_AGAIN;
  t->o.split = c->comm ? c->value[OPT_SPLIT] : NULL;
  t->how = (anf_exec_opts){.size = sizeof t->how, .fast = c->value[OPT_FAST] != NULL};
  t->how.jit = cli_jit_options(c);
  t->how.tune = c->value[OPT_TUNE] != NULL;
  if (!anf_jit_kind_of(backend, &t->how.kind)) t->how.kind = ANF_JIT_INTERP; // "tir"
  t->o.exec = &t->how;
  t->o.nan = c->value[OPT_NAN] ? ANF_NAN_FIND : ANF_NAN_STOP;
  return strcmp(backend, "interp") != 0 || anfi_fail(c->cx, anfi_nowhere(), ANF_E0023);
}

static void explain_ranks(const cli *c, const training *t) {
  anf_text text = {.cx = c->cx};
  anf_step_exchanges(t->s, &text);
  fprintf(stderr, "%s", text.text ? text.text : "");
  anf_text_free(&text);
}

static void free_trace(void *t) { anf_trace_free((anf_trace *)t); }

/* All ranks are traced, as it takes time: else the others would wait for the one that is. */
static bool make_trace(cli *c, training *t) {
  if (!c->value[OPT_TRACE] && !c->value[OPT_TIME]) return true;
  if (!(t->trace = t->o.trace = anf_trace_new(c->cx, 0))) anfi_throw_nomem(c->cx);
  anfi_defer(c->cx, ANFI_ALWAYS, free_trace, t->trace);
  return true;
}

/* Of each batch this rank has its part, which is the step's batch; ranks that are one model have all of it. */
static bool take_part(cli *c, training *t) {
  uint64_t ranks = t->o.split ? 1 : (uint64_t)anf_comm_ranks(c->comm);
  if (t->batch % ranks) return anfi_fail(c->cx, anfi_nowhere(), ANF_E1385, t->batch, ranks);
  if (!train_find(c, t->data, t->step, "", (size_t)(t->batch / ranks), &t->rows)) return false;
  return t->rows.rows >= t->batch ||
         anfi_fail(c->cx, anfi_nowhere(), ANF_E0022, anf_node_name(t->step->params.at[1]),
                   t->rows.rows, (size_t)t->batch);
}

static bool make(cli *c, training *t) {
  anfi_arena *a = anfi_scratch(c->cx);
  if (!options(c, t) || !make_trace(c, t) || !find_functions(c, t)) return false;
  if (c->dump.folder) // known since the program was loaded
    t->how.stage = anf_dump_stage, t->how.stage_user = &c->dump;
  if (!(t->data = train_data(c, c->value[OPT_DATA], (size_t)t->window))) return false;
  size_t most = t->step->params.n;
  if (t->test && t->test->params.n > most) most = t->test->params.n;
  t->arg = ANFI_NEW_N(a, anf_value *, most + 1);
  return take_part(c, t) && make_state(c, t) &&
         make_step(c, t, t->step, 1, &t->rows, &t->o, &t->s) && make_test(c, t) &&
         (!c->value[OPT_RESUME] ||
          (anf_step_load(t->s, c->value[OPT_RESUME], c->d) == ANF_OK && train_meet(c)));
}

/* ---- the loop ---- */

static const char *percent(double accuracy, char *out, size_t n) {
  if (isnan(accuracy)) return "";
  snprintf(out, n, "  accuracy %.2f %%", 100.0 * accuracy);
  return out;
}

/* A line of the result of --json. */
static void note_epoch(cli *c, const training *t, uint64_t epoch, double rate, double loss,
                       double accuracy) {
  json_t *j = json_object();
  cli_json_put(c, j, "epoch", json_integer((json_int_t)epoch));
  cli_json_put(c, j, "loss", cli_json_real(c, t->log.smooth_loss));
  cli_json_put(c, j, "steps_per_s", cli_json_real(c, rate));
  if (t->t) cli_json_put(c, j, "test_loss", cli_json_real(c, loss));
  if (!isnan(accuracy)) cli_json_put(c, j, "test_accuracy", cli_json_real(c, accuracy));
  cli_json_append(c, t->epoch_list, j);
}

/* Held-out data after an epoch: the last printed number is the result. */
static bool test(cli *c, training *t, uint64_t epoch) {
  char words[40];
  double seconds = (double)(anfi_os_now_ns() - t->log.start) / 1e9,
         rate = (double)t->log.done / (seconds > 0 ? seconds : 1);
  if (!t->t) {
    if (t->epoch_list) note_epoch(c, t, epoch, rate, NAN, NAN);
    else if (!t->me)
      printf("epoch %llu  loss %.4f  %.0f steps/s\n", (unsigned long long)epoch, t->log.smooth_loss,
             rate);
    return true;
  }
  train_fill(&t->held, 0);
  if (!gather_state(c, t) || anf_step_run(t->t, c->d) != ANF_OK) return false;
  double loss = anf_step_number(t->t, "loss"), accuracy = anf_step_number(t->t, "accuracy");
  bool has = !isnan(accuracy);
  t->log.test_name = has ? "accuracy" : "loss";
  anfi_push(t->log.arena, &t->log.test, has ? accuracy : loss);
  anfi_push(t->log.arena, &t->log.test_at, t->log.done);
  if (t->log.terminal) fputs("\r\033[K", stderr);
  if (t->epoch_list) return note_epoch(c, t, epoch, rate, loss, accuracy), true;
  if (t->me) return true;
  printf("epoch %llu  loss %.4f  held out: loss %.4f%s  %.0f steps/s\n", (unsigned long long)epoch,
         t->log.smooth_loss, loss, percent(accuracy, words, sizeof words), rate);
  fflush(stdout);
  return true;
}

static volatile sig_atomic_t signalled; // which one, or 0

static bool one_step(cli *c, training *t) {
  train_ask(c, &t->ending, signalled != 0);
  bool good = anf_step_run(t->s, c->d) == ANF_OK;
  if (!train_answer(c, &t->ending, good)) return false;
  double loss = anf_step_number(t->s, "loss");
  t->log.done++;
  anfi_push(t->log.arena, &t->log.loss, loss);
  train_show(&t->log, loss, anf_step_number(t->s, "accuracy"), t->log.done == t->log.nstep);
  return true;
}

/* ---- requests to end ---- */

static void note_signal(int number) { signalled = number; }

/* Once: the second one ends the program as if nothing were noted. */
static void note_signals(void) {
  static const int all[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction a, was;
  memset(&a, 0, sizeof a);
  a.sa_handler = note_signal;
  a.sa_flags = (int)SA_RESETHAND;
  sigemptyset(&a.sa_mask);
  for (size_t i = 0; i < ANFI_LEN(all); i++)
    if (sigaction(all[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
      sigaction(all[i], &a, NULL); // nohup
}

static bool save(const cli *c, const training *t) {
  const char *path = c->value[OPT_SAVE];
  return (c->value[OPT_SAVE_PARTS] ? anf_step_save_parts(t->s, path, 0, NULL, c->d)
                                   : anf_step_save(t->s, path, c->d)) == ANF_OK;
}

static bool save_at(const cli *c, const training *t, uint64_t done) {
  bool due = t->save_every && done % t->save_every == 0 && (!t->me || has_parts(t));
  return !due || save(c, t);
}

/* With other ranks: as all of them know it. */
static bool asked_to_end(const cli *c, const training *t) {
  return c->comm ? t->ending.asked > 0 : signalled != 0;
}

/* Epochs are counted from the first run on, so that a resumed run goes on where it was. */
static bool train(cli *c, training *t) {
  size_t batch = (size_t)t->batch, each = t->rows.rows / batch,
         mine = t->o.split ? 0 : (size_t)t->me * t->rows.batch;
  uint64_t done = anf_step_count(t->s), end = t->steps ? t->steps : t->epochs * each;
  t->log.nstep = end > done ? (size_t)(end - done) : 0;
  t->log.terminal = isatty(STDERR_FILENO) && !t->me;
  t->log.start = anfi_os_now_ns();
  t->log.arena = anfi_scratch(c->cx);
  for (uint64_t at = done; at < end && !asked_to_end(c, t); at++) {
    if (at == done || at % each == 0) train_shuffle(&t->rows, t->seed, at / each);
    train_fill(&t->rows, (size_t)(at % each) * batch + mine);
    if (!one_step(c, t) || !save_at(c, t, at + 1)) return false;
    if (!asked_to_end(c, t) && ((at + 1) % each == 0 || at + 1 == end) &&
        !test(c, t, at / each + 1))
      return false;
  }
  return true;
}

/* ---- files ---- */

static bool write_file(cli *c, const char *path, anf_text *text, anf_status st) {
  bool good = st == ANF_OK && anfi_os_write(c->cx, path, text->text, text->len);
  if (good) fprintf(stderr, "wrote %s\n", path);
  anf_text_free(text);
  return good;
}

/* One stage of the program, as text and exactly. */
static bool write_stage(cli *c, anf_module *m, const char *stage) {
  anfi_arena *a = anfi_scratch(c->cx);
  const char *base = anfi_sprintf(a, "%s%s", c->value[OPT_GRAPHS], stage);
  anf_text ir = {.cx = c->cx}, dat = {.cx = c->cx}, dot = {.cx = c->cx};
  anf_view_opts v = {.size = sizeof v, .max_nodes = 400};
  return write_file(c, anfi_sprintf(a, "%s.ir", base), &ir, anf_print_ir(m, &ir)) &&
         write_file(c, anfi_sprintf(a, "%s.dat", base), &dat, anf_write_dat(m, &dat)) &&
         write_file(c, anfi_sprintf(a, "%s.dot", base), &dot, anf_write_dot(m, &v, &dot));
}

static const anf_type **step_types(cli *c, const training *t) {
  size_t n = t->step->params.n;
  const anf_type **types = ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, n + 1);
  for (size_t i = 1; i < n; i++) types[i] = t->rows.in[i - 1].type;
  if (!(types[0] = anf_value_type(c->cx, t->arg[0]))) anfi_throw_nomem(c->cx);
  return types;
}

/* The step for its types, with gradients written out and nothing else done to it. */
static bool write_gradient(cli *c, const training *t, anf_module *m, anf_graph *g) {
  return anf_specialise(m, g, g->params.n, step_types(c, t), c->d, &g) == ANF_OK &&
         anf_optimise(m, "loop (expand clean)*", NULL, c->d) == ANF_OK &&
         write_stage(c, m, "_gradient");
}

/* The step as it is compiled. */
static bool write_fused(cli *c, const training *t, anf_module *m, anf_graph *g) {
  const anf_type **types = step_types(c, t);
  anfi_only_public(g);
  for (size_t i = 0; i < g->params.n; i++) g->params.at[i]->type = types[i];
  return anf_optimise(m, "standard", NULL, c->d) == ANF_OK && write_stage(c, m, "_step");
}

/* A stage starts from the program as it was written. */
static bool from_file(cli *c, const training *t,
                      bool (*stage)(cli *, const training *, anf_module *, anf_graph *)) {
  anf_module *m = NULL;
  cli_target target = cli_split(c, c->arg[0]);
  return load(c, target.file, &m) && stage(c, t, m, anf_module_find(m, t->step->name->s));
}

static bool write_tir(cli *c, const training *t) {
  anf_text tir = {.cx = c->cx};
  anf_status st =
      anf_lowered_print(t->step, t->step->params.n, step_types(c, t), "tir", &t->how, c->d, &tir);
  const char *path = anfi_sprintf(anfi_scratch(c->cx), "%s_step.tir", c->value[OPT_GRAPHS]);
  return write_file(c, path, &tir, st);
}

/* How long an exchange of so many bytes took at the start. */
static void show_curve(const training *t) {
  const anf_comm_curve *k = &t->curve;
  if (!k->bucket_bytes) return;
  fprintf(stderr, "buckets of an eighth of what is left, at most %llu KB:",
          (unsigned long long)k->bucket_bytes >> 10);
  for (size_t i = 0; i < ANF_COMM_SIZES; i++)
    fprintf(stderr, "%s %llu KB in %.3f ms", i ? "," : "", (unsigned long long)k->bytes[i] >> 10,
            (double)k->ns[i] / 1e6);
  fputc('\n', stderr);
}

/* The share of some time that was not waited for, in percent. */
static double hidden(uint64_t busy, uint64_t waited) {
  return waited < busy ? 100 * (1 - (double)waited / (double)busy) : 0;
}

/* Time of this rank's exchanges, and how much of it the steps did not wait for. */
static void show_exchanges(const cli *c, const training *t) {
  anf_comm_counts n = {.size = sizeof n};
  double steps = t->log.nstep ? (double)t->log.nstep : 1;
  show_curve(t);
  anf_comm_count(c->comm, &n);
  n.bytes -= t->before.bytes;
  n.busy_ns -= t->before.busy_ns;
  n.waited_ns -= t->before.waited_ns;
  n.late_ns -= t->before.late_ns;
  n.late_waited_ns -= t->before.late_waited_ns;
  if (!n.busy_ns) return;
  uint64_t moving = n.busy_ns - n.late_ns, awaited = n.waited_ns - n.late_waited_ns;
  fprintf(stderr, "exchanges: %.0f bytes and %.3f ms a step, %.0f %% of it hidden; ",
          (double)n.bytes / steps, (double)n.busy_ns / 1e6 / steps, hidden(n.busy_ns, n.waited_ns));
  fprintf(stderr, "once all ranks had begun %.3f ms, %.0f %% of it hidden\n",
          (double)moving / 1e6 / steps, hidden(moving, awaited));
}

/* The times of a step, beside the peak rates of the machine. */
static bool write_table(cli *c, const training *t) {
  anf_text table = {.cx = c->cx};
  double gflops, gbytes;
  if (anf_machine_peak(c->cx, &gflops, &gbytes, c->d) != ANF_OK) return false;
  fprintf(stderr, "this machine, one thread: %.1f GFLOP/s, %.1f GB/s of copying\n", gflops, gbytes);
  bool good = anf_trace_print_table(t->trace, &table) == ANF_OK;
  if (good) fputs(table.text, stderr);
  anf_text_free(&table);
  return good;
}

static bool show_times(cli *c, const training *t) {
  anf_text trace = {.cx = c->cx};
  if (t->me) return true;
  if (c->value[OPT_TRACE] &&
      !write_file(c, c->value[OPT_TRACE], &trace, anf_trace_print(t->trace, &trace)))
    return false;
  if (c->value[OPT_TIME] && c->comm) show_exchanges(c, t);
  return !c->value[OPT_TIME] || write_table(c, t);
}

static bool finish(cli *c, training *t) {
  anf_text svg = {.cx = c->cx};
  if (!show_times(c, t)) return false;
  if (c->value[OPT_SAVE] && (!t->me || has_parts(t))) {
    if (!save(c, t)) return false;
    if (!t->me) fprintf(stderr, "wrote %s\n", c->value[OPT_SAVE]);
  }
  if (c->value[OPT_CURVE]) {
    train_curve(&t->log, c->arg[0], &svg);
    if (!write_file(c, c->value[OPT_CURVE], &svg, ANF_OK)) return false;
  }
  if (!c->value[OPT_GRAPHS]) return true;
  return write_stage(c, t->m, "") && from_file(c, t, write_gradient) &&
         from_file(c, t, write_fused) && write_tir(c, t);
}

static int result_json(cli *c, const training *t) {
  json_t *j = json_object();
  cli_json_put(c, j, "steps", json_integer((json_int_t)anf_step_count(t->s)));
  cli_json_put(c, j, "compile_ms", cli_json_real(c, t->compile_ms));
  cli_json_put(c, j, "epochs", json_incref(t->epoch_list));
  return cli_json_write(c, j);
}

/* Bytes of the state that this rank holds, and of all of it. */
static void show_state_bytes(const training *t) {
  size_t held = 0, all = 0;
  for (size_t i = 0; i < anf_step_leaf_count(t->s, ANF_STATE); i++) {
    anf_array a[2];
    size_t n[2];
    anf_step_leaf(t->s, ANF_STATE, i, &a[0]);
    anf_step_whole(t->s, i, &a[1]);
    for (int k = 0; k < 2; k++) {
      n[k] = anf_dtype_bytes(a[k].dtype);
      for (size_t j = 0; j < a[k].rank; j++) n[k] *= (size_t)a[k].dims[j];
    }
    held += n[0];
    all += n[1];
  }
  fprintf(stderr, "state %zu bytes on each rank, %zu in all\n", held, all);
}

int cmd_train(cli *c) {
  training *t = ANFI_NEW(anfi_scratch(c->cx), training);
  if (c->narg != 1) return cli_usage(c, "which program?");
  if (!c->value[OPT_DATA]) return cli_usage(c, "which data? --data FILE");
  t->me = anf_comm_rank(c->comm);
  if (!numbers(c, t)) return EXIT_USAGE;
  if (!is_rate(c->value[OPT_RATE])) return cli_usage(c, "--rate is no number from 0 on");
  if (t->window < 2) return cli_usage(c, "--window must be at least 2");
  if (!c->value[OPT_RANKS] && !train_is_alone(c)) return EXIT_USAGE;
  if (c->value[OPT_RANKS] && !c->comm) return train_on_ranks(c); // what is said above, is said once
  if (c->value[OPT_JSON] && !(t->epoch_list = json_array())) anfi_throw_nomem(c->cx);
  if (t->epoch_list) anfi_defer(c->cx, ANFI_ALWAYS, free_json, t->epoch_list);
  bool good = !c->value[OPT_SAVE] || t->me || anfi_os_may_write(c->cx, c->value[OPT_SAVE]);
  if (!t->me && anf_comm_note(c->comm))
    anfi_warn(c->cx, anfi_nowhere(), ANF_W0907, "MPI", anf_comm_note(c->comm));
  if (!c->value[OPT_BUCKET])
    anf_comm_tune(c->comm, &t->curve); // what fails here, fails in the first step
  good = good && make(c, t);
  t->before.size = sizeof t->before;
  anf_comm_count(c->comm, &t->before);
  if (good && c->value[OPT_SAVE]) note_signals();
  if (good && c->value[OPT_TIME] && !t->me) {
    fprintf(stderr, "compile %.1f ms\n", t->compile_ms);
    if (has_parts(t)) show_state_bytes(t);
  }
  if (good && c->value[OPT_EXPLAIN_RANKS] && !t->me) explain_ranks(c, t);
  good = good && train(c, t) && finish(c, t);
  if (good && asked_to_end(c, t)) {
    if (!t->me)
      fprintf(stderr, "ended by a signal after step %llu\n",
              (unsigned long long)anf_step_count(t->s));
    if (t->epoch_list) result_json(c, t);
    return 128 + (signalled ? (int)signalled : SIGTERM); // another rank has noted it
  }
  if (good && t->epoch_list) return result_json(c, t);
  if (good || !anf_diag_count(c->d)) return good ? EXIT_OK : cli_status(c, ANF_INTERNAL);
  const anf_diag_item *it = anf_diag_at(c->d, 0);
  return cli_status(c, it->status == ANF_OK ? ANF_INVALID : it->status);
}
