"""Debian's torchrun, which Python 3.11 breaks: its option -r 0, the default, and -r 3 make it crash at start.
Takes names with dashes, too, as torch 2 does."""

import sys

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import Std

read = Std.from_str  # checks the form, and returns None for 0 and 3


def from_str(text):
    read(text)
    if text.isdigit():
        return Std(int(text))
    return {int(rank): Std(int(value)) for rank, value in (pair.split(":") for pair in text.split(","))}


def underscored(words):
    """The options before the program, with underscores in their names."""
    for index, word in enumerate(words):
        if word == "--" or word.endswith((".py", "/sh")):
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            words[index] = "--" + name.replace("-", "_") + equals + value
    return words


# Processes that --run_path starts import this file.
if __name__ == "__main__":
    Std.from_str = from_str
    run.main(underscored(sys.argv[1:]))
