/*
 * Messages and credits of a link. verbs.c describes their format.
 *
 * No function here fails a link, except for what a peer has written. A request that the device
 * refuses sets the queue pair's error.
 */
#ifndef RD_VERBS_MESSAGES_H
#define RD_VERBS_MESSAGES_H

#include "transports/verbs/link.h"

/* Returns where the next message's payload goes; NULL: no room for one of that many bytes. */
void *rd_verbs_message_room(struct rd_verbs_link *link, size_t size);

/* Sends the next message, whose payload lies in its room. */
void rd_verbs_message_send(struct rd_verbs_link *link, const struct rd_tag *tag, size_t size);

/* The same from the caller's memory, of which base.sent reports the end of use. Copies what lies in
   no region, or goes inline. */
void rd_verbs_message_send_from(
	struct rd_verbs_link *link, const struct rd_tag *tag, const void *from, size_t size);

/* Describes the first message that has arrived and is not released. False: there is none, or it is
   malformed, and the link has failed. */
bool rd_verbs_message_next(struct rd_verbs_link *link, struct rd_message *message);

/* Releases that message, and returns credits where they are due. */
void rd_verbs_message_release(struct rd_verbs_link *link);

/* Whether immediate data is a resume, for rd_verbs_resume_arrived(). */
bool rd_verbs_is_resume(uint32_t immediate);

/* The peer has written other immediate data to the link: a message, or credits. */
void rd_verbs_message_arrived(struct rd_verbs_link *link, int rail, uint32_t immediate);

/* A signalled send is done. */
void rd_verbs_message_done(struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair);

/* Sends this side's resume over the present rail. */
void rd_verbs_resume_send(struct rd_verbs_link *link);

/* Sends messages again, over the present rail: all but those before number `arrived`, which the
   peer has. It has released those before `released`. */
void rd_verbs_messages_repeat(struct rd_verbs_link *link, uint64_t arrived, uint64_t released);

/* Sends credits, signalled, so that a completion follows all that was sent before. */
void rd_verbs_credits_send(struct rd_verbs_link *link, bool signalled);

#endif
