/*
 * server/nfs3_data.c - READ, WRITE and COMMIT (RFC 1813 sections 3.3.6, 3.3.7, 3.3.21).
 *
 * A WRITE's payload was received apart, at an address congruent to its offset, and is handed on as it is; only when it came inside a gathered record (several
 * fragments, odd lengths) it is where it is, and vfs_write() copies its middle. A READ's data stay where vfs_read() found them; the reply takes the segments
 * and their references, and the socket gathers them.
 */
#include <assert.h>

#include "runtime/buf.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/nfs3.h"
#include "server/reply.h"
#include "server/server.h"
#include "vfs/data.h"
#include "vfs/file.h"

static_assert((int)UNSTABLE == (int)VFS_UNSTABLE && (int)DATA_SYNC == (int)VFS_DATA_SYNC && (int)FILE_SYNC == (int)VFS_FILE_SYNC, "one numbering");

static int read_file(struct rpc_call *call, struct nfs3_object *o, const struct READ3args *args, struct vfs_read_result **result)
{
	uint32_t count = (uint32_t)min_u64(args->count, server.config->limits.io_bytes_max);
	*result = reply_read_result(call->conn->sr, call->reply);
	if (*result == NULL)
		return -ENOMEM;
	conn_charge(call, count);
	return vfs_read(&o->call, o->file, args->offset, count, *result);
}

enum call_outcome nfs3_proc_read(struct rpc_call *call)
{
	struct READ3args args;
	struct READ3res res;
	struct nfs3_object o;
	struct vfs_read_result *result = NULL;
	if (!xdr_dec_READ3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.file, &o);
	if (err == 0)
		err = read_file(call, &o, &args, &result);
	res.status = nfs3_status(call, err);
	struct post_op_attr after = result != NULL && result->attr_valid ? nfs3_post_op(true, &result->attr) : nfs3_object_attr(&o);
	if (err == 0) {
		res.resok = (struct READ3resok){ .file_attributes = after, .count = result->count, .eof = result->eof, .data = { NULL, result->count } };
	} else {
		res.resfail.file_attributes = after;
		reply_read_drop(call->conn->sr, call->reply);
	}
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_READ3res_head(&call->reply->out, &res));
}

bool nfs3_write_head(struct xdr *x, uint64_t *offset, uint32_t *len)
{
	struct WRITE3args args;
	if (!xdr_dec_WRITE3args_head(x, &args))
		return false;
	*offset = args.offset;
	*len = args.data.len;
	return true;
}

static bool write_args(struct rpc_call *call, struct WRITE3args *args)
{
	return call->payload.buf != NULL ? xdr_dec_WRITE3args_head(&call->args, args) : xdr_dec_WRITE3args(&call->args, args);
}

/* Make call->payload of data that stand inside the record. */
static int write_payload(struct rpc_call *call, const struct WRITE3args *args)
{
	uint32_t phase = args->offset % PAGE_BYTES;
	struct vfs_payload *p = &call->payload;
	if (p->buf != NULL)
		return 0;
	if (call->body == NULL) { /* a small record */
		call->body = buf_alloc(phase + max_u64(args->data.len, 1));
		if (call->body == NULL)
			return -ENOMEM;
		p->data = call->body->data + phase;
		memcpy(p->data, args->data.ptr, args->data.len);
	} else {
		p->data = call->body->data + (args->data.ptr - call->body->data);
	}
	p->buf = call->body;
	p->len = args->data.len;
	return 0;
}

enum call_outcome nfs3_proc_write(struct rpc_call *call)
{
	struct WRITE3args args;
	struct WRITE3res res;
	struct nfs3_object o;
	struct vfs_write_result result = { .wcc.post_valid = false };
	if (!write_args(call, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.file, &o);
	if (err == 0)
		err = write_payload(call, &args);
	if (err == 0)
		err = vfs_write(&o.call, o.file, args.offset, &call->payload, (enum vfs_stable)args.stable, &result);
	res.status = nfs3_status(call, err);
	struct wcc_data wcc = nfs3_wcc(&result.wcc);
	if (!result.wcc.post_valid)
		wcc.after = nfs3_object_attr(&o);
	if (err == 0) {
		res.resok = (struct WRITE3resok){ .file_wcc = wcc, .count = result.count, .committed = (enum stable_how)result.committed };
		memcpy(res.resok.verf, &result.verf, sizeof(res.resok.verf));
	} else {
		res.resfail.file_wcc = wcc;
	}
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_WRITE3res(&call->reply->out, &res));
}

enum call_outcome nfs3_proc_commit(struct rpc_call *call)
{
	struct COMMIT3args args;
	struct COMMIT3res res;
	struct nfs3_object o;
	struct vfs_wcc vfs_wcc = { .post_valid = false };
	uint64_t verf = 0;
	if (!xdr_dec_COMMIT3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.file, &o);
	if (err == 0)
		err = vfs_commit(&o.call, o.file, args.offset, args.count, &verf, &vfs_wcc);
	res.status = nfs3_status(call, err);
	struct wcc_data wcc = nfs3_wcc(&vfs_wcc);
	if (!vfs_wcc.post_valid)
		wcc.after = nfs3_object_attr(&o);
	if (err == 0) {
		res.resok.file_wcc = wcc;
		memcpy(res.resok.verf, &verf, sizeof(res.resok.verf));
	} else {
		res.resfail.file_wcc = wcc;
	}
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_COMMIT3res(&call->reply->out, &res));
}
