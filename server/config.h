/*
 * server/config.h - what the server is told: command line, configuration file, and every limit with its default.
 *
 * The command line wins over the file. The file is INI: sections [server], [limits] and [exports]; `include = FILE` reads another one in its place, relative
 * to the file that names it: it begins in the section of that line, or, before any section, without one. All paths in it are relative to it. An unknown section
 * or key, and a value out of its bounds, is an error with file and line, never ignored. What turns out to be wrong later, when it is used, can still be told with file and line: each value
 * remembers where it stood. Bytes take the suffixes K, M and G.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <netinet/in.h>

#include "runtime/log.h"

enum { CONFIG_BINDS_MAX = 8, CONFIG_EXPORTS_MAX = 4096, CONFIG_INCLUDE_DEPTH_MAX = 8 };

/*
 * Each limit has a counter that says how often it was met, and a reaction, named here.
 */
struct server_limits {
	uint64_t connections_max;         /* 4096; one more is accepted and closed */
	uint64_t connection_calls_max;    /* 256: in progress or not yet sent; the socket is not read meanwhile */
	uint64_t connection_bytes_max;    /* 16 MiB: payload in progress and replies not yet sent; likewise */
	uint64_t reactor_calls_max;       /* 2048: likewise, all connections of a reactor together, but for a reserve
	                                   * of a quarter for those with none in progress; sizes its pools */
	uint64_t memory_bytes_max;        /* 256 MiB of payload and cache memory in all; sockets are not read meanwhile. At half of it in
	                                   * flight, connections that have calls in flight are not read.
	                                   * While memory is short record_timeout is 5 seconds */
	uint64_t cache_bytes_max;         /* of files, in all: two thirds of it not yet written (WRITEs wait then), one third half-written units that are kept for their
	                                   * partner (the oldest go). 0: three eighths of memory; half of memory at most */
	uint64_t io_bytes_max;            /* 1 MiB: rtmax and wtmax; longer records close their connection, longer READs are cut */
	uint64_t open_files_max;          /* 16384, up to 3 descriptors and 1 KiB each, and its inode; least recently used ones are closed */
	uint64_t idle_timeout_s;          /* 360; idle connections are closed */
	uint64_t record_timeout_s;        /* 60: to receive a record that has begun, or since the peer took any of the replies; closed */
	uint64_t drc_entries_max;         /* 8192 replies kept for retransmissions; the oldest go */
	uint64_t drc_bytes_max;           /* 4 MiB of them */
	uint64_t mounts_max;              /* 1024 entries of MOUNT's DUMP list; the oldest go */
};

struct server_config {
	/* None: any IPv4 and any IPv6 address. */
	struct config_address {
		char *text;               /* as written */
		int family;               /* AF_INET, AF_INET6 */
		struct in6_addr bytes;    /* the first four, for IPv4 */
	} bind[CONFIG_BINDS_MAX];
	unsigned binds;
	uint64_t port;                    /* 2049; 0: any free one */
	char *state_dir;                  /* /var/lib/nfsdirect */
	char *counters_file;              /* NULL, or where SIGUSR1 and the end write the counters */
	uint64_t reactors;                /* 0: one per CPU */
	uint64_t fibers;                  /* 1024 call slots per reactor */
	uint64_t pool_threads;            /* 8 */
	uint64_t linger_us;               /* 100: how long a reactor looks for the next call of who has one at a time, before it sleeps */
	enum log_level log_level;         /* info */
	bool check_only;                  /* --check */
	struct server_limits limits;

	/* In the order given. None of both: /etc/exports and /etc/exports.d. */
	struct config_export {
		enum { CONFIG_EXPORT_SPEC, CONFIG_EXPORT_FILE } kind;
		char *text;               /* 'PATH(options)', or a file's or directory's path */
	} exports[CONFIG_EXPORTS_MAX];
	unsigned export_count;

	/* Of members above, the line of a file that they have their value from; for config_where(). */
	struct config_place {
		const void *member;
		char *where;
	} *places;
	unsigned place_count;
	const char *reading;              /* "FILE:LINE: " while that line is applied */
};

/* All defaults. */
void config_init(struct server_config *c);
void config_fini(struct server_config *c);

/* Listen on this address too. 0, or -EINVAL with err: it is none, one too many, or overlaps with another. */
int config_bind_add(struct server_config *c, const char *address, char *err, size_t errlen);

/* What the command line asks for. */
enum config_action { CONFIG_SERVE, CONFIG_CHECK, CONFIG_EXIT_OK, CONFIG_EXIT_USAGE };

/*
 * Read the command line, and the file that it names. --help and --version print and are CONFIG_EXIT_OK; after an error (CONFIG_EXIT_USAGE) err holds one line
 * that says what and where.
 */
enum config_action config_from_argv(struct server_config *c, int argc, char **argv, char *err, size_t errlen);

/*
 * Read a configuration file on top of what c holds. 0, or -EINVAL with "FILE:LINE: what" in err, or -errno if the file itself cannot be read: a regular file,
 * with all that it includes no larger than TEXT_FILE_BYTES_MAX.
 */
int config_read_file(struct server_config *c, const char *path, char *err, size_t errlen);

/*
 * "FILE:LINE: ", to begin a message about this member of c (&c->port, &c->bind[1], &c->exports[3]) with; "" if it has its value from the command line, or its
 * default. Good until config_fini().
 */
const char *config_where(const struct server_config *c, const void *member);

/* The key of the first setting beside exports in which the two differ, and its member of `now`; NULL: there is none. */
const char *config_changed(const struct server_config *now, const struct server_config *then, const void **member);

#endif
