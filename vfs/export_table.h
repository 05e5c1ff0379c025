/* vfs/export_table.h - the parts of a table of exports, for the files that read lines into it, match clients and install it. Private to vfs/export*.c. */
#ifndef VFS_EXPORT_TABLE_H
#define VFS_EXPORT_TABLE_H

#include <bsd/sys/queue.h>
#include <netinet/in.h>

#include "vfs/export.h"

/* In order of precedence (exports(5)). */
enum client_kind { CLIENT_HOST, CLIENT_NET, CLIENT_WILDCARD, CLIENT_ANYBODY, CLIENT_KINDS };

struct export_client {
	/* immutable after parsing */
	STAILQ_ENTRY(export_client) link;
	enum client_kind kind;
	char *spec;                  /* as written; "*" for everybody */
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
	char *mountpoint;            /* mountpoint, mountpoint=PATH: absent unless this is one */
	struct export_client_list clients;
	/* protected by the table lock */
	struct export *export;
};

STAILQ_HEAD(export_entry_list, export_entry);

struct export_table {
	struct export_entry_list entries;
};

/* Client specification -> kind and address. -EINVAL with *why (a literal). */
int export_client_parse(const char *spec, struct export_client *c, const char **why);
/* The client's address as IPv6 or mapped IPv4; false: no IP address at all, which only CLIENT_ANYBODY fits. */
noyield_fn bool export_client_addr(const struct sockaddr *sa, struct in6_addr *addr);
/* The entry of e that fits best. -EACCES: none; -EAGAIN: only the client's name could tell, and it is not in the cache. Table lock held. */
noyield_fn int export_client_find_locked(const struct export_entry *e, const struct sockaddr *sa, struct export_client **found);
/* Put the client's name into the cache (or that it has none), unless it is there already. */
pool_fn void export_client_name_resolve(const struct sockaddr *sa);
/* name's addresses in new memory; 0 with *count 0 if it has none. */
pool_fn int export_host_resolve(const char *name, struct in6_addr **addrs, unsigned *count);
/* `path` in normal form, in new memory. NULL with errno: EINVAL (not absolute, or with ".."), ENOMEM. */
char *export_path_normal(const char *path);

#endif
