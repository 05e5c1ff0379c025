/* server/listener.h - the listening sockets: opened before the reactors start, accepted from on reactor 0. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "runtime/base.h"

struct server_config;

/* Bind and listen on what the configuration names. 0, or -errno with a sentence in err, which begins with the line to blame. */
int listeners_open(const struct server_config *config, char *err, size_t errlen);
void listeners_close(void);
/* Reactor 0: begin to accept; stop (what was accepted stays). */
noyield_fn void listeners_start(void);
noyield_fn void listeners_stop(void);
unsigned listeners_port(void);
/* "ADDR:PORT" of each, with blanks between. */
const char *listeners_addresses(void);

#endif
