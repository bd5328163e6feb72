/* Whole tables, and contact with who is not there. A HELLO carries a sum over the sender's table: only where the
 * receiver's differs are tables sent, each way, so that a HELLO to a node that knows all costs next to nothing. */
#include "base/hash.h"
#include "gossip/swim_state.h"

#define JOIN_INTERVAL_NS (500 * HR_NS_PER_MS) /* between tries, as long as nobody has answered */
#define EXCHANGE_FIRST_NS HR_NS_PER_S         /* after somebody was met; from then on it doubles */
#define DEAD_TRIED_MAX 4                      /* dead members tried in one round */

/* The same for equal tables in any order. Whether a member is suspected does not count: that comes and goes. */
uint64_t hr_swim_digest(const struct hr_swim *swim)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < swim->members.count; i++) {
        const struct hr_member *member = &swim->members.all[i];
        enum hr_member_state state = hr_member_is_live(member) ? HR_MEMBER_ALIVE : member->state;
        uint64_t words[] = {member->id, member->incarnation, state};
        digest += hr_plain_hash(words, sizeof(words), 0);
    }
    return digest;
}

/* Writes members from *next on, as many as fit into one letter. */
static size_t write_part(struct hr_swim *swim, uint32_t *next, bool asks)
{
    struct hr_swim_head head = {.type = HR_SWIM_TABLE, .digest = hr_swim_digest(swim)};
    struct hr_le_writer writer = hr_le_writer_of(swim->letter, HR_SWIM_TABLE_BYTES_MAX);
    uint16_t count = 0;
    hr_swim_write_head(&writer, &head);
    size_t count_at = writer.used, used = count_at + 2;
    hr_le_write_u16(&writer, 0);
    for (; *next < swim->members.count; (*next)++, count++) {
        const struct hr_swim_peer *peer = &swim->peers[*next];
        struct hr_rumor rumor = hr_rumor_of(&swim->members.all[*next], peer->accusers[0], true);
        hr_rumor_write(&writer, &rumor);
        if (writer.failed) {
            break;
        }
        used = writer.used;
    }
    bool is_last = *next == swim->members.count;
    head.flags = (uint8_t)((is_last ? HR_SWIM_TABLE_LAST : 0) | (is_last && asks ? HR_SWIM_TABLE_ASKS : 0));
    writer = hr_le_writer_of(swim->letter, used);
    hr_swim_write_head(&writer, &head);
    hr_le_write_u16(&writer, count);
    return used;
}

static void send_table(struct hr_swim *swim, uint32_t to, bool asks)
{
    if (swim->answers_left == 0) {
        return; /* who is left out asks again */
    }
    swim->answers_left--;
    swim->counts.tables++;
    for (uint32_t next = 0; next < swim->members.count;) {
        size_t bytes = write_part(swim, &next, asks);
        hr_swim_put_both(swim, to, bytes);
    }
}

void hr_swim_take_hello(struct hr_swim *swim, uint32_t from, uint64_t digest)
{
    if (digest != hr_swim_digest(swim)) {
        send_table(swim, from, true);
        return;
    }
    struct hr_swim_head head = {.type = HR_SWIM_NEWS};
    hr_swim_send(swim, from, &head, HR_MEMBER_NONE);
}

/* The sender's sum is of what it knew; this node's, now, of what both knew. Where they are equal it has nothing to add.
 */
void hr_swim_take_table(struct hr_swim *swim, uint32_t from, const struct hr_swim_head *head)
{
    if ((head->flags & HR_SWIM_TABLE_LAST) == 0) {
        return;
    }
    swim->has_contact = true;
    if ((head->flags & HR_SWIM_TABLE_ASKS) != 0 && head->digest != hr_swim_digest(swim)) {
        send_table(swim, from, false);
    }
}

static bool is_live_at(const struct hr_swim *swim, struct hr_span address)
{
    for (uint32_t i = 0; i < swim->members.count; i++) {
        const struct hr_member *member = &swim->members.all[i];
        if (hr_member_is_live(member) && hr_span_equal(hr_span_of(member->gossip), address)) {
            return true;
        }
    }
    return false;
}

static void send_hello(struct hr_swim *swim, struct hr_span address, uint32_t about)
{
    struct hr_swim_head head = {.type = HR_SWIM_HELLO, .digest = hr_swim_digest(swim)};
    hr_swim_send_to_address(swim, address, &head, about);
}

static void try_seeds(struct hr_swim *swim)
{
    for (uint32_t i = 0; i < swim->seed_count; i++) {
        struct hr_span address = hr_span_of(swim->seeds[i]);
        if (!is_live_at(swim, address)) { /* the own address is that of a live member, too */
            send_hello(swim, address, swim->members.self);
        }
    }
}

static void try_dead(struct hr_swim *swim)
{
    uint32_t tried = 0;
    for (uint32_t step = 0; step < swim->members.count && tried < DEAD_TRIED_MAX; step++) {
        uint32_t index = swim->retry_cursor++ % swim->members.count;
        const struct hr_member *member = &swim->members.all[index];
        if (member->state == HR_MEMBER_DEAD) {
            send_hello(swim, hr_span_of(member->gossip), index); /* which may have to learn what is said of it */
            tried++;
        }
    }
}

static void exchange(struct hr_swim *swim)
{
    struct hr_swim_head head = {.type = HR_SWIM_HELLO, .digest = hr_swim_digest(swim)};
    uint32_t with = hr_swim_pick_live(swim, false, HR_MEMBER_NONE);
    if (with != HR_MEMBER_NONE) {
        hr_swim_send(swim, with, &head, swim->members.self);
    }
}

/* Between half of the wait and one and a half, so that nodes do not fall into step. */
static void schedule_exchange(struct hr_swim *swim, hr_ns now)
{
    hr_ns wait_ns = swim->exchange_wait_ns;
    swim->exchange_at = now + wait_ns / 2 + (hr_ns)hr_rng_below(&swim->rng, (uint64_t)wait_ns);
}

/* Where one is met there may be many, more than news can tell of: tables are compared soon, and then ever less often.
 */
void hr_swim_exchange_soon(struct hr_swim *swim, hr_ns now)
{
    if (swim->exchange_wait_ns > EXCHANGE_FIRST_NS) {
        swim->exchange_wait_ns = EXCHANGE_FIRST_NS;
        schedule_exchange(swim, now);
    }
}

void hr_swim_step_exchange(struct hr_swim *swim, hr_ns now)
{
    if (hr_swim_self(swim)->state == HR_MEMBER_LEFT) {
        swim->retry_at = INT64_MAX;
        swim->exchange_at = INT64_MAX;
        return;
    }
    if (now >= swim->retry_at) {
        hr_ns retry_ns = swim->timings.retry_interval_ns;
        try_seeds(swim);
        try_dead(swim);
        if (!swim->has_contact) {
            exchange(swim); /* somebody wrote first, as to a node that restarted */
        }
        swim->retry_at = now + (swim->has_contact || retry_ns < JOIN_INTERVAL_NS ? retry_ns : JOIN_INTERVAL_NS);
    }
    if (now >= swim->exchange_at) {
        hr_ns wait_ns = 2 * swim->exchange_wait_ns, most_ns = swim->timings.exchange_interval_ns;
        swim->exchange_wait_ns = wait_ns < most_ns ? wait_ns : most_ns;
        schedule_exchange(swim, now);
        exchange(swim);
    }
}
