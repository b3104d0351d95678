#include "resets.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool can_reset_connections(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	char command[128], byte;
	bool reset;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	snprintf(command, sizeof(command), "ss -K -t dport = :%d >/dev/null 2>&1",
		ntohs(address.sin_port));
	reset = system(command) >= 0 && recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno != EAGAIN;
	close(fd);
	close(listener);
	return reset;
}

int reset_connections(int host)
{
	char command[128], line[512];
	int count = 0;
	FILE *output;

	snprintf(command, sizeof(command), "ss -K -H -t -n state established 'dst 10.7.0.%d' 2>&1",
		host + 1);
	output = popen(command, "r");
	while (output && fgets(line, sizeof(line), output))
		count += strstr(line, "10.7.0.") != NULL;
	if (output)
		pclose(output);
	return count;
}
