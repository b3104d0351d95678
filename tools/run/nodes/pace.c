#include "run/nodes/pace.h"

void pace_start(struct pace *pace, int64_t now_ms)
{
	pace->start_ms = now_ms;
}

bool pace_end(struct pace *pace, bool by_nodes, int64_t now_ms)
{
	if (now_ms - pace->start_ms >= PACE_STEADY_MS) {
		*pace = (struct pace){ 0 };
		return true;
	}
	pace->attempts++;
	pace->by_nodes += by_nodes;
	return pace->by_nodes < PACE_NODES_MAX;
}

int pace_pause_ms(const struct pace *pace)
{
	int pause = PACE_FIRST_MS;

	if (pace->attempts < 2)
		return 0;
	for (int i = 2; i < pace->attempts && pause < PACE_MOST_MS; i++)
		pause *= 2;
	return pause < PACE_MOST_MS ? pause : PACE_MOST_MS;
}
