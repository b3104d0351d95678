#include "base/launch/slurm.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"

#define LEAST_PORT 10240
#define PORTS 16384
#define PORTS_BETWEEN_STEPS 4099

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

int rd_slurm_step_host(char *host, size_t size)
{
	static const char *const counts[] = { "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES",
		"SLURM_NNODES", NULL };
	static const char *const lists[] = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
		"SLURM_NODELIST", NULL };
	int64_t nodes;

	if (!read_first_of(&nodes, counts) || nodes != 1)
		return first_host(host, size, first_of(lists));
	snprintf(host, size, "127.0.0.1");
	return 0;
}

int rd_slurm_job_host(char *host, size_t size)
{
	static const char *const lists[] = { "SLURM_JOB_NODELIST", "SLURM_NODELIST", NULL };

	return first_host(host, size, first_of(lists));
}
