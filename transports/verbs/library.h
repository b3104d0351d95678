/*
 * libibverbs, loaded at run time and only where there are RDMA devices: one binary serves machines
 * with and without it. Nothing is linked with it. The data path needs no function of this table:
 * ibv_post_send(), ibv_poll_cq() and the like are inline functions, which call the provider.
 */
#ifndef RD_VERBS_LIBRARY_H
#define RD_VERBS_LIBRARY_H

#include <infiniband/verbs.h>

/* X(name): the symbol is ibv_NAME. */
#define RD_VERBS_FUNCTIONS(X) \
	X(get_device_list) \
	X(free_device_list) \
	X(get_device_name) \
	X(open_device) \
	X(close_device) \
	X(fork_init) \
	X(query_device) \
	X(query_port) \
	X(get_async_event) \
	X(ack_async_event) \
	X(event_type_str) \
	X(alloc_pd) \
	X(dealloc_pd) \
	X(reg_mr) \
	X(reg_dmabuf_mr) \
	X(dereg_mr) \
	X(create_comp_channel) \
	X(destroy_comp_channel) \
	X(create_cq) \
	X(destroy_cq) \
	X(get_cq_event) \
	X(ack_cq_events) \
	X(create_qp) \
	X(modify_qp) \
	X(query_qp) \
	X(destroy_qp)

struct rd_verbs_library {
#define RD_VERBS_FIELD(name) __typeof__(&(ibv_##name)) name;
	RD_VERBS_FUNCTIONS(RD_VERBS_FIELD)
#undef RD_VERBS_FIELD
};

/* The functions, from the first call that succeeds. It stays loaded until the process ends. */
extern struct rd_verbs_library rd_verbs;

/* Loads the library, unless that is done; threads may call it at once. RONDO_UNSUPPORTED, with a
   reason, where it is missing or too old. */
int rd_verbs_library_load(void);

#endif
