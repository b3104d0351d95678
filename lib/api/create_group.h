/* Making a comm of some ranks of another one. */
#ifndef RD_CREATE_GROUP_H
#define RD_CREATE_GROUP_H

#include "comm/comm.h"

/*
 * Makes the comm of these ranks of the parent, this one among them, in their order. They meet at
 * the place of the first. purpose: another one each time that the same ranks make a comm; the same
 * on all of them. Returns 0 or an error.
 */
int rd_comm_make_group(
	rondo_comm *parent, const int *ranks, int count, uint64_t purpose, rondo_comm **made);

#endif
