/*
 * The members of a comm on their way to every rank. Rank 0 encodes the table once: each member as
 * what differs from the one before, since ranks of one host have most bytes in common. The table
 * is cut into parts of whole members, each of which fits a control message.
 *
 *   member    u16 size of its fields, and the fields, as runs: the rest is as in the member before
 *   run       u8 or u16  bytes that are as in the member before, or 0 where that was shorter: of
 *                        more than 127, the first byte has the high bit, and their high bits
 *             u8 count   bytes that follow here; the high bit: the member's last run
 */
#ifndef RD_MEMBER_TABLE_H
#define RD_MEMBER_TABLE_H

#include <stddef.h>

#include "bootstrap/cards.h"
#include "bootstrap/member.h"
#include "net/codec.h"

/* A member's fields, on the wire, at most. */
#define RD_MEMBER_BYTES 4864
#define RD_MEMBER_HEAD 2 /* their size */
#define RD_TABLE_PART_BYTES 5000

/* The fields of a member and its cards, both ways (net/codec.h). */
void rd_member_walk(
	struct rd_codec *codec, struct rd_member *member, struct rd_card cards[RD_TRANSPORTS_MAX]);

struct rd_table_part {
	uint32_t first, count; /* members */
	uint16_t size;
	unsigned char bytes[RD_TABLE_PART_BYTES];
};

/* Encodes a table, member by member. All zero at first. */
struct rd_table_writer {
	struct rd_table_part *parts; /* [part_count]; the caller frees them */
	int part_count;
	/* The size and the fields of the member before. */
	unsigned char before[RD_MEMBER_HEAD + RD_MEMBER_BYTES];
};

/* RONDO_MEMORY: the table is not complete. */
int rd_table_write(struct rd_table_writer *writer, struct rd_identity *identity);

/* Decodes a table, part by part. All zero at first. */
struct rd_table_reader {
	uint32_t count; /* members that have come */
	unsigned char before[RD_MEMBER_HEAD + RD_MEMBER_BYTES];
};

/* Reads the part that follows into members[size], and adds to cards: 0; RONDO_PROTOCOL: it makes no
   sense; RONDO_MEMORY. */
int rd_table_read(struct rd_table_reader *reader, const struct rd_table_part *part,
	struct rd_member *members, struct rd_cards *cards, uint32_t size);

#endif
