# SPDX-License-Identifier: Apache-2.0
"""The command under test, many times: forks of a program that has it and LLVM loaded (command_server.c), so that a small run does not pay
for its start."""
import atexit
import os
import subprocess
import tempfile
import threading

MOST_SECONDS = 600
HERE = threading.local()  # a server of each thread


class Server:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory()
        self.out, self.err = (os.path.join(self.folder.name, name) for name in ("out", "err"))
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self.end)

    def end(self):
        self.process.communicate()
        self.folder.cleanup()

    def run(self, words, cwd, seconds):
        """Exit status, what it wrote to standard output and to standard error."""
        request = [cwd, "/dev/null", self.out, self.err, str(seconds), str(len(words) - 1), *words[1:]]
        self.process.stdin.write(b"".join(os.fsencode(w) + b"\0" for w in request))
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        with open(self.out, "rb") as out, open(self.err, "rb") as err:
            return 128 - status if status > 128 else status, out.read(), err.read()


def execute(words, cwd=".", timeout=MOST_SECONDS):
    """The command, words[0], with these words, as subprocess.run(words, capture_output=True, text=True) has it. Where the server is not
    beside it, as with a command that is installed, it is started each time."""
    words = [str(w) for w in words]
    program = os.path.join(os.path.dirname(words[0]), "..", "test", "command_server")
    if not os.path.exists(program):
        return subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, timeout=timeout)
    if not hasattr(HERE, "server"):
        HERE.server = Server(program)
    status, out, err = HERE.server.run(words, os.path.abspath(cwd), timeout)
    if status == -14:
        raise subprocess.TimeoutExpired(words, timeout)
    return subprocess.CompletedProcess(words, status, out.decode(errors="replace"), err.decode(errors="replace"))
