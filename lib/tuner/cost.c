#include "tuner/cost.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tuner/thresholds.h"

#define POINT(bytes) (bytes),
static const uint64_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

/* ---- Measured numbers ----------------------------------------------------------------------- */

static void raise_to(uint32_t *number, uint32_t least)
{
	if (*number < least)
		*number = least;
}

/* Memory never costs less than a cache: where it seems to, the cache's samples were disturbed. */
static void raise_memory(struct rd_costs *costs)
{
	raise_to(&costs->memory_copy_ps, costs->copy_ps);
	raise_to(&costs->beyond_copy_ps, costs->memory_copy_ps);
	for (int type = 0; type < RD_TYPE_CLASS_COUNT; type++) {
		raise_to(&costs->memory_reduce_ps[type], costs->reduce_ps[type]);
		raise_to(&costs->beyond_reduce_ps[type], costs->memory_reduce_ps[type]);
	}
}

void rd_costs_default(struct rd_costs *costs)
{
	*costs = (struct rd_costs){
		/* Slots in shared memory, two cores of a virtual machine; TCP over 10 Gbit/s. */
		.links[RD_NEAR] = { .way_ns = { 400, 600, 1100, 3600, 13000, 26000 },
			.busy_ns = { 120, 220, 500, 1700, 6500, 13000 },
			.both_ns = { 240, 440, 1000, 3400, 13000, 26000 },
			.rails = 1 },
		.links[RD_FAR] = { .way_ns = { 20000, 21000, 25000, 38000, 85000, 150000 },
			.busy_ns = { 6000, 6500, 8000, 15000, 55000, 106000 },
			.both_ns = { 12000, 13000, 16000, 30000, 85000, 150000 },
			.posts = 1,
			.rails = 1 },
		.copy_ps = 60,
		.reduce_ps = { [RD_WHOLE] = 90, [RD_HALF] = 250 },
		.switch_ns = 3000,
		.cores = 1,
		.cache_bytes = RD_CACHE_BYTES,
		.beyond_copy_ps = 240,
		.beyond_reduce_ps = { [RD_WHOLE] = 270, [RD_HALF] = 400 },
	};
	raise_memory(costs);
}

/* ---- A message ------------------------------------------------------------------------------ */

static int64_t bounded(int64_t ns)
{
	return ns < RD_STEP_NS_MAX ? ns : RD_STEP_NS_MAX;
}

static int64_t between(const uint32_t costs[RD_COST_POINT_COUNT], uint64_t size)
{
	int i = 1;

	while (i < RD_COST_POINT_COUNT - 1 && size > points[i])
		i++;

	int64_t rise = (int64_t)costs[i] - costs[i - 1];
	uint64_t run = points[i] - points[i - 1], past = size - points[i - 1];

	if (past <= run)
		return costs[i - 1] + (int64_t)past * rise / (int64_t)run;
	/* Past all points, where more bytes never cost less. */
	if (rise <= 0)
		return costs[i];
	return bounded(costs[i - 1] + rd_ns_product(past / run, (uint64_t)rise) +
		       (int64_t)(past % run) * rise / (int64_t)run);
}

int64_t rd_bytes_ns(uint64_t size, uint32_t byte_ps)
{
	return bounded(
		rd_ns_product(size / 1000, byte_ps) + (int64_t)(size % 1000 * byte_ps / 1000));
}

/* Three measured times give three costs: in a sequence of messages the receiver is the busier rank,
   as it waits for lines of the sender's cache or copies from the kernel. */
static struct rd_message_cost cost_of(const struct rd_link_cost *link, uint64_t size)
{
	int64_t way = between(link->way_ns, size), busy = between(link->busy_ns, size);
	int64_t both = between(link->both_ns, size);
	int64_t recv = between(link->recv_ns, size), send = between(link->send_ns, size);

	if (both == 0)
		both = 2 * busy < way ? 2 * busy : way;
	if (recv == 0) {
		recv = busy > both / 2 ? busy : both / 2;
		send = both > recv ? both - recv : 0;
	}
	return (struct rd_message_cost){ send, recv, way - recv > 0 ? way - recv - send : -send,
		0 };
}

/* Bytes that the cable limits are delayed between the ranks, or in a sequence keep the receiver
   busy. Where ranks are the limit, the cable counts as no quicker than a receiver. */
struct rd_message_cost rd_message_cost(const struct rd_link_cost *link, uint64_t size)
{
	struct rd_message_cost cost = cost_of(link, size), empty = cost_of(link, 0);
	int64_t flight = cost.flight_ns - empty.flight_ns, recv = cost.recv_ns - empty.recv_ns;

	cost.cable_ns = flight > recv ? flight : recv > 0 ? recv : 0;
	return cost;
}

uint32_t rd_rails_share(const struct rd_link_cost *link, int channels)
{
	uint32_t rails = link->rails > 1 ? link->rails : 1;
	/* Channels on the busiest rail. */
	uint32_t most = ((uint32_t)channels + rails - 1) / rails;
	uint32_t share = most * 1000 / (uint32_t)channels;

	return rails == 1 ? 1000 : share > link->striped ? share : link->striped;
}

/* ---- As text -------------------------------------------------------------------------------- */

#define LINES_MAX 32

/* A line: its name, the address of its numbers, and their bounds. */
struct line {
	char name[24];
	uint32_t *numbers;
	int count;
	uint32_t least, most;
};

struct lines {
	struct line of[LINES_MAX];
	int count;
	int required; /* the first of them; the others may be missing */
};

static void add_line(struct lines *lines, const char *prefix, const char *name, uint32_t *numbers,
	int count, uint32_t least, uint32_t most)
{
	struct line *line = &lines->of[lines->count++];

	*line = (struct line){ .numbers = numbers, .count = count, .least = least, .most = most };
	snprintf(line->name, sizeof(line->name), "%s%s", prefix, name);
}

static void add_points(
	struct lines *lines, const char *prefix, const char *name, uint32_t numbers[])
{
	add_line(lines, prefix, name, numbers, RD_COST_POINT_COUNT, 0, RD_COST_NS_MAX);
}

static void add_types(struct lines *lines, const char *name, uint32_t numbers[])
{
	add_line(lines, "", name, numbers, RD_TYPE_CLASS_COUNT, 0, RD_COST_PS_MAX);
}

static void add_link(struct lines *lines, const char *prefix, struct rd_link_cost *link)
{
	add_points(lines, prefix, "way_ns", link->way_ns);
	add_points(lines, prefix, "busy_ns", link->busy_ns);
	add_line(lines, prefix, "posts", &link->posts, 1, 0, 1);
	add_line(lines, prefix, "posts_min", &link->posts_min, 1, 0, UINT32_MAX);
	add_line(lines, prefix, "single_copy", &link->single_copy, 1, 0, 1);
}

/* Lines that older files lack. */
static void add_later(struct lines *lines, const char *prefix, struct rd_link_cost *link)
{
	add_points(lines, prefix, "both_ns", link->both_ns);
	add_points(lines, prefix, "send_ns", link->send_ns);
	add_points(lines, prefix, "recv_ns", link->recv_ns);
	add_line(lines, prefix, "rails", &link->rails, 1, 1, RD_COST_RAILS_MAX);
	add_line(lines, prefix, "striped", &link->striped, 1, 0, 1000);
	add_line(lines, prefix, "past_caches", &link->past_caches, 1, 0, 1);
}

static void list_lines(struct rd_costs *costs, struct lines *lines)
{
	static const char *const prefixes[] = {
#define PREFIX(name, text) text "_",
		RD_LINK_CLASSES(PREFIX)
#undef PREFIX
	};

	lines->count = 0;
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		add_link(lines, prefixes[class], &costs->links[class]);
	add_line(lines, "", "copy_ps", &costs->copy_ps, 1, 0, RD_COST_PS_MAX);
	add_types(lines, "reduce_ps", costs->reduce_ps);
	add_line(lines, "", "switch_ns", &costs->switch_ns, 1, 0, RD_COST_NS_MAX);
	add_line(lines, "", "cores", &costs->cores, 1, 1, RD_COST_CORES_MAX);
	lines->required = lines->count;
	add_line(lines, "", "memory_copy_ps", &costs->memory_copy_ps, 1, 0, RD_COST_PS_MAX);
	add_types(lines, "memory_reduce_ps", costs->memory_reduce_ps);
	add_line(lines, "", "cache_bytes", &costs->cache_bytes, 1, 0, UINT32_MAX);
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		add_later(lines, prefixes[class], &costs->links[class]);
	add_line(lines, "", "beyond_copy_ps", &costs->beyond_copy_ps, 1, 0, RD_COST_PS_MAX);
	add_types(lines, "beyond_reduce_ps", costs->beyond_reduce_ps);
	add_line(lines, "", "shared_cache_bytes", &costs->shared_cache_bytes, 1, 0, UINT32_MAX);
}

void rd_costs_bound(struct rd_costs *costs)
{
	struct lines lines;

	list_lines(costs, &lines);
	for (int i = 0; i < lines.count; i++)
		for (int k = 0; k < lines.of[i].count; k++) {
			uint32_t *number = &lines.of[i].numbers[k];

			*number = *number < lines.of[i].least  ? lines.of[i].least
				  : *number > lines.of[i].most ? lines.of[i].most
							       : *number;
		}
	raise_memory(costs);
}

/* Bytes that snprintf() can still write behind `length`. */
static size_t left(int length, size_t size)
{
	return (size_t)length < size ? size - (size_t)length : 0;
}

int rd_costs_print(const struct rd_costs *costs, char *text, size_t size)
{
	struct rd_costs copy = *costs;
	struct lines lines;
	int length = 0;

	list_lines(&copy, &lines);
	for (int i = 0; i < lines.count; i++) {
		length += snprintf(left(length, size) ? text + length : NULL, left(length, size),
			"%s", lines.of[i].name);
		for (int k = 0; k < lines.of[i].count; k++)
			length += snprintf(left(length, size) ? text + length : NULL,
				left(length, size), " %u", lines.of[i].numbers[k]);
		length += snprintf(
			left(length, size) ? text + length : NULL, left(length, size), "\n");
	}
	return length;
}

/* The buffer for an error message. */
struct complaint {
	char *text;
	size_t size;
};

static bool complain(const struct complaint *wrong, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool complain(const struct complaint *wrong, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(wrong->text, wrong->size, format, args);
	va_end(args);
	return false;
}

/* The most of a word that an error message quotes. */
static int shown(size_t length)
{
	return length < 40 ? (int)length : 40;
}

/* A word of digits alone, `length` of them. */
static bool read_number(const char *word, size_t length, const struct line *line, uint32_t *number)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (word[i] < '0' || word[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(word[i] - '0');
		if (value > line->most)
			return false;
	}
	*number = (uint32_t)value;
	return length > 0 && value >= line->least;
}

/* The numbers behind a line's name. */
static bool read_numbers(const struct line *line, const char *at, const struct complaint *wrong)
{
	int count = 0;

	for (at += strspn(at, " "); *at && *at != '\n'; at += strspn(at, " ")) {
		size_t length = strcspn(at, " \n");
		uint32_t number;

		if (!read_number(at, length, line, &number))
			return complain(wrong, "%s is \"%.*s\": each is a whole number, %u to %u",
				line->name, shown(length), at, line->least, line->most);
		if (count < line->count)
			line->numbers[count] = number;
		count++;
		at += length;
	}
	if (count != line->count)
		return complain(wrong, "%s has %d number%s, not %d", line->name, count,
			count == 1 ? "" : "s", line->count);
	return true;
}

/* The index of the line of this name; -1: there is none. */
static int find_line(const struct lines *lines, const char *text)
{
	size_t length = strcspn(text, " \n");

	for (int i = 0; i < lines->count; i++)
		if (strlen(lines->of[i].name) == length &&
			strncmp(lines->of[i].name, text, length) == 0)
			return i;
	return -1;
}

static bool read_line(
	const struct lines *lines, const char *text, unsigned *seen, const struct complaint *wrong)
{
	int i = find_line(lines, text);

	if (i < 0)
		return complain(
			wrong, "\"%.*s\" is no line of costs", shown(strcspn(text, "\n")), text);
	if (*seen >> i & 1)
		return complain(wrong, "%s comes twice", lines->of[i].name);
	*seen |= 1u << i;
	return read_numbers(&lines->of[i], text + strlen(lines->of[i].name), wrong);
}

bool rd_costs_read(
	struct rd_costs *costs, const char *text, int *line, char *wrong, size_t wrong_size)
{
	const struct complaint complaint = { wrong, wrong_size };
	struct lines lines;
	unsigned seen = 0;

	list_lines(costs, &lines);
	/* Older files have no lines of memory, nor some of links. */
	for (int i = lines.required; i < lines.count; i++)
		for (int k = 0; k < lines.of[i].count; k++)
			lines.of[i].numbers[k] = lines.of[i].least;
	costs->cache_bytes = RD_CACHE_BYTES;
	for (*line = 1; *text; ++*line) {
		if (!read_line(&lines, text, &seen, &complaint))
			return false;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	*line = 0;
	for (int i = 0; i < lines.required; i++)
		if (!(seen >> i & 1))
			return complain(&complaint, "%s is missing", lines.of[i].name);
	raise_memory(costs);
	return true;
}
