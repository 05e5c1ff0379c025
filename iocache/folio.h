/*
 * iocache/folio.h - a piece of a file in memory: one unit that we own, a larger piece that we own, or whole units adopted from a receive buffer. Private to iocache/.
 *
 * Two lifetimes, kept apart. A `struct folio` is a record in its mapping's index: it lives exactly as long as it is there, under the mapping's lock, and
 * nobody else points at it. The *memory* is a buf: the folio holds one reference, a run in flight to the device another, each READ reply that is
 * being sent another. The rule that follows: memory changes only while the folio's reference is the only one. Whoever wants to change more, copies the
 * unit into a new buf first (mapping_own_unit_locked()); so what is in flight is stable without anybody waiting for it.
 *
 * An owned unit knows by byte what it holds: `valid` is known content, `written` what clients gave since the unit was claimed (valid minus fills),
 * `dirty` what the device does not have yet; dirty and written are subsets of valid. It is *complete* when `written` is the whole unit; then it
 * leaves with its writeback. An adopted folio is complete by nature, and dirty until it has gone.
 *
 * A large folio (up to LARGE_BYTES, within one multiple of it) holds what was copied in `dontcache` mode, or read ahead. It knows by block (iocache/blocks.h) and
 * is never an edge: a WRITE that covers a unit of it partly takes that unit out first. What is left of it after a cut is still a large folio, and may be one unit.
 */
#ifndef IOCACHE_FOLIO_H
#define IOCACHE_FOLIO_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "iocache/blocks.h"
#include "iocache/byteset.h"

enum { LARGE_BYTES = 64 << 10 };

struct buf;

struct folio {
	/* all protected by the mapping's lock */
	RB_ENTRY(folio) node;
	TAILQ_ENTRY(folio) kept;     /* on mapping.kept while clean */
	uint64_t start;              /* byte of the file; a multiple of the unit */
	uint32_t len;                /* a multiple of the unit; neither adopted nor large: one unit */
	bool adopted, large;
	bool unstable;               /* holds dirty bytes that were acknowledged, or will be, before they are written */
	bool mark;                   /* dropbehind: goes when it is clean */
	bool is_kept;
	uint8_t payer;               /* whose account its bytes are on while they are dirty or under way */
	bool is_open;                /* counted as a unit of which clients have given a part only */
	uint64_t run;                /* id of the run that carries it to the device now; 0: none */
	uint64_t dirty_seq;          /* the oldest stage whose bytes are here and not yet under way; 0: clean or under way */
	uint64_t kept_since_ns;
	uint64_t refused_since_ns;   /* dirty bytes of it found no space, and are kept for another try, since; 0: no */
	struct buf *buf;             /* referenced */
	uint8_t *data;               /* inside buf */
	struct byteset valid, written, dirty; /* an owned unit's */
	struct blocks *blocks;       /* a large folio's state; NULL: it is whole */
	uint64_t fill;               /* large: id of the read that brings what is not up to date; 0: none */
};

/* Claim: an empty owned unit. NULL: no memory. */
noyield_fn struct folio *folio_alloc_owned(uint64_t start, uint32_t unit);
/* An owned folio of more than one unit, whole, not dirty. NULL: no memory. */
noyield_fn struct folio *folio_alloc_large(uint64_t start, uint32_t len);
/* Give a large folio that is whole a state that says so. 0 or -ENOMEM. */
noyield_fn int folio_attach(struct folio *f, uint32_t block);
/* Every byte of it is known. */
noyield_fn bool folio_is_whole(const struct folio *f);
/* A folio over memory that lies in b; takes its own reference. NULL: no memory. */
noyield_fn struct folio *folio_alloc_adopted(uint64_t start, uint32_t len, struct buf *b, uint8_t *data);
/* Puts the buf. */
noyield_fn void folio_free(struct folio *f);

noyield_fn bool folio_is_complete(const struct folio *f, uint32_t unit);
/* Its memory may be changed in place. */
noyield_fn bool folio_is_private(const struct folio *f);
static inline uint64_t folio_end(const struct folio *f) { return f->start + f->len; }

#endif
