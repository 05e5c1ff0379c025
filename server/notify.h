/*
 * server/notify.h - tells the service manager how far the server is (sd_notify(3)'s protocol: a datagram of lines to the socket that NOTIFY_SOCKET names).
 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/*
 * Without NOTIFY_SOCKET nothing happens; what cannot be told is logged. Each may wait, a few seconds at most, for a manager that does not read. From any
 * thread; on a reactor only while it serves nobody.
 */
void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

#endif
