/*
 * Exports: this rank's allocations that peers in other processes map, and peers' that are mapped
 * here. A rank numbers its allocations in a table of its own. It announces a buffer by its place
 * there (direct.h, transfers.h), and peers map what they have not mapped yet. They tell the rank in
 * its host flags. So the rank knows whether a call needs the driver on a peer.
 *
 * To map may take until the process's streams have done what is queued. Only a comm's caller maps,
 * in a call, or the progress thread while the caller waits for it. At other times that thread notes
 * the allocations that are missing, and the caller's next call maps them.
 */
#ifndef RD_EXPORTS_H
#define RD_EXPORTS_H

#include "gpu/peers.h"
#include "gpu/state.h"

/* Fills in where a buffer of this rank lies, for a call of this number. keep: for as long as the
   gpu. May wait for earlier calls. 0, or RONDO_UNSUPPORTED with the reason: other processes cannot
   map this memory. Any other error: the comm has failed. */
int rd_exports_describe(struct rd_gpu *gpu, const void *at, size_t size, uint32_t number, bool keep,
	struct rd_buffer_location *location);

/* Whether some peer has not mapped the buffer yet. */
bool rd_exports_is_fresh(const struct rd_gpu *gpu, const struct rd_buffer_location *location);

/* A peer's buffer as it is addressed here; NULL with the reason. maps: maps it if need be.
   location: a copy that the peer cannot write to, for it is checked before it is used. */
char *rd_imports_reach(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location,
	size_t size, bool maps);

/* Notes a buffer that is to be mapped, if it is not yet. The peer must keep its place until the
   call is over: note it before this rank's stream goes on. */
void rd_imports_note(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location);
/* In the caller's thread: maps what was noted. It may be gone by now. */
void rd_imports_map_noted(struct rd_gpu *gpu);

/* Unmaps what is mapped here. */
void rd_imports_drop(struct rd_gpu *gpu);

/* ---- Bounces --------------------------------------------------------------------------------- */

/*
 * Bounces: device memory of this rank that peers map, in place of buffers that they cannot map:
 * pinned host memory, and memory that the driver gives no handle for. The stream copies the input
 * there before the call, and the output back after it.
 */

/* *at: memory for `size` bytes in place of those at `buffer`. which: 0 for inputs, 1 for outputs.
   It serves one call at a time: calls follow each other. May wait for earlier calls. */
int rd_bounce_get(struct rd_gpu *gpu, int which, const void *buffer, size_t size, void **at);
void rd_bounces_free(struct rd_gpu *gpu);

#endif
