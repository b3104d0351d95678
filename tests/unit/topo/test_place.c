#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/place.h"

static const struct rd_settings plain = { .topo_file = "", .host = "" };

/* The place of a child, in new namespaces of these kinds. False where it may not have them. */
static bool place_of_child(struct rd_place *place, int spaces)
{
	int ends[2], hold[2];
	int status;
	char path[64];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(pipe(hold), 0);
	pid_t child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		if (spaces && unshare(spaces) && unshare(CLONE_NEWUSER | spaces))
			_exit(2);
		/* The first child of a process that has made a PID namespace is in it. */
		if (spaces & CLONE_NEWPID && (child = fork())) {
			close(hold[1]);
			_exit(waitpid(child, &status, 0) != child || status != 0);
		}
		close(hold[1]);
		rd_place_here(place, &plain);
		status = write(ends[1], place, sizeof(*place)) != sizeof(*place);
		_exit(status || read(hold[0], path, 1));
	}
	close(ends[1]);
	ssize_t got = read(ends[0], place, sizeof(*place));
	close(ends[0]);
	/* While it is open, no other namespace gets the number of this one. */
	snprintf(path, sizeof(path), "/proc/%d/ns/pid_for_children", (int)child);
	open(path, O_RDONLY | O_CLOEXEC);
	close(hold[1]);
	close(hold[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) != 1);
	return got == sizeof(*place);
}

Test(place, here_is_this_process_on_a_named_host)
{
	struct rd_place here;
	char host[256] = "";

	memset(&here, 0xff, sizeof(here));
	rd_place_here(&here, &plain);
	gethostname(host, sizeof(host) - 1);
	cr_assert(!strncmp(here.host_name, host, RD_HOST_SIZE - 1));
	cr_assert_eq(here.pid, getpid());
	cr_assert_eq(here.uid, getuid());
	cr_assert_geq(here.numa_node, -1);
	cr_assert_neq(here.host_id[0], '\0');
	cr_assert(rd_place_same_host(&here, &here));
	cr_assert_geq(here.core, -1);
	cr_assert_geq(here.gpu, -1);
}

Test(place, boot_and_network_identify_the_host)
{
	struct rd_place here;
	char boot[64] = "", wanted[128];
	unsigned long long network = 0;
	char link[64] = "";

	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
	if (!file || readlink("/proc/self/ns/net", link, sizeof(link) - 1) < 0)
		cr_skip_test("no /proc to compare with");
	cr_assert_eq(fscanf(file, "%63s", boot), 1);
	fclose(file);
	cr_assert_eq(sscanf(link, "net:[%llu]", &network), 1);
	rd_place_here(&here, &plain);
	snprintf(wanted, sizeof(wanted), "%s/%llu", boot, network);
	cr_assert_str_eq(here.host_id, wanted);
}

Test(place, another_process_is_on_the_same_host, .timeout = 10)
{
	struct rd_place here, there;

	rd_place_here(&here, &plain);
	cr_assert(place_of_child(&there, 0));
	cr_assert(rd_place_same_host(&here, &there));
	cr_assert_neq(here.pid, there.pid);
}

Test(place, another_network_namespace_is_another_host, .timeout = 10)
{
	struct rd_place here, there;

	rd_place_here(&here, &plain);
	if (!place_of_child(&there, CLONE_NEWNET))
		cr_skip_test("may not make a network namespace");
	cr_assert_not(rd_place_same_host(&here, &there));
	cr_assert_str_eq(here.host_name, there.host_name);
}

Test(place, equal_pids_of_two_containers_are_two_processes, .timeout = 10)
{
	struct rd_place one, other, here;

	rd_place_here(&here, &plain);
	if (!place_of_child(&one, CLONE_NEWPID) || !place_of_child(&other, CLONE_NEWPID))
		cr_skip_test("may not make a PID namespace");
	cr_assert_eq(one.pid, 1);
	cr_assert_eq(other.pid, 1);
	cr_assert(rd_place_same_host(&one, &other));
	cr_assert_not(rd_place_same_process(&one, &other));
	cr_assert(rd_place_same_process(&here, &here));
}

Test(place, a_host_may_be_emulated)
{
	struct rd_place a, b, here;
	struct rd_settings settings = { .topo_file = "", .host = "a" };

	rd_place_here(&here, &plain);
	rd_place_here(&a, &settings);
	settings.host = "b";
	rd_place_here(&b, &settings);
	cr_assert_str_eq(a.host_name, "a");
	cr_assert_not(rd_place_same_host(&a, &b));
	cr_assert_not(rd_place_same_host(&a, &here));
	cr_assert(rd_place_same_host(&a, &a));
}

/* Messages carry texts so: another rank's copy of this place must equal it. */
Test(place, no_text_has_control_characters)
{
	struct rd_place place;
	struct rd_settings settings = { .topo_file = "", .host = "a\nb\033[1m\x7f" };

	rd_place_here(&place, &settings);
	cr_assert_str_eq(place.host_name, "a?b?[1m?");
	cr_assert_str_eq(place.host_id, "a?b?[1m?");
}

Test(place, a_host_name_of_full_length_stays_a_string)
{
	struct rd_place place;
	char host[RD_STRING_MAX] = "";
	struct rd_settings settings = { .topo_file = "", .host = host };

	memset(host, 'a', RD_STRING_MAX - 1);
	rd_place_here(&place, &settings);
	cr_assert_eq(strnlen(place.host_name, RD_HOST_SIZE), RD_HOST_SIZE - 1);
}

/* ---- On a machine from a file ---- */

static struct rd_settings on(const char *topology, const char *host, int local_rank)
{
	static char file[256];
	struct rd_settings settings = {
		.topo_file = file, .host = host, .local_rank = local_rank, .gpu = -1
	};

	snprintf(file, sizeof(file), RONDO_TOPOLOGIES "/%s.json", topology);
	return settings;
}

static int gpu_of(int local_rank, const char *visible)
{
	struct rd_settings settings = on("dgx", "", local_rank);
	struct rd_place place;

	setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	cr_assert_eq(rd_place_here(&place, &settings), 0, "%s", rondo_last_error());
	return place.gpu;
}

Test(place, a_file_is_believed_instead_of_the_machine)
{
	struct rd_settings settings = on("dgx", "", 5);
	struct rd_place place;

	cr_assert_eq(rd_place_here(&place, &settings), 0, "%s", rondo_last_error());
	cr_assert_eq(place.gpu, 5);
	cr_assert_eq(place.gpu_pci, 0xc300);
	cr_assert_eq(place.slot, 5);
	cr_assert_eq(place.numa_node, 1);
	cr_assert_str_eq(place.nic, "mlx5_7");
	cr_assert_eq(place.pid, getpid());
	settings.local_rank = -1;
	settings.rank = 9;
	cr_assert_eq(rd_place_here(&place, &settings), 0);
	cr_assert_eq(place.gpu, 1, "the rank stands for the local rank, and GPUs are shared");
	settings.gpu = 4;
	cr_assert_eq(rd_place_here(&place, &settings), 0);
	cr_assert_eq(place.gpu, 4, "RONDO_GPU chooses");
}

Test(place, the_host_of_our_name_is_taken_from_the_file)
{
	struct rd_settings settings = on("two_nodes", "node1", 3);
	struct rd_place place;

	cr_assert_eq(rd_place_here(&place, &settings), 0, "%s", rondo_last_error());
	cr_assert_eq(place.gpu_pci, 0x8900);
	cr_assert_str_eq(place.host_id, "node1", "which host it is the file does not decide");
	settings = on("two_nodes", "node7", 3);
	cr_assert_eq(rd_place_here(&place, &settings), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "2 hosts and none named node7"), "%s",
		rondo_last_error());
}

Test(place, a_file_that_cannot_be_used_is_an_error)
{
	struct rd_settings settings = on("broken/cut_short", "", 0);
	struct rd_place place;

	cr_assert_eq(rd_place_here(&place, &settings), RONDO_INVALID);
	cr_assert(strstr(rondo_last_error(), "RONDO_TOPO_FILE: "), "%s", rondo_last_error());
	settings = on("none", "", 0);
	cr_assert_eq(rd_place_here(&place, &settings), RONDO_SYSTEM);
}

Test(place, visible_devices_are_counted_through)
{
	cr_assert_eq(gpu_of(0, "6,2"), 6);
	cr_assert_eq(gpu_of(1, "6,2"), 2);
	cr_assert_eq(gpu_of(2, "6,2"), 6);
	cr_assert_eq(gpu_of(1, "6"), 6);
	cr_assert_eq(gpu_of(1, "GPU-10000003,GPU-10000005-0000"), 5);
	cr_assert_eq(gpu_of(0, ""), -1);
	cr_assert_eq(gpu_of(0, "-1"), -1);
	cr_assert_eq(gpu_of(1, "3,-1,4"), 3, "the list ends at what is no device");
	cr_assert_eq(gpu_of(1, "3,8"), 3);
	cr_assert_eq(gpu_of(0, "x"), -1);
	cr_assert_eq(gpu_of(0, "MIG-12345678"), -1);
}
