#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers are read and printed with a point though the host's locale has a comma:
decimal_comma.py LIB -- CC FLAGS..."""
import os
import sys
import tempfile

from tap import ROOT, Tap, run

PROGRAM = r"""
#include <anfora/anfora.h>
#include <locale.h>
#include <string.h>

static const char text[] = "def f(x: f64) { Elu(x + 0.5, alpha=0.25) * f64[2]([1.5, 2.5]) }\n";

int main(void) {
  char buf[16];
  if (!setlocale(LC_ALL, "de_DE.UTF-8")) return 3;
  snprintf(buf, sizeof buf, "%.1f", 1.5);
  if (strcmp(buf, "1,5") != 0) return 4; // the locale is not what this test needs
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_value *x = NULL, *y = NULL;
  anf_text out = {.cx = cx};
  anf_status st = anf_parse(cx, text, "locale.anf", d, &m);
  if (st == ANF_OK) st = anf_print_ir(m, &out);
  if (st == ANF_OK) st = anf_parse_value(cx, "0.25", d, &x);
  if (st == ANF_OK) st = anf_run(anf_module_find(m, "f"), 1, &x, NULL, d, &y);
  if (st == ANF_OK) st = anf_value_print(cx, y, 0, &out);
  if (out.text) fputs(out.text, stdout);
  anf_diag_print(d, stdout, false);
  anf_value_release(x);
  anf_value_release(y);
  anf_text_free(&out);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return st == ANF_OK ? 0 : 1;
}
"""
WANTED = ["0.5", "0.25", "[1.5, 2.5]", "1.125", "1.875"]  # 0.75 * 1.5 and 0.75 * 2.5


def main():
    split = sys.argv.index("--")
    library, compiler = sys.argv[split - 1], sys.argv[split + 1:]
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "host.c"), os.path.join(folder, "host")
        with open(source, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        problem = run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")])[1]
        problem = problem or run([*compiler, "-std=c11", "-Wall", "-Werror", "-I", os.path.join(ROOT, "include"),
                                  "-o", program, source, library, "-lffi", "-lz", "-lm"])[1]
        tap.case("a host with a decimal comma", problem)
        out, problem = run([program], env={"LOCPATH": folder})
        tap.case("reads, prints and runs", problem)
        for number in WANTED:
            tap.case(f"prints {number}", "" if number in out else out)
    tap.done()


if __name__ == "__main__":
    main()
