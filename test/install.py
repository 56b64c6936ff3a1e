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


def find(folder, name):
    """The path of the file of this name below a folder, or None."""
    return next((os.path.join(d, name) for d, _, names in os.walk(folder) if name in names), None)


def main():
    build, compiler = sys.argv[1], sys.argv[2:]
    tap = Tap()
    with tempfile.TemporaryDirectory() as tree:
        tap.case("meson install", run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", tree])[1])
        for name in [os.path.basename(h) for h in public_headers()] + ["anfora", "libanfora.a", "libanfora.so"]:
            tap.case(f"{name} is installed", "" if find(tree, name) else "it is not there")
        pc = find(tree, "anfora.pc")
        tap.case("anfora.pc is installed", "" if pc else "it is not there")
        if not pc:
            tap.done()
        env = {"PKG_CONFIG_PATH": os.path.dirname(pc), "PKG_CONFIG_SYSROOT_DIR": tree,
               "LD_LIBRARY_PATH": os.path.dirname(find(tree, "libanfora.so"))}
        version = run(["pkg-config", "--modversion", "anfora"], env=env)[0].strip()
        source, program = os.path.join(tree, "host.c"), os.path.join(tree, "host")
        with open(source, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        for kind, flags in (("shared", []), ("static", ["--static"])):
            out, problem = run(["pkg-config", "--cflags", "--libs", *flags, "anfora"], env=env)
            words = shlex.split(out)
            if flags:  # the archive itself, or the linker takes the shared library beside it
                words = [find(tree, "libanfora.a") if w == "-lanfora" else w for w in words]
            problem = problem or run([*compiler, "-std=c11", "-Wall", "-Werror", f'-DVERSION="{version}"', "-o",
                                      program, source, *words])[1]
            tap.case(f"a program builds with pkg-config, {kind}", problem)
            tap.case(f"and runs, {kind}", problem or run([program], env=env)[1])
        tap.case("the installed command runs",
                 run([find(tree, "anfora"), "version"], env=env)[1])
    tap.done()


if __name__ == "__main__":
    main()
