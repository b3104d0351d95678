/*
 * Plug-ins: shared objects that bring transports (rondo/transport.h) or algorithms
 * (rondo/algorithm.h). These join the tables of this process, until it ends.
 */
#ifndef RD_PLUGIN_H
#define RD_PLUGIN_H

#include "api/plugin_kind.h"
#include "base/settings.h"

/*
 * Loads the plug-ins that the settings name, unless this process has tried them before. Each is
 * tried in a forked process first: loaded, its transports probed, and its algorithms' plans written
 * for this rank. A plug-in that is missing, has another version, crashes, hangs or has names that
 * are taken is left out. One WARN line gives the reason.
 *
 * Then loads the plan files (plan_files.h). RONDO_SETTING where one is wrong; RONDO_MEMORY.
 *
 * settings->plugins then has the names of the algorithms of both, and a hash of their files, for
 * ranks to compare.
 */
int rd_plugins_load(struct rd_settings *settings);

/* The same for one; an error with its reason instead of the WARN. settings: for probe(). */
int rd_plugin_load(enum rd_plugin_kind kind, const char *path, const struct rd_settings *settings);

/* Return the transports, or algorithms, of the plug-in at this path, with NULL at the end. NULL: it
   was not loaded. */
const struct rd_transport *const *rd_plugin_transports(const char *path);
const struct rd_algorithm *const *rd_plugin_algorithms(const char *path);

#endif
