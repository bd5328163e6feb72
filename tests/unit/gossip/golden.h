/* For tests of gossip's bytes: the golden files of tests/golden/gossip, each one line of hex. */
#ifndef HR_TESTS_UNIT_GOSSIP_GOLDEN_H
#define HR_TESTS_UNIT_GOSSIP_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/span.h"

#define GOLDEN_BYTES_MAX 2048

/* Are the bytes those of the file NAME.hex? Prints what they are where they differ. Tests run in the project's root. */
static inline void golden_check(const char *name, struct hr_span bytes)
{
    char path[128], wanted[2 * GOLDEN_BYTES_MAX + 2] = "", hex[2 * GOLDEN_BYTES_MAX + 2];
    assert_true(bytes.bytes <= GOLDEN_BYTES_MAX);
    for (size_t i = 0; i < bytes.bytes; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)bytes.at[i]);
    }
    (void)snprintf(hex + 2 * bytes.bytes, 2, "\n");
    (void)snprintf(path, sizeof(path), "tests/golden/gossip/%s.hex", name);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        wanted[fread(wanted, 1, sizeof(wanted) - 1, file)] = '\0';
        (void)fclose(file); /* it was only read */
    }
    if (strcmp(wanted, hex) != 0) {
        fail_msg("%s: the bytes are now\n%s", path, hex);
    }
}

/* A copy of exactly these bytes on the heap, so that a sanitizer sees the first byte that is read past their end. */
static inline char *exact_copy(const void *from, size_t bytes)
{
    char *copy = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(copy);
    if (bytes == 0) {
        free(copy);
        return NULL;
    }
    memcpy(copy, from, bytes);
    return copy;
}

#endif
