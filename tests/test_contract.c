#include <criterion/criterion.h>

#include "contract.h"

#define LOOP_TEST(name) \
	Test(loop, name, .timeout = 60) \
	{ \
		contract_##name("loop"); \
	}
CONTRACT_LINK_CASES(LOOP_TEST)

/* A transport between ranks must do these as well:
   #define SHM_TEST(name) ...  CONTRACT_LINK_CASES(SHM_TEST) CONTRACT_PEER_CASES(SHM_TEST) */
