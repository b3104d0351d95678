#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/port.h"
#include "base/settings.h"

/* Each test is a process of its own, with variables of its own. */
static void launch_as(const char *rank, const char *size)
{
	clearenv();
	setenv("RANK", rank, 1);
	setenv("WORLD_SIZE", size, 1);
}

static struct rd_settings settings;

static void assert_refused(const char *word)
{
	cr_assert_eq(rd_settings_read(&settings, NULL), RONDO_SETTING, "%s", word);
	cr_assert(strstr(rondo_last_error(), word), "no \"%s\" in: %s", word, rondo_last_error());
	cr_assert_null(strchr(rondo_last_error(), '\n'));
}

Test(settings, defaults_hold_where_nothing_is_set)
{
	launch_as("2", "4");
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.rank, 2);
	cr_assert_eq(settings.size, 4);
	cr_assert_str_eq(settings.address, "127.0.0.1");
	cr_assert_eq(settings.master_port, 29500);
	cr_assert_eq(settings.port, 27500);
	cr_assert_eq(settings.local_rank, -1);
#define IS_STRING(name, standard) cr_assert_str_eq(settings.name, standard);
/* 0 is for a port that is derived. */
#define IS_INT(name, standard) \
	cr_assert(settings.name == standard || strcmp(#name, "port") == 0, "%s", #name);
#define IS_SIZE IS_INT
#define IS_NAMES IS_STRING
#define IS_PATH IS_STRING
#define IS_PATHS IS_STRING
#define IS_DEFAULT(name, kind, variable, standard, ...) IS_##kind(name, standard)
	RD_SETTINGS(IS_DEFAULT)
}

Test(settings, an_address_may_stand_in_brackets)
{
	static const char *const pairs[][2] = { { "[fd00::1]", "fd00::1" }, { "[]", "[]" },
		{ "[fd00::1", "[fd00::1" }, { "fd00::1]", "fd00::1]" } };

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		setenv("MASTER_ADDR", pairs[i][0], 1);
		cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
		cr_assert_str_eq(settings.address, pairs[i][1]);
	}
}

Test(settings, the_environment_sets_every_field)
{
	launch_as("0", "65536");
	setenv("MASTER_ADDR", "node-0.example", 1);
	setenv("MASTER_PORT", "65535", 1);
	setenv("LOCAL_RANK", "7", 1);
#define SET_STRING(variable) \
	setenv(variable, !strncmp(variable, "RONDO_DEBUG", 11) ? "NONE" : "x", 1)
#define SET_NAMES SET_STRING
#define SET_PATH SET_STRING
#define SET_PATHS SET_STRING
#define SET_INT(variable) setenv(variable, "20", 1)
#define SET_SIZE(variable) setenv(variable, "2k", 1)
#define SET(name, kind, variable, ...) SET_##kind(variable);
	RD_SETTINGS(SET)
	setenv("RONDO_UNREACHABLE_MS", "200", 1);
	setenv("RONDO_CHANNELS", "8", 1);
	setenv("RONDO_IB_SERVICE_LEVEL", "3", 1);
	setenv("RONDO_IB_RETRY", "5", 1);
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	setenv("RONDO_ENCRYPT", "0", 1);
	setenv("RONDO_CHECKSUM", "1", 1);
	setenv("RONDO_CHECK", "1", 1);
	setenv("RONDO_LAUNCHER", "torchrun", 1);
	setenv("RONDO_DEBUG_SUBSYS", "^net,ring", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.size, 65536);
	cr_assert_str_eq(settings.address, "node-0.example");
	cr_assert_eq(settings.master_port, 65535);
	cr_assert_eq(settings.port, 20);
	cr_assert_str_eq(settings.transport, "x");
	cr_assert_str_eq(settings.algo, "x");
	cr_assert_str_eq(settings.interface, "x");
	cr_assert_str_eq(settings.host, "x");
	cr_assert_str_eq(settings.topo_file, "x");
	cr_assert_eq(settings.reproducible, 1);
	cr_assert_eq(settings.checksum, 1);
	cr_assert_eq(settings.local_rank, 7);
	cr_assert_str_eq(settings.debug, "NONE");
	cr_assert_str_eq(settings.debug_subsys, "^net,ring");
	cr_assert_eq(settings.rendezvous_fd, 20);
	cr_assert_eq(settings.channels, 8);
	cr_assert_eq(settings.ib_service_level, 3);
	cr_assert_eq(settings.ib_retry, 5);
	cr_assert_eq(settings.piece_size, 2048);
	cr_assert_eq(settings.slots, 20);
	cr_assert_eq(settings.spin_us, 20);
	cr_assert_eq(settings.timeout_ms, 20);
	cr_assert_eq(settings.init_timeout_ms, 20);
}

Test(settings, no_heartbeat_is_waited_for_longer_than_a_call_waits)
{
	launch_as("0", "4");
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.timeout_ms, 600000);
	cr_assert_eq(settings.heartbeat_timeout_ms, 30000);
	cr_assert_eq(settings.unreachable_ms, 10000);
	setenv("RONDO_TIMEOUT_MS", "700", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.heartbeat_timeout_ms, 700);
	cr_assert_eq(settings.unreachable_ms, 700);
}

Test(settings, the_port_is_derived_from_the_masters_where_it_is_not_set)
{
	static const int pairs[][2] = { { 29500, 27500 }, { 29501, 27501 }, { 3024, 1024 },
		{ 3023, 32767 }, { 1, 29745 }, { 32768, 30768 }, { 34767, 32767 }, { 34768, 1024 },
		{ 60999, 27255 }, { 65535, 31791 } };
	char text[8];

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		snprintf(text, sizeof(text), "%d", pairs[i][0]);
		setenv("MASTER_PORT", text, 1);
		cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
		cr_assert_eq(settings.port, pairs[i][1], "%d: %d", pairs[i][0], settings.port);
	}
	for (int port = 1; port < 65536; port++)
		cr_assert(rd_port_from_master(port) >= 1024 && rd_port_from_master(port) < 32768 &&
				  rd_port_from_master(port) != port,
			"%d", port);
	setenv("RONDO_PORT", "7", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.port, 7);
	setenv("RONDO_PORT", "65536", 1);
	assert_refused("RONDO_PORT is \"65536\": give a whole number from 0 to 65535");
}

Test(settings, a_config_goes_before_the_environment)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	launch_as("0", "4");
	setenv("MASTER_ADDR", "far", 1);
	setenv("RONDO_TRANSPORT", "tcp", 1);
	setenv("RONDO_ALGO", "tree", 1);
	setenv("RONDO_CHANNELS", "7", 1);
	config.rank = 1;
	config.size = 2;
	config.address = "near";
	config.port = 1;
	config.rendezvous_fd = 0;
	config.transport = "";
	config.interface = "lo";
	config.host = "a";
	config.algo = "ring";
	config.channels = 2;
	config.piece_size = 64;
	config.timeout_ms = 11;
	config.init_timeout_ms = 12;
	cr_assert_eq(rd_settings_read(&settings, &config), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.rank, 1);
	cr_assert_eq(settings.size, 2);
	cr_assert_str_eq(settings.address, "near");
	cr_assert_eq(settings.port, 1);
	cr_assert_eq(settings.rendezvous_fd, 0);
	cr_assert_str_eq(settings.transport, "");
	cr_assert_str_eq(settings.interface, "lo");
	cr_assert_str_eq(settings.host, "a");
	cr_assert_str_eq(settings.algo, "ring");
	cr_assert_eq(settings.channels, 2);
	cr_assert_eq(settings.piece_size, 64);
	cr_assert_eq(settings.timeout_ms, 11);
	cr_assert_eq(settings.init_timeout_ms, 12);
}

Test(settings, what_a_config_leaves_alone_comes_from_the_environment)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	launch_as("3", "4");
	setenv("RONDO_ALGO", "tree", 1);
	setenv("RONDO_RENDEZVOUS_FD", "5", 1);
	cr_assert_eq(rd_settings_read(&settings, &config), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.rank, 3);
	cr_assert_str_eq(settings.algo, "tree");
	cr_assert_eq(settings.rendezvous_fd, 5);
}

Test(settings, a_config_is_checked_as_the_environment_is)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	launch_as("0", "1");
	config.channels = 9;
	cr_assert_eq(rd_settings_read(&settings, &config), RONDO_SETTING);
	cr_assert_str_eq(rondo_last_error(),
		"channels in struct rondo_config is \"9\": give a whole number from 1 to 8");
	config.channels = -1;
	cr_assert_eq(rd_settings_read(&settings, &config), RONDO_SETTING);
	config.channels = 1;
	config.piece_size = SIZE_MAX;
	cr_assert_eq(rd_settings_read(&settings, &config), RONDO_SETTING);
	config.piece_size = 0;
	config.address = "";
	cr_assert_eq(rd_settings_read(&settings, &config), RONDO_SETTING);
	config.address = NULL;
	config.struct_size = 8;
	cr_assert_eq(rd_settings_read(&settings, &config), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "RONDO_CONFIG_INIT"));
}

Test(settings, a_missing_rank_or_size_says_how_to_start)
{
	clearenv();
	assert_refused("RANK is not set, nor another launcher's variable: start the program with "
		       "rondo-run");
	setenv("RANK", "0", 1);
	assert_refused("RANK is set, but not WORLD_SIZE");
}

Test(settings, a_rank_beyond_the_size_is_refused)
{
	launch_as("4", "4");
	assert_refused("RANK is 4 but WORLD_SIZE is 4: give a rank from 0 to 3");
}

Test(settings, numbers_that_are_none_are_refused)
{
	static const char *const values[] = { "two", "1x", "1.5", " 1", "1 ", "+1", "-", "-1", "0",
		"9", "0x1", "1K", "99999999999999999999", "-9223372036854775809", "1\n" };

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		setenv("RONDO_CHANNELS", values[i], 1);
		assert_refused("RONDO_CHANNELS is \"");
		assert_refused("give a whole number from 1 to 8");
	}
	unsetenv("RONDO_CHANNELS");
	setenv("MASTER_PORT", "65536", 1);
	assert_refused("MASTER_PORT");
	setenv("MASTER_PORT", "0", 1);
	assert_refused("MASTER_PORT");
}

Test(settings, sizes_take_suffixes)
{
	static const struct {
		const char *text;
		size_t size; /* 0: refused */
	} cases[] = { { "64", 64 }, { "63", 0 }, { "1K", 1024 }, { "16m", 16 << 20 },
		{ "16777217", 0 }, { "17M", 0 }, { "1G", 0 }, { "K", 0 }, { "1KB", 0 }, { "1T", 0 },
		{ "9007199254740993G", 0 }, { "18014398509482048K", 0 } };

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("RONDO_PIECE", cases[i].text, 1);
		if (!cases[i].size) {
			assert_refused("RONDO_PIECE is \"");
			continue;
		}
		cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", cases[i].text);
		cr_assert_eq(settings.piece_size, cases[i].size);
	}
}

Test(settings, texts_that_are_too_long_are_refused)
{
	char text[200];

	launch_as("0", "1");
	memset(text, 'a', sizeof(text));
	text[63] = '\0';
	setenv("RONDO_HOST", text, 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_str_eq(settings.host, text);
	text[63] = 'a';
	text[64] = '\0';
	setenv("RONDO_HOST", text, 1);
	assert_refused("RONDO_HOST is \"aaaaaaaa");
	assert_refused("give 0 to 63 characters");
	unsetenv("RONDO_HOST");
	text[64] = 'a';
	text[128] = '\0';
	setenv("RONDO_ALGO", text, 1);
	assert_refused("RONDO_ALGO");
}

Test(settings, lists_in_which_a_name_is_missing_are_refused)
{
	static const char *const variables[] = { "RONDO_INTERFACE", "RONDO_TRANSPORT",
		"RONDO_DEBUG_SUBSYS", "RONDO_TRANSPORT_PLUGIN", "RONDO_ALGO_PLUGIN", "RONDO_PLAN" };
	static const char *const lists[] = { ",", ",,,", ",net", "net,", "net,,coll" };
	char reason[160];

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
			setenv(variables[i], lists[k], 1);
			snprintf(reason, sizeof(reason),
				"%s is \"%s\": a name is missing beside a comma", variables[i],
				lists[k]);
			assert_refused(reason);
		}
		setenv(variables[i], "net,coll", 1);
		cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	}
	/* One name of a file may hold commas. */
	setenv("RONDO_TOPO_FILE", ",,", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
}

Test(settings, an_unknown_variable_that_is_set_to_nothing_is_not_set)
{
	launch_as("0", "1");
	setenv("RONDO_CHANELS", "", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
}

Test(settings, an_unknown_variable_is_refused_and_the_nearest_named)
{
	launch_as("0", "1");
	setenv("RONDO_CHANELS", "2", 1);
	assert_refused("RONDO_CHANELS is no setting of Rondo; the nearest is RONDO_CHANNELS.");
	unsetenv("RONDO_CHANELS");
	setenv("RONDO_TIMOUT_MS", "2", 1);
	assert_refused("the nearest is RONDO_TIMEOUT_MS.");
	unsetenv("RONDO_TIMOUT_MS");
	setenv("RONDO_debug", "INFO", 1);
	assert_refused("the nearest is RONDO_DEBUG.");
	unsetenv("RONDO_debug");
	setenv("RONDO_an_unknown_name_that_is_much_longer_than_every_known_one_and_than_our_"
	       "buffers",
		"1", 1);
	assert_refused("RONDO_an_unknown_name");
}

Test(settings, variables_that_describe_an_installation_are_left_alone)
{
	static const char *const variables[] = { "RONDO_ROOT", "RONDO_DIR", "RONDO_HOME",
		"RONDO_PREFIX", "RONDO_VERSION", "RONDO_INC", "RONDO_LIB", "RONDO_BASE",
		"RONDO_BIN", "RONDO_PATH", "RONDO_INCLUDE_DIR", "RONDO_LIBRARY_DIR",
		"RONDO_LIBRARIES", "RONDO_CFLAGS", "RONDO_LIBS", "RONDO_INSTALL_DIR",
		"RONDO_LIB_DIR" };

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		setenv(variables[i], "/opt/rondo/0.1", 1);
		cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	}
	setenv("RONDO_CHANELS", "2", 1);
	assert_refused("RONDO_CHANELS is no setting of Rondo; the nearest is RONDO_CHANNELS.");
}

Test(settings, variables_of_adapters_are_left_alone)
{
	static const char *const variables[] = { "RONDO_PYTHON_ANYTHING", "RONDO_TORCH_TIMEOUT_MS",
		"RONDO_NCCL_DEBUG" };

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		setenv(variables[i], "1", 1);
		cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	}
	setenv("RONDO_PYTHONS", "1", 1);
	assert_refused("RONDO_PYTHONS is no setting of Rondo");
}

Test(settings, a_variable_that_only_begins_or_ends_like_one_of_an_installation_is_refused)
{
	static const char *const pairs[][2] = { { "RONDO_DIRR", "" }, { "RONDO_", "" },
		{ "RONDO_ROOT_", "" }, { "RONDO__DIR", "" }, { "RONDO_root", "" },
		{ "RONDO_TUNE_PATH", "the nearest is RONDO_TUNE_FILE." },
		{ "RONDO_PLUGIN_DIR", "" }, { "RONDO_LI", "" },
		{ "RONDO_TOPO_DIR", "the nearest is RONDO_TOPO_FILE." } };

	launch_as("0", "1");
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		setenv(pairs[i][0], "x", 1);
		assert_refused(pairs[i][0]);
		assert_refused(pairs[i][1]);
		unsetenv(pairs[i][0]);
	}
}

Test(settings, an_empty_variable_counts_as_not_set)
{
	launch_as("0", "1");
	setenv("RONDO_CHANNELS", "", 1);
	setenv("RONDO_DEBUG", "", 1);
	setenv("MASTER_ADDR", "", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.channels, 1);
	cr_assert_str_eq(settings.debug, "WARN");
	cr_assert_str_eq(settings.address, "127.0.0.1");
}

Test(settings, debug_texts_are_checked_where_they_are_read)
{
	launch_as("0", "1");
	setenv("RONDO_DEBUG", "LOUD", 1);
	assert_refused("RONDO_DEBUG is \"LOUD\": give one of NONE, WARN, INFO and TRACE");
	setenv("RONDO_DEBUG", "Trace", 1);
	setenv("RONDO_DEBUG_SUBSYS", "RING,NETT", 1);
	assert_refused("RONDO_DEBUG_SUBSYS names \"NETT\"");
	assert_refused("BOOTSTRAP");
}

Test(settings, debug_settings_reach_the_log)
{
	launch_as("0", "1");
	setenv("RONDO_DEBUG", "info", 1);
	setenv("RONDO_DEBUG_SUBSYS", "^NET", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_not(rd_log_on(RD_INFO, RD_RING));
	rd_settings_log(&settings);
	cr_assert(rd_log_on(RD_INFO, RD_RING));
	cr_assert_not(rd_log_on(RD_INFO, RD_NET));
	cr_assert_not(rd_log_on(RD_TRACE, RD_RING));
}

Test(settings, a_setting_is_found_by_its_variable)
{
	launch_as("0", "2");
	setenv("RONDO_PIECE", "8K", 1);
	setenv("RONDO_INTERFACE", "eth7", 1);
	setenv("RONDO_ALGO_PLUGIN", "./libstar.so", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_expect_eq(rd_settings_number(&settings, "RONDO_PIECE"), 8192);
	cr_expect_eq(rd_settings_number(&settings, "WORLD_SIZE"), 2);
	cr_expect_str_eq(rd_settings_text(&settings, "RONDO_INTERFACE"), "eth7");
	cr_expect_str_eq(rd_settings_text(&settings, "RONDO_ALGO_PLUGIN"), "./libstar.so");
	cr_expect_eq(rd_settings_number(&settings, "RONDO_INTERFACE"), -1);
	cr_expect_eq(rd_settings_number(&settings, "RONDO_NONE"), -1);
	cr_expect_null(rd_settings_text(&settings, "RONDO_PIECE"));
	cr_expect_null(rd_settings_text(&settings, "RONDO_NONE"));
}

Test(settings, equal_paths_have_one_copy_that_outlives_the_environment)
{
	struct rd_settings other;

	launch_as("0", "2");
	setenv("RONDO_TUNE_FILE", "/costs/one", 1);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_eq(rd_settings_read(&other, NULL), 0, "%s", rondo_last_error());
	cr_expect_eq(other.tune_file, settings.tune_file);
	setenv("RONDO_TUNE_FILE", "/costs/two", 1);
	setenv("RONDO_DEBUG_FILE", "/costs/one", 1);
	cr_assert_eq(rd_settings_read(&other, NULL), 0, "%s", rondo_last_error());
	cr_expect_str_eq(settings.tune_file, "/costs/one");
	cr_expect_str_eq(other.tune_file, "/costs/two");
	cr_expect_eq(other.debug_file, settings.tune_file);
}

Test(settings, the_digest_tells_what_must_agree_between_ranks)
{
	launch_as("0", "2");
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	uint64_t digest = rd_settings_digest(&settings);

	struct rd_settings other = settings;
	other.rank = 1;
	other.timeout_ms = 11;
	cr_assert_eq(rd_settings_digest(&other), digest);
	other.channels = 2;
	cr_assert_neq(rd_settings_digest(&other), digest);
	other = settings;
	other.piece_size *= 2;
	cr_assert_neq(rd_settings_digest(&other), digest);
	other = settings;
	other.checksum = 1;
	cr_assert_neq(rd_settings_digest(&other), digest);
	other = settings;
	other.check = 1;
	cr_assert_neq(rd_settings_digest(&other), digest);
	other = settings;
	other.algo = "ring";
	cr_assert_neq(rd_settings_digest(&other), digest);
	other = settings;
	strcpy(other.plugins, "star");
	cr_assert_neq(rd_settings_digest(&other), digest);
}

Test(settings, no_key_is_left_once_they_are_forgotten)
{
	struct rd_settings copy = { .has_key = true, .has_psk = true };
	unsigned char none[RD_PSK_SIZE] = { 0 };

	memset(copy.key, 1, sizeof(copy.key));
	memset(copy.psk, 1, sizeof(copy.psk));
	rd_settings_forget(&copy);
	cr_expect_not(copy.has_key || copy.has_psk);
	cr_expect_arr_eq(copy.key, none, sizeof(copy.key));
	cr_expect_arr_eq(copy.psk, none, sizeof(copy.psk));
}

/* Texts from the environment that reach terminals and JSON. */

Test(environment, what_steers_a_terminal_or_is_no_utf8_becomes_a_question_mark)
{
	static const struct {
		const char *given, *wanted;
	} cases[] = { { "node\xc3\xa4", "node\xc3\xa4" }, { "a\nb\x1b[2Jc\x7f", "a?b?[2Jc?" },
		{ "caf\xe9", "caf?" }, { "\xff\xfe", "??" }, { "\xc0\xaf", "??" },
		{ "\xed\xa0\x80", "???" }, { "cut \xe2\x82", "cut ??" },
		{ "\xe2\x82\xac", "\xe2\x82\xac" } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[32];

		strcpy(text, cases[i].given);
		rd_disarm(text, strlen(text));
		cr_expect_str_eq(text, cases[i].wanted, "case %zu", i);
	}
}
