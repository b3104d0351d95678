/*
 * The ranks of a comm with devices: the flags by which they wait for each other, the exchange of
 * cards while the gpu is made, and peers' memory that is mapped here.
 */
#ifndef RD_PEERS_H
#define RD_PEERS_H

#include "gpu/state.h"

/* Where a rank's buffer lies, for its peers: address for those of its process; for others the place
   of its allocation in the rank's table (exports.h), and the offset there. */
struct rd_buffer_location {
	uint64_t address, offset;
	uint32_t place, generation; /* generation 0: no other process maps it */
	struct rd_handle handle;
};

/* A rank's announcement of one call. */
struct rd_announcement {
	uint32_t number;
	uint32_t fresh; /* not 0: some peer has yet to map a buffer */
	uint32_t refused; /* not 0: peers cannot map a buffer of this captured call */
	struct rd_signature signature;
	struct rd_buffer_location in, out;
	uint64_t factor; /* of a premultiplied sum */
	/* Where only two ranks have the length: the bytes for each peer. */
	struct {
		uint64_t in_at, out_at, size;
	} gives[RD_WORK_RANKS];
};

/* Offers of one rank to another that are not accepted yet, at most. */
#define RD_OFFERS 4

/* A sender writes it for its receiver when it issues the transfer. */
struct rd_offer {
	uint32_t number; /* counts this rank's offers to that one */
	uint32_t refused; /* not 0: peers cannot map the buffer of this captured send */
	struct rd_signature signature;
	struct rd_buffer_location in;
};

/* A rank's latest announcements that its peers may have yet to read. A call that streams have done
   was read by all. A captured call returns when all ranks have announced it, so that all have read
   what came before their previous captured call. In as many calls as this, more than RD_RUN_AHEAD
   are queued, or two are captured: all have read the first. */
#define RD_ANNOUNCEMENTS (2 * RD_RUN_AHEAD)

/* Peers write these, but for `freed`, the abort flag, announcements and offers. */
struct rd_host_flags {
	/* By streams: they have reached the call of this announcement; they have done it. */
	_Alignas(64) uint32_t entered[RD_WORK_RANKS];
	_Alignas(64) uint32_t left[RD_WORK_RANKS];
	/* By streams: they have reached a send to this rank; taken an offer of this rank's. */
	_Alignas(64) uint32_t offered[RD_WORK_RANKS];
	_Alignas(64) uint32_t taken[RD_WORK_RANKS];
	/* By the host: offers of this rank's that each has read, and queued the copy of. */
	_Alignas(64) uint32_t accepted[RD_WORK_RANKS];
	/* By the host: what each has mapped of this rank's exports, by generation. */
	_Alignas(64) uint32_t imported[RD_WORK_RANKS][RD_EXPORTS];
	/* By place: this rank's last export there whose memory is gone, by generation. */
	_Alignas(64) uint32_t freed[RD_EXPORTS];
	_Alignas(64) struct rd_abort_flag abort_flag;
	_Alignas(64) uint32_t check; /* copied to peers' device flags to try them */
	_Alignas(64) struct rd_announcement announcements[RD_ANNOUNCEMENTS];
	_Alignas(64) struct rd_offer offers[RD_WORK_RANKS][RD_OFFERS]; /* to each */
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
	int32_t blocks; /* for which its device has room */
	int32_t most_blocks; /* the setting */
};

/* Gathers `size` bytes of each rank, by rank, on all ranks. */
int rd_peers_gather(struct rd_gpu *gpu, const void *mine, void *all, size_t size);
/* *all: whether `mine` is true on all ranks. */
int rd_peers_agree(struct rd_gpu *gpu, bool mine, bool *all);

/* Whether these two ranks are threads of one process. */
bool rd_peers_one_process(const struct rondo_comm *comm, int a, int b);
/* Fills in gpu->same_process. */
void rd_peers_find_own_process(struct rd_gpu *gpu);

/* Before rd_peers_offer(): opens the links to ranks that may map memory of this one. */
int rd_peers_connect(struct rd_gpu *gpu);
/* Creates the device flags, and makes them and the host flags accessible to peers. A failure is
   logged, and costs direct access alone: the card then is not able. */
void rd_peers_offer(struct rd_gpu *gpu, struct rd_gpu_card *card);
/* *direct: whether every rank reaches every other's device memory, on all ranks alike. Maps peers'
   flags, and tries them with real bytes. */
int rd_peers_try(struct rd_gpu *gpu, const struct rd_gpu_card *cards, bool *direct);
/* Unmaps the flags of peers, and puts this rank's device flags. */
void rd_peers_unmap(struct rd_gpu *gpu);

#endif
