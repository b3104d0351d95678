/*
 * Drawn text: paragraphs of a small grammar of English. Subject and verb agree in number, a
 * paragraph keeps its person and pronoun, and quotes and brackets close. So a model of longer
 * context has more to learn.
 */
#include "train/data/draw.h"

#include <stdbool.h>
#include <string.h>

#include "train/base/rng.h"

struct writer {
	char *text; /* [size] */
	size_t size, at;
	struct rng rng;
};

struct person {
	const char *name, *pronoun, *own;
};

struct noun {
	const char *one, *many;
};

/* In the present tense: "sees", "see". */
struct verb {
	const char *one, *many;
};

static const struct person people[] = {
	{ "Anna", "she", "her" },
	{ "Berta", "she", "her" },
	{ "Clara", "she", "her" },
	{ "Dora", "she", "her" },
	{ "Emil", "he", "his" },
	{ "Frank", "he", "his" },
	{ "Georg", "he", "his" },
	{ "Hugo", "he", "his" },
};
static const struct noun nouns[] = { { "cat", "cats" }, { "dog", "dogs" }, { "mouse", "mice" },
	{ "child", "children" }, { "house", "houses" }, { "apple", "apples" }, { "boat", "boats" },
	{ "wolf", "wolves" }, { "tree", "trees" }, { "letter", "letters" }, { "goose", "geese" },
	{ "stone", "stones" } };
static const struct verb actions[] = { { "sees", "see" }, { "finds", "find" }, { "likes", "like" },
	{ "follows", "follow" }, { "carries", "carry" }, { "draws", "draw" }, { "wants", "want" },
	{ "watches", "watch" } };
static const struct verb states[] = { { "sleeps", "sleep" }, { "waits", "wait" },
	{ "sings", "sing" }, { "falls", "fall" }, { "shines", "shine" },
	{ "goes away", "go away" } };
static const char *const qualities[] = { "old", "small", "green", "quiet", "heavy", "bright",
	"strange", "round" };
static const char *const places[] = { "in the garden", "by the river", "on the hill",
	"behind the door", "under the bridge", "at the market" };
static const char *const times[] = { "In the morning", "At night", "On Sunday", "In winter",
	"After the rain", "Sometimes" };
static const char *const numbers[] = { "two", "three", "four", "five", "six", "seven" };

#define PICK(writer, table) \
	(&(table)[rng_below(&(writer)->rng, sizeof(table) / sizeof((table)[0]))])

/* Cuts the word where the text is full. */
static void put(struct writer *writer, const char *word)
{
	size_t length = strlen(word), room = writer->size - writer->at;
	length = length < room ? length : room;
	memcpy(writer->text + writer->at, word, length);
	writer->at += length;
}

static void put_quality(struct writer *writer)
{
	if (rng_below(&writer->rng, 2)) {
		put(writer, *PICK(writer, qualities));
		put(writer, " ");
	}
}

/* "the old cat", "three green mice"; returns whether it is one. */
static bool put_things(struct writer *writer)
{
	bool one = rng_below(&writer->rng, 2);
	put(writer, one ? "the" : *PICK(writer, numbers));
	put(writer, " ");
	put_quality(writer);
	const struct noun *noun = PICK(writer, nouns);
	put(writer, one ? noun->one : noun->many);
	return one;
}

/* "three mice sleep (by the river)" */
static void put_scene(struct writer *writer)
{
	bool one = put_things(writer);
	const struct verb *verb = PICK(writer, states);
	put(writer, " ");
	put(writer, one ? verb->one : verb->many);
	if (rng_below(&writer->rng, 3))
		return;
	put(writer, " (");
	put(writer, *PICK(writer, places));
	put(writer, ")");
}

/* "she sees her dog and the old stone" */
static void put_deed(struct writer *writer, const struct person *person, const char *subject)
{
	put(writer, subject);
	put(writer, " ");
	put(writer, PICK(writer, actions)->one);
	put(writer, " ");
	put(writer, person->own);
	put(writer, " ");
	put_quality(writer);
	put(writer, PICK(writer, nouns)->one);
	if (rng_below(&writer->rng, 2)) {
		put(writer, " and ");
		put_things(writer);
	}
}

static void put_sentence(struct writer *writer, const struct person *person)
{
	switch (rng_below(&writer->rng, 4)) {
	case 0:
		put_deed(writer, person, person->name);
		break;
	case 1:
		put(writer, *PICK(writer, times));
		put(writer, " ");
		put_deed(writer, person, person->pronoun);
		break;
	case 2:
		put(writer, *PICK(writer, times));
		put(writer, " ");
		put_scene(writer);
		break;
	default:
		put(writer, person->name);
		put(writer, " says: \"Here ");
		put_scene(writer);
		put(writer, "!\" So ");
		put_deed(writer, person, person->pronoun);
	}
	put(writer, ".");
}

void draw_text(char *text, size_t size, uint64_t seed)
{
	struct writer writer = { .text = text, .size = size };
	for (uint64_t paragraph = 0; writer.at < size; paragraph++) {
		writer.rng = rng_make(seed, paragraph);
		const struct person *person = PICK(&writer, people);
		for (int left = 3 + (int)rng_below(&writer.rng, 4); left > 0; left--) {
			put_sentence(&writer, person);
			put(&writer, left > 1 ? " " : "\n\n");
		}
	}
}
