#include "base/settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/kept_text.h"
#include "base/launch/complete.h"
#include "base/log.h"
#include "base/nearest.h"

enum kind { INT, SIZE, ADDRESS, STRING, NAMES, PATH, PATHS };

/* A row of the table, as data. */
struct setting {
	const char *field, *variable;
	enum kind kind;
	size_t offset; /* in struct rd_settings */
	size_t config; /* in struct rondo_config; 0: it has no such field */
	int64_t least, most;
	int64_t number; /* the default of an INT or SIZE, */
	const char *text; /* and that of a text */
};

/* The launcher's variables. Those of rank and size serve torchrun; other launchers have others. An
   address or port that is not set here comes from the launch as well. */
#define LAUNCH_SETTINGS(X) \
	X(rank, INT, "RANK", -1, 0, RD_SIZE_MAX - 1, ) \
	X(size, INT, "WORLD_SIZE", -1, 1, RD_SIZE_MAX, ) \
	X(address, ADDRESS, "MASTER_ADDR", "", 1, 127, ) \
	X(master_port, INT, "MASTER_PORT", 0, 1, 65535, ) \
	X(local_rank, INT, "LOCAL_RANK", -1, 0, RD_SIZE_MAX - 1, )

/* Fields of struct rondo_config with the same settings. */
enum {
#define IN_CONFIG(field) CONFIG_##field = offsetof(struct rondo_config, field)
#define NOT_IN_CONFIG(field) CONFIG_##field = 0
	IN_CONFIG(gpu),
	NOT_IN_CONFIG(device),
	NOT_IN_CONFIG(kernel),
	NOT_IN_CONFIG(secret_fd),
	NOT_IN_CONFIG(secret_file),
	NOT_IN_CONFIG(encrypt),
	NOT_IN_CONFIG(checksum),
	NOT_IN_CONFIG(check),
	NOT_IN_CONFIG(gpu_blocks),
	IN_CONFIG(rank),
	IN_CONFIG(size),
	IN_CONFIG(address),
	NOT_IN_CONFIG(master_port),
	IN_CONFIG(port),
	IN_CONFIG(transport),
	IN_CONFIG(algo),
	NOT_IN_CONFIG(transport_plugin),
	NOT_IN_CONFIG(algo_plugin),
	NOT_IN_CONFIG(plan_files),
	IN_CONFIG(interface),
	NOT_IN_CONFIG(ib_device),
	NOT_IN_CONFIG(ib_gid_index),
	NOT_IN_CONFIG(ib_service_level),
	NOT_IN_CONFIG(ib_traffic_class),
	NOT_IN_CONFIG(ib_timeout),
	NOT_IN_CONFIG(ib_retry),
	IN_CONFIG(host),
	NOT_IN_CONFIG(local_rank),
	NOT_IN_CONFIG(launcher),
	NOT_IN_CONFIG(topo_file),
	NOT_IN_CONFIG(debug),
	NOT_IN_CONFIG(debug_subsys),
	NOT_IN_CONFIG(debug_file),
	NOT_IN_CONFIG(trace),
	NOT_IN_CONFIG(tune_file),
	NOT_IN_CONFIG(reproducible),
	IN_CONFIG(rendezvous_fd),
	IN_CONFIG(channels),
	IN_CONFIG(piece_size),
	NOT_IN_CONFIG(slots),
	NOT_IN_CONFIG(single_copy),
	NOT_IN_CONFIG(spin_us),
	IN_CONFIG(timeout_ms),
	NOT_IN_CONFIG(heartbeat_timeout_ms),
	NOT_IN_CONFIG(unreachable_ms),
	IN_CONFIG(init_timeout_ms),
};

static const struct setting table[] = {
#define DEFAULT_ADDRESS(value) .text = (value)
#define DEFAULT_STRING(value) .text = (value)
#define DEFAULT_NAMES(value) .text = (value)
#define DEFAULT_PATH(value) .text = (value)
#define DEFAULT_PATHS(value) .text = (value)
#define DEFAULT_INT(value) .number = (value)
#define DEFAULT_SIZE(value) .number = (value)
#define ROW(name, kind_, variable_, standard, least_, most_, meaning) \
	{ .field = #name, \
		.variable = (variable_), \
		.kind = (kind_), \
		.offset = offsetof(struct rd_settings, name), \
		.config = CONFIG_##name, \
		.least = (least_), \
		.most = (most_), \
		DEFAULT_##kind_(standard) },
	LAUNCH_SETTINGS(ROW) RD_SETTINGS(ROW)
};

#define TABLE_SIZE (sizeof(table) / sizeof(table[0]))
_Static_assert(TABLE_SIZE <= 64, "a bit each in struct rd_settings");

static const char *const install_words[] = {
#define WORD(word) #word,
	RD_INSTALL_WORDS(WORD) NULL
#undef WORD
};

/* ---- One value ---- */

static bool is_text(const struct setting *setting)
{
	return setting->kind >= ADDRESS;
}

/* All but the address, of which each comm that meets elsewhere has another. */
static bool is_kept(const struct setting *setting)
{
	return setting->kind >= STRING;
}

static bool is_list(const struct setting *setting)
{
	return setting->kind == NAMES || setting->kind == PATHS;
}

static int refuse(const struct setting *setting, const char *name, const char *value)
{
	char quote[41];
	long long least = setting->least, most = setting->most;

	rd_quotable(quote, value);
	if (is_text(setting))
		return rd_fail(RONDO_SETTING, "%s is \"%s%s\": give %lld to %lld characters", name,
			quote, strlen(value) > 40 ? "..." : "", least, most);
	if (setting->kind == SIZE)
		return rd_fail(RONDO_SETTING,
			"%s is \"%s\": give a size in bytes from %lld to %lld; K, M or G may "
			"follow",
			name, quote, least, most);
	return rd_fail(RONDO_SETTING, "%s is \"%s\": give a whole number from %lld to %lld", name,
		quote, least, most);
}

static int64_t suffix_factor(char suffix)
{
	switch (suffix) {
	case 'K':
	case 'k':
		return 1 << 10;
	case 'M':
	case 'm':
		return 1 << 20;
	case 'G':
	case 'g':
		return 1 << 30;
	}
	return 0;
}

static bool read_number(int64_t *number, enum kind kind, const char *text)
{
	const char *end = rd_read_number(number, text);

	if (end && kind == SIZE && *end) {
		int64_t factor = suffix_factor(*end++);

		if (!factor || __builtin_mul_overflow(*number, factor, number))
			return false;
	}
	return end && !*end;
}

static void store_number(struct rd_settings *settings, const struct setting *setting, int64_t value)
{
	char *field = (char *)settings + setting->offset;

	if (setting->kind == SIZE)
		*(size_t *)field = (size_t)value;
	else
		*(int *)field = (int)value;
}

/* Returns whether a name is missing before, between or after commas. */
static bool lacks_a_name(const char *list)
{
	size_t length = strlen(list);

	return length > 0 && (list[0] == ',' || strstr(list, ",,") || list[length - 1] == ',');
}

/* A kept text must stay. */
static void put_text(struct rd_settings *settings, const struct setting *setting, const char *text)
{
	char *field = (char *)settings + setting->offset;

	if (is_kept(setting))
		*(const char **)field = text;
	else
		strcpy(field, text);
}

static int store_text(struct rd_settings *settings, const struct setting *setting, const char *name,
	const char *value)
{
	size_t length = strlen(value);
	char quote[41];

	if (length < (size_t)setting->least || length > (size_t)setting->most)
		return refuse(setting, name, value);
	if (is_list(setting) && lacks_a_name(value))
		return rd_fail(RONDO_SETTING,
			"%s is \"%s\": a name is missing beside a comma; give names with one comma "
			"between two of them",
			name, rd_quotable(quote, value));
	if (is_kept(setting))
		value = rd_kept_text(value);
	if (!value)
		return RONDO_MEMORY;
	put_text(settings, setting, value);
	return 0;
}

/* `name` is the value's name in its source. */
static int take_text(struct rd_settings *settings, const struct setting *setting, const char *name,
	const char *value)
{
	int64_t number;

	if (is_text(setting))
		return store_text(settings, setting, name, value);
	if (!read_number(&number, setting->kind, value) || number < setting->least ||
		number > setting->most)
		return refuse(setting, name, value);
	store_number(settings, setting, number);
	return 0;
}

/* ---- Where values come from ---- */

static void take_default(struct rd_settings *settings, const struct setting *setting)
{
	if (is_text(setting))
		put_text(settings, setting, setting->text);
	else
		store_number(settings, setting, setting->number);
}

/* Returns the caller's value, as text; NULL if it is that of RONDO_CONFIG_INIT (-1 or 0). */
static const char *configured(
	char digits[24], const struct setting *setting, const struct rondo_config *config)
{
	static const struct rondo_config untouched = RONDO_CONFIG_INIT;
	const char *unset = (const char *)&untouched + setting->config;

	if (!config || !setting->config)
		return NULL;
	const char *field = (const char *)config + setting->config;
	if (is_text(setting))
		return *(const char *const *)field;
	if (setting->kind == SIZE) {
		if (*(const size_t *)field == *(const size_t *)unset)
			return NULL;
		snprintf(digits, 24, "%zu", *(const size_t *)field);
		return digits;
	}
	if (*(const int *)field == *(const int *)unset)
		return NULL;
	snprintf(digits, 24, "%d", *(const int *)field);
	return digits;
}

/* The launch gives these where config does not (base/launch/launch.h). */
static bool is_rank(const struct setting *setting)
{
	return setting->offset == offsetof(struct rd_settings, rank) ||
	       setting->offset == offsetof(struct rd_settings, size) ||
	       setting->offset == offsetof(struct rd_settings, local_rank);
}

static int read_setting(struct rd_settings *settings, const struct setting *setting,
	const struct rondo_config *config)
{
	char digits[24];
	char name[64];
	const char *value = configured(digits, setting, config);

	if (value) {
		snprintf(name, sizeof(name), "%s in struct rondo_config", setting->field);
		settings->by_program |= (uint64_t)1 << (setting - table);
		return take_text(settings, setting, name, value);
	}
	value = is_rank(setting) ? NULL : rd_environment(setting->variable);
	if (value)
		return take_text(settings, setting, setting->variable, value);
	take_default(settings, setting);
	return 0;
}

/* ---- Queries ---- */

static const struct setting *find_setting(const char *variable)
{
	for (size_t i = 0; i < TABLE_SIZE; i++)
		if (strcmp(table[i].variable, variable) == 0)
			return &table[i];
	return NULL;
}

int64_t rd_settings_number(const struct rd_settings *settings, const char *variable)
{
	const struct setting *setting = find_setting(variable);
	const char *field = (const char *)settings;

	if (!setting || is_text(setting))
		return -1;
	field += setting->offset;
	return setting->kind == SIZE ? (int64_t) * (const size_t *)field : *(const int *)field;
}

const char *rd_settings_source(const struct rd_settings *settings, const char *variable)
{
	const struct setting *setting = find_setting(variable);

	return setting && settings->by_program >> (setting - table) & 1 ? setting->field : variable;
}

const char *rd_settings_text(const struct rd_settings *settings, const char *variable)
{
	const struct setting *setting = find_setting(variable);

	if (!setting || !is_text(setting))
		return NULL;
	const char *field = (const char *)settings + setting->offset;

	return is_kept(setting) ? *(const char *const *)field : field;
}

/* ---- Unknown variables ---- */

static const char *nearest_variable(const char *name)
{
	struct rd_nearest nearest = RD_NEAREST(name);

	for (size_t i = 0; i < TABLE_SIZE; i++)
		rd_nearest_try(&nearest, table[i].variable);
	return nearest.name;
}

static bool is_known(const char *name)
{
	for (size_t i = 0; i < TABLE_SIZE; i++)
		if (!strcmp(name, table[i].variable))
			return true;
	return false;
}

static bool is_install_word(const char *word, size_t length)
{
	for (size_t i = 0; install_words[i]; i++)
		if (strlen(install_words[i]) == length && !memcmp(install_words[i], word, length))
			return true;
	return false;
}

/* Returns whether only RD_INSTALL_WORDS, with a _ between them, follow RONDO_. */
static bool describes_an_installation(const char *name)
{
	const char *word = name + strlen("RONDO_");

	for (;;) {
		size_t length = strcspn(word, "_");
		if (!is_install_word(word, length))
			return false;
		if (!word[length])
			return true;
		word += length + 1;
	}
}

static bool is_of_an_adapter(const char *name)
{
#define PREFIX(word) "RONDO_" #word "_",
	static const char *const prefixes[] = { RD_ADAPTER_WORDS(PREFIX) };
#undef PREFIX

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static int refuse_unknown_variables(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		char name[65], quote[41];
		if (strncmp(*entry, "RONDO_", 6))
			continue;
		size_t length = strcspn(*entry, "=");

		snprintf(name, sizeof(name), "%.*s", (int)length, *entry);
		/* An empty variable counts as not set, as for a setting. */
		if (strcmp(*entry + length, "=") == 0)
			continue;
		if (!is_known(name) && !describes_an_installation(name) && !is_of_an_adapter(name))
			return rd_fail(RONDO_SETTING,
				"%s is no setting of Rondo; the nearest is %s. Correct or unset it "
				"(docs/environment.md lists all)",
				rd_quotable(quote, name), nearest_variable(name));
	}
	return 0;
}

/* ---- All of them ---- */

static int check_launch(const struct rd_settings *settings)
{
	if (settings->rank < 0 || settings->size < 0)
		return rd_fail(RONDO_SETTING,
			"%s is not set, nor another launcher's variable: start the program with "
			"rondo-run, torchrun, mpirun or srun, or set RANK, WORLD_SIZE and "
			"MASTER_ADDR",
			settings->rank < 0 ? "RANK" : "WORLD_SIZE");
	if (settings->rank >= settings->size)
		return rd_fail(RONDO_SETTING,
			"RANK is %d but WORLD_SIZE is %d: give a rank from 0 to %d", settings->rank,
			settings->size, settings->size - 1);
	return 0;
}

static int check_debug(const struct rd_settings *settings)
{
	enum rd_log_level level;
	unsigned subsystems;
	int err = rd_log_read_level(&level, settings->debug);

	return err ? err : rd_log_read_subsystems(&subsystems, settings->debug_subsys);
}

/* An IPv6 address may be written as in a URL: [fd00::1]. */
static void strip_brackets(char *address)
{
	size_t length = strlen(address);

	if (length < 3 || address[0] != '[' || address[length - 1] != ']')
		return;
	memmove(address, address + 1, length - 2);
	address[length - 2] = '\0';
}

/* Returns whether the settings hold this rank's number and the address at which ranks meet. */
static bool is_where(const struct setting *setting)
{
	return setting->offset <= offsetof(struct rd_settings, master_port) ||
	       setting->offset == offsetof(struct rd_settings, port);
}

/* The first error, and its reason. */
struct first_error {
	int error;
	char reason[RD_REASON_SIZE];
};

static void keep_first(struct first_error *first, int error)
{
	if (first->error || !error)
		return;
	first->error = error;
	snprintf(first->reason, sizeof(first->reason), "%s", rondo_last_error());
}

/* Sets every field. One that cannot be read gets its default, and the first of these is the
   error. */
static int read_all(struct rd_settings *settings, const struct rondo_config *config)
{
	struct first_error first = { 0 };
	bool lost = false;
	int err;

	for (size_t i = 0; i < TABLE_SIZE; i++) {
		err = read_setting(settings, &table[i], config);
		if (!err)
			continue;
		keep_first(&first, err);
		lost |= is_where(&table[i]);
		take_default(settings, &table[i]);
	}
	strip_brackets(settings->address);
	err = rd_launch_complete(settings);
	keep_first(&first, err);
	if (lost || err)
		settings->rank = -1;
	return first.error ? rd_fail(first.error, "%s", first.reason) : 0;
}

static int check_all(const struct rd_settings *settings)
{
	int err = refuse_unknown_variables();

	if (!err)
		err = check_debug(settings);
	return err ? err : check_launch(settings);
}

int rd_settings_read(struct rd_settings *settings, const struct rondo_config *config)
{
	memset(settings, 0, sizeof(*settings));
	for (size_t i = 0; i < TABLE_SIZE; i++)
		take_default(settings, &table[i]);
	settings->rank = -1;
	if (config && config->struct_size != sizeof(*config))
		return rd_fail(RONDO_SETTING,
			"struct_size in struct rondo_config is %zu, not %zu: start from "
			"RONDO_CONFIG_INIT, and build against the header of this library",
			config->struct_size, sizeof(*config));

	int err = read_all(settings, config);

	/* A shorter timeout_ms bounds the heartbeat's timeout as well, and that the host's. */
	if (settings->heartbeat_timeout_ms > settings->timeout_ms)
		settings->heartbeat_timeout_ms = settings->timeout_ms;
	if (settings->unreachable_ms > settings->heartbeat_timeout_ms)
		settings->unreachable_ms = settings->heartbeat_timeout_ms;
	return err ? err : check_all(settings);
}

void rd_settings_log(const struct rd_settings *settings)
{
	enum rd_log_level level;
	unsigned subsystems;

	if (!rd_log_read_level(&level, settings->debug) &&
		!rd_log_read_subsystems(&subsystems, settings->debug_subsys))
		rd_log_set(level, subsystems);
	rd_log_to(settings->debug_file);
}

/* ---- Digest ---- */

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
	return rd_hash(hash, &number, sizeof(number));
}

uint64_t rd_settings_digest(const struct rd_settings *settings)
{
	uint64_t hash = RD_HASH_INIT;

	hash = hash_number(hash, (uint64_t)settings->channels);
	hash = hash_number(hash, settings->piece_size);
	hash = hash_number(hash, (uint64_t)settings->encrypt);
	hash = hash_number(hash, (uint64_t)settings->checksum);
	hash = hash_number(hash, (uint64_t)settings->check);
	hash = rd_hash(hash, settings->key, sizeof(settings->key));
	hash = rd_hash(hash, settings->algo, strlen(settings->algo) + 1);
	return rd_hash(hash, settings->plugins, strlen(settings->plugins) + 1);
}

void rd_settings_forget(struct rd_settings *settings)
{
	/* Not memset(), which the compiler may leave out where nobody reads the settings again. */
	explicit_bzero(settings->key, sizeof(settings->key));
	explicit_bzero(settings->psk, sizeof(settings->psk));
	settings->has_key = settings->has_psk = false;
}
