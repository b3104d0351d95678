/* ctest label: threads */
/* The contract suite for each transport; shm and tcp also as comms of a job use them, tcp over IPv4
   and IPv6, with TLS, and with checksums. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "registering.h"
#include "secure/tls.h"
#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"

#define LOOP_TEST(name) \
	Test(loop, name, .timeout = 60) \
	{ \
		contract_##name("loop"); \
	}
CONTRACT_LINK_CASES(LOOP_TEST)

#define SHM_TEST(name) \
	Test(shm, name, .timeout = 60) \
	{ \
		contract_##name("shm"); \
	}
CONTRACT_LINK_CASES(SHM_TEST)
CONTRACT_PEER_CASES(SHM_TEST)
CONTRACT_REGION_CASES(SHM_TEST)

static void use_job(void)
{
	fixture_shares = true;
}

#define SHARED_TEST(name) \
	Test(shared, name, .timeout = 60, .init = use_job) \
	{ \
		contract_##name("shm"); \
	}
CONTRACT_LINK_CASES(SHARED_TEST)
CONTRACT_PEER_CASES(SHARED_TEST)
CONTRACT_REGION_CASES(SHARED_TEST)

#define TCP_TEST(name) \
	Test(tcp, name, .timeout = 60) \
	{ \
		contract_##name("tcp"); \
	}
CONTRACT_LINK_CASES(TCP_TEST)
CONTRACT_PEER_CASES(TCP_TEST)

#define SHARED_TCP_TEST(name) \
	Test(shared_tcp, name, .timeout = 60, .init = use_job) \
	{ \
		contract_##name("tcp"); \
	}
CONTRACT_PEER_CASES(SHARED_TCP_TEST)

static void use_ipv6(void)
{
	fixture_address = "::1";
}

#define TCP6_TEST(name) \
	Test(tcp6, name, .timeout = 60, .init = use_ipv6) \
	{ \
		contract_##name("tcp"); \
	}
CONTRACT_LINK_CASES(TCP6_TEST)
CONTRACT_PEER_CASES(TCP6_TEST)

static void use_tls(void)
{
	static const unsigned char psk[RD_PSK_SIZE] = "of this job";

	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	fixture_psk = psk;
}

#define TLS_TEST(name) \
	Test(tls, name, .timeout = 60, .init = use_tls) \
	{ \
		contract_##name("tcp"); \
	}
CONTRACT_LINK_CASES(TLS_TEST)
CONTRACT_PEER_CASES(TLS_TEST)

static void use_checksums(void)
{
	setenv("RONDO_CHECKSUM", "1", 1);
}

#define CHECKSUM_TEST(name) \
	Test(checksums, name, .timeout = 60, .init = use_checksums) \
	{ \
		contract_##name("tcp"); \
	}
CONTRACT_LINK_CASES(CHECKSUM_TEST)
CONTRACT_PEER_CASES(CHECKSUM_TEST)

/* shm by another name, which keeps records of registered memory. */
#define REGISTERS_TEST(name) \
	Test(registers, name, .timeout = 60, .init = registering_add) \
	{ \
		contract_##name("registers"); \
	}
CONTRACT_REGISTRATION_CASES(REGISTERS_TEST)
