#include "transports/shm/single_copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "transports/shm/publish.h"

/*
 * The sender checks an unread post this often before it copies it into its room: for about the time
 * of the copy. With fewer checks it would often copy a message that is read a moment later. The
 * checks at most double the cost of a copy.
 */
static unsigned looks_before_copy(uint32_t size)
{
	return 32 + size / 256;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void copy_to_room(struct rd_shm_link *link, const struct rd_shm_post *post)
{
	if (post->size > 0)
		memcpy(post->room, post->from, post->size);
	rd_shm_publish(link, &post->line->size, post->size | RD_SHM_IN_ROOM,
		&link->outbound->waits.message);
}

/* Logs the refusal once for all links to the peer. */
__attribute__((noinline, cold)) static void log_refusal(struct rd_shm_link *link)
{
	link->base.send_min = SIZE_MAX;
	if (*link->peer->refused)
		return;
	*link->peer->refused = true;
	rd_log(RD_INFO, RD_NET,
		"NET/SHM : rank %d may not read this process's memory: messages to it are copied "
		"through shared memory instead",
		link->base.peer);
}

/* Copies a post to its room if the peer has not begun to read it. True: the post is done. */
static bool finish_post(struct rd_shm_link *link, const struct rd_shm_post *post, bool at_once)
{
	uint32_t unread = post->size | RD_SHM_POSTED;
	uint32_t flag = atomic_load(&post->line->size);

	if (flag == (post->size | RD_SHM_TAKEN)) {
		rd_tsan_acquire(&post->line->size);
		return true;
	}
	if (flag == (post->size | RD_SHM_REFUSED)) {
		log_refusal(link);
		copy_to_room(link, post);
		return true;
	}
	if (flag == unread && (at_once || ++link->unread_looks > looks_before_copy(post->size)) &&
		atomic_compare_exchange_strong(
			&post->line->size, &unread, post->size | RD_SHM_COPYING)) {
		copy_to_room(link, post);
		return true;
	}
	/* The peer died while it read the post. */
	if (link->peer->ended && flag != unread)
		rd_shm_link_end(link);
	return false;
}

bool rd_shm_settle_posts(struct rd_shm_link *link, bool at_once)
{
	bool moved = false;

	if (link->base.error || link->post_count == 0 || !rd_shm_read_consumed(link))
		return false;
	while (link->post_count > 0) {
		const struct rd_shm_post *post = &link->posts[link->post_first];

		if (!rd_shm_is_consumed(link, post->number) && !finish_post(link, post, at_once))
			break;
		link->post_first = (link->post_first + 1) % link->slots;
		if (--link->post_count == 0)
			--*link->peer->posting;
		link->unread_looks = 0;
		link->base.sent++;
		moved = true;
	}
	return moved;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* Reads the peer's memory at this address. False: this process may not. */
static bool read_peer(const struct rd_shm_link *link, void *into, uint64_t address, size_t size)
{
	pid_t pid = link->peer->pid;

	if (pid == getpid()) {
		if (size > 0)
			memcpy(into, (const void *)(uintptr_t)address, size);
		return true;
	}
	for (size_t done = 0; done < size;) {
		struct iovec here = { (char *)into + done, size - done };
		struct iovec there = { (char *)(uintptr_t)address + done, size - done };
		ssize_t got = pid ? process_vm_readv(pid, &here, 1, &there, 1, 0) : -1;

		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* Returns where a single copy goes: the caller's `into` if the message fits, else `stage`. */
static void *copy_place(struct rd_shm_link *link, void *into, bool fits)
{
	if (into && fits)
		return into;
	if (!link->stage)
		link->stage = aligned_alloc(128, link->stride);
	return link->stage;
}

bool rd_shm_read_post(struct rd_shm_link *link, uint32_t flag, void *into, size_t size)
{
	struct rd_shm_line *line = link->in;
	uint32_t bytes = flag & RD_SHM_BYTES;
	uint64_t address;

	if (link->fetched && link->fetched_count == link->in_count)
		return true;
	if (flag != (bytes | RD_SHM_POSTED) ||
		!atomic_compare_exchange_strong(&line->size, &flag, flag | RD_SHM_TAKEN))
		return false;
	memcpy(&address, line->near, sizeof(address));

	void *at = copy_place(link, into, bytes == size);

	if (at && read_peer(link, at, address, bytes)) {
		link->fetched = at;
		link->fetched_count = link->in_count;
		/* Before the release, which may wait for a post in the other direction. */
		rd_shm_publish(
			link, &line->size, bytes | RD_SHM_TAKEN, &link->outbound->waits.room);
		return true;
	}
	rd_shm_publish(link, &line->size, bytes | RD_SHM_REFUSED, &link->outbound->waits.room);
	return false;
}
