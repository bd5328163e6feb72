#include "rpc/reply.h"

#include "rpc/hex.h"
#include "rpc/message.h"

#define TEXT(literal)                  \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

static const struct hr_span action_names[] = {
    [HR_ALLOW] = TEXT("allow"), [HR_DELAY] = TEXT("delay"), [HR_DENY] = TEXT("deny")};
static const struct hr_span mode_names[] = {[HR_ENFORCE] = TEXT("enforce"), [HR_SHADOW] = TEXT("shadow")};

/* Writes a key, of at most 31 bytes, which have a head of one byte. */
#define KEY(packer, name) pack_key((packer), "" name, sizeof(name) - 1)

static inline void pack_key(struct hr_packer *packer, const char *name, size_t bytes)
{
    char head = (char)(0xa0 | bytes);
    hr_pack_raw(packer, &head, 1);
    hr_pack_raw(packer, name, bytes);
}

enum hr_err hr_origin_init(struct hr_origin *origin, struct hr_span node, struct hr_span region)
{
    if (node.bytes > HR_NODE_NAME_BYTES_MAX || region.bytes > HR_NODE_NAME_BYTES_MAX) {
        return HR_E_RANGE;
    }
    struct hr_packer packer = {.at = origin->packed, .room = sizeof(origin->packed)};
    KEY(&packer, "node");
    hr_pack_text(&packer, node);
    KEY(&packer, "region");
    hr_pack_text(&packer, region);
    origin->bytes = (uint32_t)packer.wanted;
    return HR_OK;
}

/* The longest row, every name and number at its longest, must have room. */
_Static_assert(sizeof(" name allowed mode limit remaining retry_after_ms reset_after_ms share lease") + 3 +
                       HR_LIMIT_NAME_BYTES_MAX + 1 + sizeof(" enforce") + 4 * 9 + 2 + HR_LEASE_TEXT_BYTES <=
                   HR_ROW_BYTES_MAX,
               "a row may outgrow its room");

static void pack_row(struct hr_packer *packer, const struct hr_row *row)
{
    hr_pack_map(packer, 7 + (uint32_t)row->has_lease + (uint32_t)row->wants_share);
    KEY(packer, "name");
    hr_pack_text(packer, row->limit->name);
    KEY(packer, "allowed");
    hr_pack_bool(packer, row->allowed);
    KEY(packer, "mode");
    hr_pack_text(packer, mode_names[row->limit->mode]);
    KEY(packer, "limit");
    hr_pack_whole(packer, row->limit->rule.capacity);
    KEY(packer, "remaining");
    hr_pack_whole(packer, row->remaining);
    KEY(packer, "retry_after_ms");
    hr_pack_signed(packer, row->retry_after_ms);
    KEY(packer, "reset_after_ms");
    hr_pack_signed(packer, row->reset_after_ms);
    if (row->wants_share) {
        KEY(packer, "share");
        hr_pack_bool(packer, true);
    }
    if (row->has_lease) {
        char digits[HR_LEASE_TEXT_BYTES];
        hr_hex_write(row->lease, digits);
        KEY(packer, "lease");
        hr_pack_text(packer, (struct hr_span){digits, sizeof(digits)});
    }
}

static void pack_rows(struct hr_packer *packer, const struct hr_decision *decision)
{
    KEY(packer, "limits");
    hr_pack_array(packer, decision->row_count);
    for (uint32_t i = 0; i < decision->row_count; i++) {
        pack_row(packer, &decision->rows[i]);
    }
}

/* A map's head, of at most 15 pairs. */
static void pack_head(struct hr_packer *packer, uint32_t pairs)
{
    hr_pack_byte(packer, (uint8_t)(0x80 | pairs));
}

/* What most decisions begin with, behind the map's head. */
#define ADMITTED             \
    "\xa7"                   \
    "allowed\xc3\xa6"        \
    "action\xa5"             \
    "allow\xaa"              \
    "decided_by\xc0\xae"     \
    "retry_after_ms\x00\xa8" \
    "delay_ms\x00"

static void pack_verdict(struct hr_packer *packer, const struct hr_decision *decision)
{
    bool is_admitted = decision->allowed && decision->action == HR_ALLOW && decision->decided_by == NULL;
    if (is_admitted && decision->retry_after_ms == 0 && decision->delay_ms == 0) {
        hr_pack_raw(packer, ADMITTED, sizeof(ADMITTED) - 1);
        return;
    }
    KEY(packer, "allowed");
    hr_pack_bool(packer, decision->allowed);
    KEY(packer, "action");
    hr_pack_text(packer, action_names[decision->action]);
    KEY(packer, "decided_by");
    if (decision->decided_by != NULL) {
        hr_pack_text(packer, decision->decided_by->name);
    } else {
        hr_pack_nil(packer);
    }
    KEY(packer, "retry_after_ms");
    hr_pack_signed(packer, decision->retry_after_ms);
    KEY(packer, "delay_ms");
    hr_pack_signed(packer, decision->delay_ms);
}

void hr_pack_decision(struct hr_packer *packer, const struct hr_decision *decision, const struct hr_decision_form *form)
{
    pack_head(packer, 7 + (uint32_t)form->detail + (uint32_t)form->degraded);
    pack_verdict(packer, decision);
    if (form->detail) {
        pack_rows(packer, decision);
    }
    hr_pack_raw(packer, form->origin->packed, form->origin->bytes);
    if (form->degraded) {
        KEY(packer, "degraded");
        hr_pack_bool(packer, true);
    }
}

void hr_pack_released(struct hr_packer *packer, uint64_t msgid, bool released)
{
    hr_pack_result_head(packer, msgid);
    hr_pack_map(packer, 1);
    KEY(packer, "released");
    hr_pack_bool(packer, released);
}

void hr_pack_renewed(struct hr_packer *packer, uint64_t msgid, bool renewed, int64_t ttl_ms)
{
    hr_pack_result_head(packer, msgid);
    hr_pack_map(packer, 2);
    KEY(packer, "renewed");
    hr_pack_bool(packer, renewed);
    KEY(packer, "ttl_ms");
    hr_pack_signed(packer, ttl_ms);
}

void hr_pack_refunded(struct hr_packer *packer, uint64_t msgid, bool refunded)
{
    hr_pack_result_head(packer, msgid);
    hr_pack_map(packer, 1);
    KEY(packer, "refunded");
    hr_pack_bool(packer, refunded);
}
