#!/usr/bin/python3
"""The gain of overlap: GPT in the shape of GPT-2 124M, two ranks over a link that is slowed until
communication takes as long as backward, with overlap and without.

The ranks run in a network namespace of their own, whose loopback carries what tc allows. Two runs
find the rate. Times come from rondo-train's trace: medians over the steps of rank 0, without the
first of each run.

The last bucket is ready when backward ends: it holds the embedding, which is also the head. So the
hideable communication is that of the others, as far as backward lasts once the first is ready.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

INSIDE = "OVERLAP_INSIDE"
AIM_FASTER = 38  # per cent
AIM_HIDDEN = 90
LEFT_OUT = 1  # steps, which touch memory for the first time
LIMIT_S = 900  # of a run
TRAIN_TEXT = 1 << 18  # bytes
TEST_TEXT = 1025  # one sample: the test after the last step is short


def tool(name):
    """Of iproute2, which only root's PATH has."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        sys.exit(f"overlap: {name} is missing (Debian: iproute2)")
    return found


def enter_namespace():
    """Runs this script again where the loopback is its own."""
    if os.environ.get(INSIDE):
        subprocess.run([tool("ip"), "link", "set", "lo", "up"], check=True)
        return
    command = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    environment = {**os.environ, INSIDE: "1"}
    tried = subprocess.run(command + ["true"], capture_output=True, text=True)
    if tried.returncode:
        print("Overlap: not measured, for no network namespace can be made here", end="")
        print(f" ({tried.stderr.strip()}).")
        sys.exit(0)
    os.execvpe("unshare", command + [sys.executable] + sys.argv, environment)


def slow_link(bits_a_second):
    """The loopback carries both directions: an all-reduce of two ranks sends its bytes twice."""
    rate = ["rate", f"{bits_a_second:.0f}bit", "burst", "1m", "latency", "100ms"]
    command = [tool("tc"), "qdisc", "replace", "dev", "lo", "root", "tbf"]
    subprocess.run(command + rate, check=True)


# ---- A run -------------------------------------------------------------------------------------


def median_of(steps, name):
    return statistics.median(step[name] for step in steps)


def read_steps(path):
    """Seconds of each step of rank 0: the whole, backward, wait, and communication."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = [e for e in events if e.get("ph") == "X" and e["pid"] == 0]
    spans = [(e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in spans]
    spans.sort(key=lambda span: span[1])
    starts = [start for name, start, _ in spans if name == "forward"]
    steps = []
    for begin, end in zip(starts, starts[1:] + [math.inf]):
        steps.append(read_step([span for span in spans if begin <= span[1] < end]))
    # The test has forwards alone.
    steps = [step for step in steps if step][LEFT_OUT:]
    if not steps:
        sys.exit(f"overlap: {path} has no steps with buckets")
    return steps


def read_step(spans):
    def of(name):
        return [(start, end) for found, start, end in spans if found.startswith(name)]

    buckets = of("bucket")
    if not of("optimizer") or not buckets:
        return None
    backward_end = of("backward")[-1][1]
    before_last = sum(end - start for start, end in buckets[:-1])
    return {
        "whole": of("optimizer")[-1][1] - of("forward")[0][0],
        "backward": sum(end - start for start, end in of("backward")),
        "wait": sum(end - start for start, end in of("wait")),
        "communication": sum(end - start for start, end in buckets),
        "hideable": min(before_last, max(0, backward_end - buckets[0][0])),
    }


def run(options, folder, *more):
    trace = os.path.join(folder, "trace.json")
    command = [os.path.join(options.build, "train", "rondo-train"), "--ranks", "2"]
    command += ["--model", options.model, "--batch", str(options.batch), "--epochs", "1"]
    command += ["--steps", str(options.steps + LEFT_OUT), "--trace", trace, *more]
    command += ["--dataset", "text", "--data", os.path.join(folder, "train.txt")]
    command += ["--test-data", os.path.join(folder, "test.txt")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment |= {"RONDO_TRANSPORT": "tcp", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"overlap: {' '.join(command)}: no end after {LIMIT_S} s")
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip()[-500:]
        sys.exit(f"overlap: {' '.join(command)}: exit status {done.returncode}: {reason}")
    return read_steps(trace)


def write_text(folder):
    for name, size in (("train.txt", TRAIN_TEXT), ("test.txt", TEST_TEXT)):
        with open(os.path.join(folder, name), "wb") as file:
            file.write((b"the quick brown fox jumps over the lazy dog. " * size)[:size])


def slow_to_backward(options, folder):
    """Sets the rate: from the bytes, then from what communication took at that rate."""
    backward = median_of(run(options, folder, "--no-overlap"), "backward")
    rate = 2 * 8 * 4 * options.parameters / backward
    slow_link(rate)
    steps = run(options, folder, "--no-overlap")
    rate *= median_of(steps, "communication") / median_of(steps, "backward")
    slow_link(rate)


def measure(options, folder):
    write_text(folder)
    slow_to_backward(options, folder)
    apart, together = [], []
    for number in range(options.rounds):
        print(f"overlap: round {number + 1} of {options.rounds}", file=sys.stderr)
        apart += run(options, folder, "--no-overlap")
        together += run(options, folder)
    return apart, together


def report(options, apart, together):
    faster = 100 * (median_of(apart, "whole") / median_of(together, "whole") - 1)
    hideable = median_of(together, "hideable")
    hidden = median_of(together, "communication") - median_of(together, "wait")
    share = 100 * hidden / hideable if hideable else 0
    print(f"GPT ({options.model}, {options.parameters / 1e6:.1f} million parameters), two ranks,")
    print("over a link on which communication takes as long as backward:")
    print()
    print("| | without overlap (s) | with overlap (s) |")
    print("|:---|---:|---:|")
    for name, title in (
        ("whole", "a step"),
        ("backward", "backward"),
        ("communication", "communication"),
        ("wait", "of it not hidden"),
    ):
        print(f"| {title} | {median_of(apart, name):.3f} | {median_of(together, name):.3f} |")
    print()
    print(f"With overlap a step is {faster:.0f} % faster (aim: {AIM_FASTER} %).")
    print(f"{share:.0f} % of the hideable communication is hidden (aim: {AIM_HIDDEN} %).")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--parameters", type=int, default=124_439_808)
    parser.add_argument("--batch", type=int, default=1, help="texts a rank in a step")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    enter_namespace()
    with tempfile.TemporaryDirectory() as folder:
        report(options, *measure(options, folder))


if __name__ == "__main__":
    main()
