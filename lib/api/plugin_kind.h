/*
 * The kinds of plug-ins: for each, its version, the functions that it may call, and the table that
 * gets the transports or algorithms that it brings.
 */
#ifndef RD_PLUGIN_KIND_H
#define RD_PLUGIN_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "rondo/algorithm.h"
#include "rondo/transport.h"

enum rd_plugin_kind { RD_PLUGIN_TRANSPORT, RD_PLUGIN_ALGORITHM };

/* The symbol that a plug-in exports. struct rd_transport_plugin and struct rd_algorithm_plugin
   have this layout. */
struct rd_plugin_description {
	unsigned abi;
	uint64_t layout;
	const void *const *brought; /* NULL at the end */
	const void **calls;
};

struct rd_plugin_traits {
	const char *noun; /* "transport" */
	const char *variable, *header, *macro; /* for messages */
	unsigned abi;
	uint64_t layout;
	const void *calls;
	const char *(*name_of)(const void *brought);
	bool (*taken)(const char *name);
	/* Return 0 or an error. check(): all but the name. */
	int (*check)(const void *brought);
	int (*add)(const void *brought);
};

/* [enum rd_plugin_kind] */
extern const struct rd_plugin_traits rd_plugin_traits[];

#endif
