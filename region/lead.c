#include <stddef.h>
#include <string.h>

#include "region/holds_state.h"

/* After a hold that must not wait, the next attempt comes this much later, and a little more by chance, so that two of
 * them do not meet again and again. */
#define RETRY_NS (HR_NS_PER_MS / 2)
#define RETRY_SPREAD_NS (2 * HR_NS_PER_MS)
#define MOVING_AGAIN_NS HR_NS_PER_MS

/* A letter that was not answered is sent again. */
#define RESEND_NS (5 * HR_NS_PER_MS)
#define SETTLE_RESEND_NS (20 * HR_NS_PER_MS)

/* Longer than this nobody is told how a hold was settled: its owner has resolved it by then (HR_HOLD_KEPT_NS). */
#define SETTLE_NS (4 * HR_NS_PER_S)

/* How long the caller waits for the owners to know of a commit, behind the deadline. */
#define COMMIT_WAIT_NS (20 * HR_NS_PER_MS)

/* A limit whose owner cannot be asked and that then denies: when to come again. */
#define UNAVAILABLE_RETRY_MS 1000

/* --- entries --- */

static struct hr_lead *new_lead(struct hr_holds *holds)
{
    uint32_t index = holds->lead_free;
    if (index != HR_NO_ENTRY) {
        holds->lead_free = holds->leads[index].next;
    } else if (holds->lead_fresh < holds->lead_count) {
        index = holds->lead_fresh++;
        holds->leads[index].generation = holds->config.first_serial / holds->lead_count;
    } else {
        return NULL;
    }
    struct hr_lead *lead = &holds->leads[index];
    uint64_t generation = lead->generation + 1;
    memset(lead, 0, offsetof(struct hr_lead, owners)); /* what is counted is written when it is */
    lead->state = HR_LEAD_PAUSED;
    lead->generation = generation;
    lead->key = (struct hr_hold_key){hr_holds_self(holds), generation * holds->lead_count + index};
    hr_active_add(&holds->active_leads, index, &lead->place);
    return lead;
}

static void free_lead(struct hr_holds *holds, struct hr_lead *lead)
{
    struct hr_active *active = &holds->active_leads;
    uint32_t last = active->indices[--active->count];
    active->indices[lead->place] = last;
    holds->leads[last].place = lead->place;
    hr_taken_drop(&holds->taken, &lead->shares);
    lead->state = HR_LEAD_FREE;
    lead->next = holds->lead_free;
    holds->lead_free = (uint32_t)(lead - holds->leads);
}

/* A serial says in which entry it is. */
static struct hr_lead *find_lead(const struct hr_holds *holds, struct hr_hold_key key)
{
    struct hr_lead *lead = &holds->leads[key.serial % holds->lead_count];
    bool is_it = key.lead == hr_holds_self(holds) && lead->state != HR_LEAD_FREE && lead->key.serial == key.serial;
    return is_it ? lead : NULL;
}

static bool are_all_settled(const struct hr_lead *lead)
{
    bool are = true;
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        are &= lead->owners[i].is_settled;
    }
    return are;
}

/* An entry goes when its caller has been told and all owners know. */
static void free_if_over(struct hr_holds *holds, struct hr_lead *lead)
{
    bool is_settling = lead->state == HR_LEAD_COMMITTING || lead->state == HR_LEAD_UNDOING;
    if (is_settling && lead->is_told && !lead->is_queued && are_all_settled(lead)) {
        free_lead(holds, lead);
    }
}

/* --- telling the caller --- */

static void queue(struct hr_holds *holds, struct hr_lead *lead)
{
    uint32_t number = (uint32_t)(lead - holds->leads) + 1;
    lead->is_told = lead->is_queued = true;
    holds->untold_count--;
    lead->next = 0;
    if (holds->queue_tail == 0) {
        holds->queue_head = number;
    } else {
        holds->leads[holds->queue_tail - 1].next = number;
    }
    holds->queue_tail = number;
}

static void tell(struct hr_holds *holds, struct hr_lead *lead, enum hr_lead_outcome outcome)
{
    lead->outcome = outcome;
    queue(holds, lead);
}

static void tell_fault(struct hr_holds *holds, struct hr_lead *lead, enum hr_code code, const char *words)
{
    lead->code = code;
    lead->words = words;
    tell(holds, lead, HR_LEAD_FAULT);
}

/* --- settling --- */

static void note_settled(struct hr_holds *holds, struct hr_lead *lead, struct hr_lead_owner *owner,
                         enum hr_settled_outcome outcome)
{
    owner->is_settled = true;
    owner->has_committed = outcome == HR_SETTLED_COMMITTED;
    if (lead->state == HR_LEAD_COMMITTING && !owner->is_silent && !owner->has_committed && !lead->is_told) {
        tell_fault(holds, lead, HR_CODE_UNAVAILABLE, "a node forgot what it held for this request");
    }
}

static void settle_owner(struct hr_holds *holds, struct hr_lead *lead, struct hr_lead_owner *owner, struct hr_now now)
{
    bool commits = lead->state == HR_LEAD_COMMITTING && !owner->is_silent;
    enum hr_settle_verb verb = commits ? HR_SETTLE_COMMIT : HR_SETTLE_GIVE_BACK;
    if (owner->member == hr_holds_self(holds)) {
        note_settled(holds, lead, owner, hr_owner_settle(holds, lead->key, verb, now));
    } else {
        hr_holds_post_settle(holds, owner->member, lead->key, verb);
    }
}

/* Was there anything to be settled? A peek and a refund leave nothing behind. */
static bool leaves_holds(const struct hr_lead *lead)
{
    return lead->request.verb == HR_HOLD_TAKE;
}

/* An owner that said no has nothing to give back. */
static bool has_nothing(const struct hr_lead_owner *owner)
{
    return owner->has_answered && owner->result != HR_HELD_YES;
}

static void settle(struct hr_holds *holds, struct hr_lead *lead, enum hr_lead_state state, struct hr_now now)
{
    lead->state = state;
    lead->resend_at = now.steady + SETTLE_RESEND_NS;
    lead->give_up_at = now.steady + SETTLE_NS;
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        struct hr_lead_owner *owner = &lead->owners[i];
        owner->is_settled = !leaves_holds(lead) || has_nothing(owner);
        if (!owner->is_settled) {
            settle_owner(holds, lead, owner, now);
        }
    }
}

static void undo(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    for (uint32_t link = lead->shares; link != 0; link = holds->taken.links[link].next) {
        hr_limiter_give_back(holds->config.limiter, &holds->taken.links[link].taken, now);
    }
    hr_taken_drop(&holds->taken, &lead->shares);
    settle(holds, lead, HR_LEAD_UNDOING, now);
}

static void fail(struct hr_holds *holds, struct hr_lead *lead, enum hr_code code, const char *words, struct hr_now now)
{
    tell_fault(holds, lead, code, words);
    undo(holds, lead, now);
}

/* --- counters that nobody can be asked for --- */

static uint32_t live_nodes(const struct hr_members *members)
{
    const struct hr_member *self = &members->all[members->self];
    uint32_t count = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct hr_member *member = &members->all[i];
        count += hr_member_is_live(member) && strcmp(member->region, self->region) == 0;
    }
    return count > 0 ? count : 1;
}

static void fill_unavailable(const struct hr_touch *touch, bool allowed, struct hr_held_row *row)
{
    row->allowed = allowed;
    row->remaining_before = row->remaining_after = allowed ? touch->limit->rule.capacity : 0;
    row->retry_after_ms = allowed ? 0 : UNAVAILABLE_RETRY_MS;
}

/* Decides by a fair part, and notes what it took. False: the part could not be looked at. */
static bool take_share(struct hr_holds *holds, struct hr_lead *lead, const struct hr_touch *touch, bool is_peek,
                       struct hr_held_row *row, struct hr_now now)
{
    uint32_t taken_count;
    struct hr_request request = hr_params_request(&holds->params, (*holds->config.request_serial)++);
    request.peek = is_peek;
    enum hr_err err = hr_limiter_take_share(holds->config.limiter, &request, touch, live_nodes(holds->config.members),
                                            now, &holds->after, holds->took, &taken_count);
    if (err != HR_OK) {
        return false;
    }
    if (taken_count > 0 && !hr_taken_add(&holds->taken, &holds->took[0], &lead->shares)) {
        hr_limiter_give_back(holds->config.limiter, &holds->took[0], now);
        return false;
    }
    const struct hr_row *after = &holds->after.rows[0];
    row->allowed = after->allowed;
    row->retry_after_ms = after->retry_after_ms;
    row->remaining_before = row->remaining_after = after->remaining;
    row->reset_before_ms = row->reset_after_ms = after->reset_after_ms;
    row->has_lease = after->has_lease;
    row->wants_share = after->wants_share;
    row->lease = after->has_lease ? after->lease : (struct hr_id128){0, 0};
    lead->delay_ms = holds->after.delay_ms > lead->delay_ms ? holds->after.delay_ms : lead->delay_ms;
    return true;
}

/* Decides one counter by its limit's on_unavailable. False: it cannot be admitted. */
static bool decide_unavailable(struct hr_holds *holds, struct hr_lead *lead, const struct hr_touch *touch,
                               struct hr_lead_counter *counter, bool is_peek, struct hr_now now)
{
    enum hr_on_unavailable way = touch->limit->on_unavailable;
    counter->has_row = true;
    lead->is_degraded = true;
    if (way != HR_UNAVAILABLE_LOCAL || !take_share(holds, lead, touch, is_peek, &counter->row, now)) {
        fill_unavailable(touch, way == HR_UNAVAILABLE_ALLOW, &counter->row);
    }
    return counter->row.allowed || touch->limit->mode == HR_SHADOW;
}

static const struct hr_touch *find_touch(const struct hr_touches *touches, struct hr_id128 counter)
{
    for (uint32_t i = 0; i < touches->count; i++) {
        if (hr_id128_equal(touches->at[i].counter, counter)) {
            return &touches->at[i];
        }
    }
    return NULL;
}

/* Decodes the lead's params, and finds what they touch by the limits of now. */
static bool look_up(struct hr_holds *holds, const struct hr_lead *lead)
{
    struct hr_fault fault;
    enum hr_method method = lead->request.verb == HR_HOLD_REFUND ? HR_METHOD_REFUND : HR_METHOD_CHECK;
    if (!hr_params_decode(method, lead->request.params, &holds->params, &fault)) {
        return false;
    }
    struct hr_request request = hr_params_request(&holds->params, 0);
    return hr_limiter_touches(holds->config.limiter, &request, &holds->touches) == HR_OK;
}

/* All that have no owner to be asked. True: each admits. As soon as one does not, the rest are only looked at. */
static bool decide_all_unavailable(struct hr_holds *holds, struct hr_lead *lead, bool admits, struct hr_now now)
{
    for (uint32_t i = 0; i < lead->counter_count; i++) {
        struct hr_lead_counter *counter = &lead->counters[i];
        if (counter->owner != HR_LEAD_NO_OWNER) {
            continue;
        }
        const struct hr_touch *touch = find_touch(&holds->touches, counter->row.counter);
        bool is_peek = !admits || lead->request.verb == HR_HOLD_PEEK;
        admits &= touch == NULL || decide_unavailable(holds, lead, touch, counter, is_peek, now);
    }
    return admits;
}

/* --- when all have answered --- */

/* The same request in a new entry, a little later; this one is left to undo. */
static bool retry(struct hr_holds *holds, struct hr_lead *lead, bool is_held_up, struct hr_now now)
{
    hr_ns resume_at = now.steady + RETRY_NS + (hr_ns)(lead->key.serial * 0x9e3779b9U % (uint64_t)RETRY_SPREAD_NS);
    struct hr_lead *next = resume_at < lead->request.deadline ? new_lead(holds) : NULL;
    if (next == NULL) {
        return false;
    }
    next->request = lead->request;
    next->priority = lead->priority;
    next->was_held_up = is_held_up || lead->was_held_up;
    next->resume_at = resume_at;
    lead->is_told = true;
    holds->counts.retried++;
    undo(holds, lead, now);
    return true;
}

static bool has_result(const struct hr_lead *lead, enum hr_held_result result, enum hr_code *ret_code)
{
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        const struct hr_lead_owner *owner = &lead->owners[i];
        if (owner->has_answered && !owner->is_silent && owner->result == result) {
            *ret_code = owner->code;
            return true;
        }
    }
    return false;
}

/* Its counters are decided without it. */
static void do_without(struct hr_lead *lead, uint32_t owner)
{
    lead->owners[owner].is_silent = true;
    for (uint32_t i = 0; i < lead->counter_count; i++) {
        struct hr_lead_counter *counter = &lead->counters[i];
        counter->owner = counter->owner == owner ? HR_LEAD_NO_OWNER : counter->owner;
    }
}

/* Owners that to the last say they are none. */
static void do_without_moved(struct hr_lead *lead)
{
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        if (lead->owners[i].has_answered && lead->owners[i].result == HR_HELD_MOVED) {
            do_without(lead, i);
        }
    }
}

static void conclude_refund(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    enum hr_code code;
    bool is_silent = false;
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        is_silent |= lead->owners[i].is_silent;
    }
    for (uint32_t i = 0; i < lead->counter_count; i++) {
        is_silent |= lead->counters[i].owner == HR_LEAD_NO_OWNER;
    }
    lead->refunded = has_result(lead, HR_HELD_GIVEN, &code);
    lead->is_degraded = is_silent;
    if (is_silent && !lead->refunded) {
        fail(holds, lead, HR_CODE_UNAVAILABLE, "the owner of a counter cannot be asked", now);
        return;
    }
    tell(holds, lead, HR_LEAD_GIVEN);
    undo(holds, lead, now);
}

static void commit(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    if (lead->request.verb == HR_HOLD_PEEK) {
        tell(holds, lead, HR_LEAD_ALLOWED);
    }
    settle(holds, lead, HR_LEAD_COMMITTING, now);
    if (!lead->is_told && are_all_settled(lead)) {
        tell(holds, lead, HR_LEAD_ALLOWED);
    }
}

static bool has_all_owners(const struct hr_lead *lead)
{
    for (uint32_t i = 0; i < lead->counter_count; i++) {
        if (lead->counters[i].owner == HR_LEAD_NO_OWNER) {
            return false;
        }
    }
    return true;
}

static void conclude(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    enum hr_code code = HR_CODE_UNAVAILABLE;
    if (has_result(lead, HR_HELD_FAULT, &code)) {
        fail(holds, lead, code, "a node that owns one of its counters could not carry the request out", now);
        return;
    }
    bool is_held_up = has_result(lead, HR_HELD_RETRY, &code) || has_result(lead, HR_HELD_BUSY, &code);
    bool has_moved = has_result(lead, HR_HELD_MOVED, &code);
    if ((is_held_up || has_moved) && retry(holds, lead, is_held_up, now)) {
        return;
    }
    if (is_held_up) {
        fail(holds, lead, HR_CODE_UNAVAILABLE, "other requests hold its counters", now);
        return;
    }
    do_without_moved(lead);
    if (lead->request.verb == HR_HOLD_REFUND) {
        conclude_refund(holds, lead, now);
        return;
    }
    bool admits = !has_result(lead, HR_HELD_NO, &code), has_owners = has_all_owners(lead);
    if (admits && now.steady >= lead->request.expires_at) {
        fail(holds, lead, HR_CODE_UNAVAILABLE, "it took longer than the node that was asked waits", now);
    } else if (!has_owners && !look_up(holds, lead)) {
        fail(holds, lead, HR_CODE_INTERNAL, "a request changed while it was decided", now);
    } else if ((has_owners || decide_all_unavailable(holds, lead, admits, now)) && admits) {
        commit(holds, lead, now);
    } else {
        tell(holds, lead, HR_LEAD_DENIED);
        undo(holds, lead, now);
    }
}

static void conclude_if_all_answered(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        if (!lead->owners[i].has_answered && !lead->owners[i].is_silent) {
            return;
        }
    }
    conclude(holds, lead, now);
    free_if_over(holds, lead);
}

static void note_rows(struct hr_lead *lead, uint32_t owner, const struct hr_wire_held *held)
{
    for (uint32_t i = 0; i < held->row_count; i++) {
        for (uint32_t j = 0; j < lead->counter_count; j++) {
            struct hr_lead_counter *counter = &lead->counters[j];
            if (counter->owner == owner && hr_id128_equal(counter->row.counter, held->rows[i].counter)) {
                counter->row = held->rows[i];
                counter->has_row = true;
            }
        }
    }
}

void hr_lead_held(struct hr_holds *holds, uint64_t from, const struct hr_wire_held *held, struct hr_now now)
{
    struct hr_lead *lead = find_lead(holds, held->key);
    if (lead == NULL || lead->state != HR_LEAD_ASKING) {
        /* One that is gone cannot have been committed: its owners would have known. */
        bool is_undone = lead == NULL || lead->state == HR_LEAD_UNDOING;
        if (is_undone && held->result == HR_HELD_YES && held->key.lead == hr_holds_self(holds)) {
            hr_holds_post_settle(holds, from, held->key, HR_SETTLE_GIVE_BACK);
        }
        return;
    }
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        struct hr_lead_owner *owner = &lead->owners[i];
        if (owner->member == from && !owner->has_answered) {
            owner->has_answered = true;
            owner->result = held->result;
            owner->code = held->code;
            lead->delay_ms = held->delay_ms > lead->delay_ms ? held->delay_ms : lead->delay_ms;
            note_rows(lead, i, held);
            conclude_if_all_answered(holds, lead, now);
            return;
        }
    }
}

void hr_lead_settled(struct hr_holds *holds, uint64_t from, const struct hr_wire_settled *settled)
{
    struct hr_lead *lead = find_lead(holds, settled->key);
    bool is_settling = lead != NULL && (lead->state == HR_LEAD_COMMITTING || lead->state == HR_LEAD_UNDOING);
    if (!is_settling || settled->outcome == HR_SETTLED_OPEN) {
        return;
    }
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        if (lead->owners[i].member == from && !lead->owners[i].is_settled) {
            note_settled(holds, lead, &lead->owners[i], settled->outcome);
        }
    }
    if (!lead->is_told && are_all_settled(lead)) {
        tell(holds, lead, HR_LEAD_ALLOWED);
    }
    free_if_over(holds, lead);
}

enum hr_settled_outcome hr_lead_word(const struct hr_holds *holds, struct hr_hold_key key)
{
    const struct hr_lead *lead = find_lead(holds, key);
    if (lead == NULL) {
        return HR_SETTLED_UNKNOWN;
    }
    return lead->state == HR_LEAD_UNDOING      ? HR_SETTLED_GIVEN_BACK
           : lead->state == HR_LEAD_COMMITTING ? HR_SETTLED_COMMITTED
                                               : HR_SETTLED_OPEN;
}

/* --- asking --- */

static uint32_t owner_index(struct hr_lead *lead, uint64_t member)
{
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        if (lead->owners[i].member == member) {
            return i;
        }
    }
    if (lead->owner_count == HR_HOLD_OWNERS_MAX) {
        return HR_NO_ENTRY;
    }
    lead->owners[lead->owner_count] = (struct hr_lead_owner){.member = member};
    return lead->owner_count++;
}

enum split { SPLIT_DONE, SPLIT_MOVING, SPLIT_TOO_MANY };

/* Finds out who owns which of the touched counters. */
static enum split split_by_owner(struct hr_holds *holds, struct hr_lead *lead, hr_ns now)
{
    lead->owner_count = 0;
    lead->counter_count = holds->touches.count;
    for (uint32_t i = 0; i < holds->touches.count; i++) {
        struct hr_id128 id = holds->touches.at[i].counter;
        struct hr_place place = hr_place_of(&holds->config.places, id, now);
        lead->counters[i] = (struct hr_lead_counter){.owner = HR_LEAD_NO_OWNER, .row = {.counter = id}};
        if (place.kind == HR_PLACE_MOVING) {
            return SPLIT_MOVING;
        }
        bool can_ask = place.kind == HR_PLACE_HERE ||
                       (place.kind == HR_PLACE_AT && place.member != lead->request.silent && place.member != 0);
        if (!can_ask) {
            continue;
        }
        uint32_t owner = owner_index(lead, place.kind == HR_PLACE_HERE ? hr_holds_self(holds) : place.member);
        if (owner == HR_NO_ENTRY) {
            return SPLIT_TOO_MANY;
        }
        lead->counters[i].owner = (uint8_t)owner;
    }
    return SPLIT_DONE;
}

static void fill_hold(const struct hr_lead *lead, uint32_t owner, hr_ns now, struct hr_wire_hold *hold)
{
    hr_ns left = lead->request.deadline > now ? lead->request.deadline - now : 0;
    hold->key = lead->key;
    hold->priority = lead->priority;
    hold->left_us = (uint32_t)(left / HR_NS_PER_US);
    hold->verb = lead->request.verb;
    hold->params = lead->request.params;
    hold->owner_count = lead->owner_count;
    hold->counter_count = 0;
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        hold->owners[i] = lead->owners[i].member;
    }
    for (uint32_t i = 0; i < lead->counter_count; i++) {
        if (lead->counters[i].owner == owner) {
            hold->counters[hold->counter_count++] = lead->counters[i].row.counter;
        }
    }
}

static struct hr_le_writer write_hold(struct hr_holds *holds, const struct hr_lead *lead, uint32_t owner, hr_ns now)
{
    struct hr_le_writer out = hr_le_writer_of(holds->letter, sizeof(holds->letter));
    fill_hold(lead, owner, now, &holds->wire);
    hr_wire_put_hold(&out, &holds->wire);
    return out;
}

static void post_holds(struct hr_holds *holds, struct hr_lead *lead, hr_ns now)
{
    lead->resend_at = now + RESEND_NS;
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        const struct hr_lead_owner *owner = &lead->owners[i];
        if (!owner->has_answered && owner->member != hr_holds_self(holds)) {
            struct hr_le_writer out = write_hold(holds, lead, i, now);
            hr_holds_post(holds, owner->member, HR_LETTER_HOLD, &out);
        }
    }
}

/* Asks all owners: the others first, for this node's own answer may be the last that is wanted. */
static void ask_all(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    lead->state = HR_LEAD_ASKING;
    post_holds(holds, lead, now.steady);
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        if (lead->owners[i].member == hr_holds_self(holds)) {
            struct hr_le_writer out = write_hold(holds, lead, i, now.steady);
            hr_owner_hold(holds, lead->owners[i].member, (struct hr_span){(const char *)out.at, out.used}, now);
            return;
        }
    }
    if (lead->owner_count == 0) {
        conclude_if_all_answered(holds, lead, now);
    }
}

static void begin(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    if (!look_up(holds, lead)) {
        fail(holds, lead, HR_CODE_RESOURCE_EXHAUSTED, "the request touches more limits than one request may", now);
        return;
    }
    switch (split_by_owner(holds, lead, now.steady)) {
    case SPLIT_MOVING:
        lead->owner_count = 0;
        lead->resume_at = now.steady + MOVING_AGAIN_NS;
        if (now.steady >= lead->request.deadline) {
            tell(holds, lead, HR_LEAD_MOVING);
            undo(holds, lead, now);
        }
        return;
    case SPLIT_TOO_MANY:
        lead->owner_count = 0;
        fail(holds, lead, HR_CODE_RESOURCE_EXHAUSTED, "the request touches counters of too many nodes", now);
        return;
    case SPLIT_DONE:
        ask_all(holds, lead, now);
        return;
    }
}

enum hr_err hr_holds_lead(struct hr_holds *holds, const struct hr_lead_request *request, struct hr_now now)
{
    struct hr_lead *lead = holds->untold_count < holds->config.leads_max ? new_lead(holds) : NULL;
    if (lead == NULL) {
        return HR_E_FULL;
    }
    lead->request = *request;
    lead->priority = ++holds->clock;
    holds->untold_count++;
    holds->counts.led++;
    begin(holds, lead, now);
    return HR_OK;
}

/* --- time --- */

static void tend_asking(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    if (now.steady < lead->request.deadline) {
        if (now.steady >= lead->resend_at) {
            post_holds(holds, lead, now.steady);
        }
        return;
    }
    if (lead->was_held_up) { /* who does not answer may still be waiting for others */
        fail(holds, lead, HR_CODE_UNAVAILABLE, "other requests hold its counters", now);
        return;
    }
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        if (!lead->owners[i].has_answered) {
            do_without(lead, i);
        }
    }
    conclude_if_all_answered(holds, lead, now);
}

/* Has another node said that it knows of the commit? Then it will say so to those who ask. */
static bool is_known_elsewhere(const struct hr_holds *holds, const struct hr_lead *lead)
{
    bool is = false;
    for (uint32_t i = 0; i < lead->owner_count; i++) {
        is |= lead->owners[i].has_committed && lead->owners[i].member != hr_holds_self(holds);
    }
    return is;
}

static void tend_settling(struct hr_holds *holds, struct hr_lead *lead, struct hr_now now)
{
    if (!lead->is_told && now.steady >= lead->request.deadline + COMMIT_WAIT_NS) {
        if (is_known_elsewhere(holds, lead)) {
            tell(holds, lead, HR_LEAD_ALLOWED);
        } else {
            tell_fault(holds, lead, HR_CODE_UNAVAILABLE, "the owners of its counters did not answer in time");
        }
    }
    bool gives_up = now.steady >= lead->give_up_at;
    bool resends = !gives_up && now.steady >= lead->resend_at;
    for (uint32_t i = 0; i < lead->owner_count && (resends || gives_up); i++) {
        struct hr_lead_owner *owner = &lead->owners[i];
        owner->is_settled |= gives_up;
        if (!owner->is_settled) {
            settle_owner(holds, lead, owner, now);
        }
    }
    lead->resend_at = resends ? now.steady + SETTLE_RESEND_NS : lead->resend_at;
    free_if_over(holds, lead);
}

void hr_lead_tick(struct hr_holds *holds, struct hr_now now)
{
    for (uint32_t i = holds->active_leads.count; i-- > 0;) { /* backwards: one that goes is replaced by one seen */
        struct hr_lead *lead = &holds->leads[holds->active_leads.indices[i]];
        switch (lead->state) {
        case HR_LEAD_PAUSED:
            if (now.steady >= lead->resume_at) {
                begin(holds, lead, now);
            }
            break;
        case HR_LEAD_ASKING:
            tend_asking(holds, lead, now);
            break;
        case HR_LEAD_COMMITTING:
        case HR_LEAD_UNDOING:
            tend_settling(holds, lead, now);
            break;
        case HR_LEAD_FREE:
            break;
        }
    }
}

static hr_ns next_at(const struct hr_lead *lead)
{
    switch (lead->state) {
    case HR_LEAD_PAUSED:
        return lead->resume_at;
    case HR_LEAD_ASKING:
        return lead->resend_at < lead->request.deadline ? lead->resend_at : lead->request.deadline;
    case HR_LEAD_COMMITTING:
    case HR_LEAD_UNDOING:
        return lead->resend_at < lead->give_up_at ? lead->resend_at : lead->give_up_at;
    case HR_LEAD_FREE:
        break;
    }
    return INT64_MAX;
}

hr_ns hr_lead_deadline(const struct hr_holds *holds)
{
    hr_ns first = INT64_MAX;
    for (uint32_t i = 0; i < holds->active_leads.count; i++) {
        hr_ns at = next_at(&holds->leads[holds->active_leads.indices[i]]);
        first = at < first ? at : first;
    }
    return first;
}

/* --- the decision --- */

static const struct hr_lead_counter *find_counter(const struct hr_lead *lead, struct hr_id128 id)
{
    for (uint32_t i = 0; i < lead->counter_count; i++) {
        if (lead->counters[i].has_row && hr_id128_equal(lead->counters[i].row.counter, id)) {
            return &lead->counters[i];
        }
    }
    return NULL;
}

/* The caller sees what stands: after the decision if it was admitted, and before it if nothing was taken. */
static void fill_row(const struct hr_touch *touch, const struct hr_held_row *held, bool is_taken, struct hr_row *row)
{
    *row = (struct hr_row){
        .limit = touch->limit,
        .allowed = held->allowed,
        .has_lease = is_taken && held->has_lease,
        .wants_share = held->wants_share,
        .counter = touch->counter,
        .remaining = is_taken ? held->remaining_after : held->remaining_before,
        .retry_after_ms = held->retry_after_ms,
        .reset_after_ms = is_taken ? held->reset_after_ms : held->reset_before_ms,
        .lease = held->lease,
    };
}

static void weigh_denial(const struct hr_row *row, struct hr_decision *decision)
{
    if (row->allowed || row->limit->mode == HR_SHADOW) {
        return;
    }
    if (decision->decided_by == NULL) {
        decision->decided_by = row->limit;
        decision->retry_after_ms = row->retry_after_ms;
    } else if (decision->retry_after_ms != HR_NEVER_MS) {
        bool is_longer = row->retry_after_ms == HR_NEVER_MS || row->retry_after_ms > decision->retry_after_ms;
        decision->retry_after_ms = is_longer ? row->retry_after_ms : decision->retry_after_ms;
    }
}

/* Without rows. Where they would be is left as it is, for there is room for many. */
static void begin_decision(struct hr_decision *decision, bool is_taken)
{
    decision->allowed = is_taken;
    decision->action = HR_DENY;
    decision->decided_by = NULL;
    decision->retry_after_ms = decision->delay_ms = 0;
    decision->row_count = 0;
}

static void fill_decision(struct hr_holds *holds, const struct hr_lead *lead)
{
    struct hr_decision *decision = &holds->after;
    bool is_taken = lead->outcome == HR_LEAD_ALLOWED;
    begin_decision(decision, is_taken);
    for (uint32_t i = 0; i < holds->touches.count; i++) {
        const struct hr_touch *touch = &holds->touches.at[i];
        const struct hr_lead_counter *counter = find_counter(lead, touch->counter);
        if (counter == NULL) {
            continue; /* a limit that has come since */
        }
        struct hr_row *row = &decision->rows[decision->row_count++];
        fill_row(touch, &counter->row, is_taken, row);
        if (!is_taken) {
            weigh_denial(row, decision);
        }
    }
    if (is_taken) {
        decision->delay_ms = lead->delay_ms;
        decision->action = lead->delay_ms > 0 ? HR_DELAY : HR_ALLOW;
    }
}

static void count_done(struct hr_holds *holds, const struct hr_lead *lead)
{
    holds->counts.admitted += lead->outcome == HR_LEAD_ALLOWED;
    holds->counts.denied += lead->outcome == HR_LEAD_DENIED;
    holds->counts.faults += lead->outcome == HR_LEAD_FAULT;
    holds->counts.degraded += lead->is_degraded;
}

bool hr_holds_next_done(struct hr_holds *holds, struct hr_now now, struct hr_lead_done *ret_done)
{
    (void)now;
    if (holds->queue_head == 0) {
        return false;
    }
    struct hr_lead *lead = &holds->leads[holds->queue_head - 1];
    holds->queue_head = lead->next;
    holds->queue_tail = holds->queue_head == 0 ? 0 : holds->queue_tail;
    lead->is_queued = false;
    bool is_moving = lead->outcome == HR_LEAD_MOVING;
    bool is_fault = !is_moving && (lead->outcome == HR_LEAD_FAULT || !look_up(holds, lead));
    *ret_done = (struct hr_lead_done){
        .job = lead->request.job,
        .verb = lead->request.verb,
        .has_id = lead->request.has_id,
        .params = lead->request.params,
        .is_moving = is_moving,
        .is_fault = is_fault,
        .code = lead->outcome == HR_LEAD_FAULT ? lead->code : HR_CODE_INTERNAL,
        .words = lead->outcome == HR_LEAD_FAULT ? lead->words : "the limits changed while the request was decided",
        .degraded = lead->is_degraded,
        .refunded = lead->refunded,
        .detail = holds->params.detail,
        .first_counter = lead->counter_count > 0 ? lead->counters[0].row.counter : (struct hr_id128){0, 0},
        .decision = &holds->after,
    };
    if (!is_moving && !is_fault && lead->outcome != HR_LEAD_GIVEN) {
        fill_decision(holds, lead);
    }
    count_done(holds, lead);
    lead->request.params = HR_SPAN(""); /* borrowed no longer */
    free_if_over(holds, lead);
    return true;
}
