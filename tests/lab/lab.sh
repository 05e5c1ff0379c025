# lab.sh: makes and removes file systems for tests. Sourced by the bash scripts in tests/.
#
# Everything lives in a mount and a PID namespace of the script's own, loop devices are told to go with their last user, and
# backing files are unlinked as soon as they are attached: so no process, mount or device is left behind, even after
# SIGKILL. lab_cleanup, which an EXIT trap calls, removes the directories too.
#
#     . tests/lab/lab.sh
#     lab_enter "$@"                    first thing: re-executes the script in its own namespaces, as root; exits 77 if it cannot
#     lab_make xfs4k NAME SIZE          XFS on a device of 4096-byte sectors (SIZE at least 300M)
#     lab_make xfs:SECTOR:BLOCK NAME SIZE   XFS with such sectors and blocks (512...65536), if the kernel and mkfs.xfs can
#     lab_make ext4:SECTOR:BLOCK NAME SIZE  the same with ext4
#     lab_make btrfs NAME SIZE          btrfs on a device of 4096-byte sectors (SIZE at least 200M)
#     lab_make ext4 NAME SIZE           ext4 on a device of 512-byte sectors
#     lab_make ext4quota NAME SIZE      ext4 that counts what users have, if the kernel can; limits are the caller's to set
#     lab_make btrfsquota NAME SIZE     a btrfs subvolume that holds 8 MiB at most (SIZE at least 200M)
#     lab_make tmpfs NAME SIZE
#     lab_remove NAME
#     lab_counters NAME                 "READS READ_BYTES WRITES WRITTEN_BYTES FLUSHES" of its device since it was made
#
# File systems are mounted at $lab_dir/NAME, mode 1777. Backing files stand in $LAB_BACKING (default: the temporary directory;
# a tmpfs there makes a fast disk).

# Prints why this machine cannot have a lab, or nothing.
lab_unfit() {
	local tool
	[ "$(id -u)" = 0 ] || { echo "not root"; return; }
	for tool in losetup mkfs.xfs mkfs.ext4 unshare; do
		command -v $tool >/dev/null || { echo "no $tool"; return; }
	done
	[ -e /dev/loop-control ] || { echo "no loop devices"; return; }
	unshare -m -p -f --mount-proc true 2>/dev/null || echo "no mount and PID namespaces"
}

lab_enter() {
	local why
	if [ -z "${LAB_NAMESPACE:-}" ]; then
		why=$(lab_unfit)
		if [ -n "$why" ]; then
			echo "ok 1 - lab # SKIP $why"
			exit 77
		fi
		LAB_NAMESPACE=1 exec unshare -m -p -f --kill-child --mount-proc "$0" "$@"
	fi
	unset LAB_NAMESPACE
	lab_dir=$(mktemp -d "${TMPDIR:-/tmp}/nfsdirect-lab.XXXXXX")
	chmod 755 "$lab_dir"
	declare -gA lab_device=()
	trap lab_cleanup EXIT
	trap 'exit 143' INT TERM HUP
}

# Attaches a fresh sparse file of SIZE as a device of SECTOR-byte sectors; prints the device.
lab_attach() {
	local size=$1 sector=$2 file device
	file=$(mktemp "${LAB_BACKING:-${TMPDIR:-/tmp}}/nfsdirect-disk.XXXXXX")
	truncate -s "$size" "$file"
	device=$(losetup -f --show --sector-size "$sector" --direct-io=on "$file" 2>/dev/null ||
		losetup -f --show --sector-size "$sector" "$file")
	rm "$file"
	echo "$device"
}

lab_mount_btrfsquota() {
	local device=$1 at=$2
	mkfs.btrfs -q "$device" >/dev/null 2>&1 && mount -t btrfs "$device" "$at" && btrfs subvolume create "$at/v" >/dev/null &&
		btrfs quota enable "$at" && btrfs qgroup limit 8M "$at/v" && umount "$at" && mount -t btrfs -o subvol=v "$device" "$at"
}

# lab_mount_sized TYPE:SECTOR:BLOCK NAME SIZE MKFS...: not every kernel has sectors or blocks larger than a page.
lab_mount_sized() {
	local kind=$1 name=$2 size=$3 sector
	shift 3
	sector=$(cut -d: -f2 <<<"$kind")
	lab_device[$name]=$(lab_attach "$size" "$sector")
	[ -n "${lab_device[$name]}" ] && "$@" "${lab_device[$name]}" && mount -t "${kind%%:*}" "${lab_device[$name]}" "$lab_dir/$name"
}

# What lab_make has begun.
lab_undo() {
	umount "$lab_dir/$1" 2>/dev/null
	[ -z "${lab_device[$1]:-}" ] || losetup -d "${lab_device[$1]}"
	rmdir "$lab_dir/$1"
	unset "lab_device[$1]"
	return 1
}

lab_make() {
	local kind=$1 name=$2 size=$3 at=$lab_dir/$2
	mkdir "$at" || return
	case $kind in
	xfs:*)
		lab_mount_sized "$kind" "$name" "$size" mkfs.xfs -q -s "size=$(cut -d: -f2 <<<"$kind")" -b "size=${kind##*:}"
		;;
	ext4:*)
		lab_mount_sized "$kind" "$name" "$size" mkfs.ext4 -q -F -b "${kind##*:}"
		;;
	btrfs)
		lab_device[$name]=$(lab_attach "$size" 4096)
		mkfs.btrfs -q "${lab_device[$name]}" >/dev/null && mount -t btrfs "${lab_device[$name]}" "$at"
		;;
	xfs4k)
		lab_device[$name]=$(lab_attach "$size" 4096)
		mkfs.xfs -q -s size=4096 "${lab_device[$name]}" && mount -t xfs "${lab_device[$name]}" "$at"
		;;
	ext4)
		lab_device[$name]=$(lab_attach "$size" 512)
		mkfs.ext4 -q -F "${lab_device[$name]}" && mount -t ext4 "${lab_device[$name]}" "$at"
		;;
	ext4quota)
		lab_device[$name]=$(lab_attach "$size" 512)
		mkfs.ext4 -q -F -O quota -E quotatype=usrquota "${lab_device[$name]}" && mount -t ext4 -o usrquota "${lab_device[$name]}" "$at"
		;;
	btrfsquota)
		lab_device[$name]=$(lab_attach "$size" 4096)
		lab_mount_btrfsquota "${lab_device[$name]}" "$at"
		;;
	tmpfs)
		mount -t tmpfs -o size="$size" lab "$at"
		;;
	esac || { lab_undo "$name"; return; }
	# Detaching a device in use only marks it to go with its last user.
	[ -z "${lab_device[$name]:-}" ] || losetup -d "${lab_device[$name]}"
	chmod 1777 "$at"
}

lab_remove() {
	mountpoint -q "$lab_dir/$1" && umount -l "$lab_dir/$1"
	rmdir "$lab_dir/$1"
	unset "lab_device[$1]"
}

lab_counters() {
	local -a f
	read -r -a f <"/sys/block/${lab_device[$1]#/dev/}/stat"
	echo "${f[0]} $((f[2] * 512)) ${f[4]} $((f[6] * 512)) ${f[15]:-0}"
}

lab_cleanup() {
	local at
	for at in "$lab_dir"/*; do
		mountpoint -q "$at" && umount -l "$at"
	done
	rm -rf --one-file-system "$lab_dir"
}
