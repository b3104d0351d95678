/*
 * Topologies as JSON. One table lists the members of each object. Reading and writing both use it,
 * so they cannot differ.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/descriptor.h"
#include "base/json.h"
#include "topo/topology.h"
#include "topo/topology_file.h"

#define FORMAT 1
#define NO_COUNT ((size_t)-1)

enum kind { INT, WIDE, FLAG, TEXT, CPUS, PATH, LIST };

/* A member of an object; or an element of a list, which has no key. */
struct field {
	const char *key;
	enum kind kind;
	bool required;
	size_t offset;
	int64_t least, most; /* INT, WIDE: the range; most is the size of TEXT, and of a LIST */
	/*
	 * LIST: offset of its count (NO_COUNT: zeros at its end are not written), and its elements,
	 * `stride` bytes apart.
	 */
	size_t count, stride;
	const struct field *element;
};

#define MEMBER(object, name) .key = #name, .offset = offsetof(struct object, name)
#define NUMBER_(object, name, least_, most_) \
	{ \
		MEMBER(object, name), .kind = INT, .least = (least_), .most = (most_) \
	}
#define FLAG_(object, name) \
	{ \
		MEMBER(object, name), .kind = FLAG \
	}
#define TEXT_(object, name) \
	{ \
		MEMBER(object, name), .kind = TEXT, .most = sizeof(((struct object *)0)->name) \
	}
#define MEMORY_(object) \
	{ \
		MEMBER(object, memory_mib), .kind = WIDE, .most = (int64_t)1 << 40 \
	}
#define CPUS_(object, name, required_) \
	{ \
		MEMBER(object, name), .kind = CPUS, .required = (required_) \
	}
#define DEVICE_(object) \
	{ .key = "path", .kind = PATH, .offset = offsetof(struct object, device.path) }, \
	{ \
		.key = "numa", .kind = INT, .offset = offsetof(struct object, device.numa), \
		.least = -1, .most = INT32_MAX \
	}
#define NAME_(object) \
	{ \
		.key = "name", .kind = TEXT, .offset = offsetof(struct object, device.name), \
		.most = RD_NAME_SIZE, .required = true \
	}
#define LIST_(object, name, count_, element_, required_) \
	{ \
		MEMBER(object, name), .kind = LIST, .required = (required_), .count = (count_), \
				      .most = sizeof(((struct object *)0)->name) / \
					      sizeof(((struct object *)0)->name[0]), \
				      .stride = sizeof(((struct object *)0)->name[0]), \
				      .element = (element_) \
	}
#define COUNTED(object, name) offsetof(struct object, name)

static const struct field numa_fields[] = {
	NUMBER_(rd_numa, number, 0, INT32_MAX),
	NUMBER_(rd_numa, package, 0, INT32_MAX),
	MEMORY_(rd_numa),
	CPUS_(rd_numa, cpus, true),
	CPUS_(rd_numa, cores, false),
	{ 0 },
};

static const struct field link_count = { .kind = INT, .most = 64 };

static const struct field gpu_fields[] = {
	DEVICE_(rd_host_gpu),
	TEXT_(rd_host_gpu, model),
	TEXT_(rd_host_gpu, uuid),
	MEMORY_(rd_host_gpu),
	NUMBER_(rd_host_gpu, memory_numa, -1, INT32_MAX),
	LIST_(rd_host_gpu, nvlinks, NO_COUNT, &link_count, false),
	NUMBER_(rd_host_gpu, nvswitch_links, 0, 64),
	{ 0 },
};

static const struct field port_fields[] = {
	NUMBER_(rd_port, number, 1, 255),
	NUMBER_(rd_port, speed_mbps, 0, INT32_MAX),
	FLAG_(rd_port, active),
	FLAG_(rd_port, ethernet),
	{ 0 },
};

static const struct field rdma_fields[] = {
	NAME_(rd_rdma),
	DEVICE_(rd_rdma),
	LIST_(rd_rdma, ports, COUNTED(rd_rdma, port_count), port_fields, false),
	{ 0 },
};

static const struct field address = { .kind = TEXT, .most = 48 };

static const struct field interface_fields[] = {
	NAME_(rd_host_interface),
	DEVICE_(rd_host_interface),
	NUMBER_(rd_host_interface, speed_mbps, 0, INT32_MAX),
	NUMBER_(rd_host_interface, mtu, 0, INT32_MAX),
	FLAG_(rd_host_interface, up),
	FLAG_(rd_host_interface, loopback),
	FLAG_(rd_host_interface, hardware),
	LIST_(rd_host_interface, addresses, COUNTED(rd_host_interface, address_count), &address,
		false),
	{ 0 },
};

static const struct field host_fields[] = {
	{ MEMBER(rd_host, name), .kind = TEXT, .most = RD_HOST_SIZE, .required = true },
	TEXT_(rd_host, id),
	LIST_(rd_host, numa, COUNTED(rd_host, numa_count), numa_fields, true),
	LIST_(rd_host, gpus, COUNTED(rd_host, gpu_count), gpu_fields, false),
	LIST_(rd_host, rdma, COUNTED(rd_host, rdma_count), rdma_fields, false),
	LIST_(rd_host, interfaces, COUNTED(rd_host, interface_count), interface_fields, false),
	{ 0 },
};

/* ---- Reading ---- */

struct file {
	const char *name;
	struct rd_json json;
};

static const struct rd_json_value *value_at(const struct file *file, int index)
{
	return &file->json.values[index];
}

static int file_refuse(const struct file *file, int value, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int file_refuse(const struct file *file, int value, const char *format, ...)
{
	char reason[256];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return rd_fail(RONDO_INVALID, "%s:%d: %s", file->name, value_at(file, value)->line, reason);
}

/* Name of an element of a list in a reason. */
static const char *key_of(const struct field *field)
{
	return field->key ? field->key : "an element";
}

static int refuse_kind(
	const struct file *file, int value, const struct field *field, const char *wanted)
{
	return file_refuse(file, value, "%s is %s: give %s", key_of(field),
		rd_json_kind_text(value_at(file, value)->kind), wanted);
}

static int read_int(const struct file *file, int value, void *to, const struct field *field)
{
	int64_t number;

	if (!rd_json_whole(value_at(file, value), field->least, field->most, &number))
		return file_refuse(file, value, "%s must be a whole number from %lld to %lld",
			key_of(field), (long long)field->least, (long long)field->most);
	if (field->kind == WIDE)
		*(uint64_t *)to = (uint64_t)number;
	else
		*(int *)to = (int)number;
	return 0;
}

static int read_flag(const struct file *file, int value, void *to, const struct field *field)
{
	enum rd_json_kind kind = value_at(file, value)->kind;

	if (kind != RD_JSON_TRUE && kind != RD_JSON_FALSE)
		return refuse_kind(file, value, field, "true or false");
	*(bool *)to = kind == RD_JSON_TRUE;
	return 0;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (!rd_is_printable(*text))
			return false;
	return true;
}

static int read_text(const struct file *file, int value, void *to, const struct field *field)
{
	const char *text = value_at(file, value)->text;

	if (value_at(file, value)->kind != RD_JSON_STRING)
		return refuse_kind(file, value, field, "a string");
	if (!is_plain(text) || strlen(text) >= (size_t)field->most || (field->required && !*text))
		return file_refuse(file, value, "%s must be %d to %d characters of ASCII",
			key_of(field), field->required, (int)field->most - 1);
	memcpy(to, text, strlen(text) + 1);
	return 0;
}

static int read_cpus(const struct file *file, int value, void *to, const struct field *field)
{
	if (value_at(file, value)->kind != RD_JSON_STRING)
		return refuse_kind(file, value, field, "a string like \"0-3,8\"");
	if (!rd_cpus_read(to, value_at(file, value)->text))
		return file_refuse(file, value, "%s is no list of CPUs below %d, like \"0-3,8\"",
			key_of(field), RD_CPU_MAX);
	return 0;
}

static int read_path(const struct file *file, int value, void *to, const struct field *field)
{
	const char *rest = NULL;
	struct rd_pci_path *path = to;

	if (value_at(file, value)->kind == RD_JSON_NULL)
		return 0;
	if (value_at(file, value)->kind != RD_JSON_STRING)
		return refuse_kind(file, value, field, "a string, or null");
	if (!rd_pci_path_read(path, value_at(file, value)->text, &rest) || *rest)
		return file_refuse(file, value,
			"%s is no path of PCI addresses, like \"pci0000:17/0000:17:00.0\"",
			key_of(field));
	return 0;
}

static int read_object(
	const struct file *file, int value, void *object, const struct field *fields);
static int read_list(const struct file *file, int value, void *object, const struct field *field);

static int read_field(const struct file *file, int value, void *object, const struct field *field)
{
	void *to = (char *)object + field->offset;

	switch (field->kind) {
	case INT:
	case WIDE:
		return read_int(file, value, to, field);
	case FLAG:
		return read_flag(file, value, to, field);
	case TEXT:
		return read_text(file, value, to, field);
	case CPUS:
		return read_cpus(file, value, to, field);
	case PATH:
		return read_path(file, value, to, field);
	case LIST:
		return read_list(file, value, object, field);
	}
	return 0;
}

static int read_list(const struct file *file, int value, void *object, const struct field *field)
{
	const struct rd_json_value *list = value_at(file, value);
	char *to = (char *)object + field->offset;
	int err = 0;

	if (list->kind != RD_JSON_ARRAY)
		return refuse_kind(file, value, field, "an array");
	if (list->count > field->most)
		return file_refuse(file, value, "%s has %d elements, and may have %d", field->key,
			list->count, (int)field->most);
	int element = value + 1;
	for (int i = 0; i < list->count && !err; i++, to += field->stride) {
		err = field->element->key ? read_object(file, element, to, field->element)
					  : read_field(file, element, to, field->element);
		element = value_at(file, element)->next;
	}
	if (field->count != NO_COUNT)
		*(int *)((char *)object + field->count) = list->count;
	return err;
}

static int find_field(const struct field *fields, const char *key)
{
	for (int i = 0; fields[i].key; i++)
		if (!strcmp(fields[i].key, key))
			return i;
	return -1;
}

/* A device without a NUMA node in the file is not at node 0. */
static void set_defaults(void *object, const struct field *fields)
{
	for (; fields->key; fields++)
		if (fields->kind == INT && fields->least == -1)
			*(int *)((char *)object + fields->offset) = -1;
}

static int read_object(const struct file *file, int value, void *object, const struct field *fields)
{
	unsigned seen = 0;

	if (value_at(file, value)->kind != RD_JSON_OBJECT)
		return file_refuse(file, value, "here is %s, and should be an object",
			rd_json_kind_text(value_at(file, value)->kind));
	set_defaults(object, fields);
	for (int key = value + 1; key < value_at(file, value)->next;
		key = value_at(file, key + 1)->next) {
		int i = find_field(fields, value_at(file, key)->text);
		if (i < 0 || seen >> i & 1)
			return file_refuse(file, key, "\"%.40s\" %s", value_at(file, key)->text,
				i < 0 ? "is nothing that is known here" : "is here twice");
		seen |= 1u << i;
		int err = read_field(file, key + 1, object, &fields[i]);
		if (err)
			return err;
	}
	for (int i = 0; fields[i].key; i++)
		if (fields[i].required && !(seen >> i & 1))
			return file_refuse(file, value, "here \"%s\" is missing", fields[i].key);
	return 0;
}

/* ---- The document ---- */

static int check_hosts(const struct rd_topology *topology)
{
	for (int i = 0; i < topology->host_count; i++)
		for (int j = 0; j < i; j++)
			if (!strcmp(topology->hosts[i].name, topology->hosts[j].name))
				return rd_fail(RONDO_INVALID, "two hosts are named %s",
					topology->hosts[i].name);
	return 0;
}

/* A host without an id is identified by its name. */
static int settle_loaded_host(struct rd_host *host)
{
	if (!host->id[0])
		memcpy(host->id, host->name, RD_HOST_SIZE);
	return rd_host_settle(host);
}

static int read_hosts(const struct file *file, int value, struct rd_topology *topology)
{
	const struct rd_json_value *list = value_at(file, value);
	int err;

	if (list->kind != RD_JSON_ARRAY || list->count < 1 || list->count > RD_TOPOLOGY_HOSTS_MAX)
		return file_refuse(file, value, "hosts must be an array of 1 to %d hosts",
			RD_TOPOLOGY_HOSTS_MAX);
	err = rd_topology_init(topology, list->count);
	int element = value + 1;
	for (int i = 0; i < list->count && !err; i++) {
		err = read_object(file, element, &topology->hosts[i], host_fields);
		if (!err && (err = settle_loaded_host(&topology->hosts[i])))
			return rd_fail(err, "%s:%d: %s", file->name, value_at(file, element)->line,
				rondo_last_error());
		element = value_at(file, element)->next;
	}
	if (!err && (err = check_hosts(topology)))
		return rd_fail(err, "%s: %s", file->name, rondo_last_error());
	return err;
}

/* Reads the members of the document: the format, and the hosts. Skips the derived member. */
static int read_document(const struct file *file, struct rd_topology *topology)
{
	int hosts = -1;
	int64_t format = 0;

	if (value_at(file, 0)->kind != RD_JSON_OBJECT)
		return file_refuse(file, 0, "a topology is an object");
	for (int key = 1; key < value_at(file, 0)->next; key = value_at(file, key + 1)->next) {
		const char *name = value_at(file, key)->text;
		if (!strcmp(name, "rondo_topology"))
			rd_json_whole(value_at(file, key + 1), 1, INT32_MAX, &format);
		else if (!strcmp(name, "hosts") && hosts < 0)
			hosts = key + 1;
		else if (strcmp(name, "derived"))
			return file_refuse(
				file, key, "\"%.40s\" is nothing that is known here", name);
	}
	if (format != FORMAT)
		return file_refuse(file, 0,
			"\"rondo_topology\" must be %d: this is no topology, or one of another "
			"version of Rondo",
			FORMAT);
	if (hosts < 0)
		return file_refuse(file, 0, "here \"hosts\" is missing");
	return read_hosts(file, hosts, topology);
}

int rd_topology_parse(struct rd_topology *topology, const char *name, const char *text, size_t size)
{
	struct file file = { .name = name };
	int err = rd_json_parse(&file.json, name, text, size);

	*topology = (struct rd_topology){ 0 };
	if (!err)
		err = read_document(&file, topology);
	rd_json_finish(&file.json);
	if (err)
		rd_topology_finish(topology);
	return err;
}

int rd_topology_load(struct rd_topology *topology, const char *path)
{
	char *text;
	ssize_t size = rd_read_whole(&text, path, RD_JSON_SIZE_MAX);
	int err;

	*topology = (struct rd_topology){ 0 };
	if (size < 0)
		err = rd_fail_errno("cannot read the topology %s", path);
	else
		err = rd_topology_parse(topology, path, text, (size_t)size);
	free(text);
	return err;
}

/* ---- Writing ---- */

static void write_object(FILE *out, const void *object, const struct field *fields, int depth);

static int list_count(const void *object, const struct field *field)
{
	const int *numbers = (const void *)((const char *)object + field->offset);
	int count = (int)field->most;

	if (field->count != NO_COUNT)
		return *(const int *)(const void *)((const char *)object + field->count);
	while (count > 0 && !numbers[count - 1])
		count--;
	return count;
}

static void write_field(FILE *out, const void *object, const struct field *field, int depth);

static void write_list(FILE *out, const void *object, const struct field *field, int depth)
{
	const char *at = (const char *)object + field->offset;
	int count = list_count(object, field);
	bool objects = field->element->key, lines = objects && depth >= 0;

	fputc('[', out);
	for (int i = 0; i < count; i++, at += field->stride) {
		if (lines)
			fprintf(out, "%s\n%*s", i ? "," : "", 2 * depth + 2, "");
		else
			fputs(i ? ", " : "", out);
		if (objects)
			write_object(out, at, field->element, -1);
		else
			write_field(out, at, field->element, -1);
	}
	if (lines && count)
		fprintf(out, "\n%*s", 2 * depth, "");
	fputc(']', out);
}

static void write_field(FILE *out, const void *object, const struct field *field, int depth)
{
	const void *at = (const char *)object + field->offset;
	char text[RD_CPUS_TEXT_SIZE];

	switch (field->kind) {
	case INT:
		fprintf(out, "%d", *(const int *)at);
		break;
	case WIDE:
		fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
		break;
	case FLAG:
		fputs(*(const bool *)at ? "true" : "false", out);
		break;
	case TEXT:
		rd_json_write_string(out, at);
		break;
	case CPUS:
		rd_cpus_text(at, text, sizeof(text));
		rd_json_write_string(out, text);
		break;
	case PATH:
		rd_pci_path_text(at, text);
		rd_json_write_string(out, text);
		break;
	case LIST:
		write_list(out, object, field, depth);
		break;
	}
}

/* Returns whether a member is empty, and so not written: unknown, or an empty list. */
static bool is_void(const void *object, const struct field *field)
{
	const void *at = (const char *)object + field->offset;

	switch (field->kind) {
	case LIST:
		return list_count(object, field) == 0;
	case PATH:
		return !((const struct rd_pci_path *)at)->known;
	case TEXT:
		return !*(const char *)at;
	case INT:
		return *(const int *)at == -1;
	default:
		return false;
	}
}

/* Writes on lines of its own at `depth`, or on one line where that is -1. */
static void write_object(FILE *out, const void *object, const struct field *fields, int depth)
{
	bool first = true;

	fputc('{', out);
	for (; fields->key; fields++) {
		if (is_void(object, fields) && !fields->required)
			continue;
		fputs(first ? "" : ",", out);
		if (depth >= 0)
			fprintf(out, "\n%*s", 2 * depth + 2, "");
		else
			fputc(' ', out);
		fprintf(out, "\"%s\": ", fields->key);
		write_field(out, object, fields, depth < 0 ? -1 : depth + 1);
		first = false;
	}
	if (depth >= 0)
		fprintf(out, "\n%*s}", 2 * depth, "");
	else
		fputs(" }", out);
}

void rd_topology_write_open(const struct rd_topology *topology, FILE *out)
{
	fprintf(out, "{\n  \"rondo_topology\": %d,\n  \"hosts\": [", FORMAT);
	for (int i = 0; i < topology->host_count; i++) {
		fputs(i ? ", " : "", out);
		write_object(out, &topology->hosts[i], host_fields, 1);
	}
	fprintf(out, "]");
}

void rd_topology_write(const struct rd_topology *topology, FILE *out)
{
	rd_topology_write_open(topology, out);
	fprintf(out, "\n}\n");
}
