/* vfs/export_table.h - the parts of a table of exports, for the files that read lines into it, match clients and install it. Private to vfs/export*.c. */
#ifndef VFS_EXPORT_TABLE_H
#define VFS_EXPORT_TABLE_H

#include <bsd/sys/queue.h>
#include <netinet/in.h>

#include "runtime/log.h"
#include "vfs/export.h"

enum { EXPORT_NAME_BYTES = 256 }; /* of a host's or client's name, with NUL */

/* In order of precedence (exports(5)). */
enum client_kind { CLIENT_HOST, CLIENT_NET, CLIENT_WILDCARD, CLIENT_ANYBODY, CLIENT_KINDS };

struct export_client {
	/* immutable after parsing */
	STAILQ_ENTRY(export_client) link;
	enum client_kind kind;
	char *spec;                  /* as written; "*" for everybody */
	char *where;                 /* "FILE:LINE: " of its line, "": the command line */
	bool by_name;                /* HOST: spec is a name, addresses follow from it */
	struct in6_addr addr, mask;  /* HOST by address, NET; IPv4 as mapped */
	struct export_options options;
	/* protected by the table lock (export.c) */
	struct in6_addr *addrs;      /* HOST by name: what it resolved to */
	unsigned addr_count;
	struct export_view *view;    /* set once installed */
};

STAILQ_HEAD(export_client_list, export_client);

struct export_entry {
	/* immutable after parsing */
	STAILQ_ENTRY(export_entry) link;
	char *path;                  /* normal form: one '/' between components, none at the end */
	char *where;                 /* "FILE:LINE: " of the line, the first if there are several; "": the command line */
	char *mountpoint;            /* mountpoint, mountpoint=PATH: absent unless this is one */
	struct export_client_list clients;
	/* protected by the table lock */
	struct export *export;
	/* protected by export.c's install_mutex */
	int said;                    /* why it is absent, as it was said last: -errno; 0: that was not said */
	struct log_limit remarks_limit, back_limit; /* of what refreshes say: a client may cause it */
};

STAILQ_HEAD(export_entry_list, export_entry);

STAILQ_HEAD(export_remark_list, export_remark);

struct export_table {
	struct export_entry_list entries;
	struct export_remark_list remarks; /* to be logged when the table is installed */
};

/* Keep a line for the log. */
void export_remark_add(struct export_remark_list *list, enum log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Log them, in their order, and free them. limit: where a peer can cause them, or NULL. */
void export_remarks_log(struct export_remark_list *list, struct log_limit *limit);
void export_remarks_free(struct export_remark_list *list);

/* Client specification -> kind and address. -EINVAL with *why (a literal). */
int export_client_parse(const char *spec, struct export_client *c, const char **why);
/* The client's address as IPv6 or mapped IPv4; false: no IP address at all, which only CLIENT_ANYBODY fits. */
noyield_fn bool export_client_addr(const struct sockaddr *sa, struct in6_addr *addr);
/* The entry of e that fits best. -EACCES: none; -EAGAIN: only the client's name could tell, and it is not known. Table lock held. */
noyield_fn int export_client_find_locked(const struct export_entry *e, const struct sockaddr *sa, struct export_client **found);
bool export_addr_in_list(const struct in6_addr *addr, const struct in6_addr *list, unsigned count);

/* The client's name if it is known, "" if it has none; false: not known. Asks for it again where that is due. Any lock but those of export_name.c may be held. */
noyield_fn bool export_client_name(const struct in6_addr *addr, char name[EXPORT_NAME_BYTES]);
/* name's addresses in new memory, from the name service, which may take long; 0 with *count 0 if it has none. -EAGAIN: no answer; -ENOMEM. */
pool_fn int export_host_resolve(const char *name, struct in6_addr **addrs, unsigned *count);
/* Have host's addresses found; export_host_set() gets them, on a thread of the name service. */
noyield_fn void export_host_ask(const char *host);
/* Give the clients of the current table that are named so and have no address yet these ones. In export.c. */
void export_host_set(const char *host, const struct in6_addr *addrs, unsigned count);
/* `path` in normal form, in new memory. NULL with errno: EINVAL (not absolute, or with ".."), ENOMEM. */
char *export_path_normal(const char *path);

#endif
