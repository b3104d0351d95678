/* A rank that the kernel cannot end, in state D. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mute_files.h"
#include "program.h"

#define SH(script) "sh", "-c", script

static char state_of(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state;
}

Test(run_stuck, a_rank_in_state_d_is_named_and_left, .timeout = 60)
{
	struct program run = program_files();
	struct mute_files files;
	char line[64], wanted[128];
	int out, go;
	pid_t rank;

	mute_files_mount(&files);
	/* The rank's next parent. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	out = pipe_from(&run.out);
	go = pipe_to_fd_8();
	setenv("STUCK", files.file, 1);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--grace", "1",
		"--local-ranks-filter", "1",
		SH("[ $RANK = 0 ] || { echo $$; exec cat $STUCK; }; read go <&8; exit 3"), NULL);
	read_line(out, line, sizeof(line));
	rank = atoi(line);
	mute_files_await(&files);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_expect_eq(state_of(rank), 'D');
	cr_expect_eq(run.status, 3);
	snprintf(wanted, sizeof(wanted),
		"rondo-run: rank 1 (pid %d) does not end 10 s after SIGKILL: leaving it\n", rank);
	assert_contains(run.err, wanted);
	mute_files_unmount(&files);
	cr_expect_eq(waitpid(rank, NULL, 0), rank);
}
