#include "gossip/swim_wire.h"

#include <assert.h>

#include "gossip/life.h"

#define STATE_MASK 0x03U
#define HAS_META 0x80U

static_assert(HR_MEMBER_ADDRESS_BYTES_MAX <= UINT8_MAX, "a text's length fits its byte");

void hr_swim_write_head(struct hr_le_writer *writer, const struct hr_swim_head *head)
{
    hr_le_write_u8(writer, (uint8_t)head->type);
    switch (head->type) {
    case HR_SWIM_PING:
    case HR_SWIM_ACK:
    case HR_SWIM_NACK:
        hr_le_write_u32(writer, head->seq);
        break;
    case HR_SWIM_PING_REQ:
        hr_le_write_u32(writer, head->seq);
        hr_le_write_u64(writer, head->target);
        hr_le_write_u32(writer, head->wait_us);
        break;
    case HR_SWIM_TABLE:
        hr_le_write_u8(writer, head->flags);
        hr_le_write_u64(writer, head->digest);
        break;
    case HR_SWIM_HELLO:
        hr_le_write_u64(writer, head->digest);
        break;
    case HR_SWIM_NEWS:
        break;
    }
}

/* False: no type of a letter. */
static bool read_of_type(struct hr_le_reader *reader, struct hr_swim_head *head)
{
    switch (head->type) {
    case HR_SWIM_PING:
    case HR_SWIM_ACK:
    case HR_SWIM_NACK:
        head->seq = hr_le_read_u32(reader);
        return true;
    case HR_SWIM_PING_REQ:
        head->seq = hr_le_read_u32(reader);
        head->target = hr_le_read_u64(reader);
        head->wait_us = hr_le_read_u32(reader);
        return true;
    case HR_SWIM_TABLE:
        head->flags = hr_le_read_u8(reader);
        head->digest = hr_le_read_u64(reader);
        return (head->flags & ~(HR_SWIM_TABLE_LAST | HR_SWIM_TABLE_ASKS)) == 0;
    case HR_SWIM_HELLO:
        head->digest = hr_le_read_u64(reader);
        return true;
    case HR_SWIM_NEWS:
        return true;
    }
    return false;
}

bool hr_swim_read_head(struct hr_le_reader *reader, struct hr_swim_head *ret_head, uint16_t *ret_count)
{
    struct hr_swim_head head = {.type = (enum hr_swim_type)hr_le_read_u8(reader)};
    if (!read_of_type(reader, &head)) {
        return false;
    }
    uint16_t count = hr_le_read_u16(reader);
    if (reader->failed) {
        return false;
    }
    *ret_head = head;
    *ret_count = count;
    return true;
}

static void write_text(struct hr_le_writer *writer, struct hr_span text)
{
    hr_le_write_u8(writer, (uint8_t)text.bytes);
    hr_le_write_bytes(writer, text.at, text.bytes);
}

void hr_rumor_write(struct hr_le_writer *writer, const struct hr_rumor *rumor)
{
    hr_le_write_u64(writer, rumor->id);
    hr_le_write_u64(writer, rumor->incarnation);
    hr_le_write_u8(writer, (uint8_t)(rumor->state | (rumor->has_meta ? HAS_META : 0)));
    if (rumor->state == HR_MEMBER_SUSPECT) {
        hr_le_write_u64(writer, rumor->accuser);
    }
    if (rumor->has_meta) {
        hr_le_write_u32(writer, rumor->weight);
        write_text(writer, rumor->name);
        write_text(writer, rumor->region);
        write_text(writer, rumor->host);
        write_text(writer, rumor->rpc);
        write_text(writer, rumor->gossip);
    }
}

bool hr_member_text_is_valid(struct hr_span text, size_t bytes_max)
{
    if (text.bytes > bytes_max) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~') {
            return false;
        }
    }
    return true;
}

static struct hr_span read_text(struct hr_le_reader *reader, size_t bytes_min, size_t bytes_max)
{
    struct hr_span text = hr_le_read_bytes(reader, hr_le_read_u8(reader));
    if (text.bytes < bytes_min || !hr_member_text_is_valid(text, bytes_max)) {
        reader->failed = true;
    }
    return text;
}

static void read_meta(struct hr_le_reader *reader, struct hr_rumor *rumor)
{
    rumor->weight = hr_le_read_u32(reader);
    rumor->name = read_text(reader, 1, HR_MEMBER_NAME_BYTES_MAX);
    rumor->region = read_text(reader, 1, HR_MEMBER_NAME_BYTES_MAX);
    rumor->host = read_text(reader, 0, HR_MEMBER_HOST_BYTES_MAX);
    rumor->rpc = read_text(reader, 0, HR_MEMBER_ADDRESS_BYTES_MAX);
    rumor->gossip = read_text(reader, 1, HR_MEMBER_ADDRESS_BYTES_MAX);
    if (rumor->weight == 0 || rumor->id != hr_member_id(rumor->region, rumor->name)) {
        reader->failed = true;
    }
}

bool hr_rumor_read(struct hr_le_reader *reader, struct hr_rumor *ret_rumor)
{
    struct hr_rumor rumor = {.id = hr_le_read_u64(reader), .incarnation = hr_le_read_u64(reader)};
    uint8_t state = hr_le_read_u8(reader);
    rumor.state = (enum hr_member_state)(state & STATE_MASK);
    rumor.has_meta = (state & HAS_META) != 0;
    if (rumor.state == HR_MEMBER_SUSPECT) {
        rumor.accuser = hr_le_read_u64(reader);
    }
    if (rumor.has_meta) {
        read_meta(reader, &rumor);
    }
    if (reader->failed || rumor.id == 0 || hr_life_of(rumor.incarnation) == 0 ||
        rumor.incarnation > HR_INCARNATION_MAX || (state & ~(STATE_MASK | HAS_META)) != 0) {
        return false;
    }
    *ret_rumor = rumor;
    return true;
}

struct hr_rumor hr_rumor_of(const struct hr_member *member, uint64_t accuser, bool has_meta)
{
    struct hr_rumor rumor = {
        .id = member->id,
        .incarnation = member->incarnation,
        .state = member->state,
        .accuser = member->state == HR_MEMBER_SUSPECT ? accuser : 0,
        .has_meta = has_meta,
    };
    if (has_meta) {
        rumor.weight = member->weight;
        rumor.name = hr_span_of(member->name);
        rumor.region = hr_span_of(member->region);
        rumor.host = hr_span_of(member->host);
        rumor.rpc = hr_span_of(member->rpc);
        rumor.gossip = hr_span_of(member->gossip);
    }
    return rumor;
}
