// SPDX-License-Identifier: Apache-2.0
/* The parts of anfora train: cmd_train.c the loop, data.c batches of arrays, model.c
 * programs for models of other formats, ranks.c a run for each rank, show.c output and the curve. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli/cli.h"

/* ---- data.c ---- */

/* An input of a step: rows of an array, a batch of them at a time. */
typedef struct train_input {
  const anf_value *data;
  const anf_type *type; // of a batch
  char *batch;
  size_t row; // bytes
} train_input;
typedef struct train_set {
  train_input *in;
  size_t n, rows, batch;
  uint32_t *order; // of the rows, in this epoch
} train_set;

/* The arrays of a .npz file; of any other file its bytes as the array `text`, cut into rows that begin
 * `window` - 1 apart, the last tenth of them as `text_test`. NULL with an error; released with the
 * frame. */
anf_value *train_data(cli *c, const char *path, size_t window);

/* The arrays NAME or, for `suffix`, NAMEsuffix of the data for the parameters of g after the first;
 * batch 0: all rows at once. False with an error. */
bool train_find(cli *c, const anf_value *data, anf_graph *g, const char *suffix, size_t batch,
                train_set *out);
bool train_bind(cli *c, anf_step *s, train_set *set);
void train_shuffle(train_set *set, uint64_t seed, uint64_t epoch);
/* Puts the batch that begins at `row` of the order where the step reads it. */
void train_fill(train_set *set, size_t row);

/* ---- ranks.c ---- */

/* Without --ranks: false, said as usage, with an option of ranks, or if a launcher started several processes: each would train alone. */
bool train_is_alone(const cli *c);
/* Runs the command once for each rank that belongs to this process, on a thread of its own. The exit status. */
int train_on_ranks(cli *c);
/* Waits until all ranks are here: none writes a checkpoint that another one still reads. False with an error. */
bool train_meet(cli *c);
/* All ranks end after the same step: `asked` becomes its mean over the ranks while the step runs. */
typedef struct train_ending {
  float asked; // was this rank asked to end; then, the part of the ranks that were
  int64_t ticket;
} train_ending;
void train_ask(const cli *c, train_ending *e, bool asked);
/* After the step; `good`: it did not fail. False if the ranks do not answer. */
bool train_answer(const cli *c, train_ending *e, bool good);

/* ---- model.c ---- */

/* A program that trains the model, if it is one with net(params, x..) and params(), and no program for training itself; else
 * `model`. NULL with an error. */
anf_module *train_model(cli *c, const char *file, anf_module *model);

/* ---- show.c ---- */

typedef struct train_log {
  /* progress */
  bool terminal;
  size_t nstep, done;
  uint64_t start, shown; // ns
  /* history */
  anfi_arena *arena;        // of the fields below
  ANFI_VEC(double) loss;    // of each step
  ANFI_VEC(double) test;    // accuracy (or loss) on held-out data, by epoch
  ANFI_VEC(size_t) test_at; // after which step
  double smooth_loss, smooth_accuracy;
  const char *test_name;
} train_log;
void train_show(train_log *log, double loss, double accuracy, bool last);
/* The losses, and the results of held-out data, as a drawing. */
void train_curve(const train_log *log, const char *title, anf_text *out);

#endif
