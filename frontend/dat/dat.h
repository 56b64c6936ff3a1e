// SPDX-License-Identifier: Apache-2.0
/* .dat, the exact form of a module: shared by writer and reader. docs/formats.md describes the
 * lines. INVARIANT: the text is a function of the module alone, and reading it gives a
 * module of which the same is written. */
#ifndef ANFI_DAT_H
#define ANFI_DAT_H

#include "anfora/text.h"
#include "ir/ir.h"

#define ANFI_DAT_MAGIC    "anfora-dat "
#define ANFI_DAT_CHECKSUM "checksum "
enum { ANFI_DAT_VERSION = 1, ANFI_DAT_HEX = 16 }; // digits of the checksum

/* write.c */
/* Parent and free variables of every graph: a section that follows from the rest, so that the
 * reader compares it instead of reading it. */
void anfi_dat_put_captures(anf_text *o, anf_module *m);

/* scan.c: the words of lines. Every function fails with a location and returns false. */
typedef struct anfi_scan {
  anf_ctx *cx;
  const char *file, *text, *at, *end; // `end` is where the checksum line starts
  anf_text *quoted;                   // scratch
} anfi_scan;
bool anfi_scan_open(anfi_scan *s, anf_ctx *cx, const char *text, size_t len, const char *file);
bool anfi_scan_expected(anfi_scan *s, const char *what); // fails at the current location
bool anfi_scan_wrong(anfi_scan *s, const char *why);
bool anfi_scan_none(anfi_scan *s, const char *what, uint64_t id);
/* Gives errors without a place the current location: those of ops, attributes and modules, whose checks do not
 * know the file. */
void anfi_scan_place_errors(anfi_scan *s);
bool anfi_scan_char(anfi_scan *s, char c);
bool anfi_scan_skip(anfi_scan *s, char c);       // takes c if it is there
bool anfi_scan_num(anfi_scan *s, uint64_t *out); // no sign, no leading zeros
/* A number below `limit`: the id of a `what`. */
bool anfi_scan_id(anfi_scan *s, const char *what, uint64_t limit, uint32_t *out);
/* The same or `-`, which gives UINT32_MAX. */
bool anfi_scan_opt(anfi_scan *s, const char *what, uint64_t limit, uint32_t *out);
bool anfi_scan_word(anfi_scan *s, const char **word,
                    size_t *len); // up to a space or the end of the line
bool anfi_scan_string(anfi_scan *s, anf_text *out);
/* `name N`: a section of N lines, each of two bytes or more. */
bool anfi_scan_section(anfi_scan *s, const char *name, size_t *n);
/* A count of things that take two bytes or more each on this line or those that follow. */
bool anfi_scan_count(anfi_scan *s, const char *what, size_t *n);

/* An entry read so far: a value or an attribute record. */
typedef struct anfi_dat_entry {
  anf_value *value;        // or
  const anfi_attrs *attrs; // of `op`
  anfi_opcode op;
  uint64_t parts; // values in it, those that are shared counted each time
} anfi_dat_entry;
typedef struct anfi_reader {
  /* where it reads, and the module */
  anfi_scan s;
  anf_ctx *cx;
  anf_module *m;
  anfi_arena *a;
  anf_text *buf; // the string that was read last
  /* tables */
  size_t nown, nstring; // the module's strings, then others
  const anfi_str **strings;
  size_t ntype, nentry;
  const anf_type **types;
  uint64_t *type_parts;      // as of entries
  uint64_t parts, max_parts; // of the line that is read
  anfi_dat_entry *entries;
  ANFI_VEC(uint32_t) inputs; // of all nodes, one after the other
} anfi_reader;
#define ID(r, what, limit, out)  anfi_scan_id(&(r)->s, (what), (limit), (out))
#define OPT(r, what, limit, out) anfi_scan_opt(&(r)->s, (what), (limit), (out))
#define SPACE(r)                 anfi_scan_char(&(r)->s, ' ')
#define EOL(r)                   anfi_scan_char(&(r)->s, '\n')

/* tables.c: sections, and references to their entries, each with the space before it */
bool anfi_dat_strings(anfi_reader *r);
bool anfi_dat_types(anfi_reader *r);
bool anfi_dat_constants(anfi_reader *r);                        // after the graphs
bool anfi_dat_string_ref(anfi_reader *r, const anfi_str **out); // NULL for `-`
bool anfi_dat_type_ref(anfi_reader *r, const anf_type **out);   // NULL for `-`
bool anfi_dat_value_ref(anfi_reader *r, anf_value **out);
bool anfi_dat_attrs_ref(anfi_reader *r, anfi_opcode op, const anfi_attrs **out); // NULL for `-`
bool anfi_dat_op(anfi_reader *r, anfi_opcode *op);

static inline int anfi_dat_hex(char c) { // -1: no hexadecimal digit
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
