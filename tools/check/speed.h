/* The speed of a link between two processes of this host, as cases beside those of the contract. */
#ifndef CHECK_SPEED_H
#define CHECK_SPEED_H

#include "transports/contract/suite.h"

#define SPEED_TEXT 160

/* Each measures one figure, and writes it to speed_text. NULL name at the end. */
extern const struct contract_case speed_cases[];

/* SPEED_TEXT bytes that the process of a case shares with its parent; set before a case runs. */
extern char *speed_text;

#endif
