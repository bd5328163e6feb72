#include "region/cover.h"

#include <string.h>

#include "base/u128.h"
#include "region/cap_mutant.h"
#include "region/cover_state.h"

/* What one write to the log covers beyond what is spent: a thousandth of all, the demand of a two-hundredth of the
 * horizon (a tenth of a second, mostly), and what was asked for since demand was last looked at, up to a fiftieth of
 * all: a demand that begins is not known yet. A unit at least. */
#define CHUNKS 1000
#define ASKED_PART 50
#define DEMAND_CHUNKS (200 * 1024)

static const struct hr_cover_window NO_WINDOW = {.label = HR_COVER_NO_LABEL};

static uint32_t place_of(int64_t label)
{
    int64_t rest = label % (int64_t)HR_COVER_WINDOWS;
    return (uint32_t)(rest < 0 ? rest + (int64_t)HR_COVER_WINDOWS : rest);
}

struct hr_cover_window *hr_cover_window(struct hr_cover *cover, int64_t label)
{
    struct hr_cover_window *window = &cover->windows[place_of(label)];
    return window->label == label ? window : NULL;
}

int64_t hr_cover_home(const struct hr_cover *cover, const struct hr_cover_window *window, uint32_t region)
{
    int64_t now = cover->homes[region];
    return window->epoch_done == cover->epoch ? now : hr_min(now, cover->homes_before[region]);
}

/* All units of the window that are this region's: spent ones included. */
static int64_t owned(const struct hr_cover *cover, const struct hr_cover_window *window)
{
    int64_t units = hr_cover_home(cover, window, cover->self) - window->lost;
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        const struct hr_cover_row *row = &window->rows[k];
        units += row->in + row->in_base - row->out - row->out_base;
    }
    return units;
}

int64_t hr_cover_rights(const struct hr_cover *cover, const struct hr_cover_window *window)
{
    return owned(cover, window) - window->used;
}

/* What the region must keep so that its reserve can always be spent. */
int64_t hr_cover_keep(const struct hr_cover *cover, const struct hr_cover_window *window)
{
    int64_t keep = hr_mul_div(hr_cover_home(cover, window, cover->self), cover->rule->reserve_permille, 1000);
    const struct hr_cover_when *when = &cover->when;
    if (!cover->rule->reserve_decays || when->length_ns <= 0) {
        return hr_max(0, keep - window->used);
    }
    if (window->label != when->label) {
        return keep;
    }
    return hr_mul_div(keep, hr_max(0, when->length_ns - when->age_ns), when->length_ns);
}

/* What it could give away. Negative only where it owes, after a config cut. */
int64_t hr_cover_spare(const struct hr_cover *cover, const struct hr_cover_window *window)
{
    int64_t keep = hr_cover_keep(cover, window), spare = hr_cover_rights(cover, window) - keep;
    if (spare < 0 && window->epoch_done == cover->epoch) {
        return hr_min(0, spare + keep);
    }
    return spare;
}

static void open_window(struct hr_cover *cover, int64_t label)
{
    struct hr_cover_window *window = &cover->windows[place_of(label)];
    *window = (struct hr_cover_window){.label = label, .life = cover->life, .epoch_done = cover->epoch_settled};
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        window->rows[k].demand = -1;
        window->rows[k].short_since = window->rows[k].told_at = HR_CAP_LONG_AGO;
    }
    if (label <= cover->forfeits_until) {
        window->lost = hr_max(cover->homes[cover->self], cover->homes_before[cover->self]);
    }
    if (!cover->rule->has_log || !cover->rule->has_windows) {
        window->charged = INT64_MAX;
    }
}

/* The window of a label that may still matter: not before the last, not after the next. */
static struct hr_cover_window *find_or_open(struct hr_cover *cover, int64_t label)
{
    struct hr_cover_window *window = hr_cover_window(cover, label);
    bool is_near =
        cover->rule->has_windows ? label >= cover->when.label - 1 && label <= cover->when.label + 1 : label == 0;
    if (window == NULL && is_near) {
        open_window(cover, label);
        window = hr_cover_window(cover, label);
    }
    return window;
}

/* Where charges are written ahead: as much as is spent and a chunk or two, but no more than there is. */
static void charge_ahead(const struct hr_cover *cover, struct hr_cover_window *window)
{
    int64_t chunk = hr_max(1, hr_max(cover->rule->total / CHUNKS, cover->demand / DEMAND_CHUNKS));
    uint64_t asked = cover->escrow->asked, most = (uint64_t)cover->rule->total / ASKED_PART;
    chunk = hr_max(chunk, hr_max((int64_t)cover->escrow->waiting, (int64_t)(asked < most ? asked : most)));
    if (window->charged_wanted >= window->used + chunk) {
        return;
    }
    int64_t wanted = hr_min(window->used + 2 * chunk, owned(cover, window));
    if (wanted > window->charged_wanted) {
        window->charged_wanted = wanted;
        window->is_dirty = true;
    }
}

void hr_cover_expose(struct hr_cover *cover)
{
    struct hr_cover_window *window = hr_cover_window(cover, cover->when.label);
    struct hr_escrow *escrow = cover->escrow;
    if (window == NULL || escrow->label != window->label) {
        return;
    }
    window->used = (int64_t)escrow->used;
    if (window->charged != INT64_MAX) {
        charge_ahead(cover, window);
    }
    escrow->permission = (uint64_t)hr_max(0, owned(cover, window));
    escrow->charged = (uint64_t)window->charged;
}

static void split_homes(struct hr_cover *cover, const struct hr_cover_rule *rule, int64_t *ret_homes)
{
    memset(ret_homes, 0, HR_REGIONS_MAX * sizeof ret_homes[0]);
    hr_split(rule->count, rule->weights, rule->total, cover->hash, ret_homes);
}

void hr_cover_init(struct hr_cover *cover, const struct hr_cover_begin *begin, const struct hr_cover_context *context)
{
    *cover = (struct hr_cover){
        .before = begin->before,
        .rule = begin->rule,
        .epoch = begin->epoch,
        .epoch_settled = begin->is_adopted ? begin->epoch : begin->epoch - 1,
        .self = begin->self,
        .hash = begin->hash,
        .life = begin->life,
        .forfeits_until = begin->forfeits_until,
        .escrow = begin->escrow,
        .when = begin->when,
        .demand_at = context->now,
        .moved_at = context->now,
        .ask_again_at = HR_CAP_LONG_AGO,
    };
    for (uint32_t i = 0; i < HR_COVER_WINDOWS; i++) {
        cover->windows[i] = NO_WINDOW;
    }
    split_homes(cover, begin->rule, cover->homes);
    split_homes(cover, begin->before, cover->homes_before);
    hr_cover_advance(cover, begin->when, context);
}

void hr_cover_adopt(struct hr_cover *cover, const struct hr_cover_rule *rule, uint32_t epoch,
                    const struct hr_cover_context *context)
{
    (void)context;
    cover->before = cover->rule;
    cover->rule = rule;
    cover->epoch = epoch;
    memcpy(cover->homes_before, cover->homes, sizeof cover->homes);
    split_homes(cover, rule, cover->homes);
    hr_cover_expose(cover);
}

/* Letters are counted from 1 again, and nothing that was told before is known to have arrived. A row of which nothing
 * was told is owed to nobody. */
static void follow_link(struct hr_cover_row *row, const struct hr_cap_link *link)
{
    row->is_owed |= row->letter != 0;
    row->lives = link->lives;
    row->report = row->letter = 0;
    row->has_arrived = false;
    row->told_at = HR_CAP_LONG_AGO;
}

void hr_cover_switch(struct hr_cover *cover, uint32_t region, const struct hr_cap_link *to)
{
    for (uint32_t i = 0; i < HR_COVER_WINDOWS; i++) {
        follow_link(&cover->windows[i].rows[region], to);
    }
}

void hr_cover_advance(struct hr_cover *cover, struct hr_cover_when when, const struct hr_cover_context *context)
{
    struct hr_escrow *escrow = cover->escrow;
    hr_cover_expose(cover); /* what was spent in the window that may end here */
    if (when.label >= cover->when.label) {
        cover->when = when;
    }
    if (escrow->label > cover->when.label) { /* the hot path was there already */
        cover->when.label = escrow->label;
        cover->when.age_ns = 0;
    }
    hr_escrow_enter(escrow, cover->when.label);
    (void)find_or_open(cover, cover->when.label);
    for (uint32_t i = 0; i < HR_COVER_WINDOWS; i++) {
        struct hr_cover_window *window = &cover->windows[i];
        if (window->label != HR_COVER_NO_LABEL && window->label < cover->when.label - 1) {
            *window = NO_WINDOW;
        }
        for (uint32_t k = 0; k < cover->rule->count; k++) {
            struct hr_cover_row *row = &window->rows[k];
            if (context->links[k] != NULL && row->lives != context->links[k]->lives) {
                follow_link(row, context->links[k]);
            }
        }
    }
    hr_cover_expose(cover);
}

/* Rows of a new life begin at 0. What came from the former one stays, what went to it is gone. */
static bool follow_life(struct hr_cover_row *row, uint64_t life)
{
    if (life < row->life && !HR_IS_MUTANT(HR_MUTANT_OLD_LIFE)) {
        return false;
    }
    if (life > row->life) {
        row->in_base += row->in;
        row->out_base += row->out;
        row->in = row->out = row->out_durable = row->out_writing = row->received = 0;
        row->life = life;
        row->report = 0;
        row->demand = -1;
    }
    return true;
}

/* Takes rows in, by the largest. True: units came. */
static bool take_rows(struct hr_cover_window *window, struct hr_cover_row *row, const struct hr_cover_record *record)
{
    if (record->known_life != window->life && !HR_IS_MUTANT(HR_MUTANT_OLD_LIFE)) {
        return false; /* meant for a former life of mine */
    }
    int64_t before = row->in;
    row->in = hr_max(row->in, record->out);
    if (HR_IS_MUTANT(HR_MUTANT_ADD) && record->out > 0 && record->out == before) {
        row->in++;
    }
    row->received = hr_max(row->received, hr_min(record->received, row->out_durable));
    return row->in > before;
}

static bool is_member(const struct hr_cover *cover, uint32_t k)
{
    return k != cover->self && (cover->rule->weights[k] > 0 || cover->before->weights[k] > 0);
}

/* Goes up to the new epoch once every member of either has come down in this window. */
static void settle_window(const struct hr_cover *cover, struct hr_cover_window *window)
{
    bool is_down = hr_cover_rights(cover, window) >= hr_cover_keep(cover, window);
    for (uint32_t k = 0; k < cover->rule->count && is_down; k++) {
        is_down = !is_member(cover, k) || window->rows[k].low >= cover->epoch;
    }
    window->epoch_done = is_down ? cover->epoch : window->epoch_done;
}

/* Windows that begin from now on are of the new epoch once every member has come down in all windows that it had begun
 * or prepared. In which window its clock stands plays no part: those that it begins later are of the smaller of both.
 */
static void settle_epoch(struct hr_cover *cover)
{
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        if (is_member(cover, k) && cover->low_inside[k] < cover->epoch) {
            return;
        }
    }
    cover->epoch_settled = cover->epoch;
}

static bool is_in_range(const struct hr_cover *cover, const struct hr_cover_record *record)
{
    int64_t most = (INT64_C(1) << 56);
    return record->life != 0 && record->out <= most && record->received <= most && record->spare <= most &&
           record->spare >= -most && record->label != HR_COVER_NO_LABEL && cover->rule->total <= most;
}

bool hr_cover_receive(struct hr_cover *cover, uint32_t from, const struct hr_cover_record *record, uint32_t letter,
                      const struct hr_cover_context *context)
{
    struct hr_cover_window *window = is_in_range(cover, record) ? find_or_open(cover, record->label) : NULL;
    if (window == NULL) {
        return false;
    }
    struct hr_cover_row *row = &window->rows[from];
    if (!follow_life(row, record->life)) {
        return false;
    }
    bool is_richer = take_rows(window, row, record);
    if (is_richer) {
        cover->back_off = 0;
    }
    if (letter > row->report) {
        row->report = letter;
        row->spare = record->spare;
        row->demand = record->demand;
    }
    row->is_owed |= record->asks || record->known_life != window->life;
    row->low = record->low > row->low ? record->low : row->low;
    if (record->is_down && record->low > cover->low_inside[from]) {
        cover->low_inside[from] = record->low;
    }
    settle_window(cover, window);
    settle_epoch(cover);
    hr_cover_expose(cover);
    (void)context;
    return is_richer || record->spare < record->demand / 2048;
}

bool hr_cover_next_write(struct hr_cover *cover, uint32_t place, struct hr_cover_image *ret_image)
{
    struct hr_cover_window *window = &cover->windows[place];
    if (window->label == HR_COVER_NO_LABEL || !window->is_dirty || window->is_writing || !cover->rule->has_log) {
        return false;
    }
    *ret_image = (struct hr_cover_image){
        .label = window->label,
        .life = window->life,
        .lost = window->lost,
        .charged = window->charged_wanted,
        .count = cover->rule->count,
    };
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        struct hr_cover_row *row = &window->rows[k];
        ret_image->rows[k] = (struct hr_cover_image_row){row->life, row->out, row->out_base, row->in_base};
        row->out_writing = row->out;
    }
    window->charged_writing = window->charged_wanted;
    window->is_dirty = false;
    window->is_writing = true;
    return true;
}

void hr_cover_written(struct hr_cover *cover, uint32_t place, int64_t label, bool is_durable,
                      const struct hr_cover_context *context)
{
    struct hr_cover_window *window = &cover->windows[place];
    (void)context;
    if (window->label != label || !window->is_writing) {
        return;
    }
    window->is_writing = false;
    if (!is_durable) {
        window->is_dirty = true;
        return;
    }
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        window->rows[k].out_durable = hr_max(window->rows[k].out_durable, window->rows[k].out_writing);
    }
    window->charged = hr_max(window->charged, window->charged_writing);
    hr_cover_expose(cover);
}

void hr_cover_restore(struct hr_cover *cover, const struct hr_cover_image *image,
                      const struct hr_cover_context *context)
{
    struct hr_cover_window *window = find_or_open(cover, image->label);
    (void)context;
    if (window == NULL || image->count > cover->rule->count) {
        return;
    }
    window->life = image->life;
    window->lost = image->lost;
    if (window->charged != INT64_MAX) {
        window->charged = window->charged_wanted = window->used = image->charged;
    }
    for (uint32_t k = 0; k < image->count; k++) {
        struct hr_cover_row *row = &window->rows[k];
        const struct hr_cover_image_row *saved = &image->rows[k];
        row->life = saved->life;
        row->out = row->out_durable = saved->out;
        row->out_base = saved->out_base;
        row->in_base = saved->in_base;
    }
    if (cover->escrow->label == window->label && cover->rule->has_windows) {
        cover->escrow->used = (uint64_t)window->used;
    }
    hr_cover_expose(cover);
}

/* In the current window, and in the next where units have moved there already. */
bool hr_cover_is_low(const struct hr_cover *cover)
{
    for (uint32_t i = 0; i < HR_COVER_WINDOWS; i++) {
        const struct hr_cover_window *window = &cover->windows[i];
        bool is_to_come = window->label != HR_COVER_NO_LABEL && window->label >= cover->when.label;
        if (is_to_come && hr_cover_rights(cover, window) < hr_cover_keep(cover, window)) {
            return false;
        }
    }
    return true;
}

struct hr_cover_state hr_cover_state(const struct hr_cover *cover)
{
    const struct hr_cover_window *window = &cover->windows[place_of(cover->when.label)];
    struct hr_cover_state state = {0};
    if (window->label != cover->when.label) {
        return state;
    }
    state.home = hr_cover_home(cover, window, cover->self);
    state.reserve = hr_mul_div(state.home, cover->rule->reserve_permille, 1000);
    state.used = window->used;
    state.permission = hr_max(0, owned(cover, window));
    state.lost = window->lost;
    for (uint32_t k = 0; k < cover->rule->count; k++) {
        state.given += window->rows[k].out + window->rows[k].out_base;
        state.received += window->rows[k].in + window->rows[k].in_base;
    }
    return state;
}
