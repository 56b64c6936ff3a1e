# SPDX-License-Identifier: Apache-2.0
"""Programs that the tests of views draw."""

FIBONACCI = """def fibonacci(n: i64) -> i64 {
  if n < 1 { 0 } else if n == 1 { 1 } else { fibonacci(n - 1) + fibonacci(n - 2) }
}
"""

# names and strings that would end a string, an element, a script or a label if they were not escaped
HOSTILE = """def `</script><script>document.title='pwned'</script>`(`"&<b>\\\\`: f32[2, 3], `é\\n✓`: f32) {
  s = "</text>\\\\N\\\\G\\x01&amp;]]>"
  Print(s)
  `<img src=x onerror=document.title='pwned'>` = Sum(`"&<b>\\\\`, axis=1, keepdims=true)
  `<img src=x onerror=document.title='pwned'>` * `é\\n✓`
}
"""

EFFECTS = """def main(x: f32) {
  Print(x)
  y = x * 2
  Print(y)
  fn (z) { y + z }
}
"""


def chain(n):
    return "def chain(x: f32) {\n" + "".join(f"  a{i} = {'x' if not i else f'a{i - 1}'} + 1\n" for i in range(n)) + f"  a{n - 1}\n}}\n"


def many_graphs(n):
    return "".join(f"def g{i}(x) {{ {'x' if not i else f'g{i - 1}(x)'} + 1 }}\n" for i in range(n))
