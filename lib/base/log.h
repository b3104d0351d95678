/*
 * Log lines in NCCL's format: `host:pid:tid [rank] RONDO INFO text`. They go to stderr, or to the
 * file that RONDO_DEBUG_FILE names. RONDO_DEBUG=WARN|INFO|TRACE sets the level (default WARN),
 * RONDO_DEBUG_SUBSYS the subsystems. Warnings of every subsystem are logged.
 *
 * Each line is one write(2), so that lines of several threads and processes do not mix. A line
 * that is too long is cut. errno is kept. Not for hot paths, except behind rd_log_on().
 */
#ifndef RD_LOG_H
#define RD_LOG_H

#include <stdbool.h>

#define RD_LOG_PATH_SIZE 4096

enum rd_log_level { RD_LOG_NONE, RD_WARN, RD_INFO, RD_TRACE };

/* X(name, text) */
#define RD_SUBSYSTEMS(X) \
	X(RD_BOOTSTRAP, "BOOTSTRAP") \
	X(RD_PROBE, "PROBE") \
	X(RD_ROUTE, "ROUTE") \
	X(RD_PICK, "PICK") \
	X(RD_RING, "RING") \
	X(RD_TREE, "TREE") \
	X(RD_NET, "NET") \
	X(RD_COLL, "COLL")

enum rd_subsystem {
#define RD_SUBSYSTEM_ENUM(name, text) name,
	RD_SUBSYSTEMS(RD_SUBSYSTEM_ENUM)
#undef RD_SUBSYSTEM_ENUM
		RD_SUBSYSTEM_COUNT
};

/* Sets level and subsystems (bit 1 << enum rd_subsystem), for the whole process. */
void rd_log_set(enum rd_log_level level, unsigned subsystems);

/*
 * Sets the file that the process logs to; "" is stderr, as it is now: where it is closed, or its
 * number leads to another file later, lines for it are dropped. In the name %h is the host, %p the
 * process, %r the rank ("-" in lines without one), and %% is %.
 *
 * The first line for a file opens it, to append; it stays open. For a file that cannot be opened,
 * one line on stderr gives the reason, and its lines go to stderr from then on.
 */
void rd_log_to(const char *name);

/* The path that such a name means for this thread; a longer one is cut. */
void rd_log_file_name(char path[RD_LOG_PATH_SIZE], const char *name);

/* Sets the rank of this thread, shown in brackets; -1 (the default): none. */
void rd_log_rank(int rank);

/*
 * Read the text of RONDO_DEBUG ("INFO") and of RONDO_DEBUG_SUBSYS ("RING,NET"; "^NET": all but
 * NET), in upper or lower case. RONDO_SETTING, with a reason, for an unknown level or subsystem.
 */
int rd_log_read_level(enum rd_log_level *level, const char *text);
int rd_log_read_subsystems(unsigned *subsystems, const char *text);

bool rd_log_on(enum rd_log_level level, enum rd_subsystem subsystem);

void rd_log(enum rd_log_level level, enum rd_subsystem subsystem, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
