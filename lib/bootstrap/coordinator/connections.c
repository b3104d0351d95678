/* The numbers of connections. Few comms ever have more of them than ranks. */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/coordinator/coordinator.h"

int rd_coordinator_oldest_refused(const struct rd_coordinator *coordinator)
{
	const struct rd_coordinator_connection *oldest = NULL;

	for (int i = 0; i < coordinator->connection_count; i++) {
		const struct rd_coordinator_connection *connection = &coordinator->connections[i];
		if (connection->open && connection->rank < 0 && !connection->to_send &&
			(!oldest || connection->number < oldest->number))
			oldest = connection;
	}
	return oldest ? (int)(oldest - coordinator->connections) : -1;
}

/* False: there are as many as may be, or no memory for more. */
static bool add_connections(struct rd_coordinator *coordinator)
{
	int before = coordinator->connection_count, count = 2 * before;
	int most = coordinator->size + RD_PENDING_MAX;
	struct rd_coordinator_connection *connections;

	if (count > most)
		count = most;
	connections = count > before ? realloc(coordinator->connections,
					       (size_t)count * sizeof(*connections))
				     : NULL;
	if (!connections)
		return false;
	memset(connections + before, 0, (size_t)(count - before) * sizeof(*connections));
	coordinator->connections = connections;
	coordinator->connection_count = count;
	return true;
}

int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int number = 0;

	while (number < coordinator->connection_count && coordinator->connections[number].open)
		number++;
	if (number == coordinator->connection_count && !add_connections(coordinator))
		return -1;
	coordinator->connections[number] = (struct rd_coordinator_connection){
		.open = true, .rank = -1, .number = coordinator->opened++, .opened_ms = now_ms
	};
	return number;
}
