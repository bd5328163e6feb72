#include "region/holds.h"

#include "base/defect.h"
#include "region/holds_state.h"

/* A hold that waits gives up in time for its lead to hear of it. */
#define WAIT_PARTS 2

/* What waits is looked at again so soon, for a partition may have come. */
#define AGAIN_NS HR_NS_PER_MS

/* One whose partition moves does not wait longer: the move waits for the holds of the same request at other owners. */
#define MOVING_NS_MAX (2 * HR_NS_PER_MS)

#define ASK_AGAIN_NS (50 * HR_NS_PER_MS)

/* --- memory --- */

struct hr_holds *hr_holds_init(const struct hr_holds_config *config, struct hr_bump *bump)
{
    struct hr_holds parts = {.config = *config, .lead_count = 2 * config->leads_max, .clock = 1};
    struct hr_holds *holds = hr_bump_take(bump, 1, sizeof(*holds), 64);
    hr_blocks_init(&parts.blocks, 2 * config->holds_max, bump);
    parts.taken.count = 4 * config->holds_max + 2 * HR_TOUCHED_MAX;
    parts.taken.fresh = 1;
    parts.taken.links = hr_bump_take(bump, parts.taken.count, sizeof(struct hr_taken_link), 64);
    uint32_t recent = 1024;
    while (recent < 4 * config->holds_max) {
        recent *= 2;
    }
    hr_recent_init(&parts.settled, recent, bump);
    parts.holds = hr_bump_take(bump, config->holds_max, sizeof(struct hr_hold), 64);
    uint32_t bucket_count = 64;
    while (bucket_count < config->holds_max) {
        bucket_count *= 2;
    }
    parts.bucket_mask = bucket_count - 1;
    parts.buckets = hr_bump_take(bump, bucket_count, sizeof(uint32_t), 64);
    parts.active_holds.indices = hr_bump_take(bump, config->holds_max, sizeof(uint32_t), 64);
    parts.leads = hr_bump_take(bump, parts.lead_count, sizeof(struct hr_lead), 64);
    parts.active_leads.indices = hr_bump_take(bump, parts.lead_count, sizeof(uint32_t), 64);
    parts.hold_free = parts.lead_free = HR_NO_ENTRY;
    if (holds != NULL) {
        *holds = parts;
    }
    return holds;
}

/* Chains hold numbers: an index and 1. */
static uint32_t *bucket_of(const struct hr_holds *holds, struct hr_hold_key key)
{
    return &holds->buckets[hr_plain_hash(&key, sizeof(key), 0) & holds->bucket_mask];
}

static struct hr_hold *new_hold(struct hr_holds *holds, struct hr_hold_key key)
{
    uint32_t index = holds->hold_free;
    if (index != HR_NO_ENTRY) {
        holds->hold_free = holds->holds[index].next;
    } else if (holds->hold_fresh < holds->config.holds_max) {
        index = holds->hold_fresh++;
    } else {
        return NULL;
    }
    struct hr_hold *hold = &holds->holds[index];
    uint32_t *bucket = bucket_of(holds, key);
    *hold = (struct hr_hold){.state = HR_HOLD_WAITING, .key = key, .chain = *bucket};
    *bucket = index + 1;
    hr_active_add(&holds->active_holds, index, &hold->place);
    return hold;
}

static void free_hold(struct hr_holds *holds, struct hr_hold *hold)
{
    struct hr_active *active = &holds->active_holds;
    uint32_t last = active->indices[--active->count];
    active->indices[hold->place] = last;
    holds->holds[last].place = hold->place;
    uint32_t *link = bucket_of(holds, hold->key);
    while (*link != (uint32_t)(hold - holds->holds) + 1) {
        link = &holds->holds[*link - 1].chain;
    }
    *link = hold->chain;
    hr_blocks_free(&holds->blocks, &hold->body);
    hr_blocks_free(&holds->blocks, &hold->held);
    hold->state = HR_HOLD_FREE;
    hold->next = holds->hold_free;
    holds->hold_free = (uint32_t)(hold - holds->holds);
}

static struct hr_hold *find_hold(struct hr_holds *holds, struct hr_hold_key key)
{
    uint32_t number = *bucket_of(holds, key);
    while (number != 0) {
        struct hr_hold *hold = &holds->holds[number - 1];
        if (hold->key.serial == key.serial && hold->key.lead == key.lead) {
            return hold;
        }
        number = hold->chain;
    }
    return NULL;
}

bool hr_taken_add(struct hr_taken_pool *pool, const struct hr_taken *taken, uint32_t *chain)
{
    uint32_t number = pool->head;
    if (number != 0) {
        pool->head = pool->links[number].next;
        pool->free_count--;
    } else if (pool->fresh < pool->count) {
        number = pool->fresh++;
    } else {
        return false;
    }
    pool->links[number] = (struct hr_taken_link){*taken, *chain};
    *chain = number;
    return true;
}

void hr_taken_drop(struct hr_taken_pool *pool, uint32_t *chain)
{
    while (*chain != 0) {
        uint32_t number = *chain;
        *chain = pool->links[number].next;
        pool->links[number].next = pool->head;
        pool->head = number;
        pool->free_count++;
    }
}

static bool has_links(const struct hr_taken_pool *pool, uint32_t count)
{
    return pool->free_count + (pool->count - pool->fresh) >= count;
}

/* --- letters --- */

void hr_holds_post(struct hr_holds *holds, uint64_t to, enum hr_letter_kind kind, const struct hr_le_writer *body)
{
    const struct hr_letter letter = {
        .to = to, .lane = HR_LANE_PEER, .kind = kind, .body = {(const char *)body->at, body->used}};
    (void)hr_outbox_put(holds->config.outbox, &letter); /* one that finds no room is lost, as on the way */
}

void hr_holds_post_settle(struct hr_holds *holds, uint64_t to, struct hr_hold_key key, enum hr_settle_verb verb)
{
    uint8_t bytes[HR_SETTLE_BYTES];
    struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
    const struct hr_wire_settle settle = {key, verb};
    hr_wire_put_settle(&out, &settle);
    hr_holds_post(holds, to, HR_LETTER_SETTLE, &out);
}

static void post_settled(struct hr_holds *holds, uint64_t to, struct hr_hold_key key, enum hr_settled_outcome outcome)
{
    uint8_t bytes[HR_SETTLE_BYTES];
    struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
    const struct hr_wire_settled settled = {key, outcome};
    hr_wire_put_settled(&out, &settled);
    hr_holds_post(holds, to, HR_LETTER_SETTLED, &out);
}

/* --- whose hold is in whose way --- */

static uint16_t *filter_of(struct hr_holds *holds, struct hr_id128 counter)
{
    return &holds->filter[counter.lo % HR_HELD_FILTER_COUNT];
}

static void count_in_filter(struct hr_holds *holds, const struct hr_hold *hold, int step)
{
    for (uint32_t link = hold->taken; link != 0; link = holds->taken.links[link].next) {
        uint16_t *count = filter_of(holds, holds->taken.links[link].taken.counter);
        *count = (uint16_t)(*count + step);
    }
}

static bool has_taken(const struct hr_holds *holds, const struct hr_hold *hold, struct hr_id128 counter)
{
    for (uint32_t link = hold->taken; link != 0; link = holds->taken.links[link].next) {
        if (hr_id128_equal(holds->taken.links[link].taken.counter, counter)) {
            return true;
        }
    }
    return false;
}

static bool is_older(uint64_t priority, uint64_t lead, const struct hr_hold *than)
{
    return priority != than->priority ? priority < than->priority : lead < than->key.lead;
}

enum way { WAY_FREE, WAY_WAIT, WAY_DIE };

/* May a request that this counter denies wait for those who hold it? Only if it is older than all of them: so waiting
 * goes one way, and never round. */
static enum way way_of(const struct hr_holds *holds, struct hr_id128 counter, uint64_t priority, uint64_t lead)
{
    enum way way = WAY_FREE;
    if (holds->filter[counter.lo % HR_HELD_FILTER_COUNT] == 0) {
        return way;
    }
    for (uint32_t i = 0; i < holds->active_holds.count; i++) {
        const struct hr_hold *other = &holds->holds[holds->active_holds.indices[i]];
        if (other->state != HR_HOLD_OPEN || !has_taken(holds, other, counter)) {
            continue;
        }
        if (!is_older(priority, lead, other)) {
            return WAY_DIE;
        }
        way = WAY_WAIT;
    }
    return way;
}

bool hr_holds_are_in_the_way(const struct hr_holds *holds, const struct hr_touches *touches)
{
    for (uint32_t i = 0; holds->open_count > 0 && i < touches->count; i++) {
        bool counts = touches->at[i].limit->mode == HR_ENFORCE;
        if (counts && way_of(holds, touches->at[i].counter, 0, 0) != WAY_FREE) {
            return true;
        }
    }
    return false;
}

bool hr_holds_has(const struct hr_holds *holds, struct hr_id128 counter)
{
    return holds->open_count > 0 && way_of(holds, counter, 0, 0) != WAY_FREE;
}

bool hr_holds_of_partition(const struct hr_holds *holds, uint32_t partition)
{
    for (uint32_t i = 0; i < holds->active_holds.count; i++) {
        const struct hr_hold *hold = &holds->holds[holds->active_holds.indices[i]];
        for (uint32_t link = hold->taken; link != 0; link = holds->taken.links[link].next) {
            if (hr_place_partition(holds->taken.links[link].taken.counter) == partition) {
                return true;
            }
        }
    }
    return false;
}

/* --- the owner's part of a request --- */

/* Tells the lead what stands in holds->held: here, or by a letter, whose body is returned. */
static struct hr_span tell_lead(struct hr_holds *holds, struct hr_hold_key key, struct hr_now now)
{
    struct hr_le_writer out = hr_le_writer_of(holds->letter, HR_HELD_BYTES_MAX);
    holds->held.key = key;
    if (key.lead == hr_holds_self(holds)) {
        hr_lead_held(holds, key.lead, &holds->held, now);
        return HR_SPAN("");
    }
    hr_wire_put_held(&out, &holds->held);
    hr_holds_post(holds, key.lead, HR_LETTER_HELD, &out);
    return (struct hr_span){(const char *)out.at, out.used};
}

/* Answers the lead, and is done with the hold unless it is open; then the answer is kept, for it may be asked for
 * again. The lead may settle the hold at once: it is not looked at afterwards. */
static void answer(struct hr_holds *holds, struct hr_hold *hold, struct hr_now now)
{
    struct hr_hold_key key = hold->key;
    if (hold->state != HR_HOLD_OPEN) {
        free_hold(holds, hold);
        (void)tell_lead(holds, key, now);
    } else if (key.lead == hr_holds_self(holds)) {
        (void)tell_lead(holds, key, now);
    } else {
        (void)hr_blocks_keep(&holds->blocks, tell_lead(holds, key, now), &hold->held); /* without room: not again */
    }
}

/* An answer without rows. Where they would be is left as it is, for there is room for many. */
static void begin_held(struct hr_holds *holds, enum hr_held_result result, enum hr_code code)
{
    holds->held.result = result;
    holds->held.code = code;
    holds->held.delay_ms = 0;
    holds->held.row_count = 0;
}

static void answer_plainly(struct hr_holds *holds, struct hr_hold *hold, enum hr_held_result result, enum hr_code code,
                           struct hr_now now)
{
    begin_held(holds, result, code);
    answer(holds, hold, now);
}

static void fill_row(const struct hr_row *before, const struct hr_row *after, bool is_brief, struct hr_held_row *row)
{
    *row = (struct hr_held_row){
        .counter = before->counter,
        .allowed = before->allowed,
        .retry_after_ms = before->retry_after_ms,
        .has_lease = after->has_lease,
        .wants_share = before->wants_share,
    };
    if (after->has_lease) {
        row->lease = after->lease;
    }
    if (!is_brief) {
        row->remaining_before = before->remaining;
        row->reset_before_ms = before->reset_after_ms;
        row->remaining_after = after->remaining;
        row->reset_after_ms = after->reset_after_ms;
    }
}

/* The answer with the numbers before and after; of what was not taken they are the same. */
static void answer_rows(struct hr_holds *holds, struct hr_hold *hold, enum hr_held_result result,
                        const struct hr_decision *after, struct hr_now now)
{
    const struct hr_decision *before = &holds->before;
    begin_held(holds, result, 0);
    holds->held.delay_ms = before->delay_ms;
    holds->held.row_count = before->row_count;
    for (uint32_t i = 0; i < before->row_count; i++) {
        fill_row(&before->rows[i], &after->rows[i], !holds->params.detail, &holds->held.rows[i]);
    }
    answer(holds, hold, now);
}

static void fail(struct hr_holds *holds, struct hr_hold *hold, enum hr_err err, struct hr_now now)
{
    switch ((int)err) {
    case HR_E_NOT_FOUND: /* the limits here and there differ for a moment */
        answer_plainly(holds, hold, HR_HELD_MOVED, 0, now);
        return;
    case HR_E_PENDING:
        if (now.steady < hold->wait_until) {
            return; /* for the store: stir will come */
        }
        answer_plainly(holds, hold, HR_HELD_FAULT, HR_CODE_UNAVAILABLE, now);
        return;
    case HR_E_FULL:
    case HR_E_TOO_MANY:
        answer_plainly(holds, hold, HR_HELD_FAULT, HR_CODE_RESOURCE_EXHAUSTED, now);
        return;
    default:
        answer_plainly(holds, hold, HR_HELD_FAULT, HR_CODE_INTERNAL, now);
        return;
    }
}

/* Denied: by another's hold, perhaps. The oldest waits; who must not, tries again later. */
static void deny_or_wait(struct hr_holds *holds, struct hr_hold *hold, const struct hr_request *request,
                         struct hr_now now)
{
    enum way way = WAY_FREE;
    for (uint32_t i = 0; i < holds->before.row_count && way != WAY_DIE; i++) {
        const struct hr_row *row = &holds->before.rows[i];
        if (!row->allowed && row->limit->mode == HR_ENFORCE) {
            enum way one = way_of(holds, row->counter, hold->priority, hold->key.lead);
            way = one > way ? one : way;
        }
    }
    if (way == WAY_WAIT && now.steady < hold->wait_until) {
        holds->counts.waited++;
        return;
    }
    if (way != WAY_FREE) {
        holds->counts.died++;
        answer_plainly(holds, hold, way == WAY_DIE ? HR_HELD_RETRY : HR_HELD_BUSY, 0, now);
        return;
    }
    if (!request->peek) { /* once more, for the tally alone: it consumes nothing */
        uint32_t none;
        const struct hr_counters part = {holds->wire.counters, holds->wire.counter_count};
        enum hr_err err =
            hr_limiter_take_part(holds->config.limiter, request, part, now, &holds->before, holds->took, &none);
        if (err != HR_OK) {
            fail(holds, hold, err, now);
            return;
        }
    }
    answer_rows(holds, hold, HR_HELD_NO, &holds->before, now);
}

static void open_hold(struct hr_holds *holds, struct hr_hold *hold, uint32_t taken_count, hr_ns now)
{
    for (uint32_t i = 0; i < taken_count; i++) {
        (void)hr_taken_add(&holds->taken, &holds->took[i], &hold->taken); /* there is room: has_links */
    }
    count_in_filter(holds, hold, 1);
    hold->state = HR_HOLD_OPEN;
    /* The lead is here, and will settle it; or it is as good as here. */
    bool is_sure = hold->key.lead == hr_holds_self(holds) || holds->config.is_one_process;
    hold->ask_at = is_sure ? INT64_MAX : now + HR_HOLD_SILENCE_NS;
    hold->keep_at = is_sure ? INT64_MAX : now + HR_HOLD_KEPT_NS;
    holds->open_count++;
    holds->counts.held++;
}

static void take(struct hr_holds *holds, struct hr_hold *hold, struct hr_request *request, struct hr_now now)
{
    uint32_t taken_count;
    if (!has_links(&holds->taken, holds->wire.counter_count)) {
        fail(holds, hold, HR_E_FULL, now);
        return;
    }
    request->serial = (*holds->config.request_serial)++;
    enum hr_err err =
        hr_limiter_take_part_again(holds->config.limiter, request, now, &holds->after, holds->took, &taken_count);
    if (err != HR_OK) {
        fail(holds, hold, err, now);
        return;
    }
    open_hold(holds, hold, taken_count, now.steady);
    answer_rows(holds, hold, HR_HELD_YES, &holds->after, now);
}

static void refund(struct hr_holds *holds, struct hr_hold *hold, struct hr_now now)
{
    struct hr_request request = hr_params_request(&holds->params, 0);
    const struct hr_counters part = {holds->wire.counters, holds->wire.counter_count};
    enum hr_err err = hr_limiter_refund_part(holds->config.limiter, &request, part, now);
    if (err != HR_OK && err != HR_E_NOT_FOUND) {
        fail(holds, hold, err, now);
        return;
    }
    enum hr_held_result result = err == HR_OK ? HR_HELD_GIVEN : HR_HELD_NOTHING;
    hr_recent_add(&holds->settled, hold->key.lead, hold->key.serial, (uint8_t)(HR_SETTLED_REFUND + result));
    answer_plainly(holds, hold, result, 0, now);
}

static enum hr_place_kind place_of_all(const struct hr_holds *holds, hr_ns now)
{
    enum hr_place_kind kind = HR_PLACE_HERE;
    for (uint32_t i = 0; i < holds->wire.counter_count; i++) {
        struct hr_place place = hr_place_of(&holds->config.places, holds->wire.counters[i], now);
        /* The lead has just passed the counter on: the word of it is on its way. */
        bool is_passed_on = place.kind == HR_PLACE_AT && place.member == holds->wire.key.lead;
        place.kind = is_passed_on ? HR_PLACE_MOVING : place.kind;
        kind = place.kind > kind ? place.kind : kind;
    }
    return kind;
}

/* Tries to hold. What cannot be said yet is left waiting. */
static void try_hold(struct hr_holds *holds, struct hr_hold *hold, struct hr_now now)
{
    struct hr_fault fault;
    hold->is_due = false;
    hold->again_at = now.steady + AGAIN_NS;
    if (hr_wire_get_hold(hr_blocks_bytes(&holds->blocks, hold->body), &holds->wire) != HR_OK) {
        free_hold(holds, hold); /* it was valid when it came */
        return;
    }
    enum hr_place_kind kind = place_of_all(holds, now.steady);
    if (kind == HR_PLACE_MOVING && now.steady < hold->move_until) {
        return;
    }
    if (kind != HR_PLACE_HERE) {
        answer_plainly(holds, hold, HR_HELD_MOVED, 0, now);
        return;
    }
    bool is_refund = holds->wire.verb == HR_HOLD_REFUND;
    enum hr_method method = is_refund ? HR_METHOD_REFUND : HR_METHOD_CHECK;
    if (!hr_params_decode(method, holds->wire.params, &holds->params, &fault)) {
        answer_plainly(holds, hold, HR_HELD_FAULT, HR_CODE_INVALID_ARGUMENT, now);
        return;
    }
    if (is_refund) {
        refund(holds, hold, now);
        return;
    }
    struct hr_request request = hr_params_request(&holds->params, 0);
    const struct hr_counters part = {holds->wire.counters, holds->wire.counter_count};
    bool is_peek = holds->wire.verb == HR_HOLD_PEEK;
    uint32_t none;
    request.brief = !holds->params.detail;
    request.peek = true;
    enum hr_err err =
        hr_limiter_take_part(holds->config.limiter, &request, part, now, &holds->before, holds->took, &none);
    request.peek = is_peek;
    if (err != HR_OK) {
        fail(holds, hold, err, now);
    } else if (!holds->before.allowed) {
        deny_or_wait(holds, hold, &request, now);
    } else if (is_peek) {
        answer_rows(holds, hold, HR_HELD_YES, &holds->before, now);
    } else {
        take(holds, hold, &request, now);
    }
}

static void post_again(struct hr_holds *holds, const struct hr_hold *hold)
{
    struct hr_span held = hr_blocks_bytes(&holds->blocks, hold->held);
    const struct hr_letter letter = {.to = hold->key.lead, .lane = HR_LANE_PEER, .kind = HR_LETTER_HELD, .body = held};
    if (held.bytes > 0) {
        (void)hr_outbox_put(holds->config.outbox, &letter);
    }
}

/* A HOLD that came before: answered again where there is an answer. */
static bool is_repeated(struct hr_holds *holds, struct hr_hold_key key, struct hr_now now)
{
    uint8_t settled;
    const struct hr_hold *hold = find_hold(holds, key);
    if (hr_defect(HOLD_TWICE)) {
        return false;
    }
    if (hold != NULL) {
        post_again(holds, hold);
        return true;
    }
    if (!hr_recent_find(&holds->settled, key.lead, key.serial, &settled)) {
        return false;
    }
    if (settled >= HR_SETTLED_REFUND) {
        begin_held(holds, (enum hr_held_result)(settled - HR_SETTLED_REFUND), 0);
        (void)tell_lead(holds, key, now);
    }
    return true;
}

void hr_owner_hold(struct hr_holds *holds, uint64_t from, struct hr_span body, struct hr_now now)
{
    if (hr_wire_get_hold(body, &holds->wire) != HR_OK || holds->wire.key.lead != from ||
        is_repeated(holds, holds->wire.key, now)) {
        return;
    }
    struct hr_hold *hold = new_hold(holds, holds->wire.key);
    if (hold == NULL || !hr_blocks_keep(&holds->blocks, body, &hold->body)) {
        if (hold != NULL) {
            free_hold(holds, hold);
        }
        begin_held(holds, HR_HELD_FAULT, HR_CODE_RESOURCE_EXHAUSTED);
        (void)tell_lead(holds, holds->wire.key, now);
        return;
    }
    hold->priority = holds->wire.priority;
    hold->wait_until = now.steady + (hr_ns)holds->wire.left_us * HR_NS_PER_US / WAIT_PARTS;
    hold->move_until = now.steady + MOVING_NS_MAX;
    holds->clock = holds->clock > hold->priority ? holds->clock : hold->priority;
    try_hold(holds, hold, now);
}

/* --- settling --- */

/* The hold is over: what waited for it is tried again. */
static void close_hold(struct hr_holds *holds, struct hr_hold *hold, enum hr_settled_outcome outcome)
{
    hr_recent_add(&holds->settled, hold->key.lead, hold->key.serial, (uint8_t)outcome);
    if (hold->state == HR_HOLD_OPEN) {
        count_in_filter(holds, hold, -1);
        hr_taken_drop(&holds->taken, &hold->taken);
        holds->open_count--;
    }
    free_hold(holds, hold);
    for (uint32_t i = 0; i < holds->active_holds.count; i++) {
        struct hr_hold *other = &holds->holds[holds->active_holds.indices[i]];
        other->is_due |= other->state == HR_HOLD_WAITING;
        holds->has_due |= other->is_due;
    }
}

static void give_back(struct hr_holds *holds, uint32_t chain, struct hr_now now)
{
    for (uint32_t link = chain; link != 0; link = holds->taken.links[link].next) {
        hr_limiter_give_back(holds->config.limiter, &holds->taken.links[link].taken, now);
    }
}

static enum hr_settled_outcome word_of(struct hr_holds *holds, struct hr_hold_key key)
{
    uint8_t settled;
    if (find_hold(holds, key) != NULL) {
        return HR_SETTLED_OPEN;
    }
    bool is_known = hr_recent_find(&holds->settled, key.lead, key.serial, &settled) && settled < HR_SETTLED_REFUND;
    return is_known ? (enum hr_settled_outcome)settled : HR_SETTLED_UNKNOWN;
}

enum hr_settled_outcome hr_owner_settle(struct hr_holds *holds, struct hr_hold_key key, enum hr_settle_verb verb,
                                        struct hr_now now)
{
    struct hr_hold *hold = find_hold(holds, key);
    if (hr_defect(SETTLE_LOST)) {
        return HR_SETTLED_COMMITTED;
    }
    if (verb == HR_SETTLE_COMMIT && hold != NULL && hold->state == HR_HOLD_OPEN) {
        if (hr_defect(COMMIT_GIVES)) {
            give_back(holds, hold->taken, now);
        }
        close_hold(holds, hold, HR_SETTLED_COMMITTED);
        return HR_SETTLED_COMMITTED;
    }
    if (verb == HR_SETTLE_GIVE_BACK && hold != NULL) {
        give_back(holds, hold->taken, now);
        close_hold(holds, hold, HR_SETTLED_GIVEN_BACK);
        return HR_SETTLED_GIVEN_BACK;
    }
    enum hr_settled_outcome word = word_of(holds, key);
    if (verb == HR_SETTLE_GIVE_BACK && word == HR_SETTLED_UNKNOWN) {
        /* Its HOLD is late, or was answered without taking anything: one that is late must not take now. */
        hr_recent_add(&holds->settled, key.lead, key.serial, (uint8_t)HR_SETTLED_GIVEN_BACK);
        return HR_SETTLED_GIVEN_BACK;
    }
    return word;
}

static void receive_settle(struct hr_holds *holds, uint64_t from, struct hr_span body, struct hr_now now)
{
    struct hr_wire_settle settle;
    if (hr_wire_get_settle(body, &settle) != HR_OK) {
        return;
    }
    enum hr_settled_outcome outcome;
    if (settle.verb != HR_SETTLE_ASK) {
        if (from != settle.key.lead) {
            return; /* only the lead says what becomes of it */
        }
        outcome = hr_owner_settle(holds, settle.key, settle.verb, now);
    } else if (settle.key.lead == hr_holds_self(holds)) {
        outcome = hr_lead_word(holds, settle.key);
    } else {
        outcome = word_of(holds, settle.key);
    }
    post_settled(holds, from, settle.key, outcome);
}

/* --- a lead that is silent --- */

/* Bits of the owners whose word is wanted: all but this node and the lead, who may be gone. */
static uint32_t voters_of(const struct hr_holds *holds, const struct hr_wire_hold *wire)
{
    uint32_t voters = 0;
    for (uint32_t i = 0; i < wire->owner_count; i++) {
        bool is_voter = wire->owners[i] != hr_holds_self(holds) && wire->owners[i] != wire->key.lead;
        voters |= is_voter ? 1U << i : 0;
    }
    return voters;
}

static void resolve(struct hr_holds *holds, struct hr_hold *hold, enum hr_settled_outcome outcome, struct hr_now now)
{
    if (outcome == HR_SETTLED_GIVEN_BACK) {
        give_back(holds, hold->taken, now);
        holds->counts.given_back++;
    } else {
        holds->counts.kept++;
    }
    close_hold(holds, hold, outcome);
}

/* An owner's answer to being asked, or the lead's. */
static void note_word(struct hr_holds *holds, uint64_t from, const struct hr_wire_settled *settled, struct hr_now now)
{
    struct hr_hold *hold = find_hold(holds, settled->key);
    if (hold == NULL || hold->state != HR_HOLD_OPEN || !hold->has_asked ||
        hr_wire_get_hold(hr_blocks_bytes(&holds->blocks, hold->body), &holds->wire) != HR_OK) {
        return;
    }
    bool is_lead = from == hold->key.lead;
    if (settled->outcome == HR_SETTLED_COMMITTED || (is_lead && settled->outcome == HR_SETTLED_GIVEN_BACK)) {
        resolve(holds, hold, settled->outcome, now);
        return;
    }
    if (is_lead && settled->outcome == HR_SETTLED_OPEN) {
        hold->refused = 0; /* it lives, and will say */
        hold->keep_at = now.steady + HR_HOLD_KEPT_NS;
        return;
    }
    for (uint32_t i = 0; i < holds->wire.owner_count; i++) {
        hold->refused |= holds->wire.owners[i] == from ? 1U << i : 0;
    }
}

static void ask(struct hr_holds *holds, struct hr_hold *hold)
{
    uint32_t voters = voters_of(holds, &holds->wire);
    hr_holds_post_settle(holds, hold->key.lead, hold->key, HR_SETTLE_ASK);
    for (uint32_t i = 0; i < holds->wire.owner_count; i++) {
        if ((voters >> i & 1U) != 0) {
            hr_holds_post_settle(holds, holds->wire.owners[i], hold->key, HR_SETTLE_ASK);
        }
    }
    holds->counts.asked += !hold->has_asked;
    hold->has_asked = true;
}

static void tend_open(struct hr_holds *holds, struct hr_hold *hold, struct hr_now now)
{
    if (now.steady < hold->ask_at ||
        hr_wire_get_hold(hr_blocks_bytes(&holds->blocks, hold->body), &holds->wire) != HR_OK) {
        return;
    }
    uint32_t voters = voters_of(holds, &holds->wire);
    if (hold->has_asked && (hold->refused & voters) == voters) {
        resolve(holds, hold, HR_SETTLED_GIVEN_BACK, now);
    } else if (now.steady >= hold->keep_at) {
        resolve(holds, hold, HR_SETTLED_COMMITTED, now);
    } else {
        ask(holds, hold);
        hold->ask_at = now.steady + ASK_AGAIN_NS;
    }
}

/* --- events --- */

/* The oldest of those that are to be tried again. */
static struct hr_hold *next_due(struct hr_holds *holds)
{
    struct hr_hold *oldest = NULL;
    for (uint32_t i = 0; i < holds->active_holds.count; i++) {
        struct hr_hold *hold = &holds->holds[holds->active_holds.indices[i]];
        if (hold->is_due && (oldest == NULL || is_older(hold->priority, hold->key.lead, oldest))) {
            oldest = hold;
        }
    }
    return oldest;
}

static void try_due(struct hr_holds *holds, struct hr_now now)
{
    while (holds->has_due) {
        struct hr_hold *hold = next_due(holds);
        if (hold == NULL) {
            holds->has_due = false;
            return;
        }
        try_hold(holds, hold, now);
    }
}

void hr_holds_receive(struct hr_holds *holds, uint64_t from, enum hr_letter_kind kind, struct hr_span body,
                      struct hr_now now)
{
    struct hr_wire_settled settled;
    switch ((int)kind) {
    case HR_LETTER_HOLD:
        hr_owner_hold(holds, from, body, now);
        break;
    case HR_LETTER_HELD:
        if (hr_wire_get_held(body, &holds->held) == HR_OK) {
            hr_lead_held(holds, from, &holds->held, now);
        }
        break;
    case HR_LETTER_SETTLE:
        receive_settle(holds, from, body, now);
        break;
    case HR_LETTER_SETTLED:
        if (hr_wire_get_settled(body, &settled) != HR_OK) {
            return;
        }
        if (settled.key.lead == hr_holds_self(holds)) {
            hr_lead_settled(holds, from, &settled);
        } else {
            note_word(holds, from, &settled, now);
        }
        break;
    default:
        return;
    }
    try_due(holds, now);
}

void hr_holds_stir(struct hr_holds *holds, struct hr_now now)
{
    for (uint32_t i = 0; i < holds->active_holds.count; i++) {
        struct hr_hold *hold = &holds->holds[holds->active_holds.indices[i]];
        hold->is_due = hold->state == HR_HOLD_WAITING;
        holds->has_due |= hold->is_due;
    }
    try_due(holds, now);
}

void hr_holds_tick(struct hr_holds *holds, struct hr_now now)
{
    for (uint32_t i = holds->active_holds.count; i-- > 0;) { /* backwards: one that goes is replaced by one seen */
        struct hr_hold *hold = &holds->holds[holds->active_holds.indices[i]];
        if (hold->state == HR_HOLD_OPEN) {
            tend_open(holds, hold, now);
        }
    }
    hr_lead_tick(holds, now);
    hr_holds_stir(holds, now);
}

hr_ns hr_holds_deadline(const struct hr_holds *holds)
{
    hr_ns first = hr_lead_deadline(holds);
    for (uint32_t i = 0; i < holds->active_holds.count; i++) {
        const struct hr_hold *hold = &holds->holds[holds->active_holds.indices[i]];
        hr_ns at = hold->state == HR_HOLD_WAITING ? hold->again_at : hold->ask_at;
        first = at < first ? at : first;
    }
    return first;
}

struct hr_holds_counts hr_holds_counts(const struct hr_holds *holds)
{
    return holds->counts;
}

uint32_t hr_holds_open_count(const struct hr_holds *holds)
{
    return holds->open_count;
}
