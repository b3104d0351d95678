/*
 * Plug-ins: shared objects that bring transports (rondo/transport.h) or algorithms
 * (rondo/algorithm.h). What they bring joins the tables of this process, for good.
 */
#ifndef RD_PLUGIN_H
#define RD_PLUGIN_H

#include "rondo/algorithm.h"
#include "rondo/transport.h"
#include "base/settings.h"

enum rd_plugin_kind { RD_PLUGIN_TRANSPORT, RD_PLUGIN_ALGORITHM };

/*
 * Loads what the settings name, unless this process has tried it before. Each is tried in a forked
 * process first: loaded, its transports probed, and its algorithms' plans written for this rank.
 * One that is not to be used (not there, of another version, crashes, hangs, its names are taken)
 * gets one line of WARN that says why, and is left out. Then settings->plugins says which
 * algorithms plug-ins have brought, for ranks to compare: their names, and a hash of the files that
 * they came from.
 */
void rd_plugins_load(struct rd_settings *settings);

/* The same for one; an error with its reason instead of the WARN. settings: for probe(). */
int rd_plugin_load(enum rd_plugin_kind kind, const char *path, const struct rd_settings *settings);

/* What the plug-in at this path brought, if it was loaded: NULL at the end. Else NULL. */
const struct rd_transport *const *rd_plugin_transports(const char *path);
const struct rd_algorithm *const *rd_plugin_algorithms(const char *path);

#endif
