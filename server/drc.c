/*
 * server/drc.c - the duplicate request cache.
 *
 * An entry stands for one call, known by the client's address (not its port: retransmissions come over new connections), xid, procedure, the length of the
 * arguments and a hash over their first bytes; the latter two tell a retransmission from a client that was restarted and uses its xids again. The key's
 * hash is keyed with a random secret, so that nobody can aim at a bucket.
 *
 * Entries in progress are referenced by their call and on no list but their bucket's. Finished ones are also on the LRU, which is cut to both
 * bounds. If every entry is in progress, the call runs without one (counted): correctness of the first run never depends on the cache. All is protected
 * by one leaf lock, held for a look-up or a copy of a few hundred bytes.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proto/record.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/sync.h"
#include "server/call.h"
#include "server/conn.h"
#include "server/drc.h"
#include "server/reply.h"

enum { CHECKSUM_BYTES = 256, BUCKETS = 4096 };

COUNTER_DEFINE(misses, "drc.misses");
COUNTER_DEFINE(replays, "drc.replays");
COUNTER_DEFINE(in_progress, "drc.in_progress_drops");
COUNTER_DEFINE(evictions, "drc.evictions");
COUNTER_DEFINE(bypasses, "drc.bypassed_full");

/* Compared as bytes: made by memset and assignment only. */
struct drc_key {
	uint8_t address[16];
	uint32_t xid, prog, vers, proc;
	uint32_t length;
	uint32_t family;
	uint64_t checksum;
};

struct drc_entry {
	LIST_ENTRY(drc_entry) bucket;
	TAILQ_ENTRY(drc_entry) lru; /* finished ones */
	struct drc_key key;
	uint8_t *reply;             /* NULL: in progress */
	uint32_t reply_len;
};

LIST_HEAD(drc_bucket, drc_entry);
TAILQ_HEAD(drc_lru, drc_entry);

static struct leaf_lock lock = LEAF_LOCK_INIT;
/* protected by lock */
static struct drc_bucket buckets[BUCKETS];
static struct drc_lru lru;
static size_t entries, bytes;
/* immutable after init */
static size_t entries_max, bytes_max;
static uint64_t secret;

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9fb21c651e98df25);
	return h ^ (h >> 32);
}

static uint64_t hash_bytes(const void *mem, size_t len)
{
	const uint8_t *p = mem;
	uint64_t h = secret ^ len, word;
	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, p, len);
	return mix(h, word);
}

static void key_address(struct drc_key *key, const struct sockaddr_storage *peer)
{
	key->family = peer->ss_family;
	if (peer->ss_family == AF_INET)
		memcpy(key->address, &((const struct sockaddr_in *)peer)->sin_addr, 4);
	else if (peer->ss_family == AF_INET6)
		memcpy(key->address, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
}

static void key_make(struct drc_key *key, const struct rpc_call *call)
{
	const struct xdr *args = &call->args;
	memset(key, 0, sizeof(*key));
	key_address(key, &call->conn->peer);
	key->xid = call->header.xid;
	key->prog = call->header.prog;
	key->vers = call->header.vers;
	key->proc = call->header.proc;
	key->length = (uint32_t)xdr_left(args);
	key->checksum = hash_bytes(args->base + xdr_pos(args), min_u64(xdr_left(args), CHECKSUM_BYTES));
}

static struct drc_bucket *bucket_of(const struct drc_key *key) { return &buckets[hash_bytes(key, sizeof(*key)) % BUCKETS]; }

static struct drc_entry *find_locked(const struct drc_key *key)
{
	struct drc_entry *e;
	LIST_FOREACH(e, bucket_of(key), bucket)
		if (memcmp(&e->key, key, sizeof(*key)) == 0)
			return e;
	return NULL;
}

/* e is on no LRU. */
static void remove_locked(struct drc_entry *e)
{
	LIST_REMOVE(e, bucket);
	entries--;
	bytes -= e->reply_len;
	free(e->reply);
	free(e);
}

/* Drop the oldest until there is room for one more entry and `more` bytes. False: what is left is in progress. */
static bool make_room_locked(size_t more_entries, size_t more)
{
	struct drc_entry *e;
	while ((entries + more_entries > entries_max || bytes + more > bytes_max) && (e = TAILQ_FIRST(&lru)) != NULL) {
		TAILQ_REMOVE(&lru, e, lru);
		remove_locked(e);
		counter_add(&evictions, 1);
	}
	return entries + more_entries <= entries_max && bytes + more <= bytes_max;
}

static struct drc_entry *insert_locked(const struct drc_key *key)
{
	struct drc_entry *e = make_room_locked(1, 0) ? calloc(1, sizeof(*e)) : NULL;
	if (e == NULL) {
		counter_add(&bypasses, 1);
		return NULL;
	}
	e->key = *key;
	LIST_INSERT_HEAD(bucket_of(key), e, bucket);
	entries++;
	return e;
}

/* Replies that are kept are small (no READ, no directory). */
static void replay_locked(struct drc_entry *e, struct reply *r)
{
	xdr_out_rewind(&r->out, 0);
	uint8_t *at = xdr_out_reserve(&r->out, e->reply_len);
	if (at != NULL)
		memcpy(at, e->reply, e->reply_len);
	TAILQ_REMOVE(&lru, e, lru);
	TAILQ_INSERT_TAIL(&lru, e, lru);
}

enum drc_verdict drc_begin(struct rpc_call *call)
{
	struct drc_key key;
	enum drc_verdict verdict = DRC_NEW;
	key_make(&key, call);
	leaf_lock(&lock);
	struct drc_entry *e = find_locked(&key);
	if (e == NULL) {
		call->drc = insert_locked(&key);
	} else if (e->reply == NULL) {
		verdict = DRC_IN_PROGRESS;
	} else {
		verdict = DRC_REPLAY;
		replay_locked(e, call->reply);
	}
	leaf_unlock(&lock);
	counter_add(verdict == DRC_NEW ? &misses : verdict == DRC_REPLAY ? &replays : &in_progress, 1);
	return verdict;
}

/* A copy of the reply behind its record mark, if it is one to be kept. */
static uint8_t *reply_copy(const struct rpc_call *call, uint32_t *len)
{
	const struct reply *r = call->reply;
	if (r == NULL || call->not_cached || r->total != r->len || r->len > REPLY_SMALL_BYTES)
		return NULL;
	*len = r->len - RECORD_MARK_BYTES;
	uint8_t *copy = malloc(*len);
	if (copy != NULL)
		memcpy(copy, r->mem + RECORD_MARK_BYTES, *len);
	return copy;
}

void drc_end(struct rpc_call *call)
{
	struct drc_entry *e = call->drc;
	uint32_t len = 0;
	if (e == NULL)
		return;
	call->drc = NULL;
	uint8_t *copy = reply_copy(call, &len);
	leaf_lock(&lock);
	if (copy != NULL && make_room_locked(0, len)) {
		e->reply = copy;
		e->reply_len = len;
		bytes += len;
		TAILQ_INSERT_TAIL(&lru, e, lru);
	} else {
		free(copy);
		remove_locked(e);
	}
	leaf_unlock(&lock);
}

void drc_init(size_t max_entries, size_t max_bytes)
{
	TAILQ_INIT(&lru);
	for (unsigned i = 0; i < BUCKETS; i++)
		LIST_INIT(&buckets[i]);
	entries_max = max_entries;
	bytes_max = max_bytes;
	entries = bytes = 0;
	secret = random_u64();
}

void drc_fini(void)
{
	leaf_lock(&lock);
	make_room_locked(entries_max + 1, 0);
	leaf_unlock(&lock);
	ASSERT(entries == 0);
}
