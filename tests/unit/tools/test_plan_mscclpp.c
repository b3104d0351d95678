/* Execution plans of MSCCL++, in the shapes that its compiler emits. */
#include <criterion/criterion.h>
#include <string.h>

#include "check/proof.h"
#include "mscclpp_plan.h"
#include "plan/msccl.h"
#include "rondo.h"

TestSuite(plan_mscclpp, .timeout = 120);

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
