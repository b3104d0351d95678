/*
 * All settings, in one table. A value comes from `struct rondo_config` if that sets it, else from
 * the environment, else from the default. docs/environment.md lists the table; a test compares the
 * two.
 */
#ifndef RD_SETTINGS_H
#define RD_SETTINGS_H

#include <stdbool.h>

#include "rondo.h"

#define RD_TIMEOUT_LEAST_MS 10
#define RD_TIMEOUT_MOST_MS 86400000

/* X(field, kind, variable, default, least, most, meaning). kind is INT or SIZE, or a text:
   STRING, NAMES (with commas between), PATH or PATHS (with commas between). Numbers are in the
   unit that the meaning names; SIZE takes the suffixes K, M and G (powers of 1024). least and
   most bound the number, or the length of a text. An empty variable counts as not set. */
#define RD_SETTINGS(X) \
	X(port, INT, "RONDO_PORT", 0, 0, 65535, \
		"port where rank 0 listens; 0: MASTER_PORT - 2000, wrapped into 1024 to 32767") \
	X(launcher, STRING, "RONDO_LAUNCHER", "auto", 0, 127, \
		"launcher whose variables give this rank; auto: the first that is found; none: " \
		"none is read (docs/launchers.md)") \
	X(transport, NAMES, "RONDO_TRANSPORT", "", 0, 127, \
		"names of the transports allowed, with commas; empty: all") \
	X(algo, STRING, "RONDO_ALGO", "", 0, 127, \
		"algorithm to use wherever it can run the collective; empty: the picker chooses") \
	X(transport_plugin, PATHS, "RONDO_TRANSPORT_PLUGIN", "", 0, 1023, \
		"paths of shared objects with transports, with commas") \
	X(algo_plugin, PATHS, "RONDO_ALGO_PLUGIN", "", 0, 1023, \
		"paths of shared objects with algorithms, with commas; the same on every rank") \
	X(plan_files, PATHS, "RONDO_PLAN", "", 0, 1023, \
		"paths of plan files, or of folders of them, with commas; the same on every rank") \
	X(interface, NAMES, "RONDO_INTERFACE", "", 0, 127, \
		"network interfaces that tcp binds, with commas; empty: the one that reaches " \
		"MASTER_ADDR") \
	X(ib_device, NAMES, "RONDO_IB_DEVICE", "", 0, 127, \
		"RDMA devices that verbs uses, with commas; mlx5_0:1 is one port; empty: the " \
		"nearest, or all with an active port") \
	X(ib_gid_index, INT, "RONDO_IB_GID_INDEX", -1, -1, 255, \
		"index of each RDMA port's GID; -1: the one that routes farthest") \
	X(ib_service_level, INT, "RONDO_IB_SERVICE_LEVEL", 0, 0, 15, \
		"service level of InfiniBand packets; priority of RoCE packets") \
	X(ib_traffic_class, INT, "RONDO_IB_TRAFFIC_CLASS", 0, 0, 255, \
		"traffic class of packets with a GID, as in IPv6: six bits of DSCP, two of ECN") \
	X(ib_timeout, INT, "RONDO_IB_TIMEOUT", 18, 1, 31, \
		"an RDMA packet without an acknowledgement is sent again after 4.096 us times 2 " \
		"to this power") \
	X(ib_retry, INT, "RONDO_IB_RETRY", 6, 0, 7, \
		"how often an RDMA packet is sent again before its queue pair fails") \
	X(host, STRING, "RONDO_HOST", "", 0, 63, \
		"name of this host, in place of its own, in messages too; ranks of different hosts share no " \
		"memory") \
	X(topo_file, PATH, "RONDO_TOPO_FILE", "", 0, 1023, \
		"topology file to read instead of probing this host (docs/rondo-topo.md)") \
	X(debug, STRING, "RONDO_DEBUG", "WARN", 0, 127, "log level: NONE, WARN, INFO or TRACE") \
	X(debug_subsys, NAMES, "RONDO_DEBUG_SUBSYS", "ALL", 0, 127, \
		"subsystems to log, with commas; ^ before a name excludes it") \
	X(debug_file, PATH, "RONDO_DEBUG_FILE", "", 0, 1023, \
		"file to append the log to; %h, %p and %r in its name are host, process and rank") \
	X(trace, PATH, "RONDO_TRACE", "", 0, 1023, \
		"file to append the steps of all calls to, for Perfetto; names as in " \
		"RONDO_DEBUG_FILE (docs/tracing.md); empty: none") \
	X(reproducible, INT, "RONDO_REPRODUCIBLE", 0, 0, 1, \
		"1: choose algorithms by built-in costs, and measure none: the same bits in " \
		"every run") \
	X(tune_file, PATH, "RONDO_TUNE_FILE", "", 0, 1023, \
		"file in which rank 0 keeps measured costs, and from which it reads them, or a " \
		"CSV of NCCL's tuner plug-in; empty: none") \
	X(rendezvous_fd, INT, "RONDO_RENDEZVOUS_FD", -1, -1, 1 << 20, \
		"rank 0: descriptor of the listening socket that the launcher opened; -1: none") \
	X(channels, INT, "RONDO_CHANNELS", 1, 1, 8, "parallel links per pair of ranks") \
	X(piece_size, SIZE, "RONDO_PIECE", 128 << 10, 64, 16 << 20, "maximum bytes per message") \
	X(slots, INT, "RONDO_SLOTS", 4, 2, 64, \
		"large messages in flight per link direction, over shm and verbs") \
	X(single_copy, SIZE, "RONDO_SINGLE_COPY", 8 << 10, 0, 1 << 30, \
		"least bytes of a message over shm that the receiver may copy from the sender's " \
		"memory") \
	X(spin_us, INT, "RONDO_SPIN_US", 100, 0, 1000000, \
		"microseconds to spin before sleeping, if each rank has a core to itself") \
	X(timeout_ms, INT, "RONDO_TIMEOUT_MS", 600000, RD_TIMEOUT_LEAST_MS, RD_TIMEOUT_MOST_MS, \
		"milliseconds that a call waits for a live rank that has not joined it") \
	X(heartbeat_timeout_ms, INT, "RONDO_HEARTBEAT_TIMEOUT_MS", 30000, 10, 86400000, \
		"milliseconds without a heartbeat after which a rank is lost; at most " \
		"RONDO_TIMEOUT_MS") \
	X(unreachable_ms, INT, "RONDO_UNREACHABLE_MS", 10000, 100, 86400000, \
		"milliseconds without a packet from a rank's host after which the rank is lost; " \
		"at most RONDO_HEARTBEAT_TIMEOUT_MS") \
	X(init_timeout_ms, INT, "RONDO_INIT_TIMEOUT_MS", 30000, 10, 86400000, \
		"milliseconds in which all ranks must meet and connect") \
	X(device, STRING, "RONDO_DEVICE", "auto", 0, 127, \
		"GPUs: auto (the CUDA driver, if the program uses it), cuda or none") \
	X(gpu, INT, "RONDO_GPU", -1, -1, 1023, \
		"device of this rank's calls; -1: the current one, or rank modulo devices if " \
		"RONDO_DEVICE is not auto") \
	X(secret_fd, INT, "RONDO_SECRET_FD", -1, -1, 1 << 20, \
		"descriptor of the job's secret, which the launcher handed down; -1: none") \
	X(secret_file, PATH, "RONDO_SECRET_FILE", "", 0, 1023, \
		"file of mode 0600 with the job's secret, the same on every rank; rank 0 writes " \
		"it where there is none (docs/security.md)") \
	X(encrypt, INT, "RONDO_ENCRYPT", 1, 0, 1, \
		"0: ranks of different hosts prove that they are of the job, and then send plain " \
		"messages") \
	X(checksum, INT, "RONDO_CHECKSUM", 0, 0, 1, \
		"1: each message over tcp and verbs carries a checksum (CRC-32C), which its " \
		"receiver checks before it uses the message") \
	X(check, INT, "RONDO_CHECK", 0, 0, 1, \
		"1: before each collective all ranks compare their calls, so that calls that " \
		"differ are found there, on every rank") \
	X(kernel, STRING, "RONDO_KERNEL", "auto", 0, 127, \
		"how GPUs run collectives: auto, fused, stepped, messages, or staged through " \
		"host memory") \
	X(gpu_blocks, INT, "RONDO_GPU_BLOCKS", 0, 0, 128, \
		"most blocks of a kernel that waits for other ranks; 0: 32")

/* X(word). A variable RONDO_WORD[_WORD...] of these words alone holds a path of an installation,
   as modules, Spack, CMake and autoconf set it. It is no setting, and is not refused as an
   unknown one. */
/* clang-format off */
#define RD_INSTALL_WORDS(X) \
	X(ROOT) X(DIR) X(HOME) X(PREFIX) X(BASE) X(PATH) X(VERSION) X(INSTALL) X(BIN) \
	X(INC) X(INCDIR) X(INCLUDE) X(INCLUDES) X(INCLUDEDIR) X(LIB) X(LIB64) X(LIBS) \
	X(LIBDIR) X(LIBRARY) X(LIBRARIES) X(DIRS) X(CFLAGS) X(CPPFLAGS) X(LDFLAGS) \
	X(PKGCONFIG) X(SHARE) X(DOC) X(EXAMPLES) X(SRC) X(SOURCE)
/* clang-format on */

/* X(word). Variables RONDO_WORD_... are the adapters' own (adapters/), and are not refused. */
#define RD_ADAPTER_WORDS(X) X(PYTHON) X(TORCH) X(NCCL)

#define RD_STRING_MAX 128
#define RD_PATHS_MAX 1024
#define RD_KEY_SIZE 16
#define RD_PSK_SIZE 32

struct rd_settings {
	int rank, size; /* RANK and WORLD_SIZE, or another launcher's */
	char address[RD_STRING_MAX]; /* of rank 0: MASTER_ADDR, or from the launcher's variables */
	int master_port; /* MASTER_PORT: the program's, from which the default of port derives */
	int local_rank; /* LOCAL_RANK, or another launcher's; -1: not known */
	int process; /* this process's rank by its launcher; threads have other ranks; -1: none */
	int pmi_fd; /* over it the ranks exchange address and port (bootstrap/pmi.h); -1: none */
	uint64_t by_program; /* settings that struct rondo_config gave, a bit each */
	uint64_t launch_id; /* of the launch that gave this rank (bootstrap/inherited.h); 0: none */
	bool has_key;
	unsigned char key[RD_KEY_SIZE]; /* of the rendezvous (bootstrap/address_card.h) */
	char job[RD_STRING_MAX]; /* its name by the launcher: TORCHELASTIC_RUN_ID; empty: none */
	bool has_psk;
	unsigned char psk[RD_PSK_SIZE]; /* of connections (secure/secret.h) */
/* Kept until the process ends (kept_text.h): each comm has settings. */
#define RD_FIELD_STRING(name) const char *name;
#define RD_FIELD_NAMES(name) const char *name;
#define RD_FIELD_PATH(name) const char *name;
#define RD_FIELD_PATHS(name) const char *name;
#define RD_FIELD_INT(name) int name;
#define RD_FIELD_SIZE(name) size_t name;
#define RD_FIELD(name, kind, ...) RD_FIELD_##kind(name)
	RD_SETTINGS(RD_FIELD)
#undef RD_FIELD
#undef RD_FIELD_SIZE
#undef RD_FIELD_INT
#undef RD_FIELD_PATHS
#undef RD_FIELD_PATH
#undef RD_FIELD_NAMES
#undef RD_FIELD_STRING
	char plugins[RD_STRING_MAX]; /* the algorithms that plug-ins added (plugin.h) */
};

/*
 * Fills in every field from config (may be NULL), environ and the defaults.
 *
 * RONDO_SETTING, with a reason that names the variable and a remedy:
 *   - for an unknown RONDO_ variable (with the nearest known one), unless it is of
 *     RD_INSTALL_WORDS or RD_ADAPTER_WORDS;
 *   - for a value that is no number or out of range;
 *   - for a rank or size that is missing or invalid (rank outside 0..size-1; size outside
 *     1..RD_SIZE_MAX), and for a launcher's variables that are partial or contradict each other.
 *
 * After an error too every field is set; one that cannot be read has its default. rank is -1 where
 * this rank's number, or the address at which the ranks meet, is unknown.
 */
int rd_settings_read(struct rd_settings *settings, const struct rondo_config *config);

#define RD_SIZE_MAX 65536

/* Sets the log's level, subsystems and file from settings that rd_settings_read() has checked. */
void rd_settings_log(const struct rd_settings *settings);

/* The value of the setting with this variable; -1, or NULL, where there is none of that kind. */
int64_t rd_settings_number(const struct rd_settings *settings, const char *variable);
const char *rd_settings_text(const struct rd_settings *settings, const char *variable);
/* For a message: the variable, or the field of struct rondo_config where the program has set it. */
const char *rd_settings_source(const struct rd_settings *settings, const char *variable);

/* A hash of the settings that must be equal on all ranks: channels, piece_size, encrypt, checksum,
   check, key, algo and plugins. */
uint64_t rd_settings_digest(const struct rd_settings *settings);

/* Wipes the keys, before a copy of the settings goes. */
void rd_settings_forget(struct rd_settings *settings);

#endif
