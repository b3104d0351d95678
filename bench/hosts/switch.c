/*
 * The cables between hosts and their switch: `switch MICROSECONDS MBITS NAMESPACE...`. Each packet
 * that reaches queue 0 (NFQUEUE) of these network namespaces, from 10.7.0.1 on, is held until it
 * would have come through its sender's cable and its receiver's, one after the other's packets,
 * and as long again as a signal takes. Both cables have the same rate, in both directions at once.
 *
 * Kernels without netem have no delay, and the kernel's shapers lose throughput where timers are
 * late. Here a late timer delays packets, and the next are not later for it. Packets stay in the
 * kernel, and only their headers come here. None is lost. Prints "ready", and ends when its
 * standard input does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define HOSTS_MOST 8
#define HELD_MOST 16384 /* packets; a power of two */
#define BUFFER_SIZE (1 << 16)
#define IDLE_NS 500000000
#define FRAME 1500
#define FRAME_EXTRA 90 /* headers of a frame of a large packet, its checksum, and the gap */

struct held {
	uint32_t packet; /* as the kernel numbers it, in network order */
	int to;
	int64_t takes_ns, due_ns;
};

/* Packets leave in the order in which they came. */
struct queue {
	uint32_t first, end;
	struct held held[HELD_MOST];
};

struct host {
	int socket;
	int64_t sends_until_ns, receives_until_ns; /* its cable is busy */
	struct queue sends; /* until their turn on the sender's cable */
	struct queue receives; /* until they are here */
};

static struct host hosts[HOSTS_MOST];
static int host_count;
static int64_t delay_ns;
static double byte_ns;

static void must(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- Messages to the kernel ---------------------------------------------------------------- */

struct message {
	struct nlmsghdr header;
	struct nfgenmsg subject;
	char attributes[64];
};

static struct message begin(int type)
{
	return (struct message){
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
			.nlmsg_type = (uint16_t)(NFNL_SUBSYS_QUEUE << 8 | type),
			.nlmsg_flags = NLM_F_REQUEST },
	};
}

static void add(struct message *message, int type, const void *value, size_t size)
{
	struct nlattr attribute = { (uint16_t)(NLA_HDRLEN + size), (uint16_t)type };
	char *end = (char *)message + message->header.nlmsg_len;

	memcpy(end, &attribute, NLA_HDRLEN);
	memcpy(end + NLA_HDRLEN, value, size);
	message->header.nlmsg_len += NLMSG_ALIGN(attribute.nla_len);
}

static void tell(int socket, const struct message *message)
{
	must(send(socket, message, message->header.nlmsg_len, 0) > 0, "send");
}

/* With the IP header of each packet, and TCP's large packets whole. */
static void bind_queue(int socket)
{
	const struct nfqnl_msg_config_cmd command = { .command = NFQNL_CFG_CMD_BIND };
	const struct nfqnl_msg_config_params params = { .copy_mode = NFQNL_COPY_PACKET,
		.copy_range = htonl(sizeof(struct iphdr)) };
	const uint32_t most = htonl(HELD_MOST), whole = htonl(NFQA_CFG_F_GSO);
	struct message message = begin(NFQNL_MSG_CONFIG);

	add(&message, NFQA_CFG_CMD, &command, sizeof(command));
	add(&message, NFQA_CFG_PARAMS, &params, sizeof(params));
	add(&message, NFQA_CFG_QUEUE_MAXLEN, &most, sizeof(most));
	add(&message, NFQA_CFG_MASK, &whole, sizeof(whole));
	add(&message, NFQA_CFG_FLAGS, &whole, sizeof(whole));
	tell(socket, &message);
}

static void release(int socket, uint32_t packet)
{
	const struct nfqnl_msg_verdict_hdr verdict = { htonl(NF_ACCEPT), packet };
	struct message message = begin(NFQNL_MSG_VERDICT);

	add(&message, NFQA_VERDICT_HDR, &verdict, sizeof(verdict));
	tell(socket, &message);
}

/* ---- Packets ------------------------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void push(struct queue *queue, struct held held)
{
	must(queue->end - queue->first < HELD_MOST, "too many packets");
	queue->held[queue->end++ % HELD_MOST] = held;
}

/* The queue's first packet, if it is due. Else *next_ns is not later than it is. */
static const struct held *first_due(struct queue *queue, int64_t now_ns, int64_t *next_ns)
{
	struct held *held = &queue->held[queue->first % HELD_MOST];

	if (queue->first == queue->end)
		return NULL;
	if (held->due_ns <= now_ns) {
		queue->first++;
		return held;
	}
	*next_ns = held->due_ns < *next_ns ? held->due_ns : *next_ns;
	return NULL;
}

static void hold(int to, uint32_t packet, const struct iphdr *ip)
{
	int from = (int)(ntohl(ip->saddr) & 0xff) - 1;
	int size = ntohs(ip->tot_len);
	int64_t takes_ns = (int64_t)(byte_ns * (size + (size + FRAME - 1) / FRAME * FRAME_EXTRA));

	must(from >= 0 && from < host_count, "a packet of no host");
	struct host *sender = &hosts[from];
	int64_t starts_ns = later(rd_clock_ns(), sender->sends_until_ns);
	sender->sends_until_ns = starts_ns + takes_ns;
	push(&sender->sends, (struct held){ packet, to, takes_ns, starts_ns });
}

/* The last of the packet comes through the receiver's cable as it comes through the sender's,
   unless that has another's to carry. */
static void pass(const struct held *held)
{
	struct host *to = &hosts[held->to];

	to->receives_until_ns = later(held->due_ns, to->receives_until_ns) + held->takes_ns;
	push(&to->receives,
		(struct held){ held->packet, held->to, 0, to->receives_until_ns + delay_ns });
}

static void read_message(int to, const struct nlmsghdr *header)
{
	const char *at = (const char *)header + NLMSG_LENGTH(sizeof(struct nfgenmsg));
	const char *end = (const char *)header + header->nlmsg_len;
	struct nfqnl_msg_packet_hdr packet = { 0 };
	struct iphdr ip = { 0 };
	struct nlattr attribute;

	if (header->nlmsg_type == NLMSG_ERROR) {
		errno = -*(const int *)NLMSG_DATA(header);
		must(errno == 0, "the kernel refuses");
		return;
	}
	for (; at < end; at += NLMSG_ALIGN(attribute.nla_len)) {
		memcpy(&attribute, at, sizeof(attribute));
		if (attribute.nla_type == NFQA_PACKET_HDR)
			memcpy(&packet, at + NLA_HDRLEN, sizeof(packet));
		if (attribute.nla_type == NFQA_PAYLOAD)
			memcpy(&ip, at + NLA_HDRLEN, sizeof(ip));
	}
	hold(to, packet.packet_id, &ip);
}

static void take_packets(int to)
{
	static char buffer[BUFFER_SIZE] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t size;

	while ((size = recv(hosts[to].socket, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
		for (struct nlmsghdr *header = (struct nlmsghdr *)buffer; NLMSG_OK(header, size);
			header = NLMSG_NEXT(header, size))
			read_message(to, header);
	must(errno == EAGAIN, "recv");
}

/* Returns when the next packet is due. */
static int64_t pass_due(void)
{
	int64_t now_ns = rd_clock_ns(), next_ns = now_ns + IDLE_NS;
	const struct held *held;

	for (int i = 0; i < host_count; i++)
		while ((held = first_due(&hosts[i].sends, now_ns, &next_ns)))
			pass(held);
	for (int i = 0; i < host_count; i++)
		while ((held = first_due(&hosts[i].receives, now_ns, &next_ns)))
			release(hosts[i].socket, held->packet);
	return next_ns;
}

/* ---- The loop ------------------------------------------------------------------------------ */

static int open_queue(const char *namespace)
{
	const int size = 1 << 24;
	int file = open(namespace, O_RDONLY | O_CLOEXEC), netlink;

	must(file >= 0 && setns(file, CLONE_NEWNET) == 0, namespace);
	close(file);
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	must(netlink >= 0, "socket");
	setsockopt(netlink, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	bind_queue(netlink);
	return netlink;
}

/* Waits for packets, or until then, and no longer: timers come late, by a mean that this learns. */
static void await(struct pollfd *polls, int64_t until_ns)
{
	static int64_t late_ns;
	int64_t wait_ns = later(until_ns - late_ns - rd_clock_ns(), 0);
	struct timespec wait = { .tv_nsec = wait_ns };
	int64_t expected_ns = rd_clock_ns() + wait_ns;
	int active = ppoll(polls, (nfds_t)host_count + 1, &wait, NULL);

	must(active >= 0, "ppoll");
	if (active == 0 && wait_ns > 0)
		late_ns += (rd_clock_ns() - expected_ns - late_ns) / 8;
}

int main(int argc, char **argv)
{
	struct pollfd polls[HOSTS_MOST + 1] = { { .fd = STDIN_FILENO, .events = POLLIN } };
	int64_t next_ns = 0;

	host_count = argc - 3;
	if (host_count < 1 || host_count > HOSTS_MOST || atol(argv[2]) < 1) {
		fprintf(stderr, "usage: switch MICROSECONDS MBITS NAMESPACE...\n");
		return 2;
	}
	delay_ns = atol(argv[1]) * 1000;
	byte_ns = 8e3 / (double)atol(argv[2]);
	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < host_count; i++) {
		hosts[i].socket = open_queue(argv[3 + i]);
		polls[1 + i] = (struct pollfd){ .fd = hosts[i].socket, .events = POLLIN };
	}
	puts("ready");
	fflush(stdout);
	while (!polls[0].revents) {
		await(polls, next_ns);
		for (int i = 0; i < host_count; i++)
			if (polls[1 + i].revents)
				take_packets(i);
		next_ns = pass_due();
	}
	return 0;
}
