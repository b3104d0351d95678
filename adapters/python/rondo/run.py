"""
python -m rondo.run [-n RANKS] [OPTION]... SCRIPT [ARGUMENT]...

Starts a script as several ranks, with this Python, by rondo-run: the one of the package, else that of PATH.
-n RANKS, which comes first, is --nproc-per-node RANKS; all else is rondo-run's (docs/rondo-run.md).
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import NoReturn, Optional


def find() -> Optional[str]:
	"""The path of rondo-run."""
	beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "rondo-run")
	return beside if os.access(beside, os.X_OK) else shutil.which("rondo-run")


def main() -> NoReturn:
	arguments = sys.argv[1:]
	if arguments and arguments[0] == "-n":
		arguments[0] = "--nproc-per-node"
	program = find()
	if program is None:
		sys.exit("rondo.run: no rondo-run beside the package nor in PATH: add its folder to PATH")
	os.environ.setdefault("PYTHON_EXEC", sys.executable)
	sys.stdout.flush()
	os.execv(program, [program, *arguments])


if __name__ == "__main__":
	main()
