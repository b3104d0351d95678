/* docs/environment.md lists the settings as they are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/settings.h"

static char page[65536];

static void read_page(void)
{
	const char *path = RONDO_SOURCE "/docs/environment.md";
	FILE *file = fopen(path, "r");
	cr_assert_not_null(file, "no %s", path);
	size_t size = fread(page, 1, sizeof(page) - 1, file);
	fclose(file);
	page[size] = '\0';
}

static const char *size_text(char text[24], int64_t size)
{
	if (size >= 1 << 20 && size % (1 << 20) == 0)
		snprintf(text, 24, "%lldM", (long long)(size >> 20));
	else if (size >= 1 << 10 && size % (1 << 10) == 0)
		snprintf(text, 24, "%lldK", (long long)(size >> 10));
	else
		snprintf(text, 24, "%lld", (long long)size);
	return text;
}

static void default_and_range_STRING(char *text, const char *standard, int64_t least, int64_t most)
{
	(void)least;
	sprintf(text, "%s | up to %lld characters", standard[0] ? standard : "empty",
		(long long)most);
}

#define default_and_range_NAMES default_and_range_STRING
#define default_and_range_PATH default_and_range_STRING
#define default_and_range_PATHS default_and_range_STRING

static void default_and_range_INT(char *text, int64_t standard, int64_t least, int64_t most)
{
	sprintf(text, "%lld | %lld to %lld", (long long)standard, (long long)least,
		(long long)most);
}

static void default_and_range_SIZE(char *text, int64_t standard, int64_t least, int64_t most)
{
	char a[24], b[24], c[24];

	sprintf(text, "%s | %s to %s", size_text(a, standard), size_text(b, least),
		size_text(c, most));
}

static const char *config_field(const char *field)
{
	static const char *const without[] = { "transport_plugin", "algo_plugin", "plan_files",
		"debug", "debug_subsys", "debug_file", "topo_file", "slots", "tune_file",
		"reproducible", "launcher", "single_copy", "spin_us", "heartbeat_timeout_ms",
		"unreachable_ms", "device", "kernel", "gpu_blocks", "secret_fd", "secret_file",
		"encrypt", "checksum", "ib_device", "ib_gid_index", "ib_service_level",
		"ib_traffic_class", "ib_timeout", "ib_retry", "check", "trace" };

	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		if (!strcmp(field, without[i]))
			return NULL;
	return field;
}

static void assert_listed(
	const char *field, const char *variable, const char *meaning, const char *default_and_range)
{
	char line[512], quoted[64] = "none";

	if (config_field(field))
		snprintf(quoted, sizeof(quoted), "`%s`", field);
	snprintf(line, sizeof(line), "\n| `%s` | %s | %s | %s |\n", variable, meaning,
		default_and_range, quoted);
	cr_assert(strstr(page, line), "docs/environment.md should say:%s", line);
}

Test(settings_page, lists_every_setting_as_it_is)
{
	char text[128];
	int rows = 0, settings_count = 0;

	read_page();
#define LISTED(name, kind, variable, standard, least, most, meaning) \
	default_and_range_##kind(text, standard, least, most); \
	assert_listed(#name, variable, meaning, text); \
	settings_count++;
	RD_SETTINGS(LISTED)
	for (const char *row = page; (row = strstr(row, "\n| `RONDO_")); row++)
		rows++;
	cr_assert_eq(rows, settings_count, "docs/environment.md lists what is no setting");
}

Test(settings_page, lists_the_launchers_variables)
{
	static const char *const variables[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK",
		"LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };

	read_page();
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		char row[64];
		snprintf(row, sizeof(row), "\n| `%s` |", variables[i]);
		cr_assert(strstr(page, row), "docs/environment.md should list %s", variables[i]);
	}
}

Test(settings_page, lists_the_words_that_describe_an_installation)
{
	read_page();
#define LISTS(word) \
	cr_assert(strstr(page, "`" #word "`"), "docs/environment.md should list " #word);
	RD_INSTALL_WORDS(LISTS)
}
