#include "node/cluster_log.h"

static enum hr_log_level level_of(enum hr_swim_event_kind kind)
{
    switch (kind) {
    case HR_SWIM_JOINED:
    case HR_SWIM_RECOVERED:
    case HR_SWIM_LEFT:
        return HR_LOG_INFO;
    case HR_SWIM_SUSPECTED:
    case HR_SWIM_REFUTED:
        return HR_LOG_DEBUG;
    case HR_SWIM_DIED:
        return HR_LOG_WARN;
    case HR_SWIM_NAME_CONFLICT:
    case HR_SWIM_USURPED:
    case HR_SWIM_OUTLIVED:
    case HR_SWIM_TABLE_FULL:
        break;
    }
    return HR_LOG_ERROR;
}

static void say_event(const struct hr_log *log, const struct hr_core *core, const struct hr_swim_event *event,
                      struct hr_now now)
{
    const struct hr_members *members = hr_core_members(core);
    struct hr_span name = HR_SPAN("-"), region = HR_SPAN("-");
    if (event->member < members->count) {
        name = hr_span_of(members->all[event->member].name);
        region = hr_span_of(members->all[event->member].region);
    }
    hr_log_write(log,
                 &(struct hr_log_event){now.wall, level_of(event->kind), "member",
                                        HR_LOG_FIELDS(hr_log_text("what", hr_span_of(hr_swim_event_text(event->kind))),
                                                      hr_log_text("name", name), hr_log_text("region", region))});
}

/* What happens in every healthy cluster: a packet that was late, doubled, or on its way while a node started anew. */
static bool is_ordinary(enum hr_refusal refusal)
{
    return refusal == HR_REFUSED_NOT || refusal == HR_REFUSED_OWN || refusal == HR_REFUSED_REPLAYED ||
           refusal == HR_REFUSED_FOR_OTHER_LIFE || refusal == HR_REFUSED_OLD_LIFE;
}

static void say_refusals(struct hr_cluster_log *said, const struct hr_envelope *envelope, const struct hr_log *log,
                         struct hr_now now)
{
    for (enum hr_refusal i = 0; i < HR_REFUSALS; i++) {
        if (is_ordinary(i) || envelope->refused[i] == said->said[i] || now.steady < said->quiet_until[i]) {
            continue;
        }
        hr_log_write(log,
                     &(struct hr_log_event){now.wall, HR_LOG_WARN, "packet_refused",
                                            HR_LOG_FIELDS(hr_log_text("why", hr_span_of(hr_refusal_text(i))),
                                                          hr_log_uint("count", envelope->refused[i] - said->said[i]))});
        said->said[i] = envelope->refused[i];
        said->quiet_until[i] = now.steady + HR_CLUSTER_LOG_NS;
    }
}

static void say_stranger(struct hr_cluster_log *said, const struct hr_swim *swim, const struct hr_log *log,
                         struct hr_now now)
{
    const struct hr_swim_stranger *stranger = hr_swim_stranger(swim);
    if (stranger->count == said->strangers || now.steady < said->strangers_quiet_until) {
        return;
    }
    hr_log_write(log, &(struct hr_log_event){
                          now.wall, HR_LOG_WARN, "member_refused",
                          HR_LOG_FIELDS(hr_log_text("why", HR_SPAN("its region is not among this node's regions")),
                                        hr_log_text("name", hr_span_of(stranger->name)),
                                        hr_log_text("region", hr_span_of(stranger->region)),
                                        hr_log_uint("count", stranger->count - said->strangers))});
    said->strangers = stranger->count;
    said->strangers_quiet_until = now.steady + HR_CLUSTER_LOG_NS;
}

static void say_unanswered(struct hr_cluster_log *said, const struct hr_swim *swim, const struct hr_log *log,
                           struct hr_now now)
{
    if (said->unanswered_quiet_until == 0 || !hr_swim_is_unanswered(swim)) {
        said->unanswered_quiet_until = now.steady + HR_CLUSTER_UNANSWERED_NS;
    }
    if (now.steady < said->unanswered_quiet_until) {
        return;
    }
    hr_log_write(log, &(struct hr_log_event){
                          now.wall, HR_LOG_WARN, "unanswered",
                          HR_LOG_FIELDS(hr_log_text("what", HR_SPAN("no node of cluster.join has answered; one that "
                                                                    "refuses this node says why in its own log")))});
    said->unanswered_quiet_until = now.steady + HR_CLUSTER_LOG_NS;
}

enum hr_cluster_word hr_cluster_log_turn(struct hr_cluster_log *said, struct hr_core *core, const struct hr_log *log,
                                         struct hr_now now, uint64_t *ret_life)
{
    struct hr_swim *swim = hr_core_swim(core);
    enum hr_cluster_word word = HR_CLUSTER_FINE;
    struct hr_swim_event event;
    while (swim != NULL && hr_swim_next_event(swim, &event)) {
        say_event(log, core, &event, now);
        if (event.kind == HR_SWIM_USURPED) {
            word = HR_CLUSTER_USURPED;
        } else if (event.kind == HR_SWIM_OUTLIVED) {
            word = HR_CLUSTER_OUTLIVED;
            *ret_life = event.life;
        }
    }
    if (swim != NULL) {
        say_refusals(said, hr_core_envelope(core), log, now);
        say_stranger(said, swim, log, now);
        say_unanswered(said, swim, log, now);
    }
    return word;
}
