#include <string.h>

#include "region/caps_state.h"
#include "region/partition.h"

/* Nothing has come or gone for so long: then a counter may be let go. A record that comes later than half of this after
 * the one before introduces its counter again, so nobody is ever told of a counter that it has let go. */
#define KEEP_NS (20 * HR_NS_PER_S)

/* After a counter was hot its links are kept warm for so long: the next burst is not to wait for them. */
#define WARM_NS (30 * HR_NS_PER_S)

static bool is_hot(const struct hr_caps *caps, const struct hr_caps_counter *counter, const struct hr_caps_at *at)
{
    (void)caps;
    return counter->is_cover ? hr_cover_is_hot(&counter->cover, &at->cover) : hr_lend_is_hot(&counter->lend, &at->lend);
}

/* Is this partner's node the one that has the counter in its region? */
static bool concerns(const struct hr_caps *caps, const struct hr_caps_partner *partner,
                     const struct hr_caps_counter *counter)
{
    return hr_caps_partner_of(caps, partner->region, hr_partition_of(counter->id)) == partner;
}

/* ---- letters out ---- */

/* What the counters say about the links: who is wanted, who was lent something. */
static void mark_partners(struct hr_caps *caps, hr_ns now)
{
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        struct hr_caps_partner *partner = &caps->partners[i];
        partner->is_wanted = !caps->is_adopted;
        partner->is_lending = partner->is_stuck = false;
    }
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        struct hr_caps_at at;
        hr_caps_at(caps, counter, now, &at);
        counter->hot_at = is_hot(caps, counter, &at) ? now : counter->hot_at;
        bool is_warm = now - counter->hot_at < WARM_NS;
        for (uint32_t k = 0; k < caps->config.region_count; k++) {
            struct hr_caps_partner *partner = hr_caps_partner_of(caps, k, hr_partition_of(counter->id));
            if (partner == NULL) {
                continue;
            }
            partner->is_wanted |= is_warm;
            if (!counter->is_cover) {
                partner->is_lending |= hr_lend_has_loan(&counter->lend, k);
                partner->is_stuck |= hr_lend_is_stuck(&counter->lend, k, &at.lend);
            }
        }
    }
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        struct hr_caps_partner *partner = &caps->partners[i];
        partner->link.lends = partner->is_lending;
        partner->link.is_stuck = partner->is_stuck;
        partner->link.is_unseated = !caps->is_seated;
    }
}

/* Does the partner know what the counter is? Only where an introduction is known to have arrived, and not long ago. */
static bool is_introduced(struct hr_caps_introduction *last, const struct hr_cap_link *link, hr_ns now)
{
    if (last->lives != link->lives || now - last->at > KEEP_NS / 2) {
        return false;
    }
    last->has_arrived |= hr_cap_link_has_arrived(link, last->letter);
    return last->has_arrived;
}

/* Notes an introduction in the letter that is being written. One of which word may still come stays noted instead. */
static void note_introduction(struct hr_caps_introduction *last, const struct hr_cap_link *link,
                              const struct hr_cap_times *times, hr_ns now)
{
    if (last->lives != link->lives || now - last->at > hr_cap_link_retry(link, times)) {
        *last = (struct hr_caps_introduction){.at = now, .letter = link->number + 1, .lives = link->lives};
    }
}

static void write_one(struct hr_caps *caps, struct hr_cap_writer *writer, struct hr_caps_counter *counter,
                      const struct hr_caps_partner *to, struct hr_cap_record *record)
{
    hr_ns now = caps->sent_at;
    size_t before = writer->bytes.used;
    struct hr_caps_introduction *introduction = &counter->introductions[to->region];
    record->id = counter->id;
    record->limit = caps->limits[counter->limit].banks[caps->bank].number;
    record->is_cover = counter->is_cover;
    record->introduces = !is_introduced(introduction, &to->link, now);
    if (record->introduces) {
        note_introduction(introduction, &to->link, &caps->times, now);
    }
    hr_cap_write_record(writer, record);
    counter->seen_at = now;
    caps->counts.records_out++;
    caps->counts.record_bytes_out += writer->bytes.used - before;
}

static void tell_lend(struct hr_caps *caps, struct hr_cap_writer *writer, struct hr_caps_counter *counter,
                      const struct hr_caps_at *at, const struct hr_caps_partner *partner)
{
    struct hr_cap_record record = {0};
    uint32_t letter = partner->link.number + 1;
    if (hr_lend_tell(&counter->lend, partner->region, letter, &at->lend, &record.lend)) {
        write_one(caps, writer, counter, partner, &record);
    }
}

static void tell_cover(struct hr_caps *caps, struct hr_cap_writer *writer, struct hr_caps_counter *counter,
                       const struct hr_caps_at *at, const struct hr_caps_partner *partner)
{
    uint32_t letter = partner->link.number + 1;
    for (uint32_t w = 0; w < HR_COVER_WINDOWS; w++) {
        struct hr_cap_record record = {0};
        if (hr_cover_tell(&counter->cover, w, partner->region, letter, &at->cover, &record.cover)) {
            write_one(caps, writer, counter, partner, &record);
        }
    }
}

static void tell_all(struct hr_caps *caps, struct hr_cap_writer *writer, const struct hr_caps_partner *partner,
                     bool is_regular)
{
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        struct hr_caps_at at;
        bool has_turn = (is_regular || counter->is_due) && concerns(caps, partner, counter);
        if (!has_turn || writer->count + HR_COVER_WINDOWS > HR_CAP_RECORDS_MAX) {
            continue; /* what finds no room is told by the next letter */
        }
        hr_caps_at(caps, counter, caps->sent_at, &at);
        if (counter->is_cover) {
            tell_cover(caps, writer, counter, &at, partner);
        } else {
            tell_lend(caps, writer, counter, &at, partner);
        }
    }
}

/* Does the link want a word though there is no record? Whoever told something is to know that it has come, or would
 * tell it for ever; links that are wanted are kept warm; one that is not up knocks. */
static bool wants_header(const struct hr_caps *caps, const struct hr_caps_partner *partner, hr_ns now)
{
    const struct hr_cap_link *link = &partner->link;
    bool is_heard = link->is_wanted_there && now - link->stamp_at < caps->times.lease;
    if (!partner->is_wanted && !is_heard) {
        return link->owes_word;
    }
    bool is_up = hr_cap_link_is_up(link, &caps->times, now);
    return link->owes_word || now - link->sent_at >= (is_up ? caps->times.quiet : caps->times.tick);
}

static bool is_low(const struct hr_caps *caps)
{
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        const struct hr_caps_counter *counter = &caps->counters[i];
        if (counter->is_cover ? !hr_cover_is_low(&counter->cover) : !hr_lend_is_low(&counter->lend)) {
            return false;
        }
    }
    return true;
}

static void fill_header(const struct hr_caps *caps, const struct hr_caps_partner *partner, struct hr_cap_header *header,
                        hr_ns now)
{
    header->epoch = caps->epoch;
    header->low = is_low(caps) ? caps->epoch : caps->epoch - (caps->epoch > 0);
    header->is_sole = caps->config.is_sole;
    header->is_settled = caps->config.is_sole || now - caps->started_at > caps->times.lease_void;
    header->is_wanted = partner->is_wanted;
}

static void write_letter(struct hr_caps *caps, struct hr_caps_partner *partner, bool is_regular,
                         struct hr_outbox *outbox)
{
    struct hr_cap_writer writer;
    struct hr_cap_header blank = {0};
    hr_ns now = caps->sent_at;
    hr_cap_write_header(&writer, caps->letter, &blank); /* its place: what it says is known when the records are */
    if (caps->is_seated) {
        tell_all(caps, &writer, partner, is_regular);
    }
    if (writer.count == 0 && !(is_regular && wants_header(caps, partner, now))) {
        return;
    }
    struct hr_cap_header header = hr_cap_link_send(&partner->link, &caps->times, now);
    fill_header(caps, partner, &header, now);
    struct hr_cap_writer first;
    hr_cap_write_header(&first, caps->letter, &header);
    struct hr_letter letter = {
        .to = partner->member,
        .lane = HR_LANE_GOSSIP,
        .kind = HR_LETTER_CAPS,
        .body = hr_cap_write_end(&writer),
    };
    caps->counts.letters_out++;
    caps->counts.bytes_out += letter.body.bytes;
    (void)hr_outbox_put(outbox, &letter); /* one that finds no room is lost, as any may be */
}

/* ---- work ---- */

/* Has the region a part in any limit, in this epoch or the one before? */
static bool is_member(const struct hr_caps *caps, uint32_t region)
{
    for (uint32_t i = 0; i < caps->limit_count; i++) {
        for (uint32_t bank = 0; bank < 2; bank++) {
            const struct hr_cap_limit *limit = &caps->limits[i].banks[bank];
            const int64_t *weights = limit->is_cover ? limit->cover.weights : limit->lend.weights;
            if (caps->limits[i].is_in[bank] && weights[region] > 0) {
                return true;
            }
        }
    }
    return false;
}

/* Have all nodes of the region come down? Of a member of which no node is known nobody can say so. */
static bool is_region_low(const struct hr_caps *caps, uint32_t region)
{
    bool is_known = false;
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        const struct hr_caps_partner *partner = &caps->partners[i];
        if (partner->region == region && partner->link.peer_low < caps->epoch) {
            return false;
        }
        is_known |= partner->region == region;
    }
    return is_known || !is_member(caps, region);
}

/* Is everybody at this epoch, here and in every region? A node that has just begun does not know them all yet. */
static void consider_adoption(struct hr_caps *caps, hr_ns now)
{
    if (caps->is_adopted || !is_low(caps) || now - caps->started_at < caps->times.lease_void) {
        return;
    }
    for (uint32_t k = 0; k < caps->config.region_count; k++) {
        bool is_stopped = (caps->stopped >> k & 1) != 0;
        if (k != caps->config.self && !is_stopped && !is_region_low(caps, k)) {
            return;
        }
    }
    caps->is_adopted = true;
    caps->generation++;
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        if (!counter->is_cover) {
            counter->lend.epoch_done = counter->lend.epoch;
            counter->lend.share->generation = caps->generation;
        }
    }
}

static void move(struct hr_caps *caps, struct hr_caps_counter *counter, hr_ns now)
{
    struct hr_caps_at at;
    hr_caps_at(caps, counter, now, &at);
    if (counter->is_cover) {
        hr_cover_move(&counter->cover, &at.cover);
    } else {
        hr_lend_move(&counter->lend, &at.lend);
    }
}

static void let_cold_go(struct hr_caps *caps, hr_ns now)
{
    for (uint32_t i = caps->counter_count; i > 0; i--) {
        struct hr_caps_counter *counter = &caps->counters[i - 1];
        struct hr_caps_at at;
        hr_caps_at(caps, counter, now, &at);
        if (now - counter->seen_at > KEEP_NS + 2 * caps->times.lease_void && !is_hot(caps, counter, &at)) {
            hr_caps_let_go(caps, counter);
        }
    }
}

/* Ticks are spread by a twentieth, so that regions do not march in step. */
static hr_ns next_tick(struct hr_caps *caps, hr_ns now)
{
    hr_ns tick = caps->times.tick;
    return now + tick - tick / 20 + (hr_ns)hr_rng_below(&caps->rng, (uint64_t)(tick / 10 + 1));
}

hr_ns hr_caps_deadline(const struct hr_caps *caps)
{
    return hr_min(caps->tick_at, caps->push_at);
}

void hr_caps_tick(struct hr_caps *caps, hr_ns now, struct hr_outbox *outbox)
{
    bool is_regular = now >= caps->tick_at;
    if (!is_regular && now < caps->push_at) {
        return;
    }
    hr_caps_advance_links(caps, now);
    consider_adoption(caps, now);
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        hr_caps_advance(caps, counter, now);
        if (is_regular || counter->is_due) {
            move(caps, counter, now);
        }
    }
    caps->sent_at = now;
    mark_partners(caps, now);
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        write_letter(caps, &caps->partners[i], is_regular, outbox);
    }
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        caps->counters[i].is_due = false;
    }
    caps->push_at = INT64_MAX;
    if (is_regular) {
        let_cold_go(caps, now);
        caps->tick_at = next_tick(caps, now);
    }
}

/* ---- letters in ---- */

/* Somebody knows a later life of this node: its clock was ahead then. All loans begin again under a later one still.
 * What was counted stays: rows go by the life of the log, or by the incarnation in which they began. */
static void begin_again(struct hr_caps *caps, uint64_t known, hr_ns now)
{
    caps->incarnation = known + 1;
    caps->started_at = now;
    for (uint32_t i = caps->counter_count; i > 0; i--) {
        if (!caps->counters[i - 1].is_cover) {
            hr_caps_let_go(caps, &caps->counters[i - 1]);
        }
    }
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        uint32_t lives = caps->partners[i].link.lives;
        hr_cap_link_init(&caps->partners[i].link, caps->incarnation);
        caps->partners[i].link.lives = lives + 1; /* so that counters tell all anew */
    }
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_caps_tenure *tenure = &caps->tenures[p];
        if (tenure->since != HR_CAP_LONG_AGO) {
            tenure->since = now;
            tenure->is_new = false;
        }
    }
    caps->generation++;
}

/* Is the record one for this node, from the one that has the counter in its region? */
static bool is_between(const struct hr_caps *caps, const struct hr_caps_partner *from,
                       const struct hr_cap_record *record)
{
    uint32_t partition = hr_partition_of(record->id);
    return caps->tenures[partition].since != HR_CAP_LONG_AGO &&
           hr_caps_partner_of(caps, from->region, partition) == from;
}

/* Would it be taken in, if it introduced its counter? */
static bool has_room_for(const struct hr_caps *caps, const struct hr_caps_partner *from,
                         const struct hr_cap_record *record)
{
    return is_between(caps, from, record) && caps->counter_count < caps->config.counters_max;
}

/* The counter that a record is about, made if it is introduced. NULL: it is not for this node, or not known. */
static struct hr_caps_counter *counter_of(struct hr_caps *caps, const struct hr_caps_partner *from,
                                          const struct hr_cap_record *record, hr_ns now)
{
    if (!is_between(caps, from, record)) {
        return NULL;
    }
    struct hr_caps_counter *counter = hr_caps_find(caps, record->id.hi);
    if (counter == NULL && record->introduces) {
        struct hr_caps_limit *limit = hr_caps_find_limit(caps, record->limit);
        bool is_kind = limit != NULL && limit->banks[caps->bank].is_cover == record->is_cover;
        counter = is_kind ? hr_caps_attach(caps, record->id, limit, now) : NULL;
    }
    return counter != NULL && counter->is_cover == record->is_cover ? counter : NULL;
}

static void take_record(struct hr_caps *caps, struct hr_caps_partner *from, const struct hr_cap_record *record,
                        const struct hr_cap_header *header, hr_ns now)
{
    struct hr_caps_counter *counter = counter_of(caps, from, record, now);
    struct hr_caps_at at;
    if (counter == NULL) {
        from->link.lacks |= !record->introduces && has_room_for(caps, from, record);
        return;
    }
    counter->seen_at = now;
    hr_caps_advance(caps, counter, now);
    hr_caps_at(caps, counter, now, &at);
    bool is_news =
        counter->is_cover
            ? hr_cover_receive(&counter->cover, from->region, &record->cover, header->number, &at.cover)
            : hr_lend_receive(&counter->lend, from->region, &record->lend, header->number, header->session, &at.lend);
    caps->counts.records_in++;
    if (is_news) {
        hr_caps_make_due(caps, counter, now);
    }
}

static struct hr_caps_partner *sender_of(struct hr_caps *caps, uint64_t member)
{
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        if (caps->partners[i].member == member) {
            return &caps->partners[i];
        }
    }
    return NULL;
}

/* All is told again, for the partner may have read of it without knowing what it was about. */
static void introduce_again(struct hr_caps_counter *counter, uint32_t to)
{
    counter->introductions[to].at = HR_CAP_LONG_AGO;
    for (uint32_t w = 0; w < HR_COVER_WINDOWS && counter->is_cover; w++) {
        struct hr_cover_row *row = &counter->cover.windows[w].rows[to];
        row->is_owed |= row->letter != 0;
    }
    if (!counter->is_cover) {
        hr_lend_tell_again(&counter->lend, to);
    }
}

/* What has become of the link is followed by all counters on it. */
static void follow(struct hr_caps *caps, const struct hr_caps_partner *partner, const struct hr_cap_header *header,
                   hr_ns now)
{
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        if (!concerns(caps, partner, counter)) {
            continue;
        }
        hr_caps_advance(caps, counter, now);
        if (header->lacks) {
            introduce_again(counter, partner->region);
        }
    }
}

enum hr_err hr_caps_receive(struct hr_caps *caps, uint64_t from, struct hr_span body, hr_ns now)
{
    struct hr_caps_partner *partner = sender_of(caps, from);
    struct hr_cap_reader reader;
    struct hr_cap_header header;
    struct hr_cap_record record;
    enum hr_err err = partner == NULL ? HR_E_NOT_FOUND : hr_cap_read_header(body, &reader, &header);
    if (err != HR_OK) {
        caps->counts.letters_refused++;
        return err;
    }
    caps->counts.letters_in++;
    hr_caps_advance_links(caps, now);
    enum hr_cap_heard heard = hr_cap_link_receive(&partner->link, &caps->times, &header, now);
    if (heard == HR_CAP_HEARD_OUTLIVED) {
        begin_again(caps, header.known, now);
    }
    follow(caps, partner, &header, now);
    caps->counts.letters_old += heard != HR_CAP_HEARD_ALL;
    if (heard == HR_CAP_HEARD_HEADER && hr_cap_read_record(&reader, &record)) {
        partner->link.owes_word = true; /* with a fresh stamp the record can come again, and be used */
    }
    while (heard == HR_CAP_HEARD_ALL && hr_cap_read_record(&reader, &record)) {
        partner->link.owes_word = true;
        take_record(caps, partner, &record, &header, now);
    }
    return HR_OK;
}

/* ---- the log ---- */

bool hr_caps_next_write(struct hr_caps *caps, struct hr_caps_write *ret_write)
{
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        for (uint32_t w = 0; w < HR_COVER_WINDOWS && counter->is_cover; w++) {
            if (hr_cover_next_write(&counter->cover, w, &ret_write->image)) {
                ret_write->id = counter->id;
                ret_write->limit = caps->limits[counter->limit].banks[caps->bank].number;
                ret_write->window = w;
                return true;
            }
        }
    }
    return false;
}

void hr_caps_written(struct hr_caps *caps, const struct hr_caps_write *write, bool is_durable, hr_ns now)
{
    struct hr_caps_counter *counter = hr_caps_find(caps, write->id.hi);
    struct hr_caps_at at;
    if (counter == NULL || !counter->is_cover) {
        return;
    }
    hr_caps_at(caps, counter, now, &at);
    hr_cover_written(&counter->cover, write->window, write->image.label, is_durable, &at.cover);
    hr_caps_make_due(caps, counter, now);
}

enum hr_err hr_caps_restore(struct hr_caps *caps, const struct hr_caps_write *write, hr_ns now)
{
    struct hr_caps_limit *limit = hr_caps_find_limit(caps, write->limit);
    struct hr_caps_counter *counter = hr_caps_find(caps, write->id.hi);
    struct hr_caps_at at;
    if (limit == NULL || !limit->banks[caps->bank].is_cover) {
        return HR_E_NOT_FOUND;
    }
    if (counter == NULL) {
        counter = hr_caps_attach(caps, write->id, limit, now);
    }
    if (counter == NULL) {
        return HR_E_FULL;
    }
    hr_caps_at(caps, counter, now, &at);
    hr_cover_restore(&counter->cover, &write->image, &at.cover);
    return HR_OK;
}
