#include "base/launch/address.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/launch/slurm.h"

#define LEAST_PORT 10240
#define PORTS 16384

/* ---- PMI ----------------------------------------------------------------------------------- */

static int pmi_socket(void)
{
	const char *text = rd_environment("PMI_FD"), *end;
	struct stat status;
	int64_t fd;

	if (!text)
		return -1;
	end = rd_read_number(&fd, text);
	if (!end || *end || fd < 0 || fd > INT32_MAX || fstat((int)fd, &status) ||
		!S_ISSOCK(status.st_mode))
		return -1;
	return (int)fd;
}

/* srun's PMI numbers ranks as srun does. Slurm's variables then suffice. */
static bool is_slurm_step(const struct rd_launch *launch)
{
	struct rd_launch slurm;

	return rd_environment("SLURM_STEP_ID") &&
	       !rd_launch_read(&slurm, rd_launch_name(RD_LAUNCHER_SLURM)) &&
	       slurm.rank == launch->rank && slurm.size == launch->size;
}

/* ---- mpirun -------------------------------------------------------------------------------- */

/* The first address of mpirun's own host: "185139200.0;tcp://192.0.2.2,10.0.0.1:50807;tcp6://...".
   In its default mapping rank 0 runs there. */
static void host_of_mpirun(char host[RD_STRING_MAX])
{
	const char *uri = rd_environment("OMPI_MCA_orte_hnp_uri");
	const char *tcp = uri ? strstr(uri, ";tcp://") : NULL;
	size_t length;

	if (!tcp)
		return;
	tcp += strlen(";tcp://");
	length = strspn(tcp, "0123456789.");
	if (length < RD_STRING_MAX)
		snprintf(host, RD_STRING_MAX, "%.*s", (int)length, tcp);
}

/* All ranks have the same name of the job, and jobs side by side have others. */
static int port_of_job(void)
{
	const char *name = rd_environment("PMIX_NAMESPACE");

	if (!name)
		name = rd_environment("OMPI_MCA_ess_base_jobid");
	if (!name)
		return 0;
	return LEAST_PORT + (int)(rd_hash(RD_HASH_INIT, name, strlen(name)) % PORTS);
}

static int find_host(struct rd_launch_address *address, const struct rd_launch *launch)
{
	int err;

	address->port = port_of_job();
	/* By hand, LOCAL_SIZE may not be set: as for RANK and WORLD_SIZE. */
	if (launch->local_size < 0 || launch->local_size == launch->size)
		return 0;
	err = rd_slurm_job_host(address->host, sizeof(address->host));
	if (err)
		return err;
	if (!address->host[0])
		host_of_mpirun(address->host);
	if (address->host[0])
		return 0;
	return rd_fail(RONDO_SETTING,
		"rank %d of %d: %s started ranks on several hosts, and no variable names rank 0's "
		"host: set MASTER_ADDR to it for every rank (mpirun -x MASTER_ADDR=HOST)",
		launch->rank, launch->size, rd_launch_text(launch->launcher));
}

/* ---- Kubernetes ------------------------------------------------------------------------------ */

static int refuse(const char *name, int index, const char *reason)
{
	return rd_fail(RONDO_SETTING,
		"JOB_COMPLETION_INDEX is %d, but the host name \"%.63s\" %s: give the pods the "
		"`subdomain` of a headless service, or set MASTER_ADDR to rank 0's name",
		index, name, reason);
}

/* The kubelet writes the full name of a pod to its /etc/hosts. */
static bool read_domain(char *domain, size_t size, const char *name)
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM }, *found;
	size_t length = strlen(name);
	const char *full;
	bool is_full;

	if (getaddrinfo(name, NULL, &hints, &found))
		return false;
	full = found->ai_canonname ? found->ai_canonname : "";
	is_full = strncmp(full, name, length) == 0 && full[length] == '.';
	if (is_full)
		is_full = (size_t)snprintf(domain, size, "%s", full + length) < size;
	freeaddrinfo(found);
	return is_full;
}

/* Writes the name of the pod of index 0. A pod's host name is JOB-INDEX. With a headless service
   (`subdomain`) its full name is JOB-INDEX.SERVICE.NAMESPACE.svc.DOMAIN. RONDO_SETTING, with a
   remedy, where this host has no such names. */
static int kubernetes_host(char *host, size_t size, int index)
{
	char name[256] = "", domain[256], suffix[16];
	size_t length, suffix_length;

	if (gethostname(name, sizeof(name) - 1))
		return rd_fail_errno("this host has no name");
	snprintf(suffix, sizeof(suffix), "-%d", index);
	length = strlen(name);
	suffix_length = strlen(suffix);
	if (length <= suffix_length || strcmp(name + length - suffix_length, suffix) != 0)
		return refuse(name, index, "does not end with it");
	if (!read_domain(domain, sizeof(domain), name))
		return refuse(name, index, "has no domain");
	if ((size_t)snprintf(host, size, "%.*s-0%s", (int)(length - suffix_length), name, domain) >=
		size)
		return refuse(name, index, "is too long");
	return 0;
}

/* ---- All ----------------------------------------------------------------------------------- */

static int find_in_slurm(struct rd_launch_address *address)
{
	address->port = rd_slurm_port();
	return rd_slurm_step_host(address->host, sizeof(address->host));
}

int rd_launch_find_address(struct rd_launch_address *address, const struct rd_launch *launch)
{
	*address = (struct rd_launch_address){ .pmi_fd = -1 };
	switch (launch->launcher) {
	case RD_LAUNCHER_NONE:
	case RD_LAUNCHER_TORCHRUN:
		return 0;
	case RD_LAUNCHER_SLURM:
		return find_in_slurm(address);
	case RD_LAUNCHER_KUBERNETES:
		return kubernetes_host(address->host, sizeof(address->host), launch->rank);
	case RD_LAUNCHER_PMI:
	case RD_LAUNCHER_FLUX:
		if (is_slurm_step(launch))
			return find_in_slurm(address);
		address->pmi_fd = pmi_socket();
		return address->pmi_fd < 0 ? find_host(address, launch) : 0;
	default:
		return find_host(address, launch);
	}
}
