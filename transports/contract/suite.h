/*
 * The contract suite: the behaviour that rondo/transport.h demands of each transport. A case is one
 * function: it takes a transport's name, and ends with require() (fixture.h) if the transport
 * fails.
 *
 * test_contract.c makes tests of the cases; a new transport adds one line there. rondo-check runs
 * them on plug-ins, from the table. No case depends on a certain transport, or on Criterion. Files:
 *
 *   messages    one link carries messages whole and in order
 *   memory      messages in the caller's own memory
 *   ranks       traffic between ranks
 *   progress    messages arrive although no recv() requests them
 *   sleeping    messages and room wake a sleeper
 *   endings     a peer closes, or is killed
 *   connecting  invalid cards, other comms, strangers
 *   regions     peers map each other's memory
 *   registrations  messages in registered memory
 *   leaks       closing leaves nothing behind
 *
 * The suite needs only two parts of the library: the table of transports, and the place of this
 * process.
 */
#ifndef CONTRACT_H
#define CONTRACT_H

/* For any transport: between two ranks, or on a rank's link to itself. */
#define CONTRACT_LINK_CASES(X) \
	X(messages_arrive_in_order_through_many_wraps) \
	X(every_size_keeps_its_payload_and_tag) \
	X(reserving_twice_gives_the_same_room) \
	X(receiving_twice_shows_the_same_message) \
	X(a_link_that_is_full_says_so_and_recovers) \
	X(sent_memory_comes_back_in_order) \
	X(a_message_lands_where_it_is_wanted) \
	X(nothing_is_left_behind)

/* For transports that link different ranks. */
#define CONTRACT_PEER_CASES(X) \
	X(threads_send_both_ways_at_once) \
	X(processes_send_both_ways_at_once) \
	X(a_full_mesh_of_eight_endpoints_works) \
	X(channels_do_not_mix) \
	X(two_messages_each_way_find_room_unasked) \
	X(messages_that_fill_the_way_pass_each_other_unasked) \
	X(sleepers_take_in_what_they_did_not_ask_for) \
	X(a_sleeper_takes_in_what_it_does_not_wait_for) \
	X(messages_that_fill_the_way_go_round_unasked) \
	X(who_awaits_one_rank_takes_in_what_another_sends) \
	X(messages_outlive_their_sender_in_threads) \
	X(messages_outlive_their_sender_in_processes) \
	X(a_killed_peer_breaks_the_link_after_its_last_message) \
	X(a_killed_peer_wakes_a_sleeper) \
	X(a_killed_reader_breaks_a_sender_without_room) \
	X(a_bad_card_is_an_error) \
	X(a_peer_that_left_before_the_link_was_ready_does_no_harm) \
	X(another_comm_is_kept_out) \
	X(strangers_do_not_get_in_the_way) \
	X(sleeping_threads_are_woken_by_messages) \
	X(sleeping_processes_are_woken_by_messages) \
	X(sleeping_threads_are_woken_by_room) \
	X(sleeping_processes_are_woken_by_room) \
	X(a_message_that_meets_its_reader_falling_asleep_wakes_it) \
	X(room_that_meets_its_writer_falling_asleep_wakes_it) \
	X(a_sleeper_is_woken_while_links_become_ready)

/* For transports with offer(), withdraw() and map(). */
#define CONTRACT_REGION_CASES(X) \
	X(a_region_is_mapped_after_a_message_in_threads) \
	X(a_region_is_mapped_after_a_message_in_processes) \
	X(a_killed_peers_region_stays_where_it_is_mapped) \
	X(many_regions_come_and_go) \
	X(a_region_is_offered_to_every_peer_and_belongs_to_one) \
	X(what_is_no_sound_region_is_not_mapped) \
	X(no_region_is_left_behind)

/* For transports with attach() and detach(). */
#define CONTRACT_REGISTRATION_CASES(X) \
	X(messages_leave_and_arrive_in_registered_memory) \
	X(new_memory_at_the_address_of_old_is_used) \
	X(another_thread_registers_while_messages_go) \
	X(a_halted_endpoint_leaves_its_callers_memory) \
	X(a_refused_registration_does_no_harm) \
	X(no_registration_is_left_behind)

#define CONTRACT_DECLARE(name) void contract_##name(const char *transport);
CONTRACT_LINK_CASES(CONTRACT_DECLARE)
CONTRACT_PEER_CASES(CONTRACT_DECLARE)
CONTRACT_REGION_CASES(CONTRACT_DECLARE)
CONTRACT_REGISTRATION_CASES(CONTRACT_DECLARE)
#undef CONTRACT_DECLARE

enum contract_needs { CONTRACT_LINK, CONTRACT_PEER, CONTRACT_REGION, CONTRACT_REGISTRATION };

struct contract_case {
	const char *name; /* NULL at the end of the table */
	enum contract_needs needs;
	void (*run)(const char *transport);
};

extern const struct contract_case contract_cases[];

#endif
