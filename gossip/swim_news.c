/* What is told: news ride on the letters that are sent anyway, the least told first, each a bounded number of times.
 *
 * Near and far members are told separately. A node writes to near ones far more often, and would else have told them
 * all that it may before a far one hears of it. */
#include <string.h>

#include "gossip/swim_state.h"

#define RUMORS_MAX 8 /* of news in one letter */

void hr_swim_tell(struct hr_swim *swim, uint32_t index)
{
    struct hr_swim_peer *peer = &swim->peers[index];
    for (unsigned near = 0; near < 2; near++) {
        swim->news_count[near] += peer->is_news[near] ? 0 : 1;
        peer->is_news[near] = true;
        peer->sends[near] = 0;
    }
}

uint32_t hr_swim_live_count(const struct hr_swim *swim, bool near_only)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < swim->members.count; i++) {
        bool counts = !near_only || swim->peers[i].is_near;
        live += counts && hr_member_is_live(&swim->members.all[i]) ? 1 : 0;
    }
    return live;
}

/* A rumor that each told it to one other reaches all in log2 n rounds; three times that leaves hardly anyone out (SWIM,
 * section 4.1). */
static uint8_t sends_max(const struct hr_swim *swim)
{
    uint8_t bits = 1;
    for (uint32_t n = swim->members.count; n > 1; n >>= 1) {
        bits++;
    }
    return (uint8_t)(3 * bits);
}

/* The news for near (1) or far (0) members that were told least, up to RUMORS_MAX, in the order of how often. */
static uint32_t choose(const struct hr_swim *swim, unsigned near, uint32_t but, uint32_t chosen[RUMORS_MAX])
{
    uint32_t count = 0, left = swim->news_count[near];
    for (uint32_t i = 0; i < swim->members.count && left > 0; i++) {
        if (!swim->peers[i].is_news[near]) {
            continue;
        }
        left--;
        uint32_t place = count;
        while (place > 0 && swim->peers[chosen[place - 1]].sends[near] > swim->peers[i].sends[near]) {
            place--;
        }
        if (i == but || place == RUMORS_MAX) {
            continue;
        }
        count += count < RUMORS_MAX ? 1 : 0;
        memmove(&chosen[place + 1], &chosen[place], (count - 1 - place) * sizeof(*chosen));
        chosen[place] = i;
    }
    return count;
}

/* False: there is no room for it; the writer stands as before. */
static bool write_rumor(struct hr_swim *swim, struct hr_le_writer *writer, uint32_t index, bool with_meta)
{
    const struct hr_member *member = &swim->members.all[index];
    const struct hr_swim_peer *peer = &swim->peers[index];
    uint64_t accuser = peer->accuser_count > 0 ? peer->accusers[peer->accuser_count - 1] : 0;
    struct hr_rumor rumor = hr_rumor_of(member, accuser, with_meta || member->state == HR_MEMBER_ALIVE);
    size_t before = writer->used;
    hr_rumor_write(writer, &rumor);
    if (writer->failed) {
        writer->failed = false;
        writer->used = before;
        return false;
    }
    return true;
}

static void note_told(struct hr_swim *swim, unsigned near, uint32_t index)
{
    struct hr_swim_peer *peer = &swim->peers[index];
    if (peer->is_news[near] && ++peer->sends[near] >= sends_max(swim)) {
        peer->is_news[near] = false;
        swim->news_count[near]--;
    }
}

static void write_news(struct hr_swim *swim, struct hr_le_writer *writer, unsigned near, uint32_t about)
{
    uint32_t chosen[RUMORS_MAX];
    uint32_t chosen_count = choose(swim, near, about, chosen);
    struct hr_le_writer count_writer = {writer->at, writer->used + 2, writer->used, false};
    uint16_t count = 0;
    hr_le_write_u16(writer, 0);
    if (about != HR_MEMBER_NONE && write_rumor(swim, writer, about, true)) {
        note_told(swim, near, about);
        count++;
    }
    if (about != HR_MEMBER_NONE && about != swim->members.self && write_rumor(swim, writer, swim->members.self, true)) {
        count++; /* it may have restarted, and know nobody */
    }
    for (uint32_t i = 0; i < chosen_count && write_rumor(swim, writer, chosen[i], false); i++) {
        note_told(swim, near, chosen[i]);
        count++;
    }
    hr_le_write_u16(&count_writer, count);
}

static void put(struct hr_swim *swim, uint64_t to, struct hr_span address, enum hr_lane lane, size_t bytes)
{
    struct hr_letter letter = {
        .to = to,
        .lane = lane,
        .kind = HR_LETTER_SWIM,
        .address = address,
        .body = {(const char *)swim->letter, bytes},
    };
    (void)hr_outbox_put(swim->outbox, &letter); /* it counts what it drops, and any letter may be lost */
}

void hr_swim_put(struct hr_swim *swim, uint64_t to, struct hr_span address, size_t bytes)
{
    put(swim, to, address, HR_LANE_GOSSIP, bytes);
}

void hr_swim_put_both(struct hr_swim *swim, uint32_t to, size_t bytes)
{
    uint64_t id = swim->members.all[to].id;
    put(swim, id, (struct hr_span){"", 0}, HR_LANE_GOSSIP, bytes);
    if (swim->peers[to].is_near) {
        put(swim, id, (struct hr_span){"", 0}, HR_LANE_PEER, bytes);
    }
}

static size_t write_letter(struct hr_swim *swim, const struct hr_swim_head *head, unsigned near, uint32_t about)
{
    struct hr_le_writer writer = hr_le_writer_of(swim->letter, HR_SWIM_PROBE_BYTES_MAX);
    hr_swim_write_head(&writer, head);
    write_news(swim, &writer, near, about);
    return writer.used;
}

void hr_swim_send(struct hr_swim *swim, uint32_t to, const struct hr_swim_head *head, uint32_t about)
{
    size_t bytes = write_letter(swim, head, swim->peers[to].is_near ? 1 : 0, about);
    hr_swim_put(swim, swim->members.all[to].id, (struct hr_span){"", 0}, bytes);
}

void hr_swim_send_to_address(struct hr_swim *swim, struct hr_span address, const struct hr_swim_head *head,
                             uint32_t about)
{
    hr_swim_put(swim, 0, address, write_letter(swim, head, 0, about));
}
