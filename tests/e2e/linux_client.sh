#!/usr/bin/env bash
# linux_client.sh: a stock Linux client on a tree of real files: tar, rsync, git and dd in 47008-byte blocks, and every byte
# found again after its caches are dropped.
#
# KERNEL_CLIENT names a tool that boots a Linux guest, runs a script in it and returns its status:
#     $KERNEL_CLIENT run --net tap --server 'COMMAND' --wait-port PORT --share DIR 'SCRIPT'
# where COMMAND runs in a network namespace of its own until the guest has ended, gets SIGTERM then and is waited for; the guest reaches it over a tap as
# $KERNEL_CLIENT_HOST (default 10.0.2.2), and DIR is /host in the guest, read-only. Without it the test is skipped. What else was tried with a Linux
# client stands in LINUX_CLIENT.md.
set -u
here=$(dirname "$(readlink -f "$0")")
if [ -z "${KERNEL_CLIENT:-}" ]; then
	echo "ok 1 - linux client # SKIP KERNEL_CLIENT names no tool that boots a Linux guest"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
fi
. "$here/../lab/lab.sh"
lab_enter "$@"
lab_make xfs4k disk 1G
mkdir -m 777 "$lab_dir/disk/export" "$lab_dir/state" "$lab_dir/share"
port=20490
# Its status must outlive it: the shell catches the SIGTERM that its group gets, and writes when the daemon is done.
cat >"$lab_dir/serve" <<SERVE
trap : TERM
"$(readlink -f "${NFSDIRECTD:-./nfsdirectd}")" --bind 0.0.0.0 --port $port --state-dir "$lab_dir/state" --export "$lab_dir/disk/export(rw,secure,no_root_squash)" 2>"$lab_dir/log"
echo \$? >"$lab_dir/status"
SERVE
tar -C /usr/include -cf "$lab_dir/share/tree.tar" linux
passed=0 failed=0

cat >"$lab_dir/share/script" <<GUEST
set -u
cd /
mkdir -p /mnt/nfs /tmp/tree
export_mount() { mount -t nfs -o vers=3,tcp,nolock,port=$port,mountport=$port,mountproto=tcp ${KERNEL_CLIENT_HOST:-10.0.2.2}:$lab_dir/disk/export /mnt/nfs; }
export_mount || exit 2
fails=0
check() { local what=\$1; shift; if "\$@"; then echo "ok - \$what"; else echo "not ok - \$what"; fails=1; fi; }
fresh() { sync; echo 3 >/proc/sys/vm/drop_caches; umount /mnt/nfs && export_mount; }
tar -C /tmp/tree -xf /host/tree.tar
mkdir /mnt/nfs/tar
check "tar extracts" tar -C /mnt/nfs/tar -xf /host/tree.tar
check "caches dropped" fresh
check "tar's tree is the same" diff -r --no-dereference /tmp/tree /mnt/nfs/tar
if command -v rsync >/dev/null; then
	check "rsync copies" rsync -a /tmp/tree/ /mnt/nfs/rsync/
	check "rsync finds nothing to do" test -z "\$(rsync -ac --itemize-changes /tmp/tree/ /mnt/nfs/rsync/ | grep '^[<>]')"
	check "caches dropped" fresh
	check "rsync's tree is the same" diff -r --no-dereference /tmp/tree /mnt/nfs/rsync
else
	echo "ok - rsync # SKIP not in the guest"
fi
if command -v git >/dev/null; then
	check "git takes a tree in" sh -c 'mkdir /mnt/nfs/git && cd /mnt/nfs/git && git init -q . && cp -r /tmp/tree/linux src && git add -A && git -c user.name=t -c user.email=t@t commit -qm t'
	check "caches dropped" fresh
	check "git's objects are whole" git -C /mnt/nfs/git fsck --full
	check "git clones" git clone -q /mnt/nfs/git /mnt/nfs/clone
	check "git's clone is clean" test -z "\$(git -C /mnt/nfs/clone status --porcelain)"
else
	echo "ok - git # SKIP not in the guest"
fi
dd if=/dev/urandom of=/tmp/random bs=47008 count=1500 status=none
for how in "" oflag=direct oflag=dsync conv=fsync; do
	rm -f /mnt/nfs/dd
	check "dd bs=47008 \$how" dd if=/tmp/random of=/mnt/nfs/dd bs=47008 \$how status=none
	check "caches dropped" fresh
	check "dd's bytes are the same, \$how" cmp /tmp/random /mnt/nfs/dd
done
check "removes all" rm -rf /mnt/nfs/tar /mnt/nfs/rsync /mnt/nfs/git /mnt/nfs/clone /mnt/nfs/dd
check "nothing is left" test -z "\$(ls -A /mnt/nfs)"
umount /mnt/nfs
exit \$fails
GUEST

"$KERNEL_CLIENT" run --timeout 500 --net tap --server "bash $lab_dir/serve" --wait-port $port --share "$lab_dir/share" 'bash /host/script' 2>&1 | tee "$lab_dir/out"
status=${PIPESTATUS[0]}
passed=$(grep -c '^ok -' "$lab_dir/out") failed=$(grep -c '^not ok -' "$lab_dir/out")
skipped=$(grep -c '^ok - .*# SKIP' "$lab_dir/out")
passed=$((passed - skipped))
if [ $status != 0 ] && [ "$failed" = 0 ]; then
	echo "not ok - the guest ended with status $status"
	failed=1
fi
sed 's/^/# daemon: /' "$lab_dir/log"
if [ "$(cat "$lab_dir/status")" = 0 ]; then passed=$((passed + 1)); else echo "not ok - clean stop"; failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
