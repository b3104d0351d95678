/*
 * Transports that are not to be used, each for one reason, which CMakeLists.txt defines. None of
 * their functions but probe() may be called: they say nothing right.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef VERSION_4
#define rondo_transport_v3 rondo_transport_v4
#endif
#ifdef NO_SYMBOL
#define rondo_transport_v3 somebodys
#endif

#include <rondo/transport.h>

#ifndef NAME
#define NAME "gate"
#endif

static int probe(const struct rd_settings *settings)
{
#ifdef CRASHES
	raise(SIGSEGV);
#endif
#ifdef HANGS
	for (;;)
		pause();
#endif
#ifdef LEAVES
	_exit(0);
#endif
#ifdef LACKS
	return rd_fail(RONDO_UNSUPPORTED, "no gate in this house: pieces of %lld",
		(long long)rd_number(settings, "RONDO_PIECE"));
#endif
	(void)settings;
	return 0;
}

#ifdef CRASHES_EARLY
__attribute__((constructor)) static void crash(void)
{
	abort();
}
#endif

static int reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) ? 0 : -1;
}

static int listens(struct rd_endpoint **endpoint, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	(void)endpoint, (void)local, (void)card, (void)card_size;
	return rd_fail(RONDO_SYSTEM, "the gate is shut");
}

static int opens(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **link)
{
	(void)endpoint, (void)peer, (void)channel, (void)card, (void)card_size, (void)link;
	return RONDO_SYSTEM;
}

static bool advance(struct rd_endpoint *endpoint)
{
	(void)endpoint;
	return false;
}

#ifdef CANNOT_CLOSE
#define CLOSE NULL
#else
#define CLOSE closes
static void closes(struct rd_endpoint *endpoint)
{
	(void)endpoint;
}
#endif

static const struct rd_transport gate = {
#ifdef OTHER_ABI
	.abi = RD_TRANSPORT_ABI + 1,
#else
	.abi = RD_TRANSPORT_ABI,
#endif
	.name = NAME,
	.probe = probe,
	.reach = reach,
	.listen = listens,
	.open = opens,
	.advance = advance,
	.close = CLOSE,
};

#ifdef OTHER_HEADER
#undef RD_TRANSPORT_LAYOUT
#define RD_TRANSPORT_LAYOUT 1
#endif

RONDO_PLUGIN_TRANSPORTS(&gate);
