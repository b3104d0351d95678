#include "price.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "rondo/layout.h"

/* Pieces that are played one by one; what follows takes as long as the last of them. */
#define PLAYED_PIECES 3
/* Ranks whose plans are looked at first, and the only ones where all together are too long to be
   played: so many notes. */
#define SAMPLED 8
#define NOTES_MAX 6144
/* Of 64 ranks on two cores that are played, one in 4 to 40 messages makes its taker wait for a
   turn: where they are not played, one in so many, which was within twice of what playing said. */
#define TURNS_ONE_IN 8
/* Half so many times as long as an input, which no one has written for a while, takes what the peer
   has just written: its lines must come out of the peer's cache. Measured: 10.6 against 6.5 us for
   64 KiB. */
#define FRESH 3
/* What never ends takes longer than anything else. */
#define NEVER (INT64_MAX / 4)
/* An executor begins chunks at multiples of this (exec.c). */
#define ALIGNMENT 64

static int64_t longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t shorter(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* One step of one rank, with all that its price depends on. */
struct note {
	enum rd_step_kind kind;
	bool puts, takes, receives; /* a message, as the step does */
	bool stores; /* a value that is passed on is stored here as well */
	bool lies; /* what it sends lies in the user's memory, and may be sent from there, */
	bool wanted; /* but is wanted back at once */
	bool fresh; /* what it sends has just been written here */
	enum rd_link_class from, to; /* the links that it uses */
	int sender; /* the note that puts the message that it takes, or that FLUSH waits for; else
		       -1 */
	int taker; /* puts: the rank that takes it */
	int outs; /* COMBINE: ranks that get the result */
};

/* A voice is what one rank plays. */
struct voice {
	int first, count; /* notes */
	int host;
};

struct rd_score {
	int size; /* ranks of the problem */
	enum rd_dealing dealing;
	int parts;
	int peers; /* the most that any rank sends to */
	bool sampled; /* not played, but added up */
	int voice_count; /* the same, or SAMPLED */
	struct voice *voices;
	struct note *notes;
	int note_count;
	int host_count;
	int *host_ranks; /* [host_count] */
	/* For playing, one at a time: */
	int64_t *sent_ns; /* [PLAYED_PIECES][notes]: when a note's message arrives; -1: not yet sent
			   */
	int64_t *taken_ns; /* likewise: when it has been taken */
	struct player *players; /* [voices] */
	struct core *cores; /* [voices] */
	int *free; /* [voices]: a stack of those that can go on, and have a core to themselves */
};

/* A rank while it is played. */
struct player {
	int piece, note; /* what comes next */
	int64_t ready_ns; /* when it could go on */
	bool waits; /* for a message that is not sent yet, since ready_ns */
};

struct core {
	int host;
	int last; /* the rank that it ran last; -1: none yet */
	int64_t free_ns;
};

/* What puts the message that this one takes; NULL: it takes none, or that is not known. */
static const struct note *put_of(const struct rd_score *score, const struct note *note)
{
	return note->takes && note->sender >= 0 ? &score->notes[note->sender] : NULL;
}

/* ---- Making it ------------------------------------------------------------------------------ */

/* Evenly spread over the ranks, first and last among them. */
static int sample(int size, int index)
{
	return (int)((int64_t)index * (size - 1) / (SAMPLED - 1));
}

/* The rank that plays a voice. */
static int rank_of(const struct rd_score *score, int voice)
{
	return score->sampled ? sample(score->size, voice) : voice;
}

static int host_of(const struct rd_problem *problem, int rank)
{
	return problem->layout ? problem->layout->group[rank] : 0;
}

static enum rd_link_class class_of(const struct rd_problem *problem, int a, int b)
{
	return host_of(problem, a) == host_of(problem, b) ? RD_NEAR : RD_FAR;
}

static bool is_users(struct rd_where where)
{
	return where.memory == RD_IN || where.memory == RD_OUT;
}

/* As the executor decides it, of a call that is not in place. */
static bool is_wanted_back(const struct rd_plan *plan, int index)
{
	const struct rd_step *step = &plan->steps[index], *next = step + 1;

	return step->kind == RD_STEP_SEND && step->from.memory == RD_OUT &&
	       index + 1 < plan->step_count && next->kind == RD_STEP_FLUSH && next->sender == index;
}

/* As the executor decides it: out of place, what lies in the input stays as it is. */
static bool may_be_overwritten(const struct rd_step *sender)
{
	return sender->kind != RD_STEP_SEND || sender->from.memory != RD_IN;
}

/* first: the number of the plan's first note. */
static struct note note_of(const struct rd_plan *plan, int index, int first)
{
	const struct rd_problem *problem = &plan->problem;
	const struct rd_step *step = &plan->steps[index];
	int rank = problem->rank;
	struct note note = { .kind = step->kind, .sender = -1 };

	note.puts = rd_step_puts(step);
	note.takes = rd_step_takes(step);
	note.receives = rd_step_receives(step);
	note.stores = step->into.memory != RD_NOWHERE;
	note.lies = is_users(step->kind == RD_STEP_SEND ? step->from : step->into);
	note.wanted = is_wanted_back(plan, index);
	note.fresh = may_be_overwritten(step);
	if (note.takes || step->kind == RD_STEP_FETCH || step->kind == RD_STEP_SWAP)
		note.from = class_of(problem, rank, step->peer);
	if (note.puts) {
		note.to = class_of(problem, rank, step->to);
		note.taker = step->to;
	}
	if (step->kind == RD_STEP_FLUSH && may_be_overwritten(&plan->steps[step->sender]))
		note.sender = first + step->sender;
	if (step->kind == RD_STEP_COMBINE)
		note.outs = step->to < 0 ? problem->size : 1;
	return note;
}

/* Message n from one rank to another is the n-th that the one puts and the n-th that the other
   takes: each pair's are counted. `puts` lists the notes that put, by pair. */
struct matching {
	int size;
	int *heads, *tails; /* [size * size]: first and last note that puts, -1: none */
	int *next; /* [notes] */
};

static void list_put(struct matching *matching, int from, int to, int note)
{
	int pair = from * matching->size + to;

	matching->next[note] = -1;
	if (matching->heads[pair] < 0)
		matching->heads[pair] = note;
	else
		matching->next[matching->tails[pair]] = note;
	matching->tails[pair] = note;
}

static int unlist_put(struct matching *matching, int from, int to)
{
	int pair = from * matching->size + to, note = matching->heads[pair];

	if (note >= 0)
		matching->heads[pair] = matching->next[note];
	return note;
}

static void match(struct rd_score *score, struct rd_plan *const *plans, struct matching *matching)
{
	for (int rank = 0; rank < score->size; rank++)
		for (int i = 0; i < plans[rank]->step_count; i++)
			if (rd_step_puts(&plans[rank]->steps[i]))
				list_put(matching, rank, plans[rank]->steps[i].to,
					score->voices[rank].first + i);
	for (int rank = 0; rank < score->size; rank++)
		for (int i = 0; i < plans[rank]->step_count; i++)
			if (rd_step_takes(&plans[rank]->steps[i]))
				score->notes[score->voices[rank].first + i].sender =
					unlist_put(matching, plans[rank]->steps[i].peer, rank);
}

static int match_messages(struct rd_score *score, struct rd_plan *const *plans)
{
	size_t pairs = (size_t)score->size * score->size;
	struct matching matching = { .size = score->size };

	matching.heads = malloc(pairs * sizeof(int));
	matching.tails = malloc(pairs * sizeof(int));
	matching.next = malloc((score->note_count + 1) * sizeof(int));
	if (matching.heads && matching.tails && matching.next) {
		memset(matching.heads, -1, pairs * sizeof(int));
		match(score, plans, &matching);
	}

	bool whole = matching.heads && matching.tails && matching.next;

	free(matching.heads);
	free(matching.tails);
	free(matching.next);
	return whole ? 0 : rd_fail(RONDO_MEMORY, "no memory to price a plan");
}

static int count_hosts(struct rd_score *score, const struct rd_problem *problem)
{
	for (int rank = 0; rank < score->size; rank++)
		if (host_of(problem, rank) >= score->host_count)
			score->host_count = host_of(problem, rank) + 1;
	score->host_ranks = calloc(score->host_count, sizeof(int));
	if (!score->host_ranks)
		return rd_fail(RONDO_MEMORY, "no memory to price a plan");
	for (int rank = 0; rank < score->size; rank++)
		score->host_ranks[host_of(problem, rank)]++;
	return 0;
}

static bool was_sent_to(const struct rd_plan *plan, int before, int to)
{
	for (int i = 0; i < before; i++)
		if (rd_step_puts(&plan->steps[i]) && plan->steps[i].to == to)
			return true;
	return false;
}

static int count_peers(const struct rd_plan *plan)
{
	int peers = 0;

	for (int i = 0; i < plan->step_count; i++)
		peers += rd_step_puts(&plan->steps[i]) && !was_sent_to(plan, i, plan->steps[i].to);
	return peers;
}

static int fill_score(
	struct rd_score *score, struct rd_plan *const *plans, const struct rd_problem *problem)
{
	int err = count_hosts(score, problem);

	for (int i = 0; i < score->voice_count; i++)
		score->note_count += plans[rank_of(score, i)]->step_count;
	score->voices = calloc(score->voice_count, sizeof(*score->voices));
	score->players = calloc(score->voice_count, sizeof(*score->players));
	score->cores = calloc(score->voice_count, sizeof(*score->cores));
	score->free = calloc(score->voice_count, sizeof(*score->free));
	score->notes = calloc(score->note_count + 1, sizeof(*score->notes));
	score->sent_ns =
		calloc((size_t)PLAYED_PIECES * (score->note_count + 1), sizeof(*score->sent_ns));
	score->taken_ns =
		calloc((size_t)PLAYED_PIECES * (score->note_count + 1), sizeof(*score->taken_ns));
	if (!score->taken_ns || !score->voices || !score->players || !score->cores ||
		!score->free || !score->notes || !score->sent_ns)
		return rd_fail(RONDO_MEMORY, "no memory to price a plan");

	int at = 0;

	for (int i = 0; i < score->voice_count; i++) {
		int rank = rank_of(score, i), peers;

		score->voices[i] =
			(struct voice){ at, plans[rank]->step_count, host_of(problem, rank) };
		peers = count_peers(plans[rank]);
		score->peers = peers > score->peers ? peers : score->peers;
		for (int k = 0; k < plans[rank]->step_count; k++)
			score->notes[at++] = note_of(plans[rank], k, score->voices[i].first);
	}
	score->parts = plans[0]->parts;
	return err || score->sampled ? err : match_messages(score, plans);
}

static int write_plan(struct rd_plan **plans, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, int rank)
{
	struct rd_problem there = *problem;

	there.rank = rank;
	return plans[rank] ? 0 : rd_plan_create(&plans[rank], algorithm, &there);
}

/* A few ranks' plans, and then all of them where those are not too long. */
static int write_plans(struct rd_score *score, struct rd_plan **plans,
	const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	int err = 0, longest = 0;

	for (int i = 0; i < SAMPLED && !err; i++) {
		int rank = sample(score->size, i);

		err = write_plan(plans, algorithm, problem, rank);
		if (!err && plans[rank]->step_count > longest)
			longest = plans[rank]->step_count;
	}
	score->sampled = score->size > SAMPLED &&
			 (score->size > RD_PLAYED_MAX || longest * score->size > NOTES_MAX);
	score->voice_count = score->sampled ? SAMPLED : score->size;
	for (int rank = 0; rank < score->size && !score->sampled && !err; rank++)
		err = write_plan(plans, algorithm, problem, rank);
	return err;
}

int rd_score_create(struct rd_score **score_out, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	struct rd_score *score = calloc(1, sizeof(*score));
	struct rd_plan **plans = calloc(problem->size, sizeof(*plans));
	int err;

	*score_out = NULL;
	if (!score || !plans) {
		free(score);
		free(plans);
		return rd_fail(RONDO_MEMORY, "no memory to price a plan");
	}
	score->size = problem->size;
	score->dealing = rd_dealing_of(problem->collective);
	err = write_plans(score, plans, algorithm, problem);
	if (!err)
		err = fill_score(score, plans, problem);
	for (int rank = 0; rank < problem->size; rank++)
		rd_plan_destroy(plans[rank]);
	free(plans);
	if (err)
		rd_score_destroy(score);
	else
		*score_out = score;
	return err;
}

void rd_score_destroy(struct rd_score *score)
{
	if (!score)
		return;
	free(score->voices);
	free(score->notes);
	free(score->host_ranks);
	free(score->sent_ns);
	free(score->taken_ns);
	free(score->players);
	free(score->cores);
	free(score->free);
	free(score);
}

/* ---- What a step takes ---------------------------------------------------------------------- */

/* Everything that steps cost at one size of slice. */
struct tariff {
	const struct rd_costs *costs;
	struct rd_message_cost copied[RD_LINK_CLASS_COUNT]; /* a slice, by the link's room */
	struct rd_message_cost posted[RD_LINK_CLASS_COUNT]; /* from where it lies */
	struct rd_message_cost empty[RD_LINK_CLASS_COUNT];
	bool posts[RD_LINK_CLASS_COUNT]; /* a slice may be, and is long enough for that */
	int64_t copy_ns, reduce_ns; /* a slice */
	int64_t reach_ns; /* the bytes of a slice from another rank's memory */
};

static struct tariff tariff_of(const struct rd_costs *costs, enum rd_dealing dealing,
	uint64_t slice, enum rd_type_class type)
{
	struct tariff tariff = { .costs = costs };

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		const struct rd_link_cost *link = &costs->links[class];

		tariff.copied[class] = rd_message_cost(link, slice, false);
		tariff.posted[class] = rd_message_cost(link, slice, true);
		tariff.empty[class] = rd_message_cost(link, 0, false);
		tariff.posts[class] = link->posts && slice >= link->posts_min &&
				      (!link->lends || slice >= costs->lend_min[dealing]);
	}
	tariff.copy_ns = (int64_t)(slice * costs->copy_ps / 1000);
	tariff.reduce_ns = (int64_t)(slice * costs->reduce_ps[type] / 1000);
	tariff.reach_ns = tariff.copied[RD_NEAR].recv_ns - tariff.empty[RD_NEAR].recv_ns;
	/* A single copy is as good, but for the call that makes it. */
	if (costs->links[RD_NEAR].lends && slice >= costs->links[RD_NEAR].posts_min)
		tariff.reach_ns = shorter(tariff.reach_ns, tariff.posted[RD_NEAR].recv_ns);
	tariff.reach_ns = longer(tariff.copy_ns, tariff.reach_ns);
	return tariff;
}

static bool is_posted(const struct tariff *tariff, const struct note *note)
{
	return tariff->posts[note->to] && note->lies &&
	       !(tariff->costs->links[note->to].lends && note->wanted);
}

static bool is_lent(const struct tariff *tariff, const struct note *note)
{
	return tariff->costs->links[note->to].lends && is_posted(tariff, note);
}

static int64_t send_ns(const struct tariff *tariff, const struct note *note)
{
	return is_posted(tariff, note) ? tariff->posted[note->to].send_ns
				       : tariff->copied[note->to].send_ns;
}

/* Taking it, and combining where that is done: in one pass over what lies in the link's room, but
   in a second where it has to be fetched first. */
static int64_t recv_ns(const struct tariff *tariff, const struct note *note, const struct note *put)
{
	bool reduces = note->kind == RD_STEP_RECV_REDUCE || note->kind == RD_STEP_REDUCE_FORWARD ||
		       note->kind == RD_STEP_HOLD;

	if (put && is_lent(tariff, put))
		return tariff->posted[note->from].recv_ns * (put->fresh ? FRESH : 2) / 2 +
		       (reduces ? tariff->reduce_ns : 0);
	return tariff->copied[note->from].recv_ns +
	       (reduces ? longer(0, tariff->reduce_ns - tariff->copy_ns) : 0);
}

/* A value that came in goes out again: from memory where the link sends from there, else it is
   written straight into the outgoing room. */
static int64_t pass_on_ns(const struct tariff *tariff, const struct note *note)
{
	if (is_posted(tariff, note))
		return tariff->posted[note->to].send_ns;
	return tariff->empty[note->to].send_ns + (note->stores ? tariff->copy_ns : 0);
}

/* put: what the note takes; NULL: not known, or nothing. */
static int64_t note_ns(
	const struct tariff *tariff, const struct note *note, const struct note *put, int size)
{
	switch (note->kind) {
	case RD_STEP_SEND:
		return send_ns(tariff, note);
	case RD_STEP_RECV:
	case RD_STEP_RECV_REDUCE:
	case RD_STEP_HOLD: /* and its part of the MERGE, which takes nothing more */
		return recv_ns(tariff, note, put);
	case RD_STEP_FORWARD:
	case RD_STEP_REDUCE_FORWARD:
		return recv_ns(tariff, note, put) + pass_on_ns(tariff, note);
	case RD_STEP_COPY:
		return tariff->copy_ns;
	case RD_STEP_SIGNAL:
		return tariff->empty[note->to].send_ns;
	case RD_STEP_AWAIT:
		return tariff->empty[note->from].recv_ns;
	case RD_STEP_FETCH:
		return tariff->reach_ns;
	case RD_STEP_SPREAD:
		return tariff->copy_ns + (size - 1) * tariff->reach_ns;
	case RD_STEP_SWAP:
		return 2 * tariff->reach_ns + tariff->copy_ns;
	case RD_STEP_COMBINE:
		/* All inputs but our own come from elsewhere, and all outputs but our own go there.
		 */
		return (size - 1) * longer(tariff->reduce_ns, tariff->reach_ns) + tariff->copy_ns +
		       (note->outs - 1) * tariff->reach_ns;
	default:
		return 0;
	}
}

static int64_t flight_ns(const struct tariff *tariff, const struct note *note)
{
	if (note->kind == RD_STEP_SIGNAL)
		return tariff->empty[note->to].flight_ns;
	return is_posted(tariff, note) ? tariff->posted[note->to].flight_ns
				       : tariff->copied[note->to].flight_ns;
}

/* What it takes to make a copy of what was lent and is wanted back; 0: it was not lent. */
static int64_t copy_lent_ns(const struct tariff *tariff, const struct note *put)
{
	if (!is_lent(tariff, put))
		return 0;
	return tariff->copied[put->to].send_ns - tariff->empty[put->to].send_ns;
}

/* ---- Playing -------------------------------------------------------------------------------- */

/* A performance: some pieces of a score, at one tariff. */
struct performance {
	const struct rd_score *score;
	const struct tariff *tariff;
	int pieces;
	int core_count, free_count; /* of the score's */
	int64_t *ends_ns; /* [pieces]: when the last rank was done with each */
};

static bool crowded(const struct performance *performance, int host)
{
	return performance->score->host_ranks[host] > (int)performance->tariff->costs->cores;
}

/* The cores of the hosts on which ranks share them. */
static void seat(struct performance *performance)
{
	const struct rd_score *score = performance->score;

	performance->core_count = 0;
	for (int host = 0; host < score->host_count; host++)
		for (int i = 0;
			crowded(performance, host) && i < (int)performance->tariff->costs->cores;
			i++)
			score->cores[performance->core_count++] = (struct core){ host, -1, 0 };
}

static bool is_done(const struct performance *performance, int voice)
{
	return performance->score->players[voice].piece == performance->pieces;
}

static const struct note *next_note(const struct performance *performance, int voice)
{
	const struct rd_score *score = performance->score;

	return &score->notes[score->voices[voice].first + score->players[voice].note];
}

/* A rank can go on from here. */
static void release(struct performance *performance, int voice)
{
	const struct rd_score *score = performance->score;

	score->players[voice].waits = false;
	if (!crowded(performance, score->voices[voice].host))
		score->free[performance->free_count++] = voice;
}

static size_t place_of(const struct rd_score *score, int piece, int index)
{
	return (size_t)piece * score->note_count + (size_t)index;
}

/* The message of a note is on its way: who waits for it will know when it comes. */
static void put_message(struct performance *performance, int piece, int index, int64_t arrives)
{
	const struct rd_score *score = performance->score;
	int taker = score->notes[index].taker;
	struct player *player = &score->players[taker];

	score->sent_ns[place_of(score, piece, index)] = arrives;
	if (!player->waits || player->piece != piece ||
		next_note(performance, taker)->sender != index)
		return;
	player->ready_ns = longer(player->ready_ns, arrives);
	release(performance, taker);
}

/* Past the plan's end it begins the next piece. */
static void finish_piece(struct performance *performance, struct player *player, int64_t now)
{
	int64_t *end = &performance->ends_ns[player->piece++];

	*end = longer(*end, now);
	player->note = 0;
}

/* When its next note can begin; -1 where that is not known yet. */
static int64_t begin_ns(const struct performance *performance, int voice, int64_t now)
{
	const struct rd_score *score = performance->score;
	const struct note *note = next_note(performance, voice);

	if (!put_of(score, note))
		return now;
	return score->sent_ns[place_of(score, score->players[voice].piece, note->sender)];
}

/* A rank that wants back what it has lent does not wait for who has not read it yet: it makes the
   copy. */
static int64_t take_back_ns(
	const struct performance *performance, int piece, int sender, int64_t now)
{
	const struct rd_score *score = performance->score;
	int64_t taken = score->taken_ns[place_of(score, piece, sender)];

	if (taken >= 0 && taken <= now)
		return 0;
	return copy_lent_ns(performance->tariff, &score->notes[sender]);
}

static int64_t play_note(struct performance *performance, int voice, int64_t now)
{
	const struct rd_score *score = performance->score;
	const struct note *note = next_note(performance, voice);
	const struct note *put = put_of(score, note);
	int piece = score->players[voice].piece;

	if (note->kind == RD_STEP_FLUSH && note->sender >= 0)
		now += take_back_ns(performance, piece, note->sender, now);
	else
		now += note_ns(performance->tariff, note, put, score->size);
	if (put)
		score->taken_ns[place_of(score, piece, note->sender)] = now;
	if (note->puts)
		put_message(performance, piece, (int)(note - score->notes),
			now + flight_ns(performance->tariff, note));
	score->players[voice].note++;
	return now;
}

/* Plays one rank from `now` until it must wait, or is done; returns when that is. */
static int64_t play_voice(struct performance *performance, int voice, int64_t now)
{
	const struct rd_score *score = performance->score;
	struct player *player = &score->players[voice];
	bool shares = crowded(performance, score->voices[voice].host);

	while (!is_done(performance, voice)) {
		if (player->note == score->voices[voice].count) {
			finish_piece(performance, player, now);
			continue;
		}

		int64_t begin = begin_ns(performance, voice, now);

		/* With a core to itself it waits there; else it makes room for others. */
		if (begin < 0 || (shares && begin > now)) {
			player->waits = begin < 0;
			player->ready_ns = longer(begin, now);
			return now;
		}
		now = play_note(performance, voice, longer(now, begin));
	}
	return now;
}

/* Which rank can go on first on which shared core, and when; false: none can. */
static bool next_turn(const struct performance *performance, int *voice, int *core, int64_t *at)
{
	const struct rd_score *score = performance->score;
	bool found = false;

	for (int i = 0; performance->core_count > 0 && i < score->voice_count; i++) {
		if (is_done(performance, i) || score->players[i].waits)
			continue;
		for (int k = 0; k < performance->core_count; k++) {
			const struct core *place = &score->cores[k];
			int64_t begin = longer(place->free_ns, score->players[i].ready_ns);

			/* To go on where it was costs nothing. */
			if (place->last != i)
				begin += performance->tariff->costs->switch_ns;
			if (place->host != score->voices[i].host || (found && begin >= *at))
				continue;
			found = true;
			*voice = i;
			*core = k;
			*at = begin;
		}
	}
	return found;
}

static void play_free(struct performance *performance)
{
	while (performance->free_count > 0) {
		int voice = performance->score->free[--performance->free_count];

		play_voice(performance, voice, performance->score->players[voice].ready_ns);
	}
}

/* ends_ns: when the last rank was done with each piece. False: nothing can go on, and not all is
   done. The plans are not sound, then. */
static bool play(const struct rd_score *score, const struct tariff *tariff, int pieces,
	int64_t ends_ns[PLAYED_PIECES])
{
	struct performance performance = {
		.score = score, .tariff = tariff, .pieces = pieces, .ends_ns = ends_ns
	};
	int voice = 0, core = 0;
	int64_t at = 0;

	seat(&performance);
	for (size_t i = 0; i < (size_t)pieces * score->note_count; i++)
		score->sent_ns[i] = score->taken_ns[i] = -1;
	memset(score->players, 0, score->voice_count * sizeof(*score->players));
	for (int piece = 0; piece < pieces; piece++)
		ends_ns[piece] = 0;
	for (int i = 0; i < score->voice_count; i++)
		release(&performance, i);
	play_free(&performance);
	while (next_turn(&performance, &voice, &core, &at)) {
		score->cores[core].last = voice;
		score->cores[core].free_ns = play_voice(&performance, voice, at);
		play_free(&performance);
	}
	for (int i = 0; i < score->voice_count; i++)
		if (!is_done(&performance, i))
			return false;
	return true;
}

/* ---- Adding up ------------------------------------------------------------------------------ */

static int64_t voice_ns(const struct rd_score *score, const struct tariff *tariff, int voice)
{
	int64_t sum = 0;

	for (int i = 0; i < score->voices[voice].count; i++) {
		const struct note *note = &score->notes[score->voices[voice].first + i];

		sum += note_ns(tariff, note, put_of(score, note), score->size);
	}
	return sum;
}

static int takes_count(const struct rd_score *score, int voice)
{
	int count = 0;

	for (int i = 0; i < score->voices[voice].count; i++)
		count += score->notes[score->voices[voice].first + i].takes;
	return count;
}

/* A host's cores share the work of its ranks, those that are not looked at being as busy as those
   that are; each message that one takes costs so much more. */
static int64_t host_ns(
	const struct rd_score *score, const struct tariff *tariff, int host, int64_t more_ns)
{
	int64_t sum = 0;
	int voices = 0;

	for (int i = 0; i < score->voice_count; i++) {
		if (score->voices[i].host != host)
			continue;
		voices++;
		sum += voice_ns(score, tariff, i);
		if (more_ns > 0)
			sum += more_ns * takes_count(score, i);
	}
	return voices ? sum * score->host_ranks[host] / voices / (int)tariff->costs->cores : 0;
}

/* The least that a piece takes however many are under way: the busiest rank, or where ranks share
   cores, the busiest host. */
static int64_t busy_ns(const struct rd_score *score, const struct tariff *tariff)
{
	int64_t busiest = 0;

	for (int i = 0; i < score->voice_count; i++)
		busiest = longer(busiest, voice_ns(score, tariff, i));
	for (int host = 0; host < score->host_count; host++)
		busiest = longer(busiest, host_ns(score, tariff, host, 0));
	return busiest;
}

/* Too many to play: as if each message were waited for from the moment it is sent, and where ranks
   share cores, with a switch now and then. */
static int64_t sampled_ns(const struct rd_score *score, const struct tariff *tariff)
{
	int64_t longest = 0;

	for (int i = 0; i < score->voice_count; i++) {
		int64_t sum = voice_ns(score, tariff, i);

		for (int k = 0; k < score->voices[i].count; k++) {
			const struct note *note = &score->notes[score->voices[i].first + k];

			if (note->receives)
				sum += tariff->copied[note->from].flight_ns +
				       tariff->copied[note->from].send_ns;
		}
		longest = longer(longest, sum);
	}
	for (int host = 0; host < score->host_count; host++)
		if (score->host_ranks[host] > (int)tariff->costs->cores)
			longest = longer(longest, host_ns(score, tariff, host,
							  tariff->costs->switch_ns / TURNS_ONE_IN));
	return longest;
}

/* ---- The price ------------------------------------------------------------------------------ */

/* How the executor cuts a block: slices of equal length that fit a message. */
static void cut(
	const struct rd_score *score, const struct rd_cut *how, uint64_t *slice, uint64_t *pieces)
{
	uint64_t chunk = how->block_size;

	if (score->parts > 1) {
		chunk = (chunk + score->parts - 1) / score->parts;
		chunk = (chunk + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		chunk = chunk < how->block_size ? chunk : how->block_size;
	}
	*pieces = chunk <= how->piece_size ? 1 : (chunk + how->piece_size - 1) / how->piece_size;
	*slice = (chunk + *pieces - 1) / *pieces;
}

struct rd_tempo rd_tempo(
	const struct rd_score *score, const struct rd_costs *costs, const struct rd_cut *how)
{
	struct rd_tempo tempo = { 0 };
	uint64_t slice;

	cut(score, how, &slice, &tempo.pieces);

	struct tariff tariff = tariff_of(costs, score->dealing, slice, how->type);
	int64_t ends_ns[PLAYED_PIECES];
	int played = (int)(tempo.pieces < PLAYED_PIECES ? tempo.pieces : PLAYED_PIECES);

	tempo.busy_ns = busy_ns(score, &tariff);
	if (score->sampled) {
		tempo.first_ns = longer(sampled_ns(score, &tariff), tempo.busy_ns);
		tempo.each_ns = tempo.first_ns;
		return tempo;
	}
	if (!play(score, &tariff, played, ends_ns)) {
		tempo.first_ns = NEVER;
		tempo.pieces = 1;
		return tempo;
	}
	tempo.first_ns = ends_ns[0];
	if (played > 1)
		tempo.each_ns = (ends_ns[played - 1] - tempo.first_ns) / (played - 1);
	return tempo;
}

int64_t rd_tempo_price(const struct rd_tempo *tempo, int channels)
{
	/* Channels hide each other's waiting, but not each other's work. */
	int64_t each = longer(tempo->each_ns / channels, channels > 1 ? tempo->busy_ns : 0);

	return tempo->first_ns + (int64_t)(tempo->pieces - 1) * each;
}

int64_t rd_price(
	const struct rd_score *score, const struct rd_costs *costs, const struct rd_cut *how)
{
	struct rd_tempo tempo = rd_tempo(score, costs, how);

	return rd_tempo_price(&tempo, how->channels);
}

/* ---- What does not depend on costs ---------------------------------------------------------- */

static int rounds_of(const struct rd_score *score)
{
	struct rd_costs costs = { .cores = INT32_MAX };
	struct rd_cut cut = { 0, RD_WHOLE, SIZE_MAX, 1 };

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		for (int point = 0; point < RD_COST_POINT_COUNT; point++)
			costs.links[class].way_ns[point] = 1000;
	return (int)((rd_price(score, &costs, &cut) + 500) / 1000);
}

static int load_of(const struct rd_score *score)
{
	int heaviest = 0;

	for (int v = 0; v < score->voice_count; v++) {
		const struct voice *voice = &score->voices[v];
		int taken = 0, put = 0;

		for (int i = voice->first; i < voice->first + voice->count; i++) {
			taken += put_of(score, &score->notes[i]) != NULL;
			put += score->notes[i].puts;
		}
		taken = taken > put ? taken : put;
		heaviest = taken > heaviest ? taken : heaviest;
	}
	return heaviest * 1000 / score->parts;
}

struct rd_shape rd_score_shape(const struct rd_score *score)
{
	return (struct rd_shape){ rounds_of(score), score->peers, load_of(score) };
}
