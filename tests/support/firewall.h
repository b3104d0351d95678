/* A firewall of nftables on a host of hosts.h, which stands for one on the way there. */
#ifndef FIREWALL_H
#define FIREWALL_H

#include "hosts.h"

/* Answers each TCP packet that comes to the host by a reset, and takes none but resets. */
#define FIREWALL_RESETS \
	"table inet wall { chain in { type filter hook input priority 0;\n" \
	"iifname \"eth0\" tcp flags & rst == 0 reject with tcp reset\n}\n}\n"
/* Refuses the first of each two attempts to connect. */
#define FIREWALL_REFUSES \
	"table inet wall { chain in { type filter hook input priority 0;\niifname \"eth0\" " \
	"tcp flags & (syn | ack) == syn numgen inc mod 2 0 reject with tcp reset\n}\n}\n"
/* Forgets a connection where nothing passed for 2 s, and resets it at its next packet. */
#define FIREWALL_FORGETS_S 2
#define FIREWALL_FORGETS \
	"table inet wall { chain in { type filter hook input priority 0;\n" \
	"iifname \"eth0\" ct state invalid tcp flags & rst == 0 reject with tcp reset\n}\n}\n"
#define FIREWALL_NONE "delete table inet wall\n"

/* For any process of the test. False: nft is missing, or the kernel has not what it needs. */
bool firewall_set(const struct hosts *hosts, int host, const char *rules);

#endif
