/* Errors: one enum for the whole project, 0 is success.
 * Functions that can fail return it and must be listened to (HR_MUST). Pure code returns errors and
 * never prints them; drivers and main turn them into one line for the person who can act. */
#ifndef HR_BASE_ERR_H
#define HR_BASE_ERR_H

#define HR_MUST __attribute__((warn_unused_result))

/* name, text for a person */
#define HR_ERR_LIST(X)                                \
    X(HR_OK, "ok")                                    \
    X(HR_E_INVALID, "invalid value")                  \
    X(HR_E_RANGE, "value out of range")               \
    X(HR_E_TRUNCATED, "input ends early")             \
    X(HR_E_CORRUPT, "malformed bytes")                \
    X(HR_E_TOO_MANY, "too many items")                \
    X(HR_E_FULL, "no room left")                      \
    X(HR_E_NOT_FOUND, "not found")                    \
    X(HR_E_PENDING, "waits for the store")            \
    X(HR_E_MEMORY, "not enough memory was handed in") \
    X(HR_E_IO, "input or output failed")

enum hr_err {
#define X(name, text) name,
    HR_ERR_LIST(X)
#undef X
};

/* A static English text for err; "unknown error" for a value outside the enum. */
const char *hr_err_text(enum hr_err err);

#endif
