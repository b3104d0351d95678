#include "bootstrap/member_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Equal bytes between two runs are worth a run of their own from here on. */
#define EQUAL_LEAST 3
#define RUN_MOST 127
#define LAST_RUN 128
#define LONG_EQUAL 128

_Static_assert(RD_MEMBER_BYTES >= sizeof(struct rd_identity) + 2 * 32, "a member's fields fit");
_Static_assert(RD_TABLE_PART_BYTES >=
		       RD_MEMBER_HEAD + RD_MEMBER_BYTES + 2 * (RD_MEMBER_BYTES / RUN_MOST + 2),
	"a member fits a part, whatever differs");

/* ---- A member ------------------------------------------------------------------------------ */

static void walk_host(struct rd_codec *codec, struct rd_place *place)
{
	rd_codec_text(codec, place->host_name, sizeof(place->host_name));
	rd_codec_text(codec, place->host_id, sizeof(place->host_id));
	rd_codec_u32(codec, &place->pid_space);
	rd_codec_u32(codec, &place->uid);
	rd_codec_text(codec, place->nic, sizeof(place->nic));
	rd_codec_i32(codec, &place->numa_node, -1, INT32_MAX);
}

static void walk_process(struct rd_codec *codec, struct rd_place *place)
{
	rd_codec_i32(codec, &place->pid, 0, INT32_MAX);
	rd_codec_i32(codec, &place->core, -1, INT32_MAX);
	rd_codec_i32(codec, &place->slot, 0, INT32_MAX);
	rd_codec_i32(codec, &place->gpu, -1, INT32_MAX);
	rd_codec_u32(codec, &place->gpu_pci);
	rd_codec_i32(codec, &place->device, -1, INT32_MAX);
	rd_codec_u32(codec, &place->device_pci);
}

static void walk_card(struct rd_codec *codec, struct rd_card *card)
{
	rd_codec_text(codec, card->transport, sizeof(card->transport));
	rd_codec_check(codec, card->transport[0] != '\0');
	rd_codec_bytes(codec, card->bytes, &card->size, sizeof(card->bytes));
}

static int count_cards(const struct rd_card *cards)
{
	int count = 0;

	while (count < RD_TRANSPORTS_MAX && cards[count].transport[0] != '\0')
		count++;
	return count;
}

void rd_member_walk(
	struct rd_codec *codec, struct rd_member *member, struct rd_card cards[RD_TRANSPORTS_MAX])
{
	int count = codec->writes ? count_cards(cards) : 0;

	walk_host(codec, &member->place);
	rd_codec_text(codec, member->lineage.address, sizeof(member->lineage.address));
	/* Those that differ between ranks of a host lie side by side, for short runs. */
	walk_process(codec, &member->place);
	rd_codec_i32(codec, &member->lineage.origin, 0, RD_SIZE_MAX - 1);
	rd_codec_u32(codec, &member->lineage.port);
	rd_codec_check(codec, member->lineage.port <= UINT16_MAX);
	rd_codec_count(codec, &count, RD_TRANSPORTS_MAX);
	for (int i = 0; i < count; i++)
		walk_card(codec, &cards[i]);
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* How many bytes from `at` on are as before. */
static size_t count_equal(
	const unsigned char *bytes, const unsigned char *before, size_t at, size_t size)
{
	size_t to = at;

	while (to < size && bytes[to] == before[to])
		to++;
	return to - at;
}

/* How many bytes from `at` on go into one run: up to equal ones that are worth another. */
static size_t count_other(
	const unsigned char *bytes, const unsigned char *before, size_t at, size_t size)
{
	size_t to = at, equal;

	while (to < size && to - at < RUN_MOST) {
		equal = count_equal(bytes, before, to, size);
		if (equal >= EQUAL_LEAST || to + equal == size)
			break;
		to += equal + 1;
	}
	return to - at < RUN_MOST ? to - at : RUN_MOST;
}

/* Writes the runs to `to`, and returns their size. */
static size_t write_runs(
	unsigned char *to, const unsigned char *bytes, const unsigned char *before, size_t size)
{
	unsigned char *start = to, *count;
	size_t at = 0, equal, other;

	do {
		equal = count_equal(bytes, before, at, size);
		equal = at + equal < size ? equal : 0;
		if (equal >= LONG_EQUAL)
			*to++ = (unsigned char)(LONG_EQUAL | equal >> 8);
		*to++ = (unsigned char)equal;
		other = count_other(bytes, before, at + equal, size);
		count = to++;
		*count = (unsigned char)other;
		memcpy(to, bytes + at + equal, other);
		to += other;
		at += equal + other;
	} while (at + count_equal(bytes, before, at, size) < size);
	*count |= LAST_RUN;
	return (size_t)(to - start);
}

/* The part with room for so many bytes more; NULL: no memory. */
static struct rd_table_part *part_for(struct rd_table_writer *writer, size_t size)
{
	struct rd_table_part *last = NULL, *grown;
	uint32_t first = 0;

	if (writer->part_count) {
		last = &writer->parts[writer->part_count - 1];
		first = last->first + last->count;
		if (last->size + size <= RD_TABLE_PART_BYTES)
			return last;
	}
	grown = realloc(writer->parts, (size_t)(writer->part_count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	writer->parts = grown;
	last = &grown[writer->part_count++];
	last->first = first;
	last->count = last->size = 0;
	return last;
}

int rd_table_write(struct rd_table_writer *writer, struct rd_identity *identity)
{
	unsigned char bytes[RD_MEMBER_HEAD + RD_MEMBER_BYTES], runs[RD_TABLE_PART_BYTES];
	struct rd_codec codec = {
		.at = bytes + RD_MEMBER_HEAD, .end = bytes + sizeof(bytes), .writes = true
	};
	struct rd_table_part *part;
	size_t size, run_size;

	rd_member_walk(&codec, &identity->member, identity->cards);
	size = (size_t)(codec.at - bytes);
	bytes[0] = (unsigned char)(size - RD_MEMBER_HEAD);
	bytes[1] = (unsigned char)((size - RD_MEMBER_HEAD) >> 8);
	run_size = write_runs(runs, bytes, writer->before, size);
	part = part_for(writer, run_size);
	if (!part)
		return rd_fail(RONDO_MEMORY, "no memory for the table of members");
	memcpy(part->bytes + part->size, runs, run_size);
	part->size = (uint16_t)(part->size + run_size);
	part->count++;
	memcpy(writer->before, bytes, size);
	return 0;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Takes the runs of a member, of `size` bytes at most. NULL: they make no sense. */
static const unsigned char *take_runs(
	unsigned char *fields, size_t size, const unsigned char *at, const unsigned char *end)
{
	size_t done = 0, equal, other;
	bool last;

	do {
		if (end - at < 3 && (end - at < 2 || at[0] >= LONG_EQUAL))
			return NULL;
		equal = *at++;
		if (equal >= LONG_EQUAL)
			equal = (equal - LONG_EQUAL) << 8 | *at++;
		last = *at & LAST_RUN;
		other = *at++ & RUN_MOST;
		if (equal + other == 0 && !last)
			return NULL;
		if (equal + other > size - done || other > (size_t)(end - at))
			return NULL;
		memcpy(fields + done + equal, at, other);
		at += other;
		done += equal + other;
	} while (!last);
	return at;
}

/* Takes one member; NULL: it makes no sense. */
static const unsigned char *take_member(struct rd_table_reader *reader, struct rd_member *member,
	struct rd_card cards[RD_TRANSPORTS_MAX], const unsigned char *at, const unsigned char *end)
{
	unsigned char *before = reader->before;
	struct rd_codec codec = { .at = before + RD_MEMBER_HEAD };
	size_t size;

	at = take_runs(before, sizeof(reader->before), at, end);
	size = before[0] | (size_t)before[1] << 8;
	if (!at || size > RD_MEMBER_BYTES)
		return NULL;
	codec.end = codec.at + size;
	memset(member, 0, sizeof(*member));
	memset(cards, 0, RD_TRANSPORTS_MAX * sizeof(*cards));
	rd_member_walk(&codec, member, cards);
	return rd_codec_is_done(&codec) ? at : NULL;
}

int rd_table_read(struct rd_table_reader *reader, const struct rd_table_part *part,
	struct rd_member *members, struct rd_cards *cards, uint32_t size)
{
	const unsigned char *at = part->bytes, *end = at + part->size;
	struct rd_card own[RD_TRANSPORTS_MAX];

	if (part->first != reader->count || part->count > size - reader->count)
		at = NULL;
	for (uint32_t i = 0; i < part->count && at; i++) {
		at = take_member(reader, &members[reader->count], own, at, end);
		if (at && !rd_cards_add(cards, own, size))
			return rd_fail(RONDO_MEMORY, "no memory for the table of members");
		reader->count++;
	}
	if (at != end)
		return rd_fail(RONDO_PROTOCOL, "the table of members makes no sense");
	return 0;
}
