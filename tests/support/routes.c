#include "routes.h"

#include <criterion/criterion.h>

#include "text.h"

int routes_reach(const struct rd_place *here, const struct rd_place *there)
{
	(void)here, (void)there;
	return 1;
}

int routes_listen(const struct rd_transport *transport, struct rd_endpoint **endpoint,
	const struct rd_local *local, unsigned char *card, size_t *card_size)
{
	int err = rd_transport_shm.listen(endpoint, local, card, card_size);

	if (!err)
		(*endpoint)->transport = transport;
	return err;
}

int routes_open(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **link)
{
	int err = rd_transport_shm.open(endpoint, peer, channel, card, card_size, link);

	if (!err)
		(*link)->transport = endpoint->transport;
	return err;
}

const char *routes_run(const struct world *world, int *failed, struct rank_outcome *outcomes)
{
	captured_stderr_begin();
	*failed = world_run(world, world_sum_one, NULL, outcomes);
	return captured_stderr_end();
}

void routes_expect_none(const struct world *world, const char *part)
{
	const char *text = world_run_captured(world, world_sum_one, NULL);

	/* Load may make a call slow. */
	cr_expect_eq(count_of(text, part), count_of(text, " WARN slow call: "), "%s", text);
}
