#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRANSPORTS 3 /* of which the last always works */

static const struct {
	const char *name;
	int count;
	bool strikes;
} kinds[] = {
#define FAULT_ROW(name, count, strikes) { #name, count, strikes },
	FAULT_KINDS(FAULT_ROW)
#undef FAULT_ROW
};

bool fault_strikes(const struct fault *fault)
{
	return kinds[fault->kind].strikes;
}

/* Half of them are over before any bound. */
static int draw_ms(struct draw *stream)
{
	switch (draw(stream, 6)) {
	case 0:
		return 0;
	case 1:
		return 500 + (int)draw(stream, 1500);
	case 2:
		return 1500 + (int)draw(stream, 6000);
	default:
		return 1 + (int)draw(stream, 200);
	}
}

/* Draws one of these kinds; NULL: of all. */
static void draw_fault(struct fault *fault, struct draw *stream, int size, int calls,
	const enum fault_kind *among, size_t kind_count)
{
	int rank = (int)draw(stream, (uint64_t)size);
	int other = (rank + 1 + (int)draw(stream, (uint64_t)size - 1)) % size;
	int call = (int)draw(stream, (uint64_t)calls);
	int ms = draw_ms(stream);

	*fault = (struct fault){ .kind = (enum fault_kind)draw(stream, kind_count) };
	if (among)
		fault->kind = among[fault->kind];
	/* Early events are those of the rendezvous: as likely as all others. */
	if (fault_strikes(fault))
		fault->event = 1 + (unsigned)draw(stream, UINT64_C(1) << (3 + draw(stream, 9)));
	fault->number[0] = rank;
	fault->number[1] = other;
	switch (fault->kind) {
	case FAULT_reject:
	case FAULT_partition:
		fault->number[0] = 1 + (int)draw(stream, (UINT64_C(1) << size) - 2);
		fault->number[1] = ms;
		break;
	case FAULT_pause:
		fault->number[1] = ms;
		break;
	case FAULT_strange:
		fault->number[0] = (int)draw(stream, 4);
		break;
	case FAULT_late:
		fault->number[1] = ms;
		break;
	case FAULT_lag:
		fault->number[1] = call;
		fault->number[2] = ms ? ms : 9000;
		break;
	case FAULT_differ:
		fault->number[1] = call;
		fault->number[2] = (int)draw(stream, 3);
		break;
	case FAULT_revoke:
	case FAULT_leave:
	case FAULT_quit:
		fault->number[1] = call;
		break;
	case FAULT_refuse:
		fault->number[1] = 1 + (int)draw(stream, 5);
		break;
	case FAULT_deaf:
	case FAULT_shut:
		fault->number[2] = (int)draw(stream, TRANSPORTS - 1);
		break;
	default:
		break;
	}
}

void faults_draw_of(struct faults *faults, struct draw *stream, int size, int calls,
	const enum fault_kind *among, size_t kind_count)
{
	/* One run in six has none, most have one or two. */
	static const int counts[] = { 0, 1, 1, 2, 2, 4 };

	faults->count = counts[draw(stream, 6)];
	for (int i = 0; i < faults->count; i++)
		draw_fault(&faults->at[i], stream, size, calls, among, kind_count);
}

void faults_draw(struct faults *faults, struct draw *stream, int size, int calls)
{
	faults_draw_of(faults, stream, size, calls, NULL, FAULT_KIND_COUNT);
}

static bool fits(const struct fault *fault, int size, int calls)
{
	const int *number = fault->number;

	switch (fault->kind) {
	case FAULT_reject:
	case FAULT_partition:
		return number[0] > 0 && number[0] < (1 << size) - 1;
	case FAULT_strange:
		return true;
	case FAULT_sever:
	case FAULT_flip:
	case FAULT_deaf:
	case FAULT_shut:
		return number[0] < size && number[1] < size && number[0] != number[1] &&
		       number[2] < TRANSPORTS - 1;
	case FAULT_differ:
	case FAULT_revoke:
	case FAULT_leave:
	case FAULT_quit:
	case FAULT_lag:
		return number[0] < size && number[1] < calls;
	default:
		return number[0] < size;
	}
}

void faults_fit(struct faults *faults, int size, int calls)
{
	int kept = 0;

	for (int i = 0; i < faults->count; i++)
		if (fits(&faults->at[i], size, calls))
			faults->at[kept++] = faults->at[i];
	faults->count = kept;
}

void faults_print(const struct faults *faults, char text[FAULTS_TEXT])
{
	int length = 0;

	text[0] = '\0';
	for (int i = 0; i < faults->count; i++) {
		const struct fault *fault = &faults->at[i];

		length += snprintf(
			text + length, (size_t)(FAULTS_TEXT - length), "%s", i > 0 ? "," : "");
		if (fault_strikes(fault))
			length += snprintf(
				text + length, (size_t)(FAULTS_TEXT - length), "%u:", fault->event);
		length += snprintf(text + length, (size_t)(FAULTS_TEXT - length), "%s",
			kinds[fault->kind].name);
		for (int k = 0; k < kinds[fault->kind].count; k++)
			length += snprintf(text + length, (size_t)(FAULTS_TEXT - length), " %d",
				fault->number[k]);
	}
}

static bool read_fault(struct fault *fault, const char **at)
{
	char name[16];
	int used = 0, kind;

	*fault = (struct fault){ .event = 0 };
	if (sscanf(*at, " %u:%n", &fault->event, &used) == 1 && used > 0)
		*at += used;
	if (sscanf(*at, " %15[a-z]%n", name, &used) != 1)
		return false;
	*at += used;
	for (kind = 0; kind < FAULT_KIND_COUNT && strcmp(kinds[kind].name, name) != 0; kind++)
		;
	if (kind == FAULT_KIND_COUNT)
		return false;
	fault->kind = (enum fault_kind)kind;
	for (int k = 0; k < kinds[kind].count; k++) {
		char *end;
		long number = strtol(*at, &end, 10);

		if (end == *at || number < 0 || number > 1000000)
			return false;
		fault->number[k] = (int)number;
		*at = end;
	}
	return true;
}

bool faults_read(struct faults *faults, const char *text)
{
	faults->count = 0;
	while (*text) {
		if (faults->count == FAULTS_MAX || !read_fault(&faults->at[faults->count++], &text))
			return false;
		if (*text == ',')
			text++;
		else if (*text)
			return false;
	}
	return true;
}
