#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host can build against an installed tree, shared and static: install.py BUILD_DIR CC..."""
import os
import shlex
import sys
import tempfile

from tap import Tap, public_headers, run

PROGRAM = r"""
#include <anfora/anfora.h>
#include <string.h>

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = anf_module_new(cx);
  anf_graph *g = anf_graph_new(m, "g");
  anf_return(g, anf_int(m, 7));
  anf_status st = anf_module_status(m);
  anf_module_free(m);
  anf_ctx_free(cx);
  return st == ANF_OK && strcmp(anf_version(), VERSION) == 0 ? 0 : 1;
}
"""

# Which object each function of memory comes from; -rdynamic shows one that a static library brings, too.
MALLOC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#ifdef WITH_ANFORA
#include <anfora/anfora.h>
#endif

int main(void) {
#ifdef WITH_ANFORA
  anf_ctx_free(anf_ctx_new(NULL));
#endif
  const char *names[] = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "_Znwm", "_ZdlPv"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Dl_info info = {0};
    void *f = dlsym(RTLD_DEFAULT, names[i]);
    printf("%s from %s\n", names[i], f && dladdr(f, &info) ? info.dli_fname : "nowhere");
  }
  return 0;
}
"""


# What uses an object that `anfora build` made: the run time's headers and library, and nothing of the compiler.
USER = r"""
#include "half.h"
int main(void) {
  double y = 0;
  return half_on(NULL, 5.0, &y) == ANF_OK && y == 2.5 ? 0 : 1;
}
"""


def find(folder, name):
    """The path of the file of this name below a folder, or None."""
    return next((os.path.join(d, name) for d, _, names in os.walk(folder) if name in names), None)


def words_for(tree, env, static, name="anfora"):
    """What a host that links the installed library gives its compiler; and what was wrong with asking."""
    out, problem = run(["pkg-config", "--cflags", "--libs", *(["--static"] if static else []), name], env=env)
    words = shlex.split(out)
    # the archive itself, or the linker takes the shared library beside it
    return [find(tree, f"lib{name}.a") if static and w == f"-l{name}" else w for w in words], problem


def objects(tap, tree, compiler, env):
    """A program that uses an object builds with anfora_rt.pc."""
    command = find(tree, "anfora")
    for name, text in (("half.anf", "def half(x: f64) { x / 2.0 + Sin(x - 5.0) }\n"), ("user.c", USER)):
        with open(os.path.join(tree, name), "w", encoding="utf-8") as f:
            f.write(text)
    program, files = os.path.join(tree, "user"), [os.path.join(tree, n) for n in ("user.c", "half.o")]
    made = run([command, "build", os.path.join(tree, "half.anf"), "-o", os.path.join(tree, "half"), "--backend", "cjit"])[1]
    tap.case("the installed command builds an object", made)
    for kind in ("shared", "static"):
        words, problem = words_for(tree, env, kind == "static", "anfora_rt")
        problem = made or problem or run([*compiler, "-std=c11", "-Wall", "-Werror", "-o", program, *files, *words])[1]
        tap.case(f"a program with an object builds and runs, {kind}", problem or run([program], env=env)[1])


def allocators(tap, tree, compiler, env):
    """malloc, operator new and the like are in a host that links the library those that it has without."""
    source, program = os.path.join(tree, "malloc.c"), os.path.join(tree, "malloc")
    with open(source, "w", encoding="utf-8") as f:
        f.write(MALLOC)

    def origins(*words):
        problem = run([*compiler, "-std=c11", "-rdynamic", "-o", program, source, *words,
                       "-Wl,--no-as-needed", "-lstdc++", "-ldl"])[1]
        out, bad = ("", problem) if problem else run([program], env=env)
        return [line.rsplit("/", 1)[-1] if "/" in line else line for line in out.splitlines()], bad

    alone, problem = origins()
    tap.case("a host without the library has an allocator", problem or ("" if len(alone) == 8 else f"{alone}"))
    for kind in ("shared", "static"):
        words, problem = words_for(tree, env, kind == "static")
        have, bad = ([], problem) if problem else origins("-DWITH_ANFORA", *words)
        tap.case(f"a host keeps its malloc and operator new, {kind}",
                 bad or ("" if have == alone else f"without the library:\n{alone}\nwith it:\n{have}"))


def main():
    build, compiler = sys.argv[1], sys.argv[2:]
    tap = Tap()
    with tempfile.TemporaryDirectory() as tree:
        tap.case("meson install", run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", tree])[1])
        for name in [os.path.basename(h) for h in public_headers()] + ["anfora", "libanfora.a", "libanfora.so", "libanfora_rt.a", "libanfora_rt.so", "anfora_rt.pc"]:
            tap.case(f"{name} is installed", "" if find(tree, name) else "it is not there")
        pc = find(tree, "anfora.pc")
        tap.case("anfora.pc is installed", "" if pc else "it is not there")
        if not pc:
            tap.done()
        searched = run(["pkg-config", "--variable", "pc_path", "pkg-config"])[0].strip().split(":")
        folder = os.path.dirname(pc)[len(tree):]
        if folder.startswith("/usr/local/") and any(s.startswith("/usr/local/") for s in searched):
            tap.case("pkg-config finds what is installed", "" if folder in searched else f"{folder} is not in {searched}")
        # no other folder: the .pc files of libraries that only ours uses are not there
        env = {"PKG_CONFIG_LIBDIR": os.path.dirname(pc), "PKG_CONFIG_SYSROOT_DIR": tree,
               "LD_LIBRARY_PATH": os.path.dirname(find(tree, "libanfora.so"))}
        version = run(["pkg-config", "--modversion", "anfora"], env=env)[0].strip()
        source, program = os.path.join(tree, "host.c"), os.path.join(tree, "host")
        with open(source, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        for kind in ("shared", "static"):
            words, problem = words_for(tree, env, kind == "static")
            problem = problem or run([*compiler, "-std=c11", "-Wall", "-Werror", f'-DVERSION="{version}"', "-o",
                                      program, source, *words])[1]
            tap.case(f"a program builds with pkg-config, {kind}", problem)
            tap.case(f"and runs, {kind}", problem or run([program], env=env)[1])
        objects(tap, tree, compiler, env)
        allocators(tap, tree, compiler, env)
        tap.case("the installed command runs",
                 run([find(tree, "anfora"), "version"], env=env)[1])
    tap.done()


if __name__ == "__main__":
    main()
