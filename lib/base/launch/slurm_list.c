#include "base/launch/slurm_list.h"

#include <string.h>

#include "base/environment.h"
#include "base/settings.h"

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
