/* The coordinator's verdict, and how it names ranks and calls. */
#ifndef RD_VERDICT_H
#define RD_VERDICT_H

#include "bootstrap/coordinator/coordinator.h"

/* Sets the verdict and sends it to all ranks. The first stands: a later one is likely its
   consequence. */
void rd_coordinator_decide(struct rd_coordinator *coordinator, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Before rd_coordinator_decide(): the verdict is about this rank, which died or was lost. */
void rd_coordinator_lose(struct rd_coordinator *coordinator, int rank);

/* Before rd_coordinator_decide(): a rank that died or left had finished so many calls. Others may
   finish these, too, and have the verdict afterwards. */
void rd_coordinator_spare(struct rd_coordinator *coordinator, uint32_t calls);

/* Sends a message of this kind to all ranks that have not left. */
void rd_coordinator_send_to_all(struct rd_coordinator *coordinator, enum rd_control_kind kind);

/* "rank 2 (host a, pid 17)". */
const char *rd_coordinator_name_rank(
	const struct rd_coordinator *coordinator, int rank, char name[RD_RANK_NAME_SIZE]);
/* "all_reduce #17". */
const char *rd_coordinator_name_call(int collective, uint32_t number, char name[RD_RANK_NAME_SIZE]);
/* "rank 2 of 4 has", "ranks 2, 3 and 5 of 8 have". */
void rd_coordinator_name_ranks(const struct rd_coordinator *coordinator,
	bool (*which)(const struct rd_coordinator_rank *), char *text, size_t size);

#endif
