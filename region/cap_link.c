#include "region/cap_link.h"

#include "region/cap_mutant.h"

/* A link of which more than such a part of the letters is missing loses much. */
#define LOSSY_PART 12U

#define HEARD_BITS 64U

struct hr_cap_times hr_cap_times_of(hr_ns tick, hr_ns lease)
{
    hr_ns gap = tick / 4, retry = 2 * tick, quiet = lease / 10;
    return (struct hr_cap_times){
        .tick = tick,
        .gap = gap < 25 * HR_NS_PER_MS ? gap : 25 * HR_NS_PER_MS,
        .lease = lease,
        .lease_void = lease + lease / 250 + HR_NS_PER_MS,
        .retry = retry > 300 * HR_NS_PER_MS ? retry : 300 * HR_NS_PER_MS,
        .grace = 400 * HR_NS_PER_MS,
        .quiet = quiet > tick ? quiet : tick,
    };
}

static void forget_peer(struct hr_cap_link *link)
{
    link->stamp = link->stamp_at = link->echoed = link->echoed_at = link->heard_at = HR_CAP_LONG_AGO;
    link->lease_until = HR_CAP_LONG_AGO;
    link->peer_session = 0;
    link->is_lapsed = false;
    link->in_number = link->out_number = 0;
    link->in_bits = link->out_bits = 0;
    link->peer_epoch = link->peer_low = 0;
    link->peer_is_settled = link->is_wanted_there = false;
}

void hr_cap_link_init(struct hr_cap_link *link, uint64_t incarnation)
{
    *link = (struct hr_cap_link){.incarnation = incarnation, .session = 1};
    forget_peer(link);
    link->zombie_until = link->sent_at = HR_CAP_LONG_AGO;
}

static void open_session(struct hr_cap_link *link)
{
    link->session++;
    link->lends = false;
    link->is_stuck = false;
}

void hr_cap_link_advance(struct hr_cap_link *link, const struct hr_cap_times *times, hr_ns now)
{
    if (link->peer_session != 0 && link->lease_until <= now) {
        if (!HR_IS_MUTANT(HR_MUTANT_REVIVE)) {
            link->is_lapsed = true;
        }
    }
    if (link->lends && now > link->echoed_at + times->lease_void) {
        open_session(link);
    }
}

void hr_cap_link_cut(struct hr_cap_link *link, const struct hr_cap_times *times)
{
    hr_ns until = link->echoed_at + times->lease_void;
    link->zombie_until = until > link->zombie_until ? until : link->zombie_until;
    open_session(link);
}

static void begin_life(struct hr_cap_link *link, const struct hr_cap_times *times, const struct hr_cap_header *header)
{
    hr_ns until = link->echoed_at + times->lease_void;
    link->zombie_until = header->is_sole ? HR_CAP_LONG_AGO : until > link->zombie_until ? until : link->zombie_until;
    if (link->peer != 0) {
        open_session(link);
    }
    forget_peer(link);
    link->peer = header->incarnation;
    link->lives++;
}

static void note_number(struct hr_cap_link *link, uint32_t number)
{
    if (number > link->in_number) {
        uint32_t ahead = number - link->in_number;
        link->in_bits = ahead > HEARD_BITS || link->in_number == 0 ? 0
                        : ahead == HEARD_BITS                      ? UINT64_C(1) << (HEARD_BITS - 1)
                                              : link->in_bits << ahead | UINT64_C(1) << (ahead - 1);
        link->in_number = number;
    } else if (number < link->in_number && link->in_number - number <= HEARD_BITS) {
        link->in_bits |= UINT64_C(1) << (link->in_number - number - 1);
    }
}

static void note_round(struct hr_cap_link *link, const struct hr_cap_times *times, hr_ns took)
{
    hr_ns faded = link->round - link->round / 8;
    if (took < times->lease) { /* else it was kept */
        link->round = took > faded ? took : faded;
    }
}

/* What has arrived there, as far as the newest word says; an older word says nothing new. */
static void note_arrived(struct hr_cap_link *link, const struct hr_cap_header *header)
{
    if (header->heard >= link->out_number && header->heard <= link->number) {
        link->out_bits = header->heard == link->out_number ? link->out_bits | header->heard_bits : header->heard_bits;
        link->out_number = header->heard;
    }
}

static void adopt_session(struct hr_cap_link *link, const struct hr_cap_header *header, hr_ns until, hr_ns now)
{
    if (header->session > link->peer_session) { /* what was held of the session before is gone */
        link->peer_session = header->session;
        link->lease_until = until > link->lease_until ? until : link->lease_until;
        link->is_lapsed = link->lease_until <= now;
    }
    if (header->session == link->peer_session && !link->is_lapsed && until > link->lease_until) {
        link->lease_until = until;
    }
    if (header->lapsed != 0 && header->lapsed == link->session) {
        open_session(link);
    }
}

enum hr_cap_heard hr_cap_link_receive(struct hr_cap_link *link, const struct hr_cap_times *times,
                                      const struct hr_cap_header *header, hr_ns now)
{
    if (header->known > link->incarnation) {
        return HR_CAP_HEARD_OUTLIVED;
    }
    if (header->incarnation < link->peer) {
        return HR_CAP_HEARD_OLD;
    }
    if (header->incarnation > link->peer) {
        begin_life(link, times, header);
    }
    if (header->stamp > link->stamp) {
        link->stamp = header->stamp;
        link->stamp_at = now;
        link->peer_is_settled = header->is_settled;
        link->is_wanted_there = header->is_wanted;
    }
    link->peer_epoch = header->epoch > link->peer_epoch ? header->epoch : link->peer_epoch;
    link->peer_low = header->low > link->peer_low ? header->low : link->peer_low;
    link->owes_word |= header->is_wanted && header->known != link->incarnation;
    if (header->known != link->incarnation || header->echo > now) { /* no clock of mine has shown a later time yet */
        return HR_CAP_HEARD_HEADER;
    }
    if (header->echo > link->heard_at) {
        note_round(link, times, now - header->echo);
        link->heard_at = header->echo;
    }
    note_arrived(link, header);
    adopt_session(link, header, (HR_IS_MUTANT(HR_MUTANT_STAMP) ? now : header->echo) + times->lease, now);
    if (now - header->echo >= times->lease) {
        return HR_CAP_HEARD_HEADER;
    }
    note_number(link, header->number); /* only now: what is not used has not arrived, and is to come again */
    return HR_CAP_HEARD_ALL;
}

struct hr_cap_header hr_cap_link_send(struct hr_cap_link *link, const struct hr_cap_times *times, hr_ns now)
{
    bool renews = hr_cap_link_is_up(link, times, now) && !link->is_stuck;
    if (!link->is_unseated && (renews || !link->lends)) {
        link->echoed = link->stamp;
        link->echoed_at = link->stamp_at;
    }
    link->sent_at = now;
    link->owes_word = false;
    bool lacks = link->lacks;
    link->lacks = false;
    return (struct hr_cap_header){
        .incarnation = link->incarnation,
        .known = link->peer,
        .stamp = now,
        .echo = link->echoed,
        .number = ++link->number,
        .heard = link->in_number,
        .heard_bits = link->in_bits,
        .session = link->session,
        .lapsed = link->is_lapsed ? link->peer_session : 0,
        .lacks = lacks,
    };
}

bool hr_cap_link_has_arrived(const struct hr_cap_link *link, uint32_t number)
{
    uint32_t behind = link->out_number - number;
    return number <= link->out_number &&
           (behind == 0 || (behind <= HEARD_BITS && (link->out_bits >> (behind - 1) & 1) != 0));
}

hr_ns hr_cap_link_retry(const struct hr_cap_link *link, const struct hr_cap_times *times)
{
    hr_ns round = link->round + link->round / 4;
    return round > times->retry ? round : times->retry;
}

bool hr_cap_link_is_lossy(const struct hr_cap_link *link)
{
    uint32_t missing = link->out_number > HEARD_BITS ? HEARD_BITS : link->out_number - (link->out_number > 0);
    for (uint64_t bits = link->out_bits; bits != 0 && missing > 0; bits &= bits - 1) {
        missing--;
    }
    return missing * LOSSY_PART > HEARD_BITS;
}
