#include "rpc/head.h"

#include <stdbool.h>
#include <stddef.h>

/* The formats 0xc0 to 0xdf: a byte that names them, a big-endian field (the number itself, or a length), and for ext a
 * byte for its type. */
static const struct form {
    enum { NONE, NIL, BOOL, UNSIGNED, SIGNED, REAL, TEXT, ARRAY, MAP, EXT, FIXED_EXT } kind;
    uint8_t field_bytes;
} forms[] = {
    {NIL, 0},       {NONE, 0},      {BOOL, 0},      {BOOL, 0},      {TEXT, 1},   {TEXT, 2},     {TEXT, 4},
    {EXT, 1},       {EXT, 2},       {EXT, 4},       {REAL, 4},      {REAL, 8},   {UNSIGNED, 1}, {UNSIGNED, 2},
    {UNSIGNED, 4},  {UNSIGNED, 8},  {SIGNED, 1},    {SIGNED, 2},    {SIGNED, 4}, {SIGNED, 8},   {FIXED_EXT, 0},
    {FIXED_EXT, 0}, {FIXED_EXT, 0}, {FIXED_EXT, 0}, {FIXED_EXT, 0}, {TEXT, 1},   {TEXT, 2},     {TEXT, 4},
    {ARRAY, 2},     {ARRAY, 4},     {MAP, 2},       {MAP, 4},
};
_Static_assert(sizeof(forms) / sizeof(forms[0]) == 0xe0 - 0xc0, "one form for each first byte from 0xc0 to 0xdf");

static void set(struct hr_head *head, enum hr_kind kind, uint32_t bytes, uint32_t length, uint64_t number)
{
    head->kind = kind;
    head->bytes = bytes;
    head->length = length;
    head->number = number;
}

/* 0xc0 to 0xdf are no short heads. */
const struct hr_head_short hr_head_shorts[16] = {
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_WHOLE, 0, UINT64_MAX},
    {HR_KIND_MAP, 0xf, 0},
    {HR_KIND_ARRAY, 0xf, 0},
    {HR_KIND_TEXT, 0x1f, 0},
    {HR_KIND_TEXT, 0x1f, 0},
    {HR_KIND_NIL, 0, 0},
    {HR_KIND_NIL, 0, 0},
    {HR_KIND_NEGATIVE, 0, UINT64_MAX},
    {HR_KIND_NEGATIVE, 0, UINT64_MAX},
};

static uint64_t read_field(const char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | (uint8_t)at[i];
    }
    return value;
}

static void set_signed(struct hr_head *head, uint64_t field, uint32_t field_bytes)
{
    uint64_t sign = UINT64_C(1) << ((8 * field_bytes - 1) & 63); /* a signed number has 1 to 8 bytes */
    bool is_negative = (field & sign) != 0;
    set(head, is_negative ? HR_KIND_NEGATIVE : HR_KIND_WHOLE, 1 + field_bytes, 0, (field ^ sign) - sign);
}

static void set_long(struct hr_head *head, uint8_t first, const struct form *form, uint64_t field)
{
    uint32_t bytes = 1 + (uint32_t)form->field_bytes;
    uint32_t length = (uint32_t)field; /* a length's field has four bytes at most */
    switch (form->kind) {
    case BOOL:
        set(head, HR_KIND_BOOL, bytes, 0, first & 1);
        return;
    case UNSIGNED:
        set(head, HR_KIND_WHOLE, bytes, 0, field);
        return;
    case SIGNED:
        set_signed(head, field, form->field_bytes);
        return;
    case REAL:
        set(head, HR_KIND_REAL, bytes, 0, 0);
        return;
    case TEXT:
        set(head, HR_KIND_TEXT, bytes, length, 0);
        return;
    case ARRAY:
        set(head, HR_KIND_ARRAY, bytes, length, 0);
        return;
    case MAP:
        set(head, HR_KIND_MAP, bytes, length, 0);
        return;
    case EXT:
        set(head, HR_KIND_EXT, bytes + 1, length, 0);
        return;
    case FIXED_EXT: /* 0xd4 to 0xd8: 1, 2, 4, 8, 16 bytes */
        set(head, HR_KIND_EXT, bytes + 1, UINT32_C(1) << (first - 0xd4), 0);
        return;
    case NIL:
    case NONE:
        set(head, HR_KIND_NIL, bytes, 0, 0);
        return;
    }
}

enum hr_err hr_head_read_long(struct hr_span bytes, struct hr_head *ret_head)
{
    uint8_t first = (uint8_t)bytes.at[0];
    const struct form *form = &forms[first - 0xc0];
    if (form->kind == NONE) {
        return HR_E_CORRUPT;
    }
    size_t type_bytes = form->kind == EXT || form->kind == FIXED_EXT;
    if (bytes.bytes < 1 + form->field_bytes + type_bytes) {
        return HR_E_TRUNCATED;
    }
    set_long(ret_head, first, form, read_field(bytes.at + 1, form->field_bytes));
    return HR_OK;
}
