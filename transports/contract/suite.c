#include "transports/contract/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transports/contract/fixture.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct shape small = { .size = 2, .channels = 1, .slots = 3, .piece = 4096 };

/* ---- One link, in one thread ---------------------------------------------------------------- */

/* A link from `from` to `to`: two ranks, or one rank twice. */
struct pair {
	struct meeting *meeting;
	struct fixture fixtures[2];
	struct fixture *fixture; /* speaks for both */
	struct rd_link *from, *to;
	size_t most; /* bytes in a message: of a piece, as many as the links carry */
};

static bool pair_open(struct pair *pair, const char *transport, struct shape shape)
{
	int last = shape.size - 1;

	if (strcmp(transport, "loop") == 0)
		last = 0;
	shape.size = last + 1;
	pair->meeting = meeting_create();
	pair->fixture = &pair->fixtures[0];
	if (!world_open(pair->fixtures, pair->meeting, transport, &shape))
		return false;
	pair->from = pair->fixtures[0].links[last][0];
	pair->to = pair->fixtures[last].links[0][0];
	pair->most = fixture_fit(pair->fixture, shape.piece);
	return true;
}

static void pair_close(struct pair *pair)
{
	world_close(pair->fixtures);
	meeting_end(pair->meeting);
}

/* Bursts of changing length, taken in gulps of changing length. */
static void run_bursts(struct pair *pair, uint64_t count)
{
	uint64_t sent = 0, taken = 0;
	size_t most = pair->most;

	for (uint64_t round = 0; taken < count; round++) {
		uint64_t burst = sent + size_of(round, 7), gulp = taken + 1 + size_of(~round, 7);

		while (sent < count && sent < burst && offer(pair->from, sent, size_of(sent, most)))
			sent++;
		while (taken < sent && taken < gulp) {
			if (!take(pair->fixture, pair->to, taken, size_of(taken, most)))
				return;
			taken++;
		}
	}
}

void contract_messages_arrive_in_order_through_many_wraps(const char *transport)
{
	struct pair pair;

	if (pair_open(&pair, transport, small))
		run_bursts(&pair, 5000);
	pair_close(&pair);
}

static void run_sizes(struct pair *pair)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4095,
		4096, 4097, 65535, 65536 };
	size_t most = pair->most;
	uint64_t key = 0;

	for (size_t i = 0; i < LENGTH(sizes); i++, key++)
		if (sizes[i] <= most && put(pair->fixture, pair->from, key, sizes[i]))
			take(pair->fixture, pair->to, key, sizes[i]);
	for (size_t less = 0; less < 5; less++, key++)
		if (put(pair->fixture, pair->from, key, most - less))
			take(pair->fixture, pair->to, key, most - less);
}

void contract_every_size_keeps_its_payload_and_tag(const char *transport)
{
	static const size_t pieces[] = { 64, 4096, 128 << 10 };

	for (size_t i = 0; i < LENGTH(pieces); i++) {
		struct shape shape = small;
		struct pair pair;

		shape.piece = pieces[i];
		if (pair_open(&pair, transport, shape))
			run_sizes(&pair);
		pair_close(&pair);
	}
}

void contract_reserving_twice_gives_the_same_room(const char *transport)
{
	struct pair pair;

	if (!pair_open(&pair, transport, small)) {
		pair_close(&pair);
		return;
	}
	for (uint64_t key = 0; key < 20; key++) {
		size_t size = size_of(key, pair.most);
		void *room = pair.from->ops->reserve(pair.from, size);

		ok(pair.fixture, room != NULL, "no room on an empty link");
		ok(pair.fixture, (uintptr_t)room % 8 == 0, "room that is not aligned");
		ok(pair.fixture, room == pair.from->ops->reserve(pair.from, size),
			"another room the second time");
		if (!put(pair.fixture, pair.from, key, size) ||
			!take(pair.fixture, pair.to, key, size))
			break;
	}
	pair_close(&pair);
}

static bool await_from(struct fixture *fixture, struct rd_link *link, void *into, size_t size,
	struct rd_message *message)
{
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;

	while (!link->ops->recv(link, into, size, message))
		if (!fixture_wait(fixture, deadline, "a message"))
			return false;
	return true;
}

static bool await(struct pair *pair, void *into, size_t size, struct rd_message *message)
{
	return await_from(pair->fixture, pair->to, into, size, message);
}

void contract_receiving_twice_shows_the_same_message(const char *transport)
{
	struct pair pair;
	struct rd_message message;
	bool valid = pair_open(&pair, transport, small);

	for (uint64_t key = 0; valid && key < 40; key += 2) {
		size_t size = size_of(key, pair.most);

		valid = put(pair.fixture, pair.from, key, size) &&
			await(&pair, NULL, 0, &message) &&
			/* A second message changes nothing about the first. */
			put(pair.fixture, pair.from, key + 1, 8) &&
			check(pair.fixture, &message, key, size) &&
			await(&pair, NULL, 0, &message) && take(pair.fixture, pair.to, key, size) &&
			take(pair.fixture, pair.to, key + 1, 8);
	}
	pair_close(&pair);
}

/* Sends until there is no more room: returns the next key. A link that never fills is a failure. */
static uint64_t flood(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	uint64_t bound = key + (256 << 20) / (size + 1);

	/* What lies between the two ends takes bytes in waves: full is what stays full. */
	for (int refused = 0; refused < 1000 && !link->error && !failed(fixture);) {
		if (offer(link, key, size)) {
			refused = 0;
			key++;
		} else {
			refused++;
			fixture_advance(fixture);
		}
		ok(fixture, key < bound, "there is no end to the room");
	}
	return key;
}

void contract_a_link_that_is_full_says_so_and_recovers(const char *transport)
{
	struct shape shape = small;
	struct pair pair;
	uint64_t sent = 0, taken = 0;

	shape.piece = 64 << 10;
	bool valid = pair_open(&pair, transport, shape);

	for (int round = 0; valid && round < 2; round++) {
		sent = flood(pair.fixture, pair.from, sent, pair.most);
		ok(pair.fixture, pair.from->error == 0, "full is no error: %s", pair.from->reason);
		ok(pair.fixture, sent > taken, "no room at all");
		while (taken < sent && take(pair.fixture, pair.to, taken, pair.most))
			taken++;
		valid = put(pair.fixture, pair.from, sent, 8) &&
			take(pair.fixture, pair.to, sent, 8);
		taken = ++sent;
	}
	pair_close(&pair);
}

/* ---- send(): memory of the caller's own ------------------------------------------------------ */

#define LENT 8 /* pieces of memory that are lent in turn */

struct lender {
	struct pair pair;
	unsigned char *memory;
	size_t room;
	uint64_t sent, taken, spoilt;
};

/* Whatever came back is spoilt at once: it must not matter any more. */
static void spoil(struct lender *lender)
{
	struct rd_link *from = lender->pair.from;

	ok(lender->pair.fixture, from->sent <= from->posted, "more came back than was lent");
	for (; lender->spoilt < from->sent; lender->spoilt++)
		memset(lender->memory + lender->spoilt % LENT * lender->room, 0xee, lender->room);
}

static bool lend(struct lender *lender, size_t size)
{
	struct rd_link *from = lender->pair.from;
	unsigned char *piece = lender->memory + from->posted % LENT * lender->room;
	struct rd_tag tag = tag_of(lender->sent);
	uint64_t posted = from->posted;

	if (posted - from->sent >= LENT)
		return false;
	fill(piece, size, lender->sent);
	bool accepted = from->ops->send(from, &tag, piece, size);

	ok(lender->pair.fixture, from->posted == posted + accepted, "posted is %lu after %lu",
		from->posted, posted);
	return accepted;
}

/* Every fifth message by reserve() and commit(), between the lent ones. */
static bool lender_send(struct lender *lender)
{
	uint64_t key = lender->sent;
	size_t size = size_of(key, lender->room);
	bool accepted = key % 5 == 4 ? offer(lender->pair.from, key, size) : lend(lender, size);

	lender->sent += accepted;
	return accepted;
}

static void lender_take(struct lender *lender)
{
	if (lender->taken < lender->sent &&
		accept_one(lender->pair.fixture, lender->pair.to, lender->taken,
			size_of(lender->taken, lender->room)))
		lender->taken++;
	spoil(lender);
}

static void lender_run(struct lender *lender)
{
	struct fixture *fixture = lender->pair.fixture;
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;

	while (lender->taken < 400) {
		bool moved = lender->sent < 400 && lender_send(lender);

		if (!moved || lender->sent % 3 == 0)
			lender_take(lender);
		if (!moved && !fixture_wait(fixture, deadline, "lent memory or messages"))
			return;
	}
	while (lender->pair.from->sent < lender->pair.from->posted)
		if (!fixture_wait(fixture, deadline, "lent memory to come back"))
			return;
}

void contract_sent_memory_comes_back_in_order(const char *transport)
{
	struct lender lender = { .room = 0 };
	struct shape shape = small;

	shape.piece = 32 << 10;
	if (pair_open(&lender.pair, transport, shape) && lender.pair.from->ops->send) {
		lender.room = lender.pair.most;
		lender.memory = malloc(LENT * lender.room);
		lender_run(&lender);
	}
	pair_close(&lender.pair);
	free(lender.memory);
}

/* ---- Landing in the caller's memory ---------------------------------------------------------- */

static bool land(struct pair *pair, uint64_t key, size_t size, size_t wanted, bool ask_first)
{
	unsigned char into[4096 + 2];
	struct rd_message message;

	memset(into, 0xcc, sizeof(into));
	if (ask_first &&
		!ok(pair->fixture, !pair->to->ops->recv(pair->to, into + 1, wanted, &message),
			"a message before one was sent"))
		return false;
	if (!put(pair->fixture, pair->from, key, size) ||
		!await(pair, into + 1, wanted, &message) ||
		!check(pair->fixture, &message, key, size) ||
		!await(pair, into + 1, wanted, &message) ||
		!check(pair->fixture, &message, key, size))
		return false;
	ok(pair->fixture, message.data != into + 1 || size == wanted, "landed another size");
	ok(pair->fixture, into[0] == 0xcc && into[1 + wanted] == 0xcc, "wrote beside the place");
	pair->to->ops->release(pair->to);
	return !failed(pair->fixture);
}

void contract_a_message_lands_where_it_is_wanted(const char *transport)
{
	static const size_t sizes[] = { 0, 1, 8, 64, 65, 1000, 4096 };
	struct pair pair;
	bool valid = pair_open(&pair, transport, small);

	for (uint64_t key = 0; valid && key < 84; key++) {
		size_t size = fixture_fit(pair.fixture, sizes[key % LENGTH(sizes)]);
		size_t other = fixture_fit(pair.fixture, sizes[(key + 3) % LENGTH(sizes)]);
		size_t wanted = key % 3 == 0 ? other : size;

		valid = land(&pair, key, size, wanted, key % 2);
	}
	pair_close(&pair);
}

/* ---- Nothing left behind --------------------------------------------------------------------- */

int contract_open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	insist(directory != NULL, "/proc/self/fd: %m");
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

int contract_shared_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	insist(maps != NULL, "/proc/self/maps: %m");
	while (fgets(line, sizeof(line), maps)) {
		char mode[5] = "";

		if (sscanf(line, "%*s %4s", mode) == 1)
			count += mode[3] == 's';
	}
	fclose(maps);
	return count;
}

void contract_nothing_is_left_behind(const char *transport)
{
	struct shape shape = small;
	int files = 0, maps = 0;

	shape.channels = 2;
	for (int round = 0; round < 4; round++) {
		struct pair pair;

		/* The first round is for what the library keeps for good. */
		if (round == 1) {
			files = contract_open_files();
			maps = contract_shared_maps();
		}
		if (pair_open(&pair, transport, shape))
			run_bursts(&pair, 20);
		pair_close(&pair);
	}
	insist(contract_open_files() == files, "files stay open");
	insist(contract_shared_maps() == maps, "memory stays mapped");
}

/* ---- Traffic between ranks ------------------------------------------------------------------- */

#define BOTH_WAYS 3000

static void send_and_take(struct fixture *fixture, struct rd_link **links)
{
	uint64_t mine = (uint64_t)fixture->local.rank << 32, theirs = mine ^ (1ull << 32);
	uint64_t sent = 0, taken = 0, deadline = now_ms() + PARTY_WAIT_MS;
	size_t most = fixture_fit(fixture, small.piece);

	while (sent < BOTH_WAYS || taken < BOTH_WAYS) {
		uint64_t before = sent + taken;

		if (sent < BOTH_WAYS && offer(links[0], mine + sent, size_of(mine + sent, most)))
			sent++;
		if (taken < BOTH_WAYS && accept_one(fixture, links[0], theirs + taken,
						 size_of(theirs + taken, most)))
			taken++;
		if (sent + taken == before &&
			(!ok(fixture, !links[0]->error, "%s", links[0]->reason) ||
				!fixture_wait(fixture, deadline, "traffic")))
			return;
	}
}

void contract_threads_send_both_ways_at_once(const char *transport)
{
	fixture_pair(transport, &small, THREADS, send_and_take, send_and_take);
}

void contract_processes_send_both_ways_at_once(const char *transport)
{
	fixture_pair(transport, &small, PROCESSES, send_and_take, send_and_take);
}

struct mesh {
	struct meeting *meeting;
	struct fixture fixtures[PARTIES_MAX];
	uint64_t sent[PARTIES_MAX][PARTIES_MAX][PARTY_CHANNELS_MAX];
	uint64_t taken[PARTIES_MAX][PARTIES_MAX][PARTY_CHANNELS_MAX];
};

static uint64_t mesh_key(int from, int to, int channel, uint64_t number)
{
	return (((uint64_t)from * PARTIES_MAX + (uint64_t)to) * PARTY_CHANNELS_MAX +
		       (uint64_t)channel) *
		       1000000 +
	       number;
}

/* One message out and one in, if they can go; true: all `count` went and came. */
static bool mesh_step(struct mesh *mesh, int rank, int peer, int channel, uint64_t count)
{
	struct fixture *fixture = &mesh->fixtures[rank];
	struct rd_link *link = fixture->links[peer][channel];
	uint64_t *sent = &mesh->sent[rank][peer][channel];
	uint64_t *taken = &mesh->taken[rank][peer][channel];
	uint64_t out = mesh_key(rank, peer, channel, *sent);
	uint64_t in = mesh_key(peer, rank, channel, *taken);
	size_t most = fixture_fit(fixture, 4096);

	if (*sent < count && offer(link, out, size_of(out, most)))
		(*sent)++;
	if (*taken < count && accept_one(fixture, link, in, size_of(in, most)))
		(*taken)++;
	return *sent == count && *taken == count;
}

static bool mesh_round(struct mesh *mesh, const struct shape *shape, uint64_t count)
{
	bool done = true;

	for (int rank = 0; rank < shape->size; rank++)
		for (int peer = 0; peer < shape->size; peer++)
			for (int channel = 0; channel < shape->channels; channel++)
				if (peer != rank && !mesh_step(mesh, rank, peer, channel, count))
					done = false;
	return done;
}

void contract_a_full_mesh_of_eight_endpoints_works(const char *transport)
{
	static const struct shape shape = { .size = 8, .channels = 2, .slots = 2, .piece = 4096 };
	struct mesh *mesh = calloc(1, sizeof(*mesh));
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;

	mesh->meeting = meeting_create();
	if (world_open(mesh->fixtures, mesh->meeting, transport, &shape))
		while (!mesh_round(mesh, &shape, 50))
			if (!fixture_wait(mesh->fixtures, deadline, "the mesh"))
				break;
	world_close(mesh->fixtures);
	meeting_end(mesh->meeting);
	free(mesh);
}

void contract_channels_do_not_mix(const char *transport)
{
	struct shape shape = small;
	struct pair pair;

	shape.channels = 2;
	if (pair_open(&pair, transport, shape)) {
		struct rd_link *from = pair.fixtures[0].links[1][1];
		struct rd_link *to = pair.fixtures[1].links[0][1];
		uint64_t sent = flood(pair.fixture, pair.from, 0, pair.most);
		size_t size = fixture_fit(pair.fixture, 100);

		/* One channel is full; the other works all the same. */
		for (uint64_t key = 0; key < 20; key++)
			if (!put(pair.fixture, from, ~key, size) ||
				!take(pair.fixture, to, ~key, size))
				break;
		for (uint64_t key = 0; key < sent; key++)
			if (!take(pair.fixture, pair.to, key, pair.most))
				break;
	}
	pair_close(&pair);
}

/* ---- Taking in what nobody asked for --------------------------------------------------------- */

/* More than lies between two ranks in any transport, so that it arrives only if it is taken in.
   Over links that carry shorter messages alone, as much as they carry. */
static const struct shape large = { .size = 2, .channels = 1, .slots = 2, .piece = 16 << 20 };

/* Sends from memory, where the link can, else as put() does. */
static bool post(struct fixture *fixture, struct rd_link *link, uint64_t key, unsigned char *memory)
{
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;
	struct rd_tag tag = tag_of(key);
	size_t size = fixture_fit(fixture, large.piece);

	if (!link->ops->send)
		return put(fixture, link, key, size);
	fill(memory, size, key);
	while (!link->ops->send(link, &tag, memory, size))
		if (!fixture_wait(fixture, deadline, "room to send"))
			return false;
	return true;
}

static bool look_gone(struct fixture *fixture, void *argument)
{
	const struct rd_link *link = argument;

	ok(fixture, link->error == 0, "%s", link->reason);
	return link->sent == link->posted;
}

/* Until all that was sent has left the sender's memory. */
static bool until_gone(struct fixture *fixture, struct rd_link *link)
{
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;

	while (!look_gone(fixture, link))
		if (!fixture_wait(fixture, deadline, "a message to leave its memory"))
			return false;
	return true;
}

/* Both send before either receives, in place, as it were. */
static void pass(struct fixture *fixture, struct rd_link *link, bool sleepy)
{
	unsigned char *memory = malloc(large.piece);
	uint64_t rank = (uint64_t)fixture->local.rank;

	if (post(fixture, link, rank, memory) &&
		(sleepy ? sleep_until(fixture, look_gone, link) : until_gone(fixture, link))) {
		memset(memory, 0xee, large.piece);
		take(fixture, link, 1 - rank, fixture_fit(fixture, large.piece));
	}
	free(memory);
}

static void pass_awake(struct fixture *fixture, struct rd_link **links)
{
	pass(fixture, links[0], false);
}

static void pass_asleep(struct fixture *fixture, struct rd_link **links)
{
	pass(fixture, links[0], true);
}

void contract_messages_that_fill_the_way_pass_each_other_unasked(const char *transport)
{
	fixture_pair(transport, &large, THREADS, pass_awake, pass_awake);
}

void contract_sleepers_take_in_what_they_did_not_ask_for(const char *transport)
{
	fixture_pair(transport, &large, THREADS, pass_asleep, pass_asleep);
}

/* Both commit two messages before either receives. */
static void put_two_and_take(struct fixture *fixture, struct rd_link **links)
{
	uint64_t mine = 2 * (uint64_t)fixture->local.rank, theirs = 2 - mine;
	size_t size = fixture_fit(fixture, large.piece);

	for (uint64_t i = 0; i < 2; i++)
		if (!put(fixture, links[0], mine + i, size))
			return;
	for (uint64_t i = 0; i < 2; i++)
		if (!take(fixture, links[0], theirs + i, size))
			return;
}

void contract_two_messages_each_way_find_room_unasked(const char *transport)
{
	fixture_pair(transport, &large, THREADS, put_two_and_take, put_two_and_take);
}

struct landing {
	struct rd_link *link;
	unsigned char into[8];
	struct rd_message message;
};

static bool look_landed(struct fixture *fixture, void *argument)
{
	struct landing *landing = argument;

	(void)fixture;
	return landing->link->ops->recv(
		landing->link, landing->into, sizeof(landing->into), &landing->message);
}

/* Sleeps for a message of the one channel, which comes only when that of the other has left. */
static void sleep_for_first(struct fixture *fixture, struct rd_link **links)
{
	struct landing landing = { .link = links[0] };

	if (sleep_until(fixture, look_landed, &landing) &&
		check(fixture, &landing.message, 1, sizeof(landing.into)))
		take(fixture, links[1], 2, fixture_fit(fixture, large.piece));
}

static void send_second_first(struct fixture *fixture, struct rd_link **links)
{
	unsigned char *memory = malloc(large.piece);

	if (post(fixture, links[1], 2, memory) && until_gone(fixture, links[1]))
		put(fixture, links[0], 1, 8);
	free(memory);
}

void contract_a_sleeper_takes_in_what_it_does_not_wait_for(const char *transport)
{
	struct shape shape = large;

	shape.channels = 2;
	fixture_pair(transport, &shape, THREADS, sleep_for_first, send_second_first);
}

struct three {
	struct meeting *meeting;
	struct fixture fixtures[3];
	unsigned char *memory[3];
};

static bool three_open(struct three *three, const char *transport)
{
	struct shape shape = large;

	shape.size = 3;
	three->meeting = meeting_create();
	for (int rank = 0; rank < 3; rank++)
		three->memory[rank] = malloc(large.piece);
	return world_open(three->fixtures, three->meeting, transport, &shape);
}

static void three_close(struct three *three)
{
	world_close(three->fixtures);
	for (int rank = 0; rank < 3; rank++)
		free(three->memory[rank]);
	meeting_end(three->meeting);
}

/* No two of them exchange anything, but the three of them do. */
void contract_messages_that_fill_the_way_go_round_unasked(const char *transport)
{
	struct three three;
	struct fixture *fixtures = three.fixtures;
	bool valid = three_open(&three, transport);

	for (int rank = 0; rank < 3 && valid; rank++)
		valid = post(fixtures, fixtures[rank].links[(rank + 1) % 3][0], (uint64_t)rank,
			three.memory[rank]);
	for (int rank = 0; rank < 3 && valid; rank++)
		valid = until_gone(fixtures, fixtures[rank].links[(rank + 1) % 3][0]);
	for (int rank = 0; rank < 3 && valid; rank++)
		valid = take(fixtures, fixtures[rank].links[(rank + 2) % 3][0],
			(uint64_t)(rank + 2) % 3, fixture_fit(fixtures, large.piece));
	three_close(&three);
}

/* Rank 0 asks for a message of rank 1, which comes only when rank 2's to rank 0 has left. */
void contract_who_awaits_one_rank_takes_in_what_another_sends(const char *transport)
{
	struct three three;
	struct fixture *fixtures = three.fixtures;
	unsigned char into[8];
	struct rd_message message;

	if (three_open(&three, transport)) {
		struct rd_link *from_one = fixtures[0].links[1][0];

		ok(fixtures, !from_one->ops->recv(from_one, into, sizeof(into), &message),
			"a message before one was sent");
		if (post(fixtures, fixtures[2].links[0][0], 2, three.memory[2]) &&
			until_gone(fixtures, fixtures[2].links[0][0]) &&
			put(fixtures, fixtures[1].links[0][0], 1, sizeof(into)) &&
			await_from(fixtures, from_one, into, sizeof(into), &message) &&
			check(fixtures, &message, 1, sizeof(into)))
			take(fixtures, fixtures[0].links[2][0], 2,
				fixture_fit(fixtures, large.piece));
	}
	three_close(&three);
}

/* ---- The end of a peer ----------------------------------------------------------------------- */

static bool until_stage(struct fixture *fixture, int stage)
{
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;

	while (fixture->meeting->stage < stage)
		if (!fixture_wait(fixture, deadline, "the other side"))
			return false;
	return true;
}

/* Time for whatever news there is to be noticed, before anything is read. */
static void advance_long(struct fixture *fixture)
{
	for (int i = 0; i < 3000; i++)
		fixture_advance(fixture);
}

#define FEW 3
#define MANY 40
#define MANY_SIZE (64 << 10)

/* Few messages, which lie somewhere on their way when close() returns. */
static void leave_few(struct fixture *fixture, struct rd_link **links)
{
	if (!until_stage(fixture, 1))
		return;
	for (uint64_t key = 0; key < FEW; key++)
		if (!put(fixture, links[0], key, size_of(key, fixture_fit(fixture, 4096))))
			return;
	/* Messages of the other side that were not read must not take ours with them. */
	fixture_close(fixture);
	fixture->meeting->stage = 2;
}

static void outlive_few(struct fixture *fixture, struct rd_link **links)
{
	bool valid = put(fixture, links[0], 100, 64) &&
		     put(fixture, links[0], 101, fixture_fit(fixture, 4000));

	fixture->meeting->stage = 1;
	if (!valid || !until_stage(fixture, 2))
		return;
	advance_long(fixture);
	for (uint64_t key = 0; key < FEW; key++)
		if (!take(fixture, links[0], key, size_of(key, fixture_fit(fixture, 4096))))
			return;
	until_broken(fixture, links[0], PARTY_WAIT_MS);
}

/* Many messages: the last are still being pushed out when close() is called. */
static void leave_many(struct fixture *fixture, struct rd_link **links)
{
	size_t size = fixture_fit(fixture, MANY_SIZE);

	for (uint64_t key = 0; key < MANY; key++)
		if (!put(fixture, links[0], key, size))
			return;
	fixture_close(fixture);
}

static void outlive_many(struct fixture *fixture, struct rd_link **links)
{
	size_t size = fixture_fit(fixture, MANY_SIZE);

	for (uint64_t key = 0; key < MANY; key++)
		if (!take(fixture, links[0], key, size))
			return;
	until_broken(fixture, links[0], PARTY_WAIT_MS);
}

static void run_leavers(const char *transport, enum sides sides)
{
	struct shape shape = small;

	fixture_pair(transport, &shape, sides, outlive_few, leave_few);
	fixture_pair(transport, &shape, sides, leave_few, outlive_few);
	shape.piece = MANY_SIZE;
	fixture_pair(transport, &shape, sides, outlive_many, leave_many);
	fixture_pair(transport, &shape, sides, leave_many, outlive_many);
}

void contract_messages_outlive_their_sender_in_threads(const char *transport)
{
	run_leavers(transport, THREADS);
}

void contract_messages_outlive_their_sender_in_processes(const char *transport)
{
	run_leavers(transport, PROCESSES);
}

/* Sends two messages, sees them off, and waits for the end. */
static void send_two_and_wait(struct fixture *fixture, struct rd_link **links)
{
	if (!put(fixture, links[0], 0, 64) ||
		!put(fixture, links[0], 1, fixture_fit(fixture, 4000)))
		return;
	for (int i = 0; i < 100; i++)
		fixture_advance(fixture);
	fixture->meeting->stage = 1;
	until_stage(fixture, 1000000);
}

static void kill_and_take_two(struct fixture *fixture, struct rd_link **links)
{
	size_t size = fixture_fit(fixture, 4000);
	siginfo_t death;

	if (!until_stage(fixture, 1))
		return;
	kill(fixture->meeting->child, SIGKILL);
	waitid(P_PID, (id_t)fixture->meeting->child, &death, WEXITED | WNOWAIT);
	advance_long(fixture);
	if (take(fixture, links[0], 0, 64) && take(fixture, links[0], 1, size))
		until_broken(fixture, links[0], PARTY_WAIT_MS);
}

void contract_a_killed_peer_breaks_the_link_after_its_last_message(const char *transport)
{
	fixture_pair(transport, &small, PROCESSES, kill_and_take_two, send_two_and_wait);
}

static void die_when_told(struct fixture *fixture, struct rd_link **links)
{
	(void)links;
	if (until_stage(fixture, 1))
		raise(SIGKILL);
}

static bool look_broken(struct fixture *fixture, void *argument)
{
	struct rd_link *link = argument;
	struct rd_message message;

	ok(fixture, !link->ops->recv(link, NULL, 0, &message), "a message from nowhere");
	return link->error != 0;
}

static void sleep_until_broken(struct fixture *fixture, struct rd_link **links)
{
	fixture->meeting->stage = 1;
	if (sleep_until(fixture, look_broken, links[0]))
		until_broken(fixture, links[0], 0);
}

void contract_a_killed_peer_wakes_a_sleeper(const char *transport)
{
	fixture_pair(transport, &small, PROCESSES, sleep_until_broken, die_when_told);
}

/* What the dead peer sent lies unread: it must not hide that there will never be room again. */
static void kill_when_full(struct fixture *fixture, struct rd_link **links)
{
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;
	size_t size = fixture_fit(fixture, small.piece);

	if (!until_stage(fixture, 1))
		return;
	flood(fixture, links[0], 0, size);
	kill(fixture->meeting->child, SIGKILL);
	while (!links[0]->error && fixture_wait(fixture, deadline, "an error"))
		offer(links[0], 0, size);
	ok(fixture, links[0]->error == RONDO_BROKEN, "%s", links[0]->reason);
}

void contract_a_killed_reader_breaks_a_sender_without_room(const char *transport)
{
	fixture_pair(transport, &small, PROCESSES, kill_when_full, send_two_and_wait);
}

/* ---- Cards, comms and strangers -------------------------------------------------------------- */

/* Time enough, on one machine, for whatever should not happen. */
static void advance_much(struct fixture *fixture)
{
	for (int i = 0; i < 500 && !failed(fixture); i++) {
		fixture_advance(fixture);
		sched_yield();
	}
}

static void try_card(
	const char *transport, int rank, const unsigned char *card, size_t card_size, bool refused)
{
	struct meeting *meeting = meeting_create();
	struct fixture fixture;
	struct rd_link *link = NULL;

	if (fixture_listen(&fixture, meeting, transport, rank, &small)) {
		int err = fixture.transport->open(
			fixture.endpoint, 1 - rank, 0, card, card_size, &link);

		ok(&fixture, err <= 0, "open returned %d", err);
		ok(&fixture, err != 0 || !refused, "a card of %zu bytes was taken", card_size);
		advance_much(&fixture);
		ok(&fixture, err != 0 || !link->ready, "a bad card made a link");
	}
	fixture_close(&fixture);
	meeting_end(meeting);
}

void contract_a_bad_card_is_an_error(const char *transport)
{
	struct meeting *meeting = meeting_create();
	struct fixture fixture;
	unsigned char card[RD_CARD_MAX + 1] = { 0 };

	if (fixture_listen(&fixture, meeting, transport, 0, &small)) {
		memcpy(card, fixture.card, fixture.card_size);
		for (size_t size = 0; size < fixture.card_size; size++)
			try_card(transport, 1, card, size, true);
		try_card(transport, 1, card, fixture.card_size + 1, true);
		for (int rank = 0; rank < 2; rank++) {
			memset(card, 0, sizeof(card));
			try_card(transport, rank, card, fixture.card_size, false);
			memset(card, 0xff, sizeof(card));
			try_card(transport, rank, card, fixture.card_size, false);
		}
	}
	fixture_close(&fixture);
	meeting_end(meeting);
}

/* The peer goes before its link was opened from here, or right after. */
static void lose_early(const char *transport, int rank, bool opened)
{
	struct meeting *meeting = meeting_create();
	struct fixture here, there;
	int peer = 1 - rank;

	if (fixture_listen(&here, meeting, transport, rank, &small) &&
		fixture_listen(&there, meeting, transport, peer, &small)) {
		if (opened)
			fixture_open(&there, rank, here.card, here.card_size);
		fixture_close(&there);
		if (fixture_open(&here, peer, there.card, there.card_size)) {
			advance_much(&here);
			ok(&here, !here.links[peer][0]->ready || here.links[peer][0]->error,
				"a link to nobody is ready");
		}
	}
	fixture_close(&here);
	meeting_end(meeting);
}

void contract_a_peer_that_left_before_the_link_was_ready_does_no_harm(const char *transport)
{
	for (int rank = 0; rank < 2; rank++) {
		lose_early(transport, rank, false);
		lose_early(transport, rank, true);
	}
}

void contract_another_comm_is_kept_out(const char *transport)
{
	struct meeting *meeting = meeting_create();
	struct fixture fixtures[2] = { 0 };

	for (int rank = 0; rank < 2; rank++) {
		struct shape shape = small;

		shape.comm_id = 100 + (uint64_t)rank;
		fixture_listen(&fixtures[rank], meeting, transport, rank, &shape);
		fixtures[rank].world = fixtures;
		fixtures[rank].world_count = 2;
	}
	for (int rank = 0; rank < 2 && !failed(fixtures); rank++)
		fixture_open(&fixtures[rank], 1 - rank, fixtures[1 - rank].card,
			fixtures[1 - rank].card_size);
	if (!failed(fixtures)) {
		advance_much(fixtures);
		ok(fixtures, !fixtures[0].links[1][0]->ready && !fixtures[1].links[0][0]->ready,
			"a link between two comms is ready");
	}
	world_close(fixtures);
	meeting_end(meeting);
}

#define STRANGERS 60

struct strangers {
	int sockets[STRANGERS];
	int count;
};

/* What a stranger does: nothing; goes; says little; says much. */
static void stranger_send(struct strangers *strangers, int socket)
{
	static const char noise[8192] = "GET / HTTP/1.1\r\nHost: rondo\r\n\r\n";
	int what = strangers->count % 4;

	strangers->sockets[strangers->count++] = socket;
	if (what == 1)
		shutdown(socket, SHUT_RDWR);
	else if (what > 1)
		send(socket, noise, what == 2 ? 10 : sizeof(noise), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void strangers_come(struct strangers *strangers, int listener, int how_many)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address), type_size = sizeof(int);
	int type = 0;

	if (getsockname(listener, (struct sockaddr *)&address, &size) ||
		getsockopt(listener, SOL_SOCKET, SO_TYPE, &type, &type_size))
		return;
	for (int i = 0; i < how_many && strangers->count < STRANGERS; i++) {
		int stranger = socket(address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		connect(stranger, (struct sockaddr *)&address, size);
		stranger_send(strangers, stranger);
	}
}

/* Whatever sockets listen in this process are the transport's: others find them as well. */
static void strangers_come_to_all(struct strangers *strangers, int how_many)
{
	for (int fd = 3; fd < 256; fd++) {
		int listens = 0;
		socklen_t size = sizeof(listens);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
			strangers_come(strangers, fd, how_many);
	}
}

void contract_strangers_do_not_get_in_the_way(const char *transport)
{
	struct meeting *meeting = meeting_create();
	struct strangers strangers = { .count = 0 };
	struct fixture fixtures[2] = { 0 };
	bool valid = true;

	for (int rank = 0; rank < 2 && valid; rank++) {
		valid = fixture_listen(&fixtures[rank], meeting, transport, rank, &small);
		fixtures[rank].world = fixtures;
		fixtures[rank].world_count = 2;
	}
	strangers_come_to_all(&strangers, 20);
	for (int rank = 0; rank < 2 && valid; rank++)
		valid = fixture_open(&fixtures[rank], 1 - rank, fixtures[1 - rank].card,
			fixtures[1 - rank].card_size);
	if (valid && fixture_until_ready(fixtures)) {
		size_t size = fixture_fit(fixtures, 100);

		strangers_come_to_all(&strangers, 10);
		for (uint64_t key = 0; key < 100; key++)
			if (!put(fixtures, fixtures[0].links[1][0], key, size) ||
				!take(fixtures, fixtures[1].links[0][0], key, size))
				break;
	}
	world_close(fixtures);
	for (int i = 0; i < strangers.count; i++)
		close(strangers.sockets[i]);
	meeting_end(meeting);
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

#define SLEEPS 20000

struct awaited {
	struct rd_link *link;
	uint64_t key;
	size_t size;
	bool there; /* a look that succeeded took the message, or the room: it has it */
};

static bool look_taken(struct fixture *fixture, void *argument)
{
	struct awaited *awaited = argument;

	if (!awaited->there)
		awaited->there = accept_one(fixture, awaited->link, awaited->key, awaited->size);
	return awaited->there;
}

static bool look_sent(struct fixture *fixture, void *argument)
{
	struct awaited *awaited = argument;

	(void)fixture;
	if (!awaited->there)
		awaited->there = offer(awaited->link, awaited->key, awaited->size);
	return awaited->there;
}

static bool sleepy_take(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	struct awaited awaited = { link, key, size, false };

	return sleep_until(fixture, look_taken, &awaited);
}

static bool sleepy_put(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	struct awaited awaited = { link, key, size, false };

	return sleep_until(fixture, look_sent, &awaited);
}

static void serve(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < SLEEPS; key++)
		if (!put(fixture, links[0], key, 8) || !sleepy_take(fixture, links[0], ~key, 8))
			return;
}

static void reply(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < SLEEPS; key++)
		if (!sleepy_take(fixture, links[0], key, 8) || !put(fixture, links[0], ~key, 8))
			return;
}

void contract_sleeping_threads_are_woken_by_messages(const char *transport)
{
	fixture_pair(transport, &small, THREADS, serve, reply);
}

void contract_sleeping_processes_are_woken_by_messages(const char *transport)
{
	fixture_pair(transport, &small, PROCESSES, serve, reply);
}

/* Small ones for links of few slots, then large ones for those that count bytes. */
static size_t stream_size(struct fixture *fixture, uint64_t key)
{
	return key < SLEEPS ? 16 : fixture_fit(fixture, 64 << 10);
}

#define STREAM (SLEEPS + 300)

static void stream_out(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < STREAM; key++)
		if (!sleepy_put(fixture, links[0], key, stream_size(fixture, key)))
			return;
	sleepy_take(fixture, links[0], 7, 8);
}

static void stream_in(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < STREAM; key++)
		if (!sleepy_take(fixture, links[0], key, stream_size(fixture, key)))
			return;
	put(fixture, links[0], 7, 8);
	/* Until it has gone out, where it takes more than a commit. */
	sleepy_take(fixture, links[0], 8, 8);
}

static void stream_out_and_end(struct fixture *fixture, struct rd_link **links)
{
	stream_out(fixture, links);
	put(fixture, links[0], 8, 8);
}

static const struct shape narrow = { .size = 2, .channels = 1, .slots = 2, .piece = 64 << 10 };

void contract_sleeping_threads_are_woken_by_room(const char *transport)
{
	fixture_pair(transport, &narrow, THREADS, stream_out_and_end, stream_in);
}

void contract_sleeping_processes_are_woken_by_room(const char *transport)
{
	fixture_pair(transport, &narrow, PROCESSES, stream_out_and_end, stream_in);
}

/* Awake, and a little later each time, so as to meet the other just when it falls asleep. */
static void dawdle(uint64_t key)
{
	for (volatile uint64_t i = 0; i < key % 1000; i++)
		;
}

static void reply_awake(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < SLEEPS; key++) {
		if (!take(fixture, links[0], key, 8))
			return;
		dawdle(key);
		if (!put(fixture, links[0], ~key, 8))
			return;
	}
}

void contract_a_message_that_meets_its_reader_falling_asleep_wakes_it(const char *transport)
{
	fixture_pair(transport, &small, PROCESSES, serve, reply_awake);
}

static void stream_in_awake(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < STREAM; key++) {
		dawdle(key);
		if (!take(fixture, links[0], key, stream_size(fixture, key)))
			return;
	}
	put(fixture, links[0], 7, 8);
	sleepy_take(fixture, links[0], 8, 8);
}

void contract_room_that_meets_its_writer_falling_asleep_wakes_it(const char *transport)
{
	fixture_pair(transport, &narrow, PROCESSES, stream_out_and_end, stream_in_awake);
}

static void one_message_each(struct fixture *fixture, struct rd_link **links)
{
	uint64_t rank = (uint64_t)fixture->local.rank;

	if (put(fixture, links[0], rank, 8))
		take(fixture, links[0], 1 - rank, 8);
}

void contract_a_sleeper_is_woken_while_links_become_ready(const char *transport)
{
	struct shape shape = small;

	shape.sleepy = true;
	for (int round = 0; round < 20; round++)
		fixture_pair(transport, &shape, round % 2 ? THREADS : PROCESSES, one_message_each,
			one_message_each);
}

/* ---- The table ------------------------------------------------------------------------------- */

const struct contract_case contract_cases[] = {
#define LINK_CASE(name) { #name, CONTRACT_LINK, contract_##name },
#define PEER_CASE(name) { #name, CONTRACT_PEER, contract_##name },
#define REGION_CASE(name) { #name, CONTRACT_REGION, contract_##name },
	CONTRACT_LINK_CASES(LINK_CASE) CONTRACT_PEER_CASES(PEER_CASE)
		CONTRACT_REGION_CASES(REGION_CASE){ NULL, CONTRACT_LINK, NULL },
};
