# SPDX-License-Identifier: Apache-2.0
"""The command: ``anfora run program.anf`` and ``python -m anfora run program.anf`` are the same."""
import os
import sys


def main() -> None:
    """Runs the command in place of this process."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_command")
    try:
        os.execv(command, ["anfora", *sys.argv[1:]])
    except OSError as problem:
        sys.exit(f"anfora: {command} cannot be run ({problem.strerror}); pip install --force-reinstall anfora brings it again")


if __name__ == "__main__":
    main()
