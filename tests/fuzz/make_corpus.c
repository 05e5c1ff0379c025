/*
 * tests/fuzz/make_corpus.c - writes the seeds of the committed corpus: make_corpus DIR makes DIR/TARGET/NAME for each fuzz target.
 *
 * Valid messages of every type out of tests/unit/nfs3_gen.c, and of each one that is cut short and one with a corrupted length. What fuzzing finds is
 * added to the corpus by hand.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/mount3.h"
#include "proto/record.h"
#include "proto/rpc.h"
#include "tests/unit/nfs3_gen.h"

enum { SEED_MAX = 1200 };

static const char *top;
static struct gen gen;
static uint8_t buf[GEN_MESSAGE_MAX];

static void save(const char *target, const char *name, const void *data, size_t len)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", top, target);
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		exit((perror(path), 1));
	snprintf(path, sizeof(path), "%s/%s/%s", top, target, name);
	file = fopen(path, "wb");
	if (!file || fwrite(data, 1, len, file) != len || fclose(file) != 0)
		exit((perror(path), 1));
}

/* The message and what is made of it. at: a word to corrupt. */
static void save_mutants(const char *target, const char *name, uint8_t *data, size_t len, size_t at)
{
	char mutant[128];

	save(target, name, data, len);
	snprintf(mutant, sizeof(mutant), "%s-cut", name);
	save(target, mutant, data, len - len / 3);
	xdr_store32(data + at, 0xfffffff9);
	snprintf(mutant, sizeof(mutant), "%s-corrupt", name);
	save(target, mutant, data, len);
}

static void make_nfs3(int t, uint64_t seed)
{
	union nfs3_any v = { 0 };
	struct xdr_out out;

	do {
		gen_init(&gen, seed++);
		nfs3_codecs[t].gen(&gen, &v);
		xdr_out_init(&out, buf + 1, sizeof(buf) - 1);
		nfs3_codecs[t].enc(&out, &v);
	} while (xdr_out_pos(&out) > SEED_MAX || xdr_out_pos(&out) < 8);
	buf[0] = (uint8_t)(t / 2);
	save_mutants(nfs3_codecs[t].is_args ? "nfs3args" : "nfs3res", nfs3_codecs[t].name, buf, 1 + xdr_out_pos(&out), 1 + xdr_out_pos(&out) / 8 * 4);
}

static void make_rpc(void)
{
	static const struct authsys_parms parms = { .machinename = { (const uint8_t *)"client", 6 }, .uid = 1000, .gids_len = 16 };
	struct call_body c = { .xid = 1, .rpcvers = RPC_VERSION, .prog = NFS_PROGRAM, .vers = NFS_V3, .proc = NFSPROC3_WRITE };
	struct reply_body accepted = { .xid = 1, .accept = PROG_MISMATCH, .mismatch = { 3, 4 } };
	uint8_t body[256];
	struct xdr_out out;

	xdr_out_init(&out, body, sizeof(body));
	rpc_enc_authsys(&out, &parms);
	save_mutants("rpc", "authsys", body, xdr_out_pos(&out), xdr_out_pos(&out) - 68);
	xdr_out_init(&out, body, sizeof(body));
	rpc_enc_authsys(&out, &parms);
	c.cred = (struct opaque_auth){ AUTH_SYS, xdr_bytes_of(body, (uint32_t)xdr_out_pos(&out)) };
	xdr_out_init(&out, buf, sizeof(buf));
	rpc_enc_call(&out, &c);
	save_mutants("rpc", "call", buf, xdr_out_pos(&out), 28);
	xdr_out_init(&out, buf, sizeof(buf));
	rpc_enc_reply(&out, &accepted);
	save_mutants("rpc", "accepted", buf, xdr_out_pos(&out), 16);
	xdr_out_init(&out, buf, sizeof(buf));
	rpc_enc_auth_error(&out, 1, AUTH_TOOWEAK);
	save_mutants("rpc", "denied", buf, xdr_out_pos(&out), 12);
}

static void make_mount3(void)
{
	struct mountres3 r = { .mountinfo = { .fhandle = { (const uint8_t *)"handle", 6 }, .auth_flavors_len = 2, .auth_flavors = { 1, 6 } } };
	struct mountbody m = { xdr_bytes_str("host"), xdr_bytes_str("/srv/data") };
	struct mount3_exports e;
	struct xdr_out out;

	xdr_out_init(&out, buf, sizeof(buf));
	xdr_enc_dirpath(&out, xdr_bytes_str("/srv/data/with/a/longer/path"));
	save_mutants("mount3", "dirpath", buf, xdr_out_pos(&out), 0);
	xdr_out_init(&out, buf, sizeof(buf));
	xdr_enc_mountres3(&out, &r);
	save_mutants("mount3", "mountres3", buf, xdr_out_pos(&out), 16);
	xdr_out_init(&out, buf, sizeof(buf));
	for (int i = 0; i < 3; i++)
		mount3_mountlist_entry(&out, &m);
	mount3_mountlist_end(&out);
	save_mutants("mount3", "mountlist", buf, xdr_out_pos(&out), 32);
	xdr_out_init(&out, buf, sizeof(buf));
	mount3_exports_begin(&e, &out);
	for (int i = 0; i < 2; i++) {
		mount3_exports_entry(&e, m.ml_directory);
		mount3_exports_group(&e, m.ml_hostname);
		mount3_exports_group(&e, xdr_bytes_str("*.example"));
	}
	mount3_exports_end(&e);
	save_mutants("mount3", "exports", buf, xdr_out_pos(&out), 24);
}

static void make_record(void)
{
	/* Limits and cut, then three records: whole, in three fragments, empty. */
	uint8_t stream[] = "\4\3\2\x80\0\0\4abcd\0\0\0\2ef\0\0\0\0\x80\0\0\3ghi\x80\0\0\0";
	uint8_t many[] = "\4\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

	save_mutants("record", "three", stream, sizeof(stream) - 1, 11);
	save("record", "empty-fragments", many, sizeof(many) - 1);
}

static void make_dirlist(void)
{
	struct xdr_out out;
	uint8_t *p;

	xdr_out_init(&out, buf, sizeof(buf));
	xdr_enc_u32(&out, 4096);
	xdr_enc_u32(&out, 1000);
	xdr_enc_u32(&out, 300);
	for (uint8_t i = 0; i < 12; i++) {
		p = xdr_out_reserve(&out, 3 + i * 3 + i);
		memset(p, 'a' + i, 3 + i * 3 + i);
		p[0] = i * 3;
		p[1] = i;
		p[2] = i;
	}
	save_mutants("dirlist", "twelve", buf, xdr_out_pos(&out), 0);
	xdr_store32(buf, 500);
	save_mutants("dirlist", "little-room", buf, xdr_out_pos(&out), 4);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: make_corpus DIR\n");
		return 2;
	}
	top = argv[1];
	for (int t = 0; t < NFS3_MESSAGE_COUNT; t++)
		make_nfs3(t, (uint64_t)t * 100);
	make_rpc();
	make_mount3();
	make_record();
	make_dirlist();
	return 0;
}
