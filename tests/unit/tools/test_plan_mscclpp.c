/* Execution plans of MSCCL++, in the shapes that its compiler emits. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/proof.h"
#include "plan/msccl.h"
#include "rondo.h"

TestSuite(plan_mscclpp, .timeout = 120);

static int import(const char *text, struct rd_plan_file **file)
{
	struct msccl msccl;
	int err = mscclpp_parse(&msccl, "f", text, strlen(text));

	*file = NULL;
	if (!err)
		err = msccl_to_file(&msccl, file);
	msccl_finish(&msccl);
	return err;
}

/* ---- A plan while it is written: each operation has a line ---------------------------------- */

static struct {
	char text[1 << 21];
	size_t length;
	int ranks, rank, gpus, blocks, ops; /* so far: of the plan, the GPU, the block */
	const char *type; /* of all channels */
} plan;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	plan.length += (size_t)vsnprintf(
		plan.text + plan.length, sizeof(plan.text) - plan.length, format, args);
	va_end(args);
	cr_assert_lt(plan.length, sizeof(plan.text));
}

static void begin(const char *collective, int ranks, const char *type, const char *in_place)
{
	memset(&plan, 0, sizeof(plan));
	plan.ranks = ranks;
	plan.type = type;
	put("{\"name\": \"Own(%d)\", \"collective\": \"%s\", \"protocol\": \"Simple\", ", ranks,
		collective);
	put("\"inplace\": %s, \"max_message_size\": 18446744073709551615, \"gpus\": [", in_place);
}

/* Places of the other ranks, as each list of channels and of remote buffers has them. */
static void list_peers(const char *separator, bool ranks)
{
	for (int i = 0; i < plan.ranks - 1; i++)
		put("%s%d", i ? separator : "", ranks && i >= plan.rank ? i + 1 : i);
}

/* A channel to each other rank, and the buffer of this type there. */
static void gpu(int ins, int outs, int scratch, const char *buffer)
{
	plan.rank = plan.gpus;
	plan.blocks = 0;
	put("%s\n{\"id\": %d, \"input_chunks\": %d, \"output_chunks\": %d, ",
		plan.gpus++ ? "," : "", plan.rank, ins, outs);
	put("\"scratch_chunks\": %d, \"channels\": [{\"channel_type\": \"%s\", ", scratch,
		plan.type);
	put("\"connected_to\": [");
	list_peers(", ", true);
	put("]}], \"semaphores\": [{\"init_value\": 0}], \"remote_buffers\": [");
	for (int peer = 0, i = 0; peer < plan.ranks; peer++)
		if (peer != plan.rank)
			put("%s{\"rank\": %d, \"type\": \"%s\", \"access_channel_types\": "
			    "[\"%s\"]}",
				i++ ? ", " : "", peer, buffer, plan.type);
	put("], \"threadblocks\": [");
}

static void block(void)
{
	plan.ops = 0;
	put("%s\n{\"id\": %d, \"channels\": [{\"channel_type\": \"%s\", \"channel_ids\": [",
		plan.blocks ? "," : "", plan.blocks, plan.type);
	plan.blocks++;
	list_peers(", ", false);
	put("]}], \"remote_buffer_refs\": [{\"access_channel_type\": \"%s\", ", plan.type);
	put("\"remote_buffer_ids\": [");
	list_peers(", ", false);
	put("]}], \"ops\": [");
}

static void op(const char *name, const char *members)
{
	put("%s\n{\"name\": \"%s\", \"channel_type\": \"%s\"%s%s}", plan.ops++ ? "," : "", name,
		plan.type, *members ? ", " : "", members);
}

static const char *all_channels(void)
{
	static char text[64];
	int length = snprintf(text, sizeof(text), "\"channel_ids\": [0");

	for (int i = 1; i < plan.ranks - 1; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, ", %d", i);
	snprintf(text + length, sizeof(text) - (size_t)length, "]");
	return text;
}

static const char *sync(void)
{
	op("signal", all_channels());
	op("wait", all_channels());
	return "";
}

/* A chunk: of this rank, "i3"; or of the place in the list of remote buffers, "@0:3". */
static int chunk(char *text, size_t size, const char *from, int count)
{
	if (*from == '@')
		return snprintf(text, size, "{\"buffer_id\": %d, \"index\": %d, \"size\": %d}",
			atoi(from + 1), atoi(strchr(from, ':') + 1), count);
	return snprintf(text, size, "{\"type\": \"%c\", \"index\": %d, \"size\": %d}", *from,
		atoi(from + 1), count);
}

static char *chunks(char *text, size_t size, const char *list, int count)
{
	char copy[256], *rest, *at = text;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
		if (at > text)
			*at++ = ',';
		at += chunk(at, size - (size_t)(at - text), one, count);
	}
	return text;
}

/* Lists of chunks, with spaces. */
static void move_with(
	const char *name, const char *from, const char *into, int count, const char *more)
{
	char members[4096], source[1500], target[1500];

	snprintf(members, sizeof(members), "\"src_buff\": [%s], \"dst_buff\": [%s]%s%s",
		chunks(source, sizeof(source), from, count),
		chunks(target, sizeof(target), into, count), *more ? ", " : "", more);
	op(name, members);
}

static void move(const char *name, const char *from, const char *into, int count)
{
	move_with(name, from, into, count, "");
}

static void end_block(void)
{
	put("]}");
}

static void end_gpu(void)
{
	put("]}");
}

/* "i3 @0:3 @1:3": this chunk here, and in all remote buffers. */
static const char *everywhere(char buffer, int index)
{
	static char texts[4][128];
	static int next;
	char *text = texts[next++ % 4];
	int length = snprintf(text, 128, "%c%d", buffer, index);

	for (int i = 0; i < plan.ranks - 1; i++)
		length += snprintf(text + length, 128 - (size_t)length, " @%d:%d", i, index);
	return text;
}

/* And one of its calls is of this name. */
static void expect_proved(const char *call)
{
	struct rd_plan_file *file;
	bool found = false;

	put("]}");
	cr_assert_eq(import(plan.text, &file), 0, "%s\n%s", rondo_last_error(), plan.text);
	cr_expect_eq(rd_prove(&file->algorithm, &file->problem), 0, "%s\n%s", rondo_last_error(),
		plan.text);
	for (int i = 0; i < file->step_count; i++)
		found |= !strcmp(rd_file_call_name(file->steps[i].call), call);
	cr_expect(found, "no %s", call);
	rd_plan_file_destroy(file);
}

/* ---- Shapes --------------------------------------------------------------------------------- */

/* One GPU reads, adds and puts; the other reads and adds two chunks, and puts them by a copy. */
Test(plan_mscclpp, puts_gets_and_reductions_of_two_ranks_are_proved)
{
	begin("allreduce", 2, "memory", "true");
	gpu(4, 4, 4, "i");
	block();
	sync();
	move("rres", "i0 @0:0", "i0 @0:0", 1);
	move("get", "@0:1", "s1", 1);
	move("res", "i1 s1", "i1 @0:1", 1);
	sync();
	end_block();
	end_gpu();
	gpu(4, 4, 4, "i");
	block();
	sync();
	move("rre", "i2 @0:2", "i2", 2);
	op("nop", "");
	move("copy", "i2", "s2", 2);
	move("put", "s2", "@0:2", 2);
	sync();
	end_block();
	end_gpu();
	expect_proved("recv_reduce_last");
}

/* Two-shot: each rank reduces its chunks from all inputs, a thread block a chunk. */
Test(plan_mscclpp, reads_that_are_added_in_a_row_become_a_merge)
{
	const int ranks = 4, blocks = 2;

	begin("allreduce", ranks, "memory", "true");
	for (int rank = 0; rank < ranks; rank++) {
		gpu(ranks * blocks, ranks * blocks, 0, "i");
		for (int i = 0; i < blocks; i++) {
			const int index = rank * blocks + i;

			block();
			op("rlxsignal", all_channels());
			op("rlxwait", all_channels());
			move("rres", everywhere('i', index), everywhere('i', index), 1);
			sync();
			end_block();
		}
		end_gpu();
	}
	/* The blocks share their channels here: each takes as many signals as it raises. */
	expect_proved("recv_merge");
}

static const char *place(const char *format, ...)
{
	static char texts[8][64];
	static int next;
	char *text = texts[next++ % 8];
	va_list args;

	va_start(args, format);
	vsnprintf(text, 64, format, args);
	va_end(args);
	return text;
}

/* The rank's place in the list of a peer, and its scratch chunk there. */
static int place_at(int rank, int peer)
{
	return rank < peer ? rank : rank - 1;
}

/* Packets: a block puts several chunks, which several blocks reduce: more than a link holds. */
static void all_reduce_of_packets(int ranks, int parts)
{
	const int results = (ranks - 1) * parts;

	begin("allreduce", ranks, "memory", "true");
	for (int rank = 0; rank < ranks; rank++) {
		gpu(ranks * parts, ranks * parts, 2 * results, "s");
		for (int i = 0; i < parts || i < ranks; i++) {
			const int peer = i < rank ? i : i + 1;

			block();
			if (i < ranks - 1)
				move("ppkt", place("i%d", peer * parts),
					place("@%d:%d", i, place_at(rank, peer) * parts), parts);
			if (i < parts) {
				char from[128], into[128];
				int f = snprintf(from, 128, "i%d", rank * parts + i), t;

				t = snprintf(into, 128, "i%d", rank * parts + i);
				for (int p = 0; p < ranks - 1; p++) {
					const int other = p < rank ? p : p + 1;

					f += snprintf(
						from + f, 128 - (size_t)f, " s%d", p * parts + i);
					t += snprintf(into + t, 128 - (size_t)t, " @%d:%d", p,
						results + place_at(rank, other) * parts + i);
				}
				move("respkt", from, into, 1);
			}
			if (i < ranks - 1)
				move("upkt", place("s%d", results + i * parts),
					place("i%d", peer * parts), parts);
			end_block();
		}
		end_gpu();
	}
}

Test(plan_mscclpp, packets_are_waited_for_where_they_are_read)
{
	all_reduce_of_packets(2, 1);
	expect_proved("recv_reduce_last");
	all_reduce_of_packets(4, 1);
	expect_proved("recv_merge");
}

/* The block that forwards packets comes before the one that copies them there. */
Test(plan_mscclpp, packets_that_are_forwarded_are_waited_for)
{
	begin("allgather", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(1, 2, 2, "s");
		block();
		move("rppkt", place("s%d", rank), place("@0:%d", rank), 1);
		end_block();
		block();
		move("cpkt", place("o%d", rank), place("s%d", rank), 1);
		move("upkt", place("s%d", !rank), place("o%d", !rank), 1);
		end_block();
		end_gpu();
	}
	expect_proved("send");
}

/* One-shot: each rank adds all others' chunks, the second behind the first. */
Test(plan_mscclpp, a_reduction_of_several_chunks_goes_chunk_after_chunk)
{
	const int ranks = 3;

	begin("allreduce", ranks, "memory", "false");
	for (int rank = 0; rank < ranks; rank++) {
		char from[64] = "i0";

		gpu(2, 2, 8, "s");
		block();
		for (int i = 0; i < ranks - 1; i++) {
			const int peer = i < rank ? i : i + 1;

			move("put", "i0", place("@%d:%d", i, 2 * rank), 2);
			strcat(from, place(" s%d", 2 * peer));
		}
		sync();
		move("re", from, "o0", 2);
		move("copy", "o1", "s7", 1);
		end_block();
		end_gpu();
	}
	expect_proved("recv_merge");
}

Test(plan_mscclpp, puts_beyond_the_room_of_a_link_stay_at_their_rank)
{
	all_reduce_of_packets(4, 4);
	expect_proved("recv_merge");
}

/* A thread block a chunk: all ranks add in one order, and put what they add before that. */
static void one_shot(const char *put_name, const char *reduce_name, bool signals)
{
	const int ranks = 4, parts = 4;

	begin("allreduce", ranks, "memory", "false");
	for (int rank = 0; rank < ranks; rank++) {
		gpu(parts, parts, (ranks - 1) * parts, "s");
		for (int i = 0; i < parts; i++) {
			const char *mine = place("i%d", i);

			block();
			for (int p = 0; p < ranks - 1; p++)
				move(put_name, mine,
					place("@%d:%d", p,
						place_at(rank, p < rank ? p : p + 1) * parts + i),
					1);
			if (signals)
				sync();
			move(reduce_name, place("i%d s%d s%d s%d", i, i, parts + i, 2 * parts + i),
				place("o%d", i), 1);
			end_block();
		}
		end_gpu();
	}
	expect_proved("recv_merge");
}

Test(plan_mscclpp, values_that_stayed_at_their_rank_are_sent_before_it_adds_others)
{
	one_shot("put", "re", true);
}

Test(plan_mscclpp, packets_are_added_when_all_have_come)
{
	one_shot("ppkt", "repkt", false);
}

/* A link has one order: contributions that lie in it are added before a result follows. */
Test(plan_mscclpp, a_result_waits_for_the_messages_before_it)
{
	begin("allreduce", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(2, 2, 2, "s");
		block();
		move("put", place("i%d", !rank), place("@0:%d", !rank), 1);
		sync();
		move("res", place("i%d s%d", rank, rank), place("i%d @0:%d", rank, rank), 1);
		sync();
		move("copy", place("s%d", !rank), place("i%d", !rank), 1);
		end_block();
		end_gpu();
	}
	expect_proved("recv_reduce_last");
}

Test(plan_mscclpp, a_read_waits_for_the_messages_before_it)
{
	begin("allreduce", 2, "memory", "true");
	gpu(2, 2, 2, "s");
	block();
	move("ppkt", "i0", "@0:0", 1);
	op("signal", all_channels());
	end_block();
	end_gpu();
	gpu(2, 2, 2, "i");
	block();
	op("wait", all_channels());
	move("rres", "i1 @0:1", "i1 @0:1", 1);
	end_block();
	block();
	move("respkt", "i0 s0", "i0 @0:0", 1);
	end_block();
	end_gpu();
	expect_proved("recv_reduce_last");
}

Test(plan_mscclpp, thread_block_groups_divide_a_chunk)
{
	struct rd_plan_file *file;

	begin("allreduce", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(2, 2, 2, "s");
		for (int i = 0; i < 6; i++) {
			const char *share =
				place("\"tbg_info\": {\"tb_id\": %d, \"tbg_size\": 2}", i % 2);
			const char *mine = place("i%d", rank), *theirs = place("i%d", !rank);
			const char *from_peer = place("s%d", rank);

			block();
			if (i < 2)
				move_with("ppkt", theirs, place("@0:%d", !rank), 1, share);
			else if (i < 4)
				move_with("respkt", place("%s %s", mine, from_peer),
					place("%s @0:%d", mine, rank), 1, share);
			else
				move_with("upkt", place("s%d", !rank), theirs, 1, share);
			end_block();
		}
		end_gpu();
	}
	put("]}");
	cr_assert_eq(import(plan.text, &file), 0, "%s", rondo_last_error());
	cr_expect_eq(file->parts, 4);
	cr_expect_eq(rd_prove(&file->algorithm, &file->problem), 0, "%s", rondo_last_error());
	rd_plan_file_destroy(file);
}

/* A copy in a pipeline, which another block waits for; the put goes over a port. */
Test(plan_mscclpp, semaphores_barriers_and_pipelines_order_the_blocks_of_an_allgather)
{
	const int ranks = 4;

	begin("allgather", ranks, "port", "false");
	for (int rank = 0; rank < ranks; rank++) {
		char target[64] = "", source[64] = "";

		for (int i = 0; i < ranks - 1; i++) {
			strcat(source, place("o%d ", rank));
			strcat(target, place("@%d:%d ", i, rank));
		}
		gpu(1, ranks, 0, "o");
		block();
		op("barrier", "\"barrier_id\": 3, \"num_threadblocks\": 2");
		put(",\n{\"name\": \"pipeline\", \"ops\": [");
		plan.ops = 0;
		move("copy", "i0", place("o%d", rank), 1);
		op("sem_release", "\"semaphore_ids\": [0]");
		put("]}");
		end_block();
		block();
		op("barrier", "\"barrier_id\": 3, \"num_threadblocks\": 2");
		op("sem_acquire", "\"semaphore_ids\": [0]");
		move_with("pws", source, target, 1, all_channels());
		op("flush", all_channels());
		op("wait", all_channels());
		end_block();
		end_gpu();
	}
	expect_proved("send");
}

/* The range of an all-gather is that of all blocks. */
Test(plan_mscclpp, range_and_name_are_taken_over)
{
	static const char text[] =
		"{\"name\": \"Big-AllGather, v2.1\", \"collective\": \"allgather\", "
		"\"inplace\": true, \"min_message_size\": 1001, "
		"\"max_message_size\": 4000, \"gpus\": ["
		"{\"id\": 0, \"input_chunks\": 1, \"output_chunks\": 1, "
		"\"scratch_chunks\": 0}]}";
	struct rd_plan_file *file;

	cr_assert_eq(import(text, &file), 0, "%s", rondo_last_error());
	cr_expect_str_eq(file->name, "big_allgather__");
	cr_expect_eq(file->least_bytes, 1001);
	cr_expect_eq(file->most_bytes, 4000);
	rd_plan_file_destroy(file);
}

/* ---- Plans that are refused ----------------------------------------------------------------- */

static void expect_refused(const char *text, const char *why)
{
	struct rd_plan_file *file;

	cr_expect_eq(import(text, &file), RONDO_INVALID, "%s", text);
	cr_expect_str_eq(rondo_last_error(), why, "%s", rondo_last_error());
}

#define HEAD "{\"name\": \"a\", \"collective\": \"allreduce\", \"inplace\": true,\n"

Test(plan_mscclpp, wrong_documents_are_refused_with_the_place)
{
	expect_refused("{}", "f:1: \"name\" is a string, and is missing");
	expect_refused("{\"name\": \"a\", \"collective\": \"sendrecv\"}",
		"f:1: there is no plan of collective \"sendrecv\"");
	expect_refused("{\"name\": \"a\", \"collective\": \"allreduce\"}",
		"f:1: \"inplace\" is true or false");
	expect_refused(HEAD "\"gpus\": {}}", "f:2: \"gpus\" is an array, not an object");
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"input_chunks\": 0, \"output_chunks\": 0}]}",
		"f:2: gpu 0: there are fewer chunks than blocks: 1 of the input, 1 of the output");
	expect_refused(HEAD "\"gpus\": []}", "f:2: \"gpus\" has 1 to 1024 GPUs, not 0");
	expect_refused(HEAD "\"gpus\": [{\"id\": 1}]}",
		"f:2: gpu 0: \"id\" is a whole number from 0 to 0");
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"inputChunks\": 1}]}",
		"f:2: gpu 0: \"input_chunks\" is a whole number from 0 to 1048576, and is missing");
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"input_chunks\": 1, \"output_chunks\": 2}]}",
		"f:2: gpu 0: \"output_chunks\" is 2, not 1: it has 1 blocks");
	expect_refused(HEAD "\"max_message_size\": 1.5, \"gpus\": [{\"id\": 0, "
			    "\"input_chunks\": 1, \"output_chunks\": 1}]}",
		"f:2: \"max_message_size\" is a whole number from 0 on");
}

/* Both GPUs have this operation, behind those that exchange signals. */
static void expect_op_refused(const char *name, const char *members, const char *why)
{
	begin("allreduce", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(2, 2, 2, "i");
		block();
		sync();
		op(name, members);
		end_block();
		end_gpu();
	}
	put("]}");
	expect_refused(plan.text, why);
}

#define BUFFERS(from, into) "\"src_buff\": [" from "], \"dst_buff\": [" into "]"
#define OWN(type, index) "{\"type\": \"" type "\", \"index\": " index ", \"size\": 1}"
#define REMOTE(id, index) "{\"buffer_id\": " id ", \"index\": " index ", \"size\": 1}"
#define PLACE "f:6: gpu 0, tb 0, op 2 " /* found while it is read */
#define TURN "f:11: gpu 1, tb 0, op 2 " /* at its turn: GPU 0 waits for the signal of GPU 1 */

Test(plan_mscclpp, operations_that_no_plan_has_are_refused_with_their_place)
{
	expect_op_refused("glres", "",
		PLACE "(glres): a plan has memory and port channels alone: compile the program "
		      "without switch channels");
	expect_op_refused("putt", "",
		"f:6: gpu 0, tb 0, op 2: there is no plan of an operation \"putt\"; did you mean put?");
	expect_op_refused("put", BUFFERS(OWN("i", "0"), REMOTE("1", "0")),
		PLACE "(put): its tb has no such place in \"remote_buffer_ids\" of this type");
	expect_op_refused("put", BUFFERS(OWN("i", "0"), REMOTE("0", "2")),
		TURN "(put): i[2] is beyond its buffer");
	expect_op_refused("put", BUFFERS(OWN("s", "0"), REMOTE("0", "0")),
		TURN "(put): s[0] has no value yet");
	expect_op_refused("put", BUFFERS(OWN("q", "0"), REMOTE("0", "0")),
		PLACE "(put): \"type\" is i, o or s, not \"q\"");
	expect_op_refused("put", BUFFERS(OWN("i", "0") "," OWN("i", "1"), REMOTE("0", "0")),
		PLACE "(put): \"src_buff\" has 2 buffers, and \"dst_buff\" 1");
	expect_op_refused("put", BUFFERS(REMOTE("0", "0"), REMOTE("0", "0")),
		PLACE "(put): it moves chunks from rank 1 to rank 1: one of both is its own");
	expect_op_refused("re", BUFFERS(OWN("i", "0") "," OWN("i", "1"), OWN("i", "0")),
		TURN "(re): i[1] is no message to add to a value here: a plan adds as it receives");
	expect_op_refused("rre", BUFFERS(OWN("i", "0") "," REMOTE("0", "1"), OWN("i", "0")),
		TURN "(rre): i[1] of the peer is another chunk than the one to which it is added");
	expect_op_refused("re",
		BUFFERS(OWN("i", "0") "," OWN("s", "1"), OWN("i", "0")) ", \"reduce_op\": \"min\"",
		PLACE "(re): \"reduce_op\" is sum: a plan reduces as its call wants, so compile it "
		      "with that");
	expect_op_refused("wait", "\"channel_ids\": [1]",
		PLACE "(wait): its tb has no such place in \"channel_ids\" of this type");
	expect_op_refused("sem_acquire", "\"semaphore_ids\": [1]",
		PLACE "(sem_acquire): its gpu has 1 semaphores");
}

/* A short file could keep the tool busy for hours. */
Test(plan_mscclpp, more_chunks_than_a_plan_may_move_are_refused_with_the_place)
{
	begin("allreduce", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(1 << 20, 1 << 20, 1 << 20, "i");
		block();
		move("copy", "i0", "s0", 1);
		for (int i = 0; i < 8; i++)
			move("copy", "i0", "s0", 1 << 20);
		end_block();
		end_gpu();
	}
	put("]}");
	expect_refused(
		plan.text, "f:23: gpu 1, tb 0: more than 16777216 chunks are moved up to here");
}

/* Each of 400,000 ids was sought behind 40,000 members. */
Test(plan_mscclpp, members_before_a_list_of_ids_are_passed_once, .timeout = 20)
{
	struct rd_plan_file *file;

	begin("allreduce", 2, "memory", "true");
	gpu(1, 1, 0, "i");
	put("{\"id\": 0, \"channels\": [{");
	for (int i = 0; i < 40000; i++)
		put("\"a%d\": 0, ", i);
	put("\"channel_type\": \"memory\", \"channel_ids\": [0]}], \"ops\": [");
	put("{\"name\": \"signal\", \"channel_type\": \"memory\", \"channel_ids\": [");
	for (int i = 0; i < 400000; i++)
		put("0, ");
	put("0]}");
	end_block();
	end_gpu();
	gpu(1, 1, 0, "i");
	end_gpu();
	put("]}");
	cr_assert_eq(import(plan.text, &file), 0, "%s", rondo_last_error());
	rd_plan_file_destroy(file);
}

#define NEVER \
	"never has its turn: it waits in a circle, for a signal or packets that never come, or " \
	"for room in a link"

Test(plan_mscclpp, operations_that_wait_for_ever_are_refused_with_their_place)
{
	expect_op_refused("wait", "\"channel_ids\": [0]", PLACE "(wait): " NEVER);
	expect_op_refused(
		"barrier", "\"barrier_id\": 0, \"num_threadblocks\": 2", PLACE "(barrier): " NEVER);
	expect_op_refused("upkt", BUFFERS(OWN("s", "0"), OWN("i", "0")), PLACE "(upkt): " NEVER);
}

Test(plan_mscclpp, values_that_a_plan_has_no_more_are_refused_with_their_place)
{
	begin("allreduce", 2, "memory", "false");
	for (int rank = 0; rank < 2; rank++) {
		gpu(1, 1, 1, "i");
		block();
		move("rre", "i0 @0:0", "o0", 1);
		end_block();
		end_gpu();
	}
	put("]}");
	expect_refused(plan.text,
		"f:7: gpu 1, tb 0, op 0 (rre): i[0] is an older value of its chunk: a plan has the "
		"newest alone");
}

Test(plan_mscclpp, values_that_stayed_at_their_rank_and_changed_there_are_refused_with_their_place)
{
	begin("allreduce", 2, "memory", "true");
	gpu(3, 3, 3, "i");
	end_gpu();
	gpu(3, 3, 3, "i");
	block();
	move("get", "@0:0", "s0", 3);
	move("put", "i2", "@0:2", 1);
	move("re", "i2 s2", "i2", 1);
	end_block();
	end_gpu();
	put("]}");
	expect_refused(plan.text,
		"f:7: gpu 1, tb 0, op 2 (re): s[2] was put, and its rank has a newer value: a link "
		"holds two messages");
}
