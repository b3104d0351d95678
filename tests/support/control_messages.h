/*
 * A control message of each kind, with the longest fields.
 */
#ifndef CONTROL_MESSAGES_H
#define CONTROL_MESSAGES_H

#include <string.h>

#include "bootstrap/control_message.h"

static inline void fill_identity(struct rd_identity *identity)
{
	struct rd_member *member = &identity->member;

	strcpy(member->place.host_name, "host-a");
	strcpy(member->place.host_id, "0123/456");
	member->place.pid = 4711;
	member->place.uid = 1000;
	member->place.numa_node = -1;
	member->place.core = member->place.slot = 5;
	member->place.gpu = -1;
	member->place.gpu_pci = 0x1a000;
	member->place.device = 3;
	member->place.device_pci = 0xe300;
	strcpy(member->place.nic, "eth0");
	member->lineage.origin = 65535;
	memset(member->lineage.address, '1', RD_NUMERIC_ADDRESS - 1);
	member->lineage.port = 65535;
	for (int i = 0; i < RD_TRANSPORTS_MAX; i++) {
		memset(identity->cards[i].transport, 'a' + i, 15);
		identity->cards[i].size = RD_CARD_MAX;
		memset(identity->cards[i].bytes, i, RD_CARD_MAX);
	}
}

static inline void fill_message(struct rd_control_message *message, enum rd_control_kind kind)
{
	memset(message, 0, sizeof(*message));
	message->kind = kind;
	if (kind == RD_CONTROL_HELLO) {
		message->hello.version = RD_WIRE_VERSION;
		message->hello.rank = 3;
		message->hello.size = 4;
		memset(message->hello.library, '1', RD_LIBRARY_SIZE - 1);
		message->hello.digest = 0x0123456789abcdef;
		message->hello.channels = 2;
		message->hello.piece_size = 1 << 20;
		memset(message->hello.algo, 'x', RD_STRING_MAX - 1);
		memset(message->hello.plugins, 'y', RD_STRING_MAX - 1);
		fill_identity(&message->hello.identity);
	} else if (kind == RD_CONTROL_TABLE) {
		message->table.id.number = UINT64_MAX;
		memset(message->table.id.key, 'k', RD_COMM_KEY_SIZE);
		message->table.part.first = 65535;
		message->table.part.count = 1;
		message->table.part.size = RD_TABLE_PART_BYTES;
		memset(message->table.part.bytes, 'p', RD_TABLE_PART_BYTES);
	} else if (kind == RD_CONTROL_HEARTBEAT) {
		message->heartbeat.timeout_ms = 30000;
	} else if (kind == RD_CONTROL_REPORT) {
		message->report.error = RONDO_BROKEN;
		message->report.culprit = 2;
		memset(message->report.reason, 's', RD_REASON_SIZE - 1);
	} else if (kind == RD_CONTROL_QUERY) {
		message->query.number = 5;
	} else if (kind == RD_CONTROL_ANSWER) {
		message->answer.number = 5;
		message->answer.calls = 17;
		message->answer.done = 16;
		message->answer.collective = -1;
		message->answer.waiting_for = 1;
		message->answer.waited_ms = 30000;
		message->answer.slept_in = (struct rd_signature){ .count = 5,
			.number = 17,
			.root = 3,
			.collective = 1,
			.type = 2,
			.op = 4,
			.form = 2 };
		strcpy(message->answer.called_at, "train+0x11b8");
		memset(message->answer.waits_at, 'w', RD_CALL_SITE_SIZE - 1);
	} else if (kind == RD_CONTROL_SLOW) {
		message->slow.line_ms = 3000;
		message->slow.culprit = 2;
		memset(message->slow.reason, 's', RD_REASON_SIZE - 1);
	} else if (kind == RD_CONTROL_VERDICT) {
		message->verdict.error = RONDO_DIED;
		message->verdict.lost = 2;
		strcpy(message->verdict.reason, "rank 2 died");
	} else if (kind == RD_CONTROL_STRAGGLERS) {
		message->stragglers.first = RD_SIZE_MAX - 1;
		message->stragglers.size = RD_STRAGGLERS_SIZE;
		memset(message->stragglers.bits, 0xa5, RD_STRAGGLERS_SIZE);
	} else if (kind == RD_CONTROL_BYE) {
		message->bye.calls = 17;
		message->bye.digest = 99;
	} else if (kind == RD_CONTROL_LEFT) {
		message->left.rank = 0;
		message->left.calls = 17;
		message->left.leavers = 3;
	} else if (kind == RD_CONTROL_READY) {
		message->ready.fallbacks = 3;
		message->ready.limits.piece_size = 1 << 20;
		message->ready.limits.maps = true;
		message->ready.limits.near_rails = 1;
		message->ready.limits.far_rails = RD_NO_RAILS;
		message->ready.limits.cores = 48;
	} else if (kind == RD_CONTROL_GATHER) {
		message->gather.lineage = UINT64_MAX;
		message->gather.origin = 7;
	} else if (kind == RD_CONTROL_PLAN) {
		message->plan.rank = 3;
		message->plan.size = RD_SIZE_MAX;
		message->plan.port = 65535;
		message->plan.lost = 5;
	} else if (kind == RD_CONTROL_MADE) {
		message->made.error = RONDO_MEMORY;
		message->made.refuses = 1;
		memset(message->made.reason, 's', RD_REASON_SIZE - 1);
	} else if (kind == RD_CONTROL_COSTS) {
		message->costs.size = RD_COSTS_SIZE;
		memset(message->costs.text, 'c', RD_COSTS_SIZE);
	} else if (kind == RD_CONTROL_OPEN) {
		message->open.count = RD_OPEN_MOST;
		for (int i = 0; i < RD_OPEN_MOST; i++)
			message->open.ranks[i] = RD_SIZE_MAX - 1 - i;
	} else if (kind == RD_CONTROL_LINK_FAILED) {
		message->link_failed = (struct rd_link_failure){
			.low = 2, .high = 65535, .by = 2, .tagged = true
		};
		memset(message->link_failed.transport, 't', RD_LINK_FAILURE_NAME - 1);
		memset(message->link_failed.reason, 'r', RD_LINK_FAILURE_REASON - 1);
	}
}

#endif
