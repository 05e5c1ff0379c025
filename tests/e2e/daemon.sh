# daemon.sh: a daemon of the script's own, for the bash scripts beside it.
#
#     daemon_start [arguments]     on a free port, waits for the ready line; sets daemon_port, daemon_pid
#     daemon_stop                  SIGTERM; returns its exit status
#
# $NFSDIRECTD names the program (default ./nfsdirectd). The state directory is $daemon_state, which the caller provides.
# A script that sources this must call daemon_cleanup from its EXIT trap.

daemon_pid=

daemon_start() {
	local line
	daemon_port=$(daemon_free_port)
	exec {daemon_out}< <(exec "${NFSDIRECTD:-./nfsdirectd}" --foreground --bind "${daemon_bind:-127.0.0.1}" --port "$daemon_port" \
		--state-dir "$daemon_state" "$@" 2>&1)
	daemon_pid=$!
	while read -r -t 60 -u "$daemon_out" line; do
		echo "# daemon: $line"
		if [[ $line == *"ready on"* ]]; then
			# What it says later must not fill the pipe.
			cat <&"$daemon_out" | sed 's/^/# daemon: /' &
			return 0
		fi
	done
	echo "not ok - the daemon did not get ready"
	return 1
}

daemon_free_port() {
	local port
	for port in $(shuf -i 20000-29999 -n 50); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
	done
}

daemon_stop() {
	local pid=$daemon_pid
	daemon_pid=
	kill -TERM "$pid"
	wait "$pid"
}

daemon_cleanup() {
	[ -z "$daemon_pid" ] || kill -9 "$daemon_pid" 2>/dev/null
}
