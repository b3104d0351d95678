#include "transports/contract/suite.h"

#include <stddef.h>

const struct contract_case contract_cases[] = {
#define LINK_CASE(name) { #name, CONTRACT_LINK, contract_##name },
#define PEER_CASE(name) { #name, CONTRACT_PEER, contract_##name },
#define REGION_CASE(name) { #name, CONTRACT_REGION, contract_##name },
#define REGISTRATION_CASE(name) { #name, CONTRACT_REGISTRATION, contract_##name },
	CONTRACT_LINK_CASES(LINK_CASE) CONTRACT_PEER_CASES(PEER_CASE)
		CONTRACT_REGION_CASES(REGION_CASE)
			CONTRACT_REGISTRATION_CASES(REGISTRATION_CASE){ NULL, CONTRACT_LINK, NULL },
};
