#include "hosts.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"

/* The namespaces of a host. */
enum { NET, UTS, MNT, KINDS };

static const char *const kind_names[KINDS] = { "net", "uts", "mnt" };

struct hosts {
	struct hosts_shape shape;
	int switches; /* the network namespace of all switches, where the test is as well */
	int fds[HOSTS_MAX][KINDS];
	char addresses[HOSTS_MAX][HOSTS_NETWORKS_MAX][32];
};

static char reason_text[256];

static bool give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason_text, sizeof(reason_text), format, args);
	va_end(args);
	return false;
}

/* ---- Commands of iproute2 ------------------------------------------------------------------ */

struct script {
	char text[4096];
	size_t size;
};

static void add(struct script *script, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct script *script, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	script->size += (size_t)vsnprintf(
		script->text + script->size, sizeof(script->text) - script->size, format, args);
	va_end(args);
	if (script->size >= sizeof(script->text))
		abort();
}

/* Processes that write at once must append: else they overwrite each other. */
static int file_of(const char *text)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	if (fd >= 0 && *text && write(fd, text, strlen(text)) < 0)
		abort();
	lseek(fd, 0, SEEK_SET);
	if (fcntl(fd, F_SETFL, O_APPEND) < 0)
		abort();
	return fd;
}

/* Runs the script by the program ("ip", "tc") in the network namespace. */
static bool run_script(const char *program, int net, const struct script *script)
{
	/* Only root finds the first by itself. */
	static const char *const places[] = { "/usr/sbin", "/sbin", "/usr/bin", "/bin" };
	char path[64];
	int in = file_of(script->text), output = file_of(""), status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setns(net, CLONE_NEWNET) || dup2(in, STDIN_FILENO) < 0 ||
			dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
			_exit(1);
		for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
			snprintf(path, sizeof(path), "%s/%s", places[i], program);
			execl(path, program, "-batch", "-", (char *)NULL);
		}
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (status != 0) {
		char *text = file_text(output);

		text[strcspn(text, "\n")] = '\0';
		give_up("%s: %s", program,
			WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "not installed" : text);
	}
	close(in);
	close(output);
	return status == 0;
}

/* ---- Making -------------------------------------------------------------------------------- */

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* The test moves to where the switches will be. */
static bool leave_home(struct hosts *hosts)
{
	if (unshare(CLONE_NEWNET) == 0) {
		hosts->switches = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
		return hosts->switches >= 0 || give_up("/proc has no namespaces: %m");
	}
	return give_up("network namespaces cannot be made here: %m%s",
		errno == EPERM ? " (not root; unshare -r may help)" : "");
}

static void write_names(const struct hosts *hosts, struct script *text)
{
	add(text, "127.0.0.1 localhost\n::1 localhost\n");
	for (int i = 0; i < hosts->shape.count && !hosts->shape.nameless; i++)
		add(text, "%s host%d\n", hosts->addresses[i][0], i);
}

/* In a mount namespace of its own: the host's interfaces in /sys, and its own /etc/hosts. */
static bool mount_own(const struct hosts *hosts)
{
	struct script names = { .size = 0 };

	write_names(hosts, &names);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("names", "/mnt", "tmpfs", 0, NULL) || !write_file("/mnt/hosts", names.text) ||
		mount("/mnt/hosts", "/etc/hosts", NULL, MS_BIND, NULL) ||
		umount2("/mnt", MNT_DETACH))
		return false;
	/* Where this is not allowed, /sys shows the machine's. */
	(void)!mount("sysfs", "/sys", "sysfs", 0, NULL);
	return true;
}

/* A new host, in a process that is there until the parent has its namespaces: bye is closed then.
 */
static int be_host(const struct hosts *hosts, int host, int ready, int bye)
{
	char name[16], byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(name, sizeof(name), "host%d", host);
	if (unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) || sethostname(name, strlen(name)) ||
		!mount_own(hosts))
		return 1;
	if (write(ready, &byte, 1) != 1)
		return 1;
	return read(bye, &byte, 1) == 0 ? 0 : 1;
}

static bool open_namespaces(struct hosts *hosts, int host, pid_t pid)
{
	char path[64];

	for (int kind = 0; kind < KINDS; kind++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind_names[kind]);
		hosts->fds[host][kind] = open(path, O_RDONLY | O_CLOEXEC);
		if (hosts->fds[host][kind] < 0)
			return false;
	}
	return true;
}

static bool make_namespaces(struct hosts *hosts, int host)
{
	int ready[2], bye[2];
	char byte;
	bool made;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) || pipe2(bye, O_CLOEXEC))
		return give_up("no pipes: %m");
	pid = fork();
	if (pid == 0) {
		close(bye[1]);
		close(ready[0]);
		_exit(be_host(hosts, host, ready[1], bye[0]));
	}
	close(ready[1]);
	close(bye[0]);
	made = pid > 0 && read(ready[0], &byte, 1) == 1 && open_namespaces(hosts, host, pid);
	close(ready[0]);
	close(bye[1]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return made || give_up("namespaces for a host's name and files cannot be made here");
}

static void name_addresses(struct hosts *hosts)
{
	for (int i = 0; i < hosts->shape.count; i++)
		for (int k = 0; k < hosts->shape.networks; k++)
			snprintf(hosts->addresses[i][k], sizeof(hosts->addresses[i][k]),
				hosts->shape.v6_only ? "fd07:%d::%d" : "10.7.%d.%d", k, i + 1);
}

static bool make_switches(const struct hosts *hosts)
{
	struct script script = { .size = 0 };

	add(&script, "link set dev lo up\n");
	for (int k = 0; k < hosts->shape.networks; k++)
		add(&script,
			"link add dev net%d type bridge mcast_snooping 0\n"
			"link set dev net%d up\n",
			k, k);
	for (int i = 0; i < hosts->shape.count; i++)
		for (int k = 0; k < hosts->shape.networks; k++)
			add(&script,
				"link add dev h%dn%d type veth peer name eth%d netns "
				"/proc/%d/fd/%d\n"
				"link set dev h%dn%d master net%d up\n",
				i, k, k, (int)syscall(SYS_gettid), hosts->fds[i][NET], i, k, k);
	return run_script("ip", hosts->switches, &script);
}

/* nodad: the addresses are usable at once, because no other host can have them. */
static bool plug_in(const struct hosts *hosts, int host)
{
	struct script script = { .size = 0 };

	add(&script, "link set dev lo up\n");
	if (hosts->shape.v6_only) /* the kernel's own */
		add(&script, "addr del 127.0.0.1/8 dev lo\n");
	for (int k = 0; k < hosts->shape.networks; k++) {
		if (!hosts->shape.v6_only)
			add(&script, "addr add 10.7.%d.%d/24 dev eth%d\n", k, host + 1, k);
		add(&script,
			"addr add fd07:%d::%d/64 dev eth%d nodad\n"
			"link set dev eth%d up\n",
			k, host + 1, k, k);
	}
	return run_script("ip", hosts->fds[host][NET], &script);
}

static bool all_run(void)
{
	struct ifaddrs *all;
	bool run = true;

	if (getifaddrs(&all))
		return false;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next)
		run &= !(one->ifa_flags & IFF_UP) || one->ifa_flags & IFF_RUNNING;
	freeifaddrs(all);
	return run;
}

/* The kernel finds that an interface is running some time after both of its ends came up. Ranks use
   no other ones. */
static bool await_interfaces(const struct hosts *hosts, int host)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		alarm(20);
		if (setns(hosts->fds[host][NET], CLONE_NEWNET))
			_exit(1);
		while (!all_run())
			sched_yield();
		_exit(0);
	}
	return (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) ||
	       give_up("the interfaces of a host do not run");
}

static bool make(struct hosts *hosts)
{
	if (!leave_home(hosts))
		return false;
	for (int i = 0; i < hosts->shape.count; i++)
		if (!make_namespaces(hosts, i))
			return false;
	if (!make_switches(hosts))
		return false;
	for (int i = 0; i < hosts->shape.count; i++)
		if (!plug_in(hosts, i))
			return false;
	for (int i = 0; i < hosts->shape.count; i++)
		if (!await_interfaces(hosts, i))
			return false;
	return true;
}

static void end(struct hosts *hosts)
{
	for (int i = 0; i < HOSTS_MAX; i++)
		for (int kind = 0; kind < KINDS; kind++)
			if (hosts->fds[i][kind] >= 0)
				close(hosts->fds[i][kind]);
	if (hosts->switches >= 0)
		close(hosts->switches);
}

struct hosts *hosts_create(const struct hosts_shape *shape, const char **reason)
{
	static struct hosts only;
	struct hosts *hosts = &only;

	*reason = reason_text;
	if (hosts->shape.count > 0)
		end(hosts);
	*hosts = (struct hosts){ .shape = *shape };
	if (hosts->shape.networks == 0)
		hosts->shape.networks = 1;
	if (shape->count > HOSTS_MAX || hosts->shape.networks > HOSTS_NETWORKS_MAX)
		abort();
	hosts->switches = -1;
	memset(hosts->fds, -1, sizeof(hosts->fds));
	name_addresses(hosts);
	return make(hosts) ? hosts : NULL;
}

/* ---- Using --------------------------------------------------------------------------------- */

bool hosts_enter(const struct hosts *hosts, int host)
{
	static const int kinds[KINDS] = { CLONE_NEWNET, CLONE_NEWUTS, CLONE_NEWNS };
	char here[PATH_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Other mounts: without this, the root would be where the process is then. */
	if (!getcwd(here, sizeof(here)))
		return false;
	for (int kind = 0; kind < KINDS; kind++)
		if (setns(hosts->fds[host][kind], kinds[kind]))
			return false;
	return chdir(here) == 0;
}

const char *hosts_address(const struct hosts *hosts, int host, int network)
{
	return hosts->addresses[host][network];
}

bool hosts_unplug(const struct hosts *hosts, int host, int network)
{
	struct script script = { .size = 0 };

	add(&script, "link set dev h%dn%d down\n", host, network);
	return run_script("ip", hosts->switches, &script);
}

bool hosts_plug(const struct hosts *hosts, int host, int network)
{
	struct script script = { .size = 0 };

	add(&script, "link set dev h%dn%d up\n", host, network);
	return run_script("ip", hosts->switches, &script);
}

bool hosts_switch_off(const struct hosts *hosts, int host, int network)
{
	struct script script = { .size = 0 };

	add(&script, "link set dev eth%d down\n", network);
	return run_script("ip", hosts->fds[host][NET], &script);
}

/* The queue holds more than any window: dropped packets would be sent, and counted, twice. The
   burst is small, so that no longer message passes at once after a pause. */
bool hosts_slow(const struct hosts *hosts, int host, int network, const char *rate)
{
	struct script there = { .size = 0 }, back = { .size = 0 };

	add(&there, "qdisc add dev h%dn%d root tbf rate %s burst 4kb limit 16mb\n", host, network,
		rate);
	add(&back, "qdisc add dev eth%d root tbf rate %s burst 4kb limit 16mb\n", network, rate);
	return run_script("tc", hosts->switches, &there) &&
	       run_script("tc", hosts->fds[host][NET], &back);
}

bool hosts_configure(const struct hosts *hosts, int host, const char *lines)
{
	struct script script = { .size = 0 };

	add(&script, "%s", lines);
	return run_script("ip", hosts->fds[host][NET], &script);
}

bool hosts_divide(const struct hosts *hosts, int one, int other, int network)
{
	struct script script = { .size = 0 };

	add(&script,
		"link set dev h%dn%d type bridge_slave isolated on\n"
		"link set dev h%dn%d type bridge_slave isolated on\n",
		one, network, other, network);
	return run_script("ip", hosts->switches, &script);
}

bool hosts_traffic(int network, struct hosts_traffic *traffic)
{
	char name[16], line[512];
	FILE *file = fopen("/proc/thread-self/net/dev", "re");
	bool found = false;

	snprintf(name, sizeof(name), "eth%d:", network);
	while (file && !found && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, name);

		/* Bytes received come first, bytes sent ninth. */
		found = at && sscanf(at + strlen(name),
				      "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64,
				      &traffic->received, &traffic->sent) == 2;
	}
	if (file)
		fclose(file);
	return found;
}

void hosts_start(
	const struct hosts *hosts, int host, char *const *arguments, struct hosts_program *program)
{
	program->out = file_of("");
	program->err = file_of("");
	fflush(NULL);
	program->pid = fork();
	if (program->pid == 0) {
		if (!hosts_enter(hosts, host))
			_exit(99);
		dup2(program->out, STDOUT_FILENO);
		dup2(program->err, STDERR_FILENO);
		execv(arguments[0], arguments);
		_exit(127);
	}
}

void hosts_finish(struct hosts_program *program, int limit_ms)
{
	struct pollfd end = { .fd = rd_pidfd_open(program->pid), .events = POLLIN };
	bool in_time = poll(&end, 1, limit_ms) == 1;
	int status;

	close(end.fd);
	if (!in_time)
		kill(program->pid, SIGKILL);
	waitpid(program->pid, &status, 0);
	program->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (!in_time)
		program->status = -1;
}

/* Polls, because a file has no event for its growth. */
bool hosts_await(int fd, const char *part, int limit_ms)
{
	for (int waited_ms = 0; waited_ms < limit_ms; waited_ms += 10) {
		if (strstr(file_text(fd), part))
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}
