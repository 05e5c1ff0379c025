/*
 * verify.c: the read-back of nfsload --verify. It goes through libnfs's own mount, lookup and read: nothing of the load's client is in it.
 */
#include "tests/bench/verify.h"

#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/pattern.h"
#include "tests/bench/sample.h"

enum { PIECE = 1 << 20 };

static void compare(const uint8_t *got, const uint8_t *want, uint64_t offset, size_t len)
{
	size_t i;

	if (memcmp(got, want, len) == 0)
		return;
	for (i = 0; got[i] == want[i]; i++)
		;
	die("verify: byte %llu is %02x, not %02x", (unsigned long long)(offset + i), got[i], want[i]);
}

static void compare_piece(const uint8_t *got, uint64_t offset, uint64_t end, generation_fn *generation_at)
{
	while (offset < end) {
		uint64_t until = end;
		unsigned generation = generation_at(offset, &until);

		until = until < end ? until : end;
		compare(got, bytes_at(generation, offset), offset, until - offset);
		got += until - offset;
		offset = until;
	}
}

static void compare_file(struct nfs_context *nfs, struct nfsfh *fh, uint64_t size, generation_fn *generation_at)
{
	static char piece[PIECE];
	uint64_t at = 0;

	while (at < size) {
		uint64_t want = size - at < PIECE ? size - at : PIECE;
		int n = nfs_pread(nfs, fh, at, want, piece);

		if (n <= 0)
			die("verify: at %llu: %s", (unsigned long long)at, n ? nfs_get_error(nfs) : "end of file");
		compare_piece((uint8_t *)piece, at, at + (uint64_t)n, generation_at);
		at += (uint64_t)n;
	}
}

void verify_file(unsigned port, unsigned mount_port, const char *export, const char *name, uint64_t size, generation_fn *generation_at)
{
	struct nfs_context *nfs = nfs_init_context();
	struct nfs_stat_64 st;
	struct nfs_url *url;
	struct nfsfh *fh;
	char text[4096];

	if (!nfs)
		die("verify: no memory");
	snprintf(text, sizeof(text), "nfs://127.0.0.1%s?version=3&nfsport=%u&mountport=%u", export, port, mount_port);
	url = nfs_parse_url_dir(nfs, text);
	if (!url || nfs_mount(nfs, url->server, url->path) < 0 || nfs_open(nfs, name, O_RDONLY, &fh) < 0 || nfs_fstat64(nfs, fh, &st) < 0)
		die("verify: %s: %s", name, nfs_get_error(nfs));
	if (st.nfs_size != size)
		die("verify: %s has %llu bytes, not %llu", name, (unsigned long long)st.nfs_size, (unsigned long long)size);
	compare_file(nfs, fh, size, generation_at);
	nfs_close(nfs, fh);
	nfs_destroy_url(url);
	nfs_destroy_context(nfs);
	fprintf(stderr, "verify: %s: %llu bytes are right\n", name, (unsigned long long)size);
}
