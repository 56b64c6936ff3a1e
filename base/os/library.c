// SPDX-License-Identifier: Apache-2.0
/* Loaded objects (the program, shared libraries), by an address in them: which build each is, and the memory that its pages take.
 *   libLLVM.so is opened   ->   its constructors have mapped 42 MB of its code   ->   anfi_os_leave_library: 0 MB, until it is called */
#define _GNU_SOURCE // dl_iterate_phdr, madvise
#include "base/base.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct build {
  uintptr_t at; // an address in the object that is asked for
  char *text;   // BUILD_TEXT bytes
} build;
enum { BUILD_TEXT = 2 * 64 + 1 };

static void put_hex(char *to, const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n && 2 * i + 2 < BUILD_TEXT; i++) snprintf(to + 2 * i, 3, "%02x", p[i]);
}

/* The descriptor of the note NT_GNU_BUILD_ID among the notes of a segment */
static bool note_of(const uint8_t *p, size_t n, char *to) {
  ElfW(Nhdr) h;
  for (size_t at = 0; at + sizeof h <= n;) {
    memcpy(&h, p + at, sizeof h);
    size_t name = at + sizeof h, desc = name + ((h.n_namesz + 3u) & ~(size_t)3),
           end = desc + h.n_descsz;
    if (end > n || end < at) return false;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && memcmp(p + name, "GNU", 4) == 0)
      return put_hex(to, p + desc, h.n_descsz), true;
    at = (end + 3) & ~(size_t)3;
  }
  return false;
}

static bool has_address(const struct dl_phdr_info *o, uintptr_t at) {
  bool here = false;
  for (size_t i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &o->dlpi_phdr[i];
    here |= h->p_type == PT_LOAD && at - (o->dlpi_addr + h->p_vaddr) < h->p_memsz;
  }
  return here;
}

/* Its build-id; of an object linked without one, a hash of all that it maps and does not write. */
static int describe(struct dl_phdr_info *o, size_t size, void *user) {
  build *b = (build *)user;
  uint64_t h = 0;
  (void)size;
  if (!has_address(o, b->at)) return 0;
  for (size_t i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *s = &o->dlpi_phdr[i];
    const uint8_t *p =
        (const uint8_t *)(o->dlpi_addr + s->p_vaddr); // NOLINT: an address of the loader's
    if (s->p_type == PT_NOTE && note_of(p, s->p_memsz, b->text)) return 1;
  }
  for (size_t i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *s = &o->dlpi_phdr[i];
    if (s->p_type == PT_LOAD && (s->p_flags & PF_R) && !(s->p_flags & PF_W))
      h = anfi_hash((const void *)(o->dlpi_addr + s->p_vaddr), s->p_memsz, h);
  }
  snprintf(b->text, BUILD_TEXT, "hash %016llx", (unsigned long long)h);
  return 1;
}

const char *anfi_os_build_of(anfi_arena *a, uintptr_t address) {
  build b = {address, (char *)anfi_zalloc(a, BUILD_TEXT)};
  dl_iterate_phdr(describe, &b);
  return b.text;
}

const char *anfi_os_this_build(anfi_arena *a) {
  static const char here;
  return anfi_os_build_of(a, (uintptr_t)&here);
}

/* ---- pages ---- */

/* The bits of /proc/self/pagemap: the page is in memory, and it is the file's own, which no write has copied (a debugger's
 * breakpoint). */
#define OF_FILE (UINT64_C(1) << 63 | UINT64_C(1) << 61)

typedef struct leaver {
  uintptr_t at; // an address in the object
  int map;      // /proc/self/pagemap
  size_t page;
} leaver;

/* Pages from `from` on, n of them, of which map has the bits */
static void leave_runs(const leaver *l, uintptr_t from, const uint64_t *map, size_t n) {
  for (size_t i = 0, end; i < n; i = end + 1) {
    for (end = i; end < n && (map[end] & OF_FILE) == OF_FILE;) end++;
    void *at = (void *)(from + i * l->page); // NOLINT: an address of the loader's
    if (end > i) (void)madvise(at, (end - i) * l->page, MADV_DONTNEED);
  }
}

static void leave_segment(const leaver *l, uintptr_t from, uintptr_t end) {
  enum { PAGES = 1024 };
  uint64_t map[PAGES];
  for (from = from / l->page * l->page; from < end;) {
    size_t n = (end - from + l->page - 1) / l->page;
    if (n > PAGES) n = PAGES;
    ssize_t got = pread(l->map, map, n * sizeof *map, (off_t)(from / l->page * sizeof *map));
    if (got < (ssize_t)(n * sizeof *map)) return;
    leave_runs(l, from, map, n);
    from += n * l->page;
  }
}

/* Segments that are written to have pages that a thread may be copying just now: they stay. */
static int leave_object(struct dl_phdr_info *o, size_t size, void *user) {
  const leaver *l = (const leaver *)user;
  (void)size;
  if (!has_address(o, l->at)) return 0;
  for (size_t i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *s = &o->dlpi_phdr[i];
    uintptr_t from = o->dlpi_addr + s->p_vaddr;
    if (s->p_type == PT_LOAD && !(s->p_flags & PF_W)) leave_segment(l, from, from + s->p_filesz);
  }
  return 1;
}

void anfi_os_leave_library(uintptr_t address) {
  leaver l = {address, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
              (size_t)sysconf(_SC_PAGESIZE)};
  if (l.map < 0) return;
  dl_iterate_phdr(leave_object, &l);
  close(l.map);
}
