/*
 * tests/fuzz/nfs3_fuzz.h - one NFSv3 message through decode, encode, decode, encode. The input's first byte chooses the type.
 */
#ifndef TESTS_FUZZ_NFS3_FUZZ_H
#define TESTS_FUZZ_NFS3_FUZZ_H

#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/nfs3_gen.h"

static inline void fuzz_nfs3_message(const struct nfs3_codec *c, const uint8_t *data, size_t size)
{
	static uint8_t first[1 << 20], second[1 << 20];
	union nfs3_any v;
	struct xdr_out a, b;
	struct xdr x;

	xdr_init(&x, data, size);
	if (!c->dec(&x, &v))
		return;
	xdr_out_init(&a, first, sizeof(first));
	must(c->enc(&a, &v) && xdr_out_pos(&a) == xdr_pos(&x), "what decodes encodes to the length it had");
	xdr_init(&x, first, xdr_out_pos(&a));
	must(c->dec(&x, &v) && xdr_is_done(&x), "what we encode decodes");
	xdr_out_init(&b, second, sizeof(second));
	must(c->enc(&b, &v) && memcmp(first, second, xdr_out_pos(&a)) == 0, "and says the same");
}

#endif
