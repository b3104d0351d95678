#include "cost.h"

#include <stdio.h>
#include <string.h>

#define POINT(bytes) (bytes),
static const uint64_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

/* ---- Numbers that somebody measured, once --------------------------------------------------- */

void rd_costs_default(struct rd_costs *costs)
{
	*costs = (struct rd_costs){
		/* Slots in shared memory, two cores of a virtual machine; TCP over 10 Gbit/s. */
		.links[RD_NEAR] = { .way_ns = { 400, 600, 1100, 3600, 13000, 26000 },
			.busy_ns = { 120, 220, 500, 1700, 6500, 13000 } },
		.links[RD_FAR] = { .way_ns = { 20000, 21000, 25000, 38000, 85000, 150000 },
			.busy_ns = { 6000, 6500, 8000, 15000, 55000, 106000 },
			.posts = 1 },
		.copy_ps = 60,
		.reduce_ps = { [RD_WHOLE] = 90, [RD_HALF] = 250 },
		.switch_ns = 3000,
		.cores = 1,
	};
}

/* ---- A message ------------------------------------------------------------------------------ */

static int64_t between(const uint32_t costs[RD_COST_POINT_COUNT], uint64_t size)
{
	int i = 1;

	while (i < RD_COST_POINT_COUNT - 1 && size > points[i])
		i++;

	int64_t rise = (int64_t)costs[i] - costs[i - 1];
	int64_t run = (int64_t)(points[i] - points[i - 1]);
	int64_t past = (int64_t)size - (int64_t)points[i - 1];

	/* In two parts: past all points the product could exceed 64 bits. */
	return costs[i - 1] + past / run * rise + past % run * rise / run;
}

/* The busier side is taken for both: who of the two it is nobody measures, and they take turns. */
struct rd_message_cost rd_message_cost(const struct rd_link_cost *link, uint64_t size)
{
	int64_t way = between(link->way_ns, size), busy = between(link->busy_ns, size);

	if (2 * busy > way)
		return (struct rd_message_cost){ way - way / 2, way / 2, 0 };
	return (struct rd_message_cost){ busy, busy, way - 2 * busy };
}

int64_t rd_reading_ns(const struct rd_link_cost *link, uint64_t size)
{
	if (!link->lends || size < link->posts_min)
		return -1;

	struct rd_message_cost empty = rd_message_cost(link, 0);
	int64_t rest = between(link->lent_ns, size) - empty.send_ns - empty.flight_ns;

	return rest > empty.recv_ns ? rest : empty.recv_ns;
}

/* ---- As text -------------------------------------------------------------------------------- */

#define LINES_MAX 24
#define NUMBER_MAX UINT32_C(4000000000)

/* A line: its name, and where its numbers lie. */
struct line {
	char name[24];
	uint32_t *numbers;
	int count;
};

static struct line line(const char *prefix, const char *name, uint32_t *numbers, int count)
{
	struct line made = { .numbers = numbers, .count = count };

	snprintf(made.name, sizeof(made.name), "%s%s", prefix, name);
	return made;
}

static int list_lines(struct rd_costs *costs, struct line lines[LINES_MAX])
{
	static const char *const prefixes[] = {
#define PREFIX(name, text) text "_",
		RD_LINK_CLASSES(PREFIX)
#undef PREFIX
	};
	int count = 0;

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		struct rd_link_cost *link = &costs->links[class];

		lines[count++] = line(prefixes[class], "way_ns", link->way_ns, RD_COST_POINT_COUNT);
		lines[count++] =
			line(prefixes[class], "busy_ns", link->busy_ns, RD_COST_POINT_COUNT);
		lines[count++] = line(prefixes[class], "posts", &link->posts, 1);
		lines[count++] = line(prefixes[class], "posts_min", &link->posts_min, 1);
		lines[count++] = line(prefixes[class], "lends", &link->lends, 1);
		lines[count++] =
			line(prefixes[class], "lent_ns", link->lent_ns, RD_COST_POINT_COUNT);
	}
	lines[count++] = line("", "copy_ps", &costs->copy_ps, 1);
	lines[count++] = line("", "reduce_ps", costs->reduce_ps, RD_TYPE_CLASS_COUNT);
	lines[count++] = line("", "switch_ns", &costs->switch_ns, 1);
	lines[count++] = line("", "cores", &costs->cores, 1);
	return count;
}

/* What snprintf() can still write behind `length`. */
static size_t left(int length, size_t size)
{
	return (size_t)length < size ? size - (size_t)length : 0;
}

int rd_costs_print(const struct rd_costs *costs, char *text, size_t size)
{
	struct rd_costs copy = *costs;
	struct line lines[LINES_MAX];
	int count = list_lines(&copy, lines), length = 0;

	for (int i = 0; i < count; i++) {
		length += snprintf(left(length, size) ? text + length : NULL, left(length, size),
			"%s", lines[i].name);
		for (int k = 0; k < lines[i].count; k++)
			length += snprintf(left(length, size) ? text + length : NULL,
				left(length, size), " %u", lines[i].numbers[k]);
		length += snprintf(
			left(length, size) ? text + length : NULL, left(length, size), "\n");
	}
	return length;
}

/* The next number of a line; false where there is none, or it is out of range. */
static bool read_number(const char **at, uint32_t *number)
{
	uint64_t value = 0;

	while (**at == ' ')
		++*at;
	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		value = value * 10 + (uint64_t)(**at - '0');
		if (value > NUMBER_MAX)
			return false;
	}
	*number = (uint32_t)value;
	return true;
}

static bool read_line(struct line *read, const char *at)
{
	for (int i = 0; i < read->count; i++)
		if (!read_number(&at, &read->numbers[i]))
			return false;
	return *at == '\n' || *at == '\0';
}

/* Which line it is, and its numbers; -1 where it is none of ours, or its numbers are none. */
static int read_any(struct line *lines, int count, const char *text)
{
	size_t length = strcspn(text, " \n");

	for (int i = 0; i < count; i++)
		if (strlen(lines[i].name) == length && strncmp(lines[i].name, text, length) == 0)
			return read_line(&lines[i], text + length) ? i : -1;
	return -1;
}

static bool sound(const struct rd_costs *costs)
{
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		if (costs->links[class].posts > 1 || costs->links[class].lends > 1)
			return false;
	return costs->cores > 0;
}

bool rd_costs_read(struct rd_costs *costs, const char *text, char *wrong, size_t wrong_size)
{
	struct line lines[LINES_MAX];
	int count = list_lines(costs, lines);
	unsigned seen = 0;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		int length = (int)strcspn(text, "\n");
		int i = read_any(lines, count, text);

		if (i < 0 || seen >> i & 1) {
			snprintf(wrong, wrong_size, "\"%.*s\" %s", length < 40 ? length : 40, text,
				i < 0 ? "is no line of costs" : "comes twice");
			return false;
		}
		seen |= 1u << i;
	}
	for (int i = 0; i < count; i++)
		if (!(seen >> i & 1)) {
			snprintf(wrong, wrong_size, "%s is missing", lines[i].name);
			return false;
		}
	if (!sound(costs))
		snprintf(wrong, wrong_size, "cores must be 1 or more, posts and lends 0 or 1");
	return sound(costs);
}
