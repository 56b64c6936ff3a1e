// SPDX-License-Identifier: Apache-2.0
/* The `anfora` command. main.c reads the command line by the table option.def and calls one
 * cmd_*.c; what those share is here. A command's function runs inside one frame (base/base.h), so
 * it may allocate from anfi_scratch and fail with anfi_fail; it returns the exit status. */
#ifndef CLI_H
#define CLI_H

#include "anfora/anfora.h"
#include "base/base.h"

typedef enum cli_option {
#define CLI_OPTION(id, commands, name, letter, argument, choices, help) OPT_##id,
#include "cli/option.def"
#undef CLI_OPTION
  OPT_COUNT
} cli_option;

enum { // exit statuses
  EXIT_OK = 0,
  EXIT_INPUT = 1,
  EXIT_USAGE = 2,
  EXIT_UNSUPPORTED = 3,
  EXIT_RESOURCES = 4,
  EXIT_BUG = 70
};

typedef struct cli cli;

typedef struct cli_command_info {
  const char *name, *arguments, *summary, *text;
  int (*run)(cli *);
} cli_command_info;

typedef struct cli_option_info {
  const char *commands, *name;
  char letter;
  const char *argument, *choices, *help;
} cli_option_info;

/* State of one run of the command. */
struct cli {
  /* context */
  anf_ctx *cx;
  anf_diag *d;
  anf_dump dump; // of stages, see cli_dump
  /* the command line */
  const cli_command_info *command; // NULL before it is known
  const char *value[OPT_COUNT];    // NULL: not given; "" for one that takes no argument
  const char **arg;                // words that are no options
  size_t narg, nplain;             // how many, and how many before --
  bool colour, wants_json;
  /* outcome, input */
  anf_status status; // of the first failure
  int write_errno;   // of standard output, or 0
  char *input;       // standard input, once it is read
  size_t input_len;
  anf_comm *comm; // this rank of several (train --ranks), or NULL
};

/* table.c: the table, and questions to it */
extern const cli_command_info cli_command[];
extern const size_t cli_command_count;
extern const cli_option_info cli_option_table[OPT_COUNT];
const cli_command_info *cli_find_command(const char *name);
/* The nearest command or, in a command, the nearest option (without dashes); NULL if none is near.
 */
const char *cli_nearest_command(const char *word);
const char *cli_nearest_option(const cli_command_info *in, const char *word);
bool cli_takes(const cli_command_info *command, cli_option o);
/* Must its argument be one of the words of `choices`? */
bool cli_is_choice(const cli_option_info *t);
/* Is `word` one of the space-separated words of `list`? */
bool cli_has_word(const char *list, const char *word);

/* help.c */
void cli_help(const cli_command_info *command, anf_text *out); // NULL: in general
void cli_man(anf_text *out);
void cli_bash(anf_text *out);
void cli_zsh(anf_text *out);
int cli_help_json(cli *c, const cli_command_info *command); // help_json.c; NULL: all

/* main.c: running */
/* All of the command: the exit status. */
int cli_main(int argc, char **argv);
/* Runs the command in a context of its own, c->cx, with its findings in c->d. The exit status. */
int cli_begin(cli *c);
/* Prints the findings if `tells`, and frees what cli_begin made. */
void cli_end(cli *c, int status, bool tells);

/* main.c: ending */
/* Wrong use: says so on standard error, with a pointer to the help. Always EXIT_USAGE. */
int cli_usage(const cli *c, const char *fmt, ...) ANFI_PRINTF(2, 3);
/* The exit status for a status of the library, which is remembered. */
int cli_status(cli *c, anf_status st);
/* Writes text to standard output, or to the file of --output. */
int cli_write(cli *c, const char *text, size_t len);
/* The end of a command whose result is a text: written if `st` is ANF_OK, freed in any case. */
int cli_finish(cli *c, anf_status st, anf_text *t);
void cli_put(cli *c, const char *text, size_t len); // to standard output
/* The number that an option has, from 1, or from 0, to `max`; `*out` stays as it is if the option is
 * not given. False after a message. */
bool cli_number(const cli *c, cli_option o, uint64_t max, uint64_t *out);
bool cli_number_or_0(const cli *c, cli_option o, uint64_t max, uint64_t *out);

/* load.c: files and functions */
typedef struct cli_target {
  const char *file, *function; // function NULL: not said
} cli_target;
cli_target cli_split(const cli *c, const char *spec);
/* Does the word name a function of a file, where a command takes whole files? */
bool cli_names_function(const cli *c, const char *spec);
/* Reads standard input into c->input, which lives as long as the command's frame. */
bool cli_read_input(cli *c);
/* Name of a file in messages: "<stdin>" for "-". */
static inline const char *cli_source(const char *file) {
  return strcmp(file, "-") == 0 ? "<stdin>" : file;
}
/* &c->dump if --dump or ANFORA_DUMP asks for stages to be dumped, else NULL. */
anf_dump *cli_dump(cli *c);
/* As .ir, with places if --places is given. */
anf_status cli_print_ir(const cli *c, anf_module *m, anf_text *out);
/* Reads a file, and dumps it as "parse". The module is freed with the frame. */
anf_status cli_load(cli *c, const char *file, anf_module **m);
/* The function of that name; if none is said: main, else the only one that is there to be called.
 * NULL with a diagnostic. */
anf_graph *cli_function(cli *c, anf_module *m, cli_target t);
/* Passes keep `f`, and `other` unless it is NULL; the rest of the program only as they use it. */
void cli_hide_others(anf_module *m, const anf_graph *f, const anf_graph *other);

/* load.c: the types of --sig, as many as g has parameters */
/* Declares parameters of g to be of these types, as if they were written in the program. */
anf_status cli_declare(cli *c, anf_graph *g, const char *sig);
/* The types that g is compiled for: of --sig, or as its parameters declare them. */
anf_status cli_types(cli *c, anf_graph *g, const anf_type **types);
/* cmd_build.c: the target of --cpu. */
bool cli_cpu(cli *c, anf_target_machine *tm);
/* cmd_cache.c: of engines that compile the program; code they made before is found in the user's
 * folder. */
const anf_jit_opts *cli_jit_options(const cli *c);
/* cmd_print.c: the fused operations, on standard error. */
anf_status cli_explain(cli *c, anf_graph *g, const anf_type *const *types, size_t nstate);
/* The same for all parameters but the first, whose type is given. */
anf_status cli_types_after(cli *c, anf_graph *g, const anf_type *first, const anf_type **types);

/* arg.c: one value for each parameter, in a scratch array; they are released with the frame */
/* One value of a word, such as 3, [1, 2] or @x.npy; released with the frame. */
anf_status cli_value(cli *c, const char *word, anf_value **out);
/* The parameter of this name, or of this position from 0. False: E0013 or E0510. */
bool cli_parameter(cli *c, anf_graph *g, const char *word, size_t *at);
anf_status cli_arguments(cli *c, anf_graph *g, const char *const *word, size_t n, anf_value ***out);

/* json.c */
/* Exit statuses and variables of the environment, of option.def; the last has no name. */
typedef struct cli_fact {
  const char *name, *text;
} cli_fact;
extern const cli_fact cli_statuses[], cli_variables[];

struct json_t;
/* Inside a frame. Numbers that JSON has not are strings: "nan", "inf", integers above 2^63. */
struct json_t *cli_json_value(cli *c, const anf_value *v);
struct json_t *cli_json_real(cli *c, double x);
struct json_t *cli_json_type(cli *c, const anf_value *v); // its name, as in programs
/* {"error": [...], "status": "..."}, of the diagnostics so far. */
struct json_t *cli_json_errors(cli *c);
void cli_json_usage(const cli *c, const char *fmt, va_list ap); // as an error, without a context
/* Puts a new member into an object; both may be NULL after a failure. */
void cli_json_put(cli *c, struct json_t *object, const char *key, struct json_t *value);
/* A text that may not be UTF-8. */
struct json_t *cli_json_text(cli *c, const char *s, size_t n);
void cli_json_append(cli *c, struct json_t *list, struct json_t *value);
/* Writes {key: s}. */
int cli_json_output(cli *c, const char *key, const char *s, size_t n);
/* Writes one line to standard output. */
int cli_json_write(cli *c, struct json_t *object);

/* asm.c: assembly with line directives as one with the lines of the program */
void cli_interleave(cli *c, anf_text *assembly);

/* tir.c: the same commands on Tensor IR (.tir) */
bool cli_is_tir(cli *c, const char *file); // standard input: by its first word
anf_status cli_load_tir(cli *c, const char *file, anf_tir_module **m); // freed with the frame
int cli_print_tir(cli *c);
int cli_opt_tir(cli *c);
/* The passes, and pipelines with their passes; NULL after the last. */
const char *cli_tir_pass(size_t i, const char **doc);
const char *cli_tir_pipeline(size_t i, const char **passes);
anf_status cli_check_tir(cli *c, const char *given, struct json_t **said);
anf_status cli_run_tir(cli *c, cli_target t, const char *backend, uint64_t max_steps,
                       anf_value **result); // lives as long as the frame

/* pnnx.c: models of PNNX (.param) */
bool cli_is_param(const char *file);
/* Does the file have the ending of a model of one function: .mindir, .mlir, .onnx? NULL: no. */
bool cli_is_model(const char *to);
anf_status cli_write_model(cli *c, anf_graph *g, const char *to, anf_text *out);
/* Runs a model and says on standard error what each operator gave. `exec` NULL: nothing is
 * compiled. */
anf_status cli_debug_param(cli *c, const char *file, const anf_exec_opts *exec, anf_value **result);

/* cmd_*.c */
int cmd_run(cli *c);
int cmd_grad(cli *c);
int cmd_build(cli *c);
int cmd_cache(cli *c);
/* cmd_grad.c: the gradient of g as the options --wrt, --has-aux and --allow-int say. */
anf_status cli_grad(cli *c, anf_graph *g, bool value, anf_graph **out);
int cmd_check(cli *c);
int cmd_print(cli *c);
int cmd_view(cli *c);
int cmd_ops(cli *c);
int cmd_expr(cli *c);
int cmd_import(cli *c);
int cmd_opt(cli *c);
int cmd_passes(cli *c);
int cmd_rules(cli *c);
int cmd_reduce(cli *c);
int cmd_train(cli *c);
int cmd_explain(cli *c);
int cmd_help(cli *c);
int cmd_version(cli *c);

#endif
