/*
 * The ranks of a comm with devices: the flags by which they wait for each other, the exchange of
 * cards while the gpu is made, and peers' memory that is mapped here.
 */
#ifndef RD_PEERS_H
#define RD_PEERS_H

#include "gpu/gpu.h"

/* Where a rank's buffer lies, for peers that map it. id 0: it cannot be mapped. */
struct rd_buffer_location {
	uint64_t id;
	uint64_t address, offset, size; /* of the buffer; in its allocation; of the allocation */
	struct rd_handle handle;
};

/* A rank's announcement of one call. */
struct rd_announcement {
	uint32_t number;
	struct rd_signature signature;
	struct rd_buffer_location in, out;
	uint64_t factor; /* of a premultiplied sum */
	uint32_t reachable; /* not 0: others can map its buffers, as far as they address them */
	/* Where only two ranks have the length: the bytes for each peer. */
	struct {
		uint64_t in_at, out_at, size;
	} gives[RD_WORK_RANKS];
};

/* A sender writes it for its receiver when its stream has reached the transfer: from then on the
   receiver may read the bytes. The next offer follows only when this one has been taken. */
struct rd_offer {
	uint32_t number; /* counts this rank's offers to that one */
	struct rd_signature signature;
	struct rd_buffer_location in;
	uint32_t reachable; /* not 0: yes */
};

/* Peers write these, but for the abort flag, announcements and offers, which this rank writes. A
   rank announces call n + 2 only when all have announced n + 1, and so have read n: two
   announcements suffice. */
struct rd_host_flags {
	_Alignas(64) uint32_t entered[RD_WORK_RANKS];
	_Alignas(64) uint32_t left[RD_WORK_RANKS];
	_Alignas(64) struct rd_abort_flag abort_flag;
	_Alignas(64) uint32_t marker; /* the gpu's own stream writes its progress */
	_Alignas(64) uint32_t check; /* copied to peers' device flags to try them */
	_Alignas(64) struct rd_announcement announcements[2];
	_Alignas(64) uint32_t taken[RD_WORK_RANKS]; /* offers that each has taken */
	_Alignas(64) struct rd_offer offers[RD_WORK_RANKS]; /* to each */
};

/* ---- While the gpu is made ----------------------------------------------------------------- */

/* A rank sends it to all others. */
struct rd_gpu_card {
	uint64_t host_flags_id; /* of the region that holds the host flags */
	uint64_t device_flags_address;
	struct rd_handle device_flags_handle;
	int32_t able; /* to be reached directly */
	int32_t kernel; /* the setting */
	int32_t at_once; /* processes run on its device at the same time */
	int32_t blocks;
};

/* Gathers `size` bytes of each rank, by rank, on all ranks. */
int rd_peers_gather(struct rd_gpu *gpu, const void *mine, void *all, size_t size);
/* *all: whether `mine` is true on all ranks. */
int rd_peers_agree(struct rd_gpu *gpu, bool mine, bool *all);

/* Whether these two ranks are threads of one process. */
bool rd_peers_one_process(const struct rondo_comm *comm, int a, int b);
/* Fills in gpu->same_process. */
void rd_peers_find_own_process(struct rd_gpu *gpu);

/* Creates the device flags, and makes them and the host flags accessible to peers. A failure is
   logged, and costs direct access alone: the card then is not able. */
void rd_peers_offer(struct rd_gpu *gpu, struct rd_gpu_card *card);
/* *direct: whether every rank reaches every other's device memory, on all ranks alike. Maps peers'
   flags, and tries them with real bytes. */
int rd_peers_try(struct rd_gpu *gpu, const struct rd_gpu_card *cards, bool *direct);
/* Unmaps the flags and the buffers of peers, and puts this rank's device flags. */
void rd_peers_unmap(struct rd_gpu *gpu);

/* ---- Buffers ------------------------------------------------------------------------------- */

/* Where a buffer of this rank lies. */
void rd_peers_describe(
	struct rd_gpu *gpu, const void *at, size_t size, struct rd_buffer_location *location);
/* A peer's buffer as it is addressed here; NULL with the reason. location: a copy that the peer
   cannot write to, for it is checked before it is used. May wait for the gpu's stream. keep: it
   stays mapped until the gpu is destroyed. */
char *rd_peers_reach(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location,
	size_t size, bool keep);

#endif
