#include "base/launch/slurm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/port.h"
#include "base/settings.h"

#define NODE "SLURM_NODEID"
#define HET_SIZE "SLURM_HET_SIZE"
#define COMPONENTS_MAX 128 /* Slurm's own bound */
#define LEAST_PORT 10240
#define PORTS 16384
#define PORTS_BETWEEN_STEPS 4099

/* The first variable that is set; older versions of Slurm have other names. */
static const char *first_of(const char *const *variables)
{
	const char *text = NULL;

	for (; *variables && !text; variables++)
		text = rd_environment(*variables);
	return text;
}

static bool read_first_of(int64_t *number, const char *const *variables)
{
	const char *text = first_of(variables), *end = text ? rd_read_number(number, text) : NULL;

	return end && !*end && *number >= 0;
}

int rd_slurm_port(void)
{
	static const char *const job_names[] = { "SLURM_JOB_ID", "SLURM_JOBID", NULL };
	static const char *const step_names[] = { "SLURM_STEP_ID", "SLURM_STEPID", NULL };
	int64_t job, step;

	if (!read_first_of(&job, job_names))
		return 0;
	if (!read_first_of(&step, step_names))
		step = 0;
	return LEAST_PORT + (int)((job % PORTS + step % PORTS * PORTS_BETWEEN_STEPS) % PORTS);
}

/* Writes "" without a list. */
static int first_host(char *host, size_t size, const char *list)
{
	char quote[41];

	*host = '\0';
	if (!list || rd_slurm_first_host(host, size, list))
		return 0;
	*host = '\0';
	return rd_fail(RONDO_SETTING,
		"Slurm's list of nodes is \"%s\", where rank 0's host cannot be read: set "
		"MASTER_ADDR to its name",
		rd_quotable(quote, list));
}

/* A host, as "node3*2", behind blank lines and comments. */
static bool read_host(char *host, size_t size, FILE *file)
{
	char line[1024];

	while (fgets(line, sizeof(line), file)) {
		char *name = line + strspn(line, " \t\n");

		name[strcspn(name, " \t\n*#")] = '\0';
		if (*name)
			return rd_slurm_first_host(host, size, name);
	}
	return false;
}

/* srun -m arbitrary starts rank 0 on the first host of the user's file. The lists of nodes in
   Slurm's variables are sorted. */
static int first_host_of_file(char *host, size_t size)
{
	const char *path = rd_environment("SLURM_HOSTFILE");
	FILE *file = path ? rd_fopen(path, O_RDONLY | O_NONBLOCK) : NULL;
	bool found = file && read_host(host, size, file);
	char quote[41];

	if (file)
		fclose(file);
	if (found)
		return 0;
	*host = '\0';
	return rd_fail(RONDO_SETTING,
		"srun -m arbitrary may start rank 0 on any node, and SLURM_HOSTFILE \"%s\" gives no "
		"host: set MASTER_ADDR to rank 0's",
		rd_quotable(quote, path ? path : ""));
}

/* The list of nodes of one component of a heterogeneous job. */
static const char *component_nodes(int component)
{
	static const char *const kinds[] = { "HET", "PACK", NULL };
	char variable[64];
	const char *list = NULL;

	for (int i = 0; kinds[i] && !list; i++) {
		snprintf(variable, sizeof(variable), "SLURM_JOB_NODELIST_%s_GROUP_%d", kinds[i],
			component);
		list = rd_environment(variable);
	}
	return list;
}

/* Rank 0 is in the component with the lowest number, of those in the step. The step's own list is
   sorted. False: this is no such step. */
static bool first_host_of_components(char *host, size_t size, const char *step_nodes)
{
	static const char *const counts[] = { HET_SIZE, "SLURM_PACK_SIZE", NULL };
	int64_t count;

	if (!step_nodes || !read_first_of(&count, counts))
		return false;
	for (int i = 0; i < count && i < COMPONENTS_MAX; i++) {
		const char *nodes = component_nodes(i);

		if (nodes && rd_slurm_first_host(host, size, nodes) &&
			rd_slurm_has_host(step_nodes, host))
			return true;
	}
	return false;
}

int rd_slurm_step_host(char *host, size_t size)
{
	static const char *const counts[] = { "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES",
		"SLURM_NNODES", NULL };
	static const char *const lists[] = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
		"SLURM_NODELIST", NULL };
	const char *distribution = rd_environment("SLURM_DISTRIBUTION");
	int64_t nodes;

	if (read_first_of(&nodes, counts) && nodes == 1) {
		snprintf(host, size, "%s", rd_loopback());
		return 0;
	}
	if (distribution && strcmp(distribution, "arbitrary") == 0)
		return first_host_of_file(host, size);
	if (first_host_of_components(host, size, first_of(lists)))
		return 0;
	return first_host(host, size, first_of(lists));
}

int rd_slurm_job_host(char *host, size_t size)
{
	static const char *const lists[] = { "SLURM_JOB_NODELIST", "SLURM_NODELIST", NULL };

	return first_host(host, size, first_of(lists));
}

int rd_slurm_local_size(int *local_size)
{
	const char *list = rd_environment(RD_SLURM_LOCAL_SIZE), *node = rd_environment(NODE), *end;
	char quote[41], node_quote[41];
	int64_t number;

	/* The nodes of a heterogeneous job are numbered in another order than the list's. */
	if (!list || !node || rd_environment(HET_SIZE))
		return 0;
	end = rd_read_number(&number, node);
	if (end && !*end && rd_slurm_tasks_on_node(local_size, list, number))
		return 0;
	return rd_fail(RONDO_SETTING,
		RD_SLURM_LOCAL_SIZE " is \"%s\", which has no number of ranks for the node of " NODE
				    " \"%s\": unset one of them",
		rd_quotable(quote, list), rd_quotable(node_quote, node));
}

int rd_slurm_cpus_per_task(void)
{
	static const char *const names[] = { "SLURM_CPUS_PER_TASK", NULL };
	const char *tasks = rd_environment("SLURM_STEP_NUM_TASKS");
	const char *wanted = rd_environment("SLURM_NTASKS");
	int64_t count;

	/* The script of a job, and the shell of salloc, are no tasks: they may use all that the job
	   has on their host. */
	if (!tasks || (wanted && strcmp(tasks, wanted)) || !read_first_of(&count, names) ||
		count > INT_MAX)
		return 0;
	return (int)count;
}

/* ---- Lists of hosts -------------------------------------------------------------------------- */

static bool append(char *host, size_t size, size_t *used, const char *text, size_t length)
{
	if (length == 0 || *used + length >= size)
		return false;
	memcpy(host + *used, text, length);
	*used += length;
	host[*used] = '\0';
	return true;
}

/* A part in brackets stands for several: the first of them is up to a - or a comma. */
bool rd_slurm_first_host(char *host, size_t size, const char *list)
{
	size_t used = 0;

	for (const char *at = list; *at && *at != ',';) {
		size_t length = strcspn(at, "[],");

		if (*at != '[') {
			if (!append(host, size, &used, at, length))
				return false;
			at += length;
			continue;
		}
		at++;
		length = strspn(at, "0123456789");
		if (!append(host, size, &used, at, length) || !strchr("-,]", at[length]))
			return false;
		at = strchr(at, ']');
		if (!at)
			return false;
		at++;
	}
	return used > 0;
}

/* Whether digits, `length` of them, are a number of "01-03,07]". Slurm fills numbers with zeros up
   to the width of a range's first. */
static bool in_brackets(const char *list, const char *digits, int64_t length)
{
	int64_t value;

	if (length == 0 || rd_read_number(&value, digits) != digits + length)
		return false;
	for (;; list++) {
		int64_t first, last;
		const char *end = rd_read_number(&first, list);
		int64_t width = end ? end - list : 0;

		last = first;
		if (end && *end == '-')
			end = rd_read_number(&last, end + 1);
		if (!end)
			return false;
		if (value >= first && value <= last &&
			(length == width || (length > width && *digits != '0')))
			return true;
		list = end;
		if (*list != ',')
			return false;
	}
}

/* Whether the list's first part, up to a comma outside of brackets, stands for the host. */
static bool matches(const char *part, const char *host)
{
	while (*part && *part != ',') {
		if (*part == '[') {
			size_t length = strspn(host, "0123456789");

			if (!in_brackets(part + 1, host, (int64_t)length))
				return false;
			part += strcspn(part, "]");
			if (*part++ != ']')
				return false;
			host += length;
		} else if (*part++ != *host++) {
			return false;
		}
	}
	return !*host;
}

bool rd_slurm_has_host(const char *list, const char *host)
{
	while (*list) {
		if (matches(list, host))
			return true;
		for (bool inside = false; *list && (inside || *list != ','); list++)
			inside = *list == '[' || (inside && *list != ']');
		list += *list == ',';
	}
	return false;
}

/* From 1 to RD_SIZE_MAX. Returns its end; NULL: there is none. */
static const char *read_count(int64_t *count, const char *text)
{
	const char *end = rd_read_number(count, text);

	return end && *count >= 1 && *count <= RD_SIZE_MAX ? end : NULL;
}

/* All of the list is read, also behind the node. */
bool rd_slurm_tasks_on_node(int *tasks, const char *list, int64_t node)
{
	int64_t nodes = 0; /* in the list up to here */

	for (const char *at = list;; at++) {
		int64_t count, repeats = 1;

		at = read_count(&count, at);
		if (at && strncmp(at, "(x", 2) == 0) {
			at = read_count(&repeats, at + 2);
			if (!at || *at++ != ')')
				return false;
		}
		if (!at)
			return false;
		if (node >= nodes && node < nodes + repeats)
			*tasks = (int)count;
		nodes += repeats;
		if (!*at)
			return node >= 0 && node < nodes;
		if (*at != ',')
			return false;
	}
}
