/* Call wire: the bytes of the letters by which nodes of a region decide together (kinds HR_LETTER_CALL to
 * HR_LETTER_SETTLED). Integers are little-endian; each body begins with its version.
 *
 *   CALL     version u8, stamp i64, ago_ns i64, then
 *            calls:   id u64, origin u64, hops u8, method u8, left_us u32, params u32 + bytes
 *   ANSWER   version u8, then answers: id u64, verdict u8, answer u32 + bytes
 *   HOLD     version u8, lead u64, serial u64, priority u64, left_us u32, verb u8, owners u8 + u64 each,
 *            counters u8 + 16 bytes each, params u32 + bytes
 *   HELD     version u8, lead u64, serial u64, result u8, code u8, delay_ms u64, rows u8 + rows
 *   SETTLE   version u8, lead u64, serial u64, verb u8
 *   SETTLED  version u8, lead u64, serial u64, outcome u8
 *
 * A decoder accepts what an encoder writes and nothing else: what it accepts encodes to the same bytes. Versions are
 * never changed in place.
 * Thread: any. Pure. Memory: spans are borrowed from the body. */
#ifndef HR_REGION_CALL_WIRE_H
#define HR_REGION_CALL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/units.h"
#include "limiter/limit.h"
#include "rpc/fault.h"
#include "rpc/method.h"
#include "storage/le.h"

#define HR_CALL_WIRE_VERSION 2U /* of calls and answers */
#define HR_HOLD_WIRE_VERSION 1U /* of the others */

/* Params of one request on its way: 32 attributes at their longest have room. */
#define HR_CALL_PARAMS_BYTES_MAX 40960U
#define HR_CALL_ANSWER_BYTES_MAX 49152U

/* A request is sent on at most so often. */
#define HR_CALL_HOPS_MAX 2U

/* Nothing waits longer than this for another node. */
#define HR_CALL_LEFT_US_MAX 10000000U

/* Owners of the counters of one request. */
#define HR_HOLD_OWNERS_MAX 32U

/* How old the calls of a letter are, in terms of the receiver's clock: that showed `stamp` at least `ago_ns`, by the
 * sender's, before the letter was written. */
struct hr_wire_age {
    hr_ns stamp, ago_ns;
};

struct hr_wire_call {
    uint64_t id;     /* the origin's, never used twice in its life */
    uint64_t origin; /* member who waits for the answer */
    uint8_t hops;    /* how often it was sent, 1 or more */
    enum hr_method method;
    uint32_t left_us; /* until its deadline, when the letter was written */
    struct hr_span params;
};

/* On the wire: never renumbered. */
enum hr_call_verdict {
    HR_VERDICT_RESULT = 0,  /* bytes are MessagePack */
    HR_VERDICT_FAULT = 1,   /* ... are the text `CODE: message` */
    HR_VERDICT_NOT_NOW = 2, /* none: nothing was done, nor will be for this call; whoever waits may ask again */
};

struct hr_wire_answer {
    uint64_t id;
    enum hr_call_verdict verdict;
    struct hr_span bytes;
};

/* Names one attempt to hold counters at several owners. */
struct hr_hold_key {
    uint64_t lead; /* member who leads it */
    uint64_t serial;
};

/* On the wire: never renumbered. */
enum hr_hold_verb { HR_HOLD_TAKE = 0, HR_HOLD_PEEK = 1, HR_HOLD_REFUND = 2 };

struct hr_wire_hold {
    struct hr_hold_key key;
    uint64_t priority; /* the lower goes first; ties go by lead */
    uint32_t left_us;
    enum hr_hold_verb verb;
    uint32_t owner_count, counter_count;
    uint64_t owners[HR_HOLD_OWNERS_MAX];      /* all of them, members */
    struct hr_id128 counters[HR_TOUCHED_MAX]; /* asked of this one */
    struct hr_span params;
};

/* On the wire: never renumbered. */
enum hr_held_result {
    HR_HELD_YES = 0,    /* all fit, and were taken; of a peek: would fit */
    HR_HELD_NO = 1,     /* denied */
    HR_HELD_RETRY = 2,  /* another's hold is in the way, and this one must not wait: give back and try again */
    HR_HELD_BUSY = 3,   /* another's hold was in the way for too long */
    HR_HELD_MOVED = 4,  /* not, or not all, counters of this owner */
    HR_HELD_FAULT = 5,  /* could not be carried out: code */
    HR_HELD_GIVEN = 6,  /* refund: something was given back */
    HR_HELD_NOTHING = 7 /* refund: there was nothing to give back */
};

/* One counter's numbers, before the decision and after the take. */
struct hr_held_row {
    struct hr_id128 counter, lease;
    bool allowed, has_lease, wants_share;
    uint64_t remaining_before, remaining_after;
    int64_t retry_after_ms, reset_before_ms, reset_after_ms;
};

struct hr_wire_held {
    struct hr_hold_key key;
    enum hr_held_result result;
    enum hr_code code; /* of HR_HELD_FAULT, else 0 */
    int64_t delay_ms;
    uint32_t row_count;
    struct hr_held_row rows[HR_TOUCHED_MAX];
};

/* On the wire: never renumbered. */
enum hr_settle_verb { HR_SETTLE_COMMIT = 0, HR_SETTLE_GIVE_BACK = 1, HR_SETTLE_ASK = 2 };
enum hr_settled_outcome {
    HR_SETTLED_UNKNOWN = 0, /* never heard of it, or forgotten since */
    HR_SETTLED_OPEN = 1,    /* taken, and neither committed nor given back */
    HR_SETTLED_COMMITTED = 2,
    HR_SETTLED_GIVEN_BACK = 3
};

struct hr_wire_settle {
    struct hr_hold_key key;
    enum hr_settle_verb verb;
};

struct hr_wire_settled {
    struct hr_hold_key key;
    enum hr_settled_outcome outcome;
};

/* The largest HOLD, HELD and SETTLE. */
#define HR_HOLD_BYTES_MAX (64U + 8U * HR_HOLD_OWNERS_MAX + 16U * HR_TOUCHED_MAX + HR_CALL_PARAMS_BYTES_MAX)
#define HR_HELD_BYTES_MAX (64U + 80U * HR_TOUCHED_MAX)
#define HR_SETTLE_BYTES 18U

/* What one call or answer adds to a letter, besides its params or answer. */
#define HR_CALL_HEAD_BYTES 26U
#define HR_ANSWER_HEAD_BYTES 13U

/* Writers fail (storage/le.h) where there is no room. A letter of calls begins with hr_wire_begin_calls, one of answers
 * with hr_wire_begin. */
void hr_wire_begin(struct hr_le_writer *out);
void hr_wire_begin_calls(struct hr_le_writer *out, struct hr_wire_age age);
void hr_wire_put_call(struct hr_le_writer *out, const struct hr_wire_call *call);
void hr_wire_put_answer(struct hr_le_writer *out, const struct hr_wire_answer *answer);
void hr_wire_put_hold(struct hr_le_writer *out, const struct hr_wire_hold *hold);
void hr_wire_put_held(struct hr_le_writer *out, const struct hr_wire_held *held);
void hr_wire_put_settle(struct hr_le_writer *out, const struct hr_wire_settle *settle);
void hr_wire_put_settled(struct hr_le_writer *out, const struct hr_wire_settled *settled);

/* HR_E_INVALID: another version. HR_E_TRUNCATED: it ends early. HR_E_CORRUPT: a value out of bounds, or bytes left
 * over. get_call and get_answer are called until the reader is at its end (hr_le_is_at_end), after hr_wire_open_calls
 * and hr_wire_open. */
HR_MUST enum hr_err hr_wire_open(struct hr_span body, struct hr_le_reader *ret_in);
HR_MUST enum hr_err hr_wire_open_calls(struct hr_span body, struct hr_le_reader *ret_in, struct hr_wire_age *ret_age);
HR_MUST enum hr_err hr_wire_get_call(struct hr_le_reader *in, struct hr_wire_call *ret_call);
HR_MUST enum hr_err hr_wire_get_answer(struct hr_le_reader *in, struct hr_wire_answer *ret_answer);
HR_MUST enum hr_err hr_wire_get_hold(struct hr_span body, struct hr_wire_hold *ret_hold);
HR_MUST enum hr_err hr_wire_get_held(struct hr_span body, struct hr_wire_held *ret_held);
HR_MUST enum hr_err hr_wire_get_settle(struct hr_span body, struct hr_wire_settle *ret_settle);
HR_MUST enum hr_err hr_wire_get_settled(struct hr_span body, struct hr_wire_settled *ret_settled);

#endif
