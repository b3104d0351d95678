#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

#define LINE_SIZE 1024
#define ALL_SUBSYSTEMS ((1u << RD_SUBSYSTEM_COUNT) - 1)

/* Level and subsystems in one word, so that the check is one load: the level is the low two bits.
 */
#define PACK(level, subsystems) ((unsigned)(level) | (subsystems) << 2)

static atomic_uint enabled = PACK(RD_WARN, ALL_SUBSYSTEMS);
static _Thread_local int thread_rank = -1;

static const char *const level_names[] = { "NONE", "WARN", "INFO", "TRACE" };
#define SUBSYSTEM_NAME(name, text) text,
static const char *const subsystem_names[] = { RD_SUBSYSTEMS(SUBSYSTEM_NAME) };
#undef SUBSYSTEM_NAME

void rd_log_set(enum rd_log_level level, unsigned subsystems)
{
	atomic_store_explicit(
		&enabled, PACK(level, subsystems & ALL_SUBSYSTEMS), memory_order_relaxed);
}

void rd_log_rank(int rank)
{
	thread_rank = rank;
}

/* Not strncasecmp(): the same text must mean the same in every locale. */
static bool same_name(const char *text, size_t length, const char *name)
{
	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		if (c >= 'a' && c <= 'z')
			c -= 'a' - 'A';
		if (c != name[i])
			return false;
	}
	return true;
}

int rd_log_read_level(enum rd_log_level *level, const char *text)
{
	for (int i = RD_LOG_NONE; i <= RD_TRACE; i++) {
		if (same_name(text, strlen(text), level_names[i])) {
			*level = (enum rd_log_level)i;
			return 0;
		}
	}
	return rd_fail(RONDO_SETTING,
		"RONDO_DEBUG is \"%.40s\": give one of NONE, WARN, INFO and TRACE", text);
}

/* The bits of one subsystem, or of ALL; 0 for neither. */
static unsigned subsystem_bits(const char *text, size_t length)
{
	if (same_name(text, length, "ALL"))
		return ALL_SUBSYSTEMS;
	for (int i = 0; i < RD_SUBSYSTEM_COUNT; i++)
		if (same_name(text, length, subsystem_names[i]))
			return 1u << i;
	return 0;
}

#define SUBSYSTEM_LIST(name, text) " " text

int rd_log_read_subsystems(unsigned *subsystems, const char *text)
{
	/* A list that begins by leaving something out means all the others. */
	unsigned found = text[0] == '^' ? ALL_SUBSYSTEMS : 0;

	for (const char *name = text;;) {
		bool out = name[0] == '^';
		name += out;
		size_t length = strcspn(name, ",");
		unsigned bits = subsystem_bits(name, length);
		if (!bits)
			return rd_fail(RONDO_SETTING,
				"RONDO_DEBUG_SUBSYS names \"%.*s\": give ALL or, with commas, some "
				"of" RD_SUBSYSTEMS(SUBSYSTEM_LIST),
				length < 40 ? (int)length : 40, name);
		found = out ? found & ~bits : found | bits;
		if (!name[length])
			break;
		name += length + 1;
	}
	*subsystems = found;
	return 0;
}

bool rd_log_on(enum rd_log_level level, enum rd_subsystem subsystem)
{
	unsigned now = atomic_load_explicit(&enabled, memory_order_relaxed);

	return level <= (now & 3) && (level == RD_WARN || now >> 2 >> subsystem & 1);
}

/* host:pid:tid [rank] RONDO INFO; returns its length. */
static size_t write_head(char *line, enum rd_log_level level)
{
	char host[65] = "?";
	char rank[16] = "";

	if (gethostname(host, sizeof(host) - 1) == 0)
		host[strcspn(host, ".")] = '\0';
	if (thread_rank >= 0)
		snprintf(rank, sizeof(rank), "[%d] ", thread_rank);
	return (size_t)snprintf(line, LINE_SIZE, "%s:%d:%d %sRONDO %s ", host, getpid(), gettid(),
		rank, level_names[level]);
}

void rd_log(enum rd_log_level level, enum rd_subsystem subsystem, const char *format, ...)
{
	if (!rd_log_on(level, subsystem))
		return;

	int saved = errno;
	char line[LINE_SIZE];
	size_t head = write_head(line, level);
	va_list args;

	va_start(args, format);
	errno = saved; /* for %m */
	vsnprintf(line + head, sizeof(line) - head, format, args);
	va_end(args);

	size_t length = strlen(line);
	line[length++] = '\n'; /* where the terminator was */
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		;
	errno = saved;
}
