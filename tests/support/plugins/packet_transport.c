/*
 * packets: a transport whose messages are short, as a network's packets are: MESSAGE_MAX bytes at
 * most, which CMakeLists.txt defines, whatever RONDO_PIECE says. A caller that asks for
 * more breaks the contract, and the process ends. With CUTS, it is wrong: it loses the last byte of
 * the longest message.
 *
 * The bytes go the way of the example's, which this file has within it.
 */
#include <rondo/transport.h>
#pragma push_macro("RONDO_PLUGIN_TRANSPORTS")
#undef RONDO_PLUGIN_TRANSPORTS
#define RONDO_PLUGIN_TRANSPORTS(...) struct rd_transport
#include "../../../docs/examples/plugin_transport.c"
#pragma pop_macro("RONDO_PLUGIN_TRANSPORTS")

static void *packets_reserve(struct rd_link *base, size_t size)
{
	if (size > base->message_max)
		abort();
	return nearby_reserve(base, size);
}

static void packets_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	if (size > base->message_max)
		abort();
#ifdef CUTS
	if (size == base->message_max)
		size--;
#endif
	nearby_commit(base, tag, size);
}

static const struct rd_link_ops packets_ops = {
	.reserve = packets_reserve,
	.commit = packets_commit,
	.recv = nearby_recv,
	.release = nearby_release,
};

static const struct rd_transport packets;

static int packets_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **out)
{
	int err = nearby_open(base, peer, channel, card, card_size, out);

	if (err)
		return err;
	(*out)->ops = &packets_ops;
	(*out)->transport = &packets;
	(*out)->message_max = base->message_max;
	return 0;
}

static int packets_listen(struct rd_endpoint **out, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	int err = nearby_listen(out, local, card, card_size);

	if (err)
		return err;
	(*out)->transport = &packets;
	if ((*out)->message_max > MESSAGE_MAX)
		(*out)->message_max = MESSAGE_MAX;
	return err;
}

/* The program of the test looks for it. */
static void packets_halt(struct rd_endpoint *endpoint)
{
	(void)endpoint;
	setenv("PACKETS_HALTED", "1", 1);
}

static const struct rd_transport packets = {
	.abi = RD_TRANSPORT_ABI,
	.name = "packets",
	.reach = nearby_reach,
	.listen = packets_listen,
	.open = packets_open,
	.advance = nearby_advance,
	.halt = packets_halt,
	.close = nearby_close,
};

RONDO_PLUGIN_TRANSPORTS(&packets);
