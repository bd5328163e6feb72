/* Fault: why a request was not carried out, as the caller gets it: one of the contract's codes, and words that name
 * what was expected and where. (A denial is an answer, not a fault.) On the wire it is the text `CODE: message`.
 *
 * The words are built piece by piece in the struct; what outgrows it is cut off. They are always printable ASCII: what
 * the peer sent is quoted with '?' for every other byte, so that the answer is valid text whatever came in.
 *
 * Thread: any. Pure. Memory: the struct alone. */
#ifndef HR_RPC_FAULT_H
#define HR_RPC_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* name on the wire (HR_CODE_ before it in C), what it means */
#define HR_CODE_LIST(X)                                                                                    \
    X(INVALID_ARGUMENT, "the request is not what the method takes; the same again will fail again")        \
    X(NOT_FOUND, "there is no limit of that name")                                                         \
    X(UNAVAILABLE, "the node cannot answer now; try again, here or at another node")                       \
    X(RESOURCE_EXHAUSTED, "a bound of the node was reached: of memory, of queues, or of a message's size") \
    X(DEADLINE_EXCEEDED, "another node did not answer in time")                                            \
    X(UNAUTHENTICATED, "the peer has not proved who it is")                                                \
    X(PERMISSION_DENIED, "the peer may not do this")                                                       \
    X(UNIMPLEMENTED, "there is no such method")                                                            \
    X(INTERNAL, "a fault in the node; its log says more")

enum hr_code {
#define X(name, text) HR_CODE_##name,
    HR_CODE_LIST(X)
#undef X
};

#define HR_CODE_BYTES_MAX 20 /* of a name */
#define HR_FAULT_BYTES_MAX 240
#define HR_FAULT_QUOTE_BYTES_MAX 64

struct hr_fault {
    enum hr_code code;
    uint32_t bytes;
    char text[HR_FAULT_BYTES_MAX]; /* not NUL-terminated */
};

struct hr_span hr_code_name(enum hr_code code);

/* False: no code has that name. */
bool hr_code_find(struct hr_span name, enum hr_code *ret_code);

void hr_fault_begin(struct hr_fault *fault, enum hr_code code);
void hr_fault_add(struct hr_fault *fault, const char *words); /* our own words */
void hr_fault_add_number(struct hr_fault *fault, uint64_t number);
void hr_fault_add_text(struct hr_fault *fault, struct hr_span text); /* the peer's, all of it */
void hr_fault_quote(struct hr_fault *fault, struct hr_span text);    /* the peer's, in quotes, its first 64 bytes */

/* Begins with all the words there are. */
void hr_fault_set(struct hr_fault *fault, enum hr_code code, const char *words);

static inline struct hr_span hr_fault_text(const struct hr_fault *fault)
{
    return (struct hr_span){fault->text, fault->bytes};
}

#endif
