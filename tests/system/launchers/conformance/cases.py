"""The command lines that rondo-run and torchrun are compared on.

torchrun's result of each is in torchrun.json, which run.py writes. Where rondo-run's is another one, the case names
one of DIFFERENCES, and has rondo-run's own result in `ours`."""

from dataclasses import dataclass, field

# The texts are those of docs/rondo-run.md.
DIFFERENCES = {
    "exit status": "The exit status is that of the first rank that failed. torchrun's is 1.",
    "bad input": "Options that are wrong give one line, and status 2. torchrun prints a traceback, and ends with 1 or "
    "2.",
    "free port": "A job of one node gets a free `MASTER_PORT`, unless `--master-port` names one. torchrun's is 29500, "
    "which a second job on the host cannot have.",
    "run id": "Without `--rdzv-id`, a job of one node gets a random `TORCHELASTIC_RUN_ID`. torchrun's is `none`.",
    "agent store": "`TORCHELASTIC_USE_AGENT_STORE` is `False`, and rank 0 opens the store at `MASTER_PORT`. With "
    "`static`, torchrun's own store has that port, and the variable is `True`.",
    "python": "A program that is no script of python is executed without `--no-python`, too. torchrun gives it to "
    "python.",
    "missing script": "A script that does not exist gives one line, and status 127. torchrun starts python in each "
    "rank, and each reports it.",
    "module": "`--module` with `--run-path` is refused. torchrun ignores `--module` then.",
    "standalone": "`--standalone` with several nodes is refused. torchrun waits for them.",
    "keys": "`--rdzv-conf` refuses keys that torchrun does not have. torchrun ignores them.",
    "number of nodes": "Several nodes need `--node-rank` or `--rdzv-endpoint`. Without them, each node of torchrun is "
    "node 0, and waits for the others.",
    "dollars": "Arguments get the local rank for `${local_rank}` alone. torchrun also replaces `$local_rank`, and "
    "`$$` by `$`.",
    "failure": "A rank that fails ends the ranks of all nodes. With torchrun, those of other nodes go on.",
    "restart count": "`TORCHELASTIC_RESTART_COUNT` is the same on all nodes. torchrun's counts the failures of its own "
    "node.",
    "address": "With `c10d`, `MASTER_ADDR` is an address of node 0. torchrun's is its host name, which the other nodes "
    "must resolve.",
    "newer options": "The options of torch 2 are there: `--local-addr`, `--local-ranks-filter`, `--signals-to-handle`, "
    "and names with dashes. Debian's torchrun (1.13) lacks them.",
    "refused options": "Options of torch 2 that choose its own code are refused: `--event-log-handler`, `--logs-specs`, "
    "`--numa-binding`, `--virtual-local-rank` and the filters of duplicated lines.",
    "own options": "`--bind`, `--check`, `--grace`, `--hosts`, `--export`, `--prometheus`, `--status` and `--tag` are rondo-run's own.",
}

SCRIPTS = {
    # show.py WORD...: the words, as one line.
    "show.py": "import sys\nsys.stdout.write(' '.join([__name__, *sys.argv[1:]]) + '\\n')\n",
    "variable.py": "import os, sys\nsys.stdout.write(os.environ.get(sys.argv[1], 'none') + '\\n')\n",
    "python.py": "import sys\nsys.stdout.write(f'{sys.argv[0]} {sys.flags.unbuffered} {sys.stdout.line_buffering}\\n')\n",
    "input.py": "import sys\nsys.stdout.write('read ' + sys.stdin.read())\n",
    "fails.py": "import sys\nsys.exit(int(sys.argv[1]))\n",
    "raises.py": "raise RuntimeError('wrong')\n",
}


@dataclass
class Case:
    name: str
    nodes: list  # the words after the launcher's name, for each node
    env: dict = field(default_factory=dict)
    differs: str = ""  # one of DIFFERENCES
    ours: dict = field(default_factory=dict)  # parts of the result that differ, or all of it without torchrun's
    torch: bool = True  # False: Debian's torchrun does not know the option
    exact: bool = False  # compare the exit status; otherwise whether it is 0
    logs: bool = False  # compare the files below {scratch}/logs
    refused: bool = False  # rondo-run prints one line
    signal: str = ""  # to the launcher of the first node, once a rank has made the file "ready"
    input: str = ""
    ipv6: bool = False  # it needs the address ::1
    busy_port: bool = False  # another program listens at {port}
    fixed_port: bool = False  # torchrun takes a port that a second one on this host cannot have


CASES = []


def add(name, words, *more_nodes, **parts):
    CASES.append(Case(name, [words, *more_nodes], **parts))


def sh(script):
    return ["--no_python", "/bin/sh", "-c", script]


FAILED = {"status": "failed", "out": []}
TWO = ["--nproc_per_node=2"]
QUICK = ["--monitor_interval=0.1"]

# ---- Variables ----

SAME = """RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME
    MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS NCCL_ASYNC_ERROR_HANDLING""".split()
for variable in SAME:
    add(f"variable {variable}", [*QUICK, *TWO, "variable.py", variable])
add("variable MASTER_PORT that is given", [*QUICK, *TWO, "--master_port={port}", "variable.py", "MASTER_PORT"])
add("variable MASTER_ADDR that is given", [*QUICK, "--master_addr=localhost", "variable.py", "MASTER_ADDR"])
add("variable MASTER_ADDR that is another of this host", [*QUICK, "--master_addr=127.0.0.2", "--master_port={port}",
    "variable.py", "MASTER_ADDR"])
add("variable MASTER_ADDR in brackets", [*QUICK, "--master_addr=[::1]", "--master_port={port}", "variable.py",
    "MASTER_ADDR"], ipv6=True)
add("variable TORCHELASTIC_RUN_ID that is given", [*QUICK, *TWO, "--rdzv_id=job7", "variable.py", "TORCHELASTIC_RUN_ID"])
add("variable ROLE_NAME that is given", [*QUICK, *TWO, "--role=trainer", "variable.py", "ROLE_NAME"])
add("variable TORCHELASTIC_MAX_RESTARTS that is given", [*QUICK, "--max_restarts=3", "variable.py",
    "TORCHELASTIC_MAX_RESTARTS"])
add("variable OMP_NUM_THREADS of the user", [*QUICK, *TWO, "variable.py", "OMP_NUM_THREADS"], env={"OMP_NUM_THREADS": "3"})
add("variable OMP_NUM_THREADS of one rank", [*QUICK, "variable.py", "OMP_NUM_THREADS"])
add("variable NCCL_ASYNC_ERROR_HANDLING of the user", [*QUICK, "variable.py", "NCCL_ASYNC_ERROR_HANDLING"],
    env={"NCCL_ASYNC_ERROR_HANDLING": "0"})
add("variable of the user", [*QUICK, *TWO, "variable.py", "MINE"], env={"MINE": "a b"})
add("variable PET_ROLE stays", [*QUICK, "variable.py", "PET_ROLE"], env={"PET_ROLE": "trainer"})
add("variable WORLD_SIZE of an outer job", [*QUICK, "variable.py", "WORLD_SIZE"], env={"WORLD_SIZE": "7", "RANK": "6"})
add("variable MASTER_ADDR of the user does not count", [*QUICK, "variable.py", "MASTER_ADDR"],
    env={"MASTER_ADDR": "10.0.0.1"})
add("variable TORCHELASTIC_ERROR_FILE of attempt 0", [*QUICK, *TWO, "--log_dir={scratch}/logs", *sh(
    'echo "$TORCHELASTIC_ERROR_FILE" | sed "s/.*attempt/attempt/"')])
add("variable TORCHELASTIC_USE_AGENT_STORE", [*QUICK, "variable.py", "TORCHELASTIC_USE_AGENT_STORE"],
    differs="agent store", ours={"out": ["False"]})
add("variable TORCHELASTIC_RUN_ID", [*QUICK, *sh('[ "$TORCHELASTIC_RUN_ID" = none ] && echo none || echo random')],
    differs="run id", ours={"out": ["random"]})
add("variable MASTER_PORT", [*QUICK, *sh('[ "$MASTER_PORT" = 29500 ] && echo 29500 || echo free')],
    differs="free port", ours={"out": ["free"]}, fixed_port=True)

# ---- Spellings of options, and variables ----

for name, words in {
    "equals": ["--nproc_per_node=2"],
    "space": ["--nproc_per_node", "2"],
    "dashes": ["--nproc-per-node=2"],
    "dashes and a space": ["--nproc-per-node", "2"],
    "cut short": ["--nproc=2"],
    "cut within a word": ["--nproc_per_n", "2"],
    "twice": ["--nproc_per_node=3", "--nproc_per_node=2"],
}.items():
    add(f"spelling: {name}", [*QUICK, *words, "variable.py", "WORLD_SIZE"])
add("spelling: a letter with its value", [*QUICK, "-r1", "--log_dir={scratch}/logs", "show.py"], logs=True)
add("spelling: a letter and a space", [*QUICK, "-r", "1", "--log_dir={scratch}/logs", "show.py"], logs=True)
add("spelling: a letter and equals", [*QUICK, "-r=1", "--log_dir={scratch}/logs", "show.py"], logs=True)
add("spelling: --redirects", [*QUICK, "--redirects", "1", "--log_dir={scratch}/logs", "show.py"], logs=True)
add("spelling: --tee", [*QUICK, "--tee=1", "--log_dir={scratch}/logs", "show.py"], logs=True)
add("spelling: -- before the program", [*QUICK, "--nproc_per_node=1", "--", "show.py", "a"])
add("spelling: a flag cut short", [*QUICK, "--stand", "variable.py", "WORLD_SIZE"], fixed_port=True)

add("PET_NPROC_PER_NODE", [*QUICK, "variable.py", "WORLD_SIZE"], env={"PET_NPROC_PER_NODE": "2"})
add("PET_NPROC_PER_NODE and the command line", [*QUICK, *TWO, "variable.py", "WORLD_SIZE"],
    env={"PET_NPROC_PER_NODE": "3"})
add("PET_NNODES", [*QUICK, "variable.py", "GROUP_WORLD_SIZE"], env={"PET_NNODES": "1"})
add("PET_ROLE", [*QUICK, "variable.py", "ROLE_NAME"], env={"PET_ROLE": "trainer"})
add("PET_RDZV_ID", [*QUICK, "variable.py", "TORCHELASTIC_RUN_ID"], env={"PET_RDZV_ID": "job8"})
add("PET_MAX_RESTARTS", [*QUICK, "variable.py", "TORCHELASTIC_MAX_RESTARTS"], env={"PET_MAX_RESTARTS": "2"})
add("PET_MASTER_PORT", [*QUICK, *sh("echo $MASTER_PORT")], env={"PET_MASTER_PORT": "{port}"})
add("PET_MONITOR_INTERVAL", ["show.py", "a"], env={"PET_MONITOR_INTERVAL": "0.1"})
add("PET_STANDALONE=1", [*QUICK, "variable.py", "WORLD_SIZE"], env={"PET_STANDALONE": "1"}, fixed_port=True)
add("PET_STANDALONE=0", [*QUICK, "variable.py", "WORLD_SIZE"], env={"PET_STANDALONE": "0"})
add("PET_NO_PYTHON=1", [*QUICK, "echo", "a"], env={"PET_NO_PYTHON": "1"})
add("PET_MODULE=1", [*QUICK, "show", "a"], env={"PET_MODULE": "1"})
add("PET_RUN_PATH=1", [*QUICK, "show.py", "a"], env={"PET_RUN_PATH": "1"})
add("PET_REDIRECTS and PET_LOG_DIR", [*QUICK, "show.py", "a"],
    env={"PET_REDIRECTS": "1", "PET_LOG_DIR": "logs"}, logs=True)
add("PET_TEE and PET_LOG_DIR", [*QUICK, "show.py", "a"], env={"PET_TEE": "1", "PET_LOG_DIR": "logs"}, logs=True)
add("PET_RDZV_CONF", [*QUICK, "show.py", "a"], env={"PET_RDZV_CONF": "timeout=30"})
add("PET_RDZV_ENDPOINT that is empty", [*QUICK, "show.py", "a"], env={"PET_RDZV_ENDPOINT": ""})
add("PET_START_METHOD", [*QUICK, "show.py", "a"], env={"PET_START_METHOD": "fork"})

# ---- Programs ----

add("program: a script", [*QUICK, "show.py"])
add("program: a script and its words", [*QUICK, *TWO, "show.py", "a", "b c", ""])
add("program: a script's own options", [*QUICK, "show.py", "--nproc_per_node=2", "--help", "-m"])
add("program: a script by its path", [*QUICK, "{scratch}/show.py", "a"])
add("program: python is unbuffered", [*QUICK, "python.py"])
add("program: a module", [*QUICK, "-m", "show", "a"])
add("program: --module", [*QUICK, *TWO, "--module", "show", "a"])
add("program: a module of python", [*QUICK, "-m", "json.tool", "--help"])
add("program: --no_python", [*QUICK, "--no_python", "echo", "a"])
add("program: --no-python", [*QUICK, "--no-python", "echo", "a"])
add("program: --run_path", [*QUICK, "--run_path", "show.py", "a", "b"])
add("program: --run_path before --no_python", [*QUICK, "--run_path", "--no_python", "show.py", "a"])
add("program: ${local_rank}", [*QUICK, *TWO, "show.py", "of-${local_rank}"])
add("program: ${local_rank} without python", [*QUICK, *TWO, "--no_python", "echo", "${local_rank}${local_rank}"])
add("program: other dollars", [*QUICK, "show.py", "${rank} $HOME"])
add("program: $local_rank and $$", [*QUICK, "show.py", "$local_rank", "a$$b"], differs="dollars",
    ours={"out": ["__main__ $local_rank a$$b"]})
add("program: --start_method", [*QUICK, "--start_method=forkserver", "show.py", "a"])
add("program: without --no_python", [*QUICK, "echo", "a"], differs="python", ours={"status": "0", "out": ["a"]})
add("program: rank 0 reads the input", [*QUICK, "input.py"], input="a line\n")
add("program: none", [*QUICK], exact=True, refused=True)
add("program: a script that does not exist", [*QUICK, "none.py"])
add("program: a script that does not exist, exactly", [*QUICK, "none.py"], exact=True, refused=True,
    differs="missing script", ours={"status": 127})
add("program: one that does not exist", [*QUICK, "--no_python", "./none"])
add("program: one that is a folder", [*QUICK, "--no_python", "/tmp"])
add("program: a module that does not exist", [*QUICK, "-m", "no_such_module"])
add("program: --run_path of none", [*QUICK, "--run_path", "none.py"])
add("program: --no_python of a script without its bit", [*QUICK, "--no_python", "./show.py"])

# ---- The end ----

add("end: 0", [*QUICK, *TWO, *sh("exit 0")], exact=True)
for status in (1, 3, 255):
    add(f"end: {status}", [*QUICK, "fails.py", str(status)])
add("end: 1, exactly", [*QUICK, "fails.py", "1"], exact=True)
add("end: 3, exactly", [*QUICK, "fails.py", "3"], exact=True, differs="exit status", ours={"status": 3})
add("end: an exception", [*QUICK, "raises.py"], exact=True)
for name, number in {"KILL": 9, "TERM": 15, "ABRT": 6, "SEGV": 11}.items():
    add(f"end: SIG{name}", [*QUICK, *sh(f"kill -{name} $$")])
    add(f"end: SIG{name}, exactly", [*QUICK, *sh(f"kill -{name} $$")], exact=True, differs="exit status",
        ours={"status": 128 + number})
add("end: the last rank fails", [*QUICK, *TWO, *sh("exit $RANK")])
add("end: the first rank fails, and the others are ended", [*QUICK, "--nproc_per_node=3", *sh(
    "[ $RANK = 0 ] && exit 1; exec sleep 60")])
add("end: ranks that are ended receive SIGTERM", [*QUICK, *TWO, *sh(
    "[ $RANK = 0 ] && while [ ! -e ready ]; do sleep 0.02; done && exit 1; "
    "trap 'echo TERM; exit 0' TERM; touch ready; while :; do sleep 0.02; done")])
for name in ("TERM", "INT", "HUP", "QUIT"):
    trap = f"trap 'echo {name}; exit 1' {name}; touch ready; while :; do sleep 0.02; done"
    add(f"end: the ranks receive SIG{name}", [*QUICK, *sh(trap)], signal=f"SIG{name}")
add("end: SIGTERM to the launcher, exactly", [*QUICK, *sh("touch ready; exec sleep 60")], signal="SIGTERM", exact=True,
    differs="exit status", ours={"status": 128 + 15})

# ---- Log files ----

BOTH = sh("echo out $LOCAL_RANK; echo err $LOCAL_RANK >&2")
LOGS = [*QUICK, *TWO, "--log_dir={scratch}/logs"]
for value in ("0", "1", "2", "3", "0:1,1:2", "1:3", "0:0,1:1", "5:1"):
    add(f"logs: -r {value}", [*LOGS, "-r", value, *BOTH], logs=True)
    add(f"logs: -t {value}", [*LOGS, "-t", value, *BOTH], logs=True)
add("logs: -r 1 -t 2", [*LOGS, "-r", "1", "-t", "2", *BOTH], logs=True)
add("logs: -r 3 -t 3", [*LOGS, "-r", "3", "-t", "3", *BOTH], logs=True)
add("logs: -r 3 -t 0:1", [*LOGS, "-r", "3", "-t", "0:1", *BOTH], logs=True)
add("logs: the prefix has the role", [*LOGS, "--role=trainer", "-t", "1", *BOTH], logs=True)
add("logs: the name of the run", [*LOGS, "--rdzv_id=job9", "-r", "3", *BOTH], logs=True)
add("logs: a folder that is made", [*QUICK, "--log_dir={scratch}/logs", "-r", "1", *BOTH], logs=True)
add("logs: a relative folder", [*QUICK, "--log_dir=logs", "-r", "1", *BOTH], logs=True)
add("logs: no folder is given", [*QUICK, *TWO, "-r", "3", *BOTH], env={"TMPDIR": "."})
add("logs: ranks that print nothing", [*LOGS, "-r", "3", *sh(":")], logs=True)
add("logs: many lines", [*LOGS, "-t", "1", *sh("seq 100")], logs=True)
add("logs: a line without an end", [*LOGS, "-r", "1", *sh("printf a")], logs=True)
add("logs: of a rank that fails", [*LOGS, "-r", "3", *sh("echo $RANK; exit $RANK")], logs=True)
add("logs: a folder that is a file", [*QUICK, "--log_dir=show.py", "-r", "1", *BOTH], refused=True)
add("logs: a folder that cannot be made", [*QUICK, "--log_dir=/proc/none", "-r", "1", *BOTH], refused=True)
add("logs: --local_ranks_filter", [*QUICK, *TWO, "--local_ranks_filter=1", *BOTH], torch=False,
    differs="newer options", ours={"status": "0", "out": ["out 1"]})
add("logs: --local-ranks-filter and a tee", [*LOGS, "--local-ranks-filter=0", "-t", "1", *BOTH], torch=False, logs=True,
    differs="newer options", ours={"status": "0", "out": ["[default0]:out 0"],
        "logs": {"attempt_0/0/stdout.log": ["out 0"], "attempt_0/1/stdout.log": ["out 1"]}})

# ---- Nodes ----

add("nodes: --nnodes=1", [*QUICK, "--nnodes=1", "variable.py", "GROUP_WORLD_SIZE"])
add("nodes: --nnodes=1:1", [*QUICK, "--nnodes=1:1", "variable.py", "GROUP_WORLD_SIZE"])
add("nodes: --standalone", [*QUICK, *TWO, "--standalone", "variable.py", "WORLD_SIZE"], fixed_port=True)
add("nodes: --standalone and a rendezvous", [*QUICK, "--standalone", "--rdzv_backend=c10d",
    "--rdzv_endpoint=nowhere:1", "variable.py", "WORLD_SIZE"], fixed_port=True)
add("nodes: static", [*QUICK, "--rdzv_backend=static", "--master_port={port}", "variable.py", "MASTER_PORT"])
add("nodes: static, an endpoint", [*QUICK, "--rdzv_backend=static", "--rdzv_endpoint=127.0.0.1:{port}", "variable.py",
    "MASTER_PORT"])
add("nodes: c10d, one node", [*QUICK, *TWO, "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:{port}", "variable.py",
    "WORLD_SIZE"])
add("nodes: c10d, with a configuration", [*QUICK, "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:{port}",
    "--rdzv_conf=join_timeout=30,last_call_timeout=1,is_host=true,read_timeout=20", "variable.py", "WORLD_SIZE"])
STATIC = [*QUICK, "--nnodes=2", "--master_addr=127.0.0.1", "--master_port={port}"]
SHOW = ["--no_python", "/bin/sh", "-c", "echo $GROUP_RANK $GROUP_WORLD_SIZE $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE"]
add("nodes: two, static", *[[*STATIC, *TWO, f"--node_rank={node}", *SHOW] for node in (0, 1)])
add("nodes: two, static, the second first", *[[*STATIC, *TWO, f"--node_rank={node}", *SHOW] for node in (1, 0)])
add("nodes: two, static, the same port", *[[*STATIC, f"--node_rank={node}", *sh("echo $MASTER_ADDR $MASTER_PORT")]
    for node in (0, 1)])
add("nodes: two, of different sizes", *[[*STATIC, f"--nproc_per_node={node + 1}", f"--node_rank={node}", *SHOW]
    for node in (0, 1)])
C10D = [*QUICK, "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:{port}", "--rdzv_id=job"]
add("nodes: two, c10d", *[[*C10D, "--nnodes=2", *TWO, *SHOW]] * 2)
add("nodes: two, c10d, of different sizes", *[[*C10D, "--nnodes=2", f"--nproc_per_node={size}", *sh("echo $WORLD_SIZE")]
    for size in (1, 2)])
add("nodes: two, c10d, one run id", *[[*C10D, "--nnodes=2", *sh("echo $TORCHELASTIC_RUN_ID")]] * 2)
add("nodes: three, c10d, 3:3", *[[*C10D, "--nnodes=3:3", *SHOW]] * 3)
add("nodes: 1:2, both come", *[[*C10D, "--nnodes=1:2", "--rdzv_conf=last_call_timeout=20", *SHOW]] * 2)
add("nodes: 1:2, one comes", [*C10D, "--nnodes=1:2", "--rdzv_conf=last_call_timeout=1", *SHOW])
add("nodes: two, static, by variables", *[[f"--node_rank={node}", *SHOW] for node in (0, 1)], env={
    "PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": "{port}",
    "PET_MONITOR_INTERVAL": "0.1"})
add("nodes: two, c10d, by variables", *[SHOW] * 2, env={
    "PET_NNODES": "1:2", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "127.0.0.1:{port}", "PET_RDZV_ID": "job",
    "PET_RDZV_CONF": "last_call_timeout=20", "PET_MAX_RESTARTS": "3", "PET_MONITOR_INTERVAL": "0.1"})
add("nodes: two, a failure on one",
    [*STATIC, "--node_rank=0", *sh("touch ready; sleep 5; echo went on")],
    [*STATIC, "--node_rank=1", *sh("while [ ! -e ready ]; do sleep 0.02; done; exit 1")],
    differs="failure", ours={"out": []})
add("nodes: two, localhost and its address", *[[*QUICK, "--rdzv_backend=c10d", f"--rdzv_endpoint={host}:{{port}}",
    "--rdzv_id=job", "--nnodes=2", *sh("echo $WORLD_SIZE")] for host in ("localhost", "127.0.0.1")])
add("nodes: c10d, the address", [*C10D, *sh('[ "$MASTER_ADDR" = 127.0.0.1 ] && echo address || echo name')],
    differs="address", ours={"out": ["address"]})
add("nodes: --local_addr", [*QUICK, "--local_addr=127.0.0.1", "variable.py", "WORLD_SIZE"], torch=False,
    differs="newer options", ours={"status": "0", "out": ["1"]})

# ---- Restarts ----

ONCE = "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]"
add("restarts: a failure, then success", [*QUICK, *TWO, "--max_restarts=1", *sh(ONCE)], exact=True)
add("restarts: none left", [*QUICK, "--max_restarts=1", *sh("echo $TORCHELASTIC_RESTART_COUNT; exit 1")])
add("restarts: none needed", [*QUICK, "--max_restarts=3", *sh("echo $TORCHELASTIC_RESTART_COUNT")])
add("restarts: three", [*QUICK, "--max_restarts=3", *sh("echo $TORCHELASTIC_RESTART_COUNT; "
    "[ $TORCHELASTIC_RESTART_COUNT = 3 ]")])
add("restarts: after a signal", [*QUICK, "--max_restarts=1", *sh(
    "echo $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || kill -9 $$")])
add("restarts: all ranks, for one that fails", [*QUICK, *TWO, "--max_restarts=1", *sh(
    "echo $RANK $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; "
    "[ $RANK = 0 ] && touch ready && exec sleep 60; while [ ! -e ready ]; do sleep 0.02; done; exit 1")])
add("restarts: a folder of logs for each attempt", [*LOGS, "--max_restarts=1", "-r", "1", *sh(ONCE)], logs=True)
add("restarts: standalone", [*QUICK, "--standalone", "--max_restarts=1", *sh(ONCE)], fixed_port=True)
add("restarts: the world is the same", [*QUICK, *TWO, "--max_restarts=1", *sh(
    "echo $RANK $WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 1 ]")])
add("restarts: two nodes", *[[*C10D, "--nnodes=2", "--max_restarts=1", *sh(ONCE)]] * 2)
add("restarts: two nodes, for a failure on one",
    [*C10D, "--nnodes=2", "--max_restarts=1", *sh("echo $TORCHELASTIC_RESTART_COUNT; [ -e again ] && exit 0; "
        "touch ready; exec sleep 60")],
    [*C10D, "--nnodes=2", "--max_restarts=1", *sh("echo $TORCHELASTIC_RESTART_COUNT; [ -e again ] && exit 0; "
        "while [ ! -e ready ]; do sleep 0.02; done; touch again; exit 1")],
    differs="restart count", ours={"out": ["0", "0", "1", "1"]})

# ---- Wrong options ----

for name, words in {
    "an unknown option": ["--nproc_per_nodes=2"],
    "an ambiguous option": ["--rdzv", "a"],
    "no value": ["--nproc_per_node"],
    "a number that is none": ["--nproc_per_node=two"],
    "a backend that is none": ["--rdzv_backend=none"],
    "nodes that are no number": ["--nnodes=two"],
    "three numbers of nodes": ["--nnodes=1:2:3"],
    "fewer nodes than the least": ["--nnodes=3:2"],
    "no nodes": ["--nnodes=0"],
    "restarts below 0": ["--max_restarts=-1"],
    "restarts that are no number": ["--max_restarts=a"],
    "an interval that is no number": ["--monitor_interval=a"],
    "a start method that is none": ["--start_method=thread"],
    "redirects above 3": ["-r", "4"],
    "redirects without a value": ["-r", "0:1,1"],
    "a tee that is a word": ["-t", "all"],
    "a port that is no number": ["--master_port=a"],
    "a node rank that is no number": ["--node_rank=a"],
    "an endpoint with a port that is none": ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:99999"],
    "an endpoint that is no name": ["--rdzv_backend=c10d", "--rdzv_endpoint=a/b:29400"],
    "a configuration without a value": ["--rdzv_conf=timeout"],
    "a configuration without a key": ["--rdzv_conf==3"],
    "a configuration that is no number": ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:{port}",
        "--rdzv_conf=join_timeout=soon"],
    "a module without python": ["--module", "--no_python"],
    "a flag with a value": ["--standalone=1"],
}.items():
    program = [] if name == "no value" else ["show.py"]
    add(f"wrong: {name}", [*QUICK, *words, *program], refused=True)
for name, value in {"PET_NNODES": "two", "PET_NPROC_PER_NODE": "many", "PET_STANDALONE": "yes", "PET_MAX_RESTARTS": "a",
        "PET_MASTER_PORT": "a", "PET_REDIRECTS": "9", "PET_RDZV_BACKEND": "none"}.items():
    add(f"wrong: {name}", [*QUICK, "show.py"], env={name: value}, refused=True)
add("wrong: the status", [*QUICK, "--nnodes=3:2", "show.py"], exact=True, refused=True, differs="bad input",
    ours={"status": 2})
add("wrong: a port in use", [*QUICK, "--master_port={port}", "show.py"], busy_port=True, refused=True)
add("wrong: a port in use, for two nodes", [*STATIC, "--node_rank=0", "show.py"], busy_port=True, refused=True)
add("wrong: gpu without a GPU", [*QUICK, "--nproc_per_node=gpu", "show.py"], refused=True,
    env={"CUDA_VISIBLE_DEVICES": ""})
add("wrong: a module and --run_path", [*QUICK, "-m", "--run_path", "show.py"], refused=True, differs="module",
    ours=FAILED)
add("wrong: --standalone with a range", [*QUICK, "--standalone", "--nnodes=1:2", "--rdzv_conf=last_call_timeout=1",
    "show.py"], refused=True, differs="standalone", ours=FAILED, fixed_port=True)
add("wrong: a key that is unknown", [*QUICK, "--rdzv_conf=tmeout=3", "show.py"], refused=True, differs="keys",
    ours=FAILED)
add("wrong: two nodes without their numbers", [*QUICK, "--nnodes=2", "show.py"], torch=False, refused=True,
    differs="number of nodes", ours=FAILED)
for option in ("--event_log_handler=null", "--logs_specs=default", "--numa_binding=node", "--virtual_local_rank"):
    add(f"wrong: {option}", [*QUICK, option, "show.py"], torch=False, refused=True, differs="refused options", ours=FAILED)

# ---- Options of torch 2, and rondo-run's own ----

add("options: --signals_to_handle", [*QUICK, "--signals_to_handle=SIGUSR1", *sh(
    "trap 'echo USR1; exit 1' USR1; touch ready; while :; do sleep 0.02; done")], torch=False, signal="SIGUSR1",
    differs="newer options", ours={"status": "failed", "out": ["USR1"]})
add("options: --tag", [*QUICK, *TWO, "--tag", *sh("echo a")], torch=False, differs="own options",
    ours={"status": "0", "out": ["[0] a", "[1] a"]})
add("options: --bind and --grace", [*QUICK, *TWO, "--bind=cores", "--grace=1", *sh("echo a")], torch=False,
    differs="own options", ours={"status": "0", "out": ["a", "a"]})
add("options: OMP_NUM_THREADS of two ranks", [*QUICK, *TWO, *sh(
    '[ "$OMP_NUM_THREADS" -ge 1 ] && echo some')])
