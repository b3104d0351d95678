#include "transports/verbs/status.h"

#include <stddef.h>

#define STATUS(name, meaning) [name] = { #name, meaning }

/* Those that a reliable connected queue pair may report. */
static const struct rd_verbs_status statuses[] = {
	STATUS(IBV_WC_LOC_LEN_ERR, "a request here is longer than the device allows"),
	STATUS(IBV_WC_LOC_QP_OP_ERR, "the device here cannot send: its port may be down"),
	STATUS(IBV_WC_LOC_PROT_ERR, "memory here is not registered (any more)"),
	STATUS(IBV_WC_WR_FLUSH_ERR, "the queue pair is in error"),
	STATUS(IBV_WC_BAD_RESP_ERR, "the peer's device sent an answer that makes no sense"),
	STATUS(IBV_WC_LOC_ACCESS_ERR, "the peer wrote where it must not"),
	STATUS(IBV_WC_REM_INV_REQ_ERR, "the peer's device refused a request as invalid"),
	STATUS(IBV_WC_REM_ACCESS_ERR, "the peer's memory is not registered (any more)"),
	STATUS(IBV_WC_REM_OP_ERR, "the peer's device failed"),
	STATUS(IBV_WC_RETRY_EXC_ERR,
		"no answer: a port, cable or switch is down, or drops packets"),
	STATUS(IBV_WC_RNR_RETRY_EXC_ERR, "the peer had no receive posted"),
	STATUS(IBV_WC_REM_ABORT_ERR, "the peer's device aborted the request"),
	STATUS(IBV_WC_FATAL_ERR, "the device here failed"),
	STATUS(IBV_WC_RESP_TIMEOUT_ERR, "the peer's device answered too late"),
	STATUS(IBV_WC_GENERAL_ERR, "the device here reported no cause"),
};

struct rd_verbs_status rd_verbs_completion_status(enum ibv_wc_status status)
{
	size_t at = (size_t)status;

	if (at < sizeof(statuses) / sizeof(*statuses) && statuses[at].name)
		return statuses[at];
	return (struct rd_verbs_status){ "an unknown status", "see the log of the kernel" };
}

const char *rd_verbs_event_text(enum ibv_event_type event)
{
	switch (event) {
	case IBV_EVENT_CQ_ERR:
		return "its completion queue overflowed";
	case IBV_EVENT_QP_FATAL:
		return "the queue pair had a fatal error";
	case IBV_EVENT_QP_REQ_ERR:
		return "the peer sent an invalid request";
	case IBV_EVENT_QP_ACCESS_ERR:
		return "the peer wrote where it must not";
	case IBV_EVENT_DEVICE_FATAL:
		return "the device failed";
	case IBV_EVENT_PORT_ERR:
		return "the port is down";
	default:
		return NULL;
	}
}
