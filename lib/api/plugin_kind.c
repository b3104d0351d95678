#include "api/plugin_kind.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "check/proof.h"
#include "exec/algorithms.h"
#include "topo/place.h"
#include "transports/transports.h"

/* ---- The functions that a plug-in may call -------------------------------------------------- */

static void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void info(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void warn(const char *format, ...)
{
	char text[RD_REASON_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	rd_log(RD_WARN, RD_NET, "%s", text);
}

static void info(const char *format, ...)
{
	char text[RD_REASON_SIZE];
	va_list args;

	if (!rd_log_on(RD_INFO, RD_NET))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	rd_log(RD_INFO, RD_NET, "%s", text);
}

static const struct rd_transport_calls transport_calls = {
	.fail = rd_fail,
	.fail_errno = rd_fail_errno,
	.warn = warn,
	.info = info,
	.same_host = rd_place_same_host,
	.number = rd_settings_number,
	.text = rd_settings_text,
};

static const struct rd_algorithm_calls algorithm_calls = {
#define CALL(result, name, parameters, arguments) .name = name,
	RD_ALGORITHM_CALLS(CALL)
#undef CALL
};

/* ---- Kinds ---------------------------------------------------------------------------------- */

#define BEGINS_ALIKE(kind) \
	_Static_assert(sizeof(struct kind) == sizeof(struct rd_plugin_description), \
		"struct rd_plugin_description"); \
	_Static_assert( \
		offsetof(struct kind, layout) == offsetof(struct rd_plugin_description, layout), \
		"struct rd_plugin_description"); \
	_Static_assert( \
		offsetof(struct kind, calls) == offsetof(struct rd_plugin_description, calls), \
		"struct rd_plugin_description")
BEGINS_ALIKE(rd_transport_plugin);
BEGINS_ALIKE(rd_algorithm_plugin);

static const char *transport_name(const void *brought)
{
	return ((const struct rd_transport *)brought)->name;
}

static bool transport_taken(const char *name)
{
	return rd_transport_find(name) != NULL;
}

static int transport_check(const void *brought)
{
	const struct rd_transport *it = brought;

	if (it->abi != RD_TRANSPORT_ABI)
		return rd_fail(RONDO_UNSUPPORTED, "transport %s has abi %u, not %d", it->name,
			it->abi, RD_TRANSPORT_ABI);
	if (!it->reach || !it->listen || !it->open || !it->advance || !it->close)
		return rd_fail(RONDO_INVALID,
			"transport %s lacks one of reach, listen, open, advance and close",
			it->name);
	if (!it->arm != !it->disarm || !it->attach != !it->detach || !it->offer != !it->withdraw ||
		!it->offer != !it->map)
		return rd_fail(RONDO_INVALID,
			"transport %s has one of arm and disarm, one of attach and detach, or some "
			"but not all of offer, withdraw and map",
			it->name);
	return 0;
}

static int transport_add(const void *brought)
{
	return rd_transport_add(brought);
}

static const char *algorithm_name(const void *brought)
{
	return ((const struct rd_algorithm *)brought)->name;
}

static bool algorithm_taken(const char *name)
{
	return rd_algorithm_called(name) != NULL;
}

static int algorithm_check(const void *brought)
{
	const struct rd_algorithm *it = brought;

	if (it->on_devices && !it->direct_access)
		return rd_fail(RONDO_INVALID, "algorithm %s has on_devices without direct_access",
			it->name);
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		if (it->write[c])
			return 0;
	return rd_fail(RONDO_INVALID, "algorithm %s has no function in write[]", it->name);
}

static int algorithm_add(const void *brought)
{
	return rd_proof_add(brought);
}

const struct rd_plugin_traits rd_plugin_traits[] = {
	[RD_PLUGIN_TRANSPORT] = {
		.noun = "transport",
		.variable = "RONDO_TRANSPORT_PLUGIN",
		.header = "rondo/transport.h",
		.macro = "RONDO_PLUGIN_TRANSPORTS",
		.abi = RD_TRANSPORT_ABI,
		.layout = RD_TRANSPORT_LAYOUT,
		.calls = &transport_calls,
		.name_of = transport_name,
		.taken = transport_taken,
		.check = transport_check,
		.add = transport_add,
	},
	[RD_PLUGIN_ALGORITHM] = {
		.noun = "algorithm",
		.variable = "RONDO_ALGO_PLUGIN",
		.header = "rondo/algorithm.h",
		.macro = "RONDO_PLUGIN_ALGORITHMS",
		.abi = RD_ALGORITHM_ABI,
		.layout = RD_ALGORITHM_LAYOUT,
		.calls = &algorithm_calls,
		.name_of = algorithm_name,
		.taken = algorithm_taken,
		.check = algorithm_check,
		.add = algorithm_add,
	},
};
