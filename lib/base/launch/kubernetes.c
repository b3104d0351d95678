#include "base/launch/kubernetes.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

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

int rd_kubernetes_host(char *host, size_t size, int index)
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
