// SPDX-License-Identifier: Apache-2.0
/* What the operating system answers, chosen by a test: the linker's --wrap puts these functions in front of the calls of libc that
 * the library makes (test/io/meson.build lists them).
 *
 *     io_fail(3, EIO, false);   // the third call from now on fails
 *     ... work ...
 *     io_pass();                // all pass again
 *
 * Calls pass unless a test says otherwise. */
#ifndef TEST_IO_WRAP_H
#define TEST_IO_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum io_kind {
  IO_OPEN,
  IO_READ,
  IO_WRITE,
  IO_SYNC,
  IO_CLOSE,
  IO_RENAME,
  IO_REMOVE,
  IO_MAP,
  IO_LOOK,
  IO_KINDS
} io_kind;

void io_pass(void);
/* Call number `at` fails with this error, and with `on` all later ones, too. at 0: none; they are counted. */
void io_fail(uint64_t at, int error, bool on);
/* Call number `at` is cut short if it reads or writes: it moves one byte. */
void io_cut(uint64_t at);
uint64_t io_count(void);    // calls since io_fail or io_cut
bool io_hit(io_kind *kind); // was there a call `at`, and of which kind
const char *io_kind_name(io_kind k);

/* ---- what was done to files, in order ---- */

typedef struct io_event {
  enum { IO_CREATED, IO_WRITTEN, IO_SYNCED, IO_DIR_SYNCED, IO_RENAMED, IO_REMOVED } what;
  char name[256], to[256]; // last parts of paths; `to` of a renamed one
  char *bytes;             // that were written
  size_t n;
} io_event;

void io_record(void); // from now on, until io_recorded
const io_event *io_recorded(size_t *n);
void io_forget(void); // frees the events

#endif
