#include "run/hosts/list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "run/options.h"
#include "run/values.h"

static bool is_name(const char *name)
{
	/* ssh would take it for an option. */
	if (!*name || *name == '-')
		return false;
	for (; *name; name++)
		if (!isgraph((unsigned char)*name) || strchr("'\"\\,", *name))
			return false;
	return true;
}

/* Removes the brackets of [fd00::1] and user@[fd00::1]. */
static void drop_brackets(char *name)
{
	size_t length = strlen(name);
	char *open = strchr(name, '[');

	if (!open || name[length - 1] != ']')
		return;
	name[length - 1] = '\0';
	memmove(open, open + 1, strlen(open));
}

/* Reads NAME or NAME:N from [text, end). */
static const char *read_host(struct host *host, const char *text, const char *end)
{
	const char *colon = memrchr(text, ':', (size_t)(end - text));
	const char *bracket = memrchr(text, ']', (size_t)(end - text));
	const char *last = end;

	/* Several colons without brackets are those of an address. */
	if (colon && (bracket ? colon > bracket : !memchr(text, ':', (size_t)(colon - text)))) {
		last = colon;
		if (!values_digits(colon + 1, end, 1, RANKS_MAX, &host->local_size))
			return "a number of ranks after each ':'";
	}
	host->name = strndup(text, (size_t)(last - text));
	if (!host->name)
		return "less memory";
	drop_brackets(host->name);
	return is_name(host->name) ? NULL : "names or addresses of hosts";
}

const char *host_list_read(struct host_list *list, const char *text)
{
	const char *reason = NULL, *end;

	*list = (struct host_list){ .hosts = calloc(HOSTS_MAX, sizeof(*list->hosts)) };
	if (!list->hosts)
		return "less memory";
	for (;; text = end + 1) {
		end = strchrnul(text, ',');
		if (list->count == HOSTS_MAX)
			reason = "at most 1024 hosts";
		else
			reason = read_host(&list->hosts[list->count++], text, end);
		if (reason || !*end)
			break;
	}
	if (reason)
		host_list_finish(list);
	return reason;
}

void host_list_finish(struct host_list *list)
{
	for (int i = 0; i < list->count; i++)
		free(list->hosts[i].name);
	free(list->hosts);
	*list = (struct host_list){ 0 };
}

bool values_hosts(const struct argument *argument, void *target, const char *text)
{
	const char *reason = NULL;
	struct host_list list;

	*(const char **)target = *text ? text : NULL;
	if (!*text)
		return true;
	reason = host_list_read(&list, text);
	host_list_finish(&list);
	return !reason || arguments_refuse_value(argument, reason, text);
}
