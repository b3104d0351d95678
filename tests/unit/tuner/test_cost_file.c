/* Costs as text, and in a file. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "text.h"
#include "tuner/cost_file.h"
#include "world.h"

/* Costs of which no two numbers are equal. */
static struct rd_costs made_up(uint32_t first)
{
	struct rd_costs costs;

	rd_costs_default(&costs);
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
			costs.links[class].way_ns[i] = first++;
			costs.links[class].busy_ns[i] = first++;
			costs.links[class].both_ns[i] = first++;
			costs.links[class].send_ns[i] = first++;
			costs.links[class].recv_ns[i] = first++;
		}
		costs.links[class].rails = 2 + first++ % 32;
		costs.links[class].striped = first++;
		costs.links[class].past_caches = 1;
	}
	costs.copy_ps = first++;
	costs.switch_ns = first++;
	costs.cores = first++;
	costs.memory_copy_ps = first++;
	for (int type = 0; type < RD_TYPE_CLASS_COUNT; type++)
		costs.memory_reduce_ps[type] = costs.reduce_ps[type] + first++;
	costs.cache_bytes = costs.shared_cache_bytes = first;
	rd_costs_bound(&costs);
	return costs;
}

static bool equal(const struct rd_costs *a, const struct rd_costs *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The optional lines begin with this one. */
#define OPTIONAL "memory_copy_ps"

static char path[64];

static void make_path(void)
{
	int fd;

	strcpy(path, "/tmp/rondo-tune-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void remove_path(void)
{
	unlink(path);
}

TestSuite(cost_file, .init = make_path, .fini = remove_path);

static void write_text(const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

Test(cost_file, costs_are_read_as_they_were_printed)
{
	struct rd_costs costs = made_up(7), read = { 0 };
	char text[2048], wrong[120];
	int line;

	cr_assert_lt(rd_costs_print(&costs, text, sizeof(text)), (int)sizeof(text));
	cr_assert(rd_costs_read(&read, text, &line, wrong, sizeof(wrong)), "%s", wrong);
	cr_assert(equal(&costs, &read));
}

Test(cost_file, printing_says_how_long_the_text_is_and_writes_no_further)
{
	struct rd_costs costs = made_up(7);
	char text[2048], small[40];
	int length = rd_costs_print(&costs, text, sizeof(text));

	memset(small, 'x', sizeof(small));
	cr_assert_eq(rd_costs_print(&costs, small, 30), length);
	cr_assert_eq(rd_costs_print(&costs, NULL, 0), length);
	cr_assert_eq((int)strlen(text), length);
	cr_assert_eq(strlen(small), 29);
	cr_assert_eq(small[30], 'x');
	cr_assert_eq(strncmp(small, text, 29), 0);
}

Test(cost_file, every_line_that_is_missing_or_bad_is_named)
{
	struct rd_costs costs = made_up(7), read;
	char text[2048], bad[2200], wrong[120];
	int at_line = 0, line;
	bool optional = false;

	rd_costs_print(&costs, text, sizeof(text));
	for (char *at = text; *at; at = strchr(at, '\n') + 1) {
		int length = (int)(strchr(at, '\n') - at), name = (int)strcspn(at, " ");

		at_line++;
		optional |= strncmp(at, OPTIONAL, strlen(OPTIONAL)) == 0;
		/* left out */
		snprintf(bad, sizeof(bad), "%.*s%s", (int)(at - text), text, at + length + 1);
		cr_assert_eq(rd_costs_read(&read, bad, &line, wrong, sizeof(wrong)), optional, "%s",
			bad);
		cr_assert(optional || (strncmp(wrong, at, name) == 0 && strstr(wrong, "missing")),
			"%s", wrong);
		cr_assert_eq(line, 0);
		/* one number too many, a letter, a number too large, twice */
		snprintf(
			bad, sizeof(bad), "%.*s 1%s", (int)(at - text) + length, text, at + length);
		cr_assert_not(rd_costs_read(&read, bad, &line, wrong, sizeof(wrong)));
		snprintf(bad, sizeof(bad), "%.*sx%s", (int)(at - text) + length, text, at + length);
		cr_assert_not(rd_costs_read(&read, bad, &line, wrong, sizeof(wrong)));
		snprintf(bad, sizeof(bad), "%.*s0000099999999999%s", (int)(at - text) + length,
			text, at + length);
		cr_assert_not(rd_costs_read(&read, bad, &line, wrong, sizeof(wrong)));
		cr_assert_eq(line, at_line, "%d, not %d: %s", line, at_line, wrong);
		snprintf(bad, sizeof(bad), "%s%.*s\n", text, length, at);
		cr_assert_not(rd_costs_read(&read, bad, &line, wrong, sizeof(wrong)));
		cr_assert(strstr(wrong, "twice"), "%s", wrong);
	}
}

static void expect_memory_as_cache(const struct rd_costs *costs, const char *text)
{
	cr_expect_eq(costs->memory_copy_ps, costs->copy_ps, "%s", text);
	cr_expect_arr_eq(
		costs->memory_reduce_ps, costs->reduce_ps, sizeof(costs->reduce_ps), "%s", text);
	cr_expect_gt(costs->cache_bytes, 0);
}

/* A section before it that has them is of another machine. */
Test(cost_file, memory_of_which_a_file_has_no_lines_costs_as_much_as_a_cache)
{
	struct rd_costs costs = made_up(7), found = made_up(100);
	char text[2048], file[2 * 2048];

	rd_costs_print(&costs, text, sizeof(text));
	snprintf(file, sizeof(file), "[z]\n%s[a]\n%.*s", text, (int)(strstr(text, OPTIONAL) - text),
		text);
	write_text(file);
	cr_assert(rd_cost_file_find(path, "a", &found));
	expect_memory_as_cache(&found, file);
	cr_expect_eq(found.copy_ps, costs.copy_ps);
	cr_expect(rd_cost_file_find(path, "z", &found) && equal(&found, &costs));
}

Test(cost_file, rails_of_which_a_file_has_no_lines_are_one)
{
	struct rd_costs costs = made_up(7), found = made_up(100);
	char text[2048], file[2 * 2048];

	rd_costs_print(&costs, text, sizeof(text));
	snprintf(file, sizeof(file), "[z]\n%s[a]\n%.*s", text,
		(int)(strstr(text, "near_rails") - text), text);
	write_text(file);
	cr_assert(rd_cost_file_find(path, "a", &found));
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		cr_expect_eq(rd_rails_share(&found.links[class], 4), 1000, "%s", file);
	cr_expect_eq(found.cache_bytes, costs.cache_bytes);
	cr_expect(rd_cost_file_find(path, "z", &found) && equal(&found, &costs));
}

Test(cost_file, memory_that_costs_less_than_a_cache_costs_as_much)
{
	struct rd_costs costs = made_up(7), bounded = costs, read;
	char text[2048], wrong[120];
	int line;

	costs.memory_copy_ps = costs.copy_ps - 1;
	for (int type = 0; type < RD_TYPE_CLASS_COUNT; type++)
		costs.memory_reduce_ps[type] = costs.reduce_ps[type] - 1;
	bounded = costs;
	rd_costs_bound(&bounded);
	expect_memory_as_cache(&bounded, "bounded");
	rd_costs_print(&costs, text, sizeof(text));
	cr_assert(rd_costs_read(&read, text, &line, wrong, sizeof(wrong)), "%s", wrong);
	cr_expect(equal(&read, &bounded));
}

Test(cost_file, what_is_kept_is_found_under_its_key_alone)
{
	struct rd_costs one = made_up(7), other = made_up(100), found;

	cr_assert_not(rd_cost_file_find("", "a", &found));
	rd_cost_file_keep("", "a", &one);
	rd_cost_file_keep("", "b", &other);
	cr_assert(rd_cost_file_find("", "a", &found) && equal(&found, &one));
	cr_assert(rd_cost_file_find("", "b", &found) && equal(&found, &other));
	cr_assert_not(rd_cost_file_find("", "c", &found));
}

Test(cost_file, a_file_precedes_what_this_process_has_measured)
{
	struct rd_costs ours = made_up(7), theirs = made_up(100), found;
	char text[2048], section[2 * 2048 + 16];

	rd_cost_file_keep("", "a", &ours);
	rd_costs_print(&theirs, text, sizeof(text));
	snprintf(section, sizeof(section), "[z]\n%s[a]\n%s", text, text);
	section[0] = '[';
	write_text(section);
	cr_assert(rd_cost_file_find(path, "a", &found));
	cr_assert(equal(&found, &theirs));
}

/* Files of older versions have sections without it. */
Test(cost_file, a_line_that_is_missing_is_not_taken_from_the_section_before)
{
	struct rd_costs costs = made_up(7), found;
	char whole[2048], older[2048], sections[2 * 2048 + 16];

	rd_costs_print(&costs, whole, sizeof(whole));
	strcpy(older, whole);
	*strstr(older, OPTIONAL) = '\0';
	snprintf(sections, sizeof(sections), "[new]\n%s[old]\n%s", whole, older);
	write_text(sections);
	cr_assert(rd_cost_file_find(path, "old", &found));
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		cr_expect_eq(found.links[class].past_caches, 0);
		cr_expect_eq(found.links[class].striped, 0);
		cr_expect_eq(found.links[class].rails, 1);
	}
	cr_assert(rd_cost_file_find(path, "new", &found) && equal(&found, &costs));
}

Test(cost_file, a_file_gets_each_key_once)
{
	struct rd_costs costs = made_up(7), found;
	char *text;

	rd_cost_file_keep(path, "a key", &costs);
	rd_cost_file_keep(path, "another", &costs);
	rd_cost_file_keep(path, "a key", &costs);
	text = file_text_at(path);
	cr_assert_eq(strncmp(text, "[a key]\n", 8), 0);
	cr_assert_not_null(strstr(text, "\n[another]\n"));
	cr_assert_null(strstr(text + 1, "[a key]"));
	cr_assert(rd_cost_file_find(path, "another", &found) && equal(&found, &costs));
}

Test(cost_file, a_file_that_is_no_list_of_costs_is_left_as_it_is)
{
	static const char *const texts[] = { "hello\n", "[a]\n", "[a]\ncores\n", "[a\ncores 2\n",
		"\n", "[]\n", "[a]\n[b]\n" };
	struct rd_costs costs = made_up(7), found;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		write_text(texts[i]);
		cr_assert_not(rd_cost_file_find(path, "a", &found), "%s", texts[i]);
		rd_cost_file_keep(path, "k", &costs);
		cr_assert_str_eq(file_text_at(path), texts[i]);
	}
	cr_assert_not(rd_cost_file_find("/", "a", &found));
	cr_assert_not(rd_cost_file_find("/dev/zero", "a", &found));
}

/* The costs of made_up(7), with this line for the one of its name. */
static void write_with(const char *line)
{
	struct rd_costs costs = made_up(7);
	char text[2048], changed[4096], name[32];
	int length = (int)strcspn(line, " ");
	char *at;

	rd_costs_print(&costs, text, sizeof(text));
	snprintf(name, sizeof(name), "\n%.*s ", length, line);
	at = strstr(text, name);
	cr_assert_not_null(at, "%s", line);
	snprintf(changed, sizeof(changed), "[z]\n%s[a]\n%.*s\n%s%s", text, (int)(at - text), text,
		line, strchr(at + 1, '\n'));
	write_text(changed);
}

/* Line numbers are those of the file: 32 lines are before the section [a]. */
Test(cost_file, a_number_out_of_bounds_is_named_with_its_line_and_its_bounds)
{
	static const struct {
		const char *line, *error;
	} tries[] = {
		{ "cores 0", "line 48: cores is \"0\": each is a whole number, 1 to 65536." },
		{ "cores 65537", "line 48: cores is \"65537\"" },
		{ "cores 4294967296", "line 48: cores is \"4294967296\"" },
		{ "cores", "line 48: cores has 0 numbers, not 1." },
		{ "copy_ps -1",
			"line 45: copy_ps is \"-1\": each is a whole number, 0 to 1000000." },
		{ "copy_ps 1000001", "line 45: copy_ps is \"1000001\"" },
		{ "copy_ps nan", "line 45: copy_ps is \"nan\"" },
		{ "copy_ps 1e300", "line 45: copy_ps is \"1e300\"" },
		{ "copy_ps 1.5", "line 45: copy_ps is \"1.5\"" },
		{ "copy_ps 5 6", "line 45: copy_ps has 2 numbers, not 1." },
		{ "reduce_ps 7 9223372036854775808",
			"line 46: reduce_ps is \"9223372036854775808\"" },
		{ "switch_ns 99999999999999999999999999", "line 47: switch_ns is \"9999999" },
		{ "memory_reduce_ps 1 1000001", "line 50: memory_reduce_ps is \"1000001\"" },
		{ "cache_bytes 4294967296", "line 51: cache_bytes is \"4294967296\"" },
		{ "near_posts 2", "line 37: near_posts is \"2\": each is a whole number, 0 to 1." },
		{ "far_single_copy 4294967295", "line 44: far_single_copy is \"4294967295\"" },
		{ "far_rails 0", "line 61: far_rails is \"0\": each is a whole number, 1 to 64." },
		{ "near_striped 1001", "line 56: near_striped is \"1001\"" },
		{ "near_past_caches 2", "line 57: near_past_caches is \"2\"" },
		{ "far_way_ns 1 2 3 4 5 4000000001",
			"line 40: far_way_ns is \"4000000001\": each is a whole number, 0 to "
			"4000000000." },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct rd_costs found;
		const char *log;

		write_with(tries[i].line);
		captured_stderr_begin();
		cr_expect_not(rd_cost_file_find(path, "a", &found), "%s", tries[i].line);
		log = captured_stderr_end();
		cr_expect_eq(count_of(log, "\n"), 1, "%s", log);
		cr_expect(strstr(log, tries[i].error) && strstr(log, path), "%s: no %s in: %s",
			tries[i].line, tries[i].error, log);
	}
}

Test(cost_file, numbers_at_their_bounds_are_taken)
{
	static const char *const lines[] = { "cores 65536", "copy_ps 1000000", "copy_ps 0",
		"reduce_ps 0 1000000", "memory_copy_ps 1000000", "cache_bytes 0",
		"cache_bytes 4294967295", "near_rails 1", "far_rails 64", "far_striped 0",
		"near_striped 1000", "near_past_caches 1", "switch_ns 4000000000",
		"near_posts_min 4294967295", "far_way_ns 4000000000 0 4000000000 0 4000000000 0" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct rd_costs found;

		write_with(lines[i]);
		cr_expect(rd_cost_file_find(path, "a", &found), "%s", lines[i]);
	}
}

/* Or a machine so slow could not read its own file. */
Test(cost_file, costs_beyond_their_bounds_are_kept_at_these)
{
	struct rd_costs costs, read;
	char text[2048], wrong[120];
	int line;

	memset(&costs, 0xff, sizeof(costs));
	rd_costs_print(&costs, text, sizeof(text));
	cr_expect_not(rd_costs_read(&read, text, &line, wrong, sizeof(wrong)));
	rd_costs_bound(&costs);
	rd_costs_print(&costs, text, sizeof(text));
	cr_expect(rd_costs_read(&read, text, &line, wrong, sizeof(wrong)), "%s", wrong);
	costs.cores = 0;
	rd_costs_bound(&costs);
	cr_expect_eq(costs.cores, 1);
}

static int files_beside(void)
{
	char pattern[sizeof(path) + 1];
	glob_t found = { 0 };
	int count;

	snprintf(pattern, sizeof(pattern), "%s*", path);
	cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
	count = (int)found.gl_pathc;
	globfree(&found);
	return count;
}

Test(cost_file, a_link_to_the_file_stays_a_link)
{
	struct rd_costs costs = made_up(1);
	char link[sizeof(path) + 8], target[sizeof(path)] = "", *text;

	snprintf(link, sizeof(link), "%s.link", path);
	cr_assert_eq(symlink(path, link), 0);
	rd_cost_file_keep(link, "a key", &costs);
	cr_assert_gt(readlink(link, target, sizeof(target) - 1), 0, "%s is no link any more", link);
	unlink(link);
	cr_assert_str_eq(target, path);
	text = file_text_at(path);
	cr_assert_eq(strncmp(text, "[a key]\n", 8), 0);
	cr_assert_eq(files_beside(), 1);
}

Test(cost_file, a_file_that_cannot_grow_stays_as_it_was_and_the_reason_is_logged)
{
	struct rd_costs one = made_up(7), other = made_up(100), found;
	struct rlimit limit;
	const char *log;
	char *before;

	rd_cost_file_keep(path, "a", &one);
	before = file_text_at(path);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = strlen(before) + 100;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	captured_stderr_begin();
	rd_cost_file_keep(path, "b", &other);
	log = captured_stderr_end();
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_expect_str_eq(file_text_at(path), before);
	cr_expect(strstr(log, "cannot write RONDO_TUNE_FILE /tmp/rondo-tune-") &&
			  strstr(log, ": File too large\n"),
		"%s", log);
	cr_expect_eq(files_beside(), 1, "%d files", files_beside());
	/* And when there is room again, it grows. */
	rd_cost_file_keep(path, "b", &other);
	cr_expect_eq(strncmp(file_text_at(path), before, strlen(before)), 0);
	cr_expect_not_null(strstr(file_text_at(path), "\n[b]\n"));
	cr_expect(rd_cost_file_find(path, "a", &found) && equal(&found, &one));
	cr_expect_eq(files_beside(), 1);
}

Test(cost_file, a_file_whose_last_line_has_no_end_gets_one)
{
	struct rd_costs costs = made_up(7), found;
	char *text;

	rd_cost_file_keep(path, "a", &costs);
	text = file_text_at(path);
	text[strlen(text) - 1] = '\0';
	write_text(text);
	rd_cost_file_keep(path, "b", &costs);
	cr_expect(rd_cost_file_find(path, "b", &found) && equal(&found, &costs), "%s",
		file_text_at(path));
	cr_expect_not_null(strstr(file_text_at(path), "\n[b]\n"));
}

/* ---- A world -------------------------------------------------------------------------------- */

static int read_copy_ps(struct rank_env *env)
{
	char text[2048], *at;

	if (!env->comm)
		return world_report(env, "no comm: %s", rondo_last_error());
	rondo_costs(env->comm, text, sizeof(text));
	at = strstr(text, "copy_ps ");
	*env->number = at ? strtoull(at + 8, NULL, 10) : 0;
	return 0;
}

static void run_world(struct rank_outcome outcomes[WORLD_MAX])
{
	struct world world = { .size = 2, .transport = "shm" };

	setenv("RONDO_TUNE_FILE", path, 1);
	cr_assert_eq(world_run(&world, read_copy_ps, NULL, outcomes), 0);
	unsetenv("RONDO_TUNE_FILE");
}

/* On a busy machine costs may not settle: then the log says so, and the file gets none. */
static void expect_kept_if_settled(const char *log, uint64_t copy_ps)
{
	const char *at = strstr(file_text_at(path), "copy_ps ");

	if (strstr(log, "did not settle"))
		cr_assert_null(at);
	else
		cr_assert(at && strtoull(at + 8, NULL, 10) == copy_ps, "%s", log);
}

Test(cost_file, ranks_take_their_costs_from_the_file, .timeout = 60)
{
	struct rank_outcome outcomes[WORLD_MAX];
	struct rd_costs costs = made_up(1);
	char section[4096], printed[2048];
	const char *log, *key;

	setenv("RONDO_DEBUG", "INFO", 1);
	captured_stderr_begin();
	run_world(outcomes);
	log = captured_stderr_end();
	expect_kept_if_settled(log, outcomes[0].number);
	/* A user writes the costs. */
	key = strstr(log, "costs [");
	cr_assert_not_null(key);
	key += strlen("costs ");
	costs.copy_ps = 54321;
	costs.memory_copy_ps = 54322;
	rd_costs_print(&costs, printed, sizeof(printed));
	snprintf(section, sizeof(section), "%.*s\n%s", (int)(strchr(key, ']') + 1 - key), key,
		printed);
	write_text(section);
	captured_stderr_begin();
	run_world(outcomes);
	captured_stderr_end();
	cr_assert_eq(outcomes[0].number, 54321);
	cr_assert_eq(outcomes[1].number, 54321);
}

/* Older files do not say that cores are shared, and have another cost of a switch. */
Test(cost_file, ranks_that_share_cores_find_no_costs_of_older_files, .timeout = 60)
{
	struct rank_outcome outcomes[WORLD_MAX];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	setenv("RONDO_DEBUG", "INFO", 1);
	captured_stderr_begin();
	run_world(outcomes);
	cr_assert_not_null(strstr(captured_stderr_end(), ", 1 shared cores, "));
}

static uint32_t number_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? (uint32_t)strtoul(at + strlen(name), NULL, 10) : 0;
}

/* 1: memory costs no less than a cache, whose size is known. */
static int check_memory(struct rank_env *env)
{
	char text[2048];

	if (!env->comm)
		return world_report(env, "no comm: %s", rondo_last_error());
	rondo_costs(env->comm, text, sizeof(text));
	*env->number = number_of(text, "\ncopy_ps ") > 0 &&
		       number_of(text, "\nmemory_copy_ps ") >= number_of(text, "\ncopy_ps ") &&
		       number_of(text, "\nmemory_reduce_ps ") >= number_of(text, "\nreduce_ps ") &&
		       number_of(text, "\ncache_bytes ") > 0;
	return *env->number ? 0 : world_report(env, "%s", text);
}

Test(cost_file, memory_that_is_measured_costs_no_less_than_a_cache, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "shm" };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(world_run(&world, check_memory, NULL, outcomes), 0, "%s", outcomes[0].text);
	cr_assert_eq(outcomes[0].number, 1);
	cr_assert_eq(outcomes[1].number, 1);
}

/* 1: the costs of this comm are the built-in ones, but for the cores. */
static int compare_costs(struct rank_env *env)
{
	struct rd_costs costs;
	char text[2048], built_in[2048];

	if (!env->comm)
		return world_report(env, "no comm: %s", rondo_last_error());
	rondo_costs(env->comm, text, sizeof(text));
	rd_costs_default(&costs);
	rd_costs_print(&costs, built_in, sizeof(built_in));
	*strstr(text, "cores ") = *strstr(built_in, "cores ") = '\0';
	*env->number = strcmp(text, built_in) == 0;
	return 0;
}

Test(cost_file, ranks_that_must_be_reproducible_measure_nothing, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "shm" };
	struct rank_outcome outcomes[WORLD_MAX];

	for (unsigned wanted = 0; wanted < 2; wanted++) {
		setenv("RONDO_REPRODUCIBLE", wanted ? "1" : "0", 1);
		cr_assert_eq(world_run(&world, compare_costs, NULL, outcomes), 0);
		cr_assert_eq(outcomes[0].number, wanted);
		cr_assert_eq(outcomes[1].number, wanted);
	}
}
