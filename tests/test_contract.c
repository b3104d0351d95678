#include <criterion/criterion.h>

#include "contract.h"

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
