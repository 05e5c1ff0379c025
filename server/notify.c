/*
 * server/notify.c - see notify.h.
 *
 * The protocol is one datagram per message and no answer, so no library is needed for it. A name that begins with '@' is an abstract one. The socket is made
 * anew for each message: there are three in a server's life, and one for each reload.
 */
#include "server/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/log.h"

/* Its length; 0: no address of a socket of this family. */
static socklen_t address_of(const char *name, struct sockaddr_un *sun)
{
	size_t len = strlen(name);
	if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(sun->sun_path))
		return 0;
	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(sun->sun_path, name, len);
	if (name[0] == '@')
		sun->sun_path[0] = '\0';
	/* A path ends with a NUL; an abstract name is as long as the address says. */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
}

/* 0 or -errno. */
static int message_send(const char *name, const char *text)
{
	const struct timeval patience = { .tv_sec = 5 };
	struct sockaddr_un sun;
	socklen_t len = address_of(name, &sun);
	if (len == 0)
		return -EINVAL;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	int err = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&sun, len) < 0 ? -errno : 0;
	close(fd);
	return err;
}

static void notify(const char *text)
{
	const char *name = getenv("NOTIFY_SOCKET");
	if (name == NULL)
		return;
	int err = message_send(name, text);
	if (err != 0)
		log_write(LOG_LEVEL_WARNING, "cannot tell the service manager %.*s (NOTIFY_SOCKET=%s): %s", (int)strcspn(text, "\n"), text, name, strerror(-err));
}

void notify_ready(void) { notify("READY=1"); }
void notify_stopping(void) { notify("STOPPING=1"); }

void notify_reloading(void)
{
	char text[64];
	/* systemd tells by the time that this is an answer to its own SIGHUP (Type=notify-reload). */
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(clock_mono_ns() / 1000));
	notify(text);
}
