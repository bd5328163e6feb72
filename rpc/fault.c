#include "rpc/fault.h"

static const struct hr_span names[] = {
#define X(name, text) {#name, sizeof(#name) - 1},
    HR_CODE_LIST(X)
#undef X
};

#define X(name, text) _Static_assert(sizeof(#name) - 1 <= HR_CODE_BYTES_MAX, "a code's name outgrows its bound");
HR_CODE_LIST(X)
#undef X

#define CODE_COUNT (sizeof(names) / sizeof(names[0]))

struct hr_span hr_code_name(enum hr_code code)
{
    return names[(size_t)code < CODE_COUNT ? code : HR_CODE_INTERNAL];
}

bool hr_code_find(struct hr_span name, enum hr_code *ret_code)
{
    for (size_t i = 0; i < CODE_COUNT; i++) {
        if (hr_span_equal(names[i], name)) {
            *ret_code = (enum hr_code)i;
            return true;
        }
    }
    return false;
}

static void add_byte(struct hr_fault *fault, char byte)
{
    if (fault->bytes < HR_FAULT_BYTES_MAX) {
        fault->text[fault->bytes++] = byte;
    }
}

void hr_fault_begin(struct hr_fault *fault, enum hr_code code)
{
    fault->code = code;
    fault->bytes = 0;
}

void hr_fault_add(struct hr_fault *fault, const char *words)
{
    for (; *words != '\0'; words++) {
        add_byte(fault, *words);
    }
}

void hr_fault_add_number(struct hr_fault *fault, uint64_t number)
{
    char digits[20]; /* 2^64 - 1 has twenty */
    size_t first = sizeof(digits);
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    for (; first < sizeof(digits); first++) {
        add_byte(fault, digits[first]);
    }
}

void hr_fault_add_text(struct hr_fault *fault, struct hr_span text)
{
    for (size_t i = 0; i < text.bytes && fault->bytes < HR_FAULT_BYTES_MAX; i++) {
        char byte = text.at[i];
        add_byte(fault, byte >= ' ' && byte <= '~' ? byte : '?');
    }
}

void hr_fault_quote(struct hr_fault *fault, struct hr_span text)
{
    bool is_long = text.bytes > HR_FAULT_QUOTE_BYTES_MAX;
    add_byte(fault, '"');
    hr_fault_add_text(fault, is_long ? (struct hr_span){text.at, HR_FAULT_QUOTE_BYTES_MAX} : text);
    hr_fault_add(fault, is_long ? "...\"" : "\"");
}

void hr_fault_set(struct hr_fault *fault, enum hr_code code, const char *words)
{
    hr_fault_begin(fault, code);
    hr_fault_add(fault, words);
}
