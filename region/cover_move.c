#include <string.h>

#include "base/u128.h"
#include "region/cap_mutant.h"
#include "region/cover_state.h"

/* A transfer should cover the receiver's demand for so long; and demand is averaged over at least so long. Both are
 * less in short windows. */
#define HORIZON_NS (20 * HR_NS_PER_S)
#define AVERAGE_NS (2 * HR_NS_PER_S)
#define LOOK_NS (50 * HR_NS_PER_MS)

/* Demands count units x 1024; the least that is a demand at all is half a unit in the horizon. */
#define DEMAND_UNIT INT64_C(1024)
#define DEMAND_MAX (INT64_C(1) << 54)

static hr_ns horizon_ns(const struct hr_cover *cover)
{
    hr_ns length = cover->when.length_ns;
    return length > 0 ? hr_max(HR_NS_PER_MS, hr_min(HORIZON_NS, length / 8)) : HORIZON_NS;
}

static hr_ns average_ns(const struct hr_cover *cover)
{
    hr_ns length = cover->when.length_ns;
    if (length <= 0) {
        return AVERAGE_NS;
    }
    return hr_max(hr_max(HR_NS_PER_MS, hr_min(AVERAGE_NS, length / 8)), hr_mul_div(4, length, cover->rule->total));
}

/* How often units are evened out without a cause. */
static hr_ns period_ns(const struct hr_cover *cover, const struct hr_cap_times *times)
{
    return hr_max(times->tick, hr_min(HR_NS_PER_S, horizon_ns(cover) / 2));
}

static void look_at_demand(struct hr_cover *cover, hr_ns now)
{
    struct hr_escrow *escrow = cover->escrow;
    hr_ns dt = now - cover->demand_at, average = average_ns(cover);
    if (dt < LOOK_NS) {
        return;
    }
    uint64_t asked = escrow->asked < (UINT64_C(1) << 53) ? escrow->asked * (uint64_t)DEMAND_UNIT : UINT64_C(1) << 63;
    struct hr_u128 sum = hr_u128_mul((uint64_t)cover->demand, (uint64_t)average);
    sum = hr_u128_add(sum, hr_u128_mul(asked, (uint64_t)horizon_ns(cover)));
    cover->demand = (int64_t)hr_u128_saturate(hr_u128_div(sum, (uint64_t)(average + dt)), (uint64_t)DEMAND_MAX);
    cover->demand_at = now;
    escrow->asked = 0;
}

/* What every region has over or lacks, as one region sees it. */
struct balance {
    int64_t over[HR_REGIONS_MAX], lacks[HR_REGIONS_MAX];
    int64_t all_over, all_lacks;
};

static int64_t spare_of(const struct hr_cover *cover, const struct hr_cover_window *window, uint32_t k)
{
    const struct hr_cover_row *row = &window->rows[k];
    return k == cover->self ? hr_cover_spare(cover, window) : row->spare + row->out - row->received;
}

static bool is_in_reach(const struct hr_cover *cover, const struct hr_cover_window *window, uint32_t k,
                        const struct hr_cover_context *context)
{
    const struct hr_cap_link *link = context->links[k];
    return k == cover->self ||
           (link != NULL && window->rows[k].demand >= 0 && hr_cap_link_is_up(link, context->times, context->now));
}

static void weigh_one(int64_t spare, int64_t demand, int64_t pool, int64_t all_demand, int64_t *ret_over,
                      int64_t *ret_lacks)
{
    int64_t target = all_demand > 0 ? hr_mul_div(pool, demand, all_demand) : 0;
    int64_t target_up = all_demand > 0 ? target + 1 : 0;
    bool is_demand = demand >= DEMAND_UNIT / 2;
    int64_t want = is_demand ? hr_min(target_up, demand / DEMAND_UNIT + 1) : 0;
    *ret_lacks = demand > 0 && spare < (want + 1) / 2 ? want - spare : 0;
    *ret_lacks = spare < 0 ? hr_max(*ret_lacks, -spare) : *ret_lacks; /* a debt after a config cut */
    *ret_over = *ret_lacks == 0 ? hr_max(0, spare - hr_max(target, is_demand)) : 0;
}

static void weigh(const struct hr_cover *cover, const struct hr_cover_window *window,
                  const struct hr_cover_context *context, struct balance *ret_balance)
{
    int64_t spares[HR_REGIONS_MAX] = {0}, demands[HR_REGIONS_MAX] = {0}, pool = 0, all_demand = 0;
    memset(ret_balance, 0, sizeof *ret_balance);
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        if (is_in_reach(cover, window, k, context)) {
            spares[k] = spare_of(cover, window, k);
            demands[k] = k == cover->self ? cover->demand : window->rows[k].demand;
        }
        pool += hr_max(0, spares[k]);
        all_demand += demands[k];
    }
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        weigh_one(spares[k], demands[k], pool, all_demand, &ret_balance->over[k], &ret_balance->lacks[k]);
        ret_balance->all_over += ret_balance->over[k];
        ret_balance->all_lacks += ret_balance->lacks[k];
    }
}

/* Who gives the odd unit: the region with most over. */
static uint32_t richest(const struct hr_cover *cover, const struct balance *balance)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < cover->rule->count; k++) {
        best = balance->over[k] > balance->over[best] ? k : best;
    }
    return best;
}

static int64_t gift(const struct hr_cover *cover, struct hr_cover_row *row, const struct balance *balance, uint32_t k,
                    const struct hr_cover_context *context)
{
    int64_t lacks = balance->lacks[k];
    int64_t units = hr_mul_div(balance->over[cover->self], lacks, hr_max(balance->all_over, balance->all_lacks));
    row->short_since = row->short_since == HR_CAP_LONG_AGO ? context->now : row->short_since;
    bool nobody_gave = context->now - row->short_since > 3 * period_ns(cover, context->times);
    if (units < lacks && (cover->self == richest(cover, balance) || nobody_gave)) {
        units = hr_max(units, 1);
    }
    return hr_min(units, lacks);
}

static void even_out(struct hr_cover *cover, struct hr_cover_window *window, const struct hr_cover_context *context)
{
    struct balance balance;
    weigh(cover, window, context, &balance);
    int64_t left = balance.over[cover->self];
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        struct hr_cover_row *row = &window->rows[k];
        if (balance.lacks[k] <= 0) {
            row->short_since = HR_CAP_LONG_AGO;
        }
        bool is_pending = row->out != row->received; /* one gift to each at a time */
        if (k == cover->self || balance.lacks[k] <= 0 || is_pending || left <= 0) {
            continue;
        }
        int64_t units = hr_min(gift(cover, row, &balance, k, context), left);
        if (units > 0) {
            row->out += units;
            row->short_since = HR_CAP_LONG_AGO;
            left -= units;
            window->is_dirty = true;
        }
        if (!cover->rule->has_log || HR_IS_MUTANT(HR_MUTANT_TELL_FIRST)) {
            row->out_durable = row->out;
        }
    }
}

/* Is the next window to be evened out already? */
static bool is_prepared(const struct hr_cover *cover)
{
    const struct hr_cover_when *when = &cover->when;
    return cover->rule->has_windows && when->length_ns > 0 && when->length_ns <= HR_COVER_PREPARED_NS &&
           when->age_ns > when->length_ns / 2;
}

/* Asks aloud after a denial, or when what is left will not last until help could come; ever more rarely while none
 * comes. */
static void consider_asking(struct hr_cover *cover, const struct hr_cover_context *context)
{
    struct hr_escrow *escrow = cover->escrow;
    cover->is_asking = false;
    if (!escrow->wants_notice || context->now < cover->ask_again_at) {
        return;
    }
    if (!escrow->was_denied && hr_escrow_remaining(escrow) >= escrow->low) { /* a window has begun, no more */
        escrow->wants_notice = false;
        return;
    }
    hr_ns period = period_ns(cover, context->times);
    cover->is_asking = true;
    cover->back_off = hr_min(hr_max(2 * cover->back_off, context->times->tick), 16 * period);
    cover->ask_again_at = context->now + cover->back_off;
    if (escrow->was_denied) { /* even a key that is too slow to have a demand has one now */
        cover->demand = hr_max(cover->demand, DEMAND_UNIT);
    }
    escrow->wants_notice = escrow->was_denied = false;
}

void hr_cover_move(struct hr_cover *cover, const struct hr_cover_context *context)
{
    look_at_demand(cover, context->now);
    consider_asking(cover, context);
    struct hr_cover_window *window = hr_cover_window(cover, cover->when.label);
    if (window != NULL) {
        even_out(cover, window, context);
    }
    struct hr_cover_window *next = is_prepared(cover) ? hr_cover_window(cover, cover->when.label + 1) : NULL;
    if (next != NULL) {
        even_out(cover, next, context);
    }
    hr_ns help_ns = 2 * context->times->tick + context->times->retry;
    cover->escrow->low = (uint64_t)(hr_mul_div(cover->demand, help_ns, horizon_ns(cover)) / DEMAND_UNIT);
    cover->moved_at = context->now;
    hr_cover_expose(cover);
}

static void fill(const struct hr_cover *cover, const struct hr_cover_window *window, uint32_t to,
                 struct hr_cover_record *record)
{
    const struct hr_cover_row *row = &window->rows[to];
    bool is_over = window->label < cover->when.label;
    bool is_low = hr_cover_rights(cover, window) >= hr_cover_keep(cover, window);
    *record = (struct hr_cover_record){
        .label = window->label,
        .life = window->life,
        .known_life = row->life,
        .spare = is_over ? 0 : hr_cover_spare(cover, window),
        .demand = is_over ? 0 : cover->demand,
        .out = row->out_durable,
        .received = row->in,
        .epoch = cover->epoch,
        .low = is_low ? cover->epoch : cover->epoch - (cover->epoch > 0),
        .is_down = hr_cover_is_low(cover),
        .asks = row->life == 0,
    };
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Rows are told at once; reports when they have changed by a quarter, or every unit where there are few. */
static bool has_changed(const struct hr_cover *cover, const struct hr_cover_record *now,
                        const struct hr_cover_record *told)
{
    bool rows = now->out != told->out || now->received != told->received || now->low != told->low ||
                now->epoch != told->epoch || now->known_life != told->known_life;
    int64_t slack = hr_mul_div(cover->rule->total, DEMAND_UNIT, 8 * (int64_t)cover->rule->count * 100);
    bool demand = distance(now->demand, told->demand) * 4 > told->demand + slack;
    int64_t spare_told = told->spare < 0 ? -told->spare : told->spare;
    bool spare = distance(now->spare, told->spare) * 4 > spare_told || (now->spare < 16 && now->spare != told->spare);
    return rows || demand || spare;
}

static bool is_in_use(const struct hr_cover_window *window, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        const struct hr_cover_row *row = &window->rows[k];
        if (row->in != 0 || row->out != 0 || row->in_base != 0 || row->out_base != 0) {
            return true;
        }
    }
    return false;
}

/* A demand that the home would not last for, somewhere, or units that have moved. */
bool hr_cover_is_hot(const struct hr_cover *cover, const struct hr_cover_context *context)
{
    for (uint32_t i = 0; i < HR_COVER_WINDOWS; i++) {
        const struct hr_cover_window *window = &cover->windows[i];
        if (window->label == HR_COVER_NO_LABEL) {
            continue;
        }
        if (window->lost > 0 || window->is_writing || is_in_use(window, cover->rule->count)) {
            return true;
        }
        for (uint32_t k = 0; k < cover->rule->count; k++) {
            int64_t demand = k == cover->self ? cover->demand : window->rows[k].demand;
            int64_t spare = spare_of(cover, window, k);
            if (is_in_reach(cover, window, k, context) && demand > DEMAND_UNIT / 2 &&
                spare / 4 <= demand / DEMAND_UNIT) {
                return true;
            }
        }
    }
    return cover->epoch != cover->epoch_settled;
}

/* Is the window worth a first word? Where nobody asks for anything each has its home, and windows come and go in
 * silence. */
static bool is_of_interest(const struct hr_cover *cover, const struct hr_cover_window *window)
{
    bool is_asked = cover->demand >= DEMAND_UNIT / 2 || cover->is_asking;
    for (uint32_t i = 0; i < HR_COVER_WINDOWS && !is_asked; i++) {
        for (uint32_t k = 0; k < cover->rule->count; k++) {
            bool is_open = cover->windows[i].label != HR_COVER_NO_LABEL;
            is_asked |= is_open && cover->windows[i].rows[k].demand >= DEMAND_UNIT / 2;
        }
    }
    return is_asked || window->lost > 0 || cover->epoch != cover->epoch_settled ||
           is_in_use(window, cover->rule->count);
}

bool hr_cover_tell(struct hr_cover *cover, uint32_t place, uint32_t to, uint32_t letter,
                   const struct hr_cover_context *context, struct hr_cover_record *ret_record)
{
    struct hr_cover_window *window = &cover->windows[place];
    if (window->label == HR_COVER_NO_LABEL) {
        return false;
    }
    struct hr_cover_row *row = &window->rows[to];
    struct hr_cover_record record;
    fill(cover, window, to, &record);
    bool is_next = window->label > cover->when.label;
    if (is_next && !is_prepared(cover) && !is_in_use(window, cover->rule->count)) {
        return false;
    }
    hr_ns since = context->now - row->told_at;
    row->has_arrived |= row->letter != 0 && hr_cap_link_has_arrived(context->links[to], row->letter);
    bool is_new = row->letter == 0 ? is_of_interest(cover, window) : has_changed(cover, &record, &row->told);
    bool is_lost =
        row->letter != 0 && !row->has_arrived && since > hr_cap_link_retry(context->links[to], context->times);
    bool is_old = record.demand > 0 && since > 30 * period_ns(cover, context->times);
    bool asks = cover->is_asking && window->label == cover->when.label;
    bool is_due = is_new && (since >= period_ns(cover, context->times) / 2 || record.out != row->told.out ||
                             record.received != row->told.received || record.low != row->told.low);
    if (!is_due && !is_lost && !is_old && !asks && !row->is_owed) {
        return false;
    }
    row->told = record;
    row->letter = letter;
    row->has_arrived = false;
    row->told_at = context->now;
    row->is_owed = false;
    *ret_record = record;
    return true;
}
