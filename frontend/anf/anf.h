// SPDX-License-Identifier: Apache-2.0
/* The text front end: characters → tokens → syntax tree → graphs.
 *
 * The tree and all tables live in scratch memory; only what the graphs need goes to the module.
 * Lists of operators, postfix forms and else-if branches are n-ary nodes, so the tree's depth is that
 * of the brackets and blocks in the text, which max_nesting limits; nothing else recurses.
 *
 * Glossary
 *   word     an interned identifier; its id indexes flat tables, so a name is looked up in O(1)
 *   exits    a construct that holds a return, or a break or continue of a loop around it
 *   open     the end of a block that the program reaches (not ended by return, break or continue)
 */
#ifndef ANFI_FRONTEND_ANF_H
#define ANFI_FRONTEND_ANF_H

#include "base/os/source.h"
#include "ir/ir.h"

/* ---- tokens ---- */

typedef enum tok {
#define ANF_WORD(w) W_##w, // ORDER: a reserved word's id in the word table is its token kind
#include "ir/word.def"
#undef ANF_WORD
  NWORD,
  T_EOF = NWORD,
  T_NAME,
  T_INT,
  T_FLOAT,
  T_STR,
  T_LPAREN,
  T_RPAREN,
  T_LBRACK,
  T_RBRACK,
  T_LBRACE,
  T_RBRACE,
  T_COMMA,
  T_SEMI,
  T_COLON,
  T_DOT,
  T_DOTDOT,
  T_ELLIPSIS,
  T_ARROW,
  T_QUESTION,
  T_ASSIGN,
  T_PLUS,
  T_MINUS,
  T_STAR,
  T_SLASH,
  T_DSLASH,
  T_PERCENT,
  T_AT,
  T_STARSTAR,
  T_LSHIFT,
  T_RSHIFT,
  T_AMP,
  T_PIPE,
  T_CARET,
  T_TILDE,
  T_LT,
  T_LE,
  T_GT,
  T_GE,
  T_EQ,
  T_NE,
  T_AUG, // an operator with = after it; `op` is the operator's token kind
  T_KINDS
} tok;

typedef struct token {
  /* kind */
  uint8_t kind, op;
  bool nl;     // a line ended since the token before
  bool quoted; // a name between backticks
  /* place */
  uint32_t off, len; // in the text
  uint32_t line, col;
  const anfi_str *word; // of a name or reserved word
} token;

/* The element type that a word names. */
/* The name that a word of a text is, among other strings: `if` is there without its mark, see lex_backtick. */
static inline const anfi_str *anfi_word_name(anfi_strtab *strings, const anfi_str *w) {
  bool own = w->len > 1 && !w->s[0];
  return anfi_intern(strings, w->s + own, w->len - own);
}

static inline bool anfi_word_dtype(const anfi_str *w, anf_dtype *d) {
  *d = (anf_dtype)(w->id - NWORD);
  return w->id >= NWORD && w->id - NWORD < ANF_DTYPE_COUNT;
}

typedef struct lexer {
  /* the text */
  anf_ctx *cx;
  anfi_arena *a;
  anfi_strtab *words;
  const char *file; // interned in the context
  const char *text;
  /* where it is */
  uint32_t at, len, line, col;
  token before; // the last one
  const anfi_str *effect;
  ANFI_VEC(const anfi_str *) unnamed; // "%7" by its number
  bool stop;                          // no more tokens: too many errors, or a limit
} lexer;

void anfi_lex_init(lexer *lx, anf_ctx *cx, anfi_arena *a, anfi_strtab *words, const char *file,
                   const char *text, uint32_t len);
void anfi_lex_next(lexer *lx, token *t);
/* The text of a string or backtick token without quotes and escapes, in the arena. */
char *anfi_lex_string(lexer *lx, const token *t, size_t *len);
/* How a token is called in messages: "'if'", "a name", "the end of the text". */
const char *anfi_tok_name(anfi_arena *a, const lexer *lx, const token *t);

/* ---- the syntax tree ---- */

typedef enum akind {
  A_ERROR,    // something that did not parse; its error is recorded
  A_INT,      // u.u64, sign in `op`: 1 negative
  A_FLOAT,    // text at off, len; sign in `op`
  A_STR,      // u.str
  A_WORD,     // None, true, false: `op` is the token
  A_NAME,     // word
  A_HOLE,     // ? : an unknown dim
  A_ELLIPSIS, // ...
  A_SLICE,    // a:b:c in brackets; absent parts NULL
  A_TYPE,     // u.type
  A_TUPLE,
  A_LIST,    // items
  A_RECORD,  // items A_KEYWORD
  A_KEYWORD, // word = kid 0
  A_CHAIN,   // operands; u.ops: operators between them, of one level
  A_POWER,   // the same, from the right
  A_UNARY,   // `op` on kid 0
  A_POSTFIX, // kid 0, then A_CALL, A_INDEX, A_FIELD
  A_CALL,
  A_INDEX, // arguments
  A_FIELD, // word
  A_FN,    // u.fn
  A_IF,    // condition, block, condition, block, ... and perhaps a last block
  A_BLOCK, // statements
  /* statements; an expression is one too */
  A_DEF,    // u.fn
  A_BIND,   // pattern, value, or pattern, value, A_TYPE; flag A_EFFECT
  A_AUG,    // name, value: name op= value
  A_RETURN, // value, or nothing
  A_BREAK,
  A_CONTINUE,
  A_WHILE, // condition, block
  A_FOR    // pattern, from, to, block, or pattern, over, block
} akind;

enum {            // flags of a tree node
  A_PAREN = 1,    // stood in parentheses
  A_EFFECT = 2,   // marked `effect`
  A_EXITS = 4,    // an A_IF, A_WHILE or A_FOR that exits
  A_BREAKS = 8,   // a loop that holds a break of its own
  A_RETURNS = 16, // holds a return
  A_COMMA = 32,   // a tuple without parentheses
};

typedef struct ast ast;
typedef struct string {
  const char *s;
  size_t n;
} string;
typedef struct op_at {
  uint8_t op; // token kind
  uint32_t line, col;
} op_at;
/* The names that a loop or `if` assigns, each once. */
typedef struct wordset {
  uint32_t n;
  const anfi_str *at[];
} wordset;

struct ast {
  /* kind */
  uint8_t kind, op;
  uint16_t flags;
  uint32_t n; // kids
  /* place */
  uint32_t line, col;
  uint32_t off, end; // in the text
  /* by kind */
  union {
    const anfi_str *word;
    const op_at *ops;
    uint64_t u64;
    const string *str;
    const anf_type *type;
    struct func *fn;
    const wordset *assigned; // A_IF, A_WHILE, A_FOR
  } u;
  ast *kid[];
};

typedef struct param {
  const anfi_str *word;
  const anf_type *type;
  uint32_t line, col;
} param;

/* A def or fn. */
typedef struct func {
  /* as it is written */
  const anfi_str *name; // NULL: a fn
  uint32_t id;          // from 1
  uint32_t line, col;   // of the name
  uint32_t nparam;
  param *params;
  const anf_type *result; // or NULL
  const anfi_str *parent; // or NULL
  bool is_private;        // marked `private`
  ast *body;
  const wordset *locals; // names that its body assigns
  bool has_flow;         // holds an if or a loop
  /* lowering */
  anf_graph *graph;
  struct func *around; // the enclosing function
  struct unit *unit;   // its unit, if it is at the top of one
  bool top, defined;
  bool complete;                 // it and all that it refers to are defined
  uint8_t ndeps;                 // 1 while being ordered, 2 when ordered
  ANFI_VEC(struct func *) waits; // functions of its block that it refers to
} func;

typedef ANFI_VEC(func *) funcs;

/* `import nn`, `import "net.anf" as n` */
typedef struct import {
  const anfi_str *word; // its name here
  const char *path;     // of a file; NULL: a module of the library
  struct unit *unit;    // once read
  uint32_t line, col;
} import;

typedef ANFI_VEC(import) imports;

/* One file of a program. */
typedef struct unit {
  /* the text */
  const char *file; // interned in the context
  anfi_file_id id;  // of a file
  const char *text;
  size_t len;
  lexer lx; // after it was read: locations refer to its name and text
  /* the program */
  funcs top;
  imports imports;
  anf_module *model; // a file of another format: its graphs are the unit's functions
  anfi_merge *merge; // once one is used
} unit;

/* `owner.name` in a def: in printed graphs, a free variable. */
typedef struct dotted {
  func *in;
  const anfi_str *owner;
} dotted;

/* ---- parsing ---- */

typedef struct parser {
  /* where it is */
  lexer lx;
  token t; // the current token
  anf_ctx *cx;
  anfi_arena *a;
  anfi_strtab words;
  /* surroundings */
  uint32_t depth;    // of brackets and blocks
  uint32_t inside;   // brackets in which a line's end means nothing
  uint32_t prev_end; // end of the token before
  uint32_t loops;    // around, in this function
  uint32_t nfunc;
  func *fn;         // around
  bool panic;       // an error was recorded since the last good statement
  bool has_effects; // some statement is marked `effect`
  uint16_t exits;   // flags of the text being parsed, gathered upwards
  /* stacks of subtrees, names that are read and assigned */
  ANFI_VEC(ast *) stack;
  ANFI_VEC(op_at) ops;
  ANFI_VEC(const anfi_str *) assigns;
  ANFI_VEC(uint64_t) reads; // word id << 32 | offset, of the functions around
  anfi_map last_read;       // function id << 32 | word id → offset of the last read
  /* what was parsed */
  ANFI_VEC(dotted) dots;
  funcs top;
  imports imports;
  ANFI_VEC(unit *) units; // the program itself first
  bool files;             // may it import files?
} parser;

/* parse.c */
void anfi_parse_init(parser *p, anf_ctx *cx, anfi_arena *a, const char *file, const char *text,
                     uint32_t len);
void anfi_parse_advance(parser *p);
bool anfi_parse_expect(parser *p, tok kind, const char *what);
bool anfi_parse_fail(parser *p, const char *what); // "expected WHAT, found the current token"
/* Hints for habits of other languages: from a text, and from where reading stopped. */
bool anfi_hint_habit(anf_ctx *cx, const char *text);
/* A hint if the name is that of a module of the library. */
bool anfi_hint_library(anf_ctx *cx, const char *name);
void anfi_hint_stop(const parser *p, const char *expected);
/* Counts a bracket or block; false, with an error, when there are too many. */
bool anfi_parse_enter(parser *p);
void anfi_parse_leave(parser *p);
/* After the opener `open`: the closing bracket, or an error that points at the opener. */
bool anfi_parse_close(parser *p, tok kind, const token *open);
anfi_loc anfi_parse_loc(const parser *p, const token *t);
ast *anfi_ast(parser *p, akind kind, const token *t, size_t nkid);
/* A node of the kids on the stack from `base` on, which leave it. */
ast *anfi_ast_of(parser *p, akind kind, const token *t, size_t base);
/* A kid of a node to be; the argument is computed first, and may use the stack itself. */
static inline void anfi_parse_keep(parser *p, ast *e) { anfi_push(p->a, &p->stack, e); }
ast *anfi_parse_block(parser *p);
void anfi_parse_module(parser *p);
func *anfi_parse_func(parser *p, const token *at, const anfi_str *name);
/* The names assigned since `from`, each once. */
const wordset *anfi_parse_assigned(parser *p, size_t from);
static inline bool anfi_parse_at(const parser *p, tok kind) { return p->t.kind == kind; }
/* Does the statement end before the current token? */
static inline bool anfi_parse_line_ends(const parser *p) { return p->t.nl && !p->inside; }

/* parse_expr.c */
ast *anfi_parse_expr(parser *p);
/* a, b, c without parentheses is a tuple here. */
ast *anfi_parse_exprs(parser *p);
/* parse_type.c */
const anf_type *anfi_parse_type_at(parser *p); // NULL after an error

/* ---- lowering ---- */

typedef enum bound { B_NONE, B_VALUE, B_DEF, B_MAYBE } bound;
typedef struct binding {
  uint8_t state;      // bound
  anf_node *node;     // B_VALUE
  func *def;          // B_DEF
  uint32_t line, col; // B_MAYBE: the assignment on some paths only
} binding;

typedef struct loop {
  struct loop *outer;
  const struct jumps *jumps; // where break and continue go (lower_flow.c)
} loop;

typedef struct lower {
  /* in and out */
  parser *p;
  unit *unit;    // whose functions are being lowered
  funcs pending; // of imported units: used, and not lowered yet
  anf_ctx *cx;
  anf_module *m;
  anf_graph *g; // under construction
  /* the current function */
  func *fn;
  loop *loop;
  const anfi_str *file; // in the module
  anf_node *bad;        // replaces expressions with errors
  /* names */
  binding *bind;         // by word id
  uint32_t *wanted;      // by word id: id of the function in which a loop around carries it
  const anfi_str **name; // by word id: the module's own string, made when needed
  uint16_t *op;          // by word id: 1 + opcode, or UINT16_MAX when it is none
  uint32_t nword;
  ANFI_VEC(struct undo {
    uint32_t word;
    binding old;
  }) undo;
  /* graphs and their parts */
  ANFI_VEC(anf_node *) stack;
  ANFI_VEC(struct mark {
    const anfi_str *base;
    uint32_t depth;
  }) marks;                             // by graph id
  ANFI_VEC(const anfi_attrs *) indices; // of TupleGet, by index
  anfi_map fields;  // graph id << 32 | word id → node: `graph.name` of printed graphs
  anfi_map func_of; // graph id → func
} lower;

static inline void anfi_anf_keep(lower *lw, anf_node *n) { anfi_push(lw->p->a, &lw->stack, n); }

/* lower.c */
void anfi_anf_module(lower *lw, parser *p, anf_module *m);
/* The VALUE that e is, or NULL when it is no constant. */
anf_node *anfi_anf_constant(lower *lw, const ast *e);
anfi_loc anfi_anf_loc(const lower *lw, const ast *e);
const anfi_str *anfi_anf_name(lower *lw, const anfi_str *word);
/* Gives a node the location of e. */
anf_node *anfi_anf_at(lower *lw, anf_node *n, const ast *e);
void anfi_anf_bind(lower *lw, const anfi_str *word, binding b);
void anfi_anf_bind_value(lower *lw, const anfi_str *word, anf_node *n);
void anfi_anf_undo(lower *lw, size_t to);
/* A graph named like the current one with one more mark. */
anf_graph *anfi_anf_graph(lower *lw, const char *mark, const ast *e);
anf_graph *anfi_anf_func(lower *lw, func *f); // declares and fills a fn
void anfi_anf_def(lower *lw, func *f);        // fills a declared def
anf_node *anfi_anf_name_value(lower *lw, const anfi_str *word, const ast *e);
bool anfi_anf_dotted(lower *lw, const ast *owner, const ast *field, anf_node **out);
bool anfi_anf_live(const lower *lw, const anfi_str *word, uint32_t after);
anf_node *anfi_anf_none(lower *lw);
/* The name nearest to one that is not there, or NULL. */
const char *anfi_anf_near(lower *lw, const char *s);
void anfi_anf_declare(lower *lw, ast *const *statements, size_t n);
void anfi_anf_name_node(lower *lw, const ast *pattern, anf_node *n);
bool anfi_anf_pattern(lower *lw, const ast *pattern, anf_node *value);

/* The graph of a def; of an imported unit it is declared when first used. */
anf_graph *anfi_anf_graph_of(lower *lw, func *f);

/* import.c */
/* Reads the imports of the parsed program, transitively. */
void anfi_anf_read_imports(parser *p, anf_module *m);
void anfi_anf_enter_unit(lower *lw, unit *u);
/* `nn.dense`, if nn is an import here. */
bool anfi_anf_imported(lower *lw, const ast *owner, const ast *field, anf_node **out);
void anfi_anf_fill_imported(lower *lw);
/* text.c: sizes that the lexer counts on */
bool anfi_anf_check_length(anf_ctx *cx, const char *file, const char *text, size_t len);

/* lower_flow.c */
typedef struct outcome {
  bool ended;      // by return, break or continue: nothing follows in this graph
  anf_node *value; // of an open block that ends with an expression, else NULL
} outcome;
typedef enum { NO_VALUE, ANY_VALUE, EACH_A_VALUE } wanted; // of a block; of each branch at its end
outcome anfi_anf_block(lower *lw, const ast *b, bool tail, wanted value);
anf_node *anfi_anf_if(lower *lw, const ast *e);
anf_node *anfi_anf_and_or(lower *lw, const ast *e);
anf_node *anfi_anf_switch(lower *lw, const ast *e, anf_node *c, anf_graph *f, anf_graph *g);

/* lower_expr.c */
anf_node *anfi_anf_expr(lower *lw, const ast *e);
anf_node *anfi_anf_apply(lower *lw, const ast *e, const char *op, size_t n, anf_node *const *in);
anf_node *anfi_anf_tuple_get(lower *lw, const ast *e, anf_node *t, size_t i);
bool anfi_anf_is_const(const anf_node *n);
anf_node *anfi_anf_aug(lower *lw, const ast *s);
/* lower_declared.c: the value with a declared type. */
anf_node *anfi_anf_annotate(lower *lw, const ast *s, anf_node *v, const anf_type *t);
bool anfi_anf_is_ir(const parser *p); // is the text a file of a printed module?
/* lower_const.c */
anf_node *anfi_anf_number(lower *lw, const ast *e, anf_dtype d);
anf_node *anfi_anf_list(lower *lw, const ast *e);
/* f32(1.5), f32[2]([1, 2]), c64(1, 2): a constant; f32(x): a cast. */
anf_node *anfi_anf_typed(lower *lw, const ast *e, const anf_type *t, const ast *call);
/* The type of a name with dims, or NULL with an error. */
const anf_type *anfi_anf_dims(lower *lw, anf_dtype d, const ast *index);
/* lower_call.c */
anf_node *anfi_anf_call(lower *lw, const ast *base, anf_node *callee, const ast *call);
bool anfi_anf_builtin(lower *lw, const ast *base, const ast *call, anf_node **out);
anfi_opcode anfi_anf_op_of(lower *lw, const anfi_str *word);
/* The op of a builtin's name, or ANF_OP_NONE. */
anfi_opcode anfi_anf_builtin_op(lower *lw, const anfi_str *word);
const char *anfi_anf_builtin_name(size_t i); // NULL past the end
/* lower_index.c */
anf_node *anfi_anf_index(lower *lw, anf_node *x, const ast *index);
anf_node *anfi_anf_field(lower *lw, anf_node *x, const ast *field);

#endif
