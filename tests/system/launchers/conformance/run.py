"""Runs the cases of cases.py under rondo-run, and compares each with the record of torchrun's result.

    run.py BUILD              all cases under rondo-run, and a sample of them under the installed torchrun
    run.py BUILD NAME...      these cases under both
    run.py BUILD --record [NAME...]
                              all cases, or these, under the installed torchrun: their results go to torchrun.json

A case whose result differs from torchrun's names one of cases.DIFFERENCES, which docs/rondo-run.md explains.
"""

import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import cases

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "torchrun.json"
PAGE = HERE.parents[3] / "docs" / "rondo-run.md"
# Debian's python has torch.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LIMIT_S = 100  # for one case
TORCH = "1.13"  # of the record; others have other variables and folders
SAMPLE = 80  # each such case of the table runs under the installed torchrun
WORKERS = 2
ERROR_LINES = 4  # of stderr, in a report


class Launcher:
    def __init__(self, words, is_torchrun):
        self.words = words
        self.is_torchrun = is_torchrun


def find_rondo_run(build):
    return Launcher([str(pathlib.Path(build).resolve() / "rondo-run")], False)


def find_torchrun():
    probe = [PYTHON, "-c", "import torch.distributed.run as run; print(run.torch.__version__)"]
    found = subprocess.run(probe, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0 or not found.stdout.startswith(TORCH):
        return None
    return Launcher([PYTHON, "-B", str(HERE / "torchrun.py")], True)


# ---- One case ----


def environment(case, launcher, port):
    launchers = ("PET_", "OMP_", "RONDO_", "TORCHELASTIC_", "NCCL_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        own.pop(name, None)
    own["PYTHON_EXEC"] = PYTHON
    if launcher.is_torchrun and not case.fixed_port:
        own["PET_MASTER_PORT"] = str(port)  # else 29500, even for one node
    own.update((name, value.replace("{port}", str(port))) for name, value in case.env.items())
    return own


def start(case, launcher, folder, port):
    """Starts the launcher of each node."""
    processes = []
    for words in case.nodes:
        words = [word.replace("{port}", str(port)).replace("{scratch}", folder) for word in words]
        processes.append(
            subprocess.Popen(
                launcher.words + words,
                cwd=folder,
                env=environment(case, launcher, port),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
    return processes


def wait_for(path, process):
    """Waits until a rank has made the file, or the launcher has ended."""
    deadline = time.monotonic() + LIMIT_S
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def finish(case, process):
    """Returns what the launcher and its ranks printed."""
    try:
        return process.communicate(case.input, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        return out, f"{errors}\nIt ran for {LIMIT_S} s, and was killed."


def log_files(folder):
    """The files below RUN_ID, whose name has a random end under torchrun."""
    paths = sorted(folder.glob("*/attempt_*/*/*.log"))
    return {"/".join(path.parts[-3:]): sorted(path.read_text().splitlines()) for path in paths}


def observe(case, launcher, port):
    """Runs the case. Returns its result, and the end of stderr."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as other:
        if case.busy_port:
            other.bind(("127.0.0.1", port))
            other.listen()
        folder = pathlib.Path(name)
        for script, text in cases.SCRIPTS.items():
            (folder / script).write_text(text)
        processes = start(case, launcher, name, port)
        if case.signal:
            wait_for(folder / "ready", processes[0])
            processes[0].send_signal(getattr(signal, case.signal))
        # Each has little to print: none waits for a reader while another one is read.
        outputs, errors = zip(*(finish(case, process) for process in processes))
        out = "".join(outputs).replace(name, "{scratch}").replace(str(port), "{port}")
        failed = any(process.returncode for process in processes)
        result = {
            "status": processes[0].returncode if case.exact else "failed" if failed else "0",
            "out": sorted(out.splitlines()),
        }
        if case.logs:
            result["logs"] = log_files(folder / "logs")
        return result, "\n".join("".join(errors).splitlines()[-ERROR_LINES:])


# ---- All cases ----


def there_is_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


def is_free(port):
    """Whether nobody uses the port, and neither those 1000 and 2000 below, where rondo-run listens."""
    sockets = [socket.socket() for _ in range(3)]
    try:
        for below, each in zip((0, 1000, 2000), sockets):
            each.bind(("127.0.0.1", port - below))
        return True
    except OSError:
        return False
    finally:
        for each in sockets:
            each.close()


class Ports:
    """Free ports, each for one case. They lie below those that the kernel takes for outgoing connections."""

    def __init__(self):
        self.lock = threading.Lock()
        self.candidates = iter(range(12000 + os.getpid() % 60 * 250, 32000))

    def take(self):
        with self.lock:
            return next(port for port in self.candidates if is_free(port))


def observe_all(some, launcher):
    ports = Ports()
    alone = [case for case in some if case.fixed_port and launcher.is_torchrun]
    others = [case for case in some if case not in alone]

    def run(case):
        return case.name, observe(case, launcher, ports.take())

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = dict(pool.map(run, others))
    results.update(map(run, alone))
    return results


def write_record(torchrun, record, some):
    record.update((name, result) for name, (result, _) in observe_all(some, torchrun).items())
    names = sorted(case.name for case in cases.CASES if case.torch)
    lines = [f"{json.dumps(name)}: {json.dumps(record[name])}" for name in names]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


# ---- Comparison ----


def complaints_of_table(record):
    """Names are unique, each case has a record, and the page explains each difference."""
    names = [case.name for case in cases.CASES]
    page = " ".join(PAGE.read_text().split())
    used = {case.differs for case in cases.CASES}
    bad = [f"two cases are called {name}" for name in names if names.count(name) > 1]
    bad += [f"{case.name}: it has no record" for case in cases.CASES if case.torch and case.name not in record]
    bad += [f"{name}: it is in the record alone" for name in record if name not in names]
    bad += [f"no case shows the difference: {name}" for name in cases.DIFFERENCES if name not in used]
    bad += [f"{PAGE} does not have: {text}" for text in cases.DIFFERENCES.values() if text not in page]
    return bad


def compare(title, expected, found, errors):
    if found == expected:
        return []
    return [f"{title}:\n  expected {expected}\n  found    {found}\n  stderr: {errors}"]


def complaints_of_case(case, recorded, found, errors):
    expected = {**recorded, **case.ours}
    bad = compare(f"{case.name}: {' '.join(case.nodes[0])}", expected, found, errors)
    if case.ours and not case.differs:
        bad.append(f"{case.name}: the difference is not explained")
    if case.differs and expected == recorded:
        bad.append(f"{case.name}: this is torchrun's result, too: {case.differs}")
    if case.refused and (len(errors.splitlines()) != 1 or not errors.startswith("rondo-run: ")):
        bad.append(f"{case.name}: not one line of rondo-run: {errors}")
    return bad


def main(build, *words):
    rondo_run, torchrun = find_rondo_run(build), find_torchrun()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    with_torch = [case for case in cases.CASES if case.torch]
    if words[:1] == ("--record",):
        if not torchrun:
            sys.exit(f"{PYTHON} has no torch {TORCH} (Debian 12: python3-torch)")
        write_record(torchrun, record, [case for case in with_torch if case.name in words[1:] or not words[1:]])
        return
    has_ipv6 = there_is_ipv6()
    chosen = [case for case in cases.CASES if (case.name in words or not words) and (has_ipv6 or not case.ipv6)]
    live = [case for case in with_torch if case.name in words]
    if not words:
        live = [case for case in with_torch if not case.fixed_port][::SAMPLE]
    bad = complaints_of_table(record)
    for name, (result, errors) in (observe_all(live, torchrun) if torchrun else {}).items():
        bad += compare(f"{name}, under torchrun", record.get(name), result, errors)
    found = observe_all(chosen, rondo_run)
    for case in chosen:
        bad += complaints_of_case(case, record.get(case.name, {}), *found[case.name])
    print("\n".join(bad))
    differ = sum(bool(case.differs) for case in chosen)
    print(f"{len(chosen)} cases under rondo-run: {len(chosen) - differ} as torchrun, {differ} explained differences")
    print(f"{len(live)} of them under the installed torchrun" if torchrun else f"{PYTHON} has no torch {TORCH}")
    sys.exit(1 if bad else 0)


main(*sys.argv[1:])
