#include "node/address_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LABEL_BYTES_MAX 63 /* RFC 1035, section 2.3.4 */
#define PORT_DIGITS_MAX 5

/* Letters, digits and hyphens, no hyphen at either end (RFC 1123, section 2.1); also the underscore that container
 * networks put into names. */
static bool is_label(struct hr_span label)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (label.bytes < 1 || label.bytes > LABEL_BYTES_MAX || label.at[0] == '-' || label.at[label.bytes - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < label.bytes; i++) {
        if (memchr(allowed, label.at[i], sizeof(allowed) - 1) == NULL) {
            return false;
        }
    }
    return true;
}

/* A name whose last label is a number would be taken for a mistyped IPv4 address, and some resolvers take it for one.
 */
static bool is_name(const char *host)
{
    for (const char *label = host;;) {
        size_t bytes = strcspn(label, ".");
        if (!is_label((struct hr_span){label, bytes})) {
            return false;
        }
        if (label[bytes] == '\0' || strcmp(label + bytes, ".") == 0) { /* a dot at the end roots the name */
            return strspn(label, "0123456789") < bytes;
        }
        label += bytes + 1;
    }
}

static bool is_address(int family, const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(family, host, bytes) == 1;
}

static bool read_host(struct hr_span text, struct hr_address *address)
{
    bool has_brackets = text.bytes >= 2 && text.at[0] == '[' && text.at[text.bytes - 1] == ']';
    if (has_brackets) {
        text = (struct hr_span){text.at + 1, text.bytes - 2};
    }
    if (text.bytes < 1 || text.bytes > HR_HOST_BYTES_MAX || memchr(text.at, '\0', text.bytes) != NULL) {
        return false;
    }
    memcpy(address->host, text.at, text.bytes);
    address->host[text.bytes] = '\0';
    return has_brackets ? is_address(AF_INET6, address->host)
                        : is_address(AF_INET, address->host) || is_name(address->host);
}

static enum hr_err read_port(struct hr_span text, uint16_t *ret_port)
{
    uint32_t port = 0;
    if (text.bytes < 1 || (text.bytes > 1 && text.at[0] == '0')) {
        return HR_E_INVALID;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return HR_E_INVALID;
        }
        port = i < PORT_DIGITS_MAX ? port * 10 + (uint32_t)(text.at[i] - '0') : UINT32_MAX;
    }
    if (port > UINT16_MAX) {
        return HR_E_RANGE;
    }
    *ret_port = (uint16_t)port;
    return HR_OK;
}

enum hr_err hr_address_parse(struct hr_span text, struct hr_address *ret_address)
{
    struct hr_address address = {0};
    const char *colon = text.bytes == 0 ? NULL : memrchr(text.at, ':', text.bytes);
    if (colon == NULL) {
        return HR_E_INVALID;
    }
    struct hr_span host = {text.at, (size_t)(colon - text.at)};
    if (!read_host(host, &address)) {
        return HR_E_INVALID;
    }
    enum hr_err err = read_port((struct hr_span){colon + 1, text.bytes - host.bytes - 1}, &address.port);
    if (err == HR_OK) {
        *ret_address = address;
    }
    return err;
}

enum hr_err hr_address_parse_url(struct hr_span text, struct hr_address *ret_address)
{
    const struct hr_span scheme = HR_SPAN("tcp://");
    if (text.bytes < scheme.bytes || memcmp(text.at, scheme.at, scheme.bytes) != 0) {
        return HR_E_INVALID;
    }
    return hr_address_parse((struct hr_span){text.at + scheme.bytes, text.bytes - scheme.bytes}, ret_address);
}

size_t hr_address_text(const struct hr_address *address, char ret_text[HR_ADDRESS_TEXT_BYTES])
{
    bool has_colon = strchr(address->host, ':') != NULL;
    int count = snprintf(ret_text, HR_ADDRESS_TEXT_BYTES, "%s%s%s:%u", has_colon ? "[" : "", address->host,
                         has_colon ? "]" : "", (unsigned)address->port);
    return count < 0 ? 0 : (size_t)count;
}

bool hr_address_is_wildcard(const struct hr_address *address)
{
    struct in6_addr six;
    struct in_addr four;
    if (inet_pton(AF_INET, address->host, &four) == 1) {
        return four.s_addr == INADDR_ANY;
    }
    return inet_pton(AF_INET6, address->host, &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six);
}
