/*
 * The coordinator: rank 0's state machine, by which ranks meet and failures become a verdict
 * (rendezvous.h). For one thread at a time.
 *
 * coordinator.c takes what happens, and chooses what is sent. join.c holds its life, numbers the
 * connections, admits ranks and lets them leave; links.c has them open their links. diagnose.c
 * queries all ranks, judges failures and decides the verdict; slow_call.c judges slow calls.
 * Callers read the state, and change it by the functions alone.
 */
#ifndef RD_COORDINATOR_H
#define RD_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/control_message.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"
#include "bootstrap/rendezvous.h"

struct rd_control_socket;

struct rd_coordinator_connection {
	struct rd_control_socket *socket; /* the caller's; NULL: none */
	bool open;
	bool dropped; /* the caller is to close it, and then to call rd_coordinator_closed() */
	bool refused; /* kept until it has received the reason */
	int rank; /* -1: its first message is due, or it was refused */
	rd_control_kinds to_send; /* beside the table and fallbacks: */
	int parts_sent; /* of coordinator->table */
	int fallbacks_sent; /* of coordinator->fallbacks: all up to here that concern its rank */
	int opened_sent; /* of its rank's `opened` */
	int late_sent; /* of all ranks: STRAGGLERS has gone out for those below */
	uint32_t timeout_ms; /* of the rank at the other end */
	uint64_t number; /* in the order in which connections were made */
	int64_t opened_ms, received_ms, heartbeat_ms;
};

/* The state of a rank. */
struct rd_coordinator_rank {
	int connection; /* its number; -1: none, or no longer */
	bool joined, ready, left, answered;
	bool refused; /* it came, and could not join */
	uint32_t fallbacks; /* of its links */
	struct rd_rank_list opened; /* ranks that have opened links to it */
	struct rd_link_limits limits; /* of its links, once it is ready */
	struct rd_place place;
	struct rd_identity *identity; /* until the table is made */
	uint32_t calls; /* from its ANSWER or BYE */
	uint32_t done;
	int collective, waiting_for;
	uint32_t waited_ms; /* for that rank */
	struct rd_signature slept_in; /* from its ANSWER; number 0: none */
	char called_at[RD_CALL_SITE_SIZE], waits_at[RD_CALL_SITE_SIZE]; /* from its ANSWER */
	uint64_t digest; /* of its calls */
	bool straggles; /* has not joined the slow call */
	bool late; /* lives, and holds up the call whose timeout is the verdict */
	/* Its latest report, of a failure or of a slow call: */
	int report; /* the error; 0: none, or a slow call */
	int culprit; /* -1: none */
	char *reason; /* base/error.h */
};

enum rd_coordinator_phase {
	RD_COORDINATOR_JOINING,
	RD_COORDINATOR_OPENING,
	RD_COORDINATOR_RUNNING
};

struct rd_coordinator {
	const struct rd_settings *settings;
	int size;
	const char *address;
	struct rd_comm_id id;
	enum rd_coordinator_phase phase;
	bool closed; /* no rank can join any more */
	int joined, ready, refused;
	/* For the reason, if ranks do not come; the caller sets both: the errno by which rank 0
	   cannot accept a connection at present (0: it can), and how many connections spoke another
	   language, or had another secret. */
	int accept_error;
	uint32_t foreign;
	uint64_t opened; /* connections, open or closed */
	struct rd_table_part *table; /* [part_count]: once all have joined, until it is sent */
	int part_count, tables_due; /* to ranks */
	struct rd_link_failures fallbacks; /* in the order in which they came */
	char *costs; /* once rank 0 has sent them; NULL: not yet */
	int first_leaver; /* all leavers made as many calls; -1: none has left */
	int leaver_count;
	int64_t ticked_ms, init_ms, leave_ms; /* the latter two: deadlines */

	/* The query of all ranks, of a failure or of a slow call. */
	uint32_t query; /* its number */
	int64_t query_ms; /* its end */

	/* Failures: */
	int failure_reporter; /* the first; -1: none */
	bool broken; /* one of the reports is of a broken link */
	/* A rank whose connection has ended (-1: none), and until when another of its host may
	   report that: which calls it had finished, if a death ended the connection; that it died
	   at all, if a reset did. */
	int gone;
	bool gone_died;
	int64_t gone_ms;

	/* Slow calls: queried about while no failure is. */
	int slow_rank, next_slow_rank; /* ranks whose calls are slow; -1: none */
	uint32_t slow_line_ms; /* of slow_rank's SLOW */
	uint32_t slow_due_ms; /* slow_text is to be logged: the wait that it is of; 0: it is not */
	char *slow_text;
	/* The latest collective that was logged as slow, and after which wait. */
	uint32_t slow_logged, slow_logged_ms;

	int error; /* the verdict, once there is one */
	int lost; /* the rank that it is about, which died or was lost; -1: none */
	uint32_t spared; /* up to this call, those of other ranks may still end well */
	char *reason;

	/* Grows as connections beside those of ranks come, up to RD_PENDING_MAX of them. */
	int connection_count;
	struct rd_coordinator_connection *connections;
	struct rd_coordinator_rank *ranks;
};

/* settings: of rank 0; outlive the coordinator. address: the one where rank 0 listens, for
   reasons. */
int rd_coordinator_create(struct rd_coordinator **coordinator, const struct rd_settings *settings,
	const char *address, const struct rd_comm_id *id, int64_t now_ms);
void rd_coordinator_destroy(struct rd_coordinator *coordinator);

/* Whether a rank may still join. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator);
/* The number of a new connection, whose first message follows; -1: none is free. */
int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms);
/* The connection to close where no number is free: the oldest that has been sent why it is refused.
   -1: none. */
int rd_coordinator_oldest_refused(const struct rd_coordinator *coordinator);

/* A message has come. */
void rd_coordinator_take(struct rd_coordinator *coordinator, int connection,
	const struct rd_control_message *message, int64_t now_ms);
/* Bytes have come that are no message, or a message at the wrong time. */
void rd_coordinator_bad_message(struct rd_coordinator *coordinator, int connection, int64_t now_ms);
/* The connection is closed: error is its errno, 0 for an end of file. Frees the number. */
void rd_coordinator_closed(
	struct rd_coordinator *coordinator, int connection, int error, int64_t now_ms);
/* This rank cannot take part: others that connect receive the reason. */
void rd_coordinator_decline(
	struct rd_coordinator *coordinator, int rank, int error, const char *reason);
/* A failure in rank 0 that ends the comm; no rank can join any more. */
void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason);
/* Time has passed. */
void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms);

/* A heartbeat is to be sent here, beside those that keep the bound of heartbeats. */
void rd_coordinator_beat(struct rd_coordinator *coordinator, int connection);
/* The next message to send over this connection; false: none now. */
bool rd_coordinator_next(
	struct rd_coordinator *coordinator, int connection, struct rd_control_message *message);
/* When rd_coordinator_tick() must be called next, at the latest. */
int64_t rd_coordinator_deadline(const struct rd_coordinator *coordinator);

/* Whether a line is due after waited_ms, the last one having come after logged_ms (0: none): about
   twice as late. Ranks that began to wait a little later are not logged again. */
static inline bool rd_coordinator_is_next_line(uint32_t waited_ms, uint32_t logged_ms)
{
	return waited_ms >= logged_ms + logged_ms / 2;
}

/* text: a line to log about a slow call. Returns for how long that has waited; 0: there is no line.
   A call has one line each time that its wait has doubled. */
uint32_t rd_coordinator_slow_call(struct rd_coordinator *coordinator, char text[RD_REASON_SIZE]);

/* The verdict: 0, or its error; *reason is the coordinator's. */
int rd_coordinator_verdict(const struct rd_coordinator *coordinator, const char **reason);
/* Rank 0 leaves, and waits for all others until then. */
void rd_coordinator_end_by(struct rd_coordinator *coordinator, int64_t deadline_ms);
/* There is a verdict, or all have left. */
bool rd_coordinator_decided(const struct rd_coordinator *coordinator);
/* Decided, and all ranks have left, or received the verdict and closed their connections. After a
   failure to meet, this waits for ranks that have yet to connect: bound the wait. */
bool rd_coordinator_over(const struct rd_coordinator *coordinator);

/* Among its own files, each of which calls those above it: */

/* ---- diagnose.c: judges failures by a query of all ranks, and decides the verdict ------------ */

/* Sets the verdict and sends it to all ranks. The first stands: a later one is likely its
   consequence. */
void rd_coordinator_decide(struct rd_coordinator *coordinator, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Before rd_coordinator_decide(): the verdict is about this rank, which died or was lost. */
void rd_coordinator_lose(struct rd_coordinator *coordinator, int rank);

/* Before rd_coordinator_decide(): a rank that died or left had finished so many calls. Others may
   finish these, too, and have the verdict afterwards. */
void rd_coordinator_spare(struct rd_coordinator *coordinator, uint32_t calls);

/* Sends a message of this kind to all ranks that have not left. */
void rd_coordinator_send_to_all(struct rd_coordinator *coordinator, enum rd_control_kind kind);

/* "rank 2 (host a, pid 17)". */
const char *rd_coordinator_name_rank(
	const struct rd_coordinator *coordinator, int rank, char name[RD_RANK_NAME_SIZE]);
/* "all_reduce #17". */
const char *rd_coordinator_name_call(int collective, uint32_t number, char name[RD_RANK_NAME_SIZE]);
/* "rank 2 of 4 has", "ranks 2, 3 and 5 of 8 have". */
void rd_coordinator_name_ranks(const struct rd_coordinator *coordinator,
	bool (*which)(const struct rd_coordinator_rank *), char *text, size_t size);

/* A QUERY to all ranks, and their answers. */

/* Queries all ranks; earlier answers count no more. The query ends after RD_QUERY_MS. */
void rd_query_all(struct rd_coordinator *coordinator, int64_t now_ms);

/* An ANSWER has come from this rank. True: it is the last one that the query waits for. */
bool rd_query_take_answer(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message);

/* A rank that has not answered; the suspect, if it has not (-1: none). Returns -1 if all have. */
int rd_query_unresponsive(const struct rd_coordinator *coordinator, int suspect);

/* The number of the collective that a rank is in, or was last. */
uint32_t rd_query_present_call(const struct rd_coordinator_rank *state);

/* For how long a rank has waited, in whole seconds where it was one or more. */
int64_t rd_query_wait_ms(const struct rd_coordinator_rank *state);

/* A verdict where two ranks wait in different calls of one number: each for messages that the other
   never sends. False: there are none. */
bool rd_query_judge_calls(struct rd_coordinator *coordinator);

/* Failures. */

/* The first REPORT starts a query of all ranks. Once all have answered, or RD_QUERY_MS have passed,
   the verdict names the rank at fault. */

/* A REPORT has come from this rank. */
void rd_diagnose_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* This rank has left, which is a failure where another has reported to wait for it. */
void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver);

/* A participant, or the coordinator, has waited for the others for init_timeout_ms. */
void rd_diagnose_give_up(struct rd_coordinator *coordinator);

/* All ranks have answered. Silence is judged at once. Where a link broke, the query continues for
   RD_QUERY_MS: the report of a death may come later than that of the broken link. */
void rd_diagnose_answered(struct rd_coordinator *coordinator);

/* Judges the failure by the answers so far. */
void rd_diagnose_judge(struct rd_coordinator *coordinator);

/* ---- slow_call.c: judges slow calls ---------------------------------------------------------- */

/* A SLOW starts a query of all ranks, unless a failure is queried about. Most often it ends with a
   line in the log. Ranks that wait for each other, or in different calls, are a verdict. */

/* A SLOW has come from this rank. */
void rd_slow_call_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* Judges the slow call: all ranks have answered the query, or its time is over. */
void rd_slow_call_judge(struct rd_coordinator *coordinator, int64_t now_ms);

/* ---- links.c: ranks open their links, or fall back to the next transport --------------------- */

/* A LINK_FAILED has come from this rank. Both of a pair may send it: the second changes nothing.
   False: it makes no sense. */
bool rd_links_failed(
	struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure);
/* An OPEN has come from this rank. False: it makes no sense. */
bool rd_links_open(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message);
/* This rank has left: those that open links to it learn of it. */
void rd_links_left(struct rd_coordinator *coordinator, int leaver);
/* A READY has come from a rank that is not ready. */
void rd_links_ready(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state,
	const struct rd_control_message *message);

/* The least limits of all ranks' links, once all are ready. */
struct rd_link_limits rd_links_limits(const struct rd_coordinator *coordinator);

/* ---- join.c: admits ranks, or refuses them, and lets them leave ------------------------------ */

/* Takes the first message over a connection: a HELLO, or a REPORT of a rank that cannot take
   part. */
void rd_join_first(struct rd_coordinator *coordinator, struct rd_coordinator_connection *connection,
	const struct rd_control_message *message);

/* A BYE has come from the rank of this connection. */
void rd_join_bye(struct rd_coordinator *coordinator, struct rd_coordinator_connection *connection,
	const struct rd_control_message *message);

#endif
