/* The command line of rondo-plan: refusals in one line. */
#include <criterion/criterion.h>
#include <string.h>

#include "text.h"
#include "program.h"

#define REFUSED(wanted_status, text, ...) \
	do { \
		struct run refused = run(__VA_ARGS__, NULL); \
		cr_assert_eq(refused.status, wanted_status); \
		cr_assert_eq(count_of(refused.err, "\n"), 1, "%s", refused.err); \
		cr_assert_not_null(strstr(refused.err, text), "%s", refused.err); \
		cr_assert_str_empty(refused.out); \
	} while (0)

Test(plan, wrong_arguments_get_one_line)
{
	REFUSED(1, "/nowhere.json: No such file", "print", "/nowhere.json");
	REFUSED(2, "what is meant by 'all_reduce'?", "print", "./a.json", "all_reduce");
	REFUSED(2, "export wants -o FILE", "export", "ring", "all_reduce");
	REFUSED(2, "import wants -o FILE", "import", "a.xml");
	REFUSED(2, "import wants a FILE", "import", "-o", "-");
	REFUSED(2, "--format is for export", "import", "a.xml", "-o", "-", "--format", "msccl");
	REFUSED(2, "diff wants a TRACE", "diff");
	REFUSED(2, "replay wants a TRACE", "replay");
	REFUSED(2, "what is meant by 'c'?", "diff", "a.json", "b.json", "c");
	REFUSED(2, "--link wants a --topology, which has links", "replay", "t.json", "--link",
		"a=2");
	REFUSED(2, "--link wants NAME=FACTOR, such as 'host 0 up=2', not '=2'", "replay", "t.json",
		"--topology", "card", "--link", "=2");
	REFUSED(1, "cannot read /nowhere.json", "diff", "/nowhere.json");
	REFUSED(1, "/nowhere/plan.json: No such file", "diff", "/nowhere.json",
		"/nowhere/plan.json");
	REFUSED(2, "--within wants a factor from 1 on, such as 2, not '0.5'", "diff", "t.json",
		"--within", "0.5");
	REFUSED(2, "--call is for diff", "print", "ring", "all_reduce", "--call", "1");
	REFUSED(1, "cannot read /nowhere.xml", "import", "/nowhere.xml", "-o", "-");
	REFUSED(1, "two_shot_4 needs direct access, which has no form in MSCCL's XML", "export",
		"two_shot", "all_reduce", "--format", "msccl", "-o", "/dev/null");
	REFUSED(2, "--output is for export and import", "print", "ring", "all_reduce", "-o", "-");
	REFUSED(2,
		"print, draw, compare, simulate, prove, export, import, diff or replay, not 'show'",
		"show", "ring", "all_reduce");
	REFUSED(2, "an ALGORITHM and a COLLECTIVE", "print", "ring");
	REFUSED(2, "what is meant by 'now'?", "compare", "ring", "all_reduce", "now");
	REFUSED(2,
		"'all_reduse' is no collective, such as all_reduce or broadcast; did you mean "
		"all_reduce?",
		"compare", "all_reduse");
	REFUSED(2, "prove wants an ALGORITHM", "prove");
	REFUSED(2, "--hosts is for print, draw, compare, simulate, export and replay", "prove",
		"ring", "--hosts", "2");
	REFUSED(2, "--size is for print, draw, simulate and export", "compare", "all_reduce",
		"--size", "8");
	REFUSED(2, "--piece is for --format chakra", "export", "ring", "all_reduce", "-o", "-",
		"--piece", "8K");
	REFUSED(2, "--format wants rondo, msccl or chakra, not 'et'", "export", "ring",
		"all_reduce", "-o", "-", "--format", "et");
	REFUSED(2, "--format chakra writes a file for each rank: -o NAME", "export", "ring",
		"all_reduce", "-o", "-", "--format", "chakra");
	REFUSED(2, "--seed is for draw, simulate and replay", "print", "ring", "all_reduce",
		"--seed", "0");
	REFUSED(2, "--ranks is for print, draw, compare, simulate, prove and export", "import",
		"a.xml", "--ranks", "4");
	REFUSED(1, "there is no algorithm 'rign'; did you mean ring?", "prove", "rign");
	REFUSED(1, "chain has no all_to_all", "prove", "chain", "all_to_all");
	REFUSED(2, "draw wants --svg FILE or --html FILE", "draw", "ring", "all_reduce");
	REFUSED(2, "rank 4 is not in 0..3", "print", "ring", "broadcast", "--root", "4");
	REFUSED(2, "--root is for collectives that have one: all_reduce has none", "compare",
		"all_reduce", "--root", "0");
	REFUSED(2, "5 hosts for 4 ranks", "print", "ring", "broadcast", "--hosts", "5");
	REFUSED(2, "--piece wants a size such as 8, 64K or 128M, from 1 to 131072G, not '0'",
		"print", "ring", "broadcast", "--piece", "0");
	REFUSED(2, "--size wants a size such as 8, 64K or 128M, from 0 to 131072G, not '999999G'",
		"simulate", "ring", "all_reduce", "--size", "999999G");
	REFUSED(1,
		"ring of 140737488355328 bytes has more than 100000000000 steps to simulate: give "
		"a larger --piece",
		"simulate", "ring", "all_reduce", "--size", "131072G", "--piece", "1K");
	REFUSED(1, "the call has more nodes than a trace, 8388608: give a larger --piece", "export",
		"ring", "all_reduce", "--format", "chakra", "-o", "/dev/null", "--size", "131072G");
	REFUSED(1, "--plugin /nowhere/ring.json: cannot open", "print", "ring", "all_reduce",
		"--plugin", "/nowhere/ring.json");
	REFUSED(2, "--slow wants RANK=FACTOR, such as 3=1.1", "simulate", "ring", "all_reduce",
		"--slow", "3=0");
	REFUSED(2, "--kill wants RANK@TIME, such as 3@250us", "simulate", "ring", "all_reduce",
		"--kill", "3@250");
	REFUSED(2, "rank 4 is not in 0..3", "simulate", "ring", "all_reduce", "--kill", "4@1us");
	REFUSED(1, "two_shot has direct access, and works within one host", "draw", "two_shot",
		"all_reduce", "--topology", "card", "--svg", "/dev/null");
	REFUSED(2, "--jitter is for draw, simulate and replay", "print", "ring", "all_reduce",
		"--jitter", "5");
	REFUSED(2, "--topology is for draw, compare, simulate, diff and replay", "print", "ring",
		"all_reduce", "--topology", "card");
	REFUSED(2, "an all_to_all has at most 1024 ranks here, not 65536", "simulate", "linear",
		"all_to_all", "--ranks", "65536");
	REFUSED(1, "all_to_all of 257 ranks has more chunks than a plan file", "export", "linear",
		"all_to_all", "--ranks", "257", "-o", "/dev/null");
	/* Before it has too many steps: the first rank's plan shows it. */
	REFUSED(1, "all_to_all of 1024 ranks has more chunks than a plan file", "export", "linear",
		"all_to_all", "--ranks", "1024", "-o", "/dev/null");
	REFUSED(2, "at most 1024 ranks are shown, not 1025", "print", "ring", "all_reduce",
		"--ranks", "1025");
	REFUSED(2, "'card:x' is no shape, such as", "simulate", "ring", "all_reduce", "--topology",
		"card:x");
	REFUSED(2, "'torus:8,ns=0': ns= wants a number from 1 to 1000000000", "simulate", "ring",
		"all_reduce", "--topology", "torus:8,ns=0");
	REFUSED(2, "--seed wants a --jitter", "simulate", "ring", "all_reduce", "--seed", "1");
	REFUSED(2, "a torus wants its sizes, such as torus:8x8x4", "simulate", "ring", "all_reduce",
		"--topology", "torus");
	REFUSED(1, "two_shot has direct access, and works within one host", "simulate", "two_shot",
		"all_reduce", "--hosts", "2");
	REFUSED(1, "torus:3 has room for 3 hosts, not 4", "simulate", "ring", "all_reduce",
		"--topology", "torus:3");
	REFUSED(1, "there is no algorithm 'rign'; did you mean ring?", "print", "rign",
		"broadcast");
	REFUSED(1, "chain has no all_to_all", "print", "chain", "all_to_all");
	REFUSED(1, "pipelined declines all_reduce on 4 ranks of 1 host\n", "print", "pipelined",
		"all_reduce");
	REFUSED(1, "pipelined declines all_reduce on 5 ranks of 2 hosts\n", "print", "pipelined",
		"all_reduce", "--ranks", "5", "--hosts", "2");
	REFUSED(1, "cannot read /nowhere", "compare", "all_reduce", "--costs", "/nowhere");
	REFUSED(1, "cannot write /nowhere/a.svg", "draw", "ring", "all_reduce", "--svg",
		"/nowhere/a.svg");
}
