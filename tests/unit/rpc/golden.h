/* For tests of messages: the golden files of tests/golden/rpc, and heap blocks of exactly the bytes' size, so that a
 * sanitizer sees the first byte read past their end. */
#ifndef HR_TESTS_UNIT_RPC_GOLDEN_H
#define HR_TESTS_UNIT_RPC_GOLDEN_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"

#define GOLDEN_BYTES_MAX 4096

static inline _Noreturn void golden_fail(const char *what, const char *name)
{
    (void)fprintf(stderr, "%s: %s\n", name, what);
    abort();
}

/* A copy to be freed by span_free. */
static inline struct hr_span span_copy(struct hr_span bytes)
{
    if (bytes.bytes == 0) {
        return (struct hr_span){NULL, 0};
    }
    char *copy = malloc(bytes.bytes);
    if (copy == NULL) {
        golden_fail("out of memory", "span_copy");
    }
    memcpy(copy, bytes.at, bytes.bytes);
    return (struct hr_span){copy, bytes.bytes};
}

/* The bytes of a copy, to change or to free: they are the heap's, whatever a span says. */
static inline char *span_bytes(struct hr_span copy)
{
    union {
        const char *read;
        char *write;
    } at = {copy.at};
    return at.write;
}

static inline void span_free(struct hr_span copy)
{
    free(span_bytes(copy));
}

static inline unsigned golden_digit(int c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

/* The bytes of tests/golden/rpc/NAME.hex, on the heap. Tests run in the project's root. */
static inline struct hr_span golden_load(const char *name)
{
    char path[128], line[2048], bytes[GOLDEN_BYTES_MAX];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "tests/golden/rpc/%s.hex", name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        golden_fail("cannot open", path);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        for (size_t i = 0; line[0] != '#' && isxdigit((unsigned char)line[i]) && count < sizeof(bytes); i += 2) {
            bytes[count++] = (char)(golden_digit(line[i]) << 4 | golden_digit(line[i + 1]));
        }
    }
    (void)fclose(file); /* it was only read */
    return span_copy((struct hr_span){bytes, count});
}

#endif
