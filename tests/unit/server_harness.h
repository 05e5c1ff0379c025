/*
 * tests/unit/server_harness.h - a server in this process, on loopback, with a program of the test's own, and raw client sockets to it.
 *
 * The program: NULL; PUT, whose payload is received apart and which answers where it lies and a sum over it; NAP, which parks its fiber until the test
 * says harness_wake(); BIG, which answers as many bytes as it is asked for; COUNT, which is not idempotent and answers how often it ran; NAP_ONCE, which
 * naps and is not idempotent; REST, which sleeps for as many microseconds as it is told and then answers as many bytes.
 */
#ifndef TESTS_UNIT_SERVER_HARNESS_H
#define TESTS_UNIT_SERVER_HARNESS_H

#include "server/config.h"
#include "runtime/base.h"
#include "proto/rpc.h"

enum { TEST_PROGRAM = 400100, TEST_V2 = 2, TEST_V4 = 4 };
enum { TEST_NULL, TEST_PUT, TEST_NAP, TEST_BIG, TEST_COUNT, TEST_NAP_ONCE, TEST_REST, TEST_PROCEDURES };

/* Change the defaults here before harness_begin(). */
extern struct server_config harness_config;

void harness_init(void);   /* harness_config's defaults */
void harness_begin(void);
void harness_end(void);    /* stop, join, check that nothing is left */
void harness_wake(void);   /* every NAP ends, also those to come */

int client_connect(void);
void client_send(int fd, const void *mem, size_t len);
/* Exactly len bytes. False: the connection ended before. */
bool client_read(int fd, void *mem, size_t len);
/* The server closes the connection, without another byte. */
bool client_sees_close(int fd);

/* A call as a record of one fragment, at mem: its length. args may be NULL. */
size_t call_encode(uint8_t *mem, size_t room, uint32_t xid, uint32_t proc, const void *args, size_t args_len);
/* The reply's record into mem (at most room bytes): its length without mark; 0: connection closed. */
size_t reply_read(int fd, uint8_t *mem, size_t room);
/* Send a call, read its reply, decode the header; *results and *results_len: what follows it in mem. */
struct reply_body call_once(int fd, uint32_t proc, const void *args, size_t args_len, uint8_t *mem, size_t room, struct xdr *results);

#endif
