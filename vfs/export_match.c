/*
 * vfs/export_match.c - which client entry of an export is for which client.
 *
 * Addresses are compared as IPv6, IPv4 ones as mapped. Names are never looked up while a call is being matched: entries by host name carry the addresses that
 * the name had when it was asked for last, and wildcards are compared with the client's own name, if that is known (vfs/export_name.c). Where an address decides,
 * no name is asked for.
 */
#include <arpa/inet.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/export_table.h"

static void addr_map_v4(struct in6_addr *to, const struct in_addr *from)
{
	memset(to, 0, sizeof(*to));
	to->s6_addr[10] = to->s6_addr[11] = 0xff;
	memcpy(to->s6_addr + 12, from, 4);
}

static void mask_from_bits(struct in6_addr *mask, unsigned bits)
{
	memset(mask, 0, sizeof(*mask));
	for (unsigned i = 0; i < bits; i++)
		mask->s6_addr[i / 8] |= 0x80 >> i % 8;
}

/* "IPv4" or "IPv6" -> address, and the number of bits that stand before an IPv4 one when mapped. */
static bool addr_parse(const char *text, struct in6_addr *addr, unsigned *mapped_bits)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		addr_map_v4(addr, &v4);
		*mapped_bits = 96;
		return true;
	}
	*mapped_bits = 0;
	return inet_pton(AF_INET6, text, addr) == 1;
}

/* "24" or "255.255.255.0" */
static bool mask_parse(const char *text, unsigned mapped_bits, struct in6_addr *mask)
{
	struct in_addr v4;
	char *end;
	unsigned long bits = strtoul(text, &end, 10);

	if (*text >= '0' && *text <= '9' && !*end) {
		if (bits > 128 - mapped_bits)
			return false;
		mask_from_bits(mask, mapped_bits + bits);
		return true;
	}
	if (!mapped_bits || inet_pton(AF_INET, text, &v4) != 1)
		return false;
	mask_from_bits(mask, 96);
	memcpy(mask->s6_addr + 12, &v4, 4);
	return true;
}

static bool addr_in_net(const struct in6_addr *addr, const struct in6_addr *net, const struct in6_addr *mask)
{
	for (unsigned i = 0; i < sizeof(addr->s6_addr); i++)
		if ((addr->s6_addr[i] ^ net->s6_addr[i]) & mask->s6_addr[i])
			return false;
	return true;
}

static int net_parse(const char *spec, const char *slash, struct export_client *c, const char **why)
{
	char addr[INET6_ADDRSTRLEN];
	unsigned mapped_bits;

	*why = "neither an address, a net (address/length) nor a host name";
	if ((size_t)(slash - spec) >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, spec, slash - spec);
	addr[slash - spec] = 0;
	if (!addr_parse(addr, &c->addr, &mapped_bits) || !mask_parse(slash + 1, mapped_bits, &c->mask))
		return -EINVAL;
	c->kind = CLIENT_NET;
	return 0;
}

static bool host_name_valid(const char *name)
{
	return *name && strlen(name) < EXPORT_NAME_BYTES && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == strlen(name);
}

int export_client_parse(const char *spec, struct export_client *c, const char **why)
{
	const char *slash = strchr(spec, '/');
	unsigned mapped_bits;

	if (!*spec || !strcmp(spec, "*")) {
		c->kind = CLIENT_ANYBODY;
		return 0;
	}
	*why = "netgroups are not supported";
	if (*spec == '@')
		return -EINVAL;
	*why = "security flavours in a client's place (gss/krb5, gss/krb5i, gss/krb5p) are not supported; Kerberos is not offered yet, and sec= goes into the options";
	if (!strncmp(spec, "gss/", 4))
		return -EINVAL;
	if (slash)
		return net_parse(spec, slash, c, why);
	c->kind = CLIENT_HOST;
	if (addr_parse(spec, &c->addr, &mapped_bits)) {
		mask_from_bits(&c->mask, 128);
		return 0;
	}
	c->by_name = true;
	if (strpbrk(spec, "*?[")) {
		c->kind = CLIENT_WILDCARD;
		return 0;
	}
	*why = "neither an address, a net (address/length) nor a host name";
	return host_name_valid(spec) ? 0 : -EINVAL;
}

noyield_fn bool export_client_addr(const struct sockaddr *sa, struct in6_addr *addr)
{
	if (sa->sa_family == AF_INET)
		addr_map_v4(addr, &((const struct sockaddr_in *)sa)->sin_addr);
	else if (sa->sa_family == AF_INET6)
		*addr = ((const struct sockaddr_in6 *)sa)->sin6_addr;
	else
		return false;
	return true;
}

bool export_addr_in_list(const struct in6_addr *addr, const struct in6_addr *list, unsigned count)
{
	while (count--)
		if (!memcmp(addr, list + count, sizeof(*addr)))
			return true;
	return false;
}

static bool client_fits_addr(const struct export_client *c, const struct in6_addr *addr)
{
	return c->by_name ? export_addr_in_list(addr, c->addrs, c->addr_count) : addr_in_net(addr, &c->addr, &c->mask);
}

static struct export_client *find_by_addr(const struct export_entry *e, enum client_kind kind, const struct in6_addr *addr)
{
	struct export_client *c;

	STAILQ_FOREACH(c, &e->clients, link)
		if (c->kind == kind && client_fits_addr(c, addr))
			return c;
	return NULL;
}

/* '*' and '?' match dots too, as exports(5) says since a host may be several labels below. */
static struct export_client *find_by_name(const struct export_entry *e, const char *name)
{
	struct export_client *c;

	STAILQ_FOREACH(c, &e->clients, link)
		if (c->kind == CLIENT_WILDCARD && *name && !fnmatch(c->spec, name, FNM_CASEFOLD))
			return c;
	return NULL;
}

static struct export_client *find_kind(const struct export_entry *e, enum client_kind kind)
{
	struct export_client *c;

	STAILQ_FOREACH(c, &e->clients, link)
		if (c->kind == kind)
			return c;
	return NULL;
}

noyield_fn int export_client_find_locked(const struct export_entry *e, const struct sockaddr *sa, struct export_client **found)
{
	char name[EXPORT_NAME_BYTES];
	struct in6_addr addr;

	*found = NULL;
	if (export_client_addr(sa, &addr)) {
		*found = find_by_addr(e, CLIENT_HOST, &addr);
		if (!*found)
			*found = find_by_addr(e, CLIENT_NET, &addr);
		if (!*found && find_kind(e, CLIENT_WILDCARD)) {
			if (!export_client_name(&addr, name))
				return -EAGAIN;
			*found = find_by_name(e, name);
		}
	}
	if (!*found)
		*found = find_kind(e, CLIENT_ANYBODY);
	return *found ? 0 : -EACCES;
}
